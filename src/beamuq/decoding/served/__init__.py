"""Decoding over a model server, which lists next tokens with their log-probabilities."""
