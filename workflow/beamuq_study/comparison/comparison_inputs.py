"""What a comparison reads: what was declared before any run, and a study's results.

Declared are the paper's numbers, errata, claims and rules.

What the paper's study is stands in ``studies/paper.yaml`` alone; the rules say which of its
settings may differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
class DeclaredFamilies:
    """The tests of beam against multinomial, in two families."""

    methods: Sequence[str]
    metric: str
    level: float  # of significance, after correction
    resamples: int
    headline: str  # how the means over datasets are corrected
    cells: str  # how those of every dataset are


@dataclass(frozen=True)
class ComparisonRules:
    """``tolerances_and_families.yaml``, and the paper's study."""

    statuses: dict[str, str]  # of a number of the paper → what it means
    agreement: dict[str, float]  # when a number agrees with the paper
    claims: dict[str, float]  # their tolerances
    families: DeclaredFamilies
    harmless: dict[str, str]  # a setting's path → why it need not be the paper's
    affects: dict[str, list[str]]  # the beginning of a path → what rests on it
    # the setting of a number of the paper → why no run can be compared with it
    arbitrary: dict[str, str]
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
    settings: Mapping[str, Any] = field(default_factory=dict)
    models: Sequence[str] = ()  # those it is about, none for all of the paper's
    datasets: Sequence[str] = ()
    # whether the paper measured a size on its own models, which no other model can deny
    sized: bool = False
    questions: int | None = None  # the paper's, where not all of a dataset's


@dataclass(frozen=True)
class Erratum:
    """An entry of ``errata.yaml``.

    A test regenerates its facts from the paper's numbers and from counterexamples.
    """

    id: str
    erratum: str
    found: str
    touches: str  # value, std, arrow, caption, text or theorem
    facts: Mapping[str, object]
    # column → value or values; none for what touches no number
    rows: Sequence[dict[str, str | list[str]]] = ()

    def selected(self, paper_numbers: pd.DataFrame) -> Bools:
        """Which of the paper's numbers the selectors choose. BeamUQError: one chooses none."""
        chosen_rows = np.zeros(len(paper_numbers), dtype=bool)
        for selector in self.rows:
            chosen = _matching(paper_numbers, selector)
            if not chosen.any():
                raise BeamUQError(
                    f"errata.yaml: {self.id}: rows: {selector} selects nothing; mend the selector"
                )
            chosen_rows |= chosen
        return chosen_rows


def _matching(paper_numbers: pd.DataFrame, selector: dict[str, str | list[str]]) -> Bools:
    """Whether each of the paper's numbers has one of a selector's values in all its columns."""
    matching = np.ones(len(paper_numbers), dtype=bool)
    for column, values in selector.items():
        accepted = [values] if isinstance(values, str) else values
        matching &= paper_numbers[column].isin(accepted).to_numpy()
    return matching


def touching(
    errata: Sequence[Erratum], paper_numbers: pd.DataFrame, touches: str
) -> pd.Series[str]:
    """Of each number of the paper the ids of the errata that touch it in this way, "" for none."""
    ids = pd.Series("", paper_numbers.index)
    for erratum in errata:
        if erratum.touches == touches:
            ids += np.where(erratum.selected(paper_numbers), f"{erratum.id}, ", "")
    return ids.str.removesuffix(", ")


def read_paper_numbers() -> pd.DataFrame:
    """``paper_values.csv``: ``KEYS``, ``printed`` and ``printed_std``, NaN where there is none."""
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
    families = DeclaredFamilies(**rules["families"])
    parsed = {"tables": tables, "families": families, "paper": load_study(PAPER_STUDY)}
    return ComparisonRules(**rules | parsed)


# -- what a study measured -------------------------------------------------------------------------


@dataclass
class ComparisonInputs:
    """A study's results, the paper's numbers and the rules; ``folder``: of results, for prompts."""

    study: Study
    inputs: Inputs
    paper_numbers: pd.DataFrame
    rules: ComparisonRules
    folder: Path | None = None
    _differences: dict[tuple[Cell, str | None], list[Difference]] = field(default_factory=dict)

    def lacking(self, cells: Sequence[Cell], *kinds: str) -> str:
        """The path of the first file of these kinds and cells that was not run, else nothing."""
        metric = self.study.main_quality.metric
        for cell in cells:
            for kind in kinds:
                file = cell.file(kind, metric)
                if file not in self.inputs:
                    return file.path
        return ""

    def estimates(
        self, cells: Sequence[Cell], quality: str = "", /, **keys: str | Collection[str]
    ) -> Estimates:
        """The estimates of all questions under these ``keys``, by one quality ("": the main)."""
        return self.inputs.estimates(cells, quality, subset=ALL, **keys)

    def differences(self, cell: Cell, role: str | None = "nli") -> list[Difference]:
        """:func:`differences`, and whether the prompts are of another template than declared."""
        if (cell, role) not in self._differences:
            differing = differences(self.study, self.rules, cell, role)
            self._differences[cell, role] = differing + self._differing_prompts(cell)
        return self._differences[cell, role]

    def _differing_prompts(self, cell: Cell) -> list[Difference]:
        """Whether the prompts say that they are from another template than declared."""
        if self.folder is None:
            return []
        style = self.study.models[cell.model].style
        path = self.folder / Artifact("prompts", cell.dataset, style=style).path
        if not path.is_file():
            return []
        template = f"{style}/{self.study.datasets[cell.dataset].adapter}.txt"
        used = read_footer(path).provenance.get("template_sha256")
        if not used or used == self.rules.templates.get(template):
            return []
        how = f"prompts of {cell.dataset} are not from the declared template {template}"
        return [("prompts", how)]


def table_cell(study: Study, table: PaperTable, model: str, dataset: str) -> Cell | None:
    """Where a study measures what a table of the paper shows: the first such cell of the grid."""
    for entry in study.grid:
        if model not in entry.models or dataset not in entry.datasets:
            continue
        scorers = _scorers_for(study, table, entry.scorers)
        if scorers and _measures(study, entry.recipe, table.part):
            return Cell(model, dataset, entry.recipe, scorers[0])
    return None


def _scorers_for(study: Study, table: PaperTable, scorers: Sequence[str]) -> list[str]:
    """The scorers of an entry that stand for the table's: the main one for the paper's NLI model.

    [""] for a table without a scorer.
    """
    if table.scorer is None:
        return [""]
    if table.scorer == "nli":
        return [name for name in scorers if name == study.main.scorer]
    return [name for name in scorers if study.scorers[name].kind == table.scorer]


def _measures(study: Study, recipe: str, part: str) -> bool:
    """Whether a recipe varies what a part of the paper does; of any other part: is the main one."""
    scoring = study.scoring[recipe]
    if part == "strategies":
        return scoring.every_strategy
    if part == "epsilon":
        return bool(scoring.epsilon)
    if part == "spectrum":
        return bool(scoring.alpha or scoring.fixed_k)
    return recipe == study.main.recipe


# -- settings that are not the paper's -------------------------------------------------------------


def first(differing: Sequence[Difference], kinds: Collection[str], rules: ComparisonRules) -> str:
    """How the first of the settings differs that numbers of these ``kinds`` rest on, else nothing.

    The rules say what rests on a setting; on others everything does.
    """
    for path, how in differing:
        affected = _affected(path, rules)
        if affected is None or affected.intersection(kinds):
            return how
    return ""


def _affected(path: str, rules: ComparisonRules) -> set[str] | None:
    """The kinds of numbers that rest on a setting; None: all."""
    for beginning, kinds in rules.affects.items():
        if path.startswith(beginning):
            return set(kinds)
    return None


def differences(
    study: Study, rules: ComparisonRules, cell: Cell, role: str | None = "nli"
) -> list[Difference]:
    """Settings behind a cell that are not the paper's and not declared harmless.

    ``role``: which of the paper's scorers the cell's stands for; None: it has none.
    """
    names = _names_of(cell)
    differing = _names_not_of_paper(rules.paper, cell)
    paper_settings = settings(rules.paper, _paper_cell(rules.paper, cell, role))
    for path, value in settings(study, cell).items():
        if path not in paper_settings or path in rules.harmless:
            continue
        paper_value = paper_settings[path]
        if not _same(path, value, paper_value):
            how = f"{_called(path, names)} is {value}, the paper's is {paper_value}"
            differing.append((path, how))
    return differing


def _names_not_of_paper(paper: Study, cell: Cell) -> list[Difference]:
    """Whether the cell's model or dataset is none of the paper's."""
    differing = []
    if cell.model not in paper.models:
        differing.append(("models", f"{cell.model} is none of the paper's models"))
    if cell.dataset not in paper.datasets:
        differing.append(("datasets", f"{cell.dataset} is none of the paper's datasets"))
    return differing


def _paper_cell(paper: Study, cell: Cell, role: str | None) -> Cell:
    """The paper's cell of the same model and dataset, under its scorer of this role."""
    cross_encoders = [
        name for name, scorer in paper.scorers.items() if scorer.kind == "cross_encoder"
    ]
    scorer = cross_encoders[0] if role == "cross_encoder" else paper.main.scorer
    return Cell(cell.model, cell.dataset, "", scorer)


def _names_of(cell: Cell) -> dict[str, str]:
    """The cell's names by the section of a study's file that they are keys of."""
    return {
        "models": cell.model,
        "datasets": cell.dataset,
        "recipes": cell.recipe,
        "scorers": cell.scorer,
    }


def _called(path: str, names: Mapping[str, str]) -> str:
    """A setting's path with the cell's own name in place of ``*``."""
    section = path.split(".")[0]
    return path.replace("quality.*", "quality").replace("*", names.get(section, ""))


def settings(study: Study, cell: Cell) -> dict[str, Any]:
    """Every setting behind a cell by its dotted path, but for the grid and the scoring.

    ``*`` stands for the cell's own model, dataset, recipe and scorer. Without a recipe: what each
    strategy has in the first recipe with it.
    """
    whole = study.model_dump(mode="json", exclude={"grid", "scoring"})
    whole["recipes"][""] = _first_of_each_strategy(list(whole["recipes"].values()))
    relevance = whole["scorers"].get(study.main.relevance, {})
    for section, name in _names_of(cell).items():
        whole[section] = {"*": whole[section].get(name, {})}
    whole["relevance"] = {
        name: relevance[name] for name in ("kind", "source", "proxy_for") if relevance
    }
    whole["quality"] = {"*": whole["quality"][0]}
    flat = pd.json_normalize(whole).astype(object).iloc[0]
    return {str(path): value for path, value in flat.items()}


def _first_of_each_strategy(recipes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Of each strategy what the first recipe says of it that has it, None where none has."""
    first_settings = dict[str, Any]()
    for name in recipes[0]:
        decoded = [recipe[name] for recipe in recipes if recipe[name] is not None]
        first_settings[name] = decoded[0] if decoded else None
    return first_settings


def _same(path: str, ours: Any, paper_value: Any) -> bool:
    """Whether a setting is the paper's, as far as it matters."""
    if path.endswith((".source", ".backbone")) and isinstance(ours, str):
        return _same_source(ours, str(paper_value))
    if path == "evaluation.max_rejection":  # further ones are rows of their own
        return bool(ours[0] == paper_value[0])
    if path == "main.beam":  # the search's options are settings of their own
        kind, options = parse(ours)
        paper_kind, paper_options = parse(paper_value)
        return kind == paper_kind and options.get("M") == paper_options.get("M")
    if path == "recipes.*.sample.size":  # the first ``main.num_candidates`` are looked at
        return bool(ours >= paper_value)
    return bool(ours == paper_value)


def _same_source(ours: str, paper_source: str) -> bool:
    """Whether a model is the paper's: by its id on the hub, or by its folder's name.

    A folder bears the repository's name; of one file in a repository, the file's name.
    """
    kind, _, name = ours.partition(":")
    if kind == "hub":
        return ours == paper_source
    repository = paper_source.removeprefix("hub:")
    last_part = Path(repository.split("/")[-1])
    is_file = repository.count("/") == 2
    names = (last_part.name, last_part.stem) if is_file else (last_part.name,)
    return kind == "folder" and Path(name).name in names
