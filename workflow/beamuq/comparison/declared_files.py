"""What was declared before any run, in ``workflow/paper_numbers``: printed numbers, errata, claims, rules.

What the paper's study is stands in ``studies/paper.yaml`` alone; the rules say which of its settings may differ.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from beamuq.config_errors import StrictModel, read_mapping, read_yaml, validated
from beamuq.errors import BeamUQError
from beamuq.io import file_sha256
from beamuq.study_config import ROOT, STUDIES, Study, load_study

FOLDER = ROOT / "workflow" / "paper_numbers"
PAPER_STUDY = STUDIES / "paper.yaml"
NAMES = ("paper_values.csv", "errata.yaml", "claims.yaml", "tolerances_and_families.yaml")
DECLARED_FILES = (*(FOLDER / name for name in NAMES), PAPER_STUDY)
KEYS = ["table", "model", "dataset", "metric", "method", "variant", "setting"]

Share = Annotated[float, Field(gt=0, lt=1)]
Identifier = Annotated[str, Field(pattern=r"^[a-z-]+$")]


class Agreement(StrictModel):
    """When a cell agrees with print."""

    z: Annotated[float, Field(gt=0)]
    least_share_of_questions: Share
    power: Share


class ClaimTolerances(StrictModel):
    """What the judgements of claims share."""

    level: Share
    plateau: Share
    plateau_slack: Share
    negligible: Share
    nearly_all: Share


class DeclaredFamilies(StrictModel):
    """The tests of beam against multinomial, and how each family is corrected."""

    methods: list[str]
    metric: Literal["PRR"]
    level: Share
    resamples: Annotated[int, Field(ge=100)]
    headline: Literal["holm"]
    cells: Literal["benjamini-hochberg"]


class PrintedTable(StrictModel):
    """Where a printed table's measurements lie in a study; ``questions``: per dataset, where not all."""

    part: Literal["main", "strategies", "epsilon", "spectrum", "accuracy"]
    scorer: Literal["nli", "cross_encoder"] | None
    answer_source: Literal["greedy", "top_beam"]
    questions: int | None = None


class ComparisonRules(StrictModel):
    """``tolerances_and_families.yaml``, and the paper's study.

    ``harmless``: a setting's path → why it need not be the paper's. ``arbitrary``: a printed number's setting → why no
    run can be held against it. ``templates``: sha256 of the prompt templates, by style and adapter.
    """

    agreement: Agreement
    claims: ClaimTolerances
    families: DeclaredFamilies
    harmless: dict[str, str]
    arbitrary: dict[str, str]
    tables: dict[str, PrintedTable]
    templates: dict[str, str]
    paper: Study

    def too_few(self, count: int, dataset: str, size: int) -> str:
        """Why ``count`` questions cannot stand for the paper's ``size`` of them, else nothing."""
        enough = count >= self.agreement.least_share_of_questions * size
        return "" if enough else f"{count} questions of {dataset}, the paper has {size}"


class Claim(StrictModel):
    """One claim, in our words. ``judge``: the function that judges it, with ``settings``.

    ``missing``: what would decide it, where no measurement of a study does. ``models``, ``datasets``: those it is
    about, none for all of the paper's; ``sized``: print gives a size measured on its own models, which no other model
    can deny; ``questions``: the paper's, where not all of a dataset's.
    """

    id: Identifier
    where: str
    claim: str
    missing: str = ""
    judge: str = ""
    settings: dict[str, Any] = {}
    models: list[str] = []
    datasets: list[str] = []
    sized: bool = False
    questions: int | None = None


class Erratum(StrictModel):
    """An entry of the ledger. ``rows``: selectors, column to value or values; empty for what touches no number."""

    id: Identifier
    erratum: str
    found: str
    touches: Literal["value", "std", "arrow", "caption", "text", "theorem"]
    rows: list[dict[str, str | list[str]]] = []
    facts: dict[str, float | int | str | list[str]]

    def selected(self, printed: pd.DataFrame) -> NDArray[np.bool_]:
        """Which printed numbers the selectors choose. Raises BeamUQError if one of them chooses none."""
        found = np.zeros(len(printed), dtype=bool)
        for selector in self.rows:
            wanted = {column: [value] if isinstance(value, str) else value for column, value in selector.items()}
            chosen = printed[list(wanted)].isin(wanted).all(axis=1).to_numpy()
            if not chosen.any():
                raise BeamUQError(f"errata.yaml: {self.id}: rows: {selector} selects nothing; mend the selector")
            found |= chosen
        return found


class ErrataLedger(StrictModel):
    """``errata.yaml``. A test regenerates every entry's facts from the printed numbers and from counterexamples.

    ``stated``: what the paper says in words, which its numbers are held against.
    """

    stated: dict[str, Any]
    errata: list[Erratum]

    def touching(self, printed: pd.DataFrame, touches: str) -> pd.Series[str]:
        """Of each printed number the ids of the errata that touch it in this way, "" for none."""
        names = pd.Series("", printed.index)
        for entry in self.errata:
            if entry.touches == touches:
                names += np.where(entry.selected(printed), f"{entry.id}, ", "")
        return names.str.removesuffix(", ")


def read_printed() -> pd.DataFrame:
    """``paper_values.csv``, in its order: ``KEYS``, ``printed`` and ``printed_std``, NaN where there is none."""
    texts = dict.fromkeys(KEYS, str)
    frame = pd.read_csv(FOLDER / "paper_values.csv", dtype=texts, keep_default_na=False, na_values={"std": [""]})
    return frame.rename(columns={"value": "printed", "std": "printed_std"})


@cache
def read_ledger() -> ErrataLedger:
    """The ledger of errata. Raises BeamUQError naming the first bad key, as the next two."""
    return _declared(ErrataLedger, FOLDER / "errata.yaml")  # type: ignore[no-any-return]


@cache
def read_claims() -> list[Claim]:
    """``claims.yaml``."""
    return _declared(list[Claim], FOLDER / "claims.yaml")  # type: ignore[no-any-return]


@cache
def read_rules() -> ComparisonRules:
    """The declared rules and ``studies/paper.yaml`` together."""
    path = FOLDER / "tolerances_and_families.yaml"
    return validated(ComparisonRules, read_mapping(path) | {"paper": load_study(PAPER_STUDY)}, path)


def declared_hashes() -> dict[str, str]:
    """sha256 of every declared file, for provenance."""
    return {path.name: file_sha256(path) for path in DECLARED_FILES}


def _declared(kind: Any, path: Path) -> Any:
    return validated(kind, read_yaml(path), path)
