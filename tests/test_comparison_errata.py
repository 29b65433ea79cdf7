"""Print against itself: the ledger of errata is what the numbers alone give."""

from __future__ import annotations

import dataclasses

import pytest

from beamuq.comparison import errata, printed_numbers
from beamuq.comparison.errata import Erratum, Found, errata_of
from beamuq.errors import BeamUQError
from simulated_paper_run import PRINTED

LEDGER = errata.read_ledger()
ARROWS = printed_numbers.read_arrows()
FOUND = {item.id: item for item in errata.regenerate(PRINTED, ARROWS, LEDGER.stated)}


def again(
    change: dict[printed_numbers.RowKey, float], arrows: set[printed_numbers.RowKey] = ARROWS
) -> dict[str, Found]:
    """The errata of print with some values changed."""
    rows = [dataclasses.replace(row, value=change.get(row.key, row.value)) for row in PRINTED]
    return {item.id: item for item in errata.regenerate(rows, arrows, LEDGER.stated)}


def test_the_ledger_holds_exactly_what_is_regenerated() -> None:
    assert list(FOUND) == [entry.id for entry in LEDGER.errata]


@pytest.mark.parametrize("entry", LEDGER.errata, ids=lambda entry: entry.id)
def test_an_erratum_is_regenerated_from_the_numbers(entry: Erratum) -> None:
    found = FOUND[entry.id]
    assert found.touches == entry.touches
    assert found.rows == entry.selected(PRINTED)
    assert dict(found.facts) == entry.facts


def test_arrows_are_of_printed_cells() -> None:
    assert len(ARROWS) == 348
    assert {row.key for row in PRINTED} >= ARROWS


def test_mended_means_are_no_erratum() -> None:
    mended = dict(zip(sorted(FOUND["means"].rows), [0.389, 0.637, 0.734], strict=True))
    assert "means" not in again(mended)


def test_a_mean_off_by_more_than_rounding_is_found() -> None:
    key = next(r.key for r in PRINTED if r.key.table == "tab:qa_mean_prr" and r.key.method == "Prob")
    value = next(r.value for r in PRINTED if r.key == key)
    assert key in again({key: value + 0.002})["means"].rows
    assert key not in again({key: value + 0.0002})["means"].rows


def test_an_arrow_at_a_rise_is_no_erratum() -> None:
    rising = {key for key in ARROWS if key not in FOUND["arrow-at-equal"].rows}
    assert "arrow-at-equal" not in again({}, rising)


def test_the_true_metric_of_a_caption_is_no_erratum() -> None:
    stated = LEDGER.stated.model_copy(update={"other_methods_metric": "PRR", "mean_columns": 1})
    found = {item.id for item in errata.regenerate(PRINTED, ARROWS, stated)}
    assert not found & {"other-methods-metric", "mean-columns"}


def test_the_corrected_condition_holds_where_the_printed_one_fails() -> None:
    printed, corrected = errata.random_failures(2000, 7)
    assert printed > 0
    assert corrected == 0


def test_errata_say_what_they_touch() -> None:
    assert len(errata_of(LEDGER, PRINTED, "value")) == 3
    assert len(errata_of(LEDGER, PRINTED, "std")) == 360


def test_a_selector_of_nothing_is_refused() -> None:
    entry = LEDGER.errata[0].model_copy(update={"rows": [{"table": "tab:nothing"}]})
    with pytest.raises(BeamUQError, match="selects nothing"):
        entry.selected(PRINTED)
