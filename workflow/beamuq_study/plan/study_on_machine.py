"""One study on one machine: checked once, then asked for files, settings and resources."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.models import offline
from beamuq_study import served_models
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.grid import P_TRUE, Grid
from beamuq_study.machine_config import Machine, load_machine
from beamuq_study.parquet_tables import file_name
from beamuq_study.plan import check_study
from beamuq_study.plan.paths import Paths
from beamuq_study.plan.rule_inputs import RuleInputs
from beamuq_study.plan.stage_settings import StageSettings, Wildcards
from beamuq_study.study_config import Study, load_study, study_path

BEYOND_PAPER = "3 Beyond the paper"
"""The report's section of exhibits that the paper does not have."""


@dataclass(frozen=True)
class Plan:
    """One study on one machine. ``name``: of its folders of results; ``path``: the study's file."""

    study: Study
    machine: Machine
    name: str
    path: Path

    @classmethod
    def load(cls, config: dict[str, Any]) -> Plan:
        """Check the machine's configuration and its study, whole, before anything runs.

        Raises BeamUQError in one line: file, key, value, fix.
        """
        machine = load_machine(config)
        path = study_path(machine.study)
        check_study.check_name(path)
        plugins.make_importable(path)
        plan = cls(load_study(path), machine, path.stem, path)
        check_study.check_study(plan.grid, plan.paths)
        return plan

    @cached_property
    def grid(self) -> Grid:
        return Grid(self.study)

    @cached_property
    def paths(self) -> Paths:
        return Paths(self.name, self.path, self.machine)

    @cached_property
    def settings(self) -> StageSettings:
        return StageSettings(self.machine, self.grid)

    @cached_property
    def files(self) -> RuleInputs:
        return RuleInputs(self.settings, self.paths)

    @cached_property
    def targets(self) -> dict[str, list[Path]]:
        """The files that rules without a program ask for; one file of each exhibit."""
        kinds = {
            name: list_of_exhibits.exhibit(name, self.study).kind for name in self.study.exhibits
        }
        tables = {
            name: getattr(self.grid, name) for name in ("evaluations", "decisions", "generations")
        }
        pages = ("overview", "explorer", "ledger", "comparison")
        return {
            name: list(map(self.paths.table, artifacts)) for name, artifacts in tables.items()
        } | {
            "tables": [
                self.paths.results / f"tables/{name}.csv"
                for name in kinds
                if kinds[name] == "table"
            ],
            "figures": [
                Path("figures", self.name, f"{name}.pdf")
                for name in kinds
                if kinds[name] == "figure"
            ],
            "pages": [self.paths.results / f"{name}.html" for name in pages],
        }

    # -- what the rules ask for --------------------------------------------------------------------

    def report_section(self, section: str) -> Callable[[Wildcards], str]:
        """Of an exhibit's rule: the report's section; what is not in the paper has its own."""

        exhibit = list_of_exhibits.exhibit
        return lambda wildcards: (
            BEYOND_PAPER if exhibit(wildcards.name, self.study).beyond_paper else section
        )

    @cached_property
    def wildcard_patterns(self) -> dict[str, str]:
        """Regular expressions for the wildcards: the study's own names and no others."""
        study = self.study
        names: dict[str, Iterable[str]] = {
            "study": [self.name],
            "model": study.models,
            "dataset": study.datasets,
            "recipe": study.recipes,
            "scorer": study.scorers,
            "metric": [file_name(quality.metric) for quality in study.quality],
            "style": ["base", "instruct"],
            "name": list_of_exhibits.labels(study),
        }
        free = {"folder": r"[\w.-]+", "split": r"\w+", "shard": r"\d+-of-\d+"}
        return {
            wildcard: "|".join(map(re.escape, among)) for wildcard, among in names.items()
        } | free

    @cached_property
    def _first_cells(self) -> set[tuple[str, str, str]]:
        """The cells of the figure with the fewest tables: the first that can be looked at."""
        exhibits = (list_of_exhibits.exhibit(name, self.study) for name in self.study.exhibits)
        read = [exhibit.artifacts(self.study) for exhibit in exhibits if exhibit.kind == "figure"]
        decoded = [[table for table in tables if table.recipe] for tables in read]
        first = min(filter(None, decoded), key=len, default=[])
        return {(table.model, table.dataset, table.recipe) for table in first}

    def priority(self, wildcards: Wildcards) -> int:
        """Which cells come first: those of the first figure, then those of the main recipe, which
        most exhibits wait for.
        """
        if (wildcards.model, wildcards.dataset, wildcards.recipe) in self._first_cells:
            return 2
        return int(wildcards.recipe == self.study.main.recipe)

    # -- the machine -------------------------------------------------------------------------------

    def cards(self, wildcards: Wildcards) -> int:
        """How many cards the cell's language model is spread over, where there are any."""
        return self.study.models[wildcards.model].cards or 1

    def gpus(self, rule: str) -> Callable[[Wildcards], int]:
        """Cards that a job of this rule asks for: its language model's; one for a judge; else none.

        None either where the rule only puts shards together.
        """

        def of_wildcards(wildcards: Wildcards) -> int:
            if self.settings.device != "cuda" or (rule == "candidates" and self.machine.shards > 1):
                return 0
            served = self.settings.served_use(rule, wildcards)
            if not served and self._asks_language_model(rule, wildcards):
                return self.cards(wildcards)
            return int(bool(self.settings.loaded(rule, wildcards)))

        return of_wildcards

    def servers(self, rule: str) -> Callable[[Wildcards], int]:
        """How many servers a job of this rule asks: that of its language model, or none.

        None either where the rule only puts shards together.
        """

        def of_wildcards(wildcards: Wildcards) -> int:
            if rule == "candidates" and self.machine.shards > 1:
                return 0
            served = self.settings.served_use(rule, wildcards)
            return int(bool(served) and self._asks_language_model(rule, wildcards))

        return of_wildcards

    def _asks_language_model(self, rule: str, wildcards: Wildcards) -> bool:
        """Whether a job of this rule runs the language model, not its tokenizer alone."""
        if rule == "judgements":
            return P_TRUE in self.grid.judgements_of(wildcards.recipe)
        return rule.startswith("candidates")

    def memory_mb(self, wildcards: Wildcards, attempt: int) -> int:  # noqa: ARG002  (Snakemake calls it so)
        """What a decoding or scoring job asks for; one that is tried again asks for more."""
        return int(self.machine.memory_gb * 1000) * attempt

    @staticmethod
    def asked_mb(first: int) -> Callable[[Wildcards, int], int]:
        """What a job without a model asks for: ``first`` MB, as much again at each attempt.

        A job that was killed for want of memory does not say so: one that is tried again asks for
        more.
        """
        return lambda wildcards, attempt: first * attempt  # noqa: ARG005

    def environment(self, *packages: Path) -> dict[str, str]:
        """The environment of every job: the hub forbidden, the packages and servers to be found.

        It is no setting of a job: going offline after fetching, or a server's new address, reruns
        nothing, and no address is written down. Folders are named from where jobs start.
        """
        importable = [*packages, plugins.folder(self.path).resolve()]
        folders = [os.path.relpath(folder) for folder in importable if folder.is_dir()]
        before = os.environ.get("PYTHONPATH", "").split(":")
        search_path = ":".join(dict.fromkeys([*folders, *filter(None, before)]))
        addresses = served_models.environment(self.machine.servers)
        return offline.environment(self.machine.offline) | {"PYTHONPATH": search_path} | addresses


def path_to_python(interpreter: str) -> str:
    """The search path of this process, but one on which ``python`` is this interpreter.

    Raises BeamUQError if its folder has no program of that name, as where a system has ``python3``
    alone.
    """
    folder = Path(interpreter).parent
    if not (folder / "python").exists():
        raise BeamUQError(
            f"{interpreter}: runs Snakemake, but its folder has no program 'python', which the "
            "rules start; install "
            "beamuq and Snakemake in a virtual environment (python3 -m venv)"
        )
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join([str(folder), *(name for name in folders if name != str(folder))])


def not_compared(value: object) -> Callable[..., object]:
    """A parameter that Snakemake does not compare: how a machine runs a job.

    ``value``: the parameter, or a function of the wildcards.
    """
    return lambda wildcards, output: value(wildcards) if callable(value) else value  # noqa: ARG005
