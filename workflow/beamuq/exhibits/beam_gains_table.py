"""What is gained in PRR, paired on the same questions: by dataset, by number of candidates, by how they are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from beamuq.errors import BeamUQError
from beamuq.exhibits import ablation_tables, best_marked_table, captions, exhibit_cells, number_format
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
Less = Callable[[TablePlace], TablePlace]


@dataclass(frozen=True)
class BeamGains(TableExhibit):
    """Differences in PRR, paired over the resamples that both sides share; columns of datasets and of their mean.

    Attributes
    ----------
    what, shows
        The title's beginning; what is minus what, and of which candidates.
    stub
        The heading of the rows' titles.
    recipe
        Of the study: the recipe shown.
    rows, less
        Of the study and the recipe: the rows; of a place in a row, what is subtracted from it.
    methods
        A column each of every dataset; none: the rows name them.
    model
        The one shown; "": every model of the recipe.
    """

    what: str
    shows: str
    stub: tuple[str, ...]
    recipe: Callable[[Study], str]
    rows: Callable[[Study, str], RankedBody]
    less: Less
    methods: tuple[str, ...] = ("",)
    model: str = ""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Evaluation and replicates of every cell shown."""
        if "PRR" not in study.evaluation.metrics:
            raise BeamUQError("needs PRR; add it to evaluation.metrics")
        recipe, scorer = self.recipe(study), study.main.scorer
        self.rows(study, recipe)
        cells = [
            (model, dataset)
            for model in ([self.model] if self.model else study.models)
            for dataset in study.datasets
            if exhibit_cells.covers(study, recipe, model, dataset, scorer)
        ]
        if not cells:
            raise BeamUQError(
                f"the grid lacks {self.model} in recipe {recipe!r} with scorer {scorer!r}; add it to grid"
            )
        return exhibit_cells.evaluation_artifacts(cells, recipe, scorer)

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A row and a column each as told; bold where the interval leaves out 0."""
        measurements = read_measurements(study, inputs, self.artifacts(study))
        columns = self._columns(study, {cell: of.left_out() for cell, of in measurements.items()})
        body = self.rows(study, self.recipe(study))
        found = {
            (item.key | place): self._gain(study, measurements, item.key | place)
            for item in body
            if isinstance(item, RankedRow)
            for place in columns
        }
        grid = TableGrid(
            self.stub,
            tuple(zip(*columns.values(), strict=True)),
            tuple(
                TableRow(item.titles, tuple(_cell(found[item.key | place]) for place in columns))
                if isinstance(item, RankedRow)
                else item
                for item in body
            ),
        )
        values = [asdict(self._named(place)) | {"metric": "PRR"} | of.numbers for place, of in found.items()]
        shown = [of for of in found.values() if of.value is not None]
        sizes: dict[str, list[int]] = {}
        for place, of in found.items():
            if place.dataset != MEAN:
                sizes.setdefault(place.dataset, []).append(of.n)
        title = f"{self.what}, {study.models[self.model].title}" if self.model else self.what
        sentences = [
            f"{title}; print has no such table. {self.shows} Both sides are of the same questions and resamples.",
            f"Bold: the interval of the difference leaves out 0, uncorrected for how many there are: "
            f"{sum(map(_clear, shown))} of {len(shown)}.",
            best_marked_table.size_sentence(study, sizes),
        ]
        resampled = best_marked_table.resampled(study, list(sizes))
        brackets = f"In brackets: {captions.confidence(study)} percentile intervals over {resampled}."
        return self.table(study, title, sentences, values, grid, brackets=brackets)

    def _columns(self, study: Study, left_out: Mapping[exhibit_cells.Cell, bool]) -> dict[TablePlace, tuple[str, ...]]:
        """Each column's place and titles: of each model its datasets, and their mean where there are several."""
        titles: dict[str, dict[str, str]] = {}
        for (model, dataset), out in left_out.items():
            titles.setdefault(model, {})[dataset] = study.datasets[dataset].title + MARK * out
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

    def _gain(
        self, study: Study, measurements: Mapping[exhibit_cells.Cell, Measurements], place: TablePlace
    ) -> Measured:
        confidence = study.evaluation.confidence
        of, less = (
            Key("PRR", at.method, at.variant, stored_setting(study, at.setting)) for at in (place, self.less(place))
        )
        if place.dataset != MEAN:
            cell = measurements[place.model, place.dataset]
            return difference(cell[of], cell[less], confidence)
        kept = {
            dataset: cell
            for (model, dataset), cell in measurements.items()
            if model == place.model and not cell.left_out()
        }
        gains = [difference(cell[of], cell[less], confidence) for cell in kept.values()]
        return mean_of(gains, [study.datasets[d].title for d in kept], confidence, "PRR is undefined on ")

    def _named(self, place: TablePlace) -> TablePlace:
        """The place as published: its variant says what is minus what."""
        less = self.less(place)
        both = [at.variant if less.setting == place.setting else at.setting for at in (place, less)]
        return replace(place, variant=" - ".join(both))


def _clear(of: Measured) -> bool:
    """Whether the interval leaves out 0."""
    return of.low is not None and of.high is not None and (of.low > 0 or of.high < 0)


def _cell(of: Measured) -> TableCell:
    if of.value is None:
        return number_format.undefined(of.note)
    cell = number_format.difference(of.value, None, None, of.note)
    return number_format.with_interval(replace(cell, mark="best" if _clear(of) else ""), of.low, of.high)


def _methods_with_both_forms(study: Study, recipe: str) -> RankedBody:
    methods = [registry.resolve(name) for name in study.scoring[recipe].methods]
    both = [method.name for method in methods if len(method.variants) == 2]
    if not both:
        raise BeamUQError(f"needs a method of samples and of beams, such as Dissimilarity; add it to scoring.{recipe}")
    return [
        RankedRow((captions.method_title(name),), TablePlace(method=name, variant=captions.BEAMSEARCH)) for name in both
    ]


def _numbers_of_candidates(study: Study, recipe: str) -> RankedBody:
    return [
        RankedRow((str(M),), TablePlace(variant=captions.BEAMSEARCH, setting=ablation("M", M)))
        for M in sorted(study.scoring[recipe].budgets)
    ]


def _floors(study: Study, recipe: str) -> RankedBody:
    """The same beams, each weighing at least ε; ε = 0 is the beams themselves."""
    rows = [item for item in ablation_tables.floor_rows(study, recipe) if isinstance(item, RankedRow)]
    above = [row for row in rows if row.key.setting != ablation("epsilon", 0)]
    titled = [replace(row, titles=("" if at else "Beams with a floor", *row.titles)) for at, row in enumerate(above)]
    return [TableRule(), *titled] if titled else []


def _recipe_with_budgets(study: Study) -> str:
    """The first of the grid that scores both forms of the methods at several M."""
    for entry in study.grid:
        for model in entry.models:
            for dataset in entry.datasets:
                if found := exhibit_cells.budget_recipe(study, model, dataset, captions.GRAPH):
                    return found
    raise BeamUQError(
        f"needs a recipe that decodes {study.main.sample!r} and {study.main.beam!r} and whose scoring has budgets with "
        f"methods {', '.join(captions.GRAPH)} under scorer {study.main.scorer!r}; add one or drop the exhibit"
    )


def _multinomial(place: TablePlace) -> TablePlace:
    return replace(place, variant=captions.MULTINOMIAL)


def by_dataset(label: str, model: str) -> BeamGains:
    """Beams − samples for each method that has both forms, a column a dataset."""
    return BeamGains(
        label,
        what="Beam − multinomial in PRR",
        shows="As many beams as samples, each method's two forms.",
        stub=("Method",),
        recipe=lambda study: study.main.recipe,
        rows=_methods_with_both_forms,
        less=_multinomial,
        model=model,
        beyond_paper=True,
    )


def by_candidates(label: str) -> BeamGains:
    """Beams − samples, a row a number of candidates."""
    return BeamGains(
        label,
        what="Beam − multinomial in PRR by number of candidates",
        shows="A beam search of width M against the first M samples; a single beam is the greedy answer itself.",
        stub=("M",),
        recipe=_recipe_with_budgets,
        rows=_numbers_of_candidates,
        less=_multinomial,
        methods=captions.GRAPH,
        beyond_paper=True,
    )


def by_strategy(label: str, table: ablation_tables.AblationTable) -> BeamGains:
    """Other ways of finding candidates, the rows of the paper's table of them, and beams with floors − beams."""
    beam = TablePlace(variant=captions.BEAMSEARCH, setting="beam")
    return BeamGains(
        label,
        what="Other candidates − beams in PRR",
        shows="Above 0 where they rank better than as many beams; candidates and weights as in the paper's tables.",
        stub=table.stub,
        recipe=table.recipe,
        # the first row is the beams themselves, the second a rule
        rows=lambda study, recipe: [*table.rows(study, recipe)[2:], *_floors(study, recipe)],
        less=lambda place: place | beam,
        methods=table.methods,
        beyond_paper=True,
    )
