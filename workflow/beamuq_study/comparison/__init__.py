"""The comparison of a study with the printed numbers and claims of the paper."""
