"""What a study runs: its grid, where every file lies, and one typed job a rule."""
