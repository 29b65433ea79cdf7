"""What a model in memory gives: prompts decoded here, as rows that are scored."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beamuq.api.open_models import check_models_extra, check_pair
from beamuq.api.prompts_as_tokens import listed_prompts, prompt_as_tokens
from beamuq.api.rows import check_settings
from beamuq.errors import BeamUQError
from beamuq.models import prompt_tokens

if TYPE_CHECKING:
    from beamuq.decoding import Candidate, Policy, Prompt, Work

BATCH = 32  # prompts decoded together: those with a common beginning share it
STOPS = ("newline", "eos")
MOST_WARNINGS = 3  # of one call


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
        own forward pass gives.
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
        Of the samples: the same seed, prompt and place in the list give the same samples.
    batch
        Prompts decoded together; what they have in common at their beginning is run once.
    work
        What decoding took is added to it.

    Returns ------- One row per prompt: id (its number, from 1), question (the text, or the last
    message of a conversation), answer, samples and beams, each with text, token_ids,
    token_logprobs, logprob and ended; the answer also with token_entropies, in nats.

    Warns where answers begin with a thought, or the greedy one is empty, as where it begins with a
    newline.

    Raises BeamUQError in one line: an empty or too long prompt, a malformed conversation, one that
    the chat template rejects or leaves a part of out, a prompt that leaves a thought open, a number
    below its least, a model that the engine cannot decode.

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
        work=work,
    )
    doubtful = [(number, told) for number, of_row in enumerate(doubts, start=1) for told in of_row]
    for number, told in doubtful[:MOST_WARNINGS]:
        warnings.warn(f"prompt {number}: {told}", stacklevel=2)
    if len(doubtful) > MOST_WARNINGS:
        warnings.warn(
            f"{len(doubtful) - MOST_WARNINGS} further warnings of this kind", stacklevel=2
        )
    return rows


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
    work: Work | None = None,
    places: Sequence[str] | None = None,
) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """What :func:`decode` returns, and for each row why its texts may be no answers, instead of
    warning of it.

    ``places`` name the prompts in errors.
    """
    from beamuq import decoding

    check_models_extra()
    check_pair(model, tokenizer)
    check_settings(samples=samples, beams=beams, max_new_tokens=max_new_tokens, batch=batch)
    check_stop(stop)
    if not isinstance(chat, bool):
        raise BeamUQError(f"chat: {chat!r:.40}: neither True nor False; say which")
    listed = listed_prompts(prompts)
    places = (
        [f"prompt {number}" for number in range(1, len(listed) + 1)] if places is None else places
    )
    read = [
        prompt_as_tokens(tokenizer, prompt, chat=chat, place=place)
        for prompt, place in zip(listed, places, strict=True)
    ]
    stops = decoding.stop_tokens(tokenizer, model, newline=stop == "newline")
    if not stops:
        raise BeamUQError(
            f"stop: {stop!r}: model and tokenizer name no token that ends an answer; set "
            "eos_token_id"
        )
    policies: list[decoding.Policy] = [decoding.Greedy()]
    policies += [decoding.Sample(samples, 1.0)] if samples else []
    policies += [decoding.Beam(beams)] if beams else []
    found = _candidates(
        model,
        [
            decoding.Prompt(f"{number}", prompt.token_ids)
            for number, prompt in enumerate(read, start=1)
        ],
        batch,
        policies=policies,
        stop_ids=stops,
        seed=seed,
        max_new_tokens=max_new_tokens,
        merge_stop_tokens=decoding.bare_stops(tokenizer, stops),
        work=work,
    )
    rows: list[dict[str, Any]] = []
    doubts = []
    for prompt, (key, candidates) in zip(read, found.items(), strict=True):
        records = []
        for candidate in candidates:
            text = decoding.answer_text(
                tokenizer, candidate.token_ids, stops, newline=stop == "newline"
            )
            records.append(_record(text, candidate))
        answer, *others = records
        answer["token_entropies"] = np.asarray(candidates[0].entropies).tolist()
        question = {} if prompt.question is None else {"question": prompt.question}
        rows.append(
            {
                "id": key,
                **question,
                "answer": answer,
                "samples": others[:samples],
                "beams": others[samples:],
            }
        )
        doubts.append(_doubts(tokenizer, records, stop))
    return rows, doubts


def _candidates(
    model: Any, prompts: Sequence[Prompt], batch: int, *, policies: Sequence[Policy], **options: Any
) -> dict[str, list[Candidate]]:
    """The candidates of each prompt by its id, decoded ``batch`` at a time."""
    from beamuq import decoding

    found: dict[str, list[Candidate]] = {prompt.id: [] for prompt in prompts}
    for members in decoding.compose_batches(prompts, batch):
        for candidate in decoding.decode(model, members, policies, **options):
            found[candidate.prompt_id].append(candidate)
    return found


def check_stop(stop: Any) -> None:
    """Raise BeamUQError unless this is one of :data:`STOPS`."""
    if stop not in STOPS:
        raise BeamUQError(f"stop: {stop!r:.40}: choose from {', '.join(STOPS)}")


def _doubts(tokenizer: Any, records: Sequence[Mapping[str, Any]], stop: str) -> list[str]:
    """Why the texts of a prompt, the greedy answer's first, may be no answers."""
    told = []
    marks = [prompt_tokens.mark_of_thought(tokenizer, record["token_ids"]) for record in records]
    thoughts = [mark for mark in marks if mark]
    if thoughts:
        of = "the answer begins" if marks[0] else f"{len(thoughts)} of {len(records)} answers begin"
        told.append(
            f"{of} with a thought ({thoughts[0]}), which is no answer: switch thinking off, or "
            "write a thought and "
            "its end into the prompt"
        )
    if stop == "newline" and not records[0]["text"]:
        # Endings are merged, so that which of them it was is not known.
        told.append(
            "the answer is empty, and empty answers look certain: the model ends it at once, or "
            "begins it with a "
            "newline, which ends it; take whole answers with stop eos, or end the prompt with that "
            "newline"
        )
    return told


def _record(text: str, candidate: Candidate) -> dict[str, Any]:
    return {
        "text": text,
        "token_ids": list(candidate.token_ids),
        "token_logprobs": candidate.token_logprobs.tolist(),
        "logprob": candidate.logprob,
        "ended": candidate.terminated,
    }
