"""Rank correlations over questions, in every bootstrap resample at once."""

from __future__ import annotations

import numpy as np

from beamuq.array_types import Counts, Floats
from beamuq.evaluation.estimates import TIE, Estimates

BLOCK = 64  # resamples ranked at once, whose arrays stay in the cache


def spearman(a: Floats, b: Floats, counts: Counts) -> Floats:
    """[R] Spearman's rank correlation of a and b [N], in [−1, 1], ties at their mean rank.

    ``counts`` [N, R]: how often each resample draws each question. NaN where either is constant or
    holds a NaN.
    """
    if np.isnan([a, b]).any():
        return np.full(counts.shape[1], np.nan)
    blocks = range(0, counts.shape[1], BLOCK)
    return np.concatenate([_spearman(a, b, counts[:, start : start + BLOCK]) for start in blocks])


def _spearman(a: Floats, b: Floats, counts: Counts) -> Floats:
    mean_rank = (counts.sum(axis=0) + 1) / 2
    ranks_a = _ranks(a, counts) - mean_rank
    ranks_b = _ranks(b, counts) - mean_rank
    squares = (counts * ranks_a**2).sum(axis=0) * (counts * ranks_b**2).sum(axis=0)
    products = (counts * ranks_a * ranks_b).sum(axis=0)
    correlation: Floats = np.full_like(squares, np.nan)
    np.divide(products, np.sqrt(squares), out=correlation, where=squares > 0)
    return correlation


def _ranks(values: Floats, counts: Counts) -> Floats:
    """[N, R] the mean rank, from 1, of each question's copies."""
    _, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    copies = np.add.reduceat(counts[order], starts, axis=0, dtype=np.int64)
    return np.asarray((np.cumsum(copies, axis=0) - (copies - 1) / 2)[place], dtype=np.float64)


def partial_spearman(a: Floats, b: Floats, third: Floats, counts: Counts) -> Floats:
    """[R] Spearman's correlation of a and b [N] with that of ``third`` [N] taken out of both.

    counts are as for :func:`spearman`. (r_ab − r_at r_bt) / √((1 − r_at²)(1 − r_bt²)); NaN where
    any is constant, or ``third`` orders one of both entirely.
    """
    a_with_third = spearman(a, third, counts)
    b_with_third = spearman(b, third, counts)
    shared = spearman(a, b, counts) - a_with_third * b_with_third
    left = (1 - a_with_third**2) * (1 - b_with_third**2)
    correlation: Floats = np.full(counts.shape[1], np.nan)
    np.divide(shared, np.sqrt(np.maximum(left, 0)), out=correlation, where=left > 1e-12)
    return correlation


def kendall_tau(a: Floats, b: Floats) -> Floats:
    """Kendall's τ-b of the last axis of a and b [..., K]: −1 to 1, 1 for one order.

    NaN where any value is, or all tie. Values within 1e-12 tie.
    """
    signs_a = _signs_of_pairs(a)
    signs_b = _signs_of_pairs(b)
    pairs = np.sqrt((signs_a**2).sum(-1) * (signs_b**2).sum(-1))
    tau: Floats = np.full_like(pairs, np.nan)
    np.divide((signs_a * signs_b).sum(-1), pairs, out=tau, where=pairs > 0)
    return tau


def _signs_of_pairs(values: Floats) -> Floats:
    """[..., K (K − 1) / 2] −1, 0 or 1 for the difference of each two of the last axis."""
    left, right = np.triu_indices(values.shape[-1], 1)
    differences = values[..., left] - values[..., right]
    return np.where(np.abs(differences) <= TIE, 0.0, np.sign(differences))


def order_agreement(first: Estimates, second: Estimates) -> Estimates:
    """Kendall's τ-b between two sets of estimates' orders of their rows, by model and dataset.

    The rows of the two are of the same methods in the same order, and of the same resamples.
    """
    rows = []
    replicates: list[Floats] = []
    places = first.frame.reset_index(drop=True).groupby(["model", "dataset"], sort=False)
    for (model, dataset), part in places:
        ours = first.rows(part.index)
        theirs = second.rows(part.index)
        tau = kendall_tau(_with_value(ours), _with_value(theirs))
        row = {
            "model": model,
            "dataset": dataset,
            "metric": "Kendall tau",
            "n": part["n"].iloc[0],
            "value": tau[0],
            "note": _why_undefined(ours, theirs) if np.isnan(tau[0]) else "",
        }
        rows.append(row)
        replicates.append(tau[1:])
    return Estimates.from_rows(rows, replicates)


def _with_value(estimates: Estimates) -> Floats:
    """[1 + R, rows] the values, then their replicates."""
    return np.column_stack([estimates.frame["value"], estimates.replicates]).T


def _why_undefined(first: Estimates, second: Estimates) -> str:
    notes: dict[str, None] = {}
    for estimates in (first, second):
        undefined = estimates.frame["value"].isna()
        notes |= dict.fromkeys(estimates.frame["note"][undefined])
    return "; ".join(notes) or "undefined: the value is the same for every method"
