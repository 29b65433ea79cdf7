"""The object that ``beamuq ask --json`` prints: every key with what it means."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from beamuq.config_errors import StrictModel


class BeamObject(StrictModel):
    """One beam."""

    text: Annotated[str, Field(description="its text")]
    probability: Annotated[float, Field(description="of the whole text with its ending")]
    weight: Annotated[float, Field(description="among the beams: probability over their sum")]
    ended: Annotated[bool, Field(description="false: cut at the largest number of tokens")]


class AskedDecision(StrictModel):
    """What a calibration says of the answer."""

    method: Annotated[str, Field(description="whose score was calibrated")]
    value: Annotated[float, Field(description="the score")]
    right: Annotated[float, Field(description="the probability that the answer is right")]
    right_low: Annotated[float, Field(description="of the two that right is made of, the lower")]
    right_high: Annotated[float, Field(description="the higher; no confidence interval")]
    shown: Annotated[bool, Field(description="whether the score is at most the threshold")]
    reason: Annotated[str, Field(description="why it is withheld; else empty")]
    warnings: Annotated[list[str], Field(description="in what it differs from the calibration")]


class AskedScore(StrictModel):
    """One score of the answer."""

    method: Annotated[str, Field(description="whose score it is")]
    variant: Annotated[str, Field(description="beamsearch; empty: of a method in one form")]
    value: Annotated[
        float | None, Field(description="the score, higher = more uncertain; null: it has none")
    ]
    confidence: Annotated[
        float | None,
        Field(description="in [0, 1], higher = more certain; null where the range says none"),
    ]
    range: Annotated[str, Field(description="which values the score can have")]
    similarity: Annotated[str, Field(description="by which texts were compared")]


class AskedObject(StrictModel):
    """One question, its answer and how sure the model is of it."""

    question: Annotated[str, Field(description="as it was asked")]
    model: Annotated[str, Field(description="which answered")]
    style: Annotated[str, Field(description="plain or chat")]
    examples: Annotated[int, Field(description="few-shot examples before the question")]
    answer: Annotated[str, Field(description="the greedy one")]
    probability: Annotated[float, Field(description="of the answer with its ending")]
    tokens: Annotated[int, Field(description="of the answer")]
    ended: Annotated[bool, Field(description="false: cut at the largest number of tokens")]
    beams: Annotated[list[BeamObject], Field(description="the most probable first")]
    width: Annotated[int, Field(description="beams asked for")]
    covered_mass: Annotated[float, Field(description="probability of all beams together")]
    corrected_threshold: Annotated[
        float, Field(description="M/(M + 1), what the paper's theorem, put right, asks of it")
    ]
    low: Annotated[
        float,
        Field(
            description=(
                "lower end of the certified interval of Dissimilarity under the model's whole "
                "distribution"
            )
        ),
    ]
    high: Annotated[float, Field(description="its upper end")]
    threshold: Annotated[
        float | None, Field(description="what the interval is held against; null: nothing")
    ]
    model_hash: Annotated[
        str | None, Field(description="sha256 of the model's files; null: of a server")
    ]
    prompt_hash: Annotated[
        str, Field(description="sha256 of the prompt around the question and of the settings")
    ]
    decision: Annotated[
        AskedDecision | None, Field(description="by --calibration; null: there is none")
    ]
    messages: Annotated[int, Field(description="of a conversation; 0: a question alone")]
    stop: Annotated[str, Field(description="what ends an answer: newline or eos")]
    server: Annotated[
        dict[str, object] | None,
        Field(description="what is known of the server, the keys of ServerIdentity; else null"),
    ]
    decided: Annotated[
        str | None,
        Field(description="where the interval lies: below the threshold, above, or undecided"),
    ]
    uncertainties: Annotated[list[AskedScore], Field(description="the scores")]
    warnings: Annotated[list[str], Field(description="as the command prints them")]
    made: Annotated[str, Field(description="the date, in UTC")]
    version: Annotated[str, Field(description="beamuq's")]
