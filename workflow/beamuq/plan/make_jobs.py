"""The job of every rule of one study on one machine: a method a rule, called like it.

A job holds what can change its result and nothing of how a machine runs it, so that Snakemake, which compares it,
reruns exactly the jobs that changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol

from beamuq import plugins
from beamuq.comparison.claims import needed_files
from beamuq.comparison.declared_files import DECLARED_FILES
from beamuq.errors import BeamUQError
from beamuq.evaluation.decisions_of_scores import DecisionSettings
from beamuq.evaluation.metrics_of_scores import EvaluationSettings
from beamuq.exhibits import list_of_exhibits
from beamuq.machine_config import Machine
from beamuq.methods.score_all_methods import ScoringSettings
from beamuq.models import devices
from beamuq.models.model_folder import model_identity
from beamuq.parquet_tables import Artifact, file_name
from beamuq.plan import job_types as types
from beamuq.plan.cells_of_a_study import P_TRUE, SAR, Grid, GridCell
from beamuq.plan.code_inputs import code_hash
from beamuq.plan.paths import Paths, model_folder_name, shard_benchmarks
from beamuq.study_config import PROMPTS, Quality

# Raised by hand when the output of a rule would change whose code is, on purpose, not among its inputs: the expensive
# rules, and those before them, since Snakemake runs again whatever follows from a job that wrote the same bytes.
FORMATS = {"questions": 2, "prompts": 1, "candidates": 2, "statistics": 2, "similarity": 2, "quality": 1}

READERS = ("prompts", "similarity", "quality", "statistics", "scores", "evaluation", "decisions")
MINILM = "embedding:packaged:all-minilm-l6-v2"  # which the command line calls minilm
MADE_BY = {name: name for name in ("questions", "candidates", "similarity", "statistics", "scores", "quality")} | {
    "shots": "questions",
    "cross_similarity": "similarity",
}  # inputs of these, by the rule whose job wrote them


class SnakemakeWildcards(Protocol):
    """A rule's wildcards; which ones are there depends on the rule."""

    def __getattr__(self, name: str) -> str: ...


@dataclass(frozen=True)
class Jobs:
    """Every job of a study; ``wildcards`` are those of the rule that a method is called like."""

    machine: Machine
    grid: Grid
    paths: Paths

    # -- fetching ------------------------------------------------------------------------------------------------

    def fetch_model(self, wildcards: SnakemakeWildcards) -> types.FetchModelJob:
        sources = {model_folder_name(source): source for source in self.grid.model_uses}
        if wildcards.folder not in sources:
            raise BeamUQError(
                f"{self.paths.study_file}: no model, scorer or quality of this study is called {wildcards.folder!r}"
            )
        return types.FetchModelJob(source=sources[wildcards.folder], **self.paths.outputs("fetch_model", wildcards))

    def fetch_dataset(self, wildcards: SnakemakeWildcards) -> types.FetchDatasetJob:
        dataset = self.grid.study.datasets[wildcards.dataset]
        return types.FetchDatasetJob(
            source=dataset.source,
            config=dataset.config,
            adapter=dataset.adapter,
            split_name=wildcards.split,
            **self.paths.outputs("fetch_dataset", wildcards),
        )

    @property
    def fetched(self) -> list[Path]:
        """Every model, scorer and dataset split that has to be brought here."""
        files = [self.paths.model_manifest(source) for source in self.grid.model_uses if not _is_folder(source)]
        for key in self.grid.datasets:
            if self.paths.is_fetched(self.grid.study.datasets[key]):
                files += self.paths.splits(self.grid.study, key).values()
        return sorted(set(files))

    # -- questions and prompts -----------------------------------------------------------------------------------

    def questions(self, wildcards: SnakemakeWildcards) -> types.QuestionsJob:
        dataset = self.grid.study.datasets[wildcards.dataset]
        return types.QuestionsJob(
            settings=types.QuestionsSettings(
                dataset=wildcards.dataset,
                adapter=dataset.adapter,
                seed=self.grid.study.seed,
                questions=dataset.questions,
                few_shot=dataset.few_shot,
            ),
            format=FORMATS["questions"],
            **self.paths.splits(self.grid.study, wildcards.dataset),
            **self.paths.outputs("questions", wildcards),
        )

    def prompts(self, wildcards: SnakemakeWildcards) -> types.PromptsJob:
        template = PROMPTS / wildcards.style / f"{self.grid.study.datasets[wildcards.dataset].adapter}.txt"
        return types.PromptsJob(
            template=_relative(template),
            settings=types.PromptsSettings.model_validate({"style": wildcards.style, "dataset": wildcards.dataset}),
            format=FORMATS["prompts"],
            **self.paths.outputs("questions", wildcards),
            **self.paths.outputs("prompts", wildcards),
        )

    # -- decoding and what is asked of its answers ---------------------------------------------------------------

    def candidates(self, wildcards: SnakemakeWildcards) -> types.CandidatesJob:
        """The whole cell; where decoding is cut into shards, what puts them together."""
        job, count = types.CandidatesJob(**self._decoding("candidates", wildcards)), self.machine.shards
        shards = (job.candidates.with_suffix(".shards") / f"{k}-of-{count}.parquet" for k in range(1, count + 1))
        return job.model_copy(
            update={
                "shards": tuple(shards) if count > 1 else (),
                "shard_benchmarks": shard_benchmarks(self.paths.results, self._cell(wildcards).table("candidates")),
            }
        )

    def candidates_shard(self, wildcards: SnakemakeWildcards) -> types.CandidatesShardJob:
        return types.CandidatesShardJob(**self._decoding("candidates_shard", wildcards), shard=wildcards.shard)

    def _decoding(self, rule: str, wildcards: SnakemakeWildcards) -> dict[str, Any]:
        study, cell = self.grid.study, self._cell(wildcards)
        model, recipe = study.models[cell.model], study.recipes[cell.recipe]
        return {
            "prompts": self.paths.table(Artifact("prompts", style=model.style, dataset=cell.dataset)),
            "model": self.paths.model_manifest(model.source),
            "settings": types.CandidatesSettings(
                cell={"model": cell.model, "dataset": cell.dataset, "recipe": cell.recipe},
                recipe=recipe.searched(),
                questions=cell.questions,
                max_new_tokens=study.datasets[cell.dataset].max_new_tokens,
                newline_stops=study.newline_stops,
                merge_stop_tokens=recipe.merge_stop_tokens,
                seed=study.seed,
                batch_questions=recipe.batch_questions or study.batch_questions,
                style=model.style,
                enable_thinking=model.enable_thinking,
                format=FORMATS["candidates"],
            ),
            "device": self.device,
            "dtype": self.dtype,
            "folders": self._folders(set(), model=model.source),
            "rerun_on": _plugin_files(search.policy for search in recipe.custom or ()),
            **self.paths.outputs(rule, wildcards),
        }

    def similarity(self, wildcards: SnakemakeWildcards) -> types.SimilarityJob:
        cell, scorer = self._cell(wildcards), self.grid.study.scorers[wildcards.scorer]
        return types.SimilarityJob(
            candidates=self.paths.table(cell.table("candidates")),
            model=self._model(scorer.source),
            settings=types.SimilaritySettings(
                name=wildcards.scorer,
                kind=scorer.kind,
                source=scorer.source,
                answer_source=self.grid.produced_answers(cell.recipe),
                beam=self.grid.decoded(self.grid.study.main.beam, cell.recipe),
                only_with_answer=self.grid.only_with_answer(cell.recipe),
                format=FORMATS["similarity"],
            ),
            device=self.device,
            dtype=self.machine.scorer_dtype,
            folders=self._folders(plugins.among(model=scorer.kind), model=scorer.source),
            rerun_on=_plugin_files([scorer.kind]),
            **self.paths.outputs("similarity", wildcards),
        )

    def quality(self, wildcards: SnakemakeWildcards) -> types.QualityJob:
        cell, quality = self._cell(wildcards), self.quality_called(wildcards.metric)
        adapter = self.grid.study.datasets[cell.dataset].adapter
        return types.QualityJob(
            questions=self.paths.table(Artifact("questions", dataset=cell.dataset)),
            candidates=self.paths.table(cell.table("candidates")),
            model=self._model(quality.source),
            backbone=self._model(quality.backbone),
            settings=types.QualitySettings(
                metric=quality.metric,
                source=quality.source,
                backbone=quality.backbone,
                normalizer="coqa" if adapter == "coqa" else "triviaqa",
                answer_source=self.grid.produced_answers(cell.recipe),
                beam=self.grid.decoded(self.grid.study.main.beam, cell.recipe),
                format=FORMATS["quality"],
            ),
            device=self.device,
            dtype=self.machine.scorer_dtype,
            folders=self._folders(
                {"model", "backbone"},
                model=quality.source,
                backbone=quality.backbone,
            ),
            rerun_on=_plugin_files([quality.metric]),
            **self.paths.outputs("quality", wildcards),
        )

    def quality_called(self, name: str) -> Quality:
        """The study's quality whose metric has this name in paths."""
        return next(quality for quality in self.grid.study.quality if file_name(quality.metric) == name)

    def statistics(self, wildcards: SnakemakeWildcards) -> types.StatisticsJob:
        """It loads the models that the cell's methods ask, never one that they do not."""
        study, main, cell = self.grid.study, self.grid.study.main, self._cell(wildcards)
        asked, model = self.grid.statistics_of(cell.recipe), self.grid.study.models[cell.model]
        judges = {use: study.scorers[name] for use, name in self.grid.judges_of(cell.recipe).items()}
        ccp, relevance = judges.get("nli"), judges.get("relevance")
        sources = {
            "language_model": model.source if P_TRUE in asked or SAR in asked else None,
            "nli": ccp.source if ccp else None,
            "relevance": relevance.source if relevance else None,
        }
        return types.StatisticsJob(
            questions=self.paths.table(Artifact("questions", dataset=cell.dataset)),
            candidates=self.paths.table(cell.table("candidates")),
            template=_relative(PROMPTS / "p_true.txt") if P_TRUE in asked else None,
            language_model=self._model(sources["language_model"]),
            nli=self._model(sources["nli"]),
            relevance=self._model(sources["relevance"]),
            settings=types.StatisticsSettings(
                answer_source=self.grid.produced_answers(cell.recipe),
                beam=self.grid.decoded(main.beam, cell.recipe),
                sample=self.grid.decoded(main.sample, cell.recipe),
                style=model.style,
                enable_thinking=model.enable_thinking,
                p_true=P_TRUE in asked,
                ccp=types.CcpJudge(kind=ccp.kind, equivalence_threshold=ccp.equivalence_threshold) if ccp else None,
                relevance=types.RelevanceJudge(kind=relevance.kind) if relevance else None,
                format=FORMATS["statistics"],
            ),
            device=self.device,
            dtype=self.dtype,
            scorer_dtype=self.machine.scorer_dtype if self.machine.scorer_dtype != self.dtype else None,
            folders=self._folders(plugins.among(**{use: judge.kind for use, judge in judges.items()}), **sources),
            rerun_on=_plugin_files(judge.kind for judge in judges.values()),
            **self.paths.outputs("statistics", wildcards),
        )

    # -- scores and their evaluation -----------------------------------------------------------------------------

    def scores(self, wildcards: SnakemakeWildcards) -> types.ScoresJob[ScoringSettings]:
        study, main, cell = self.grid.study, self.grid.study.main, self._cell(wildcards)
        scoring, asked = study.scoring[cell.recipe], self.grid.statistics_of(cell.recipe)
        relevance = self.grid.judges_of(cell.recipe).get("relevance")
        settings: dict[str, Any] = {
            "methods": scoring.methods,
            "answer_source": self.grid.produced_answers(cell.recipe),
            "main": {
                "sample": self.grid.decoded(main.sample, cell.recipe),
                "beam": self.grid.decoded(main.beam, cell.recipe),
            },
            "num_candidates": main.num_candidates,
            "alpha": main.alpha,
            "epsilon": main.epsilon,
            "equivalence_threshold": study.scorers[wildcards.scorer].equivalence_threshold,
            "sar_similarity": "file" if SAR in asked else None,
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
        return types.ScoresJob[ScoringSettings](
            questions=self.paths.table(Artifact("questions", dataset=cell.dataset)),
            candidates=self.paths.table(cell.table("candidates")),
            similarity=self.paths.table(cell.table("similarity", scorer=wildcards.scorer)),
            statistics=self.paths.table(cell.table("statistics")) if asked else None,
            cross_similarity=self.paths.table(cell.table("similarity", scorer=relevance)) if relevance else None,
            settings=ScoringSettings.model_validate(settings, strict=False),
            code=code_hash("scores"),
            rerun_on=_plugin_files(scoring.methods),
            **self.paths.outputs("scores", wildcards),
        )

    def evaluation(self, wildcards: SnakemakeWildcards) -> types.EvaluationJob[EvaluationSettings]:
        cell = self._cell(wildcards)
        (quality, *further), (measured, *beside) = self.grid.study.qualities(cell.dataset), self.grid.qualities_of(cell)
        settings = self.grid.study.evaluation.model_dump() | {
            "quality": quality.metric,
            "threshold": quality.threshold,
            "further_qualities": {of.metric: of.threshold for of in further},
            "seed": self.grid.study.seed,
        }
        return types.EvaluationJob[EvaluationSettings](
            questions=self.paths.table(Artifact("questions", dataset=cell.dataset)),
            candidates=self.paths.table(cell.table("candidates")),
            beam=self.grid.decoded(self.grid.study.main.beam, cell.recipe),
            scores=self.paths.table(cell.table("scores", scorer=wildcards.scorer)),
            quality=self.paths.table(measured),
            further_qualities=tuple(map(self.paths.table, beside)),
            settings=EvaluationSettings.model_validate(settings, strict=False),
            code=code_hash("evaluation"),
            **self.paths.outputs("evaluation", wildcards),
        )

    def decisions(self, wildcards: SnakemakeWildcards) -> types.DecisionsJob[DecisionSettings]:
        study, cell = self.grid.study, self._cell(wildcards)
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
        return types.DecisionsJob[DecisionSettings](
            questions=self.paths.table(Artifact("questions", dataset=cell.dataset)),
            shots=self.paths.table(Artifact("shots", dataset=cell.dataset)),
            prompts=self.paths.table(Artifact("prompts", style=study.models[cell.model].style, dataset=cell.dataset)),
            candidates=self.paths.table(cell.table("candidates")),
            scores=self.paths.table(cell.table("scores", scorer=wildcards.scorer)),
            quality=self.paths.table(cell.table("quality", metric=quality.metric)),
            settings=DecisionSettings.model_validate(settings, strict=False),
            code=code_hash("decisions"),
            **self.paths.outputs("decisions", wildcards),
        )

    # -- exhibits and pages --------------------------------------------------------------------------------------

    def study(self, wildcards: SnakemakeWildcards) -> types.StudyJob:
        """The study in its own order, without what cannot change what exhibits and pages say."""
        seen = self.grid.study.model_dump(
            mode="json",
            exclude={"exhibits": True, "batch_questions": True, "recipes": {"__all__": {"batch_questions"}}},
        )
        content = json.dumps(seen | {"exhibits": [], "batch_questions": 1}, ensure_ascii=False)
        return types.StudyJob(content=content, **self.paths.outputs("study", wildcards))

    def table(self, wildcards: SnakemakeWildcards) -> types.TableJob:
        return types.TableJob(**self._exhibit("table", wildcards))

    def figure(self, wildcards: SnakemakeWildcards) -> types.FigureJob:
        return types.FigureJob(**self._exhibit("figure", wildcards))

    def _exhibit(self, rule: str, wildcards: SnakemakeWildcards) -> dict[str, Any]:
        """The job reruns on the tables that the exhibit reads, its own code, and what else it reads (templates)."""
        exhibit = list_of_exhibits.exhibit(wildcards.name, self.grid.study)
        read = tuple(self.paths.table(artifact) for artifact in exhibit.artifacts(self.grid.study))
        code, files = code_hash(rule, exhibit.module), tuple(map(_relative, exhibit.files(self.grid.study)))
        return {"name": wildcards.name, **self._page(rule, wildcards), "code": code, "rerun_on": read + files}

    def comparison(self, wildcards: SnakemakeWildcards) -> types.ComparisonJob:
        """The job reruns on the tables it reads, and on printed values, errata, claims and tolerances."""
        read = tuple(self.paths.table(artifact) for artifact in needed_files(self.grid.study))
        files, code = tuple(map(_relative, DECLARED_FILES)), code_hash("comparison")
        return types.ComparisonJob(**self._page("comparison", wildcards), code=code, rerun_on=read + files)

    def overview(self, wildcards: SnakemakeWildcards) -> types.OverviewJob:
        """The job reruns on every table of the grid up to its evaluations."""
        manifests = {self.paths.model_manifest(s) for s in self.grid.model_uses if not _is_folder(s)}
        read = (*self.grid.questions, *self.grid.prompts, *self.grid.measured)
        return types.OverviewJob(
            manifests=tuple(sorted(manifests)),
            code=code_hash("overview"),
            rerun_on=tuple(map(self.paths.table, read)),
            **self._page("overview", wildcards),
        )

    def explorer(self, wildcards: SnakemakeWildcards) -> types.ExplorerJob:
        """The job reruns on every table that the page is made of."""
        read = dict.fromkeys(table for shown in self.grid.explored for table in self.grid.tables_explored(*shown))
        return types.ExplorerJob(
            **self._page("explorer", wildcards),
            code=code_hash("explorer"),
            rerun_on=tuple(map(self.paths.table, read)),
        )

    def ledger(self, wildcards: SnakemakeWildcards) -> types.LedgerJob:
        """The job reruns on measured tables and their benchmarks, so that whatever ran again is summed again.

        A benchmark that is not beside its table is none of them: to ask for it would run its job again, on a GPU
        perhaps, where results came without.
        """
        files = {self.paths.table(artifact): self.paths.benchmark(artifact) for artifact in self.grid.measured}
        benchmarks = (benchmark for table, benchmark in files.items() if benchmark.exists() or not table.exists())
        return types.LedgerJob(
            **self._page("ledger", wildcards), code=code_hash("ledger"), rerun_on=(*files, *benchmarks)
        )

    def _page(self, rule: str, wildcards: SnakemakeWildcards) -> dict[str, Any]:
        """The files of a job that reads the study and what lies beside it."""
        return self.paths.outputs("study") | self.paths.outputs(rule, wildcards)

    # -- what is checked -----------------------------------------------------------------------------------------

    def expected(self, rule: str, wildcards: SnakemakeWildcards) -> dict[str, dict[str, Any]]:
        """The settings that the tables which a job reads one by one have to be made with, by input."""
        if rule not in READERS:
            return {}
        cell = {name: getattr(wildcards, name, "") for name in ("model", "dataset", "recipe", "scorer")}
        cell["metric"] = file_name(self.grid.study.main_quality.metric)
        made_by = {name: (MADE_BY[name], cell) for name in getattr(self, rule)(wildcards).inputs() if name in MADE_BY}
        if "cross_similarity" in made_by:
            judge = {"scorer": self.grid.judges_of(cell["recipe"])["relevance"]}
            made_by["cross_similarity"] = ("similarity", cell | judge)
        if rule == "evaluation":
            for further in self.grid.study.qualities(cell["dataset"])[1:]:
                made_by[f"quality {further.metric}"] = ("quality", cell | {"metric": file_name(further.metric)})
        jobs = {name: getattr(self, maker)(SimpleNamespace(**of)) for name, (maker, of) in made_by.items()}
        return {
            name: job.settings.model_dump(mode="json", exclude={"source", "backbone"}) for name, job in jobs.items()
        }

    # -- the machine ---------------------------------------------------------------------------------------------

    @cached_property
    def device(self) -> types.Device:
        """What models run on, "auto" settled by what is here."""
        if self.machine.device != "auto":
            return self.machine.device
        return "cuda" if devices.present() == "cuda" else "cpu"

    @cached_property
    def dtype(self) -> types.Dtype:
        """What language models run in: bfloat16 on a card, float32 on a CPU, unless said otherwise."""
        if self.machine.dtype != "auto":
            return self.machine.dtype
        return "bfloat16" if self.device == "cuda" else "float32"

    def _cell(self, wildcards: SnakemakeWildcards) -> GridCell:
        try:
            return self.grid.cell(wildcards.model, wildcards.dataset, wildcards.recipe)
        except BeamUQError as error:
            raise BeamUQError(f"{self.paths.study_file}: {error}") from None

    def _model(self, source: str | None) -> Path | None:
        return self.paths.model_manifest(source) if source else None

    def _folders(self, whole: set[str], **sources: str | None) -> dict[str, str]:
        """The content of the models that are folders of one's own, by input: what makes a job run again.

        ``whole``: inputs of which every file counts.
        """
        own = {name: source for name, source in sources.items() if source and _is_folder(source)}
        return {name: self._content(source, name in whole) for name, source in own.items()}

    def _content(self, source: str, every_file: bool) -> str:
        """The content of a model that is a folder of one's own."""
        if (source, every_file) not in self._contents:
            identity = model_identity(Path(source.removeprefix("folder:")), every_file=every_file)
            self._contents[source, every_file] = identity["content"]
        return self._contents[source, every_file]

    @cached_property
    def _contents(self) -> dict[tuple[str, bool], str]:
        return {}


def _plugin_files(names: Iterable[str]) -> tuple[Path, ...]:
    """The files of what comes from outside the package."""
    return tuple(map(Path, plugins.source_files(names)))


def _relative(path: Path) -> Path:
    """As a path from here, so that two checkouts name the same inputs."""
    return Path(os.path.relpath(path))


def _is_folder(source: str) -> bool:
    return source.startswith("folder:")
