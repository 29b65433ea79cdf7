"""A split of a hub dataset at the commit that is locked, as one Parquet file."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq

from beamuq.errors import BeamUQError
from beamuq.io import atomic
from beamuq.models.model_source import hub_errors, pinned_commit
from beamuq_study.data.question import Adapter, questions_of
from beamuq_study.data.read_dataset_file import SOURCE, conform, source_of

CACHES = ("HF_HUB_CACHE", "HF_XET_CACHE", "HF_DATASETS_CACHE")
"""Where the hub's libraries keep what they download: in the user's home, unless these name other
folders.
"""


def fetch_split(
    repo_id: str,
    config: str | None,
    split: str,
    path: Path,
    *,
    adapter: Adapter,
    lock: Path,
    offline: bool = False,
) -> None:
    """Write ``split`` of ``repo_id`` to ``path``, unless it is there; the first locks the commit.

    Raises BeamUQError if the hub can't be reached, knows no such dataset, configuration or split,
    or the adapter can't use its rows (a test split without answers). Nothing half-written is left.
    """
    where = f"source hub:{repo_id}" + (f", {config}" if config else "") + f", {split}"
    commit = pinned_commit(lock, "datasets", repo_id, offline=offline)
    manifest = {"source": f"hub:{repo_id}", "config": config, "split": split, "revision": commit}
    with suppress(BeamUQError):  # a damaged file is fetched again
        if path.is_file() and source_of(path) == manifest:
            return
    if offline:
        raise BeamUQError(
            f"{where}: not in {path.parent} and offline is set; run once without offline"
        )
    with hub_errors(repo_id, "datasets"):
        table = _downloaded_split(repo_id, config, split, commit)
    rows = (row for batch in table.to_batches(max_chunksize=1000) for row in batch.to_pylist())
    places = ((f"{where}: row {index}", row) for index, row in enumerate(rows))
    questions_of(
        adapter, ((place, conform(row, adapter.columns, place)) for place, row in places), split
    )
    with atomic(path) as temporary:
        footer = {**(table.schema.metadata or {}), SOURCE: json.dumps(manifest, sort_keys=True)}
        pq.write_table(table.replace_schema_metadata(footer), temporary, compression="zstd")


@contextmanager
def downloads_in(folder: Path) -> Iterator[None]:
    """Let downloads lie in ``folder``, and go when the body ends.

    The hub's libraries read the names of their caches when they are imported: in a new process, by
    the body.
    """
    folder.mkdir(parents=True, exist_ok=True)
    before = {name: os.environ.get(name) for name in CACHES}
    with TemporaryDirectory(dir=folder, prefix=".downloads-") as downloads:
        os.environ.update({name: str(Path(downloads, name.lower())) for name in CACHES})
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _downloaded_split(repo_id: str, config: str | None, split: str, commit: str) -> pa.Table:
    """The rows of one split, of whose files alone any is downloaded."""
    import datasets

    builder = datasets.load_dataset_builder(repo_id, config, revision=commit)
    files = builder.config.data_files or {}
    if split not in files:
        raise BeamUQError(f"it has no split {split!r} but {', '.join(map(str, files))}")
    builder.config.data_files = datasets.data_files.DataFilesDict({split: files[split]})
    # the card's counts are of all splits
    builder.download_and_prepare(verification_mode="no_checks")
    table: pa.Table = builder.as_dataset(split).with_format("arrow")[:]
    return table
