"""Make one HTML file to browse the questions of a study, a cell or a file of candidates."""
