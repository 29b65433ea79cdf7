"""Each table and figure by the paper's label or our own: what it needs and how it is drawn."""
