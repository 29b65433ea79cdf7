"""One test a table of the paper: the mean of ours minus printed, over all its compared numbers.

And one of all tables together. A shift that no single number shows is seen here. Numbers of a table
share questions: their joint spread is that of the replicates, in which a resample draws the same
questions for all of them and each dataset is resampled on its own. The paper has no replicates;
where both runs measure the same truth its numbers move together as ours do, each by its own spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import ndtr

from beamuq.array_types import Floats
from beamuq.evaluation.estimates import MEAN, TIE
from beamuq.evaluation.holm_and_benjamini_hochberg import holm
from beamuq.evaluation.intervals import normal_quantile
from beamuq.evaluation.significance import smallest_detectable
from beamuq_study.comparison.comparison_inputs import ComparisonInputs
from beamuq_study.comparison.number_statuses import DIFFERS, NOT_SHOWN, ComparedNumbers

ALL_TABLES = "all"
COLUMNS = [
    "table",
    "status",
    "difference",
    "low",
    "high",
    "std",
    "detectable",
    "p",
    "adjusted",
    "numbers",
    "n",
]


def tests_of_tables(compared: ComparedNumbers, results: ComparisonInputs) -> pd.DataFrame:
    """``COLUMNS`` of all tables together, then of each that has a compared number.

    These are in the paper's order. ``difference``: the mean of ours minus printed, of ``numbers``
    numbers over ``n`` questions; ``std``: its standard error, with the paper's; ``p``: two-sided,
    ``adjusted`` after Holm over the tables, that of all together by itself; ``detectable``: the
    smallest true difference that the test shows with the power declared, before Holm. ``status`` is
    "differs" where the adjusted p is below the level declared.
    """
    names = compared.frame["table"]
    is_tested = _is_tested(compared.frame)
    selections = {ALL_TABLES: is_tested} if is_tested.any() else {}
    selections |= {name: is_tested & (names == name) for name in names[is_tested].unique()}
    tests = [
        _test(name, compared.rows(chosen.to_numpy()), results)
        for name, chosen in selections.items()
    ]
    frame = pd.DataFrame(tests, columns=[name for name in COLUMNS if name != "status"])
    p = frame["p"].to_numpy(np.float64)
    adjusted = np.concatenate([p[:1], holm(p[1:], len(p[1:]))])
    differs = adjusted < results.rules.limits["level"]
    status = np.where(differs, DIFFERS, NOT_SHOWN)
    return frame.assign(adjusted=adjusted, status=status)[COLUMNS]


def _is_tested(numbers: pd.DataFrame) -> pd.Series[bool]:
    """Whether each number is the paper's own and was compared."""
    return (numbers["formulation"] == "") & numbers["status"].isin([DIFFERS, NOT_SHOWN])


def _test(name: str, numbers: ComparedNumbers, results: ComparisonInputs) -> dict[str, Any]:
    """The test of one table's compared numbers."""
    limits = results.rules.limits
    frame = numbers.frame
    difference = float(frame["difference"].mean())
    own_std = std_of_mean(numbers.replicates, frame["std"].to_numpy(np.float64))
    paper_std = std_of_mean(numbers.replicates, numbers.paper_std)
    std = float(np.hypot(own_std, paper_std))
    half_width = normal_quantile((1 + results.study.evaluation.confidence) / 2) * std
    z = normal_quantile(1 - limits["level"] / 2)
    return {
        "table": name,
        "difference": difference,
        "low": difference - half_width,
        "high": difference + half_width,
        "std": std,
        "detectable": float(smallest_detectable(own_std, paper_std, z, limits["power"])),
        "p": float(2 * ndtr(-abs(difference) / std)),
        "numbers": len(frame),
        "n": _question_count(frame),
    }


def _question_count(numbers: pd.DataFrame) -> int:
    """How many questions a table's numbers rest on: a mean's are those of its datasets."""
    counts = numbers.groupby("dataset")["n"].max()
    of_datasets = counts.drop(MEAN, errors="ignore").sum()
    return int(max(of_datasets, counts.get(MEAN, 0)))


def std_of_mean(replicates: npt.ArrayLike, std: Floats) -> float:
    """The standard deviation of the mean of K numbers that move together as their replicates do.

    ``replicates`` [K, resamples]: of numbers of the same questions; undefined resamples (NaN) are
    taken as no move. ``std`` [K]: how far each number moves. One whose replicates are all equal, as
    the accuracy of answers that are all right, is taken as independent of the others.
    """
    drawn = np.asarray(replicates, dtype=np.float64)
    moves = np.nanmax(drawn, axis=1) - np.nanmin(drawn, axis=1) > TIE
    moving = drawn[moves]
    centred = moving - np.nanmean(moving, axis=1, keepdims=True)
    scale = std[moves] / np.nanstd(moving, axis=1, ddof=1)
    of_moving = (scale @ np.nan_to_num(centred)).std(ddof=1)
    of_others = np.linalg.norm(std[~moves])
    return float(np.hypot(of_moving, of_others) / len(std))
