"""How right a produced answer is, in [0, 1]."""
