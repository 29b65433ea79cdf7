"""How a run is held against print, declared before any run: ``workflow/paper_numbers/tolerances_and_families.yaml``.

What the paper's study is stands in ``studies/paper.yaml`` alone; the rules say which of its settings may differ.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from beamuq.config_errors import StrictModel, read_mapping, read_yaml, validated
from beamuq.parquet_tables import file_sha256
from beamuq.study_config import ROOT, STUDIES, Study, load_study

FOLDER = ROOT / "workflow" / "paper_numbers"
PAPER_STUDY = STUDIES / "paper.yaml"
NAMES = ("paper_values.csv", "errata.yaml", "claims.yaml", "tolerances_and_families.yaml")
DECLARED_FILES = (*(FOLDER / name for name in NAMES), PAPER_STUDY)

Share = Annotated[float, Field(gt=0, lt=1)]


class Agreement(StrictModel):
    """When a cell agrees with print."""

    z: Annotated[float, Field(gt=0)]
    least_share_of_questions: Share
    power: Share


class ClaimTolerances(StrictModel):
    """What the measures of claims share."""

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
    """The whole file, and the paper's study.

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

    def questions(self, dataset: str, table: str = "") -> int:
        """How many questions of a dataset the paper asked, for one of its tables."""
        return (self.tables[table].questions if table else None) or self.paper.datasets[dataset].questions


def read_declared(kind: Any, path: Path) -> Any:
    """A declared YAML file checked against a type. Raises BeamUQError naming the file and the first bad key."""
    return validated(kind, read_yaml(path), path)


def read_rules() -> ComparisonRules:
    """The declared rules and ``studies/paper.yaml`` together. Raises BeamUQError if one is not valid."""
    path = FOLDER / "tolerances_and_families.yaml"
    return validated(ComparisonRules, read_mapping(path) | {"paper": load_study(PAPER_STUDY)}, path)


def declared_hashes() -> dict[str, str]:
    """sha256 of every declared file, for provenance."""
    return {path.name: file_sha256(path) for path in DECLARED_FILES}
