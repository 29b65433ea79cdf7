"""What a table says of how it was made, and whether tables that are read together are of one run.

A footer holds settings, hashes of what was read, and versions; never a time, host or path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from beamuq import __version__
from beamuq.errors import BeamUQError
from beamuq.io import file_sha256
from beamuq_study.parquet_tables import NAMED_BY, Footer, Loaded, file_name, read
from beamuq_study.study_config import Study

if TYPE_CHECKING:
    import torch


# Tables that models make, and what names these models in a study.
OF_MODELS = {"candidates": "model", "similarity": "scorer", "quality": "metric", "judgements": "model"}


def provenance(
    settings: Mapping[str, Any] | BaseModel,
    inputs: Mapping[str, Path | None],
    *,
    tables: Mapping[str, Footer] | None = None,
    models: Mapping[str, Any] | None = None,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> dict[str, Any]:
    """The provenance in a table's footer.

    ``settings``: the job's own parameters; ``inputs``: files read, by the job's name for them, whose sha256 is kept
    (None: not read); ``tables``: those of them whose models stay known; ``models``: the identity of each model loaded,
    None for a step that never loads any; ``dtype`` and ``device``: what they ran in and on.
    """
    packages = ("numpy", "torch", "transformers", "tokenizers") if models else ("numpy",)
    facts: dict[str, Any] = {
        "settings": settings.model_dump(mode="json") if isinstance(settings, BaseModel) else dict(settings),
        "inputs": {name: file_sha256(path) for name, path in inputs.items() if path is not None},
        "versions": {"beamuq": __version__} | {package: version(package) for package in packages},
    }
    if behind := {name: value for table in (tables or {}).values() for name, value in _models_behind(table).items()}:
        facts["models_behind"] = behind
    if models is not None:
        facts["models"] = dict(models)
    if models:
        facts |= {"dtype": str(dtype).removeprefix("torch."), "device": device.type if device else None}
    return facts


def read_cell(
    files: Mapping[str, Path | None], expected: Mapping[str, Mapping[str, Any]], **asked: Any
) -> dict[str, Loaded]:
    """Tables of one cell and one run, by name: a kind, ``cross_similarity`` or ``quality METRIC``; None: not read.

    ``expected``: the settings that each must have, by name; ``asked``: those that all must have which name them.

    Raises BeamUQError as ``parquet_tables.read``, :func:`check_settings` and :func:`check_one_run`; or if a file is of
    another model, dataset or recipe than another.
    """
    kinds = {name: name.removeprefix("cross_").partition(" ")[0] for name in files}
    tables = {name: read(path, kinds[name]) for name, path in files.items() if path is not None}
    for name, table in tables.items():
        check_settings(table, asked | dict(expected.get(name, {})))
    check_one_run(tables.values(), one_cell=True)
    return tables


def settings_of(study: Study, table: Footer) -> dict[str, Any]:
    """What the footer of a study's table may name of it, by the names there."""
    main, quality = study.main, study.main_quality
    settings: dict[str, Any] = study.evaluation.model_dump(mode="json") | {
        "seed": study.seed,
        "quality": quality.metric,
        "threshold": quality.threshold,
        "risks": study.decisions.risks,
        "guarantee": study.decisions.confidence,
        "further_qualities": {of.metric: of.threshold for of in study.qualities(table.cell["dataset"])[1:]},
        "alpha": main.alpha,
        "epsilon": main.epsilon,
        "num_candidates": main.num_candidates,
    }
    if table.kind == "similarity":
        settings["kind"] = study.scorers[table.cell["scorer"]].kind
    if table.kind == "beams_map":
        settings |= study.map_settings(table.cell["recipe"], table.cell["dataset"])
    if table.kind == "candidates":
        recipe = study.recipes[table.cell["recipe"]]
        settings |= {
            "recipe": recipe.searched(),
            "max_new_tokens": study.datasets[table.cell["dataset"]].max_new_tokens,
            "newline_stops": study.newline_stops,
            "merge_stop_tokens": recipe.merge_stop_tokens,
            "temperature": study.models[table.cell["model"]].temperature,
        }
    return settings


def newline_ended(candidates: Footer) -> bool:
    """Whether a newline ended the answers of a table of candidates; else their texts have all lines (D1, ending)."""
    settings = candidates.provenance.get("settings", {})
    return bool(settings.get("newline_stops", True))


def check_settings(table: Footer, current: Mapping[str, Any]) -> None:
    """Refuse a table that was made with other settings than ``current``, of those that its footer names.

    Raises BeamUQError naming the file, the setting and both values.
    """
    unnamed = {"temperature": None} if table.kind == "candidates" else {}  # the model's own
    for name, used in (unnamed | table.provenance.get("settings", {})).items():
        if name in current and used != current[name]:
            raise BeamUQError(
                f"{table.path}: was made with {name} {used!r}, {current[name]!r} is asked for; delete it and run again"
            )


def check_one_run(tables: Iterable[Footer], *, one_cell: bool = False) -> None:
    """Refuse tables that were not made from one another, or from different files of the same name, or seeds.

    A table is compared in what its footer records; published questions and quality have no texts and few records.

    Raises BeamUQError naming two files that disagree, and in what; or one that lies where another cell's belongs.
    """
    tables = list(tables)
    hashes = {_key(table.kind, table): (file_sha256(table.path), table.path) for table in tables}
    for table in tables:
        place = (table.kind, *(file_name(table.cell.get(name, "")) for name in NAMED_BY[table.kind]))
        lies = table.path.with_suffix("").parts[-len(place) :]
        if all(place) and lies[0] == table.kind and lies != place:
            raise BeamUQError(f"{table.path}: holds {table.cell}, another cell than its path says; delete it")
        of_cell = {(name,): table.cell[name] for name in NAMED_BY["candidates"] if one_cell and name in table.cell}
        for key, value in (of_cell | dict(_records(table))).items():
            first, path = hashes.setdefault(key, (value, table.path))
            if value != first:
                raise BeamUQError(
                    f"{table.path}: was made with another {key[0]} than {path}; one of the two is of another run or "
                    "cell: delete it and run again"
                )


def _models_behind(table: Footer) -> dict[str, Any]:
    """Contents and dtype of the models that made a table, or those that it was made from, by what they are called."""
    recorded, name = table.provenance, OF_MODELS.get(table.kind, "")
    behind = dict(recorded.get("models_behind", {}))
    precision = {key: recorded[key] for key in ("dtype", "scorer_dtype") if key in recorded}
    for use, identity in recorded.get("models", {}).items() if name else ():
        behind[f"{table.kind} of {table.cell[name]!r} ({use})"] = {"content": identity["content"], **precision}
    return behind


def _records(table: Footer) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(key, value) of what a table was made with, where tables of a study with one key must have one value."""
    recorded = table.provenance
    for name, models in _models_behind(table).items():
        yield (f"model or dtype in {name}",), models
    if "seed" in recorded.get("settings", {}):
        yield ("seed",), recorded["settings"]["seed"]
    for name, digest in recorded.get("inputs", {}).items():
        kind, _, metric = name.partition(" ")  # "quality exact_match": a further one
        if kind in NAMED_BY or kind == "cross_similarity":
            yield _key(kind, table, metric), digest
    for name, file in recorded.get("files", {}).items():
        yield (name, table.cell.get("dataset")), file["sha256"]


def _key(kind: str, table: Footer, metric: str = "") -> tuple[Any, ...]:
    """What identifies a file of ``kind`` among a study's: the table itself, or one that it was made from."""
    settings = table.provenance.get("settings", {})
    facts = {"metric": metric or settings.get("quality"), "style": settings.get("style")} | table.cell
    return (kind, *(facts.get(name) for name in NAMED_BY.get(kind, NAMED_BY["candidates"])))
