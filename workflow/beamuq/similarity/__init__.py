"""How much one answer means another: pairs of texts in, probabilities out."""
