"""Run encoders over packed batches, so that a row's result does not depend on the rest of its
batch.

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
import json
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from beamuq.errors import BeamUQError, reading
from beamuq.io import atomic
from beamuq.progress import progress_bar

if TYPE_CHECKING:
    import torch

Values = NDArray[np.float32]
Truncation = Literal["longest_first", "only_first"]
FLUSH_SECONDS = 60.0
BLOCK = 4096  # texts encoded at a time
STEP = 8  # lengths are rounded up to a multiple of it
TOKENS = {"cpu": 1024, "cuda": 32_768}  # padded tokens of a batch
FEW_TOKENS, FEW_ROWS = (
    256,
    12,
)  # on a CPU without a cache: of a batch, or so many rows; a person waits for few texts


@dataclass(frozen=True)
class EncoderInput:
    """One input of an encoder: token ids with specials, and token types (empty where the model has
    none).
    """

    ids: tuple[int, ...]
    types: tuple[int, ...] = ()

    def key(self) -> bytes:
        """The 16 bytes by which the cache knows this row."""
        packed = np.asarray([len(self.ids), *self.ids, *self.types], np.int32).tobytes()
        return hashlib.blake2b(packed, digest_size=16).digest()


class Encoding:
    """The rows of single texts or of pairs, as the tokenizer encodes them, truncated to
    ``max_length``.
    """

    def __init__(self, tokenizer: Any, *, max_length: int, with_types: bool) -> None:
        self.tokenizer, self.max_length, self.with_types = tokenizer, max_length, with_types

    def single_rows(self, texts: Sequence[str]) -> list[EncoderInput]:
        """One row per text."""
        return self._rows([(text,) for text in texts], "longest_first")

    def pair_rows(
        self, pairs: Sequence[tuple[str, str]], truncation: Truncation = "longest_first"
    ) -> list[EncoderInput]:
        """One row per pair. ``only_first`` shortens the second text only if it alone is too long,
        and then both.
        """
        distinct = list(dict.fromkeys(pairs))
        long = [truncation == "longest_first"] * len(distinct)
        if truncation == "only_first" and distinct:
            room = self.max_length - self.tokenizer.num_special_tokens_to_add(pair=True)
            seconds = self.tokenizer(
                [second for _, second in distinct], add_special_tokens=False, verbose=False
            )
            long = [len(ids) >= room for ids in seconds["input_ids"]]
        rows: dict[tuple[str, str], EncoderInput] = {}
        for cut_both in (True, False):
            chosen = [
                pair for pair, is_long in zip(distinct, long, strict=True) if is_long == cut_both
            ]
            rows |= zip(
                chosen,
                self._rows(chosen, "longest_first" if cut_both else "only_first"),
                strict=True,
            )
        return [rows[pair] for pair in pairs]

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
            for ids, types in zip(coded["input_ids"], coded["token_type_ids"], strict=True):
                rows.append(EncoderInput(tuple(ids), tuple(types) if self.with_types else ()))
        return rows


def max_length(model: Any, tokenizer: Any) -> int:
    """The most tokens that an encoder takes, special ones included."""
    config = model.config
    limit = int(config.max_position_embeddings)
    if config.model_type in ("roberta", "xlm-roberta", "camembert"):
        limit -= config.pad_token_id + 1  # its positions are counted from behind the padding id
    return min(limit, int(tokenizer.model_max_length))


class ScoredPairCache:
    """Float32 arrays of one width by hashes of 16 bytes, in little more memory than the numbers
    take, on any disk.

    Its folder holds immutable files: each job, of several at once, adds its own under a temporary
    name and renames it, and reads all that are there when it starts. Nothing is ever rewritten, so
    no lock is needed and a killed job leaves nothing half-written.

    Raises BeamUQError if a file of the folder cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._own: dict[bytes, NDArray[np.float32]] = {}
        self._written, self._flushed = (
            0,
            time.monotonic(),
        )  # how many of our own are on the disk, and since when
        halves: list[NDArray[np.uint64]] = [np.empty((0, 2), np.uint64)]
        values: list[NDArray[np.float32]] = []
        for file in sorted(folder.glob("*.npz")):
            with (
                reading(file, "a readable cache file", "delete it and run again"),
                np.load(file, allow_pickle=False) as stored,
            ):
                halves.append(np.ascontiguousarray(stored["keys"]).view(np.uint64))
                values.append(stored["values"].astype(np.float32, casting="no"))
                if (
                    halves[-1].shape != (len(values[-1]), 2)
                    or values[-1].shape[1:] != values[0].shape[1:]
                ):
                    raise ValueError(f"shapes {halves[-1].shape} and {values[-1].shape}")
                if not np.isfinite(values[-1]).all():
                    raise ValueError("a value that is not finite")
        self._halves = np.concatenate(halves)
        self._stored = np.concatenate(values) if values else np.empty((0, 0), np.float32)
        order = np.argsort(self._halves[:, 0], kind="stable")
        self._halves, self._stored = self._halves[order], self._stored[order]

    def find(self, keys: Sequence[bytes]) -> dict[int, NDArray[np.float32]]:
        """The cached values: index into ``keys`` → array."""
        halves = np.frombuffer(b"".join(keys), np.uint64).reshape(-1, 2)
        place = np.searchsorted(self._halves[:, 0], halves[:, 0])
        place = np.minimum(place, max(0, len(self._halves) - 1))
        # Of hashes with equal first halves only one is found; the others are scored again.
        hit = (
            (self._halves[place] == halves).all(axis=1)
            if len(self._halves)
            else np.zeros(len(keys), dtype=bool)
        )
        stored = {int(i): self._stored[place[i]] for i in np.flatnonzero(hit)}
        return stored | {i: self._own[key] for i, key in enumerate(keys) if key in self._own}

    def add(self, keys: Sequence[bytes], values: NDArray[np.float32]) -> None:
        """Remember ``values[i]`` under ``keys[i]``; written to disk about once a minute and by
        :meth:`flush`.
        """
        self._own |= zip(keys, np.array(values), strict=True)
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what was added since the last time as one more file, named by its keys."""
        new = dict(islice(self._own.items(), self._written, None))
        if not new:
            return
        name = hashlib.blake2b(b"".join(new), digest_size=16).hexdigest()
        with atomic(self.folder / f"{name}.npz") as temporary, temporary.open("wb") as file:
            keys = np.frombuffer(b"".join(new), np.uint8).reshape(len(new), -1)
            np.savez(file, keys=keys, values=np.stack([*new.values()]))
        self._written, self._flushed = len(self._own), time.monotonic()


class PackedEncoder(ABC):
    """A network with its tokenizer and cache; each kind of scorer says in :meth:`forward` what the
    network gives.

    ``body`` reads the tokens: its config says how long a row may be, beside ``longest``. A row gets
    ``width`` values. The cache, in a folder of ``cache`` that survives between jobs, is of a
    checkpoint's ``identity`` (:func:`~beamuq.models.model_folder.model_identity`) and of further
    ``details``. ``scored``: how many rows the last call ran.
    """

    output, label = (
        "logits",
        "pairs",
    )  # which values these are, part of the cache's key; what rows are called

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
        with_types = (
            int(getattr(body.config, "type_vocab_size", 0) or 0) > 1
        )  # to tell a pair's two texts apart
        self.encoding = Encoding(
            tokenizer, max_length=min(limit, longest or limit), with_types=with_types
        )
        self.scored, self.width, self.device = 0, width, device
        self.pad = int(tokenizer.pad_token_id or 0)  # behind a row's end, masked: any will do
        self.cache = None
        if cache is not None:
            key = fingerprint(
                identity, dtype=str(dtype), device=device, output=self.output, **(details or {})
            )
            self.cache = ScoredPairCache(cache / key)

    @abstractmethod
    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The values of a batch, (B, width), from the network's keyword arguments, each of shape
        (B, L).
        """

    def values(self, rows: Sequence[EncoderInput]) -> Values:
        """The values of each row, (len(rows), width) in float32; each distinct row is run once, or
        found in the cache.

        Raises BeamUQError if the network gives a value that is not finite.
        """
        import torch

        distinct = list(dict.fromkeys(rows))
        keys = [row.key() for row in distinct]
        cached = self.cache.find(keys) if self.cache is not None else {}
        values = np.empty((len(distinct), self.width), np.float32)
        for i, value in cached.items():
            values[i] = value
        by_length: dict[int, list[int]] = {}
        for i, row in enumerate(distinct):
            by_length.setdefault(-(-len(row.ids) // STEP) * STEP, []).append(i)
        self.scored = 0
        with (
            torch.inference_mode(),
            progress_bar(len(distinct) - len(cached), self.label, "row") as progress,
        ):

            def score(length: int, members: Sequence[int], kept: ScoredPairCache | None) -> bool:
                """Fill in ``members``' values; False, and done in part, if places differ and they
                are to be kept.
                """
                size = 1 << max(0, (TOKENS[self.device.type] // length).bit_length() - 1)
                if self.cache is None and self.device.type == "cpu":
                    size = min(size, max(FEW_ROWS, FEW_TOKENS // length))
                new = size if self.cache is None else max(1, size - 1)
                for start in range(0, len(members), new):
                    batch = list(members[start : start + new])
                    filled = batch + [batch[0]] * (size - len(batch))
                    out = self.forward(
                        _tensors([distinct[i] for i in filled], length, self.pad, self.device)
                    )
                    if kept is not None and not torch.equal(out[0], out[-1]):
                        return False
                    values[batch] = out.float().cpu().numpy()[: len(batch)]
                    if not np.isfinite(values[batch]).all():
                        raise BeamUQError(
                            f"{self.label}: the model gave a value that is not finite; use dtype "
                            "float32"
                        )
                    if kept is not None:
                        kept.add([keys[i] for i in batch], values[batch])
                    progress.update(len(batch))
                return True

            for length in sorted(
                by_length, reverse=True
            ):  # the longest first: what does not fit fails at once
                members = [i for i in by_length[length] if i not in cached]
                if members and not score(length, members, self.cache):
                    members = by_length[length]
                    score(length, members, None)
                self.scored += len(members)
        if self.cache is not None:
            self.cache.flush()
        position = {row: i for i, row in enumerate(distinct)}
        return values[[position[row] for row in rows]]


def fingerprint(
    folder_identity: dict[str, str], *, dtype: str, device: torch.device, **details: Any
) -> str:
    """The dependencies of a cached value beside its row: checkpoint, arithmetic, machine kind,
    library versions.
    """
    import torch
    import transformers

    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    kernels = (
        torch.backends.cpu.get_cpu_capability() if device.type == "cpu" else str(torch.version.cuda)
    )
    facts = {
        "checkpoint": folder_identity["content"],
        "dtype": dtype,
        "machine": f"{device.type} {machine} {kernels}",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "batch": [STEP, TOKENS[device.type]],
        **details,
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _tensors(
    rows: Sequence[EncoderInput], length: int, pad: int, device: torch.device
) -> dict[str, torch.Tensor]:
    import torch

    ids = np.full((len(rows), length), pad, np.int64)
    mask, types = np.zeros_like(ids), np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row.ids)] = row.ids
        mask[i, : len(row.ids)] = 1
        types[i, : len(row.types)] = row.types
    arrays = {"input_ids": ids, "attention_mask": mask} | (
        {"token_type_ids": types} if rows[0].types else {}
    )
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}
