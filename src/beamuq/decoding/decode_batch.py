"""Decode a batch of prompts by several policies: one prefill, one trie, every row run once."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import torch
from transformers import PreTrainedModel

from beamuq.array_types import Floats, Ints
from beamuq.decoding.beam_search import Beam
from beamuq.decoding.check_custom_strategy import CheckedSearch
from beamuq.decoding.context_window import check_prompt_lengths, context_window
from beamuq.decoding.forward_passes import (
    ROWS,
    BatchRunner,
    Efforts,
    StepStatistics,
    Work,
    out_of_memory,
)
from beamuq.decoding.generated_token_trie import TokenTrie
from beamuq.decoding.greedy_and_samples import Greedy, Shipped
from beamuq.decoding.next_token_distributions import NextTokenDistributions
from beamuq.decoding.output_layer import OutputLayer
from beamuq.decoding.search_state import (
    Candidate,
    Effort,
    Policy,
    Prompt,
    ProvenState,
    SearchContext,
    SearchState,
)
from beamuq.decoding.self_check import RUNNERS, checked
from beamuq.errors import BeamUQError

Result = TypeVar("Result")
_ALONE = threading.RLock()  # a model's attention and head are replaced while it decodes


def decode(
    model: PreTrainedModel,
    prompts: Sequence[Prompt],
    policies: Sequence[Policy],
    *,
    stop_ids: frozenset[int],
    seed: int,
    max_new_tokens: int,
    rows: int | None = None,
    merge_stop_tokens: frozenset[int] = frozenset(),
    work: Work | None = None,
) -> list[Candidate]:
    """The candidates of all policies for a batch of prompts, ordered by prompt, policy and rank.

    Parameters
    ----------
    stop_ids
        Tokens that end an answer; each belongs to the answer and counts in its probability.
    seed
        With the prompt's id, the strategy, the sample and the step it fixes every draw, in any
        batch.
    max_new_tokens
        An answer of that many tokens that has not stopped is cut: a legal outcome of its own.
    rows
        Most tokens in one forward pass (default 4096). Running out of memory halves it and goes on;
        where the batch itself is too large, its halves are decoded one after the other.
    merge_stop_tokens
        Stop tokens that count as one ending: the smallest id, with the sum of their probabilities.
    work
        The work of this call is added to its counts.

    Raises
    ------
    BeamUQError
        If no path gives what the model's own forward pass gives (`self_check`), a prompt is empty,
        repeated, too long for the model's context, or does not fit into memory alone, or logits are
        NaN, +inf or nothing but -inf.
    """
    _check_policies(policies, stop_ids, max_new_tokens, merge_stop_tokens)
    _check_prompts(model, prompts, max_new_tokens)
    work = Work() if work is None else work

    def decoded(piece: Sequence[Prompt]) -> list[Candidate]:
        with _opened(model, piece, rows, work) as (runner, trie):
            distributions = NextTokenDistributions(OutputLayer(model), stop_ids, merge_stop_tokens)
            context = SearchContext(piece, distributions.stops.copy(), max_new_tokens, seed, trie)
            searches = [_started(policy, context) for policy in policies]
            runner.prefill()
            statistics, efforts = runner.follow(searches, distributions)
        candidates: list[Candidate] = []
        for question in range(len(piece)):
            for number, search in enumerate(searches):
                effort = _effort(efforts, number, search, question)
                candidates += _candidates(context, stop_ids, search, question, statistics, effort)
        return candidates

    pieces = _in_pieces(prompts, decoded, work)
    return [candidate for candidates in pieces for candidate in candidates]


def _effort(efforts: Efforts, number: int, search: SearchState, question: int) -> Effort:
    """What the ``search`` of that ``number`` took for a ``question``, and its proof."""
    proof = search.proof(question) if isinstance(search, ProvenState) else (None, None)
    rows = int(efforts.rows[number, question])
    return Effort(rows, int(efforts.passes[number, question]), *proof)


def _candidates(
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


def next_token_logprobs(
    model: PreTrainedModel,
    prompts: Sequence[Prompt],
    token_ids: Sequence[int],
    *,
    rows: int | None = None,
) -> Floats:
    """Log-probabilities of ``token_ids`` right after each prompt of a batch: (prompts, tokens).

    -inf where the model gives a token a probability of 0. ``rows`` and the errors raised are those
    of `decode`.
    """
    _check_prompts(model, prompts, 1)
    work = Work()

    def looked_up(piece: Sequence[Prompt]) -> Floats:
        with _opened(model, piece, rows, work) as (runner, _):
            runner.prefill()
            states = runner.run(np.arange(len(piece)))
            distributions = NextTokenDistributions(OutputLayer(model), frozenset(), frozenset())
            with runner.naming_prompts():
                return distributions.lookup(states, token_ids, work.rows_at_once)

    return np.concatenate(_in_pieces(prompts, looked_up, work))


def _in_pieces(
    prompts: Sequence[Prompt], run: Callable[[Sequence[Prompt]], Result], work: Work
) -> list[Result]:
    """The results of ``run`` for a batch or, if memory is too small, for halves one by one."""
    work.pieces = []
    waiting = [prompts]
    results = []
    while waiting:
        piece = waiting.pop()
        try:
            with _ALONE:
                results.append(run(piece))
            continue
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            if len(piece) == 1:
                raise BeamUQError(
                    f"prompt {piece[0].id!r}: out of memory even alone and at {work.rows_at_once} "
                    "rows at once; use a smaller dtype or a larger card"
                ) from error
        # Not sooner: the error held the tensors of the piece.
        gc.collect()
        torch.cuda.empty_cache()
        middle = len(piece) // 2
        waiting += [piece[middle:], piece[:middle]]
    return results


@contextmanager
def _opened(
    model: PreTrainedModel, prompts: Sequence[Prompt], rows: int | None, work: Work
) -> Iterator[tuple[BatchRunner, TokenTrie]]:
    """A batch, or a piece of it, on ``model``, by the path that its check has chosen."""
    if rows is not None and rows < 1:
        raise ValueError(f"rows must be at least 1, not {rows}")
    work.rows_at_once = ROWS if rows is None else rows
    trie = TokenTrie(len(prompts))
    runner = RUNNERS[checked(model).path]
    with torch.inference_mode(), runner.opened(model) as decoder:
        yield runner(decoder, prompts, trie, work), trie
    work.prompts += len(prompts)
    work.prompt_tokens += sum(len(prompt.token_ids) for prompt in prompts)
    work.pieces.append((len(prompts), work.rows_at_once))


def _with_step_statistics(
    candidate: Candidate, trie: TokenTrie, statistics: StepStatistics, path: Ints
) -> Candidate:
    """A candidate with the entropies and alternatives along its path, its own among these."""
    parents = trie.parent[path].tolist()
    if any(parent not in statistics for parent in parents):  # a plug-in's subclass of Beam
        raise BeamUQError(
            f"strategy {candidate.strategy!r}: its queries ask for no statistics at every prefix "
            "of its first answer; set DistributionQuery.statistics, as Beam does"
        )
    entropies: list[float] = []
    top_ids: list[tuple[int, ...]] = []
    top_logprobs: list[tuple[float, ...]] = []
    chosen = zip(candidate.token_ids, candidate.token_logprobs.tolist(), strict=True)
    for parent, (token, logprob) in zip(parents, chosen, strict=True):
        entropy, ids, logprobs = statistics.at(parent)
        if token not in ids:
            ids = (*ids, token)
            logprobs = (*logprobs, logprob)
        entropies.append(entropy)
        top_ids.append(ids)
        top_logprobs.append(logprobs)
    return replace(
        candidate,
        entropies=np.array(entropies),
        top_ids=tuple(top_ids),
        top_logprobs=tuple(top_logprobs),
    )


def _started(policy: Policy, context: SearchContext) -> SearchState:
    # By its own class: a policy from outside may be a subclass of one of ours.
    ours = type(policy).__module__.startswith("beamuq.decoding.")
    return policy.start(context) if ours else CheckedSearch(policy, context)


def _check_policies(
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


def _check_prompts(model: PreTrainedModel, prompts: Sequence[Prompt], new_tokens: int) -> None:
    """Refuse a batch whose prompts are empty, repeated, of another model or too long."""
    if not prompts:
        raise ValueError("a batch needs at least one prompt")
    ids: set[str] = set()
    untyped: Any = model
    vocabulary = untyped.get_input_embeddings().weight.shape[0]
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
    check_prompt_lengths(
        {prompt.id: prompt.token_ids for prompt in prompts}, context_window(model), new_tokens
    )
