"""The comparison of a study with the paper's numbers and claims."""
