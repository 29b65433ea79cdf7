"""AlignScore from its published checkpoint: does the answer contain what the reference claims?

A RoBERTa body with three heads on its pooled output: binary (2), three-way (3) and regression (1).
Mode ``nli_sp`` uses the three-way head's first class, *aligned*: the context is cut into chunks of
sentences, the claim into sentences; the score is the mean over the claim's sentences of the maximum
over the context's chunks.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beamuq.array_types import Floats
from beamuq.errors import BeamUQError, reading
from beamuq.models.load_model import load_tokenizer
from beamuq.models.model_folder import check_folder, model_identity
from beamuq.scorers.packed_encoder import PackedEncoder
from beamuq.scorers.scorer_protocol import warn_of_cut_texts

if TYPE_CHECKING:
    import torch

BODY = "base_model."
HEAD = "tri_layer."
CLASSES = 3
ALIGNED = 0  # column of the three-way head
CHUNK_WORDS = 350
EMPTY = "(empty)"
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]]*\s+")


class AlignScore(PackedEncoder):
    """P(aligned) of (context, claim) pairs.

    ``checkpoint`` is the published ``.ckpt`` file, or the folder that holds it; ``backbone`` the
    folder with the body's config and tokenizer (roberta-large).

    Raises BeamUQError if the checkpoint is not one of AlignScore, or does not fit the backbone.
    """

    output = "tri_layer"
    label = "claims"

    def __init__(
        self,
        checkpoint: Path,
        backbone: Path,
        *,
        dtype: torch.dtype,
        device: torch.device,
        cache: Path | None = None,
    ) -> None:
        check_folder(backbone, weights=False)
        file = find_checkpoint(checkpoint)
        identity = model_identity(file.parent, every_file=True)
        body, head = _load(file, backbone)
        self.body = body.to(device=device, dtype=dtype)
        self.head = head.to(device=device, dtype=dtype)
        super().__init__(
            self.body,
            load_tokenizer(backbone),
            identity,
            dtype=dtype,
            device=device,
            cache=cache,
            width=CLASSES,
            details={"tokenizer": model_identity(backbone)["tokenizer"]},
        )

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Logits of the three-way head, (B, 3)."""
        logits: torch.Tensor = self.head(self.body(**inputs).pooler_output)
        return logits

    def score(self, contexts: Sequence[str], claims: Sequence[str]) -> Floats:
        """``nli_sp`` of each (context, claim), shape (P,), in [0, 1]."""
        pairs: list[tuple[str, str]] = []
        shapes: list[tuple[int, int]] = []  # of each claim: its sentences, the context's chunks
        for context, claim in zip(contexts, claims, strict=True):
            parts = chunks(context)
            statements = sentences(claim)
            shapes.append((len(statements), len(parts)))
            pairs += [(part, statement) for statement in statements for part in parts]
        aligned = self._aligned(pairs)
        scores = []
        start = 0
        for rows, columns in shapes:
            table = aligned[start : start + rows * columns].reshape(rows, columns)
            scores.append(table.max(axis=1).mean())
            start += rows * columns
        return np.array(scores, dtype=np.float64)

    def _aligned(self, pairs: Sequence[tuple[str, str]]) -> Floats:
        from scipy.special import softmax  # no step without such a model needs it

        rows = self.encoding.pair_rows(pairs, "only_first")
        cut = {pair: None for pair, row in zip(pairs, rows, strict=True) if row.is_cut}
        warn_of_cut_texts(
            "AlignScore",
            self.encoding.max_length,
            [part for part, _ in cut],
            len(dict.fromkeys(pairs)),
            "pairs of a part of an answer and a reference",
        )
        logits = self.values(rows).astype(np.float64)
        return np.asarray(softmax(logits, axis=1)[:, ALIGNED])


def sentences(text: str) -> list[str]:
    """Sentences of a text, split behind ``.``, ``!`` or ``?``; of a blank one ``(empty)``."""
    return [part for part in _SENTENCE_END.split(text.strip()) if part] or [EMPTY]


def chunks(context: str) -> list[str]:
    """A context in chunks of about 350 words, each of whole sentences, at least one."""
    parts = sentences(context)
    size = max(len(parts) // (len(context.split()) // CHUNK_WORDS + 1), 1)
    return [" ".join(parts[start : start + size]) for start in range(0, len(parts), size)]


def find_checkpoint(path: Path) -> Path:
    """The one ``.ckpt`` file of a folder, or the file itself.

    Raises BeamUQError if there is none, or more than one.
    """
    if path.is_file():
        return path
    checkpoints = sorted(path.glob("*.ckpt"))
    if len(checkpoints) != 1:
        raise BeamUQError(
            f"{path}: holds {len(checkpoints)} .ckpt files; AlignScore needs exactly one, fetch it "
            "again"
        )
    return checkpoints[0]


class _Ignored:
    """Replaces every object beside tensors that a trainer left in its checkpoint; does nothing."""

    def __init__(self, *_: object) -> None: ...

    def __setstate__(self, _: object) -> None: ...


def _stored(file: Path) -> Any:
    """A checkpoint's content: tensors, and `_Ignored` in place of objects that code would make."""
    import torch

    is_archive = zipfile.is_zipfile(file)  # older files can be read, but not left on the disk
    ignored = torch.serialization.get_unsafe_globals_in_checkpoint(file) if is_archive else []
    with torch.serialization.safe_globals([(_Ignored, name) for name in ignored]):
        return torch.load(file, map_location="cpu", weights_only=True, mmap=is_archive)


def _load(file: Path, backbone: Path) -> tuple[Any, Any]:
    """The body and the three-way head, in evaluation mode, all parameters from the checkpoint."""
    import torch
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig.from_pretrained(backbone)
    body: Any = RobertaModel(config)
    head = torch.nn.Linear(config.hidden_size, CLASSES)
    fix = f"fetch it again, or correct the backbone {backbone}"
    with reading(file, "a readable AlignScore checkpoint for its backbone", fix):
        state = _stored(file)["state_dict"]
        state.pop(f"{BODY}embeddings.position_ids", None)  # a buffer that older versions saved
        body.load_state_dict(_under(BODY, state))
        head.load_state_dict(_under(HEAD, state))
    return body.eval(), head.eval()


def _under(prefix: str, state: dict[str, Any]) -> dict[str, Any]:
    """The parameters whose names begin with ``prefix``, without it."""
    return {
        name.removeprefix(prefix): values
        for name, values in state.items()
        if name.startswith(prefix)
    }
