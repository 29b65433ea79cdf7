"""What the rules ask for: paths, inputs and settings of every job of one study on one machine.

The Snakefile holds wiring; everything it needs to know about a study it asks here, so that it can be typed and tested.
A job's settings travel as one JSON text with sorted keys: Snakemake compares it, so a changed study reruns exactly the
jobs whose settings changed. How a machine runs a job (threads, memory, cards) is never among them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from beamuq import plugins
from beamuq.artifacts import Artifact, file_name
from beamuq.comparison.comparison_rules import DECLARED_FILES
from beamuq.comparison.needed_files import needed_files
from beamuq.data.dataset_adapters import adapter_names
from beamuq.data.split_file import source_of
from beamuq.errors import BeamUQError
from beamuq.exhibits import specifications
from beamuq.judged_answer import strategy_of
from beamuq.machine import Machine, load_machine
from beamuq.methods.registry import STATISTICS, resolve
from beamuq.models import devices, offline_and_secrets
from beamuq.models.model_source import parse_source
from beamuq.models.packaged_weights import PACKAGED
from beamuq.models.revision_lock import Kind, entry_of
from beamuq.plan.code_inputs import step_sources
from beamuq.study import (
    DEMO_DATA,
    PROMPTS,
    STUDIES,
    Dataset,
    GridEntry,
    Study,
    known,
    load_study,
    study_path,
)

CCP, P_TRUE, SAR = STATISTICS

# Raised by hand when the output of a rule would change whose code is, on purpose, not among its inputs: the expensive
# rules, and those before them, since Snakemake runs again whatever follows from a job that wrote the same bytes.
FORMATS = {"questions": 2, "prompts": 1, "candidates": 2, "statistics": 2, "similarity": 2, "quality": 1}


class Wildcards(Protocol):
    """A rule's wildcards; which ones are there depends on the rule."""

    def __getattr__(self, name: str) -> str: ...


def _json(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def model_folder_name(source: str) -> str:
    """A source as one folder name: ``hub:org/name`` → ``org--name``."""
    return source.split(":", 1)[1].replace("/", "--")


@dataclass(frozen=True)
class Cell:
    """One generation job."""

    model: str
    dataset: str
    recipe: str
    questions: int
    scorers: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """One study on one machine."""

    study: Study
    machine: Machine
    name: str
    path: Path

    @classmethod
    def load(cls, config: dict[str, Any]) -> Plan:
        """Check the machine's configuration and its study, whole, before anything runs.

        Raises
        ------
        BeamUQError
            One line: file, key, value, fix.
        """
        machine = load_machine(config)
        path = study_path(machine.study)
        _check_name(path)
        plugins.add(path)
        plan = cls(load_study(path), machine, path.stem, path)
        plan._check_adapters()
        plan._check_plugins()
        plan._check_methods()
        plan._check_exhibits()
        plan._check_files()
        plan._check_revisions()
        return plan

    # -- where things lie ----------------------------------------------------------------------------------------

    @property
    def results(self) -> str:
        return f"results/{self.name}"

    @property
    def figures(self) -> str:
        return f"figures/{self.name}"

    @property
    def lock(self) -> str:
        return os.path.relpath(self.path.with_suffix(".lock.json"))

    def lock_option(self, wildcards: Wildcards, output: Any) -> str:  # noqa: ARG002  (Snakemake calls it so)
        """The lock file, for the fetch rules. It asks for the output because Snakemake compares no parameter that does.

        Studies share what is fetched: a run of another one must not count as a change, which would decode again.
        """
        return self.lock

    def memo(self, wildcards: Wildcards, output: Any) -> str:  # noqa: ARG002  (Snakemake calls it so)
        """Where pairs scored before are kept: never a reason to score them again, so it asks for the output too."""
        return self.machine.cache_root

    def file(self, need: Artifact) -> str:
        return f"{self.results}/{need.path}"

    def model_manifest(self, source: str) -> str:
        """What a rule waits for before it loads a model: the fetch rule's manifest, or a folder's own config."""
        if source.startswith("folder:"):
            return str(Path(source.removeprefix("folder:")) / "config.json")
        return f"{self.machine.models_root}/{model_folder_name(source)}/fetched.json"

    def split_file(self, key: str, split: str) -> str:
        """A dataset's split: the demo's own, a local copy under data_root, or what the fetch rule brings."""
        dataset = self.study.datasets[key]
        if dataset.source.startswith("folder:"):
            folder = Path(dataset.source.removeprefix("folder:"))
            return str(next((p for p in _split_files(folder, split) if p.is_file()), folder / f"{split}.jsonl"))
        if dataset.source == "demo":
            return os.path.relpath(DEMO_DATA / dataset.adapter / f"{split}.jsonl")
        if self.machine.data_root is not None:
            folder = Path(self.machine.data_root) / dataset.adapter
            return str(next((p for p in _split_files(folder, split) if p.is_file()), folder / f"{split}.parquet"))
        return f"{self.machine.datasets_root}/{key}/{split}.parquet"

    # -- the grid ------------------------------------------------------------------------------------------------

    @cached_property
    def cells(self) -> dict[tuple[str, str, str], Cell]:
        return {
            (model, dataset, entry.recipe): Cell(
                model, dataset, entry.recipe, self._questions(entry, dataset), tuple(entry.scorers)
            )
            for entry in self.study.grid
            for model in entry.models
            for dataset in entry.datasets
        }

    def _questions(self, entry: GridEntry, dataset: str) -> int:
        return entry.questions or self.study.datasets[dataset].questions

    def _cell(self, wildcards: Wildcards) -> Cell:
        try:
            return self.cells[wildcards.model, wildcards.dataset, wildcards.recipe]
        except KeyError:
            raise BeamUQError(
                f"{self.path}: grid: holds no {wildcards.model}/{wildcards.dataset}/{wildcards.recipe}; add it there"
            ) from None

    def evaluations(self) -> list[str]:
        """Every evaluation of the grid."""
        return [
            self.file(Artifact("evaluation", scorer=scorer, model=c.model, dataset=c.dataset, recipe=c.recipe))
            for c in self.cells.values()
            for scorer in c.scorers
        ]

    def generations(self) -> list[str]:
        return [
            self.file(Artifact("candidates", model=c.model, dataset=c.dataset, recipe=c.recipe))
            for c in self.cells.values()
        ]

    def fetched(self) -> list[str]:
        """Every model, scorer and dataset that has to be brought here."""
        files = [self.model_manifest(source) for source in self._sources() if not source.startswith("folder:")]
        for cell in self.cells.values():
            if self.from_hub(self.study.datasets[cell.dataset]):
                files += self.questions_inputs_of(cell.dataset).values()
        return sorted(set(files))

    def from_hub(self, dataset: Dataset) -> bool:
        """Whether the fetch rule brings a dataset's splits."""
        return dataset.source.startswith("hub:") and self.machine.data_root is None

    def exhibits(self, kind: str) -> list[str]:
        return [name for name in self.study.exhibits if specifications.exhibit(name, self.study).kind == kind]

    def tables(self) -> list[str]:
        return [f"{self.results}/tables/{name}.csv" for name in self.exhibits("table")]

    def drawn_figures(self) -> list[str]:
        return [f"{self.figures}/{name}.pdf" for name in self.exhibits("figure")]

    # -- inputs of rules -----------------------------------------------------------------------------------------

    def questions_inputs_of(self, key: str) -> dict[str, str]:
        dataset = self.study.datasets[key]
        inputs = {"split": self.split_file(key, dataset.split)}
        if dataset.few_shot:
            inputs["few_shot_split"] = self.split_file(key, dataset.few_shot_split)
        return inputs

    def questions_inputs(self, wildcards: Wildcards) -> dict[str, str]:
        return self.questions_inputs_of(wildcards.dataset)

    def scores_code(self, wildcards: Wildcards) -> list[str]:
        """The step's package files, and those of the methods from outside the package."""
        return step_sources("scores") + plugins.files(self.study.scoring[wildcards.recipe].methods)

    @property
    def plugins_folder(self) -> str:
        """Where the study's own modules lie."""
        return str(plugins.folder(self.path).resolve())

    @property
    def quality_code(self) -> list[str]:
        return plugins.files([self.study.quality.metric])

    def scorer_code(self, wildcards: Wildcards) -> list[str]:
        return plugins.files([self.study.scorers[wildcards.scorer].kind])

    def statistics_code(self, wildcards: Wildcards) -> list[str]:
        """The files of judges from outside the package."""
        return plugins.files(self.study.scorers[judge].kind for judge in self._judges(wildcards.recipe).values())

    def custom_policies(self, wildcards: Wildcards) -> list[str]:
        return plugins.files(own.policy for own in self.study.recipes[wildcards.recipe].custom or ())

    def few_shot_option(self, wildcards: Wildcards) -> str:
        file = self.questions_inputs_of(wildcards.dataset).get("few_shot_split")
        return f"--few-shot-split {shlex.quote(file)}" if file else ""

    def template(self, wildcards: Wildcards) -> str:
        return os.path.relpath(PROMPTS / wildcards.style / f"{self.study.datasets[wildcards.dataset].adapter}.txt")

    def candidates_inputs(self, wildcards: Wildcards) -> dict[str, str | list[str]]:
        """What is decoded and by which model; where decoding is cut into shards, they too."""
        cell, count = self._cell(wildcards), self.machine.shards
        folder = self.file(Artifact("candidates", model=cell.model, dataset=cell.dataset, recipe=cell.recipe))
        shards = [folder.replace(".parquet", f".shards/{k}-of-{count}.parquet") for k in range(1, count + 1)]
        return self.decoding_inputs(wildcards) | ({"shards": shards} if count > 1 else {})

    def shards_option(self, wildcards: Wildcards) -> str:
        shards = self.candidates_inputs(wildcards).get("shards", [])
        return f"--shards {shlex.join(shards)}" if shards else ""

    def decoding_inputs(self, wildcards: Wildcards) -> dict[str, str | list[str]]:
        cell = self._cell(wildcards)
        model = self.study.models[cell.model]
        return {
            "prompts": self.file(Artifact("prompts", style=model.style, dataset=cell.dataset)),
            "model": self.model_manifest(model.source),
        }

    def scorer_inputs(self, wildcards: Wildcards) -> dict[str, str]:
        cell = self._cell(wildcards)
        inputs = {
            "candidates": self.file(Artifact("candidates", model=cell.model, dataset=cell.dataset, recipe=cell.recipe))
        }
        source = self.study.scorers[wildcards.scorer].source
        return inputs | ({"model": self.model_manifest(source)} if source else {})

    @property
    def quality_models(self) -> dict[str, str]:
        quality = self.study.quality
        learned = {"model": quality.source, "backbone": quality.backbone}
        return {key: self.model_manifest(source) for key, source in learned.items() if source}

    def statistics_inputs(self, wildcards: Wildcards) -> dict[str, str]:
        """The cell's tables, and the models that its methods ask: never one that they do not."""
        cell, asked = self._cell(wildcards), self._asked(wildcards.recipe)
        study = self.study
        inputs = {
            "questions": self.file(Artifact("questions", dataset=cell.dataset)),
            "candidates": self.file(Artifact("candidates", model=cell.model, dataset=cell.dataset, recipe=cell.recipe)),
        }
        if P_TRUE in asked:
            inputs["template"] = os.path.relpath(PROMPTS / "p_true.txt")
        if P_TRUE in asked or SAR in asked:
            inputs["language_model"] = self.model_manifest(study.models[cell.model].source)
        for name, judge in self._judges(wildcards.recipe).items():
            if source := study.scorers[judge].source:
                inputs[name] = self.model_manifest(source)
        return inputs

    def statistics_options(self, wildcards: Wildcards) -> str:
        """The optional inputs of the statistics step, as its options."""
        return _options(self.statistics_inputs(wildcards), ("template", "language_model", "nli", "relevance"))

    def scores_inputs(self, wildcards: Wildcards) -> dict[str, str]:
        cell = self._cell(wildcards)
        names = {"model": cell.model, "dataset": cell.dataset, "recipe": cell.recipe}
        inputs = {
            "questions": self.file(Artifact("questions", dataset=cell.dataset)),
            "candidates": self.file(Artifact("candidates", **names)),
            "similarity": self.file(Artifact("similarity", scorer=wildcards.scorer, **names)),
        }
        if self._asked(cell.recipe):
            inputs["statistics"] = self.file(Artifact("statistics", **names))
        if SAR in self._asked(cell.recipe) and self.study.main.relevance:
            inputs["cross_similarity"] = self.file(Artifact("similarity", scorer=self.study.main.relevance, **names))
        return inputs

    def scores_options(self, wildcards: Wildcards) -> str:
        """The optional inputs of the scores step, as its options."""
        return _options(self.scores_inputs(wildcards), ("statistics", "cross_similarity"))

    def _asked(self, recipe: str) -> set[str]:
        """What a recipe's methods need that further models have to be asked: P_TRUE, CCP, SAR."""
        return {
            need for name in self.study.scoring[recipe].methods for need in resolve(name).needs if need in STATISTICS
        }

    def _judges(self, recipe: str) -> dict[str, str]:
        """The scorers that CCP and SAR ask of a recipe's answers, by the option of the step."""
        asked, main = self._asked(recipe), self.study.main
        judges = {"nli": main.scorer} if CCP in asked else {}
        return judges | ({"relevance": main.relevance} if SAR in asked and main.relevance else {})

    @property
    def statistics_cells(self) -> list[Cell]:
        """The cells of the grid whose methods need statistics."""
        return [cell for cell in self.cells.values() if self._asked(cell.recipe)]

    def scorers_of(self, cell: Cell) -> set[str]:
        """The scorers whose similarities a cell needs: its own, and the judge of SAR's."""
        relevance = self.study.main.relevance
        return {*cell.scorers} | ({relevance} if relevance and SAR in self._asked(cell.recipe) else set())

    def evaluation_inputs(self, wildcards: Wildcards) -> dict[str, str]:
        cell = self._cell(wildcards)
        names = {"model": cell.model, "dataset": cell.dataset, "recipe": cell.recipe}
        return {
            "questions": self.file(Artifact("questions", dataset=cell.dataset)),
            "scores": self.file(Artifact("scores", scorer=wildcards.scorer, **names)),
            "quality": self.file(Artifact("quality", metric=self.study.quality.metric, **names)),
        }

    def exhibit_inputs(self, wildcards: Wildcards) -> list[str]:
        return [self.file(need) for need in specifications.exhibit(wildcards.name, self.study).artifacts(self.study)]

    @property
    def overview_inputs(self) -> dict[str, list[str]]:
        """Every table of the grid up to its evaluations, and the manifests of what was fetched."""
        used = {(self.study.models[cell.model].style, cell.dataset) for cell in self.cells.values()}
        manifests = (self.model_manifest(source) for source in self._sources() if not source.startswith("folder:"))
        prompts = [self.file(Artifact("prompts", style=style, dataset=dataset)) for style, dataset in sorted(used)]
        made = [self.file(need) for need in self.measured if need.kind != "candidates"]
        return {
            "questions": [
                self.file(Artifact("questions", dataset=key))
                for key in {cell.dataset: None for cell in self.cells.values()}
            ],
            "candidates": self.generations(),
            "tables": prompts + made,
            "manifests": sorted(set(manifests)),
        }

    @cached_property
    def measured(self) -> list[Artifact]:
        """The table of every job whose time and memory is measured."""
        found: list[Artifact] = []
        for cell in self.cells.values():
            names = {"model": cell.model, "dataset": cell.dataset, "recipe": cell.recipe}
            found += [Artifact("candidates", **names), Artifact("quality", metric=self.study.quality.metric, **names)]
            found += [Artifact("statistics", **names)] if self._asked(cell.recipe) else []
            found += [Artifact("similarity", scorer=scorer, **names) for scorer in sorted(self.scorers_of(cell))]
            found += [
                Artifact(kind, scorer=scorer, **names) for kind in ("scores", "evaluation") for scorer in cell.scorers
            ]
        return found

    def ledger_inputs(self, wildcards: Wildcards) -> dict[str, list[str]]:  # noqa: ARG002  (Snakemake calls it so)
        """Measured tables and their benchmarks, so that whatever runs again is summed again.

        A benchmark that is not beside its table is none of them: to ask for it would run its job again, on a GPU
        perhaps, where results came without.
        """
        files = [self.file(need) for need in self.measured]
        benchmarks = {file: self.benchmark(need) for file, need in zip(files, self.measured, strict=True)}
        return {
            "tables": files,
            "benchmarks": [
                benchmark
                for file, benchmark in benchmarks.items()
                if Path(benchmark).exists() or not Path(file).exists()
            ],
        }

    def benchmark(self, need: Artifact) -> str:
        """Where Snakemake writes what the job of a table took."""
        return str(Path(self.results, "benchmarks", need.path).with_suffix(".tsv"))

    @property
    def comparison_inputs(self) -> list[str]:
        return [self.file(need) for need in needed_files(self.study)]

    @property
    def comparison_code(self) -> list[str]:
        """The step's package files, and the printed values, errata, claims and tolerances that it reads."""
        return step_sources("comparison") + [os.path.relpath(path) for path in DECLARED_FILES]

    def exhibit_code(self, wildcards: Wildcards) -> list[str]:
        """The step's package files, the exhibit's own, and what else it reads of the project (prompt templates)."""
        exhibit = specifications.exhibit(wildcards.name, self.study)
        return step_sources(exhibit.kind, exhibit.module) + [
            os.path.relpath(file) for file in exhibit.files(self.study)
        ]

    def _decoded(self, strategy: str, recipe: str) -> str | None:
        """``strategy`` if this recipe decodes it."""
        return strategy if strategy in self.study.recipes[recipe].strategies() else None

    def _produced(self, recipe: str) -> list[str]:
        """The study's produced answers that this recipe decodes."""
        beam = self.study.main.beam
        return [answer for answer in self.study.answer_source if self._decoded(strategy_of(answer, beam), recipe)]

    # -- settings of jobs ----------------------------------------------------------------------------------------

    def source_of_folder(self, wildcards: Wildcards) -> str:
        """The source that the fetch rule brings into ``<models_root>/{folder}``."""
        for source in self._sources():
            if model_folder_name(source) == wildcards.folder:
                return source
        raise BeamUQError(f"{self.path}: no model, scorer or quality of this study is called {wildcards.folder!r}")

    def dataset_source(self, wildcards: Wildcards) -> str:
        dataset = self.study.datasets[wildcards.dataset]
        return _json({"source": dataset.source, "config": dataset.config, "adapter": dataset.adapter})

    def questions_settings(self, wildcards: Wildcards) -> str:
        dataset = self.study.datasets[wildcards.dataset]
        return _json(
            {
                "dataset": wildcards.dataset,
                "adapter": dataset.adapter,
                "seed": self.study.seed,
                "questions": dataset.questions,
                "few_shot": dataset.few_shot,
            }
        )

    def prompts_settings(self, wildcards: Wildcards) -> str:
        return _json({"style": wildcards.style, "dataset": wildcards.dataset})

    def candidates_settings(self, wildcards: Wildcards) -> str:
        cell, study = self._cell(wildcards), self.study
        model = study.models[cell.model]
        return _json(
            {
                "cell": {"model": cell.model, "dataset": cell.dataset, "recipe": cell.recipe},
                "recipe": study.recipes[cell.recipe].model_dump(exclude_none=True),
                "questions": cell.questions,
                "max_new_tokens": study.datasets[cell.dataset].max_new_tokens,
                "newline_stops": study.newline_stops,
                "merge_stop_tokens": study.merge_stop_tokens,
                "seed": study.seed,
                "batch_questions": study.batch_questions,
                "style": model.style,
                "enable_thinking": model.enable_thinking,
                "format": FORMATS["candidates"],
            }
        )

    def scorer_settings(self, wildcards: Wildcards) -> str:
        scorer = self.study.scorers[wildcards.scorer]
        return _json(
            {
                "name": wildcards.scorer,
                "kind": scorer.kind,
                "source": scorer.source,
                "answer_source": self._produced(wildcards.recipe),
                "beam": self._decoded(self.study.main.beam, wildcards.recipe),
                "format": FORMATS["similarity"],
            }
        )

    def quality_settings(self, wildcards: Wildcards) -> str:
        quality = self.study.quality
        adapter = self.study.datasets[wildcards.dataset].adapter
        return _json(
            {
                "metric": quality.metric,
                "source": quality.source,
                "backbone": quality.backbone,
                "normalizer": "coqa" if adapter == "coqa" else "triviaqa",
                "answer_source": self._produced(wildcards.recipe),
                "beam": self._decoded(self.study.main.beam, wildcards.recipe),
                "format": FORMATS["quality"],
            }
        )

    def statistics_settings(self, wildcards: Wildcards) -> str:
        study, main, asked = self.study, self.study.main, self._asked(wildcards.recipe)
        model, judge = study.models[wildcards.model], study.scorers[main.scorer]
        relevance = study.scorers[main.relevance].kind if main.relevance else None
        return _json(
            {
                "answer_source": self._produced(wildcards.recipe),
                "beam": self._decoded(main.beam, wildcards.recipe),
                "sample": self._decoded(main.sample, wildcards.recipe),
                "style": model.style,
                "enable_thinking": model.enable_thinking,
                "p_true": P_TRUE in asked,
                "ccp": {"kind": judge.kind, "equivalence_threshold": judge.equivalence_threshold}
                if CCP in asked
                else None,
                "relevance": {"kind": relevance} if SAR in asked else None,
                "format": FORMATS["statistics"],
            }
        )

    def scores_settings(self, wildcards: Wildcards) -> str:
        study, main = self.study, self.study.main
        scoring = study.scoring[wildcards.recipe]
        return _json(
            {
                "methods": scoring.methods,
                "answer_source": self._produced(wildcards.recipe),
                "main": {
                    "sample": self._decoded(main.sample, wildcards.recipe),
                    "beam": self._decoded(main.beam, wildcards.recipe),
                },
                "num_candidates": main.num_candidates,
                "alpha": main.alpha,
                "epsilon": main.epsilon,
                "equivalence_threshold": study.scorers[wildcards.scorer].equivalence_threshold,
                "sar_similarity": "file" if SAR in self._asked(wildcards.recipe) else None,
                "recipe": wildcards.recipe,
                "seed": study.seed,
                "ablations": {
                    "epsilon": scoring.epsilon,
                    "alpha": scoring.alpha,
                    "K": scoring.fixed_k,
                    "budgets": scoring.budgets,
                    "strategies": study.recipes[wildcards.recipe].strategies()[1:] if scoring.every_strategy else [],
                },
            }
        )

    @property
    def evaluation_settings(self) -> str:
        evaluation = self.study.evaluation
        return _json(
            evaluation.model_dump()
            | {"quality": self.study.quality.metric, "threshold": self.study.quality.threshold, "seed": self.study.seed}
        )

    @cached_property
    def exhibit_study(self) -> str:
        """The study as exhibits see it: in its own order, without what cannot change what they draw."""
        seen = self.study.model_dump(mode="json", exclude={"exhibits", "batch_questions"}) | {
            "exhibits": [],
            "batch_questions": 1,
        }
        return json.dumps(seen, ensure_ascii=False)

    @cached_property
    def patterns(self) -> dict[str, str]:
        """Regular expressions for the wildcards: the study's own names and no others."""
        study = self.study
        return {
            "model": _either(study.models),
            "dataset": _either(study.datasets),
            "recipe": _either(study.recipes),
            "scorer": _either(study.scorers),
            "metric": _either([file_name(study.quality.metric)]),
            "style": "base|instruct",
            "name": _either(specifications.labels(study)),
            "folder": r"[\w.-]+",
            "split": r"\w+",
            "shard": r"\d+-of-\d+",
        }

    # -- the machine ---------------------------------------------------------------------------------------------

    @cached_property
    def device(self) -> str:
        if self.machine.device != "auto":
            return self.machine.device
        return devices.present()

    @cached_property
    def dtype(self) -> str:
        if self.machine.dtype != "auto":
            return self.machine.dtype
        return "bfloat16" if self.device == "cuda" else "float32"

    @property
    def gpus(self) -> int:
        return int(self.device == "cuda")

    @property
    def candidates_gpus(self) -> int:
        """None where the rule only puts shards together."""
        return self.gpus if self.machine.shards == 1 else 0

    def memory_mb(self, wildcards: Wildcards, attempt: int) -> int:  # noqa: ARG002  (Snakemake calls it so)
        """What a decoding or scoring job asks for; a job that is tried again, perhaps for want of it, asks for more."""
        return int(self.machine.memory_gb * 1000) * attempt

    @property
    def exports(self) -> str:
        """How every job's shell starts. No setting of a job: going offline after fetching must rerun nothing."""
        return offline_and_secrets.exports(self.machine.offline)

    def scorer_model_option(self, wildcards: Wildcards) -> str:
        source = self.study.scorers[wildcards.scorer].source
        return f"--model {shlex.quote(self.model_manifest(source))}" if source else ""

    @property
    def quality_model_option(self) -> str:
        return _options(self.quality_models, ("model", "backbone"))

    @property
    def fetched_facts(self) -> str:
        """What the page of all that was fetched says of the study itself."""
        datasets = {key: self.study.datasets[key] for key in {cell.dataset: None for cell in self.cells.values()}}
        told = {key: [dataset.source, dataset.licence, dataset.split] for key, dataset in datasets.items()}
        return _json({"title": self.study.title, "uses": self.uses(), "datasets": told})

    @property
    def lock_if_there(self) -> list[str]:
        """The lock file as an input; the first fetch of a study writes it."""
        return [self.lock] if Path(self.lock).is_file() else []

    @property
    def machine_settings(self) -> str:
        """config.yaml as this run has it, for a step that plans."""
        return _json(self.machine.model_dump())

    @property
    def quality_gpus(self) -> int:
        return self.gpus if self.study.quality.source else 0

    def closing_line(self, seconds: float) -> str:
        """What a finished run tells: how long it took and where to look."""
        took = f"{self.study.title}: {int(seconds // 60)} min {int(seconds % 60)} s."
        demo = (
            " Demo numbers show that the machinery works; they are no results of the paper." if self.study.demo else ""
        )
        return f"{took} Tables: {self.results}/tables/, figures: {self.figures}/.{demo}"

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_adapters(self) -> None:
        for key, dataset in self.study.datasets.items():
            try:
                known(f"datasets.{key}.adapter", [dataset.adapter], adapter_names())
            except ValueError as error:
                raise BeamUQError(f"{self.path}: {error}") from error

    def _check_plugins(self) -> None:
        study = self.study
        named = {f"scorers.{key}.kind": scorer.kind for key, scorer in study.scorers.items()}
        named |= {"quality.metric": study.quality.metric}
        for key, recipe in study.recipes.items():
            named |= {f"recipes.{key}.custom[{n}].policy": own.policy for n, own in enumerate(recipe.custom or ())}
        for key, name in named.items():
            try:
                plugins.files([name])
            except BeamUQError as error:
                raise BeamUQError(f"{self.path}: {key}: {error}") from error

    def _check_exhibits(self) -> None:
        for position, name in enumerate(self.study.exhibits):
            try:
                specifications.exhibit(name, self.study).artifacts(self.study)
            except BeamUQError as error:
                raise BeamUQError(f"{self.path}: exhibits[{position}]: {json.dumps(name)}: {error}") from error

    def _check_methods(self) -> None:
        for recipe, scoring in self.study.scoring.items():
            for position, name in enumerate(scoring.methods):
                try:
                    resolve(name)
                except BeamUQError as error:
                    raise BeamUQError(f"{self.path}: scoring.{recipe}.methods[{position}]: {error}") from error
            if SAR in self._asked(recipe) and not self.study.main.relevance:
                raise BeamUQError(f"{self.path}: main.relevance: SAR needs it; name the scorer that judges tokens")

    def _check_files(self) -> None:
        for key in sorted({cell.dataset for cell in self.cells.values()}):
            if self.from_hub(self.study.datasets[key]):
                continue
            for file in self.questions_inputs_of(key).values():
                if not Path(file).is_file():
                    local = self.study.datasets[key].source.startswith("hub:")
                    where = "config.yaml: data_root" if local else f"{self.path}: datasets.{key}"
                    raise BeamUQError(f"{where}: {file} does not exist; put the split there or name another")
        for source in self._sources():
            if source.startswith("packaged:"):
                try:
                    known("source", [source], [f"packaged:{name}" for name in PACKAGED])
                except ValueError as error:
                    raise BeamUQError(f"{self.path}: {error}") from error
            folder = Path(source.removeprefix("folder:"))
            if source.startswith("folder:") and not (folder / "config.json").is_file():
                raise BeamUQError(f"{self.path}: source: {source}: holds no config.json; give a model's folder")

    def _sources(self) -> list[str]:
        """Where every model that this study loads comes from."""
        return list(self.uses())

    def _check_revisions(self) -> None:
        """Refuse what another study fetched into the same folder at another commit than this one's lock names."""
        lock = Path(self.lock)
        held: dict[Path, tuple[Kind, str, str | None]] = {
            file: ("models", parse_source(source).name, _revision(file))
            for source in self._sources()
            if source.startswith("hub:") and (file := Path(self.model_manifest(source))).is_file()
        }
        for key in {cell.dataset: None for cell in self.cells.values()}:
            dataset = self.study.datasets[key]
            if self.from_hub(dataset):
                for file in map(Path, self.questions_inputs_of(key).values()):
                    if file.is_file() and (known := source_of(file)):
                        held[file] = ("datasets", dataset.source.removeprefix("hub:"), known.get("revision"))
        for file, (kind, repository, revision) in held.items():
            locked = entry_of(lock, kind, repository).get("commit")
            if locked and revision and locked != revision:
                raise BeamUQError(
                    f"{file}: is of commit {revision}, {lock} names {locked} for {repository}; delete this file and it "
                    "is fetched anew, or give the study folders of its own (models_root, datasets_root)"
                )

    def uses(self) -> dict[str, str]:
        """Every source of a model that this study loads, and what for; a scorer that nothing asks is none of them."""
        study, quality, cells = self.study, self.study.quality, self.cells.values()
        asked = {key for c in cells for key in (*self.scorers_of(c), *self._judges(c.recipe).values())}
        loaded = [(study.models[name].source, f"model {name}") for name in {c.model: None for c in cells}]
        loaded += [(s.source, f"scorer {key}") for key, s in study.scorers.items() if key in asked and s.source]
        loaded += [(source, f"quality {quality.metric}") for source in (quality.source, quality.backbone) if source]
        named: dict[str, list[str]] = {}
        for source, use in loaded:
            named.setdefault(source, []).append(use)
        return {source: ", ".join(dict.fromkeys(uses)) for source, uses in named.items()}


def _check_name(path: Path) -> None:
    """Refuse a study beside ``studies/`` that is called like one in it: both would write the same results."""
    ours = STUDIES / f"{path.stem}.yaml"
    if ours.is_file() and not ours.samefile(path):
        raise BeamUQError(
            f"config.yaml: study: {json.dumps(str(path))}: {os.path.relpath(ours)} writes results/{path.stem} too; "
            "rename your file"
        )


def _revision(file: Path) -> str | None:
    """The revision that a model's manifest names."""
    try:
        return str(json.loads(file.read_text(encoding="utf-8"))["revision"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BeamUQError(f"{file}: not a readable manifest; delete it and fetch the model again") from error


def _split_files(folder: Path, split: str) -> list[Path]:
    return [folder / f"{split}{suffix}" for suffix in (".parquet", ".jsonl")]


def _options(inputs: Mapping[str, str], names: Iterable[str]) -> str:
    """Those of ``names`` that are among the inputs, as command-line options."""
    given = ((name, inputs[name]) for name in names if name in inputs)
    return " ".join(f"--{name.replace('_', '-')} {shlex.quote(path)}" for name, path in given)


def _either(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in names)
