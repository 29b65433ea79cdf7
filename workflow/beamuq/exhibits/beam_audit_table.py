"""How often, and by how much, a beam search of width M finds other outcomes than the M most probable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq import strategy_names
from beamuq.errors import BeamUQError
from beamuq.evaluation import intervals
from beamuq.exhibits import captions, exact_value, exhibit_cells, number_format
from beamuq.exhibits.exhibit_inputs import Inputs, distinct
from beamuq.exhibits.exhibit_types import (
    BuiltTable,
    TableBody,
    TableCell,
    TableExhibit,
    TableGrid,
    TableRow,
    block,
)
from beamuq.exhibits.redundancy_and_covered_mass import CandidateMeasures, LengthBin, equal_bins, with_all
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

Floats = NDArray[np.float64]
SAME = 1e-6  # of log p: outcomes so close are ties, and rounding between batches
BINS = 5
HEADS = ("n", "Proven", "Differ", "Missed", "Most", "Mass missed", "exact", "beams", "exact", "beams")
LEVELS = (("",) * 2 + ("Beams against the exact top M",) * 4 + ("Rows, mean",) * 2 + ("Rows, median",) * 2, HEADS)


@dataclass(frozen=True)
class Audit:
    """Of each question [N]: whether the exact M are proven; how many of them beams of width M lack; mass; rows."""

    proven: NDArray[np.bool_]
    missed: Floats
    mass: Floats
    exact_rows: Floats
    beam_rows: Floats


@dataclass(frozen=True)
class Line:
    """A row of the table: shares and means over the proven ones of ``n`` questions; rows over all."""

    n: int
    proven: int
    differ: float | None = None
    low: float | None = None
    high: float | None = None
    missed: float | None = None
    most: float | None = None
    mass: float | None = None
    exact_rows: float | None = None
    beam_rows: float | None = None
    median_exact_rows: float | None = None
    median_beam_rows: float | None = None


@dataclass(frozen=True)
class BeamAuditTable(TableExhibit):
    """Beams of width M held against the proven M most probable outcomes, by length of the greedy answer."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Candidates and questions of every cell with both searches of some M."""
        recipe, cells, _ = _cells(study)
        return distinct(
            [
                file
                for model, dataset in cells
                for file in (Artifact("candidates", dataset, model, recipe), Artifact("questions", dataset))
            ]
        )

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A block a cell: every M over all questions, and the main M (else the largest) by length."""
        recipe, cells, widths = _cells(study)
        by_length = study.main.num_candidates if study.main.num_candidates in widths else max(widths)
        body: TableBody = []
        values: list[dict[str, Any]] = []
        told = []
        for model, dataset in cells:
            files = Artifact("candidates", dataset, model, recipe), Artifact("questions", dataset)
            found = CandidateMeasures(inputs, *files)
            name = f"{study.datasets[dataset].title}, {study.models[model].title}"
            body += block(f"{name}, n = {len(found.ids)}", body)
            for M in widths:
                audited = audit(
                    found, strategy_names.exact(M), study.recipes[recipe].decoded(strategy_names.beam(M)) or ""
                )
                bins = with_all(equal_bins(found.lengths(), BINS))
                for of in bins if by_length == M else bins[-1:]:
                    line = _line(audited, of, found, study.evaluation.confidence)
                    place = {"model": model, "dataset": dataset, "setting": f"M={M} length={of.title}"}
                    values += _values(place, line)
                    titles = (str(M) if of is bins[0] or len(bins) == 1 or by_length != M else "", of.title)
                    body.append(TableRow(titles, tuple(_printed(line))))
                if by_length == M:
                    told.append(_told(name, M, audited, bins[-1]))
        title = "Beam search of width M against the M most probable outcomes"
        sentences = [
            f"{title}; print has no such table. Proven: questions whose exact search ended before its cap; the "
            "columns beside it are over these. Differ: share of them whose beams lack an outcome of the exact top "
            f"M, with its {captions.confidence(study)} Wilson interval. Missed: how many of M, mean, and the most "
            "at one question. Mass missed: probability of the exact top M minus that of the beams, mean.",
            "Outcomes whose log p are within 1e-6 of the least probable beam's are no miss: ties.",
            "Rows: prefixes beyond the prompt whose next token the model is asked for, of each search as if it ran "
            "alone, over all questions of the row.",
            f"Length: tokens of the greedy answer with the terminator, in at most {BINS} bins of about equally "
            f"many questions, for M = {by_length}.",
            *told,
        ]
        grid = TableGrid(("M", "Length"), LEVELS, tuple(body))
        return self.table(study, title, sentences, values, grid, scorers=(), quality=False)


def audit(found: CandidateMeasures, exact: str, beam: str) -> Audit:
    """Beams of width M against the exact top M."""
    best, beams = (
        exact_value.outcomes(found, name).assign(p=lambda rows: np.exp(rows["logprob"])) for name in (exact, beam)
    )
    sizes = [rows.groupby("id").size().reindex(found.ids, fill_value=0) for rows in (best, beams)]
    least = beams.groupby("id")["logprob"].min().reindex(found.ids)
    least = least.where(sizes[1] >= sizes[0], -np.inf)  # beams that are fewer lack some, whatever they are
    known = pd.MultiIndex.from_frame(beams[["id", "sequence"]])
    lacking = ~pd.MultiIndex.from_frame(best[["id", "sequence"]]).isin(known)
    lacking &= best["logprob"].to_numpy() > least.loc[best["id"]].to_numpy() + SAME
    missed = pd.Series(lacking, index=best["id"]).groupby(level=0).sum().reindex(found.ids, fill_value=0)
    masses = [rows.groupby("id")["p"].sum().reindex(found.ids, fill_value=0.0).to_numpy() for rows in (best, beams)]
    first = found.of(exact, 1).set_index("id").loc[found.ids]
    rows = [exact_value.effort(found, name)[0] for name in (exact, beam)]
    nothing = np.full(len(found.ids), np.nan)
    return Audit(
        proven=first["proven"].fillna(False).to_numpy(dtype=bool),
        missed=missed.to_numpy(dtype=np.float64),
        mass=np.where(missed > 0, masses[0] - masses[1], 0.0),
        exact_rows=nothing if rows[0] is None else rows[0],
        beam_rows=nothing if rows[1] is None else rows[1],
    )


def _line(of: Audit, chosen: LengthBin, found: CandidateMeasures, confidence: float) -> Line:
    n, told = int(chosen.members.sum()), chosen.members & of.proven
    rows = {
        "exact_rows": of.exact_rows[chosen.members].mean(),
        "beam_rows": of.beam_rows[chosen.members].mean(),
        "median_exact_rows": np.median(of.exact_rows[chosen.members]),
        "median_beam_rows": np.median(of.beam_rows[chosen.members]),
    }
    taken = {name: None if np.isnan(value) else float(value) for name, value in rows.items()}
    if not told.any():
        return Line(n, 0, **taken)
    differ = of.missed[told] > 0
    groups = [group for group, member in zip(found.groups, told, strict=True) if member]
    low, high = intervals.proportion_interval(differ, groups, confidence)
    missed, mass = of.missed[told], of.mass[told]
    return Line(
        n,
        int(told.sum()),
        float(differ.mean()),
        low,
        high,
        float(missed.mean()),
        float(missed.max()),
        float(mass.mean()),
        **taken,
    )


def _printed(of: Line) -> Iterator[TableCell]:
    why = "no question is proven" if of.proven == 0 else "not told by its file"
    yield TableCell(str(of.n))
    yield TableCell(str(of.proven))
    if of.differ is None or of.low is None or of.high is None:
        yield number_format.undefined(why)
    else:
        ends = ", ".join(number_format.percent(end) for end in (of.low, of.high))
        yield TableCell(number_format.percent(of.differ), spread=f"[{ends}]")
    for value, digits in ((of.missed, 2), (of.most, 0), (of.mass, 4), (of.exact_rows, 1), (of.beam_rows, 1)):
        yield number_format.undefined(why) if value is None else TableCell(number_format.decimal(value, digits))
    for value in (of.median_exact_rows, of.median_beam_rows):
        yield number_format.undefined(why) if value is None else TableCell(f"{value:g}")


def _values(place: dict[str, Any], of: Line) -> list[dict[str, Any]]:
    numbers = {name: value for name, value in asdict(of).items() if name not in ("n", "low", "high", "differ")}
    found = [{"metric": "differ", "value": of.differ, "low": of.low, "high": of.high, "n": of.proven}]
    found += [
        {"metric": name, "value": value, "n": of.n if "rows" in name or name == "proven" else of.proven}
        for name, value in numbers.items()
    ]
    return [place | one for one in found]


def _told(name: str, M: int, of: Audit, every: LengthBin) -> str:
    """The sums of rows."""
    if np.isnan(of.exact_rows).any() or np.isnan(of.beam_rows).any():
        return ""
    fewer = float((of.exact_rows <= of.beam_rows).mean())
    return (
        f"{name}, M = {M}: exact takes {of.exact_rows.sum():,.0f} rows in all, beams {of.beam_rows.sum():,.0f}; "
        f"no more than beams on {number_format.percent(fewer)} of {len(every.members)} questions."
    )


def _cells(study: Study) -> tuple[str, list[exhibit_cells.Cell], list[int]]:
    """The first recipe of the grid with exact and beam searches of the same M, its cells, and those M."""
    for entry in study.grid:
        recipe = study.recipes[entry.recipe]
        sizes = recipe.exact.sizes if recipe.exact else []
        if widths := [M for M in sizes if recipe.decoded(strategy_names.beam(M))]:
            cells = [
                (model, dataset)
                for model in exhibit_cells.models(study, entry.recipe)
                for dataset in exhibit_cells.datasets(study, entry.recipe, model)
            ]
            return entry.recipe, cells, sorted(widths)
    raise BeamUQError(
        "needs a recipe of the grid with exact: {sizes: [10]} and beam: {widths: [10]}, or another size of both; add "
        "one or drop the exhibit"
    )
