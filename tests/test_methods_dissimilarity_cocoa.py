"""Dissimilarity, CoCoA and Degree Matrix, worked by hand."""

from __future__ import annotations

import numpy as np

from beamuq.methods import candidate_weights, dissimilarity_cocoa


def test_dissimilarity_of_samples_is_a_mean_and_of_beams_a_weighted_one() -> None:
    similarity = np.array([[0.9, 0.2]] * 2)
    # (0.1 + 0.8)/2 = 0.45; 0.75 · 0.1 + 0.25 · 0.8 = 0.275
    w = np.array([[0.5, 0.5], [0.75, 0.25]])
    np.testing.assert_allclose(dissimilarity_cocoa.dissimilarity(similarity, w), [0.45, 0.275])


def test_cocoa_multiplies_confidence_and_consistency() -> None:
    np.testing.assert_allclose(dissimilarity_cocoa.cocoa(np.array([2.0]), np.array([0.45])), [0.9])


def test_degree_matrix_averages_all_ordered_pairs_with_the_diagonal() -> None:
    similarity = np.array([[[0.9, 0.4], [0.2, 1.0]]] * 2)
    # mean of 0.1, 0.6, 0.8, 0 = 0.375; 0.5625·0.1 + 0.1875·0.6 + 0.1875·0.8 + 0.0625·0 = 0.31875
    w = np.array([[0.5, 0.5], [0.75, 0.25]])
    np.testing.assert_allclose(dissimilarity_cocoa.degree_matrix(similarity, w), [0.375, 0.31875])


def test_the_beam_estimator_is_the_dissimilarity_itself_when_the_beams_are_everything() -> None:
    rng = np.random.default_rng(0)
    p, similarity = rng.dirichlet(np.ones(8), size=20), rng.random((20, 8))
    w = candidate_weights.restricted_mass(np.log(p), np.ones(p.shape, dtype=bool))
    exact = (p * (1 - similarity)).sum(axis=1)
    np.testing.assert_allclose(dissimilarity_cocoa.dissimilarity(similarity, w), exact)
