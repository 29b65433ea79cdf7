"""Prompt templates, a file per style and dataset, and how they are filled in."""
