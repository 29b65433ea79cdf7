"""Claims about the settings in a table of the paper: who is ahead, who leads, who is robust."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from beamuq.evaluation import significance
from beamuq.evaluation.estimates import TIE, Estimates, joined
from beamuq_study.comparison.claims.case import Case, measured_at, question_count
from beamuq_study.comparison.claims.judges import judge
from beamuq_study.comparison.claims.verdict import Part, Verdict, part_of_share
from beamuq_study.comparison.comparison_inputs import STORED, read_rules, table_cell
from beamuq_study.grid import Cell
from beamuq_study.result_files import as_stored
from beamuq_study.study_config import Study


def _of_paper_table(study: Study, table: str, **_: Any) -> list[Cell]:
    """The cells in which a study measures what a table of the paper shows."""
    paper_table = read_rules().tables[table]
    cells = [
        table_cell(study, paper_table, model, dataset)
        for model in study.models
        for dataset in study.datasets
    ]
    return [cell for cell in cells if cell is not None]


@judge(cells=_of_paper_table)
def beams_ahead_of_others(case: Case, table: str, worse: Sequence[str]) -> Verdict:
    """Whether plain beams are above the settings that begin with one of ``worse``.

    Yes: they are above each of them in every column, significantly at ``level`` after Holm over all
    of these differences.

    No: they are above in half of the differences, or fewer, and significantly below in one. Partly
    takes, beside one significantly below, less than ``nearly_all`` above.

    Value: the mean difference.
    """
    gaps = []
    for column in _columns(case, table):
        rivals = column.rows(column.frame["setting"].str.startswith(tuple(worse)))
        beams = column.at(pd.DataFrame({"setting": ["beam"] * len(rivals)}))
        gaps.append(beams.minus(rivals))
    all_gaps = joined(gaps)
    share = float(np.mean(all_gaps.frame["value"] > TIE))
    sign = part_of_share(share, case.tolerances["nearly_all"])
    return case.rise(all_gaps, question_count(all_gaps), sign=sign)


@judge(cells=_of_paper_table)
def none_dominates(case: Case, table: str) -> Verdict:
    """Whether every setting is significantly behind another in some column.

    Yes: each is, at ``level`` after Holm over the columns, by a one-sided p that allows for
    choosing the best of the others.

    No: one setting is the best of all in every column; that is not tested.

    Value: the share of settings that are significantly behind another.
    """
    columns = _columns(case, table)
    settings = columns[0].frame[["setting"]]
    columns = [column.at(settings) for column in columns]
    leads = np.array([_leads(column) for column in columns])
    too_few = case.too_few_resamples(columns[0].replicates.shape[1], len(columns), 1)
    behind = significance.behind_in_some(columns, case.tolerances["level"])
    case.notes.append(
        f"{leads.any(axis=0).sum()} of {len(behind)} are best in a column, {behind.sum()} "
        "significantly behind"
    )
    sign: Part = "undecided"
    if leads.all(axis=0).any():
        sign = "no"
    elif behind.all() and not too_few:
        sign = "yes"
    return Verdict(question_count(joined(columns)), sign, value=float(behind.mean()))


def _leads(column: Estimates) -> list[bool]:
    """Whether each setting is the best of a column, ties alike."""
    values = column.frame["value"].to_numpy()
    return list(values >= values.max() - TIE)


@judge(cells=_of_paper_table)
def settings_robust(
    case: Case, table: str, strong: Sequence[str], worse: str, margin: float
) -> Verdict:
    """Whether ``strong`` settings are near the best, and the last of them above all ``worse`` ones.

    Yes: the last strong one is above all that begin with ``worse`` in every column, significantly
    at ``level`` after Holm over the columns, by a p that allows for choosing the best of them; and
    the strong ones are within ``margin`` of the best in ``nearly_all`` cases.

    No: it is above in half of the columns, or fewer, and significantly below in one.

    Value: the mean over columns of the lead over the best that begins with ``worse``.
    """
    columns = _columns(case, table)
    close = list[bool]()
    leads = list[float]()
    p_values = list[float]()
    for column in columns:
        values = column.frame.set_index("setting")["value"]
        close += list(values[list(strong)] >= values.max() - margin)
        lead, p = _lead_over(column, strong[-1], worse)
        leads.append(lead)
        p_values.append(p)
    share_close = float(np.mean(close))
    case.notes.append(f"{share_close:.0%} within {margin:g} of the best")
    return case.above_zero(
        np.array(leads),
        np.array(p_values),
        columns[0].replicates.shape[1],
        question_count(joined(columns)),
        size=part_of_share(share_close, case.tolerances["nearly_all"]),
    )


def _lead_over(column: Estimates, setting: str, worse: str) -> tuple[float, float]:
    """A setting minus the best of those that begin with ``worse``, and its p."""
    settings = column.frame["setting"]
    rivals = column.rows((settings == setting) | settings.str.startswith(worse))
    return significance.tested_lead(rivals, (rivals.frame["setting"] == setting).to_numpy())


def _columns(case: Case, table: str) -> list[Estimates]:
    """The columns of a table of the paper as this study has them: one a cell and method.

    A row a setting, under its name in the table.
    """
    numbers = case.results.paper_numbers
    rows = numbers[numbers["table"] == table].drop_duplicates(["method", "variant", "setting"])
    stored = as_stored(case.results.study, rows)[STORED]
    keys = {name: set(stored[name]) for name in STORED}
    columns = []
    for cell in case.cells:
        estimates = measured_at(case.with_cells(cell).estimates(**keys), stored)
        in_table = estimates.assign(setting=list(rows["setting"]))
        columns += [in_table.where(method=method) for method in dict.fromkeys(rows["method"])]
    return columns
