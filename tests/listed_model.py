"""A language model that is a function of the tokens so far, all of whose answers are listed, and
searches run on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

from beamuq.decoding.forward_passes import Efforts
from beamuq.decoding.generated_token_trie import TokenTrie
from beamuq.decoding.next_token_distributions import NextTokenDistributions
from beamuq.decoding.search_state import Policy, Prompt, ProvenState, SearchContext

Tokens = tuple[int, ...]


class Answer(NamedTuple):
    tokens: Tokens
    logprob: float
    policy_logprob: float | None


class Decoded(NamedTuple):
    """A question's answers, and what the search said of itself."""

    answers: list[Answer]
    rows: int
    passes: int
    proof: tuple[bool, float | None] | None
    asked: set[Tokens]

    @property
    def tokens(self) -> list[Tokens]:
        return [answer.tokens for answer in self.answers]


class ListedModel:
    """``probabilities(tokens)`` (vocabulary,) say what comes next; tokens in ``stops`` end, as does
    the last step.
    """

    def __init__(
        self,
        probabilities: Callable[[Tokens], Sequence[float]],
        vocabulary: int,
        stops: set[int],
        steps: int,
    ) -> None:
        self.vocabulary, self.stops, self.steps = vocabulary, stops, steps
        self._probabilities = probabilities
        output: Any = SimpleNamespace(
            logits=lambda states: states,
            vocabulary=vocabulary,
            device=torch.device("cpu"),
            name="a list",
        )
        self._distributions = NextTokenDistributions(output, frozenset(stops), frozenset())
        self.logits = cache(self._logits)
        self.logprobs = cache(self._logprobs)

    def _logits(self, tokens: Tokens) -> np.ndarray:
        with np.errstate(divide="ignore"):
            logits = np.log(np.asarray(self._probabilities(tokens), dtype=np.float64))
        return logits.astype(np.float32)

    def _logprobs(self, tokens: Tokens) -> np.ndarray:
        return torch.log_softmax(torch.from_numpy(self.logits(tokens)), dim=-1).double().numpy()

    def outcomes(self, least: float = -1e9) -> dict[Tokens, float]:
        """Every answer of log-probability ``least`` or more, most probable first, ties by token
        ids.
        """
        found: dict[Tokens, float] = {}
        waiting: list[tuple[Tokens, float]] = [((), 0.0)]
        while waiting:
            tokens, total = waiting.pop()
            for token, logprob in enumerate((total + self.logprobs(tokens)).tolist()):
                if logprob >= least:
                    if token in self.stops or len(tokens) + 1 == self.steps:
                        found[(*tokens, token)] = logprob
                    else:
                        waiting.append(((*tokens, token), logprob))
        return dict(sorted(found.items(), key=lambda pair: (-pair[1], pair[0])))

    def decoded(
        self, policy: Policy, questions: Sequence[str] = ("q",), seed: int = 0
    ) -> dict[str, Decoded]:
        """What a policy finds for several questions of the same prompt."""
        trie = TokenTrie(len(questions))
        stops = np.isin(np.arange(self.vocabulary), list(self.stops))
        context = SearchContext(
            [Prompt(question, (0,)) for question in questions], stops, self.steps, seed, trie
        )
        state, efforts, asked = policy.start(context), Efforts(1, trie), set()
        while len((query := state.query()).nodes):
            efforts.add(0, query.nodes)
            nodes = np.unique(query.nodes)
            asked |= {(int(trie.question[node]), trie.tokens(node)) for node in nodes}
            logits = torch.from_numpy(np.stack([self.logits(trie.tokens(node)) for node in nodes]))
            with torch.inference_mode():
                self._distributions.read(logits, nodes, [query], len(nodes))
            state.advance(query)
        return {
            name: Decoded(
                [
                    Answer(trie.tokens(node), float(trie.total[node]), drawn)
                    for node, drawn in state.answers(number)
                ],
                int(efforts.rows[0, number]),
                int(efforts.passes[0, number]),
                state.proof(number) if isinstance(state, ProvenState) else None,
                {tokens for question, tokens in asked if question == number},
            )
            for number, name in enumerate(questions)
        }


def trigram(
    seed: int, vocabulary: int = 5, steps: int = 4, sharpness: float = 1.5, *, possible: float = 1.0
) -> ListedModel:
    """A random model whose next token depends on the last two; its token 0 ends.

    Each token is ``possible`` with that probability, and else of probability 0; one always is.
    """

    def probabilities(tokens: Tokens) -> np.ndarray:
        last = ((-1, -1, *tokens)[-2:], min(len(tokens), 2))
        random = np.random.default_rng([seed, *(number + 2 for number in last[0]), last[1]])
        weights = np.exp(sharpness * random.normal(size=vocabulary))
        if possible < 1.0:
            alive = random.random(vocabulary) < possible
            alive[random.integers(vocabulary)] = True
            weights[~alive] = 0.0
        return weights

    return ListedModel(probabilities, vocabulary, {0}, steps)
