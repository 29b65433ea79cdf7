"""A loaded model and prompts to answers, samples and beams with exact log-probabilities, in batches."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beamuq.api.open_models import check_models_extra, model_folder
from beamuq.errors import BeamUQError
from beamuq.text_normalization import clean

if TYPE_CHECKING:
    from beamuq.decoding import Candidate, Work

BATCH = 16  # prompts decoded together: those with a common beginning share it
HASHED_VALUES = 64  # of each parameter of a model in memory
GIVE = "give a folder, hub:ORG/NAME, packaged:NAME, or (model, tokenizer) of transformers"


@dataclass(frozen=True)
class LoadedModel:
    """A language model in memory, its tokenizer, its name, and a hash that tells it from others."""

    model: Any
    tokenizer: Any
    name: str
    content: str


def open_model(model: Any, *, device: str = "auto", dtype: str = "auto", threads: int = 1) -> LoadedModel:
    """A model by name or folder, read once and kept for the next call; or ``(model, tokenizer)``, as it is.

    Raises BeamUQError if it is neither.
    """
    check_models_extra()
    if isinstance(model, LoadedModel):
        return model
    if isinstance(model, str | Path):
        from beamuq.models import devices

        on, precision = devices.prepare(device, dtype, threads)
        return _read_model(str(model), model_folder(str(model)), precision, on)
    if not isinstance(model, tuple) or len(model) != 2:
        raise BeamUQError(f"model: {type(model).__name__}: {GIVE}")
    _check_pair(*model)
    name = str(getattr(model[0], "name_or_path", "")) or type(model[0]).__name__
    return LoadedModel(*model, name, _content(model[0]))


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

    Raises
    ------
    BeamUQError
        In one line: an empty or too long prompt, a number below its least, a model that the engine cannot decode.

    Examples
    --------
    >>> rows = beamuq.decode(model, tokenizer, ["Q: Who wrote Hamlet?\\nA:"], beams=5)  # doctest: +SKIP
    >>> beamuq.score(rows, methods=["CocoaPPL"])  # doctest: +SKIP
    """
    from beamuq import decoding

    check_models_extra()
    _check_pair(model, tokenizer)
    if isinstance(prompts, str):
        raise BeamUQError("prompts: one text; give a list of prompts")
    least = {"samples": (samples, 0), "beams": (beams, 0), "max_new_tokens": (max_new_tokens, 1), "batch": (batch, 1)}
    for name, (value, smallest) in least.items():
        if value < smallest:
            raise BeamUQError(f"{name}: {value}: must be at least {smallest}")
    policies: list[decoding.Policy] = [decoding.Greedy()]
    policies += [decoding.Sample(samples, 1.0)] if samples else []
    policies += [decoding.Beam(beams)] if beams else []
    numbered = [
        decoding.Prompt(f"{n}", _token_ids(tokenizer, prompt, chat)) for n, prompt in enumerate(prompts, start=1)
    ]
    stops = decoding.stop_tokens(tokenizer, model)
    candidates: dict[str, list[Candidate]] = {prompt.id: [] for prompt in numbered}
    for members in decoding.compose_batches(numbered, batch):
        for candidate in decoding.decode(
            model,
            members,
            policies,
            stop_ids=stops,
            seed=seed,
            max_new_tokens=max_new_tokens,
            merge_stop_tokens=decoding.bare_stops(tokenizer, stops),
            work=work,
        ):
            candidates[candidate.prompt_id].append(candidate)
    rows: list[dict[str, Any]] = []
    for prompt, (key, (greedy, *others)) in zip(prompts, candidates.items(), strict=True):
        answer, *records = (
            _record(decoding.candidate_text(tokenizer, c.token_ids, stops), c) for c in (greedy, *others)
        )
        answer["token_entropies"] = np.asarray(greedy.entropies).tolist()
        question = {"question": prompt} if isinstance(prompt, str) else {}
        rows.append({"id": key, **question, "answer": answer, "samples": records[:samples], "beams": records[samples:]})
    return rows


def _check_pair(model: Any, tokenizer: Any) -> None:
    if not hasattr(model, "get_input_embeddings") or not callable(tokenizer):
        raise BeamUQError(f"model: {type(model).__name__}, tokenizer: {type(tokenizer).__name__}: {GIVE}")


def _token_ids(tokenizer: Any, prompt: str | Sequence[int], chat: bool) -> tuple[int, ...]:
    from beamuq.models import prompt_tokens

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


@lru_cache(maxsize=1)
def _read_model(name: str, folder: Path, dtype: Any, device: Any) -> LoadedModel:
    from transformers.utils import logging

    from beamuq.models.load_model import load_causal
    from beamuq.models.model_folder import model_identity

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    model, tokenizer = load_causal(folder, dtype=dtype, device=device)
    return LoadedModel(model, tokenizer, name, model_identity(folder)["content"])


def _content(model: Any) -> str:
    """A hash of a model in memory: of each parameter its name, shape, kind and values at equal distances."""
    digest = hashlib.sha256()
    for name, values in model.state_dict().items():
        if hasattr(values, "flatten"):
            flat = values.detach().flatten()
            some = flat[:: max(1, len(flat) // HASHED_VALUES)][:HASHED_VALUES].cpu()
            digest.update(f"{name} {tuple(values.shape)} {values.dtype} {some.tolist()}".encode())
    return digest.hexdigest()
