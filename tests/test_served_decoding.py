"""Decoding over a server gives what decoding in process gives: tokens, and log p within 1e-5."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

import served_tiny
from beamuq.array_types import Floats
from beamuq.decoding import (
    AllAbove,
    Beam,
    Candidate,
    DiverseBeam,
    Exact,
    Greedy,
    Hybrid,
    Policy,
    Prompt,
    Sample,
    Shipped,
    Stochastic,
    Systematic,
    Work,
    bare_stops,
    decode,
    next_token_logprobs,
    stop_tokens,
)
from beamuq.decoding.served.listed_distribution import ListedDistribution
from beamuq.decoding.served.served_model import TokenList
from beamuq.decoding.served.server_draws import ServerSample
from beamuq.errors import BeamUQError
from beamuq.models.served import server_protocol
from fake_model_server import Faults
from small_batch import assert_same
from tiny import forced_logprobs, plain_logits

TEXTS = ("Question: Who", "Q", "Question: Which river runs through Paris?\nAnswer:")
STEPS = 6
SEARCHES: tuple[Policy, ...] = (Greedy(), Beam(10), DiverseBeam(4, 2, 0.5))
ALL: tuple[Policy, ...] = (*SEARCHES, Sample(6))
# so many bare stops that most lie below the lists, as a real vocabulary's newlines do
FURTHER_STOPS = frozenset(range(60, 160))


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


def prompts() -> list[Prompt]:
    _, tokenizer = served_tiny.pair()
    return [Prompt(text, tuple(tokenizer(text)["input_ids"])) for text in TEXTS]


def endings(*, further: bool = True) -> tuple[frozenset[int], frozenset[int]]:
    """Stop tokens, and those of them that count as one ending."""
    model, tokenizer = served_tiny.pair()
    stops = stop_tokens(tokenizer, model)
    bare = bare_stops(tokenizer, stops)
    return (stops | FURTHER_STOPS, bare | FURTHER_STOPS) if further else (stops, bare)


def decoded(
    model: Any, policies: Sequence[Policy] = ALL, *, merged: bool = True, **options: Any
) -> list[Candidate]:
    stops, bare = endings()
    merge = bare if merged else frozenset()
    usual: dict[str, Any] = {"stop_ids": stops, "merge_stop_tokens": merge, "seed": 3}
    return decode(model, prompts(), policies, **(usual | {"max_new_tokens": STEPS} | options))


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("max_logprobs", [20, -1])
def test_over_vllm_the_same_tokens_and_log_p_come_as_in_process(
    max_logprobs: int, merged: bool
) -> None:
    in_process = decoded(served_tiny.pair()[0], merged=merged)
    with served_tiny.opened(max_logprobs=max_logprobs) as (_, server):
        over_server = decoded(server, merged=merged)
    assert_same(over_server, in_process, 1e-5)
    for mine, other in zip(over_server, in_process, strict=True):
        assert mine.token_logprobs == pytest.approx(other.token_logprobs, abs=1e-5)
        assert mine.terminated == other.terminated


def test_over_llama_cpp_the_same_tokens_come_and_log_p_without_merged_endings() -> None:
    in_process = decoded(served_tiny.pair()[0], merged=False)
    with served_tiny.opened(kind="llama.cpp") as (_, server):
        assert_same(decoded(server, merged=False), in_process, 1e-5)


def test_over_llama_cpp_a_merged_ending_is_right_within_what_is_promised() -> None:
    in_process = decoded(served_tiny.pair()[0], SEARCHES)
    with served_tiny.opened(kind="llama.cpp") as (_, server):
        over_server = decoded(server, SEARCHES)
    assert_same(over_server, in_process, 1e-2)


def test_the_ten_alternatives_are_those_in_process_and_entropies_are_not_known() -> None:
    in_process = decoded(served_tiny.pair()[0], [Greedy()])
    with served_tiny.opened() as (_, server):
        over_server = decoded(server, [Greedy()])
    for mine, other in zip(over_server, in_process, strict=True):
        assert mine.entropies is None
        assert mine.top_ids == other.top_ids
        assert mine.top_logprobs is not None
        assert other.top_logprobs is not None
        for row, expected in zip(mine.top_logprobs, other.top_logprobs, strict=True):
            assert row == pytest.approx(expected, abs=1e-5)


def test_alternatives_that_are_not_all_listed_are_not_known() -> None:
    in_process = decoded(served_tiny.pair()[0], [Greedy()])
    with served_tiny.opened(max_logprobs=10) as (_, server):
        over_server = decoded(server, [Greedy()])
    assert_same(over_server, in_process, 1e-5)
    unknown = [mine for mine in over_server if mine.top_ids is None]
    assert unknown
    assert all(mine.top_logprobs is None for mine in unknown)


def test_a_batch_of_any_size_takes_two_requests_a_step_at_most() -> None:
    with served_tiny.opened(max_logprobs=-1) as (server, model):
        before = len(server.completions)
        decoded(model, [Greedy(), Beam(10)])
        assert len(server.completions) - before <= 2 * STEPS


def test_named_tokens_are_asked_only_where_the_ending_may_matter() -> None:
    stops, _ = endings(further=False)
    with served_tiny.opened(max_logprobs=-1) as (server, model):
        before = len(server.completions)
        rare = frozenset(sorted(stops)[:1])
        decoded(model, [Greedy()], stop_ids=stops, merge_stop_tokens=rare)
        named = [
            request
            for request in server.completions[before:]
            if request.body.get("logprob_token_ids") is not None
        ]
    assert not named


def test_every_prefix_is_asked_about_once_whichever_searches_reach_it() -> None:
    with served_tiny.opened(max_logprobs=-1) as (server, model):
        before = server.prompts
        decoded(model, [Beam(10)], merged=False)
        alone = server.prompts - before
        decoded(model, [Greedy(), Beam(10)], merged=False)
        assert server.prompts - before - alone < 2 * alone


def test_work_counts_prompts_and_prefixes() -> None:
    work = Work()
    with served_tiny.opened() as (_, model):
        decoded(model, [Greedy()], work=work)
    in_process = Work()
    decoded(served_tiny.pair()[0], [Greedy()], work=in_process)
    assert work.prompts == len(TEXTS)
    assert work.prompt_tokens == in_process.prompt_tokens
    assert work.decoded_rows == in_process.decoded_rows


@pytest.mark.parametrize("policy", [Exact(4), AllAbove(0.02)])
def test_proven_searches_are_those_in_process_where_lists_suffice(policy: Policy) -> None:
    in_process = decoded(served_tiny.pair()[0], [policy])
    with served_tiny.opened(max_logprobs=-1) as (_, server):
        over_server = decoded(server, [policy])
    assert_same(over_server, in_process, 1e-5)
    assert [mine.effort for mine in over_server if mine.effort and mine.effort.proven is None] == []


@pytest.mark.parametrize("policy", [Beam(15), Exact(4)])
def test_a_search_that_needs_more_than_is_listed_is_refused_with_the_fix(policy: Policy) -> None:
    with (
        served_tiny.opened(max_logprobs=10) as (_, server),
        pytest.raises(BeamUQError, match=r"^prompt '.*', step 1 .*lists 10 .*--max-logprobs -1"),
    ):
        decoded(server, [policy])


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        (Sample(2, 0.5), "a temperature of 0.5 needs every token's probability"),
        (Shipped(), "the shipped distribution is cut"),
        (Systematic(4), "draws in the order of token ids"),
        (Hybrid(4, 2), "draws outside a set"),
        (Stochastic(4), "draws outside a set"),
        (AllAbove(0.1, 4, 2), "draws in the order of token ids"),
    ],
)
def test_a_strategy_that_needs_whole_distributions_is_refused_before_a_request(
    policy: Policy, reason: str
) -> None:
    with served_tiny.opened() as (server, model):
        before = len(server.requests)
        with pytest.raises(BeamUQError, match=rf"^a served model: strategy '.*': {reason}"):
            decoded(model, [policy])
        assert len(server.requests) == before


def test_without_named_tokens_a_short_list_with_merged_endings_is_refused() -> None:
    faults = Faults(ignores={"logprob_token_ids"})
    with served_tiny.opened(max_logprobs=20, faults=faults) as (_, server):
        assert server.most_named == 0
        with pytest.raises(BeamUQError, match=r"tells no named ones.*--max-logprobs -1"):
            decoded(server, [Greedy()])


def test_without_named_tokens_draws_are_decided_from_longer_lists() -> None:
    in_process = decoded(served_tiny.pair()[0], [Sample(6)], merged=False)
    faults = Faults(ignores={"logprob_token_ids"})
    with served_tiny.opened(max_logprobs=-1, faults=faults) as (_, server):
        assert_same(decoded(server, [Sample(6)], merged=False), in_process, 1e-5)


def test_named_tokens_after_prompts_are_looked_up_as_in_process() -> None:
    tokens = [5, 300, 17]
    in_process = next_token_logprobs(served_tiny.pair()[0], prompts(), tokens)
    for kind in ("vllm", "llama.cpp"):
        with served_tiny.opened(kind=kind) as (_, server):
            over_server = next_token_logprobs(server, prompts(), tokens)
        assert over_server == pytest.approx(in_process, abs=1e-5)


def test_draws_of_the_server_are_answers_with_the_model_s_log_p() -> None:
    model, _ = served_tiny.pair()
    stops, bare = endings()
    with served_tiny.opened() as (server, opened):
        before = len(server.completions)
        policy = ServerSample(5, opened, stops, bare)
        samples = decoded(opened, [policy])
        again = decoded(opened, [policy])
        asked = len(server.completions) - before
    assert asked <= 2 * 2 * len(TEXTS)
    assert_same(again, samples, 1e-6)
    assert len(samples) == 5 * len(TEXTS)
    by_id = {prompt.id: prompt for prompt in prompts()}
    for sample in samples:
        own = forced_logprobs(model, by_id[sample.prompt_id].token_ids, sample.token_ids)
        certain = len(own) - (sample.terminated and sample.token_ids[-1] in bare)
        assert sample.token_logprobs[:certain] == pytest.approx(own[:certain], abs=1e-4)
        assert sample.policy_logprob == pytest.approx(sample.logprob)
    merged = {sample.token_ids[-1] for sample in samples if sample.terminated} & bare
    assert merged <= {min(bare)}


def test_a_draw_of_the_server_ends_with_the_merged_ending_s_probability() -> None:
    model, _ = served_tiny.pair()
    stops, bare = endings()
    with served_tiny.opened() as (_, opened):
        samples = decoded(opened, [ServerSample(8, opened, stops, bare)])
    ended = [sample for sample in samples if sample.token_ids[-1] == min(bare)]
    assert ended
    by_id = {prompt.id: prompt for prompt in prompts()}
    for sample in ended:
        prefix = (*by_id[sample.prompt_id].token_ids, *sample.token_ids[:-1])
        whole = torch.log_softmax(plain_logits(model, prefix)[-1].double(), dim=-1)
        mass = whole[sorted(bare)].exp().sum().item()
        assert sample.token_logprobs[-1] == pytest.approx(np.log(mass), abs=1e-4)


def test_more_bare_stops_than_one_request_names_take_several() -> None:
    stops, bare = endings(further=False)
    many = frozenset(range(60, 260))
    options = {"stop_ids": stops | many, "merge_stop_tokens": bare | many}
    in_process = decoded(served_tiny.pair()[0], [Greedy(), Beam(3)], **options)
    with served_tiny.opened(max_logprobs=-1) as (server, model):
        over_server = decoded(model, [Greedy(), Beam(3)], **options)
        named = [request.body.get("logprob_token_ids") or () for request in server.completions]
    assert_same(over_server, in_process, 1e-5)
    assert max(map(len, named)) <= 128
    assert min(len(names) for names in named if names) < 128


def test_lists_that_come_short_once_are_asked_for_again() -> None:
    in_process = decoded(served_tiny.pair()[0], [Beam(4)])
    faults = Faults()
    with served_tiny.opened(faults=faults) as (_, server):
        faults.short_lists = 2
        over_server = decoded(server, [Beam(4)])
    assert_same(over_server, in_process, 1e-5)


def test_lists_that_stay_short_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_protocol, "WAITS", (0.0, 0.0))
    faults = Faults()
    with served_tiny.opened(faults=faults) as (_, server):
        faults.short_lists = 10**6
        with pytest.raises(BeamUQError, match=r"lists 1 tokens where 20 were asked for"):
            server.most_probable([(5, 6)], 20)


def test_a_server_that_no_longer_names_tokens_is_noticed() -> None:
    faults = Faults()
    with served_tiny.opened(max_logprobs=-1, faults=faults) as (_, server):
        faults.ignores = {"logprob_token_ids"}
        with pytest.raises(BeamUQError, match=r"tells no log-probability of token \d+"):
            server.named([(5, 6)], list(range(100)))


def test_a_listed_token_beyond_the_vocabulary_is_refused() -> None:
    with served_tiny.opened() as (_, server):
        server.vocabulary = 5
        with pytest.raises(BeamUQError, match=r"lists token \d+, and the model has 5"):
            server.most_probable([(3, 4)], 20)


def distribution(logprobs: Floats, length: int, merged: Sequence[int]) -> ListedDistribution:
    order = np.argsort(-logprobs, kind="stable")[:length]
    listed = TokenList(order, logprobs[order])
    return ListedDistribution(listed, len(logprobs), np.array(merged, dtype=np.int64))


@pytest.mark.parametrize("seed", range(20))
def test_bounds_of_what_is_not_listed_hold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, 200)
    logprobs = logits - np.log(np.exp(logits).sum())
    merged = rng.choice(200, 30, replace=False)
    part = distribution(logprobs, 25, np.sort(merged).tolist())
    unlisted = np.sort(logprobs)[: 200 - 25]
    assert unlisted.max() <= part.bound + 1e-9
    low, high = part.ending_bounds
    ending = np.log(np.exp(logprobs[merged]).sum())
    assert low <= ending <= high
    part.name(dict(zip(merged.tolist(), logprobs[merged].tolist(), strict=True)))
    assert part.knows_ending(1e-9)
    assert part.ending == pytest.approx(ending)


def test_a_token_of_probability_0_ends_the_list_of_what_is_possible() -> None:
    logprobs = np.array([np.log(0.75), -np.inf, np.log(0.25), -np.inf])
    part = distribution(logprobs, 3, [])
    assert part.is_whole
    assert part.bound == -np.inf
    assert part.list_of(0.0).tokens.tolist() == [0, 2]


def test_a_prompt_too_long_for_the_server_is_refused_by_name() -> None:
    with (
        served_tiny.opened(context=40) as (_, server),
        pytest.raises(BeamUQError, match=r"prompt 'Question: Which .* exceed .* of 40 tokens"),
    ):
        decoded(server, [Greedy()], max_new_tokens=30)


def test_a_server_killed_in_the_middle_gives_one_line() -> None:
    faults = Faults()
    with served_tiny.opened(faults=faults) as (server, model):
        faults.dies_after = len(server.completions) + 2
        with pytest.raises(BeamUQError) as error:
            decoded(model, [Beam(4)])
    assert "\n" not in str(error.value)
    assert "the model server" in str(error.value)
