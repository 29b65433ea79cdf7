"""Responses of servers in the place of candidates, or of whole rows.

A response is known by its form (``server_forms/registry.py``), before it is read as a row or a
candidate of our own.

A candidate gets the log-probabilities of its tokens only where the ending's is among them (D2, p(y
| x)): the sum without it is the probability of no outcome. Where a server leaves it out, or
anything else, the candidate has no log-probability and says why (``left_out``), which ``score``
tells as the reason of every score that needs it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

from beamuq.api.sampling_request import (
    NO_TEMPERATURE,
    asks_for_beams,
    check_beams_request,
    check_request,
    check_seeds,
    flat,
    kept,
    seed_of,
    stops_of,
)
from beamuq.api.server_forms.registry import form_of, refuse_what_is_no_answer
from beamuq.api.server_forms.reply import (
    NO_ENDING,
    NO_LOGPROBS,
    NO_SPELLING,
    NO_TOKEN,
    Asked,
    Form,
    Reply,
    said,
)
from beamuq.errors import BeamUQError

__all__ = ["NO_ENDING", "NO_LOGPROBS", "NO_SPELLING", "NO_TOKEN", "read_responses"]

KINDS = ("answer", "samples", "beams")
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
    row: Mapping[str, Any], place: str, *, without_ending: bool = False, temperature: float = 1.0
) -> dict[str, Any]:
    """A question's row with the candidates that its responses hold, their model and how they were
    asked for.

    ``answer`` may be a response of one choice; ``samples`` and ``beams`` a response, or a list of
    responses and other candidates. A row that is itself a response is the question: its first
    choice is the answer, the rest are samples; of a beam search the most probable beam is the
    answer, and all are beams. All else stays as it is. ``without_ending``: where only the ending's
    log-probability is left out, the tokens' are taken, and the candidate is marked.
    ``temperature``: at which the samples were drawn, as ``score`` is told.

    Raises BeamUQError in one line: the ``place``, the key, the value and the fix.
    """
    return _RowReader(row, place, without_ending, temperature).read()


class _RowReader:
    """Reads one row, and keeps what its responses say of the model, the settings and the seeds."""

    def __init__(
        self, row: Mapping[str, Any], place: str, without_ending: bool, temperature: float
    ) -> None:
        request = row.get("request")
        self.row = row
        self.place = place
        self.temperature = temperature
        self.without_ending = without_ending
        self.request: Mapping[str, Any] | None = request if isinstance(request, Mapping) else None
        self.models: list[str] = []
        self.settings: dict[str, Any] = {}
        self.seeds: list[int | None] = []
        self.texts_drawn = 0

    def read(self) -> dict[str, Any]:
        """The row with candidates, a model and ``sampled_with``."""
        found = self._of_response() if self.row.get("answer") is None else None
        if found is None:
            found = dict(self.row)
            for kind in KINDS:
                if self.row.get(kind) is not None:
                    found[kind] = self._of_kind(kind)
        self._check_requests(found)
        return found | self._kept(found)

    def _of_response(self) -> dict[str, Any] | None:
        """The row of a line that is a response; None: it is none."""
        value = _response(self.row, self.place)
        form = None if value is None else form_of(value)
        if value is None or form is None:
            return None
        named = [kind for kind in ("samples", "beams") if self.row.get(kind)]
        if named:
            fix = "put the response under answer"
            raise BeamUQError(
                f"{self.place}: {named[0]}: beside a whole response, whose choices are samples; "
                f"{fix}"
            )
        reply = self._reply(form, value, "samples", self.place)
        if len(reply.candidates) > 1 and not reply.beams:
            self._note_samples(reply, self.place)
        row = {name: self.row[name] for name in BESIDE_A_RESPONSE if self.row.get(name) is not None}
        if name := _name_of(self.row, value):
            row["id"] = name
        if reply.beams:
            best = max(reply.candidates, key=lambda beam: float(beam.get("logprob", float("-inf"))))
            return row | {"answer": _as_answer(best), "beams": reply.candidates}
        first, *others = reply.candidates
        return row | {"answer": _as_answer(first), "samples": others}

    def _of_kind(self, kind: str) -> Any:
        """The candidates of one place of the row; as it is where none of them is a response."""
        place = f"{self.place}: {kind}"
        parts = self.row[kind] if isinstance(self.row[kind], list) else [self.row[kind]]
        seen: list[Mapping[str, Any]] = []
        candidates: list[Any] = []
        for part in parts:
            value = _response(part, place)
            form = None if value is None else form_of(value)
            if value is None or form is None:
                if kind == "samples":
                    self.texts_drawn += 1
                candidates.append(part)
                continue
            # two samples may say the same, in responses with ids of their own or without
            if value in seen and (value.get("id") or value.get("request_id")):
                raise BeamUQError(f"{place}: the same response stands twice; give each once")
            seen.append(value)
            candidates += self._of_form(form, value, kind, place)
        if not seen:
            return self.row[kind]
        if kind != "answer":
            return candidates
        if len(candidates) != 1:
            raise BeamUQError(f"{place}: {len(candidates)} choices; give the one greedy response")
        return _as_answer(candidates[0])

    def _of_form(
        self, form: Form, value: Mapping[str, Any], kind: str, place: str
    ) -> list[dict[str, Any]]:
        reply = self._reply(form, value, kind, place)
        if kind == "samples" and reply.beams:
            raise BeamUQError(
                f"{place}: {form.name}: beams of one search are no samples; give them under 'beams'"
            )
        if (
            kind == "beams"
            and not reply.beams
            and not (self.request and asks_for_beams(self.request))
        ):
            fix = (
                "give samples under 'samples', or say use_beam_search in 'request' where it was "
                "asked for"
            )
            raise BeamUQError(
                f"{place}: {form.name}: nothing says that these choices are of a beam search; {fix}"
            )
        if kind == "samples":
            self._note_samples(reply, place)
        return reply.candidates

    def _reply(self, form: Form, value: Mapping[str, Any], kind: str, place: str) -> Reply:
        stops = stops_of(self.request or {})
        tempered = kind == "samples" and self.temperature != 1
        reply = form.read(value, place, Asked(stops, tempered, self.without_ending))
        if reply.model is not None and reply.model not in self.models:
            self.models.append(reply.model)
        return reply

    def _note_samples(self, reply: Reply, place: str) -> None:
        """Keep how samples were drawn, by what the response says of itself; refuse what is not the
        model's own.
        """
        where = f"{place}{reply.settings_at}"
        self.seeds.append(seed_of(reply.settings, where))
        self.settings = {**kept(reply.settings), **self.settings}
        check_request(reply.settings, where, self.temperature)

    def _check_requests(self, found: Mapping[str, Any]) -> None:
        """Refuse samples and beams that are not the model's own, or one draw given several
        times.
        """
        samples = found.get("samples") or []
        place = f"{self.place}: request"
        if self.request is not None and samples:
            check_request(self.request, place, self.temperature)
            if "temperature" not in flat(self.request):
                warnings.warn(NO_TEMPERATURE, stacklevel=2)
        elif self.request is not None and found.get("beams"):
            check_beams_request(self.request, place)
        if samples and "answer" in self.row:
            check_seeds(self.request or {}, self.seeds, self.texts_drawn, f"{self.place}: samples")

    def _kept(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The model that the responses name, and the settings of samples, in JSON."""
        more: dict[str, Any] = {}
        if len(self.models) > 1:
            names = " and ".join(repr(name) for name in self.models)
            raise BeamUQError(f"{self.place}: model: responses of {names}; give those of one model")
        for name in self.models:
            given = found.get("model")
            if given is not None and given != name:
                fix = "correct it, or leave it out"
                raise BeamUQError(
                    f"{self.place}: model: {given!r}: the response is by {name!r}; {fix}"
                )
            more["model"] = name
        settings = {**self.settings, **kept(self.request or {})}
        own = [seed for seed in self.seeds if seed is not None]
        asked = seed_of(self.request or {}, f"{self.place}: request")
        seeds = own if own or asked is None else [asked]
        if seeds:
            settings["seed"] = seeds[0] if len(seeds) == 1 else seeds
        if settings and found.get("sampled_with") is None:
            more["sampled_with"] = json.dumps(
                settings, ensure_ascii=False, sort_keys=True, default=str
            )
        return more


def _is_ours(candidate: Mapping[str, Any]) -> bool:
    """Whether it is a candidate of our own: of the forms, only SGLang's has its text where ours
    have it.
    """
    return isinstance(candidate.get("text"), str) and not candidate.keys() & {
        "meta_info",
        "finish_reason",
        "error",
    }


def _response(part: Any, place: str) -> Mapping[str, Any] | None:
    """A response, or what may be one, without what it leaves unsaid; None: a candidate of our own.

    Raises BeamUQError for an error in the place of an answer, and for a form that is not read.
    """
    if isinstance(part, str):
        _refuse_text_of_response(part, place)
    if not isinstance(part, Mapping) or _is_ours(part):
        return None
    value = _unwrapped(part, place)
    if form_of(value) is None:
        refuse_what_is_no_answer(value, place)
    else:
        refuse_what_is_no_answer({"error": value.get("error")}, place)
    return value


def _refuse_text_of_response(text: str, place: str) -> None:
    """Refuse a response that was written as a text, in JSON: it would be compared as an answer,
    braces and all.
    """
    if not text.lstrip().startswith("{"):
        return
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    if form := form_of(said(value)):
        raise BeamUQError(
            f"{place}: a text in JSON that is {form.name}; give it as an object, as json.loads "
            "reads it"
        )


def _unwrapped(value: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """A response without what it leaves unsaid, taken out of the line of OpenAI's batches that it
    stands in.
    """
    inside = value.get("response")
    if not isinstance(inside, Mapping) or not isinstance(inside.get("body"), Mapping):
        return said(value)
    body = said(inside["body"])
    if inside.get("status_code") not in (None, 200) and "error" not in body:
        raise BeamUQError(
            f"{place}: response.status_code: {inside['status_code']}: no answer; ask again"
        )
    return body


def _name_of(line: Mapping[str, Any], response: Mapping[str, Any]) -> str | None:
    """By which a question is known whose line is a response: the client's own name for it, else the
    response's.
    """
    for name in (line.get("custom_id"), response.get("id"), line.get("id")):
        if isinstance(name, int) and not isinstance(name, bool):
            return str(name)
        if isinstance(name, str) and name:
            return name
    return None


def _as_answer(record: Any) -> Any:
    """A candidate as the answer, with the length of a sum of log-probabilities where it is
    known.
    """
    counted = isinstance(record, Mapping) and "logprob" in record and "token_ids" in record
    return {**record, "tokens": len(record["token_ids"])} if counted else record
