"""Decode a batch of prompts over a model server: the same searches, answered from its lists."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beamuq.array_types import Floats, Ints
from beamuq.decoding.beam_search import Beam
from beamuq.decoding.forward_passes import Work, follow_searches
from beamuq.decoding.generated_token_trie import TokenTrie
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.decoding.search_state import Candidate, Policy, Prompt, SearchContext
from beamuq.decoding.searches_and_candidates import (
    candidates_of_batch,
    check_policies,
    check_prompts,
    started,
)
from beamuq.decoding.served.listed_reader import ListedReader
from beamuq.decoding.served.served_model import ServedModel
from beamuq.errors import BeamUQError
from beamuq.served_strategies import lacking_over_server


def decode_served(
    model: ServedModel,
    prompts: Sequence[Prompt],
    policies: Sequence[Policy],
    *,
    stop_ids: frozenset[int],
    seed: int,
    max_new_tokens: int,
    merge_stop_tokens: frozenset[int] = frozenset(),
    work: Work | None = None,
) -> list[Candidate]:
    """What :func:`beamuq.decoding.decode` gives, over a server.

    Entropies are not known: a server lists the most probable tokens. One step of all prompts is one
    request, with a second one where the merged ending or a draw needs it.

    Raises BeamUQError as there, for a strategy that needs whole distributions, and where the
    server fails or lists too few tokens.
    """
    check_policies(policies, stop_ids, max_new_tokens, merge_stop_tokens)
    for policy in policies:
        check_served_policy(policy)
    check_prompts(prompts, model.vocabulary, model.window, max_new_tokens)
    work = Work() if work is None else work
    trie = TokenTrie(len(prompts))
    batch = _Batch(prompts, trie)
    reader = ListedReader(model, stop_ids, merge_stop_tokens, batch)
    context = SearchContext(prompts, reader.stops.copy(), max_new_tokens, seed, trie)
    searches = [started(policy, context) for policy in policies]

    are_beams = [type(policy) is Beam for policy in policies]

    def answer(nodes: Ints, queries: Sequence[DistributionQuery]) -> None:
        reader.read(nodes, queries, are_beams)

    statistics, efforts = follow_searches(searches, trie, work, answer)
    work.prompts += len(prompts)
    work.prompt_tokens += sum(len(prompt.token_ids) for prompt in prompts)
    work.decoded_rows += max(0, reader.prefixes - len(prompts))
    work.pieces = [(len(prompts), work.rows_at_once)]
    return candidates_of_batch(context, stop_ids, searches, statistics, efforts)


def next_token_logprobs_served(
    model: ServedModel, prompts: Sequence[Prompt], token_ids: Sequence[int]
) -> Floats:
    """What :func:`beamuq.decoding.next_token_logprobs` gives, over a server: (prompts, tokens).

    Raises BeamUQError where the server tells no named tokens and lists too few.
    """
    check_prompts(prompts, model.vocabulary, model.window, 1)
    prefixes = [prompt.token_ids for prompt in prompts]
    if model.most_named:
        parts = [
            model.named(prefixes, token_ids[first : first + model.most_named])
            for first in range(0, len(token_ids), model.most_named)
        ]
        return np.concatenate(parts, axis=1)
    if model.most_listed < model.vocabulary:
        raise BeamUQError(
            f"{model.name}: tells no named tokens and lists {model.most_listed}; start the server "
            "with more log-probabilities (vLLM: --max-logprobs -1)"
        )
    logprobs = np.full((len(prompts), len(token_ids)), -np.inf)
    for row, prefix in enumerate(prefixes):
        listed = model.most_probable([prefix], model.vocabulary)[0]
        by_token = listed.by_token()
        logprobs[row] = [by_token.get(token, -np.inf) for token in token_ids]
    return logprobs


def check_served_policy(policy: object) -> None:
    """Refuse a strategy that cannot be had over a server, with the reason.

    Raises BeamUQError naming the strategy.
    """
    strategy = getattr(policy, "strategy", "")
    reason = lacking_over_server(strategy) if strategy else None
    if reason:
        raise BeamUQError(
            f"a served model: strategy {strategy!r}: {reason}; decode in process, or leave this "
            "strategy out"
        )


class _Batch:
    """The prompts of a batch and the trie of their answers: the tokens up to a node."""

    def __init__(self, prompts: Sequence[Prompt], trie: TokenTrie) -> None:
        self._prompts = prompts
        self._trie = trie

    def prefix(self, node: int) -> tuple[int, ...]:
        """The tokens of a prompt and of its answer down to a node."""
        prompt = self._prompts[int(self._trie.question[node])]
        return (*prompt.token_ids, *self._trie.tokens(node))

    def place(self, node: int) -> str:
        """A node in words: its prompt, and the step of the answer."""
        prompt = self._prompts[int(self._trie.question[node])]
        return f"prompt {prompt.id!r}, step {int(self._trie.depth[node]) + 1} of the answer"

    def question(self, node: int) -> int:
        """The number of its prompt."""
        return int(self._trie.question[node])

    def total(self, node: int) -> float:
        """The log p of the answer down to a node."""
        return float(self._trie.total[node])
