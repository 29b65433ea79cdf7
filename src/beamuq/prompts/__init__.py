"""Prompt templates, one file per style and dataset, and how to fill them in."""
