"""The cache of scored pairs: what encoders gave of texts and pairs, kept between jobs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beamuq.errors import reading
from beamuq.io import atomic

Values = NDArray[np.float32]
FLUSH_SECONDS = 60.0


class ScoredPairCache:
    """Float32 arrays of one width by hashes of 16 bytes, in little more memory than they take.

    Its folder holds immutable files: each job, of several at once, adds its own under a temporary
    name and renames it, and reads all that are there when it starts. Nothing is ever rewritten, so
    no lock is needed and a killed job leaves nothing half-written.

    Raises BeamUQError if a file of the folder cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._own: dict[bytes, Values] = {}
        self._written = 0  # how many of our own are on the disk
        self._flushed = time.monotonic()
        halves: list[NDArray[np.uint64]] = [np.empty((0, 2), np.uint64)]
        values: list[Values] = []
        for file in sorted(folder.glob("*.npz")):
            with reading(file, "a readable cache file", "delete it and run again"):
                stored_halves, stored_values = _stored(file)
                if values and stored_values.shape[1:] != values[0].shape[1:]:
                    raise ValueError(f"shapes {stored_halves.shape} and {stored_values.shape}")
            halves.append(stored_halves)
            values.append(stored_values)
        all_halves = np.concatenate(halves)
        all_values = np.concatenate(values) if values else np.empty((0, 0), np.float32)
        order = np.argsort(all_halves[:, 0], kind="stable")
        self._halves = all_halves[order]
        self._stored = all_values[order]

    def find(self, keys: Sequence[bytes]) -> dict[int, Values]:
        """The cached values: index into ``keys`` → array."""
        halves = np.frombuffer(b"".join(keys), np.uint64).reshape(-1, 2)
        place = np.searchsorted(self._halves[:, 0], halves[:, 0])
        place = np.minimum(place, max(0, len(self._halves) - 1))
        # Of hashes with equal first halves only one is found; the others are scored again.
        hit = np.zeros(len(keys), dtype=bool)
        if len(self._halves):
            hit = (self._halves[place] == halves).all(axis=1)
        stored = {int(i): self._stored[place[i]] for i in np.flatnonzero(hit)}
        return stored | {i: self._own[key] for i, key in enumerate(keys) if key in self._own}

    def add(self, keys: Sequence[bytes], values: Values) -> None:
        """Remember ``values[i]`` under ``keys[i]``.

        They are written to disk about once a minute and by :meth:`flush`.
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
        self._written = len(self._own)
        self._flushed = time.monotonic()


def _stored(file: Path) -> tuple[NDArray[np.uint64], Values]:
    """The keys of a cache file, [K, 2], and its values, [K, width]. Raises ValueError if bad."""
    with np.load(file, allow_pickle=False) as stored:
        halves = np.ascontiguousarray(stored["keys"]).view(np.uint64)
        values = stored["values"].astype(np.float32, casting="no")
    if halves.shape != (len(values), 2):
        raise ValueError(f"shapes {halves.shape} and {values.shape}")
    if not np.isfinite(values).all():
        raise ValueError("a value that is not finite")
    return halves, values
