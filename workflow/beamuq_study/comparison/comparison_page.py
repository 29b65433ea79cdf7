"""A run beside the paper's numbers, as files: CSV, and one HTML page that holds everything. Same
input, same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from beamuq import __version__
from beamuq.config_errors import read_yaml
from beamuq.evaluation.significance import differing_by_chance
from beamuq.io import file_sha256
from beamuq_study.comparison import (
    beam_minus_multinomial,
    claims,
    comparison_inputs,
    number_statuses,
)
from beamuq_study.comparison.beam_minus_multinomial import HEADLINE
from beamuq_study.comparison.comparison_inputs import ComparisonInputs
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
    differences: pd.DataFrame
    claims: pd.DataFrame
    errata: list[comparison_inputs.Erratum]
    provenance: dict[str, str]


def compare_with_paper(study: Study, study_file: Path, results_folder: Path) -> Comparison:
    """Every number of the paper, every claim, and beam minus multinomial paired; ``study_file`` is
    only hashed.

    Raises BeamUQError as :meth:`.Inputs.read`.
    """
    versions = {"beamuq": __version__, "numpy": np.__version__, "pandas": pd.__version__}
    declared = {path.name: file_sha256(path) for path in comparison_inputs.DECLARED_FILES}
    needed, errata = claims.needed_files(study), comparison_inputs.read_errata()
    paper_numbers, rules = comparison_inputs.read_paper_numbers(), comparison_inputs.read_rules()
    results = ComparisonInputs(
        study, Inputs.read(results_folder, needed, study), paper_numbers, rules, results_folder
    )
    numbers, differences = (
        number_statuses.compare(results, errata),
        beam_minus_multinomial.differences(results),
    )
    provenance = {"study": file_sha256(study_file)} | declared | versions
    return Comparison(results, numbers, differences, claims.judge(results), errata, provenance)


def contents(found: Comparison, forest: Drawing) -> dict[str, str]:
    """The text of each file of a comparison. ``forest``: the paired differences drawn."""
    return {
        "csv": csv_text(found.numbers),
        "claims": csv_text(found.claims),
        "html": html(found, forest),
    }


def html(found: Comparison, forest: Drawing) -> str:
    """One page, nothing loaded: claims, beams against samples, numbers, then all the rest."""
    study, rules, judged = found.results.study, found.results.rules, found.claims
    numbers = found.numbers[found.numbers["formulation"] == ""].drop(columns="formulation")
    of = (judged["model"] + " on ").where(judged["model"] != "", "") + judged["datasets"]
    claims = _with_interval(judged.assign(asked_of=of)).rename(columns={"found": "what was seen"})
    asked = claims["outcome"] != "not asked"
    entropy = found.numbers[
        (found.numbers["method"] == "SemanticEntropy") & (found.numbers["variant"] != "beamsearch")
    ]
    entropy = entropy.replace({"formulation": number_statuses.FORMULATIONS})
    means = _with_interval(found.differences[found.differences["family"] == HEADLINE])
    agree, differ = ((numbers["status"] == status).sum() for status in ("agrees", "differs"))
    outcomes = read_yaml(comparison_inputs.FOLDER / "claims.yaml")["outcomes"]
    reasons = _counted(numbers[numbers["reason"] != ""], ["status", "reason"])
    return render(
        "comparison.html.jinja",
        title=captions.titled(study, f"Compared with the paper: {study.title}"),
        warning=captions.DEMO_WARNING * study.demo,
        asked=claims.loc[asked, "id"].nunique(),
        declared=claims["id"].nunique(),
        outcomes=_table(_legend("outcome", outcomes, judged)),
        claims=_table(claims.loc[asked, _OF_CLAIM]),
        not_asked=_table(claims.loc[~asked, ["claim", "what was seen"]]),
        forest=forest,
        means=_table(means.drop(columns=["family", "dataset", "std", "resamples"])),
        numbers=len(numbers),
        agree=agree,
        differ=differ,
        limit=f"{rules.agreement['z']:g}",
        chance=f"{(agree + differ) * differing_by_chance(rules.agreement['z']):.0f}",
        statuses=_table(_legend("status", rules.statuses, numbers)),
        reasons=_table(reasons.sort_values("rows", ascending=False, kind="stable")),
        tables=[_numbers(str(name), part) for name, part in numbers.groupby("table", sort=False)],
        entropy=_table(_counted(entropy, ["formulation", "status"])),
        errata=_table(_errata(found)),
        provenance=found.provenance,
    )


def _legend(column: str, meanings: Mapping[str, str], rows: pd.DataFrame) -> pd.DataFrame:
    """What each value of a column means, in the order of ``meanings``, and in how many rows it
    stands.
    """
    counted = [(value, text, (rows[column] == value).sum()) for value, text in meanings.items()]
    return pd.DataFrame(counted, columns=[column, "meaning", "times"])


def _counted(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    return frame.groupby(names, sort=False).size().rename("rows").reset_index()


def _errata(found: Comparison) -> pd.DataFrame:
    rows = []
    for entry in found.errata:
        texts = {
            key: ", ".join(fact) if isinstance(fact, list) else f"{fact}"
            for key, fact in entry.facts.items()
        }
        facts = "; ".join(f"{key.replace('_', ' ')}: {text}" for key, text in texts.items())
        count = int(entry.selected(found.results.paper_numbers).sum())
        rows.append(vars(entry) | {"rows": count, "facts": facts})
    return pd.DataFrame(rows, columns=["id", "erratum", "found", "touches", "rows", "facts"])


def _numbers(name: str, part: pd.DataFrame) -> tuple[str, PageTable]:
    """The numbers of one of the paper's tables, and what sums them up."""
    counts = ", ".join(
        f"{count} {status}" for status, count in part["status"].value_counts().items()
    )
    status = (part["status"] + ": " + part["reason"]).str.removesuffix(": ")
    shown = _with_interval(part.assign(status=status)).drop(
        columns=["table", "std", "detectable", "reason"]
    )
    return f"{name}: {counts}", _table(shown)


def _with_interval(frame: pd.DataFrame) -> pd.DataFrame:
    """Both ends in one column: ``[0.100, 0.200]``, empty where there is none."""
    limits = zip(frame["low"], frame["high"], strict=True)
    intervals = [f"[{low:z.3f},\u00a0{high:z.3f}]" if pd.notna(low) else "" for low, high in limits]
    return frame.assign(low=intervals).drop(columns="high").rename(columns={"low": "interval"})
