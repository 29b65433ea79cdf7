"""ROUGE-L: what stands in for the cross-encoder where none can be had (D18)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from beamuq.methods.rouge import rouge_l
from beamuq.scorers.encoder_model import Counts
from beamuq.scorers.scorer_protocol import Pair, PairScores


class Lexical:
    """ROUGE-L F-measure of stemmed words: symmetric, in [0, 1]; no model, no meaning."""

    def __init__(self) -> None:
        self.counts = Counts(0, 0, 0)

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """ROUGE-L of each pair; each unordered pair is computed once."""
        unordered = [(min(pair), max(pair)) for pair in pairs]
        known = {pair: rouge_l(*pair) for pair in dict.fromkeys(unordered)}
        self.counts = Counts(len(pairs), len(known), len(known))
        return PairScores(entail=np.array([known[pair] for pair in unordered], dtype=np.float64))
