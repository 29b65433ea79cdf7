"""One HTML file in which a reader goes through the questions of a study, a cell or a file of candidates."""
