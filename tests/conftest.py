"""What every test shares: the folders of shared material, and the rule that CI does not let the important ones skip."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from beamuq.network import FETCHING, SWITCHES, TELEMETRY

ROOT = Path(__file__).resolve().parents[1]
NEVER_SKIPPED_IN_CI = ("golden", "shared", "latex", "browser", "packaged", "slurm", "mount")


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(autouse=True)
def hub_switches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test sees no switch of the hub's libraries that another test, or who started the tests, has set."""
    for name in (*SWITCHES, FETCHING, TELEMETRY):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With BEAMUQ_NO_SKIP=1 (set by .ci/run) a skipped golden, LaTeX, browser, … test is a failure."""
    report = yield
    # a CI that is not root can neither start SLURM nor mount: .ci/run then leaves these names out
    allowed = os.environ.get("BEAMUQ_MAY_SKIP", "").split()
    needed = [mark for mark in NEVER_SKIPPED_IN_CI if mark not in allowed and item.get_closest_marker(mark)]
    if report.skipped and needed and os.environ.get("BEAMUQ_NO_SKIP") == "1" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which BEAMUQ_NO_SKIP forbids for '{needed[0]}' tests: {report.longrepr}"
    return report
