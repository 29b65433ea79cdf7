"""What a study measured, as numbers and claims read it, and whether it measured as the paper did.

What stands behind a cell is compared with that of ``studies/paper.yaml``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq.evaluation.estimates import Estimates, joined
from beamuq.methods.registry import stored_variant
from beamuq.strategy_names import from_print, parse
from beamuq_study.comparison.paper_numbers_and_claims import ComparisonRules, PaperTable
from beamuq_study.exhibits.cells import Cell
from beamuq_study.exhibits.result_files import Inputs
from beamuq_study.parquet_tables import ALL, Artifact, read_footer
from beamuq_study.study_config import Study

STORED = ["metric", "method", "variant", "setting"]
Difference = tuple[str, str]  # a setting's path, and how it differs


@dataclass
class ComparisonInputs:
    """A study's results, the paper's numbers and the declared rules; ``folder``: of results, for their prompts."""

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
        return joined([self.inputs.estimates([cell]).where(subset=ALL) for cell in cells])

    def differences(self, cell: Cell, role: str | None = "nli") -> list[Difference]:
        """:func:`differences`, and whether the prompts are of another template than the declared."""
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
    for entry in study.grid:
        scoring, main = study.scoring[entry.recipe], entry.recipe == study.main.recipe
        varied = {"strategies": scoring.every_strategy, "epsilon": scoring.epsilon}
        varied["spectrum"] = scoring.alpha or scoring.fixed_k
        scorers = [name for name in entry.scorers if study.scorers[name].kind == table.scorer]
        if table.scorer in (None, "nli"):
            scorers = [name for name in entry.scorers if name == study.main.scorer] if table.scorer else [""]
        if model in entry.models and dataset in entry.datasets and scorers and varied.get(table.part, main):
            return Cell(model, dataset, entry.recipe, scorers[0])
    return None


def stored_keys(study: Study, paper_numbers: pd.DataFrame) -> pd.DataFrame:
    """Under which :data:`STORED` keys an evaluation holds the paper's numbers: its forms, and the main line as ""."""
    forms, main = zip(paper_numbers["method"], paper_numbers["variant"], strict=True), {"beam", study.main.sample}
    settings = [from_print(setting) for setting in paper_numbers["setting"]]
    return paper_numbers[STORED].assign(
        variant=[method and stored_variant(method, variant) for method, variant in forms],
        setting=["" if setting in main else setting for setting in settings],
    )


# -- settings that are not the paper's ---------------------------------------------------------------------------------


def first(differing: Sequence[Difference], kinds: Collection[str], rules: ComparisonRules) -> str:
    """How the first of the settings differs that numbers of these ``kinds`` rest on, by the rules; else nothing."""
    for path, how in differing:
        affected = next((every for beginning, every in rules.affects.items() if path.startswith(beginning)), kinds)
        if set(affected) & set(kinds):
            return how
    return ""


def differences(study: Study, rules: ComparisonRules, cell: Cell, role: str | None = "nli") -> list[Difference]:
    """Settings behind a cell that are not the paper's and not declared harmless.

    ``role``: which of the paper's scorers the cell's stands for; None: it has none.
    """
    paper = rules.paper
    sts = next(name for name, scorer in paper.scorers.items() if scorer.kind == "cross_encoder")
    theirs = settings(paper, Cell(cell.model, cell.dataset, "", sts if role == "cross_encoder" else paper.main.scorer))
    names = {"models": cell.model, "datasets": cell.dataset, "recipes": cell.recipe, "scorers": cell.scorer}
    of_paper: dict[str, Collection[str]] = {"models": paper.models, "datasets": paper.datasets}
    own = [name for name in of_paper if names[name] not in of_paper[name]]
    differing = [(name, f"{names[name]} is none of the paper's {name}") for name in own]
    for path, value in settings(study, cell).items():
        if path in theirs and path not in rules.harmless and not _same(path, value, theirs[path]):
            where = path.replace("quality.*", "quality").replace("*", names.get(path.split(".")[0], ""))
            differing.append((path, f"{where} is {value}, the paper's is {theirs[path]}"))
    return differing


def settings(study: Study, cell: Cell) -> dict[str, Any]:
    """Every setting behind a cell by its dotted path, with ``*`` for the cell's own model, dataset, recipe and scorer.

    Without a recipe: what each strategy has in the first recipe with it. The grid and the scoring are left out.
    """
    whole = study.model_dump(mode="json", exclude={"grid", "scoring"})
    every = whole["recipes"].values()
    whole["recipes"][""] = {n: next((of[n] for of in every if of[n] is not None), None) for n in next(iter(every))}
    relevance = whole["scorers"].get(study.main.relevance, {})
    for name, key in zip(("models", "datasets", "recipes", "scorers"), vars(cell).values(), strict=True):
        whole[name] = {"*": whole[name].get(key, {})}
    whole["relevance"] = {name: relevance[name] for name in ("kind", "source", "proxy_for") if relevance}
    whole["quality"] = {"*": whole["quality"][0]}
    return {str(path): value for path, value in pd.json_normalize(whole).astype(object).iloc[0].items()}


def _same(path: str, ours: Any, theirs: Any) -> bool:
    if path.endswith((".source", ".backbone")) and isinstance(ours, str):
        # the hub's id, or a folder that bears the repository's name; of one file in a repository, the file's name
        where, _, name = ours.partition(":")
        repository = str(theirs).removeprefix("hub:")
        file = Path(repository.split("/")[-1])
        names = (file.name, file.stem) if repository.count("/") == 2 else (file.name,)
        return ours == theirs if where == "hub" else where == "folder" and Path(name).name in names
    if path == "evaluation.max_rejection":  # further ones are rows of their own
        return bool(ours[0] == theirs[0])
    if path == "main.beam":  # the search's options are settings of their own
        (kind, options), (other, others) = parse(ours), parse(theirs)
        return kind == other and options.get("M") == others.get("M")
    at_least = path == "recipes.*.sample.size"  # the first ``main.num_candidates`` of them are looked at
    return bool(ours >= theirs if at_least else ours == theirs)
