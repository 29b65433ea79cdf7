"""How well a score ranks answers: PRR, ROC-AUC, PR-AUC, and how sure we are of it."""
