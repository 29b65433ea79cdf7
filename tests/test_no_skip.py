"""In CI a test that skips is a failure: what a missing tool hides must not look like a pass."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SKIPS = """
import pytest

@pytest.mark.slurm
def test_marked():
    pytest.skip("no SLURM here")

def test_plain():
    pytest.skip("no reason at all")

@pytest.fixture
def absent():
    pytest.skip("in a fixture")

def test_fixture(absent):
    pass

@pytest.mark.skipif(True, reason="a condition")
def test_condition():
    pass
"""


@pytest.mark.parametrize(
    ("switches", "outcome", "code"),
    [
        ({}, "= 4 skipped in", 0),
        ({"BEAMUQ_NO_SKIP": "1"}, "= 2 failed, 2 errors in", 1),  # a skip before the test itself is an error
        ({"BEAMUQ_NO_SKIP": "1", "BEAMUQ_MAY_SKIP": "mount slurm"}, "= 1 failed, 1 skipped, 2 errors in", 1),
    ],
)
def test_a_skip_is_a_failure_where_skips_are_forbidden(
    switches: dict[str, str], outcome: str, code: int, tmp_path: Path, root: Path
) -> None:
    shutil.copy(root / "tests/conftest.py", tmp_path)
    (tmp_path / "test_skips.py").write_text(SKIPS)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("BEAMUQ_", "PYTEST_"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-W", "ignore", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=plain | switches, text=True, capture_output=True, check=False, timeout=120
    )
    assert outcome in done.stdout, done.stdout + done.stderr
    assert done.returncode == code
