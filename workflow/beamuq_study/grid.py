"""A study's grid: its cells, how exhibits choose among them, and the tables that each needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Literal

from beamuq.errors import BeamUQError, hint
from beamuq.methods.dissimilarity_estimators import check_kind, lacks
from beamuq.methods.registry import JUDGEMENTS, resolve
from beamuq.strategy_names import kind_of, of_kind, samples_of
from beamuq_study.parquet_tables import NAMED_BY, Artifact
from beamuq_study.produced_answers import strategy_of
from beamuq_study.study_config import Study

CCP, P_TRUE, SAR = JUDGEMENTS


@dataclass(frozen=True)
class Cell:
    """One model on one dataset in one recipe, under a scorer where one is meant."""

    model: str
    dataset: str
    recipe: str = ""
    scorer: str = ""

    def under(self, scorer: str) -> Cell:
        """The same cell under this scorer."""
        return replace(self, scorer=scorer)

    def file(self, kind: str, metric: str = "") -> Artifact:
        """The cell's table of this kind; ``metric`` names that of ``quality``."""
        names = vars(self) | {"metric": metric}
        return Artifact(kind, **{name: names[name] for name in NAMED_BY[kind]})

    @property
    def place(self) -> dict[str, str]:
        return {"model": self.model, "dataset": self.dataset}

    def title(self, study: Study) -> str:
        """``TriviaQA, Gemma 3 4B base``."""
        return f"{study.datasets[self.dataset].title}, {study.models[self.model].title}"


# -- what exhibits and claims choose; nothing where the grid lacks what is asked for ---------------


def questions_asked(study: Study, cell: Cell) -> int:
    """How many questions of its dataset the grid's cell asks."""
    entry = study.entries[cell.model, cell.dataset, cell.recipe]
    return entry.questions or study.datasets[cell.dataset].questions


def most_questions_asked(study: Study, dataset: str) -> int:
    """How many questions of a dataset the cell asks that asks most: the first ones of its file."""
    cells = [Cell(*place) for place in study.entries]
    return max(questions_asked(study, cell) for cell in cells if cell.dataset == dataset)


def recipe_cells(study: Study, recipe: str, scorer: str | None = "") -> list[Cell]:
    """The cells of a recipe under a scorer, models and datasets in the study's order.

    ``scorer``: "" is the main one; with None cells count whatever scorers they have.
    """
    if scorer == "":
        scorer = study.main.scorer
    entries = study.entries
    cells = []
    for model in study.models:
        for dataset in study.datasets:
            entry = entries.get((model, dataset, recipe))
            if entry and (scorer is None or scorer in entry.scorers):
                cells.append(Cell(model, dataset, recipe, scorer or ""))
    return cells


def models(study: Study, recipe: str) -> list[str]:
    """Models that the grid runs with ``recipe``, in the study's order."""
    return list(by_model(recipe_cells(study, recipe, None)))


def main_cells(study: Study, model: str = "", like: str = "") -> list[Cell]:
    """The cells of the main recipe under the main scorer: all, or those of one model.

    The one is ``model``, else the model that stands for ``like``. No cells where a model has none:
    it would have no number in any main table.
    """
    recipe = study.main.recipe
    cells = recipe_cells(study, recipe)
    needed_models = [model] if model else models(study, recipe)
    cells_of_model = by_model(cells)
    if not cells or not cells_of_model.keys() >= set(needed_models):
        return []
    if not model and not like:
        return cells
    return cells_of_model[model or nearest(study, cells, like)[0].model]


def select(
    study: Study,
    *,
    methods: Iterable[str] = (),
    scoring_keys: Iterable[str] = (),
    estimators: Iterable[str] = (),
    strategies: Iterable[str] = (),
    has: Callable[[str], object] = lambda _: True,
    take: Literal["first", "each", "all"] = "first",
) -> list[Cell]:
    """The cells under the main scorer whose recipe has all that is asked for.

    The recipe must score all ``methods`` and ``estimators`` and decode all ``strategies``. Its
    entry in ``scoring`` must have a value for each of ``scoring_keys``, such as ``budgets``.
    ``has`` is a further test of its name.

    Several recipes may do. ``take`` says which of them count, in the order of the grid: "all"; the
    "first", with all its cells; or "each", the first for each model and dataset.
    """
    needs = _Needs(set(methods), set(scoring_keys), set(estimators), set(strategies))
    recipes = [
        recipe
        for recipe in dict.fromkeys(entry.recipe for entry in study.grid)
        if needs.are_met(study, recipe) and has(recipe)
    ]
    cells = [cell for recipe in recipes for cell in recipe_cells(study, recipe)]
    if take == "all":
        return cells
    if take == "first":
        return [cell for cell in cells if cell.recipe == cells[0].recipe]
    first_cells: dict[tuple[str, str], Cell] = {}
    for cell in cells:
        first_cells.setdefault((cell.model, cell.dataset), cell)
    pairs = [(model, dataset) for model in study.models for dataset in study.datasets]
    return [first_cells[pair] for pair in pairs if pair in first_cells]


@dataclass(frozen=True)
class _Needs:
    """What a recipe has to score and decode to be selected, as in :func:`select`."""

    methods: set[str]
    scoring_keys: set[str]
    estimators: set[str]
    strategies: set[str]

    def are_met(self, study: Study, recipe: str) -> bool:
        scoring = study.scoring[recipe]
        return (
            self.methods <= set(scoring.methods)
            and self.estimators <= set(scoring.estimators)
            and self.strategies <= set(study.recipes[recipe].strategies())
            and all(getattr(scoring, key) for key in self.scoring_keys)
        )


def with_methods(
    study: Study, methods: Iterable[str], scoring_keys: Iterable[str] = ()
) -> list[Cell]:
    """The cells of the main recipe, if it scores ``methods`` and has these ``scoring_keys``."""
    return select(
        study,
        methods=methods,
        scoring_keys=scoring_keys,
        has=lambda recipe: recipe == study.main.recipe,
    )


def with_budgets(
    study: Study, methods: Iterable[str], take: Literal["first", "each"] = "each"
) -> list[Cell]:
    """The cells in which both forms of ``methods`` are scored at several M."""
    strategies = [study.main.sample, study.main.beam]
    return select(
        study, methods=methods, scoring_keys=["budgets"], strategies=strategies, take=take
    )


def draws(study: Study, recipe: str) -> int:
    """How many disjoint draws of the main M a recipe's samples hold; 1 where there are not two."""
    sample = study.recipes[recipe].sample
    return max(1, sample.size // study.main.num_candidates) if sample else 1


def settings_of_draws(study: Study, recipe: str) -> list[str]:
    """The settings under which scores of each of the :func:`draws` are stored."""
    main = study.main
    return [
        samples_of(main.sample, main.num_candidates, number + 1)
        for number in range(draws(study, recipe))
    ]


def nearest(study: Study, cells: Sequence[Cell], model: str = "", dataset: str = "") -> list[Cell]:
    """The one cell that an exhibit about ``model`` on ``dataset`` shows; none of no ``cells``.

    Where that one lacks, the first that stands for it: the dataset counts more than the model; a
    base model stands for another one before an instruct model does.
    """

    def distance(cell: Cell) -> tuple[bool, bool, bool]:
        is_instruct = study.models[cell.model].style != "base"
        return (cell.dataset != dataset, cell.model != model, is_instruct)

    return sorted(cells, key=distance)[:1]


def by_model(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Model → its cells."""
    grouped: dict[str, list[Cell]] = {}
    for cell in cells:
        grouped.setdefault(cell.model, []).append(cell)
    return grouped


def datasets_of(study: Study, cells: Sequence[Cell]) -> list[str]:
    """The cells' datasets, in the study's order."""
    return [dataset for dataset in study.datasets if any(cell.dataset == dataset for cell in cells)]


# -- what the plan asks --------------------------------------------------------------------------


@dataclass(frozen=True)
class Grid:
    """Everything that a study's own text says of its jobs, without a file being looked at."""

    study: Study

    @cached_property
    def cells(self) -> list[Cell]:
        """Each once, under no scorer, in the order of the grid."""
        return [Cell(*place) for place in self.study.entries]

    def cell(self, model: str, dataset: str, recipe: str) -> Cell:
        """One cell, under no scorer. Raises BeamUQError if the grid has none such."""
        cell = Cell(model, dataset, recipe)
        if cell not in self.cells:
            raise BeamUQError(f"grid: holds no {model}/{dataset}/{recipe}; add it there")
        return cell

    @property
    def datasets(self) -> list[str]:
        """The datasets that any cell asks, in the order of the grid."""
        return list(dict.fromkeys(cell.dataset for cell in self.cells))

    # -- what a recipe's methods need --------------------------------------------------------------

    def judgements_of(self, recipe: str) -> set[str]:
        """What the recipe's methods need that further models have to be asked: P_TRUE, CCP, SAR."""
        methods = self.study.scoring[recipe].methods
        return {need for name in methods for need in resolve(name).all_needs if need in JUDGEMENTS}

    def judges_of(self, recipe: str) -> dict[str, str]:
        """The scorers that CCP ("nli") and SAR ("relevance") ask of a recipe's answers."""
        needs = self.judgements_of(recipe)
        main = self.study.main
        judges = {}
        if CCP in needs:
            judges["nli"] = main.scorer
        if SAR in needs and main.relevance:
            judges["relevance"] = main.relevance
        return judges

    def estimators_of(self, recipe: str, names: Sequence[str]) -> list[str]:
        """Estimators such as ``unnormalised beam``, over every strategy that each stands for.

        Raises BeamUQError if one is unknown, or the recipe decodes nothing that it can be had from.
        """
        estimators: list[str] = []
        for name in names:
            weighting, _, kind = name.partition(" ")
            check_kind(weighting, kind)
            strategies = self.study.recipes[recipe].strategies()
            decoded = of_kind(strategies, kind)
            chosen = [strategy for strategy in decoded if lacks(weighting, strategy) is None]
            if not chosen:
                need = lacks(weighting, decoded[0]) if decoded else repr(kind)
                fix = f"add it there, or {hint(kind, dict.fromkeys(map(kind_of, strategies)))}"
                raise BeamUQError(
                    f"{name!r}: needs {need}, which recipes.{recipe} does not decode; {fix}"
                )
            estimators += [f"{weighting} {strategy}" for strategy in chosen]
        return estimators

    def produced_answers(self, recipe: str) -> tuple[str, ...]:
        """The study's produced answers that this recipe decodes."""
        decoded = self.study.recipes[recipe].decoded
        beam = self.study.main.beam
        return tuple(name for name in self.study.answer_source if decoded(strategy_of(name, beam)))

    # -- what a cell needs -------------------------------------------------------------------------

    def under_own_scorers(self, cell: Cell) -> list[Cell]:
        """The cell under each scorer that it is evaluated with."""
        entry = self.study.entries[cell.model, cell.dataset, cell.recipe]
        return [cell.under(scorer) for scorer in entry.scorers]

    def under_all_scorers(self, cell: Cell) -> list[Cell]:
        """The cell under each scorer whose similarities it needs: its own, and SAR's judge."""
        scorers = {own.scorer for own in self.under_own_scorers(cell)}
        relevance = self.judges_of(cell.recipe).get("relevance")
        if relevance:
            scorers.add(relevance)
        return [cell.under(scorer) for scorer in sorted(scorers)]

    def under_main_scorer(self, cell: Cell) -> Cell:
        """The cell under the main tables' scorer; where it has not that one, under its first."""
        own = self.under_own_scorers(cell)
        main = cell.under(self.study.main.scorer)
        return main if main in own else own[0]

    def qualities_of(self, cell: Cell) -> list[Artifact]:
        """The quality of a cell's answers by each metric of its dataset, the main one first."""
        qualities = self.study.qualities(cell.dataset)
        return [cell.file("quality", quality.metric) for quality in qualities]

    # -- tables of the study -----------------------------------------------------------------------

    @cached_property
    def generations(self) -> list[Artifact]:
        return [cell.file("candidates") for cell in self.cells]

    @cached_property
    def evaluations(self) -> list[Artifact]:
        return [
            scored.file("evaluation")
            for cell in self.cells
            for scored in self.under_own_scorers(cell)
        ]

    @cached_property
    def decisions(self) -> list[Artifact]:
        """The decisions of every main cell; those of another are made where they are asked for."""
        main = self.study.main
        cells = [cell for cell in self.cells if cell.recipe == main.recipe]
        return [
            scored.file("decisions")
            for cell in cells
            for scored in self.under_own_scorers(cell)
            if scored.scorer == main.scorer
        ]

    @cached_property
    def questions(self) -> list[Artifact]:
        return [Artifact("questions", dataset=dataset) for dataset in self.datasets]

    @cached_property
    def prompts(self) -> list[Artifact]:
        tables = {self._prompts_of(cell) for cell in self.cells}
        return sorted(tables, key=attrgetter("style", "dataset"))

    def _prompts_of(self, cell: Cell) -> Artifact:
        style = self.study.models[cell.model].style
        return Artifact("prompts", style=style, dataset=cell.dataset)

    @cached_property
    def measured(self) -> list[Artifact]:
        """The table of every job whose time and memory is measured."""
        return [table for cell in self.cells for table in self._measured_of(cell)]

    def _measured_of(self, cell: Cell) -> list[Artifact]:
        own = self.under_own_scorers(cell)
        tables = [cell.file("candidates"), *self.qualities_of(cell)]
        if self.judgements_of(cell.recipe):
            tables.append(cell.file("judgements"))
        tables += [scored.file("similarity") for scored in self.under_all_scorers(cell)]
        tables += [scored.file("scores") for scored in own]
        tables += [scored.file("evaluation") for scored in own]
        main = cell.under(self.study.main.scorer)
        if self.study.scoring[cell.recipe].beams_map and main in own:
            tables.append(main.file("beams_map"))
        return tables

    @cached_property
    def explored(self) -> list[Cell]:
        """What the explorer shows: the main recipe's cells, else all, each under one scorer."""
        main = [cell for cell in self.cells if cell.recipe == self.study.main.recipe]
        return [self.under_main_scorer(cell) for cell in main or self.cells]

    def tables_explored(self, cell: Cell) -> list[Artifact]:
        """What the explorer reads of a cell under a scorer."""
        return [
            Artifact("questions", dataset=cell.dataset),
            self._prompts_of(cell),
            cell.file("candidates"),
            cell.file("quality", self.study.main_quality.metric),
            cell.file("similarity"),
            cell.file("scores"),
        ]

    # -- models that are loaded --------------------------------------------------------------------

    @cached_property
    def sources_of_weights(self) -> list[str]:
        """Every source of weights that the study loads, once; no scorer's that nothing asks."""
        study = self.study
        asked_scorers = set()
        for cell in self.cells:
            asked_scorers |= {scored.scorer for scored in self.under_all_scorers(cell)}
            asked_scorers |= set(self.judges_of(cell.recipe).values())
        decoding = [study.models[cell.model] for cell in self.cells]
        sources: list[str | None] = [model.source for model in decoding if not model.is_served]
        sources += [scorer.source for key, scorer in study.scorers.items() if key in asked_scorers]
        sources += [quality.source for quality in study.quality]
        return list(dict.fromkeys(filter(None, sources)))

    @cached_property
    def model_sources(self) -> list[str]:
        """Those, and what configs and tokenizers are read of: judges' backbones, served models."""
        backbones = [quality.backbone for quality in self.study.quality if quality.backbone]
        served = [self.study.models[name].folder_source for name in self.served]
        return list(dict.fromkeys([*self.sources_of_weights, *backbones, *served]))

    @cached_property
    def served(self) -> list[str]:
        """The models of the grid that a server holds, in its order."""
        models = dict.fromkeys(cell.model for cell in self.cells)
        return [name for name in models if self.study.models[name].is_served]

    @property
    def served_by(self) -> list[str]:
        """The names of their servers, each once."""
        names = (self.study.models[name].server for name in self.served)
        return list(dict.fromkeys(filter(None, names)))
