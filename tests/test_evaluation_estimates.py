"""Estimates on hand-made frames: pairs, means, empty cells, undefined resamples, ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from beamuq.evaluation.estimates import ALL_EMPTY, KEYS, MEAN, Estimates, joined, rank_marks

RANDOM = np.random.default_rng(0)


def made(*rows: dict[str, Any], resamples: int = 400, spread: float = 0.1) -> Estimates:
    """Rows of keys, value and more, each with normal replicates around its value."""
    full = [
        dict.fromkeys(KEYS, "") | {"value": 0.5, "n": 10, "empty": 0.0, "note": ""} | row
        for row in rows
    ]
    frame = pd.DataFrame(full)
    drawn = frame["value"].to_numpy()[:, None] + spread * RANDOM.normal(
        size=(len(frame), resamples)
    )
    return Estimates(frame, drawn)


def test_a_difference_is_paired_by_keys_and_named() -> None:
    beams = made(
        {"dataset": "b", "variant": "beam", "value": 0.7},
        {"dataset": "a", "variant": "beam", "value": 0.6},
    )
    samples = made(
        {"dataset": "a", "variant": "sample", "value": 0.5}, {"dataset": "b", "variant": "sample"}
    )
    found = beams.minus(samples, on=("dataset",))
    assert found.frame["variant"].tolist() == ["beam - sample"] * 2
    assert found.frame["value"].tolist() == pytest.approx([0.2, 0.1])
    assert found.replicates == pytest.approx(beams.replicates - samples.replicates[::-1])


def test_rows_without_a_partner_are_left_out_and_two_partners_refused() -> None:
    a, b = made({"dataset": "a"}, {"dataset": "b"}), made({"dataset": "b"})
    assert a.minus(b, on=("dataset",)).frame["dataset"].tolist() == ["b"]
    with pytest.raises(ValueError, match="equal in metric"):
        a.minus(a, on=("metric",))


def test_a_difference_with_an_undefined_value_is_undefined_for_its_reason() -> None:
    a, b = made({"value": 0.5}), made({"value": np.nan, "note": "all right"})
    found = a.minus(b).summary()
    assert found.loc[0, ["value", "low", "high", "std"]].isna().all()
    assert found.loc[0, "note"] == "all right"


def test_places_come_in_their_order_and_a_missing_one_is_named() -> None:
    found = made({"method": "A", "value": 1.0}, {"method": "B", "value": 2.0})
    assert found.at(pd.DataFrame({"method": ["B", "A", "B"]})).frame["value"].tolist() == [
        2.0,
        1.0,
        2.0,
    ]
    with pytest.raises(KeyError, match="C"):
        found.at(pd.DataFrame({"method": ["C"]}))


def test_nothing_has_no_mean() -> None:
    assert len(Estimates.from_rows([], []).mean_over_datasets()) == 0


def test_a_mean_resamples_each_dataset_on_its_own() -> None:
    cells = made({"dataset": "a", "value": 0.2, "n": 3}, {"dataset": "b", "value": 0.4, "n": 5})
    mean = cells.mean_over_datasets()
    assert mean.frame.loc[0, ["dataset", "value", "n"]].tolist() == [MEAN, pytest.approx(0.3), 8]
    assert mean.replicates[0] == pytest.approx(cells.replicates.mean(axis=0))


def test_a_mean_leaves_out_cells_of_too_many_empty_answers_and_no_others() -> None:
    cells = made(
        {"dataset": "a", "value": 0.2, "empty": 0.2},
        {"dataset": "b", "value": 0.9, "empty": 0.21},
        {"dataset": "c", "value": 0.4, "empty": np.nan},
    )
    mean = cells.mean_over_datasets().frame.loc[0]
    assert (mean["value"], mean["n"]) == (pytest.approx(0.3), 20)
    none = cells.where(dataset="b").mean_over_datasets().summary().loc[0]
    assert np.isnan(none["value"])
    assert (none["note"], none["n"]) == (ALL_EMPTY, 10)


def test_a_mean_with_an_undefined_dataset_is_undefined_unless_that_is_left_out() -> None:
    undefined = {"dataset": "b", "metric": "PRR", "value": np.nan, "note": "one quality"}
    mean = made({"dataset": "a", "metric": "PRR"}, undefined).mean_over_datasets({"b": "Title"})
    assert np.isnan(mean.frame.loc[0, "value"])
    assert mean.frame.loc[0, "note"] == "PRR is undefined on Title: one quality"
    left = made({"dataset": "a", "metric": "PRR"}, undefined | {"empty": 0.5}).mean_over_datasets()
    assert left.frame.loc[0, "value"] == 0.5


def test_one_percent_of_undefined_resamples_keeps_an_interval_and_more_does_not() -> None:
    kept, lost = made({}), made({})
    kept.replicates[0, :4] = np.nan
    lost.replicates[0, :5] = np.nan
    assert kept.summary().loc[0, "note"] == "4 of 400 resamples undefined"
    assert kept.summary().loc[0, "low"] < 0.5 < kept.summary().loc[0, "high"]
    assert lost.summary().loc[0, ["low", "high", "std"]].isna().all()
    assert lost.summary().loc[0, "value"] == 0.5
    assert np.isnan(lost.p()[0])
    assert lost.holm()[0] == 1.0


@pytest.mark.parametrize(("spread", "is_one"), [(0.0, False), (1e-14, False), (1e-6, True)])
def test_resamples_that_are_equal_but_for_rounding_are_no_interval(
    spread: float, is_one: bool
) -> None:
    row = made({}, spread=spread).summary().loc[0]
    assert row[["low", "high", "std"]].notna().all() == is_one
    assert row["note"] == ("" if is_one else "all resamples are equal: no interval")


def test_an_undefined_resample_of_one_dataset_is_undefined_in_the_mean() -> None:
    cells = made({"dataset": "a"}, {"dataset": "b"})
    cells.replicates[1, 7] = np.nan
    assert np.isnan(cells.mean_over_datasets().replicates[0]).tolist() == [
        n == 7 for n in range(400)
    ]


def test_p_counts_the_resamples_that_cross_zero_twice() -> None:
    found = made({"value": 1.0})
    found.replicates[0] = np.where(np.arange(400) < 3, -1.0, 1.0)
    assert found.p()[0] == pytest.approx(2 * 4 / 401)
    assert found.holm(tests=5)[0] == pytest.approx(5 * 2 * 4 / 401)


def test_ties_within_rounding_are_both_best_and_undefined_rows_have_no_mark() -> None:
    values = [0.3, 0.5, 0.5 + 1e-13, np.nan, 0.4]
    found = made(
        *({"method": str(n), "value": value} for n, value in enumerate(values)), spread=1e-6
    ).best()
    assert found["mark"].tolist() == ["", "best", "best", "", "second"]
    assert np.isnan(found.loc[1, "p_best"])
    assert found.loc[0, "p_best"] == pytest.approx(3 * 2 / 401)  # the undefined row is no test
    assert np.isnan(found.loc[3, "p_best"])


@pytest.mark.parametrize(
    ("values", "marks"),
    [
        ([0.5, 0.7, 0.7, 0.6, 0.6, 0.1], ["", "best", "best", "second", "second", ""]),
        ([0.50004, 0.50003, 0.50002], ["best", "second", ""]),
        ([0.1 + 0.2, 0.3, 0.2], ["best", "best", "second"]),  # equal but for the order of summation
        ([np.nan, 0.2, np.nan], ["", "best", ""]),
        ([np.nan, np.nan], ["", ""]),
    ],
)
def test_equal_values_share_a_rank_of_unrounded_values(
    values: list[float], marks: list[str]
) -> None:
    assert rank_marks(values) == marks


# -- the test of a lead, against one written out step by step --------------------------------------


def p_of(best: Any, row: Any) -> float | None:
    """Two-sided: twice the share of resamples that put the difference on the other side of zero,
    one added to each.
    """
    differences = [
        float(a) - float(b)
        for a, b in zip(best, row, strict=True)
        if not (np.isnan(a) or np.isnan(b))
    ]
    if len(best) - len(differences) > 0.01 * len(best):
        return None
    below, above = sum(d <= 0 for d in differences), sum(d >= 0 for d in differences)
    return min(1.0, 2 * (min(below, above) + 1) / (len(differences) + 1))


def not_rejected(p: dict[int, float], tests: int) -> set[int]:
    """Holm step by step: the smallest p against 5 % of all, the next against 5 % of the rest, until
    one fails.
    """
    left = dict(p)
    while left:
        row = min(left, key=lambda key: left[key])
        if left[row] * tests >= 0.05:
            break
        del left[row]
        tests -= 1
    return set(left)


@pytest.mark.parametrize("seed", range(12))
def test_rows_not_distinguishable_from_the_best_are_those_of_the_test_written_out(
    seed: int,
) -> None:
    random, resamples = np.random.default_rng(seed), 2000
    values = random.uniform(0.3, 0.6, size=8)
    common, own = random.normal(scale=0.2, size=resamples), random.normal(size=(8, resamples))
    replicates = values[:, None] + common + own * random.uniform(0.01, 0.1, size=(8, 1))
    if seed % 3:
        replicates[2, : 60 if seed % 3 == 1 else 15] = np.nan
    column = made(*({"method": str(n), "value": value} for n, value in enumerate(values)))
    found = Estimates(column.frame, replicates).best()
    best = int(np.argmax(values))
    p = {row: p_of(replicates[best], replicates[row]) for row in range(8) if row != best}
    expected = not_rejected({row: 1.0 if of is None else of for row, of in p.items()}, 7)
    assert set(found.index[found["p_best"] >= 0.05]) == expected


def test_an_interval_of_its_own_stays_with_its_row_and_no_verb_hands_it_on() -> None:
    row = {"dataset": "a", "value": 0.0, "n": 9}
    own = Estimates.from_rows(
        [row | {"low": 0.0, "high": 0.1}, row | {"dataset": "b"}], [np.zeros(9), np.zeros(9)]
    )
    found: Any = own.summary()
    assert found.loc[0, ["low", "high"]].tolist() == [0.0, 0.1]
    assert found["std"].isna().all()
    assert np.isnan(found.loc[1, "low"])
    for derived in (
        own.minus(own),
        own.combined(own, np.add),
        own.mean_over_datasets(),
        own.mean_over_draws("x"),
    ):
        assert derived.summary()["low"].isna().all()


def test_a_place_without_a_row_is_undefined_for_the_reason_given() -> None:
    places = pd.DataFrame({"method": ["B", "A", "B"]})
    found = made({"method": "A", "value": 1.0}).at(places, missing="nothing is shown")
    assert found.frame["method"].tolist() == ["B", "A", "B"]
    assert found.summary()["note"].tolist() == ["nothing is shown", "", "nothing is shown"]
    assert np.isnan(found.replicates[0]).all()


def test_rows_made_undefined_lose_value_and_interval() -> None:
    found = (
        made({"value": 1.0}, {"value": 2.0}).undefined([True, False], "nothing is shown").summary()
    )
    assert found["value"].isna().tolist() == found["low"].isna().tolist() == [True, False]
    assert found.loc[0, "note"] == "nothing is shown"


def test_what_has_no_error_is_joined_to_what_has() -> None:
    count = Estimates.from_rows([{"value": 3.0, "n": 9}], [3.0])
    found = joined([made({"value": 1.0}, resamples=50), count])
    assert found.replicates.shape == (2, 50)
    assert found.summary()["low"].notna().tolist() == [True, False]


def test_a_value_without_resamples_has_no_p() -> None:
    row = {"model": "m", "dataset": "d", "value": 0.1, "low": -0.2, "high": 0.4, "n": 50}
    assert np.isnan(Estimates.from_rows([row], [0.1]).p()[0])
