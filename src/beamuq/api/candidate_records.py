"""Anyone's candidates: what a row may say of a question.

Log-probabilities are natural logs of whole sequences, the ending token included, under the model's
own distribution (temperature 1), not divided by length. What is not known is left out; nothing is
guessed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator

from beamuq import written_texts
from beamuq.api.foreign_rows import (
    Keys,
    check_are_texts,
    check_paths_of_what_may_be_unknown,
    marked_without_ending,
)
from beamuq.api.lm_eval_rows import is_lm_eval_row, our_row_of_lm_eval
from beamuq.api.log_probability import NO_LOG_PROBABILITY, is_log_probability
from beamuq.api.rows import Rows, named, no_question, placed_rows_or_errors
from beamuq.api.rows_left_out import (
    LeftOut,
    SampleSkipping,
    tell_of_rows_left_out,
    tell_of_samples_left_out,
)
from beamuq.api.server_identity import server_text
from beamuq.api.server_responses import read_responses
from beamuq.api.thoughts_in_texts import marks_of_thoughts
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError, nearest
from beamuq.row_ids import group_text, id_text
from beamuq.written_texts import WholeText

LARGEST_VOCABULARY = 10_000_000  # tokens; far above any model's
MOST_ENTROPY = math.log(LARGEST_VOCABULARY)  # in nats, of the next token
ROUNDING = 1e-3  # how far sums of someone's rounded log-probabilities may be off
MOST_CANDIDATES = 500  # every two texts are compared
MOST_CHARACTERS = 100_000
MOST_TOKENS = 1_000_000  # of an answer, several to a character
OUR_KEYS = Keys()
LEAVE_OUT = "or leave such rows out with skip_invalid (--skip-invalid)"


def _at_most_zero(value: float) -> float:
    if not is_log_probability(value):
        raise ValueError(f"{NO_LOG_PROBABILITY}; leave out what is not known")
    return value


def _entropy_of_tokens(value: float) -> float:
    if not 0 <= value <= MOST_ENTROPY:
        raise ValueError(
            f"must be a finite number of nats from 0 to {MOST_ENTROPY:.1f}, ln of "
            f"{LARGEST_VOCABULARY:,} tokens, which no vocabulary has; give the entropy of the next "
            "token's distribution, or leave token_entropies out"
        )
    return value


def _record(value: Any) -> Any:
    """A candidate's fields, without nulls; a text alone is one too."""
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, BaseModel):
        return value
    if isinstance(value, Mapping):
        return {key: part for key, part in value.items() if part is not None}
    raise ValueError(
        "give a text, or an object with 'text' and, where known, its log-probabilities"
    )


def _as_list(value: Any) -> Any:
    """A text alone is a list of one."""
    return [value] if isinstance(value, str) else value


def as_number(value: Any) -> Any:
    """True and False are 1 and 0, and a number in CSV is a text."""
    if not isinstance(value, bool | str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


Name = Annotated[str, BeforeValidator(written_texts.name), BeforeValidator(id_text)]
Group = Annotated[str | None, BeforeValidator(written_texts.name), BeforeValidator(group_text)]
Label = Annotated[str, BeforeValidator(written_texts.name)]
Number = Annotated[float | None, BeforeValidator(as_number)]
Entropy = Annotated[float, Field(allow_inf_nan=True), AfterValidator(_entropy_of_tokens)]
RequestFields = dict[str, Any]
LogProbability = Annotated[float, Field(allow_inf_nan=True), AfterValidator(_at_most_zero)]


class AnswerLabels(StrictModel):
    """What a row may say of its answer."""

    correct: Annotated[Number, Field(description="1: the answer is right, 0: wrong")] = None
    quality: Annotated[
        Number, Field(description="right where above calibrate's quality_threshold")
    ] = None
    group: Annotated[
        Group, Field(description="what belongs together: a story, a user, a document")
    ] = None


class Labels(AnswerLabels):
    """What a row may say of its answer for ``calibrate`` and ``decide``; ``score`` hands it on."""

    model: Annotated[Label | None, Field(description="which gave the answer")] = None
    model_hash: Annotated[
        Label | None, Field(description="of the model's files, or of a model in memory")
    ] = None
    prompt_hash: Annotated[
        Label | None,
        Field(description="of the prompt around the question; or any text that changes with it"),
    ] = None
    server: Annotated[
        str | None,
        BeforeValidator(server_text),
        Field(description="what is known of the server that gave the answer, or its JSON"),
    ] = None
    sampled_with: Annotated[
        Label | None,
        Field(
            description=(
                "how a server was asked for samples, in JSON; default: what its responses say"
            )
        ),
    ] = None


LABELS = tuple(Labels.model_fields)


class CandidateRecord(StrictModel):
    """A text and its log-probabilities. A plain string stands for a record with this text alone."""

    text: Annotated[
        WholeText,
        Field(
            max_length=MOST_CHARACTERS,
            description="as it is to be compared; surrounding space is dropped",
        ),
    ]
    logprob: Annotated[
        LogProbability | None,
        Field(description="natural log of its probability; default: the sum of token_logprobs"),
    ] = None
    token_logprobs: Annotated[
        list[LogProbability] | None,
        Field(min_length=1, description="one a token, the ending token included"),
    ] = None
    token_ids: Annotated[
        list[int] | None, Field(description="not used; so that a person can follow it")
    ] = None
    ended: Annotated[
        bool | None,
        Field(
            description=(
                "true: its last token ended it, whose log-probability is counted too; false: cut "
                "before its end"
            )
        ),
    ] = None
    temperature: Annotated[
        float | None,
        Field(gt=0, description="at which a sample was drawn; score refuses another than its own"),
    ] = None
    without_ending: Annotated[
        bool,
        Field(
            description=(
                "true: its log-probability lacks the ending's, and scores that need it are marked; "
                "false: holds it; where neither this nor ended says it of token_logprobs, score "
                "believes it and warns"
            )
        ),
    ] = False
    left_out: Annotated[
        str | None,
        Field(description="why its log-probability is not known, told where a score lacks it"),
    ] = None

    @model_validator(mode="after")
    def _sums_agree(self) -> CandidateRecord:
        if self.logprob is not None and self.token_logprobs is not None:
            total = math.fsum(self.token_logprobs)
            if abs(total - self.logprob) > ROUNDING * max(1.0, abs(total)):
                raise ValueError(
                    f"logprob {self.logprob:g} is not the sum of token_logprobs, {total:g}; give "
                    "one of both"
                )
        return self

    @property
    def says_ending(self) -> bool:
        """Whether it says that its log-probabilities hold the ending's, lack it, or have none."""
        return self.ended is not None or "without_ending" in self.model_fields_set

    @property
    def total(self) -> float | None:
        """The log-probability, in whichever way it was given."""
        if self.logprob is not None:
            return min(self.logprob, 0.0)
        if self.token_logprobs is not None:
            return min(math.fsum(self.token_logprobs), 0.0)
        return None


class AnswerRecord(CandidateRecord):
    """The produced answer: the one whose uncertainty is asked for."""

    tokens: Annotated[
        int | None,
        Field(
            ge=1,
            le=MOST_TOKENS,
            description="its length, the ending token included; default: that of token_logprobs",
        ),
    ] = None
    token_entropies: Annotated[
        list[Entropy] | None,
        Field(
            min_length=1,
            description=(
                "entropy of the next-token distribution before each token, in nats, 0 to 16.1"
            ),
        ),
    ] = None
    p_true_logprob: Annotated[
        LogProbability | None,
        Field(description='log-probability of "True" when asked whether the answer is true'),
    ] = None

    @model_validator(mode="after")
    def _lengths_agree(self) -> AnswerRecord:
        lengths = {
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs and len(self.token_logprobs),
            "token_entropies": self.token_entropies and len(self.token_entropies),
        }
        stated = {name: length for name, length in lengths.items() if length}
        if len(set(stated.values())) > 1:
            listed = ", ".join(f"{name} {length}" for name, length in stated.items())
            raise ValueError(f"lengths disagree ({listed}); each counts the ending token")
        return self

    @property
    def says_something(self) -> bool:
        """Whether any score can be had of the answer without candidates."""
        return any(
            part is not None
            for part in (self.total, self.token_entropies, self.p_true_logprob, self.left_out)
        )

    @property
    def length(self) -> int | None:
        """Number of tokens, in whichever way it was given."""
        per_token = self.token_logprobs or self.token_entropies
        return len(per_token) if per_token else self.tokens


Candidates = Annotated[
    list[Annotated[CandidateRecord, BeforeValidator(_record)]], Field(max_length=MOST_CANDIDATES)
]


class QuestionRecord(Labels):
    """One question: its produced answer, and samples, beams, or both, to compare it with."""

    id: Annotated[
        Name,
        Field(
            min_length=1,
            description=(
                "names the question, a text or a whole number; default: the row's number, from 1"
            ),
        ),
    ] = ""
    question: Annotated[
        WholeText | None, Field(description="not used; so that a person can read the file")
    ] = None
    answers: Annotated[
        list[WholeText] | None,
        BeforeValidator(_as_list),
        Field(description="right answers, or one as a text, for advise"),
    ] = None
    answer: Annotated[
        AnswerRecord, BeforeValidator(_record), Field(description="the produced answer")
    ]
    samples: Annotated[
        Candidates, Field(description="drawn independently from the model; repeats count")
    ] = []
    beams: Annotated[
        Candidates,
        Field(description="of one beam search: distinct token sequences, texts may repeat"),
    ] = []
    request: Annotated[
        RequestFields | None,
        Field(
            description=(
                "what a server was asked for samples: refused unless they are the model's own"
            )
        ),
    ] = None

    @model_validator(mode="after")
    def _beams_are_distinct_outcomes(self) -> QuestionRecord:
        totals = [beam.total for beam in self.beams]
        mass = math.fsum(math.exp(total) for total in totals if total is not None)
        if mass > 1 + ROUNDING:
            raise ValueError(
                f"beams: their probabilities sum to {mass:.3g}; give natural logs of whole, "
                "distinct sequences, not divided by length"
            )
        outcomes = set()
        for beam in self.beams:
            # two endings of one text differ in their tokens or their probability
            outcome = tuple(beam.token_ids) if beam.token_ids else (beam.text, beam.total)
            if outcome in outcomes and (beam.token_ids or beam.total is not None):
                raise ValueError(
                    f"beams: {beam.text!r:.80} stands twice, with the same tokens; leave one out"
                )
            outcomes.add(outcome)
        return self


class Records(list[QuestionRecord]):
    """Questions that were read; given to a function that reads them, they are taken as they are.

    ``row_numbers``: of each that was read the number of its row, from 1. ``samples_left_out``: how
    many of their samples could not be read.
    """

    def __init__(self, records: Iterable[QuestionRecord] = ()) -> None:
        super().__init__(records)
        self.row_numbers: list[int] = []
        self.samples_left_out = 0


def read_records(
    rows: Rows | Records,
    *,
    without_ending: bool = False,
    temperature: float = 1.0,
    most: int | None = None,
    keys: Keys = OUR_KEYS,
    skip_invalid: bool | None = None,
    skip_invalid_samples: bool | None = None,
    to_score: bool = True,
) -> Records:
    """The questions of a ``.jsonl``, ``.json`` or ``.parquet`` file, of mappings, or of a frame.

    Candidates may be responses of a server: see :func:`beamuq.api.server_responses.read_responses`.
    Columns that are not a record's are left out, unless one is meant to be: see
    :func:`beamuq.errors.nearest`. ``most``: only the first. ``keys``: where another tool has its
    answer, samples, log-probabilities, ids and labels; its other columns are its own.
    ``skip_invalid``: a row that cannot be read is warned of and left out;
    ``skip_invalid_samples``: a sample of a row that stays. None: the caller has no such option.
    ``to_score``: an answer that nothing can be scored by is refused.

    Raises BeamUQError in one line: the place, the key, the value and the fix. Also for a repeated
    id, for no rows at all, and where no row can be read.
    """
    if isinstance(rows, Records):
        return rows
    blocks = record_blocks(
        rows,
        None,
        without_ending=without_ending,
        temperature=temperature,
        most=most,
        keys=keys,
        skip_invalid=skip_invalid,
        skip_invalid_samples=skip_invalid_samples,
        to_score=to_score,
    )
    return next(blocks)


def record_blocks(
    rows: Rows,
    size: int | None,
    *,
    without_ending: bool = False,
    temperature: float = 1.0,
    most: int | None = None,
    keys: Keys = OUR_KEYS,
    skip_invalid: bool | None = None,
    skip_invalid_samples: bool | None = None,
    to_score: bool = True,
) -> Iterator[Records]:
    """As :func:`read_records`, so many questions at a time; ``size`` None: all at once.

    Ids are compared over all blocks. Rows that are left out are told of behind the last block,
    thoughts in texts once, with the first block that has them.
    """
    if keys.are_foreign:
        rows = list(rows) if isinstance(rows, Iterator) else rows  # they are looked at twice
        check_paths_of_what_may_be_unknown(placed_rows_or_errors(rows), keys)
    reader = _RecordReader(without_ending, temperature, keys, to_score, skip_invalid_samples)
    read = _RowsRead(id_name=keys.id or "id")
    for number, (place, row) in enumerate(islice(placed_rows_or_errors(rows), most), start=1):
        try:
            question = reader.read(row, place, default_id=str(number))
        except BeamUQError as error:
            if skip_invalid is False and not isinstance(row, Mapping):
                raise BeamUQError(f"{error}, {LEAVE_OUT}") from error
            if not skip_invalid:
                raise
            read.invalid.append(LeftOut(place, error))
            continue
        read.add(*question, place, number)
        if len(read.block) == size:
            yield read.taken_block()
    tell_of_rows_left_out(read.invalid, len(read.ids), named(rows))
    tell_of_samples_left_out(read.invalid_samples, read.samples, named(rows))
    if not read.ids:
        raise no_question(rows)
    if read.block:
        yield read.taken_block()


@dataclass
class _RowsRead:
    """What was read of rows so far; ``block`` are the questions that were not taken yet.

    ``id_name``: the key under which the rows have their ids.
    """

    id_name: str
    ids: set[str] = field(default_factory=set)
    invalid: list[LeftOut] = field(default_factory=list)
    invalid_samples: list[LeftOut] = field(default_factory=list)
    samples: int = 0
    block: Records = field(default_factory=lambda: Records())
    texts: list[tuple[str, str]] = field(default_factory=list)
    has_warned: bool = False

    def add(
        self, item: QuestionRecord, samples_left_out: list[BeamUQError], place: str, number: int
    ) -> None:
        if item.id in self.ids:
            raise BeamUQError(
                f"{place}: {self.id_name} {item.id!r} stands twice; give each question its own"
            )
        self.ids.add(item.id)
        self.block.append(item)
        self.block.row_numbers.append(number)
        self.block.samples_left_out += len(samples_left_out)
        self.samples += len(item.samples)
        self.invalid_samples += [LeftOut(place, error) for error in samples_left_out]
        if not self.has_warned:
            self.texts += [(f"{place}: {kind}", text) for kind, text in _texts(item)]

    def taken_block(self) -> Records:
        """The block, of which the next begins anew."""
        warning = marks_of_thoughts(self.texts)
        if warning:
            warnings.warn(warning, stacklevel=3)
            self.has_warned = True
        self.texts = []
        block = self.block
        self.block = Records()
        return block


@dataclass(frozen=True)
class _RecordReader:
    """Reads rows, as :func:`read_records` is told to."""

    without_ending: bool
    temperature: float
    keys: Keys
    to_score: bool
    skip_invalid_samples: bool | None

    def read(
        self, row: Mapping[str, Any] | BeamUQError, place: str, default_id: str
    ) -> tuple[QuestionRecord, list[BeamUQError]]:
        """A row as a record, and the errors of its samples that are left out.

        Raises BeamUQError, that of a row that is no mapping too, and of one with no sample left.
        """
        if isinstance(row, BeamUQError):
            raise row
        names = self.keys.names(row)
        skipping = SampleSkipping(self.skip_invalid_samples)
        ours = our_row_of_lm_eval(row, place) if is_lm_eval_row(row) else row
        if self.keys.are_foreign:
            ours = self.keys.our_row(
                row, place, without_ending=self.without_ending, base=ours, skipping=skipping
            )
        fields = self._with_responses(ours, place, names, skipping)
        if self.without_ending:
            fields = marked_without_ending(fields)
        if not self.keys.are_foreign:
            _check_spelling(fields, place)
        check_are_texts(fields, self.keys, place, AnswerRecord.model_fields)
        item = _read_record_of_readable_samples(fields, place, default_id, names, skipping)
        if skipping.errors and not item.samples:
            raise skipping.errors[0]
        check_temperatures(item, place, self.temperature)
        if self.to_score:
            _check_can_be_scored(item, fields, place, self.keys.samples)
        return item, skipping.errors

    def _with_responses(
        self,
        ours: Mapping[str, Any],
        place: str,
        names: Mapping[str, str],
        skipping: SampleSkipping,
    ) -> dict[str, Any]:
        """The row with its responses' candidates; of one taken for a response says how it was."""
        try:
            return read_responses(
                ours,
                place,
                without_ending=self.without_ending,
                temperature=self.temperature,
                names=names,
                skipping=skipping,
            )
        except BeamUQError as error:
            if self.keys.are_foreign or ours.get("answer") is not None:
                raise
            raise BeamUQError(
                f"{error}. The row was taken for a server's response; is it another tool's log? "
                "Say with answer_key (--answer-key) and samples_key (--samples-key) where it has "
                "both"
            ) from error


def with_prompt_hash(records: Records, prompt_hash: str, where: str) -> Records:
    """The same questions, each of this ``prompt_hash``; of "" as they are.

    Raises BeamUQError naming a question that says another one.
    """
    if not prompt_hash:
        return records
    label: str = validated(Label, prompt_hash, "prompt_hash")
    labelled = Records()
    labelled.row_numbers = list(records.row_numbers)
    labelled.samples_left_out = records.samples_left_out
    for item in records:
        if item.prompt_hash not in (None, label):
            raise BeamUQError(
                f"{where}: id {item.id!r}: prompt_hash: {item.prompt_hash!r}, and prompt_hash "
                f"(--prompt-hash) is {label!r}; leave one of both out"
            )
        labelled.append(item.model_copy(update={"prompt_hash": label}))
    return labelled


COLUMNS_OF_SCORES = {"method", "variant", "value", "scored_with"}
"""By which a row is known that score wrote."""


def _check_spelling(fields: Mapping[str, Any], place: str) -> None:
    """Refuse a column that is a misspelt field, and scores."""
    if fields.keys() >= COLUMNS_OF_SCORES:
        raise BeamUQError(f"{place}: a score, as score wrote it; give the rows that were scored")
    columns = QuestionRecord.model_fields
    for name in fields:
        if name not in columns and (near := nearest(str(name), columns.keys() - LABELS)):
            raise BeamUQError(f"{place}: {name}: unknown column; did you mean {near!r}?")


def _read_record_of_readable_samples(
    fields: Mapping[str, Any],
    place: str,
    default_id: str,
    names: Mapping[str, str],
    skipping: SampleSkipping,
) -> QuestionRecord:
    """As :func:`_read_record`; where the row cannot be read, its samples are read one by one."""
    try:
        return _read_record(fields, place, default_id, names)
    except BeamUQError as error:
        samples = fields.get("samples")
        if skipping.is_asked is None or not isinstance(samples, list):
            raise
        name = names.get("samples", "samples")

        def read(number: int, sample: Any) -> CandidateRecord:
            where = f"{place}: {name}[{number}]"
            return validated(Annotated[CandidateRecord, BeforeValidator(_record)], sample, where)

        one_by_one = SampleSkipping(is_asked=True)
        readable = [sample for sample, _ in one_by_one.readable(samples, read)]
        if not one_by_one.errors:
            raise
        if not skipping.is_asked:
            raise skipping.naming_option(error) from error
        if not readable:
            raise
        skipping.errors += one_by_one.errors
        return _read_record({**fields, "samples": readable}, place, default_id, names)


def _read_record(
    fields: Mapping[str, Any], place: str, default_id: str, names: Mapping[str, str]
) -> QuestionRecord:
    """A row as a record; ``names``: what its keys are called in messages, if otherwise."""
    columns = QuestionRecord.model_fields
    # as a row of Parquet has it, null says nothing; but a missing name among others is refused
    content = {
        name: value
        for name, value in fields.items()
        if name in columns and (value is not None or name in ("answer", "id"))
    }
    if "answer" not in content:
        raise BeamUQError(
            f"{place}: answer: this key is missing; add it, or say with answer_key (--answer-key) "
            "where another tool's rows have it"
        )
    record = {"id": default_id} | content
    item: QuestionRecord = validated(QuestionRecord, record, place, names=names)
    return item


def _check_can_be_scored(
    item: QuestionRecord, fields: Mapping[str, Any], place: str, samples_path: str
) -> None:
    """Refuse an answer without candidates and log-probabilities."""
    if item.samples or item.beams or item.answer.says_something:
        return
    if samples_path:
        raise BeamUQError(
            f"{place}: {samples_path}: no samples, and an answer alone cannot be scored; leave "
            "such rows out with skip_invalid (--skip-invalid)"
        )
    names = [str(name) for name in fields if name not in QuestionRecord.model_fields]
    unused = f" (not used: {', '.join(names)})" if names else ""
    raise BeamUQError(
        f"{place}: an answer alone cannot be scored; give samples or beams to compare it with, or "
        "its token_logprobs, or say with samples_key (--samples-key) where another tool's rows "
        f"have samples{unused}"
    )


def _texts(item: QuestionRecord) -> Iterator[tuple[str, str]]:
    """Every text of a question, with what it is."""
    yield "answer", item.answer.text
    for sample in item.samples:
        yield "samples", sample.text
    for beam in item.beams:
        yield "beams", beam.text


def check_temperatures(item: QuestionRecord, place: str, temperature: float) -> None:
    """Refuse samples that say they were drawn at another temperature than they are weighted for.

    Raises BeamUQError naming the first.
    """
    for number, sample in enumerate(item.samples):
        if sample.temperature is not None and sample.temperature != temperature:
            raise BeamUQError(
                f"{place}: samples[{number}]: temperature: {sample.temperature:g}: scored with "
                f"{temperature:g}; give score that temperature"
            )


def by_probability(beams: Sequence[CandidateRecord]) -> list[CandidateRecord]:
    """Beams by descending probability, those of none last."""
    return sorted(beams, key=lambda beam: math.inf if beam.total is None else -beam.total)
