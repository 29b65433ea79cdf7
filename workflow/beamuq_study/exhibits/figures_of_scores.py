"""The figures of scores: PRR by number of candidates and length, rejection, risk, reliability."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd

from beamuq.drawing.curves import (
    FULL_TOP,
    draw_rejection_curves,
    draw_reliability,
    draw_risk_coverage,
)
from beamuq.evaluation import bootstrap, guaranteed_threshold
from beamuq.evaluation.candidate_sets import equal_bins, groups_of
from beamuq.evaluation.estimates import Estimates, joined
from beamuq.evaluation.prr_and_auc import rejection_bands
from beamuq.evaluation.question_scores import QuestionScores
from beamuq.strategy_names import ablation
from beamuq_study import grid
from beamuq_study.exhibits import captions, figure_style
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES, Exhibit, Figure
from beamuq_study.exhibits.figure_style import (
    SAMPLES,
    VARIANTS,
    Axes,
    Layout,
    Looks,
    SeriesStyle,
    draw_by_bin,
)
from beamuq_study.exhibits.method_groups import GRAPH, OVER_SAMPLES
from beamuq_study.exhibits.numbers_of_cells import measured
from beamuq_study.grid import Cell
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

MODELS = ("gemma-3-4b-base", "llama-3.1-8b-base", "qwen-3-8b-base")
DATASET = "triviaqa"
METHOD = "Dissimilarity"
BINS = 5  # of lengths
MOST_QUESTIONS = 200  # a panel of the figure across cells
BAND_RESAMPLES = 500  # intervals of curves are drawn to the pixel, not to the third digit
ACROSS = 4  # panels in a row, of figures with one a method
DRAWN_ANYWAY = ("Perplexity", METHOD, "CocoaPPL")
"""The methods whose risk is drawn where none has a guaranteed threshold: those to start with."""
LITTLE = 0.1  # of so few answers shown the curves may leave the panel
LOW_TOP = 0.52  # where the axis of shares wrong ends if all are below one half
LOOKS: Looks = {(method, variant): look for method in GRAPH for variant, look in VARIANTS.items()}
ENTROPY_LOOKS: Looks = {
    ("SemanticEntropy", OVER_SAMPLES): SeriesStyle("Semantic Entropy, samples", SAMPLES, ":", "^"),
    **{
        (METHOD, variant): replace(look, title=f"{METHOD}, {look.title}")
        for variant, look in VARIANTS.items()
    },
}
FORM = ["method", "variant"]
COLUMNS = ["model", "dataset", *FORM, "M", "value", "low", "high", "n"]
AXES = ("Number of candidates M", "PRR")

# -- by number of candidates -----------------------------------------------------------------------


@dataclass(frozen=True)
class ByCandidates:
    """PRR of some methods in one cell against M; the ``looks`` name the series."""

    looks: Looks
    by: Sequence[str]  # a panel for each value of these columns
    name: str  # of a panel

    @property
    def methods(self) -> list[str]:
        """The methods of the series, each once."""
        return list(dict.fromkeys(method for method, _ in self.looks))

    def build(self, study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
        """The figure of the one cell that is chosen."""
        forms = [
            {"method": method, "variant": variant, "setting": setting}
            for method, variant, setting in _forms_by_size(study, chosen[0], self.looks)
        ]
        data = _points(study, measured(study, inputs, chosen, forms))
        facts = {"methods": captions.listing(self.methods)}
        return self.drawn(study, data).with_facts(facts)

    def drawn(self, study: Study, data: pd.DataFrame) -> Figure:
        """The figure of its frame alone."""
        draw = partial(draw_curves, looks=self.looks)
        layout = Layout(AXES, height=2.2, before=f"{figure_style.thin_lines(study)} ")
        return figure_style.figure(study, data, self.by, self.name, draw, {}, layout)

    def exhibit(self, label: str) -> Exhibit:
        """The figure under a label, of the paper's model and dataset."""
        return Exhibit(
            label,
            "figure",
            partial(grid.with_budgets, methods=self.methods),
            EVALUATION,
            self.build,
            near=(MODELS[0], DATASET),
        )


BY_CANDIDATES = ByCandidates(LOOKS, ["method"], "{method}\nall {n} questions")
WITH_ENTROPY = ByCandidates(ENTROPY_LOOKS, [], "all {n} questions")


def cells_with_curves(study: Study) -> list[Cell]:
    """Up to three models on the paper's dataset, its own first, and one on another dataset."""
    drawn = grid.with_budgets(study, [METHOD])
    if not drawn:
        return []
    dataset = grid.nearest(study, drawn, dataset=DATASET)[0].dataset
    ranks = {name: rank for rank, name in enumerate(MODELS)}

    def rank(cell: Cell) -> tuple[int, bool]:
        return ranks.get(cell.model, len(MODELS)), study.models[cell.model].style != "base"

    on_dataset = sorted((cell for cell in drawn if cell.dataset == dataset), key=rank)
    elsewhere = [cell for cell in drawn if cell.dataset != dataset]
    one_elsewhere = grid.nearest(study, elsewhere, MODELS[0], "arc-challenge")
    return on_dataset[: len(MODELS)] + one_elsewhere


def across_cells(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """PRR over the first questions of each cell, at most 200, whatever the cell's own number."""
    parts = []
    for cell in chosen:
        scored = inputs.scores(cell)
        first = np.arange(len(scored.ids)) < MOST_QUESTIONS
        forms = _forms_by_size(study, cell, [(METHOD, variant) for variant in VARIANTS])
        values = scored.prr(first, f"first {MOST_QUESTIONS}", forms, **inputs.resampling)
        parts.append(values.assign(**cell.place))
    data = _points(study, joined(parts))
    return drawn_across_cells(study, data).with_facts({"most": MOST_QUESTIONS})


def drawn_across_cells(study: Study, data: pd.DataFrame) -> Figure:
    """The figure of its frame alone."""
    name = "{dataset}\n{model}\nfirst {n} questions"
    by = ["model", "dataset"]
    layout = Layout(AXES, sharey=False, before=f"{figure_style.thin_lines(study)} ")
    return figure_style.figure(study, data, by, name, draw_curves, {}, layout)


def draw_curves(data: pd.DataFrame, ax: Axes, looks: Looks = LOOKS) -> None:
    """A value against the number of candidates: a line a series, between thin ones.

    ``data`` has ``method``, ``variant``, ``M``, ``value`` (NaN: undefined, and the line is broken),
    ``low`` and ``high`` (NaN: no interval). ``looks``: how each pair of method and variant that may
    be drawn looks; by default the graph methods in both forms.
    """
    for part, look in figure_style.series(data, looks, "method", "variant"):
        figure_style.line(ax, part, look, "M")
    sizes = sorted(set(data["M"]))
    if len(sizes) > 6:
        ax.set_xticks([size for size in sizes if size == sizes[0] or size % 5 == 0])
    else:
        ax.set_xticks(sizes)
    ax.set_xlim(sizes[0] - 0.6, sizes[-1] + 0.6)


def _forms_by_size(
    study: Study, cell: Cell, forms: Iterable[tuple[str, str]]
) -> list[tuple[str, str, str]]:
    """Method, variant and setting of each form at each number of candidates that is scored."""
    budgets = sorted(study.scoring[cell.recipe].budgets)
    return [(*form, ablation("M", size)) for form in forms for size in budgets]


def _points(study: Study, values: Estimates) -> pd.DataFrame:
    points = values.summary(study.evaluation.confidence)
    return points.assign(M=points["setting"].str.removeprefix("M=").astype(int))[COLUMNS]


# -- rejection -------------------------------------------------------------------------------------


def curves_of_rejection(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Mean quality of what is retained against the share rejected, with bootstrap intervals.

    Of ties it is the expected value.
    """
    (cell,) = chosen
    resamples = min(BAND_RESAMPLES, study.evaluation.resamples)
    curves = _rejection_curves(study, cell, inputs.scores(cell), resamples)
    columns = [*FORM, "rejected", "quality", "low", "high", "oracle", "random", "n"]
    data = pd.concat(curves, ignore_index=True)[columns]
    draw = partial(draw_rejection_curves, max_rejection=study.evaluation.max_rejection[0])
    facts = {"drawn": resamples, "methods": captions.listing(GRAPH)}
    layout = Layout(
        ("Share rejected", "Mean quality retained"),
        height=2.2,
        before=f"{figure_style.thin_lines(study)} ",
    )
    return figure_style.figure(study, data, ["method"], "{method}\nn = {n}", draw, facts, layout)


def _rejection_curves(
    study: Study, cell: Cell, scored: QuestionScores, resamples: int
) -> list[pd.DataFrame]:
    """The curve of each form of the graph methods, with its interval."""
    name = f"prr_curves {cell.model}"
    counts = bootstrap.resample_counts(scored.groups, resamples, study.seed, name)
    curves = []
    for method, variant in LOOKS:
        scores = scored.scores(method, variant)
        curve = rejection_bands(scores, scored.quality, counts, study.evaluation.confidence)
        curves.append(curve.assign(method=method, variant=variant, n=len(scored.ids)))
    return curves


# -- length ----------------------------------------------------------------------------------------


def two_datasets(study: Study) -> list[Cell]:
    """One model on the paper's two datasets, or on those that stand for them."""
    supplied = grid.with_methods(study, [METHOD])
    first = grid.nearest(study, supplied, MODELS[0], DATASET)
    further = [cell for cell in supplied if cell.model == first[0].model and cell not in first]
    return [*first, *grid.nearest(study, further, dataset="coqa")]


def by_length(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """PRR within bins of length, which close once their share is in and never split a length."""
    parts = [part for cell in chosen for part in _prr_by_length(study, cell, inputs)]
    columns = ["dataset", "length", "variant", "value", "low", "high", "n", "note"]
    data = pd.concat(parts, ignore_index=True)[columns]
    titles = [study.datasets[cell.dataset].title for cell in chosen]
    facts = {"datasets": captions.listing(titles), "bins": BINS}
    return drawn_by_length(study, data).with_facts(facts)


def drawn_by_length(study: Study, data: pd.DataFrame) -> Figure:
    """The figure of its frame alone."""
    layout = Layout(("Length (tokens); below, n", "PRR"), height=2.2, sharex=False)
    return figure_style.figure(study, data, ["dataset"], "{dataset}", draw_by_bin, {}, layout)


def _prr_by_length(study: Study, cell: Cell, inputs: Inputs) -> list[pd.DataFrame]:
    """PRR of both forms within each bin of a cell's lengths."""
    forms = [(METHOD, variant, "") for variant in VARIANTS]
    scored = inputs.scores(cell)
    parts = []
    for question_bin in equal_bins(inputs.candidates(cell).lengths(), BINS):
        title = question_bin.title
        values = scored.prr(question_bin.members, f"length {title}", forms, **inputs.resampling)
        summary = values.summary(study.evaluation.confidence)
        parts.append(summary.assign(dataset=cell.dataset, length=title))
    return parts


# -- risk ------------------------------------------------------------------------------------------


def risk_coverage(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share wrong against share shown, by the distinct scores of the test half, and thresholds.

    Groups of questions count alike; intervals are of a bootstrap over groups.
    """
    (cell,) = chosen
    risks = study.decisions.risks
    decided = inputs.frame(cell.file("decisions"))
    test = _TestHalf(study, cell, inputs.scores(cell))
    thresholds = _guaranteed_thresholds(decided)
    data = _curves_and_thresholds(test, decided, thresholds)
    sentence = _sentence_of_thresholds(decided, thresholds)
    methods = _methods_drawn(data)
    if len(methods) < data["method"].nunique():
        sentence += f" {_sentence_of_methods(data, methods)}"
    facts = {"risks": _percents(risks), "thresholds": sentence, "drawn": test.resamples}
    return _drawn_risk(study, data, methods, sentence).with_facts(facts)


def _drawn_risk(study: Study, data: pd.DataFrame, methods: Sequence[str], sentence: str) -> Figure:
    """The figure of its frame, of which some methods are drawn, with a sentence below it."""
    risks = study.decisions.risks
    drawn = data[data["method"].isin(methods)]
    draw = partial(draw_risk_coverage, risks=risks, top=_top_of_risks(drawn, risks))
    layout = Layout(
        ("Share shown", "Share of it wrong"),
        height=1.5 if len(methods) > ACROSS else 2.0,
        across=ACROSS,
        before=f"{figure_style.thin_lines(study)} {sentence} ",
        legend_rows=2,
    )
    shown = figure_style.figure(study, drawn, ["method"], "{method}", draw, {}, layout)
    return replace(shown, data=data)


def _methods_drawn(data: pd.DataFrame) -> list[str]:
    """The methods that have a guaranteed threshold; where none has, some that stand for all."""
    guaranteed = list(data.loc[data["part"] == "guaranteed", "method"].unique())
    if guaranteed:
        return guaranteed
    methods = list(data["method"].unique())
    return [method for method in DRAWN_ANYWAY if method in methods] or methods[:ACROSS]


def _sentence_of_methods(data: pd.DataFrame, methods: Sequence[str]) -> str:
    """Which methods are drawn, of those of which the CSV has the points."""
    titles = captions.listing([captions.method_title(method) for method in methods])
    has_threshold = (data["part"] == "guaranteed").any()
    reason = " that have one" if has_threshold else ""
    counts = f"{len(methods)} of {data['method'].nunique()} methods"
    return f"Drawn: {counts}{reason}, {titles}; the CSV file has all."


def _curves_and_thresholds(
    test: _TestHalf, decided: pd.DataFrame, thresholds: pd.DataFrame
) -> pd.DataFrame:
    """The points of each form's curve, then the thresholds."""
    forms = decided[FORM].drop_duplicates().itertuples(index=False)
    curves = [test.curve(method, variant) for method, variant in forms]
    columns = [*FORM, "part", "score", "shown", "wrong", "low", "high", "risk"]
    points = pd.concat([*curves, thresholds], ignore_index=True)[columns]
    return points.assign(n=len(test.groups))


class _TestHalf:
    """The half of a cell's questions that calibrates no threshold, and resamples of its groups."""

    def __init__(self, study: Study, cell: Cell, scored: QuestionScores) -> None:
        pairs = zip(scored.ids, scored.groups, strict=True)
        name = bootstrap.draws_name(cell.dataset, pairs)
        self.scored = scored
        self.members = ~bootstrap.one_half(scored.groups, study.seed, name)
        self.groups = groups_of(scored.groups, self.members)
        self.wrong = (scored.quality <= study.main_quality.threshold)[self.members]
        self.confidence = study.evaluation.confidence
        self.resamples = min(BAND_RESAMPLES, study.evaluation.resamples)
        self.counts = bootstrap.resample_counts(
            self.groups, self.resamples, study.seed, f"risk_coverage {name}"
        )

    def curve(self, method: str, variant: str) -> pd.DataFrame:
        """The share wrong of what a form shows at each of its scores."""
        scores = self.scored.scores(method, variant)[self.members]
        curve = guaranteed_threshold.risk_coverage(
            scores, self.wrong, self.groups, self.counts, self.confidence
        )
        return curve.assign(method=method, variant=variant, part="curve", risk=np.nan)


def _guaranteed_thresholds(decided: pd.DataFrame) -> pd.DataFrame:
    """The thresholds that exist, with what each shows of the test half."""
    rows = decided.dropna(subset=["risk"]).set_index([*FORM, "risk", "metric"])["value"]
    by_metric = rows.astype(float).unstack(sort=False)
    wide = by_metric.reindex(columns=["threshold", "shown", "wrong"])
    wide = wide.dropna(subset=["threshold", "shown"])
    wide["wrong"] /= wide["shown"].where(wide["shown"] > 0)
    points = wide.reset_index().rename(columns={"threshold": "score"})
    return points.assign(part="guaranteed", low=np.nan, high=np.nan)


def _sentence_of_thresholds(decided: pd.DataFrame, thresholds: pd.DataFrame) -> str:
    """How many thresholds there are, what the others would take, and how the test half came out."""
    least = decided[decided["metric"] == "least"]
    needed = least[least["n"] < least["value"]].groupby("risk")["value"].max()
    text = f"{len(thresholds)} of {len(least)} thresholds have the guarantee"
    if len(needed):
        units = [str(guaranteed_threshold.units_needed(int(value))) for value in needed]
        calibrating = decided.loc[decided["metric"] == "threshold", "n"].iloc[0]
        text += (
            f": {_percents(list(needed.index))} wrong take at least {captions.listing(units)} "
            f"questions that calibrate, here {calibrating}"
        )
    above = int((thresholds["wrong"] > thresholds["risk"]).sum())
    if above:
        text += (
            f". On the test half {above} of them have a larger share wrong than α, as may happen "
            "by chance"
        )
    return f"{text}."


def _top_of_risks(data: pd.DataFrame, risks: Sequence[float]) -> float:
    """Where the axis of shares wrong ends; of a few answers shown the curve may leave it."""
    highest = float(data.loc[data["shown"] >= LITTLE, ["high", "wrong"]].max().max())
    return LOW_TOP if max(highest, *risks) < 0.5 else FULL_TOP


def _percents(risks: Sequence[float]) -> str:
    return captions.listing([f"{100 * risk:g}" for risk in risks]) + " %"


# -- reliability -----------------------------------------------------------------------------------


def reliability(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share right of the answers with a stated probability of being right, by bin of it."""
    rows = inputs.frame(chosen[0].file("decisions"))
    # Of each bin two rows: "p in …", the mean probability, and "right in …", the share right
    named = rows.join(rows["metric"].str.extract(r"^(?P<what>p|right) in (?P<bin>.*)"))
    keys = [*FORM, "bin"]
    stated = named[named["what"] == "p"].rename(columns={"value": "probability"})
    right = named[named["what"] == "right"].rename(columns={"value": "right"})
    data = right.merge(stated[[*keys, "probability"]], on=keys)
    data = data[[*keys, "probability", "right", "low", "high", "n"]]
    facts = {"n": int(rows.loc[rows["metric"] == "brier", "n"].max())}
    return drawn_reliability(study, data).with_facts(facts)


def drawn_reliability(study: Study, data: pd.DataFrame) -> Figure:
    """The figure of its frame alone."""
    labels = ("Mean p(right)", "Share right")
    layout = Layout(labels, height=1.5, across=ACROSS, questions=questions_in_bins)
    return figure_style.figure(study, data, ["method"], "{method}", draw_reliability, {}, layout)


def questions_in_bins(part: pd.DataFrame) -> float:
    """The questions in all bins of a panel together, by the form that has most."""
    return float(part.groupby("variant")["n"].sum().max())


def exhibits(_: Study) -> list[Exhibit]:
    drawn = partial(Exhibit, kind="figure", reads=SCORES)
    second_model = (MODELS[1], DATASET)
    with_graph_methods = partial(grid.with_methods, methods=GRAPH)
    of_decisions = partial(
        drawn,
        cells=partial(grid.with_methods, methods=()),
        near=second_model,
        beyond_paper=True,
    )
    return [
        BY_CANDIDATES.exhibit("abl_nsamples"),
        WITH_ENTROPY.exhibit("sement_different_nsamples"),
        drawn(
            "rebuttal_nsamples_across_data",
            cells=cells_with_curves,
            build=across_cells,
            models=MODELS,
        ),
        drawn("prr_curves", cells=with_graph_methods, near=second_model, build=curves_of_rejection),
        drawn(
            "abl_length",
            cells=two_datasets,
            reads=(*CANDIDATES, *SCORES),
            build=by_length,
            models=MODELS[:1],
        ),
        of_decisions("risk_coverage", reads=("decisions", *SCORES), build=risk_coverage),
        of_decisions("reliability", reads=("decisions",), build=reliability),
    ]
