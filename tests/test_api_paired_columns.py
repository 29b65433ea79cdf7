"""Columns given in Python are numbers, of the same answers in one order, or are refused in one
line.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import beamuq
from beamuq.api.paired_columns import check_order, group_column, number_column
from beamuq.errors import BeamUQError


@pytest.mark.parametrize(
    "values",
    [
        [0.5, 1],
        (0.5, 1.0),
        [np.float32(0.5), np.int64(1)],
        [Fraction(1, 2), 1],
        np.array([0.5, 1.0]),
        np.array([0.5, 1.0], dtype=np.float16),
        pd.Series([0.5, 1.0], index=["a", "b"]),
        pd.Series([0.5, 1.0], dtype="Float64"),
        pd.Index([0.5, 1.0]),
        torch.tensor([0.5, 1.0]),
    ],
)
def test_real_numbers_are_a_column(values: Any) -> None:
    column = number_column("scores", values)
    assert column.dtype == np.float64
    assert column.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    "values",
    [
        [None, 1.0],
        [np.nan, 1],
        [pd.NA, 1],
        pd.Series([None, 1.0], dtype="Float64"),
        pd.Series([None, 1.0], dtype=object),
        np.ma.masked_array([7.0, 1.0], mask=[True, False]),
    ],
)
def test_a_missing_value_is_nan(values: Any) -> None:
    assert np.isnan(number_column("scores", values)).tolist() == [True, False]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([0.1, True], "row 2: True"),
        (np.array([True, False]), "bool"),
        (pd.Series([True, None], dtype="boolean"), "row 1: True"),
        (["0.1", "0.2"], "row 1: '0.1'"),
        (np.array(["0.1"]), "type <U3"),
        ([0.1 + 0j], r"row 1: \(0.1\+0j\)"),
        (np.array([0.1 + 2j]), "complex128"),
        ([0.1, np.inf], "row 2: inf: must be finite"),
        (np.array([-np.inf]), "row 1: -inf: must be finite"),
        (np.datetime64("2020-01-01") + np.arange(2), "datetime64"),
        ([date(2020, 1, 1)], "row 1: datetime.date"),
        ([Decimal("0.1")], "row 1: Decimal"),
        ([[0.1], [0.2]], r"row 1: \[0.1\]"),
        ([object()], "row 1: <object"),
        (0.1, "a float"),
        (np.array(0.1), r"shape \(\)"),
        (np.array([[0.1]]), r"shape \(1, 1\)"),
        (pd.DataFrame({"a": [0.1]}), "a frame; give one column"),
        ({"a": 0.1}, "a dict"),
        ({0.1}, "a set"),
        (iter([0.1]), r"list_iterator of shape \(\)"),
        ("0.1", "a str"),
        (None, "a NoneType"),
        (torch.tensor([0.1], requires_grad=True), "Tensor .*grad"),
    ],
)
def test_what_is_no_number_is_not_made_one(values: Any, told: str) -> None:
    with pytest.raises(BeamUQError, match=f"^scores: .*{told}"):
        number_column("scores", values)


def test_labels_may_be_truth_values() -> None:
    for labels in (
        [True, 0],
        np.array([True, False]),
        pd.Series([True, False], dtype="boolean"),
        [1, np.bool_(False)],
    ):
        assert number_column("correct", labels, truth_values=True).tolist() == [1, 0]
    with pytest.raises(
        BeamUQError, match=r"correct: row 1: 'True'; give a list of numbers, 1 for right and 0"
    ):
        number_column("correct", ["True"], truth_values=True)


def test_groups_are_texts_and_whole_numbers() -> None:
    assert group_column(["a", 1, 1.0, np.int64(2)]) == ["a", "1", "1", "2"]
    for groups, told in (
        (["a", None], "row 2: missing"),
        ([np.nan], "row 1: missing"),
        ([1.5], "row 1: 1.5"),
        ([True], "row 1: True"),
        ([("a", 1)], "row 1: .*'a'"),
        ({"a", "b"}, "a set"),
        ("ab", "a str"),
        (pd.DataFrame({"a": [1]}), "a frame"),
        ((name for name in "ab"), "generator"),
    ):
        with pytest.raises(BeamUQError, match=f"^groups: .*{told}"):
            group_column(groups)


OF = ["a", "b", "c"]


@pytest.mark.parametrize(
    ("index", "told"),
    [
        (["b", "c", "d"], "'a' is in one of them alone"),
        (["a", "b"], "'c' is in one of them alone"),
        (["x", "y", "z"], "'a' is in one of them alone"),
        (["a", "a", "b"], "'c' is in one of them alone"),
        (["c", "b", "a"], "two orders"),
        ([5, 6, 7], "'a' is in one of them alone"),
    ],
)
def test_series_that_are_not_of_the_same_answers_in_one_order_are_refused(
    index: list[Any], told: str
) -> None:
    with pytest.raises(BeamUQError, match=f"^scores, correct: .*{told}"):
        check_order(scores=pd.Series(0.0, index=OF), correct=pd.Series(0.0, index=index))


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ([0, 1, 2], [1, 2, 3], "'0' is in one of them alone"),
        ([0, 1, 2], [3, 4, 5], "'0' is in one of them alone"),
        (["2", "0", "1"], [0, 1, 2], "two orders"),
        (["1", "2"], [1.0, 3.0], "'2' is in one of them alone"),
    ],
)
def test_whole_numbers_name_answers_as_their_texts_do(
    first: list[Any], second: list[Any], told: str
) -> None:
    with pytest.raises(BeamUQError, match=told):
        check_order(scores=pd.Series(0.0, index=first), correct=pd.Series(0.0, index=second))
    check_order(scores=pd.Series(0.0, index=["1", "2"]), correct=pd.Series(0.0, index=[1, 2]))


@pytest.mark.parametrize(
    "other",
    [
        pd.Series(0.0, index=OF),
        pd.Series(0.0, index=range(3)),
        np.zeros(3),
        [0, 0, 0],
        None,
    ],
)
def test_a_column_without_names_of_answers_is_taken_in_its_order(other: Any) -> None:
    check_order(scores=pd.Series(0.0, index=OF), correct=other)
    check_order(correct=other, scores=pd.Series(0.0, index=OF))


@pytest.mark.parametrize(
    "function",
    [
        beamuq.prr,
        lambda scores, correct: beamuq.Calibration().fit(scores, correct),
        lambda scores, correct: beamuq.Calibration().fit(scores, [1] * 3, groups=correct),
        lambda scores, correct: beamuq.prr(scores, [1] * 3, groups=correct),
    ],
)
def test_partly_overlapping_series_are_refused_wherever_columns_are_paired(
    function: Callable[..., Any],
) -> None:
    with pytest.raises(BeamUQError, match="different answers"):
        function(pd.Series([0.1, 0.2, 0.3], index=OF), pd.Series([1, 0, 1], index=["b", "c", "d"]))


@pytest.mark.parametrize(
    ("scores", "quality", "told"),
    [
        ([None, 0.1], [0, 1], "scores: row 1: missing"),
        ([0.2, 0.1], [0, None], "quality: row 2: missing"),
        ([np.inf, 0.1], [0, 1], "scores: row 1: inf"),
        ([0.2, 0.1j], [0, 1], "scores: row 2"),
        ([0.2], [0, 1], "scores: 1, quality: 2"),
    ],
)
def test_prr_takes_numbers_alone(scores: Any, quality: Any, told: str) -> None:
    with pytest.raises(BeamUQError, match=told):
        beamuq.prr(scores, quality)
