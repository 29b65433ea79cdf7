"""Where a study's main cells are on the map of when beams win, and where it does not apply."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beamuq.array_types import Floats
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.known_distribution import claims_more_than_held
from beamuq_study import grid
from beamuq_study.exhibits.exhibit import CANDIDATES, Exhibit, Row, Table
from beamuq_study.exhibits.figure_of_beams_map import coordinates_of
from beamuq_study.exhibits.table_of_numbers import Column, table
from beamuq_study.grid import Cell
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

TITLES = {"mass": "Covered mass", "held": "Right answer among the beams", "kappa": "κ"}
UNKNOWN = "κ: too few questions have a right and a wrong answer among those found"


def places(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a cell: what its beams cover, in how many questions a right one is among them, and κ.

    The caption names the cells where the map does not apply, by the rule of ``advise``.
    """
    by_cell = {cell: coordinates_of(study, inputs, cell) for cell in chosen}
    body = [Row((cell.title(study),), cell.place) for cell in chosen]
    columns = [
        Column({"metric": name}, (title,), beside="interval", digits=2)
        for name, title in TITLES.items()
    ]
    confidence = study.evaluation.confidence
    beside = [
        cell.title(study)
        for cell, coordinates in by_cell.items()
        if _is_beside_map(coordinates, confidence)
    ]
    facts = {"beside": "; ".join(beside) or "none"}
    n_by_cell = {cell: len(inputs.candidates(cell).ids) for cell in chosen}
    estimates = joined([_estimates(cell, by_cell[cell], n_by_cell[cell]) for cell in chosen])
    return table(study, estimates, ("Cell",), body, columns, facts=facts)


def _is_beside_map(coordinates: dict[str, Floats], confidence: float) -> bool:
    """Whether the map does not apply to a cell with these coordinates."""
    tail = (1 - confidence) / 2
    mass_low = float(np.quantile(coordinates["mass"][1:], tail))
    held_high = float(np.quantile(coordinates["held"][1:], 1 - tail))
    return claims_more_than_held(mass_low, held_high)


def _estimates(cell: Cell, coordinates: dict[str, Floats], n: int) -> Estimates:
    """The coordinates of a cell on the map, each an estimate of n questions."""
    rows = []
    for name in TITLES:
        value = float(coordinates[name][0])
        note = UNKNOWN if np.isnan(value) else ""
        rows.append({**cell.place, "metric": name, "value": value, "n": n, "note": note})
    return Estimates.from_rows(rows, [coordinates[name][1:] for name in TITLES])


def exhibits(_: Study) -> list[Exhibit]:
    return [
        Exhibit(
            "places",
            "table",
            cells=grid.main_cells,
            reads=CANDIDATES,
            build=places,
            beyond_paper=True,
            quality=False,
        )
    ]
