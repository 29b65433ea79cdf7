"""What was declared before any run, in ``workflow/paper_numbers``: numbers of the paper, errata, claims, rules.

What the paper's study is stands in ``studies/paper.yaml`` alone; the rules say which of its settings may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from beamuq.array_types import Bools
from beamuq.config_errors import read_yaml
from beamuq.errors import BeamUQError
from beamuq_study.study_config import ROOT, STUDIES, Study, load_study

FOLDER = ROOT / "workflow" / "paper_numbers"
PAPER_STUDY = STUDIES / "paper.yaml"
NAMES = ("paper_values.csv", "errata.yaml", "claims.yaml", "tolerances_and_families.yaml")
DECLARED_FILES = (*(FOLDER / name for name in NAMES), PAPER_STUDY)
KEYS = ["table", "model", "dataset", "metric", "method", "variant", "setting"]


@dataclass(frozen=True)
class PaperTable:
    part: str  # main, strategies, epsilon, spectrum or accuracy
    scorer: str | None  # nli, cross_encoder or none
    answer_source: str
    questions: int | None = None  # per dataset, where not all


@dataclass(frozen=True)
class ComparisonRules:
    """``tolerances_and_families.yaml``, and the paper's study."""

    agreement: dict[str, float]  # when a number agrees with the paper
    claims: dict[str, float]  # their tolerances
    families: dict[str, Any]  # the tests of beam against multinomial
    harmless: dict[str, str]  # a setting's path → why it need not be the paper's
    affects: dict[str, list[str]]  # the beginning of a path → what rests on it
    arbitrary: dict[str, str]  # the setting of a number of the paper → why no run can be compared with it
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
    sized: bool = False  # the paper measured a size on its own models, which no other model can deny
    questions: int | None = None  # the paper's, where not all of a dataset's


@dataclass(frozen=True)
class Erratum:
    """An entry of ``errata.yaml``; a test regenerates its facts from the paper's numbers and from counterexamples."""

    id: str
    erratum: str
    found: str
    touches: str  # value, std, arrow, caption, text or theorem
    facts: dict[str, Any]
    rows: Sequence[dict[str, str | list[str]]] = ()  # column → value or values; none for what touches no number

    def selected(self, paper_numbers: pd.DataFrame) -> Bools:
        """Which of the paper's numbers the selectors choose. Raises BeamUQError if one of them chooses none."""
        chosen_rows = np.zeros(len(paper_numbers), dtype=bool)
        for selector in self.rows:
            values = {column: [value] if isinstance(value, str) else value for column, value in selector.items()}
            chosen = paper_numbers[list(values)].isin(values).all(axis=1).to_numpy()
            if not chosen.any():
                raise BeamUQError(f"errata.yaml: {self.id}: rows: {selector} selects nothing; mend the selector")
            chosen_rows |= chosen
        return chosen_rows


def touching(errata: Sequence[Erratum], paper_numbers: pd.DataFrame, touches: str) -> pd.Series[str]:
    """Of each number of the paper the ids of the errata that touch it in this way, "" for none."""
    names = pd.Series("", paper_numbers.index)
    for entry in errata:
        if entry.touches == touches:
            names += np.where(entry.selected(paper_numbers), f"{entry.id}, ", "")
    return names.str.removesuffix(", ")


def read_paper_numbers() -> pd.DataFrame:
    """``paper_values.csv``, in its order: ``KEYS``, ``printed`` and ``printed_std``, NaN where there is none."""
    texts = dict.fromkeys(KEYS, str)
    frame = pd.read_csv(FOLDER / "paper_values.csv", dtype=texts, keep_default_na=False, na_values={"std": [""]})
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
