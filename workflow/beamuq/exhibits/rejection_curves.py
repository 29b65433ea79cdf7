"""``fig:prr_curves``: rejection curves of three methods, samples against beams, with oracle and random."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq.evaluation import bootstrap, prr_and_auc
from beamuq.exhibits import captions, exhibit_cells, figure_style
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.question_scores import Floats, QuestionScores
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure

MODEL, DATASET = "llama-3.1-8b-base", "triviaqa"
BAND_RESAMPLES = 500  # a band is drawn to the pixel, not to the third digit


@dataclass(frozen=True)
class RejectionCurvesFigure(FigureExhibit):
    """Rejection curves of three methods, samples against beams, with oracle and random."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Scores, quality and questions of one model on TriviaQA."""
        return exhibit_cells.score_artifacts(study, *exhibit_cells.one_cell(study, MODEL, DATASET, study.main.scorer))

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """Mean quality of what is retained against the share rejected, ties by expected value; bootstrap bands."""
        files = self.artifacts(study)
        found = QuestionScores(inputs, *files)
        resamples = min(BAND_RESAMPLES, study.evaluation.resamples)
        counts = bootstrap.resample_counts(found.groups, resamples, study.seed, f"prr_curves {files[0].model}")
        frames = []
        for method in captions.GRAPH:
            for variant in (captions.MULTINOMIAL, captions.BEAMSEARCH):
                scores = found.scores(method, variant)
                frames.append(_curves(scores, found.quality, counts, study.evaluation.confidence, method, variant))
        data = pd.concat(frames, ignore_index=True)
        model, dataset = study.models[files[0].model].title, study.datasets[DATASET].title
        title = f"Prediction-rejection curves, {dataset}, {model}"
        sentences = [
            f"Mean quality ({study.main_quality.title}) of the retained answers as the most uncertain are "
            f"rejected, for {captions.listing(captions.GRAPH)} over samples and beams, with the oracle and random "
            "orders. "
            f"{dataset}, {model}, n = {len(found.quality)} questions.",
            f"PRR is computed up to a rejection rate of {study.evaluation.max_rejection[0]:g}, the vertical line.",
            f"Bands: {captions.confidence(study)} intervals of {resamples} bootstrap resamples of the questions.",
            exhibit_cells.shown_instead(study, [MODEL], [files[0].model]),
        ]
        limit, n = study.evaluation.max_rejection[0], len(found.quality)
        return self.figure(study, title, sentences, data, lambda title, note: _draw(title, note, data, limit, n))


def _curves(
    scores: Floats,
    quality: Floats,
    counts: prr_and_auc.Counts,
    confidence: float,
    method: str,
    variant: str,
) -> pd.DataFrame:
    drawn = prr_and_auc.rejection_curves(scores, quality)
    replicates = []
    for column in counts.T:
        again = prr_and_auc.rejection_curves(np.repeat(scores, column), np.repeat(quality, column))
        replicates.append(np.interp(drawn.rejected, again.rejected, again.uncertainty))
    low, high = np.quantile(replicates, [(1 - confidence) / 2, (1 + confidence) / 2], axis=0)
    return pd.DataFrame(
        {
            "method": method,
            "variant": variant,
            "rejected": drawn.rejected,
            "quality": drawn.uncertainty,
            "low": low,
            "high": high,
            "oracle": drawn.oracle,
            "random": drawn.random,
            "n": len(quality),
        }
    )


def _draw(title: str, note: str, data: pd.DataFrame, max_rejection: float, n: int) -> matplotlib.figure.Figure:
    figure = figure_style.canvas(2.2, title, note, legend_rows=1)
    panels = figure.subplots(1, len(captions.GRAPH), sharex=True, sharey=True)
    for axes, method in zip(panels, captions.GRAPH, strict=True):
        part = data[data["method"] == method]
        for variant, look in figure_style.VARIANTS.items():
            curve = part[part["variant"] == variant]
            axes.fill_between(
                curve["rejected"], curve["low"], curve["high"], color=look.colour, alpha=0.18, linewidth=0
            )
            axes.plot(curve["rejected"], curve["quality"], color=look.colour, linestyle=look.line, label=look.title)
        axes.plot(curve["rejected"], curve["oracle"], color=figure_style.BLACK, linewidth=0.9, label="oracle")
        axes.plot(
            curve["rejected"],
            curve["random"],
            color=figure_style.GREY,
            linestyle=(0, (5, 2)),
            linewidth=0.9,
            label="random",
        )
        axes.axvline(max_rejection, color=figure_style.BLACK, linestyle=":", linewidth=0.9, label="max rejection")
        axes.set_title(f"{method}\nn = {n}")
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.5, 1], ["0", "0.5", "1"])
    panels[1].set_xlabel("Rejected share of answers")
    panels[0].set_ylabel("Mean quality of what is retained")
    figure_style.legend(figure, panels[0], 5)
    return figure
