"""What the tables of a study say of how they were made, without reading their rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beamuq.errors import BeamUQError
from beamuq.parquet_tables import SCHEMAS

Json = Any


@dataclass(frozen=True)
class Footer:
    """A table's kind, cell and provenance."""

    kind: str
    cell: dict[str, str]
    provenance: dict[str, Json]


def footers(paths: Iterable[Path]) -> list[Footer]:
    """The footer of each table.

    Raises
    ------
    BeamUQError
        If a file is missing or corrupt, or no table of the workflow.
    """
    return [_footer(path) for path in paths]


def _footer(path: Path) -> Footer:
    try:
        told = json.loads((pq.read_schema(path).metadata or {}).get(b"beamuq", b"{}"))
    except FileNotFoundError as error:
        raise BeamUQError(f"{path}: no such file; run the rule that writes it") from error
    except (pa.ArrowException, OSError) as error:
        raise BeamUQError(f"{path}: not a readable Parquet file ({error}); delete it and run again") from error
    if told.get("kind") not in SCHEMAS:
        raise BeamUQError(f"{path}: no table of this workflow; delete it and run again")
    return Footer(told["kind"], told["cell"], told["provenance"])
