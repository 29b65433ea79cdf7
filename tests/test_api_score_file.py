"""Scores of a file some questions at a time: the same as all at once, in the same memory."""

from __future__ import annotations

import contextlib
import errno
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

import beamuq
from beamuq.api import score_file as module
from beamuq.api.rows import write
from beamuq.cli import main
from beamuq.errors import BeamUQError

WORDS = ("Rome", "Milan", "Rome in Italy", "Turin")


def question(number: int, **more: Any) -> dict[str, Any]:
    samples = [WORDS[(number * step) % 4] for step in range(1, 4)]
    return {"id": f"q{number}", "answer": WORDS[number % 4], "samples": samples} | more


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 3)


@pytest.mark.parametrize("suffix", [".jsonl", ".ndjson", ".parquet"])
@pytest.mark.parametrize("source", [".jsonl", ".parquet"])
def test_a_file_scored_in_blocks_is_that_scored_at_once(
    suffix: str, source: str, tmp_path: Path
) -> None:
    rows = [question(number) for number in range(8)]
    rows[7]["correct"] = 1.0  # a label that the first blocks do not have
    path = lines(tmp_path / "rows.jsonl", rows)
    if source == ".parquet":
        path = tmp_path / "rows.parquet"
        pd.DataFrame(rows).to_parquet(path)
    output = tmp_path / f"scores{suffix}"
    assert beamuq.score_file(path, output, similarity="lexical") == 8
    at_once = beamuq.score(path, similarity="lexical")
    if suffix == ".parquet":
        pd.testing.assert_frame_equal(pd.read_parquet(output), pd.DataFrame(at_once))
    else:
        expected = tmp_path / "expected.jsonl"
        write(at_once, expected)
        assert output.read_bytes() == expected.read_bytes()


def test_an_id_of_an_earlier_block_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    rows = [question(number) for number in range(5)]
    path = lines(tmp_path / "rows.jsonl", [*rows, question(0)])
    output = tmp_path / "scores.parquet"
    with pytest.raises(BeamUQError, match=r"rows.jsonl: line 6: id 'q0' stands twice"):
        beamuq.score_file(path, output, similarity="lexical")
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


def test_rows_left_out_are_told_of_over_all_blocks(tmp_path: Path) -> None:
    rows = [question(number) for number in range(8)]
    rows[1]["answer"] = rows[6]["answer"] = None
    path = lines(tmp_path / "rows.jsonl", rows)
    with pytest.warns(UserWarning, match="2 of 8 rows left out"):
        count = beamuq.score_file(
            path, tmp_path / "scores.jsonl", similarity="lexical", skip_invalid=True
        )
    assert count == 6


def test_rows_without_an_id_have_their_number_in_the_file(tmp_path: Path) -> None:
    rows = [question(number) for number in range(5)]
    for row in rows:
        del row["id"]
    path = lines(tmp_path / "rows.jsonl", rows)
    beamuq.score_file(path, tmp_path / "scores.parquet", similarity="lexical")
    ids = pd.read_parquet(tmp_path / "scores.parquet")["id"].unique()
    assert list(ids) == ["1", "2", "3", "4", "5"]


def test_what_a_study_of_blocks_would_warn_of_is_warned_of_once(tmp_path: Path) -> None:
    rows = [
        question(number, answer="<think>so</think> Rome", samples=["<think>a</think> b", "c"])
        for number in range(8)
    ]
    path = lines(tmp_path / "rows.jsonl", rows)
    with pytest.warns(UserWarning, match="think") as told:
        beamuq.score_file(path, tmp_path / "scores.parquet", similarity="lexical")
    assert len(told) == 1


@pytest.mark.parametrize(
    ("rows", "output", "message"),
    [
        ("rows.csv", "scores.parquet", "rows: .*"),
        ("rows.jsonl", "scores.csv", "output: .*"),
        ("rows.json", "scores.parquet", "rows: .* or write one object of it a line"),
        ("rows.jsonl", "scores.json", "output: .* give .jsonl"),
    ],
)
def test_another_ending_is_refused(rows: str, output: str, message: str, tmp_path: Path) -> None:
    lines(tmp_path / rows, [question(1)])
    with pytest.raises(BeamUQError, match=rf"^{message}") as caught:
        beamuq.score_file(tmp_path / rows, tmp_path / output)
    assert "must end in .parquet, .jsonl or .ndjson" in str(caught.value)


def test_json_lines_may_end_in_ndjson_for_every_command(tmp_path: Path) -> None:
    rows = [question(number, correct=number % 2) for number in range(60)]
    path = lines(tmp_path / "rows.ndjson", rows)
    scored, calibration = tmp_path / "scored.ndjson", tmp_path / "c.json"
    main(["score", str(path), "--similarity", "lexical", "--output", str(scored)])
    assert len(pd.read_json(scored, lines=True)) == len(beamuq.score(rows, similarity="lexical"))
    method = ["--method", "Dissimilarity", "--output", str(calibration)]
    main(["calibrate", str(scored), *method])
    decided = tmp_path / "decided.ndjson"
    new = tmp_path / "new.ndjson"
    new.write_text(scored.read_text().replace('"id": "q', '"id": "new'))
    options = ["--calibration", str(calibration), "--output", str(decided)]
    with contextlib.suppress(SystemExit):  # 3: these scores were calibrated on
        main(["decide", str(new), *options])
    assert len(decided.read_text().splitlines()) == 60
    assert beamuq.explore(path, similarity="lexical").name == "rows.explorer.html"


def test_a_prompt_said_of_all_rows_is_one_that_decide_compares(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", [question(k, correct=k % 2) for k in range(60)])
    calibration = tmp_path / "c.json"
    for name, prompt in (("known", "few-shot 1"), ("new", "few-shot 2")):
        score = ["score", str(path), "--similarity", "lexical", "--prompt-hash", prompt]
        main([*score, "--output", str(tmp_path / f"{name}.jsonl")])
    known = str(tmp_path / "known.jsonl")
    main(["calibrate", known, "--method", "Dissimilarity", "--output", str(calibration)])
    assert json.loads(calibration.read_text())["prompt_hash"] == "few-shot 1"
    with pytest.raises(BeamUQError, match="prompt_hash 'few-shot 2', calibrated with 'few-shot 1'"):
        beamuq.decide(tmp_path / "new.jsonl", calibration)


def test_a_prompt_is_said_of_the_rows_of_every_block_and_not_against_a_rows_own(
    tmp_path: Path,
) -> None:
    rows = [question(0, prompt_hash="p"), *(question(number) for number in range(1, 8))]
    path = lines(tmp_path / "rows.jsonl", rows)
    output = tmp_path / "scores.parquet"
    beamuq.score_file(path, output, similarity="lexical", prompt_hash="p")
    at_once = beamuq.score(path, similarity="lexical", prompt_hash="p")
    pd.testing.assert_frame_equal(pd.read_parquet(output), pd.DataFrame(at_once))
    assert set(at_once["prompt_hash"]) == {"p"}
    for function in (beamuq.score, lambda *rest, **more: beamuq.score_file(*rest, output, **more)):
        with pytest.raises(
            BeamUQError, match=r"id 'q0': prompt_hash: 'p', .*\(--prompt-hash\) is 'o'"
        ):
            function(path, similarity="lexical", prompt_hash="o")


def test_rows_of_an_unknown_ending_are_refused_with_all_that_are_read(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.txt", [question(1)])
    listed = r".json, .csv, .eval, .parquet, .jsonl or .ndjson"
    with pytest.raises(BeamUQError, match=f"rows.txt: must end in {listed}"):
        beamuq.score(path, similarity="lexical")


def test_a_table_written_as_json_is_refused_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match=r"output: .*x.json: must end in .*; give .jsonl"):
        write(pd.DataFrame({"a": [1]}), tmp_path / "x.json")


def test_where_most_rows_cannot_be_read_none_is_left_out(tmp_path: Path) -> None:
    rows = [question(number) for number in range(5)]
    for row in rows[:3]:
        row["answer"] = None
    path = lines(tmp_path / "rows.jsonl", rows)
    with pytest.raises(BeamUQError, match=r"3 of 5 rows cannot be read, .*: line 1: "):
        beamuq.score(path, similarity="lexical", skip_invalid=True)


def test_a_file_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match=r"none.jsonl: no such file"):
        beamuq.score_file(tmp_path / "none.jsonl", tmp_path / "scores.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"no table")
    with pytest.raises(BeamUQError, match=r"bad.parquet: not a readable Parquet file"):
        beamuq.score_file(tmp_path / "bad.parquet", tmp_path / "scores.parquet")


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path: Path) -> None:
    path = lines(tmp_path / "rows.jsonl", [{"answer": "Rome", "samples": ["Rome", "Milan"]}])
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(BeamUQError, match=r"file/scores.parquet: cannot be written \("):
        beamuq.score_file(path, tmp_path / "file" / "scores.parquet", similarity="lexical")


def test_of_rows_that_are_not_there_no_folder_is_made(tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match=r"none.jsonl: no such file"):
        beamuq.score_file(tmp_path / "none.jsonl", tmp_path / "new" / "scores.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lines(tmp_path / "rows.jsonl", [{"answer": "Rome", "samples": ["Rome", "Milan"]}])

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", refuse)
    with pytest.raises(BeamUQError, match=r"scores.jsonl: cannot be written \(No space left"):
        beamuq.score_file(path, tmp_path / "scores.jsonl", similarity="lexical")
    assert [file.name for file in tmp_path.iterdir()] == ["rows.jsonl"]


def test_draws_are_scored_in_blocks_too_and_are_as_many_in_all(tmp_path: Path) -> None:
    samples = ["Rome", "Milan", "Turin", "Rome"]
    rows = [{"id": f"q{number}", "answer": "Rome", "samples": samples} for number in range(5)]
    path = lines(tmp_path / "rows.jsonl", rows)
    output = tmp_path / "scores.parquet"
    beamuq.score_file(path, output, similarity="lexical", methods="Dissimilarity", draw_size=2)
    at_once = beamuq.score(path, similarity="lexical", methods="Dissimilarity", draw_size=2)
    pd.testing.assert_frame_equal(pd.read_parquet(output), pd.DataFrame(at_once))
    assert {"M=2 draw=1", "M=2 draw=2"} <= set(at_once["setting"])
    rows[4]["samples"] = [*samples, "Rome", "Rome"]
    with pytest.raises(BeamUQError, match="id 'q4': samples: 6: 'q0' has 4"):
        beamuq.score_file(
            lines(path, rows), output, similarity="lexical", methods="Dissimilarity", draw_size=2
        )
