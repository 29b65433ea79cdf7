"""What a model in memory gives: prompts decoded here, as rows that are scored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from beamuq.api.open_models import check_models_extra, check_pair
from beamuq.api.rows import check_settings
from beamuq.errors import BeamUQError
from beamuq.models import prompt_tokens
from beamuq.text_normalization import clean

if TYPE_CHECKING:
    from beamuq.decoding import Candidate, Work

BATCH = 32  # prompts decoded together: those with a common beginning share it


def decode(
    model: Any,
    tokenizer: Any,
    prompts: Sequence[str | Sequence[int]],
    *,
    samples: int = 0,
    beams: int = 10,
    max_new_tokens: int = 20,
    chat: bool = False,
    seed: int = 0,
    batch: int = BATCH,
    work: Work | None = None,
) -> list[dict[str, Any]]:
    """The greedy answer, samples and beams of every prompt, as rows that ``beamuq.score`` takes.

    Log-probabilities are natural, of whole answers with their ending, under the model's own distribution (temperature
    1), exact to the model's precision. All bare stop tokens count as one ending.

    Parameters
    ----------
    model, tokenizer
        Of transformers, on any device, quantised or with an adapter; checked once to give what its own forward pass
        gives.
    prompts
        Texts, or lists of token ids.
    samples, beams
        How many samples are drawn at temperature 1; M of the beam search. 0: none.
    max_new_tokens
        An answer that has not ended after so many tokens is cut, and said to be (``ended``).
    chat
        Prompts that are texts become a user's message in the model's chat template.
    seed
        Of the samples: the same seed, prompt and place in the list give the same samples.
    batch
        Prompts decoded together; what they have in common at their beginning is run once.
    work
        What decoding took is added to it.

    Returns
    -------
    One row per prompt: id (its number, from 1), question (where it is a text), answer, samples and beams, each with
    text, token_ids, token_logprobs, logprob and ended; the answer also with token_entropies, in nats.

    Raises BeamUQError in one line: an empty or too long prompt, a number below its least, a model that the engine
    cannot decode.

    Examples
    --------
    >>> rows = beamuq.decode(model, tokenizer, ["Q: Who wrote Hamlet?\\nA:"], samples=3, beams=5)
    >>> [len(rows[0][name]) for name in ("samples", "beams")]
    [3, 5]
    """
    from beamuq import decoding

    check_models_extra()
    check_pair(model, tokenizer)
    if isinstance(prompts, str):
        raise BeamUQError("prompts: one text; give a list of prompts")
    check_settings(samples=samples, beams=beams, max_new_tokens=max_new_tokens, batch=batch)
    policies: list[decoding.Policy] = [decoding.Greedy()]
    policies += [decoding.Sample(samples, 1.0)] if samples else []
    policies += [decoding.Beam(beams)] if beams else []
    numbered = [
        decoding.Prompt(f"{n}", _token_ids(tokenizer, prompt, chat)) for n, prompt in enumerate(prompts, start=1)
    ]
    stops = decoding.stop_tokens(tokenizer, model)
    endings = decoding.bare_stops(tokenizer, stops)
    candidates: dict[str, list[Candidate]] = {prompt.id: [] for prompt in numbered}
    for members in decoding.compose_batches(numbered, batch):
        for candidate in decoding.decode(
            model,
            members,
            policies,
            stop_ids=stops,
            seed=seed,
            max_new_tokens=max_new_tokens,
            merge_stop_tokens=endings,
            work=work,
        ):
            candidates[candidate.prompt_id].append(candidate)
    rows: list[dict[str, Any]] = []
    for prompt, (key, found) in zip(prompts, candidates.items(), strict=True):
        answer, *records = (_record(decoding.candidate_text(tokenizer, each.token_ids, stops), each) for each in found)
        answer["token_entropies"] = np.asarray(found[0].entropies).tolist()
        question = {"question": prompt} if isinstance(prompt, str) else {}
        rows.append({"id": key, **question, "answer": answer, "samples": records[:samples], "beams": records[samples:]})
    return rows


def _token_ids(tokenizer: Any, prompt: str | Sequence[int], chat: bool) -> tuple[int, ...]:
    if not isinstance(prompt, str):
        return tuple(int(token) for token in prompt)
    if not chat:
        return tuple(prompt_tokens.plain_prompt_ids(tokenizer, prompt))
    # a thought before the answer would take the answer's place
    thinking = False if prompt_tokens.can_think(tokenizer) else None
    return tuple(prompt_tokens.chat_prompt_ids(tokenizer, prompt, thinking))


def _record(text: str, candidate: Candidate) -> dict[str, Any]:
    return {
        "text": clean(text),
        "token_ids": list(candidate.token_ids),
        "token_logprobs": candidate.token_logprobs.tolist(),
        "logprob": candidate.logprob,
        "ended": candidate.terminated,
    }
