"""A threshold under which answers are shown, with a guarantee on the share of wrong ones.

Fixed-sequence testing of exact binomial tails: Angelopoulos, Bates, Candès, Jordan & Lei, *Learn
then Test* (2021); Geifman & El-Yaniv (2017) is the older form, which corrects for a bisection
instead. The thresholds, their order and the first one come from a fifth of the units, whose labels
are not looked at; each is then tested on the other four fifths.

Units are independent: a unit is a question, or a group of them (a story, a user), of which one
question drawn by seed counts. The guarantee is of answers that come as the calibration's did, one
of each group.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pandas as pd
from pydantic import Field

from beamuq.array_types import Bools, Counts, Floats, Ints
from beamuq.evaluation.bootstrap import MOST_UNDEFINED

Share = Annotated[float, Field(ge=0, le=1)]
Inside = Annotated[float, Field(gt=0, lt=1)]
FOR_THRESHOLDS = 5  # one unit of so many gives the thresholds
MOST_THRESHOLDS = 100
# of fewer answers one more error decides, which at a large risk ends the sequence at once
FIRST_SHOWN = 30


@dataclass(frozen=True)
class GuaranteedThreshold:
    """A threshold with a guarantee on the share of wrong answers among the shown ones.

    Answers with a score ≤ ``value`` may be shown; None: no threshold has the guarantee, and
    ``note`` says why.

    With probability ≥ ``confidence`` over the calibration's units, at most a share ``risk`` of
    shown answers is wrong; for all of ``tried`` thresholds sought on the same answers together.
    """

    value: Annotated[float | None, Field(description="scores up to it are shown; null: nothing is")]
    risk: Annotated[
        Inside, Field(description="the largest share of wrong answers among the shown ones")
    ]
    confidence: Annotated[Inside, Field(description="with which that holds, over calibrations")]
    tried: Annotated[int, Field(ge=1, description="thresholds sought on the same answers")]
    units: Annotated[int, Field(ge=0, description="independent questions or groups")]
    tested: Annotated[
        int, Field(ge=0, description="of them: those not spent on choosing thresholds")
    ]
    shown: Annotated[
        int,
        Field(
            ge=0,
            description=(
                "of the tested: at or below the threshold; without one: below the first tested"
            ),
        ),
    ]
    wrong: Annotated[int, Field(ge=0, description="of the shown")]
    upper: Annotated[
        Share,
        Field(
            description=(
                "one-sided Clopper–Pearson bound on the risk at the threshold, at the corrected "
                "confidence"
            )
        ),
    ]
    least: Annotated[
        int, Field(ge=1, description="shown answers that the guarantee takes without an error")
    ]
    note: Annotated[str, Field(description="why there is no threshold; else empty")] = ""


def guaranteed_threshold(
    scores: npt.ArrayLike,
    wrong: npt.ArrayLike,
    groups: Sequence[str],
    *,
    risk: float,
    confidence: float,
    tried: int = 1,
    seed: int = 0,
) -> GuaranteedThreshold:
    """The largest threshold reached before the first failure.

    Testing starts where about 2 · ``least`` would be shown, and no fewer than 30 or half of the
    tested.

    scores, wrong, groups [N]: finite, higher = more uncertain; whether the answer is wrong; what is
    independent of the others (the question itself, or its story). Equal scores are shown or
    withheld together. risk, confidence: α and 1 − δ, both inside (0, 1). tried: how many thresholds
    (methods × forms × risks) are sought on these answers, to choose among or report together; each
    is tested at δ / ``tried``. seed: of which units give the thresholds, and which question of a
    group counts; the draw depends on the order of rows.
    """
    level = (1 - confidence) / tried
    least = least_shown(risk, level)
    for_thresholds, for_tests = split_units(groups, seed)
    nothing = GuaranteedThreshold(
        value=None,
        risk=risk,
        confidence=confidence,
        tried=tried,
        units=len(for_thresholds) + len(for_tests),
        tested=len(for_tests),
        shown=0,
        wrong=0,
        upper=1.0,
        least=least,
    )
    if len(for_tests) < least or not len(for_thresholds):
        unit_name = "questions" if nothing.units == len(groups) else "groups"
        return replace(nothing, note=_too_few(nothing, unit_name))
    sequence = _tests_in_sequence(
        np.asarray(scores, dtype=np.float64),
        np.asarray(wrong, dtype=bool),
        for_thresholds,
        for_tests,
        least,
    )
    return _outcome(nothing, sequence, level)


@dataclass(frozen=True)
class _TestSequence:
    """Thresholds [T], rising, with how many tested answers each shows and how many are wrong.

    ``wrong_share``: of all tested answers.
    """

    thresholds: Floats
    shown: Ints
    wrong: Ints
    wrong_share: float


def _tests_in_sequence(
    scores: Floats, wrong: Bools, for_thresholds: Ints, for_tests: Ints, least: int
) -> _TestSequence:
    """What is tested of scores and errors [N], at the positions that :func:`split_units` gives."""
    tested = len(for_tests)
    expected = max(2 * least, min(FIRST_SHOWN, tested // 2))
    thresholds = thresholds_to_test(scores[for_thresholds], tested, expected)
    order = for_tests[np.argsort(scores[for_tests])]
    shown = np.searchsorted(scores[order], thresholds, side="right")
    wrong_among_first = np.append(0, np.cumsum(wrong[order]))
    return _TestSequence(
        thresholds, shown, wrong_among_first[shown], float(wrong[for_tests].mean())
    )


def _outcome(
    nothing: GuaranteedThreshold, sequence: _TestSequence, level: float
) -> GuaranteedThreshold:
    """The threshold before the first failure, or why there is none; ``nothing`` holds the rest."""
    from scipy.special import bdtr  # as in upper_bound

    passed = bdtr(sequence.wrong, sequence.shown, nothing.risk) <= level
    count = len(passed) if passed.all() else int(np.argmin(passed))
    last = max(count - 1, 0)
    shown = int(sequence.shown[last])
    wrong = int(sequence.wrong[last])
    result = replace(nothing, shown=shown, wrong=wrong, upper=upper_bound(wrong, shown, level))
    if count:
        return replace(result, value=float(sequence.thresholds[last]))
    return replace(result, note=_none_passes(result, sequence.wrong_share))


def _too_few(result: GuaranteedThreshold, unit_name: str) -> str:
    return (
        f"too few: {result.tested} {unit_name} to test on, and even without an error "
        f"{result.least} shown answers are needed; give at least {units_needed(result.least)} "
        f"{unit_name} in all, better some times as many"
    )


def _none_passes(result: GuaranteedThreshold, wrong_share: float) -> str:
    reason = (
        f"no threshold passes: of the {result.shown} most certain answers {result.wrong} are "
        f"wrong; {result.least} shown answers without an error would be needed, more with errors; "
        f"stricter thresholds, with fewer than {result.shown} shown, were not tested"
    )
    if result.shown and result.wrong / result.shown > wrong_share:
        reason += "; they are wrong more often than the rest, so more questions will not help"
    else:
        reason += "; more questions may help, as a smaller share of them is shown first"
    return reason


def least_shown(risk: float, level: float) -> int:
    """How many shown answers without an error reject a risk above ``risk`` at ``level``.

    The least m with (1 − risk)^m ≤ level.
    """
    from scipy.special import bdtr  # as in upper_bound

    m = max(1, math.ceil(math.log(level) / math.log1p(-risk)))
    if m > 1 and bdtr(0, m - 1, risk) <= level:  # the quotient was rounded up past a whole number
        return m - 1
    return m


def units_needed(least: int) -> int:
    """How many questions or groups leave ``least`` to test on; a fifth gives the thresholds."""
    return max(FOR_THRESHOLDS, least + (least - 1) // (FOR_THRESHOLDS - 1))


def upper_bound(wrong: int, shown: int, level: float) -> float:
    """The one-sided Clopper–Pearson bound on a share at confidence 1 − ``level``.

    1 where all are wrong, or none is shown.
    """
    # ask imports this module, and needs none of it without a calibration: a tenth of a second
    from scipy.special import betaincinv

    if wrong >= shown:
        return 1.0
    return float(betaincinv(wrong + 1, shown - wrong, 1 - level))


def split_units(groups: Sequence[str], seed: int) -> tuple[Ints, Ints]:
    """Positions of one question a group: those that give the thresholds, a fifth; the tested."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(groups))
    _, first = np.unique(np.asarray(groups)[order], return_index=True)
    units = generator.permutation(order[first]).astype(np.int64)
    cut = len(units) // FOR_THRESHOLDS
    return units[:cut], units[cut:]


def thresholds_to_test(scores: Floats, tested: int, expected: int) -> Floats:
    """Quantiles of ``scores``, rising, each once.

    From the first below which ``expected`` of ``tested`` answers would lie. Where no quantile lets
    so many through, the largest alone.
    """
    levels = np.arange(1, MOST_THRESHOLDS + 1) / MOST_THRESHOLDS
    quantiles = np.unique(np.quantile(scores, levels, method="inverted_cdf"))
    below = np.searchsorted(np.sort(scores), quantiles, side="right") / len(scores) * tested
    first = min(int(np.searchsorted(below, expected)), len(quantiles) - 1)
    return quantiles[first:]


def risk_coverage(
    uncertainty: Floats,
    wrong: Bools,
    groups: Sequence[str],
    counts: Counts,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Of the answers up to each distinct uncertainty, how many are shown, and wrong of these.

    uncertainty, wrong, groups [N]. Groups, such as stories, count alike, whatever their number of
    questions; counts [N, R] are their resamples. Columns ``score``, ``shown`` (share, to 1),
    ``wrong`` (share of the shown), ``low`` and ``high`` (its band; NaN where more than 1 % of
    resamples show nothing).
    """
    _, group_of_question, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    weights = np.column_stack((np.ones(len(groups)), counts)) / sizes[group_of_question, None]
    order = np.argsort(uncertainty, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(uncertainty[order]) > 0, True))
    shown = np.cumsum(weights[order], axis=0)[ends]
    failed = np.cumsum((weights * wrong[:, None])[order], axis=0)[ends]
    risk = np.divide(failed, shown, out=np.full_like(shown, np.nan), where=shown > 0)
    low, high = _band(risk, confidence)
    return pd.DataFrame(
        {
            "score": uncertainty[order][ends],
            "shown": shown[:, 0] / shown[-1, 0],
            "wrong": risk[:, 0],
            "low": low,
            "high": high,
        }
    )


def _band(risk: Floats, confidence: float) -> tuple[Floats, Floats]:
    """[K] ends of the interval of a risk [K, 1 + R], whose first column is the data."""
    defined = np.isnan(risk).mean(axis=1) <= MOST_UNDEFINED
    band = np.full((2, len(risk)), np.nan)
    quantiles = [(1 - confidence) / 2, (1 + confidence) / 2]
    band[:, defined] = np.nanquantile(risk[defined, 1:], quantiles, axis=1)
    return band[0], band[1]
