"""The ledger of errata: what is wrong in print, how it was found, and which printed numbers it touches.

``workflow/paper_numbers/errata.yaml`` never changes with a run. A test regenerates every entry's facts from the printed
numbers and from counterexamples.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import pandas as pd
from pydantic import Field

from beamuq.comparison.printed_numbers import PrintedNumber, RowKey
from beamuq.comparison.tolerances_and_families import FOLDER, read_declared
from beamuq.config_errors import StrictModel
from beamuq.errors import BeamUQError

Touches = Literal["value", "std", "arrow", "caption", "text", "theorem"]
Fact = float | int | str | list[str]


class Erratum(StrictModel):
    """An entry of the ledger. ``rows``: selectors, column to value or values; empty for what touches no number."""

    id: Annotated[str, Field(pattern=r"^[a-z-]+$")]
    erratum: str
    found: str
    touches: Touches
    rows: list[dict[str, str | list[str]]] = []
    facts: dict[str, Fact]

    def selected(self, values: Iterable[PrintedNumber]) -> frozenset[RowKey]:
        """The keys of the rows that the selectors choose; each selector must choose at least one."""
        keys = [row.key for row in values]
        found: set[RowKey] = set()
        for selector in self.rows:
            wanted = {column: [value] if isinstance(value, str) else value for column, value in selector.items()}
            chosen = {key for key in keys if all(getattr(key, column) in value for column, value in wanted.items())}
            if not chosen:
                raise BeamUQError(f"errata.yaml: {self.id}: rows: {selector} selects nothing; mend the selector")
            found |= chosen
        return frozenset(found)


class StatedInPrint(StrictModel):
    """What the paper says in words, which its numbers are held against."""

    other_methods_metric: str
    other_methods_announced: list[str]
    other_methods_named: list[str]
    mean_columns: int
    largest_eigenvalue: float
    beam_example: list[str]
    condition: str


class ErrataLedger(StrictModel):
    """``errata.yaml``."""

    stated: StatedInPrint
    errata: list[Erratum]


def read_ledger() -> ErrataLedger:
    """The ledger of errata. Raises BeamUQError naming the first bad key."""
    found: ErrataLedger = read_declared(ErrataLedger, FOLDER / "errata.yaml")
    return found


def errata_of(ledger: ErrataLedger, values: Sequence[PrintedNumber], touches: Touches) -> dict[RowKey, list[str]]:
    """Row → ids of the errata that touch it in this way."""
    found: dict[RowKey, list[str]] = {}
    for erratum in ledger.errata:
        if erratum.touches == touches:
            for key in erratum.selected(values):
                found.setdefault(key, []).append(erratum.id)
    return found


def ledger_table(ledger: ErrataLedger, values: Sequence[PrintedNumber]) -> pd.DataFrame:
    """The ledger for a page: id, erratum, how it was found, what it touches, how many printed numbers, the facts."""
    rows = [
        entry.model_dump(include={"id", "erratum", "found", "touches"})
        | {
            "rows": len(entry.selected(values)),
            "facts": "; ".join(f"{name.replace('_', ' ')}: {_shown(fact)}" for name, fact in entry.facts.items()),
        }
        for entry in ledger.errata
    ]
    return pd.DataFrame(rows)


def _shown(fact: Fact) -> str:
    if isinstance(fact, list):
        return ", ".join(fact) or "none"
    return f"{fact:g}" if isinstance(fact, float) else str(fact)
