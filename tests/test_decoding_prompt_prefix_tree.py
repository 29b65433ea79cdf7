"""The radix tree of prompts: every distinct prefix once, every prompt spelled, batches within their
budget.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from beamuq.decoding.prompt_prefix_tree import cut_into_passes, radix_edges

PROMPTS = st.lists(
    st.lists(st.integers(0, 2), min_size=1, max_size=8).map(tuple), min_size=1, max_size=8
)


@given(PROMPTS)
def test_edges_spell_every_prompt(prompts: list[tuple[int, ...]]) -> None:
    spelled: list[tuple[int, ...]] = [()] * len(prompts)
    ended = []
    for edge in radix_edges(prompts):
        for member in edge.members:
            assert len(spelled[member]) == edge.start
            spelled[member] += edge.tokens
        ended += edge.ends
    assert spelled == prompts
    assert sorted(ended) == list(range(len(prompts)))


@given(PROMPTS)
def test_every_distinct_prefix_is_run_once(prompts: list[tuple[int, ...]]) -> None:
    distinct = {prompt[:end] for prompt in prompts for end in range(1, len(prompt) + 1)}
    assert sum(len(edge.tokens) for edge in radix_edges(prompts)) == len(distinct)


@given(PROMPTS, st.integers(1, 7))
def test_batches_keep_the_order_and_the_budget(prompts: list[tuple[int, ...]], budget: int) -> None:
    edges = radix_edges(prompts)
    cut = list(cut_into_passes(edges, budget))
    assert all(sum(len(edge.tokens) for edge in batch) == budget for batch in cut[:-1])
    assert 0 < sum(len(edge.tokens) for edge in cut[-1]) <= budget
    pieces = [piece for batch in cut for piece in batch]
    assert [token for piece in pieces for token in piece.tokens] == [
        token for edge in edges for token in edge.tokens
    ]
    assert [end for piece in pieces for end in piece.ends] == [
        end for edge in edges for end in edge.ends
    ]
    known = [0] * len(prompts)
    for piece in pieces:
        for member in piece.members:
            assert known[member] == piece.start
            known[member] += len(piece.tokens)
