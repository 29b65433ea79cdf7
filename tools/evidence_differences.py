"""Differences in PRR that the evidence pages tell and no exhibit holds:
``evidence/small/differences.csv``.

``python tools/evidence_differences.py`` makes the file again from published scores, in a few
minutes. `recomputed` evaluates a published cell; tests make the published tables with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtr, ndtri

from beamuq.evaluation import bootstrap
from beamuq.evaluation.significance import smallest_detectable
from beamuq_study.comparison.comparison_inputs import read_paper_numbers
from beamuq_study.parquet_tables import Artifact, read
from beamuq_study.stages.metrics_of_scores import EvaluationSettings, evaluate
from beamuq_study.study_config import load_study

EVIDENCE = Path(__file__).resolve().parents[1] / "evidence"
FILE = EVIDENCE / "small/differences.csv"
POWER_FILE = EVIDENCE / "small/power.csv"
MODEL = "smollm2-135m-plain"
FORM = ("answer_source", "method", "variant", "setting")
Scored = tuple[str, str, str, str]  # of FORM
Rows = tuple[list[dict[str, Any]], list[dict[str, Any]]]
COQA, BOTH, LATER = ("coqa",), ("triviaqa", "coqa"), ("webquestions", "commonsenseqa")
UNSEEN = "unseen-"  # before a recipe: without the questions of recipe reference
EXACT = "exact-"  # before a recipe: judged by exact match
ROC = "roc-"  # before a recipe: ROC-AUC in place of PRR
ANSWERED = "answered-"  # before a recipe: of the questions whose greedy answer is not empty
BFLOAT16 = "bfloat16-"  # before a recipe: decoded in bfloat16
# before recipe reference: its first 240 questions, which a pilot asked; the others
PILOT, LATER_ASKED = "pilot-", "later-"
PILOT_QUESTIONS = 240
D, ECC, EIGVEC = "Dissimilarity", "Eccentricity", "EigVecDissimilarity"
FIVE = f"{D} + {ECC} + {EIGVEC} + CocoaMSP + CocoaPPL"  # the paper's five scores, their mean
FIVE_AND_MEAN = (*FIVE.split(" + "), FIVE)
EIGHT = (
    D,
    ECC,
    EIGVEC,
    "CocoaMSP",
    "CocoaPPL",
    "SAR",
    "SemanticEntropy",
    "DegreeMatrix",
)  # with both forms
MEANS = (*BOTH, *LATER)  # whose answers are not too often empty
ALL = (*MEANS, "hotpotqa", "arc-challenge")
Z, POWER = float(ndtri(0.975)), 0.8
FALL = (
    "beam_widths beamsearch M={0} - beam_widths multinomial M={0}"
    " - beam_widths beamsearch M=15 + beam_widths multinomial M=15"
)
BY_EXACT = "exact-main beamsearch - exact-main multinomial - main beamsearch + main multinomial"

# Name, methods, datasets, and of which RECIPE VARIANT SETTING to add and take off the PRR; of all
# settings that match a pattern the mean. A row of the file for each method and dataset, and one for
# the mean of several datasets.
DIFFERENCES: list[tuple[str, tuple[str, ...], tuple[str, ...], str]] = [
    (
        "weighted alike less samples",
        (D,),
        BOTH + LATER,
        "main uniform beam M=10 - main multinomial",
    ),
    ("weighted alike less beams", (D,), BOTH + LATER, "main uniform beam M=10 - main beamsearch"),
    (
        "weighted alike less samples unseen",
        (D,),
        COQA,
        "unseen-main uniform beam M=10 - unseen-main multinomial",
    ),
    (
        "weighted alike less beams unseen",
        (D,),
        COQA,
        "unseen-main uniform beam M=10 - unseen-main beamsearch",
    ),
    ("generate less beams", (D, ECC, EIGVEC), BOTH, "released beamsearch - strategies beamsearch"),
    (
        "generate less samples",
        (D, "CocoaMSP", "CocoaPPL"),
        BOTH,
        "released beamsearch - released multinomial",
    ),
    (
        "generate less weighted alike",
        (D,),
        BOTH,
        "released beamsearch - strategies beamsearch epsilon=1.0",
    ),
    ("generate less beams", (D, ECC, EIGVEC), LATER, "released beamsearch - main beamsearch"),
    ("generate less samples", (D,), LATER, "released beamsearch - main multinomial"),
    ("gain with 2 less with 15", (D, ECC, EIGVEC), BOTH, FALL.format(2)),
    ("gain with 3 less with 15", (D,), BOTH, FALL.format(3)),
    ("gain with 5 less with 15", (D,), BOTH, FALL.format(5)),
    (
        "alpha .9 less K=2",
        (ECC, EIGVEC),
        BOTH,
        "strategies beamsearch alpha=0.9 - strategies beamsearch K=2",
    ),
    (
        "five beams less samples",
        (D,),
        BOTH,
        "reference unnormalised beam M=5 - reference uniform sample T=1.0 M=10 draw=*",
    ),
    (
        "five beams less normalised",
        (D,),
        BOTH,
        "reference unnormalised beam M=5 - reference normalised beam M=5",
    ),
    (
        "less noise",
        (D,),
        BOTH,
        "reference stratified all_above* - reference uniform sample T=1.0 M=10 draw=*",
    ),
    (
        "beams less exact value",
        (D,),
        BOTH,
        "reference normalised beam M=10 - reference stratified all_above*",
    ),
    (
        "optimal stratified less samples",
        (D,),
        BOTH,
        "reference stratified optimal_stratified M=10 - reference uniform sample T=1.0 M=10 draw=*",
    ),
    *(
        (
            f"{what} {when}",
            (D,),
            ("triviaqa",),
            " - ".join(f"{when}-reference {term}" for term in terms_of),
        )
        for when in ("pilot", "later")
        for what, *terms_of in (
            ("exact value", "stratified all_above*"),
            ("samples", "uniform sample T=1.0 M=10 draw=*"),
            ("beams", "normalised beam M=10"),
            ("less noise", "stratified all_above*", "uniform sample T=1.0 M=10 draw=*"),
        )
    ),
    ("gain", (FIVE,), MEANS, "main beamsearch - main multinomial"),
    ("gain of the answered", EIGHT, ALL, "answered-main beamsearch - answered-main multinomial"),
    ("gain in ROC-AUC", FIVE_AND_MEAN, MEANS, "roc-main beamsearch - roc-main multinomial"),
    (
        "gain in bfloat16",
        FIVE_AND_MEAN,
        MEANS,
        "bfloat16-main beamsearch - bfloat16-main multinomial",
    ),
    (
        "beams in bfloat16 less in float32",
        FIVE_AND_MEAN,
        MEANS,
        "bfloat16-main beamsearch - main beamsearch",
    ),
    (
        "samples in bfloat16 less in float32",
        FIVE_AND_MEAN,
        MEANS,
        "bfloat16-main multinomial - main multinomial",
    ),
    ("gain by exact match less by F1", (D, ECC, EIGVEC, FIVE), MEANS, BY_EXACT),
]


def recomputed(
    folder: Path,
    cell: Artifact,
    chosen: Callable[[list[Scored]], Collection[Scored]],
    metric: str = "",
    qualities: Collection[str] = (),
    answered: bool = False,
    without: Collection[str] = (),
) -> Rows:
    """Rows of evaluation and replicates of a published cell, from its scores, quality, groups and
    empty answers.

    ``chosen``: of these scores; ``metric``, ``qualities``: by these alone (empty: by all);
    ``answered``: of the answered questions too; ``without``: these questions. Whatever is left out
    costs nothing.
    """
    place = (cell.dataset, cell.model, cell.recipe)
    study, made = (
        load_study(folder / "study.json"),
        read(folder / cell.path, "evaluation").provenance["settings"],
    )
    empty = json.loads((folder / "empty_answers.json").read_text())[
        Artifact("candidates", *place).path
    ]
    asked = ~pc.field("id").isin(pa.array(without, pa.string()))
    scores = read(folder / Artifact("scores", *place, cell.scorer).path, "scores").table.filter(
        asked
    )
    forms: list[Scored] = list(
        zip(*(scores.column(name).to_pylist() for name in FORM), strict=True)
    )
    kept = set(chosen(list(dict.fromkeys(forms))))
    scores = scores.filter([form in kept for form in forms])
    questions = read(folder / Artifact("questions", cell.dataset).path, "questions").table
    rows: Rows = ([], [])
    for of in study.qualities(cell.dataset) if kept else ():
        if qualities and of.metric not in qualities:
            continue
        quality = read(
            folder / Artifact("quality", *place, metric=of.metric).path, "quality"
        ).table.filter(asked)
        settings = EvaluationSettings.model_validate(made, strict=False)
        alone = {"metrics": (metric,)} if metric else {}
        settings = settings.model_copy(
            update={"quality": of.metric, "threshold": of.threshold} | alone
        )
        found = evaluate(
            scores, quality, questions, settings, cell.dataset, empty if answered else None
        )
        for all_rows, new in zip(rows, found, strict=True):
            all_rows += new
    return rows


@cache
def prr(dataset: str, recipe: str) -> dict[tuple[str, ...], np.ndarray]:  # type: ignore[type-arg]
    """PRR, or ROC-AUC, of greedy answers by method, variant and setting: of all questions and of
    each resample, [1 + resamples]."""
    prefixes = (UNSEEN, EXACT, ROC, ANSWERED, BFLOAT16, PILOT, LATER_ASKED)
    prefix = next((each for each in prefixes if recipe.startswith(each)), "")
    folder = EVIDENCE / ("small_bfloat16" if prefix == BFLOAT16 else "small")
    without = set[str]()
    if prefix in (UNSEEN, PILOT, LATER_ASKED):
        truth = read(
            folder / Artifact("scores", dataset, MODEL, "reference", "embedding").path, "scores"
        ).table
        asked = read(
            folder / Artifact("questions", dataset).path, "questions"
        ).table  # in the order of their draw
        seen = set(truth["id"].to_pylist())
        ids = [key for key in asked["id"].to_pylist() if key in seen]
        without = set(
            {UNSEEN: ids, PILOT: ids[PILOT_QUESTIONS:], LATER_ASKED: ids[:PILOT_QUESTIONS]}[prefix]
        )
    methods = {
        method for _, of, _, _ in DIFFERENCES for several in of for method in several.split(" + ")
    }
    patterns = {
        found[2:] for *_, text in DIFFERENCES for found in terms(text) if found[1] == recipe
    }

    def needed(forms: list[Scored]) -> list[Scored]:
        return [
            form
            for form in forms
            if form[0] == "greedy"
            and form[1] in methods
            and any(matches(form[2:], each) for each in patterns)
        ]

    cell = Artifact("evaluation", dataset, MODEL, recipe.removeprefix(prefix), "embedding")
    metric, quality = (
        "ROC-AUC" if prefix == ROC else "PRR",
        "exact_match" if prefix == EXACT else "answer_f1",
    )
    found = recomputed(folder, cell, needed, metric, [quality], prefix == ANSWERED, without)
    subsets = {row["subset"] for row in found[1]}  # of all questions alone where no answer is empty
    subset = "answered" if prefix == ANSWERED and "answered" in subsets else "all"
    rows, replicates = ([row for row in part if row["subset"] == subset] for part in found)
    return {
        tuple(row[name] for name in FORM[1:]): np.asarray(
            [row["value"], *drawn["values"]], dtype=np.float64
        )
        for row, drawn in zip(rows, replicates, strict=True)
    }


def terms(text: str) -> list[tuple[str, str, str, str]]:
    """Sign, recipe, variant and pattern of the setting of each term."""
    words = re.split(" ([+-]) ", f" + {text}")[1:]
    parts = [
        (sign, *f"{term} ".split(" ", 2))
        for sign, term in zip(words[::2], words[1::2], strict=True)
    ]
    return [(sign, recipe, variant, setting.strip()) for sign, recipe, variant, setting in parts]


def matches(form: tuple[str, ...], pattern: tuple[str, ...]) -> bool:
    """Whether a variant and setting are those, or match the setting's pattern."""
    return form[0] == pattern[0] and fnmatchcase(form[1], pattern[1])


def difference(text: str, method: str, dataset: str) -> np.ndarray:  # type: ignore[type-arg]
    """The value of a difference and of each resample, [1 + resamples]."""
    parts = []
    for sign, recipe, *pattern in terms(text):
        of_methods = [
            (form[1:], found)
            for form, found in prr(dataset, recipe).items()
            if form[0] in method.split(" + ")
        ]
        found = [values for form, values in of_methods if matches(form, tuple(pattern))]
        parts.append(float(f"{sign}1") * np.mean(found, axis=0))
    return np.sum(parts, axis=0)


def table() -> pd.DataFrame:
    """Every difference with its 95 % interval, standard error and the smallest true one that such
    data would show.
    """
    rows = []
    for name, methods, datasets, text in DIFFERENCES:
        for method in methods:
            each = {dataset: difference(text, method, dataset) for dataset in datasets}
            if len(datasets) > 1:
                each[f"mean of {' '.join(datasets)}"] = np.mean(list(each.values()), axis=0)
            for dataset, found in each.items():
                interval = bootstrap.interval(found[1:], 0.95)
                row = {
                    "difference": name,
                    "method": method,
                    "dataset": dataset,
                    "of": text,
                    "value": found[0],
                }
                rows.append(row | {"low": interval.low, "high": interval.high, "std": interval.std})
    found = pd.DataFrame(rows)
    return found.assign(detectable=smallest_detectable(found["std"], 0.0, Z, POWER))


def power() -> pd.DataFrame:
    """Of each of the paper's scores the gain that the paper has, the mean over its models, and how
    likely few-shot `main`, with our standard error of the mean of four datasets, would show it by a
    two-sided test at 5 %."""
    numbers = read_paper_numbers().query("table == 'tab:qa_mean_prr' and dataset == 'mean'")
    forms = numbers.pivot_table("printed", "method", "variant").dropna(
        subset=["beamsearch", "multinomial"]
    )
    ours = (
        pd.read_csv(EVIDENCE / "small/tables/gains_smollm2.csv")
        .query("dataset == 'mean'")
        .set_index("method")
    )
    found = ours[["value", "std"]].join(
        (forms["beamsearch"] - forms["multinomial"]).rename("paper"), how="inner"
    )
    chance = ndtr(found["paper"] / found["std"] - Z)
    detectable = smallest_detectable(found["std"], 0.0, Z, POWER)
    return found.assign(power=chance, detectable=detectable).reset_index()


if __name__ == "__main__":
    table().to_csv(FILE, index=False)
    power().to_csv(POWER_FILE, index=False)
