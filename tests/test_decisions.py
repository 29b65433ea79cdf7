"""Thresholds and probabilities of a study's cells, against distributions whose truth is known, and
their exhibits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import synthetic
from beamuq.api.calibration import calibrate, decide
from beamuq.api.open_models import Similarity
from beamuq.api.score_candidates import score
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import one_half
from beamuq.evaluation.guaranteed_threshold import least_shown, units_needed
from beamuq.evaluation.intervals import proportion_interval
from beamuq.evaluation.probability_of_being_right import reliability
from beamuq.scorers.similarity_by_kind import Lexical
from beamuq_study import parquet_tables
from beamuq_study.parquet_tables import SCHEMAS
from beamuq_study.stages import decisions_of_scores
from beamuq_study.stages.decisions_of_scores import DecisionSettings, decisions
from beamuq_study.stages.score_all_methods import MainStrategies, ScoringSettings
from decided_cells import FORMS, cell, settings
from run_job import run_job


def rows_of(
    tables: tuple[pa.Table, pa.Table, pa.Table], **changed: Any
) -> dict[tuple[Any, ...], dict[str, Any]]:
    found, _ = decisions(*tables, settings(**changed), "d")
    return {(row["method"], row["variant"], row["metric"], row["risk"]): row for row in found}


@pytest.mark.parametrize(
    ("groups", "first"), [([*"aabbcc"], 2), ([*"abcdef"], 3), ([*"aaaab"], 1), (["a"], 1)]
)
def test_a_half_is_of_whole_groups(groups: list[str], first: int) -> None:
    for seed in range(20):
        half = one_half(groups, seed, "d")
        by_group = {
            group: {bool(h) for g, h in zip(groups, half, strict=True) if g == group}
            for group in groups
        }
        assert all(len(of) == 1 for of in by_group.values())
        assert sum(of == {True} for of in by_group.values()) == first


def test_a_half_is_another_with_another_seed_and_the_same_in_another_order() -> None:
    groups = [str(k) for k in range(40)]
    half = one_half(groups, 1, "d")
    assert not np.array_equal(half, one_half(groups, 2, "d"))
    np.testing.assert_array_equal(half[::-1], one_half(groups[::-1], 1, "d"))


@pytest.mark.parametrize("per_group", [1, 4])
def test_thresholds_do_not_see_the_labels_they_are_tested_on(per_group: int) -> None:
    scores, quality, questions = cell(1200, per_group=per_group, errors=0.2)
    before, scored = decisions(scores, quality, questions, settings(), "d")
    tested = {row["id"] for row in scored if row["half"] == "test"}
    turned = [
        row | {"value": 1 - row["value"]} if row["id"] in tested else row
        for row in quality.to_pylist()
    ]
    after = rows_of((scores, pa.Table.from_pylist(turned, schema=SCHEMAS["quality"]), questions))
    thresholds = [
        row for row in before if row["metric"] in ("threshold", "bound", "least", "shown")
    ]
    assert any(row["metric"] == "bound" for row in thresholds)
    for row in thresholds:
        again = after[row["method"], row["variant"], row["metric"], row["risk"]]
        assert (again["value"], again["n"]) == (row["value"], row["n"])


def test_all_forms_and_risks_of_a_cell_are_corrected_for_together() -> None:
    found = rows_of(cell(100))
    for risk in (0.2, 0.4):
        assert {found[(*form, "least", risk)]["value"] for form in FORMS} == {
            least_shown(risk, 0.05 / 6)
        }


def test_thresholds_keep_the_true_risk_and_show_much_of_what_they_could(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the beam form the risk below a threshold t is errors · t; of the form that knows nothing
    it is errors.
    """
    monkeypatch.setattr(
        decisions_of_scores, "cross_fitted", lambda *_, **__: (np.zeros(1500), np.zeros(1500))
    )
    errors = 0.41
    found = [
        rows_of(cell(1500, trial, errors=errors), resamples=2, seed=trial) for trial in range(20)
    ]
    known = [of["Dissimilarity", "beamsearch", "threshold", 0.2]["value"] or 0.0 for of in found]
    assert sum(errors * t > 0.2 for t in known) <= 1
    assert sum(of["Prob", "", "threshold", 0.4]["value"] is not None for of in found) <= 1
    assert np.mean(known) > 0.4 * 0.2 / errors


def test_what_calibrate_finds_on_the_calibrating_half_is_the_cell_s_threshold(
    tmp_path: Path,
) -> None:
    found, scored = decisions(
        *cell(1200, errors=0.2), settings(similarity="minilm", model="m"), "d"
    )
    path = tmp_path / "half.jsonl"
    path.write_text(
        "".join(json.dumps(row) + "\n" for row in scored if row["half"] == "calibration")
    )
    made = calibrate(path, method="Dissimilarity", form="beamsearch", risk=0.2, tried=6)
    expected = next(
        row
        for row in found
        if (row["variant"], row["metric"], row["risk"]) == ("beamsearch", "threshold", 0.2)
    )
    assert made.threshold.value == expected["value"] is not None
    assert (made.similarity, made.model, made.n) == ("minilm", "m", 600)


def test_shares_are_of_the_tested_half_and_count_groups_alike() -> None:
    scores, quality, questions = cell(900, per_group=3, errors=0.2)
    uneven = [
        row | {"group": f"g{k // 9}"} if k < 450 else row
        for k, row in enumerate(questions.to_pylist())
    ]
    questions = pa.Table.from_pylist(uneven, schema=SCHEMAS["questions"])
    found, scored = decisions(scores, quality, questions, settings(), "d")
    by = {(r["method"], r["variant"], r["metric"], r["risk"]): r for r in found}
    rows = [r for r in scored if (r["variant"], r["half"]) == ("beamsearch", "test")]
    limit = by["Dissimilarity", "beamsearch", "threshold", 0.4]["value"]
    sizes = {r["group"]: sum(o["group"] == r["group"] for o in rows) for r in rows}
    shown = sum((r["value"] <= limit) / sizes[r["group"]] for r in rows)
    wrong = sum((r["value"] <= limit and not r["correct"]) / sizes[r["group"]] for r in rows)
    assert by["Dissimilarity", "beamsearch", "shown", 0.4]["value"] == pytest.approx(
        shown / len(sizes)
    )
    assert by["Dissimilarity", "beamsearch", "wrong of shown", 0.4]["value"] == pytest.approx(
        wrong / shown
    )


def test_of_shown_answers_that_are_all_right_the_interval_is_not_a_point() -> None:
    found = rows_of(cell(900, errors=0.0), risks=(0.2,))
    row = found["Dissimilarity", "beamsearch", "wrong of shown", 0.2]
    assert (row["value"], row["low"]) == (0.0, 0.0)
    expected = proportion_interval(
        np.zeros(row["n"], dtype=bool), [str(k) for k in range(row["n"])], 0.95
    )
    assert row["high"] == pytest.approx(expected[1])
    assert row["high"] > 0


def test_probabilities_hold_for_a_score_that_knows_and_for_one_that_does_not() -> None:
    found = rows_of(cell(2000, errors=0.5))
    for form in FORMS:
        assert found[(*form, "ece", None)]["value"] < 0.06
    knows, not_knowing = (found[(*form, "brier", None)]["value"] for form in (FORMS[2], FORMS[0]))
    assert knows == pytest.approx(1 / 6, abs=0.02)  # ∫ u(1 − u) du
    assert not_knowing == pytest.approx(1 / 4, abs=0.02)


def test_bins_hold_every_answer_once_with_the_share_that_is_right() -> None:
    found = rows_of(cell(300))
    bins = [row for (*_, metric, _), row in found.items() if metric.startswith("right in")]
    assert sum(row["n"] for row in bins) == 300 * len(FORMS)
    assert all(row["low"] <= row["value"] <= row["high"] for row in bins)


def test_interval_of_the_calibration_error_is_around_what_so_many_answers_give() -> None:
    """Of perfect probabilities: the plug-in error is its noise alone, which every resample would
    add once more.
    """
    values = []
    for trial in range(60):
        rng = np.random.default_rng(trial)
        p = rng.random(200)
        values.append(
            reliability(
                p, rng.random(200) < p, [str(k) for k in range(200)], resamples=200, seed=trial
            )["ece"]
        )
    mean = np.mean([of.value for of in values])
    held = sum(of.low <= mean <= of.high for of in values)
    assert all(of.low <= of.value <= of.high for of in values)
    assert held >= 50


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"value": math.nan}, "Prob has no finite value of question 'q00003'"),
        ({"id": "other"}, "question"),
    ],
)
def test_scores_that_do_not_fit_are_refused_by_name(change: dict[str, Any], told: str) -> None:
    scores, quality, questions = cell(20)
    rows = [
        r | (change if (r["method"], r["id"]) == ("Prob", "q00003") else {})
        for r in scores.to_pylist()
    ]
    with pytest.raises(BeamUQError, match=told):
        decisions(
            pa.Table.from_pylist(rows, schema=SCHEMAS["scores"]),
            quality,
            questions,
            settings(),
            "d",
        )


def test_a_single_group_leaves_nothing_to_decide_and_says_why() -> None:
    found = rows_of(cell(12, per_group=12))
    assert found["Prob", "", "ece", None]["value"] is None
    assert "single group" in found["Prob", "", "ece", None]["note"]
    assert "too few" in found["Prob", "", "threshold", 0.2]["note"]
    assert ("Prob", "", "shown", 0.2) not in found


@pytest.mark.parametrize("least", [1, 4, 5, 14, 29, 137])
def test_so_many_units_leave_enough_to_test_on_and_fewer_do_not(least: int) -> None:
    needed = units_needed(least)
    assert needed - needed // 5 >= least
    assert needed == 5 or needed - 1 - (needed - 1) // 5 < least


# -- the step --------------------------------------------------------------------------------------


SCORING = ScoringSettings(
    methods=("Prob", "Dissimilarity"),
    answer_source=("greedy",),
    main=MainStrategies(sample="sample T=1.0", beam="beam M=10"),
    num_candidates=2,
    equivalence_threshold=0.8,
)
DECODED = [
    (of, rank)
    for of, n in (("greedy", 1), ("sample T=1.0", 4), ("beam M=10", 3))
    for rank in range(n)
]
FILES = ("scores", "quality", "questions", "shots", "prompts", "candidates")


def written(
    folder: Path,
    tables: tuple[pa.Table, pa.Table, pa.Table],
    *,
    model: str = "m",
    template: str = "t",
    longest: int = 20,
    shots: Sequence[dict[str, Any]] = (),
    lexical_by: str = "",
    server: dict[str, Any] | None = None,
) -> tuple[Path, Path]:
    paths = {kind: folder / kind for kind in FILES}
    folder.mkdir(exist_ok=True)
    made: dict[str, dict[str, Any]] = {
        "candidates": {
            "models": {"model": {"content": model}},
            "settings": {"max_new_tokens": longest},
        },
        "prompts": {"template_sha256": template},
        "scores": {
            "settings": SCORING.model_dump(mode="json"),
            "models_behind": {"similarity of 'cosine' (model)": {"content": "c"}},
        },
    }
    if server is not None:
        made["candidates"] |= {"models": {"model": {"content": None}}, "server": server}
    if lexical_by:
        del made["scores"]["models_behind"]
        made["quality"] = {"settings": {"metric": settings().quality, "normalizer": lexical_by}}
    of = {"prompts": {"style": "base", "dataset": "d"}}
    decoded = [(q["id"], *each, "x") for q in tables[2].to_pylist() for each in DECODED]
    rows = (*tables, list(shots), [], synthetic.candidates(*decoded))
    for (kind, path), table in zip(paths.items(), rows, strict=True):
        cell = of.get(kind, {"model": "m", "dataset": "d", "recipe": "main", "scorer": "cosine"})
        parquet_tables.write(path, kind, table, cell=cell, provenance=made.get(kind))
    return decided(folder, settings(similarity="lexical") if lexical_by else settings())


def decided(folder: Path, of: DecisionSettings, **further: Any) -> tuple[Path, Path]:
    paths = {kind: folder / kind for kind in FILES}
    outputs = {"decisions": folder / "decisions", "scored": folder / "main.scored.jsonl"}
    run_job("decisions", paths | outputs | {"settings": of.model_dump(mode="json")}, **further)
    return outputs["decisions"], outputs["scored"]


SHOT = {"id": "s", "question": "Who?", "group": "s"} | synthetic.EMPTY


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"model": "other"}, "model_hash"),
        *(
            (change, "prompt_hash")
            for change in ({"template": "other"}, {"longest": 9}, {"shots": [SHOT]})
        ),
    ],
)
def test_answers_of_another_model_prompt_or_setting_are_refused(
    tmp_path: Path, change: dict[str, Any], refused: str
) -> None:
    tables = cell(60)
    _, scored = written(tmp_path / "calibrated", tables)
    made = calibrate(scored, method="Prob")
    unknown, own = decide(scored, made).warnings
    assert "not known whether the calibration's: similarity;" in unknown
    assert "calibrated on" in own
    _, other = written(tmp_path / "other", tables, **change)
    with pytest.raises(BeamUQError, match=refused):
        decide(other, made)


SERVER = {
    "kind": "vllm",
    "version": "0.32.0",
    "model": "org/llama",
    "tokenizer": "t",
    "noise": 0.0,
    "probes": [[[1, -0.5], [2, -1.5]]],
}


def test_answers_over_a_server_are_decided_by_what_is_known_of_it(tmp_path: Path) -> None:
    tables = cell(60)
    _, scored = written(tmp_path / "calibrated", tables, server=SERVER)
    row = json.loads(scored.read_text().splitlines()[0])
    assert (row["model_hash"], row["model"]) == (None, "org/llama")
    assert json.loads(row["server"]) == SERVER
    made = calibrate(scored, method="Prob")
    quantised = SERVER | {"probes": [[[1, -0.6], [2, -1.4]]]}
    _, other = written(tmp_path / "other", tables, server=quantised)
    with pytest.raises(BeamUQError, match="another quantisation"):
        decide(other, made)


def test_the_scored_file_says_settings_and_candidates_as_score_does(tmp_path: Path) -> None:
    _, path = written(tmp_path / "cell", cell(5))
    found = [json.loads(line) for line in path.read_text().splitlines()]
    row = {"answer": {"text": "a", "logprob": -1.0}, "samples": ["a", "b"]}
    row |= {"beams": [{"text": text, "logprob": -2.0} for text in "abc"]}
    expected = score(
        [row], similarity=Similarity("cosine", Lexical(), "c"), methods=SCORING.methods
    )
    columns = ["method", "variant", "candidates"]
    of_score = set(expected[columns].itertuples(index=False, name=None))
    assert {tuple(each[name] for name in columns) for each in found} == of_score
    assert len(of_score) == len(FORMS)
    assert {each["scored_with"] for each in found} == set(expected["scored_with"])


@pytest.mark.parametrize(("normalizer", "same"), [("folded", True), ("triviaqa", False)])
def test_scores_of_lexical_say_by_which_words(normalizer: str, same: bool, tmp_path: Path) -> None:
    """Those of the paper's datasets are of ROUGE's words, as those of ``score`` are not."""
    _, path = written(tmp_path / "cell", cell(5), lexical_by=normalizer)
    said = json.loads(json.loads(path.read_text().splitlines()[0])["scored_with"])["similarity"]
    row = {"answer": "a", "samples": ["a", "b"]}
    of_score = json.loads(score([row], similarity="lexical")["scored_with"][0])["similarity"]
    assert (said == of_score) == same


@pytest.mark.parametrize(
    ("kind", "made", "told"),
    [
        ("scores", {"inputs": {"candidates": "0"}}, "scores: was made with another candidates"),
        (
            "candidates",
            {"inputs": {"prompts": "0"}, "settings": {"style": "base"}},
            "made with another prompts",
        ),
        ("quality", {"settings": {"metric": "other"}}, "quality: was made with metric 'other'"),
        ("candidates", {"settings": {"max_new_tokens": 20}}, "max_new_tokens 20, 30 is asked"),
    ],
)
def test_tables_whose_footers_are_not_of_one_run_are_refused(
    kind: str, made: dict[str, Any], told: str, tmp_path: Path
) -> None:
    written(tmp_path, cell(20))
    table = parquet_tables.read(tmp_path / kind, kind)
    parquet_tables.write(
        tmp_path / kind, kind, table.table, cell=table.cell, provenance=table.provenance | made
    )
    with pytest.raises(BeamUQError, match=told):
        decided(
            tmp_path,
            settings(),
            made_with={"candidates": {"max_new_tokens": 30}} if "asked" in told else {},
        )


def test_nothing_is_decided_by_foreign_scores(tmp_path: Path) -> None:
    """Their similarity, which the step does not read, is of another scorer than the study's."""
    written(tmp_path, cell(20))
    table = parquet_tables.read(tmp_path / "scores", "scores")
    behind = {
        "similarity": {
            "name": "cosine",
            "kind": "nli",
            "models": {"model": {"source": "hub:org/other"}},
        }
    }
    footer = table.provenance | {"settings_behind": behind}
    parquet_tables.write(
        tmp_path / "scores", "scores", table.table, cell=table.cell, provenance=footer
    )
    for asked, told in (
        ({"kind": "embedding"}, "kind 'nli', 'embedding'"),
        (
            {"kind": "nli", "models": {"model": {"source": "hub:org/own"}}},
            "source of model 'hub:org/other'",
        ),
    ):
        with pytest.raises(BeamUQError, match=f"scores: was made from similarity with {told}"):
            decided(tmp_path, settings(), made_with={"similarity": asked})
