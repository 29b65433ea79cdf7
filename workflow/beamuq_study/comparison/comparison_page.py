"""A run beside the paper's numbers, as files: CSV, and one HTML page that holds everything. Same input, same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from beamuq import __version__
from beamuq.config_errors import read_yaml
from beamuq.io import file_sha256
from beamuq_study.comparison import beam_minus_multinomial, claims, comparison_inputs, number_statuses
from beamuq_study.comparison.beam_minus_multinomial import FAMILIES, HEADLINE
from beamuq_study.comparison.comparison_inputs import ComparisonInputs
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import captions
from beamuq_study.html_pages import PageSection, sections_page
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

MOST_REASONS = 10
_CLAIMS = (
    "A claim is asked of the models and datasets that it is about where the study has them and of all that are not the "
    "paper's, whatever the settings; the last column says whether these are the paper's. Detectable, beside what is "
    "undecided: the smallest true difference that a two-sided test at 5 % shows with a power of 80 %, 2.8 std. errors."
)
_FAMILIES = (
    "Means over datasets are corrected by Holm, cells by Benjamini and Hochberg, over the families declared before any "
    "run (a demo's: its own models). A test that was not run counts as the least significant."
)
_ENTROPY = (
    "The paper defines the sampled form in one way, the official code in another; here each value stands by all three."
)
_ERRATA = "Found in the paper's numbers and by stored counterexamples alone; a test regenerates every entry."
_section = partial(PageSection, decimals=3, column_decimals={"z": 2, "p": 4, "adjusted": 4})


@dataclass(frozen=True)
class Comparison:
    results: ComparisonInputs
    numbers: pd.DataFrame
    differences: pd.DataFrame
    claims: pd.DataFrame
    errata: list[comparison_inputs.Erratum]
    provenance: dict[str, str]


def compare_with_paper(study: Study, study_file: Path, results_folder: Path, *, partial: bool = False) -> Comparison:
    """Every number of the paper, every claim, and beam minus multinomial paired; ``study_file`` is only hashed.

    With ``partial``, files that are not there yet are "not run". Raises BeamUQError as :meth:`.Inputs.read`.
    """
    versions = {"beamuq": __version__, "numpy": np.__version__, "pandas": pd.__version__}
    declared = {path.name: file_sha256(path) for path in comparison_inputs.DECLARED_FILES}
    needed, errata = claims.needed_files(study), comparison_inputs.read_errata()
    present = [file for file in needed if not partial or (results_folder / file.path).is_file()]
    paper_numbers, rules = comparison_inputs.read_paper_numbers(), comparison_inputs.read_rules()
    inputs = Inputs.read(results_folder, present, study)
    results = ComparisonInputs(study, inputs, paper_numbers, rules, results_folder)
    numbers, differences = number_statuses.compare(results, errata), beam_minus_multinomial.differences(results)
    provenance = {"study": file_sha256(study_file)} | declared | versions
    return Comparison(results, numbers, differences, claims.judge(results), errata, provenance)


def contents(found: Comparison, forest: str) -> dict[str, str]:
    """The text of each file of a comparison. ``forest``: the paired differences drawn, an SVG document."""
    return {"csv": csv_text(found.numbers), "claims": csv_text(found.claims), "html": html(found, forest)}


def html(found: Comparison, forest: str) -> str:
    """One page, nothing loaded: how many numbers agree and why others do not, which claims hold, then all the rest."""
    rules, judged, differences = found.results.rules, found.claims, found.differences
    numbers = found.numbers[found.numbers["formulation"] == ""].drop(columns="formulation")
    counts = pd.crosstab(numbers["table"], numbers["status"], margins=True, margins_name="total")
    counts = counts.reindex([*numbers["table"].unique(), "total"], columns=[*number_statuses.STATUSES, "total"])
    reasons = _counted(numbers[numbers["reason"] != ""], ["status", "reason"])
    reasons = reasons.sort_values("rows", ascending=False, kind="stable")
    named = judged.groupby("outcome")["id"].agg(times="size", claims=lambda ids: ", ".join(dict.fromkeys(ids)))
    outcomes = read_yaml(comparison_inputs.FOLDER / "claims.yaml")["outcomes"]
    by_outcome = pd.Series(outcomes, name="meaning").rename_axis("outcome").to_frame().join(named, how="inner")
    entropy = found.numbers[(found.numbers["method"] == "SemanticEntropy") & (found.numbers["variant"] != "beamsearch")]
    entropy = entropy.replace({"formulation": number_statuses.FORMULATIONS})
    families = pd.DataFrame([{"family": of} | beam_minus_multinomial.tally(differences, of) for of in FAMILIES])
    tested = [_FAMILIES, beam_minus_multinomial.resamples_sentence(differences, rules)]
    means = _with_interval(differences[differences["family"] == HEADLINE])
    means = means.drop(columns=["family", "dataset", "std", "resamples"])
    sections = [
        _section("Printed numbers", counts.fillna(0).astype(int).reset_index()),
        _section(f"Why numbers are not compared: the {MOST_REASONS} most frequent reasons", reasons[:MOST_REASONS]),
        _section("Which claims hold here", by_outcome.reset_index(), [_CLAIMS]),
        _section("", _once(_with_interval(judged.drop(columns="id")), ["where", "claim"]), folded=True),
        _section("Beam minus multinomial, paired", families, tested, svg=forest if len(differences) else ""),
        _section("Means over datasets, beam minus multinomial", _once(means, ["model"])),
        _section("Semantic Entropy in its three forms", _counted(entropy, ["formulation", "status"]), [_ENTROPY]),
        _section("The paper against itself", _errata(found), [_ERRATA]),
        PageSection("Every number of the paper"),
        *(_table(str(table), part) for table, part in numbers.groupby("table", sort=False)),
        PageSection("Provenance", notes=[f"{name}: {value}" for name, value in found.provenance.items()]),
    ]
    agree, differ = ((numbers["status"] == status).sum() for status in ("agrees", "differs"))
    chance = (agree + differ) * number_statuses.differing_by_chance(rules.agreement["z"])
    opening = [
        f"{agree + differ:,} of the paper's {len(numbers):,} numbers can be compared with this study: {agree:,} agree, "
        f"{differ:,} differ, where chance alone would on average call at most {chance:.0f} different.",
        f"A number agrees if |z| < {rules.agreement['z']:g}, z = difference / √(our s² + printed s²). A printed ± that "
        "is absent or in the errata is replaced by ours. The two runs overlap in questions, so their difference "
        "scatters less than z assumes: 'differs' is conservative, 'agrees' correspondingly easy.",
    ]
    title = captions.titled(found.results.study, f"Compared with the paper: {found.results.study.title}")
    return sections_page(title, opening, sections)


def _counted(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return frame.groupby(names, sort=False).size().rename("rows").reset_index()


def _errata(found: Comparison) -> pd.DataFrame:
    rows = []
    for entry in found.errata:
        texts = {key: ", ".join(fact) if isinstance(fact, list) else f"{fact}" for key, fact in entry.facts.items()}
        facts = "; ".join(f"{key.replace('_', ' ')}: {text}" for key, text in texts.items())
        count = int(entry.selected(found.results.paper_numbers).sum())
        rows.append(vars(entry) | {"rows": count, "facts": facts})
    return pd.DataFrame(rows, columns=["id", "erratum", "found", "touches", "rows", "facts"])


def _table(name: str, part: pd.DataFrame) -> PageSection:
    counts = ", ".join(f"{count} {status}" for status, count in part["status"].value_counts().items())
    status = (part["status"] + ": " + part["reason"]).str.removesuffix(": ")
    shown = _with_interval(part.assign(status=status)).drop(columns=["table", "std", "detectable", "reason"])
    return _section("", shown, folded=True, summary=f"{name}: {counts}")


def _with_interval(frame: pd.DataFrame) -> pd.DataFrame:
    """Both ends in one column: ``[0.100, 0.200]``, empty where there is none."""
    limits = zip(frame["low"], frame["high"], strict=True)
    intervals = [f"[{low:.3f}, {high:.3f}]" if pd.notna(low) else "" for low, high in limits]
    return frame.assign(low=intervals).drop(columns="high").rename(columns={"low": "interval"})


def _once(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    same = (frame[list(names)] == frame[list(names)].shift()).cummin(axis=1)
    return frame.assign(**{name: frame[name].mask(same[name], "") for name in names})
