"""The style with intervals: brackets, and bold for what a paired test cannot tell from the best."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import exhibits_study
from beamuq import parquet_tables
from beamuq.exhibits import holm_bold, list_of_exhibits
from beamuq.exhibits.exhibit_types import BuiltTable, TableCell, TableRow
from beamuq.exhibits.read_evaluation import Measured

RESAMPLES = 2000
STUDY = exhibits_study.study(evaluation=exhibits_study.CONTENT["evaluation"] | {"resamples": RESAMPLES})
TABLES, RANKED = exhibits_study.labels("table"), exhibits_study.RANKED
# beyond the paper: these rank nothing, and the second style alone has all their intervals
Floats = np.ndarray[Any, np.dtype[np.float64]]


class Noisy(exhibits_study.Results):
    """Replicates share most of a cell's noise and have some of their own, so that some differences are clear."""

    def _replicate_rows(self, need: Any) -> list[np.ndarray[Any, Any]]:
        common = exhibits_study.generator(need.path, "common").normal(scale=0.3, size=RESAMPLES)
        rows = []
        for row in self._measured(need):
            own = exhibits_study.generator(need.path, sorted(row.items())).normal(scale=0.1, size=RESAMPLES)
            rows.append((row["value"] + common + own).astype(np.float32))
        return rows


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Noisy:
    return Noisy(tmp_path_factory.mktemp("noisy"), STUDY)


@pytest.fixture(scope="module")
def built(results: Noisy) -> dict[str, BuiltTable]:
    return {name: results.built(name) for name in TABLES}


def cells(table: BuiltTable) -> list[TableCell]:
    return [cell for row in table.grid.body if isinstance(row, TableRow) for cell in row.cells]


# -- the test, against one written out step by step --------------------------------------------------------------


def p_of(best: Floats, row: Floats) -> float | None:
    """Two-sided: twice the share of resamples that put the difference on the other side of zero, one added to each."""
    differences = [float(a) - float(b) for a, b in zip(best, row, strict=True) if not (np.isnan(a) or np.isnan(b))]
    if len(best) - len(differences) > 0.01 * len(best):
        return None
    below, above = sum(d <= 0 for d in differences), sum(d >= 0 for d in differences)
    return min(1.0, 2 * (min(below, above) + 1) / (len(differences) + 1))


def not_rejected(p: dict[int, float | None], tests: int) -> set[int]:
    """Holm step by step: the smallest p against 5 % of all, the next against 5 % of the rest, until one fails."""
    left = {row: value for row, value in p.items() if value is not None}
    while left:
        row = min(left, key=lambda key: left[key])
        if left[row] * tests >= 0.05:
            break
        del left[row]
        tests -= 1
    return set(left)


def bold_rows(values: Sequence[float | None], replicates: Sequence[Floats]) -> set[int]:
    known = [value for value in values if value is not None]
    best = values.index(max(known))
    others = [row for row, value in enumerate(values) if value is not None and row != best]
    p = {row: p_of(replicates[best], replicates[row]) for row in others}
    return {best} | not_rejected(p, len(values) - 1)


def column(values: Sequence[float | None], replicates: Sequence[Floats]) -> list[Measured]:
    """Rows of which those with more than 1 % undefined resamples have no interval, as measured ones."""
    rows = []
    for value, found in zip(values, replicates, strict=True):
        spread = value is not None and np.isnan(found).mean() <= 0.01
        limits = (0.0, 1.0, 0.1) if spread else (None, None, None)
        rows.append(Measured(value, *limits, 24, "" if spread else "undefined", found))
    return rows


def bold(values: Sequence[float | None], replicates: Sequence[Floats]) -> set[int]:
    verdicts = holm_bold.verdicts(column(values, replicates))
    return {row for row, verdict in enumerate(verdicts) if verdict.bold}


def synthetic(seed: int, rows: int = 8) -> tuple[list[float | None], list[Floats]]:
    random = np.random.default_rng(seed)
    values = random.uniform(0.3, 0.6, size=rows)
    common = random.normal(scale=0.2, size=RESAMPLES)
    own = random.normal(size=(rows, RESAMPLES)) * random.uniform(0.01, 0.1, size=(rows, 1))
    return [*values.tolist()], list(values[:, None] + common + own)


@pytest.mark.parametrize("seed", range(12))
def test_bold_rows_are_those_of_the_test_written_out(seed: int) -> None:
    values, replicates = synthetic(seed)
    if seed % 3 == 1:
        values[int(np.argmin(np.array(values)))] = None
        replicates[2] = np.where(np.arange(RESAMPLES) < 60, np.nan, replicates[2])
    if seed % 3 == 2:
        replicates[3] = np.where(np.arange(RESAMPLES) < 15, np.nan, replicates[3])
    assert bold(values, replicates) == bold_rows(values, replicates)


def test_the_seeds_leave_something_bold_and_something_not() -> None:
    sizes = {len(bold(*synthetic(seed))) for seed in range(12)}
    assert len(sizes) > 2
    assert max(sizes) > 1
    assert min(sizes) < 8


def test_pairing_distinguishes_what_separate_intervals_do_not() -> None:
    """The same replicates shuffled: a difference of .1 drowns in noise that the pairing takes away."""
    random = np.random.default_rng(1)
    common = random.normal(scale=0.3, size=RESAMPLES)
    best, other = 0.6 + common, 0.5 + common + random.normal(scale=0.01, size=RESAMPLES)
    assert bold([0.6, 0.5], [best, other]) == {0}
    assert bold([0.6, 0.5], [best, random.permutation(other)]) == {0, 1}


def test_a_p_that_only_the_correction_lifts_over_the_level_is_bold() -> None:
    """Ten rows that each cross zero in 1 % of the resamples: p = .02 alone, .2 among ten."""
    best = np.zeros(RESAMPLES)
    other = np.where(np.arange(RESAMPLES) < 0.01 * RESAMPLES, 0.1, -0.1)
    assert p_of(best, other) == pytest.approx(0.02, abs=0.002)
    assert bold([0.0, -0.1], [best, other]) == {0}
    assert bold([0.0, *[-0.1] * 10], [best, *[other] * 10]) == set(range(11))


def test_comparisons_that_cannot_be_made_count_in_the_correction() -> None:
    """p = .02 is below 5 % alone, and above it where two rows of the family could not be compared."""
    best, nothing = np.zeros(RESAMPLES), np.full(RESAMPLES, np.nan)
    other = np.where(np.arange(RESAMPLES) < 0.01 * RESAMPLES, 0.1, -0.1)
    assert bold([0.0, -0.1, -0.2, -0.2], [best, other, nothing, nothing]) == {0, 1}


def test_rows_identical_to_the_best_are_bold() -> None:
    values, replicates = synthetic(0)
    best = int(np.argmax(np.array(values)))
    assert len(values) in bold([*values, values[best]], [*replicates, replicates[best]])


def test_a_row_with_the_best_value_and_other_replicates_is_bold() -> None:
    shifted = np.full(RESAMPLES, 0.5)
    assert bold([0.6, 0.6, 0.5], [np.full(RESAMPLES, 0.6), shifted, shifted]) == {0, 1}


def test_undefined_values_are_never_bold() -> None:
    nothing = np.full(RESAMPLES, np.nan)
    assert bold([None, None], [nothing, nothing]) == set()
    assert bold([None, 0.5], [nothing, np.full(RESAMPLES, 0.5)]) == {1}


def test_rows_that_cannot_be_compared_are_not_bold_and_say_why() -> None:
    values, replicates = [0.6, 0.6 - 1e-6, 0.5], [np.zeros(RESAMPLES) for _ in range(3)]
    replicates[1] = np.where(np.arange(RESAMPLES) < 21, np.nan, 0.0)
    found = holm_bold.verdicts(column(values, replicates))
    assert [verdict.bold for verdict in found] == [True, False, True]
    assert [verdict.note for verdict in found] == ["", "not compared with the best", ""]


def test_a_best_row_without_interval_leaves_no_other_bold() -> None:
    replicates = [np.where(np.arange(RESAMPLES) < 21, np.nan, 0.0), np.zeros(RESAMPLES)]
    best, other = holm_bold.verdicts(column([0.6, 0.5], replicates))
    assert best.bold
    assert other == holm_bold.Verdict(False, "not compared with the best: 21 of 2000 resamples undefined")


def test_gains_are_corrected_over_all_that_are_defined_and_count_one_without_an_interval() -> None:
    def drawn(crossed: int, undefined: int = 0) -> Measured:
        replicates = np.array([-1.0] * crossed + [np.nan] * undefined + [1.0] * (199 - crossed - undefined))
        return Measured(1.0, None, None, None, 9, replicates=replicates)

    other = replace(drawn(0), value=0.0, replicates=np.zeros(199))
    rows = {"b": drawn(1), "a": drawn(0), "c": drawn(4), "no interval": drawn(0, 9)}
    rows["undefined"] = replace(other, value=None)
    found = holm_bold.gains({name: (row, other) for name, row in rows.items()}, 0.95)
    raw, adjusted = ({name: each[at] for name, each in found.items()} for at in (0, 1))
    assert [raw[name].p for name in "abc"] == pytest.approx([0.01, 0.02, 0.05])
    assert adjusted == pytest.approx({"b": 0.06, "a": 0.04, "c": 0.1, "no interval": 1.0})


def test_rows_without_common_resamples_are_not_compared() -> None:
    replicates = [np.zeros(RESAMPLES), np.zeros(RESAMPLES - 1), np.zeros(RESAMPLES)]
    rows = column([0.6, 0.5, 0.5], replicates)
    rows[2] = Measured(0.5, 0.4, 0.6, 0.1, 24)
    found = holm_bold.verdicts(rows)
    assert [verdict.bold for verdict in found] == [True, False, False]
    assert {verdict.note for verdict in found[1:]} == {"not compared with the best: no common resamples"}


# -- tables built from files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_both_styles_print_the_same_values_of_the_same_frame(name: str, built: dict[str, BuiltTable]) -> None:
    paper, other = built[name], built[name].with_intervals()
    assert other.values is paper.values
    assert [(cell.text, cell.better) for cell in cells(other)] == [(cell.text, cell.better) for cell in cells(paper)]
    assert other.csv() == paper.csv()


@pytest.mark.parametrize("name", RANKED)
def test_brackets_hold_the_interval_of_the_csv(name: str, built: dict[str, BuiltTable]) -> None:
    limits = built[name].values[["low", "high"]].to_numpy(dtype=np.float64)
    printed = [re.findall(r"-?\d*\.\d{3}", cell.interval) for cell in cells(built[name].with_intervals())]
    assert all(cell.interval.startswith("[") for cell in cells(built[name].with_intervals()))
    assert np.abs(np.sort(np.array(printed, dtype=np.float64), axis=0) - np.sort(limits, axis=0)).max() <= 0.0005 + 1e-9


def test_bold_of_a_built_table_is_that_of_its_files(built: dict[str, BuiltTable], results: Noisy) -> None:
    """``qa_tiny``: each dataset from its own replicates, the mean from their means, resample by resample."""
    item = list_of_exhibits.exhibit("qa_tiny", STUDY)
    stored: dict[str, dict[tuple[str, str], Floats]] = {}
    for need, path in zip(item.artifacts(STUDY), results.paths(item.artifacts(STUDY)), strict=True):
        if need.kind == "replicates":
            rows = parquet_tables.read(path, "replicates").table.to_pylist()
            stored[need.dataset] = {
                (row["method"], row["variant"]): np.array(row["values"], dtype=np.float64)
                for row in rows
                if (row["quality"], row["metric"], row["answer_source"]) == ("answer_f1", "PRR", "greedy")
                and not row["setting"]
                and row["subset"] == "all"
            }
    values = built["qa_tiny"].values
    body = [row for row in built["qa_tiny"].with_intervals().grid.body if isinstance(row, TableRow)]
    counts = []
    for position, dataset in enumerate([*exhibits_study.DATASETS, "mean"]):
        part = values[values["dataset"] == dataset]
        keys = [
            (method, "multinomial" if method in ("SAR", "SemanticEntropy") else variant)
            for method, variant in zip(part["method"], part["variant"], strict=True)
        ]
        of = (
            stored[dataset]
            if dataset in stored
            else {key: np.mean([s[key] for s in stored.values()], 0) for key in keys}
        )
        expected = bold_rows(part["value"].to_list(), [of[key] for key in keys])
        assert {row for row, cells in enumerate(body) if cells.cells[position].mark == "best"} == expected
        counts.append(len(expected))
    assert max(counts) > 1
    assert max(counts) < len(body)
