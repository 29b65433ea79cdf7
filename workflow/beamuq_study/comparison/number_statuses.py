"""Every number of the paper beside ours: difference, z, smallest detectable difference, and a
status by first match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from beamuq.evaluation import intervals
from beamuq.evaluation.estimates import MEAN, MOST_EMPTY
from beamuq.evaluation.significance import smallest_detectable, z_score
from beamuq_study.comparison import comparison_inputs
from beamuq_study.comparison.comparison_inputs import (
    KEYS,
    STORED,
    ComparisonInputs,
    Erratum,
    first,
    touching,
)
from beamuq_study.exhibits.exhibit import EVALUATION
from beamuq_study.result_files import as_stored

# Of sampled Semantic Entropy, by the setting under which it is stored (D12)
FORMULATIONS = {
    "": "entropy of counts",
    "printed": "as printed",
    "likelihood-summed": "as in the official code",
}
OURS = ["value", "low", "high", "std", "n"]
COLUMNS = [
    *KEYS,
    "printed",
    "printed_std",
    *OURS,
    "paper_n",
    "difference",
    "z",
    "detectable",
    "status",
    "reason",
]
COLUMNS += ["errata", "formulation"]
OF_ACCURACY = ("quality", "questions")


def compare(results: ComparisonInputs, errata: Sequence[Erratum]) -> pd.DataFrame:
    """The numbers of the paper in its order, then those of sampled Semantic Entropy by its further
    ``FORMULATIONS``.
    """
    numbers = results.paper_numbers
    sampled = (numbers["method"] == "SemanticEntropy") & (numbers["variant"] != "beamsearch")
    others = [numbers[sampled].assign(formulation=name) for name in list(FORMULATIONS)[1:]]
    frame = pd.concat([numbers.assign(formulation=""), *others], ignore_index=True)
    places = frame.groupby(["table", "model", "dataset"], sort=False)
    frame = frame.join(pd.concat([_ours(results, rows) for _, rows in places]))
    wrong, doubted = (touching(errata, frame, touches) for touches in ("value", "std"))
    z, std = results.rules.agreement["z"], frame["std"].to_numpy(np.float64)
    # A ± that is absent or in the errata is replaced by ours
    other = np.where((doubted != "") | frame["printed_std"].isna(), std, frame["printed_std"])
    difference = frame["value"] - frame["printed"]
    frame = frame.assign(
        errata=(wrong + ", " + doubted).str.strip(", "),
        difference=difference,
        z=z_score(difference, std, other),
        detectable=smallest_detectable(std, other, z, results.rules.agreement["power"]),
    )
    undefined = np.where(frame["value"].isna(), "undefined", "no standard deviation of ours")
    cases: list[tuple[Any, str, Any]] = [  # the first that matches
        (np.full(len(frame), results.study.demo), "not comparable", "demo study"),
        (frame["absent"] != "", "not run", frame["absent"]),
        (wrong != "", "errata", wrong),
        (frame["why"] != "", "not comparable", frame["why"]),
        (frame["z"].isna(), "not comparable", frame["note"].where(frame["note"] != "", undefined)),
        (frame["z"].abs() < z, "agrees", ""),
    ]
    matches, statuses, reasons = zip(*cases, strict=True)
    frame["status"], frame["reason"] = (
        np.select(matches, statuses, "differs"),
        np.select(matches, reasons, ""),
    )
    return frame[COLUMNS].astype({"n": "Int64"})


def _ours(results: ComparisonInputs, rows: pd.DataFrame) -> pd.DataFrame:
    """Of the paper's numbers of one place ``OURS`` and ``paper_n``, why there is none or none to be
    compared.
    """
    name, model, dataset = rows[["table", "model", "dataset"]].iloc[0]
    study, rules, table = results.study, results.rules, results.rules.tables[name]
    paper, accuracies = rules.paper.datasets, table.part == "accuracy"
    sizes = {
        of: table.questions or paper[of].questions
        for of in (paper if dataset == MEAN else [dataset])
    }
    frame = pd.DataFrame(
        {"note": "", "absent": "", "why": "", "paper_n": sum(sizes.values())}, rows.index
    )
    places = {of: comparison_inputs.table_cell(study, table, model, of) for of in sizes}
    cells = [cell for cell in places.values() if cell]
    if model not in study.models:
        absent = f"the study has no model {model!r}"
    elif missing := [of for of, cell in places.items() if cell is None]:
        absent = f"the grid has no {model}/{missing[0]} for {name}"
    elif absent := results.lacking(cells, *(OF_ACCURACY if accuracies else EVALUATION)):
        absent += " was not run"
    if absent:
        return frame.assign(absent=absent, **dict.fromkeys(OURS, np.nan))
    stored = as_stored(study, rows)[STORED]
    stored["setting"] = rows["formulation"].where(rows["formulation"] != "", stored["setting"])
    if accuracies:  # stories count as groups
        quality, questions = (results.inputs.of(cells[0], kind) for kind in OF_ACCURACY)
        of = intervals.accuracy(
            quality, questions, study.main_quality.threshold, study.evaluation.confidence
        )
        row = stored.iloc[0].to_dict() | {name: getattr(of, name) for name in OURS}
        measured = numbers = pd.DataFrame([row | {"dataset": dataset, "note": "", "empty": np.nan}])
    else:
        keys = {key: set(stored[key]) for key in ("metric", "method", "setting")}
        found = results.estimates(cells, answer_source=table.answer_source, **keys)
        measured = found.frame
        numbers = (found.mean_over_datasets() if dataset == MEAN else found).summary(
            study.evaluation.confidence
        )
    counts = measured.groupby("dataset")["n"].min()
    few = [rules.too_few(counts[of], of, size) for of, size in sizes.items() if of in counts]
    differing = [each for cell in cells for each in results.differences(cell, table.scorer)]
    for row_of, metric, method, setting in rows[["metric", "method", "setting"]].itertuples():
        kinds = (
            {"accuracy"} if accuracies else {"scores", metric, method, setting.partition(" ")[0]}
        )
        whys = (rules.arbitrary.get(setting), first(differing, kinds, rules), *few)
        frame.loc[row_of, "why"] = next(filter(None, whys), "")
    places_stored = pd.MultiIndex.from_frame(stored)
    there = measured.groupby(STORED).size().reindex(places_stored, fill_value=0).to_numpy() == len(
        cells
    )
    full = list(measured.loc[measured["empty"] > MOST_EMPTY, "dataset"].unique())
    if dataset == MEAN and full:
        frame["absent"] = f"more than a fifth of the answers are empty on {', '.join(full)}"
    frame.loc[~there, "absent"] = [
        f"no row for {' '.join(filter(None, key))}" for key in places_stored[~there]
    ]
    ours = numbers.set_index(STORED)[[*OURS, "note"]].reindex(places_stored).set_index(rows.index)
    return frame.drop(columns="note").join(ours.where(frame["absent"] == "")).fillna({"note": ""})
