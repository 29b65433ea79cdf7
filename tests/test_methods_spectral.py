"""Scores from the graph Laplacian: by hand, at their limits, and against networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from beamuq.log_space_sums import Array
from beamuq.methods import spectral


def full(n: int, N: int = 1) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    return np.ones((N, n), dtype=bool)


def scores(S: Array, w: Array, *, alpha: float = 0.9, K: int | None = None) -> tuple[float, float]:
    """Eccentricity and EigVecDissimilarity of one graph, node 0 the produced answer."""
    mask = full(len(S))
    values, vectors = spectral.spectrum(S[None], mask)
    kept = (
        spectral.below_threshold(values, alpha) if K is None else spectral.lowest(values, K, mask)
    )
    ecc = spectral.eccentricity(vectors, kept, w[None])
    eigvec = spectral.eigvec_dissimilarity(vectors, kept, w[None])
    return float(ecc[0]), float(eigvec[0])


def test_two_answers_by_hand() -> None:
    # W = [[1, s], [s, 1]], s = 1/2: degrees 3/2, eigenvalues 0 and 2s/(1+s) = 2/3, vectors (1,
    # ±1)/√2.
    S = np.array([[1.0, 0.4], [0.6, 1.0]])  # its symmetric part has s = 1/2
    assert scores(S, np.ones(1), alpha=0.9) == pytest.approx((2.0, 2.0))  # ‖(1,1) − (1,−1)‖²/2
    assert scores(S, np.ones(1), alpha=0.5) == pytest.approx((0.0, 0.0))
    # Σ max(0, 1 − λ) = 1 + 1/3
    np.testing.assert_allclose(spectral.eigval_laplacian(S[None], full(2)), [4 / 3])


def test_an_eigenvalue_equal_to_the_threshold_is_not_below_it() -> None:
    S = np.array([[1.0, 0.5], [0.5, 1.0]])
    assert scores(S, np.ones(1), alpha=2 / 3) == pytest.approx((0.0, 0.0))
    assert scores(S, np.ones(1), alpha=2 / 3 + 1e-6) == pytest.approx((2.0, 2.0))


def test_answers_without_any_similarity_are_components_of_their_own() -> None:
    # unit vectors: ‖e₀ − Σ w e_i‖² = 1 + Σw², ‖e₀ − e_i‖² = 2, M candidates
    w = np.array([0.5, 0.3, 0.2])
    assert scores(np.zeros((4, 4)), w) == pytest.approx((1 + 0.25 + 0.09 + 0.04, 2.0))
    np.testing.assert_allclose(spectral.eigval_laplacian(np.zeros((1, 3, 3)), full(3)), [3.0])


def test_one_isolated_answer_is_as_uncertain_as_can_be() -> None:
    S = np.ones((4, 4))
    S[0], S[:, 0] = 0.0, 0.0
    # v₀ = e₀, the rest share (0, 1, 1, 1)/√3: 1 + 1/3
    assert scores(S, np.full(3, 1 / 3)) == pytest.approx((4 / 3, 4 / 3))


@pytest.mark.parametrize("level", [1.0, 0.97, 1e-12])
def test_equally_similar_answers_are_certain(level: float) -> None:
    S = np.full((5, 5), level)
    assert scores(S, np.full(4, 0.25), alpha=0.99) == pytest.approx((0.0, 0.0), abs=1e-12)
    np.testing.assert_allclose(spectral.eigval_laplacian(S[None], full(5)), [1.0])


def test_a_fixed_number_that_cuts_an_eigenspace_weighs_its_projector() -> None:
    # identity W: three eigenvalues 0; K = 1 keeps a third of the space: (1 + 1/2)/3 and 2/3
    assert scores(np.eye(3), np.full(2, 0.5), K=1) == pytest.approx((0.5, 2 / 3))
    assert scores(np.eye(3), np.full(2, 0.5), K=9) == pytest.approx((1.5, 2.0))


def test_a_fixed_number_does_not_depend_on_the_order_of_candidates() -> None:
    rng = np.random.default_rng(0)
    S = np.kron(np.eye(3), np.ones((2, 2)))  # eigenvalues 0 (three times) and 1 (three times)
    w = rng.dirichlet(np.ones(5))
    for K in range(1, 7):
        expected = scores(S, w, K=K)
        for _ in range(5):
            order = rng.permutation(5)
            nodes = np.append(0, 1 + order)
            assert scores(S[np.ix_(nodes, nodes)], w[order], K=K) == pytest.approx(
                expected, abs=1e-12
            )


def test_the_spectrum_is_that_of_networkx() -> None:
    S = np.random.default_rng(1).random((6, 6))
    expected = nx.normalized_laplacian_spectrum(nx.from_numpy_array((S + S.T) / 2))
    np.testing.assert_allclose(
        spectral.spectrum(S[None], full(6))[0][0], np.sort(expected), atol=1e-12
    )


def test_semantic_sets_are_the_components_of_networkx() -> None:
    rng = np.random.default_rng(2)
    linked = rng.random((40, 7, 7)) < 0.12
    linked |= linked.transpose(0, 2, 1)
    mask = np.arange(7) < rng.integers(1, 8, 40)[:, None]
    expected = []
    for graph, real in zip(linked, mask, strict=True):
        members = np.flatnonzero(real)
        expected.append(
            nx.number_connected_components(nx.from_numpy_array(graph[np.ix_(members, members)]))
        )
    np.testing.assert_array_equal(spectral.num_sem_sets(linked, mask), expected)
