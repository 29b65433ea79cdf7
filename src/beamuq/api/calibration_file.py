"""What a calibration is, as ``beamuq calibrate`` writes it and ``beamuq decide`` reads it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from beamuq.api.calibration_plot import plot_calibration
from beamuq.api.endings_in_scores import EndingCount
from beamuq.api.score_settings import settings_in_json
from beamuq.api.server_identity import WEIGHTS_UNKNOWN, ServerIdentity
from beamuq.config_errors import StrictModel, validated
from beamuq.drawing.series_on_axes import Axes
from beamuq.errors import reading
from beamuq.evaluation.bootstrap import Estimate
from beamuq.evaluation.guaranteed_threshold import GuaranteedThreshold, Share
from beamuq.evaluation.probability_of_being_right import Calibrator, LabelledScores
from beamuq.io import write_text

ROUNDING = 1e-9  # of the bound, which is computed in another way than the test
Count = Annotated[int, Field(ge=1)]
Right = Annotated[int, Field(ge=0)]


class Map(StrictModel):
    """From a score to the probability of being right: the calibration's answers, by score."""

    kind: Annotated[Calibrator, Field(description="how a score becomes a probability")]
    scores: Annotated[tuple[float, ...], Field(min_length=1, description="each once, rising")]
    n: Annotated[tuple[Count, ...], Field(description="answers of each score")]
    right: Annotated[tuple[Right, ...], Field(description="how many of them are right")]

    @model_validator(mode="after")
    def _fits(self) -> Map:
        same_lengths = len(self.scores) == len(self.n) == len(self.right)
        if not same_lengths or tuple(sorted(set(self.scores))) != self.scores:
            raise ValueError(
                "scores, n and right: give one of each, scores rising; calibrate again"
            )
        if any(right > n for right, n in zip(self.right, self.n, strict=True)):
            raise ValueError("right: more right answers than answers of one score; calibrate again")
        return self

    def known(self) -> LabelledScores:
        """As the calibrators take it."""
        return LabelledScores(
            np.array(self.scores, dtype=np.float64),
            np.array(self.n, dtype=np.float64),
            np.array(self.right, dtype=np.float64),
        )


class CalibrationFile(StrictModel):
    """What ``decide`` reads.

    A model, prompt, setting or version that is null is not known and cannot be compared.
    """

    format: Annotated[
        Literal["beamuq calibration 2"], Field(description="by which the file is known")
    ] = "beamuq calibration 2"
    method: Annotated[str, Field(description="whose scores were calibrated")]
    form: Annotated[
        str, Field(description="the column variant: multinomial, beamsearch or, of one form, empty")
    ]
    setting: Annotated[
        str, Field(description="the further formulation of the method, mostly empty")
    ]
    similarity: Annotated[str, Field(description="by which texts were compared")]
    model: Annotated[str | None, Field(description="which gave the answers")]
    model_hash: Annotated[str | None, Field(description="sha256 of the model's files")]
    prompt_hash: Annotated[
        str | None, Field(description="sha256 of the prompt around the question")
    ]
    scored_with: Annotated[str | None, Field(description="the settings of score, in JSON")]
    server: Annotated[
        ServerIdentity | None,
        Field(
            description="what is known of the server that answered; of a model in memory left out"
        ),
    ] = None
    candidates: Annotated[
        tuple[int, int] | None, Field(description="the fewest and the most of a score")
    ]
    without_ending: Annotated[
        int | None,
        Field(
            ge=0,
            description=(
                "how many of the scores lack their ending's log-probability, by their notes; of "
                "older files, and where rows do not say it, left out"
            ),
        ),
    ] = None
    n: Annotated[int, Field(ge=1, description="answers")]
    groups: Annotated[
        int, Field(ge=1, description="groups of them; without groups as many as answers")
    ]
    right: Annotated[Share, Field(description="share of right answers")]
    threshold: Annotated[
        GuaranteedThreshold, Field(description="up to which score answers are shown")
    ]
    map: Annotated[Map, Field(description="from a score to a probability")]
    ece: Annotated[
        Estimate,
        Field(description="expected calibration error, ten bins of equal width, cross-fitted"),
    ]
    brier: Annotated[
        Estimate, Field(description="mean squared error of the probability, cross-fitted")
    ]
    versions: Annotated[
        dict[str, str], Field(description="of beamuq, as the scores say it, and of what it uses")
    ]
    made: Annotated[
        str | None,
        Field(
            pattern=r"^\d{4}-\d\d-\d\d$", description="the date, in UTC; of older files left out"
        ),
    ] = None

    @model_validator(mode="after")
    def _is_of_the_same_answers(self) -> CalibrationFile:
        if sum(self.map.n) != self.n:
            raise ValueError(
                f"n: {self.n}, and the map is of {sum(self.map.n)} answers; calibrate again"
            )
        if self.without_ending is not None and self.without_ending > self.n:
            raise ValueError(
                f"without_ending: {self.without_ending} of {self.n} answers; calibrate again"
            )
        return self

    @field_validator("scored_with")
    @classmethod
    def _settings_are_an_object(cls, text: str | None) -> str | None:
        return settings_in_json(text)

    @model_validator(mode="after")
    def _threshold_has_its_guarantee(self) -> CalibrationFile:
        threshold = self.threshold
        if threshold.value is not None and threshold.upper > threshold.risk + ROUNDING:
            raise ValueError(
                f"threshold.risk: {threshold.risk:g}, and the bound at the threshold is "
                f"{threshold.upper:g}; calibrate again with this risk"
            )
        if not threshold.wrong <= threshold.shown <= threshold.tested <= threshold.units:
            raise ValueError(
                f"threshold: {threshold.wrong} wrong of {threshold.shown} shown of "
                f"{threshold.tested} tested of {threshold.units}; calibrate again"
            )
        return self

    @property
    def endings(self) -> EndingCount | None:
        """How many of its scores lack their ending's log-probability; None: not known."""
        return None if self.without_ending is None else EndingCount(self.without_ending, self.n)

    def as_json(self) -> str:
        """The text of its file, one JSON object."""
        may_be_left_out = ("server", "made", "without_ending")
        unsaid = {name for name in may_be_left_out if getattr(self, name) is None}
        content = self.model_dump(exclude=unsaid)
        return json.dumps(content, indent=1, ensure_ascii=False)

    def write(self, path: str | Path) -> None:
        """Write it, atomically."""
        write_text(Path(path), f"{self.as_json()}\n")

    def plot(
        self, new_scores: npt.ArrayLike | None = None, axes: Sequence[Axes] = ()
    ) -> list[Axes]:
        """Draw risk against coverage with the threshold, reliability, and the scores.

        Three axes, which are returned: :func:`beamuq.api.calibration_plot.plot_calibration`.
        """
        return plot_calibration(self, new_scores, axes)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        form = f" + {self.form}" if self.form else ""
        return (
            f"calibrated    {self.method}{form}: {self.n} answers in {self.groups} groups, "
            f"{self.right:.1%} right\n"
            f"threshold     {_threshold_in_words(self.threshold)}\n"
            f"probability   {self.map.kind}; expected calibration error {_with_interval(self.ece)} "
            f"(10 equal bins), Brier score {_with_interval(self.brier)}, cross-fitted"
            f"{self._server_in_words()}"
        )

    def _server_in_words(self) -> str:
        if self.server is None:
            return ""
        return f"\nserver        {self.server.kind} {self.server.version}: {WEIGHTS_UNKNOWN}"


def _threshold_in_words(threshold: GuaranteedThreshold) -> str:
    guarantee = f"{threshold.risk:.0%} wrong, confidence {threshold.confidence:.0%}"
    if threshold.value is None:
        return f"none at {guarantee}: {threshold.note}"
    return (
        f"{threshold.value:.6g} ({guarantee}): of {threshold.tested} tested {threshold.shown} "
        f"shown, {threshold.wrong} wrong; risk at most {threshold.upper:.3f}"
    )


def _with_interval(estimate: Estimate) -> str:
    around = "" if estimate.low is None else f" [{estimate.low:.3f}, {estimate.high:.3f}]"
    return f"{estimate.value:.3f}{around}"


def read_calibration(path: str | Path) -> CalibrationFile:
    """A calibration file.

    Raises BeamUQError in one line, if it is missing, cut off, a FIFO or a device, or no file of
    this kind.
    """
    with reading(
        Path(path),
        "a calibration in UTF-8",
        "take the file as beamuq calibrate wrote it, or calibrate again",
    ):
        text = Path(path).read_text(encoding="utf-8")
    return validated(
        CalibrationFile, text, f"{path}: not as beamuq calibrate wrote it", is_json=True
    )
