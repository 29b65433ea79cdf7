"""Every number of the paper beside ours: difference, z, smallest detectable difference, status.

No number is said to agree: what is not shown to differ may differ by less than is detectable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.array_types import Bools, Floats
from beamuq.evaluation import intervals
from beamuq.evaluation.estimates import MEAN, MOST_EMPTY
from beamuq.evaluation.significance import smallest_detectable, z_score
from beamuq_study.comparison.comparison_inputs import (
    KEYS,
    STORED,
    ComparisonInputs,
    Erratum,
    PaperTable,
    first,
    table_cell,
    touching,
)
from beamuq_study.exhibits.exhibit import EVALUATION
from beamuq_study.grid import Cell
from beamuq_study.result_files import as_stored
from beamuq_study.study_config import Study

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
    "errata",
    "formulation",
]
OF_ACCURACY = ("quality", "questions")
DIFFERS = "differs"
NOT_SHOWN = "not shown to differ"
NO_STD = "no standard deviation of ours"


@dataclass(frozen=True)
class ComparedNumbers:
    """The paper's numbers beside ours; all have the rows of ``frame``, K of them."""

    frame: pd.DataFrame  # COLUMNS
    paper_std: Floats  # [K] the spread taken for the paper's: printed, or ours in its place
    replicates: npt.NDArray[np.float32]  # [K, resamples] of ours; NaN where there is none

    def rows(self, chosen: Bools) -> ComparedNumbers:
        """Those that are chosen, truth values [K]."""
        return ComparedNumbers(self.frame[chosen], self.paper_std[chosen], self.replicates[chosen])


def compare(results: ComparisonInputs, errata: Sequence[Erratum]) -> ComparedNumbers:
    """The paper's numbers in its order, then sampled Semantic Entropy's by further formulations."""
    numbers = _with_formulations(results.paper_numbers)
    replicates = np.full((len(numbers), results.study.evaluation.resamples), np.nan, np.float32)
    ours = []
    for _, rows in numbers.groupby(["table", "model", "dataset"], sort=False):
        measured = _ours_of_place(results, rows)
        ours.append(measured.frame)
        replicates[rows.index] = measured.replicates
    compared = _compared(numbers.join(pd.concat(ours)), results, errata)
    statuses = _statuses(compared, results.study, results.rules.limits["z"])
    frame = compared.join(statuses)[COLUMNS].astype({"n": "Int64"})
    return ComparedNumbers(frame, compared["paper_std"].to_numpy(np.float64), replicates)


def _with_formulations(numbers: pd.DataFrame) -> pd.DataFrame:
    """The numbers with ``formulation`` "", then those of sampled Semantic Entropy with others."""
    sampled = (numbers["method"] == "SemanticEntropy") & (numbers["variant"] != "beamsearch")
    parts = [numbers.assign(formulation="")]
    for name in list(FORMULATIONS)[1:]:
        parts.append(numbers[sampled].assign(formulation=name))
    return pd.concat(parts, ignore_index=True)


def _compared(
    numbers: pd.DataFrame, results: ComparisonInputs, errata: Sequence[Erratum]
) -> pd.DataFrame:
    """The numbers with ``paper_std``, ``difference``, ``z``, ``detectable`` and the ids of errata.

    ``wrong`` has those that touch the value, ``errata`` also those that touch its ±.
    """
    limits = results.rules.limits
    wrong = touching(errata, numbers, "value")
    doubted = touching(errata, numbers, "std")
    std = numbers["std"].to_numpy(np.float64)
    # A ± that is absent or in the errata is replaced by ours
    use_ours = (doubted != "") | numbers["printed_std"].isna()
    paper_std = np.where(use_ours, std, numbers["printed_std"])
    difference = numbers["value"] - numbers["printed"]
    return numbers.assign(
        wrong=wrong,
        errata=(wrong + ", " + doubted).str.strip(", "),
        paper_std=paper_std,
        difference=difference,
        z=z_score(difference, std, paper_std),
        detectable=smallest_detectable(std, paper_std, limits["z"], limits["power"]),
    )


@dataclass(frozen=True)
class StatusRule:
    """What a number's status and its reason are where a condition holds, both by number."""

    condition: pd.Series[bool]
    status: str
    reason: str | pd.Series[str]


def _statuses(compared: pd.DataFrame, study: Study, z_limit: float) -> pd.DataFrame:
    """``status`` and ``reason`` of each number: those of the first rule that holds."""
    undefined = compared["value"].isna().map({True: "undefined", False: NO_STD})
    without_z = compared["note"].where(compared["note"] != "", undefined)
    demo = pd.Series(study.demo, compared.index)
    rules = [
        StatusRule(demo, "not comparable", "demo study"),
        StatusRule(compared["absent"] != "", "not run", compared["absent"]),
        StatusRule(compared["wrong"] != "", "errata", compared["wrong"]),
        StatusRule(compared["why"] != "", "not comparable", compared["why"]),
        StatusRule(compared["z"].isna(), "not comparable", without_z),
        StatusRule(compared["z"].abs() < z_limit, NOT_SHOWN, ""),
    ]
    conditions = [rule.condition for rule in rules]
    status = np.select(conditions, [rule.status for rule in rules], DIFFERS)
    reason = np.select(conditions, [rule.reason for rule in rules], "")
    return pd.DataFrame({"status": status, "reason": reason}, compared.index)


# -- what this study has at one place of the paper -------------------------------------------------


@dataclass(frozen=True)
class Place:
    """The paper's numbers of one table, model and dataset (or the mean over all), in this study."""

    table_name: str
    table: PaperTable
    model: str
    dataset: str
    questions: dict[str, int]  # the paper's, by dataset
    cells: list[Cell]  # of this study, of all of these datasets or fewer
    lacking: list[str]  # the datasets of which the grid has no such cell

    @property
    def is_mean(self) -> bool:
        return self.dataset == MEAN

    @property
    def is_accuracy(self) -> bool:
        return self.table.part == "accuracy"


@dataclass(frozen=True)
class Measured:
    """What this study measured at a place, under ``STORED`` keys."""

    by_dataset: pd.DataFrame  # with dataset, n and empty
    shown: pd.DataFrame  # ``OURS`` and note: of the dataset, or of the mean
    replicates: Floats  # [rows, resamples] of ``shown``


@dataclass(frozen=True)
class OursOfPlace:
    """What this study has of the paper's numbers of one place, K of them."""

    frame: pd.DataFrame
    replicates: Floats | float  # [K, resamples]; NaN: none


def _ours_of_place(results: ComparisonInputs, rows: pd.DataFrame) -> OursOfPlace:
    """Of the paper's numbers of one place ``OURS``, ``note`` and ``paper_n``.

    ``absent`` is why there is none, ``why`` why there is none to be compared, else "".
    """
    place = _place(results, rows)
    paper_n = sum(place.questions.values())
    if why_absent := _why_absent(results, place):
        nothing = dict.fromkeys(OURS, np.nan) | {"note": "", "why": ""}
        missing = pd.DataFrame(nothing | {"absent": why_absent, "paper_n": paper_n}, rows.index)
        return OursOfPlace(missing, np.nan)
    stored = _stored_keys(results.study, rows)
    measured = (
        _accuracy(results, place, stored)
        if place.is_accuracy
        else _estimates(results, place, stored)
    )
    keys = pd.MultiIndex.from_frame(stored)
    frame = pd.DataFrame(
        {
            "absent": _why_rows_are_absent(place, measured, keys),
            "why": _why_incomparable(results, place, measured, rows),
            "paper_n": paper_n,
        },
        rows.index,
    )
    shown = measured.shown.set_index(STORED)[[*OURS, "note"]]
    ours = shown.reindex(keys).set_index(rows.index).where(frame["absent"] == "")
    position = shown.index.get_indexer(keys)
    replicates = np.where(position[:, None] >= 0, measured.replicates[position], np.nan)
    return OursOfPlace(frame.join(ours).fillna({"note": ""}), replicates)


def _place(results: ComparisonInputs, rows: pd.DataFrame) -> Place:
    table_name, model, dataset = rows[["table", "model", "dataset"]].iloc[0]
    table = results.rules.tables[table_name]
    paper = results.rules.paper.datasets
    names = list(paper) if dataset == MEAN else [dataset]
    cells = {name: table_cell(results.study, table, model, name) for name in names}
    return Place(
        table_name=table_name,
        table=table,
        model=model,
        dataset=dataset,
        questions={name: table.questions or paper[name].questions for name in names},
        cells=[cell for cell in cells.values() if cell is not None],
        lacking=[name for name, cell in cells.items() if cell is None],
    )


def _why_absent(results: ComparisonInputs, place: Place) -> str:
    """Why this study has nothing at a place, else nothing."""
    if place.model not in results.study.models:
        return f"the study has no model {place.model!r}"
    if place.lacking:
        return f"the grid has no {place.model}/{place.lacking[0]} for {place.table_name}"
    kinds = OF_ACCURACY if place.is_accuracy else EVALUATION
    lacking_file = results.lacking(place.cells, *kinds)
    return f"{lacking_file} was not run" if lacking_file else ""


def _stored_keys(study: Study, rows: pd.DataFrame) -> pd.DataFrame:
    """``STORED`` of each number: under what an evaluation holds it."""
    stored = as_stored(study, rows)[STORED]
    is_further = rows["formulation"] != ""
    return stored.assign(setting=rows["formulation"].where(is_further, stored["setting"]))


def _accuracy(results: ComparisonInputs, place: Place, stored: pd.DataFrame) -> Measured:
    """The share of answers that are correct; stories count as groups."""
    study = results.study
    cell = place.cells[0]
    quality = results.inputs.of(cell, "quality")
    threshold = study.main_quality.threshold
    accuracy = intervals.accuracy(
        quality, results.inputs.of(cell, "questions"), threshold, study.evaluation.confidence
    )
    greedy = quality[quality["answer_source"] == "greedy"]
    correct = {"accuracy": greedy["value"] > threshold}
    drawn = results.inputs.means(cell, list(greedy["id"]), correct)
    keys = stored.iloc[0].to_dict() | {"dataset": place.dataset, "note": "", "empty": np.nan}
    frame = pd.DataFrame([keys | {name: getattr(accuracy, name) for name in OURS}])
    return Measured(frame, frame, drawn.replicates)


def _estimates(results: ComparisonInputs, place: Place, stored: pd.DataFrame) -> Measured:
    """What evaluations hold; of a mean, over the datasets."""
    estimates = results.estimates(
        place.cells,
        answer_source=place.table.answer_source,
        metric=set(stored["metric"]),
        method=set(stored["method"]),
        setting=set(stored["setting"]),
    )
    shown = estimates.mean_over_datasets() if place.is_mean else estimates
    summary = shown.summary(results.study.evaluation.confidence)
    return Measured(estimates.frame, summary, shown.replicates)


def _why_rows_are_absent(place: Place, measured: Measured, keys: pd.MultiIndex) -> list[str]:
    """Of each of the ``STORED`` keys why it has no value, else nothing."""
    by_dataset = measured.by_dataset
    counts = by_dataset.groupby(STORED).size().reindex(keys, fill_value=0)
    too_empty = by_dataset.loc[by_dataset["empty"] > MOST_EMPTY, "dataset"].unique()
    why_no_mean = ""
    if place.is_mean and len(too_empty):
        datasets = ", ".join(too_empty)
        why_no_mean = f"more than a fifth of the answers are empty on {datasets}"
    return [
        why_no_mean if count == len(place.cells) else f"no row for {' '.join(filter(None, key))}"
        for key, count in zip(keys, counts, strict=True)
    ]


def _why_incomparable(
    results: ComparisonInputs, place: Place, measured: Measured, rows: pd.DataFrame
) -> list[str]:
    """Of each number why ours is none to be compared with it, else nothing."""
    rules = results.rules
    differing = [
        difference
        for cell in place.cells
        for difference in results.differences(cell, place.table.scorer)
    ]
    too_few = _too_few_questions(results, place, measured)
    reasons = []
    for metric, method, setting in rows[["metric", "method", "setting"]].to_numpy():
        kinds = {"scores", metric, method, setting.partition(" ")[0]}
        how = first(differing, {"accuracy"} if place.is_accuracy else kinds, rules)
        reasons.append(rules.arbitrary.get(setting) or how or too_few)
    return reasons


def _too_few_questions(results: ComparisonInputs, place: Place, measured: Measured) -> str:
    """Why a dataset, the first such, has too few questions to be compared, else nothing."""
    counts = measured.by_dataset.groupby("dataset")["n"].min()
    for dataset, paper_questions in place.questions.items():
        if dataset in counts:
            reason = results.rules.too_few(counts[dataset], dataset, paper_questions)
            if reason:
                return reason
    return ""
