"""Checks of a study against the world: what is registered, can be imported and lies on disk.

Every one raises BeamUQError with one line: the study's file (or config.yaml), the key, the value
and the fix.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.evaluation.estimates import MEAN
from beamuq.methods.registry import resolve
from beamuq.models.model_folder import check_content, check_folder, read_manifest
from beamuq.models.model_source import Kind, parse_source, read_commit
from beamuq.models.packaged_weights import PACKAGED
from beamuq.scorers.named_options import GOLD_LABEL
from beamuq.served_strategies import lacking_over_server
from beamuq.strategy_names import of_kind
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.read_dataset_file import source_of
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.grid import SAR, Grid
from beamuq_study.plan.paths import Paths
from beamuq_study.study_config import STUDIES, Dataset, Study, known

ENTROPY = "answer.mean_entropy"
"""What of the evidence no server gives: the entropy of whole distributions."""


def check_name(study_file: Path) -> None:
    """Refuse a study that is called like one in ``studies/``: both would write one folder."""
    ours = STUDIES / f"{study_file.stem}.yaml"
    if ours.is_file() and not ours.samefile(study_file):
        raise BeamUQError(
            f"config.yaml: study: {json.dumps(str(study_file))}: {os.path.relpath(ours)} writes "
            f"results/{study_file.stem} too; rename your file"
        )


def check_study(grid: Grid, paths: Paths) -> None:
    """Every check of a study that has been loaded; raises the first problem."""
    _check_servers(grid, paths)
    with _named(str(paths.study_file)):
        _check_served_recipes(grid)
        _check_adapters(grid)
        _check_plugins(grid)
        _check_methods(grid)
        _check_labels(grid.study)
        for position, name in enumerate(grid.study.exhibits):
            with _named(f"exhibits[{position}]: {json.dumps(name)}"):
                list_of_exhibits.exhibit(name, grid.study).artifacts(grid.study)
    _check_files(grid, paths)
    _check_revisions(grid, paths)


def _check_labels(study: Study) -> None:
    modules = {"paired": "the rule comparison"}
    for module in list_of_exhibits.MODULES:
        for item in getattr(module, "exhibits", lambda _: [])(study):
            if item.kind not in ("table", "figure"):
                raise BeamUQError(
                    f"{module.__name__}: {item.label}: kind {item.kind!r}; write table or figure"
                )
            if item.label in modules:
                _refuse_labels_of_models(study, item.label)
                raise BeamUQError(
                    f"{module.__name__}: {item.label}: is in {modules[item.label]} too; rename one"
                )
            modules[item.label] = module.__name__


def _refuse_labels_of_models(study: Study, exhibit: str) -> None:
    """Refuse the label of a model that makes an exhibit's name one that another exhibit has."""
    for key, model in study.models.items():
        if exhibit.endswith(f"_{model.label}"):
            raise BeamUQError(
                f"models.{key}.label: {json.dumps(model.label)}: another table or figure is called "
                f"{exhibit} already; choose another label"
            )


@contextmanager
def _named(key: str) -> Iterator[None]:
    """Put the key before what is wrong within the block."""
    try:
        yield
    except (BeamUQError, ValueError) as error:
        raise BeamUQError(f"{key}: {error}") from error


def _check_adapters(grid: Grid) -> None:
    for key, dataset in grid.study.datasets.items():
        if key == MEAN:
            raise BeamUQError(f"datasets.{key}: tables call their mean so; rename the dataset")
        known(f"datasets.{key}.adapter", [dataset.adapter], ADAPTERS)
    metrics = [quality.metric for quality in grid.study.quality]
    for key in grid.datasets:
        measured = [quality.metric for quality in grid.study.qualities(key)]
        if GOLD_LABEL in measured and not ADAPTERS[grid.study.datasets[key].adapter].options:
            position = metrics.index(GOLD_LABEL)
            raise BeamUQError(
                f'quality[{position}].metric: "{GOLD_LABEL}": the questions of {key} have no '
                "options; list the "
                f"multiple-choice sets under quality[{position}].datasets"
            )


def _check_plugins(grid: Grid) -> None:
    study = grid.study
    named = {f"scorers.{key}.kind": scorer.kind for key, scorer in study.scorers.items()}
    named |= {f"quality[{n}].metric": quality.metric for n, quality in enumerate(study.quality)}
    for key, recipe in study.recipes.items():
        named |= {
            f"recipes.{key}.custom[{n}].policy": search.policy
            for n, search in enumerate(recipe.custom or ())
        }
    for key, name in named.items():
        with _named(key):
            plugins.source_files([name])


def _check_methods(grid: Grid) -> None:
    for recipe, scoring in grid.study.scoring.items():
        for position, name in enumerate(scoring.methods):
            with _named(f"scoring.{recipe}.methods[{position}]"):
                method = resolve(name)
                plugins.source_files([name])
                if method.scope == "beams":
                    _check_has_beams(grid.study, recipe)
        for position, name in enumerate(scoring.estimators):
            with _named(f"scoring.{recipe}.estimators[{position}]"):
                grid.estimators_of(recipe, [name])
        if scoring.estimators and "Dissimilarity" not in scoring.methods:
            raise BeamUQError(
                f"scoring.{recipe}.estimators: are of Dissimilarity; add it to "
                f"scoring.{recipe}.methods"
            )
        if SAR in grid.judgements_of(recipe) and not grid.study.main.relevance:
            raise BeamUQError("main.relevance: SAR needs it; name the scorer that judges tokens")


def _check_has_beams(study: Study, recipe: str) -> None:
    """That a recipe whose methods read beams' probabilities has the main beams or an exact set."""
    decoded = study.recipes[recipe]
    if decoded.decoded(study.main.beam) or of_kind(decoded.strategies(), "exact"):
        return
    raise BeamUQError(
        f"reads beams, and recipes.{recipe} decodes neither {study.main.beam!r} nor an exact set; "
        "add one there or drop the method"
    )


def _check_servers(grid: Grid, paths: Paths) -> None:
    """Every server that a model of the grid names stands in ``config.yaml``."""
    servers = paths.machine.servers
    for model in grid.served:
        name = grid.study.models[model].server
        if name not in servers:
            has = f"has {', '.join(servers)}" if servers else "has none"
            raise BeamUQError(
                f"config.yaml: servers: {has}, and models.{model} of {paths.study_file} is served "
                f"by {name}; write servers: {{{name}: http://HOST:PORT/v1}}, or {{{name}: null}} "
                "where it is decoded already"
            )


def _check_served_recipes(grid: Grid) -> None:
    """Served models decode and score nothing that needs whole distributions."""
    study = grid.study
    for cell in grid.cells:
        if not study.models[cell.model].is_served:
            continue
        served = f"models.{cell.model} is served"
        fix = f"leave it out, or give {cell.model} a recipe of its own"
        for strategy in study.recipes[cell.recipe].strategies():
            reason = lacking_over_server(strategy)
            if reason:
                raise BeamUQError(
                    f"recipes.{cell.recipe}: {json.dumps(strategy)}: {reason}, and {served}; {fix}"
                )
        for position, name in enumerate(study.scoring[cell.recipe].methods):
            if ENTROPY in resolve(name).all_needs:
                raise BeamUQError(
                    f"scoring.{cell.recipe}.methods[{position}]: {json.dumps(name)}: needs the "
                    "entropy at each token, which a server's lists do not give, and "
                    f"{served}; {fix}"
                )


def _check_files(grid: Grid, paths: Paths) -> None:
    """What nobody fetches is there: splits, models' folders, packaged models of that name."""
    for key in sorted(grid.datasets):
        _check_splits(key, grid.study.datasets[key], paths)
    keys = _keys_of_sources(grid.study)
    for source in grid.model_sources:
        _check_model(source, keys[source], grid, paths)


def _check_splits(key: str, dataset: Dataset, paths: Paths) -> None:
    if paths.is_fetched(dataset):
        return
    for file in paths.splits(key, dataset):
        if not file.is_file():
            local = dataset.source.startswith("hub:")
            where = "config.yaml: data_root" if local else f"{paths.study_file}: datasets.{key}"
            raise BeamUQError(
                f"{where}: {file} does not exist; put the split there or name another"
            )


def _keys_of_sources(study: Study) -> dict[str, str]:
    """By source of a model the first key of the study file that names it."""
    keys = [
        *((f"models.{name}.source", model.source) for name, model in study.models.items()),
        *((f"models.{name}.tokenizer", model.tokenizer) for name, model in study.models.items()),
        *((f"scorers.{name}.source", scorer.source) for name, scorer in study.scorers.items()),
        *((f"quality[{place}].source", item.source) for place, item in enumerate(study.quality)),
        *(
            (f"quality[{place}].backbone", item.backbone)
            for place, item in enumerate(study.quality)
        ),
    ]
    return {source: key for key, source in reversed(keys) if source}


def _check_model(source: str, key: str, grid: Grid, paths: Paths) -> None:
    if source.startswith("packaged:"):
        with _named(str(paths.study_file)):
            known(key, [source], [f"packaged:{name}" for name in PACKAGED])
    if source.startswith("folder:"):
        config = paths.model_manifest(source)
        if not config.is_file():
            raise BeamUQError(
                f"{paths.study_file}: {key}: {source}: holds no config.json; give a model's folder"
            )
        # here in one line, which Snakemake would not say while it plans
        check_content(config.parent)
        if source not in grid.sources_of_weights:
            check_folder(config.parent, weights=False)


@dataclass(frozen=True)
class _Fetched:
    """A file from the hub. ``revision``: its commit, None where the file does not tell."""

    file: Path
    kind: Kind
    repository: str
    revision: str | None


def _check_revisions(grid: Grid, paths: Paths) -> None:
    """Refuse what another study fetched into the same folder: another split or commit."""
    for fetched in [*_fetched_models(grid, paths), *_fetched_splits(grid, paths)]:
        locked = read_commit(paths.lock, fetched.kind, fetched.repository)
        if locked and fetched.revision and locked != fetched.revision:
            raise BeamUQError(
                f"{fetched.file}: is of commit {fetched.revision}, {paths.lock} names {locked} for "
                f"{fetched.repository}; delete this file and it is fetched anew, or give the study "
                "folders of its own (models_root, datasets_root)"
            )


def _fetched_models(grid: Grid, paths: Paths) -> list[_Fetched]:
    fetched = []
    for source in grid.model_sources:
        file = paths.model_manifest(source)
        if source.startswith("hub:") and file.is_file():
            revision = getattr(read_manifest(file.parent), "revision", None)
            fetched.append(_Fetched(file, "models", parse_source(source).name, revision))
    return fetched


def _fetched_splits(grid: Grid, paths: Paths) -> list[_Fetched]:
    """Raises BeamUQError if one is of another source or configuration than the study's."""
    fetched = []
    for key in grid.datasets:
        dataset = grid.study.datasets[key]
        if not paths.is_fetched(dataset):
            continue
        repository = dataset.source.removeprefix("hub:")
        for file in paths.splits(key, dataset):
            split = source_of(file) if file.is_file() else None
            if split:
                _check_source(file, split, key, dataset)
                fetched.append(_Fetched(file, "datasets", repository, split.get("revision")))
    return fetched


def _check_source(file: Path, split: Mapping[str, Any], key: str, dataset: Dataset) -> None:
    for name in ("source", "config"):
        wanted = getattr(dataset, name)
        if split.get(name) != wanted:
            raise BeamUQError(
                f"{file}: is of {name} {split.get(name)}, datasets.{key} asks for {wanted}; delete "
                "it, or give the study a datasets_root of its own"
            )
