"""What the methods see: a candidate set and a produced answer for every question of a cell, as arrays.

:class:`beamuq.methods.evidence_from_tables.Cell` reads it out of the tables.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from beamuq.methods import semantic, spectral
from beamuq.methods.array_math import Array, Index, Mask
from beamuq.methods.rouge import Texts


@dataclass(frozen=True)
class Pairs:
    """Similarities within N candidate sets. Node 0 is the produced answer; row = premise, column = hypothesis (D10).

    similarity [N, M+1, M+1] in [0, 1]; contradiction alike, or None where none is known; same [N, M+1, M+1], symmetric:
    both mean the same (D12, D18), or None; identical [N, M+1, M+1]: both are the same text; mask [N, M+1].
    """

    similarity: Array
    mask: Mask
    contradiction: Array | None = None
    same: Mask | None = None
    identical: Mask | None = None

    @cached_property
    def spectrum(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of the graph with the produced answer in it (D10)."""
        return spectral.spectrum(self.similarity, self.mask)

    @cached_property
    def linked(self) -> Mask | None:
        """Candidates [N, M, M] that entail each other more than they contradict, or are the same text (D12, D9)."""
        if self.contradiction is None:
            return None
        entailed = self.similarity > self.contradiction
        return self._among_candidates(entailed & entailed.transpose(0, 2, 1))

    @cached_property
    def clusters(self) -> Index | None:
        """The semantic cluster of each candidate, [N, M] (D12); the same text is always in the same one (D9)."""
        if self.same is None:
            return None
        return semantic.semantic_clusters(self._among_candidates(self.same), self.mask[:, 1:])

    def _among_candidates(self, related: Mask) -> Mask:
        if self.identical is not None:
            related = related | self.identical
        return related[:, 1:, 1:]


@dataclass(frozen=True)
class Answer:
    """The produced answers y* of N questions: logprob and length [N], terminator included; mean_entropy [N] in nats.

    p_true_logprob [N] and ccp [N] (the score) come from the statistics file. None: not known in this cell.
    """

    logprob: Array
    length: Index
    mean_entropy: Array | None = None
    p_true_logprob: Array | None = None
    ccp: Array | None = None


@dataclass(frozen=True)
class Evidence:
    """N questions, each with a produced answer and up to M candidates of one strategy; padding where mask is False.

    logprob, mask, weights [N, M] of the candidates; texts [N, M+1], y* first, "" on padding; token_sar [N, M] and
    sentence_similarity [N, M, M] for SAR. None: not known in this cell. alpha, K: Eccentricity and EigVecDissimilarity
    retain the K lowest eigenvectors or, without K, those below alpha.
    """

    answer: Answer
    logprob: Array
    mask: Mask
    weights: Array
    pairs: Pairs
    texts: Texts | None = None
    token_sar: Array | None = None
    sentence_similarity: Array | None = None
    alpha: float = 0.9
    K: int | None = None

    @property
    def to_produced(self) -> Array:
        """s(y_i, y*), [N, M]: premise y*, hypothesis y_i (D10)."""
        return self.pairs.similarity[:, 0, 1:]

    @property
    def among(self) -> Array:
        """s(y_i, y_j), [N, M, M]."""
        return self.pairs.similarity[:, 1:, 1:]

    @property
    def retained(self) -> Array:
        """How much of each eigenvector is retained, [N, M+1]."""
        eigenvalues, _ = self.pairs.spectrum
        if self.K is None:
            return spectral.below_threshold(eigenvalues, self.alpha)
        return spectral.lowest(eigenvalues, self.K, self.pairs.mask)
