"""The paper's printed numbers and claims, held against a run."""
