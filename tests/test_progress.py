"""Progress: bars where somebody looks on, and lines in the log of a long job."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from beamuq import progress


class Clock:
    """Seconds, as a test sets them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "monotonic", clock)
    return clock


def run_job(clock: Clock, total: int, seconds: float, label: str = "prompts") -> None:
    """A job of so many steps of equal length."""
    with progress.job_progress(total, label, "prompt") as shown:
        for _ in range(total):
            clock.now += seconds
            shown.update(1)


def test_of_a_job_shorter_than_a_minute_nothing_is_written_in_a_log(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    run_job(clock, 59, 1)
    assert capsys.readouterr().err == ""


def test_a_long_job_writes_a_plain_line_after_a_minute_and_then_every_ten(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    run_job(clock, 180, 10)  # half an hour
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "prompts: 6 of 180 done, 01:00 elapsed, about 29:00 left"
    assert [line.split(" elapsed")[0] for line in lines[1:]] == [
        "prompts: 66 of 180 done, 11:00",
        "prompts: 126 of 180 done, 21:00",
    ]


def test_a_job_of_one_step_says_nothing_when_it_is_done(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    run_job(clock, 1, 7200)
    assert capsys.readouterr().err == ""


def test_without_a_label_nothing_is_written_at_all(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    run_job(clock, 100, 60, label="")
    assert capsys.readouterr().err == ""


def test_a_terminal_and_a_notebook_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not progress.is_watched()
    shell = type("ZMQInteractiveShell", (), {})()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert progress.is_watched()
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not progress.is_watched()
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert progress.is_watched()
