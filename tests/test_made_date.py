"""Results of commands say when they were made, in UTC; rows and a study's pages do not."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

import beamuq
from beamuq.api.calibration_file import read_calibration
from beamuq.cli import main
from beamuq.errors import BeamUQError
from beamuq.explorer.explorer_page import Question, Section, page
from beamuq.made_date import VARIABLE, date_made

DAY = "2001-09-09"
SECONDS = "1000000000"  # of that day
ROWS = [
    {"id": k, "answer": "Rome", "samples": ["Rome", "Oslo"][: 1 + k % 2], "correct": k % 2}
    for k in range(60)
]


@pytest.fixture(autouse=True)
def date_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, SECONDS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_the_date_is_that_of_the_environment_or_today_in_utc(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert date_made() == DAY
    monkeypatch.delenv(VARIABLE)
    before = datetime.now(UTC).date().isoformat()
    assert before <= date_made() <= datetime.now(UTC).date().isoformat()


@pytest.mark.parametrize("seconds", ["today", "1.5", "9" * 40])
def test_what_is_no_date_of_the_environment_is_refused(
    seconds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, seconds)
    with pytest.raises(BeamUQError, match=f"{VARIABLE}: '{seconds[:20]}"):
        date_made()


def test_every_printed_result_ends_with_the_date_and_rows_for_programs_do_not(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scored, calibration = tmp_path / "scored.jsonl", tmp_path / "c.json"
    score = ["score", str(file), "--similarity", "lexical", "--methods", "Dissimilarity"]
    calibrate = ["calibrate", str(scored), "--method", "Dissimilarity", "--risk", "0.5"]
    commands = [
        [*score, "--output", str(scored)],
        [*score, "--long"],
        [*calibrate, "--output", str(calibration)],
    ]
    footer = f"made {DAY} (UTC) by beamuq {beamuq.__version__}"
    for command in commands:
        main(command)
        assert capsys.readouterr().out.splitlines()[-1] == footer
    decide = ["decide", str(scored), "--calibration", str(calibration)]
    with pytest.raises(SystemExit, match="3"):  # these are the scores that were calibrated on
        main(decide)
    assert capsys.readouterr().out.splitlines()[-1] == footer
    for form in ("csv", "jsonl"):
        main([*score, "--format", form])
        assert DAY not in capsys.readouterr().out
    assert DAY not in scored.read_text()


def test_objects_in_json_have_the_date_and_the_version(file: Path, tmp_path: Path) -> None:
    scores = beamuq.score(file, similarity="lexical", methods="Dissimilarity")
    made = beamuq.calibrate(scores, method="Dissimilarity", output=tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["made"] == DAY
    assert read_calibration(tmp_path / "c.json") == made
    decided = json.loads(beamuq.decide(scores, made).as_json())
    assert (decided["made"], decided["version"]) == (DAY, beamuq.__version__)


def test_a_calibration_of_before_has_no_date_and_is_read(file: Path, tmp_path: Path) -> None:
    scores = beamuq.score(file, similarity="lexical", methods="Dissimilarity")
    path = tmp_path / "c.json"
    beamuq.calibrate(scores, method="Dissimilarity", output=path)
    content = json.loads(path.read_text())
    del content["made"]
    path.write_text(json.dumps(content))
    older = read_calibration(path)
    assert older.made is None
    older.write(path)
    assert json.loads(path.read_text()) == content


@pytest.mark.parametrize("most_printed", [0, 5000], ids=["in blocks", "at once"])
def test_parquet_says_the_date_beside_its_rows(
    most_printed: int, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("beamuq.cli.MOST_PRINTED", most_printed)
    path = tmp_path / "scored.parquet"
    main(["score", str(file), "--similarity", "lexical", "--output", str(path)])
    table = pd.read_parquet(path)
    assert table.attrs == {"made": DAY, "version": beamuq.__version__}
    assert DAY not in table.to_csv()
    again = path.read_bytes()
    main(["score", str(file), "--similarity", "lexical", "--output", str(path)])
    assert path.read_bytes() == again


def test_a_page_of_rows_says_the_date_and_a_page_of_a_study_does_not(file: Path) -> None:
    html = beamuq.explore(file, similarity="lexical").read_text()
    assert f"made {DAY} (UTC)" in html
    question = Question("1", "Capital?", {"text": "Rome", "logprob": None}, [], [])
    scores = beamuq.score(ROWS[:1], similarity="lexical", methods="Dissimilarity")
    section = Section("cell", "Cell", [question], scores)
    assert DAY not in page("Study", [], [section])
