"""Which numbers can be log-probabilities, wherever rows say them."""

from __future__ import annotations

ABOVE_ZERO = 1e-6  # a sum of someone's rounded log-probabilities may exceed 0 by so much
LEAST_LOGPROB = -1e9  # in nats; far below any text's, and far above where float64 overflows
NO_LOG_PROBABILITY = "must be a finite natural logarithm of a probability, at most 0"


def is_log_probability(value: float) -> bool:
    """Whether a number can be the natural log of a probability; NaN and infinities cannot."""
    return LEAST_LOGPROB <= value <= ABOVE_ZERO
