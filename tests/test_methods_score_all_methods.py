"""The scores of a cell: which rows they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import synthetic
from beamuq.errors import BeamUQError
from beamuq.methods import METHODS
from beamuq.methods.dissimilarity_estimators import WEIGHTINGS
from beamuq_study.produced_answers import needed_pairs
from beamuq_study.stages.method_inputs_from_tables import CellTables
from beamuq_study.stages.score_all_methods import (
    ScoringSettings,
    compare_candidates,
    score_cell,
)

UNIFORM = ("uniform beam M=10",)
STRATEGIES = (
    "greedy", "sample T=1.0", "sample T=0.7", "beam M=5", "beam M=10", "diverse G=2 lambda=0.5",
    "hybrid B=3",
)  # fmt: skip
KEY = ["answer_source", "method", "variant", "setting"]
MADE = synthetic.cell(5, STRATEGIES)


def scored(
    made: Mapping[str, pa.Table] = MADE, /, cross: bool = True, **settings: Any
) -> pd.DataFrame:
    chosen = ScoringSettings.model_validate(
        {"answer_source": ["greedy"], "main": MAIN} | settings, strict=False
    )
    cell = CellTables(
        *(made[kind] for kind in ("questions", "candidates", "similarity", "judgements")),
        main_beam=chosen.main.beam,
        cross_similarity=made["similarity"] if "SAR" in chosen.methods and cross else None,
    )
    return score_cell(cell, chosen).to_pandas()


MAIN = {"sample": "sample T=1.0", "beam": "beam M=10"}


def keys(frame: pd.DataFrame) -> list[tuple[str, str, str]]:
    return list(frame[KEY[1:]].drop_duplicates().itertuples(index=False, name=None))


def values(frame: pd.DataFrame, method: str, variant: str, setting: str = "") -> list[float]:
    rows = frame[
        (frame["method"] == method) & (frame["variant"] == variant) & (frame["setting"] == setting)
    ]
    return rows["value"].tolist()


def test_methods_that_read_only_the_produced_answer_need_no_other_pairs() -> None:
    strategies = [name for name in STRATEGIES if name != "greedy"]
    needed = set(needed_pairs(MADE["candidates"], ("greedy",), "beam M=10", strategies))
    whole = MADE["similarity"]
    pairs = zip(
        *(whole.column(name).to_pylist() for name in ("id", "premise", "hypothesis")), strict=True
    )
    few = MADE | {"similarity": whole.filter(pa.array([pair in needed for pair in pairs]))}
    assert len(few["similarity"]) < len(whole)
    asked = {"methods": ["Prob", "Dissimilarity", "CocoaMSP"], "estimators": ESTIMATED}
    pd.testing.assert_frame_equal(scored(few, **asked), scored(**asked))
    with pytest.raises(BeamUQError, match="lacks the pair"):
        scored(few, methods=["Dissimilarity", "DegreeMatrix"])


def test_the_main_line_has_every_method_in_every_form_once() -> None:
    frame = scored(methods=list(METHODS), answer_source=["greedy", "top_beam"])
    assert not frame.duplicated(["id", *KEY]).any()
    formulations = [
        ("SemanticEntropy", "multinomial", setting) for setting in ("printed", "likelihood-summed")
    ]
    expected = [
        (name, variant, "") for name, method in METHODS.items() for variant in method.variants
    ]
    for _, part in frame.groupby("answer_source"):
        assert sorted(keys(part)) == sorted(expected + formulations)
        assert len(part) == 5 * len(expected + formulations)


def test_settings_are_rows_of_the_forms_they_are_about() -> None:
    ablations = {"epsilon": [0, 0.1], "alpha": [0.5], "K": [3], "budgets": [5]}
    found = keys(
        scored(
            methods=["Prob", "EigValLaplacian", "Dissimilarity", "Eccentricity"],
            ablations=ablations,
        )
    )
    beam = [("Dissimilarity", "beamsearch"), ("Eccentricity", "beamsearch")]
    multinomial = [("Dissimilarity", "multinomial"), ("Eccentricity", "multinomial")]
    expected = [
        *((*form, "") for form in [("Prob", ""), ("EigValLaplacian", ""), *multinomial, *beam]),
        *((*form, setting) for form in beam for setting in ("epsilon=0", "epsilon=0.1")),
        ("Eccentricity", "beamsearch", "alpha=0.5"),
        ("Eccentricity", "beamsearch", "K=3"),
        *((*form, "M=5") for form in [("EigValLaplacian", ""), *multinomial, *beam]),
    ]
    assert sorted(found) == sorted(expected)


def test_methods_of_probabilities_are_scored_over_beams_and_exact_sets_that_suffice() -> None:
    made = synthetic.cell(5, (*STRATEGIES, "beam M=1", "exact M=1"))
    asked = ["Prob", "PRO", "BeamEntropy", "Dissimilarity"]
    searched = ["beam M=5", "diverse G=2 lambda=0.5", "hybrid B=3", "sample T=0.7"]
    ablations = {"budgets": [1], "epsilon": [0.1], "strategies": searched}
    frame = scored(made, methods=asked, ablations=ablations)
    found = [key for key in keys(frame) if key[0] in ("PRO", "BeamEntropy")]
    assert sorted(found) == [
        ("BeamEntropy", "", ""),
        ("BeamEntropy", "", "beam M=5"),
        ("PRO", "", ""),
        ("PRO", "", "M=1"),
        ("PRO", "", "beam M=5"),
        ("PRO", "", "exact M=1"),
    ]
    one_set_named_twice = {"strategies": ["exact M=1"]}
    again = scored(made, methods=["PRO"], ablations=one_set_named_twice)
    assert sorted(keys(again)) == [("PRO", "", ""), ("PRO", "", "exact M=1")]


def test_samples_are_not_scored_beside_an_exact_set_that_no_estimator_is_asked_of() -> None:
    made = synthetic.cell(5, (*STRATEGIES, "exact M=2"))
    asked = {"methods": ["Dissimilarity"], "estimators": ["uniform sample T=1.0"]}
    without = keys(scored(**asked))
    assert keys(scored(made, **asked)) == without
    asked["estimators"] = [*asked["estimators"], "normalised exact M=2"]
    assert ("Dissimilarity", "uniform", "sample T=1.0 M=2") in keys(scored(made, **asked))


def test_an_exact_set_needs_no_pairs_with_other_candidates() -> None:
    """Although a method beside compares all beams: its texts are compared with the answer alone."""
    made = synthetic.cell(5, (*STRATEGIES, "exact M=2"))
    rows = made["candidates"].to_pylist()
    for row in rows:
        if row["strategy"] == "exact M=2":
            row["text"] = f"found by no other search {row['rank']}"
    candidates = pa.Table.from_pylist(rows, schema=made["candidates"].schema)
    compared = {tuple(row.values())[:3] for row in made["similarity"].to_pylist()}
    missing = set(needed_pairs(candidates, ("greedy",), "beam M=10", ["exact M=2"])) - compared
    assert missing
    similarity = made["similarity"]
    classes = {"entail": 0.5, "neutral": 0.25, "contradict": 0.25}
    further = [
        {"id": key, "premise": premise, "hypothesis": hypothesis, **classes}
        for key, premise, hypothesis in sorted(missing)
    ]
    similarity = pa.concat_tables(
        [similarity, pa.Table.from_pylist(further, schema=similarity.schema)]
    )
    tables = made | {"candidates": candidates, "similarity": similarity}
    frame = scored(tables, methods=["PRO", "DegreeMatrix"])
    assert len(values(frame, "PRO", "", "exact M=2")) == 5


def test_methods_of_probabilities_need_no_pairs_of_candidates() -> None:
    assert not compare_candidates(["Prob", "PRO", "GNLL", "Dissimilarity"])
    assert compare_candidates(["PRO", "Eccentricity"])


def test_powers_of_weights_are_of_dissimilarity_over_beams_alone() -> None:
    asked = ["Dissimilarity", "DegreeMatrix", "PRO"]
    frame = scored(methods=asked, ablations={"powers": [0, 1.0, 2.0]}, estimators=UNIFORM)
    of_powers = [key for key in keys(frame) if key[2].startswith("power=")]
    assert of_powers == [
        ("Dissimilarity", "beamsearch", f"power={power}") for power in ("0", "1.0", "2.0")
    ]
    main = values(frame, "Dissimilarity", "beamsearch")
    assert values(frame, "Dissimilarity", "beamsearch", "power=1.0") == main
    alike = values(frame, "Dissimilarity", "uniform", "beam M=10")
    assert values(frame, "Dissimilarity", "beamsearch", "power=0") == pytest.approx(alike)


def test_settings_equal_to_the_main_ones_give_the_main_scores() -> None:
    frame = scored(
        methods=["Eccentricity"],
        ablations={
            "epsilon": [0],
            "alpha": [0.9],
            "K": [11],
            "strategies": ["beam M=10", "sample T=1.0"],
        },
    )
    main = values(frame, "Eccentricity", "beamsearch")
    for setting in ("epsilon=0", "alpha=0.9", "beam M=10"):
        assert values(frame, "Eccentricity", "beamsearch", setting) == main
    assert values(frame, "Eccentricity", "multinomial", "sample T=1.0") == values(
        frame, "Eccentricity", "multinomial"
    )
    assert values(frame, "Eccentricity", "beamsearch", "K=11") != main


ESTIMATED = (
    "uniform sample T=1.0", "distinct sample T=1.0", "normalised beam M=5",
    "unnormalised beam M=10", "lower beam M=10", "stratified hybrid B=3", "match beam M=10",
)  # fmt: skip


def test_estimators_are_rows_of_their_own_by_weighting_and_candidates() -> None:
    frame = scored(
        methods=["Dissimilarity", "CocoaMSP", "Prob"], estimators=ESTIMATED, num_candidates=5
    )
    rows = [
        (method, variant, setting)
        for method, variant, setting in keys(frame)
        if variant in WEIGHTINGS
    ]
    of = [(variant, setting) for method, variant, setting in rows if method == "Dissimilarity"]
    samples = [
        "sample T=1.0 M=5",
        "sample T=1.0 M=10",
        "sample T=1.0 M=5 draw=1",
        "sample T=1.0 M=5 draw=2",
    ]
    assert of == [
        *(("uniform", setting) for setting in samples),
        *(("distinct", setting) for setting in samples),
        *(tuple(name.split(" ", 1)) for name in ESTIMATED[2:]),
    ]
    assert {method for method, _, _ in rows} == {"Dissimilarity", "CocoaMSP"}
    estimates = np.array(values(frame, "Dissimilarity", "unnormalised", "beam M=10"))
    cocoa = values(frame, "CocoaMSP", "unnormalised", "beam M=10")
    np.testing.assert_allclose(cocoa, np.array(values(frame, "Prob", "")) * estimates)


def test_samples_are_drawn_apart_at_every_size_that_other_candidates_of_u_have() -> None:
    made = synthetic.cell(5, ("greedy", "sample T=1.0", "beam M=10", "beam M=2", "systematic M=5"))
    frame = scored(
        made,
        methods=["Dissimilarity"],
        estimators=("uniform sample T=1.0", "uniform systematic M=5"),
    )
    draws = [
        setting
        for _, variant, setting in keys(frame)
        if variant == "uniform" and " draw=" in setting
    ]
    assert draws == ["sample T=1.0 M=5 draw=1", "sample T=1.0 M=5 draw=2"]


def test_estimators_that_a_method_has_too_give_its_scores() -> None:
    frame = scored(
        methods=["Dissimilarity"],
        estimators=ESTIMATED,
        ablations={"budgets": [5], "strategies": ["hybrid B=3"]},
        num_candidates=5,
    )
    for mine, (variant, setting) in {
        ("uniform", "sample T=1.0 M=5"): ("multinomial", "M=5"),
        ("uniform", "sample T=1.0 M=5 draw=1"): ("multinomial", "M=5"),
        ("normalised", "beam M=5"): ("beamsearch", "M=5"),
        ("stratified", "hybrid B=3"): ("beamsearch", "hybrid B=3"),
    }.items():
        expected = values(frame, "Dissimilarity", variant, setting)
        np.testing.assert_allclose(values(frame, "Dissimilarity", *mine), expected, rtol=1e-10)
    second = values(frame, "Dissimilarity", "uniform", "sample T=1.0 M=5 draw=2")
    both = values(frame, "Dissimilarity", "uniform", "sample T=1.0 M=10")
    first = np.array(values(frame, "Dissimilarity", "uniform", "sample T=1.0 M=5"))
    np.testing.assert_allclose((first + second) / 2, both)


def test_the_two_ends_of_the_interval_lie_apart_by_what_was_not_found() -> None:
    frame = scored(methods=["Dissimilarity"], estimators=ESTIMATED)
    lower, upper = (
        np.array(values(frame, "Dissimilarity", name, "beam M=10"))
        for name in ("lower", "unnormalised")
    )
    rows = MADE["candidates"].to_pandas().query("strategy == 'beam M=10'")
    mass = rows.assign(p=np.exp(rows["logprob"])).groupby("id")["p"].sum().to_numpy()
    np.testing.assert_allclose(upper - lower, 1 - np.minimum(mass, 1))


def test_draws_in_lattices_bring_their_standard_error() -> None:
    lattices = "all_above p=0.01 draws=10 lattices=5"
    made = synthetic.cell(5, ("greedy", lattices, "stochastic M=10"))
    cell = CellTables(made["questions"], made["candidates"], made["similarity"])
    settings = {"methods": ["Dissimilarity"], "answer_source": ["greedy"], "main": {}}
    estimators = [f"stratified {lattices}", "inclusion stochastic M=10", "match stochastic M=10"]
    chosen = ScoringSettings.model_validate(settings | {"estimators": estimators}, strict=False)
    frame = score_cell(cell, chosen).to_pandas()
    expected = [("stratified", lattices), ("standard error", lattices)]
    expected += [("inclusion", "stochastic M=10"), ("match", "stochastic M=10")]
    assert [key[1:] for key in keys(frame)] == expected
    d = (
        cell.candidate_arrays(lattices, "greedy").dissimilarity.reshape(5, 5, 2).mean(axis=2)
    )  # all drawn: r = 1
    np.testing.assert_allclose(
        values(frame, "Dissimilarity", "stratified", lattices), d.mean(axis=1)
    )
    error = d.std(axis=1, ddof=1) / np.sqrt(5)
    np.testing.assert_allclose(
        values(frame, "Dissimilarity", "standard error", lattices), error, atol=1e-12
    )


def test_strategies_are_scored_with_printed_and_exact_weights() -> None:
    frame = scored(
        methods=["Dissimilarity", "Prob"], ablations={"strategies": list(STRATEGIES[2:])}
    )
    assert [key[1:] for key in keys(frame) if key[2]] == [
        ("multinomial", "sample T=0.7"),
        ("multinomial", "sample T=0.7 exact"),
        ("beamsearch", "beam M=5"),
        ("beamsearch", "beam M=10"),
        ("beamsearch", "diverse G=2 lambda=0.5"),
        ("beamsearch", "hybrid B=3"),
    ]
    assert values(frame, "Dissimilarity", "multinomial", "sample T=0.7 exact") != values(
        frame, "Dissimilarity", "multinomial", "sample T=0.7"
    )


def test_without_samples_only_the_beam_forms_are_scored() -> None:
    assert keys(scored(methods=["Prob", "Dissimilarity"], main={"beam": "beam M=10"})) == [
        ("Prob", "", ""),
        ("Dissimilarity", "beamsearch", ""),
    ]


def test_a_budget_whose_beams_were_not_decoded_is_told_by_its_name() -> None:
    with pytest.raises(BeamUQError, match="fewer than 1 of 'beam M=7'; decode them"):
        scored(methods=["Dissimilarity"], ablations={"budgets": [7]})


@pytest.mark.parametrize(
    "options", ["", " length_penalty=1.0", " length_penalty=-0.5", " early_stopping=True"]
)
def test_a_budget_is_the_first_samples_and_a_beam_search_of_that_width_with_the_same_options(
    options: str,
) -> None:
    strategies = [f"beam M={M}{options}" for M in (2, 5, 10)]
    made = synthetic.cell(5, ("greedy", "sample T=1.0", *strategies), top_beam=strategies[-1])
    main = MAIN | {"beam": strategies[-1]}
    ablations = {"budgets": [2, 5, 10], "strategies": strategies}
    frame = scored(
        made, methods=["Dissimilarity"], main=main, ablations=ablations, num_candidates=5
    )
    for M, strategy in zip((2, 5, 10), strategies, strict=True):
        budget = values(frame, "Dissimilarity", "beamsearch", f"M={M}")
        assert budget == values(frame, "Dissimilarity", "beamsearch", strategy)
    assert values(frame, "Dissimilarity", "beamsearch") == budget
    assert values(frame, "Dissimilarity", "multinomial", "M=5") == values(
        frame, "Dissimilarity", "multinomial"
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"answer_source": ["best"]}, "answer_source: 'best'"),
        ({"methods": ["SAR"], "cross": False}, "'SAR' needs sentence_similarity"),
    ],
)
def test_settings_that_the_files_do_not_fit_are_refused(
    settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(BeamUQError, match=message):
        scored(**{"methods": ["Prob"]} | settings)


def test_methods_over_samples_are_scored_on_every_disjoint_draw_where_asked() -> None:
    methods = ["Dissimilarity", "Eccentricity", "Perplexity"]
    frame = scored(methods=methods, num_candidates=3, every_draw=True)
    draws = [f"sample T=1.0 M=3 draw={draw}" for draw in (1, 2, 3)]
    drawn = [key for key in keys(frame) if "draw" in key[2]]
    assert drawn == [(method, "multinomial", draw) for draw in draws for method in methods[:2]]
    for method in methods[:2]:
        first = values(frame, method, "multinomial", draws[0])
        assert first == values(frame, method, "multinomial")
        assert first != values(frame, method, "multinomial", draws[1])
    assert not any("draw" in key[2] for key in keys(scored(methods=methods, num_candidates=3)))


def test_a_disjoint_draw_is_of_its_own_samples_alone() -> None:
    estimator = {"estimators": ["uniform sample T=1.0"], "methods": ["Dissimilarity"]}
    frame = scored(**estimator, num_candidates=5, every_draw=True)
    second = "sample T=1.0 M=5 draw=2"
    np.testing.assert_allclose(
        values(frame, "Dissimilarity", "multinomial", second),
        values(frame, "Dissimilarity", "uniform", second),
    )
