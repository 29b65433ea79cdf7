"""Decode a batch of prompts by several policies: one prefill, one trie, every row run once."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from transformers import PreTrainedModel

from beamuq.array_types import Floats
from beamuq.decoding.context_window import context_window
from beamuq.decoding.forward_passes import ROWS, BatchRunner, Work, out_of_memory
from beamuq.decoding.generated_token_trie import TokenTrie
from beamuq.decoding.next_token_distributions import NextTokenDistributions
from beamuq.decoding.output_layer import OutputLayer
from beamuq.decoding.search_state import Candidate, Policy, Prompt, SearchContext
from beamuq.decoding.searches_and_candidates import (
    candidates_of_batch,
    check_policies,
    check_prompts,
    started,
)
from beamuq.decoding.self_check import RUNNERS, checked
from beamuq.decoding.served.decode_served import decode_served, next_token_logprobs_served
from beamuq.decoding.served.served_model import ServedModel
from beamuq.errors import BeamUQError

Result = TypeVar("Result")
_ALONE = threading.RLock()  # a model's attention and head are replaced while it decodes


def decode(
    model: PreTrainedModel | ServedModel,
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
    model
        In memory, or behind a server: then see `decode_served`, and ``rows`` has no meaning.
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
    if isinstance(model, ServedModel):
        return decode_served(
            model,
            prompts,
            policies,
            stop_ids=stop_ids,
            seed=seed,
            max_new_tokens=max_new_tokens,
            merge_stop_tokens=merge_stop_tokens,
            work=work,
        )
    check_policies(policies, stop_ids, max_new_tokens, merge_stop_tokens)
    _check_prompts(model, prompts, max_new_tokens)
    work = Work() if work is None else work

    def decoded(piece: Sequence[Prompt]) -> list[Candidate]:
        with _opened(model, piece, rows, work) as (runner, trie):
            distributions = NextTokenDistributions(OutputLayer(model), stop_ids, merge_stop_tokens)
            context = SearchContext(piece, distributions.stops.copy(), max_new_tokens, seed, trie)
            searches = [started(policy, context) for policy in policies]
            runner.prefill()
            statistics, efforts = runner.follow(searches, distributions)
        return candidates_of_batch(context, stop_ids, searches, statistics, efforts)

    pieces = _in_pieces(prompts, decoded, work)
    return [candidate for candidates in pieces for candidate in candidates]


def next_token_logprobs(
    model: PreTrainedModel | ServedModel,
    prompts: Sequence[Prompt],
    token_ids: Sequence[int],
    *,
    rows: int | None = None,
) -> Floats:
    """Log-probabilities of ``token_ids`` right after each prompt of a batch: (prompts, tokens).

    -inf where the model gives a token a probability of 0. ``rows`` and the errors raised are those
    of `decode`.
    """
    if isinstance(model, ServedModel):
        return next_token_logprobs_served(model, prompts, token_ids)
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


def _check_prompts(model: PreTrainedModel, prompts: Sequence[Prompt], new_tokens: int) -> None:
    """Refuse a batch whose prompts are empty, repeated, of another model or too long."""
    untyped: Any = model
    vocabulary = untyped.get_input_embeddings().weight.shape[0]
    check_prompts(prompts, vocabulary, context_window(model), new_tokens)
