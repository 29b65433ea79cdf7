"""Rows from a log of Inspect (inspect-ai): epochs are samples, and its scorer says the quality.

How each answer was generated is read from the log, of the very call that gave it, and is refused
where it is not what a sample, or a greedy answer, is.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from beamuq.api.inspect_log_file import (
    InspectLog,
    InspectSample,
    JsonObject,
    read_inspect_log,
)
from beamuq.api.rows_left_out import LeftOut, tell_of_rows_left_out
from beamuq.api.sampling_request import (
    NO_TEMPERATURE,
    check_request,
    check_seeds,
    fixed_seed,
    sampling_settings,
    stop_strings,
)
from beamuq.api.server_forms.inspect_output import FORM
from beamuq.api.server_forms.reply import (
    TEMPERED,
    RawCandidate,
    Request,
    with_ending_said,
    without_logprob,
    without_nulls,
)
from beamuq.errors import BeamUQError, hint

SENT_BY_INSPECT = """
max_retries timeout attempt_timeout stream_idle_timeout max_connections adaptive_connections
system_message parallel_tool_calls internal_tools max_tool_output cache_prompt fail_on_refusal
reasoning_history reasoning_summary reasoning_effort reasoning_tokens reasoning_mode effort
verbosity extra_headers modalities cache batch
"""
"""Of Inspect's settings what is asked of a model, and how it is sent."""
RENAMED = {"stop_seqs": "stop", "num_choices": "n"}
OF_THE_ANSWER = """
system_message stop_seqs max_tokens reasoning_effort reasoning_tokens reasoning_mode effort
verbosity logit_bias frequency_penalty presence_penalty extra_body
"""
"""Settings in which a greedy answer and samples have to agree."""
CUTTING = ("top_p", "top_k")
OWN_SETTINGS = ("vllm", "sglang", "hf", "ollama", "llama-cpp-python")
"""Providers that take a model's own truncation where a request says none."""
SEVERAL_CALLS = "several calls of the model led to this answer: its tokens are those of the last"
LABELS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Inspect's words for a score: correct, partial, incorrect, no answer."""


def from_inspect(
    log: Any,
    *,
    shown: Any = None,
    scorer: str = "",
    without_ending: bool = False,
    skip_invalid: bool = False,
) -> list[dict[str, Any]]:
    """The rows of a log of Inspect (inspect-ai), as ``beamuq.score`` takes them.

    Each question's epochs are its samples. The shown answer is that of another log, at
    temperature 0, or else the first epoch's, which is then left out of the samples. Further choices
    of an output (``num_choices``) are samples too.

    Parameters
    ----------
    log
        A ``.eval`` or ``.json`` file that Inspect wrote, or its ``EvalLog``; ``.eval`` needs the
        extra ``inspect``.
    shown
        Another log, of the same questions and model at temperature 0 with one epoch.
    scorer
        Whose score is the quality; needed where the log has several.
    without_ending
        Where only the ending's log-probability is left out, take the sum of the others; see
        ``score``.
    skip_invalid
        Leave out a question that has no answer or score in some epoch, and warn of it; else the
        first is refused.

    Returns
    -------
    A row per question, in the log's order: id, question, answers (the target), answer and samples
    (text, token_logprobs or why they are left out, temperature), model, sampled_with, quality
    (Inspect's own score of the shown answer: C is 1, P .5, I and N 0) and, where every score is C
    or I, correct.

    Raises BeamUQError naming log, sample, epoch, key and value: a run that did not end; samples at
    temperature 0, cut by top_p or top_k, penalised, or several of one seed; models, prompts or
    settings that differ; a shown log of another temperature than 0 or of several epochs. Warns
    where the log does not say a setting that a provider may choose.

    Examples
    --------
    >>> rows = beamuq.from_inspect("drawn.json", shown="greedy.json")  # five epochs of sums
    >>> rows[0]["answer"]["text"], len(rows[0]["samples"]), rows[0]["quality"]
    ('7', 5, 1.0)
    """
    drawn = _Questions(log, "log", without_ending)
    greedy = None if shown is None else _Questions(shown, "shown", without_ending)
    shown_log = greedy or drawn
    if greedy is not None:
        greedy.check_one_epoch()
        drawn.check_same_model(greedy)
    drawn.warn_of_unsaid_settings()
    quality = _Quality(shown_log, scorer)
    rows: list[JsonObject] = []
    invalid: list[LeftOut] = []
    for key in drawn.epochs:
        try:
            rows.append(_row(key, drawn, greedy) | quality.labels(shown_log.first(key)))
        except _NoAnswerError as error:
            if not skip_invalid:
                raise
            invalid.append(LeftOut(drawn.name, error))
    tell_of_rows_left_out(invalid, len(rows), drawn.name)
    return rows


class _NoAnswerError(BeamUQError):
    """A question that cannot be a row, though the log is sound: it failed, or was not scored."""


@dataclass(frozen=True)
class _Generated:
    """What a sample of the log has generated: candidates, one a choice, and by what."""

    place: str
    sample: InspectSample
    candidates: list[RawCandidate]
    settings: JsonObject

    @property
    def request(self) -> JsonObject:
        """The settings by the names that servers have for them."""
        sent = SENT_BY_INSPECT.split()
        return {
            RENAMED.get(name, name): value
            for name, value in self.settings.items()
            if name not in sent
        }

    @property
    def prompt(self) -> list[tuple[str, Any]]:
        """What was asked: role and content of each message before the first that was generated."""
        messages: list[tuple[str, Any]] = []
        for message in self.sample.messages:
            if _is_generated(message):
                break
            messages.append((str(message.get("role")), message.get("content")))
        return messages

    @property
    def identities(self) -> list[str]:
        """Of each choice the id of its message, by which a repeated draw is known."""
        messages = [choice.get("message") or {} for choice in self.sample.output["choices"]]
        return [str(message["id"]) for message in messages if message.get("id")]


def _is_generated(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant" and message.get("source") == "generate"


class _Questions:
    """A log's samples by question: ``epochs`` are those of an id, in their order."""

    def __init__(self, log: Any, argument: str, without_ending: bool) -> None:
        is_file = isinstance(log, str) or hasattr(log, "__fspath__")
        self.name = str(log) if is_file else argument
        self.log: InspectLog = read_inspect_log(log, self.name)
        self.without_ending = without_ending
        self.epochs: dict[str, list[InspectSample]] = {}
        for sample in sorted(self.log.samples or (), key=lambda sample: sample.epoch):
            self.epochs.setdefault(str(sample.id), []).append(sample)
        self.most = max(len(samples) for samples in self.epochs.values())

    def first(self, key: str) -> InspectSample:
        """A question in its first epoch."""
        return self.epochs[key][0]

    def place(self, sample: InspectSample) -> str:
        """What errors call a sample."""
        return f"{self.name}: sample {sample.id!r}: epoch {sample.epoch}"

    def generated(self, key: str) -> list[_Generated]:
        """What each epoch of a question has generated."""
        samples = self.epochs[key]
        if len(samples) < self.most:
            raise _NoAnswerError(
                f"{self.name}: sample {key!r}: {len(samples)} epochs, others have {self.most}; "
                "evaluate it again, or leave it out with skip_invalid"
            )
        return [self._generated(sample) for sample in samples]

    def _generated(self, sample: InspectSample) -> _Generated:
        place = self.place(sample)
        _check_is_complete(sample, place)
        settings = _settings(sample, self.log)
        temperature = settings.get("temperature")
        request = Request(
            stops=stop_strings({"stop": settings.get("stop_seqs")}),
            without_ending=self.without_ending,
        )
        reply = FORM.read(without_nulls(sample.output), f"{place}: output", request)
        calls = sum(_is_generated(message) for message in sample.messages)
        candidates = []
        for candidate in reply.candidates:
            if calls > 1:
                candidates.append(without_logprob(candidate["text"], SEVERAL_CALLS))
            elif temperature not in (None, 0, 1) and "token_logprobs" in candidate:
                candidates.append(without_logprob(candidate["text"], TEMPERED))
            else:
                candidates.append(with_ending_said(candidate))
        return _Generated(place, sample, candidates, settings)

    def check_one_epoch(self) -> None:
        """Refuse several epochs of greedy answers, of which none is the shown one."""
        if self.most > 1:
            raise BeamUQError(
                f"{self.name}: epochs: {self.most}: which answer is shown? evaluate with --epochs 1"
            )

    def check_same_model(self, other: _Questions) -> None:
        """Refuse logs of two models."""
        own_model = self.log.evaluation.model
        other_model = other.log.evaluation.model
        if own_model != other_model:
            raise BeamUQError(
                f"{other.name}: model: {other_model!r}: the samples are of {own_model!r}; give "
                "logs of one"
            )

    def warn_of_unsaid_settings(self) -> None:
        """Warn of what the log does not say of its samples, and a provider may choose."""
        settings = _settings(next(iter(self.epochs.values()))[0], self.log)
        if "temperature" not in settings:
            warnings.warn(f"{self.name}: {NO_TEMPERATURE}", stacklevel=3)
        provider = self.log.evaluation.model.partition("/")[0]
        unsaid = [name for name in CUTTING if name not in settings]
        if provider in OWN_SETTINGS and unsaid:
            warnings.warn(
                f"{self.name}: {' and '.join(unsaid)}: not said, and {provider} may take the "
                "model's own, which cuts the distribution; evaluate with --top-p 1 --top-k -1",
                stacklevel=3,
            )

    def model(self, generated: Sequence[_Generated]) -> str:
        """The model's name, and that by which it answered, where it is another.

        Raises BeamUQError where models differ.
        """
        evaluated = self.log.evaluation.model
        answering = str(generated[0].sample.output.get("model") or evaluated)
        for other in generated:
            name = str(other.sample.output.get("model") or evaluated)
            if name != answering:
                raise BeamUQError(
                    f"{other.place}: output.model: {name!r}: other answers are by {answering!r}; "
                    "give those of one model"
                )
        return evaluated if evaluated.endswith(answering) else f"{evaluated} ({answering})"


def _check_is_complete(sample: InspectSample, place: str) -> None:
    if sample.error is not None:
        words = sample.error.get("message", "")
        raise _NoAnswerError(
            f"{place}: error: {words!s:.200}; evaluate it again, or leave it out with skip_invalid"
        )
    if sample.limit is not None:
        raise _NoAnswerError(
            f"{place}: limit: {sample.limit.get('type')!r}: it was stopped; raise that limit, or "
            "leave it out with skip_invalid"
        )
    choices = sample.output.get("choices")
    if not choices or not FORM.fits(without_nulls(sample.output)):
        raise _NoAnswerError(
            f"{place}: output: no answer of a model; evaluate it again, or leave it out with "
            "skip_invalid"
        )


def _settings(sample: InspectSample, log: InspectLog) -> JsonObject:
    """The settings of the call that gave the output; without its event those of the whole run."""
    output_messages = _message_ids(sample.output)
    for event in sample.events:
        is_call = event.get("event") == "model"
        if is_call and _message_ids(event.get("output") or {}) == output_messages:
            return without_nulls(event.get("config") or {})
    whole_run = {**log.evaluation.model_generate_config, **log.plan.config}
    return without_nulls(whole_run)


def _message_ids(output: Mapping[str, Any]) -> list[Any]:
    return [(choice.get("message") or {}).get("id") for choice in output.get("choices") or ()]


def _row(key: str, drawn: _Questions, greedy: _Questions | None) -> JsonObject:
    """A question's row, without labels."""
    epochs = drawn.generated(key)
    shown = epochs[0] if greedy is None else _greedy(key, drawn, greedy)
    _check_samples(epochs, shown)
    samples = [_sample(candidate, draw) for draw in epochs for candidate in draw.candidates]
    answer = shown.candidates[0]
    if greedy is None:
        answer = samples.pop(0)
    if not samples:
        raise BeamUQError(
            f"{drawn.name}: epochs: 1: no sample to compare the shown answer with; evaluate with "
            "--epochs 10 --temperature 1"
        )
    stated = sampling_settings(epochs[0].request)
    seed = fixed_seed(epochs[0].request, f"{epochs[0].place}: config")
    if seed is not None:
        stated["seed"] = seed
    return {
        "id": key,
        **_question(shown.sample),
        "answer": answer,
        "samples": samples,
        "model": drawn.model([*epochs, shown]),
        "sampled_with": json.dumps(stated, ensure_ascii=False, sort_keys=True, default=str),
    }


def _greedy(key: str, drawn: _Questions, greedy: _Questions) -> _Generated:
    """The shown answer of another log; raises BeamUQError unless it is the greedy one."""
    if key not in greedy.epochs:
        raise BeamUQError(
            f"{greedy.name}: no sample {key!r}, which {drawn.name} has; give logs of the same "
            "questions"
        )
    (shown,) = greedy.generated(key)
    temperature = shown.settings.get("temperature")
    if temperature != 0:
        words = "not said" if temperature is None else f"{temperature:g}"
        raise BeamUQError(
            f"{shown.place}: temperature: {words}: no greedy answer; evaluate with --temperature 0"
        )
    if len(shown.candidates) > 1:
        raise BeamUQError(
            f"{shown.place}: output: {len(shown.candidates)} choices; give the one greedy answer"
        )
    return shown


def _check_samples(epochs: Sequence[_Generated], shown: _Generated) -> None:
    """Refuse what is not drawn from the model's own distribution, each on its own."""
    first = epochs[0]
    for draw in epochs:
        temperature = draw.request.get("temperature") or 1.0  # 0 is refused as greedy
        check_request(draw.request, f"{draw.place}: config", temperature)
        if draw.settings != first.settings:
            raise _difference(draw, first, list({*draw.settings, *first.settings}))
    for other in (*epochs, shown):
        if other.prompt != first.prompt:
            raise BeamUQError(
                f"{other.place}: messages: another prompt than that of {first.place}; give answers "
                "to the same prompt"
            )
    if shown not in epochs:
        _check_not_different(shown, first, OF_THE_ANSWER.split())
    seeds = [fixed_seed(draw.request, f"{draw.place}: config") for draw in epochs]
    question = first.place.rpartition(":")[0]
    check_seeds({}, seeds, 0, question)
    identities = [identity for draw in epochs for identity in draw.identities]
    if len(set(identities)) < len(identities):
        raise BeamUQError(
            f"{question}: output: two epochs hold the same draw, by its message's id; evaluate "
            "without the cache, or with a cache per epoch"
        )


def _check_not_different(one: _Generated, other: _Generated, names: Sequence[str]) -> None:
    if any(one.settings.get(name) != other.settings.get(name) for name in names):
        raise _difference(one, other, names)


def _difference(one: _Generated, other: _Generated, names: Sequence[str]) -> BeamUQError:
    """The error of the first setting in which two answers differ."""
    name = next(
        name for name in sorted(names) if one.settings.get(name) != other.settings.get(name)
    )
    return BeamUQError(
        f"{one.place}: config.{name}: {one.settings.get(name)!r:.80}, {other.place} has "
        f"{other.settings.get(name)!r:.80}; evaluate with one"
    )


def _sample(candidate: RawCandidate, draw: _Generated) -> RawCandidate:
    """A candidate with the temperature at which it was drawn, where the log says it."""
    temperature = draw.settings.get("temperature")
    return candidate if temperature is None else {**candidate, "temperature": temperature}


def _question(sample: InspectSample) -> JsonObject:
    """The question's text and its right answers, where they are texts."""
    question = sample.input
    if not isinstance(question, str):
        asked_by_user = [part for part in question if part.get("role") == "user"]
        question = asked_by_user[-1].get("content", "") if asked_by_user else ""
    targets = [sample.target] if isinstance(sample.target, str) else sample.target
    fields: JsonObject = {}
    if isinstance(question, str) and question:
        fields["question"] = question
    if any(targets):
        fields["answers"] = [target for target in targets if target]
    return fields


class _Quality:
    """What a log's scorer says of its answers."""

    def __init__(self, questions: _Questions, scorer: str) -> None:
        self.questions = questions
        samples = [questions.first(key) for key in questions.epochs]
        names = list(dict.fromkeys(name for sample in samples for name in sample.scores or ()))
        if scorer and scorer not in names:
            raise BeamUQError(f"{questions.name}: scorer: {scorer!r}: none; {hint(scorer, names)}")
        if not scorer and len(names) > 1:
            raise BeamUQError(
                f"{questions.name}: scorer: {len(names)} in the log; give one of {', '.join(names)}"
            )
        self.scorer = scorer or (names[0] if names else "")
        values = [self._value(sample) for sample in samples]
        self.are_labels = all(value in ("C", "I") for value in values if value is not None)

    def _value(self, sample: InspectSample) -> Any:
        score = (sample.scores or {}).get(self.scorer)
        return None if score is None else score.value

    def labels(self, sample: InspectSample) -> dict[str, float]:
        """``quality`` of an answer and, where all are right or wrong, ``correct``."""
        if not self.scorer:
            return {}
        value = self._value(sample)
        place = f"{self.questions.place(sample)}: scores.{self.scorer}.value"
        quality = _number(value, place)
        return {"quality": quality} | ({"correct": quality} if self.are_labels else {})


def _number(value: Any, place: str) -> float:
    """A score as a number, as Inspect's own ``value_to_float`` has it."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        raise _NoAnswerError(
            f"{place}: not scored; score it with inspect score, or leave it out with skip_invalid"
        )
    if isinstance(value, str) and value in LABELS:
        return LABELS[value]
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    raise BeamUQError(f"{place}: {value!r:.80}: no number and none of C, P, I, N; name a scorer")
