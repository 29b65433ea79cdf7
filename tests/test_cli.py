"""The command ``beamuq``; what ``ask`` prints is tested in test_api_ask_model.py, their options in test_docs.py."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import beamuq
from beamuq.api.score_candidates import score
from beamuq.cli import COMMANDS, command_parser, completion, main
from beamuq.errors import BeamUQError, exit_with_one_line

ROW = {"id": "a|b", "answer": {"text": "Rome", "logprob": -0.5}, "samples": ["Rome", "Milan"]}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], text=True, capture_output=True, check=False)


def cells(line: str) -> list[str]:
    """The cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a command line that ends with status 2 prints on stderr."""
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    return capsys.readouterr().err


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    return path


def test_scores_are_printed_in_each_format(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*options: str) -> list[str]:
        main(["score", str(file), "--similarity", "lexical", *options])
        return capsys.readouterr().out.splitlines()

    expected = score(file, similarity="lexical")
    assert "\n".join(printed("--format", "csv")) + "\n" == expected.to_csv(index=False)
    rows = [json.loads(line) for line in printed("--format", "jsonl")]
    assert {row["method"]: row["value"] for row in rows if row["variant"] == ""}["Prob"] == 0.5
    assert next(row for row in rows if row["method"] == "CCP")["value"] is None
    head, _, *lines = printed("--long")
    assert cells(head) == list(expected.columns)
    assert [cells(line.replace("\\|", "!"))[:2] for line in lines] == [["a!b", each] for each in expected["method"]]


def test_a_row_is_a_question_and_a_column_a_method_and_what_has_no_value_is_told_once_by_reason(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [ROW | {"id": "one", "correct": 1}, {"id": "two", "answer": "Oslo", "samples": ["Oslo"], "correct": 0}]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    main(["score", str(file), "--similarity", "lexical", "--methods", "Prob,Dissimilarity,NumSemSets,CCP"])
    told = capsys.readouterr().out.splitlines()
    tables = [cells(line) for line in told if line.startswith("|")]
    assert tables[0] == ["id", "correct", "Prob", "NumSemSets"]
    assert tables[2:4] == [["one", "1", "0.5", "2"], ["two", "0", "", "1"]]
    assert tables[4] == ["id", "correct", "Dissimilarity"]
    assert told[0] == "higher = more uncertain; similarity: lexical"
    reasons = [line for line in told if line.startswith("- ")]
    assert any(re.fullmatch(r"- needs the answer's log-probability; .* \(1 of 2 questions\): Prob", r) for r in reasons)
    assert any(r.endswith("under 'beams': Dissimilarity + beamsearch") for r in reasons)
    assert any(r.endswith(": CCP") for r in reasons)


def test_a_table_that_is_wider_than_the_terminal_is_cut_into_several(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    methods = ["NumSemSets", "LexicalSimilarity", "EigValLaplacian", "Prob"]
    found = {}
    for columns in ("200", "50", "10"):
        monkeypatch.setenv("COLUMNS", columns)
        main(["score", str(file), "--similarity", "lexical", "--methods", ",".join(methods)])
        lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
        heads = [cells(line) for line in lines if line.startswith("| id")]
        assert [name for head in heads for name in head[1:]] == methods
        found[columns] = len(heads), max(map(len, lines))
    assert found["200"][0] == 1
    assert found["50"][0] == 2
    assert found["50"][1] <= 50
    assert found["10"][0] == 4


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_score_calibrate_and_decide_take_each_others_files(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of ids that a spreadsheet would run too."""
    rows = [
        {"id": f"={k}", "answer": {"text": "Rome", "logprob": -(k + 1) / 300}, "correct": k < 240, "group": f"g{k}"}
        for k in range(300)
    ]
    candidates, scored = tmp_path / "rows.jsonl", tmp_path / f"scored.{ending}"
    candidates.write_text("".join(json.dumps(row) + "\n" for row in rows))
    calibration, decided = str(tmp_path / "made.json"), tmp_path / f"decided.{ending}"
    main(["score", str(candidates), "--similarity", "lexical", "--methods", "Prob", "--output", str(scored)])
    main(["calibrate", str(scored), "--method", "Prob", "--output", calibration])
    assert "300 answers in 300 groups, 80.0% right" in capsys.readouterr().out
    main(["decide", str(scored), "--calibration", calibration, "--output", str(decided), "--format", "jsonl"])
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in shown] == [row["id"] for row in rows]
    assert [row["shown"] for row in shown] == sorted((row["shown"] for row in shown), reverse=True)
    assert decided.stat().st_size > 0


def test_a_file_of_another_ending_is_not_written(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = refused(["score", str(file), "--similarity", "lexical", "--output", "scores.xlsx"], capsys)
    assert told == "error: output: scores.xlsx: must end in .csv, .jsonl, .parquet\n"


def test_no_id_is_markup_or_a_formula_and_jsonl_has_it_as_it_came(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(json.dumps(ROW | {"id": "=1+1 <b>*x*</b> [a](http://b)"}))
    printed = {}
    for form in ("markdown", "csv", "jsonl"):
        main(["score", str(file), "--similarity", "lexical", "--methods", "Prob", "--format", form])
        printed[form] = capsys.readouterr().out
    assert r"| =1+1 &lt;b&gt;\*x\*&lt;/b&gt; \[a\](http://b) | 0.5 |" in " ".join(printed["markdown"].split())
    assert "\n'=1+1 <b>" in printed["csv"]
    assert json.loads(printed["jsonl"])["id"] == "=1+1 <b>*x*</b> [a](http://b)"


@pytest.mark.parametrize("name", ["--equivalence-threshold", "--same-meaning"])
def test_the_threshold_of_equivalence_has_an_older_name_too(
    name: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = []
    for value in ("1", "0.01"):
        file.write_text(json.dumps(ROW | {"samples": ["big Rome", "Rome"]}))
        main(["score", str(file), "--similarity", "lexical", "--methods", "SemanticEntropy", name, value])
        found.append(capsys.readouterr().out)
    assert found[0] != found[1]


def test_bad_input_is_one_line_and_status_2(tmp_path: Path) -> None:
    done = run("-m", "beamuq", "score", str(tmp_path / "none.jsonl"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"error: {tmp_path / 'none.jsonl'}: no such file\n"


@pytest.mark.parametrize("arguments", [[], ["scor"], ["score", "rows.jsonl", "--wdith", "3"]])
def test_a_command_line_that_cannot_be_read_is_status_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "usage: beamuq" in refused(arguments, capsys)


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", "?", "--model", "https://me:PASSWORD@host/x"],
        ["ask", "?", "--model", "me:PASSWORD@host/x"],
        ["ask", "?", "--modle", "https://me:p@PASSWORD@host/x"],
        ["score", "https://me:PASSWORD@host/x.jsonl"],
        ["score", "x.jsonl", "--format", "https://me:PASSWORD@host/" + "x" * 100_000],
        ["score", "a\nb.jsonl"],
        ["score", "a" * 5000 + ".jsonl"],
        ["ask", "?", "--width", "9" * 5000],
    ],
)
def test_a_wrong_value_is_told_without_its_password_and_in_short(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    told = refused(arguments, capsys)
    assert "PASSWORD" not in told
    assert "Traceback" not in told
    assert "error: " in told.splitlines()[-1]
    assert len(told.splitlines()[-1]) < 1300


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (BeamUQError("a.yaml: key: 3\n: no"), 2, r"error: a\.yaml: key: 3\\n: no\n"),
        (PermissionError(13, "Permission denied", "a.json"), 2, "error: a.json: .*Permission denied.*\n"),
        (OSError(30, "Read-only file system"), 2, "error: .*Read-only file system.*\n"),
        (MemoryError(), 2, "error: not enough memory.*\n"),
        (KeyboardInterrupt(), 130, "stopped\n"),
        (KeyError("x"), 1, r"Traceback (.|\n)*KeyError: 'x'\nerror: a fault of beamuq \(KeyError: 'x'\).*\n"),
    ],
)
def test_a_program_ends_with_one_line_and_only_a_fault_of_ours_with_a_traceback(
    error: BaseException, status: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def program() -> None:
        raise error

    with pytest.raises(SystemExit) as caught:
        exit_with_one_line(program)
    assert caught.value.code == status
    assert re.fullmatch(told, capsys.readouterr().err)


def test_results_are_printed_as_they_are_though_they_look_like_a_token(file: Path) -> None:
    file.write_text(json.dumps(ROW | {"id": "hf_abcdefghijkl"}))
    options = ["--similarity", "lexical", "--methods", "Prob", "--format", "csv"]
    assert "\nhf_abcdefghijkl,Prob" in run("-m", "beamuq", "score", str(file), *options).stdout  # it masks its stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_what_it_is_for(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"{COMMANDS[name].purpose} {COMMANDS[name].more}" in told
    assert "(default: None)" not in told


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_each_command_can_be_read(name: str) -> None:
    for example in COMMANDS[name].examples:
        assert command_parser().parse_args([name, *shlex.split(example)]).command == name


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("beamuq ", ["ask", "score", "calibrate", "decide", "explore", "--help", "--version"]),
        ("beamuq sc", ["score"]),
        ("beamuq ask --st", ["--style"]),
        ("beamuq ask --style ", ["auto", "base", "instruct"]),
        ("beamuq score --format c", ["csv"]),
        ("beamuq score rows.jsonl --same", []),
        ("beamuq score ", []),  # names of files, by the shell
        ("beamuq ask --calibration --", []),
        ("beamuq decide new.jsonl --c", ["--calibration"]),
    ],
)
def test_the_shell_completes(line: str, expected: list[str]) -> None:
    words = line.split(" ")
    script = (
        f"{completion()}COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; _beamuq"
    )
    done = subprocess.run(
        ["bash", "-c", f'{script}; printf "%s\\n" "${{COMPREPLY[@]}}"'], text=True, capture_output=True, check=False
    )
    assert (done.stdout.split(), done.stderr) == (expected, "")


def test_the_package_offers_both_functions_and_loads_no_torch() -> None:
    assert beamuq.score is score
    with pytest.raises(AttributeError, match="no attribute 'scor'"):
        _ = beamuq.scor
    done = run("-c", "import sys, beamuq; beamuq.score, beamuq.ask; print('torch' in sys.modules)")
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
    done = run("-c", "import sys, beamuq; print('pandas' in sys.modules)")
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
