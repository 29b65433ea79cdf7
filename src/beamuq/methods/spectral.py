"""Scores from the graph Laplacian of a candidate set.

Eccentricity, EigVecDissimilarity, EigValLaplacian and NumSemSets. L = I − D^(−1/2) W D^(−1/2) with
W = (S + Sᵀ)/2 over n nodes; its eigenvalues lie in [0, 2]. A node of degree zero is a component of
its own, with eigenvalue 0. Arrays have a leading axis N; ``mask`` [N, n] is False on padding.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from beamuq.log_space_sums import Array, Mask

# eigenvalues closer than this are one eigenvalue: rounding must not choose between eigenvectors
EQUAL = 1e-9
# an eigenvalue above all real ones, so that padding sorts last and is never retained
_PADDING = 3.0


class Spectrum(NamedTuple):
    """Eigenvalues [N, n], ascending, and eigenvectors [N, n, n] (last axis: which eigenvector)."""

    eigenvalues: Array
    eigenvectors: Array


def laplacian(similarity: Array, mask: Mask) -> Array:
    """The symmetric normalised Laplacian [N, n, n] of similarity [N, n, n].

    Padding has eigenvalue 3.
    """
    both = mask[:, :, None] & mask[:, None, :]
    W = np.where(both, (similarity + similarity.transpose(0, 2, 1)) / 2.0, 0.0)
    degree = W.sum(axis=2)
    linked = degree > 0
    scale = np.where(linked, degree, np.inf) ** -0.5
    L: Array = -scale[:, :, None] * W * scale[:, None, :]
    diagonal = np.arange(W.shape[1])
    L[:, diagonal, diagonal] += np.where(mask, linked, _PADDING)
    return L


def spectrum(similarity: Array, mask: Mask) -> Spectrum:
    """The eigenvalues and eigenvectors of the Laplacian."""
    return Spectrum(*np.linalg.eigh(laplacian(similarity, mask)))


def below_threshold(eigenvalues: Array, alpha: float) -> Array:
    """How much of each eigenvector is retained, [N, n]: 1 where λ < ``alpha`` strictly, else 0."""
    return np.asarray(eigenvalues < alpha - EQUAL, dtype=np.float64)


def lowest(eigenvalues: Array, K: int, mask: Mask) -> Array:
    """How much of each eigenvector is retained, [N, n] in [0, 1], when the ``K`` lowest are.

    Where K cuts an eigenspace (several equal eigenvalues), each of its eigenvectors counts the same
    fraction: the projector is weighed, so that the result does not depend on a basis. K is at most
    a question's nodes.
    """
    size = np.minimum(K, mask.sum(axis=1))[:, None]
    space = np.cumsum(np.diff(eigenvalues, axis=1, prepend=eigenvalues[:, :1]) > EQUAL, axis=1)
    last = np.take_along_axis(space, size - 1, axis=1)
    before = space < last
    cut = space == last
    share = (size - before.sum(axis=1, keepdims=True)) / cut.sum(axis=1, keepdims=True)
    return np.asarray(before + cut * share)


def eccentricity(eigenvectors: Array, retained: Array, weights: Array) -> Array:
    """Eccentricity, ‖v* − Σ_i w_i v_i‖² in the Laplacian embedding (eq. eccentricity).

    Over beams it is the paper's beam form. eigenvectors [N, M+1, M+1], node 0 the produced answer;
    retained [N, M+1] (:func:`below_threshold` or :func:`lowest`); weights [N, M] → [N] in [0, 2],
    higher = more uncertain.
    """
    offset = eigenvectors[:, 0] - np.einsum("ni,nik->nk", weights, eigenvectors[:, 1:])
    return np.asarray((retained * offset**2).sum(axis=1))


def eigvec_dissimilarity(eigenvectors: Array, retained: Array, weights: Array) -> Array:
    """EigVecDissimilarity, Σ_i w_i ‖v* − v_i‖² in the Laplacian embedding (section 3.3).

    Shapes as for :func:`eccentricity`; → [N] in [0, 2], higher = more uncertain.
    """
    offsets = eigenvectors[:, :1] - eigenvectors[:, 1:]
    return np.asarray(np.einsum("ni,nik,nk->n", weights, offsets**2, retained))


def eigval_laplacian(similarity: Array, mask: Mask) -> Array:
    """EigValLaplacian, Σ_i max(0, 1 − λ_i) over the candidates' own graph.

    (Appendix, "Sum of Eigenvalues".) similarity [N, M, M] → [N] in [1, M]: a soft number of
    meanings; higher = more uncertain.
    """
    eigenvalues = np.linalg.eigvalsh(laplacian(similarity, mask))
    return np.asarray(np.maximum(0.0, 1.0 - eigenvalues).sum(axis=1))


def num_sem_sets(linked: Mask, mask: Mask) -> Array:
    """NumSemSets, the number of connected components of the candidates' graph (appendix).

    linked [N, M, M]: whether i and j entail each other, in both directions, more than they
    contradict → [N], whole numbers from 1 to M; higher = more uncertain.
    """
    from scipy.sparse import coo_array  # a third of what steps take to start that only name methods
    from scipy.sparse.csgraph import connected_components

    N, M = mask.shape
    question, row, column = np.nonzero(linked & mask[:, :, None] & mask[:, None, :])
    ends = (question * M + row, question * M + column)
    edges = coo_array((np.ones(len(row), dtype=bool), ends), (N * M, N * M))
    _, component = connected_components(edges, directed=False)
    members = np.flatnonzero(mask)
    _, first = np.unique(component[members], return_index=True)
    return np.bincount(members[first] // M, minlength=N).astype(np.float64)
