"""What a study measured, as numbers and claims read it, beside what the paper has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from beamuq.evaluation.estimates import Estimates, joined
from beamuq.methods.registry import stored_variant
from beamuq.strategy_names import from_print
from beamuq_study.comparison.paper_numbers_and_claims import ComparisonRules, PaperTable
from beamuq_study.comparison.paper_settings import Difference, differences
from beamuq_study.exhibits.cells import Cell
from beamuq_study.exhibits.result_files import Inputs
from beamuq_study.parquet_tables import ALL, Artifact, read_footer
from beamuq_study.study_config import Study

STORED = ["metric", "method", "variant", "setting"]


@dataclass
class ComparisonInputs:
    """A study's results, the paper's numbers (:func:`read_paper_numbers`) and the declared rules.

    ``folder``: where the results lie, for the templates of their prompts; None: nowhere.
    """

    study: Study
    inputs: Inputs
    paper_numbers: pd.DataFrame
    rules: ComparisonRules
    folder: Path | None = None
    _differences: dict[tuple[Cell, str | None], list[Difference]] = field(default_factory=dict)

    def lacking(self, cells: Sequence[Cell], *kinds: str) -> str:
        """The path of the first of the cells' files of these kinds that was not run, else nothing."""
        files = (cell.file(kind, self.study.main_quality.metric) for cell in cells for kind in kinds)
        return next((file.path for file in files if file not in self.inputs), "")

    def estimates(self, cells: Sequence[Cell]) -> Estimates:
        """What the evaluations of cells hold of all questions."""
        return joined([self.inputs.estimates([cell]).where(subset=ALL) for cell in cells])

    def differences(self, cell: Cell, role: str | None = "nli") -> list[Difference]:
        """:func:`.paper_settings.differences`, and whether the prompts are of another template than the declared."""
        if (cell, role) not in self._differences:
            differing = differences(self.study, self.rules, cell, role)
            style, of = self.study.models[cell.model].style, self.study.datasets[cell.dataset]
            path = self.folder and self.folder / Artifact("prompts", cell.dataset, style=style).path
            used = read_footer(path).provenance.get("template_sha256") if path and path.is_file() else ""
            if used and used != self.rules.templates.get(name := f"{style}/{of.adapter}.txt"):
                differing.append(("prompts", f"prompts of {cell.dataset} are not from the declared template {name}"))
            self._differences[cell, role] = differing
        return self._differences[cell, role]


def table_cell(study: Study, table: PaperTable, model: str, dataset: str) -> Cell | None:
    """The cell in which a study measures what a table of the paper shows, in the first entry of the grid that does."""
    kinds = {name: scorer.kind for name, scorer in study.scorers.items()}
    for entry in study.grid:
        scoring, main = study.scoring[entry.recipe], entry.recipe == study.main.recipe
        varied = {"strategies": scoring.every_strategy, "epsilon": scoring.epsilon}
        varied["spectrum"] = scoring.alpha or scoring.fixed_k
        scorers = [""] if table.scorer is None else [name for name in entry.scorers if kinds[name] == table.scorer]
        if table.scorer == "nli":
            scorers = [name for name in entry.scorers if name == study.main.scorer]
        if model in entry.models and dataset in entry.datasets and scorers and varied.get(table.part, main):
            return Cell(model, dataset, entry.recipe, scorers[0])
    return None


def stored_keys(study: Study, paper_numbers: pd.DataFrame) -> pd.DataFrame:
    """The keys under which an evaluation holds the paper's numbers: :data:`STORED`.

    The paper names some methods without their variant; ``beam`` and the main temperature are the main line, "".
    """
    forms, main = zip(paper_numbers["method"], paper_numbers["variant"], strict=True), {"beam", study.main.sample}
    settings = [from_print(setting) for setting in paper_numbers["setting"]]
    return paper_numbers[STORED].assign(
        variant=[method and stored_variant(method, variant) for method, variant in forms],
        setting=["" if setting in main else setting for setting in settings],
    )
