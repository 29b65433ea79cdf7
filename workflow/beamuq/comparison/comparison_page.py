"""A run held against print, as files: CSV, and one HTML page that holds everything. Same input, same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from beamuq import __version__
from beamuq.comparison import beam_minus_multinomial, claims, declared_files, judging, number_statuses
from beamuq.comparison.results import Results
from beamuq.exhibits import captions
from beamuq.exhibits.inputs import Inputs
from beamuq.exhibits.table_formats import csv_text
from beamuq.html_pages import PageSection, sections_page
from beamuq.parquet_tables import file_sha256
from beamuq.study_config import Study

OUTPUTS = ("csv", "formulations", "claims", "html")
MOST_REASONS = 10
_CLAIMS = (
    "A claim is asked of the models and datasets that it is about where the study has them and of all that are not the "
    "paper's, whatever the settings; the last column says whether these are the paper's. Yes: shown with this many "
    "questions; partly: of a part; no: the opposite is shown, or a value outside the printed range; undecided: what "
    "was found may be chance, or an interval lies across a margin. Another model: print gives a size of its own "
    f"models, which no other can deny. Too few: under {judging.LEAST_QUESTIONS} questions."
)


@dataclass(frozen=True)
class Comparison:
    """Everything that a comparison found."""

    results: Results
    numbers: pd.DataFrame
    formulations: pd.DataFrame
    differences: pd.DataFrame
    claims: pd.DataFrame
    ledger: declared_files.ErrataLedger
    provenance: dict[str, str]


def compare_with_print(study: Study, study_file: Path, results_folder: Path, *, partial: bool = False) -> Comparison:
    """Every printed number, every claim, and beam minus multinomial paired.

    ``study_file`` is only hashed. With ``partial``, files that are not there yet are "not run".

    Raises BeamUQError if a declared file is damaged, or a file of results is missing, unreadable or of another cell.
    """
    versions = {"beamuq": __version__, "numpy": np.__version__, "pandas": pd.__version__}
    provenance = {"study": file_sha256(study_file), **declared_files.declared_hashes(), **versions}
    wanted = claims.needed_files(study)
    present = [file for file in wanted if not partial or (results_folder / file.path).is_file()]
    inputs, ledger = Inputs.read(results_folder, present, study), declared_files.read_ledger()
    printed, rules = declared_files.read_printed(), declared_files.read_rules()
    results = Results(study, inputs, printed, rules, results_folder)
    numbers, forms = number_statuses.compare(results, ledger)
    differences, judged = beam_minus_multinomial.differences(results), claims.judge(results)
    return Comparison(results, numbers, forms, differences, judged, ledger, provenance)


def contents(found: Comparison, forest: str) -> dict[str, str]:
    """The text of each of ``OUTPUTS``. ``forest``: the paired differences drawn, an SVG document."""
    frames = {"csv": found.numbers, "formulations": found.formulations, "claims": found.claims}
    return {name: csv_text(frame) for name, frame in frames.items()} | {"html": html(found, forest)}


def html(found: Comparison, forest: str) -> str:
    """One page, nothing loaded: how many numbers agree and why others do not, which claims hold, then all the rest."""
    numbers, judged, rules = found.numbers, found.claims, found.results.rules
    counts = pd.crosstab(numbers["table"], numbers["status"], margins=True, margins_name="total")
    tables, statuses = [*numbers["table"].unique(), "total"], [*number_statuses.STATUSES, "total"]
    counts = counts.reindex(index=tables, columns=statuses, fill_value=0).reset_index()
    named = judged.groupby("outcome")["id"].agg(times="size", claims=lambda ids: ", ".join(dict.fromkeys(ids)))
    by_outcome = named.loc[[outcome for outcome in claims.OUTCOMES if outcome in named.index]].reset_index()
    entropy = found.formulations.groupby(["formulation", "status"], sort=False).size().rename("rows").reset_index()
    told = (
        "Print defines the sampled form in one way, the official code in another; here each value stands by all three."
    )
    errata = "Found in the printed numbers and by stored counterexamples alone; a test regenerates every entry."
    sections = [
        _section("Printed numbers", [], counts),
        _section("Why numbers are not compared", [], _reasons(numbers)),
        _section("Which claims hold here", [_CLAIMS], by_outcome),
        _section("", [], _once(_with_interval(judged.drop(columns="id")), ["where", "claim"]), folded=True),
        *_differences(found, forest),
        _section("Semantic Entropy in its three forms", [told], entropy),
        _section("Print against itself", [errata], _errata(found)),
        PageSection("Every printed number"),
        *(_table(str(table), part) for table, part in numbers.groupby("table", sort=False)),
        PageSection("Provenance", notes=[f"{name}: {value}" for name, value in found.provenance.items()]),
    ]
    decided = int(numbers["status"].isin(["agrees", "differs"]).sum())
    chance = decided * number_statuses.differing_by_chance(rules.agreement.z)
    opening = [
        f"{decided:,} of {len(numbers):,} printed numbers can be compared with this study: "
        f"{(numbers['status'] == 'agrees').sum():,} agree, {(numbers['status'] == 'differs').sum():,} differ, where "
        f"chance alone would on average call at most {chance:.0f} different.",
        f"A number agrees if |z| < {rules.agreement.z:g}, z = difference / √(our s² + printed s²). A printed ± that is "
        "absent or in the errata is replaced by ours. The two runs overlap in questions, which z leaves out, so their "
        "difference scatters less than z assumes: 'differs' is conservative, 'agrees' correspondingly easy.",
    ]
    return sections_page(
        captions.titled(found.results.study, f"Compared with print: {found.results.study.title}"), opening, sections
    )


def _section(heading: str, sentences: Sequence[str], frame: pd.DataFrame, **options: Any) -> PageSection:
    decimals = {"z": 2, "p": 4, "adjusted": 4}
    return PageSection(heading, frame, sentences, decimals=3, column_decimals=decimals, **options)


def _reasons(numbers: pd.DataFrame) -> pd.DataFrame:
    """The most frequent reasons, and how many numbers have another."""
    counted = numbers[numbers["reason"] != ""].value_counts(["status", "reason"]).rename("rows").reset_index()
    others = {"status": "", "reason": "others", "rows": int(counted["rows"][MOST_REASONS:].sum())}
    return pd.concat([counted[:MOST_REASONS], pd.DataFrame([others] if others["rows"] else [])])


def _errata(found: Comparison) -> pd.DataFrame:
    """The ledger: id, erratum, how it was found, what it touches, how many printed numbers, the facts."""
    entries = found.ledger.errata
    texts = [{key: fact if isinstance(fact, list) else [f"{fact}"] for key, fact in of.facts.items()} for of in entries]
    facts = ["; ".join(f"{key.replace('_', ' ')}: {', '.join(text)}" for key, text in of.items()) for of in texts]
    rows = [entry.model_dump(include={"id", "erratum", "found", "touches"}) for entry in entries]
    counts = [int(entry.selected(found.results.printed).sum()) for entry in entries]
    return pd.DataFrame(rows).assign(rows=counts, facts=facts)


def _differences(found: Comparison, forest: str) -> list[PageSection]:
    """Wins and losses with the forest plot, then the means."""
    frame, families = found.differences, (beam_minus_multinomial.HEADLINE, beam_minus_multinomial.CELLS)
    tallies = [{"family": of} | beam_minus_multinomial.tally(frame, of) for of in families]
    told = [
        "Means over datasets are corrected by Holm, cells by Benjamini and Hochberg, over the families declared before "
        "any run (a demo's: its own models). A test that was not run counts as the least significant.",
        beam_minus_multinomial.resamples_sentence(frame, found.results.rules),
    ]
    means = _with_interval(frame[frame["family"] == families[0]]).drop(
        columns=["family", "dataset", "std", "resamples"]
    )
    drawn = forest if len(frame) else ""
    return [
        _section("Beam minus multinomial, paired", told, pd.DataFrame(tallies), svg=drawn),
        _section("Means over datasets, beam minus multinomial", [], _once(means, ["model"])),
    ]


def _table(name: str, part: pd.DataFrame) -> PageSection:
    """The printed numbers of a table, folded under their counts."""
    told = ", ".join(f"{count} {status}" for status, count in part["status"].value_counts().items())
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
