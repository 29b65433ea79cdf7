"""Log-probabilities of the tokens that transformers' ``generate`` has chosen, from its own output.

Raw logits give them, whatever was done to the logits afterwards. ``scores`` are what processors and
warpers made of the logits: they say whether a draw was the model's own.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from beamuq.array_types import Bools, Floats, Ints
from beamuq.errors import BeamUQError

UNIT_SUM = 1e-4  # in the log of its sum a float32 log-softmax over 262,144 tokens is off by 2.5e-5
EQUAL = 2e-6  # of the largest logit: how far a float32 quotient or log-softmax is off
ACCUMULATED = 1e-4  # how far generate's float32 sum is off, for each nat and each token
NO_BEAM = -1e8  # generate starts beams that stand for nothing at -1e9
LOGITS = "call generate with output_logits=True"
BEAM_FIX = "call generate with do_sample=False, output_logits=True"


class TokenLogprobs(NamedTuple):
    """Of the tokens that stand in the rows, padding included: [rows, steps].

    ``own``: natural log-probabilities under the model's own distribution. ``drawn``: under that
    which the tokens were drawn from. ``ending`` [rows, steps, stops]: the probability under the
    latter of each token of ``stops``. ``best``: whether no token is more probable.
    """

    own: Floats
    drawn: Floats
    ending: Floats
    stops: Ints
    best: Bools


def beam_logprobs(output: Any, tokens: Ints, beam_indices: Ints, length_penalty: float) -> Floats:
    """Of beams, [rows, steps], natural; 0 where ``beam_indices`` has -1, behind an answer's ending.

    From the logits where the output has them; otherwise from its scores, if nothing speaks against
    these.

    Raises BeamUQError if neither can be believed, with the reason and the call that gives logits.
    """
    steps = beam_indices.shape[1]
    scores = getattr(output, "scores", None)
    if getattr(output, "logits", None):
        _check_steps("logits", output.logits, beam_indices)
        _warn_of_another_search(output.logits, scores)
        return _along_beams("logits", output.logits[:steps], tokens, beam_indices)
    if not scores or getattr(output, "sequences_scores", None) is None:
        raise BeamUQError(
            f"output: beams without logits, and without scores and sequences_scores; {LOGITS}",
        )
    _check_steps("scores", scores, beam_indices)
    for step, table in enumerate(scores):
        _check_plain_scores(step, _float64(table))
    logprobs = _along_beams("scores", scores[:steps], tokens, beam_indices)
    _check_sequences_scores(output.sequences_scores, logprobs, beam_indices, length_penalty)
    return logprobs


def sample_logprobs(
    output: Any,
    tokens: Ints,
    temperature: float,
    stop_ids: Iterable[int],
) -> TokenLogprobs:
    """Of samples, or of a greedy answer, from the logits.

    Raises BeamUQError if there are none, or they are no probabilities; if the output's scores are
    not the logits, or the logits over ``temperature``. Warns if there are no scores.
    """
    logits = getattr(output, "logits", None)
    if not logits:
        raise BeamUQError(f"output: {type(output).__name__}: says no log-probabilities; {LOGITS}")
    rows = tokens.shape[0]
    if logits[0].shape[0] != rows:
        raise BeamUQError(
            f"output: {rows} sequences, logits of {logits[0].shape[0]}: beams without "
            "beam_indices, or of two calls; give what one generate has returned"
        )
    scores = getattr(output, "scores", None)
    if not scores:
        warnings.warn(
            f"output: no scores: that samples were drawn at temperature {temperature:g} without "
            "top-k, top-p or penalties is believed, not checked; call generate with "
            "output_scores=True",
            stacklevel=4,
        )
    elif len(scores) != len(logits):
        raise BeamUQError(
            f"output: {len(logits)} steps of logits, {len(scores)} of scores; give what one call "
            "of generate has returned, as it is"
        )
    stops = [token for token in sorted(stop_ids) if token < logits[0].shape[-1]]
    logprobs = TokenLogprobs(
        own=np.zeros(tokens.shape),
        drawn=np.zeros(tokens.shape),
        ending=np.zeros((*tokens.shape, len(stops))),
        stops=np.array(stops, dtype=np.int64),
        best=np.zeros(tokens.shape, dtype=bool),
    )
    for step, table in enumerate(logits):
        raw = _checked("logits", step, table)
        if scores:
            _check_own_draws(step, raw, _checked("scores", step, scores[step]), temperature)
        _fill_step(logprobs, step, tokens[:, step], raw, raw / temperature)
    return logprobs


def _fill_step(
    logprobs: TokenLogprobs, step: int, tokens: Ints, logits: Any, tempered: Any
) -> None:
    """Write what one step's logits, and these over the temperature, say of the tokens [rows]."""
    drawn = _chosen(tempered, tokens)
    best = tempered.log_softmax(dim=-1).max(dim=-1)[0].cpu().numpy()
    ending = tempered.softmax(dim=-1)[:, logprobs.stops.tolist()]
    logprobs.own[:, step] = _chosen(logits, tokens)
    logprobs.drawn[:, step] = drawn
    logprobs.ending[:, step] = ending.cpu().numpy()
    logprobs.best[:, step] = drawn >= best


def check_drawable(logprobs: Floats, tokens: Ints, lengths: Sequence[int]) -> None:
    """Refuse an answer of probability 0: it cannot be this model's."""
    for row, length in enumerate(lengths):
        impossible = np.flatnonzero(np.isneginf(logprobs[row, :length]))
        if impossible.size:
            step = int(impossible[0])
            raise BeamUQError(
                f"output: sequence {row + 1}, token {step + 1} ({tokens[row, step]}): has "
                "probability 0 under its logits; give sequences and logits of one call, without "
                "processors that force tokens"
            )


def _along_beams(name: str, tables: Sequence[Any], tokens: Ints, beam_indices: Ints) -> Floats:
    """What the row that ``beam_indices`` names says of each token, at each step."""
    logprobs = np.zeros(beam_indices.shape)
    for step, table in enumerate(tables):
        live = np.flatnonzero(beam_indices[:, step] >= 0)
        table = _checked(name, step, table)
        rows = table[beam_indices[live, step].tolist()]
        logprobs[live, step] = _chosen(rows, tokens[live, step])
    return logprobs


def _chosen(logits: Any, tokens: Ints) -> Floats:
    """Log-probabilities [rows] of a token for each row of float64 logits; −inf if it is none."""
    import torch

    vocabulary = logits.shape[-1]
    places = torch.as_tensor(tokens.clip(0, vocabulary - 1), device=logits.device)[:, None]
    logprobs: Floats = logits.log_softmax(dim=-1).gather(1, places)[:, 0].cpu().numpy()
    are_tokens = (tokens >= 0) & (tokens < vocabulary)
    return np.where(are_tokens, np.minimum(logprobs, 0.0), -np.inf)


def _float64(table: Any) -> Any:
    """In float64, which Apple's devices have none of."""
    return (table.cpu() if table.device.type == "mps" else table).double()


def _checked(name: str, step: int, table: Any) -> Any:
    """A step's logits or scores in float64. −inf is a probability of 0; NaN and +inf are faults."""
    table = _float64(table)
    fault = ""
    if bool(table.isnan().any()):
        fault = "NaN"
    elif bool(table.isposinf().any()):
        fault = "+inf"
    if fault:
        raise BeamUQError(
            f"output: {name}[{step}]: holds {fault}, which is no model's judgement; load the model "
            "in another dtype, or give prompts within its length"
        )
    return table


def _check_steps(name: str, tables: Sequence[Any], beam_indices: Ints) -> None:
    steps = beam_indices.shape[1]
    rows = tables[0].shape[0]
    if len(tables) < steps or rows <= beam_indices.max(initial=0):
        raise BeamUQError(
            f"output: {name}: {len(tables)} steps of {rows} rows, beam_indices of {steps} steps "
            f"and up to row {beam_indices.max(initial=0)}; give what one generate has returned"
        )


def _check_plain_scores(step: int, scores: Any) -> None:
    """Refuse scores that are no log-softmax: something was done to them."""
    sums = scores.logsumexp(dim=-1)
    if bool(scores.isnan().any()) or bool(scores.isinf().any()):
        why = "holds -inf, NaN or +inf: tokens were forced or taken away, or the logits are broken"
    elif bool((sums.abs() > UNIT_SUM).any()):
        worst = float(sums[sums.abs().argmax()].exp())
        why = f"probabilities that sum to {worst:.6g}, not 1: of a temperature or a penalty"
    else:
        return
    raise BeamUQError(
        f"output: scores[{step}]: {why}; sequences_scores are then not the model's own log p and "
        f"are not believed; {BEAM_FIX}"
    )


def _check_sequences_scores(
    sequences_scores: Any,
    logprobs: Floats,
    beam_indices: Ints,
    length_penalty: float,
) -> None:
    """Refuse beams' scores that are not their tokens' sum over length ** ``length_penalty``."""
    lengths = (beam_indices >= 0).sum(axis=1).astype(np.float64)
    totals = logprobs.sum(axis=1)
    divisors = lengths**length_penalty
    scores = _float64(sequences_scores).cpu().numpy()
    tolerance = ACCUMULATED * (lengths + np.abs(totals))
    differs = ~(np.abs(scores * divisors - totals) <= tolerance)
    if differs.any():
        row = int(np.flatnonzero(differs)[0])
        raise BeamUQError(
            f"length_penalty: {length_penalty:g}: sequences_scores[{row}] is {scores[row]:.6g}, "
            f"its tokens' scores give {totals[row] / divisors[row]:.6g}; give the length_penalty "
            f"of the call, or {LOGITS}"
        )


def _warn_of_another_search(logits: Sequence[Any], scores: Sequence[Any] | None) -> None:
    """Beams' log p is recomputed; which beams were found depends on what they were searched by."""
    for step, table in enumerate(scores or ()):
        raw = _checked("logits", step, logits[step]).log_softmax(dim=-1)
        if not _equal(raw, _checked("scores", step, table)):
            warnings.warn(
                f"output: scores[{step}]: not the log-softmax of the logits: beams were searched "
                "under a temperature, a penalty or forced tokens; their log p is the model's own, "
                "but others may be more probable; call generate with do_sample=False and without "
                "that setting",
                stacklevel=5,
            )
            return


def _check_own_draws(step: int, logits: Any, scores: Any, temperature: float) -> None:
    """Refuse scores that are neither the logits nor the logits over the stated temperature."""
    if _equal((logits / temperature).log_softmax(dim=-1), scores.log_softmax(dim=-1)):
        return
    other = _temperature(logits, scores)
    if other is not None:
        raise BeamUQError(
            f"temperature: {temperature:g}: the scores are the logits over {other:.4g}; give "
            f"temperature={other:.4g}, and the same to score"
        )
    raise BeamUQError(
        f"output: scores[{step}]: not the logits, nor the logits over temperature {temperature:g}: "
        "top-k, top-p, a penalty or another processor; such samples are not the model's own; call "
        "generate with do_sample=True, temperature=1.0, top_k=0, top_p=1.0, repetition_penalty=1.0"
    )


def _temperature(logits: Any, scores: Any) -> float | None:
    """What all scores are the logits over; None: nothing."""
    if not bool(logits.isfinite().all()):
        return None
    spread = scores.std(dim=-1).max()
    if not bool(spread.isfinite()) or not bool(spread > 0):
        return None
    # a call's temperature has few digits; float32 scores give it to about seven
    temperature = float(f"{float(logits.std(dim=-1).max() / spread):.5g}")
    if temperature <= 0:
        return None
    tempered = (logits / temperature).log_softmax(dim=-1)
    return temperature if _equal(tempered, scores.log_softmax(dim=-1)) else None


def _equal(expected: Any, actual: Any) -> bool:
    """Whether two tables of log-probabilities are the same but for rounding, −inf included."""
    finite = expected.isfinite()
    if not bool((finite == actual.isfinite()).all()):
        return False
    if not bool(finite.any()):
        return True
    largest = float(expected[finite].abs().max())
    difference = (expected[finite] - actual[finite]).abs()
    return bool(difference.max() <= EQUAL * (1.0 + largest))
