"""The object that ``beamuq decide --json`` prints: every key with what it means."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from beamuq.config_errors import StrictModel
from beamuq.evaluation.guaranteed_threshold import Share


class ShiftTest(StrictModel):
    """Whether the new scores are distributed as those calibrated on."""

    p: Annotated[
        float | None,
        Field(description="of the two-sample Kolmogorov–Smirnov test; null: there is no score"),
    ]
    n: Annotated[int, Field(description="new scores that were tested")]
    least_p: Annotated[
        float,
        Field(description="where p lies below it, the scores are taken to come from elsewhere"),
    ]


class LabelsOfShown(StrictModel):
    """How many of the shown answers are wrong, by labels that stand beside them."""

    used_to_decide: Annotated[bool, Field(description="never: what is shown depends on no label")]
    shown: Annotated[int, Field(description="answers shown")]
    labelled: Annotated[int, Field(description="of the shown: those with a label")]
    wrong: Annotated[int, Field(description="of the labelled")]
    without_label: Annotated[int, Field(description="of the shown: those without a label")]
    quality_alone: Annotated[
        int,
        Field(description="of those: with a quality, where no quality_threshold was given"),
    ]
    rate: Annotated[
        Share | None, Field(description="wrong / labelled; null: no shown answer has a label")
    ]
    low: Annotated[
        Share | None,
        Field(description="lower end of its interval, Wilson's, by groups where rows have them"),
    ]
    high: Annotated[Share | None, Field(description="upper end")]
    confidence: Annotated[float, Field(description="of the interval")]


class Decision(StrictModel):
    """What is decided of one answer; ``--output`` has the same as columns."""

    id: Annotated[str, Field(description="the answer's")]
    value: Annotated[float | None, Field(description="its score; null: it has none")]
    right: Annotated[
        float | None, Field(description="the probability that it is right: the number to show")
    ]
    right_low: Annotated[
        float | None,
        Field(description="of the two that right is made of, the lower; of isotonic equal to it"),
    ]
    right_high: Annotated[float | None, Field(description="the higher; no confidence interval")]
    shown: Annotated[bool, Field(description="whether its score is at most the threshold")]
    reason: Annotated[
        str,
        Field(description="why it is withheld, or outside of the scores calibrated on; else empty"),
    ]


class Promised(StrictModel):
    """What the calibration promises of the shown answers together."""

    risk: Annotated[Share, Field(description="at most this share of the shown is wrong")]
    confidence: Annotated[Share, Field(description="with which that holds, over calibrations")]
    method: Annotated[str, Field(description="whose scores are compared with the threshold")]
    form: Annotated[str, Field(description="multinomial, beamsearch or, of one form, empty")]
    n: Annotated[int, Field(description="answers calibrated on")]


class DecisionsObject(StrictModel):
    """The decisions on a file of answers."""

    shown: Annotated[int, Field(description="answers shown")]
    answers: Annotated[int, Field(description="answers in all")]
    guarantee_holds: Annotated[
        bool,
        Field(
            description=(
                "false, with exit status 3: p lies below least_p, --force let a difference pass, "
                "or scores were calibrated on"
            )
        ),
    ]
    threshold: Annotated[
        float | None,
        Field(description="scores up to it are shown; null: no threshold has the guarantee"),
    ]
    promised: Annotated[
        Promised | None,
        Field(description="by the calibration; nothing of it holds unless guarantee_holds"),
    ]
    known: Annotated[
        int,
        Field(
            description=(
                "how many of the scores are, to the last digit, such as were calibrated on; 0 "
                "where as few as by chance"
            )
        ),
    ]
    shift: Annotated[
        ShiftTest, Field(description="whether the scores are distributed as the calibration's")
    ]
    labels: Annotated[
        LabelsOfShown | None,
        Field(
            description=(
                "how many of the shown are wrong, by labels beside them; null: no row has correct "
                "or quality"
            )
        ),
    ]
    forced: Annotated[
        list[str],
        Field(description="in what the scores differ from the calibration's, let pass by --force"),
    ]
    warnings: Annotated[
        list[str],
        Field(
            description=(
                "as the command prints them; one where the whole interval of labels lies above the "
                "promised risk, which leaves guarantee_holds as it is"
            )
        ),
    ]
    decisions: Annotated[list[Decision], Field(description="one an answer, in the rows' order")]
    made: Annotated[str, Field(description="the date, in UTC")]
    version: Annotated[str, Field(description="beamuq's")]
