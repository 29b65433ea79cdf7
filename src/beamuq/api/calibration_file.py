"""The calibration file: what ``beamuq calibrate`` found, for which scores of which model, and how it is read."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from beamuq import __version__
from beamuq.config_errors import StrictModel, validated_json
from beamuq.errors import reading
from beamuq.evaluation.bootstrap import Estimate
from beamuq.evaluation.guaranteed_threshold import GuaranteedThreshold, Share
from beamuq.evaluation.probability_of_being_right import Calibrator, LabelledScores
from beamuq.io import write_text


class Map(StrictModel):
    """From a score to the probability of being right: what is known of the calibration's answers, by score."""

    kind: Calibrator
    scores: Annotated[list[float], Field(min_length=1, description="each once, rising")]
    n: Annotated[list[int], Field(description="answers of each score")]
    right: Annotated[list[int], Field(description="how many of them are right")]

    def known(self) -> LabelledScores:
        """As the calibrators take it."""
        return LabelledScores(*(np.array(each, dtype=np.float64) for each in (self.scores, self.n, self.right)))


class WithInterval(StrictModel):
    """A value and its 95 % bootstrap interval."""

    value: float
    low: float | None
    high: float | None

    @classmethod
    def of(cls, estimate: Estimate) -> WithInterval:
        """Of an estimate that is defined."""
        return cls.model_validate({name: getattr(estimate, name) for name in cls.model_fields})

    def __str__(self) -> str:
        around = "" if self.low is None or self.high is None else f" [{self.low:.3f}, {self.high:.3f}]"
        return f"{self.value:.3f}{around}"


class CalibrationFile(StrictModel):
    """What ``decide`` reads. A model, prompt or version that is null is not known and cannot be compared."""

    format: Literal["beamuq calibration 1"] = "beamuq calibration 1"
    method: str
    form: Annotated[str, Field(description="the column variant: multinomial, beamsearch or, of one form, empty")]
    setting: Annotated[str, Field(description="the further formulation of the method, mostly empty")]
    similarity: str
    model: str | None
    model_hash: Annotated[str | None, Field(description="sha256 of the model's files")]
    prompt_hash: Annotated[str | None, Field(description="sha256 of the prompt around the question")]
    n: Annotated[int, Field(ge=1, description="answers")]
    groups: Annotated[int, Field(ge=1, description="groups of them; without groups as many as answers")]
    right: Annotated[Share, Field(description="share of right answers")]
    seed: int
    threshold: GuaranteedThreshold
    map: Map
    ece: Annotated[WithInterval, Field(description="expected calibration error, ten bins of equal width, cross-fitted")]
    brier: Annotated[WithInterval, Field(description="mean squared error of the probability, cross-fitted")]
    versions: dict[str, str]

    def write(self, path: str | Path) -> None:
        """Write it, atomically."""
        write_text(Path(path), json.dumps(self.model_dump(), indent=1, ensure_ascii=False) + "\n")

    def __str__(self) -> str:
        found, form = self.threshold, f" + {self.form}" if self.form else ""
        of = f"{found.risk:.0%} wrong, confidence {found.confidence:.0%}"
        shown = (
            f"none at {of}: {found.note}"
            if found.value is None
            else f"{found.value:.6g} ({of}): of {found.tested} tested {found.shown} shown, {found.wrong} wrong; "
            f"risk at most {found.upper:.3f}"
        )
        return (
            f"calibrated    {self.method}{form}: {self.n} answers in {self.groups} groups, {self.right:.1%} right\n"
            f"threshold     {shown}\n"
            f"probability   {self.map.kind}; expected calibration error {self.ece} (10 equal bins), "
            f"Brier score {self.brier}, cross-fitted"
        )


def versions() -> dict[str, str]:
    """What a calibration was made with."""
    return {"beamuq": __version__} | {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}


def read_calibration(path: str | Path) -> CalibrationFile:
    """A calibration file.

    Raises
    ------
    BeamUQError
        In one line, if it is missing, cut off, or no file of this kind.
    """
    with reading(path, "a calibration in UTF-8", "take the file as beamuq calibrate wrote it, or calibrate again"):
        text = Path(path).read_text(encoding="utf-8")
    calibration: CalibrationFile = validated_json(CalibrationFile, text, path)
    return calibration
