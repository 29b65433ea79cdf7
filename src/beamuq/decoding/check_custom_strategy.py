"""Check strategies from outside the package: each must be a search, for weights by probability."""

from __future__ import annotations

import numpy as np

from beamuq import plugins
from beamuq.decoding.greedy_and_samples import Sample, Shipped
from beamuq.decoding.next_token_distributions import DistributionQuery
from beamuq.decoding.optimal_set_and_draws import AllAbove, Hybrid, OptimalStratified, Systematic
from beamuq.decoding.search_state import Policy, SearchContext
from beamuq.decoding.stochastic_beams import Stochastic
from beamuq.errors import BeamUQError

_ONLY_SEARCHES = (
    "a strategy of your own must be a search, each outcome once (weights by probability would "
    "count a draw twice)"
)


def check_custom(name: str, policy: object) -> None:
    """Refuse a strategy of a study's own that is no search; ``name`` is the study's name for it.

    Raises BeamUQError if it draws, or has no ``strategy`` and ``start``.
    """
    drawing = isinstance(
        policy, Sample | Hybrid | Shipped | OptimalStratified | Systematic | Stochastic
    )
    if drawing or (isinstance(policy, AllAbove) and policy.draws):
        raise BeamUQError(
            f"policy {name!r}: a {type(policy).__name__} draws; {_ONLY_SEARCHES}; use the recipe's "
            "sample or hybrid"
        )
    if not isinstance(policy, Policy):
        raise BeamUQError(
            f"policy {name!r}: a {type(policy).__name__} has no strategy and start(context); add "
            "both"
        )


class CheckedSearch:
    """A running search from outside the package, checked at every step.

    The tokens and log-probabilities of the trie are shared with every other search, so it may add
    only what the model said: a token that a list after its prefix held, with the log-probability
    there.

    Raises BeamUQError if it fails, draws, asks about nodes that there are not or after an ending,
    adds what the model did not say, or finds nothing, what is no whole answer, or the same tokens
    twice for a question.
    """

    def __init__(self, policy: Policy, context: SearchContext) -> None:
        self.policy = policy
        self._what = f"strategy {policy.strategy!r}"
        self._search = plugins.call(self._what, lambda: policy.start(context))
        self._context = context
        self._logprobs: dict[int, dict[int, float]] = {}

    def query(self) -> DistributionQuery:
        query: object = plugins.call(self._what, lambda: self._search.query())
        if not isinstance(query, DistributionQuery):
            raise BeamUQError(
                f"{self._what}: query() gave a {type(query).__name__}; return a DistributionQuery"
            )
        if query.draws:
            raise self._refusal_error("asks for draws")
        trie = self._context.trie
        query.nodes = plugins.call(self._what, lambda: np.asarray(query.nodes, dtype=np.int64))
        if not ((query.nodes >= 0) & (query.nodes < len(trie))).all():
            raise BeamUQError(f"{self._what}: asks about a node that the trie has not; mend it")
        if any(map(self._is_whole, query.nodes.tolist())):
            raise BeamUQError(
                f"{self._what}: goes on after a token that ends an answer, or the "
                f"{self._context.steps}th; mend it"
            )
        return query

    def _is_whole(self, node: int) -> bool:
        """Whether an answer ends here: with a token that stops, or cut at the largest length."""
        trie = self._context.trie
        if trie.depth[node] == 0:
            return False
        is_cut = trie.depth[node] == self._context.steps
        return bool(is_cut or self._context.stops[trie.token[node]])

    def advance(self, query: DistributionQuery) -> None:
        trie = self._context.trie
        before = len(trie)
        if query.top:
            lists = zip(query.nodes, query.tokens.tolist(), query.logprobs.tolist(), strict=True)
            for node, tokens, logprobs in lists:
                # The first of equal tokens counts: later ones only fill up a short list.
                logprob_of_token = dict(zip(reversed(tokens), reversed(logprobs), strict=True))
                self._logprobs[int(node)] = logprob_of_token
        plugins.call(self._what, lambda: self._search.advance(query))
        for node in range(before, len(trie)):
            after_parent = self._logprobs.get(int(trie.parent[node]), {})
            model_logprob = after_parent.get(int(trie.token[node]), -np.inf)
            if not -np.inf < model_logprob == trie.logprob[node]:
                raise BeamUQError(
                    f"{self._what}: adds token {trie.token[node]} with log-probability "
                    f"{trie.logprob[node]:g}, which the model did not say after its prefix; grow "
                    "by query.tokens and query.logprobs"
                )

    def answers(self, question: int) -> list[tuple[int, float | None]]:
        name = self._context.prompts[question].id
        final = plugins.call(
            self._what,
            lambda: [(int(node), drawn) for node, drawn in self._search.answers(question)],
        )
        if any(policy_logprob is not None for _, policy_logprob in final):
            raise self._refusal_error("gives candidates a distribution that they were drawn from")
        if len({node for node, _ in final}) < len(final):
            raise self._refusal_error(f"finds the same tokens twice for {name!r}")
        if not final:
            raise BeamUQError(f"{self._what}: finds nothing for {name!r}; mend it")
        if not all(self._answers_question(node, question) for node, _ in final):
            raise BeamUQError(
                f"{self._what}: finds a node of no whole answer for {name!r}; mend it"
            )
        return final

    def _answers_question(self, node: int, question: int) -> bool:
        """Whether ``node`` is one of the trie, and ends an answer of that ``question``."""
        trie = self._context.trie
        is_node = 0 <= node < len(trie)
        return bool(is_node and self._is_whole(node) and trie.question[node] == question)

    def _refusal_error(self, what: str) -> BeamUQError:
        return BeamUQError(f"{self._what}: {what}; {_ONLY_SEARCHES}")
