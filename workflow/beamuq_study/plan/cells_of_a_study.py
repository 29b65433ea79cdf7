"""The cells of a study, and what each of them needs: which scorers, judgements, qualities and
produced answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from beamuq.errors import BeamUQError, hint
from beamuq.methods.dissimilarity_estimators import check_kind, lacks
from beamuq.methods.registry import JUDGEMENTS, resolve
from beamuq.strategy_names import FOR_ESTIMATORS, kind_of, of_kind
from beamuq_study.parquet_tables import Artifact
from beamuq_study.produced_answers import strategy_of
from beamuq_study.stages.score_all_methods import compare_candidates
from beamuq_study.study_config import Study

CCP, P_TRUE, SAR = JUDGEMENTS


@dataclass(frozen=True)
class GridCell:
    """One generation: a model on so many questions of a dataset with a recipe; ``scorers``: it is
    evaluated under.
    """

    model: str
    dataset: str
    recipe: str
    questions: int
    scorers: tuple[str, ...]

    def table(self, kind: str, **further: str) -> Artifact:
        """The cell's table of this kind; ``further`` names its scorer or metric."""
        return Artifact(kind, model=self.model, dataset=self.dataset, recipe=self.recipe, **further)


@dataclass(frozen=True)
class Grid:
    """Everything that a study's own text says of its jobs, without a file being looked at."""

    study: Study

    @cached_property
    def cells(self) -> dict[tuple[str, str, str], GridCell]:
        """By model, dataset and recipe, in the study's order."""
        sizes = {name: dataset.questions for name, dataset in self.study.datasets.items()}
        return {
            place: GridCell(*place, entry.questions or sizes[place[1]], tuple(entry.scorers))
            for place, entry in self.study.entries.items()
        }

    def cell(self, model: str, dataset: str, recipe: str) -> GridCell:
        """One cell. Raises BeamUQError if the grid has none such."""
        if (model, dataset, recipe) not in self.cells:
            raise BeamUQError(f"grid: holds no {model}/{dataset}/{recipe}; add it there")
        return self.cells[model, dataset, recipe]

    @property
    def datasets(self) -> list[str]:
        """The datasets that any cell asks, in the order of the grid."""
        return list({cell.dataset: None for cell in self.cells.values()})

    # -- what a recipe's methods need --------------------------------------------------------------

    def judgements_of(self, recipe: str) -> set[str]:
        """What the recipe's methods need that further models have to be asked: P_TRUE, CCP, SAR."""
        methods = self.study.scoring[recipe].methods
        return {need for name in methods for need in resolve(name).all_needs if need in JUDGEMENTS}

    def judges_of(self, recipe: str) -> dict[str, str]:
        """The scorers that CCP ("nli") and SAR ("relevance") ask of a recipe's answers."""
        needs, main = self.judgements_of(recipe), self.study.main
        judges = {"nli": main.scorer} if CCP in needs else {}
        return judges | ({"relevance": main.relevance} if SAR in needs and main.relevance else {})

    def scorers_of(self, cell: GridCell) -> list[str]:
        """The scorers whose similarities a cell needs, sorted: its own, and the judge of SAR's."""
        relevance = self.judges_of(cell.recipe).get("relevance")
        return sorted({*cell.scorers, *([relevance] if relevance else [])})

    def estimators_of(self, recipe: str, names: Sequence[str]) -> list[str]:
        """Estimators such as ``unnormalised beam``, each over every strategy of the recipe that it
        stands for.

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
                why = lacks(weighting, decoded[0]) if decoded else repr(kind)
                fix = f"add it there, or {hint(kind, dict.fromkeys(map(kind_of, strategies)))}"
                raise BeamUQError(
                    f"{name!r}: needs {why}, which recipes.{recipe} does not decode; {fix}"
                )
            estimators += [f"{weighting} {strategy}" for strategy in chosen]
        return estimators

    def only_with_answer(self, recipe: str) -> tuple[str, ...]:
        """Strategies of a recipe whose candidates are compared with the produced answer alone.

        All of them, where no method compares candidates with each other; else those that only
        estimators read.
        """
        names, scoring = self.study.recipes[recipe].strategies(), self.study.scoring[recipe]
        if not compare_candidates(scoring.methods):
            return tuple(names)
        return tuple(
            name for name in names if kind_of(name) in FOR_ESTIMATORS and not scoring.every_strategy
        )

    def qualities_of(self, cell: GridCell) -> list[Artifact]:
        """The quality of a cell's answers by each metric that is measured on its dataset, the main
        one first.
        """
        return [
            cell.table("quality", metric=quality.metric)
            for quality in self.study.qualities(cell.dataset)
        ]

    def produced_answers(self, recipe: str) -> tuple[str, ...]:
        """The study's produced answers that this recipe decodes."""
        of, beam = self.study.recipes[recipe], self.study.main.beam
        return tuple(
            name for name in self.study.answer_source if of.decoded(strategy_of(name, beam))
        )

    # -- tables of the study -----------------------------------------------------------------------

    @cached_property
    def generations(self) -> list[Artifact]:
        return [cell.table("candidates") for cell in self.cells.values()]

    @cached_property
    def evaluations(self) -> list[Artifact]:
        return [
            cell.table("evaluation", scorer=scorer)
            for cell in self.cells.values()
            for scorer in cell.scorers
        ]

    @cached_property
    def decisions(self) -> list[Artifact]:
        """The decisions of every main cell; those of another are made where they are asked for."""
        recipe, scorer = self.study.main.recipe, self.study.main.scorer
        cells = (
            cell for cell in self.cells.values() if cell.recipe == recipe and scorer in cell.scorers
        )
        return [cell.table("decisions", scorer=scorer) for cell in cells]

    @cached_property
    def questions(self) -> list[Artifact]:
        return [Artifact("questions", dataset=dataset) for dataset in self.datasets]

    @cached_property
    def prompts(self) -> list[Artifact]:
        used = {(self.study.models[cell.model].style, cell.dataset) for cell in self.cells.values()}
        return [
            Artifact("prompts", style=style, dataset=dataset) for style, dataset in sorted(used)
        ]

    @cached_property
    def measured(self) -> list[Artifact]:
        """The table of every job whose time and memory is measured."""
        files: list[Artifact] = []
        for cell in self.cells.values():
            files += [cell.table("candidates"), *self.qualities_of(cell)]
            files += [cell.table("judgements")] if self.judgements_of(cell.recipe) else []
            files += [cell.table("similarity", scorer=scorer) for scorer in self.scorers_of(cell)]
            files += [
                cell.table(kind, scorer=scorer)
                for kind in ("scores", "evaluation")
                for scorer in cell.scorers
            ]
            if self.study.scoring[cell.recipe].beams_map and self.study.main.scorer in cell.scorers:
                files.append(cell.table("beams_map", scorer=self.study.main.scorer))
        return files

    @cached_property
    def explored(self) -> list[tuple[GridCell, str]]:
        """What the explorer shows: the main recipe's cells, if there are any, each under a scorer;
        else all.
        """
        cells = list(self.cells.values())
        main = [cell for cell in cells if cell.recipe == self.study.main.recipe]
        return [(cell, self.shown_under(cell)) for cell in main or cells]

    def shown_under(self, cell: GridCell) -> str:
        """The main tables' scorer, where a cell has that one."""
        return self.study.main.scorer if self.study.main.scorer in cell.scorers else cell.scorers[0]

    def tables_explored(self, cell: GridCell, scorer: str) -> list[Artifact]:
        """What the explorer reads of a cell: questions, prompts, candidates; main quality,
        similarity and scores.
        """
        return [
            Artifact("questions", dataset=cell.dataset),
            Artifact("prompts", style=self.study.models[cell.model].style, dataset=cell.dataset),
            cell.table("candidates"),
            cell.table("quality", metric=self.study.main_quality.metric),
            cell.table("similarity", scorer=scorer),
            cell.table("scores", scorer=scorer),
        ]

    @cached_property
    def sources_of_weights(self) -> list[str]:
        """Every source of a model whose weights the study loads, each once; not of a scorer that
        nothing asks.
        """
        study = self.study
        cells = list(self.cells.values())
        scorers = {
            key
            for cell in cells
            for key in (*self.scorers_of(cell), *self.judges_of(cell.recipe).values())
        }
        sources: list[str | None] = [study.models[cell.model].source for cell in cells]
        sources += [scorer.source for key, scorer in study.scorers.items() if key in scorers]
        sources += [quality.source for quality in study.quality]
        return list(dict.fromkeys(filter(None, sources)))

    @cached_property
    def model_sources(self) -> list[str]:
        """Those, and the backbones of judges, of which config and tokenizer are read."""
        backbones = [quality.backbone for quality in self.study.quality if quality.backbone]
        return list(dict.fromkeys([*self.sources_of_weights, *backbones]))
