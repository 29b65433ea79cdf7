"""The same tokens whatever the batch, its order, its cut into passes and the other policies; input
that is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

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
    Shipped,
    Stochastic,
    Systematic,
    Work,
    candidate_text,
    decode,
)
from beamuq.decoding.forward_passes import StepStatistics
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.errors import BeamUQError
from beamuq.strategy_names import parse
from small_batch import FEW, SEARCHES, SHOTS, Policies, assert_same, decoded
from tiny import CONTEXT, KINDS, tiny_model

TEXTS = [
    SHOTS + "Question: Who\nAnswer:",
    SHOTS,
    "Q",
    SHOTS + "Question: What\nAnswer:",
    "Question: Who\nAnswer: a",
]
POLICIES: Policies = (*FEW, Beam(3, 1.0, False), Sample(3, 0.5), Hybrid(6, 3), *SEARCHES)
STEPS = 6


@cache
def prompts_of(kind: str) -> list[Prompt]:
    _, tokenizer = tiny_model(kind)
    return [Prompt(f"q{i}", tuple(tokenizer(text)["input_ids"])) for i, text in enumerate(TEXTS)]


def run(
    kind: str, prompts: list[Prompt], policies: Sequence[Policy], **options: Any
) -> list[Candidate]:
    return decoded(kind, policies=policies, prompts=prompts, max_new_tokens=STEPS, **options)


@cache
def together(kind: str, policies: Policies = POLICIES) -> list[Candidate]:
    return run(kind, prompts_of(kind), policies)


def in_order(candidates: list[Candidate]) -> list[Candidate]:
    order = [policy.strategy for policy in POLICIES]
    return sorted(candidates, key=lambda c: (c.prompt_id, order.index(c.strategy), c.rank))


@pytest.mark.parametrize("kind", KINDS)
def test_batch_order_and_company_change_no_token(kind: str) -> None:
    prompts, policies = prompts_of(kind), POLICIES if kind == "llama" else FEW
    whole = together(kind, policies)
    assert in_order(whole) == whole  # by prompt, policy and rank
    assert_same(in_order(run(kind, prompts[::-1], policies[::-1])), whole)
    assert_same([c for prompt in prompts for c in run(kind, [prompt], policies)], whole)
    assert_same(in_order([c for policy in policies for c in run(kind, prompts, [policy])]), whole)


@pytest.mark.parametrize(
    ("kind", "policies", "rows"),
    [("llama", POLICIES, 3), ("llama", POLICIES, 17), ("llama", FEW, 1), ("gemma3", FEW, 1)],
)
def test_fewer_rows_at_once_change_no_token(kind: str, policies: Policies, rows: int) -> None:
    assert_same(run(kind, prompts_of(kind), policies, rows=rows), together(kind, policies))


def test_the_same_call_gives_the_same_numbers() -> None:
    assert_same(run("llama", prompts_of("llama"), POLICIES), together("llama"), tolerance=0)


def test_shared_prompt_tokens_and_equal_nodes_are_run_once() -> None:
    prompts, work = prompts_of("llama"), Work()
    run("llama", prompts, POLICIES, work=work)
    distinct = {
        prompt.token_ids[:end] for prompt in prompts for end in range(1, len(prompt.token_ids) + 1)
    }
    assert (
        work.prompt_rows
        == len(distinct)
        < work.prompt_tokens
        == sum(len(prompt.token_ids) for prompt in prompts)
    )
    assert 0 < work.decoded_rows < work.decoded_rows_unmerged


def test_statistics_of_a_node_are_read_once_and_hold_real_alternatives_only() -> None:
    def answered(nodes: list[int], entropy: float) -> DistributionQuery:
        query = DistributionQuery(np.array(nodes))
        query.entropies = np.full(len(nodes), entropy)
        query.top_tokens = np.tile([7, 8, 9], (len(nodes), 1))
        query.top_logprobs = np.tile([-0.5, -1.0, -np.inf], (len(nodes), 1)) - entropy
        return query

    statistics = StepStatistics()
    statistics.add(answered([3, 5], 1.0))
    statistics.add(answered([5, 4], 2.0))
    assert statistics.at(5) == statistics.at(3) == (1.0, (7, 8), (-1.5, -2.0))
    assert statistics.at(4) == (2.0, (7, 8), (-2.5, -3.0))


def test_two_questions_with_one_prompt_share_beams_but_not_draws() -> None:
    prompt = prompts_of("llama")[0]
    found = run("llama", [prompt, Prompt("twin", prompt.token_ids)], [Beam(4), Sample(4)])
    beams, draws = (
        [c.token_ids for c in found if c.strategy.startswith(kind)] for kind in ("beam", "sample")
    )
    assert beams[:4] == beams[4:]
    assert draws[:4] != draws[4:]


def test_an_answer_may_be_its_terminator_alone() -> None:
    model, tokenizer = tiny_model("llama")
    prompt = prompts_of("llama")[0]
    (free,) = decode(model, [prompt], [Greedy()], stop_ids=frozenset(), seed=0, max_new_tokens=1)
    assert not free.terminated
    stops = frozenset(free.token_ids)
    greedy, *beams = decode(
        model, [prompt], [Greedy(), Beam(3)], stop_ids=stops, seed=0, max_new_tokens=4
    )
    assert (greedy.token_ids, greedy.terminated) == (free.token_ids, True)
    assert candidate_text(tokenizer, greedy.token_ids, stops) == ""
    assert len(beams) == 3
    assert beams[0].logprob >= beams[1].logprob >= beams[2].logprob


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_may_fill_the_context_but_not_exceed_it(kind: str) -> None:
    filled = Prompt("full", (10,) * (CONTEXT - STEPS))
    assert all(len(c.token_ids) <= STEPS for c in run(kind, [filled], [Greedy(), Beam(2)]))
    with pytest.raises(BeamUQError, match=f"'over'.*{CONTEXT - STEPS + 1} tokens.*{CONTEXT}"):
        run(kind, [Prompt("over", (*filled.token_ids, 10))], [Greedy()])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Sample(0), "size must be positive"),
        (lambda: Sample(3, 1e-40), "temperature must be at least 1e-06, not 1e-40"),
        (lambda: Beam(0), "width must be positive"),
        (lambda: Beam(2.5), "width must be a whole number, not 2.5"),  # type: ignore[arg-type]
        (lambda: Beam(True), "width must be a whole number, not True"),
        (lambda: Beam(float("nan")), "width must be a whole number, not nan"),  # type: ignore[arg-type]
        (lambda: Beam(2, 0.0, "maybe"), "early_stopping must be"),  # type: ignore[arg-type]
        (lambda: Beam(2, 0.0, 1), "early_stopping must be"),  # type: ignore[arg-type]
        (lambda: DiverseBeam(10, 3, 0.5), "groups must be a divisor"),
        (lambda: DiverseBeam(10, 2, -1.0), "penalty must be at least 0"),
        (lambda: Hybrid(3, 4), "beams must be at most size 3"),
        (lambda: Shipped(1.0, -1), "top_k must be at least 0"),
        (lambda: Exact(0), "size must be positive"),
        (lambda: Exact(3, rows=0), "rows must be positive"),
        (lambda: AllAbove(1.0), "p must be between 0 and 1"),
        (lambda: AllAbove(0.1, 10, 3), "lattices must divide draws 10"),
        (lambda: OptimalStratified(0), "size must be positive"),
        (lambda: Systematic(0), "size must be positive"),
        (lambda: run("llama", prompts_of("llama"), [Sample(3), Sample(5)]), "strategies repeat"),
        (lambda: run("llama", prompts_of("llama"), [Greedy()], rows=-1), "rows must be at least 1"),
        (
            lambda: run("llama", prompts_of("llama"), [Greedy()], merge_stop_tokens=frozenset({7})),
            "stop tokens",
        ),
    ],
)
def test_impossible_policies_are_refused(make: Callable[[], object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        make()


@pytest.mark.parametrize(
    "make", [lambda: Beam(0), lambda: Sample(0), lambda: Exact(0), lambda: Hybrid(3, 0)]
)
def test_a_width_of_0_is_told_as_bad_input(make: Callable[[], object]) -> None:
    with pytest.raises(BeamUQError, match=r"^(width|size|beams) must be positive, not 0"):
        make()


@pytest.mark.parametrize(
    ("policy", "name"),
    [
        (Greedy(), "greedy"),
        (Sample(10, 0.7), "sample T=0.7"),
        (Beam(5, 1.0, False), "beam M=5 length_penalty=1.0 early_stopping=False"),
        (DiverseBeam(10, 2, 0.5), "diverse G=2 lambda=0.5"),
        (Hybrid(10, 3), "hybrid B=3"),
        (Shipped(), "shipped"),
        (Exact(10), "exact M=10"),
        (AllAbove(0.002), "all_above p=0.002"),
        (AllAbove(0.00001, 100, 10), "all_above p=0.00001 draws=100 lattices=10"),
        (OptimalStratified(10), "optimal_stratified M=10"),
        (OptimalStratified(10, True), "adaptive M=10"),
        (Systematic(10), "systematic M=10"),
        (Stochastic(10), "stochastic M=10"),
    ],
)
def test_strategies_follow_the_grammar(policy: Policy, name: str) -> None:
    assert policy.strategy == name
    assert parse(name)[0] == name.split(" ")[0]
