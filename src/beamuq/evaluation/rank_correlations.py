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
    size = counts.sum(axis=0)
    ranks_a, ranks_b = (_ranks(values, counts) - (size + 1) / 2 for values in (a, b))
    squares = (counts * ranks_a**2).sum(axis=0) * (counts * ranks_b**2).sum(axis=0)
    products = (counts * ranks_a * ranks_b).sum(axis=0)
    return np.asarray(
        np.divide(products, np.sqrt(squares), out=np.full_like(squares, np.nan), where=squares > 0)
    )


def _ranks(values: Floats, counts: Counts) -> Floats:
    """[N, R] the mean rank, from 1, of each question's copies."""
    _, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    copies = np.add.reduceat(counts[order], starts, axis=0, dtype=np.int64)
    return np.asarray((np.cumsum(copies, axis=0) - (copies - 1) / 2)[place], dtype=np.float64)


def partial_spearman(a: Floats, b: Floats, third: Floats, counts: Counts) -> Floats:
    """[R] Spearman's correlation of a and b [N] with that of ``third`` [N] taken out of both;
    counts as above.

    (r_ab − r_at r_bt) / √((1 − r_at²)(1 − r_bt²)); NaN where any is constant, or ``third`` orders
    one of both entirely.
    """
    of_a, of_b = spearman(a, third, counts), spearman(b, third, counts)
    left = (1 - of_a**2) * (1 - of_b**2)
    correlation: Floats = np.full(counts.shape[1], np.nan)
    np.divide(
        spearman(a, b, counts) - of_a * of_b,
        np.sqrt(np.maximum(left, 0)),
        out=correlation,
        where=left > 1e-12,
    )
    return correlation


def kendall_tau(a: Floats, b: Floats) -> Floats:
    """Kendall's τ-b of the last axis of a and b [..., K]: −1 to 1, 1 for one order; NaN where any
    value is, or all tie.

    Values within 1e-12 tie.
    """
    left, right = np.triu_indices(a.shape[-1], 1)
    differences = [values[..., left] - values[..., right] for values in (a, b)]
    signs = [np.where(np.abs(of) <= TIE, 0.0, np.sign(of)) for of in differences]
    pairs = np.sqrt((signs[0] ** 2).sum(-1) * (signs[1] ** 2).sum(-1))
    return np.asarray(
        np.divide(
            (signs[0] * signs[1]).sum(-1), pairs, out=np.full_like(pairs, np.nan), where=pairs > 0
        )
    )


def order_agreement(first: Estimates, second: Estimates) -> Estimates:
    """Kendall's τ-b, −1 to 1, between two sets of estimates' orders of their rows, for each model
    and dataset.

    The rows of the two are of the same methods in the same order, and of the same resamples.
    """
    rows, replicates = [], []
    for (model, dataset), part in first.frame.reset_index(drop=True).groupby(
        ["model", "dataset"], sort=False
    ):
        both = [side.rows(part.index) for side in (first, second)]
        tau = kendall_tau(
            *(np.column_stack([side.frame["value"], side.replicates]).T for side in both)
        )
        lost = dict.fromkeys(
            note for side in both for note in side.frame["note"][side.frame["value"].isna()]
        )
        why = "; ".join(lost) or "undefined: the value is the same for every method"
        place = {
            "model": model,
            "dataset": dataset,
            "metric": "Kendall tau",
            "n": part["n"].iloc[0],
        }
        rows.append(place | {"value": tau[0], "note": why if np.isnan(tau[0]) else ""})
        replicates.append(tau[1:])
    return Estimates.from_rows(rows, replicates)
