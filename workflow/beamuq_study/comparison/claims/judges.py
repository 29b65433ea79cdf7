"""The functions that judge claims, by name, each with the cells and the files that it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from beamuq_study import grid
from beamuq_study.comparison.claims.case import Case, TooFewError
from beamuq_study.comparison.claims.verdict import Verdict, combined_verdict
from beamuq_study.grid import Cell
from beamuq_study.study_config import Study

Settings = ParamSpec("Settings")


@dataclass(frozen=True)
class Judge:
    """A function that judges claims, and what it needs."""

    function: Callable[..., Verdict]  # of a case, and the claim's settings
    cells: Callable[..., list[Cell]]  # that have what it needs: of a study, and the settings
    reads: tuple[str, ...]  # kinds of files beside evaluations


JUDGES: dict[str, Judge] = {}
"""By the name that ``claims.yaml`` calls them."""


def judge(
    *, cells: Callable[..., list[Cell]], reads: tuple[str, ...] = ()
) -> Callable[[Callable[Settings, Verdict]], Callable[Settings, Verdict]]:
    """Lists a function among the ``JUDGES``: it judges a case of these ``cells``, and ``reads``."""

    def listed(function: Callable[Settings, Verdict]) -> Callable[Settings, Verdict]:
        JUDGES[function.__name__] = Judge(function, cells, reads)
        return function

    return listed


def per_dataset(
    function: Callable[Concatenate[Case, Settings], Verdict],
) -> Callable[Concatenate[Case, Settings], Verdict]:
    """Judges each of several cells on its own; those with too few questions are left out.

    Raises TooFewError if none has enough.
    """

    @wraps(function)
    def judged(case: Case, /, *args: Settings.args, **settings: Settings.kwargs) -> Verdict:
        verdicts = list[Verdict]()
        too_few = TooFewError("no dataset")
        for cell in case.cells:
            try:
                verdicts.append(function(case.with_cells(cell), *args, **settings))
            except TooFewError as error:
                too_few = error
                case.notes.append(f"without {cell.dataset}: {error}")
        if not verdicts:
            raise too_few
        return combined_verdict(verdicts)

    return judged


def main_recipe_cells(study: Study, **_: Any) -> list[Cell]:
    """The cells of the main recipe under the main scorer, whatever a claim's settings."""
    return grid.recipe_cells(study, study.main.recipe)
