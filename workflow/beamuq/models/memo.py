"""A memo of encoder outputs that survives between jobs and is safe when jobs run in parallel, on any file system.

Its folder holds immutable files: each job adds its own under a temporary name and renames it, and reads all that are
there when it starts. Nothing is ever rewritten, so no lock is needed and a killed job leaves nothing half-written.
"""

from __future__ import annotations

import hashlib
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beamuq.errors import BeamUQError
from beamuq.tables import atomic

FLUSH_SECONDS = 60.0


class Memo:
    """Values by key. ``known`` maps 16-byte keys to float32 arrays of one width.

    Raises
    ------
    BeamUQError
        If a file of the folder cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[bytes, NDArray[np.float32]] = {}
        self._keys: list[bytes] = []
        self._values: list[NDArray[np.float32]] = []
        self._flushed = time.monotonic()
        for file in sorted(folder.glob("*.npz")):
            try:
                with np.load(file, allow_pickle=False) as stored:
                    keys, values = stored["keys"], stored["values"]
            except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
                raise BeamUQError(f"{file}: not a readable memo ({error}); delete it and run again") from error
            self.known.update(zip((key.tobytes() for key in keys), values, strict=True))

    def add(self, keys: Sequence[bytes], values: NDArray[np.float32]) -> None:
        """Remember ``values[i]`` under ``keys[i]``; written to disk about once a minute and by :meth:`flush`."""
        for key, value in zip(keys, values, strict=True):
            self.known[key] = value.copy()
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
