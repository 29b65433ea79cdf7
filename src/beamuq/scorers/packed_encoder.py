"""Run encoders over packed batches, so that a row's result does not depend on its batch.

Rows (one text or one pair each, as token ids) are made distinct, sorted by length and run in
batches of a shape that follows from the row's own length alone: lengths are rounded up to a
multiple of 8, the number of rows is the power of two that fills the token budget, on a CPU without
a cache a smaller one, and places left over are copies of the first. The same row is then computed
on the same shape whatever its company: equal to 1e-5 anywhere, and bit for bit where the matrix
kernels treat all places of a batch alike. Where there is a cache, each batch checks that on its
first row, which also has the last place; where it fails no cache is used for rows of that length,
so that the same file gives the same bytes whatever was cached.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np

from beamuq.errors import BeamUQError
from beamuq.progress import progress_bar
from beamuq.scorers.scored_pair_cache import ScoredPairCache, Values

if TYPE_CHECKING:
    import torch
    from tqdm import tqdm

Truncation = Literal["longest_first", "only_first"]
BLOCK = 4096  # texts encoded at a time
STEP = 8  # lengths are rounded up to a multiple of it
TOKENS = {"cpu": 1024, "cuda": 32_768}  # padded tokens of a batch
# on a CPU without a cache, of a batch: tokens, or so many rows; a person waits for few texts
FEW_TOKENS = 256
FEW_ROWS = 12


@dataclass(frozen=True)
class EncoderInput:
    """One input of an encoder: token ids with specials; token types, if the model has them.

    ``is_cut``: its texts have more tokens than these. Two rows of the same tokens are one row.
    """

    ids: tuple[int, ...]
    types: tuple[int, ...] = ()
    is_cut: bool = field(default=False, compare=False)

    def key(self) -> bytes:
        """The 16 bytes by which the cache knows this row."""
        packed = np.asarray([len(self.ids), *self.ids, *self.types], np.int32).tobytes()
        return hashlib.blake2b(packed, digest_size=16).digest()


class Encoding:
    """The rows of texts or of pairs, as the tokenizer encodes them, cut to ``max_length``."""

    def __init__(self, tokenizer: Any, *, max_length: int, with_types: bool) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.with_types = with_types

    def single_rows(self, texts: Sequence[str]) -> list[EncoderInput]:
        """One row per text."""
        return self._rows([(text,) for text in texts], "longest_first")

    def pair_rows(
        self, pairs: Sequence[tuple[str, str]], truncation: Truncation = "longest_first"
    ) -> list[EncoderInput]:
        """One row per pair.

        ``only_first`` shortens the second text only if it alone is too long, and then both.
        """
        distinct = list(dict.fromkeys(pairs))
        cut_both = distinct
        cut_first: list[tuple[str, str]] = []
        if truncation == "only_first" and distinct:
            too_long = self._has_long_second(distinct)
            cut_both = [pair for pair, is_so in zip(distinct, too_long, strict=True) if is_so]
            cut_first = [pair for pair, is_so in zip(distinct, too_long, strict=True) if not is_so]
        rows = dict(zip(cut_both, self._rows(cut_both, "longest_first"), strict=True))
        rows |= zip(cut_first, self._rows(cut_first, "only_first"), strict=True)
        return [rows[pair] for pair in pairs]

    def _has_long_second(self, pairs: Sequence[tuple[str, str]]) -> list[bool]:
        """Whether the second text of each pair leaves no room for the first."""
        room = self.max_length - self.tokenizer.num_special_tokens_to_add(pair=True)
        seconds = [second for _, second in pairs]
        coded = self.tokenizer(seconds, add_special_tokens=False, verbose=False)
        return [len(ids) >= room for ids in coded["input_ids"]]

    def _rows(self, texts: Sequence[tuple[str, ...]], truncation: Truncation) -> list[EncoderInput]:
        options = {
            "truncation": truncation,
            "max_length": self.max_length,
            "return_token_type_ids": True,
        }
        rows = []
        for start in range(0, len(texts), BLOCK):
            columns = map(list, zip(*texts[start : start + BLOCK], strict=True))
            coded = self.tokenizer(*columns, **options, return_attention_mask=False, verbose=False)
            are_cut = self._are_cut(texts[start : start + BLOCK], coded["input_ids"])
            columns_of_rows = (coded["input_ids"], coded["token_type_ids"], are_cut)
            for ids, types, is_cut in zip(*columns_of_rows, strict=True):
                kept_types = tuple(types) if self.with_types else ()
                rows.append(EncoderInput(tuple(ids), kept_types, is_cut))
        return rows

    def _are_cut(
        self, texts: Sequence[tuple[str, ...]], ids_of_texts: Sequence[Sequence[int]]
    ) -> list[bool]:
        """Whether each row's texts have more tokens than its ids, which may just fit."""
        full = [place for place, ids in enumerate(ids_of_texts) if len(ids) >= self.max_length]
        are_cut = [False] * len(ids_of_texts)
        if full:
            columns = map(list, zip(*(texts[place] for place in full), strict=True))
            whole = self.tokenizer(*columns, return_attention_mask=False, verbose=False)
            for place, ids in zip(full, whole["input_ids"], strict=True):
                are_cut[place] = len(ids) > len(ids_of_texts[place])
        return are_cut


def max_length(model: Any, tokenizer: Any) -> int:
    """The most tokens that an encoder takes, special ones included."""
    config = model.config
    limit = int(config.max_position_embeddings)
    if config.model_type in ("roberta", "xlm-roberta", "camembert"):
        limit -= config.pad_token_id + 1  # its positions are counted from behind the padding id
    return min(limit, int(tokenizer.model_max_length))


class PackedEncoder(ABC):
    """A network with its tokenizer and cache; :meth:`forward` says what the network gives.

    ``body`` reads the tokens: its config says how long a row may be, beside ``longest``. A row gets
    ``width`` values. The cache, in a folder of ``cache`` that survives between jobs, is of a
    checkpoint's ``identity`` (:func:`~beamuq.models.model_folder.model_identity`) and of further
    ``details``. ``scored``: how many rows the last call ran.
    """

    output = "logits"  # which values these are, part of the cache's key
    label = "pairs"  # what rows are called

    def __init__(
        self,
        body: Any,
        tokenizer: Any,
        identity: dict[str, str],
        *,
        dtype: torch.dtype,
        device: torch.device,
        cache: Path | None = None,
        width: int,
        longest: int | None = None,
        details: Mapping[str, str] | None = None,
    ) -> None:
        limit = max_length(body, tokenizer)
        # types tell a pair's two texts apart
        with_types = int(getattr(body.config, "type_vocab_size", 0) or 0) > 1
        self.encoding = Encoding(
            tokenizer, max_length=min(limit, longest or limit), with_types=with_types
        )
        self.scored = 0
        self.width = width
        self.device = device
        self.pad = int(tokenizer.pad_token_id or 0)  # behind a row's end, masked: any will do
        self.cache = None
        if cache is not None:
            key = fingerprint(
                identity, dtype=str(dtype), device=device, output=self.output, **(details or {})
            )
            self.cache = ScoredPairCache(cache / key)

    @abstractmethod
    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The values of a batch, (B, width), from the network's arguments, each (B, L)."""

    def values(self, rows: Sequence[EncoderInput]) -> Values:
        """The values of each row, (len(rows), width) in float32.

        Each distinct row is run once, or found in the cache. Rows of one length are run together,
        the longest first: what does not fit into memory fails at once.

        Raises BeamUQError if the network gives a value that is not finite.
        """
        import torch

        distinct = list(dict.fromkeys(rows))
        keys = [row.key() for row in distinct]
        cached = self.cache.find(keys) if self.cache is not None else {}
        values = np.empty((len(distinct), self.width), np.float32)
        for index, value in cached.items():
            values[index] = value
        indices_by_length = _indices_by_length(distinct)
        self.scored = 0
        with (
            torch.inference_mode(),
            progress_bar(len(distinct) - len(cached), self.label, "row") as progress,
        ):
            call = _Call(distinct, keys, values, progress)
            for length in sorted(indices_by_length, reverse=True):
                indices = indices_by_length[length]
                self.scored += self._fill_in_length(call, length, indices, cached)
        if self.cache is not None:
            self.cache.flush()
        index_of_row = {row: index for index, row in enumerate(distinct)}
        return values[[index_of_row[row] for row in rows]]

    def _fill_in_length(
        self, call: _Call, length: int, indices: Sequence[int], cached: Mapping[int, Values]
    ) -> int:
        """Fill in the values of all rows of one length; returns how many rows were run.

        Rows in ``cached`` are not run. But where a row's value depends on its place in the batch,
        the result would depend on what was cached. Then all rows of this length are run without the
        cache.
        """
        not_cached = [index for index in indices if index not in cached]
        if not not_cached:
            return 0
        if self._fill_in(call, length, not_cached, self.cache):
            return len(not_cached)
        self._fill_in(call, length, indices, None)
        return len(indices)

    def _fill_in(
        self, call: _Call, length: int, indices: Sequence[int], cache: ScoredPairCache | None
    ) -> bool:
        """Run the rows at ``indices``, fill in their values and add these to the ``cache``.

        With a cache, the last place of each batch repeats its first row. False: these two got
        different values; the batch is not filled in, and no more are run.
        """
        import torch

        size = self._batch_rows(length)
        new = size if self.cache is None else max(1, size - 1)
        for start in range(0, len(indices), new):
            batch = list(indices[start : start + new])
            filled = batch + [batch[0]] * (size - len(batch))
            inputs = _tensors([call.rows[index] for index in filled], length, self.pad, self.device)
            out = self.forward(inputs)
            if cache is not None and not torch.equal(out[0], out[-1]):
                return False
            call.values[batch] = out.float().cpu().numpy()[: len(batch)]
            if not np.isfinite(call.values[batch]).all():
                raise BeamUQError(
                    f"{self.label}: the model gave a value that is not finite; use dtype float32"
                )
            if cache is not None:
                cache.add([call.keys[index] for index in batch], call.values[batch])
            call.progress.update(len(batch))
        return True

    def _batch_rows(self, length: int) -> int:
        """How many rows of a length a batch has: a power of two; few on a CPU without a cache."""
        size = 1 << max(0, (TOKENS[self.device.type] // length).bit_length() - 1)
        if self.cache is None and self.device.type == "cpu":
            return min(size, max(FEW_ROWS, FEW_TOKENS // length))
        return size


@dataclass(frozen=True)
class _Call:
    """A call of ``values``: distinct rows, their cache keys, their values so far, its progress."""

    rows: Sequence[EncoderInput]
    keys: Sequence[bytes]
    values: Values
    progress: tqdm[NoReturn]


def _indices_by_length(rows: Sequence[EncoderInput]) -> dict[int, list[int]]:
    """The indices of rows by their length, rounded up to a multiple of STEP."""
    indices_by_length: dict[int, list[int]] = {}
    for index, row in enumerate(rows):
        length = -(-len(row.ids) // STEP) * STEP
        indices_by_length.setdefault(length, []).append(index)
    return indices_by_length


def fingerprint(
    folder_identity: dict[str, str], *, dtype: str, device: torch.device, **details: Any
) -> str:
    """What a cached value depends on beside its row: checkpoint, arithmetic, machine, versions."""
    import torch

    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    kernels = (
        torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else str(torch.version.cuda)
    )
    facts = {
        "checkpoint": folder_identity["content"],
        "dtype": dtype,
        "machine": f"{device.type} {machine} {kernels}",
        "torch": torch.__version__,
        "transformers": importlib.metadata.version("transformers"),
        "batch": [STEP, TOKENS[device.type]],
        **details,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _tensors(
    rows: Sequence[EncoderInput], length: int, pad: int, device: torch.device
) -> dict[str, torch.Tensor]:
    import torch

    ids = np.full((len(rows), length), pad, np.int64)
    mask = np.zeros_like(ids)
    types = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        mask[i, : len(row.ids)] = 1
        types[i, : len(row.types)] = row.types
    arrays = {"input_ids": ids, "attention_mask": mask}
    if rows[0].types:
        arrays["token_type_ids"] = types
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
