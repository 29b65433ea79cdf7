"""Random numbers from counters: a draw depends on its seed, question, strategy, sample and step.

Independent draws of a token are the argmax of log p + G, with a Gumbel number G for each token that
is a hash of the draw and the token (Gumbel-max trick). So a rounding error of the probabilities
changes a draw only where two tokens are as close as the error; an inverse distribution function
adds the errors of all tokens before.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from beamuq.array_types import Floats, Ints
from beamuq.decoding.device_copies import to_device

_STRIDE = 0x9E3779B97F4A7C15  # of SplitMix64 (Steele, Lea and Flood, 2014), as are the mixing steps
_MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
_HEAD = 7.0  # nats below the most probable token: the logarithms of these are always taken
_AT_ONCE = 1 << 22  # numbers of a race on a card


def draw_keys(seed: int, question: str, strategy: str, size: int, steps: int) -> Ints:
    """Keys of shape (size, steps), 64 bits each, for the steps of ``size`` samples of one question.

    The key of the Philox generator is a hash of (seed, question, strategy); the sample is the
    second word of its counter and the step its position in the stream. So row i and column t are
    the same numbers for every ``size`` and ``steps``, and for every batch, shard or order in which
    questions are decoded.
    """
    identity = json.dumps([int(seed), question, strategy], ensure_ascii=False).encode()
    digest = hashlib.blake2b(identity, digest_size=16).digest()
    key = np.frombuffer(digest, dtype="<u8").astype(np.uint64)
    rows = [
        np.random.Philox(counter=[0, sample, 0, 0], key=key).random_raw(steps)
        for sample in range(size)
    ]
    return np.array(rows, dtype=np.uint64).reshape(size, steps).view(np.int64)


def uniforms(keys: Ints) -> Floats:
    """The uniform numbers in [0, 1) of ``keys``: their first 53 bits."""
    return (keys.view(np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def gumbel_max(logprobs: torch.Tensor, rows: Ints, keys: Ints) -> torch.Tensor:
    """One token per draw: the argmax of a row of ``logprobs`` plus Gumbel numbers.

    The number of a token is a hash of the draw's key and the token.

    Parameters
    ----------
    logprobs
        Log-probabilities in nats, up to a constant per row, shape (distributions, vocabulary).
    rows, keys
        The distribution of each draw and its key (:func:`draw_keys`), shape (draws,).

    Returns
    -------
    Tokens of shape (draws,) on the device of ``logprobs``.
    """
    if logprobs.device.type == "cpu":
        return torch.from_numpy(_pruned_race(logprobs.float().numpy(), rows, keys))
    return full_race(logprobs, to_device(rows, logprobs.device), to_device(keys, logprobs.device))


def full_race(logprobs: torch.Tensor, rows: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """`gumbel_max` with the numbers of all tokens, on any device."""
    offsets = torch.arange(logprobs.shape[1], device=logprobs.device) * _signed(_STRIDE)
    winners = []
    at_once = max(1, _AT_ONCE // logprobs.shape[1])
    for first in range(0, len(rows), at_once):
        bits = keys[first : first + at_once, None] + offsets
        for shift, factor in _MIXING:
            bits ^= (bits >> shift) & ((1 << 64 - shift) - 1)
            bits *= _signed(factor)
        bits = (bits >> 11) & ((1 << 53) - 1)
        distributions = logprobs[rows[first : first + at_once]].double()
        winners.append((distributions - _log_exponentials(bits, torch)).argmax(dim=-1))
    return torch.cat(winners) if winners else rows


def _pruned_race(logprobs: NDArray[Any], rows: Ints, keys: Ints) -> Ints:
    """`gumbel_max` on a CPU, with the logarithms of those tokens alone that can still win."""
    tokens = np.zeros(len(rows), dtype=np.int64)
    offsets = _offsets(logprobs.shape[1])
    bits = np.empty_like(offsets)
    scratch = np.empty_like(offsets)
    for row in np.unique(rows):
        distribution = logprobs[row]
        edge = float(distribution.max()) - _HEAD
        if not np.isfinite(edge):  # undefined, which is refused afterwards, or without any mass
            continue
        head = np.flatnonzero(distribution >= edge)
        for draw in np.flatnonzero(rows == row):
            np.add(offsets, keys[draw : draw + 1].view(np.uint64), out=bits)
            _mix(bits, scratch)
            tokens[draw] = _winner(distribution, head, edge, bits)
    return tokens


class TokenRace:
    """The race of one draw, as `gumbel_max` runs it, where only some log-probabilities are known.

    ``key``: of the draw (:func:`draw_keys`); ``vocabulary``: how many tokens take part.
    """

    def __init__(self, key: int, vocabulary: int) -> None:
        counters = np.array([key], dtype=np.int64).view(np.uint64)
        self._bits = _offsets(vocabulary) + counters
        _mix(self._bits, np.empty_like(self._bits))

    def scores(self, tokens: Ints, logprobs: Floats) -> Floats:
        """Log p plus the Gumbel number of each token, of which the largest wins."""
        scores: Floats = logprobs - _log_exponentials(self._bits[tokens], np)
        return scores

    def could_reach(self, score: float, bound: float) -> Ints:
        """The tokens that have this score, or a larger one, if their log p is ``bound``."""
        tokens: Ints = np.flatnonzero(self._bits <= np.uint64(_last_bits(bound - score)))
        return tokens


def _last_bits(logarithm: float) -> float:
    """The largest bits of an exponential number of at most this logarithm, rounded up."""
    return float(-np.expm1(-np.exp(min(logarithm, 4.0))) * 2.0**53 + 2)


def _mix(bits: NDArray[np.uint64], scratch: NDArray[np.uint64]) -> None:
    """Turn counters, in place, into random numbers of 53 bits."""
    for shift, factor in _MIXING:
        np.bitwise_xor(bits, np.right_shift(bits, np.uint64(shift), out=scratch), out=bits)
        np.multiply(bits, np.uint64(factor), out=bits)
    np.right_shift(bits, np.uint64(11), out=bits)


def _winner(distribution: NDArray[Any], head: Ints, edge: float, bits: NDArray[np.uint64]) -> int:
    """The token with the largest sum; ``head`` are those of log p at least ``edge``."""
    head_scores = distribution[head] - _log_exponentials(bits[head], np)
    # The others have log p < edge, so only exponential numbers below exp(edge - best) win.
    tail = np.flatnonzero(bits <= np.uint64(_last_bits(edge - float(head_scores.max()))))
    tail_scores = distribution[tail] - _log_exponentials(bits[tail], np)
    best = np.concatenate([head_scores, tail_scores]).argmax()
    return int(np.concatenate([head, tail])[best])


def _log_exponentials(bits: Any, library: Any) -> Any:
    """Logarithms of exponential numbers E, as -log E is Gumbel; ``bits`` are below 2^53."""
    return library.log(-library.log1p((bits + 0.5) * -(2.0**-53)))


@lru_cache(maxsize=4)
def _offsets(vocabulary: int) -> NDArray[np.uint64]:
    return np.arange(vocabulary, dtype=np.uint64) * np.uint64(_STRIDE)


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
