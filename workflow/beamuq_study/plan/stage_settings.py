"""The settings of every rule's jobs, as plain dictionaries.

Snakemake compares plain dictionaries, and what they say is all that can change a result beside the files: a changed
study reruns exactly the jobs whose dictionary changed. How a machine runs a job is not among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Protocol

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.models import devices
from beamuq.models.model_folder import model_identity
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.machine_config import Machine
from beamuq_study.parquet_tables import file_name
from beamuq_study.plan.cells_of_a_study import P_TRUE, SAR, Grid, GridCell
from beamuq_study.plan.code_hashes import code_hash
from beamuq_study.plan.paths import model_folder_name
from beamuq_study.stages.decisions_of_scores import DecisionSettings
from beamuq_study.stages.metrics_of_scores import EvaluationSettings
from beamuq_study.stages.score_all_methods import ScoringSettings
from beamuq_study.study_config import Quality

Settings = dict[str, Any]
Device = Literal["auto", "cpu", "cuda"]
Dtype = Literal["auto", "float32", "bfloat16"]

# Raised by hand when the output of a rule would change whose code is, on purpose, not among its inputs: the expensive
# rules, and those before them, since Snakemake runs again whatever follows from a job that wrote the same bytes.
FORMATS = {"questions": 2, "prompts": 1, "candidates": 3, "judgements": 2, "similarity": 2, "quality": 1}

MINILM = "embedding:packaged:all-minilm-l6-v2"  # which the command line calls minilm


class Wildcards(Protocol):
    """A rule's wildcards; which ones are there depends on the rule."""

    def __getattr__(self, name: str) -> str: ...


@dataclass(frozen=True)
class StageSettings:
    """What the study ``grid`` says of the jobs of each rule; a method is called like its rule."""

    machine: Machine
    grid: Grid

    # -- fetching, questions and prompts -------------------------------------------------------------------------

    def fetch_model(self, wildcards: Wildcards) -> Settings:
        sources = {model_folder_name(source): source for source in self.grid.model_uses}
        if wildcards.folder not in sources:
            raise BeamUQError(f"no model, scorer or quality of this study is called {wildcards.folder!r}")
        return {"source": sources[wildcards.folder]}

    def fetch_dataset(self, wildcards: Wildcards) -> Settings:
        dataset = self.grid.study.datasets[wildcards.dataset]
        return {
            "source": dataset.source,
            "config": dataset.config,
            "adapter": dataset.adapter,
            "split": wildcards.split,
        }

    def questions(self, wildcards: Wildcards) -> Settings:
        dataset = self.grid.study.datasets[wildcards.dataset]
        return {
            "dataset": wildcards.dataset,
            "adapter": dataset.adapter,
            "seed": self.grid.study.seed,
            "questions": dataset.questions,
            "few_shot": dataset.few_shot,
        }

    # -- decoding and what is asked of its answers ---------------------------------------------------------------

    def candidates(self, wildcards: Wildcards) -> Settings:
        study, cell = self.grid.study, self.cell(wildcards)
        model, recipe = study.models[cell.model], study.recipes[cell.recipe]
        return {
            "cell": {"model": cell.model, "dataset": cell.dataset, "recipe": cell.recipe},
            "recipe": recipe.searched(),
            "questions": cell.questions,
            "max_new_tokens": study.datasets[cell.dataset].max_new_tokens,
            "newline_stops": study.newline_stops,
            "merge_stop_tokens": recipe.merge_stop_tokens,
            "seed": study.seed,
            "batch_questions": recipe.batch_questions or study.batch_questions,
            "style": model.style,
            "enable_thinking": model.enable_thinking,
            "format": FORMATS["candidates"],
        }

    def similarity(self, wildcards: Wildcards) -> Settings:
        cell = self.cell(wildcards)
        only_with_answer = list(self.grid.only_with_answer(cell.recipe))
        return {
            "name": wildcards.scorer,
            "kind": self.grid.study.scorers[wildcards.scorer].kind,
            "answer_source": list(self.grid.produced_answers(cell.recipe)),
            "beam": self.grid.decoded(self.grid.study.main.beam, cell.recipe),
            **({"only_with_answer": only_with_answer} if only_with_answer else {}),
            "format": FORMATS["similarity"],
        }

    def quality(self, wildcards: Wildcards) -> Settings:
        cell = self.cell(wildcards)
        adapter = self.grid.study.datasets[cell.dataset].adapter
        return {
            "metric": self.quality_called(wildcards.metric).metric,
            "normalizer": "coqa" if adapter == "coqa" else "triviaqa",
            "answer_source": list(self.grid.produced_answers(cell.recipe)),
            "beam": self.grid.decoded(self.grid.study.main.beam, cell.recipe),
            "format": FORMATS["quality"],
        }

    def judgements(self, wildcards: Wildcards) -> Settings:
        study, main, cell = self.grid.study, self.grid.study.main, self.cell(wildcards)
        model, judges = study.models[cell.model], self._judges(cell)
        ccp, relevance = judges.get("nli"), judges.get("relevance")
        return {
            "answer_source": list(self.grid.produced_answers(cell.recipe)),
            "beam": self.grid.decoded(main.beam, cell.recipe),
            "sample": self.grid.decoded(main.sample, cell.recipe),
            "style": model.style,
            "enable_thinking": model.enable_thinking,
            "p_true": P_TRUE in self.grid.judgements_of(cell.recipe),
            "ccp": {"kind": ccp.kind, "equivalence_threshold": ccp.equivalence_threshold} if ccp else None,
            "relevance": {"kind": relevance.kind} if relevance else None,
            "format": FORMATS["judgements"],
        }

    # -- scores and their evaluation -----------------------------------------------------------------------------

    def scores(self, wildcards: Wildcards) -> Settings:
        study, main, cell = self.grid.study, self.grid.study.main, self.cell(wildcards)
        scoring = study.scoring[cell.recipe]
        settings = {
            "methods": scoring.methods,
            "answer_source": list(self.grid.produced_answers(cell.recipe)),
            "main": {
                "sample": self.grid.decoded(main.sample, cell.recipe),
                "beam": self.grid.decoded(main.beam, cell.recipe),
            },
            "num_candidates": main.num_candidates,
            "alpha": main.alpha,
            "epsilon": main.epsilon,
            "equivalence_threshold": study.scorers[wildcards.scorer].equivalence_threshold,
            "sar_similarity": "file" if SAR in self.grid.judgements_of(cell.recipe) else None,
            "recipe": cell.recipe,
            "estimators": self.grid.estimators_of(cell.recipe, scoring.estimators),
            "seed": study.seed,
            "ablations": {
                "epsilon": scoring.epsilon,
                "alpha": scoring.alpha,
                "K": scoring.fixed_k,
                "budgets": scoring.budgets,
                "strategies": study.recipes[cell.recipe].strategies()[1:] if scoring.every_strategy else [],
            },
        }
        return ScoringSettings.model_validate(settings, strict=False).model_dump(mode="json")

    def evaluation(self, wildcards: Wildcards) -> Settings:
        study, cell = self.grid.study, self.cell(wildcards)
        quality, *further = study.qualities(cell.dataset)
        settings = study.evaluation.model_dump() | {
            "quality": quality.metric,
            "threshold": quality.threshold,
            "further_qualities": {of.metric: of.threshold for of in further},
            "seed": study.seed,
        }
        return EvaluationSettings.model_validate(settings, strict=False).model_dump(mode="json")

    def decisions(self, wildcards: Wildcards) -> Settings:
        study, cell = self.grid.study, self.cell(wildcards)
        scorer, quality = study.scorers[wildcards.scorer], study.main_quality
        similarity = f"{scorer.kind}:{scorer.source}" if scorer.source else scorer.kind
        settings = {
            "quality": quality.metric,
            "threshold": quality.threshold,
            "risks": study.decisions.risks,
            "guarantee": study.decisions.confidence,
            "resamples": study.evaluation.resamples,
            "confidence": study.evaluation.confidence,
            "seed": study.seed,
            "similarity": "minilm" if similarity == MINILM else similarity,
            "model": study.models[cell.model].source,
        }
        return DecisionSettings.model_validate(settings, strict=False).model_dump(mode="json")

    def main_beam(self, wildcards: Wildcards) -> str | None:
        """The main beam search, where the cell's recipe decodes it."""
        return self.grid.decoded(self.grid.study.main.beam, wildcards.recipe)

    # -- what exhibits and pages are told, and their code ----------------------------------------------------------

    def study(self, wildcards: Wildcards) -> Settings:  # noqa: ARG002  (as every rule's)
        """The study in its own order, without what cannot change what exhibits and pages say."""
        seen = self.grid.study.model_dump(
            mode="json",
            exclude={"exhibits": True, "batch_questions": True, "recipes": {"__all__": {"batch_questions"}}},
        )
        return seen | {"exhibits": [], "batch_questions": 1}

    def exhibit_code(self, wildcards: Wildcards) -> str:
        """The code that makes an exhibit: of its rule's program and of the module that specifies it."""
        exhibit = list_of_exhibits.exhibit(wildcards.name, self.grid.study)
        return code_hash(exhibit.kind, exhibit.module)

    # -- which tables a job may read -------------------------------------------------------------------------------

    def made_with(self, *inputs: str) -> Callable[[Wildcards], dict[str, Settings]]:
        """The parameter function of a rule: the settings that each of these inputs has to be made with, by its name.

        ``inputs``: kinds of tables, and ``cross_similarity``, ``further_qualities``; what a cell lacks is left out.
        """
        return lambda wildcards: {name: of for kind in inputs for name, of in self._made_with(kind, wildcards)}

    def _made_with(self, kind: str, wildcards: Wildcards) -> list[tuple[str, Settings]]:
        if kind in ("questions", "shots"):
            return [(kind, self.questions(wildcards))]
        cell, needs = self.cell(wildcards), self.grid.judgements_of(wildcards.recipe)
        here = {name: getattr(wildcards, name, "") for name in ("model", "dataset", "recipe", "scorer")}

        def of(**further: str) -> Any:
            return SimpleNamespace(**here | further)

        if kind == "judgements" and not needs:
            return []
        if kind == "cross_similarity":
            judge = self.grid.judges_of(cell.recipe).get("relevance")
            return [(kind, self.similarity(of(scorer=judge)))] if judge else []
        main, *further = self.grid.study.qualities(cell.dataset)
        if kind == "further_qualities":
            return [(f"quality {each.metric}", self.quality(of(metric=file_name(each.metric)))) for each in further]
        settings_of: Callable[[Any], Settings] = getattr(self, kind)
        return [(kind, settings_of(of(metric=file_name(main.metric))))]

    # -- models and what they run on ---------------------------------------------------------------------------------

    def loading(self, rule: str) -> Callable[[Wildcards], Settings]:
        """The parameter function of a rule that loads models: device, dtype, and the content of each own folder.

        ``content``: a hash of the content of each model that is a folder of one's own, by the rule's name for it.
        """

        def of_wildcards(wildcards: Wildcards) -> Settings:
            sources = self.sources(rule, wildcards)
            whole = self._read_whole(rule, wildcards)
            own = {name: source for name, source in sources.items() if source and source.startswith("folder:")}
            content = {name: self._content(source, name in whole) for name, source in own.items()}
            settings: Settings = {"device": self.device, "dtype": self.dtype, "content": content}
            if rule in ("similarity", "quality"):
                settings["dtype"] = self.machine.scorer_dtype
            if rule == "judgements" and self.machine.scorer_dtype != self.dtype:
                settings["scorer_dtype"] = self.machine.scorer_dtype
            return settings

        return of_wildcards

    def sources(self, rule: str, wildcards: Wildcards) -> dict[str, str | None]:
        """Where the models come from that a job of this rule loads, by the rule's name for each; None: not loaded."""
        study = self.grid.study
        if rule == "similarity":
            return {"model": study.scorers[wildcards.scorer].source}
        if rule == "quality":
            quality = self.quality_called(wildcards.metric)
            return {"model": quality.source, "backbone": quality.backbone}
        cell = self.cell(wildcards)
        model = study.models[cell.model].source
        if rule == "judgements":
            needs = self.grid.judgements_of(cell.recipe)
            judges = {use: judge.source for use, judge in self._judges(cell).items()}
            return {"language_model": model if {P_TRUE, SAR} & needs else None, "nli": None, "relevance": None} | judges
        return {"model": model}

    def plugin_names(self, rule: str, wildcards: Wildcards) -> list[str]:
        """What a job of this rule may have from outside the package: scorers, metrics, policies, methods."""
        study = self.grid.study
        if rule == "similarity":
            return [study.scorers[wildcards.scorer].kind]
        if rule == "quality":
            return [self.quality_called(wildcards.metric).metric]
        cell = self.cell(wildcards)
        if rule == "judgements":
            return [judge.kind for judge in self._judges(cell).values()]
        if rule == "scores":
            return list(study.scoring[cell.recipe].methods)
        return [search.policy for search in study.recipes[cell.recipe].custom or ()]

    def quality_called(self, name: str) -> Quality:
        """The study's quality whose metric has this name in paths."""
        return next(quality for quality in self.grid.study.quality if file_name(quality.metric) == name)

    def cell(self, wildcards: Wildcards) -> GridCell:
        """The cell of a rule's wildcards. Raises BeamUQError if the study has none such."""
        return self.grid.cell(wildcards.model, wildcards.dataset, wildcards.recipe)

    @cached_property
    def device(self) -> Device:
        """What models run on, "auto" settled by what is here."""
        if self.machine.device != "auto":
            return self.machine.device
        return "cuda" if devices.present() == "cuda" else "cpu"

    @cached_property
    def dtype(self) -> Dtype:
        """What language models run in: bfloat16 on a card, float32 on a CPU, unless said otherwise."""
        if self.machine.dtype != "auto":
            return self.machine.dtype
        return "bfloat16" if self.device == "cuda" else "float32"

    def _judges(self, cell: GridCell) -> dict[str, Any]:
        return {use: self.grid.study.scorers[name] for use, name in self.grid.judges_of(cell.recipe).items()}

    def _read_whole(self, rule: str, wildcards: Wildcards) -> set[str]:
        """The models of which every file counts: those of plug-ins and of quality metrics."""
        if rule == "quality":
            return {"model", "backbone"}
        if rule == "similarity":
            return plugins.among(model=self.grid.study.scorers[wildcards.scorer].kind)
        if rule == "judgements":
            return plugins.among(**{use: judge.kind for use, judge in self._judges(self.cell(wildcards)).items()})
        return set()

    def _content(self, source: str, every_file: bool) -> str:
        if (source, every_file) not in self._contents:
            identity = model_identity(Path(source.removeprefix("folder:")), every_file=every_file)
            self._contents[source, every_file] = identity["content"]
        return self._contents[source, every_file]

    @cached_property
    def _contents(self) -> dict[tuple[str, bool], str]:
        return {}
