"""The similarity scorers that a study can name by kind; add a new one here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.methods.rouge import rouge_l
from beamuq.scorers.embedding_cosine import Embedding
from beamuq.scorers.nli_cross_encoder import NLI, CrossEncoder
from beamuq.scorers.scorer_protocol import CountingScorer, Counts, Pair, PairScores

if TYPE_CHECKING:
    import torch


class Lexical:
    """ROUGE-L F-measure of stemmed words, the proxy for the cross-encoder where there is no model.

    Symmetric, in [0, 1]; no meaning.
    """

    def __init__(self) -> None:
        self.counts = Counts(0, 0, 0)

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """ROUGE-L of each pair; each unordered pair is computed once."""
        unordered = [(min(pair), max(pair)) for pair in pairs]
        scores = {pair: rouge_l(*pair) for pair in dict.fromkeys(unordered)}
        self.counts = Counts(len(pairs), len(scores), len(scores))
        return PairScores(entail=np.array([scores[pair] for pair in unordered], dtype=np.float64))


SCORERS: dict[str, Callable[..., Any]] = {
    "nli": NLI,
    "cross_encoder": CrossEncoder,
    "embedding": Embedding,
    "lexical": Lexical,
}
WITHOUT_MODEL = frozenset({"lexical"})


def load_scorer(
    kind: str,
    folder: Path | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    cache: Path | None = None,
) -> CountingScorer:
    """Load a scorer of a registered kind, or your own as ``module:attribute``, called like the registered ones.

    Parameters
    ----------
    folder
        The model's folder; None for a kind that loads none: it is then called without arguments.
    cache
        Root folder of the cache that survives between jobs; None: no cache.

    Raises
    ------
    BeamUQError
        If the kind is unknown, a folder is missing or too many, or your own scorer cannot be made.
    """
    make = plugins.find("scorer kind", kind, SCORERS)
    if kind in SCORERS and (folder is None) != (kind in WITHOUT_MODEL):
        raise BeamUQError(f"scorer kind {kind!r}: {'needs --model' if folder is None else 'loads no model'}")
    options: dict[str, Any] = {} if folder is None else {"dtype": dtype, "device": device, "cache": cache}
    scorer: CountingScorer = plugins.call(f"scorer kind {kind!r}", make, *([folder] if folder else []), **options)
    return scorer
