"""The comparison as files: CSV, and one HTML page that holds everything. Same input, same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from beamuq.comparison import beam_minus_multinomial, number_statuses
from beamuq.comparison.tolerances_and_families import ComparisonRules
from beamuq.exhibits import captions
from beamuq.exhibits.exhibit_types import csv_text
from beamuq.html_pages import PageSection, sections_page
from beamuq.study_config import Study

OUTPUTS = ("csv", "formulations", "claims", "html")
_OF_ASKED = (
    "This study's models are asked instead of the claim's, on its datasets where the study runs them and on all that "
    "are not the paper's. Yes: shown with this many questions; partly: of a part; no: the opposite is, or a value "
    "outside the printed range; undecided: what was found may be chance. Settings need not be the paper's."
)


@dataclass(frozen=True)
class Comparison:
    """Everything that a comparison found."""

    study: Study
    rules: ComparisonRules
    cells: pd.DataFrame
    formulations: pd.DataFrame
    differences: pd.DataFrame
    claims: pd.DataFrame
    asked: pd.DataFrame
    errata: pd.DataFrame
    provenance: dict[str, str]


def contents(found: Comparison, forest: str) -> dict[str, str]:
    """The text of each of ``OUTPUTS``. ``forest``: the paired differences drawn, an SVG document."""
    frames = {"csv": found.cells, "formulations": found.formulations, "claims": found.claims}
    return {name: csv_text(frame) for name, frame in frames.items()} | {"html": html(found, forest)}


def html(found: Comparison, forest: str) -> str:
    """One page, nothing loaded. ``forest``: an SVG document. Every printed number is in it, folded by table."""
    asked = _once(found.asked.drop(columns="id").rename(columns={"answer": "in this study"}), ["claim"])
    errata = "Found in the printed numbers and by stored counterexamples alone; a test regenerates every entry."
    sections = [
        _counts(found),
        _section("Claims", [_of_claims(found)], found.claims.drop(columns="in_this_study")),
        _section("The same questions, asked of this study", [_OF_ASKED], asked),
        *_differences(found, forest),
        _entropy(found),
        _section("Print against itself", [errata], found.errata),
        PageSection("Every printed number"),
        *(_table(str(table), part) for table, part in found.cells.groupby("table", sort=False)),
        PageSection("Provenance", notes=[f"{name}: {value}" for name, value in found.provenance.items()]),
    ]
    title = captions.titled(found.study, f"Compared with print: {found.study.title}")
    return sections_page(title, _opening(found), sections)


def _opening(found: Comparison) -> list[str]:
    rules = found.rules.agreement
    decided, chance = number_statuses.expected_to_differ(found.cells, found.rules)
    if not decided:
        why = "a demo shows that the machinery works" if found.study.demo else "see the reasons below"
        return [f"None of the {len(found.cells):,} printed numbers can be compared with this study: {why}."]
    return [
        f"{decided:,} of {len(found.cells):,} printed numbers are compared; of these, chance alone would on average "
        f"call at most {chance:.0f} different.",
        f"A cell agrees if |z| < {rules.z:g}, z = difference / √(our s² + printed s²). A printed ± that is absent or "
        "in the errata is replaced by ours. The two runs overlap in questions, which z leaves out, so their difference "
        "scatters less than z assumes: 'differs' is conservative, 'agrees' correspondingly easy.",
    ]


def _section(heading: str, sentences: Sequence[str], frame: pd.DataFrame, **options: Any) -> PageSection:
    decimals = {"z": 2, "p": 4, "adjusted": 4}
    return PageSection(heading, frame, sentences, decimals=3, column_decimals=decimals, **options)


def _counts(found: Comparison) -> PageSection:
    """How many numbers of each table have each status."""
    parts = [*found.cells.groupby("table", sort=False), ("total", found.cells)]
    rows = [{"table": table, "rows": len(part), **_statuses(part)} for table, part in parts]
    return _section("", [], pd.DataFrame(rows))


def _statuses(cells: pd.DataFrame) -> dict[str, int]:
    return {status: int((cells["status"] == status).sum()) for status in number_statuses.STATUSES}


def _of_claims(found: Comparison) -> str:
    return (
        "Supported: what is claimed of sign and size holds; significance stands beside and counts only where print "
        "claims it. The lead of a best one is tested as the best of many (max-T). Undecided: this run cannot tell, as "
        "an interval lies across a margin or the resamples are too few for so many tests. Negligible is a difference "
        f"whose interval lies within ±{found.rules.claims.negligible:g}. A cell or a file with under "
        f"{found.rules.agreement.least_share_of_questions:.0%} of the paper's questions decides nothing."
    )


def _differences(found: Comparison, forest: str) -> list[PageSection]:
    """Wins and losses with the forest plot, then the means."""
    families = {"means": beam_minus_multinomial.HEADLINE, "cells": beam_minus_multinomial.CELLS}
    tallies = [{"family": n} | beam_minus_multinomial.tally(found.differences, of) for n, of in families.items()]
    told = [
        "Means over datasets are corrected by Holm, cells by Benjamini and Hochberg, over the families declared before "
        "any run (a demo's: its own models). A test that was not run counts as the least significant.",
        beam_minus_multinomial.resamples_sentence(found.differences, found.rules),
    ]
    means = found.differences[found.differences["family"] == beam_minus_multinomial.HEADLINE]
    means = _with_interval(means).drop(columns=["family", "dataset", "std", "resamples"])
    drawn = forest if len(found.differences) else ""
    return [
        _section("Beam minus multinomial, paired", told, pd.DataFrame(tallies), svg=drawn),
        _section("Means over datasets, beam minus multinomial", [], _once(means, ["model"])),
    ]


def _entropy(found: Comparison) -> PageSection:
    counted = found.formulations.groupby(["formulation", "status"], sort=False).size().rename("rows").reset_index()
    sentence = (
        "Print defines the sampled form in one way, the official code in another; every printed value is compared with "
        "all three."
    )
    return _section("Semantic Entropy in its three forms", [sentence], counted)


def _table(name: str, part: pd.DataFrame) -> PageSection:
    """The printed numbers of a table, folded under their counts."""
    told = ", ".join(f"{count} {status}" for status, count in _statuses(part).items() if count)
    status = [f"{s}: {r}" if r else s for s, r in zip(part["status"], part["reason"], strict=True)]
    shown = _with_interval(part.assign(status=status)).drop(columns=["table", "std", "detectable", "reason"])
    return _section("", [], shown, folded=True, summary=f"{name}: {told}")


def _with_interval(frame: pd.DataFrame) -> pd.DataFrame:
    """Both ends in one column: ``[0.100, 0.200]``, empty where there is none."""
    limits = zip(frame["low"], frame["high"], strict=True)
    intervals = [f"[{low:.3f}, {high:.3f}]" if pd.notna(low) else "" for low, high in limits]
    return frame.assign(low=intervals).drop(columns="high").rename(columns={"low": "interval"})


def _once(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Names of rows stand where they change."""
    same = (frame[list(names)] == frame[list(names)].shift()).cummin(axis=1)
    return frame.assign(**{name: frame[name].mask(same[name], "") for name in names})
