"""A batch of four prompts of very unequal length, two of which begin alike, and the strategies that
decode it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from transformers import PreTrainedModel

from beamuq.decoding import (
    AllAbove,
    Beam,
    Candidate,
    DiverseBeam,
    Exact,
    Greedy,
    Hybrid,
    OptimalStratified,
    Policy,
    Prompt,
    Sample,
    Stochastic,
    Systematic,
    decode,
    stop_tokens,
)
from tiny import tiny_model

SHOTS = "Question: Which river runs through Paris?\nAnswer: the Seine.\n\n"
TEXTS = [
    SHOTS + "Question: Who",
    SHOTS + "Question: What\nAnswer:",
    "Q",
    "Question: Who\nAnswer: a spider",
]
Policies = tuple[Policy, ...]
FEW: Policies = (Greedy(), Sample(4), Beam(4))
"""Enough for what no strategy has a part in: forward passes, memory, devices."""
MIXED: Policies = (AllAbove(0.01, 4, 2), OptimalStratified(4), OptimalStratified(4, True))
SEARCHES: Policies = (Exact(4), *MIXED, Systematic(4), Stochastic(4))
POLICIES: Policies = (*FEW, DiverseBeam(4, 2, 0.5), Hybrid(6, 3), *SEARCHES)


def batch_of(kind: str) -> list[Prompt]:
    """The batch's prompts as ``kind``'s tokenizer writes them."""
    _, tokenizer = tiny_model(kind)
    return [Prompt(text, tuple(tokenizer(text)["input_ids"])) for text in TEXTS]


def decoded(
    kind: str,
    model: PreTrainedModel | None = None,
    policies: Sequence[Policy] = POLICIES,
    **options: Any,
) -> list[Candidate]:
    """What ``model``, or the tiny model of ``kind`` on the CPU, answers to the batch, or to other
    ``prompts``.
    """
    usual, tokenizer = tiny_model(kind)
    stops = stop_tokens(tokenizer, usual) | set(range(100, 120))
    options = {
        "prompts": batch_of(kind),
        "stop_ids": stops,
        "seed": 5,
        "max_new_tokens": 8,
    } | options
    return decode(usual if model is None else model, policies=policies, **options)


@cache
def expected(kind: str, policies: Policies = POLICIES) -> list[Candidate]:
    """What the tiny model of ``kind`` answers on the CPU where nothing is in its way."""
    return decoded(kind, policies=policies)


def assert_same(
    first: Sequence[Candidate], second: Sequence[Candidate], tolerance: float = 1e-4
) -> None:
    """Equal tokens in equal order, log-probabilities up to ``tolerance``."""
    assert [(c.prompt_id, c.strategy, c.rank, c.token_ids) for c in first] == [
        (c.prompt_id, c.strategy, c.rank, c.token_ids) for c in second
    ]
    assert [c.logprob for c in first] == pytest.approx([c.logprob for c in second], abs=tolerance)
