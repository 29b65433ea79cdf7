"""Embedding cosine: a BERT body, mean pooling over the text's tokens, unit length (all-MiniLM-L6-v2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from beamuq.array_types import Floats
from beamuq.errors import reading
from beamuq.models.load_model import load_tokenizer, load_whole
from beamuq.models.model_folder import check_folder, model_identity
from beamuq.scorers.packed_encoder import PackedEncoder
from beamuq.scorers.scorer_protocol import Pair, PairScores

if TYPE_CHECKING:
    import torch

BLOCK = 4096  # pairs whose vectors are held at a time: those of all pairs are gigabytes


class Embedding(PackedEncoder):
    """s = max(0, cos) of two sentence embeddings, symmetric, 1 for identical texts up to rounding.

    Not entailment: blind to direction, and soft on negation and numbers.

    Raises BeamUQError if the folder is not a whole encoder.
    """

    def __init__(self, folder: Path, *, dtype: torch.dtype, device: torch.device, cache: Path | None = None) -> None:
        from transformers import AutoModel

        check_folder(folder)
        self.model = load_whole(AutoModel, folder, dtype=dtype, device=device)
        super().__init__(
            self.model,
            load_tokenizer(folder),
            model_identity(folder),
            dtype=dtype,
            device=device,
            cache=cache,
            width=int(self.model.config.hidden_size),
            output="mean-pooled",
            label="texts",
            longest=_trained_length(folder),
        )

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The mean of the hidden states over each row's tokens, (B, width)."""
        hidden = self.model(**inputs).last_hidden_state.float()
        weights = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)  # [B, L, 1]
        pooled: torch.Tensor = (hidden * weights).sum(dim=1) / weights.sum(dim=1)
        return pooled

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit vectors of shape (T, width), float64."""
        vectors = self.values(self.encoding.single_rows(texts)).astype(np.float64)
        units: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return units

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Cosine of each pair, in [0, 1]; each distinct text is embedded once."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = self.embed(texts)
        position = {text: i for i, text in enumerate(texts)}
        rows = np.array([[position[premise], position[hypothesis]] for premise, hypothesis in pairs]).reshape(-1, 2)
        blocks = (rows[start : start + BLOCK].T for start in range(0, len(rows), BLOCK))
        cosines = [(vectors[first] * vectors[second]).sum(axis=1) for first, second in blocks]
        return PairScores(entail=np.clip(np.concatenate([np.empty(0), *cosines]), 0.0, 1.0))


def _trained_length(folder: Path) -> int | None:
    """The limit in tokens that a sentence encoder was trained with, where its folder names one."""
    path = folder / "sentence_bert_config.json"
    if not path.is_file():
        return None
    with reading(path, "a file that names max_seq_length", "restore it or fetch again"):
        return int(json.loads(path.read_text(encoding="utf-8"))["max_seq_length"])
