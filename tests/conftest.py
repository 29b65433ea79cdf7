"""What every test shares: a clean environment, a study run once; and that nothing skips in CI."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from beamuq.methods import METHODS
from beamuq.models.offline import FETCHING, SWITCHES, TELEMETRY
from micro import SIMILARITY, Workplace, build_models, micro_study, noting_imports

gc.set_threshold(
    100_000
)  # what a worker imports is millions of objects, and looking at them takes its time
Once = Callable[[str, Callable[[Path], object]], Path]


@pytest.fixture(scope="session")
def results(once: Once) -> Any:
    """The synthetic study's result files, written as exhibits of any worker ask for them; no test
    changes one.
    """
    import exhibits_study

    return exhibits_study.Results(once("results", lambda _: None), exhibits_study.study())


@pytest.fixture(autouse=True)
def hub_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees no switch of the hub's libraries that another test, or who started the tests, has
    set.
    """
    for name in (*SWITCHES, FETCHING, TELEMETRY):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def registered_methods() -> Iterator[None]:
    """A method that a test registers is forgotten after it."""
    before = dict(METHODS)
    yield
    METHODS.clear()
    METHODS.update(before)


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """``once(name, fill)``: a folder that the first worker fills and all others find filled; not to
    be changed.
    """
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp().parent if parallel else tmp_path_factory.getbasetemp()

    def folder(name: str, fill: Callable[[Path], object]) -> Path:
        # as deep as a test's own folder, since a study names the project's files relative to where
        # it lies
        path = base / "once" / ("of_all_workers" if parallel else "") / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.with_suffix(".done").exists():
                path.mkdir()
                fill(path)
                path.with_suffix(".done").touch()
        return path

    return folder


@pytest.fixture(scope="session")
def tiny_models(once: Once) -> Path:
    """A folder with the two models of the micro study."""
    return once("models", build_models)


@pytest.fixture(scope="session")
def decoded(once: Once, tiny_models: Path) -> Workplace:
    """The micro study, run up to its similarities without a fault, its programs' imports noted
    down; not to be changed.
    """

    def run(folder: Path) -> None:
        place = Workplace(folder, micro_study(tiny_models))
        place.run(SIMILARITY, environment=noting_imports(folder))

    return Workplace(once("decoded", run))


@pytest.fixture
def prompted(decoded: Workplace, tmp_path: Path) -> Workplace:
    """A copy of it without what its model has answered."""
    place = decoded.copy(tmp_path / "place")
    for made in ("candidates", "similarity"):
        shutil.rmtree(place.folder / "results/micro" / made)
    return place


@pytest.fixture
def nli_from_hub(tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The empty folder of the NLI model that the study own.yaml, in the working directory, takes
    from the hub.
    """
    monkeypatch.chdir(tmp_path)
    study = micro_study(tiny_models)
    study["scorers"]["nli"] |= {"source": "hub:org/nli"}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(study))
    folder = tmp_path / "resources/models/org--nli"
    folder.mkdir(parents=True)
    return folder


MARKS = {
    "model": {
        "torch",
        "transformers",
        "tiny",
        "tiny_scorers",
        "small_batch",
        "listed_model",
        "pretend_card",
    },
    "snakemake": {"run_snakemake", "micro"},
    "slow": {"exhibits_study"},
}
"""By mark: a test module that imports one of these, or anything of them, has it."""


NOT_NEWEST = ("snakemake", "slow", "packaged", "gemma", "server", "slurm", "evidence")
"""Tests of these marks run on the pinned transformers alone."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `make quick` leaves out; the longest first, so that no worker is left alone with
    them at the end.
    """
    for item in items:
        values = vars(item.getparent(pytest.Module).obj).values()  # type: ignore[union-attr]
        imported = {
            getattr(value, "__module__", None) or getattr(value, "__name__", None)
            for value in values
        }
        for mark, helpers in MARKS.items():
            if helpers & imported:
                item.add_marker(mark)
        if item.get_closest_marker("model") and not any(map(item.get_closest_marker, NOT_NEWEST)):
            item.add_marker("newest")
    marks = ("slurm", "slow", "snakemake", "model")
    items.sort(key=lambda item: [item.get_closest_marker(mark) is None for mark in marks])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With BEAMUQ_NO_SKIP=1 (set by .ci/run) a skipped test is a failure, unless BEAMUQ_MAY_SKIP
    names a mark of it.
    """
    report = yield
    # a CI that is not root cannot start SLURM: .ci/run then names that mark
    allowed = any(
        item.get_closest_marker(mark) for mark in os.environ.get("BEAMUQ_MAY_SKIP", "").split()
    )
    if report.skipped and not allowed and os.environ.get("BEAMUQ_NO_SKIP") == "1":
        report.outcome = "failed"
        report.longrepr = f"skipped, which BEAMUQ_NO_SKIP forbids: {report.longrepr}"
    return report
