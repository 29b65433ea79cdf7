"""What each stage does with the tables of a cell: from a recipe to candidates, scores and their
evaluation.
"""
