"""What policies are told about a distribution, against plain sorting and summing."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from beamuq.decoding.next_token_distributions import (
    ALTERNATIVES,
    DistributionQuery,
    NextTokenDistributions,
    ProbabilityEdits,
    UndefinedDistributionError,
)
from beamuq.decoding.output_layer import OutputLayer
from beamuq.decoding.random_numbers import draw_keys
from beamuq.strategy_names import LEAST_TEMPERATURE
from tiny import toy_model


def _distributions(
    vocabulary: int, stops: set[int], merge_stop_tokens: set[int] | None = None
) -> NextTokenDistributions:
    """NextTokenDistributions whose hidden states are the logits themselves."""
    output: Any = SimpleNamespace(
        logits=lambda states: states,
        vocabulary=vocabulary,
        device=torch.device("cpu"),
        name="a model",
    )
    return NextTokenDistributions(output, frozenset(stops), frozenset(merge_stop_tokens or ()))


def _read(
    distributions: NextTokenDistributions,
    logits: np.ndarray,
    *queries: DistributionQuery,
    rows: int = 100,
) -> None:
    with torch.inference_mode():
        distributions.read(
            torch.from_numpy(logits.astype(np.float32)), np.arange(len(logits)), queries, rows
        )


def _logprobs(logits: np.ndarray) -> np.ndarray:
    return torch.log_softmax(torch.from_numpy(logits.astype(np.float32)), dim=-1).double().numpy()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=30),
    st.sets(st.integers(0, 29)),
    st.integers(1, 8),
)
def test_lists_hold_the_best_tokens_and_the_best_that_go_on(
    logits: list[int], stops: set[int], top: int
) -> None:
    stops = {stop for stop in stops if stop < len(logits)}
    query = DistributionQuery(np.array([0]), top=top)
    _read(_distributions(len(logits), stops), np.array([logits]), query)
    truth = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    found = [
        token
        for token, logprob in zip(query.tokens[0], query.logprobs[0], strict=True)
        if logprob > -np.inf
    ]
    assert found == [token for token in truth if token in found]
    assert found[:top] == truth[:top]
    going = [token for token in truth if token not in stops][:top]
    assert [token for token in found if token not in stops][: len(going)] == going
    logprobs = _logprobs(np.array([logits]))[0]
    assert query.logprobs[0][: len(found)] == pytest.approx(logprobs[found], abs=1e-6)


@pytest.mark.parametrize("vocabulary", [3, 255, 256, 257, 1000])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_draws_invert_the_distribution_function_in_token_order(
    vocabulary: int, temperature: float
) -> None:
    random = np.random.default_rng(vocabulary)
    logits = random.normal(0, 3, (4, vocabulary))
    nodes, uniforms = random.integers(0, 4, 500), random.random(500)
    uniforms[:2] = 0.0, 1 - 2**-53
    query = DistributionQuery(nodes, uniforms=uniforms, temperature=temperature)
    _read(_distributions(vocabulary, set()), logits, query, rows=3)
    weights = np.exp(_logprobs(logits / temperature)[nodes])
    sums = weights.cumsum(axis=1)
    expected = (sums <= uniforms[:, None] * sums[:, -1:]).sum(axis=1).clip(max=vocabulary - 1)
    below = np.where(expected > 0, sums[np.arange(500), expected - 1], 0.0)
    positions = (uniforms * sums[:, -1] - below) / weights[np.arange(500), expected]
    edge = np.abs(sums - uniforms[:, None] * sums[:, -1:]).min(axis=1) < 1e-6
    assert (query.tokens == expected)[~edge].all()
    likely = ~edge & (weights[np.arange(500), expected] > 1e-4)
    assert query.positions[likely] == pytest.approx(positions[likely], abs=1e-3)
    assert ((query.positions >= 0) & (query.positions < 1)).all()
    assert edge.sum() < 20
    rows = np.arange(500)
    assert query.logprobs == pytest.approx(_logprobs(logits)[nodes][rows, query.tokens], abs=1e-5)
    assert query.policy_logprobs == pytest.approx(
        _logprobs(logits / temperature)[nodes][rows, query.tokens], abs=1e-5
    )


def test_a_token_of_no_probability_is_never_drawn() -> None:
    logits = np.full((1, 600), -1e9)
    logits[0, [10, 300]] = 0.0
    uniforms = np.array([0.0, 0.25, 0.5, 0.75, 1 - 2**-53])
    query = DistributionQuery(np.zeros(5, dtype=np.int64), uniforms=uniforms)
    _read(_distributions(600, set()), logits, query)
    assert query.tokens.tolist() == [10, 10, 300, 300, 300]
    independent = DistributionQuery(np.zeros(50, dtype=np.int64), keys=np.arange(50))
    _read(_distributions(600, set()), logits, independent)
    assert set(independent.tokens.tolist()) == {10, 300}


def test_edits_belong_to_a_node_and_reach_draws_and_masses() -> None:
    logits = np.log(
        np.array([[0.1, 0.2, 0.3, 0.4], [0.25, 0.25, 0.25, 0.25], [0.1, 0.2, 0.3, 0.4]])
    )
    edits = ProbabilityEdits(np.array([0, 0, 1]), np.array([3, 0, 2]), np.array([0.0, 0.5, 0.0]))
    nodes = np.array([0, 2, 0, 1])
    drawing = DistributionQuery(nodes, uniforms=np.full(4, 0.99), edits=edits)
    weighing = DistributionQuery(nodes, masses=np.zeros(4), edits=edits)
    racing = DistributionQuery(
        np.tile(nodes, 2000), keys=draw_keys(0, "", "", 2000, 4).ravel(), edits=edits
    )
    _read(_distributions(4, set()), logits, drawing, weighing, racing, rows=1)
    assert weighing.masses == pytest.approx([0.55, 1.0, 0.55, 0.75], abs=1e-6)
    assert drawing.tokens.tolist() == [2, 3, 2, 3]
    assert np.exp(drawing.logprobs) == pytest.approx([0.3, 0.4, 0.3, 0.25], abs=1e-6)
    drawn = (
        np.stack([np.bincount(racing.tokens[place::4], minlength=4) for place in (0, 1, 3)]) / 2000
    )
    expected = [
        np.array([0.05, 0.2, 0.3, 0]) / 0.55,
        [0.1, 0.2, 0.3, 0.4],
        np.array([0.25, 0.25, 0, 0.25]) / 0.75,
    ]
    assert drawn == pytest.approx(np.array(expected), abs=0.05)


@pytest.mark.parametrize("merge_stop_tokens", [None, {2, 5, 40}])
def test_statistics_are_those_of_the_distribution_that_policies_see(
    merge_stop_tokens: set[int] | None,
) -> None:
    logits = np.random.default_rng(0).normal(0, 2, (3, 50))
    query = DistributionQuery(np.array([2, 0]), statistics=True)
    _read(_distributions(50, {2, 5, 40}, merge_stop_tokens), logits, query, rows=2)
    logprobs = _logprobs(logits)
    if merge_stop_tokens:
        logprobs[:, 2] = np.logaddexp.reduce(logprobs[:, [2, 5, 40]], axis=1)
        logprobs[:, [5, 40]] = -np.inf
    weights = np.exp(logprobs)
    entropy = -(weights * np.where(weights > 0, logprobs, 0)).sum(axis=1)
    assert query.entropies == pytest.approx(entropy[[2, 0]], abs=1e-5)
    assert (
        query.top_tokens.tolist()
        == np.argsort(-logprobs[[2, 0]], axis=1)[:, :ALTERNATIVES].tolist()
    )


def test_look_ups_are_log_probabilities() -> None:
    logits = np.random.default_rng(0).normal(0, 2, (5, 50))
    with torch.inference_mode():
        found = _distributions(50, set()).lookup(
            torch.from_numpy(logits.astype(np.float32)), [7, 3], 2
        )
    assert found == pytest.approx(_logprobs(logits)[:, [7, 3]], abs=1e-6)


def test_logits_of_a_bfloat16_head_are_not_rounded_to_bfloat16() -> None:
    model: Any = copy.deepcopy(toy_model(50)).bfloat16()
    states = 20 * torch.randn(8, 16, generator=torch.Generator().manual_seed(1)).bfloat16().to(
        model.device
    )
    with torch.inference_mode():
        output = OutputLayer(model)
        found = NextTokenDistributions(output, frozenset(), frozenset()).lookup(
            states, list(range(50)), 3
        )
        logits = states.double() @ model.lm_head.weight.double().T
    assert logits.abs().max() > 50
    assert found == pytest.approx(torch.log_softmax(logits, dim=-1).cpu().numpy(), abs=1e-3)


def test_rows_of_equal_logits_are_all_put_in_order_at_once() -> None:
    logits = np.zeros((40, 30))
    logits[1::2, 7] = 1.0
    query = DistributionQuery(np.arange(40), top=3)
    _read(_distributions(30, {0, 1, 2, 3, 4}), logits, query)
    assert (query.tokens[::2, :6] == [0, 1, 2, 5, 6, 7]).all()
    assert (query.tokens[1::2, :5] == [7, 0, 1, 5, 6]).all()


@pytest.mark.parametrize(
    ("place", "bad", "fault"),
    [
        (7, np.nan, "are NaN"),
        (7, np.inf, "hold +inf"),
        (slice(None), -np.inf, "are nothing but -inf"),
    ],
)
@pytest.mark.parametrize(
    "query",
    [
        DistributionQuery(np.array([0, 1]), top=2),
        DistributionQuery(np.array([0, 1]), statistics=True),
        DistributionQuery(np.array([0, 1]), keys=np.array([1, 2])),
        DistributionQuery(np.array([0, 1]), uniforms=np.array([0.1, 0.999])),
        DistributionQuery(np.array([0, 1]), masses=np.zeros(2)),
    ],
    ids=["list", "statistics", "draw", "inverse", "mass"],
)
def test_logits_that_make_no_distribution_are_refused_by_their_fault(
    place: int | slice, bad: float, fault: str, query: DistributionQuery
) -> None:
    logits = np.zeros((2, 300))
    logits[1, place] = bad
    with pytest.raises(UndefinedDistributionError, match="use dtype float32") as raised:
        _read(_distributions(300, {0, 3}, {0, 3}), logits, query)
    assert (raised.value.fault, raised.value.nodes.tolist()) == (fault, [1])


@pytest.mark.parametrize("masked", [-np.inf, float(np.finfo(np.float32).min), -65504.0])
@pytest.mark.parametrize("vocabulary", [300, 5000])
def test_masked_tokens_are_in_no_list_no_draw_no_entropy_and_no_mass(
    masked: float, vocabulary: int
) -> None:
    random = np.random.default_rng(0)
    logits = np.full((3, vocabulary), masked)
    alive = np.sort(random.choice(vocabulary, 4, replace=False))
    logits[:, alive] = random.normal(0, 2, (3, 4))
    nodes = np.repeat(np.arange(3), 200)
    listed = DistributionQuery(np.arange(3), top=12, statistics=True)
    drawn = DistributionQuery(nodes, keys=draw_keys(0, "q", "sample", 600, 1)[:, 0].copy())
    cold = DistributionQuery(nodes, keys=drawn.keys, temperature=0.5, top_k=50, top_p=0.999)
    placed = DistributionQuery(nodes, uniforms=np.tile(np.linspace(0, 1 - 2**-53, 200), 3))
    weighed = DistributionQuery(np.arange(3), masses=np.zeros(3))
    _read(
        _distributions(vocabulary, {0, 3, int(alive[0])}),
        logits,
        listed,
        drawn,
        cold,
        placed,
        weighed,
    )

    truth = np.sort(_logprobs(logits[:, alive]))[:, ::-1]
    assert (listed.logprobs > -np.inf).sum(axis=1).tolist() == [4, 4, 4]
    assert listed.logprobs[:, :4] == pytest.approx(truth, abs=1e-5)
    assert (listed.top_logprobs[:, 4:] == -np.inf).all()
    assert listed.entropies == pytest.approx(-(np.exp(truth) * truth).sum(axis=1), abs=1e-5)
    for query in (drawn, cold, placed):
        assert np.isin(query.tokens, alive).all()
        assert np.isfinite(query.policy_logprobs).all()
    assert set(placed.tokens.tolist()) == set(alive.tolist())
    assert weighed.masses == pytest.approx(1.0)


def test_a_token_looked_up_that_is_masked_has_a_log_probability_of_minus_infinity() -> None:
    logits = torch.tensor([[0.0, -torch.inf, 0.0], [0.0, 0.0, -torch.inf]])
    with torch.inference_mode():
        found = _distributions(3, set()).lookup(logits, [0, 1], 2)
    assert found[0].tolist() == [pytest.approx(-np.log(2)), -np.inf]
    assert found[1].tolist() == pytest.approx([-np.log(2)] * 2)


def test_merged_endings_that_are_all_masked_stay_so() -> None:
    logits = np.array([[-np.inf, 1.0, 2.0, -np.inf]])
    query = DistributionQuery(np.array([0]), top=4)
    _read(_distributions(4, {0, 3}, {0, 3}), logits, query)
    assert query.tokens[0, :2].tolist() == [2, 1]
    assert (query.logprobs[0, 2:] == -np.inf).all()


def test_the_coldest_draws_are_the_most_probable_token() -> None:
    logits = np.random.default_rng(0).normal(0, 30, (4, 300))
    query = DistributionQuery(np.arange(4), keys=np.arange(4), temperature=LEAST_TEMPERATURE)
    _read(_distributions(300, set()), logits, query)
    assert query.tokens.tolist() == logits.argmax(axis=1).tolist()
    assert query.policy_logprobs.tolist() == [0.0] * 4
