"""The cache of scored pairs (and embedded texts), which survives between jobs that may run in parallel, on any disk.

Its folder holds immutable files: each job adds its own under a temporary name and renames it, and reads all that are
there when it starts. Nothing is ever rewritten, so no lock is needed and a killed job leaves nothing half-written.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beamuq.errors import reading
from beamuq.io import atomic

FLUSH_SECONDS = 60.0


class ScoredPairCache:
    """Float32 arrays of one width by hashes of 16 bytes, in little more memory than the numbers take.

    Raises BeamUQError if a file of the folder cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._own: dict[bytes, NDArray[np.float32]] = {}
        self._keys: list[bytes] = []
        self._values: list[NDArray[np.float32]] = []
        self._flushed = time.monotonic()
        halves: list[NDArray[np.uint64]] = [np.empty((0, 2), np.uint64)]
        values: list[NDArray[np.float32]] = []
        for file in sorted(folder.glob("*.npz")):
            with (
                reading(file, "a readable cache file", "delete it and run again"),
                np.load(file, allow_pickle=False) as stored,
            ):
                halves.append(np.ascontiguousarray(stored["keys"]).view(np.uint64))
                values.append(stored["values"].astype(np.float32, casting="no"))
                if halves[-1].shape != (len(values[-1]), 2) or values[-1].shape[1:] != values[0].shape[1:]:
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
        hit = (self._halves[place] == halves).all(axis=1) if len(self._halves) else np.zeros(len(keys), dtype=bool)
        stored = {int(i): self._stored[place[i]] for i in np.flatnonzero(hit)}
        return stored | {i: self._own[key] for i, key in enumerate(keys) if key in self._own}

    def add(self, keys: Sequence[bytes], values: NDArray[np.float32]) -> None:
        """Remember ``values[i]`` under ``keys[i]``; written to disk about once a minute and by :meth:`flush`."""
        for key, value in zip(keys, values, strict=True):
            self._own[key] = value.copy()
        self._keys += keys
        self._values.append(np.array(values))
        if time.monotonic() - self._flushed > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what was added since the last time as one more file, named by its keys."""
        if not self._keys:
            return
        name = hashlib.blake2b(b"".join(self._keys), digest_size=16).hexdigest()
        with atomic(self.folder / f"{name}.npz") as temporary, temporary.open("wb") as file:
            keys = np.frombuffer(b"".join(self._keys), np.uint8).reshape(len(self._keys), -1)
            np.savez(file, keys=keys, values=np.concatenate(self._values))
        self._keys, self._values = [], []
        self._flushed = time.monotonic()
