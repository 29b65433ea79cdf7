"""Responses of servers in the place of candidates, or of whole rows.

A response is known by its form (``server_forms/registry.py``), before it is read as a row or a
candidate of our own.

A candidate gets its tokens' log-probabilities only where the ending's is among them (D2, p(y | x)):
the sum without it is the probability of no outcome. Where a server leaves it out, or anything else,
the candidate has no log-probability and says why (``left_out``), which ``score`` tells as the
reason of every score that needs it.
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from beamuq.api.rows_left_out import SampleSkipping
from beamuq.api.sampling_request import (
    NO_TEMPERATURE,
    asks_for_beams,
    check_beams_request,
    check_request,
    check_seeds,
    fixed_seed,
    sampling_settings,
    settings_of,
    stop_strings,
)
from beamuq.api.server_forms.registry import form_of, refuse_what_is_no_answer
from beamuq.api.server_forms.reply import (
    NO_ENDING,
    NO_LOGPROBS,
    NO_SPELLING,
    NO_TOKEN,
    Form,
    RawCandidate,
    Reply,
    Request,
    with_ending_said,
    without_nulls,
)
from beamuq.config_errors import NO_NAMES
from beamuq.errors import BeamUQError

__all__ = ["NO_ENDING", "NO_LOGPROBS", "NO_SPELLING", "NO_TOKEN", "read_responses"]

KINDS = ("answer", "samples", "beams")
CHOICES = ("choices", "outputs")
"""Keys under which the forms of several answers have them."""
NO_SKIPPING = SampleSkipping()
BESIDE_A_RESPONSE = (
    "correct",
    "quality",
    "group",
    "model_hash",
    "prompt_hash",
    "question",
    "answers",
    "request",
)
"""What a line that is a response may say beside it."""


def read_responses(
    row: Mapping[str, Any],
    place: str,
    *,
    without_ending: bool = False,
    temperature: float = 1.0,
    names: Mapping[str, str] = NO_NAMES,
    skipping: SampleSkipping = NO_SKIPPING,
) -> dict[str, Any]:
    """A question's row with its responses' candidates, their model and how they were asked for.

    ``answer`` may be a response of one choice; ``samples`` and ``beams`` a response, or a list of
    responses and other candidates. A row that is itself a response is the question: its first
    choice is the answer, the rest are samples; of a beam search the most probable beam is the
    answer, and all are beams. All else stays as it is. ``without_ending``: where only the ending's
    log-probability is left out, the tokens' are taken, and the candidate is marked.
    ``temperature``: at which the samples were drawn, as ``score`` is told. ``names``: what messages
    call keys of the row, if otherwise; where one is of ``id``, a response's id names no question.
    Where answer and samples have one name, the response there is divided as that of a whole row.
    ``skipping``: whether samples that cannot be read, responses or single choices, are left out.

    Raises BeamUQError in one line: the ``place``, the key, the value and the fix.
    """
    return _RowReader(row, place, without_ending, temperature, names, skipping).read()


class _RowReader:
    """Reads one row, and keeps what its responses say of the model, the settings and the seeds."""

    def __init__(
        self,
        row: Mapping[str, Any],
        place: str,
        without_ending: bool,
        temperature: float,
        names: Mapping[str, str],
        skipping: SampleSkipping,
    ) -> None:
        request = row.get("request")
        self.row = row
        self.place = place
        self.temperature = temperature
        self.without_ending = without_ending
        self.names = names
        self.skipping = skipping
        self.request: Mapping[str, Any] | None = request if isinstance(request, Mapping) else None
        self.models: list[str] = []
        self.settings: dict[str, object] = {}
        self.seeds: list[int | None] = []
        self.texts_drawn = 0

    def read(self) -> dict[str, Any]:
        """The row with candidates, a model and ``sampled_with``."""
        is_given = self.row.get("answer") is not None
        row = self._row_of_one_key() if is_given else self._row_of_response()
        if row is None:
            row = dict(self.row)
            for kind in KINDS:
                if self.row.get(kind) is not None:
                    row[kind] = self._candidates_of(kind)
        self._check_requests(row)
        return row | self._model(row) | self._sampled_with(row)

    def _row_of_response(self) -> dict[str, Any] | None:
        """The row of a line that is a response; None: it is none."""
        response = _response(self.row, self.place)
        if response is None:
            return None
        for kind in ("samples", "beams"):
            if self.row.get(kind):
                raise BeamUQError(
                    f"{self._place_of(kind)}: beside a whole response, whose choices are samples; "
                    "put the response under answer"
                )
        divided = self._divided(response, self.place)
        row = {name: self.row[name] for name in BESIDE_A_RESPONSE if self.row.get(name) is not None}
        name = _name_of(self.row, response.content)
        if "id" in self.names:
            row["id"] = self.row["id"]
        elif name:
            row["id"] = name
        return row | divided

    def _row_of_one_key(self) -> dict[str, Any] | None:
        """The row whose answer and samples are one response; None: they have a key each.

        Raises BeamUQError where something else than a response stands there, a response of one
        choice, or beams beside it.
        """
        path = self.names.get("answer")
        if path is None or path != self.names.get("samples"):
            return None
        place = self._place_of("answer")
        response = _response(self.row["answer"], place)
        if response is None:
            raise BeamUQError(
                f"{place}: answer and samples by one key, and no whole response of a server; give "
                f"each its own; of a list answer_key (--answer-key) {path}.0 and leave_one_out "
                "(--leave-one-out)"
            )
        if self.row.get("beams"):
            raise BeamUQError(
                f"{self._place_of('beams')}: beside a response whose choices are answer and "
                "samples; leave one of both out"
            )
        divided = self._divided(response, place)
        if not divided.get("samples") and not divided.get("beams"):
            raise BeamUQError(
                f"{place}: one choice, the answer, so there is no sample; ask for several (n), or "
                "leave samples_key (--samples-key) out"
            )
        row = {name: value for name, value in self.row.items() if name not in KINDS}
        return row | divided

    def _divided(self, response: _Response, place: str) -> dict[str, Any]:
        """Answer and samples of a response: the first choice, and the others.

        Of a beam search answer and beams: the most probable one, and all.
        """
        response = self._with_readable_choices(response, place, keeps_first=True)
        reply = self._reply(response, "samples", place)
        if reply.beams:
            best = max(reply.candidates, key=_logprob)
            return {"answer": _as_answer(best), "beams": reply.candidates}
        if len(reply.candidates) > 1:
            self._note_samples(reply, place)
        return {"answer": _as_answer(reply.candidates[0]), "samples": reply.candidates[1:]}

    def _candidates_of(self, kind: str) -> Any:
        """What the row has under a kind, with candidates in the place of responses."""
        place = self._place_of(kind)
        value = self.row[kind]
        parts = value if isinstance(value, list) else [value]
        responses: list[_Response] = []
        candidates: list[Any] = []
        for part, response in self._responses(parts, kind, place):
            if response is None:
                candidates.append(part)
                continue
            _check_not_repeated(response, responses, place)
            responses.append(response)
            candidates += self._candidates_of_response(response, kind, place)
        if kind == "samples":
            self.texts_drawn = len(parts) - len(responses)
        if not responses and len(candidates) == len(parts):
            return value
        if kind != "answer":
            return candidates
        if len(candidates) != 1:
            raise BeamUQError(
                f"{place}: {len(candidates)} choices; give the one greedy response"
                f"{self._fix_of_several_choices()}"
            )
        return _as_answer(candidates[0])

    def _fix_of_several_choices(self) -> str:
        """What else may be done where the answer's key leads to a response of several choices."""
        path = self.names.get("answer")
        if path is None or "samples" in self.names:
            return ""
        return (
            f", or samples_key (--samples-key) {path} too: the first choice is then the answer, "
            "the others are samples"
        )

    def _responses(
        self, parts: Sequence[Any], kind: str, place: str
    ) -> list[tuple[Any, _Response | None]]:
        """Each part of a kind, with the response that it is; None: it is none.

        Samples that cannot be read are left out, where that is asked.
        """
        if kind != "samples":
            return [(part, _response(part, place)) for part in parts]

        def read(_: int, part: Any) -> _Response | None:
            response = _response(part, place)
            return response and self._with_readable_choices(response, place)

        return self.skipping.readable(parts, read)

    def _with_readable_choices(
        self, response: _Response, place: str, *, keeps_first: bool = False
    ) -> _Response:
        """A response of samples without the choices that cannot be read.

        ``keeps_first``: the first is the answer. Raises the error of the response where it has no
        choice that can be read, or the first has to be, or none is left out.
        """
        try:
            self._read(response, "samples", place)
        except BeamUQError as error:
            name = response.name_of_choices
            choices = response.content[name] if name else []
            if name is None or not choices or (keeps_first and len(choices) == 1):
                raise
            if keeps_first:
                self._read(response.with_choices(name, choices[:1]), "samples", place)
            if not self.skipping.is_asked:
                raise self.skipping.naming_option(error) from error
            return self._reduced(response, name, place)
        return response

    def _reduced(self, response: _Response, name: str, place: str) -> _Response:
        """A response with the choices that can be read, each by itself."""
        choices = response.content[name]
        readable: list[Any] = []
        errors: list[BeamUQError] = []
        for number, choice in enumerate(choices):
            try:
                self._read(response.with_choices(name, [choice]), "samples", place)
            except BeamUQError as error:
                line = str(error).replace(f"{name}[0]", f"{name}[{number}]", 1)
                errors.append(BeamUQError(line))
            else:
                readable.append(choice)
        if not readable:
            raise errors[0]
        self.skipping.errors += errors
        return response.with_choices(name, readable)

    def _place_of(self, kind: str) -> str:
        return f"{self.place}: {self.names.get(kind, kind)}"

    def _candidates_of_response(
        self, response: _Response, kind: str, place: str
    ) -> list[RawCandidate]:
        """A response's candidates; raises BeamUQError if they are not of the kind."""
        reply = self._reply(response, kind, place)
        name = response.form.name
        if kind == "samples" and reply.beams:
            raise BeamUQError(
                f"{place}: {name}: beams of one search are no samples; give them under 'beams'"
            )
        says_beams = reply.beams or (self.request is not None and asks_for_beams(self.request))
        if kind == "beams" and not says_beams:
            raise BeamUQError(
                f"{place}: {name}: nothing says that these choices are of a beam search; give "
                "samples under 'samples', or say use_beam_search in 'request' where it was asked "
                "for"
            )
        if kind == "samples":
            self._note_samples(reply, place)
        return reply.candidates

    def _reply(self, response: _Response, kind: str, place: str) -> Reply:
        """What a response holds; its model is noted."""
        reply = self._read(response, kind, place)
        if reply.model is not None and reply.model not in self.models:
            self.models.append(reply.model)
        return replace(reply, candidates=list(map(with_ending_said, reply.candidates)))

    def _read(self, response: _Response, kind: str, place: str) -> Reply:
        request = Request(
            stops=stop_strings(self.request or {}),
            tempered=kind == "samples" and self.temperature != 1,
            without_ending=self.without_ending,
        )
        return response.form.read(response.content, place, request)

    def _note_samples(self, reply: Reply, place: str) -> None:
        """Note how samples were drawn, by what the response says of itself.

        Raises BeamUQError if they are not the model's own.
        """
        where = f"{place}{reply.settings_at}"
        self.seeds.append(fixed_seed(reply.settings, where))
        # of a setting in which responses differ, the first one's value is kept
        self.settings = {**sampling_settings(reply.settings), **self.settings}
        check_request(reply.settings, where, self.temperature)

    def _check_requests(self, row: Mapping[str, Any]) -> None:
        """Refuse samples and beams that are not the model's own, and one draw given repeatedly."""
        samples = row.get("samples") or []
        place = f"{self.place}: request"
        if self.request is not None and samples:
            check_request(self.request, place, self.temperature)
            if "temperature" not in settings_of(self.request):
                warnings.warn(NO_TEMPERATURE, stacklevel=2)
        elif self.request is not None and row.get("beams"):
            check_beams_request(self.request, place)
        if samples and "answer" in self.row:
            where = self._place_of("samples")
            check_seeds(self.request or {}, self.seeds, self.texts_drawn, where)

    def _model(self, row: Mapping[str, Any]) -> dict[str, str]:
        """``model``, as the responses name it; raises BeamUQError where names differ."""
        if not self.models:
            return {}
        if len(self.models) > 1:
            names = " and ".join(repr(name) for name in self.models)
            raise BeamUQError(f"{self.place}: model: responses of {names}; give those of one model")
        name = self.models[0]
        stated = row.get("model")
        if stated is not None and stated != name:
            raise BeamUQError(
                f"{self.place}: model: {stated!r}: the response is by {name!r}; correct it, or "
                "leave it out"
            )
        return {"model": name}

    def _sampled_with(self, row: Mapping[str, Any]) -> dict[str, str]:
        """``sampled_with``: the settings of samples in JSON, unless the row states them."""
        request = self.request or {}
        settings = {**self.settings, **sampling_settings(request)}
        common_seed = fixed_seed(request, f"{self.place}: request")
        seeds = [seed for seed in self.seeds if seed is not None]
        if not seeds and common_seed is not None:
            seeds = [common_seed]
        if seeds:
            settings["seed"] = seeds[0] if len(seeds) == 1 else seeds
        if not settings or row.get("sampled_with") is not None:
            return {}
        text = json.dumps(settings, ensure_ascii=False, sort_keys=True, default=str)
        return {"sampled_with": text}


@dataclass(frozen=True)
class _Response:
    """A response and its form."""

    form: Form
    content: Mapping[str, Any]

    @property
    def name_of_choices(self) -> str | None:
        """The key of its list of choices; None: it has none."""
        return next((name for name in CHOICES if isinstance(self.content.get(name), list)), None)

    def with_choices(self, name: str, choices: Sequence[Any]) -> _Response:
        """The same response with other choices."""
        return replace(self, content={**self.content, name: list(choices)})


def _response(part: Any, place: str) -> _Response | None:
    """A response, without what it leaves unsaid; None: a candidate or row of our own.

    Raises BeamUQError for an error in the place of an answer, and for a form that is not read.
    """
    if isinstance(part, str):
        _refuse_text_of_response(part, place)
    if not isinstance(part, Mapping) or _is_ours(part):
        return None
    content = _unwrapped(part, place)
    form = form_of(content)
    if form is None:
        refuse_what_is_no_answer(content, place)
        return None
    refuse_what_is_no_answer({"error": content.get("error")}, place)
    return _Response(form, content)


def _is_ours(candidate: Mapping[str, Any]) -> bool:
    """Whether it is a candidate of our own; of the forms, only SGLang's has a text in its place."""
    if not isinstance(candidate.get("text"), str):
        return False
    return not candidate.keys() & {"meta_info", "finish_reason", "error"}


def _check_not_repeated(response: _Response, earlier: Sequence[_Response], place: str) -> None:
    """Refuse the same response twice, by its id: without one, two samples may say the same."""
    identified = response.content.get("id") or response.content.get("request_id")
    if identified and response in earlier:
        raise BeamUQError(f"{place}: the same response stands twice; give each once")


def _refuse_text_of_response(text: str, place: str) -> None:
    """Refuse a response in JSON as a text: it would be compared as an answer, braces and all."""
    if not text.lstrip().startswith("{"):
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    form = form_of(without_nulls(value))
    if form:
        raise BeamUQError(
            f"{place}: a text in JSON that is {form.name}; give it as an object, as json.loads "
            "reads it"
        )


def _unwrapped(value: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """A response without what it leaves unsaid, taken out of its line of OpenAI's batches."""
    inside = value.get("response")
    if not isinstance(inside, Mapping) or not isinstance(inside.get("body"), Mapping):
        return without_nulls(value)
    body = without_nulls(inside["body"])
    if inside.get("status_code") not in (None, 200) and "error" not in body:
        raise BeamUQError(
            f"{place}: response.status_code: {inside['status_code']}: no answer; ask again"
        )
    return body


def _name_of(line: Mapping[str, Any], response: Mapping[str, Any]) -> str | None:
    """The id of a question whose line is a response: the client's, else the response's, if any."""
    for name in (line.get("custom_id"), response.get("id"), line.get("id")):
        if isinstance(name, int) and not isinstance(name, bool):
            return str(name)
        if isinstance(name, str) and name:
            return name
    return None


def _logprob(beam: RawCandidate) -> float:
    return float(beam.get("logprob", -math.inf))


def _as_answer(record: Any) -> Any:
    """A candidate as the answer, with the length that its sum of log-probabilities has."""
    if isinstance(record, Mapping) and "logprob" in record and "token_ids" in record:
        return {**record, "tokens": len(record["token_ids"])}
    return record
