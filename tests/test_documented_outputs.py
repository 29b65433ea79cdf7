"""Every key that the commands write for programs is documented, and no other one."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from beamuq.api.asked_object import AskedDecision, AskedObject, AskedScore, BeamObject
from beamuq.api.candidate_records import QuestionRecord
from beamuq.cli import main
from beamuq_study.study_config import ROOT

PAGE = ROOT / "docs/reference/outputs.md"
SCORES = "Scores"
OF_SERVERS = {"server"}  # of a calibration: left out of a model in memory
LABELS: dict[str, Any] = {
    "quality": 0.5,
    "group": "story",
    "model": "m",
    "model_hash": "a",
    "prompt_hash": "b",
    "sampled_with": "{}",
}
ROWS = [
    {"id": k, "answer": "Rome", "samples": ["Rome", "Oslo"][: 1 + k % 2], "correct": (k + 1) % 2}
    | LABELS
    | {"group": f"story {k}"}
    for k in range(120)
]


def documented() -> dict[str, dict[str, str]]:
    """By heading of the page the keys of its table, with what is said of each."""
    tables: dict[str, dict[str, str]] = {}
    heading = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading = line.lstrip("# ")
        cells = line.strip("|").split(" | ")
        name = re.fullmatch(r"`(\w+)`", cells[0].strip())
        if line.startswith("| ") and name:
            tables.setdefault(heading, {})[name[1]] = cells[-1].strip()
    return tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands write: scores in each form, a calibration, decisions."""
    folder = tmp_path_factory.mktemp("outputs")
    rows = folder / "rows.jsonl"
    rows.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    score = ["score", str(rows), "--similarity", "lexical", "--methods", "Dissimilarity"]
    for form in ("jsonl", "csv", "parquet"):
        main([*score, "--output", str(folder / f"scored.{form}")])
    scored, calibration = str(folder / "scored.jsonl"), str(folder / "c.json")
    main(
        ["calibrate", scored, "--method", "Dissimilarity", "--risk", "0.5", "--output", calibration]
    )
    return folder


@pytest.fixture(scope="module")
def decisions(folder: Path) -> dict[str, Any]:
    new = [json.loads(line) for line in (folder / "scored.jsonl").read_text().splitlines()]
    for row in new:
        row["id"] += " again"
    (folder / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in new))
    with pytest.MonkeyPatch.context() as patch:
        printed: list[str] = []
        patch.setattr("beamuq.cli._print", printed.append)
        command = ["decide", str(folder / "new.jsonl"), "--calibration", str(folder / "c.json")]
        command += ["--json", "--output", str(folder / "decided.csv")]
        with pytest.raises(SystemExit, match="3"):  # these scores were calibrated on
            main(command)
    content: dict[str, Any] = json.loads("".join(printed))
    return content


def test_the_columns_of_scores_are_documented_in_every_form(folder: Path) -> None:
    columns = list(documented()[SCORES])
    written = [name for name in columns if name not in OF_SERVERS]
    first_line, *_ = (folder / "scored.jsonl").read_text().splitlines()
    assert list(json.loads(first_line)) == written
    with (folder / "scored.csv").open() as file:
        assert next(csv.reader(file)) == written
    assert list(pd.read_parquet(folder / "scored.parquet").columns) == written


def test_the_keys_of_a_calibration_are_documented(folder: Path) -> None:
    content = json.loads((folder / "c.json").read_text())
    tables = documented()
    assert set(content) == set(tables["CalibrationFile"]) - OF_SERVERS
    for name, heading in {
        "threshold": "GuaranteedThreshold",
        "map": "Map",
        "ece": "Estimate",
        "brier": "Estimate",
    }.items():
        assert set(content[name]) == set(tables[heading]), name


def test_calibrate_prints_with_json_what_its_file_has(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    command = ["calibrate", str(folder / "scored.jsonl"), "--method", "Dissimilarity"]
    command += ["--risk", "0.5", "--json"]
    main(command)
    assert capsys.readouterr().out == (folder / "c.json").read_text()
    main([*command, "--output", str(folder / "both.json")])
    assert capsys.readouterr().out == (folder / "both.json").read_text()


def test_calibrate_without_a_file_and_without_json_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["calibrate", str(folder / "scored.jsonl"), "--method", "Dissimilarity"])
    assert "output: missing; give --output FILE, or --json" in capsys.readouterr().err


def test_the_keys_of_decisions_are_documented(folder: Path, decisions: dict[str, Any]) -> None:
    tables = documented()
    assert list(decisions) == list(tables["DecisionsObject"])
    assert list(decisions["shift"]) == list(tables["ShiftTest"])
    assert list(decisions["promised"]) == list(tables["Promised"])
    assert list(decisions["labels"]) == list(tables["LabelsOfShown"])
    assert {tuple(decision) for decision in decisions["decisions"]} == {tuple(tables["Decision"])}
    with (folder / "decided.csv").open() as file:
        assert next(csv.reader(file)) == list(tables["Decision"])


def test_the_keys_of_a_question_are_documented() -> None:
    """``test_api_ask_model`` holds what is printed against the same object."""
    tables = documented()
    assert list(AskedObject.model_fields) == list(tables["AskedObject"])
    assert list(BeamObject.model_fields) == list(tables["BeamObject"])
    assert list(AskedScore.model_fields) == list(tables["AskedScore"])
    assert list(AskedDecision.model_fields) == list(tables["AskedDecision"])


def test_no_object_in_an_object_is_left_out(folder: Path, decisions: dict[str, Any]) -> None:
    """A further object would need a table of its own."""
    calibration = json.loads((folder / "c.json").read_text())
    nested = {name for name, value in calibration.items() if isinstance(value, dict)}
    assert nested == {"threshold", "map", "ece", "brier", "versions"}
    nested = {name for name, value in decisions.items() if isinstance(value, dict)}
    assert nested == {"shift", "labels", "promised"}


def test_something_is_said_of_every_key() -> None:
    silent = {
        (heading, name)
        for heading, table in documented().items()
        for name, text in table.items()
        if not text
    }
    assert silent == set()


def test_the_page_lists_every_column_that_counts_in_another_tools_file() -> None:
    page = (ROOT / "docs/your_own_answers.md").read_text(encoding="utf-8")
    _, _, behind = page.partition("keep their meaning\n")
    listed, _, _ = behind.partition("What stands at")
    assert set(re.findall("`([a-z_]+)`", listed)) == set(QuestionRecord.model_fields)
