"""Whether new scores are those that were calibrated on, all or a part, judged by equal values.

A calibration keeps scores, no ids: that an answer was calibrated on is seen by a score that is
equal to the last digit. Where many values are possible that is no chance. Where few are, as of ten
samples compared by their words, equal values say little, and only the whole is told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from beamuq.array_types import Floats, Ints

LEAST_OVERLAP_P = 0.01
"""p below which so many new scores that were calibrated on are said to be no chance."""
SINGLES_PER_REPEATED = 4
"""Values calibrated on once, for each that repeats, from which a part of them is judged."""
MORE_BY_CHANCE = 3
"""How many times as often as of answers like the calibration's others may have its rare values."""


@dataclass(frozen=True)
class KnownScores:
    """How many new scores are among those calibrated on, 0 where that may be chance.

    ``all_calibrated``: every score that was calibrated on is among them, as often as it was given.
    """

    count: int = 0
    all_calibrated: bool = False


def known_scores(values: Floats, times: Ints, new_scores: Floats) -> KnownScores:
    """Look for the scores calibrated on among new ones [N].

    ``values`` [V], each once, were given ``times`` [V] times.
    """
    if _contains_all(values, times, new_scores):
        return KnownScores(int(times.sum()), all_calibrated=True)
    return KnownScores(_part(values, times, new_scores))


def _contains_all(values: Floats, times: Ints, new_scores: Floats) -> bool:
    """Whether all scores calibrated on are among the new ones, which is no chance.

    Of the same number of scores it is no chance in any case. Else each value has as many new scores
    by chance with a binomial probability. The counts of a multinomial are negatively associated, so
    that all have as many is at most as probable as the product (Joag-Dev and Proschan, 1983).
    """
    from scipy.special import bdtrc  # ask imports this module too, and needs none of it

    n = int(times.sum())
    new_values, new_times = np.unique(new_scores, return_counts=True)
    counts = dict(zip(new_values.tolist(), new_times.tolist(), strict=True))
    as_often = [counts.get(value, 0) for value in values.tolist()]
    if np.any(np.array(as_often) < times):
        return False
    if len(new_scores) == n:
        return True
    by_chance = np.where(times == 1, _chance_of_a_single(times), times / n)
    at_least_as_often = bdtrc(times - 1, len(new_scores), by_chance)
    return bool(np.prod(at_least_as_often) < LEAST_OVERLAP_P)


def _part(values: Floats, times: Ints, new_scores: Floats) -> int:
    """How many new scores are among the calibration's; 0 where that may be chance.

    Judged by the values that were calibrated on once, where these are most.
    """
    from scipy.special import bdtrc

    singles = values[times == 1]
    repeated = int((times > 1).sum())
    seen_once = int(np.isin(new_scores, singles).sum())
    if not seen_once or len(singles) < SINGLES_PER_REPEATED * repeated:
        return 0
    by_chance = min(1.0, len(singles) * _chance_of_a_single(times))
    p = bdtrc(seen_once - 1, len(new_scores), by_chance)
    return int(np.isin(new_scores, values).sum()) if p < LEAST_OVERLAP_P else 0


def _chance_of_a_single(times: Ints) -> float:
    """With which probability a new score is by chance one that was calibrated on once.

    All n₁ of these together have about 2 n₂ / n (Good and Turing), n₂ the values that occur twice
    among the n, of answers like the calibration's; counted is one pair more than was seen. Answers
    a little harder have more of the rare values, so some times as much is allowed for, at most
    1 / n each.
    """
    n = int(times.sum())
    singles = int((times == 1).sum())
    pairs = int((times == 2).sum())
    together = MORE_BY_CHANCE * (2 * pairs + 2) / (n + 1)
    return min(1 / n, together / max(singles, 1))
