"""Claims about the mean of several draws of samples, judged on results made up in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from beamuq.evaluation.estimates import Estimates
from beamuq_study.comparison.claims import claims_of_draws
from beamuq_study.comparison.claims.case import Case, NotAskedError
from beamuq_study.comparison.claims.judges import JUDGES
from beamuq_study.comparison.claims.verdict import Verdict
from beamuq_study.grid import Cell
from beamuq_study.study_config import Study
from simulated_paper_run import study
from test_comparison_claims import BEAM, SAMPLES, Form, in_memory, measured

BASE = "llama-3.1-8b-base"
TUNED = "gemma-3-4b-base"
FIRST = Cell(TUNED, "coqa", "main", "nli")
SECOND = Cell(TUNED, "triviaqa", "main", "nli")
OF_BASE = Cell(BASE, "coqa", "main", "nli")
D = "Dissimilarity"
E = "Eccentricity"


def with_draws(count: int = 2) -> Study:
    """The paper's study with so many draws of ten samples, each of them scored."""
    content = study().model_dump(mode="json")
    content["recipes"]["main"]["sample"]["size"] = 10 * count
    content["scoring"]["main"]["every_draw"] = True
    return Study.model_validate(content)


def of_draws(beams: float, *samples: float, method: str = D) -> dict[Form, float]:
    """PRR of beams, and of each draw of samples; the first one is the main line's too."""
    values = {(method, BEAM, ""): beams, (method, SAMPLES, ""): samples[0]}
    for draw, value in enumerate(samples, start=1):
        values[method, SAMPLES, f"sample T=1.0 M=10 draw={draw}"] = value
    return values


def cell(place: Cell, values: Mapping[Form, float], spread: float = 0.01) -> Estimates:
    return measured(place, values, spread).assign(quality="exact_match")


def judged(*parts: Estimates, cells: tuple[Cell, ...] = (FIRST,), **settings: Any) -> Verdict:
    chosen: dict[str, Any] = {"methods": [D], "quality": "exact_match"}
    case = Case(in_memory(*parts, of=with_draws()), cells)
    return claims_of_draws.beams_ahead_of_draws(case, **chosen | settings)


@pytest.mark.parametrize(("beams", "outcome"), [(0.55, "yes"), (0.45, "undecided"), (0.33, "no")])
def test_beams_are_judged_against_the_mean_of_draws_not_the_first(
    beams: float, outcome: str
) -> None:
    verdict = judged(cell(FIRST, of_draws(beams, 0.30, 0.58)))
    assert verdict.outcome == outcome
    assert verdict.value == pytest.approx(beams - 0.44)


def test_the_gains_of_several_methods_are_averaged() -> None:
    values = of_draws(0.50, 0.40, 0.42) | of_draws(0.45, 0.40, 0.46, method=E)
    verdict = judged(cell(FIRST, values), methods=[D, E])
    assert verdict.value == pytest.approx((0.09 + 0.02) / 2)


def test_datasets_are_averaged_and_their_questions_added() -> None:
    parts = [cell(FIRST, of_draws(0.5, 0.4, 0.4)), cell(SECOND, of_draws(0.5, 0.3, 0.3))]
    verdict = judged(*parts, cells=(FIRST, SECOND))
    assert verdict.value == pytest.approx(0.15)
    assert verdict.n == 120


def test_the_gain_of_another_model_on_the_same_questions_is_subtracted() -> None:
    parts = [cell(FIRST, of_draws(0.5, 0.4, 0.4)), cell(OF_BASE, of_draws(0.5, 0.47, 0.49))]
    assert judged(*parts, less=BASE).value == pytest.approx(0.08)


def test_more_claims_asked_together_need_a_smaller_p() -> None:
    spread = 0.011
    parts = [cell(FIRST, of_draws(0.44, 0.4, 0.4), spread)]
    assert judged(*parts).outcome == "yes"
    assert judged(*parts, families=40).outcome == "undecided"
    assert judged(*parts, families=40).families == 40


def test_a_quality_that_was_not_measured_is_not_asked_about() -> None:
    with pytest.raises(NotAskedError):
        judged(cell(FIRST, of_draws(0.5, 0.4, 0.4)), quality="gold_label")


def test_only_cells_whose_every_draw_is_scored_are_asked() -> None:
    cells = JUDGES["beams_ahead_of_draws"].cells
    asked = cells(with_draws(), methods=[D], quality="exact_match")
    assert FIRST in asked
    assert OF_BASE in asked
    assert OF_BASE not in cells(with_draws(), methods=[D], quality="exact_match", less=BASE)
    tuned_alone = cells(with_draws(), methods=[D], quality="exact_match", untuned=BASE)
    assert FIRST in tuned_alone
    assert OF_BASE not in tuned_alone
    assert cells(with_draws(), methods=[D], quality="exact_match", less="absent") == []
    assert cells(with_draws(), methods=["made:up"], quality="exact_match") == []
    assert cells(study(), methods=[D], quality="exact_match") == []
    assert cells(with_draws(1), methods=[D], quality="exact_match") == []


def test_a_method_ahead_is_asked_where_draws_are_scored() -> None:
    settings: dict[str, Any] = {"better": [D, BEAM], "worse": ["Perplexity", ""]}
    assert JUDGES["method_ahead_where_drawn"].cells(study(), **settings) == []
    assert FIRST in JUDGES["method_ahead_where_drawn"].cells(with_draws(), **settings)
    values = {(D, BEAM, ""): 0.5, ("Perplexity", "", ""): 0.4}
    case = Case(in_memory(cell(FIRST, values), of=with_draws()), [FIRST])
    verdict = claims_of_draws.method_ahead_where_drawn(case, **settings, qualities=["exact_match"])
    assert verdict.outcome == "yes"
    assert np.isclose(verdict.value, 0.1)
