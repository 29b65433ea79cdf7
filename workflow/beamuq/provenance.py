"""What a table says of how it was made, and whether tables that are read together are of one run.

A footer holds settings, hashes of what was read, and versions; never a time, host or path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamuq import __version__
from beamuq.errors import BeamUQError
from beamuq.parquet_tables import NAMED_BY, Footer, Loaded, file_name, file_sha256, read

if TYPE_CHECKING:
    import torch


def provenance(
    settings: Mapping[str, Any],
    inputs: Mapping[str, Path | None],
    *,
    models: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> dict[str, Any]:
    """The provenance in a table's footer.

    Parameters
    ----------
    settings
        The job's own parameters; where models come from is told by their identity instead, without a path.
    inputs
        Files read, by the job's name for them; their sha256 is kept. None: not read.
    models
        Identity of each model loaded, by the job's name for it; None for a step that never loads any.
    dtype, device
        What the models ran in and on; kept only where one was loaded.
    """
    packages = ("numpy", "torch", "transformers", "tokenizers") if models else ("numpy",)
    facts: dict[str, Any] = {
        "settings": dict(settings),
        "inputs": {name: file_sha256(path) for name, path in inputs.items() if path is not None},
        "versions": {"beamuq": __version__} | {package: version(package) for package in packages},
    }
    if models is not None:
        facts["models"] = dict(models)
    if models:
        facts |= {"dtype": str(dtype).removeprefix("torch."), "device": device.type if device else None}
    return facts


def read_cell(
    files: Mapping[str, tuple[str, Path | None]], expected: Mapping[str, Mapping[str, Any]], **asked: Any
) -> dict[str, Loaded]:
    """Tables of one cell and one run, by name, from (kind, path); None: not read. All are compared with the first.

    ``expected``: the settings that each must have, by name; ``asked``: those that all must have which name them.

    Raises BeamUQError as :func:`~beamuq.parquet_tables.read` and :func:`check_one_run`; or if a file is of another
    model, dataset or recipe than the first, which the message names.
    """
    paths = {name: path for name, (_, path) in files.items() if path is not None}
    tables = {name: read(path, files[name][0]) for name, path in paths.items()}
    first = next(iter(tables))
    for name, loaded in tables.items():
        dataset_only = files[name][0] in ("questions", "shots")
        for key in ("dataset",) if dataset_only else ("model", "dataset", "recipe"):
            found, wanted = loaded.cell.get(key), tables[first].cell.get(key)
            if found != wanted:
                raise BeamUQError(
                    f"{paths[name]}: is of {key} {found!r}, {paths[first]} of {wanted!r}; give files of one cell"
                )
        check_settings(loaded, asked | dict(expected.get(name, {})))
    check_one_run(tables.values())
    return tables


def check_one_run(tables: Iterable[Footer]) -> None:
    """Refuse tables that were not made from one another, or from different files of the same name, or seeds.

    A table is compared in what its footer records; published questions and quality have no texts and few records.

    Raises BeamUQError naming two files that disagree, and in what; or one that lies where another cell's belongs.
    """
    tables = list(tables)
    told: dict[tuple[Any, ...], tuple[Any, Path]] = {}
    for table in tables:
        place = (table.kind, *(file_name(table.cell.get(name, "")) for name in NAMED_BY[table.kind]))
        lies = table.path.with_suffix("").parts[-len(place) :]
        if all(place) and lies[0] == table.kind and lies != place:
            raise BeamUQError(f"{table.path}: holds {table.cell}, another cell than its path says; delete it")
        told[_key(table.kind, table)] = (file_sha256(table.path), table.path)
    for table in tables:
        for key, what, found in _records(table):
            known, path = told.setdefault(key, (found, table.path))
            if found != known:
                raise BeamUQError(
                    f"{table.path}: was made with another {what} than {path}; one of the two is of another run: "
                    "delete it and run again"
                )


def check_settings(table: Footer, asked: Mapping[str, Any]) -> None:
    """Refuse a table that was made with other settings than ``asked``, of those that its footer names.

    Raises BeamUQError naming the file, the setting and both values.
    """
    for name, found in table.provenance.get("settings", {}).items():
        if name in asked and found != asked[name]:
            raise BeamUQError(
                f"{table.path}: was made with {name} {found!r}, {asked[name]!r} is asked for; delete it and run again"
            )


def _records(table: Footer) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """(key, what, value) of what a table was made with, where tables of a study with one key must have one value."""
    made = table.provenance
    if "seed" in made.get("settings", {}):
        yield ("seed",), "seed", made["settings"]["seed"]
    for name, digest in made.get("inputs", {}).items():
        kind, _, metric = name.partition(" ")  # "quality exact_match": a further one
        if kind in NAMED_BY or kind == "cross_similarity":
            yield _key(kind, table, metric), f"{name} file", digest
    for name, file in made.get("files", {}).items():
        yield (name, table.cell.get("dataset")), f"{name} file", file["sha256"]


def _key(kind: str, table: Footer, metric: str = "") -> tuple[Any, ...]:
    """What identifies a file of ``kind`` among a study's: the table itself, or one that it was made from."""
    settings = table.provenance.get("settings", {})
    known = {"metric": metric or settings.get("quality"), "style": settings.get("style")} | table.cell
    return (kind, *(known.get(name) for name in NAMED_BY.get(kind, NAMED_BY["candidates"])))
