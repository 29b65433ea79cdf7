"""Tolerances, families of tests and the paper's settings, declared before any run: ``comparison_rules.yaml``."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from beamuq.errors import BeamUQError
from beamuq.study import ROOT

FOLDER = ROOT / "workflow" / "paper_numbers"
FILES = ("paper_values.csv", "printed_gain_arrows.csv", "errata.yaml", "claims.yaml", "comparison_rules.yaml")

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
    negligible: Share
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
    """A model of the paper."""

    source: str
    style: Literal["base", "instruct"]
    enable_thinking: bool | None = None


class PaperDataset(Strict):
    """A dataset's settings in the paper. ``questions`` are counted where they were asked, not compared."""

    adapter: str
    source: str
    config: str | None = None
    split: str
    few_shot_split: str = "train"
    few_shot: int
    questions: int
    max_new_tokens: int


class PaperQuality(Strict):
    """How right an answer is, in the paper."""

    metric: str
    source: str
    backbone: str
    threshold: float
    proxy_for: None


class PaperEvaluation(Strict):
    """How scores are measured in the paper."""

    max_rejection: float


class PaperMain(Strict):
    """What the paper's main tables are made of."""

    num_candidates: int
    sample: str
    beam: str
    alpha: float
    epsilon: float


class PaperSize(Strict):
    """How many candidates a strategy gives."""

    size: int


class PaperBeam(Strict):
    """How beams are searched, whatever their width."""

    length_penalty: float
    early_stopping: Literal["never"]


class PaperRecipe(Strict):
    """What every recipe shares; widths, temperatures and the like are in the strategies' names."""

    sample: PaperSize
    beam: PaperBeam
    diverse: PaperSize
    hybrid: PaperSize


class PaperScorer(Strict):
    """A similarity of the paper."""

    kind: str
    source: str
    proxy_for: None


class Protocol(Strict):
    """What a cell must share with the paper; the fields are those of :class:`beamuq.study.Study`."""

    newline_stops: bool
    merge_stop_tokens: bool
    quality: PaperQuality
    evaluation: PaperEvaluation
    main: PaperMain
    recipes: dict[Literal["any"], PaperRecipe]
    scorers: dict[Literal["nli", "cross_encoder"], PaperScorer]
    models: dict[str, PaperModel]
    datasets: dict[str, PaperDataset]


class PaperTable(Strict):
    """Where a printed table's measurements lie in a study; ``questions``: per dataset, where not all."""

    rows: int
    part: Literal["main", "strategies", "epsilon", "spectrum", "accuracy"]
    scorer: Literal["nli", "cross_encoder"] | None
    answer_source: Literal["greedy", "top_beam"]
    questions: int | None = None


class ComparisonRules(Strict):
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


def read(folder: Path = FOLDER) -> ComparisonRules:
    """``comparison_rules.yaml``."""
    found: ComparisonRules = read_yaml(ComparisonRules, folder / "comparison_rules.yaml")
    return found


def hashes(folder: Path = FOLDER) -> dict[str, str]:
    """sha256 of every declared file, for provenance."""
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in FILES}
