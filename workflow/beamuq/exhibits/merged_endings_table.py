"""What merging the ways to end an answer does to main cells: candidates and PRR apart, merged, and their difference."""

from __future__ import annotations

from dataclasses import dataclass

from beamuq.errors import BeamUQError
from beamuq.evaluation import bootstrap
from beamuq.exhibits import captions, exhibit_cells, number_format
from beamuq.exhibits.exhibit_inputs import Inputs, distinct
from beamuq.exhibits.exhibit_types import (
    BuiltTable,
    TableCell,
    TableExhibit,
    TableGrid,
    TableHeading,
    TableRow,
)
from beamuq.exhibits.read_evaluation import Key, Measured, Measurements, difference
from beamuq.exhibits.redundancy_and_covered_mass import CandidateMeasures, Floats, Ints
from beamuq.methods.registry import stored_variant
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

METHODS = ("Prob", "Dissimilarity", "CocoaMSP", "CocoaPPL")
BEAMS = {"distinct texts": 1, "covered mass": 3, "redundant texts": 3}  # with how many digits each is printed
MEASURES = [*((name, "") for name in BEAMS), *(("PRR", method) for method in METHODS)]
APART, MERGED, DIFFERENCE = "apart", "merged", "merged − apart"


@dataclass(frozen=True)
class MergedEndingsTable(TableExhibit):
    """Cells of the main recipe beside those of one that decodes their beams with merged endings (D21)."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Questions, and of both recipes candidates, evaluation and replicates."""
        merged, cells = _cells(study)
        found = [
            file for cell in cells for recipe in (study.main.recipe, merged) for file in _files(study, *cell, recipe)
        ]
        return distinct(found)

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """Three rows a cell: a column a measure of its beams and a column a method."""
        merged, cells = _cells(study)
        values: list[dict[str, object]] = []
        sizes: dict[str, list[int]] = {}
        body: list[TableRow | TableHeading] = []
        changed = 0
        for model, dataset in cells:
            apart, after = (_Side(study, inputs, model, dataset, recipe) for recipe in (study.main.recipe, merged))
            changed += int((apart.found.greedy["text"] != after.found.greedy["text"]).sum())
            n = len(apart.found.ids)
            sizes.setdefault(dataset, []).append(n)
            heading = TableHeading(study.models[model].title)
            body += [] if heading in body else [heading]
            pairs = zip(after.measured, apart.measured, strict=True)
            differences = [difference(*pair, study.evaluation.confidence) for pair in pairs]
            for row, found in {APART: apart.measured, MERGED: after.measured, DIFFERENCE: differences}.items():
                for (metric, method), measured in zip(MEASURES, found, strict=True):
                    place = {"model": model, "dataset": dataset, "metric": metric, "method": method, "setting": row}
                    variant = stored_variant(method, captions.BEAMSEARCH) if method else captions.BEAMSEARCH
                    values.append(place | {"variant": variant} | measured.numbers | {"n": n})
                title = f"{study.datasets[dataset].title}, n = {n}" if row == APART else ""
                cells_of_row = (_cell(metric, of, row) for (metric, _), of in zip(MEASURES, found, strict=True))
                body.append(TableRow((title, row), tuple(cells_of_row)))
        title = "Beams and PRR with the ways to end an answer apart and merged"
        sentences = [
            f"{title}; print has no such table.",
            f"Apart: recipe {study.main.recipe}, where each stop token makes an outcome of its own (D2, outcomes). "
            f"Merged: recipe {merged}, where all stop tokens that add no text are one ending with their summed "
            "probability (D21, merged endings).",
            f"Of {study.main.num_candidates} beams, mean over questions: distinct cleaned texts, probability mass "
            "of the distinct token sequences, share of texts that repeat another one.",
            "PRR (higher is better) of the beam form; Prob has one form. The produced answer is the greedy one of "
            f"each recipe; with merged endings {changed} of {sum(map(sum, sizes.values()))} have another text.",
            f"In brackets: {captions.confidence(study)} percentile intervals of the paired difference over "
            f"{captions.resampled(study, list(sizes))}.",
            captions.sizes(study, sizes),
        ]
        heads = (*(name.capitalize() for name in BEAMS), *map(captions.method_short, METHODS))
        levels = (("Beams",) * len(BEAMS) + ("PRR",) * len(METHODS), heads)
        grid = TableGrid(("Dataset", "Endings"), levels, tuple(body))
        return self.table(study, title, sentences, values, grid)


class _Side:
    """One recipe's measurements of a cell: three of its beams, then PRR of each method, with replicates."""

    def __init__(self, study: Study, inputs: Inputs, model: str, dataset: str, recipe: str) -> None:
        questions, candidates, evaluation, replicates = _files(study, model, dataset, recipe)
        self.found = CandidateMeasures(inputs, candidates, questions)
        beam, size = study.main.beam, study.main.num_candidates
        name = bootstrap.draws_name(dataset, zip(self.found.ids, self.found.groups, strict=True))
        counts = bootstrap.resample_counts(self.found.groups, study.evaluation.resamples, study.seed, name)
        of_beams = [measure(beam, size) for measure in (self.found.distinct, self.found.mass, self.found.redundancy)]
        measured = Measurements(study, inputs, evaluation, replicates)
        self.measured = [_mean(each, counts, study.evaluation.confidence) for each in of_beams]
        self.measured += [measured[Key("PRR", method, captions.BEAMSEARCH)] for method in METHODS]


def _mean(values: Floats, counts: Ints, confidence: float) -> Measured:
    """The mean of values [N] over questions; counts [N, R]: how often each resample draws each question."""
    replicates = values @ counts / counts.sum(axis=0)
    return Measured.resampled(float(values.mean()), replicates, len(values), confidence)


def _cell(metric: str, of: Measured, row: str) -> TableCell:
    """A value as printed; a difference with its sign and interval."""
    if of.value is None:
        return number_format.undefined(of.note)
    digits = BEAMS.get(metric, 3)
    if row == DIFFERENCE:
        return number_format.difference(of.value, of.low, of.high, of.note, digits)
    return TableCell(number_format.decimal(of.value, digits))


def _cells(study: Study) -> tuple[str, list[exhibit_cells.Cell]]:
    """The recipe with merged endings, and its cells: those of the main recipe too, of as many questions."""
    main, scorer = study.main, study.main.scorer
    if study.recipes[main.recipe].merge_stop_tokens:
        raise BeamUQError(
            f"compares main cells with merged ones, but recipes.{main.recipe}.merge_stop_tokens is true; remove it "
            "there or drop the exhibit"
        )
    if lacking := [method for method in METHODS if method not in study.scoring[main.recipe].methods]:
        raise BeamUQError(f"scoring.{main.recipe}.methods lacks {', '.join(lacking)}; add it or drop the exhibit")
    for entry in study.grid:
        recipe, methods = study.recipes[entry.recipe], study.scoring[entry.recipe].methods
        searched = recipe.merge_stop_tokens and main.beam in recipe.strategies()
        if searched and set(METHODS) <= set(methods) and scorer in entry.scorers:
            cells = exhibit_cells.cells(study, entry.recipe, list(study.models))
            for cell in cells:
                _check_questions(study, entry.recipe, *cell)
            return entry.recipe, cells
    raise BeamUQError(
        f"needs a recipe of the grid with merge_stop_tokens: true and {main.beam!r}, its scoring with methods "
        f"{', '.join(METHODS)} under scorer {scorer!r}; add one or drop the exhibit"
    )


def _check_questions(study: Study, merged: str, model: str, dataset: str) -> None:
    """Refuse a cell of which the main recipe does not ask the same questions: a difference would not be paired."""
    main, asked = study.main, []
    for recipe in (main.recipe, merged):
        entry = exhibit_cells.entry(study, recipe, model, dataset)
        if entry is None or main.scorer not in entry.scorers:
            raise BeamUQError(
                f"the grid lacks {model}/{dataset} in recipe {recipe!r} with scorer {main.scorer!r}, which {merged!r} "
                "has; add it to grid"
            )
        asked.append(entry.questions or study.datasets[dataset].questions)
    if asked[0] != asked[1]:
        raise BeamUQError(
            f"the grid asks {asked[1]} questions of {model}/{dataset} in recipe {merged!r}, {asked[0]} in "
            f"{main.recipe!r}; make them the same"
        )


def _files(study: Study, model: str, dataset: str, recipe: str) -> list[Artifact]:
    """Questions, candidates, evaluation and replicates."""
    return [
        Artifact("questions", dataset),
        Artifact("candidates", dataset, model, recipe),
        *exhibit_cells.evaluation_artifacts([(model, dataset)], recipe, study.main.scorer),
    ]
