"""``fig:sampling_vs_beamsearch``: one question; its samples repeat each other, its beams cover distinct answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq.exhibits import captions, exhibit_cells, figure_style
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.fixed_width_text import characters, one_line, wrapped
from beamuq.exhibits.worked_examples import MODEL, example_artifacts, read_answers
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure

DATASET, METHOD = "triviaqa", "Dissimilarity"


@dataclass(frozen=True)
class SamplesAndBeams(FigureExhibit):
    """One question: its samples repeat each other, its beams cover distinct answers."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """Candidates, scores, quality and questions of one model on TriviaQA."""
        return example_artifacts(study, DATASET)

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """The question of median redundancy among those with a repeated sample: typical, and chosen by rule."""
        files, size = self.artifacts(study), study.main.num_candidates
        candidates, scored = read_answers(inputs, files)
        redundancy = candidates.redundancy(study.main.sample, size)
        repeated = np.flatnonzero(redundancy > 0)
        among = repeated if len(repeated) else np.arange(len(redundancy))
        position = int(among[np.argsort(redundancy[among], kind="stable")][(len(among) - 1) // 2])
        key = candidates.ids[position]
        samples, beams = candidates.of(study.main.sample, size), candidates.of(study.main.beam, size)
        counts = (
            samples[samples["id"] == key].groupby("text", sort=False).size().sort_values(ascending=False, kind="stable")
        )
        beams = beams[beams["id"] == key]
        data = pd.DataFrame(
            [
                *(
                    ("samples", rank, str(text), n / counts.sum(), int(n))
                    for rank, (text, n) in enumerate(counts.items(), 1)
                ),
                *(
                    ("beams", rank, text, float(np.exp(logprob)), 1)
                    for rank, (text, logprob) in enumerate(zip(beams["text"], beams["logprob"], strict=True), 1)
                ),
            ],
            columns=["set", "rank", "text", "share", "count"],
        )
        data.insert(0, "id", key)
        asked, greedy = str(candidates.questions.loc[key, "question"]), str(candidates.greedy.loc[key, "text"])
        scores = {v: float(scored.scores(METHOD, v)[position]) for v in figure_style.VARIANTS}
        model = study.models[files[0].model].title
        title = f"Samples and beams of one question, {study.datasets[DATASET].title}, {model}"
        rule = (
            "among the questions with a repeated sample"
            if len(repeated)
            else "among all questions, no sample repeating"
        )
        sentences = [
            f"One question of {study.datasets[DATASET].title}, {model}. Left: the distinct answers among {size} "
            f"multinomial samples, by how often each was drawn. Right: the {len(beams)} beams with their sequence "
            f"probability, {captions.BEAM_ORDER}.",
            f"Chosen by rule, not by hand: the median by redundancy {rule}, in the study's order.",
            exhibit_cells.shown_instead(study, [MODEL], [files[0].model]),
        ]
        return self.figure(
            study,
            title,
            sentences,
            data,
            lambda title, note: _draw(title, note, asked, greedy, data, scores),
            quality=False,
        )


def _draw(
    title: str, note: str, asked: str, greedy: str, data: pd.DataFrame, scores: dict[str, float]
) -> matplotlib.figure.Figure:
    heading = [
        *wrapped(f"Question: {asked}", characters(figure_style.WIDTH - 0.2), 3),
        one_line(f"Greedy answer: {greedy or '(empty)'}", characters(figure_style.WIDTH - 0.2)),
    ]
    rows = int(data["rank"].max())
    figure = figure_style.canvas(0.17 * rows + 0.75, title, note, heading=heading)
    panels = figure.subplots(1, 2, sharex=True)
    for axes, (name, variant) in zip(panels, (("samples", "multinomial"), ("beams", "beamsearch")), strict=True):
        part, look = data[data["set"] == name], figure_style.VARIANTS[variant]
        axes.barh(part["rank"], part["share"], 0.7, color=look.colour, hatch=look.hatch, edgecolor=figure_style.BLACK)
        axes.set_yticks(part["rank"], [one_line(text or "(empty)", characters(1.2)) for text in part["text"]])
        for label in axes.get_yticklabels():
            label.set_parse_math(False)
            label.set_family(figure_style.FIXED_WIDTH)
        for rank, share, count in zip(part["rank"], part["share"], part["count"], strict=True):
            axes.text(share + 0.02, rank, f"{count}×" if name == "samples" else f"{share:.3f}", va="center")
        axes.set_ylim(rows + 0.6, 0.4)
        axes.set_xlim(0, 1.2)
        axes.set_xticks([0, 0.5, 1])
        axes.set_title(f"{name}: {METHOD} {scores[variant]:.3f}")
    panels[0].set_xlabel("Share of samples")
    panels[1].set_xlabel("Sequence probability p")
    return figure
