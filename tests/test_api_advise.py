"""Advice on questions of one's own: coordinates with intervals that hold what is true, and what
cannot be told.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import beamuq
from beamuq.api.advise import BESIDE_THE_MAP, NAMES
from beamuq.cli import main
from beamuq.errors import BeamUQError
from beamuq.evaluation import known_distribution as known

BEAMS = 10
FEW, KAPPA, OUTSIDE = "questions are few", "κ is not known", "covered mass is outside"


def simulated(N: int, concentration: float, kappa: float, seed: int = 0) -> list[dict[str, Any]]:
    """Questions of 30 outcomes, the ten first of them beams, whose right answers are drawn at κ."""
    rng = np.random.default_rng(seed)
    p = -np.sort(-rng.dirichlet(np.full(30, concentration), N) - 1e-9)
    p /= p.sum(axis=1, keepdims=True) + 1e-9
    truth = known.truth_distribution(p, np.tile(np.arange(30) < BEAMS, (N, 1)), kappa)
    right, samples = (
        known.draws(truth, rng.random((N, 1)))[:, 0],
        known.draws(p, rng.random((N, BEAMS))),
    )
    return [
        {
            "answer": "outcome 0",
            "answers": [f"Outcome {right[n]}."],
            "beams": [
                {"text": f"outcome {y}", "logprob": float(np.log(p[n, y]))} for y in range(BEAMS)
            ],
            "samples": [f"outcome {y}" for y in samples[n]],
        }
        for n in range(N)
    ]


def told(advice: Any) -> dict[str, Any]:
    """The rows of the coordinates by name."""
    return dict(zip(NAMES, advice.coordinates.itertuples(), strict=True))


MADE = {
    "flat": (150, 5.0, 1.0, set()),
    "peaked": (150, 0.05, 1.0, {OUTSIDE}),
    "overconfident": (150, 0.6, 0.5, set()),
    "few": (9, 0.6, 1.0, {FEW, KAPPA}),
}


@pytest.mark.parametrize("name", MADE)
def test_the_coordinates_of_four_made_files_hold_what_they_were_made_with(
    name: str, tmp_path: Path
) -> None:
    N, concentration, kappa, notes = MADE[name]
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in simulated(N, concentration, kappa)))
    advice = beamuq.advise(file)
    found = told(advice)
    assert (found["kappa"].low <= kappa <= found["kappa"].high) == (N > 9)
    many = simulated(4000, concentration, kappa, seed=1)
    mass = np.mean([sum(np.exp(beam["logprob"]) for beam in row["beams"]) for row in many])
    repeats = np.mean([1 - len(set(row["samples"])) / BEAMS for row in many])
    for coordinate, value in {"mass": mass, "repeats": repeats}.items():
        width = found[coordinate].high - found[coordinate].low
        assert found[coordinate].low - width / 2 <= value <= found[coordinate].high + width / 2
    assert {found[name].questions for name in ("mass", "held", "repeats", "fair share")} == {N}
    assert {
        each for each in (FEW, KAPPA, OUTSIDE) if any(each in note for note in advice.notes)
    } == notes


def test_the_findings_are_wider_where_kappa_is_less_known_and_a_verdict_needs_both_ends() -> None:
    many, few = (beamuq.advise(simulated(N, 0.6, 1.0)).findings for N in (1500, 60))
    for findings in (many, few):
        ahead = np.where(findings["low"] > 0, "beams ahead", "undecided")
        assert (findings["verdict"] == np.where(findings["high"] < 0, "samples ahead", ahead)).all()
        assert (findings["low"] <= findings["beams − samples"]).all()
        assert (findings["beams − samples"] <= findings["high"]).all()
    assert ((few["high"] - few["low"]) > (many["high"] - many["low"])).all()


def test_a_model_whose_right_answers_are_not_among_its_beams_is_beside_the_map() -> None:
    rows = simulated(150, 0.1, 1.0)
    assert BESIDE_THE_MAP not in beamuq.advise(rows).notes
    lost = [row | {"answers": ["nobody's"]} if n % 2 else row for n, row in enumerate(rows)]
    advice = beamuq.advise(lost)
    assert BESIDE_THE_MAP in advice.notes
    assert told(advice)["kappa"].questions <= 75
    assert told(advice)["kappa"].high > 0.9


def first(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"beams": row["beams"][:4]}


def without(key: str) -> Any:
    return lambda row: {name: of for name, of in row.items() if name != key}


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (first, "of 4 beams, the map of 10"),
        (without("samples"), "No samples"),
        (without("answers"), KAPPA),
        (lambda row: row | {"answers": ["nobody's"]}, KAPPA),
        (lambda row: row | {"answers": ["outcome 0"]}, "κ is outside the map"),
    ],
)
def test_each_note_stands_where_it_is_due(change: Any, note: str) -> None:
    rows = simulated(60, 0.6, 1.0)
    assert not any(note in each for each in beamuq.advise(rows).notes)
    assert any(note in each for each in beamuq.advise([change(row) for row in rows]).notes)


def test_questions_without_log_probabilities_are_left_out_and_told() -> None:
    rows = simulated(60, 0.6, 1.0)
    rows[7] = rows[7] | {"beams": ["outcome 0", "outcome 1"]}
    advice = beamuq.advise(rows)
    assert told(advice)["mass"].questions == 59
    assert any("1 of 60 questions are left out" in note for note in advice.notes)


def test_no_log_probability_at_all_is_refused() -> None:
    with pytest.raises(
        BeamUQError, match=r"no question has beams that all have a logprob; give each as"
    ):
        beamuq.advise([{"answer": "Rome", "beams": ["Rome", "Milan"]}])


def test_rows_of_one_group_are_resampled_together() -> None:
    rows = simulated(60, 0.6, 1.0)
    pairs = [row | {"group": f"g{n % 60}"} for n, row in enumerate(rows + rows)]
    ends = [
        [(of.low, of.high) for of in told(beamuq.advise(of_rows)).values()]
        for of_rows in (pairs, rows + rows)
    ]
    widths = [mass[1] - mass[0] for mass, *_ in ends]
    assert widths[0] > 1.2 * widths[1]


def test_answer_names_the_produced_answer_and_a_misspelt_key_of_the_right_ones_is_refused() -> None:
    (row,) = simulated(1, 0.6, 1.0)
    with pytest.raises(BeamUQError, match=r"answer_s: unknown column; did you mean 'answers'\?"):
        beamuq.advise([without("answers")(row) | {"answer_s": ["Rome"]}])


def test_the_command_prints_what_the_function_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text("\n".join(json.dumps(row) for row in simulated(12, 0.6, 1.0)))
    main(["advise", str(file)])
    printed, _, last = capsys.readouterr().out.strip().rpartition("\n")
    assert printed.strip() == str(beamuq.advise(file)).strip()
    assert last.startswith("made ")


@pytest.mark.parametrize(("right", "held"), [("−5", 1.0), ("5", 0.0), ("-5.0", 1.0)])
def test_a_right_answer_among_the_beams_is_told_by_its_sign_and_value(
    right: str, held: float
) -> None:
    row = {"answer": "-5", "beams": [{"text": "-5", "logprob": -0.5}], "answers": [right]}
    assert told(beamuq.advise([row]))["held"].value == held
