"""Tolerances, families and the paper's protocol, declared before any run in ``workflow/published/comparison.yaml``."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from beamuq.errors import BeamUQError
from beamuq.study import ROOT

FOLDER = ROOT / "workflow" / "published"
FILES = ("paper_values.csv", "arrows.csv", "errata.yaml", "claims.yaml", "comparison.yaml")

Share = Annotated[float, Field(gt=0, lt=1)]
T = TypeVar("T")


class Strict(BaseModel):
    """A part of a declared file: unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Agreement(Strict):
    """When a cell agrees with print."""

    z: Annotated[float, Field(gt=0)]
    least_share_of_questions: Share
    power: Share


class ClaimRules(Strict):
    """What the measures of claims share."""

    level: Share
    plateau: Share
    plateau_slack: Annotated[int, Field(ge=0)]
    nearly_all: Share


class Families(Strict):
    """The tests of beam against multinomial, and how each family is corrected."""

    methods: list[str]
    metric: Literal["PRR"]
    level: Share
    resamples: Annotated[int, Field(ge=100)]
    headline: Literal["holm"]
    cells: Literal["benjamini-hochberg"]


class PaperModel(Strict):
    """A model of the paper: hub id and prompt style."""

    source: str
    style: Literal["base", "instruct"]


class PaperDataset(Strict):
    """A dataset's settings in the paper."""

    questions: int
    few_shot: int
    max_new_tokens: int


class Protocol(Strict):
    """What a cell must share with the paper."""

    quality: str
    threshold: float
    max_rejection: float
    size: int
    sample: str
    beam: str
    alpha: float
    epsilon: float
    scorers: dict[Literal["nli", "cross_encoder"], str]
    models: dict[str, PaperModel]
    datasets: dict[str, PaperDataset]


class PaperTable(Strict):
    """Where a printed table's measurements lie in a study; ``questions``: per dataset, where not all."""

    rows: int
    part: Literal["main", "strategies", "epsilon", "spectrum", "accuracy"]
    scorer: Literal["nli", "cross_encoder"] | None
    produced: Literal["greedy", "top_beam"]
    questions: int | None = None


class Declared(Strict):
    """The whole file."""

    agreement: Agreement
    claims: ClaimRules
    families: Families
    protocol: Protocol
    tables: dict[str, PaperTable]


def read_yaml(kind: Any, path: Path) -> Any:
    """A YAML file checked against a type. Raises BeamUQError naming the file and the first bad key."""
    try:
        return TypeAdapter(kind).validate_python(yaml.safe_load(path.read_text(encoding="utf-8")))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BeamUQError(f"{path}: {where}: {first['msg']}; restore the file or mend the key") from error
    except (OSError, yaml.YAMLError) as error:
        raise BeamUQError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error


def read(folder: Path = FOLDER) -> Declared:
    """``comparison.yaml``."""
    found: Declared = read_yaml(Declared, folder / "comparison.yaml")
    return found


def hashes(folder: Path = FOLDER) -> dict[str, str]:
    """sha256 of every declared file, for provenance."""
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}
