"""The grammar of strategies and settings, and the strategy of each judged answer."""

from __future__ import annotations

from typing import Any

import pytest

from beamuq import strategy_names
from beamuq.errors import BeamUQError
from beamuq.strategy_names import number, parse
from beamuq_study.produced_answers import strategy_of
from beamuq_study.stages.recipe_to_policies import policies_of
from beamuq_study.study_config import Recipe


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0"),
        (1.0, "1.0"),
        (0.00001, "0.00001"),
        (0.05, "0.05"),
        (0.99, "0.99"),
        (3, "3"),
        (1.5, "1.5"),
    ],
)
def test_numbers_are_spelt_as_the_paper_spells_them(value: float, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("text", "kind", "parameters"),
    [
        ("greedy", "greedy", {}),
        ("sample T=0.7", "sample", {"T": 0.7}),
        ("diverse G=2 lambda=0.5", "diverse", {"G": 2, "lambda": 0.5}),
        ("beam M=10 length_penalty=-0.5", "beam", {"M": 10, "length_penalty": -0.5}),
        ("beam M=10 length_penalty=1e-05", "beam", {"M": 10, "length_penalty": 0.00001}),
        (
            "beam M=3 length_penalty=1.0 early_stopping=False",
            "beam",
            {"M": 3, "length_penalty": 1.0, "early_stopping": False},
        ),
    ],
)
def test_settings_are_kinds_with_parameters(
    text: str, kind: str, parameters: dict[str, float]
) -> None:
    assert parse(text) == (kind, parameters)


@pytest.mark.parametrize(
    "text", ["", "beam M", "beam  M=3", "beam M=x", "Beam M=3", "beam M=1.2.3", "beam M=1-2"]
)
def test_what_is_not_of_the_grammar_is_refused(text: str) -> None:
    with pytest.raises(BeamUQError, match="is not a strategy or setting"):
        parse(text)


def test_names_of_a_recipe_by_kind() -> None:
    own = {"strategy": "wide M=4 W=8", "policy": "mine:Wide"}
    recipe: dict[str, Any] = {
        "sample": {"size": 4, "temperatures": [1.0, 0.5]},
        "beam": {"widths": [2, 4], "length_penalty": 0.5},
        "diverse": {"size": 4, "groups": [2], "penalties": [0.0]},
        "hybrid": {"size": 4, "beams": [3]},
        "custom": [own],
        "shipped": True,
    }
    names = Recipe.model_validate(recipe).strategies()
    beams = ["beam M=2 length_penalty=0.5", "beam M=4 length_penalty=0.5"]
    assert names == [
        *("greedy", "sample T=1.0", "sample T=0.5"),
        *(*beams, "diverse G=2 lambda=0.0", "hybrid B=3", "wide M=4 W=8", "shipped"),
    ]
    assert strategy_names.searches(names) == [*beams, "diverse G=2 lambda=0.0", "wide M=4 W=8"]
    assert strategy_names.of_kind(names, "sample") == ["sample T=1.0", "sample T=0.5"]
    assert strategy_names.beam_of_width(names, 4) == beams[1]
    assert strategy_names.beam_of_width(names, 5) == "beam M=5"


def test_a_recipes_policies_bear_its_names_and_its_settings() -> None:
    recipe = Recipe.model_validate(
        {
            "exact": {"sizes": [5, 10], "rows": 300},
            "all_above": {"p": 0.002, "draws": 20, "lattices": 2, "rows": 400},
            "systematic": {"sizes": [10]},
            "stochastic": {"sizes": [10]},
            "optimal_stratified": {"sizes": [10], "rows": 500},
            "adaptive": {"sizes": [10], "rows": 600},
        }
    )
    policies = policies_of(recipe, None)
    assert [policy.strategy for policy in policies] == recipe.strategies()
    assert [policy.rows for policy in policies if hasattr(policy, "rows")] == [
        300,
        300,
        400,
        500,
        600,
    ]
    drawn = [name for name in recipe.strategies() if strategy_names.draws(name)]
    assert drawn == [
        *("all_above p=0.002 draws=20 lattices=2", "systematic M=10", "stochastic M=10"),
        *drawn[3:],
    ]
    assert recipe.searches() == ["exact M=5", "exact M=10"]
    assert strategy_names.searches(["all_above p=0.002"]) == ["all_above p=0.002"]


@pytest.mark.parametrize("answer_source", ["top_beam", "first"])
def test_an_answer_that_is_none_is_told(answer_source: str) -> None:
    with pytest.raises(
        BeamUQError,
        match=f"answer_source: '{answer_source}' is not greedy, shipped or, with a main beam",
    ):
        strategy_of(answer_source, None)
