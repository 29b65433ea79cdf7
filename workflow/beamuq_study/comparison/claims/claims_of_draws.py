"""Claims of our own about what beams gain over samples in the mean of several draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from beamuq.evaluation.estimates import KEYS, Estimates
from beamuq_study import grid
from beamuq_study.comparison.claims.case import Case, measured_at, question_count
from beamuq_study.comparison.claims.claims_of_methods import Form, method_ahead
from beamuq_study.comparison.claims.judges import judge
from beamuq_study.comparison.claims.verdict import Verdict
from beamuq_study.exhibits.method_groups import OVER_BEAMS, OVER_SAMPLES
from beamuq_study.exhibits.numbers_of_cells import gains_over_draws
from beamuq_study.grid import Cell
from beamuq_study.study_config import Study


def _with_every_draw(
    study: Study,
    methods: Sequence[str],
    scorer: str = "",
    less: str = "",
    untuned: str = "",
    **_: Any,
) -> list[Cell]:
    """The main cells where these methods are scored on every draw; ``less``, ``untuned``: not of
    those models.
    """
    recipe = study.main.recipe
    scoring = study.scoring[recipe]
    has_draws = scoring.every_draw and grid.draws(study, recipe) > 1
    has_base = not less or less in grid.models(study, recipe)
    if not has_draws or not has_base or not set(methods) <= set(scoring.methods):
        return []
    cells = grid.recipe_cells(study, recipe, scorer)
    return [cell for cell in cells if cell.model not in (less, untuned)]


@judge(cells=_with_every_draw)
def beams_ahead_of_draws(
    case: Case,
    methods: Sequence[str],
    quality: str,
    families: int = 1,
    scorer: str = "",  # noqa: ARG001  (chooses the cells)
    less: str = "",
    untuned: str = "",  # noqa: ARG001  (chooses the cells)
) -> Verdict:
    """Whether beams rank better than samples, whose PRR is the mean over disjoint draws.

    ``methods``: the mean of their gains counts. ``quality``: what judges the answers. ``families``:
    how many such claims are asked together, for Holm's correction. ``scorer``: "" is the main one.
    ``less``: a model whose gain on the same questions is subtracted. ``untuned``: a model that the
    claim is not about, as it speaks of tuned ones.

    Yes: the gain, the mean over datasets and methods, is above 0, and p times ``families`` is below
    ``level``.

    No: it is below 0 with such a p.

    Value: the gain, with ``less`` minus that model's.
    """
    case = case.answered()
    gains = _gains_over_draws(case, methods, quality)
    if less:
        of_base = [Cell(less, cell.dataset, cell.recipe, cell.scorer) for cell in case.cells]
        base_gains = _gains_over_draws(case.with_cells(*of_base), methods, quality)
        gains = gains.minus(base_gains, on=set(KEYS) - {"model"})
    means = gains.mean_over_datasets()
    return case.rise(means, question_count(gains), families=families)


def _gains_over_draws(case: Case, methods: Sequence[str], quality: str) -> Estimates:
    """In each cell beams minus the mean over draws of samples, the mean over methods."""
    study = case.results.study
    draws = grid.settings_of_draws(study, study.main.recipe)
    prr = case.estimates("greedy", quality, metric="PRR", method=methods, setting=["", *draws])
    places = [cell.place | {"method": method} for cell in case.cells for method in methods]
    of_beams = pd.DataFrame(places).assign(variant=OVER_BEAMS, setting="")
    of_draws = [
        pd.DataFrame(places).assign(variant=OVER_SAMPLES, setting=setting) for setting in draws
    ]
    of_forms = measured_at(prr, pd.concat([of_beams, *of_draws]))
    return gains_over_draws(of_forms, draws).mean_over_methods(" + ".join(methods))


def _with_both(study: Study, better: Form, worse: Form, **_: Any) -> list[Cell]:
    return _with_every_draw(study, [better[0], worse[0]])


@judge(cells=_with_both)
def method_ahead_where_drawn(
    case: Case, better: Form, worse: Form, qualities: Sequence[str]
) -> Verdict:
    """As :func:`method_ahead`, asked of studies alone whose samples are of several draws.

    Yes: every difference is above 0, significantly at ``level`` after Holm over the qualities.

    No: half of them are above 0, or fewer, and one is significantly below.

    Value: the mean of the differences.
    """
    return method_ahead(case, better, worse, qualities)
