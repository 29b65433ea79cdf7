"""The settings of every rule's jobs, as plain dictionaries.

Snakemake compares plain dictionaries, and what they say is all that can change a result beside the
files: a changed study reruns exactly the jobs whose dictionary changed. How a machine runs a job is
not among them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal, Protocol, cast

from beamuq.errors import BeamUQError
from beamuq.models import devices
from beamuq.models.model_folder import (
    content_of,
    content_without_weights,
    model_identity,
    read_manifest,
)
from beamuq.scorers.named_options import GOLD_LABEL
from beamuq.scorers.quality_metrics import FOLDED
from beamuq.strategy_names import FOR_ESTIMATORS, kind_of
from beamuq_study.data.dataset_adapters import normalizer_of
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.grid import P_TRUE, SAR, Cell, Grid, questions_asked
from beamuq_study.machine_config import Machine
from beamuq_study.parquet_tables import file_name
from beamuq_study.plan.code_hashes import code_hash
from beamuq_study.plan.paths import model_folder_name
from beamuq_study.provenance import MODELS, OF_MODELS, recorded_source
from beamuq_study.stages.beams_map import MapSettings
from beamuq_study.stages.decisions_of_scores import DecisionSettings
from beamuq_study.stages.metrics_of_scores import EvaluationSettings
from beamuq_study.stages.score_all_methods import ScoringSettings, compare_candidates
from beamuq_study.study_config import TURNS, Model, Quality, Scorer, Study

Settings = dict[str, Any]

# Raised by hand when the output of a rule would change whose code is, on purpose, not among its
# inputs: the expensive rules, and those before them, since Snakemake runs again whatever follows
# from a job that wrote the same bytes.
FORMATS = {
    "questions": 2,
    "prompts": 1,
    "candidates": 3,
    "judgements": 2,
    "similarity": 2,
    "quality": 1,
}
FORMATS |= {GOLD_LABEL: 2}  # of quality, by this metric

DTYPES: dict[str, Literal["float32", "bfloat16"]] = {"cpu": "float32", "cuda": "bfloat16"}
"""What ``dtype: auto`` is for language models on each device."""
DEVICES = tuple(DTYPES)

LANGUAGE_MODEL = {"candidates": "model", "judgements": "language_model"}
"""By table, what its rule calls the language model."""

MINILM = "embedding:packaged:all-minilm-l6-v2"  # which the command line calls minilm


class Wildcards(Protocol):
    """A rule's wildcards; which ones are there depends on the rule."""

    def __getattr__(self, name: str) -> str: ...


@dataclass(frozen=True)
class StageSettings:
    """What the study ``grid`` says of the jobs of each rule; a method is called like its rule."""

    machine: Machine
    grid: Grid

    @property
    def study(self) -> Study:
        return self.grid.study

    # -- fetching, questions and prompts -----------------------------------------------------------

    def fetch_model(self, wildcards: Wildcards) -> Settings:
        sources = {model_folder_name(source): source for source in self.grid.model_sources}
        if wildcards.folder not in sources:
            raise BeamUQError(
                f"no model, scorer or quality of this study is called {wildcards.folder!r}"
            )
        source = sources[wildcards.folder]
        settings: Settings = {"source": source}
        # what is packaged comes whole
        if source.startswith("hub:") and source not in self.grid.sources_of_weights:
            settings["weights"] = False
        return settings

    def fetch_dataset(self, wildcards: Wildcards) -> Settings:
        dataset = self.study.datasets[wildcards.dataset]
        return _picked(dataset, "source", "config", "adapter") | {"split": wildcards.split}

    def questions(self, wildcards: Wildcards) -> Settings:
        dataset = self.study.datasets[wildcards.dataset]
        place = {"dataset": wildcards.dataset, "adapter": dataset.adapter, "seed": self.study.seed}
        turns = {key: getattr(dataset, key) for key in TURNS if getattr(dataset, key) is not None}
        return place | _picked(dataset, "questions", "few_shot") | turns

    # -- decoding and what is asked of its answers -------------------------------------------------

    def candidates(self, wildcards: Wildcards) -> Settings:
        study = self.study
        cell = self.cell(wildcards)
        recipe = study.recipes[cell.recipe]
        model = study.models[cell.model]
        # keys that came later stand only where they say something: jobs of before are not run again
        return {
            **({} if model.temperature is None else {"temperature": model.temperature}),
            **({} if study.newline_stops else {"texts": "whole"}),
            **_server(model),
            "cell": _picked(cell, "model", "dataset", "recipe"),
            "recipe": recipe.searched(),
            "questions": questions_asked(study, cell),
            "max_new_tokens": study.datasets[cell.dataset].max_new_tokens,
            "newline_stops": study.newline_stops,
            "merge_stop_tokens": recipe.merge_stop_tokens,
            "seed": study.seed,
            "batch_questions": recipe.batch_questions or study.batch_questions,
            **_picked(model, "style", "enable_thinking"),
            "format": FORMATS["candidates"],
        }

    def similarity(self, wildcards: Wildcards) -> Settings:
        settings = {"name": wildcards.scorer, "kind": self.study.scorers[wildcards.scorer].kind}
        only_with_answer = self._only_with_answer(wildcards.recipe)
        further: Settings = {"only_with_answer": only_with_answer} if only_with_answer else {}
        further |= self._words(settings["kind"], wildcards)
        return settings | self._answers(wildcards) | further | {"format": FORMATS["similarity"]}

    def _only_with_answer(self, recipe: str) -> list[str]:
        """Strategies of a recipe whose candidates are compared with the produced answer alone.

        All of them, where no method compares candidates with each other; else those that only
        estimators read.
        """
        strategies = self.study.recipes[recipe].strategies()
        scoring = self.study.scoring[recipe]
        if not compare_candidates(scoring.methods):
            return strategies
        if scoring.every_strategy:
            return []
        return [strategy for strategy in strategies if kind_of(strategy) in FOR_ESTIMATORS]

    def quality(self, wildcards: Wildcards) -> Settings:
        metric = self.quality_called(wildcards.metric).metric
        normalizer = normalizer_of(self.study.datasets[wildcards.dataset])
        settings = {"metric": metric, "normalizer": normalizer} | self._answers(wildcards)
        return settings | {"format": FORMATS[GOLD_LABEL if metric == GOLD_LABEL else "quality"]}

    def judgements(self, wildcards: Wildcards) -> Settings:
        judges = self._judges(wildcards.recipe)
        return {
            **self._answers(wildcards),
            "sample": self.study.recipes[wildcards.recipe].decoded(self.study.main.sample),
            **_server(self.study.models[wildcards.model]),
            **_picked(self.study.models[wildcards.model], "style", "enable_thinking"),
            "p_true": P_TRUE in self.grid.judgements_of(wildcards.recipe),
            "ccp": self._judge(judges.get("nli"), wildcards, "kind", "equivalence_threshold"),
            "relevance": self._judge(judges.get("relevance"), wildcards, "kind"),
            "format": FORMATS["judgements"],
        }

    def _judge(self, judge: Scorer | None, wildcards: Wildcards, *names: str) -> Settings | None:
        return _picked(judge, *names) | self._words(judge.kind, wildcards) if judge else None

    def _words(self, kind: str, wildcards: Wildcards) -> Settings:
        """Other words for ``lexical`` than ROUGE's, which the paper's datasets keep."""
        folded = normalizer_of(self.study.datasets[wildcards.dataset]) == FOLDED
        return {"words": FOLDED} if kind == "lexical" and folded else {}

    def _answers(self, wildcards: Wildcards) -> Settings:
        """The produced answers of a cell, and the search that top_beam is the first of."""
        produced = list(self.grid.produced_answers(self.cell(wildcards).recipe))
        return {"answer_source": produced, "beam": self.main_beam(wildcards)}

    # -- scores and their evaluation ---------------------------------------------------------------

    def scores(self, wildcards: Wildcards) -> Settings:
        main = self.study.main
        recipe = wildcards.recipe
        scoring = self.study.scoring[recipe]
        answers = self._answers(wildcards)
        strategies = self.study.recipes[recipe].strategies()[1:] if scoring.every_strategy else []
        ablations = _picked(scoring, "epsilon", "alpha", "budgets", "powers")
        settings = _picked(main, "num_candidates", "alpha", "epsilon") | {
            "methods": scoring.methods,
            "answer_source": answers["answer_source"],
            "main": {
                "sample": self.study.recipes[recipe].decoded(main.sample),
                "beam": answers["beam"],
            },
            "equivalence_threshold": self.study.scorers[wildcards.scorer].equivalence_threshold,
            "recipe": recipe,
            "estimators": self.grid.estimators_of(recipe, scoring.estimators),
            "seed": self.study.seed,
            "ablations": ablations | {"K": scoring.fixed_k, "strategies": strategies},
            "every_draw": scoring.every_draw,
        }
        # a key that came later stands only where it says something, as of candidates
        left_out = set() if scoring.every_draw else {"every_draw"}
        checked = ScoringSettings.model_validate(settings, strict=False)
        return checked.model_dump(mode="json", exclude=left_out)

    def evaluation(self, wildcards: Wildcards) -> Settings:
        quality, *further = self.study.qualities(self.cell(wildcards).dataset)
        settings = self.study.evaluation.model_dump() | {
            "quality": quality.metric,
            "threshold": quality.threshold,
            "further_qualities": {metric.metric: metric.threshold for metric in further},
            "seed": self.study.seed,
        }
        return EvaluationSettings.model_validate(settings, strict=False).model_dump(mode="json")

    def beams_map(self, wildcards: Wildcards) -> Settings:
        study = self.study
        cell = self.cell(wildcards)
        settings = study.map_settings(cell.recipe, cell.dataset)
        if not settings:
            raise BeamUQError(f"scoring.{cell.recipe}: has no beams_map; add one there")
        settings |= {
            "quality": study.main_quality.metric,
            "confidence": study.evaluation.confidence,
        }
        return MapSettings.model_validate(settings | {"seed": study.seed}, strict=False).model_dump(
            mode="json"
        )

    def decisions(self, wildcards: Wildcards) -> Settings:
        scorer = self.study.scorers[wildcards.scorer]
        quality = self.study.main_quality
        similarity = f"{scorer.kind}:{scorer.source}" if scorer.source else scorer.kind
        settings = _picked(self.study.evaluation, "resamples", "confidence") | {
            "quality": quality.metric,
            "threshold": quality.threshold,
            "risks": self.study.decisions.risks,
            "guarantee": self.study.decisions.confidence,
            "seed": self.study.seed,
            "similarity": "minilm" if similarity == MINILM else similarity,
            "model": self.study.models[self.cell(wildcards).model].source,
        }
        return DecisionSettings.model_validate(settings, strict=False).model_dump(mode="json")

    def main_beam(self, wildcards: Wildcards) -> str | None:
        """The main beam search, where the cell's recipe decodes it."""
        return self.study.recipes[wildcards.recipe].decoded(self.study.main.beam)

    def exhibit_code(self, wildcards: Wildcards) -> str:
        """The hash of the code of an exhibit: its rule's program, and the module that lists it."""
        exhibit = list_of_exhibits.exhibit(wildcards.name, self.study)
        return code_hash(exhibit.kind, exhibit.module)

    # -- which tables a job may read ---------------------------------------------------------------

    def made_with(self, *inputs: str) -> Callable[[Wildcards], dict[str, Settings]]:
        """The parameter function of a rule: the settings that each input has to be made with.

        ``inputs``: kinds of tables, and ``cross_similarity``, ``further_qualities``; what a cell
        lacks is left out.
        """

        def of_wildcards(wildcards: Wildcards) -> dict[str, Settings]:
            by_name: dict[str, Settings] = {}
            for kind in inputs:
                by_name |= self._made_with(kind, wildcards)
            return by_name

        return of_wildcards

    def expected(self, *inputs: str) -> Callable[..., dict[str, Settings]]:
        """As :meth:`made_with`, with the models that made each input, as far as they are known.

        These are source and dtype, and the content where the folder is one's own or has been
        fetched. It holds for tables behind the inputs too, so kinds may be named that the job does
        not read. Snakemake does not compare it, since it asks for the output: what it names reruns
        the job that makes the table.
        """

        def of_wildcards(wildcards: Wildcards, output: object) -> dict[str, Settings]:  # noqa: ARG001
            by_name = self.made_with(*inputs)(wildcards)
            return {
                name: settings | self._made_by(name, settings, wildcards)
                for name, settings in by_name.items()
            }

        return of_wildcards

    def _made_by(self, name: str, settings: Settings, wildcards: Wildcards) -> Settings:
        """The models of a table that a job calls ``name``, and their dtype by device."""
        kind = name.removeprefix("cross_").partition(" ")[0]
        if kind not in OF_MODELS:
            return {}
        cell = self.cell(wildcards).under(settings.get("name", ""))
        sources = self.models(kind, _wildcards(cell, settings.get("metric", "")))
        models = {
            use: self._identity(kind, source, used_as)
            for use, (source, used_as) in sources.items()
            if source
        }
        if kind in ("similarity", "quality"):
            return {MODELS: models, "dtype": dict.fromkeys(DEVICES, self.machine.scorer_dtype)}
        language_model = self.study.models[cell.model]
        if language_model.is_served:
            use = LANGUAGE_MODEL[kind]
            served = {use: recorded_source(language_model.source)} if use in models else {}
            judged_in = dict.fromkeys(DEVICES, self.machine.scorer_dtype)
            return {MODELS: models | served, "dtype": judged_in}
        dtype = self.machine.dtype
        dtypes = {device: DTYPES[device] if dtype == "auto" else dtype for device in DEVICES}
        facts = {MODELS: models, "dtype": dtypes}
        if kind == "judgements":
            facts["scorer_dtype"] = dict.fromkeys(DEVICES, self.machine.scorer_dtype)
        return facts

    def _identity(self, kind: str, source: str, used_as: str) -> dict[str, str]:
        """The source of a model and, if it is here, the content, as tables record them."""
        identity = recorded_source(source)
        if source.startswith("folder:"):
            folder = Path(source.removeprefix("folder:"))
            if folder.is_dir():
                identity["content"] = self._content(folder, _reads_every_file(kind, used_as))
            return identity
        content = self._fetched(source)
        return identity | ({"content": content} if content else {})

    def _made_with(self, kind: str, wildcards: Wildcards) -> dict[str, Settings]:
        """The settings of a job's inputs of one kind, by the job's name for each."""
        if kind in ("questions", "shots"):
            return {kind: self.questions(wildcards)}
        cell = self.cell(wildcards)
        main, *further = self.study.qualities(cell.dataset)
        if kind == "judgements" and not self.grid.judgements_of(cell.recipe):
            return {}
        if kind == "cross_similarity":
            judge = self.grid.judges_of(cell.recipe).get("relevance")
            return {kind: self.similarity(_wildcards(cell.under(judge)))} if judge else {}
        if kind == "further_qualities":
            return {
                f"quality {quality.metric}": self.quality(_wildcards(cell, quality.metric))
                for quality in further
            }
        cell = cell.under(getattr(wildcards, "scorer", ""))
        settings: Settings = getattr(self, kind)(_wildcards(cell, main.metric))
        # rounding alone: what a larger card decoded goes with the rest
        settings.pop("batch_questions", None)
        return {kind: settings}

    # -- models and what they run on ---------------------------------------------------------------

    def loading(self, rule: str) -> Callable[[Wildcards], Settings]:
        """The parameter function of rules that load models: device, dtype, content of folders.

        Where a server holds the only model there is no device.
        """

        def of_wildcards(wildcards: Wildcards) -> Settings:
            served = self.served_use(rule, wildcards)
            content = {}
            for name, (source, used_as) in self.models(rule, wildcards).items():
                if not source or not source.startswith("folder:"):
                    continue
                folder = Path(source.removeprefix("folder:"))
                if name == served:
                    content[name] = self._content_without_weights(folder)
                else:
                    content[name] = self._content(folder, _reads_every_file(rule, used_as))
            if served and not self.loaded(rule, wildcards):
                return {"content": content}
            # beside a server only judges are loaded
            runs_judges_alone = served or rule in ("similarity", "quality")
            dtype = self.machine.scorer_dtype if runs_judges_alone else self.dtype
            settings: Settings = {"device": self.device, "dtype": dtype, "content": content}
            if rule == "judgements" and self.machine.scorer_dtype != dtype:
                settings["scorer_dtype"] = self.machine.scorer_dtype
            return settings

        return of_wildcards

    def served_use(self, rule: str, wildcards: Wildcards) -> str | None:
        """What a rule calls the language model of a cell that a server holds; None: none does."""
        use = LANGUAGE_MODEL.get(rule.removesuffix("_shard"))
        return use if use and self.study.models[wildcards.model].is_served else None

    def loaded(self, rule: str, wildcards: Wildcards) -> list[str]:
        """What a rule calls the models that its job loads: none that a server holds."""
        served = self.served_use(rule, wildcards)
        models = self.models(rule, wildcards)
        return [use for use, (source, _) in models.items() if source and use != served]

    def models(self, rule: str, wildcards: Wildcards) -> dict[str, tuple[str | None, str]]:
        """By the rule's name for each model its source, and the scorer or metric.

        The source is None where the job does not load that model; of a served one it is that of its
        tokenizer.
        """
        study = self.study
        if rule == "similarity":
            scorer = study.scorers[wildcards.scorer]
            return {"model": (scorer.source, scorer.kind)}
        if rule == "quality":
            quality = self.quality_called(wildcards.metric)
            return {
                "model": (quality.source, quality.metric),
                "backbone": (quality.backbone, quality.metric),
            }
        cell = self.cell(wildcards)
        source = study.models[cell.model].folder_source
        if rule == "judgements":
            asks_language_model = {P_TRUE, SAR} & self.grid.judgements_of(cell.recipe)
            judges = {
                use: (judge.source, judge.kind) for use, judge in self._judges(cell.recipe).items()
            }
            return {
                "language_model": (source if asks_language_model else None, ""),
                "nli": (None, ""),
                "relevance": (None, ""),
            } | judges
        return {"model": (source, "")}

    def plugin_names(self, rule: str, wildcards: Wildcards) -> list[str]:
        """What a job of this rule may have from outside the package."""
        study = self.study
        if rule == "scores":
            return list(study.scoring[wildcards.recipe].methods)
        if rule == "candidates":
            return [search.policy for search in study.recipes[wildcards.recipe].custom or ()]
        return [used_as for _, used_as in self.models(rule, wildcards).values()]

    def quality_called(self, name: str) -> Quality:
        """The study's quality whose metric has this name in paths."""
        return next(quality for quality in self.study.quality if file_name(quality.metric) == name)

    def cell(self, wildcards: Wildcards) -> Cell:
        """The cell of a rule's wildcards. Raises BeamUQError if the study has none such."""
        return self.grid.cell(wildcards.model, wildcards.dataset, wildcards.recipe)

    @cached_property
    def device(self) -> Literal["cpu", "cuda"]:
        """What models run on, "auto" settled by what is here."""
        if self.machine.device != "auto":
            return self.machine.device
        return "cuda" if devices.present() == "cuda" else "cpu"

    @cached_property
    def dtype(self) -> Literal["float32", "bfloat16"]:
        """What language models run in: bfloat16 on a card, float32 on a CPU, unless named."""
        if self.machine.dtype != "auto":
            return self.machine.dtype
        return DTYPES[self.device]

    def _judges(self, recipe: str) -> dict[str, Scorer]:
        return {use: self.study.scorers[name] for use, name in self.grid.judges_of(recipe).items()}

    @cached_property
    def _content(self) -> Callable[[Path, bool], str]:
        """Of a folder, read once; a plug-in and a learned quality may read every file."""
        return cache(
            lambda folder, every_file: model_identity(folder, every_file=every_file)["content"]
        )

    @cached_property
    def _content_without_weights(self) -> Callable[[Path], str]:
        """Of the folder of a served model's tokenizer, read once."""
        return cache(content_without_weights)

    @cached_property
    def _fetched(self) -> Callable[[str], str | None]:
        """Of a source, read once: the content in its manifest; None: it is not fetched."""

        def content(source: str) -> str | None:
            manifest = read_manifest(Path(self.machine.models_root, model_folder_name(source)))
            return (
                content_of({name: file.sha256 for name, file in manifest.files.items()})
                if manifest
                else None
            )

        return cache(content)


def _server(model: Model) -> Settings:
    """The name of a model's server; nothing of one that jobs load."""
    return {"server": model.server} if model.is_served else {}


def _reads_every_file(rule: str, used_as: str) -> bool:
    """Whether a model's every file counts: a learned quality and a plug-in may read any."""
    return rule == "quality" or ":" in used_as


def _wildcards(cell: Cell, metric: str = "") -> Wildcards:
    """The wildcards of a rule that makes a table of this cell."""
    names = vars(cell) | {"metric": file_name(metric)}
    return cast("Wildcards", SimpleNamespace(**names))


def _picked(described: object, *names: str) -> Settings:
    return {name: getattr(described, name) for name in names}
