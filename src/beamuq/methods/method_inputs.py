"""The inputs of the methods, as arrays: a produced answer and candidates for every question.

A study reads it out of its tables. All arrays are read-only: every method sees the same ones. A
part that is not known in a cell is :data:`UNKNOWN`: a method whose declared ``needs``
(:data:`PARTS`) name it is not run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, Never, cast

import numpy as np

from beamuq.errors import BeamUQError, hint
from beamuq.log_space_sums import Array, Index, Mask
from beamuq.methods import semantic_entropy_sar, spectral
from beamuq.methods.rouge import Texts

# stands for an array of any kind; only ever compared by identity
UNKNOWN: Never = cast(Never, None)
PARTS = {
    "answer.logprob": "log-probability of the produced answer",
    "answer.length": "its number of tokens",
    "answer.mean_entropy": "mean entropy of its next-token distributions",
    "answer.p_true_logprob": 'log-probability of "True" when the model is asked about it',
    "answer.ccp": "its CCP score",
    "logprob": "log-probability of each candidate",
    "weights": "what each candidate counts for",
    "texts": "the texts, the produced answer's first",
    "token_sar": "TokenSAR of each candidate",
    "sentence_similarity": "similarity of the candidates by SAR's cross-encoder",
    "pairs.similarity": "similarity of every ordered pair of texts",
    "pairs.contradiction": "how much one text of a pair contradicts the other",
    "pairs.same": "whether both texts of a pair mean the same",
    "pairs.identical": "whether both are the same text",
}
"""The vocabulary of ``Method.needs``; ``mask``, ``pairs.mask`` and settings are always known."""
DERIVED = {
    "to_produced": ("pairs.similarity",),
    "among": ("pairs.similarity",),
    "retained": ("pairs.similarity",),
    "pairs.spectrum": ("pairs.similarity",),
    "pairs.spectrum.eigenvectors": ("pairs.similarity",),
    "pairs.linked": ("pairs.similarity", "pairs.contradiction"),
    "pairs.clusters": ("pairs.same",),
}
"""What is made of these parts, and read in their place."""


def _read_only(*parts: Any) -> None:
    for part in parts:
        if isinstance(part, np.ndarray):
            part.setflags(write=False)


class _ReadOnlyArrays:
    def __post_init__(self) -> None:
        _read_only(*vars(self).values())


@dataclass(frozen=True)
class Pairs(_ReadOnlyArrays):
    """Similarities within N candidate sets, [N, M+1, M+1] each.

    mask [N, M+1]: which nodes there are. Where all methods are of those that read ``to_produced``
    alone, similarity is its first row, [N, 1, M+1].

    Node 0 is the produced answer; row = premise, column = hypothesis. similarity in [0, 1];
    contradiction alike; same, symmetric: both mean the same; identical: both
    are the same text, part of ``clusters`` and ``linked`` where it is known.
    """

    similarity: Array
    mask: Mask
    contradiction: Array = UNKNOWN
    same: Mask = UNKNOWN
    identical: Mask = UNKNOWN

    @cached_property
    def spectrum(self) -> spectral.Spectrum:
        """Eigenvalues and eigenvectors of the graph with the produced answer in it."""
        spectrum = spectral.spectrum(self.similarity, self.mask)
        _read_only(*spectrum)
        return spectrum

    @cached_property
    def linked(self) -> Mask:
        """Candidates [N, M, M] that entail each other more than they contradict, or are equal."""
        entailed = self.similarity > self.contradiction
        return self._among_candidates(entailed & entailed.transpose(0, 2, 1))

    @cached_property
    def clusters(self) -> Index:
        """The semantic cluster of each candidate, [N, M]; equal texts share one."""
        positions = semantic_entropy_sar.semantic_clusters(
            self._among_candidates(self.same), self.mask[:, 1:]
        )
        _read_only(positions)
        return positions

    def _among_candidates(self, related: Mask) -> Mask:
        if self.identical is not UNKNOWN:
            related = related | self.identical
        among = related[:, 1:, 1:]
        _read_only(among)
        return among


@dataclass(frozen=True)
class Answer(_ReadOnlyArrays):
    """The produced answers y* of N questions: logprob and length [N], terminator included.

    mean_entropy [N] in nats. p_true_logprob [N] and ccp [N] (the score) come from the judgements
    file.
    """

    logprob: Array
    length: Index
    mean_entropy: Array = UNKNOWN
    p_true_logprob: Array = UNKNOWN
    ccp: Array = UNKNOWN


@dataclass(frozen=True)
class Evidence(_ReadOnlyArrays):
    """N questions, each with a produced answer and up to M candidates of one strategy.

    Padding is where mask is False. logprob, mask, weights [N, M] of the candidates; texts [N, M+1],
    y* first, "" on padding; token_sar [N, M] and sentence_similarity [N, M, M] for SAR. alpha, K:
    Eccentricity and EigVecDissimilarity retain the K lowest eigenvectors or, without K, those below
    alpha.
    """

    answer: Answer
    logprob: Array
    mask: Mask
    weights: Array
    pairs: Pairs
    texts: Texts = UNKNOWN
    token_sar: Array = UNKNOWN
    sentence_similarity: Array = UNKNOWN
    alpha: float = 0.9
    K: int | None = None

    @property
    def to_produced(self) -> Array:
        """s(y_i, y*), [N, M]: premise y*, hypothesis y_i."""
        return self.pairs.similarity[:, 0, 1:]

    @property
    def among(self) -> Array:
        """s(y_i, y_j), [N, M, M]."""
        return self.pairs.similarity[:, 1:, 1:]

    @property
    def retained(self) -> Array:
        """How much of each eigenvector is retained, [N, M+1]."""
        eigenvalues = self.pairs.spectrum.eigenvalues
        if self.K is None:
            return spectral.below_threshold(eigenvalues, self.alpha)
        return spectral.lowest(eigenvalues, self.K, self.pairs.mask)


def check_needs(method: str, needs: Sequence[str]) -> None:
    """Refuse ``needs`` that are not all names of :data:`PARTS`.

    Raises BeamUQError, in one line, with the nearest part.
    """
    if isinstance(needs, str):
        raise BeamUQError(
            f"method {method!r}: needs is the text {needs!r}; write needs=({needs!r},)"
        )
    for need in needs:
        if need not in PARTS:
            fix = f"declare {', '.join(DERIVED[need])}" if need in DERIVED else hint(need, PARTS)
            raise BeamUQError(f"method {method!r}: needs: unknown part {need!r}; {fix}")


def missing_part(needs: Sequence[str], evidence: Evidence) -> str | None:
    """The first of a method's ``needs`` that this cell lacks; None if it has all."""
    return next((need for need in needs if attrgetter(need)(evidence) is UNKNOWN), None)
