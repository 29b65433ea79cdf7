"""What a model in memory gives: prompts decoded here, exact beams inside transformers' ``generate``, and its output."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from beamuq.api.open_models import check_models_extra, check_pair
from beamuq.api.rows import check_settings
from beamuq.errors import BeamUQError
from beamuq.models import prompt_tokens
from beamuq.text_normalization import clean

if TYPE_CHECKING:
    from beamuq.decoding import Candidate, Work

BATCH = 32  # prompts decoded together: those with a common beginning share it
SAMPLING = ("Temperature", "TopK", "TopP", "MinP", "TypicalLogits", "EpsilonLogits", "EtaLogits")  # of draws alone


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


def beams(
    model: Any,
    input_ids: Any,
    logits_processor: Sequence[Any] = (),
    stopping_criteria: Sequence[Any] = (),
    generation_config: Any = None,
    width: int = 10,
    **model_inputs: Any,
) -> Any:
    """Beam search with the exact log-probability of every beam: ``model.generate(…, custom_generate=beamuq.beams)``.

    Ranked by log p, without a length penalty, and stopped only when no running beam can enter the best ``width``. It is
    a search under the model's own distribution: settings of sampling (temperature, top-k, top-p) do not touch it.

    Parameters
    ----------
    width
        M of the beam search, for each prompt of the batch. Prompts are padded on the left, as the mask says.

    Returns
    -------
    ``GenerateBeamDecoderOnlyOutput``: ``sequences`` [prompts × width, length], prompt first, the most probable beam of
    each prompt first; ``sequences_scores`` [prompts × width], natural log p of the whole answer, its ending included.

    Raises BeamUQError if the generation config has what changes the distribution (a penalty, forced or banned tokens)
    or stops otherwise (time, strings), or num_beams; or a prompt has fewer than ``width`` answers.

    Examples
    --------
    >>> output = model.generate(**inputs, custom_generate=beamuq.beams, width=10, max_new_tokens=8)
    >>> bool(output.sequences_scores.exp().sum() <= 1)  # the probability of each beam
    True
    """
    import torch
    from transformers.generation.utils import GenerateBeamDecoderOnlyOutput

    from beamuq import decoding

    for name in (type(each).__name__ for each in (*logits_processor, *stopping_criteria)):
        if not name.startswith((*SAMPLING, "MaxLength", "EosToken")):
            raise BeamUQError(f"{name}: changes the model's distribution, or where it ends; leave that setting out")
    if {generation_config.num_beams, generation_config.num_return_sequences} - {1, None}:
        raise BeamUQError("num_beams, num_return_sequences: leave them out; width is the number of beams")
    mask = model_inputs.get("attention_mask")
    mask = torch.ones_like(input_ids) if mask is None else mask
    prompts = [
        decoding.Prompt(str(number), tuple(ids[kept.bool()].tolist()))
        for number, (ids, kept) in enumerate(zip(input_ids, mask, strict=True))
    ]
    ends = generation_config.eos_token_id
    stops = frozenset(torch.as_tensor([] if ends is None else ends).flatten().tolist())
    length = generation_config.max_length - input_ids.shape[1]
    rows = decoding.decode(model, prompts, [decoding.Beam(width)], stop_ids=stops, seed=0, max_new_tokens=length)
    if len(rows) < width * len(prompts):
        raise BeamUQError(f"width: {width}: a prompt has fewer answers of at most {length} tokens; ask for fewer")
    padding = generation_config.pad_token_id if generation_config.pad_token_id is not None else min(stops, default=0)
    longest = max(len(candidate.token_ids) for candidate in rows)
    answers = [[*candidate.token_ids, *[padding] * (longest - len(candidate.token_ids))] for candidate in rows]
    repeated = input_ids.repeat_interleave(width, dim=0)
    return GenerateBeamDecoderOnlyOutput(
        sequences=cast(Any, torch.cat([repeated, torch.tensor(answers, device=input_ids.device)], dim=1)),
        sequences_scores=torch.tensor([candidate.logprob for candidate in rows], dtype=torch.float64),
    )


def from_generate(
    output: Any,
    tokenizer: Any,
    *,
    prompt_tokens: int,
    per_prompt: int = 1,
    length_penalty: float = 1.0,
    stop_ids: int | Sequence[int],
) -> list[list[dict[str, Any]]]:
    """The candidates of ``generate``'s output, for :func:`beamuq.api.score_candidates.score`: one list per prompt.

    Beams: ``generate(…, num_beams=M, num_return_sequences=M, return_dict_in_generate=True, output_scores=True)``. Their
    scores are log p divided by length ** length_penalty, which is undone. Samples: ``generate(…, do_sample=True,
    num_return_sequences=M, return_dict_in_generate=True, output_logits=True)``; their log-probabilities are the
    model's own, whatever temperature they were drawn at.

    Parameters
    ----------
    output, tokenizer
        What ``generate`` has returned, and the model's tokenizer.
    prompt_tokens
        Length of the padded prompts: ``inputs["input_ids"].shape[1]``.
    per_prompt
        ``num_return_sequences`` of the call.
    length_penalty
        Of the call, for beams; transformers' default is 1.
    stop_ids
        Every token that ended an answer: the call's ``eos_token_id``, or ``model.generation_config``'s.

    Returns
    -------
    For each prompt its candidates: text, token_ids, logprob (natural, the ending included) and ended.

    Raises BeamUQError if the output lacks what log-probabilities come from, or beams' probabilities sum to more
    than 1: they were then scored with another length penalty.

    Examples
    --------
    >>> beams = {"num_beams": 4, "num_return_sequences": 4, "output_scores": True, "return_dict_in_generate": True}
    >>> output = model.generate(**inputs, **beams, max_new_tokens=8)
    >>> size = inputs["input_ids"].shape[1]
    >>> ends = model.generation_config.eos_token_id
    >>> found = beamuq.from_generate(output, tokenizer, prompt_tokens=size, per_prompt=4, stop_ids=ends)
    >>> scores = beamuq.score([{"answer": of[0], "beams": of} for of in found], similarity="lexical")["Prob"]
    >>> bool((scores >= 0).all())
    True
    """
    import torch

    scores: Any = getattr(output, "sequences_scores", None)
    logits: Any = getattr(output, "logits", None)
    beam_search = scores is not None
    if not beam_search and logits is None:
        fix = "return_dict_in_generate=True with output_scores=True for beams, output_logits=True for samples"
        raise BeamUQError(f"output: {type(output).__name__}: says no log-probabilities; call generate with {fix}")
    ends = {*np.ravel(stop_ids).tolist(), tokenizer.eos_token_id}
    found = []
    for number, sequence in enumerate(output.sequences[:, prompt_tokens:].tolist()):
        end = next((place for place, token in enumerate(sequence) if token in ends), None)
        tokens = sequence if end is None else sequence[: end + 1]
        if beam_search:
            logprob = float(scores[number]) * len(tokens) ** length_penalty
        else:
            steps = torch.stack([step[number] for step in logits[: len(tokens)]]).double().log_softmax(dim=-1)
            logprob = float(steps[range(len(tokens)), tokens].sum())
        text = clean(tokenizer.decode(tokens if end is None else tokens[:-1], skip_special_tokens=True))
        found.append({"text": text, "token_ids": tokens, "logprob": min(logprob, 0.0), "ended": end is not None})
    lists = [found[start : start + per_prompt] for start in range(0, len(found), per_prompt)]
    for candidates in lists if beam_search else ():
        total = sum(math.exp(candidate["logprob"]) for candidate in candidates)
        if total > 1.001:
            raise BeamUQError(
                f"length_penalty: {length_penalty}: the beams' probabilities sum to {total:.3g}; give that of the call"
            )
    return lists
