"""Differences in PRR that the evidence pages tell, which no exhibit holds.

``python tools/evidence_differences.py`` makes three files of ``evidence/small`` again from
published scores, in a few minutes: ``differences.csv``; ``gains.csv``, what beams gain by each
judge; ``power.csv``, beside the paper's gains. `recomputed` evaluates a published cell; tests make
the published tables with it.

``gains_by_rouge.csv``, what beams gain with ROUGE-L as similarity, is from scores that are too
large to be published: it is made where the scores of a run of ``studies/small.yaml``,
``results/small/scores/lexical``, are copied to ``evidence/small/scores/lexical``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import ndtr, ndtri

from beamuq.array_types import Floats
from beamuq.evaluation import bootstrap
from beamuq.evaluation.estimates import Estimates
from beamuq.evaluation.significance import smallest_detectable
from beamuq_study.comparison.comparison_inputs import read_paper_numbers
from beamuq_study.parquet_tables import Artifact, read
from beamuq_study.stages.metrics_of_scores import EvaluationSettings, evaluate
from beamuq_study.study_config import Quality, load_study

EVIDENCE = Path(__file__).resolve().parents[1] / "evidence"
FILE = EVIDENCE / "small/differences.csv"
GAINS_FILE = EVIDENCE / "small/gains.csv"
POWER_FILE = EVIDENCE / "small/power.csv"
ROUGE_FILE = EVIDENCE / "small/gains_by_rouge.csv"
ROUGE_SCORES = EVIDENCE / "small/scores/lexical"
MODEL = "smollm2-135m-plain"
SCORER = "embedding"
PILOT_QUESTIONS = 240  # the first ones of recipe reference, which a pilot asked
Z = float(ndtri(0.975))
POWER = 0.8

COQA = ("coqa",)
BOTH = ("triviaqa", "coqa")
LATER = ("webquestions", "commonsenseqa")
MEANS = (*BOTH, *LATER)  # whose answers are not too often empty
ALL = (*MEANS, "hotpotqa", "arc-challenge")

D = "Dissimilarity"
ECC = "Eccentricity"
EIGVEC = "EigVecDissimilarity"
FIVE = f"{D} + {ECC} + {EIGVEC} + CocoaMSP + CocoaPPL"  # the paper's five scores, their mean
FIVE_AND_MEAN = (*FIVE.split(" + "), FIVE)
# those with both forms
EIGHT = (D, ECC, EIGVEC, "CocoaMSP", "CocoaPPL", "SAR", "SemanticEntropy", "DegreeMatrix")
# SAR has a similarity of its own
BY_SIMILARITY = tuple(method for method in EIGHT if method != "SAR")

FALL = (
    "beam_widths beamsearch M={0} - beam_widths multinomial M={0}"
    " - beam_widths beamsearch M=15 + beam_widths multinomial M=15"
)
BY_EXACT = "exact-main beamsearch - exact-main multinomial - main beamsearch + main multinomial"
EXACT_VALUE = "stratified all_above*"
TEN_SAMPLES = "uniform sample T=1.0 M=10 draw=*"
TEN_BEAMS = "normalised beam M=10"


Row = dict[str, Any]


@dataclass(frozen=True)
class Measured:
    """By what PRR is measured anew; by default as it was published."""

    folder: str = "small"
    scorer: str = SCORER
    metric: str = "PRR"
    quality: str = "answer_f1"
    wrong: str = ""  # which answers count as wrong, whatever the quality: `CONTAINED`, `PARTLY`
    answered: bool = False  # of the questions whose greedy answer is not empty
    left_out: slice | None = None  # of the questions of recipe reference, in order of their draw


CONTAINED = "contain a reference, and are not it"
PARTLY = "are right by half at most"
# before a recipe
MEASURED = {
    "contained-": Measured(wrong=CONTAINED),
    "partly-": Measured(wrong=PARTLY),
    "unseen-": Measured(left_out=slice(None)),
    "exact-": Measured(quality="exact_match"),
    "roc-": Measured(metric="ROC-AUC"),
    "answered-": Measured(answered=True),
    "bfloat16-": Measured(folder="small_bfloat16"),
    "probabilities-exact-": Measured(folder="probabilities", quality="exact_match"),
    "probabilities-": Measured(folder="probabilities"),
    "rouge-exact-": Measured(scorer="lexical", quality="exact_match"),
    "rouge-": Measured(scorer="lexical"),
    "pilot-": Measured(left_out=slice(PILOT_QUESTIONS, None)),
    "later-": Measured(left_out=slice(PILOT_QUESTIONS)),
    "": Measured(),
}


@dataclass(frozen=True)
class Difference:
    """A row of the file for each method and dataset, and one for the mean of several datasets."""

    name: str
    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    # RECIPE VARIANT SETTING, to add to PRR or take off; of all settings that match a pattern the
    # mean. RECIPE@METHOD is of that method, whatever the row's.
    formula: str


def _of_pilot_and_later() -> list[Difference]:
    """Differences on the questions of the pilot, and on those asked later."""
    forms = {
        "exact value": [EXACT_VALUE],
        "samples": [TEN_SAMPLES],
        "beams": [TEN_BEAMS],
        "less noise": [EXACT_VALUE, TEN_SAMPLES],
    }
    differences = []
    for part in ("pilot", "later"):
        for name, parts in forms.items():
            formula = " - ".join(f"{part}-reference {form}" for form in parts)
            differences.append(Difference(f"{name} {part}", (D,), ("triviaqa",), formula))
    return differences


DIFFERENCES = [
    Difference(
        "weighted alike less samples",
        (D,),
        BOTH + LATER,
        "main uniform beam M=10 - main multinomial",
    ),
    Difference(
        "weighted alike less beams", (D,), BOTH + LATER, "main uniform beam M=10 - main beamsearch"
    ),
    Difference(
        "weighted alike less samples unseen",
        (D,),
        COQA,
        "unseen-main uniform beam M=10 - unseen-main multinomial",
    ),
    Difference(
        "weighted alike less beams unseen",
        (D,),
        COQA,
        "unseen-main uniform beam M=10 - unseen-main beamsearch",
    ),
    Difference(
        "generate less beams", (D, ECC, EIGVEC), BOTH, "released beamsearch - strategies beamsearch"
    ),
    Difference(
        "generate less samples",
        (D, "CocoaMSP", "CocoaPPL"),
        BOTH,
        "released beamsearch - released multinomial",
    ),
    Difference(
        "generate less weighted alike",
        (D,),
        BOTH,
        "released beamsearch - strategies beamsearch epsilon=1.0",
    ),
    Difference(
        "generate less beams", (D, ECC, EIGVEC), LATER, "released beamsearch - main beamsearch"
    ),
    Difference("generate less samples", (D,), LATER, "released beamsearch - main multinomial"),
    Difference("gain with 2 less with 15", (D, ECC, EIGVEC), BOTH, FALL.format(2)),
    Difference("gain with 3 less with 15", (D,), BOTH, FALL.format(3)),
    Difference("gain with 5 less with 15", (D,), BOTH, FALL.format(5)),
    Difference(
        "alpha .9 less K=2",
        (ECC, EIGVEC),
        BOTH,
        "strategies beamsearch alpha=0.9 - strategies beamsearch K=2",
    ),
    Difference(
        "five beams less samples",
        (D,),
        BOTH,
        "reference unnormalised beam M=5 - reference uniform sample T=1.0 M=10 draw=*",
    ),
    Difference(
        "five beams less normalised",
        (D,),
        BOTH,
        "reference unnormalised beam M=5 - reference normalised beam M=5",
    ),
    Difference(
        "less noise",
        (D,),
        BOTH,
        "reference stratified all_above* - reference uniform sample T=1.0 M=10 draw=*",
    ),
    Difference(
        "beams less exact value",
        (D,),
        BOTH,
        "reference normalised beam M=10 - reference stratified all_above*",
    ),
    Difference(
        "optimal stratified less samples",
        (D,),
        BOTH,
        "reference stratified optimal_stratified M=10 - reference uniform sample T=1.0 M=10 draw=*",
    ),
    *_of_pilot_and_later(),
    Difference("gain", (FIVE,), MEANS, "main beamsearch - main multinomial"),
    Difference(
        "gain of the answered", EIGHT, ALL, "answered-main beamsearch - answered-main multinomial"
    ),
    Difference(
        "gain in ROC-AUC", FIVE_AND_MEAN, MEANS, "roc-main beamsearch - roc-main multinomial"
    ),
    Difference(
        "gain in bfloat16",
        FIVE_AND_MEAN,
        MEANS,
        "bfloat16-main beamsearch - bfloat16-main multinomial",
    ),
    Difference(
        "beams in bfloat16 less in float32",
        FIVE_AND_MEAN,
        MEANS,
        "bfloat16-main beamsearch - main beamsearch",
    ),
    Difference(
        "samples in bfloat16 less in float32",
        FIVE_AND_MEAN,
        MEANS,
        "bfloat16-main multinomial - main multinomial",
    ),
    Difference("gain by exact match less by F1", (*EIGHT, FIVE), MEANS, BY_EXACT),
    Difference(
        "gain where a contained reference is wrong",
        (D,),
        MEANS,
        "contained-main beamsearch - contained-main multinomial",
    ),
    Difference(
        "gain where half right is wrong",
        (D,),
        MEANS,
        "partly-main beamsearch - partly-main multinomial",
    ),
    Difference(
        "samples less Perplexity", ("CocoaPPL",), MEANS, "main multinomial - main@Perplexity"
    ),
    Difference("Prob less beams", (D,), MEANS, "main@Prob - main beamsearch"),
    Difference(
        "Prob less beams by exact match", (D,), MEANS, "exact-main@Prob - exact-main beamsearch"
    ),
    Difference(
        "Prob less samples by exact match",
        ("CocoaMSP",),
        MEANS,
        "exact-main@Prob - exact-main multinomial",
    ),
    Difference("samples less Prob", ("CocoaPPL",), MEANS, "main multinomial - main@Prob"),
    Difference(
        "Prob less Perplexity by exact match",
        ("Perplexity",),
        MEANS,
        "exact-main@Prob - exact-main@Perplexity",
    ),
    Difference(
        "PRO less Perplexity",
        ("PRO",),
        MEANS,
        "probabilities-main - probabilities-main@Perplexity",
    ),
    Difference(
        "PRO less Perplexity by exact match",
        ("PRO",),
        MEANS,
        "probabilities-exact-main - probabilities-exact-main@Perplexity",
    ),
]
JUDGES = {"answer_f1": "main", "exact_match": "exact-main"}  # the recipe as each judges it
JUDGES_OF_ROUGE = {"answer_f1": "rouge-main", "exact_match": "rouge-exact-main"}
GAINS_BY_ROUGE = [
    Difference(
        f"gain in {recipe}",
        (*BY_SIMILARITY, FIVE),
        MEANS,
        f"{recipe} beamsearch - {recipe} multinomial",
    )
    for recipe in JUDGES_OF_ROUGE.values()
]
PAPER_TABLES = "tab:qa_(llama8b|gemma4b|qwen8b)(it)?"  # by dataset, one of each model


class Scored(NamedTuple):
    """Which score of which answer."""

    answer_source: str
    method: str
    variant: str
    setting: str


@dataclass(frozen=True)
class Term:
    """A recipe's PRR with a sign; of all settings that match the pattern the mean."""

    sign: float
    recipe: str
    variant: str
    setting: str
    method: str = ""  # of this one; "": of the row's

    def is_of(self, form: Scored) -> bool:
        """Whether it takes that score."""
        if self.method not in ("", form.method):
            return False
        return form.variant == self.variant and fnmatchcase(form.setting, self.setting)


def terms(formula: str) -> list[Term]:
    """The terms of a difference."""
    signs_and_terms = re.split(" ([+-]) ", f" + {formula}")[1:]
    parts = []
    for sign, term in zip(signs_and_terms[::2], signs_and_terms[1::2], strict=True):
        recipe_and_method, variant, setting = f"{term}  ".split(" ", 2)
        recipe, _, method = recipe_and_method.partition("@")
        parts.append(Term(float(f"{sign}1"), recipe, variant, setting.strip(), method))
    return parts


@dataclass
class Recomputed:
    """Rows of a cell's evaluation and of its replicates, one for one."""

    evaluation: list[Row] = field(default_factory=list)
    replicates: list[Row] = field(default_factory=list)


def recomputed(
    folder: Path,
    cell: Artifact,
    chosen: Callable[[list[Scored]], Collection[Scored]],
    metric: str = "",
    qualities: Collection[str] = (),
    answered: bool = False,
    without: Collection[str] = (),
    wrong: str = "",
) -> Recomputed:
    """A published cell's evaluation, from its scores, quality, groups and empty answers.

    ``chosen``: of these scores; ``metric``, ``qualities``: by these alone (empty: by all);
    ``answered``: of the answered questions too; ``without``: these questions. Whatever is left out
    costs nothing. ``wrong``: which answers count as wrong (:class:`Measured`).
    """
    place = (cell.dataset, cell.model, cell.recipe)
    asked_for = ~pc.field("id").isin(pa.array(without, pa.string()))
    file = folder / Artifact("scores", *place, cell.scorer).path
    scores = _chosen_scores(file, asked_for, chosen)
    rows = Recomputed()
    if not len(scores):
        return rows
    questions = read(folder / Artifact("questions", cell.dataset).path, "questions").table
    empty = _empty_answers(folder, cell) if answered else None
    for quality in load_study(folder / "study.json").qualities(cell.dataset):
        if qualities and quality.metric not in qualities:
            continue
        file = folder / Artifact("quality", *place, metric=quality.metric).path
        judged = read(file, "quality").table.filter(asked_for)
        if wrong:
            judged = _judged_wrong(folder, cell, judged, wrong)
        settings = _settings(folder, cell, quality, metric)
        evaluation, replicates = evaluate(scores, judged, questions, settings, cell.dataset, empty)
        rows.evaluation += evaluation
        rows.replicates += replicates
    return rows


def _judged_wrong(folder: Path, cell: Artifact, judged: pa.Table, wrong: str) -> pa.Table:
    """The qualities with 0 for some answers."""
    value = judged["value"].to_numpy()
    lost = value <= 0.5
    if wrong == CONTAINED:
        file = Artifact("quality", cell.dataset, cell.model, cell.recipe, metric="exact_match").path
        keys = ["id", "answer_source"]
        exact = read(folder / file, "quality").table.to_pandas().set_index(keys)["value"]
        is_exact = exact.loc[pd.MultiIndex.from_frame(judged.select(keys).to_pandas())]
        lost = (value == 1) & (is_exact.to_numpy() == 0)
    place = judged.schema.get_field_index("value")
    return judged.set_column(
        place, judged.schema.field(place), pa.array(np.where(lost, 0.0, value))
    )


def _empty_answers(folder: Path, cell: Artifact) -> dict[str, list[str]]:
    """By answer source the questions whose produced answer is empty."""
    candidates = Artifact("candidates", cell.dataset, cell.model, cell.recipe)
    answers = json.loads((folder / "empty_answers.json").read_text())
    empty: dict[str, list[str]] = answers[candidates.path]
    return empty


def _settings(folder: Path, cell: Artifact, quality: Quality, metric: str) -> EvaluationSettings:
    """Those of a published cell, with another quality; ``metric``: this alone, if not empty."""
    published = read(folder / cell.path, "evaluation").provenance["settings"]
    settings = EvaluationSettings.model_validate(published, strict=False)
    changes: dict[str, object] = {"quality": quality.metric, "threshold": quality.threshold}
    if metric:
        changes["metrics"] = (metric,)
    return settings.model_copy(update=changes)


def _chosen_scores(
    file: Path, asked_for: pc.Expression, chosen: Callable[[list[Scored]], Collection[Scored]]
) -> pa.Table:
    """Scores of a file whose form is chosen, of the questions that are asked for."""
    scores = read(file, "scores").table.filter(asked_for)
    columns = [scores.column(name).to_pylist() for name in Scored._fields]
    forms = [Scored(*form) for form in zip(*columns, strict=True)]
    wanted = set(chosen(list(dict.fromkeys(forms))))
    return scores.filter([form in wanted for form in forms])


@cache
def prr(dataset: str, recipe: str) -> dict[Scored, np.ndarray]:
    """PRR, or ROC-AUC, by score of the greedy answer: of all questions and of each resample.

    Arrays of [1 + resamples].
    """
    prefix = next(prefix for prefix in MEASURED if recipe.startswith(prefix))
    by = MEASURED[prefix]
    folder = EVIDENCE / by.folder
    cell = Artifact("evaluation", dataset, MODEL, recipe.removeprefix(prefix), by.scorer)
    without = _questions_of_reference(folder, dataset)[by.left_out] if by.left_out else []
    rows = recomputed(
        folder,
        cell,
        lambda forms: _scores_read(forms, recipe),
        by.metric,
        [by.quality],
        by.answered,
        without,
        by.wrong,
    )
    subsets = {row["subset"] for row in rows.replicates}
    # of all questions alone where no answer is empty
    subset = "answered" if by.answered and "answered" in subsets else "all"
    return _values_by_score(rows, subset)


def _values_by_score(rows: Recomputed, subset: str) -> dict[Scored, np.ndarray]:
    """Of a subset of the questions each value with those of its resamples behind it."""
    evaluation = [row for row in rows.evaluation if row["subset"] == subset]
    replicates = [row for row in rows.replicates if row["subset"] == subset]
    values = {}
    for row, drawn in zip(evaluation, replicates, strict=True):
        form = Scored(*(row[name] for name in Scored._fields))
        values[form] = np.asarray([row["value"], *drawn["values"]], dtype=np.float64)
    return values


def _scores_read(forms: list[Scored], recipe: str) -> list[Scored]:
    """Those that a difference reads of a recipe."""
    methods: set[str] = set()
    terms_of_recipe: list[Term] = []
    for difference in (*DIFFERENCES, *GAINS_BY_ROUGE):
        methods.update(*(names.split(" + ") for names in difference.methods))
        terms_of_recipe += [term for term in terms(difference.formula) if term.recipe == recipe]
    methods.update(term.method for term in terms_of_recipe)
    return [
        form
        for form in forms
        if form.answer_source == "greedy"
        and form.method in methods
        and any(term.is_of(form) for term in terms_of_recipe)
    ]


def _questions_of_reference(folder: Path, dataset: str) -> list[str]:
    """Ids of the questions that recipe reference asks, in the order of their draw."""
    scores = read(folder / Artifact("scores", dataset, MODEL, "reference", SCORER).path, "scores")
    scored = set(scores.table["id"].to_pylist())
    questions = read(folder / Artifact("questions", dataset).path, "questions")
    return [question for question in questions.table["id"].to_pylist() if question in scored]


def difference(formula: str, method: str, dataset: str) -> Floats:
    """The value of a difference and of each resample, [1 + resamples]."""
    methods = method.split(" + ")
    parts = []
    for term in terms(formula):
        values = [
            values
            for form, values in prr(dataset, term.recipe).items()
            if form.method in (term.method, *methods) and term.is_of(form)
        ]
        parts.append(term.sign * np.mean(values, axis=0))
    return np.asarray(np.sum(parts, axis=0))


def table() -> pd.DataFrame:
    """Every difference with its 95 % interval and standard error.

    ``detectable``: the smallest true difference that such data would show.
    """
    rows = []
    for entry in DIFFERENCES:
        for method in entry.methods:
            values = {name: difference(entry.formula, method, name) for name in entry.datasets}
            if len(values) > 1:
                mean = np.mean(list(values.values()), axis=0)
                values[f"mean of {' '.join(entry.datasets)}"] = mean
            for dataset, value_and_resamples in values.items():
                interval = bootstrap.interval(value_and_resamples[1:], 0.95)
                row = {
                    "difference": entry.name,
                    "method": method,
                    "dataset": dataset,
                    "of": entry.formula,
                    "value": value_and_resamples[0],
                    "low": interval.low,
                    "high": interval.high,
                    "std": interval.std,
                }
                rows.append(row)
    differences = pd.DataFrame(rows)
    detectable = smallest_detectable(differences["std"], 0.0, Z, POWER)
    return differences.assign(detectable=detectable)


def gains(judges: Mapping[str, str] = JUDGES, methods: Collection[str] = EIGHT) -> pd.DataFrame:
    """What ten beams gain over ten samples in few-shot recipe ``main``, by each judge of quality.

    By score with both forms, dataset and mean of four; and by the paper's five together. ``p`` is
    two-sided; ``p_holm`` is after Holm over the means of the ``methods`` by the same judge.
    """
    estimates = _estimated_gains(judges, methods)
    frame = estimates.frame
    in_family = ((frame["dataset"] == "mean") & (frame["method"] != FIVE)).to_numpy()
    p_holm = np.full(len(frame), np.nan)
    p_holm[in_family] = estimates.rows(in_family).holm(["quality"])
    columns = ["quality", "method", "dataset", "value", "low", "high", "std", "n"]
    summary = estimates.summary()[columns]
    return summary.assign(p=estimates.p(), p_holm=p_holm)


def _estimated_gains(judges: Mapping[str, str], methods: Collection[str]) -> Estimates:
    """The gains of scores, and of the paper's five together, by judge and dataset."""
    rows = []
    replicates = []
    for quality, recipe in judges.items():
        for method in (*methods, FIVE):
            for dataset, (value, *resampled) in _gains_by_dataset(method, recipe).items():
                keys = {"quality": quality, "method": method, "dataset": dataset}
                rows.append(keys | {"value": value, "n": _questions(dataset)})
                replicates.append(resampled)
    return Estimates.from_rows(rows, replicates)


def _gains_by_dataset(method: str, recipe: str) -> dict[str, Floats]:
    """A score's gain on each dataset and in their mean: the value, then its resamples."""
    gain = f"{recipe} beamsearch - {recipe} multinomial"
    gains_by_dataset = {dataset: difference(gain, method, dataset) for dataset in MEANS}
    mean = np.mean(list(gains_by_dataset.values()), axis=0)
    return {**gains_by_dataset, "mean": mean}


def _questions(dataset: str) -> int:
    """How many questions of a dataset recipe ``main`` asks; of "mean" those of the four."""
    if dataset == "mean":
        return sum(map(_questions, MEANS))
    cell = Artifact("evaluation", dataset, MODEL, "main", SCORER)
    return int(max(read(EVIDENCE / "small" / cell.path, "evaluation").table["n"].to_pylist()))


def power() -> pd.DataFrame:
    """By judge and score the paper's gain, and how likely our few-shot recipe ``main`` shows it.

    Ours and the paper's are means over the same four datasets. ``paper`` is the mean over its six
    models, ``paper_base`` that over its three base models, both by AlignScore. ``power`` is of a
    two-sided test at 5 % with our standard error.
    """
    ours = pd.read_csv(GAINS_FILE).query("dataset == 'mean'")
    both = ours[["quality", "method", "value", "std"]].merge(paper_gains(MEANS), on="method")
    chance = ndtr(both["paper"] / both["std"] - Z)
    detectable = smallest_detectable(both["std"], 0.0, Z, POWER)
    return both.assign(power=chance, detectable=detectable)


def paper_gains(datasets: Collection[str]) -> pd.DataFrame:
    """What beams gain in the paper, in the mean over models and datasets, by its five scores.

    ``paper``: over all models; ``paper_base``: over its base models; their mean is a row, too.
    """
    numbers = read_paper_numbers()
    by_dataset = numbers["table"].str.fullmatch(PAPER_TABLES)
    numbers = numbers[by_dataset & numbers["dataset"].isin(list(datasets))]
    place = ["method", "model", "dataset"]
    forms = numbers.pivot_table("printed", place, "variant")[["beamsearch", "multinomial"]].dropna()
    gain = (forms["beamsearch"] - forms["multinomial"]).reset_index(name="gain")
    is_base = gain["model"].str.endswith("-base")
    of_all = gain.groupby("method")["gain"].mean()
    of_base = gain[is_base].groupby("method")["gain"].mean()
    paper = pd.DataFrame({"paper": of_all, "paper_base": of_base})
    paper.loc[FIVE] = paper.loc[FIVE.split(" + ")].mean()
    return paper.rename_axis("method").reset_index()


if __name__ == "__main__":
    table().to_csv(FILE, index=False)
    gains().to_csv(GAINS_FILE, index=False)
    power().to_csv(POWER_FILE, index=False)
    if ROUGE_SCORES.exists():
        gains(JUDGES_OF_ROUGE, BY_SIMILARITY).to_csv(ROUGE_FILE, index=False)
