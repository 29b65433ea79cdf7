"""How far two lists of next tokens are apart, and how far those of one server may be."""

from __future__ import annotations

from collections.abc import Mapping

LEAST_TOLERANCE = 1e-4
"""nats that lists of one server may be apart whatever its noise: they are rounded."""


def tolerance(noise: float) -> float:
    """nats by which lists of one server may differ: ten times its noise, and rounding."""
    return max(10 * noise, LEAST_TOLERANCE)


def distance(one: Mapping[int, float], other: Mapping[int, float]) -> float:
    """The largest difference, in nats, of two lists of one distribution: log p by token.

    A token that one list lacks has at most the log p of its last one.
    """
    largest = 0.0
    for mine, theirs in ((one, other), (other, one)):
        least = min(theirs.values(), default=0.0)
        for token, logprob in mine.items():
            counterpart = theirs.get(token, min(logprob, least))
            if logprob != counterpart:
                largest = max(largest, abs(logprob - counterpart))
    return largest
