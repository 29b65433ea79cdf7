"""What every test shares: the folders of shared material, and the rule that CI does not let the important ones skip."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
NEVER_SKIPPED_IN_CI = ("golden", "shared", "latex", "browser", "packaged")


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """With BEAMUQ_NO_SKIP=1 (set by .ci/run) a skipped golden, LaTeX, browser, … test is a failure."""
    report = yield
    needed = [marker for marker in NEVER_SKIPPED_IN_CI if item.get_closest_marker(marker)]
    if report.skipped and needed and os.environ.get("BEAMUQ_NO_SKIP") == "1" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which BEAMUQ_NO_SKIP forbids for '{needed[0]}' tests: {report.longrepr}"
    return report
