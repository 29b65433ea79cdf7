"""Draws of tokens: their distribution, their independence, and what a rounding error of the
probabilities changes.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from beamuq.decoding.random_numbers import draw_keys, full_race, gumbel_max, uniforms

LOGPROBS = torch.log_softmax(
    torch.randn(4, 3000, generator=torch.Generator().manual_seed(0)) * 3, dim=-1
)
FLAT = torch.full((1, 3000), -np.log(3000.0))
PEAKED = torch.log_softmax(LOGPROBS[:1] * 30, dim=-1)


def _keys(count: int, strategy: str = "sample") -> np.ndarray:
    return draw_keys(0, "question", strategy, count // 10, 10).ravel()


def _drawn(logprobs: torch.Tensor, keys: np.ndarray) -> np.ndarray:
    return gumbel_max(logprobs, np.arange(len(keys)) % len(logprobs), keys).numpy()


def test_keys_of_fewer_samples_and_steps_are_the_first_ones() -> None:
    many = draw_keys(7, "question", "sample", 15, 20)
    assert (draw_keys(7, "question", "sample", 10, 6) == many[:10, :6]).all()


def test_keys_differ_by_seed_question_strategy_sample_and_step() -> None:
    identities = [(0, "a", "s"), (1, "a", "s"), (0, "b", "s"), (0, "a", "t")]
    keys = np.concatenate([draw_keys(*identity, 5, 7).ravel() for identity in identities])
    assert len(set(keys.tolist())) == 4 * 5 * 7


def test_numbers_are_pinned() -> None:
    keys = draw_keys(0, "q", "sample T=1.0", 2, 2)
    assert uniforms(keys).round(6).tolist() == [[0.896461, 0.018816], [0.872991, 0.923173]]
    assert gumbel_max(FLAT, np.zeros(4, dtype=np.int64), keys.ravel()).tolist() == [
        2677,
        297,
        2491,
        2788,
    ]


@pytest.mark.parametrize("logprobs", [LOGPROBS, FLAT, PEAKED], ids=["usual", "flat", "peaked"])
def test_the_pruned_race_draws_what_the_full_race_draws(logprobs: torch.Tensor) -> None:
    keys = _keys(10_000)
    rows = torch.arange(len(keys)) % len(logprobs)
    assert (
        _drawn(logprobs, keys) == full_race(logprobs, rows, torch.from_numpy(keys)).numpy()
    ).all()


@pytest.mark.parametrize("scale", [0.0, 1.0, 3.0], ids=["flat", "uneven", "peaked"])
def test_draws_follow_the_distribution(scale: float) -> None:
    logprobs = torch.log_softmax(torch.linspace(-1, 1, 50)[None] * scale, dim=-1)
    counts = np.bincount(_drawn(logprobs, _keys(20_000)), minlength=50)
    assert stats.chisquare(counts, 20_000 * logprobs[0].double().softmax(0).numpy()).pvalue > 1e-3


@pytest.mark.parametrize("axis", [0, 1], ids=["samples", "steps"])
def test_neighbouring_draws_are_independent(axis: int) -> None:
    logprobs = torch.log_softmax(torch.tensor([[0.0, 0.5, 1.0, 1.5]]), dim=-1)
    keys = draw_keys(0, "question", "sample", 150, 150)
    tokens = _drawn(logprobs, keys.ravel()).reshape(keys.shape)
    before, after = np.take(tokens, range(149), axis), np.take(tokens, range(1, 150), axis)
    table = np.histogram2d(before.ravel(), after.ravel(), bins=4)[0]
    assert stats.chi2_contingency(table).pvalue > 1e-3


def test_a_draw_does_not_depend_on_the_others() -> None:
    keys = _keys(100)
    assert (_drawn(LOGPROBS[:1], keys)[60:] == _drawn(LOGPROBS[:1], keys[60:])).all()


def test_rounding_errors_change_hardly_a_draw() -> None:
    noisy = (
        LOGPROBS + torch.randn(LOGPROBS.shape, generator=torch.Generator().manual_seed(1)) * 1e-5
    )
    keys = _keys(20_000)
    changed = (_drawn(LOGPROBS, keys) != _drawn(noisy, keys)).mean()
    assert changed <= 1e-4  # an inverse distribution function in token order: 1.2e-3
