"""The input files of rules that depend on what the study says."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.prompts.prompt_template import PROMPTS
from beamuq_study.comparison.claims.asked_claims import needed_files
from beamuq_study.comparison.comparison_inputs import DECLARED_FILES
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.grid import P_TRUE, Grid
from beamuq_study.parquet_tables import Artifact
from beamuq_study.plan.jobs_of_a_study import jobs
from beamuq_study.plan.paths import Paths
from beamuq_study.plan.stage_settings import StageSettings, Wildcards

Files = list[Path]


@dataclass(frozen=True)
class RuleInputs:
    """Input functions of the rules, each called like the input: wildcards to files."""

    settings: StageSettings
    paths: Paths

    @property
    def grid(self) -> Grid:
        return self.settings.grid

    def split(self, wildcards: Wildcards) -> Path:
        return self.paths.splits(wildcards.dataset, self.grid.study.datasets[wildcards.dataset])[0]

    def few_shot_split(self, wildcards: Wildcards) -> Files:
        return self.paths.splits(wildcards.dataset, self.grid.study.datasets[wildcards.dataset])[1:]

    def template(self, wildcards: Wildcards) -> Path:
        return _relative(
            PROMPTS / wildcards.style / f"{self.grid.study.datasets[wildcards.dataset].adapter}.txt"
        )

    def prompts(self, wildcards: Wildcards) -> Path:
        style = self.grid.study.models[wildcards.model].style
        return self.paths.table(Artifact("prompts", style=style, dataset=wildcards.dataset))

    def model(self, rule: str, name: str = "model") -> Callable[[Wildcards], Files]:
        """The input function of a model: a file in its folder, where the rule's job loads it."""

        def of_wildcards(wildcards: Wildcards) -> Files:
            source, _ = self.settings.models(rule, wildcards)[name]
            return [self.paths.model_manifest(source)] if source else []

        return of_wildcards

    def plugins(self, rule: str) -> Callable[[Wildcards], Files]:
        """The input function of the files of plug-ins that the rule's job uses."""
        return lambda wildcards: list(
            map(Path, plugins.source_files(self.settings.plugin_names(rule, wildcards)))
        )

    def p_true_template(self, wildcards: Wildcards) -> Files:
        return (
            [_relative(PROMPTS / "p_true.txt")]
            if P_TRUE in self.grid.judgements_of(wildcards.recipe)
            else []
        )

    def shards(self, wildcards: Wildcards) -> Files:
        """The shards of a cell's decoding, where it is cut into any."""
        count = self.settings.machine.shards
        folder = self.paths.table(self.settings.cell(wildcards).file("candidates")).with_suffix(
            ".shards"
        )
        return [folder / f"{k}-of-{count}.parquet" for k in range(1, count + 1) if count > 1]

    def judgements(self, wildcards: Wildcards) -> Files:
        needed = self.grid.judgements_of(wildcards.recipe)
        return self._tables([self.settings.cell(wildcards).file("judgements")] if needed else [])

    def cross_similarity(self, wildcards: Wildcards) -> Files:
        """The similarity of SAR's own scorer, where the cell has SAR."""
        judge = self.grid.judges_of(wildcards.recipe).get("relevance")
        if not judge:
            return []
        return self._tables([self.settings.cell(wildcards).under(judge).file("similarity")])

    def quality(self, wildcards: Wildcards) -> Path:
        return self._tables(self.grid.qualities_of(self.settings.cell(wildcards)))[0]

    def further_qualities(self, wildcards: Wildcards) -> Files:
        return self._tables(self.grid.qualities_of(self.settings.cell(wildcards)))[1:]

    def exhibit(self, kind: str) -> Callable[[Wildcards], Files]:
        """The input function of a "table" or "figure": tables, and what else it reads."""

        def of_wildcards(wildcards: Wildcards) -> Files:
            exhibit = list_of_exhibits.exhibit(wildcards.name, self.grid.study)
            if exhibit.kind != kind:
                raise BeamUQError(
                    f"{wildcards.name!r} is a {exhibit.kind}, no {kind}; ask for it in the other "
                    "folder"
                )
            other = map(_relative, exhibit.files(self.grid.study))
            return [*self._tables(exhibit.artifacts(self.grid.study)), *other]

        return of_wildcards

    # -- what pages and targets read; they have no wildcards but the study's -----------------------

    def comparison(self, _: Wildcards) -> Files:
        return [*self._tables(needed_files(self.grid.study)), *map(_relative, DECLARED_FILES)]

    def manifests(self, _: Wildcards) -> Files:
        """What was fetched of every model."""
        sources = (source for source in self.grid.model_sources if not source.startswith("folder:"))
        return sorted({self.paths.model_manifest(source) for source in sources})

    def study_tables(self, _: Wildcards) -> Files:
        return self._tables((*self.grid.questions, *self.grid.prompts, *self.grid.measured))

    def explored(self, _: Wildcards) -> Files:
        tables = [table for cell in self.grid.explored for table in self.grid.tables_explored(cell)]
        return self._tables(dict.fromkeys(tables))

    def counted(self) -> Files:
        """A file of each job that the ledger counts, beside the exhibits."""
        return [job.file for job in jobs(self.grid, self.paths.results, exhibits=[])]

    def fetched(self, wildcards: Wildcards) -> Files:
        """Every model, scorer and dataset split that has to be brought here."""
        datasets = {key: self.grid.study.datasets[key] for key in self.grid.datasets}
        fetched = {
            key: dataset for key, dataset in datasets.items() if self.paths.is_fetched(dataset)
        }
        splits = {
            file for key, dataset in fetched.items() for file in self.paths.splits(key, dataset)
        }
        return sorted(splits.union(self.manifests(wildcards)))

    def _tables(self, artifacts: Iterable[Artifact]) -> Files:
        return list(map(self.paths.table, artifacts))


def _relative(path: Path) -> Path:
    """As a path from here, so that two checkouts name the same inputs."""
    return Path(os.path.relpath(path))
