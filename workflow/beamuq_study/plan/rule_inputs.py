"""The input files of rules that depend on what the study says: which models, which tables, which plug-ins."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from beamuq import plugins
from beamuq.prompts.prompt_template import PROMPTS
from beamuq_study.comparison.claims import needed_files
from beamuq_study.comparison.comparison_inputs import DECLARED_FILES
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.parquet_tables import Artifact
from beamuq_study.plan.cells_of_a_study import P_TRUE
from beamuq_study.plan.paths import Paths
from beamuq_study.plan.stage_settings import StageSettings, Wildcards

Files = list[Path]


@dataclass(frozen=True)
class RuleInputs:
    """Input functions of the rules: wildcards to files, none where a job does not read any."""

    settings: StageSettings
    paths: Paths

    # -- questions and prompts -----------------------------------------------------------------------------------

    def split(self, wildcards: Wildcards) -> Path:
        """What the questions of a dataset are made from."""
        dataset = self.settings.grid.study.datasets[wildcards.dataset]
        return self.paths.split(wildcards.dataset, dataset, dataset.split)

    def few_shot_split(self, wildcards: Wildcards) -> Files:
        """What its few-shot examples are made from, where there are any."""
        dataset = self.settings.grid.study.datasets[wildcards.dataset]
        return [self.paths.split(wildcards.dataset, dataset, dataset.few_shot_split)] if dataset.few_shot else []

    def template(self, wildcards: Wildcards) -> Path:
        """The prompt template of a style and dataset."""
        adapter = self.settings.grid.study.datasets[wildcards.dataset].adapter
        return _relative(PROMPTS / wildcards.style / f"{adapter}.txt")

    def prompts(self, wildcards: Wildcards) -> Path:
        """The prompts that the cell's model is asked."""
        style = self.settings.grid.study.models[wildcards.model].style
        return self.paths.table(Artifact("prompts", style=style, dataset=wildcards.dataset))

    # -- models and plug-ins -------------------------------------------------------------------------------------

    def model(self, rule: str, name: str = "model") -> Callable[[Wildcards], Files]:
        """The input function of a model: a file in its folder, where the rule's job loads it."""

        def of_wildcards(wildcards: Wildcards) -> Files:
            source = self.settings.sources(rule, wildcards)[name]
            return [self.paths.model_manifest(source)] if source else []

        return of_wildcards

    def plugins(self, rule: str) -> Callable[[Wildcards], Files]:
        """The input function of the files of plug-ins that the rule's job uses."""
        return lambda wildcards: list(map(Path, plugins.source_files(self.settings.plugin_names(rule, wildcards))))

    def p_true_template(self, wildcards: Wildcards) -> Files:
        """The prompt of P(True), where a method of the cell asks for it."""
        needs = self.settings.grid.judgements_of(wildcards.recipe)
        return [_relative(PROMPTS / "p_true.txt")] if P_TRUE in needs else []

    # -- candidates, scores, evaluation ----------------------------------------------------------------------------

    def shards(self, wildcards: Wildcards) -> Files:
        """The shards of a cell's decoding, where it is cut into any."""
        count = self.settings.machine.shards
        whole = self.paths.table(self.settings.cell(wildcards).table("candidates"))
        return [whole.with_suffix(".shards") / f"{k}-of-{count}.parquet" for k in range(1, count + 1) if count > 1]

    def judgements(self, wildcards: Wildcards) -> Files:
        """What models were asked of the cell's answers, where a method needs it."""
        needs = self.settings.grid.judgements_of(wildcards.recipe)
        return [self.paths.table(self.settings.cell(wildcards).table("judgements"))] if needs else []

    def cross_similarity(self, wildcards: Wildcards) -> Files:
        """The similarity of SAR's own scorer, where the cell has SAR."""
        judge = self.settings.grid.judges_of(wildcards.recipe).get("relevance")
        return [self.paths.table(self.settings.cell(wildcards).table("similarity", scorer=judge))] if judge else []

    def quality(self, wildcards: Wildcards) -> Path:
        """The main quality of the cell's answers."""
        return self._qualities(wildcards)[0]

    def further_qualities(self, wildcards: Wildcards) -> Files:
        """Their quality by every other metric measured on the dataset."""
        return self._qualities(wildcards)[1:]

    def _qualities(self, wildcards: Wildcards) -> Files:
        return self._tables(self.settings.grid.qualities_of(self.settings.cell(wildcards)))

    # -- exhibits and pages; each reads study.json, and these beside it ----------------------------------------------

    def exhibit(self, wildcards: Wildcards) -> Files:
        """The tables that an exhibit reads, and what else it reads (templates)."""
        study = self.settings.grid.study
        exhibit = list_of_exhibits.exhibit(wildcards.name, study)
        return [*self._tables(exhibit.artifacts(study)), *map(_relative, exhibit.files(study))]

    def comparison(self, wildcards: Wildcards) -> Files:  # noqa: ARG002
        """Every table that is compared with the paper, and its numbers, errata, claims and tolerances."""
        return [*self._tables(needed_files(self.settings.grid.study)), *map(_relative, DECLARED_FILES)]

    def manifests(self, wildcards: Wildcards) -> Files:  # noqa: ARG002
        """What was fetched of every model."""
        sources = self.settings.grid.model_uses
        return sorted({self.paths.model_manifest(s) for s in sources if not s.startswith("folder:")})

    def study_tables(self, wildcards: Wildcards) -> Files:  # noqa: ARG002
        """Every table of the study up to its evaluations."""
        grid = self.settings.grid
        return self._tables((*grid.questions, *grid.prompts, *grid.measured))

    def explored(self, wildcards: Wildcards) -> Files:  # noqa: ARG002
        """Every table that the explorer shows."""
        grid = self.settings.grid
        return self._tables(dict.fromkeys(table for shown in grid.explored for table in grid.tables_explored(*shown)))

    def measured(self, wildcards: Wildcards) -> Files:  # noqa: ARG002
        """The tables whose jobs are measured, and their benchmarks.

        A benchmark that is not beside its table is none of them: to ask for it would run its job again, on a GPU
        perhaps, where results came without.
        """
        files = {self.paths.table(artifact): self.paths.benchmark(artifact) for artifact in self.settings.grid.measured}
        benchmarks = (benchmark for table, benchmark in files.items() if benchmark.exists() or not table.exists())
        return [*files, *benchmarks]

    def fetched(self, wildcards: Wildcards) -> Files:
        """Every model, scorer and dataset split that has to be brought here."""
        study, files = self.settings.grid.study, set(self.manifests(wildcards))
        for key in self.settings.grid.datasets:
            if self.paths.is_fetched(study.datasets[key]):
                files.update(self.paths.splits(study, key).values())
        return sorted(files)

    def _tables(self, artifacts: Iterable[Artifact]) -> Files:
        return list(map(self.paths.table, artifacts))


def _relative(path: Path) -> Path:
    """As a path from here, so that two checkouts name the same inputs."""
    return Path(os.path.relpath(path))
