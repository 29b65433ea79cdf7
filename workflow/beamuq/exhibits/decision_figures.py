"""Risk against coverage, and probabilities against what is right: a panel a method of one cell."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq.evaluation import bootstrap
from beamuq.evaluation.probability_of_being_right import BIN_NAMES
from beamuq.exhibits import captions, exhibit_cells, figure_style
from beamuq.exhibits.decisions_table import CellDecisions
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.question_scores import Floats, QuestionScores
from beamuq.exhibits.rejection_curves import BAND_RESAMPLES, DATASET, MODEL
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

ACROSS = 4
LITTLE = 0.1  # of so few answers shown the curves may leave the panel
ONE_FORM = figure_style.SeriesStyle("one form", figure_style.GREEN, "-", "^")
GUARANTEED: dict[str, Any] = {"markersize": 6, "markeredgecolor": figure_style.BLACK}
LOOKS = {**figure_style.VARIANTS, "": ONE_FORM}


@dataclass(frozen=True)
class RiskCoverage(FigureExhibit):
    """Share wrong of the most certain answers of the test half, by how many are shown, with the guaranteed points."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Decisions, scores, quality and questions of one main cell."""
        decisions = _decisions(study)
        return [decisions, *exhibit_cells.score_artifacts(study, decisions.model, decisions.dataset)]

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """Curves over the distinct scores of the test half, groups counting alike; bootstrap bands over them."""
        decisions, *files = self.artifacts(study)
        cell, found = CellDecisions(inputs, decisions), QuestionScores(inputs, *files)
        name = bootstrap.draws_name(decisions.dataset, zip(found.ids, found.groups, strict=True))
        test = ~bootstrap.one_half(found.groups, study.seed, name)
        groups = [group for group, tested in zip(found.groups, test, strict=True) if tested]
        resamples = min(BAND_RESAMPLES, study.evaluation.resamples)
        counts = bootstrap.resample_counts(groups, resamples, study.seed, f"{self.label} {name}")
        _, unit, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        weights = (1.0 / sizes[unit])[:, None] * np.column_stack((np.ones(len(groups)), counts))
        wrong = (found.quality <= study.main_quality.threshold)[test]
        frames = [
            _curve(found.scores(method, variant)[test], wrong, weights, study.evaluation.confidence).assign(
                method=method, variant=variant
            )
            for method, variants in cell.forms.items()
            for variant in variants
        ]
        points = _points(study, cell)
        data = pd.concat([*frames, points], ignore_index=True)[COLUMNS].assign(n=int(test.sum()))
        where = _where(study, decisions)
        told, risks = _told(points, cell, study), study.decisions.risks
        sentences = [
            f"Share wrong ({study.main_quality.title} ≤ {study.main_quality.threshold:g}) of the most certain "
            f"answers against how many are shown, {where}: the half of the questions that calibrates no threshold, "
            f"n = {int(test.sum())}. The right end is the share wrong of all.",
            f"Large marks: the thresholds found on the other half, at most {_listed(risks)} wrong (dotted "
            f"lines) with confidence {100 * study.decisions.confidence:g} %, for all of the cell together.",
            told,
            f"Bands: {captions.confidence(study)} intervals of {resamples} bootstrap resamples; the fewer are "
            "shown the less is known.",
        ]
        reached = float(data.loc[data["shown"] >= LITTLE, ["high", "wrong"]].max().max())
        top = 0.52 if max(reached, *risks) < 0.5 else 1.02

        def draw(title: str, note: str) -> matplotlib.figure.Figure:
            axes = ("Share shown", "Share wrong of it")
            panel = functools.partial(_draw_curves, risks=risks)
            return _drawn(title, f"{told} {note}", data, panel, axes, top)

        return self.figure(study, f"Risk against coverage, {where}, n = {int(test.sum())}", sentences, data, draw)


@dataclass(frozen=True)
class ReliabilityFigure(FigureExhibit):
    """Share right of the answers of which a probability of being right is said, in bins of it."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Decisions of one main cell."""
        return [_decisions(study)]

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """Every bin that holds an answer."""
        (file,) = self.artifacts(study)
        cell, where = CellDecisions(inputs, file), _where(study, file)
        rows = []
        for method, variants in cell.forms.items():
            for variant in variants:
                for name in BIN_NAMES:
                    said, right = (cell[method, variant, f"{of} in {name}", None] for of in ("p", "right"))
                    if right.n:
                        rows.append((method, variant, name, said.value, right.value, right.low, right.high, right.n))
        columns = ["method", "variant", "bin", "probability", "right", "low", "high", "n"]
        data = pd.DataFrame(rows, columns=columns).astype(dict.fromkeys(columns[3:7], float))
        n = next((row.n for (_, _, metric, _), row in cell.rows.items() if metric == "brier"), 0)
        sentences = [
            f"Share right ({study.main_quality.title} > {study.main_quality.threshold:g}) of the answers in each "
            f"of ten bins of their probability of being right, against its mean; {where}, n = {n} questions. "
            "On the line probabilities hold; below it they promise too much.",
            "Probabilities are Venn–Abers', its two merged into one, cross-fitted: no answer calibrates itself. "
            "They are of a method's rank, so a method that knows nothing has the accuracy for all and lies on the "
            "line too.",
            f"The larger the mark, the more answers. Bars: {captions.confidence(study)} Wilson intervals, their n "
            "cut by the design effect where questions come in stories.",
        ]

        def draw(title: str, note: str) -> matplotlib.figure.Figure:
            return _drawn(title, note, data, _draw_bins, ("Mean p(right)", "Share right"))

        return self.figure(study, f"Probability of being right, {where}, n = {n}", sentences, data, draw)


COLUMNS = ["method", "variant", "part", "score", "shown", "wrong", "low", "high", "risk"]


def _decisions(study: Study) -> Artifact:
    """Those of the model and dataset of the paper's rejection curves, or the first that the study has."""
    datasets = next(iter(exhibit_cells.main_cells(study).values()))
    dataset = DATASET if DATASET in datasets else datasets[0]
    model, _ = exhibit_cells.one_cell(study, MODEL, dataset, study.main.scorer)
    return Artifact("decisions", dataset, model, study.main.recipe, study.main.scorer)


def _where(study: Study, file: Artifact) -> str:
    return f"{study.datasets[file.dataset].title}, {study.models[file.model].title}"


def _listed(risks: Sequence[float]) -> str:
    return captions.listing([f"{100 * risk:g}" for risk in risks]) + " %"


def _curve(scores: Floats, wrong: NDArray[np.bool_], weights: Floats, confidence: float) -> pd.DataFrame:
    """At each distinct score: shares shown and wrong of these, by the first column of weights [N, 1 + R]."""
    order = np.argsort(scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) > 0, True))
    shown, failed = (np.cumsum(each[order], axis=0)[ends] for each in (weights, weights * wrong[:, None]))
    with np.errstate(invalid="ignore"):
        risk = failed / shown
    low, high = np.full(len(ends), np.nan), np.full(len(ends), np.nan)
    known = np.isnan(risk).mean(axis=1) <= bootstrap.MOST_UNDEFINED
    low[known], high[known] = np.nanquantile(risk[known, 1:], [(1 - confidence) / 2, (1 + confidence) / 2], axis=1)
    return pd.DataFrame(
        {"part": "curve", "score": scores[order][ends], "shown": shown[:, 0] / shown[-1, 0], "wrong": risk[:, 0]}
        | {"low": low, "high": high, "risk": np.nan}
    )


def _points(study: Study, cell: CellDecisions) -> pd.DataFrame:
    rows = []
    for method, variants in cell.forms.items():
        for variant in variants:
            for risk in study.decisions.risks:
                value = cell[method, variant, "threshold", risk].value
                shown, wrong = (cell[method, variant, name, risk].value for name in ("shown", "wrong"))
                if value is not None and shown is not None and wrong is not None:
                    of = wrong / shown if shown else np.nan
                    rows.append((method, variant, "guaranteed", value, shown, of, np.nan, np.nan, risk))
    return pd.DataFrame(rows, columns=COLUMNS).astype(dict.fromkeys(COLUMNS[3:], float))


def _told(points: pd.DataFrame, cell: CellDecisions, study: Study) -> str:
    """How many of the thresholds there are, what the others would take, and where the test half came out above α."""
    forms = [(method, variant) for method, variants in cell.forms.items() for variant in variants]
    count = f"{len(points)} of {cell.tried(len(study.decisions.risks))} thresholds have the guarantee"
    refused = {
        risk: needed for risk in study.decisions.risks if (needed := max(cell.refused(form, risk) for form in forms))
    }
    if refused:
        units = cell[(*forms[0], "threshold", next(iter(refused)))].n
        takes = captions.listing([str(each) for each in refused.values()])
        count += f": {_listed(list(refused))} wrong take at least {takes} questions that calibrate, here {units}"
    told = [f"{count}."]
    if above := int((points["wrong"] > points["risk"]).sum()):
        told.append(f"On the test half {above} of them have a larger share wrong than α, as may happen by chance.")
    return " ".join(told)


def _drawn(
    title: str,
    note: str,
    data: pd.DataFrame,
    draw_panel: Callable[[matplotlib.axes.Axes, pd.DataFrame], None],
    labels: tuple[str, str],
    top: float = 1.02,
) -> matplotlib.figure.Figure:
    """A panel a method, with whatever draws it."""
    methods = list(dict.fromkeys(data["method"]))
    across = min(ACROSS, len(methods))
    rows = -(-len(methods) // across)
    figure = figure_style.canvas(1.35 * rows + 0.2, title, note, legend_rows=1)
    grid = figure.subplots(rows, across, sharex=True, sharey=True, squeeze=False)
    for axes in grid.flat[len(methods) :]:
        axes.set_axis_off()
    for axes, method in zip(grid.flat, methods, strict=False):
        part = data[data["method"] == method]
        draw_panel(axes, part)
        axes.set_title(captions.method_title(method), parse_math=False)
        axes.set_xlim(0, 1.02)
        axes.set_ylim(0, top)
        axes.set_xticks([0, 0.5, 1], ["0", ".5", "1"])
        axes.set_yticks([0, 0.5, 1] if top > 1 else [0, 0.2, 0.4], ["0", ".5", "1"] if top > 1 else ["0", ".2", ".4"])
    for axes in grid.flat[max(0, len(methods) - across) : len(methods)]:
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(labels[0])
    for axes in grid[:, 0]:
        axes.set_ylabel(labels[1])
    _legend(figure, grid.flat[0], data)
    return figure


def _legend(figure: matplotlib.figure.Figure, axes: matplotlib.axes.Axes, data: pd.DataFrame) -> None:
    """Of all forms, whichever the first panel has."""
    for look in sorted({_look(variant) for variant in data["variant"]}, key=list(LOOKS.values()).index):
        line = look.line if "risk" in data else ""
        axes.plot([], [], color=look.colour, linestyle=line, marker="" if line else look.marker, label=look.title)
    figure_style.legend(figure, axes, 5)


def _look(variant: str) -> figure_style.SeriesStyle:
    return LOOKS.get(variant, ONE_FORM)


def _draw_curves(axes: matplotlib.axes.Axes, data: pd.DataFrame, risks: Sequence[float]) -> None:
    for risk in risks:
        alpha = axes.axhline(risk, color=figure_style.GREY, linestyle=":", linewidth=0.6)
    alpha.set_label("α")
    axes.plot([], [], "o", **GUARANTEED, color="white", label="guaranteed")
    for variant in dict.fromkeys(data["variant"]):
        look = _look(variant)
        curve, points = (data[(data["variant"] == variant) & (data["part"] == of)] for of in ("curve", "guaranteed"))
        axes.fill_between(curve["shown"], curve["low"], curve["high"], color=look.colour, alpha=0.12, linewidth=0)
        axes.plot(curve["shown"], curve["wrong"], color=look.colour, linestyle=look.line)
        (marks,) = axes.plot(points["shown"], points["wrong"], look.marker, color=look.colour, zorder=3, **GUARANTEED)
        marks.set(clip_on=False, in_layout=False)


def _draw_bins(axes: matplotlib.axes.Axes, data: pd.DataFrame) -> None:
    axes.plot([0, 1], [0, 1], color=figure_style.GREY, linewidth=0.6)
    for variant in dict.fromkeys(data["variant"]):
        look, part = _look(variant), data[data["variant"] == variant]
        errors = figure_style.error_lengths(*(part[name].to_numpy() for name in ("right", "low", "high")))
        axes.errorbar(part["probability"], part["right"], errors, color=look.colour, linestyle="", elinewidth=0.8)
        sizes = 4 + 40 * part["n"] / part["n"].sum()
        axes.scatter(
            part["probability"], part["right"], sizes, look.colour, marker=look.marker, clip_on=False, zorder=3
        )
