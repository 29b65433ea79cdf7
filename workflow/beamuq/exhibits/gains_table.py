"""Paired differences in PRR: beams − samples, by dataset and number of candidates; other candidates − beams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from beamuq.errors import BeamUQError
from beamuq.exhibits import best_marked_table, captions, exhibit_cells, method_tables, number_format
from beamuq.exhibits.ablation_tables import AblationTable
from beamuq.exhibits.best_marked_table import RankedBody, RankedRow, TablePlace
from beamuq.exhibits.empty_answers import MARK
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltTable, TableCell, TableExhibit, TableGrid, TableRow, TableRule
from beamuq.exhibits.read_evaluation import (
    Key,
    Measured,
    Measurements,
    difference,
    mean_of,
    read_measurements,
    stored_setting,
)
from beamuq.methods import registry
from beamuq.parquet_tables import Artifact
from beamuq.strategy_names import ablation
from beamuq.study_config import Study

MEAN = "mean"
BEAMS = TablePlace(variant=captions.BEAMSEARCH, setting="beam")


@dataclass(frozen=True)
class GainsTable(TableExhibit):
    """PRR of each row minus that of its baseline, on the same questions and resamples: above 0 the row ranks better.

    Columns are datasets and their mean, without those of too many empty answers.

    Attributes
    ----------
    what
        Begins the title: what is minus what.
    stub
        The headings of the rows' titles.
    recipe
        Of the study: the recipe shown. Raises BeamUQError, with the fix, where the grid has none.
    rows, sentences
        Of the study and the recipe: the rows, for which it raises BeamUQError where there is none; what the caption
        says behind its first sentence.
    baseline
        The place of what is subtracted from a row's place.
    methods
        The columns within a dataset; a single "" where the rows name the methods.
    model
        The one shown; "": every model of the recipe.
    """

    what: str
    stub: tuple[str, ...]
    recipe: Callable[[Study], str]
    rows: Callable[[Study, str], RankedBody]
    sentences: Callable[[Study, str], list[str]]
    baseline: Callable[[TablePlace], TablePlace]
    methods: tuple[str, ...] = ("",)
    model: str = ""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Evaluation and replicates of every cell shown."""
        if "PRR" not in study.evaluation.metrics:
            raise BeamUQError("needs PRR; add it to evaluation.metrics")
        recipe, scorer = self.recipe(study), study.main.scorer
        self.rows(study, recipe)  # refused here, before anything is decoded
        cells = exhibit_cells.cells(study, recipe, [self.model] if self.model else list(study.models))
        if not cells:
            who = self.model or "any model"
            raise BeamUQError(f"the grid lacks {who} in recipe {recipe!r} with scorer {scorer!r}; add it to grid")
        return exhibit_cells.evaluation_artifacts(cells, recipe, scorer)

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """Bold where the interval excludes 0."""
        measurements = read_measurements(study, inputs, self.artifacts(study))
        recipe = self.recipe(study)
        body, columns = self.rows(study, recipe), self._columns(study, measurements)
        places = [item.key | column for item in body if isinstance(item, RankedRow) for column in columns]
        found = self._gains(study, measurements, places)
        grid = TableGrid(
            self.stub,
            tuple(zip(*columns.values(), strict=True)),
            tuple(
                TableRow(item.titles, tuple(_cell(found[item.key | column]) for column in columns))
                if isinstance(item, RankedRow)
                else item
                for item in body
            ),
        )
        sizes: dict[str, list[int]] = {}
        for place, of in found.items():
            if place.dataset != MEAN:
                sizes.setdefault(place.dataset, []).append(of.n)
        title = f"{self.what}, {study.models[self.model].title}" if self.model else self.what
        defined = [of for of in found.values() if of.value is not None]
        bold = sum(number_format.excludes_zero(of.low, of.high) for of in defined)
        sentences = [
            f"{title}; print has no such table.",
            *self.sentences(study, recipe),
            "Differences are of the same questions and resamples. Bold: the interval excludes 0, uncorrected for how "
            f"many there are: {bold} of {len(defined)}.",
            best_marked_table.size_sentence(study, sizes),
        ]
        resampled = best_marked_table.resampled(study, list(sizes))
        brackets = f"In brackets: {captions.confidence(study)} percentile intervals over {resampled}."
        values = [asdict(self._published(place)) | {"metric": "PRR"} | of.numbers for place, of in found.items()]
        return self.table(study, title, sentences, values, grid, brackets=brackets)

    def _columns(
        self, study: Study, measurements: Mapping[exhibit_cells.Cell, Measurements]
    ) -> dict[TablePlace, tuple[str, ...]]:
        """Each column's place and titles: of each model its datasets, and their mean where there are several."""
        titles: dict[str, dict[str, str]] = {}
        for (model, dataset), cell in measurements.items():
            titles.setdefault(model, {})[dataset] = study.datasets[dataset].title + MARK * cell.left_out()
        return {
            TablePlace(model=model, dataset=dataset, method=method): (
                *(() if self.model else (study.models[model].title,)),
                title,
                *((captions.method_short(method),) if method else ()),
            )
            for model, of_model in titles.items()
            for dataset, title in (of_model | ({MEAN: "Mean"} if len(of_model) > 1 else {})).items()
            for method in self.methods
        }

    def _gains(
        self, study: Study, measurements: Mapping[exhibit_cells.Cell, Measurements], places: list[TablePlace]
    ) -> dict[TablePlace, Measured]:
        """The difference at each place; a mean's datasets stand before it."""
        confidence = study.evaluation.confidence
        found: dict[TablePlace, Measured] = {}
        for place in places:
            if place.dataset == MEAN:
                kept = [d for (model, d), cell in measurements.items() if model == place.model and not cell.left_out()]
                each = [found[replace(place, dataset=dataset)] for dataset in kept]
                titles = [study.datasets[dataset].title for dataset in kept]
                found[place] = mean_of(each, titles, confidence, "PRR is undefined on ")
            else:
                cell = measurements[place.model, place.dataset]
                row, baseline = (
                    cell[Key("PRR", of.method, of.variant, stored_setting(study, of.setting))]
                    for of in (place, self.baseline(place))
                )
                found[place] = difference(row, baseline, confidence)
        return found

    def _published(self, place: TablePlace) -> TablePlace:
        """The place in the CSV: variant and setting are "row - baseline" where the two differ."""
        baseline = self.baseline(place)
        return replace(
            place,
            variant=_minus(place.variant, baseline.variant),
            setting=_minus(place.setting, baseline.setting),
        )


def _minus(row: str, baseline: str) -> str:
    return row if row == baseline else f"{row} - {baseline}"


def _cell(of: Measured) -> TableCell:
    """The difference with its sign; its interval in the style with intervals."""
    if of.value is None:
        return number_format.undefined(of.note)
    cell = number_format.difference(of.value, None, None, of.note)
    bold = number_format.excludes_zero(of.low, of.high)
    return number_format.with_interval(replace(cell, mark="best" if bold else ""), of.low, of.high)


def _multinomial(place: TablePlace) -> TablePlace:
    return replace(place, variant=captions.MULTINOMIAL)


def by_dataset(label: str, model: str) -> GainsTable:
    """Beams − samples for each method that has both forms, a column a dataset."""
    return GainsTable(
        label,
        what="Beam − multinomial in PRR",
        stub=("Method",),
        recipe=lambda study: study.main.recipe,
        rows=_methods_with_both_forms,
        sentences=lambda study, recipe: [
            f"{study.main.num_candidates} beams against {study.main.num_candidates} samples.",
            *(said for name, said in method_tables.BOTH_FORMS.items() if name in study.scoring[recipe].methods),
        ],
        baseline=_multinomial,
        model=model,
        beyond_paper=True,
    )


def _methods_with_both_forms(study: Study, recipe: str) -> RankedBody:
    methods = [registry.resolve(name) for name in study.scoring[recipe].methods]
    both = [method.name for method in methods if len(method.variants) == 2]
    if not both:
        raise BeamUQError(f"needs a method of samples and of beams, such as Dissimilarity; add it to scoring.{recipe}")
    return [
        RankedRow((captions.method_title(name),), TablePlace(method=name, variant=captions.BEAMSEARCH)) for name in both
    ]


def by_candidates(label: str) -> GainsTable:
    """Beams − samples, a row a number of candidates."""
    return GainsTable(
        label,
        what="Beam − multinomial in PRR by number of candidates",
        stub=("M",),
        recipe=_recipe_with_budgets,
        rows=lambda study, recipe: [
            RankedRow((str(M),), TablePlace(variant=captions.BEAMSEARCH, setting=ablation("M", M)))
            for M in sorted(study.scoring[recipe].budgets)
        ],
        sentences=lambda *_: [
            "A beam search of width M against the first M samples; a single beam is the greedy answer itself."
        ],
        baseline=_multinomial,
        methods=captions.GRAPH,
        beyond_paper=True,
    )


def _recipe_with_budgets(study: Study) -> str:
    found = (exhibit_cells.budget_recipe(study, m, d, captions.GRAPH) for m in study.models for d in study.datasets)
    if recipe := next(filter(None, found), None):
        return recipe
    raise exhibit_cells.without_budgets(study, captions.GRAPH)


def by_strategy(label: str, strategies: AblationTable, floors: AblationTable) -> GainsTable:
    """Other candidates, and the same with other weights, − beams: the rows of the paper's two tables of them."""

    def rows(study: Study, recipe: str) -> RankedBody:
        body = [*strategies.rows(study, recipe), *_floor_rows(study, floors.rows(study, recipe))]
        others = [item for item in body if not (isinstance(item, RankedRow) and item.key == BEAMS)]
        if not any(isinstance(item, RankedRow) for item in others):
            raise BeamUQError(f"needs candidates beside {study.main.beam!r}; add some to recipe {recipe!r}")
        return others[1:]  # a rule parted them from the beams

    return GainsTable(
        label,
        what="Other candidates and weights − beams in PRR",
        stub=strategies.stub,
        recipe=strategies.recipe,
        rows=rows,
        sentences=lambda study, recipe: [
            "Above 0 the row ranks better than the main beams.",
            *strategies.sentences(study, recipe),
            *(floors.sentences(study, recipe) if study.scoring[recipe].epsilon else []),
        ],
        baseline=lambda place: place | BEAMS,
        methods=strategies.methods,
        beyond_paper=True,
    )


def _floor_rows(study: Study, floors: RankedBody) -> RankedBody:
    """Behind a rule, all but the floor that the main beams have."""
    beams = ablation("epsilon", study.main.epsilon)
    rows = [item for item in floors if isinstance(item, RankedRow) and item.key.setting != beams]
    titles = ["Beams with a floor", *[""] * len(rows)]
    titled = [replace(row, titles=(title, *row.titles)) for title, row in zip(titles, rows, strict=False)]
    return [TableRule(), *titled] if titled else []
