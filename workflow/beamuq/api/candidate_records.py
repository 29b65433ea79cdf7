"""Anyone's candidates: what a row may say, and how it is read from JSON Lines, Parquet or Python objects.

Log-probabilities are natural logs of whole sequences, the ending token included, under the model's own distribution
(temperature 1), not divided by length. What is not known is left out; nothing is guessed.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from beamuq.api.server_responses import ANSWER_LABELS, as_rows, plain_object
from beamuq.config_errors import StrictModel, parse_json, validated
from beamuq.data.read_dataset_file import rows_of
from beamuq.errors import BeamUQError, nearest, reading

ABOVE_ZERO = 1e-6  # a sum of someone's rounded log-probabilities may exceed 0 by so much
ROUNDING = 1e-3  # how far sums of someone's rounded log-probabilities may be off
MOST_CANDIDATES = 1000  # samples or beams of a question, and
MOST_TOKENS = 1_000_000  # of an answer: far above what is decoded, and what memory bears
MOST_COMPARED = 1_000_000_000  # bytes of the texts of all pairs of a question's candidates; Arrow's columns hold 2 GiB
LEAST_LOGPROB = -1e9  # in nats; far below any text's, and far above where float64 overflows
MOST_ENTROPY = 1e3  # in nats; log of a vocabulary is some 12
Rows = str | Path | pd.DataFrame | Iterable[Mapping[str, Any]]


def _at_most_zero(value: float) -> float:
    if not LEAST_LOGPROB <= value <= ABOVE_ZERO:
        raise ValueError(
            f"must be a finite natural logarithm of a probability, from {LEAST_LOGPROB:g} to 0; leave out what is not "
            "known"
        )
    return value


def _writable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"holds half of a surrogate pair at {error.start}, which no text may; mend it") from error
    return text


def _record(value: Any) -> Any:
    if isinstance(value, str):
        return {"text": value}
    if not isinstance(value, Mapping | BaseModel):
        raise ValueError("give a text, or an object with 'text' and, where known, its log-probabilities")
    return value


def _whole_number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _none_is_empty(value: Any) -> Any:
    return [] if value is None else value


def as_number(value: Any) -> Any:
    """True and False are 1 and 0, and a number in CSV is a text."""
    with contextlib.suppress(ValueError):
        return float(value) if isinstance(value, bool | str) else value
    return value


Text = Annotated[str, AfterValidator(_writable)]
Name = Annotated[Text, BeforeValidator(_whole_number_as_text)]
Correct = Annotated[float | None, BeforeValidator(as_number), Field(description="1: the answer is right, 0: wrong")]
Quality = Annotated[
    float | None, BeforeValidator(as_number), Field(description="right where above calibrate's quality_threshold")
]
LABELS = (*ANSWER_LABELS, "model", "model_hash", "prompt_hash")
"""What a row may say of its answer for ``calibrate`` and ``decide``; ``score`` hands it on."""
LogProbability = Annotated[float, Field(allow_inf_nan=True), AfterValidator(_at_most_zero)]


class CandidateRecord(StrictModel):
    """A text and what the model thought of it. A plain string stands for a record with this text alone."""

    text: Annotated[Text, Field(description="as it is to be compared; surrounding space is dropped")]
    logprob: Annotated[
        LogProbability | None, Field(description="natural log of its probability; default: the sum of token_logprobs")
    ] = None
    token_logprobs: Annotated[
        list[LogProbability] | None,
        Field(min_length=1, max_length=MOST_TOKENS, description="one a token, the ending token included"),
    ] = None
    left_out: Annotated[
        str | None, Field(description="why its log-probability is not known, told where a score lacks it")
    ] = None

    @model_validator(mode="after")
    def _sums_agree(self) -> CandidateRecord:
        if self.logprob is not None and self.token_logprobs is not None:
            total = math.fsum(self.token_logprobs)
            if abs(total - self.logprob) > ROUNDING * max(1.0, abs(total)):
                raise ValueError(
                    f"logprob {self.logprob:g} is not the sum of token_logprobs, {total:g}; give one of both"
                )
        return self

    @property
    def total(self) -> float | None:
        """The log-probability, in whichever way it was given."""
        if self.logprob is None and self.token_logprobs is not None:
            return min(math.fsum(self.token_logprobs), 0.0)
        return None if self.logprob is None else min(self.logprob, 0.0)


class AnswerRecord(CandidateRecord):
    """The produced answer: the one whose uncertainty is asked for."""

    tokens: Annotated[
        int | None,
        Field(
            ge=1, le=MOST_TOKENS, description="its length, the ending token included; default: that of token_logprobs"
        ),
    ] = None
    token_entropies: Annotated[
        list[Annotated[float, Field(ge=0, le=MOST_ENTROPY)]] | None,
        Field(
            min_length=1,
            max_length=MOST_TOKENS,
            description="entropy of the next-token distribution before each token, in nats",
        ),
    ] = None
    p_true_logprob: Annotated[
        LogProbability | None, Field(description='log-probability of "True" when asked whether the answer is true')
    ] = None

    @model_validator(mode="after")
    def _lengths_agree(self) -> AnswerRecord:
        lengths = {
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs and len(self.token_logprobs),
            "token_entropies": self.token_entropies and len(self.token_entropies),
        }
        given = {name: length for name, length in lengths.items() if length}
        if len(set(given.values())) > 1:
            told = ", ".join(f"{name} {length}" for name, length in given.items())
            raise ValueError(f"lengths disagree ({told}); each counts the ending token")
        return self

    @property
    def length(self) -> int | None:
        """Number of tokens, in whichever way it was given."""
        known = self.token_logprobs or self.token_entropies
        return len(known) if known else self.tokens


Candidates = Annotated[
    list[Annotated[CandidateRecord, BeforeValidator(_record)]],
    BeforeValidator(_none_is_empty),
    Field(max_length=MOST_CANDIDATES),
]


class QuestionRecord(StrictModel):
    """One question: its produced answer, and samples, beams, or both, to compare it with."""

    id: Annotated[
        Name,
        Field(min_length=1, description="names the question, or a whole number; default: the row's number, from 1"),
    ] = ""
    question: Annotated[str | None, Field(description="not used; so that a person can read the file")] = None
    answer: Annotated[AnswerRecord, BeforeValidator(_record), Field(description="the produced answer")]
    samples: Annotated[Candidates, Field(description="drawn independently from the model; repeats count")] = []
    beams: Annotated[
        Candidates, Field(description="of one beam search: distinct token sequences, texts may repeat")
    ] = []
    correct: Correct = None
    quality: Quality = None
    group: Annotated[Name | None, Field(description="what belongs together: a story, a user, a document")] = None
    model: Annotated[Text | None, Field(description="which gave the answer")] = None
    model_hash: Annotated[Text | None, Field(description="of the model's files")] = None
    prompt_hash: Annotated[Text | None, Field(description="of the prompt around the question")] = None

    @model_validator(mode="after")
    def _beams_are_distinct_outcomes(self) -> QuestionRecord:
        known = [math.exp(total) for beam in self.beams if (total := beam.total) is not None]
        if math.fsum(known) > 1 + ROUNDING:
            raise ValueError(
                f"beams: their probabilities sum to {math.fsum(known):.3g}; give natural logs of whole, distinct "
                "sequences, not divided by length"
            )
        return self

    @model_validator(mode="after")
    def _texts_can_be_compared(self) -> QuestionRecord:
        if self.compared > MOST_COMPARED:
            raise ValueError(
                f"samples, beams: the texts of all pairs of candidates are {self.compared} bytes long together, above "
                f"{MOST_COMPARED}; give fewer or shorter ones"
            )
        return self

    @property
    def compared(self) -> int:
        """How many bytes the texts of all ordered pairs of the answer and its candidates are long, in one column."""
        lengths = (
            [len(text.encode()) for text in {self.answer.text, *(each.text for each in candidates)}]
            for candidates in (self.samples, self.beams)
        )
        return sum(len(each) * sum(each) for each in lengths)


def read_records(rows: Rows) -> list[QuestionRecord]:
    """The questions of a ``.jsonl``, ``.json`` or ``.parquet`` file, or of mappings, or of a pandas frame.

    Candidates may be responses of a server: see :func:`beamuq.api.server_responses.as_rows`.

    Raises
    ------
    BeamUQError
        In one line: the place, the key, the value and the fix. Also for a repeated id and for no rows at all.
    """
    found: dict[str, QuestionRecord] = {}
    for number, (place, row) in enumerate(as_rows(placed_rows(rows)), start=1):
        item = _record_of(row, place, str(number))
        if item.id in found:
            raise BeamUQError(f"{place}: id {item.id!r} stands twice; give each question its own")
        found[item.id] = item
    if not found:
        raise BeamUQError(f"{rows if isinstance(rows, str | Path) else 'rows'}: no question; give one row a question")
    return list(found.values())


def _record_of(row: Mapping[str, Any], place: str, number: str) -> QuestionRecord:
    """A row as a record. Columns that are not the record's are left out, unless one is meant to be: see ``nearest``."""
    known = QuestionRecord.model_fields
    candidates = known.keys() - LABELS
    for key in row:
        near = None if key in known else nearest(str(key), candidates)
        if near:
            raise BeamUQError(f"{place}: {key}: unknown column; did you mean {near!r}?")
    content = {key: value for key, value in row.items() if key in known}
    if content.get("id") is None:
        content["id"] = number
    record: QuestionRecord = validated(QuestionRecord, content, place)
    return record


def placed_rows(rows: Rows) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each row with its place: file and line or row, or its number, from 1."""
    if isinstance(rows, str | Path):
        path = Path(rows)
        yield from _of_json(path) if path.suffix == ".json" else rows_of(path, first=1)
        return
    if isinstance(rows, Mapping):
        raise BeamUQError("rows: a single mapping; give a list of them, one a question")
    if isinstance(rows, pd.DataFrame):
        twice = rows.columns[rows.columns.map(str).duplicated()]
        if len(twice):
            raise BeamUQError(f"rows: column {str(twice[0])!r} stands twice; keep one")
        rows = [
            {str(key): value for key, value in row.items() if not _absent(value)} for row in rows.to_dict("records")
        ]
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, Mapping):
            raise BeamUQError(f"row {number}: a {type(row).__name__}; give a mapping with at least 'answer'")
        place = f"row {number}"
        with reading(place, "a row of plain values", "give texts, numbers, lists and mappings"):
            plain = _plain(row)
        yield place, plain


def _of_json(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The rows of a file that is one JSON array, or one object."""
    with reading(path, "valid JSON in UTF-8", "give an array of objects"):
        content = path.read_bytes()
    found = parse_json(content, path, "give an array of objects")
    for number, row in enumerate(found if isinstance(found, list) else [found], start=1):
        if not isinstance(row, dict):
            raise BeamUQError(f"{path}: row {number}: a {type(row).__name__}; give an object with at least 'answer'")
        yield f"{path}: row {number}", row


def _absent(value: Any) -> bool:
    """Whether a frame says nothing here: it fills the holes of a column with None, NaN or NA."""
    return bool(pd.api.types.is_scalar(value) and pd.isna(value))


def _plain(value: Any) -> Any:
    """Arrays, tuples, numpy's numbers and servers' objects, as a frame or a list holds them, as JSON would."""
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    held = plain_object(value)
    return value if held is value else _plain(held)
