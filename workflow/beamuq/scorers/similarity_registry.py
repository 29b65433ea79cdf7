"""The scorers that a study can name by kind; a new one is added here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.scorers.embedding_cosine import Embedding
from beamuq.scorers.encoder_model import Counts
from beamuq.scorers.nli_cross_encoder import NLI, CrossEncoder
from beamuq.scorers.rouge_l import Lexical
from beamuq.scorers.scorer_protocol import Scorer

if TYPE_CHECKING:
    import torch


class CountingScorer(Scorer):
    """A scorer that also tells how much work its last call was."""

    counts: Counts


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
    memo: Path | None = None,
) -> CountingScorer:
    """A scorer of a registered kind, or of one's own: ``module:attribute``, called as the registered ones are.

    Parameters
    ----------
    folder
        The model's folder; None for a kind that loads none: it is then called without arguments.
    memo
        Root folder of the memo that survives between jobs; None: no memo.

    Raises
    ------
    BeamUQError
        If the kind is unknown, or a folder is missing or too many.
    """
    make = plugins.find("scorer kind", kind, SCORERS)
    if kind in SCORERS and (folder is None) != (kind in WITHOUT_MODEL):
        raise BeamUQError(f"scorer kind {kind!r}: {'needs --model' if folder is None else 'loads no model'}")
    scorer: CountingScorer = make() if folder is None else make(folder, dtype=dtype, device=device, memo=memo)
    return scorer
