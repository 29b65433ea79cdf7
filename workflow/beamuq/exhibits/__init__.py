"""Each table and figure of the paper, one module, by the paper's label: what it needs and how it is drawn."""
