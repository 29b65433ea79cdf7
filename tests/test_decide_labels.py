"""Labels beside answers say how many of the shown ones are wrong, and decide nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beamuq
from beamuq.api.calibration_file import CalibrationFile
from beamuq.cli import main
from beamuq.errors import BeamUQError
from beamuq.evaluation.intervals import proportion_interval

Row = dict[str, Any]
KNOWN = [{"id": k, "method": "Prob", "value": k / 300, "correct": int(k < 240)} for k in range(300)]
LABELS = [1, 0, 1, None, 1, None]
NEW: list[Row] = [
    {"id": f"new {k}", "method": "Prob", "value": 0.051 + 0.13 * k} for k in range(len(LABELS))
]
WITHHELD: Row = {"id": "withheld", "method": "Prob", "value": 0.991, "correct": 0}


@pytest.fixture(scope="module")
def calibration() -> CalibrationFile:
    return beamuq.calibrate(KNOWN, method="Prob", risk=0.2)


def labelled(**more: Any) -> list[Row]:
    rows = [
        row | more | ({} if label is None else {"correct": label})
        for row, label in zip(NEW, LABELS, strict=True)
    ]
    return [*rows, WITHHELD | more]


def test_the_wrong_of_the_shown_are_counted_with_their_rate_and_interval(
    calibration: CalibrationFile,
) -> None:
    labels = beamuq.decide(labelled(), calibration).labels
    assert labels is not None
    counted = (labels.shown, labels.labelled, labels.wrong, labels.without_label)
    assert counted == (6, 4, 1, 2)
    assert labels.rate == 0.25
    wrong = np.array([False, True, False, False])
    assert (labels.low, labels.high) == proportion_interval(wrong, list("abcd"), 0.95)


def test_the_answers_of_a_group_make_the_interval_wider(calibration: CalibrationFile) -> None:
    rows = [NEW[0] | {"id": str(k), "correct": int(k < 20)} for k in range(40)]
    alone = beamuq.decide(rows, calibration).labels
    grouped = [row | {"group": f"story {k // 10}"} for k, row in enumerate(rows)]
    together = beamuq.decide(grouped, calibration).labels
    assert alone is not None
    assert together is not None
    assert (alone.wrong, together.wrong) == (20, 20)
    width_alone = np.subtract(alone.high, alone.low)
    width_together = np.subtract(together.high, together.low)
    assert width_together > 2 * width_alone


def test_labels_do_not_change_what_is_decided(calibration: CalibrationFile) -> None:
    flipped = [row | {"correct": 1 - row["correct"]} for row in labelled() if "correct" in row]
    as_they_are = [row for row in labelled() if "correct" in row]
    decided = [beamuq.decide(rows, calibration) for rows in (as_they_are, flipped)]
    assert decided[0].table.equals(decided[1].table)
    assert decided[0].guarantee_holds == decided[1].guarantee_holds
    assert [found.labels.wrong for found in decided if found.labels] == [1, 3]


def test_without_a_label_nothing_is_said_of_labels(calibration: CalibrationFile) -> None:
    decisions = beamuq.decide(NEW, calibration)
    assert decisions.labels is None
    assert json.loads(decisions.as_json())["labels"] is None
    assert "label" not in " ".join(decisions.told())


def test_where_only_withheld_answers_have_a_label_there_is_no_rate(
    calibration: CalibrationFile,
) -> None:
    decisions = beamuq.decide([*NEW, WITHHELD], calibration)
    labels = json.loads(decisions.as_json())["labels"]
    assert (labels["labelled"], labels["rate"], labels["low"]) == (0, None, None)
    assert "none of the 6 shown has one" in decisions.told()[1]


def test_a_quality_is_a_label_where_its_threshold_is_given(calibration: CalibrationFile) -> None:
    rows = [row | {"quality": 0.2 + 0.2 * k} for k, row in enumerate(NEW[:4])]
    counted = beamuq.decide(rows, calibration, quality_threshold=0.5).labels
    assert counted is not None
    assert (counted.labelled, counted.wrong, counted.quality_alone) == (4, 2, 0)
    without = beamuq.decide(rows, calibration).labels
    assert without is not None
    assert (without.labelled, without.quality_alone, without.rate) == (0, 4, None)
    assert "--quality-threshold" in str(without)


@pytest.mark.parametrize("row", [NEW[0], WITHHELD], ids=["shown", "withheld"])
def test_a_label_that_is_neither_0_nor_1_is_refused_with_its_row(
    row: Row, calibration: CalibrationFile
) -> None:
    with pytest.raises(BeamUQError, match=r"row 2: correct: 0\.5: must be 0 or 1"):
        beamuq.decide([NEW[1], row | {"correct": 0.5}], calibration)


@pytest.mark.parametrize("threshold", [float("nan"), float("inf")])
def test_a_quality_threshold_that_is_no_finite_number_is_refused(
    threshold: float, calibration: CalibrationFile
) -> None:
    with pytest.raises(BeamUQError, match="quality_threshold: "):
        beamuq.decide(NEW, calibration, quality_threshold=threshold)
    with pytest.raises(BeamUQError, match="quality_threshold: "):
        beamuq.calibrate(KNOWN, method="Prob", quality_threshold=threshold)


def test_the_command_says_it_in_text_and_in_json(
    calibration: CalibrationFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "c.json"
    calibration.write(file)
    new = tmp_path / "new.jsonl"
    new.write_text("".join(json.dumps(row) + "\n" for row in labelled()))
    main(["decide", str(new), "--calibration", str(file), "--json"])
    printed, told = capsys.readouterr()
    labels = json.loads(printed)["labels"]
    assert labels == {
        "used_to_decide": False,
        "shown": 6,
        "labelled": 4,
        "wrong": 1,
        "without_label": 2,
        "quality_alone": 0,
        "rate": 0.25,
        "low": pytest.approx(0.0456, abs=1e-4),
        "high": pytest.approx(0.6994, abs=1e-4),
        "confidence": 0.95,
    }
    told_labels = told.splitlines()[1]
    assert "not used to decide" in told_labels
    assert (
        "of 6 shown 4 have one, 1 of these are wrong: 25.0% (95% interval 4.6% to 69.9%)"
        in told_labels
    )
    assert told_labels.endswith("2 have none")


def answers_of_which_are_wrong(share: float) -> list[Row]:
    """New answers with a label, whose scores are distributed as those calibrated on."""
    return [
        {"id": f"new {k}", "method": "Prob", "value": (k + 0.37) / 100}
        | {"correct": int(k % 10 >= 10 * share)}
        for k in range(100)
    ]


def of_labels(told: Any) -> list[str]:
    return [warning for warning in told if "labels decide nothing" in warning]


def test_labels_that_speak_against_the_promise_are_warned_of(
    calibration: CalibrationFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, file = tmp_path / "new.jsonl", tmp_path / "c.json"
    new.write_text("".join(json.dumps(row) + "\n" for row in answers_of_which_are_wrong(0.5)))
    calibration.write(file)
    main(["decide", str(new), "--calibration", str(file), "--json"])
    printed, told = capsys.readouterr()
    content = json.loads(printed)
    (warning,) = of_labels(content["warnings"])
    assert "shown answers with a label are wrong, 52.1% (95% interval" in warning
    assert "at most 0.2 was promised" in warning
    assert f"warning: {warning}" in told.splitlines()
    assert content["guarantee_holds"]  # labels decide nothing


def test_labels_that_may_be_as_promised_are_not_warned_of(calibration: CalibrationFile) -> None:
    decisions = beamuq.decide(answers_of_which_are_wrong(0.2), calibration)
    assert decisions.labels is not None
    assert decisions.labels.rate is not None
    assert decisions.labels.low is not None
    assert decisions.labels.low < 0.2 < decisions.labels.rate
    assert of_labels(decisions.warnings) == []
