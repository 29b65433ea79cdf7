"""What comes before and after a search, whatever answers its queries: checks, and candidates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from beamuq.array_types import Ints
from beamuq.decoding.beam_search import Beam
from beamuq.decoding.check_custom_strategy import CheckedSearch
from beamuq.decoding.context_window import check_prompt_lengths
from beamuq.decoding.forward_passes import Efforts, StepStatistics
from beamuq.decoding.generated_token_trie import TokenTrie
from beamuq.decoding.greedy_and_samples import Greedy, Shipped
from beamuq.decoding.search_state import (
    Candidate,
    Effort,
    Policy,
    Prompt,
    ProvenState,
    SearchContext,
    SearchState,
)
from beamuq.errors import BeamUQError


def check_policies(
    policies: Sequence[Policy],
    stop_ids: frozenset[int],
    max_new_tokens: int,
    merge_stop_tokens: frozenset[int],
) -> None:
    strategies = [policy.strategy for policy in policies]
    if len(set(strategies)) < len(strategies):
        raise ValueError(f"strategies repeat: {strategies}")
    if max_new_tokens < 1:
        raise ValueError(f"max_new_tokens must be at least 1, not {max_new_tokens}")
    if not merge_stop_tokens <= stop_ids:
        raise ValueError("tokens that count as one ending must all be stop tokens")


def check_prompts(
    prompts: Sequence[Prompt], vocabulary: int, window: int | None, new_tokens: int
) -> None:
    """Refuse a batch whose prompts are empty, repeated, of another model or too long.

    ``vocabulary``: how many tokens the model has; ``window``: as of `check_prompt_lengths`.
    """
    if not prompts:
        raise ValueError("a batch needs at least one prompt")
    ids: set[str] = set()
    for prompt in prompts:
        if not prompt.token_ids:
            raise BeamUQError(f"prompt {prompt.id!r} is empty; give it at least one token")
        if prompt.id in ids:
            raise BeamUQError(f"prompt {prompt.id!r} stands twice in one batch; ids must be unique")
        if not 0 <= min(prompt.token_ids) <= max(prompt.token_ids) < vocabulary:
            raise BeamUQError(
                f"prompt {prompt.id!r}: holds a token id outside the model's 0 … {vocabulary - 1}; "
                "the tokenizer is another model's"
            )
        ids.add(prompt.id)
    check_prompt_lengths({prompt.id: prompt.token_ids for prompt in prompts}, window, new_tokens)


def started(policy: Policy, context: SearchContext) -> SearchState:
    # By its own class: a policy from outside may be a subclass of one of ours.
    ours = type(policy).__module__.startswith("beamuq.decoding.")
    return policy.start(context) if ours else CheckedSearch(policy, context)


def candidates_of_batch(
    context: SearchContext,
    stop_ids: frozenset[int],
    searches: Sequence[SearchState],
    statistics: StepStatistics,
    efforts: Efforts,
) -> list[Candidate]:
    """All searches' answers, ordered by prompt, search and rank."""
    candidates: list[Candidate] = []
    for question in range(len(context.prompts)):
        for number, search in enumerate(searches):
            effort = _effort_of(efforts, number, search, question)
            candidates += _candidates_of(context, stop_ids, search, question, statistics, effort)
    return candidates


def _effort_of(efforts: Efforts, number: int, search: SearchState, question: int) -> Effort:
    """What the ``search`` of that ``number`` took for a ``question``, and its proof."""
    proof = search.proof(question) if isinstance(search, ProvenState) else (None, None)
    rows = int(efforts.rows[number, question])
    return Effort(rows, int(efforts.passes[number, question]), *proof)


def _candidates_of(
    context: SearchContext,
    stop_ids: frozenset[int],
    search: SearchState,
    question: int,
    statistics: StepStatistics,
    effort: Effort,
) -> Iterator[Candidate]:
    """A search's answers to a question, by rank; the first with its ``effort``."""
    trie = context.trie
    strategy = search.policy.strategy
    has_statistics = isinstance(search.policy, Greedy | Beam | Shipped)
    for rank, (node, policy_logprob) in enumerate(search.answers(question)):
        path = np.array(trie.path(node))
        tokens = trie.token[path]
        candidate = Candidate(
            prompt_id=context.prompts[question].id,
            strategy=strategy,
            rank=rank,
            token_ids=tuple(tokens.tolist()),
            token_logprobs=trie.logprob[path],
            logprob=float(trie.total[node]),
            policy_logprob=policy_logprob,
            terminated=int(tokens[-1]) in stop_ids,
        )
        if rank == 0:
            candidate = replace(candidate, effort=effort)
        if rank == 0 and has_statistics:
            candidate = _with_step_statistics(candidate, trie, statistics, path)
        yield candidate


def _with_step_statistics(
    candidate: Candidate, trie: TokenTrie, statistics: StepStatistics, path: Ints
) -> Candidate:
    """A candidate with the entropies and alternatives along its path, its own among these.

    It has no entropies where one is NaN, and no alternatives where a step has none: a server's list
    is no whole distribution, and may be too short.
    """
    parents = trie.parent[path].tolist()
    if any(parent not in statistics for parent in parents):  # a plug-in's subclass of Beam
        raise BeamUQError(
            f"strategy {candidate.strategy!r}: its queries ask for no statistics at every prefix "
            "of its first answer; set DistributionQuery.statistics, as Beam does"
        )
    entropies: list[float] = []
    top_ids: list[tuple[int, ...]] = []
    top_logprobs: list[tuple[float, ...]] = []
    have_alternatives = True
    for parent, token, logprob in zip(
        parents, candidate.token_ids, candidate.token_logprobs.tolist(), strict=True
    ):
        entropy, ids, logprobs = statistics.at(parent)
        have_alternatives &= bool(ids)
        if token not in ids:
            ids = (*ids, token)
            logprobs = (*logprobs, logprob)
        entropies.append(entropy)
        top_ids.append(ids)
        top_logprobs.append(logprobs)
    return replace(
        candidate,
        entropies=None if np.isnan(entropies).any() else np.array(entropies),
        top_ids=tuple(top_ids) if have_alternatives else None,
        top_logprobs=tuple(top_logprobs) if have_alternatives else None,
    )
