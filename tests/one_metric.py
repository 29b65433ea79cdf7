"""One metric of one score."""

from __future__ import annotations

from typing import Any

import numpy as np

from beamuq.array_types import Counts, Floats
from beamuq.evaluation.prr_and_auc import Evaluator


def measure(
    metric: str, uncertainty: Floats, quality: Floats, counts: Counts | None = None, **options: Any
) -> Floats:
    """On each resample, [R], or, without counts, on the data, [1]; ``options``: see
    :class:`Evaluator`.
    """
    counts = np.ones((len(quality), 1), dtype=np.int64) if counts is None else counts
    return Evaluator(quality, counts, **options).measure(uncertainty, [metric])[metric]
