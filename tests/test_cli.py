"""The command ``beamuq``; what ``ask`` prints is tested in test_api_ask_model.py."""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import beamuq
from beamuq import cli
from beamuq.api.rows import placed_rows, render, write
from beamuq.api.score_candidates import score
from beamuq.cli import COMMANDS, FORMATS, command_parser, main
from beamuq.errors import BeamUQError, exit_with_one_line
from beamuq.methods.registry import METHODS

ROW = {"id": "a|b", "answer": {"text": "Rome", "logprob": -0.5}, "samples": ["Rome", "Milan"]}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], text=True, capture_output=True, check=False)


def cells(line: str) -> list[str]:
    """The cells of a line of a Markdown table."""
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW) + "\n")
    return path


def test_scores_are_printed_in_each_format(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*options: str) -> list[str]:
        main(["score", str(file), "--similarity", "lexical", *options])
        return capsys.readouterr().out.splitlines()

    few = {"Perplexity", "Dissimilarity", "CocoaPPL"}
    expected = score(file, similarity="lexical")
    assert "\n".join(printed("--format", "csv")) + "\n" == expected.to_csv(index=False)
    rows = [json.loads(line) for line in printed("--format", "jsonl")]
    assert {row["method"]: row["value"] for row in rows if row["variant"] == ""}["Prob"] == 0.5
    assert next(row for row in rows if row["method"] == "CCP")["value"] is None
    *lines, last, _ = printed("--long")
    assert {cells(line.replace("\\|", "!"))[1] for line in lines[2:]} == few
    assert last.endswith("--methods all")
    head, _, *lines, _ = printed("--long", "--methods", "all")
    assert cells(head) == [each for each in expected.columns if each != "scored_with"]
    assert [cells(line.replace("\\|", "!"))[:2] for line in lines] == [
        ["a!b", each] for each in expected["method"]
    ]


def test_a_row_is_a_question_and_a_column_a_method_and_what_has_no_value_is_told_once_by_reason(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        ROW | {"id": "one", "correct": 1},
        {"id": "two", "answer": "Oslo", "samples": ["Oslo"], "correct": 0},
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    main(
        [
            "score",
            str(file),
            "--similarity",
            "lexical",
            "--methods",
            "Prob,Dissimilarity,NumSemSets,CCP",
        ]
    )
    told = capsys.readouterr().out.splitlines()
    tables = [cells(line) for line in told if line.startswith("|")]
    assert tables[0] == ["id", "correct", "Prob", "NumSemSets"]
    assert tables[2:4] == [["one", "1", "0.5", "2"], ["two", "0", "", "1"]]
    assert tables[4] == ["id", "correct", "Dissimilarity"]
    assert told[0] == "higher = more uncertain; Prob is −log p; similarity: lexical"
    reasons = {line.rpartition(": ")[2] for line in told if line.startswith("- ")}
    assert reasons == {"Prob", "Dissimilarity + beamsearch", "CCP"}


def test_the_table_shows_the_scores_to_start_with_and_the_file_has_all(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "all.jsonl"
    main(["score", str(file), "--similarity", "lexical", "--output", str(written)])
    printed = capsys.readouterr().out
    assert "CocoaPPL" in printed
    assert "SemanticEntropy" not in printed
    assert printed.splitlines()[-2].endswith("further methods: --methods all")
    assert {row["method"] for _, row in placed_rows(written)} == set(METHODS)


def test_scores_of_a_long_file_are_written_and_not_printed(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "MOST_PRINTED", 0)
    written = tmp_path / "scores.parquet"
    main(["score", str(file), "--similarity", "lexical", "--output", str(written)])
    expected = pd.DataFrame(score(file, similarity="lexical"))
    pd.testing.assert_frame_equal(pd.read_parquet(written), expected)
    count = expected["id"].nunique()
    assert capsys.readouterr().out.startswith(
        f"{count} questions scored: {written}; similarity: lexical\nmade "
    )


@pytest.mark.parametrize("most_printed", [0, 5000])
def test_of_a_large_file_it_is_told_that_parquet_is_smaller_and_it_is(
    most_printed: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = tmp_path / "rows.jsonl"
    row = json.dumps({"answer": "Rome", "samples": ["Rome", "Milan"]})
    rows.write_text(f"{row}\n" * 50)
    monkeypatch.setattr(cli, "MOST_PRINTED", most_printed)
    monkeypatch.setattr(cli, "LARGE_FILE", 100_000)
    told = {}
    for name in ("scores.jsonl", "scores.parquet"):
        written = tmp_path / name
        main(["score", str(rows), "--similarity", "lexical", "--output", str(written)])
        told[name] = capsys.readouterr().err
    assert "scores.jsonl: 1 MB, as each score repeats" in told["scores.jsonl"]
    assert told["scores.parquet"] == ""
    size_of_lines = (tmp_path / "scores.jsonl").stat().st_size
    assert (tmp_path / "scores.parquet").stat().st_size < size_of_lines / 10
    pd.testing.assert_frame_equal(
        pd.read_json(tmp_path / "scores.jsonl", lines=True, dtype={"id": str}),
        pd.read_parquet(tmp_path / "scores.parquet"),
        check_dtype=False,
    )


def test_where_no_score_to_start_with_has_a_value_all_are_shown(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    row = {"answer": {"text": "Rome", "p_true_logprob": -0.5}}
    file.write_text(json.dumps(row) + "\n")
    main(["score", str(file), "--similarity", "lexical"])
    printed = capsys.readouterr().out
    assert "| 1   |   0.5 |" in printed
    assert "further methods" not in printed


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_written_number_is_the_number(form: str) -> None:
    values = [1 / 3, 0.1 + 0.2, 1e-17, 123456.7890123456789, -4.9e-324]
    text = render(pd.DataFrame({"value": values}), form)
    path_read = (
        [json.loads(line)["value"] for line in text.splitlines()]
        if form == "jsonl"
        else text.split()[1:]
    )
    assert [float(each) for each in path_read] == values


def test_a_csv_file_holds_ids_as_they_are(tmp_path: Path) -> None:
    table = pd.DataFrame({"id": ["日本\u3000語", "a\u00a0b"], "value": [1.0, 2.0]})
    write(table, tmp_path / "scores.csv")
    assert [row["id"] for _, row in placed_rows(tmp_path / "scores.csv")] == table["id"].tolist()


@pytest.mark.parametrize("form", FORMATS)
def test_a_terminals_commands_are_escaped(
    form: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(json.dumps(ROW | {"id": "\x1b[31mred"}) + "\n")
    main(["score", str(file), "--similarity", "lexical", "--format", form])
    assert "\x1b" not in (printed := capsys.readouterr().out)
    assert "[31mred" in printed


def test_a_stdout_that_is_not_utf_8_gets_escapes(file: Path) -> None:
    file.write_text(json.dumps(ROW | {"id": "Zürich"}) + "\n")
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "beamuq", "score", str(file), "--similarity", "lexical"]
    done = subprocess.run(command, text=True, capture_output=True, check=False, env=environment)
    assert (done.returncode, "Z\\xfcrich" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_score_calibrate_and_decide_take_each_others_files(
    ending: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        {
            "id": f"q{k}",
            "answer": {"text": "Rome", "logprob": -(k + 1) / 300},
            "correct": k < 240,
            "group": f"g{k}",
        }
        for k in range(300)
    ]
    candidates, scored = tmp_path / "rows.jsonl", tmp_path / f"scored.{ending}"
    candidates.write_text("".join(json.dumps(row) + "\n" for row in rows))
    calibration, decided = str(tmp_path / "made.json"), tmp_path / f"decided.{ending}"
    main(
        [
            "score",
            str(candidates),
            "--similarity",
            "lexical",
            "--methods",
            "Prob",
            "--output",
            str(scored),
        ]
    )
    main(["calibrate", str(scored), "--method", "Prob", "--output", calibration])
    assert "300 answers in 300 groups, 80.0% right" in capsys.readouterr().out
    decide = ["decide", str(scored), "--calibration", calibration, "--output", str(decided)]
    with pytest.raises(SystemExit, match="3"):  # of scores that were calibrated on
        main([*decide, "--format", "jsonl"])
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["id"] for row in shown] == [row["id"] for row in rows]
    assert [row["shown"] for row in shown] == sorted((row["shown"] for row in shown), reverse=True)
    assert decided.stat().st_size > 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["ask", "?", "--modle", "https://me:PASSWORD@host/x"],
        ["score", "https://me:PASSWORD@host/x.jsonl"],
    ],
)
def test_a_wrong_value_is_told_in_one_line_without_its_password(arguments: list[str]) -> None:
    done = run("-m", "beamuq", *arguments)
    assert done.returncode == 2
    assert "PASSWORD" not in done.stderr
    assert "error: " in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (BeamUQError("a.yaml: key: 3\n: no"), 2, r"error: a\.yaml: key: 3\\n: no\n"),
        (
            PermissionError(13, "Permission denied", "a.json"),
            2,
            "error: a.json: .*Permission denied.*\n",
        ),
        (OSError(30, "Read-only file system"), 2, "error: .*Read-only file system.*\n"),
        (MemoryError(), 2, "error: not enough memory.*\n"),
        (KeyboardInterrupt(), 130, "stopped\n"),
        (
            KeyError("x"),
            1,
            r"Traceback (.|\n)*KeyError: 'x'\nerror: a fault of beamuq \(KeyError: 'x'\).*\n",
        ),
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


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_of_each_command_can_be_read(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    examples = re.findall(r"^  beamuq (.*)", capsys.readouterr().out, re.MULTILINE)
    assert examples
    for example in examples:
        assert command_parser().parse_args(shlex.split(example)).command == name


COMMANDS_OWN_OPTIONS = {
    "ask": {"questions", "output", "verbose", "json"},
    "score": {"long", "format", "output"},
    "calibrate": {"json"},
    "decide": {"format", "output", "json"},
}
"""Options that are no parameters of the function of the command's name."""
TYPES = {
    "float": float,
    "float | None": float,
    "int": int,
    "int | None": int,
    "bool": None,
}
"""What an option's value becomes, by the annotation of the parameter; of any other it is a text."""


def options_of(name: str) -> dict[str, Any]:
    """The options of a command, and the arguments that stand alone, by the names that it reads."""
    (commands,) = (
        action
        for action in command_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    return {action.dest: action for action in commands.choices[name]._actions}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_the_parameters_of_its_function_as_options(name: str) -> None:
    parameters = inspect.signature(getattr(beamuq, name)).parameters
    options = options_of(name)
    own = COMMANDS_OWN_OPTIONS.get(name, set())
    assert [option for option in options if option not in {"help"} | own] == list(parameters)
    assert own <= options.keys()
    assert next(iter(parameters)) == next(
        dest for dest, o in options.items() if not o.option_strings
    )
    for parameter in parameters.values():
        option = options[parameter.name]
        assert option.help
        assert option.type is TYPES.get(str(parameter.annotation))
        assert isinstance(option, argparse._StoreTrueAction) == (parameter.annotation == "bool")
        if parameter.default is not inspect.Parameter.empty:
            assert option.default == parameter.default
        elif option.option_strings:
            assert option.required


def test_the_package_offers_functions_and_commands_and_loads_nothing_heavy_for_them() -> None:
    assert beamuq.score is score
    with pytest.raises(AttributeError, match="no attribute 'scor'"):
        _ = beamuq.scor
    program = (
        "import sys, beamuq; from beamuq import cli; cli.command_parser([]).format_help(); "
        "a = 'numpy' in sys.modules; beamuq.score, beamuq.ask; print(a, 'torch' in sys.modules)"
    )
    done = run("-c", program)
    assert (done.stdout, done.returncode) == ("False False\n", 0), done.stderr
