"""What a model in memory gives: prompts decoded here, as rows that are scored."""

from __future__ import annotations

import inspect
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from beamuq.api.answer_identity import common_prompt_hash
from beamuq.api.open_models import LoadedModel, check_models_extra, open_model, open_served
from beamuq.api.prompts_as_tokens import PromptTokens, listed_prompts, prompt_as_tokens
from beamuq.api.rows import check_settings
from beamuq.errors import BeamUQError, ServerLostError
from beamuq.models import prompt_tokens
from beamuq.models.served.server_address import is_server
from beamuq.progress import job_progress

if TYPE_CHECKING:
    from beamuq.decoding import Candidate, Policy, Work

BATCH = 32  # prompts decoded together: those with a common beginning share it
STOPS = ("newline", "eos")
DRAWS = ("race", "server")
MOST_WARNINGS = 3  # of one call
MOST_CUT = 0.2  # of the answers, before it is warned of
Row = dict[str, Any]
"""A prompt's row, as :func:`decode` returns it."""


def decode(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str | Sequence[int] | Sequence[Mapping[str, Any]]],
    *,
    samples: int = 0,
    beams: int = 10,
    max_new_tokens: int = 20,
    chat: bool = False,
    stop: str = "newline",
    seed: int = 0,
    batch: int = BATCH,
    draws: str = "race",
    threads: int | None = 1,
    work: Work | None = None,
) -> list[dict[str, Any]]:
    """The greedy answer, samples and beams of every prompt, as rows that ``beamuq.score`` takes.

    Log-probabilities are natural, of whole answers with their ending, under the model's own
    distribution (temperature 1), exact to the model's precision. All bare stop tokens count as one
    ending.

    Parameters
    ----------
    model, tokenizer
        Of transformers, on any device, quantised or with an adapter; checked once to give what its
        own forward pass gives. Or server:ADDRESS, of vLLM or llama.cpp, checked once too, with the
        tokenizer of its model: of transformers, a folder, hub:ORG/NAME or packaged:NAME.
    prompts
        Texts, lists of token ids, or with chat conversations: lists of messages with role and
        content, as ``apply_chat_template`` takes them, the last one the user's. A text that begins
        with the BOS gets no second one.
    samples, beams
        How many samples are drawn at temperature 1; M of the beam search. 0: none.
    max_new_tokens
        An answer that has not ended after so many tokens is cut, and said to be (``ended``).
    chat
        Texts become a user's message, and conversations are put, in the model's chat template. A
        template that can switch thinking off is told to, and one that writes the date gets a fixed
        one.
    stop
        newline: a token with a newline ends an answer, as in the paper, and of its text is kept
        what follows ``<b>`` or "Answer: " and comes before ``</b>``, ``</think>`` or the name of a
        stop token. eos: only tokens that end a text or a turn do, and of its text, with all lines,
        special tokens and outer space alone are taken off.
    seed
        Of the samples, a whole number: the same seed, prompt and place in the list give the same
        samples.
    batch
        Prompts decoded together; what they have in common at their beginning is run once.
    draws
        race: our samples, the same in process and over a server; server: a server draws them, with
        fewer requests where distributions are flat, and they are others.
    threads
        Of torch on a CPU, while this call decodes; None: as many as torch has. One was measured
        best where other jobs run (docs/your_own_answers.md).
    work
        What decoding took is added to it.

    Returns
    -------
    One row per prompt: id (its number, from 1), question (the text, or the last
    message of a conversation), answer, samples and beams, each with text, token_ids,
    token_logprobs, logprob and ended; the answer also with token_entropies, in nats. Further model
    and model_hash, which ``decide`` compares, and of conversations with one system prompt
    prompt_hash; around other prompts it is not known: give the rows one, any text that you change
    with the prompt. Of a server no entropies and no hash, but server: what tells it from others.

    Warns where answers begin with a thought, or the greedy one is empty, as where it begins with a
    newline, and where more than a fifth of the answers are cut.

    Raises BeamUQError in one line: an empty or too long prompt, a malformed conversation, one that
    the chat template rejects or leaves a part of out, a prompt that leaves a thought open, a number
    below its least, a seed that is no whole number, a model that the engine cannot decode.

    Examples
    --------
    >>> rows = beamuq.decode(model, tokenizer, ["Q: Who wrote Hamlet?\\nA:"], samples=3, beams=5)
    >>> [len(rows[0][name]) for name in ("samples", "beams")]
    [3, 5]
    """
    rows, doubts = decoded_rows(
        model,
        tokenizer,
        prompts,
        samples=samples,
        beams=beams,
        max_new_tokens=max_new_tokens,
        chat=chat,
        stop=stop,
        seed=seed,
        batch=batch,
        draws=draws,
        threads=threads,
        work=work,
        bar="prompts",
    )
    _warn_of_doubts(doubts)
    _warn_of_cut_answers(rows, max_new_tokens)
    return rows


def _warn_of_cut_answers(rows: Sequence[Row], max_new_tokens: int) -> None:
    """Warn the caller of :func:`decode` where many answers are beginnings of answers."""
    cut = sum(not row["answer"]["ended"] for row in rows)
    if cut > MOST_CUT * len(rows):
        warnings.warn(
            f"{cut} of {len(rows)} answers had not ended after {max_new_tokens} tokens and are "
            "cut: raise max_new_tokens, or ask for short answers",
            stacklevel=3,
        )


def _warn_of_doubts(doubts: Sequence[Sequence[str]]) -> None:
    """Warn the caller of :func:`decode` of the first doubts, and of how many more there are."""
    messages = []
    for number, doubts_of_prompt in enumerate(doubts, start=1):
        messages += [f"prompt {number}: {doubt}" for doubt in doubts_of_prompt]
    for message in messages[:MOST_WARNINGS]:
        warnings.warn(message, stacklevel=3)
    further = len(messages) - MOST_WARNINGS
    if further > 0:
        warnings.warn(f"{further} further warnings of this kind", stacklevel=3)


def decoded_rows(
    model: Any,
    tokenizer: Any,
    prompts: Any,
    *,
    samples: int = 0,
    beams: int = 10,
    max_new_tokens: int = 20,
    chat: bool = False,
    stop: str = "newline",
    seed: int = 0,
    batch: int = BATCH,
    draws: str = "race",
    threads: int | None = None,
    work: Work | None = None,
    places: Sequence[str] | None = None,
    bar: str = "",
) -> tuple[list[Row], list[list[str]]]:
    """What :func:`decode` returns, and for each row why its texts may be no answers.

    Nothing is warned of. ``places`` name the prompts in errors. ``threads``: None: those that torch
    has. ``bar``: what progress is told under; "": nothing is told.
    """
    check_models_extra()
    check_settings(seed=seed)
    if threads is not None:
        check_settings(threads=threads)
    loaded = _opened(model, tokenizer)
    check_settings(samples=samples, beams=beams, max_new_tokens=max_new_tokens, batch=batch)
    check_stop(stop)
    if not isinstance(chat, bool):
        raise BeamUQError(f"chat: {chat!r:.40}: neither True nor False; say which")
    prompts_read = _read_prompts(loaded.tokenizer, prompts, chat=chat, places=places)
    endings = _endings(loaded.model, loaded.tokenizer, stop)
    policies = _policies(samples, beams)
    if draws != "race":
        policies = _with_draws_of_server(policies, loaded, endings, draws)
    facts = _facts(loaded, prompts_read, stop=stop, max_new_tokens=max_new_tokens)
    candidates: list[list[Candidate]] = [[] for _ in prompts_read]
    try:
        with threads_of_torch(threads):
            _decode_into(
                candidates,
                loaded.model,
                prompts_read,
                batch,
                bar,
                policies=policies,
                stop_ids=endings.stop_ids,
                seed=seed,
                max_new_tokens=max_new_tokens,
                merge_stop_tokens=endings.bare,
                work=work,
            )
    except ServerLostError as error:
        finished, _ = _rows_and_doubts(loaded, prompts_read, candidates, samples, endings, facts)
        if not finished:
            raise
        raise ServerLostError(
            f"{error}; {len(finished)} of {len(prompts_read)} prompts are decoded: their rows are "
            "the error's 'finished'",
            finished,
        ) from error
    return _rows_and_doubts(loaded, prompts_read, candidates, samples, endings, facts)


def _opened(model: Any, tokenizer: Any) -> LoadedModel:
    """A model of a call with its tokenizer; a server is checked."""
    if isinstance(model, LoadedModel):
        return model
    if is_server(model):
        return open_served(model, tokenizer)
    return open_model((model, tokenizer))


def _facts(
    loaded: LoadedModel, prompts: Sequence[PromptTokens], *, stop: str, max_new_tokens: int
) -> Row:
    """What every row says of itself, for ``decide``: the model and, as far as known, the prompt."""
    facts: Row = {"model": loaded.name, "model_hash": loaded.content}
    if loaded.server is not None:
        facts["server"] = json.loads(loaded.server)
    parameters = inspect.signature(decode).parameters
    settings = {"max_new_tokens": max_new_tokens, "stop": stop}
    unusual = {name: value for name, value in settings.items() if value != parameters[name].default}
    prompt_hash = common_prompt_hash([prompt.around for prompt in prompts], unusual)
    return facts if prompt_hash is None else {**facts, "prompt_hash": prompt_hash}


def _with_draws_of_server(
    policies: Sequence[Policy], loaded: LoadedModel, endings: _Endings, draws: str
) -> list[Policy]:
    """The policies with samples that the server draws."""
    from beamuq import decoding
    from beamuq.decoding.served.server_draws import ServerSample

    if draws not in DRAWS:
        raise BeamUQError(f"draws: {draws!r:.40}: choose from {', '.join(DRAWS)}")
    if loaded.server is None:
        raise BeamUQError("draws: 'server': this model is in memory; leave it out")
    if not loaded.model.can_draw:
        raise BeamUQError(
            f"draws: 'server': {loaded.name}: this server draws up to no stop token by its id; "
            "leave it out"
        )
    return [
        ServerSample(policy.size, loaded.model, endings.stop_ids, endings.bare)
        if isinstance(policy, decoding.Sample)
        else policy
        for policy in policies
    ]


def _rows_and_doubts(
    loaded: LoadedModel,
    prompts: Sequence[PromptTokens],
    candidates: Sequence[Sequence[Candidate]],
    samples: int,
    endings: _Endings,
    facts: Row,
) -> tuple[list[Row], list[list[str]]]:
    """What :func:`decoded_rows` returns, of candidates in the order answer, samples, beams.

    A prompt without candidates, which was not decoded, is left out. ``facts``: of every row.
    """
    tokenizer = loaded.tokenizer
    rows = []
    doubts = []
    for number, prompt in enumerate(prompts, start=1):
        members = candidates[number - 1]
        if not members:
            continue
        records = [_record(member, tokenizer, endings) for member in members]
        row: Row = {"id": str(number)}
        if prompt.question is not None:
            row["question"] = prompt.question
        row["answer"] = records[0]
        if members[0].entropies is not None:
            row["answer"]["token_entropies"] = members[0].entropies.tolist()
        row["samples"] = records[1 : 1 + samples]
        row["beams"] = records[1 + samples :]
        rows.append(row | facts)
        doubts.append(_doubts(tokenizer, records, endings))
    return rows, doubts


def _read_prompts(
    tokenizer: Any, prompts: Any, *, chat: bool, places: Sequence[str] | None
) -> list[PromptTokens]:
    listed = listed_prompts(prompts)
    if places is None:
        places = [f"prompt {number}" for number in range(1, len(listed) + 1)]
    return [
        prompt_as_tokens(tokenizer, prompt, chat=chat, place=place)
        for prompt, place in zip(listed, places, strict=True)
    ]


@dataclass(frozen=True)
class _Endings:
    """The tokens that end an answer, the bare ones of them, and whether a newline ends it too."""

    stop_ids: frozenset[int]
    bare: frozenset[int]
    newline: bool


def _endings(model: Any, tokenizer: Any, stop: str) -> _Endings:
    from beamuq import decoding

    newline = stop == "newline"
    stop_ids = decoding.stop_tokens(tokenizer, model, newline=newline)
    if not stop_ids:
        raise BeamUQError(
            f"stop: {stop!r}: model and tokenizer name no token that ends an answer; set "
            "eos_token_id"
        )
    return _Endings(stop_ids, decoding.bare_stops(tokenizer, stop_ids), newline)


def _policies(samples: int, beams: int) -> list[Policy]:
    """The greedy answer, and samples and beams where there are to be any."""
    from beamuq import decoding

    policies: list[Policy] = [decoding.Greedy()]
    if samples:
        policies.append(decoding.Sample(samples, 1.0))
    if beams:
        policies.append(decoding.Beam(beams))
    return policies


def _decode_into(
    candidates: Sequence[list[Candidate]],
    model: Any,
    prompts: Sequence[PromptTokens],
    batch: int,
    bar: str,
    *,
    policies: Sequence[Policy],
    **options: Any,
) -> None:
    """Fill the candidates of each prompt, decoded ``batch`` prompts at a time."""
    from beamuq import decoding

    numbered = [
        decoding.Prompt(str(number), prompt.token_ids)
        for number, prompt in enumerate(prompts, start=1)
    ]
    with job_progress(len(numbered), bar, "prompt") as shown:
        for members in decoding.compose_batches(numbered, batch):
            for candidate in decoding.decode(model, members, policies, **options):
                candidates[int(candidate.prompt_id) - 1].append(candidate)
            shown.update(len(members))


@contextmanager
def threads_of_torch(threads: int | None) -> Iterator[None]:
    """So many threads of torch within, afterwards as many as before; None: leave them."""
    if threads is None:
        yield
        return
    import torch

    from beamuq.models.devices import MOST_THREADS

    if threads > MOST_THREADS:
        raise BeamUQError(f"threads: {threads}: must be from 1 to {MOST_THREADS}")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def check_stop(stop: Any) -> None:
    """Raise BeamUQError unless this is one of :data:`STOPS`."""
    if stop not in STOPS:
        raise BeamUQError(f"stop: {stop!r:.40}: choose from {', '.join(STOPS)}")


def _doubts(tokenizer: Any, records: Sequence[Row], endings: _Endings) -> list[str]:
    """Why the texts of a prompt, the greedy answer's first, may be no answers."""
    doubts = []
    marks = [prompt_tokens.mark_of_thought(tokenizer, record["token_ids"]) for record in records]
    thoughts = [mark for mark in marks if mark]
    if thoughts:
        beginning = f"{len(thoughts)} of {len(records)} answers begin"
        if marks[0]:
            beginning = "the answer begins"
        doubts.append(
            f"{beginning} with a thought ({thoughts[0]}), which is no answer: switch thinking off, "
            "or write a thought and its end into the prompt"
        )
    if endings.newline and not records[0]["text"]:
        # endings are merged, so that which of them it was is not known
        doubts.append(
            "the answer is empty, and empty answers look certain: the model ends it at once, or "
            "begins it with a newline, which ends it; take whole answers with stop eos, or end the "
            "prompt with that newline"
        )
    return doubts


def _record(candidate: Candidate, tokenizer: Any, endings: _Endings) -> dict[str, Any]:
    from beamuq import decoding

    text = decoding.answer_text(
        tokenizer, candidate.token_ids, endings.stop_ids, newline=endings.newline
    )
    return {
        "text": text,
        "token_ids": list(candidate.token_ids),
        "token_logprobs": candidate.token_logprobs.tolist(),
        "logprob": candidate.logprob,
        "ended": candidate.terminated,
    }
