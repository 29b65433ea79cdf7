"""Draws series, curves and differences on matplotlib's axes, for users and for a study alike."""
