"""How far PRR is a matter of which samples were drawn: disjoint draws of M from one pool, beside beams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from beamuq import strategy_names
from beamuq.errors import BeamUQError
from beamuq.exhibits import captions, exact_value, exhibit_cells, number_format
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import (
    BuiltTable,
    TableCell,
    TableExhibit,
    TableGrid,
    TableHeading,
    TableRow,
)
from beamuq.exhibits.read_evaluation import Key, Measured, difference, read_measurements
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

METHOD, UNIFORM = "Dissimilarity", "uniform"
HEADS = {
    "first": "First draw",
    "mean": "Mean",
    "sd": "SD",
    "lowest": "Range",
    "highest": "Range",
    "beams": "Beams",
    "beams - mean": "Beams − mean",
    "beaten": "Below beams",
}
Cell = tuple[str, str, str]  # recipe, model, dataset


@dataclass(frozen=True)
class DrawSpread(TableExhibit):
    """PRR of each disjoint draw of M samples in every cell with a pool of them: mean, spread, range, and beams."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Evaluation and replicates of every cell whose draws are scored."""
        return [file for cell in _cells(study) for file in _files(study, cell)]

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A row a cell."""
        cells, M = _cells(study), study.main.num_candidates
        body: list[TableRow | TableHeading] = []
        values: list[dict[str, Any]] = []
        numbers = set()
        for cell in cells:
            recipe, model, dataset = cell
            (measured,) = read_measurements(study, inputs, _files(study, cell)).values()
            count = _draws(study, recipe)
            numbers.add(count)
            keys = [
                Key("PRR", METHOD, UNIFORM, strategy_names.samples_of(study.main.sample, M, k + 1))
                for k in range(count)
            ]
            draws = [measured[key] for key in keys]
            beams = measured[Key("PRR", METHOD, captions.BEAMSEARCH)]
            found = spread_of_draws(draws, beams, study.evaluation.confidence)
            place = {"model": model, "dataset": dataset, "metric": "PRR", "method": METHOD}
            named = {f"{key.setting} {recipe}": draw for key, draw in zip(keys, draws, strict=True)}
            named |= {f"{name} {recipe}": of for name, of in found.items()}
            values += [place | {"setting": setting} | of.numbers for setting, of in named.items()]
            heading = TableHeading(study.models[model].title)
            body += [] if heading in body else [heading]
            titles = (study.datasets[dataset].title, recipe, str(beams.n))
            body.append(TableRow(titles, tuple(_printed(found, count))))
        datasets = list(dict.fromkeys(dataset for _, _, dataset in cells))
        title = f"PRR of {METHOD} by which {M} samples were drawn"
        sentences = [
            f"{title}; print has no such table. PRR (higher is better) of "
            f"{captions.listing([str(count) for count in sorted(numbers)])} disjoint draws of {M} samples each "
            f"from one pool, and of a beam search of width {M} on the same questions. The main tables have one "
            "draw; the mean is what to expect of one, SD and range are what luck of the draw does to it, on the "
            "same questions.",
            f"Beams − mean: paired, in brackets its {captions.confidence(study)} interval over questions.",
            f"Intervals are percentiles of {captions.resampled(study, datasets)}. Below beams: "
            "draws of a lower PRR. n: questions.",
        ]
        grid = TableGrid(("Dataset", "Recipe", "n"), (tuple(dict.fromkeys(HEADS.values())),), tuple(body))
        return self.table(study, title, sentences, values, grid)


def spread_of_draws(draws: Sequence[Measured], beams: Measured, confidence: float) -> dict[str, Measured]:
    """By the keys of ``HEADS``; "sd": over draws, with n − 1; "beaten": how many draws are strictly below beams."""
    n = beams.n
    mean = exact_value.mean_of_draws(draws, confidence)
    if mean.value is None or beams.value is None:
        return dict.fromkeys(HEADS, mean if mean.value is None else replace(beams, value=None)) | {"beams": beams}
    values = np.array([draw.value for draw in draws], dtype=np.float64)
    below = sum(number_format.better(beams.value, float(value)) for value in values)
    numbers = {"sd": values.std(ddof=1), "lowest": values.min(), "highest": values.max(), "beaten": below}
    found = {"first": draws[0], "mean": mean, "beams": beams, "beams - mean": difference(beams, mean, confidence)}
    found |= {name: Measured(float(value), None, None, None, n) for name, value in numbers.items()}
    return {name: found[name] for name in HEADS}


def _printed(found: Mapping[str, Measured], count: int) -> list[TableCell]:
    cells = []
    for name, of in found.items():
        if name == "highest":  # stands with the lowest
            continue
        if of.value is None:
            cell = number_format.undefined(of.note)
        elif name == "beaten":
            cell = TableCell(f"{of.value:.0f} of {count}")
        elif name == "lowest":
            cell = TableCell(
                " to ".join(number_format.decimal(found[end].value or 0.0) for end in ("lowest", "highest"))
            )
        elif name == "beams - mean":
            cell = number_format.difference(of.value, of.low, of.high, of.note)
        else:
            cell = TableCell(number_format.decimal(of.value), note=of.note)
        cells.append(number_format.with_interval(cell, of.low, of.high))
    return cells


def _draws(study: Study, recipe: str) -> int:
    """How many disjoint draws of the main M there are of a recipe's samples that are scored; 0: not two."""
    of, M = study.recipes[recipe], study.main.num_candidates
    scored = f"{UNIFORM} sample" in study.scoring[recipe].estimators and study.main.sample in of.samples()
    return of.sample.size // M if scored and of.sample and of.sample.size >= 2 * M else 0


def _cells(study: Study) -> list[Cell]:
    main = study.main
    found = [
        (entry.recipe, model, dataset)
        for entry in study.grid
        if _draws(study, entry.recipe) and study.recipes[entry.recipe].decoded(main.beam)
        for model in entry.models
        for dataset in entry.datasets
        if exhibit_cells.covers(study, entry.recipe, model, dataset, main.scorer)
    ]
    if not found:
        raise BeamUQError(
            f"needs a recipe of the grid with {main.beam!r}, at least {2 * main.num_candidates} samples and, among its "
            f"scoring's estimators, '{UNIFORM} sample', under scorer {main.scorer!r}; add one or drop the exhibit"
        )
    return sorted(found, key=lambda cell: list(study.models).index(cell[1]))


def _files(study: Study, cell: Cell) -> list[Artifact]:
    recipe, *place = cell
    return exhibit_cells.evaluation_artifacts([(place[0], place[1])], recipe, study.main.scorer)
