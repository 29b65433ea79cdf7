"""``Calibration`` compares what the command compares, and says what it cannot."""

from __future__ import annotations

import copy
import json
import pickle
import random
import warnings
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import beamuq
from beamuq.api.score_candidates import Scores
from beamuq.errors import BeamUQError

N = 300


def questions(count: int, seed: int, samples: int = 8, **labels: str) -> list[dict[str, Any]]:
    generator = random.Random(seed)
    rows = []
    for number in range(count):
        p = generator.choice([0.99, generator.random()])
        texts = generator.choices(["Paris", "Lyon"], [p, 1 - p], k=samples)
        correct = int(generator.random() < p)
        rows.append(
            {"id": f"q{seed}-{number}", "answer": "Paris", "samples": texts, "correct": correct}
            | labels
        )
    return rows


def scored(rows: list[dict[str, Any]], **options: Any) -> Any:
    return beamuq.score(
        rows,
        similarity="lexical",
        methods=["Dissimilarity", "Eccentricity", "NumSemSets"],
        **options,
    )


LABELS = {"model": "m", "model_hash": "a1", "prompt_hash": "b2"}
KNOWN = questions(N, 1, **LABELS)


@pytest.fixture(scope="module")
def known() -> Scores:
    frame: Scores = scored(KNOWN)
    return frame


@pytest.fixture(scope="module")
def new() -> Scores:
    frame: Scores = scored(questions(40, 2, **LABELS))
    return frame


@pytest.fixture
def calibration(known: Scores, tmp_path: Path) -> beamuq.Calibration:
    """As the command writes it, and read again."""
    beamuq.calibrate(known, method="Dissimilarity", risk=0.2, output=tmp_path / "c.json")
    return beamuq.Calibration.load(tmp_path / "c.json")


def decided(
    calibration: beamuq.Calibration, scores: Any, **options: Any
) -> tuple[pd.DataFrame, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        table = calibration.decide(scores, **options)
    return table, [str(each.message) for each in caught]


def test_scores_of_the_calibrations_own_making_are_decided_without_a_warning(
    calibration: beamuq.Calibration, new: Scores
) -> None:
    table, told = decided(calibration, new["Dissimilarity"])
    assert told == []
    assert calibration.fitted is not None
    command = beamuq.decide(new, calibration.fitted).table.set_index("id")
    pd.testing.assert_frame_equal(table, command, check_names=False)


def test_fitted_in_python_it_is_the_calibration_of_the_command(known: Scores) -> None:
    labels = pd.Series([row["correct"] for row in KNOWN], index=[row["id"] for row in KNOWN])
    fitted = beamuq.Calibration(risk=0.2).fit(known["Dissimilarity"], labels).fitted
    assert fitted == beamuq.calibrate(known, method="Dissimilarity", risk=0.2)


FOREIGN: dict[str, tuple[Callable[[], Any], str]] = {
    "method": (
        lambda: scored(questions(9, 3, **LABELS))["Eccentricity"],
        "method 'Eccentricity', calibrated with 'D",
    ),
    "renamed": (
        lambda: scored(questions(9, 3, **LABELS))["Eccentricity"].rename("Dissimilarity"),
        "method 'Ecc",
    ),
    "named": (lambda: pd.Series([0.1], name="Eccentricity"), "method 'Eccentricity'"),
    "threshold": (
        lambda: scored(questions(9, 3, **LABELS), equivalence_threshold=0.3)["Dissimilarity"],
        "setting equivalence_threshold 0.3, calibrated with 0.8",
    ),
    "temperature": (
        lambda: scored(
            [
                row | {"samples": [{"text": "a", "logprob": -1}] * 8}
                for row in questions(9, 3, **LABELS)
            ],
            temperature=0.5,
        )["Dissimilarity"],
        "setting temperature 0.5",
    ),
    "candidates": (
        lambda: scored(questions(9, 3, 2, **LABELS))["Dissimilarity"],
        "candidates up to 2, .* up to 8",
    ),
    "model": (
        lambda: scored(questions(9, 3, **LABELS | {"model_hash": "a2"}))["Dissimilarity"],
        "model_hash 'a2'",
    ),
    "prompt": (
        lambda: scored(questions(9, 3, **LABELS | {"prompt_hash": "b3"}))["Dissimilarity"],
        "prompt_hash 'b3'",
    ),
    "form": (
        lambda: scored(
            [row | {"beams": [{"text": "a", "logprob": -1.0}]} for row in questions(9, 3, **LABELS)]
        )["Dissimilarity"],
        "form 'beamsearch', calibrated with 'multinomial'",
    ),
}


@pytest.mark.parametrize("foreign", FOREIGN)
def test_foreign_scores_are_refused_or_with_force_warned_of(
    foreign: str, calibration: beamuq.Calibration
) -> None:
    make, told = FOREIGN[foreign]
    scores = make()
    with pytest.raises(BeamUQError, match=f"^scores: .*{told}.*force"):
        calibration.decide(scores)
    _, warned = decided(calibration, scores, force=True)
    assert any(told[:6] in line for line in warned)


def test_a_form_is_asked_for_by_name(calibration: beamuq.Calibration) -> None:
    beams = [{"text": "a", "logprob": -1.0}]
    frame = scored([row | {"beams": beams} for row in questions(9, 3, **LABELS)])
    assert decided(calibration, frame.scores_of("Dissimilarity", form="multinomial"))[1] == []
    with pytest.raises(BeamUQError, match=r"'Dissimilarity': .*form 'unheard'"):
        frame.scores_of("Dissimilarity", form="unheard")


KEPT: dict[str, Callable[[pd.Series], Any]] = {
    "slice": lambda scores: scores[2:9],
    "positions": lambda scores: scores.iloc[[4, 2, 30]],
    "labels": lambda scores: scores.loc[["q2-3", "q2-1"]],
    "sorted": lambda scores: scores.sort_values(),
    "copy": lambda scores: scores.copy(),
    "deep copy": copy.deepcopy,
    "pickle": lambda scores: pickle.loads(pickle.dumps(scores)),
    "reindexed": lambda scores: scores.reindex([*scores.index, "another"]),
    "concatenated": lambda scores: pd.concat([scores[:5], scores[5:]]),
    "float32": lambda scores: scores.astype("float32"),
    "without missing": lambda scores: scores.dropna(),
}


@pytest.mark.parametrize("operation", KEPT)
def test_what_is_known_of_scores_survives_usual_operations(
    operation: str, calibration: beamuq.Calibration, new: Scores
) -> None:
    _, told = decided(calibration, KEPT[operation](new["Dissimilarity"]))
    assert [line for line in told if "known" in line] == []
    with pytest.raises(BeamUQError, match="method 'Eccentricity'"):
        calibration.decide(KEPT[operation](new["Eccentricity"]))


LOST: dict[str, tuple[Callable[[pd.Series], Any], str]] = {
    "array": (
        lambda scores: scores.to_numpy(),
        "method, form, setting, similarity, model, prompt, settings, cand",
    ),
    "list": (lambda scores: scores.tolist(), "method, form"),
    "frame": (
        lambda scores: scores.to_frame()["Dissimilarity"],
        "whether the calibration's: form, setting",
    ),
    "other ids": (lambda scores: scores.reset_index(drop=True), "form, setting"),
    "with another": (
        lambda scores: pd.concat([scores, pd.Series([0.1], index=["x"])]),
        "method, form",
    ),
}


@pytest.mark.parametrize("operation", LOST)
def test_what_is_lost_is_said(operation: str, calibration: beamuq.Calibration, new: Scores) -> None:
    lose, told = LOST[operation]
    table, warned = decided(calibration, lose(new["Dissimilarity"]))
    assert len(table) >= 40
    assert any("not known" in line and told in line for line in warned)


@pytest.mark.parametrize(
    "change",
    [
        lambda scores: 1 - scores,
        lambda scores: scores.rank(),
        lambda scores: scores.where(scores > 2, 0.2),
    ],
)
def test_computed_scores_are_no_longer_those_of_the_method(
    change: Callable[[pd.Series], pd.Series],
    calibration: beamuq.Calibration,
    known: Scores,
    new: Scores,
) -> None:
    with pytest.raises(
        BeamUQError, match=r"scores: id 'q2-.*where score gave .* for Dissimilarity"
    ):
        calibration.decide(change(new["Dissimilarity"]))
    with pytest.raises(
        BeamUQError, match=r"scores: id 'q1-.*where score gave .* for Dissimilarity"
    ):
        beamuq.Calibration().fit(change(known["Dissimilarity"]), [1] * N)


def test_computed_scores_are_shown_without_the_form_of_the_method(new: Scores) -> None:
    scores = new["Dissimilarity"]
    assert "over 8 samples" in repr(scores)
    assert "over 8 samples" in repr(scores[::2])
    agreement = 1 - scores
    assert repr(agreement).endswith("computed of Dissimilarity, no scores of it any more")


@pytest.mark.parametrize(
    "change",
    [
        lambda scores: scores.map("{:.2f}".format),
        lambda scores: scores.astype(str),
        lambda scores: scores.astype(complex),
        lambda scores: scores.map(lambda value: [value]),
        lambda scores: scores.map(lambda _: 10**400),
    ],
)
def test_what_is_no_number_any_more_is_shown_as_computed_of_the_scores(
    change: Callable[[pd.Series], pd.Series], new: Scores
) -> None:
    assert repr(change(new["Dissimilarity"])).endswith("no scores of it any more")


@pytest.mark.parametrize(
    "change",
    [
        lambda scores: scores.map(lambda _: None),
        lambda scores: scores.astype("Float64").where(scores > 0.3),
        lambda scores: scores.map(Decimal),
    ],
)
def test_scores_some_of_which_are_missing_are_shown_with_their_form(
    change: Callable[[pd.Series], pd.Series], new: Scores
) -> None:
    assert "over 8 samples" in repr(change(new["Dissimilarity"]))


@pytest.mark.parametrize("first", [True, False])
def test_an_id_that_score_never_saw_is_left_out_wherever_it_stands(
    first: bool, known: Scores
) -> None:
    scores = known["Dissimilarity"]
    ids = ["another", *scores.index] if first else [*scores.index, "another"]
    correct = pd.Series([row["correct"] for row in KNOWN], index=scores.index)
    of_known = beamuq.Calibration(risk=0.4).fit(scores, correct).fitted
    with pytest.warns(UserWarning, match="1 of 301 without a score of Dissimilarity left out"):
        calibration = beamuq.Calibration(risk=0.4).fit(
            scores.reindex(ids), correct.reindex(ids, fill_value=1)
        )
    assert calibration.fitted is not None
    assert of_known is not None
    assert (calibration.fitted.method, calibration.fitted.form) == (of_known.method, of_known.form)
    assert calibration.fitted.n == of_known.n


def test_ids_none_of_which_score_saw_are_refused(known: Scores) -> None:
    with pytest.raises(BeamUQError, match="2 of 2 answers have no score of Dissimilarity"):
        beamuq.Calibration().fit(known["Dissimilarity"].reindex(["a", "b"]), [1, 0])


def test_scores_of_two_methods_are_not_one_column(
    calibration: beamuq.Calibration, known: Scores, new: Scores
) -> None:
    with pytest.raises(BeamUQError, match="scores: method: 'Dissimilarity' and 'Eccentricity'"):
        calibration.decide(pd.concat([new["Dissimilarity"], new["Eccentricity"]]))
    with pytest.raises(BeamUQError, match="scores: method: 'Dissimilarity' and 'Eccentricity'"):
        beamuq.Calibration().fit(
            pd.concat([known["Dissimilarity"], known["Eccentricity"]]), [1] * 2 * N
        )


def test_scores_of_two_models_are_not_decided_together(
    calibration: beamuq.Calibration, new: Scores
) -> None:
    other = scored(questions(9, 3, **LABELS | {"model_hash": "a2"}))["Dissimilarity"]
    with pytest.raises(
        BeamUQError, match="scores: id 'q3-0': model_hash: 'a2', other rows have 'a1'"
    ):
        calibration.decide(pd.concat([new["Dissimilarity"], other]))


def test_a_frame_of_scores_is_no_column(calibration: beamuq.Calibration, new: Scores) -> None:
    with pytest.raises(
        BeamUQError, match=r"scores: a frame; .*scores\['Dissimilarity'\].*beamuq.decide"
    ):
        calibration.decide(new)


def test_a_missing_score_is_withheld_as_such_and_an_infinite_one_refused(
    calibration: beamuq.Calibration,
) -> None:
    table, _ = decided(calibration, [None, 0.0])
    assert table["shown"].tolist() == [False, True]
    assert table["reason"][0] == "no score"
    with pytest.raises(BeamUQError, match="scores: row 2: -inf: must be finite"):
        calibration.decide([0.1, -np.inf])


def test_of_a_calibration_of_unnamed_scores_the_method_is_not_known(new: Scores) -> None:
    scores = np.linspace(0, 1, N)
    calibration = beamuq.Calibration(risk=0.3).fit(scores, scores < 0.7)
    for given in (scores[:3], new["Dissimilarity"], pd.Series([0.1], name="value")):
        assert any(
            "not known whether the calibration's: method, form" in line
            for line in decided(calibration, given)[1]
        )


def test_what_was_fitted_cannot_be_changed(tmp_path: Path) -> None:
    scores = np.linspace(0, 1, N)
    calibration = beamuq.Calibration(risk=0.05)
    calibration.risk = 0.3
    calibration.fit(scores, scores < 0.7)
    for name, value in (("risk", 0.01), ("confidence", 0.9), ("tried", 7)):
        with pytest.raises(
            BeamUQError, match=rf"^{name}: {value}: .*fitted with .*Calibration\({name}={value}\)"
        ):
            setattr(calibration, name, value)
    with pytest.raises(BeamUQError, match="fitted: cannot be set"):
        calibration.fitted = None
    calibration.save(tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text())["threshold"]["risk"] == 0.3
    assert beamuq.Calibration.load(tmp_path / "c.json").fitted == calibration.fitted
    loaded = beamuq.Calibration.load(tmp_path / "c.json")
    assert (loaded.risk, loaded.confidence, loaded.tried) == (0.3, 0.95, 1)
    with pytest.raises(BeamUQError, match=r"risk: 0.01"):
        loaded.risk = 0.01


@pytest.mark.parametrize(
    ("name", "value"), [("risk", 0), ("confidence", 1.0), ("tried", 1.5), ("risk", True)]
)
def test_a_setting_out_of_range_is_refused_when_it_is_given(name: str, value: Any) -> None:
    with pytest.raises(BeamUQError, match=f"^{name}: "):
        beamuq.Calibration(**{name: value})
    with pytest.raises(BeamUQError, match=f"^{name}: "):
        setattr(beamuq.Calibration(), name, value)


def test_groups_of_one_name_are_one_whatever_their_type() -> None:
    scores = np.linspace(0, 1, N)
    groups: list[Any] = [k // 2 if k % 2 else float(k // 2) for k in range(N)]
    fitted = beamuq.Calibration(risk=0.3).fit(scores, scores < 0.7, groups=groups).fitted
    assert fitted is not None
    assert fitted.groups == N // 2
    with pytest.raises(BeamUQError, match="groups: row 1: missing"):
        beamuq.Calibration().fit(scores, scores < 0.7, groups=[None] * N)


def test_a_threshold_cannot_be_set(calibration: beamuq.Calibration) -> None:
    with pytest.raises(
        BeamUQError, match=r"threshold: 0.9: cannot be set, .* Calibration\(risk=…\)"
    ):
        calibration.threshold = 0.9


@pytest.mark.parametrize("settings", ["[1]", "{", "5", "[" * 100_000])
def test_a_file_whose_settings_are_no_object_is_refused_when_it_is_read(
    settings: str, calibration: beamuq.Calibration, tmp_path: Path
) -> None:
    path = tmp_path / "changed.json"
    calibration.save(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"scored_with": settings}))
    with pytest.raises(
        BeamUQError, match=r"changed.json: .*scored_with: .*must be an object in JSON"
    ):
        beamuq.Calibration.load(path)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {"risk": 0.001},
            r"threshold.risk: 0.001, and the bound at the threshold is .*; calibrate again",
        ),
        (
            {"shown": 10_000},
            r"threshold: \d+ wrong of 10000 shown of \d+ tested of \d+; calibrate again",
        ),
    ],
)
def test_a_file_whose_threshold_lacks_the_guarantee_is_refused(
    changed: dict[str, float], told: str, calibration: beamuq.Calibration, tmp_path: Path
) -> None:
    path = tmp_path / "changed.json"
    calibration.save(path)
    content = json.loads(path.read_text())
    content["threshold"] |= changed
    path.write_text(json.dumps(content))
    with pytest.raises(BeamUQError, match=told):
        beamuq.Calibration.load(path)
