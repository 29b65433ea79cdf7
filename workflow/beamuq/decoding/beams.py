"""Beam search and diverse beam search as walks over the trie, all questions of a wave at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from beamuq.decoding.distributions import Ask
from beamuq.decoding.policies import Beam, DiverseBeam
from beamuq.decoding.walks import Setting

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class BeamWalk:
    """``width`` running hypotheses a question, and a pool of the ``width`` best finished ones.

    The semantics are those of transformers' ``generate``: a candidate that stops enters the pool only if it is among
    the ``width`` best candidates of its step; the running beams of the next step are the ``width`` best that do not
    stop; at the largest length every candidate stops.
    """

    def __init__(self, policy: Beam, setting: Setting) -> None:
        self.policy = policy
        self._setting = setting
        shape = (len(setting.prompts), policy.width)
        self._running: Ints = np.full(shape, -1)
        self._running[:, 0] = np.arange(shape[0])
        self._scores: Floats = np.full(shape, -np.inf)
        self._scores[:, 0] = 0.0
        self._pool: Ints = np.full(shape, -1)
        self._pool_scores: Floats = np.full(shape, -np.inf)
        self._length = 0

    def ask(self) -> Ask:
        return Ask(self._running[self._running >= 0], top=self.policy.width, statistics=True)

    def step(self, asked: Ask) -> None:
        self.advance(asked, np.zeros((len(self._running), 0, 2)))

    def advance(self, asked: Ask, penalties: Floats) -> Ints:
        """One step; ``penalties`` (questions, tokens, 2) are pairs of a token and what it loses from its score.

        Returns the tokens of the ``width`` best that do not stop, at the largest length too, as in group beam search:
        (questions, width), -1 where there is none.
        """
        self._length += 1
        tokens, logprobs, parents, scores = self._candidates(asked, penalties)
        width = self.policy.width
        last = self._length == self._setting.steps
        possible = scores > -np.inf
        onward = possible & ~self._setting.stops[tokens]
        onward &= onward.cumsum(axis=1) <= width
        finishing = possible & (self._setting.stops[tokens] | last) & (np.arange(scores.shape[1]) < width)
        going = onward & (not last)
        grown = np.full(tokens.shape, -1)
        chosen = finishing | going
        grown[chosen] = self._setting.trie.grow(parents[chosen], tokens[chosen], logprobs[chosen])

        fresh = np.where(finishing, scores / self._length**self.policy.length_penalty, -np.inf)
        pool_scores = np.concatenate([self._pool_scores, fresh], axis=1)
        best = np.argsort(-pool_scores, axis=1, kind="stable")[:, :width]
        self._pool_scores = np.take_along_axis(pool_scores, best, axis=1)
        self._pool = np.take_along_axis(np.concatenate([self._pool, grown], axis=1), best, axis=1)

        going &= ~self._done(np.where(going, scores, -np.inf).max(axis=1, initial=-np.inf))[:, None]
        best = np.argsort(~onward, axis=1, kind="stable")[:, :width]
        best = np.pad(best, ((0, 0), (0, width - best.shape[1])), mode="edge")
        first = np.arange(width) < onward.sum(axis=1, keepdims=True)
        alive = first & np.take_along_axis(going, best, axis=1)
        self._running = np.where(alive, np.take_along_axis(grown, best, axis=1), -1)
        self._scores = np.where(alive, np.take_along_axis(scores, best, axis=1), -np.inf)
        return np.where(first, np.take_along_axis(tokens, best, axis=1), -1)

    def _candidates(self, asked: Ask, penalties: Floats) -> tuple[Ints, Floats, Ints, Floats]:
        """Tokens, log-probs, parents and scores of all continuations, best first: (questions, beams x list).

        Equal scores are ordered by token id, then by the rank of the beam (D5).
        """
        questions, beams = np.nonzero(self._running >= 0)
        shape = (*self._running.shape, asked.tokens.shape[1])
        tokens, logprobs = np.zeros(shape, dtype=np.int64), np.full(shape, -np.inf)
        tokens[questions, beams], logprobs[questions, beams] = asked.tokens, asked.logprobs
        lost = (tokens[..., None] == penalties[:, None, None, :, 0]) @ penalties[:, None, :, 1:]
        scores = self._scores[:, :, None] + logprobs - lost[..., 0]
        parents = np.broadcast_to(self._running[:, :, None], shape)
        rank = np.broadcast_to(np.arange(shape[1])[:, None], shape)
        flat_tokens, flat_scores = tokens.reshape(shape[0], -1), scores.reshape(shape[0], -1)
        order = np.lexsort((rank.reshape(shape[0], -1), flat_tokens, -flat_scores), axis=1)
        return (
            np.take_along_axis(flat_tokens, order, axis=1),
            np.take_along_axis(logprobs.reshape(shape[0], -1), order, axis=1),
            np.take_along_axis(parents.reshape(shape[0], -1), order, axis=1),
            np.take_along_axis(flat_scores, order, axis=1),
        )

    def _done(self, best: Floats) -> Bools:
        """Questions whose pool is full and, as ``early_stopping`` sees it, not to be improved from score ``best``."""
        penalty, stopping = self.policy.length_penalty, self.policy.early_stopping
        worst = self._pool_scores[:, -1]
        flattering = self._setting.steps if stopping == "never" and penalty > 0 else self._length
        hopeless: Bools = ~(best / flattering**penalty > worst)
        return (worst > -np.inf) & (hopeless | (stopping is True))

    def found(self, question: int) -> list[tuple[int, float | None]]:
        return [(node, None) for node in self._pool[question].tolist() if node >= 0]


class DiverseWalk:
    """Groups of beams that choose in turn, each shunning the tokens just chosen by those before it."""

    def __init__(self, policy: DiverseBeam, setting: Setting) -> None:
        self.policy = policy
        self._setting = setting
        self._groups = [BeamWalk(Beam(policy.size // policy.groups), setting) for _ in range(policy.groups)]

    def ask(self) -> Ask:
        asks = [group.ask() for group in self._groups]
        # The best of a group after the penalty are among the best before it and the tokens that it can strike.
        return Ask(np.concatenate([ask.nodes for ask in asks]), top=self.policy.size)

    def step(self, asked: Ask) -> None:
        chosen = np.zeros((len(self._setting.prompts), 0), dtype=np.int64)
        first = 0
        for group in self._groups:
            last = first + len(group.ask().nodes)
            part = Ask(asked.nodes[first:last])
            part.tokens, part.logprobs = asked.tokens[first:last], asked.logprobs[first:last]
            loss = np.full(chosen.shape, self.policy.penalty)
            chosen = np.concatenate([chosen, group.advance(part, np.stack([chosen, loss], axis=-1))], axis=1)
            first = last

    def found(self, question: int) -> list[tuple[int, float | None]]:
        nodes = [node for group in self._groups for node, _ in group.found(question)]
        trie = self._setting.trie
        return [(node, None) for node in sorted(nodes, key=lambda node: (-trie.total[node], trie.tokens(node)))]
