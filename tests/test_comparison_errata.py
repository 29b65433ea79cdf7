"""The ledger of errata is what the paper's numbers and the counterexamples alone give."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from beamuq.beam_mass_theorem import Outcomes
from beamuq.config_errors import read_yaml
from beamuq.errors import BeamUQError
from beamuq_study.comparison.comparison_inputs import (
    FOLDER,
    Erratum,
    read_errata,
    read_paper_numbers,
)
from errata_from_paper import (
    Key,
    Regenerated,
    directed_beam_sets,
    drawn_beam_sets,
    keys_of,
    read_arrows,
    regenerate,
)

NUMBERS = read_paper_numbers()
ROWS = keys_of(NUMBERS)
VALUES = dict(zip(ROWS, NUMBERS["printed"], strict=True))
ERRATA, STATED = read_errata(), read_yaml(FOLDER / "errata.yaml")["stated"]
ARROWS = read_arrows()
FOUND = regenerate(NUMBERS, ARROWS, STATED)


def again(change: dict[Key, float]) -> dict[str, Regenerated]:
    """The errata of the paper with some values changed."""
    return regenerate(
        NUMBERS.assign(printed=[change.get(key, VALUES[key]) for key in ROWS]), ARROWS, STATED
    )


def test_the_ledger_holds_exactly_what_is_regenerated() -> None:
    assert list(FOUND) == [entry.id for entry in ERRATA]


@pytest.mark.parametrize("entry", ERRATA, ids=lambda entry: entry.id)
def test_an_erratum_is_regenerated_from_the_numbers(entry: Erratum) -> None:
    found = FOUND[entry.id]
    selected = (
        {key for key, chosen in zip(ROWS, entry.selected(NUMBERS), strict=True) if chosen}
        if entry.rows
        else set()
    )
    assert (found.touches, found.rows) == (entry.touches, selected)
    assert dict(found.facts) == entry.facts


def test_arrows_are_of_cells_of_the_paper() -> None:
    assert len(ARROWS) == 348
    assert set(ROWS) >= ARROWS


def test_mended_means_are_no_erratum_and_one_off_by_more_than_rounding_is() -> None:
    mended = dict(zip(sorted(FOUND["means"].rows), [0.389, 0.637, 0.734], strict=True))
    assert "means" not in again(mended)
    row = next(key for key in ROWS if key[0] == "tab:qa_mean_prr" and key[4] == "Prob")
    assert row in again({row: VALUES[row] + 0.002})["means"].rows
    assert row not in again({row: VALUES[row] + 0.0002})["means"].rows


def test_what_print_states_rightly_is_no_erratum() -> None:
    rising = {key for key in ARROWS if key not in FOUND["arrow-at-equal"].rows}
    stated = STATED | {"other_methods_metric": "PRR", "mean_columns": 1}
    found = regenerate(NUMBERS, rising, stated)
    assert not {"arrow-at-equal", "other-methods-metric", "mean-columns"} & set(found)


@pytest.mark.parametrize("draw", [drawn_beam_sets, directed_beam_sets])
def test_evidence_on_the_theorem_is_of_the_theorem_s_beam_sets(
    draw: Callable[..., Iterable[Outcomes]],
) -> None:
    for beam_set in draw(200, 3):
        p, inside = beam_set.probability, beam_set.inside
        assert inside.sum() == 10 < len(p)
        assert p.sum() == pytest.approx(1.0)
        assert p[inside].min() >= p[~inside].max()
        assert ((beam_set.dissimilarity >= 0) & (beam_set.dissimilarity <= 1)).all()


def test_a_selector_of_nothing_is_refused() -> None:
    entry = replace(ERRATA[0], rows=[{"table": "tab:nothing"}])
    with pytest.raises(BeamUQError, match="selects nothing"):
        entry.selected(NUMBERS)
