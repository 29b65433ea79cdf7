"""The columns of scores, as ``score`` gives and writes them: what each holds."""

from __future__ import annotations

from collections.abc import Mapping

SCORE_COLUMNS: Mapping[str, str] = {
    "id": "the question's",
    "method": "whose score it is",
    "variant": (
        "multinomial: over samples; beamsearch: over beams; empty: of a method in one form"
    ),
    "setting": "a further formulation of the method, mostly empty",
    "value": "the score, higher = more uncertain; missing where there is none",
    "low": (
        "lower end of the certified interval of what the score would be under the model's whole "
        "distribution; missing where that is not known, and where the similarity cut texts"
    ),
    "high": "its upper end",
    "confidence": (
        "in [0, 1]: the probability where the score is −log of one, 1 − value where it lies in "
        "[0, 1]; missing for other methods. No calibrated probability of being right"
    ),
    "range": "which values the score can have",
    "direction": "higher = more uncertain",
    "similarity": "by which texts were compared",
    "reason": "why there is no value; else empty",
    "note": "what to know of the value; mostly empty",
    "candidates": "how many samples or beams it was scored over; 0: the answer alone",
    "scored_with": "the settings that values depend on, in JSON",
    "version": "beamuq's",
}
"""In their order, those of every row; behind them labels of the rows, where a row has them."""
