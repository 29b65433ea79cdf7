"""Claims of the paper and of our own: the functions that judge them, a module a subject.

Importing the package lists all of them among the :data:`.judges.JUDGES`.
"""

from __future__ import annotations

from beamuq_study.comparison.claims import (
    claims_of_ablations,
    claims_of_beams_map,
    claims_of_budgets,
    claims_of_candidates,
    claims_of_draws,
    claims_of_errors,
    claims_of_estimators,
    claims_of_methods,
)

__all__ = [
    "claims_of_ablations",
    "claims_of_beams_map",
    "claims_of_budgets",
    "claims_of_candidates",
    "claims_of_draws",
    "claims_of_errors",
    "claims_of_estimators",
    "claims_of_methods",
]
