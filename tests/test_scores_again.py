"""A study that was run again beside its published scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beamuq.errors import BeamUQError
from beamuq_study import parquet_tables
from scores_again import main

CELL = {"model": "m", "dataset": "d", "recipe": "main", "scorer": "s"}
PRR = {
    "answer_source": "greedy",
    "quality": "answer_f1",
    "subset": "all",
    "metric": "PRR",
    "variant": "",
    "setting": "",
    "low": None,
    "high": None,
    "std": None,
    "n": 100,
    "note": "",
}


def written(folder: Path, scores: dict[str, list[float]], prr: float = 0.4) -> Path:
    """A folder of results with a cell: by method a score of each question, and one PRR."""
    rows: list[dict[str, Any]] = []
    for method, values in scores.items():
        form = {"answer_source": "greedy", "method": method, "variant": "", "setting": ""}
        rows += [form | {"id": f"q{n:03d}", "value": value} for n, value in enumerate(values)]
    path = folder / "scores/s/m/d/main.parquet"
    parquet_tables.write(path, "scores", rows, cell=CELL)
    measured = [PRR | {"method": method, "value": prr} for method in scores]
    path = folder / "evaluation/s/m/d/main.parquet"
    parquet_tables.write(path, "evaluation", measured, cell=CELL)
    return folder


@pytest.fixture
def published(tmp_path: Path) -> Path:
    return written(tmp_path / "published", {"Prob": [float(n) for n in range(100)]})


def outcome(run: Path, published: Path, *options: str) -> int:
    return main([str(run), str(published), *options])


@pytest.mark.parametrize(
    ("changed", "prr", "code"),
    [
        ({}, 0.4, 0),
        ({0: 0.0005, 99: 99.05}, 0.405, 0),  # within the tolerance, which is relative above 1
        ({0: 5.0, 1: 9.0}, 0.4, 0),  # two of a hundred
        ({0: 5.0, 1: 9.0, 2: 9.0}, 0.4, 1),
        ({}, 0.42, 1),
    ],
)
def test_few_questions_may_differ_and_prr_by_little(
    tmp_path: Path,
    published: Path,
    changed: dict[int, float],
    prr: float,
    code: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    values = [changed.get(n, float(n)) for n in range(100)]
    run = written(tmp_path / "run", {"Prob": values, "PRO": values}, prr)
    assert outcome(run, published) == code
    told = capsys.readouterr().out
    assert ("DIFFERS" in told) == bool(code)
    assert "100 questions, 1 forms (1 new ones not compared, 0 not scored)" in told


def test_lost_questions_and_forms_are_faults(
    tmp_path: Path, published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fewer = written(tmp_path / "fewer", {"Prob": [float(n) for n in range(99)]})
    assert outcome(fewer, published) == 1
    assert "1 questions are in one alone, such as 'q099'" in capsys.readouterr().out
    another = written(tmp_path / "another", {"PRO": [float(n) for n in range(100)]})
    assert outcome(another, published) == 1
    assert "1 forms were not scored, such as 'greedy Prob'" in capsys.readouterr().out


def test_forms_that_were_not_scored_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [float(n) for n in range(100)]
    whole = written(tmp_path / "whole", {"Prob": values, "PTrue": values})
    part = written(tmp_path / "part", {"Prob": values})
    assert outcome(part, whole) == 1
    assert outcome(part, whole, "--so-far") == 0
    assert "1 forms (0 new ones not compared, 1 not scored)" in capsys.readouterr().out


def test_a_part_of_the_questions_is_compared_without_prr(
    tmp_path: Path, published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = written(tmp_path / "part", {"Prob": [float(n) for n in range(60)]}, prr=0.9)
    assert outcome(part, published, "--so-far") == 0
    told = capsys.readouterr().out
    assert "60 questions, 1 forms" in told
    assert "PRR not compared: 100 questions are published" in told
    differing = written(tmp_path / "differing", {"Prob": [float(-n) for n in range(60)]})
    assert outcome(differing, published, "--so-far") == 1


def test_a_cell_that_was_not_run_is_told(
    tmp_path: Path, published: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert outcome(empty, published) == 1
    assert outcome(empty, published, "--so-far") == 1  # nothing was compared
    assert "s/m/d/main.parquet: not run" in capsys.readouterr().out
    with pytest.raises(BeamUQError, match="recipe 'other'"):
        outcome(empty, published, "--recipe", "other")
