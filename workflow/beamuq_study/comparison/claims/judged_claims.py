"""What a study's own cells say to each claim, as a table."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from beamuq_study import grid
from beamuq_study.comparison import comparison_inputs
from beamuq_study.comparison.claims.asked_claims import ModelAsked, models_asked
from beamuq_study.comparison.claims.case import Case, NotAskedError
from beamuq_study.comparison.claims.judges import JUDGES
from beamuq_study.comparison.comparison_inputs import Claim, ComparisonInputs, read_claims
from beamuq_study.exhibits.exhibit import CANDIDATES
from beamuq_study.grid import Cell

COLUMNS = [
    "id",
    "where",
    "claim",
    "model",
    "datasets",
    "outcome",
    "value",
    "low",
    "high",
    "n",
    "detectable",
    "found",
    "paper_settings",
]


def judge_claims(results: ComparisonInputs) -> pd.DataFrame:
    """One row a claim and model, ``COLUMNS``: what a study's cells say, whatever their settings."""
    rows = []
    for claim in read_claims():
        for asked_of in models_asked(results.study, results.rules, claim):
            place = {
                "model": asked_of.model,
                "datasets": ", ".join(cell.dataset for cell in asked_of.cells),
            }
            rows.append(vars(claim) | place | _judged(results, claim, asked_of))
    return pd.DataFrame(rows, columns=COLUMNS).astype({"n": "Int64"})


def _judged(results: ComparisonInputs, claim: Claim, asked_of: ModelAsked) -> dict[str, Any]:
    """The verdict on a claim as a row, or why there is none."""
    why_not = {"outcome": "not asked", "found": asked_of.why_not, "paper_settings": ""}
    if asked_of.why_not:
        return why_not
    case = Case(results, asked_of.cells)
    judge = JUDGES[claim.judge]
    try:
        verdict = judge.function(case, **claim.settings)
    except NotAskedError as error:
        return why_not | {"outcome": error.outcome, "found": str(error)}
    is_another_model = claim.sized and asked_of.model not in claim.models
    return {
        "outcome": "another model" if is_another_model else verdict.outcome,
        "value": verdict.value,
        "low": verdict.low,
        "high": verdict.high,
        "n": verdict.n,
        "detectable": case.detectable(verdict),
        "found": "; ".join(case.notes),
        "paper_settings": _paper_settings(results, claim, asked_of.cells, judge.reads),
    }


def _paper_settings(
    results: ComparisonInputs, claim: Claim, cells: Sequence[Cell], reads: Collection[str]
) -> str:
    """ "yes", or the first setting that is not the paper's; "" where no run is looked at.

    The number of questions is among the settings.
    """
    metric = claim.settings.get("metric", "PRR")
    kinds = {"candidates"} if reads == CANDIDATES else {"scores", "any method", metric}
    for cell in cells:
        how = comparison_inputs.first(results.differences(cell), kinds, results.rules)
        too_few = _too_few_questions(results, claim, cell)
        if how or too_few:
            return how or too_few
    return "yes" if cells else ""


def _too_few_questions(results: ComparisonInputs, claim: Claim, cell: Cell) -> str:
    """Why a cell's questions cannot stand for those of the claim, else nothing."""
    n = grid.questions_asked(results.study, cell)
    paper = results.rules.paper.datasets.get(cell.dataset)
    of_dataset = n if paper is None else paper.questions
    return results.rules.too_few(n, cell.dataset, claim.questions or of_dataset)
