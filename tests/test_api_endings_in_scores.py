"""Scores whose log-probabilities lack the ending's do not fit a calibration of whole answers."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import beamuq
from beamuq.api.calibration_file import CalibrationFile, read_calibration
from beamuq.api.decisions import Decisions
from beamuq.cli import main
from beamuq.errors import BeamUQError

Row = dict[str, Any]
KNOWN = 300
NEW = 60


def question(number: int, generator: random.Random, ending: Row) -> Row:
    p = generator.uniform(0.2, 0.99)
    texts = generator.choices(["Paris", "Lyon"], [p, 1 - p], k=5)
    logprobs = [-generator.uniform(0.1, 0.4), -generator.uniform(0.01, 0.1) / p]
    return {
        "id": f"q{number}",
        "answer": {"text": "Paris", "token_logprobs": logprobs} | ending,
        "samples": texts,
        "correct": int(generator.random() < p),
    }


def answers(lacking: int, whole: int, seed: int) -> list[Row]:
    """Answers of which some lack their ending's log-probability, as OpenAI's chats do, and others
    hold it, as vLLM's do, or were cut.
    """
    generator = random.Random(seed)
    endings: list[Row] = [{}] * lacking + [{"ended": True}] * whole
    return [question(k, generator, ending) for k, ending in enumerate(endings, start=1000 * seed)]


def scored(rows: list[Row], methods: str = "CocoaPPL", *, option: bool = True) -> Any:
    return beamuq.score(
        rows,
        similarity="lexical",
        methods=methods,
        without_ending=option,
        with_ending=not option,
    )


def calibrated(
    lacking: int, whole: int, methods: str = "CocoaPPL", *, option: bool = True
) -> CalibrationFile:
    known = scored(answers(lacking, whole, 1), methods, option=option)
    return beamuq.calibrate(known, method=methods, risk=0.4)


def decided(calibration: CalibrationFile, lacking: int, whole: int, **options: Any) -> Decisions:
    new = scored(answers(lacking, whole, 2), calibration.method)
    return beamuq.decide(new, calibration, **options)


def of_endings(decisions: Decisions) -> list[str]:
    return [warning for warning in decisions.warnings if "lack their ending's" in warning]


def test_the_calibration_counts_the_scores_that_lack_it(tmp_path: Path) -> None:
    known = scored(answers(KNOWN - 5, 5, 1))
    beamuq.calibrate(known, method="CocoaPPL", output=tmp_path / "c.json")
    assert read_calibration(tmp_path / "c.json").without_ending == KNOWN - 5


@pytest.mark.parametrize(
    ("known", "new", "told"),
    [
        ((KNOWN, 0), (0, NEW), f"0 of {NEW} scores .* calibrated with {KNOWN} of {KNOWN}"),
        ((0, KNOWN), (NEW, 0), f"{NEW} of {NEW} scores .* calibrated with 0 of {KNOWN}"),
        ((KNOWN - 5, 5), (0, NEW), f"0 of {NEW} scores"),
        ((0, KNOWN), (10, NEW), f"10 of {NEW + 10} scores"),
        ((KNOWN - 5, 5), (1, NEW), f"1 of {NEW + 1} scores"),
        ((0, KNOWN), (1, 0), "1 of 1 scores"),
        ((KNOWN, 0), (0, 1), "0 of 1 scores"),
    ],
)
def test_scores_of_the_other_kind_are_refused(
    known: tuple[int, int], new: tuple[int, int], told: str
) -> None:
    with pytest.raises(BeamUQError, match=f"{told}.*--force"):
        decided(calibrated(*known), *new)


def test_force_decides_with_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scored_file, calibration = tmp_path / "new.jsonl", tmp_path / "c.json"
    scored(answers(0, NEW, 2)).to_json(scored_file, orient="records", lines=True)
    calibrated(KNOWN, 0).write(calibration)
    asked = ["decide", str(scored_file), "--calibration", str(calibration), "--json"]
    with pytest.raises(SystemExit) as refused:
        main(asked)
    assert refused.value.code == 2
    capsys.readouterr()
    with pytest.raises(SystemExit) as forced:
        main([*asked, "--force"])
    assert forced.value.code == 3
    content = json.loads(capsys.readouterr().out)
    assert any("ending's log-probability" in told for told in content["forced"])


@pytest.mark.parametrize(
    ("known", "new"),
    [
        ((KNOWN, 0), (NEW, 0)),
        ((KNOWN - 5, 5), (NEW - 2, 2)),
        ((KNOWN - 5, 5), (NEW, 0)),
        ((0, KNOWN), (0, NEW)),
    ],
)
def test_scores_of_the_same_kind_are_decided_though_some_answers_were_cut(
    known: tuple[int, int], new: tuple[int, int]
) -> None:
    assert of_endings(decided(calibrated(*known), *new)) == []


@pytest.mark.parametrize(
    ("known", "new", "counts"),
    [
        ((0, KNOWN), (1, NEW), (f"1 of {NEW + 1}", f"0 of {KNOWN}")),
        ((KNOWN - 5, 5), (0, 1), ("0 of 1", f"{KNOWN - 5} of {KNOWN}")),
        ((KNOWN - 3, 3), (NEW - 9, 9), (f"{NEW - 9} of {NEW}", f"{KNOWN - 3} of {KNOWN}")),
    ],
)
def test_in_between_a_warning_tells_the_counts(
    known: tuple[int, int], new: tuple[int, int], counts: tuple[str, str]
) -> None:
    (told,) = of_endings(decided(calibrated(*known), *new))
    assert all(count in told for count in counts)


def test_where_nothing_lacks_it_the_option_makes_no_difference() -> None:
    assert of_endings(decided(calibrated(0, KNOWN, option=False), 0, NEW)) == []


def test_scores_of_texts_alone_fit_whatever_the_log_holds() -> None:
    by_texts = calibrated(0, KNOWN, "Dissimilarity", option=False)
    assert of_endings(decided(by_texts, NEW, 0)) == []
    assert of_endings(decided(calibrated(KNOWN, 0, "LexicalSimilarity"), 0, NEW)) == []


def test_a_series_of_scores_keeps_what_is_known_of_endings() -> None:
    known, new = scored(answers(KNOWN, 0, 1)), scored(answers(0, NEW, 2))
    correct = [row["correct"] for row in answers(KNOWN, 0, 1)]
    calibration = beamuq.Calibration(risk=0.4).fit(known["CocoaPPL"], correct)
    with pytest.raises(BeamUQError, match=f"0 of {NEW} scores lack their ending's"):
        calibration.decide(new["CocoaPPL"])


def test_a_file_of_csv_says_it_too(tmp_path: Path) -> None:
    scored(answers(0, NEW, 2)).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(BeamUQError, match=f"0 of {NEW} scores lack their ending's"):
        beamuq.decide(tmp_path / "new.csv", calibrated(KNOWN, 0))


def without_the_count(calibration: CalibrationFile, path: Path) -> CalibrationFile:
    """The file as older versions wrote it."""
    content = json.loads(calibration.as_json())
    del content["without_ending"]
    path.write_text(json.dumps(content))
    return read_calibration(path)


def test_an_older_file_is_read_and_what_it_does_not_say_is_told(tmp_path: Path) -> None:
    older = without_the_count(calibrated(KNOWN, 0), tmp_path / "c.json")
    (told,) = of_endings(decided(older, 0, NEW))
    assert "not known: calibrate again" in told


def test_of_an_older_file_the_option_is_compared(tmp_path: Path) -> None:
    older = without_the_count(calibrated(0, KNOWN, option=False), tmp_path / "c.json")
    with pytest.raises(BeamUQError, match="setting without_ending True, calibrated with False"):
        decided(older, NEW, 0)


def test_a_count_above_the_number_of_answers_is_refused(tmp_path: Path) -> None:
    content = json.loads(calibrated(KNOWN, 0).as_json()) | {"without_ending": KNOWN + 1}
    (tmp_path / "c.json").write_text(json.dumps(content))
    with pytest.raises(BeamUQError, match=f"without_ending: {KNOWN + 1} of {KNOWN} answers"):
        read_calibration(tmp_path / "c.json")
