"""PRR of anyone's scores, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import Estimate, estimate, resample_counts
from beamuq.evaluation.prr_and_auc import Evaluator, why_undefined


def prr(
    scores: npt.ArrayLike,
    quality: npt.ArrayLike,
    *,
    groups: Sequence[str] | None = None,
    max_rejection: float = 0.5,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """The prediction–rejection ratio of uncertainty scores, with a bootstrap interval (section 4 of the paper).

    Parameters
    ----------
    scores, quality
        [N], higher = more uncertain; how right each answer is, higher = better.
    groups
        [N], what belongs together (a story, a user) and is resampled together; None: each answer on its own.
    max_rejection
        The area goes to this share of rejected answers.
    resamples, confidence, seed
        Of the percentile bootstrap.

    Returns
    -------
    value, low, high and std: at most 1, 0 for a random order, negative for a worse one; None where undefined (constant
    quality), and ``note`` says why.

    Raises
    ------
    BeamUQError
        If lengths differ, or a score or quality is missing or not finite.

    Examples
    --------
    >>> beamuq.prr([0.9, 0.2, 0.7, 0.1], [0, 1, 0, 1]).value
    1.0
    """
    u, q = np.asarray(scores, dtype=np.float64), np.asarray(quality, dtype=np.float64)
    if u.ndim != 1 or u.shape != q.shape:
        raise BeamUQError(f"scores: shape {u.shape}, quality {q.shape}; give one of each per answer")
    if groups is not None and len(groups) != len(u):
        raise BeamUQError(f"groups: {len(groups)} for {len(u)} answers; give one per answer")
    units = [str(number) for number in range(len(u))] if groups is None else [str(group) for group in groups]
    if why := why_undefined("PRR", q, max_rejection):
        return Estimate(None, None, None, None, why)

    def measured(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        return Evaluator(q, counts, max_rejection=max_rejection).measure(u, ["PRR"])["PRR"]

    value = float(measured(np.ones((len(q), 1), dtype=np.int64))[0])
    return estimate(value, measured(resample_counts(units, resamples, seed, "prr")), confidence)
