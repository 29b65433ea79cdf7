"""Measure how well a score ranks answers (PRR, ROC-AUC, PR-AUC), with intervals and tests."""
