"""What a comparison reads: what was declared before any run (the paper's numbers, errata, claims,
rules), and results.

What the paper's study is stands in ``studies/paper.yaml`` alone; the rules say which of its
settings may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from beamuq.array_types import Bools
from beamuq.config_errors import read_yaml
from beamuq.errors import BeamUQError
from beamuq.evaluation.estimates import Estimates
from beamuq.strategy_names import parse
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ALL, Artifact, read_footer
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import ROOT, STUDIES, Study, load_study

FOLDER = ROOT / "workflow" / "paper_numbers"
PAPER_STUDY = STUDIES / "paper.yaml"
NAMES = ("paper_values.csv", "errata.yaml", "claims.yaml", "tolerances_and_families.yaml")
DECLARED_FILES = (*(FOLDER / name for name in NAMES), PAPER_STUDY)
KEYS = ["table", "model", "dataset", "metric", "method", "variant", "setting"]
STORED = ["metric", "method", "variant", "setting"]
Difference = tuple[str, str]  # a setting's path, and how it differs


@dataclass(frozen=True)
class PaperTable:
    part: str  # main, strategies, epsilon, spectrum or accuracy
    scorer: str | None  # nli, cross_encoder or none
    answer_source: str
    questions: int | None = None  # per dataset, where not all


@dataclass(frozen=True)
class ComparisonRules:
    """``tolerances_and_families.yaml``, and the paper's study."""

    statuses: dict[str, str]  # of a number of the paper → what it means
    agreement: dict[str, float]  # when a number agrees with the paper
    claims: dict[str, float]  # their tolerances
    families: dict[str, Any]  # the tests of beam against multinomial
    harmless: dict[str, str]  # a setting's path → why it need not be the paper's
    affects: dict[str, list[str]]  # the beginning of a path → what rests on it
    arbitrary: dict[
        str, str
    ]  # the setting of a number of the paper → why no run can be compared with it
    tables: dict[str, PaperTable]
    templates: dict[str, str]  # sha256 of the prompt templates, by style and adapter
    paper: Study

    def too_few(self, count: int, dataset: str, size: int) -> str:
        """Why ``count`` questions cannot stand for the paper's ``size`` of them, else nothing."""
        enough = count >= self.agreement["least_share_of_questions"] * size
        return "" if enough else f"{count} questions of {dataset}, the paper has {size}"


@dataclass(frozen=True)
class Claim:
    """One claim, in our words."""

    id: str
    where: str
    claim: str
    missing: str = ""  # what would decide it, where no measurement of a study does
    judge: str = ""  # the function that judges it, with ``settings``
    settings: dict[str, Any] = field(default_factory=dict)
    models: Sequence[str] = ()  # those it is about, none for all of the paper's
    datasets: Sequence[str] = ()
    sized: bool = (
        False  # the paper measured a size on its own models, which no other model can deny
    )
    questions: int | None = None  # the paper's, where not all of a dataset's


@dataclass(frozen=True)
class Erratum:
    """An entry of ``errata.yaml``; a test regenerates its facts from the paper's numbers and from
    counterexamples.
    """

    id: str
    erratum: str
    found: str
    touches: str  # value, std, arrow, caption, text or theorem
    facts: dict[str, Any]
    rows: Sequence[
        dict[str, str | list[str]]
    ] = ()  # column → value or values; none for what touches no number

    def selected(self, paper_numbers: pd.DataFrame) -> Bools:
        """Which of the paper's numbers the selectors choose. Raises BeamUQError if one of them
        chooses none.
        """
        chosen_rows = np.zeros(len(paper_numbers), dtype=bool)
        for selector in self.rows:
            values = {
                column: [value] if isinstance(value, str) else value
                for column, value in selector.items()
            }
            chosen = paper_numbers[list(values)].isin(values).all(axis=1).to_numpy()
            if not chosen.any():
                raise BeamUQError(
                    f"errata.yaml: {self.id}: rows: {selector} selects nothing; mend the selector"
                )
            chosen_rows |= chosen
        return chosen_rows


def touching(
    errata: Sequence[Erratum], paper_numbers: pd.DataFrame, touches: str
) -> pd.Series[str]:
    """Of each number of the paper the ids of the errata that touch it in this way, "" for none."""
    names = pd.Series("", paper_numbers.index)
    for entry in errata:
        if entry.touches == touches:
            names += np.where(entry.selected(paper_numbers), f"{entry.id}, ", "")
    return names.str.removesuffix(", ")


def read_paper_numbers() -> pd.DataFrame:
    """``paper_values.csv``, in its order: ``KEYS``, ``printed`` and ``printed_std``, NaN where
    there is none.
    """
    texts = dict.fromkeys(KEYS, str)
    frame = pd.read_csv(
        FOLDER / "paper_values.csv", dtype=texts, keep_default_na=False, na_values={"std": [""]}
    )
    return frame.rename(columns={"value": "printed", "std": "printed_std"})


@cache
def read_errata() -> list[Erratum]:
    return [Erratum(**entry) for entry in read_yaml(FOLDER / "errata.yaml")["errata"]]


@cache
def read_claims() -> list[Claim]:
    return [Claim(**entry) for entry in read_yaml(FOLDER / "claims.yaml")["claims"]]


@cache
def read_rules() -> ComparisonRules:
    rules = read_yaml(FOLDER / "tolerances_and_families.yaml")
    tables = {name: PaperTable(**table) for name, table in rules["tables"].items()}
    return ComparisonRules(**rules | {"tables": tables}, paper=load_study(PAPER_STUDY))


# -- what a study measured -------------------------------------------------------------------------


@dataclass
class ComparisonInputs:
    """A study's results, the paper's numbers and the declared rules; ``folder``: of results, for
    their prompts.
    """

    study: Study
    inputs: Inputs
    paper_numbers: pd.DataFrame
    rules: ComparisonRules
    folder: Path | None = None
    _differences: dict[tuple[Cell, str | None], list[Difference]] = field(default_factory=dict)

    def lacking(self, cells: Sequence[Cell], *kinds: str) -> str:
        """The path of the first of the cells' files of these kinds that was not run, else
        nothing.
        """
        files = (
            cell.file(kind, self.study.main_quality.metric) for cell in cells for kind in kinds
        )
        return next((file.path for file in files if file not in self.inputs), "")

    def estimates(self, cells: Sequence[Cell], **keys: str | Collection[str]) -> Estimates:
        """The estimates of all questions under these ``keys``."""
        return self.inputs.estimates(cells, subset=ALL, **keys)

    def differences(self, cell: Cell, role: str | None = "nli") -> list[Difference]:
        """:func:`differences`, and whether the prompts are of another template than the
        declared.
        """
        if (cell, role) not in self._differences:
            differing = differences(self.study, self.rules, cell, role)
            style, of = self.study.models[cell.model].style, self.study.datasets[cell.dataset]
            path = self.folder and self.folder / Artifact("prompts", cell.dataset, style=style).path
            used = (
                read_footer(path).provenance.get("template_sha256")
                if path and path.is_file()
                else ""
            )
            if used and used != self.rules.templates.get(name := f"{style}/{of.adapter}.txt"):
                differing.append(
                    (
                        "prompts",
                        f"prompts of {cell.dataset} are not from the declared template {name}",
                    )
                )
            self._differences[cell, role] = differing
        return self._differences[cell, role]


def table_cell(study: Study, table: PaperTable, model: str, dataset: str) -> Cell | None:
    """The cell in which a study measures what a table of the paper shows, in the first entry of the
    grid that does.
    """
    for entry in study.grid:
        scoring, main = study.scoring[entry.recipe], entry.recipe == study.main.recipe
        varied = {"strategies": scoring.every_strategy, "epsilon": scoring.epsilon}
        varied["spectrum"] = scoring.alpha or scoring.fixed_k
        scorers = [name for name in entry.scorers if study.scorers[name].kind == table.scorer]
        if table.scorer in (None, "nli"):
            scorers = (
                [name for name in entry.scorers if name == study.main.scorer]
                if table.scorer
                else [""]
            )
        if (
            model in entry.models
            and dataset in entry.datasets
            and scorers
            and varied.get(table.part, main)
        ):
            return Cell(model, dataset, entry.recipe, scorers[0])
    return None


# -- settings that are not the paper's -------------------------------------------------------------


def first(differing: Sequence[Difference], kinds: Collection[str], rules: ComparisonRules) -> str:
    """How the first of the settings differs that numbers of these ``kinds`` rest on, by the rules;
    else nothing.
    """
    for path, how in differing:
        affected = next(
            (every for beginning, every in rules.affects.items() if path.startswith(beginning)),
            kinds,
        )
        if set(affected) & set(kinds):
            return how
    return ""


def differences(
    study: Study, rules: ComparisonRules, cell: Cell, role: str | None = "nli"
) -> list[Difference]:
    """Settings behind a cell that are not the paper's and not declared harmless.

    ``role``: which of the paper's scorers the cell's stands for; None: it has none.
    """
    paper = rules.paper
    sts = next(name for name, scorer in paper.scorers.items() if scorer.kind == "cross_encoder")
    theirs = settings(
        paper,
        Cell(cell.model, cell.dataset, "", sts if role == "cross_encoder" else paper.main.scorer),
    )
    names = {
        "models": cell.model,
        "datasets": cell.dataset,
        "recipes": cell.recipe,
        "scorers": cell.scorer,
    }
    of_paper: dict[str, Collection[str]] = {"models": paper.models, "datasets": paper.datasets}
    own = [name for name in of_paper if names[name] not in of_paper[name]]
    differing = [(name, f"{names[name]} is none of the paper's {name}") for name in own]
    for path, value in settings(study, cell).items():
        if path in theirs and path not in rules.harmless and not _same(path, value, theirs[path]):
            where = path.replace("quality.*", "quality").replace(
                "*", names.get(path.split(".")[0], "")
            )
            differing.append((path, f"{where} is {value}, the paper's is {theirs[path]}"))
    return differing


def settings(study: Study, cell: Cell) -> dict[str, Any]:
    """Every setting behind a cell by its dotted path, with ``*`` for the cell's own model, dataset,
    recipe and scorer.

    Without a recipe: what each strategy has in the first recipe with it. The grid and the scoring
    are left out.
    """
    whole = study.model_dump(mode="json", exclude={"grid", "scoring"})
    every = whole["recipes"].values()
    whole["recipes"][""] = {
        n: next((of[n] for of in every if of[n] is not None), None) for n in next(iter(every))
    }
    relevance = whole["scorers"].get(study.main.relevance, {})
    for name, key in zip(
        ("models", "datasets", "recipes", "scorers"), vars(cell).values(), strict=True
    ):
        whole[name] = {"*": whole[name].get(key, {})}
    whole["relevance"] = {
        name: relevance[name] for name in ("kind", "source", "proxy_for") if relevance
    }
    whole["quality"] = {"*": whole["quality"][0]}
    return {
        str(path): value for path, value in pd.json_normalize(whole).astype(object).iloc[0].items()
    }


def _same(path: str, ours: Any, theirs: Any) -> bool:
    if path.endswith((".source", ".backbone")) and isinstance(ours, str):
        # the hub's id, or a folder that bears the repository's name; of one file in a repository,
        # the file's name
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
    at_least = (
        path == "recipes.*.sample.size"
    )  # the first ``main.num_candidates`` of them are looked at
    return bool(ours >= theirs if at_least else ours == theirs)
