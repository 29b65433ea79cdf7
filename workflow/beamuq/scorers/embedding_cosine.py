"""Embedding cosine: a BERT body, mean pooling over the text's tokens, unit length (all-MiniLM-L6-v2)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from beamuq.errors import BeamUQError
from beamuq.models.causal_lm import load_tokenizer, load_whole
from beamuq.models.model_folder import check_folder
from beamuq.models.model_provenance import model_identity
from beamuq.scorers import encoder_model
from beamuq.scorers.scorer_protocol import Floats, Pair, PairScores

if TYPE_CHECKING:
    import torch


class Embedding:
    """s = max(0, cos) of two sentence embeddings, symmetric, 1 for identical texts up to rounding (D10, D18).

    Not entailment: blind to direction, and soft on negation and numbers.

    Raises
    ------
    BeamUQError
        If the folder is not a whole encoder.
    """

    def __init__(self, folder: Path, *, dtype: torch.dtype, device: torch.device, memo: Path | None = None) -> None:
        from transformers import AutoModel

        check_folder(folder)
        identity = model_identity(folder)
        self.tokenizer = load_tokenizer(folder)
        self.model = load_whole(AutoModel, folder, dtype=dtype, device=device)
        self.device = device
        self.encoding = encoder_model.Encoding(
            self.tokenizer,
            max_length=_length_limit(folder, encoder_model.max_length(self.model, self.tokenizer)),
            with_types=encoder_model.has_types(self.model),
        )
        self.memo = encoder_model.open_memo(memo, identity, dtype=str(dtype), device=device, output="mean-pooled")
        self.counts = encoder_model.Counts(0, 0, 0)

    def embed(self, texts: Sequence[str]) -> Floats:
        """Unit vectors of shape (T, width), float64."""
        values, self.counts = encoder_model.run(
            self.encoding.single_rows(texts),
            self._forward,
            pad=encoder_model.padding(self.tokenizer),
            width=int(self.model.config.hidden_size),
            device=self.device,
            memo=self.memo,
            label="texts",
        )
        if self.memo is not None:
            self.memo.flush()
        vectors = values.astype(np.float64)
        units: Floats = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return units

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Cosine of each pair, in [0, 1]; each distinct text is embedded once."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        vectors = self.embed(texts)
        position = {text: i for i, text in enumerate(texts)}
        first = vectors[[position[premise] for premise, _ in pairs]]
        second = vectors[[position[hypothesis] for _, hypothesis in pairs]]
        return PairScores(entail=np.clip((first * second).sum(axis=1), 0.0, 1.0))

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor, types: torch.Tensor | None) -> torch.Tensor:
        options = {} if types is None else {"token_type_ids": types}
        hidden = self.model(input_ids=ids, attention_mask=mask, **options).last_hidden_state.float()
        weights = mask.unsqueeze(-1).to(hidden.dtype)  # [B, L, 1]
        pooled: torch.Tensor = (hidden * weights).sum(dim=1) / weights.sum(dim=1)
        return pooled


def _length_limit(folder: Path, limit: int) -> int:
    """The shorter of the model's own limit and the one that a sentence encoder was trained with."""
    path = folder / "sentence_bert_config.json"
    if not path.is_file():
        return limit
    try:
        return min(limit, int(json.loads(path.read_text(encoding="utf-8"))["max_seq_length"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BeamUQError(f"{path}: names no max_seq_length; restore the file or fetch again") from error
