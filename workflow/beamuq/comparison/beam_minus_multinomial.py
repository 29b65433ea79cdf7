"""Beam minus multinomial, paired: the tests that the paper leaves out, in the families declared before any run.

The replicates of a cell share their resamples (of stories, where questions come in stories), so the difference is
paired and clustered. The headline family is the mean over datasets, corrected by Holm; the cells are corrected by
Benjamini and Hochberg. A declared test that was not run counts as the least significant.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd

from beamuq.comparison.measured_results import MeasuredCell, MeasuredResults, paired
from beamuq.comparison.printed_numbers import MEAN
from beamuq.comparison.tolerances_and_families import ComparisonRules
from beamuq.evaluation.estimates import ALL_EMPTY, TIE
from beamuq.evaluation.holm_and_benjamini_hochberg import benjamini_hochberg, holm
from beamuq.exhibits import exhibit_cells
from beamuq.exhibits.read_evaluation import Key

HEADLINE, CELLS = "headline", "cells"
COLUMNS = [
    *("family", "model", "dataset", "method", "beamsearch", "multinomial", "difference", "low", "high", "std"),
    *("p", "adjusted", "significant", "n", "resamples", "note"),
]


def models_of(results: MeasuredResults, rules: ComparisonRules) -> list[str]:
    """The models tested: the paper's where the study runs any of them, else its own."""
    run = exhibit_cells.models(results.study, results.study.main.recipe)
    return [model for model in rules.paper.models if model in run] or run


def differences(results: MeasuredResults, rules: ComparisonRules) -> pd.DataFrame:
    """Every test of both families; ``COLUMNS``. ``note`` says why a test could not be made, and what a mean leaves out.

    Of the paper's models the datasets are the declared ones, whichever the study has: a family does not shrink with it.
    """
    study, families = results.study, rules.families
    models = models_of(results, rules)
    of_paper = bool(models) and models[0] in rules.paper.models
    own = {model: exhibit_cells.datasets(study, study.main.recipe, model) for model in models}
    declared = {model: list(rules.paper.datasets) for model in rules.paper.models} if of_paper else own
    every = {dataset for of_model in declared.values() for dataset in of_model}
    rows = []
    for model in models:
        datasets = declared[model]
        alone = f"of {', '.join(datasets)} alone" if len(datasets) < len(every) else ""
        for method in families.methods:
            cells = {dataset: results.main_cell(model, dataset) for dataset in datasets}
            mean = _test(results, HEADLINE, model, MEAN, method, cells, families.metric)
            rows.append(mean | {"note": "; ".join(filter(None, (alone, mean["note"])))})
            for dataset in datasets:
                rows.append(_test(results, CELLS, model, dataset, method, {dataset: cells[dataset]}, families.metric))
    frame = pd.DataFrame(rows, columns=[c for c in COLUMNS if c not in ("adjusted", "significant")])
    adjusted = pd.Series(np.nan, index=frame.index)
    for family, correct, tests in (
        (HEADLINE, holm, len(declared) * len(families.methods)),
        (CELLS, benjamini_hochberg, sum(map(len, declared.values())) * len(families.methods)),
    ):
        chosen = frame["family"] == family
        adjusted[chosen] = correct(frame.loc[chosen, "p"].to_numpy(dtype=np.float64), tests)
    return frame.assign(adjusted=adjusted, significant=adjusted < families.level)[COLUMNS]


def _test(
    results: MeasuredResults,
    family: str,
    model: str,
    dataset: str,
    method: str,
    cells: dict[str, MeasuredCell | None],
    metric: str,
) -> dict[str, Any]:
    row: dict[str, Any] = {"family": family, "model": model, "dataset": dataset, "method": method}
    beam, sampled = (Key(metric, method, variant) for variant in ("beamsearch", "multinomial"))
    here = [cell for cell in cells.values() if cell is not None and beam in cell and sampled in cell]
    lacking = [name for name, cell in cells.items() if cell is None or beam not in cell or sampled not in cell]
    empty = [cell.artifact.dataset for cell in here if len(cells) > 1 and cell.left_out()]
    here = [cell for cell in here if cell.artifact.dataset not in empty]
    undefined = [cell.path for cell in here if cell[beam].value is None or cell[sampled].value is None]
    if lacking or undefined or not here:
        why = f"undefined in {', '.join(undefined)}" if here else ALL_EMPTY
        why = f"not run: {', '.join(lacking)}" if lacking else why
        return row | {"resamples": 0, "n": 0, "note": why}
    found = paired(here, beam, sampled, results.study.evaluation.confidence)
    of_each = [float(np.mean([cell[key].value or 0.0 for cell in here])) for key in (beam, sampled)]
    sizes = {"n": sum(cell[beam].n for cell in here), "resamples": len(here[0].replicates(beam))}
    means = {"beamsearch": of_each[0], "multinomial": of_each[1], "difference": found.value}
    without = f"without {', '.join(empty)}, where more than a fifth of the answers are empty" if empty else ""
    return row | asdict(found) | means | sizes | {"note": "; ".join(filter(None, (without, found.note)))}


def tally(frame: pd.DataFrame, family: str) -> dict[str, object]:
    """Wins, ties and losses of beams in a family, how many of them significant, and the worst test."""
    part = frame[(frame["family"] == family) & frame["difference"].notna()]
    difference = part["difference"].to_numpy(dtype=np.float64)
    wins, losses, significant = difference > TIE, difference < -TIE, part["significant"].to_numpy(dtype=bool)
    worst = part.iloc[int(difference.argmin())] if len(part) else None
    return {
        "tests": int((frame["family"] == family).sum()),
        "run": len(part),
        "wins": int(wins.sum()),
        "ties": int((~wins & ~losses).sum()),
        "losses": int(losses.sum()),
        "significant_wins": int((significant & wins).sum()),
        "significant_losses": int((significant & losses).sum()),
        "worst": "" if worst is None else f"{worst['method']} {worst['model']} {worst['dataset']}",
        "worst_difference": None if worst is None else float(worst["difference"]),
    }


def resamples_sentence(frame: pd.DataFrame, rules: ComparisonRules) -> str:
    """How many resamples the p values rest on, and how small they can therefore be."""
    found = sorted({int(count) for count in frame["resamples"] if count})
    if not found:
        return "No test was run."
    fewest = found[0]
    smallest = f"the smallest p is {2 / (fewest + 1):.1e}"
    if fewest >= rules.families.resamples:
        return f"{fewest:,} resamples; {smallest}."
    return (
        f"{fewest:,} resamples, {rules.families.resamples:,} were declared: set evaluation.resamples to that; "
        f"{smallest}."
    )
