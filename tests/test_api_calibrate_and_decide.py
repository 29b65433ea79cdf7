"""Answers with labels become a calibration file, the file decisions; what does not fit is refused
in one line.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import beamuq
from beamuq.api.calibration import calibrate, decide
from beamuq.api.calibration_comparison import check_same
from beamuq.api.calibration_file import CalibrationFile, read_calibration
from beamuq.api.decisions import decisions_of
from beamuq.api.rows import write
from beamuq.cli import main
from beamuq.errors import BeamUQError
from beamuq.evaluation.guaranteed_threshold import guaranteed_threshold

Row = dict[str, Any]


def rows(n: int = 600, seed: int = 0) -> list[Row]:
    generator = np.random.default_rng(seed)
    scores = generator.random(n)
    right = generator.random(n) < 1 / (1 + np.exp((scores - 0.6) / 0.05))
    told = {
        "method": "CocoaPPL",
        "variant": "beamsearch",
        "setting": "",
        "similarity": "lexical",
        "reason": "",
    }
    same = {"model": "packaged:small", "model_hash": "a1", "prompt_hash": "b2", "candidates": 10}
    same |= {"scored_with": json.dumps({"temperature": 1.0, "epsilon": 0.0, "similarity": "c3"})}
    pairs = zip(scores, right, strict=True)
    return [
        {"id": f"q{k:04}", "value": float(s), "correct": int(r)} | told | same
        for k, (s, r) in enumerate(pairs)
    ]


ROWS = rows()
NEW = [{key: value for key, value in row.items() if key != "correct"} for row in rows(200, seed=1)]


@pytest.fixture(scope="module")
def made() -> CalibrationFile:
    return calibrate(ROWS, method="CocoaPPL")


def written(path: Path, content: list[Row]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in content))
    return path


def test_the_commands_are_the_functions(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], made: CalibrationFile
) -> None:
    scored, new, file = (
        written(tmp_path / "s.jsonl", ROWS),
        written(tmp_path / "n.jsonl", NEW),
        tmp_path / "c.json",
    )
    asked = [
        "--method",
        "CocoaPPL",
        "--risk",
        "0.10",
        "--confidence",
        "0.95",
        "--output",
        str(file),
    ]
    main(["calibrate", str(scored), *asked])
    assert str(made) in capsys.readouterr().out
    assert read_calibration(file) == made
    main(["decide", str(new), "--calibration", str(file), "--format", "jsonl"])
    printed, told = capsys.readouterr()
    expected = beamuq.decide(NEW, made)
    assert [json.loads(line)["shown"] for line in printed.splitlines()] == expected.table[
        "shown"
    ].tolist()
    assert told.startswith(
        f"{expected.table['shown'].sum()} of 200 shown; two-sample test of the scores: p = "
    )
    assert "warning" not in told


SHIFTED = [row | {"value": row["value"] ** 3 + 0.1} for row in NEW]
OTHER_MODEL = [row | {"model_hash": "other"} for row in NEW]


@pytest.mark.parametrize(
    ("rows", "options", "status"),
    [
        (NEW, [], None),
        (SHIFTED, [], 3),
        (OTHER_MODEL, [], 2),
        (OTHER_MODEL, ["--force"], 3),
    ],
    ids=["as calibrated", "shifted", "another model", "another model, forced"],
)
def test_the_exit_status_of_decide_says_whether_the_guarantee_holds(
    rows: list[Row],
    options: list[str],
    status: int | None,
    made: CalibrationFile,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    new, file, output = tmp_path / "n.jsonl", tmp_path / "c.json", tmp_path / "decided.csv"
    made.write(file)
    command = ["decide", str(written(new, rows)), "--calibration", str(file), *options]
    ended: Any = None
    try:
        main([*command, "--output", str(output)])
    except SystemExit as end:
        ended = end.code
    assert ended == status
    assert output.exists() == (status != 2)
    assert capsys.readouterr().err.count("warning: ") == (status == 3) * (1 + (rows is SHIFTED))


def test_decide_prints_one_json_object_with_the_p_of_the_test(
    made: CalibrationFile, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new, file = (
        written(tmp_path / "n.jsonl", [*NEW, NEW[0] | {"id": "x", "value": None}]),
        tmp_path / "c",
    )
    made.write(file)
    main(["decide", str(new), "--calibration", str(file), "--json"])
    content = json.loads(capsys.readouterr().out)
    expected = beamuq.decide(new, made)
    assert content["shift"] == {"p": expected.shift_p, "n": 200, "least_p": 0.01}
    assert content["guarantee_holds"] is True
    assert (content["shown"], content["answers"]) == (expected.table["shown"].sum(), 201)
    assert content["decisions"][-1]["value"] is None
    assert [row["shown"] for row in content["decisions"]] == expected.table["shown"].tolist()


def test_what_was_promised_is_said_in_words_and_in_json(made: CalibrationFile) -> None:
    decisions = decide(NEW, made)
    assert decisions.told()[1] == (
        "promised: at most 0.1 of the shown wrong (confidence 0.95), CocoaPPL + beamsearch <= "
        f"{made.threshold.value:.6g}, calibrated on 600 answers"
    )
    assert json.loads(decisions.as_json())["promised"] == {
        "risk": 0.1,
        "confidence": 0.95,
        "method": "CocoaPPL",
        "form": "beamsearch",
        "n": 600,
    }


def test_json_and_another_format_at_once_are_refused(made: CalibrationFile, tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    made.write(file)
    command = ["decide", str(written(tmp_path / "n.jsonl", NEW)), "--calibration", str(file)]
    with pytest.raises(SystemExit, match="2"):
        main([*command, "--json", "--format", "csv"])


def test_of_scores_that_were_calibrated_on_no_guarantee_holds(made: CalibrationFile) -> None:
    again = [{key: value for key, value in row.items() if key != "correct"} for row in ROWS]
    decisions = decide(again, made)
    assert decisions.known == len(ROWS)
    assert not decisions.guarantee_holds
    assert decide(NEW, made).known == 0


def test_what_force_let_pass_is_named(made: CalibrationFile) -> None:
    forced = decide(OTHER_MODEL, made, force=True)
    assert not forced.guarantee_holds
    assert [difference.split()[0] for difference in forced.forced] == ["model_hash"]


def test_the_order_of_rows_does_not_matter_and_the_threshold_is_that_of_the_pure_function(
    made: CalibrationFile,
) -> None:
    assert calibrate(ROWS[::-1], method="CocoaPPL") == made
    assert calibrate(pd.DataFrame(ROWS), method="CocoaPPL") == made
    values, wrong = [row["value"] for row in ROWS], [not row["correct"] for row in ROWS]
    pure = guaranteed_threshold(
        values, wrong, [row["id"] for row in ROWS], risk=0.1, confidence=0.95
    )
    assert made.threshold.value == pure.value


def test_shown_is_at_or_below_the_threshold_and_what_has_no_score_is_withheld(
    made: CalibrationFile,
) -> None:
    limit = made.threshold.value
    assert limit is not None
    asked = [
        NEW[0] | {"value": value, "id": str(k)}
        for k, value in enumerate((limit, limit + 1e-9, None, 7.0))
    ]
    asked[2]["reason"] = "needs beams"
    table = decide(asked, made).table
    assert table["shown"].tolist() == [True, False, False, False]
    assert table["reason"][2] == "needs beams"
    assert np.isnan(table["right_low"][2])
    assert "outside the calibrated range" in table["reason"][3]
    assert (table["right_low"][[0, 1, 3]] <= table["right_high"][[0, 1, 3]]).all()
    assert table["right"][[0, 1, 3]].between(0, 1).all()
    low, high, right = table.loc[1, ["right_low", "right_high", "right"]]
    assert right == pytest.approx(high / (1 - low + high))


def test_scores_from_elsewhere_are_warned_of_with_p_and_n(made: CalibrationFile) -> None:
    shifted = decide([row | {"value": row["value"] ** 3 + 0.1} for row in NEW], made)
    assert shifted.shift_p is not None
    assert shifted.shift_p < 1e-6
    assert any("n = 200 and 600" in told for told in shifted.warnings)
    assert any("outside the calibrated range" in told for told in shifted.warnings)
    assert decide(NEW, made).warnings == ()


@pytest.mark.parametrize(
    ("key", "value"),
    [("model_hash", "a2"), ("prompt_hash", "b3"), ("similarity", "minilm"), ("version", "0.0.1")],
)
def test_what_is_not_the_calibrations_is_refused_or_with_force_warned_of(
    key: str, value: str, made: CalibrationFile
) -> None:
    asked = [row | {key: value} for row in NEW]
    with pytest.raises(BeamUQError, match=f"{key} '{value}', calibrated with .*--force"):
        decide(asked, made)
    assert any(value in told for told in decide(asked, made, force=True).warnings)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"scored_with": json.dumps({"temperature": 1.0, "epsilon": 0.1, "similarity": "c3"})},
            "setting epsilon 0.1, ",
        ),
        (
            {"scored_with": json.dumps({"temperature": 1.0, "epsilon": 0.0, "similarity": "c4"})},
            "similarity 'c4'",
        ),
        ({"candidates": 2}, "candidates up to 2, calibrated with up to 10"),
    ],
)
def test_rows_scored_otherwise_are_refused(change: Row, told: str, made: CalibrationFile) -> None:
    with pytest.raises(BeamUQError, match=f"{told}.*--force"):
        decide([row | change for row in NEW], made)


def test_a_setting_that_is_null_is_not_known_and_no_reason_to_refuse(made: CalibrationFile) -> None:
    settings = {
        "scored_with": json.dumps({"temperature": 1.0, "epsilon": None, "similarity": "c3"})
    }
    assert (
        "not known whether the calibration's: setting epsilon;"
        in decide([r | settings for r in NEW], made).warnings[0]
    )


def test_a_row_of_fewer_candidates_is_decided_and_one_that_does_not_say_hides_no_other(
    made: CalibrationFile,
) -> None:
    assert len(decide([NEW[0] | {"candidates": 9}, *NEW[1:]], made).table) == len(NEW)
    with pytest.raises(BeamUQError, match="candidates up to 2"):
        decide([NEW[0] | {"candidates": None}, *(row | {"candidates": 2} for row in NEW[1:])], made)


def test_deciding_on_the_calibrating_answers_is_said(made: CalibrationFile) -> None:
    assert any("calibrated on" in told for told in decide(ROWS[::-1], made).warnings)


@pytest.mark.parametrize("count", [1, 5, 599])
def test_deciding_on_a_part_of_the_calibrating_answers_is_said(
    made: CalibrationFile, count: int
) -> None:
    told = decide(ROWS[:count], made).warnings
    assert any(f"{count} of {count} scores are, to the last digit" in line for line in told)


def test_calibrating_answers_among_new_ones_are_counted(made: CalibrationFile) -> None:
    known = [row | {"id": f"again {row['id']}"} for row in ROWS[:10]]
    told = decide([*NEW, *known], made).warnings
    assert any(line.startswith("10 of 210 scores are, to the last digit") for line in told)


def test_new_scores_of_few_values_are_not_taken_for_those_that_were_calibrated_on() -> None:
    few = [row | {"value": round(row["value"], 1)} for row in ROWS]
    made = calibrate(few, method="CocoaPPL")
    assert not any("digit" in line for line in decide(few[:40], made).warnings)


def test_few_new_answers_are_seldom_taken_for_calibrating_ones() -> None:
    """Values in thousandths: some occur once, some twice; the share of false warnings is small."""
    thousandths = [row | {"value": round(row["value"], 3)} for row in rows(600)]
    made = calibrate(thousandths, method="CocoaPPL")
    fresh = [row["value"] for row in rows(4000, seed=9)]
    told = 0
    for start in range(0, 4000, 20):
        scores = np.round(fresh[start : start + 20], 3)
        told += any("digit" in line for line in decisions_of(made, scores, []).warnings)
    assert told / 200 < 0.03


@pytest.mark.parametrize(
    ("setting", "value", "meant"),
    [("risk", 10, "0.1 is 10 %"), ("confidence", 95.0, "0.95 is 95 %"), ("risk", 1, "0.01 is 1 %")],
)
def test_a_percent_in_the_place_of_a_share_is_refused_with_the_share(
    setting: str, value: float, meant: str
) -> None:
    with pytest.raises(BeamUQError, match=f"{setting}: {value:g}: .* between 0 and 1; {meant}"):
        calibrate(ROWS, method="CocoaPPL", **{setting: value})  # type: ignore[arg-type]


FOUR_NULL = [row | {"correct": None} if k % 150 == 7 else row for k, row in enumerate(ROWS)]


@pytest.mark.parametrize("ending", ["rows", "jsonl", "csv", "parquet"])
def test_calibrate_leaves_out_rows_whose_label_is_null_and_says_so(
    ending: str, tmp_path: Path
) -> None:
    given: Any = FOUR_NULL
    if ending != "rows":
        given = tmp_path / f"scored.{ending}"
        write(pd.DataFrame(FOUR_NULL), given)
    with pytest.warns(UserWarning, match="4 of 600 without a label left out"):
        made = calibrate(given, method="CocoaPPL")
    labelled = [row for row in FOUR_NULL if row["correct"] is not None]
    assert made == calibrate(labelled, method="CocoaPPL")


def test_calibrate_leaves_out_rows_without_a_score_and_says_so() -> None:
    without = {"value": None, "reason": "no log p"}
    some = [row | without if k % 150 == 7 else row for k, row in enumerate(ROWS)]
    with pytest.warns(UserWarning, match=r"4 of 600 without a score of CocoaPPL .*\(no log p\)"):
        made = calibrate(some, method="CocoaPPL")
    assert made == calibrate([row for row in some if row["value"] is not None], method="CocoaPPL")


@pytest.mark.parametrize(("without_score", "is_refused"), [(300, False), (301, True)])
def test_where_more_than_half_have_no_score_calibrate_refuses(
    without_score: int, is_refused: bool
) -> None:
    some = [row | {"value": None} for row in ROWS[:without_score]] + ROWS[without_score:]
    if is_refused:
        with pytest.raises(BeamUQError, match=r"301 of 600 answers have no score .* than half"):
            calibrate(some, method="CocoaPPL")
    else:
        with pytest.warns(UserWarning, match="300 of 600 without a score"):
            assert calibrate(some, method="CocoaPPL").n == 300


def test_without_a_threshold_calibrate_ends_with_status_0_and_the_file_says_null(
    tmp_path: Path,
) -> None:
    scored = written(tmp_path / "scored.jsonl", [row | {"correct": 0} for row in ROWS])
    file = tmp_path / "c.json"
    main(["calibrate", str(scored), "--method", "CocoaPPL", "--output", str(file)])
    assert json.loads(file.read_text())["threshold"]["value"] is None


def test_a_row_without_the_key_of_a_label_is_refused() -> None:
    with pytest.raises(BeamUQError, match=r"row 1: id q0000: correct: missing.* give null"):
        calibrate([NEW[0], *ROWS[1:]], method="CocoaPPL")


def test_where_every_label_is_null_calibrate_says_so() -> None:
    no_labels = [row | {"correct": None} for row in ROWS]
    with (
        pytest.warns(UserWarning, match="600 of 600"),
        pytest.raises(BeamUQError, match="correct: null in every row"),
    ):
        calibrate(no_labels, method="CocoaPPL")


ALIKE = (0.0, 0.04, 0.05, 0.2 / 3)
"""How alike two of an answer's wrong samples may be to it, a tenth each."""


def of_ten_samples(generator: np.random.Generator, n: int, easy: float) -> list[Row]:
    """Answers with a score of some dozens of values, as of ten samples compared by their words; a
    share ``easy`` is nearly sure.
    """
    p = np.where(generator.random(n) < easy, 0.99, generator.random(n))
    wrong = 10 - generator.binomial(10, p)
    scores = wrong / 10 - generator.binomial(wrong, 0.5) * generator.choice(ALIKE, n)
    right = generator.random(n) < p
    pairs = zip(scores, right, strict=True)
    return [
        {"id": str(k), "method": "Prob", "value": float(score), "correct": int(is_right)}
        for k, (score, is_right) in enumerate(pairs)
    ]


@pytest.mark.parametrize("easy", [0.5, 0.4, 0.3], ids=["alike", "harder", "much harder"])
def test_new_answers_of_few_values_are_never_taken_for_calibrating_ones(easy: float) -> None:
    """Judged by values that occur once, 0, 2 and 10 of 200 files of new answers would be."""
    taken = 0
    for seed in range(5):
        generator = np.random.default_rng(seed)
        made = calibrate(of_ten_samples(generator, 300, 0.5), method="Prob", risk=0.2)
        for _ in range(40):
            scores = [row["value"] for row in of_ten_samples(generator, 100, easy)]
            taken += decisions_of(made, scores, []).known > 0
    assert taken == 0


def test_where_the_scores_are_distributed_otherwise_equal_ones_are_not_told_beside(
    made: CalibrationFile,
) -> None:
    least_certain = sorted(ROWS, key=lambda row: row["value"])[-100:]
    decisions = decide(least_certain, made)
    assert decisions.known == 0
    assert not decisions.guarantee_holds
    assert not any("digit" in line for line in decisions.warnings)


def test_the_models_name_counts_where_a_hash_is_not_known(made: CalibrationFile) -> None:
    told: Row = {
        "similarity": "lexical",
        "model": "elsewhere",
        "model_hash": "a1",
        "prompt_hash": "b2",
    }
    told |= {"scored_with": made.scored_with, "candidates": (10, 10)}
    assert check_same(made, told, force=False, where="x") == []
    with pytest.raises(BeamUQError, match="model 'elsewhere'"):
        check_same(made, told | {"model_hash": None}, force=False, where="x")
    assert check_same(made, {"similarity": "lexical"}, force=False, where="x") == [
        "not known whether the calibration's: model, prompt, settings, candidates; the rows or the "
        "file lack it: before scoring, give each row 'model' and 'prompt_hash', any text that you "
        "change with the prompt, and give scores as score returns or writes them, those calibrated "
        "on too"
    ]


def test_fewer_samples_than_any_calibrated_with_are_told_and_fewer_beams_are_not(
    made: CalibrationFile,
) -> None:
    facts: Row = {"scored_with": made.scored_with, "candidates": (3, 10)}
    of_samples = made.model_copy(update={"form": "multinomial"})
    (told,) = [
        warning
        for warning in check_same(of_samples, facts, force=False, where="x")
        if "samples" in warning
    ]
    assert told.startswith("some answers have only 3 samples, none calibrated with fewer than 10")
    of_beams = made.model_copy(update={"form": "beamsearch"})
    assert "only 3" not in " ".join(check_same(of_beams, facts, force=False, where="x"))


def test_answers_without_a_score_are_counted(made: CalibrationFile) -> None:
    scores = [0.1, math.nan, 0.2, math.nan]
    decided = decisions_of(made, scores, [])
    assert "2 of 4 answers have no score: they are not shown, and the test does not see them" in (
        decided.warnings
    )
    assert not decided.table["shown"][[1, 3]].any()


def test_a_damaged_file_is_refused_in_one_line(made: CalibrationFile, tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    made.write(path)
    text = path.read_text()
    falling = json.loads(text)
    falling["map"]["scores"].reverse()
    too_many = json.loads(text)
    too_many["map"]["right"][0] = too_many["map"]["n"][0] + 1
    for changed, told in (
        (json.dumps(too_many), "map: .*right: more right answers"),
        (text.replace(f'"n": {made.n},', '"n": 599,'), "n: 599, and the map is of 600 answers"),
        (text[: len(text) // 2], "JSON"),
        ('{"format": "other"}', "format"),
        (text.replace('"tested"', '"tsted"'), "threshold.tsted: .*did you mean 'tested'"),
        (text.replace('  "tried": 1,\n', ""), "threshold.tried: .*missing"),
        (text.replace('"right": [', '"right": [1, '), "map: .*one of each"),
        (json.dumps(falling), "map: .*scores rising"),
    ):
        path.write_text(changed)
        with pytest.raises(BeamUQError, match=told) as caught:
            read_calibration(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"correct": 0.5}, "correct: 0.5: must be 0 or 1"),
        ({"correct": None, "quality": 0.5}, "quality: .*--quality-threshold"),
        ({"value": float("nan")}, "600 of 600 answers have no score of CocoaPPL, more than half"),
        ({"id": "same"}, "id 'same' stands twice"),
        ({"group": "one"}, "all 600 answers are of one group"),
        ({"method": "CocoaPPLL"}, "did you mean 'CocoaPPLL'"),
    ],
)
def test_bad_rows_are_refused_in_one_line(change: Row, told: str) -> None:
    with pytest.raises(BeamUQError, match=told):
        calibrate([row | change for row in ROWS], method="CocoaPPL")


@pytest.mark.parametrize("key", ["server", "method"])
def test_na_of_pandas_in_a_row_is_null(key: str) -> None:
    rows = [ROWS[0] | {key: pd.NA}, *ROWS[1:]]
    with_null = [ROWS[0] | {key: None}, *ROWS[1:]]
    assert calibrate(rows, method="CocoaPPL") == calibrate(with_null, method="CocoaPPL")


def test_answers_that_are_all_right_get_a_threshold() -> None:
    threshold = calibrate([row | {"correct": 1} for row in ROWS], method="CocoaPPL").threshold
    assert threshold.value is not None
    assert threshold.wrong == 0


def test_a_csv_is_read_and_a_damaged_one_refused(tmp_path: Path) -> None:
    path = tmp_path / "scored.csv"
    for text, told in (
        ("id,method,value\n1,Prob,\n", "1 of 1 answers have no score of Prob, more than half"),
        (
            "\ufeffid,method,value\n1,Prob,\n",
            "1 of 1 answers have no score of Prob, more than half",
        ),
        ('id,method\n1,"Prob\n', "CSV"),
        ("id,method,value,value\n1,Prob,1,2\n", "column 'value' stands twice"),
    ):
        path.write_text(text)
        with pytest.raises(BeamUQError, match=told):
            calibrate(path, method="Prob")


@pytest.mark.parametrize(
    ("key", "value"),
    [("risk", 0.0), ("risk", 1e-19), ("confidence", 1.0), ("tried", 0), ("probability", "bayes")],
)
def test_a_setting_out_of_range_is_refused(key: str, value: Any) -> None:
    with pytest.raises(BeamUQError, match=key):
        calibrate(ROWS, **{"method": "CocoaPPL"} | {key: value})


def test_two_forms_are_not_chosen_between() -> None:
    both = ROWS + [row | {"variant": "multinomial"} for row in ROWS]
    with pytest.raises(BeamUQError, match="in the forms beamsearch, multinomial"):
        calibrate(both, method="CocoaPPL")
    assert calibrate(both, method="CocoaPPL", form="multinomial").form == "multinomial"


def test_series_of_the_same_answers_in_two_orders_are_refused() -> None:
    scores = pd.Series([0.1, 0.2], index=["a", "b"])
    for function in (beamuq.prr, beamuq.Calibration().fit):
        with pytest.raises(BeamUQError, match="two orders"):
            function(scores, scores[::-1])
        with pytest.raises(BeamUQError, match="two orders"):
            function(scores, [0, 1], groups=scores[::-1])


def test_quality_above_its_threshold_is_right(made: CalibrationFile) -> None:
    found = calibrate(
        [row | {"quality": 0.4 + 0.2 * row["correct"], "correct": None} for row in ROWS],
        method="CocoaPPL",
        quality_threshold=0.5,
    )
    assert found == made


def test_a_calibration_and_its_decisions_show_themselves_in_words() -> None:
    known = [
        {"id": k, "method": "Prob", "value": k / 300, "correct": int(k < 240)} for k in range(300)
    ]
    calibration = beamuq.calibrate(known, method="Prob", risk=0.2)
    assert repr(calibration) == str(calibration)
    assert repr(calibration.ece).endswith(", n = 300)")
    decisions = beamuq.decide([{"id": "new", "method": "Prob", "value": 0.105}], calibration)
    first, *_, header, row = repr(decisions).splitlines()
    assert first.startswith("1 of 1 shown; two-sample test of the scores: p = ")
    assert header.split()[:3] == ["id", "value", "right"]
    assert row.split()[1] == "new"


def test_a_method_without_a_value_in_either_form_is_told_by_its_reason() -> None:
    rows = [
        {
            "id": number,
            "method": "CocoaPPL",
            "variant": variant,
            "value": None,
            "reason": "no log p",
        }
        for number in (1, 2)
        for variant in ("beamsearch", "multinomial")
    ]
    with pytest.raises(BeamUQError, match=r"no score of CocoaPPL, .*: null \(no log p\)"):
        calibrate(rows, method="CocoaPPL", risk=0.1)
