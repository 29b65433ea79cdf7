"""Bars that are shown where somebody looks on, and are silent elsewhere."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from beamuq import progress


def test_nothing_is_written_where_nobody_looks_on(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.watched_bar(2, "prompts", "prompt") as bar:
        bar.update(2)
    assert bar.disable
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
