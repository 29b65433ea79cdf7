"""The command ``beamuq``; what ``ask`` prints is tested in test_api_ask_model.py, their options in test_docs.py."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import beamuq
from beamuq.api.score_candidates import score
from beamuq.cli import COMMANDS, main
from beamuq.errors import BeamUQError, exit_with_one_line

ROW = {"id": "a|b", "answer": {"text": "Rome", "logprob": -0.5}, "samples": ["Rome", "Milan"]}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], text=True, capture_output=True, check=False)


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
    head, _, *lines = printed()
    assert head == f"| {' | '.join(expected.columns)} |"
    assert [line.split(" | ")[:2] for line in lines] == [["| a\\|b", method] for method in expected["method"]]


def test_no_id_is_markup_or_a_formula_and_jsonl_has_it_as_it_came(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(json.dumps(ROW | {"id": "=1+1 <b>*x*</b> [a](http://b)"}))
    printed = {}
    for form in ("markdown", "csv", "jsonl"):
        main(["score", str(file), "--similarity", "lexical", "--methods", "Prob", "--format", form])
        printed[form] = capsys.readouterr().out
    assert r"=1+1 &lt;b&gt;\*x\*&lt;/b&gt; \[a\](http://b) | Prob |" in printed["markdown"]
    assert "| [0, ∞) |" in printed["markdown"]
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


@pytest.mark.parametrize("arguments", [[], ["scor"], ["ask"], ["score", "rows.jsonl", "--wdith", "3"]])
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
        (KeyboardInterrupt(), 130, ""),
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
    assert COMMANDS[name].purpose in " ".join(capsys.readouterr().out.split())


def test_the_package_offers_both_functions_and_loads_no_torch() -> None:
    assert beamuq.score is score
    with pytest.raises(AttributeError, match="no attribute 'scor'"):
        _ = beamuq.scor
    done = run("-c", "import sys, beamuq; beamuq.score, beamuq.ask; print('torch' in sys.modules)")
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
    done = run("-c", "import sys, beamuq; print('pandas' in sys.modules)")
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr
