"""Scorers that read both texts at once: NLI classifiers (DeBERTa-MNLI) and similarity regressors (RoBERTa STS)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beamuq.array_types import Floats
from beamuq.errors import BeamUQError
from beamuq.models.load_model import load_tokenizer, load_whole
from beamuq.models.model_folder import check_folder, model_identity
from beamuq.scorers.packed_encoder import PackedEncoder, Values
from beamuq.scorers.scorer_protocol import Pair, PairScores

if TYPE_CHECKING:
    import torch

CLASSES = ("entail", "neutral", "contradict")


class _PairClassifier(PackedEncoder):
    """A sequence classifier over pairs of texts."""

    def __init__(self, folder: Path, *, dtype: torch.dtype, device: torch.device, cache: Path | None = None) -> None:
        from transformers import AutoModelForSequenceClassification

        check_folder(folder)
        model = load_whole(AutoModelForSequenceClassification, folder, dtype=dtype, device=device)
        self.model = model.to(device=device, dtype=dtype)  # DeBERTa's biases come out in float32 whatever was asked
        super().__init__(
            self.model,
            load_tokenizer(folder),
            model_identity(folder),
            dtype=dtype,
            device=device,
            cache=cache,
            width=int(self.model.config.num_labels),
            output="logits",
            label="pairs",
        )

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Logits, (B, classes)."""
        logits: torch.Tensor = self.model(**inputs).logits
        return logits

    def logits(self, pairs: Sequence[Pair]) -> Values:
        """Logits of each pair: float32 of shape (P, classes)."""
        return self.values(self.encoding.pair_rows(pairs))


class NLI(_PairClassifier):
    """Natural language inference: softmax over three classes, no question prepended.

    Which logit is which class is read from the checkpoint's config, never assumed.

    Raises BeamUQError if the config does not name exactly these three classes.
    """

    def __init__(self, folder: Path, *, dtype: torch.dtype, device: torch.device, cache: Path | None = None) -> None:
        super().__init__(folder, dtype=dtype, device=device, cache=cache)
        self.columns = class_columns(self.model.config, folder)

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """P(class | premise, hypothesis) of each pair, in [0, 1]; the three sum to 1."""
        probabilities = softmax(self.logits(pairs))
        return PairScores(*(probabilities[:, self.columns[name]] for name in CLASSES))


class CrossEncoder(_PairClassifier):
    """Semantic textual similarity: one logit through a sigmoid. Not symmetric by construction.

    Raises BeamUQError if the checkpoint has other than one output.
    """

    def __init__(self, folder: Path, *, dtype: torch.dtype, device: torch.device, cache: Path | None = None) -> None:
        super().__init__(folder, dtype=dtype, device=device, cache=cache)
        if self.model.config.num_labels != 1:
            count = self.model.config.num_labels
            raise BeamUQError(f"{folder}: a cross-encoder has one output, this has {count}; use kind: nli for classes")

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Similarity of each pair, in (0, 1)."""
        logits = self.logits(pairs)[:, 0].astype(np.float64)
        return PairScores(entail=1.0 / (1.0 + np.exp(-logits)))


def class_columns(config: Any, folder: Path) -> dict[str, int]:
    """Which column of the logits is ``entail``, ``neutral`` and ``contradict``, by the config's own label names.

    Raises BeamUQError if the names are not those three.
    """
    names = {int(column): str(label).lower() for column, label in config.id2label.items()}
    columns_of = {name: [column for column, label in names.items() if label.startswith(name)] for name in CLASSES}
    if len(names) != len(CLASSES) or any(len(columns) != 1 for columns in columns_of.values()):
        text = ", ".join(names[column] for column in sorted(names))
        raise BeamUQError(f"{folder}/config.json: id2label: {text} are not entailment, neutral, contradiction; fix it")
    return {name: columns[0] for name, columns in columns_of.items()}


def softmax(logits: Values) -> Floats:
    """Softmax over the last axis in float64: (P, C) to (P, C)."""
    shifted = logits.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    probabilities: Floats = exponentials / exponentials.sum(axis=1, keepdims=True)
    return probabilities
