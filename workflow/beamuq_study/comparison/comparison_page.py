"""A run beside the paper's numbers, as files: CSV, and one HTML page that holds everything.

The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from beamuq import __version__
from beamuq.config_errors import read_yaml
from beamuq.evaluation.significance import differing_by_chance
from beamuq.io import file_sha256
from beamuq_study.comparison import (
    beams_minus_samples,
    comparison_inputs,
    mean_differences,
    number_statuses,
)
from beamuq_study.comparison.beams_minus_samples import HEADLINE
from beamuq_study.comparison.claims.asked_claims import needed_files
from beamuq_study.comparison.claims.judged_claims import judge_claims
from beamuq_study.comparison.comparison_inputs import ComparisonInputs
from beamuq_study.comparison.number_statuses import DIFFERS, NOT_SHOWN
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import captions
from beamuq_study.html_pages import Drawing, PageTable, render
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

_OF_CLAIM = [
    "outcome",
    "claim",
    "value",
    "interval",
    "n",
    "asked_of",
    "detectable",
    "what was seen",
    "paper_settings",
]
_table = partial(PageTable, decimals=3, column_decimals={"z": 2, "p": 4, "adjusted": 4})


@dataclass(frozen=True)
class Comparison:
    results: ComparisonInputs
    numbers: pd.DataFrame
    tables: pd.DataFrame  # the test of each table's mean difference
    differences: pd.DataFrame
    claims: pd.DataFrame
    errata: list[comparison_inputs.Erratum]
    provenance: dict[str, str]


def compare_with_paper(study: Study, study_file: Path, results_folder: Path) -> Comparison:
    """Every number and table of the paper, every claim, and beam minus multinomial paired.

    ``study_file`` is only hashed.

    Raises BeamUQError as :meth:`.Inputs.read`.
    """
    errata = comparison_inputs.read_errata()
    results = ComparisonInputs(
        study,
        Inputs.read(results_folder, needed_files(study), study),
        comparison_inputs.read_paper_numbers(),
        comparison_inputs.read_rules(),
        results_folder,
    )
    compared = number_statuses.compare(results, errata)
    return Comparison(
        results,
        numbers=compared.frame,
        tables=mean_differences.tests_of_tables(compared, results),
        differences=beams_minus_samples.differences(results),
        claims=judge_claims(results),
        errata=errata,
        provenance=_provenance(study_file),
    )


def _provenance(study_file: Path) -> dict[str, str]:
    """Hashes of the study and of what was declared before any run, and versions."""
    declared = {path.name: file_sha256(path) for path in comparison_inputs.DECLARED_FILES}
    versions = {"beamuq": __version__, "numpy": np.__version__, "pandas": pd.__version__}
    return {"study": file_sha256(study_file)} | declared | versions


def contents(comparison: Comparison, forest: Drawing) -> dict[str, str]:
    """The text of each file of a comparison. ``forest``: the paired differences drawn."""
    return {
        "csv": csv_text(comparison.numbers),
        "mean_differences": csv_text(comparison.tables),
        "claims": csv_text(comparison.claims),
        "html": html(comparison, forest),
    }


def html(comparison: Comparison, forest: Drawing) -> str:
    """One page, nothing loaded: claims, beams against samples, numbers, then all the rest."""
    study = comparison.results.study
    title = captions.titled(study, f"Compared with the paper: {study.title}")
    return render(
        "comparison.html.jinja",
        title=title,
        study=study.title,
        warning=captions.DEMO_WARNING if study.demo else "",
        forest=forest,
        means=_means(comparison.differences),
        errata=_table(_errata(comparison)),
        provenance=comparison.provenance,
        **_of_claims(comparison.claims),
        **_of_numbers(comparison),
    )


def _means(differences: pd.DataFrame) -> PageTable:
    """The tests of means over datasets."""
    means = _with_interval(differences[differences["family"] == HEADLINE])
    return _table(means.drop(columns=["family", "dataset", "std", "resamples"]))


def _of_claims(judged: pd.DataFrame) -> dict[str, Any]:
    """What the page shows of the claims."""
    models = (judged["model"] + " on ").where(judged["model"] != "", "")
    claims = _with_interval(judged.assign(asked_of=models + judged["datasets"]))
    claims = claims.rename(columns={"found": "what was seen"})
    is_asked = claims["outcome"] != "not asked"
    outcomes = read_yaml(comparison_inputs.FOLDER / "claims.yaml")["outcomes"]
    return {
        "asked": claims.loc[is_asked, "id"].nunique(),
        "declared": claims["id"].nunique(),
        "outcomes": _table(_legend("outcome", outcomes, judged)),
        "claims": _table(claims.loc[is_asked, _OF_CLAIM]),
        "not_asked": _table(claims.loc[~is_asked, ["claim", "what was seen"]]),
    }


def _of_numbers(comparison: Comparison) -> dict[str, Any]:
    """What the page shows of the paper's numbers."""
    rules = comparison.results.rules
    is_paper_s = comparison.numbers["formulation"] == ""
    numbers = comparison.numbers[is_paper_s].drop(columns="formulation")
    is_compared = numbers["status"].isin([NOT_SHOWN, DIFFERS])
    compared = int(is_compared.sum())
    tables = comparison.tables[comparison.tables["table"] != mean_differences.ALL_TABLES]
    compared_tables = set(numbers.loc[is_compared, "table"])
    z_limit = rules.limits["z"]
    reasons = _counted(numbers[numbers["reason"] != ""], ["status", "reason"])
    return {
        "numbers": len(numbers),
        "compared": compared,
        "differ": (numbers["status"] == DIFFERS).sum(),
        "seen": f"{numbers.loc[is_compared, 'detectable'].median():.3f}",
        "limit": f"{z_limit:g}",
        "power": f"{100 * rules.limits['power']:g} %",
        "level": f"{100 * rules.limits['level']:g} %",
        "chance": f"{compared * differing_by_chance(z_limit):.0f}",
        "tested": len(tables),
        "tables_differ": (tables["status"] == DIFFERS).sum(),
        "tests": _table(_with_interval(comparison.tables).drop(columns="std")),
        "statuses": _table(_legend("status", rules.statuses, numbers)),
        "reasons": _table(reasons.sort_values("rows", ascending=False, kind="stable")),
        "tables": [
            _numbers(str(name), part)
            for name, part in numbers.groupby("table", sort=False)
            if name in compared_tables
        ],
        "nothing_compared": [
            name for name in numbers["table"].unique() if name not in compared_tables
        ],
        "entropy": _entropy(comparison.numbers),
    }


def _entropy(numbers: pd.DataFrame) -> PageTable | None:
    """Statuses of sampled Semantic Entropy by formulation; None where none is compared."""
    sampled = (numbers["method"] == "SemanticEntropy") & (numbers["variant"] != "beamsearch")
    entropy = numbers[sampled].replace({"formulation": number_statuses.FORMULATIONS})
    if not entropy["status"].isin([NOT_SHOWN, DIFFERS]).any():
        return None
    return _table(_counted(entropy, ["formulation", "status"]))


def _legend(column: str, meanings: Mapping[str, str], rows: pd.DataFrame) -> pd.DataFrame:
    """What each value of a column means, in the order of ``meanings``, and how often it occurs."""
    counted = [(value, text, (rows[column] == value).sum()) for value, text in meanings.items()]
    return pd.DataFrame(counted, columns=[column, "meaning", "times"])


def _counted(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return frame.groupby(names, sort=False).size().rename("rows").reset_index()


def _errata(comparison: Comparison) -> pd.DataFrame:
    """A row an erratum: how many of the paper's numbers it touches, and its facts."""
    rows = []
    for erratum in comparison.errata:
        count = int(erratum.selected(comparison.results.paper_numbers).sum())
        rows.append(vars(erratum) | {"rows": count, "facts": _facts(erratum)})
    return pd.DataFrame(rows, columns=["id", "erratum", "found", "touches", "rows", "facts"])


def _facts(erratum: comparison_inputs.Erratum) -> str:
    texts = []
    for name, fact in erratum.facts.items():
        text = ", ".join(fact) if isinstance(fact, list) else f"{fact}"
        texts.append(f"{name.replace('_', ' ')}: {text}")
    return "; ".join(texts)


def _numbers(name: str, part: pd.DataFrame) -> tuple[str, PageTable]:
    """The numbers of one of the paper's tables, and what sums them up."""
    counts = ", ".join(
        f"{count} {status}" for status, count in part["status"].value_counts().items()
    )
    status = (part["status"] + ": " + part["reason"]).str.removesuffix(": ")
    with_interval = _with_interval(part.assign(status=status))
    shown = with_interval.drop(columns=["table", "std", "reason"])
    return f"{name}: {counts}", _table(shown)


def _with_interval(frame: pd.DataFrame) -> pd.DataFrame:
    """Both ends in one column: ``[0.100, 0.200]``, empty where there is none."""
    limits = zip(frame["low"], frame["high"], strict=True)
    intervals = [f"[{low:z.3f},\u00a0{high:z.3f}]" if pd.notna(low) else "" for low, high in limits]
    return frame.assign(low=intervals).drop(columns="high").rename(columns={"low": "interval"})
