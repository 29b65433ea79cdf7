"""Candidates from the output of transformers' ``generate``.

Nothing in it is believed that was only told: log-probabilities are recomputed from the logits, or
checked, and what the caller says of the call has to agree with what the output holds.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from beamuq.api.generate_endings import (
    Answers,
    beam_answers,
    check_all_beams_found,
    read_ends,
    read_stop_ids,
    sample_answers,
    spelled,
)
from beamuq.api.generate_logprobs import beam_logprobs, check_drawable, sample_logprobs
from beamuq.api.open_models import check_models_extra
from beamuq.api.rows import check_settings
from beamuq.array_types import Floats, Ints
from beamuq.errors import BeamUQError

FIX = "return_dict_in_generate=True with output_logits=True, for samples output_scores=True too"


class _Stated(NamedTuple):
    """What the caller says of the call."""

    stop_ids: frozenset[int]
    stop_strings: str | Sequence[str] | None
    length_penalty: float
    temperature: float
    one_each: bool


class _Generated(NamedTuple):
    """An output, and in it: prompts with answers [rows, length], how many steps were generated.

    ``beam_indices``: of ``generate``'s beams [rows, steps], −1 behind an ending; else None.
    """

    output: Any
    sequences: Any
    beam_indices: Ints | None
    steps: int

    def tokens(self) -> Ints:
        """What was generated, [rows, steps]."""
        start = self.sequences.shape[1] - self.steps
        tokens: Ints = self.sequences[:, start:].cpu().numpy().astype(np.int64)
        return tokens


class _Read(NamedTuple):
    """The generated tokens, their natural log-probabilities [rows, steps], and the answers."""

    tokens: Ints
    logprobs: Floats
    answers: Answers
    are_beams: bool


def from_generate(
    output: Any,
    tokenizer: Any,
    *,
    prompt_tokens: int,
    per_prompt: int = 1,
    length_penalty: float = 1.0,
    temperature: float = 1.0,
    stop_ids: int | Sequence[int],
    stop_strings: str | Sequence[str] | None = None,
) -> list[list[dict[str, Any]]]:
    """The candidates of ``generate``'s output, one list per prompt, as ``beamuq.score`` takes them.

    Beams: ``generate(…, num_beams=M, num_return_sequences=M, do_sample=False,
    return_dict_in_generate=True, output_logits=True)``; what ``beamuq.beams`` gave back is read
    too. Samples: ``generate(…, do_sample=True, num_return_sequences=M, temperature=1.0, top_k=0,
    top_p=1.0, return_dict_in_generate=True, output_logits=True, output_scores=True)``.

    Log-probabilities are the model's own, recomputed from the logits in float64. Beams without
    logits are believed only if each row of their scores is a log-softmax without −inf, and gives
    ``sequences_scores`` under ``length_penalty``; what escapes is a processor behind which
    ``renormalize_logits=True`` made a distribution again. Scores of samples have to be the logits,
    or these over ``temperature``. Without scores that is believed, with a warning.

    Parameters
    ----------
    output, tokenizer
        What ``generate`` has returned, and the model's tokenizer.
    prompt_tokens
        Length of the padded prompts: ``inputs["input_ids"].shape[1]``.
    per_prompt
        ``num_return_sequences`` of the call.
    length_penalty
        Of the call, for beams without logits; transformers' default is 1.
    temperature
        At which samples were drawn. Where it is not 1, give it to ``score`` too.
    stop_ids
        Every token that ended an answer: the call's ``eos_token_id``, or
        ``model.generation_config``'s; [] if the call had none. No other is assumed.
    stop_strings
        Of the call; [] if it had none. An answer that one ended is that text, and its probability
        that of its tokens: that an answer begins so. If not given, there are none; of samples whose
        padding token is one of ``stop_ids`` that cannot be checked, and is said in a warning.

    Returns
    -------
    For each prompt its candidates, in ``generate``'s order: text (special tokens and outer space
    taken off, whole lines and all else left), token_ids, token_logprobs and logprob (natural, the
    ending included) and ended; of samples also temperature.

    Raises BeamUQError in one line if the output lacks what log-probabilities come from, or they are
    no probabilities; if samples were drawn, or beams without logits scored, under another
    distribution; if the rows of a prompt are of several prompts; if padding stands behind something
    else than ``stop_ids`` and ``stop_strings``, or an answer goes on behind these.

    Examples
    --------
    >>> told = {"return_dict_in_generate": True, "output_logits": True, "max_new_tokens": 8}
    >>> told |= {"num_beams": 4, "num_return_sequences": 4, "do_sample": False}
    >>> output = model.generate(**inputs, **told)
    >>> size = inputs["input_ids"].shape[1]
    >>> stated = {"per_prompt": 4, "stop_ids": model.generation_config.eos_token_id}
    >>> found = beamuq.from_generate(output, tokenizer, prompt_tokens=size, **stated)
    >>> rows = [{"answer": beams[0], "beams": beams} for beams in found]
    >>> bool((beamuq.score(rows, similarity="lexical")["Prob"] >= 0).all())
    True
    """
    check_models_extra()
    check_settings(temperature=temperature)
    per_prompt = _whole("per_prompt", per_prompt, 1, "give the call's num_return_sequences")
    stated = _Stated(
        stop_ids=read_stop_ids(stop_ids),
        stop_strings=stop_strings,
        length_penalty=_number(length_penalty),
        temperature=float(temperature),
        one_each=per_prompt == 1,
    )
    generated = _generated(output)
    prompts = _prompts(generated, prompt_tokens)
    _check_groups(prompts, per_prompt, generated.beam_indices)
    read = _read(generated, tokenizer, stated)
    candidates = _candidates(tokenizer, stated, read)
    lists = [
        candidates[start : start + per_prompt] for start in range(0, len(candidates), per_prompt)
    ]
    if read.are_beams:
        _check_distinct(lists)
    return lists


def _read(generated: _Generated, tokenizer: Any, stated: _Stated) -> _Read:
    """What stands behind the prompts: our hook's beams, ``generate``'s beams, or samples."""
    output = generated.output
    beam_indices = generated.beam_indices
    steps = generated.steps
    tokens = generated.tokens()
    spell = partial(spelled, tokenizer)
    ends = read_ends(stated.stop_ids, stated.stop_strings, tokenizer, generated.sequences, steps)
    are_beams = True
    if _is_exact(output):
        logprobs: Floats = output.token_logprobs.cpu().numpy()
        lengths = output.answer_tokens.tolist()
        answers = beam_answers(tokens, lengths, steps, ends, spell)
    elif beam_indices is not None:
        _no_temperature(stated.temperature)
        check_all_beams_found(output, beam_indices)
        logprobs = beam_logprobs(output, tokens, beam_indices, stated.length_penalty)
        lengths = (beam_indices >= 0).sum(axis=1).tolist()
        searched = len(getattr(output, "logits", None) or output.scores)
        answers = beam_answers(tokens, lengths, searched, ends, spell)
    else:
        are_beams = False
        sampled = sample_logprobs(output, tokens, stated.temperature, stated.stop_ids)
        logprobs = sampled.own
        answers = sample_answers(tokens, sampled, ends, tokenizer, one_each=stated.one_each)
    check_drawable(logprobs, tokens, answers.lengths)
    return _Read(tokens, logprobs, answers, are_beams)


def _candidates(tokenizer: Any, stated: _Stated, read: _Read) -> list[dict[str, Any]]:
    return [_record(tokenizer, stated, read, row) for row in range(len(read.tokens))]


def _record(tokenizer: Any, stated: _Stated, read: _Read, row: int) -> dict[str, Any]:
    """One row's candidate; a sample with the temperature at which it was drawn."""
    length = read.answers.lengths[row]
    tokens = read.tokens[row, :length].tolist()
    logprobs = read.logprobs[row, :length].tolist()
    record = {
        "text": _text(tokenizer, tokens, stated.stop_ids),
        "token_ids": tokens,
        "token_logprobs": logprobs,
        "logprob": min(math.fsum(logprobs), 0.0),
        "ended": read.answers.ended[row],
    }
    return record if read.are_beams else {**record, "temperature": stated.temperature}


def _text(tokenizer: Any, tokens: Sequence[int], stop_ids: frozenset[int]) -> str:
    """What was written, without special tokens and outer space.

    Some tokenizers hold the end of a turn as an ordinary token: it is taken off as the ending of an
    answer.
    """
    from beamuq.decoding.stop_tokens_and_text import CHAT_TURN_ENDS

    turn_ends = (*CHAT_TURN_ENDS, tokenizer.eos_token)
    last = tokens[-1]
    if last in stop_ids and tokenizer.convert_ids_to_tokens(last) in turn_ends:
        tokens = tokens[:-1]
    text: str = tokenizer.decode(
        tokens,
        skip_special_tokens=True,
        clean_up_tokenization_spaces=False,
    )
    return text.strip()


def _is_exact(output: Any) -> bool:
    """Whether it is what our own hook has returned."""
    from beamuq.api.exact_beams import ExactBeams

    return isinstance(output, ExactBeams)


def _generated(output: Any) -> _Generated:
    """An output that holds what log-probabilities come from; raises BeamUQError for any other."""
    sequences = _sequences(output)
    beam_indices = _beam_indices(output)
    return _Generated(output, sequences, beam_indices, _steps(output, beam_indices))


def _sequences(output: Any) -> Any:
    sequences = getattr(output, "sequences", None)
    if sequences is None or getattr(sequences, "ndim", 0) != 2 or not sequences.shape[0]:
        raise BeamUQError(
            f"output: {type(output).__name__}: says no log-probabilities; call generate with {FIX}",
        )
    return sequences


def _beam_indices(output: Any) -> Ints | None:
    """Of beams [rows, steps], −1 behind an ending; None of all else and of our own hook."""
    if _is_exact(output):
        return None
    table = getattr(output, "beam_indices", None)
    if table is not None and len(table):
        rows = len(output.sequences)
        if table.ndim != 2 or len(table) != rows:
            raise BeamUQError(
                f"output: {rows} sequences, beam_indices of {len(table)}; give one call's output",
            )
        indices: Ints = table.cpu().numpy().astype(np.int64)
        return indices
    if getattr(output, "sequences_scores", None) is not None or "Beam" in type(output).__name__:
        raise BeamUQError(
            "output: beams without beam_indices, by which their log p is recomputed; call "
            "generate with do_sample=False, return_dict_in_generate=True, output_logits=True, "
            "output_scores=True"
        )
    return None


def _steps(output: Any, beam_indices: Ints | None) -> int:
    """How many tokens were generated behind each prompt, padding included."""
    if _is_exact(output):
        return int(output.token_logprobs.shape[1])
    tables = getattr(output, "logits", None) or getattr(output, "scores", None)
    if not tables or (beam_indices is None and not getattr(output, "logits", None)):
        raise BeamUQError(
            f"output: {type(output).__name__}: says no log-probabilities; call generate with {FIX}",
        )
    return len(tables) if beam_indices is None else int(beam_indices.shape[1])


def _prompts(generated: _Generated, prompt_tokens: int) -> Ints:
    """The padded prompts [rows, tokens]; behind them stands a token for each step.

    Raises BeamUQError if that is not so.
    """
    fix = 'give inputs["input_ids"].shape[1]'
    start = _whole("prompt_tokens", prompt_tokens, 0, fix)
    steps = generated.steps
    length = int(generated.sequences.shape[1])
    if length - start != steps:
        raise BeamUQError(
            f"prompt_tokens: {start}: the sequences have {length} tokens, of which {steps} were "
            f"generated; {fix}, which is {length - steps}"
        )
    prompts: Ints = generated.sequences[:, :start].cpu().numpy()
    return prompts


def _check_groups(prompts: Ints, per_prompt: int, beam_indices: Ints | None) -> None:
    """Refuse what mixes the rows of two prompts; warn of what may part the rows of one."""
    fix = "give the call's num_return_sequences"
    rows = len(prompts)
    if rows % per_prompt:
        raise BeamUQError(f"per_prompt: {per_prompt}: does not divide the {rows} sequences; {fix}")
    # at the first step all beams of a prompt go on from the same row
    searched = prompts[:, :0] if beam_indices is None else beam_indices[:, :1]
    keys = np.concatenate([prompts, searched], axis=1)
    groups = keys.reshape(rows // per_prompt, per_prompt, -1)
    mixed = (groups != groups[:, :1]).any(axis=(1, 2))
    if mixed.any():
        number = int(np.flatnonzero(mixed)[0])
        raise BeamUQError(
            f"per_prompt: {per_prompt}: sequences {number * per_prompt + 1} to "
            f"{(number + 1) * per_prompt} are of several prompts; {fix}"
        )
    same = (groups[1:, 0] == groups[:-1, 0]).all(axis=1)
    # behind an encoder all sequences begin with one token, whatever was asked
    if same.any() and (prompts.shape[1] > 1 or beam_indices is not None):
        number = int(np.flatnonzero(same)[0])
        problem = f"per_prompt: {per_prompt}: prompts {number + 1} and {number + 2} are the same"
        if beam_indices is not None:
            raise BeamUQError(f"{problem}; their beams are of one search; {fix}")
        warnings.warn(f"{problem}; if these are draws for one prompt, {fix}", stacklevel=3)


def _check_distinct(lists: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Refuse two equal beams of a prompt, which a search over too few answers gives."""
    for number, candidates in enumerate(lists, start=1):
        distinct = {tuple(candidate["token_ids"]) for candidate in candidates}
        if len(distinct) < len(candidates):
            raise BeamUQError(
                f"output: prompt {number}: {len(candidates)} beams, {len(distinct)} of them "
                "distinct; ask for fewer: num_return_sequences"
            )


def _no_temperature(temperature: float) -> None:
    if temperature != 1:
        raise BeamUQError(
            f"temperature: {temperature:g}: of samples alone, and these are beams; leave it out",
        )


def _whole(name: str, value: Any, least: int, fix: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise BeamUQError(f"{name}: {value!r:.80}: must be a whole number, at least {least}; {fix}")
    return int(value)


def _number(length_penalty: Any) -> float:
    is_number = isinstance(length_penalty, int | float | np.floating)
    if isinstance(length_penalty, bool) or not is_number or not math.isfinite(length_penalty):
        raise BeamUQError(
            f"length_penalty: {length_penalty!r:.80}: must be a number; give that of the call",
        )
    return float(length_penalty)
