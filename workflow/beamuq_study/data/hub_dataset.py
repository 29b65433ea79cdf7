"""A split of a hub dataset, at the commit that the study's lock file names, as one Parquet file in the hub's schema."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq

from beamuq.errors import BeamUQError
from beamuq.io import atomic
from beamuq.models.model_source import hub_errors, pinned_commit
from beamuq_study.data.question import Adapter, questions_of
from beamuq_study.data.read_dataset_file import SOURCE, conform, source_of


def fetch_split(
    repo_id: str, config: str | None, split: str, path: Path, *, adapter: Adapter, lock: Path, offline: bool = False
) -> None:
    """Write ``split`` of ``repo_id`` to ``path``, unless it is there whole; the first fetch locks the commit.

    Raises BeamUQError if the hub can't be reached, knows no such dataset, configuration or split, or the adapter can't
    use its rows (a test split without answers). Nothing half-written is left.
    """
    where = f"source hub:{repo_id}" + (f", {config}" if config else "") + f", {split}"
    commit = pinned_commit(lock, "datasets", repo_id, offline=offline)
    manifest = {"source": f"hub:{repo_id}", "config": config, "split": split, "revision": commit}
    with suppress(BeamUQError):  # a damaged file is fetched again
        if path.is_file() and source_of(path) == manifest:
            return
    if offline:
        raise BeamUQError(f"{where}: not in {path.parent} and offline is set; run once without offline")
    import datasets

    with hub_errors(repo_id, "datasets"):
        table = datasets.load_dataset(repo_id, config, split=split, revision=commit).with_format("arrow")[:]
    rows = (row for batch in table.to_batches(max_chunksize=1000) for row in batch.to_pylist())
    places = ((f"{where}: row {index}", row) for index, row in enumerate(rows))
    questions_of(adapter, ((place, conform(row, adapter.columns, place)) for place, row in places), split)
    with atomic(path) as temporary:
        footer = {**(table.schema.metadata or {}), SOURCE: json.dumps(manifest, sort_keys=True)}
        pq.write_table(table.replace_schema_metadata(footer), temporary, compression="zstd")
