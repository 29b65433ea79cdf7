"""A cell cut into shards of whole batches, so that it can run on many cards, and put together again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from beamuq import artifacts
from beamuq.errors import BeamUQError

_NAME = re.compile(r"(\d+)-of-(\d+)")
CUTS = "memory_cuts"
Batch = TypeVar("Batch")


def batches_of(shard: str, batches: Sequence[Batch]) -> list[Batch]:
    """The batches of ``"2-of-4"``, the second of four shards: every fourth, which mixes long and short ones.

    Raises
    ------
    BeamUQError
        If that is no shard.
    """
    match = _NAME.fullmatch(shard)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count:
        raise BeamUQError(f"shard {shard!r}: not a shard; write 1-of-4, 2-of-4, … 4-of-4")
    return list(batches[number - 1 :: count])


def merged(files: Sequence[Path], ids: Sequence[str]) -> tuple[pa.Table, dict[str, Any]]:
    """The rows of all shards of one cell, not yet in order, and the provenance that they share, with all memory cuts.

    Raises
    ------
    BeamUQError
        If the files are not all shards of one run, each once, or hold other questions than ``ids``, each in one shard.
    """
    parts = [(file, artifacts.read(file, "candidates")) for file in files]
    wanted = {f"{number}-of-{len(files)}" for number in range(1, len(files) + 1)}
    found = {part.provenance.get("shard") for _, part in parts}
    if found != wanted:
        raise BeamUQError(f"{files[0].parent}: holds the shards {sorted(map(str, found))}, not {sorted(wanted)}")
    made = [{key: value for key, value in part.provenance.items() if key not in ("shard", CUTS)} for _, part in parts]
    for (file, _), provenance in zip(parts, made, strict=True):
        if provenance != made[0]:
            differing = sorted(key for key in {*provenance, *made[0]} if provenance.get(key) != made[0].get(key))
            raise BeamUQError(f"{file}: differs from {files[0].name} in {', '.join(differing)}; delete both")
    held = [key for _, part in parts for key in part.table.column("id").unique().to_pylist()]
    if sorted(held) != sorted(ids):
        raise BeamUQError(f"{files[0].parent}: the shards do not hold each question once; delete them and run again")
    cuts = (cut for _, part in parts for cut in part.provenance.get(CUTS, []))
    return pa.concat_tables([part.table for _, part in parts]), made[0] | memory_cuts(cuts)


def memory_cuts(cuts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What a table of candidates says of batches that did not fit into memory whole: nothing where all did.

    Each cut is a ``batch``, numbered over the whole cell, and its ``pieces``: pairs of questions and rows at once.
    """
    ordered = sorted(cuts, key=lambda cut: int(cut["batch"]))
    return {CUTS: ordered} if ordered else {}
