"""What a table says of how it was made, and whether tables that are read together are of one run.

A footer holds settings, hashes of what was read, and versions; never a time, host or path.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from beamuq import __version__
from beamuq.errors import BeamUQError
from beamuq.io import file_sha256
from beamuq.models.model_folder import content_of
from beamuq_study.parquet_tables import NAMED_BY, Footer, Json, Loaded, file_name, read
from beamuq_study.study_config import SERVED, Study

if TYPE_CHECKING:
    import torch


# Tables that models make, and what names these models in a study.
MODELS = "models"
BEHIND = "settings_behind"
MADE_OF_OTHERS = ("scores", "evaluation", "replicates", "beams_map", "decisions")
"""Tables that are computed from tables alone, whose footers tell the settings behind them."""
OF_MODELS = {
    "candidates": "model",
    "similarity": "scorer",
    "quality": "metric",
    "judgements": "model",
}


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

    ``settings``: the job's own parameters; ``inputs``: files read, by the job's name for them,
    whose sha256 is kept (None: not read); ``tables``: those of them whose settings and models stay
    known; ``models``: the identity of each model loaded, None for a step that never loads any;
    ``dtype`` and ``device``: what they ran in and on.
    """
    packages = ("numpy", "torch", "transformers", "tokenizers") if models else ("numpy",)
    if isinstance(settings, BaseModel):
        settings = settings.model_dump(mode="json")
    facts: dict[str, Json] = {
        "settings": dict(settings),
        "inputs": {name: file_sha256(path) for name, path in inputs.items() if path is not None},
        "versions": {"beamuq": __version__} | {package: version(package) for package in packages},
    }
    facts |= _behind(tables or {})
    if models is not None:
        facts["models"] = dict(models)
    if models and dtype is not None:  # None: a server holds the only model
        facts["dtype"] = str(dtype).removeprefix("torch.")
        facts["device"] = device.type if device else None
    return facts


def _behind(tables: Mapping[str, Footer]) -> dict[str, Any]:
    """Models and settings that made these tables, and those that they were made from."""
    models: dict[str, Json] = {}
    settings: dict[str, Json] = {}
    for name, table in tables.items():
        models |= _models_behind(table)
        settings |= table.provenance.get(BEHIND, {})
        settings[name] = _used(table)
    facts = {}
    if models:
        facts["models_behind"] = models
    if settings:
        facts[BEHIND] = settings
    return facts


def read_cell(
    files: Mapping[str, Path | None], expected: Mapping[str, Mapping[str, Any]], **of_all: Any
) -> dict[str, Loaded]:
    """Tables of one cell and one run, by name: a kind, ``cross_similarity`` or ``quality METRIC``;
    None: not read.

    ``expected``: the settings that each must have, by name, and those that it was made from;
    ``of_all``: settings that all must have which name them.

    Raises BeamUQError as ``parquet_tables.read``, :func:`check_settings` and :func:`check_one_run`;
    or if a file is of another model, dataset or recipe than another.
    """
    tables = {name: read(path, _kind(name)) for name, path in files.items() if path is not None}
    for name, table in tables.items():
        check_settings(table, of_all | dict(expected.get(name, {})))
        check_settings_behind(table, lambda behind, _: of_all | dict(expected.get(behind, {})))
    _tell_of_silent(tables.values())
    check_one_run(tables.values(), one_cell=True)
    return tables


def settings_of(study: Study, table: Footer) -> dict[str, Any]:
    """What the footer of a study's table may name: settings, and sources of its models."""
    settings = _settings_of_all(study, table.cell["dataset"])
    if table.kind == "similarity":
        scorer = study.scorers[table.cell["scorer"]]
        settings["kind"] = scorer.kind
        settings[MODELS] = {"model": recorded_source(scorer.source)}
    if table.kind == "scores":
        scorer = study.scorers[table.cell["scorer"]]
        settings["methods"] = study.scoring[table.cell["recipe"]].methods
        settings["equivalence_threshold"] = scorer.equivalence_threshold
    if table.kind == "beams_map":
        settings |= study.map_settings(table.cell["recipe"], table.cell["dataset"])
    if table.kind == "candidates":
        settings |= _settings_of_candidates(study, table.cell)
    return settings


def _settings_of_all(study: Study, dataset: str) -> dict[str, Any]:
    """What is the same in every table of a dataset."""
    quality, *further = study.qualities(dataset)
    return study.evaluation.model_dump(mode="json") | {
        "seed": study.seed,
        "quality": quality.metric,
        "threshold": quality.threshold,
        "risks": study.decisions.risks,
        "guarantee": study.decisions.confidence,
        "further_qualities": {metric.metric: metric.threshold for metric in further},
        "alpha": study.main.alpha,
        "epsilon": study.main.epsilon,
        "num_candidates": study.main.num_candidates,
    }


def _settings_of_candidates(study: Study, cell: Mapping[str, str]) -> dict[str, Any]:
    recipe = study.recipes[cell["recipe"]]
    model = study.models[cell["model"]]
    return {
        "recipe": recipe.searched(),
        "max_new_tokens": study.datasets[cell["dataset"]].max_new_tokens,
        "newline_stops": study.newline_stops,
        "merge_stop_tokens": recipe.merge_stop_tokens,
        "temperature": model.temperature,
        "style": model.style,
        "enable_thinking": model.enable_thinking,
        MODELS: {"model": recorded_source(model.source)},
    }


def newline_ended(candidates: Footer) -> bool:
    """Whether a newline ended the answers; else their texts have all lines (D1, ending)."""
    settings = candidates.provenance.get("settings", {})
    return bool(settings.get("newline_stops", True))


def check_study(study: Study, tables: Iterable[Footer]) -> None:
    """Refuse tables that were made, or made from others, with other settings than the study's.

    Raises BeamUQError as :func:`check_settings`.
    """
    tables = list(tables)
    for table in tables:
        check_settings(table, settings_of(study, table))
        check_settings_behind(table, partial(_settings_of_another, study, table.cell))
    _tell_of_silent(tables)


def _tell_of_silent(tables: Iterable[Footer]) -> None:
    """Say in the job's log which tables do not tell what is behind them."""
    silent = [
        table for table in tables if table.kind in MADE_OF_OTHERS and BEHIND not in table.provenance
    ]
    if silent:
        further = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        print(
            f"{silent[0].path}{further}: written by an earlier version, whose footers do not tell "
            "the settings of the "
            "tables behind them; these are not compared",
            file=sys.stderr,
        )


def _settings_of_another(
    study: Study, cell: Mapping[str, str], name: str, used: Mapping[str, Any]
) -> dict[str, Any]:
    """As :func:`settings_of`, of the table ``name`` behind one of this cell, made with ``used``."""
    kind = _kind(name)
    of_table = dict(cell)
    if kind == "similarity":
        of_table["scorer"] = used.get("name", cell.get("scorer", ""))
    if kind not in NAMED_BY or of_table.get("scorer", "") not in ("", *study.scorers):
        return {}
    return settings_of(study, Footer(Path(), kind, of_table, {}))


def check_settings(table: Footer, current: Mapping[str, Any]) -> None:
    """Refuse a table that was made with other settings or models than ``current``.

    ``current``: settings by name; and under ``models``, by use, source and content of each model,
    under ``dtype``, by device, what models must have run in.

    Raises BeamUQError naming the file, the setting and both values.
    """
    for name, used, wanted in _differences(table.kind, _used(table), current):
        raise BeamUQError(
            f"{table.path}: was made with {name} {used!r}, {wanted!r} is asked for; "
            f"{_fix(table.kind, name, used)}"
        )


def check_settings_behind(
    table: Footer, current: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
) -> None:
    """:func:`check_settings` of the tables behind a table, as its footer tells of them.

    ``current``: from such a table's name and what it was made with to what it must be made with.
    Footers that earlier versions wrote tell nothing of this, and are read.

    Raises BeamUQError naming the file, the table behind it, the setting and both values.
    """
    for name, used in table.provenance.get(BEHIND, {}).items():
        for setting, value, wanted in _differences(_kind(name), used, current(name, used)):
            raise BeamUQError(
                f"{table.path}: was made from {name} with {setting} {value!r}, {wanted!r} is asked "
                f"for; {_fix(_kind(name), setting, value)}"
            )


def check_weights(tables: Iterable[Footer], manifests: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse tables that other weights made than those that were fetched.

    ``manifests``: from a model's source to the sha256 of its files by name.

    Raises BeamUQError naming the file, the source and both contents.
    """
    contents = {source: content_of(files) for source, files in manifests.items()}
    for table in tables:
        for use, identity in table.provenance.get(MODELS, {}).items():
            fetched = contents.get(identity.get("source"))
            recorded = identity.get("content")
            if fetched and recorded and recorded != fetched:
                raise BeamUQError(
                    f"{table.path}: was made with other weights ({use}: {recorded[:12]}…) than "
                    "those fetched of "
                    f"{identity['source']} ({fetched[:12]}…); delete it and run again, or fetch "
                    "the model that made it"
                )


def recorded_source(source: str | None) -> dict[str, str]:
    """A source as footers of tables name it: of a folder the name alone."""
    if source is None:
        return {}
    if source.startswith("folder:"):
        return {"source": f"folder:{Path(source.removeprefix('folder:')).resolve().name}"}
    return {"source": source}


def _used(table: Footer) -> dict[str, Any]:
    """What a table was made with: settings, and of its models source, content, dtype, device."""
    recorded = table.provenance
    used = dict(recorded.get("settings", {}))
    used |= {
        name: recorded[name] for name in ("dtype", "scorer_dtype", "device") if name in recorded
    }
    models = {
        use: {fact: identity[fact] for fact in ("source", "content") if fact in identity}
        for use, identity in recorded.get(MODELS, {}).items()
    }
    return used | ({MODELS: models} if models else {})


def _differences(
    kind: str, used: Mapping[str, Any], wanted: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """(what, value used, value wanted) of each setting and fact of a model that differs.

    ``used``: what a table of this ``kind`` was made with; ``wanted``: what it must be made with.
    A name that ``used`` does not have was not recorded, and is not compared.
    """
    if kind == "candidates":
        # None is the model's own temperature, which candidates without a record were drawn at
        used = {"temperature": None} | dict(used)
    for name, wanted_value in wanted.items():
        if name not in used:
            continue
        if name == MODELS:
            yield from _differences_of_models(used[MODELS], wanted_value)
        elif name in ("dtype", "scorer_dtype") and isinstance(wanted_value, Mapping):
            wanted_dtype = wanted_value.get(used.get("device"))
            if wanted_dtype is not None and used[name] != wanted_dtype:
                yield f"{name} on {used['device']}", used[name], wanted_dtype
        elif used[name] != wanted_value:
            yield name, used[name], wanted_value


def _differences_of_models(
    used: Mapping[str, Mapping[str, Any]], wanted: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, Any, Any]]:
    """As :func:`_differences`, of the facts of each model, by what the model is used for."""
    for use, wanted_facts in wanted.items():
        used_facts = used.get(use, {})
        for fact, wanted_value in wanted_facts.items():
            if fact in used_facts and used_facts[fact] != wanted_value:
                yield f"{fact} of {use}", used_facts[fact], wanted_value


def _fix(kind: str, setting: str, used: Any) -> str:
    """What to do about a table that differs: a dtype may have been named elsewhere."""
    key = setting.partition(" on ")[0]
    if key not in ("dtype", "scorer_dtype"):
        return "delete it and run again"
    if kind in ("similarity", "quality"):
        key = "scorer_dtype"
    return f"say --config {key}={used} if that is meant, or delete it and run again"


def _kind(name: str) -> str:
    """The kind of a table by a job's name: ``cross_similarity``, ``quality METRIC`` too."""
    return name.removeprefix("cross_").partition(" ")[0]


def check_one_run(tables: Iterable[Footer], *, one_cell: bool = False) -> None:
    """Refuse tables that cannot all be of one run of a study.

    Whatever two tables both record must be the same. They record the seed, the models and the
    hashes of the files that they were made from. If such a file is itself one of ``tables``, its
    hash must be the recorded one. What a footer does not record is not compared.

    ``one_cell``: the model, dataset and recipe must be the same too.

    Raises BeamUQError naming two files that disagree, and in what; or one file that lies where
    another cell's belongs.
    """
    tables = list(tables)
    # key of a fact -> its first value, and the file that records it; a file's hash it has itself
    first_records = {
        _key(table.kind, table): (file_sha256(table.path), table.path) for table in tables
    }
    for table in tables:
        _check_path(table)
        facts = _names_of_cell(table) if one_cell else {}
        facts |= dict(_records(table))
        for key, value in facts.items():
            first_value, first_path = first_records.setdefault(key, (value, table.path))
            if value != first_value:
                raise BeamUQError(
                    f"{table.path}: was made with another {key[0]} than {first_path}; one of the "
                    "two is of another run or cell: delete it and run again"
                )


def _check_path(table: Footer) -> None:
    """Refuse a table whose path names another cell than its footer.

    In a study's folder the path is ``KIND/NAME/…/NAME.parquet``, with the names of the cell. A
    table in any other folder is not looked at, nor one whose footer lacks a name.
    """
    names = [file_name(table.cell.get(name, "")) for name in NAMED_BY[table.kind]]
    expected = (table.kind, *names)
    actual = table.path.with_suffix("").parts[-len(expected) :]
    if all(expected) and actual[0] == table.kind and actual != expected:
        raise BeamUQError(
            f"{table.path}: holds {table.cell}, another cell than its path says; delete it"
        )


def _names_of_cell(table: Footer) -> dict[tuple[Any, ...], Any]:
    """Model, dataset and recipe of a table, as far as it is of one, by keys as in `_records`."""
    return {(name,): table.cell[name] for name in NAMED_BY["candidates"] if name in table.cell}


def _models_behind(table: Footer) -> dict[str, Any]:
    """Contents and dtype of the models that made a table, or those behind it, by name."""
    recorded = table.provenance
    name = OF_MODELS.get(table.kind, "")
    behind = dict(recorded.get("models_behind", {}))
    precision = {key: recorded[key] for key in ("dtype", "scorer_dtype") if key in recorded}
    for use, identity in recorded.get("models", {}).items() if name else ():
        is_served = str(identity.get("source", "")).startswith(SERVED)
        behind[f"{table.kind} of {table.cell[name]!r} ({use})"] = {
            "content": identity["content"],
            **(_server_behind(table) if is_served else precision),
        }
    return behind


def _server_behind(table: Footer) -> dict[str, Json]:
    """Of the server that gave candidates what is the same in every handshake with it.

    That is neither its noise nor the lists of its probes, which ``check_same_servers`` compares.
    """
    if table.kind != "candidates":
        return {}
    server = table.provenance["server"]
    return {"server": {name: server[name] for name in ("kind", "model", "tokenizer")}}


def _records(table: Footer) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(key, value) of each fact that a table records of how it was made.

    Two tables of one run have the same value for the same key. The first part of a key names the
    fact in messages.
    """
    recorded = table.provenance
    for name, models in _models_behind(table).items():
        yield (f"model or dtype in {name}",), models
        if name.startswith("candidates of") and "dtype" in models:
            yield ("dtype of candidates",), models["dtype"]  # of one run, whatever the model
    if "seed" in recorded.get("settings", {}):
        yield ("seed",), recorded["settings"]["seed"]
    for name, digest in recorded.get("inputs", {}).items():
        kind, _, metric = name.partition(" ")  # "quality exact_match": a further one
        if kind in NAMED_BY or kind == "cross_similarity":
            yield _key(kind, table, metric), digest
    for name, file in recorded.get("files", {}).items():
        yield (name, table.cell.get("dataset")), file["sha256"]


def _key(kind: str, table: Footer, metric: str = "") -> tuple[Any, ...]:
    """What identifies a file of ``kind`` of a study: the table, or one that it was made from."""
    settings = table.provenance.get("settings", {})
    facts = {
        "metric": metric or settings.get("quality"),
        "style": settings.get("style"),
    } | table.cell
    return (kind, *(facts.get(name) for name in NAMED_BY.get(kind, NAMED_BY["candidates"])))
