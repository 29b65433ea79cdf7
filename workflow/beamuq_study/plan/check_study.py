"""Checks of a study against the world: what is registered, what can be imported, which files are
there.

Every one raises BeamUQError with one line: the study's file (or config.yaml), the key, the value
and the fix.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.methods.registry import resolve
from beamuq.models.model_folder import check_content, read_manifest
from beamuq.models.model_source import Kind, parse_source, read_commit
from beamuq.models.packaged_weights import PACKAGED
from beamuq.scorers.named_options import GOLD_LABEL
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.read_dataset_file import source_of
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.grid import SAR, Grid
from beamuq_study.plan.paths import Paths
from beamuq_study.study_config import STUDIES, Study, known


def check_name(study_file: Path) -> None:
    """Refuse a study beside ``studies/`` that is called like one in it: both would write the same
    results.
    """
    ours = STUDIES / f"{study_file.stem}.yaml"
    if ours.is_file() and not ours.samefile(study_file):
        raise BeamUQError(
            f"config.yaml: study: {json.dumps(str(study_file))}: {os.path.relpath(ours)} writes "
            f"results/{study_file.stem} too; rename your file"
        )


def check_study(grid: Grid, paths: Paths) -> None:
    """Every check of a study that has been loaded; raises the first problem."""
    with _named(str(paths.study_file)):
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
                raise BeamUQError(
                    f"{module.__name__}: {item.label}: is in {modules[item.label]} too; rename one"
                )
            modules[item.label] = module.__name__


@contextmanager
def _named(key: str) -> Iterator[None]:
    """Put the key before what is wrong within the block."""
    try:
        yield
    except (BeamUQError, ValueError) as error:
        raise BeamUQError(f"{key}: {error}") from error


def _check_adapters(grid: Grid) -> None:
    for key, dataset in grid.study.datasets.items():
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
                resolve(name)
                plugins.source_files([name])
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


def _check_files(grid: Grid, paths: Paths) -> None:
    """What nobody fetches is there: splits, models' folders, packaged models of that name."""
    for key in sorted(grid.datasets):
        dataset = grid.study.datasets[key]
        if paths.is_fetched(dataset):
            continue
        for file in paths.splits(key, dataset):
            if not file.is_file():
                local = dataset.source.startswith("hub:")
                where = "config.yaml: data_root" if local else f"{paths.study_file}: datasets.{key}"
                raise BeamUQError(
                    f"{where}: {file} does not exist; put the split there or name another"
                )
    for source in grid.model_sources:
        if source.startswith("packaged:"):
            with _named(str(paths.study_file)):
                known("source", [source], [f"packaged:{name}" for name in PACKAGED])
        if source.startswith("folder:"):
            config = paths.model_manifest(source)
            if not config.is_file():
                raise BeamUQError(
                    f"{paths.study_file}: source: {source}: holds no config.json; give a model's "
                    "folder"
                )
            check_content(
                config.parent
            )  # here in one line, which Snakemake would not say while it plans


def _check_revisions(grid: Grid, paths: Paths) -> None:
    """Refuse what another study fetched into the same folder: another split, or of another commit
    than the lock's.
    """
    held: dict[Path, tuple[Kind, str, str | None]] = {
        file: (
            "models",
            parse_source(source).name,
            getattr(read_manifest(file.parent), "revision", None),
        )
        for source in grid.model_sources
        if source.startswith("hub:") and (file := paths.model_manifest(source)).is_file()
    }
    for key in grid.datasets:
        dataset = grid.study.datasets[key]
        if paths.is_fetched(dataset):
            for file in paths.splits(key, dataset):
                if file.is_file() and (fetched := source_of(file)):
                    for name in ("source", "config"):
                        if (there := fetched.get(name)) != (asked := getattr(dataset, name)):
                            fix = "delete it, or give the study a datasets_root of its own"
                            raise BeamUQError(
                                f"{file}: is of {name} {there}, datasets.{key} asks for {asked}; "
                                f"{fix}"
                            )
                    held[file] = (
                        "datasets",
                        dataset.source.removeprefix("hub:"),
                        fetched.get("revision"),
                    )
    for file, (kind, repository, revision) in held.items():
        locked = read_commit(paths.lock, kind, repository)
        if locked and revision and locked != revision:
            raise BeamUQError(
                f"{file}: is of commit {revision}, {paths.lock} names {locked} for {repository}; "
                "delete this file and "
                "it is fetched anew, or give the study folders of its own (models_root, "
                "datasets_root)"
            )
