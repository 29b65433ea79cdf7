"""Worked examples: a question, its greedy answer, every sample and beam, and both dissimilarities, as a panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from beamuq.exhibits import captions, exhibit_cells, figure_style
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltFigure, FigureExhibit
from beamuq.exhibits.fixed_width_text import CHARACTER, characters, one_line, wrapped, write
from beamuq.exhibits.question_scores import QuestionScores
from beamuq.exhibits.redundancy_and_covered_mass import CandidateMeasures
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

MODEL, METHOD = "gemma-3-4b-base", "Dissimilarity"
# Inches: a panel's width, where its beams begin, its margin, where texts begin behind their labels, a line's height.
WIDTH, MIDDLE, INSET, INDENT, LINE = figure_style.WIDTH - 0.1, 2.5, 0.08, 0.85, 0.142
STORY_LINES = 5
# Not clipped: the name of a clip in an SVG file holds the last digits of the layout, which differ from run to run.
RULE: dict[str, Any] = {"color": figure_style.BLACK, "linewidth": 0.6, "clip_on": False}


@dataclass(frozen=True)
class WorkedExample:
    """What one panel shows; ``beams`` with their probabilities."""

    id: str
    story: str
    question: str
    greedy: str
    reference: str
    samples: tuple[str, ...]
    beams: tuple[tuple[str, float], ...]
    multinomial: float
    beamsearch: float


@dataclass(frozen=True)
class WorkedExamples(FigureExhibit):
    """``count`` questions of a dataset, chosen by rule: the first wrong answer, then the first right one."""

    dataset: str
    count: int

    def artifacts(self, study: Study) -> list[Artifact]:
        """Candidates, questions, scores and quality of one cell of the main recipe."""
        return example_artifacts(study, self.dataset)

    def build(self, study: Study, inputs: Inputs) -> BuiltFigure:
        """A panel a question."""
        files = self.artifacts(study)
        candidates, scored = read_answers(inputs, files)
        chosen, rule = _chosen(scored, study.main_quality.threshold, self.count)
        examples = [_example(study, self.dataset, candidates, scored, position) for position in chosen]
        model, name, size = study.models[files[0].model].title, study.datasets[self.dataset].title, len(examples)
        title = f"Worked example{'s' if size > 1 else ''}, {name}, {model}"
        each = study.main.num_candidates
        sentences = [
            f"Worked examples of {model} on {name}: the greedy answer, {each} multinomial samples in the order "
            f"drawn, {each} beams with their sequence probability, and {METHOD} over each.",
            f"Chosen by rule, not by hand: {rule} "
            f"(right: {study.main_quality.title} > {study.main_quality.threshold:g}). Long texts are cut with an "
            "ellipsis; the CSV file has them whole.",
            exhibit_cells.shown_instead(study, [MODEL], [files[0].model]),
        ]
        return self.figure(study, title, sentences, _frame(examples), lambda title, note: _draw(title, note, examples))


def example_artifacts(study: Study, dataset: str) -> list[Artifact]:
    """Candidates, questions, scores and quality of the paper's model, or of another that the study has."""
    return exhibit_cells.answer_artifacts(study, *exhibit_cells.one_cell(study, MODEL, dataset, study.main.scorer))


def read_answers(inputs: Inputs, files: Sequence[Artifact]) -> tuple[CandidateMeasures, QuestionScores]:
    """What :func:`beamuq.exhibits.exhibit_cells.answer_artifacts` names."""
    candidates, questions, scores, quality = files
    return CandidateMeasures(inputs, candidates, questions), QuestionScores(inputs, scores, quality, questions)


def _chosen(scored: QuestionScores, threshold: float, count: int) -> tuple[list[int], str]:
    right = scored.quality > threshold
    wrongs, rights = np.flatnonzero(~right), np.flatnonzero(right)
    if count == 1:
        if len(wrongs):
            return [int(wrongs[0])], "the first question in the study's order with a wrong greedy answer"
        return [0], "the first question in the study's order, no greedy answer being wrong"
    if len(wrongs) and len(rights):
        rule = "the first question in the study's order with a wrong greedy answer, then the first with a right one"
        return [int(wrongs[0]), int(rights[0])], rule
    missing = "wrong" if len(rights) else "right"
    return list(range(min(2, len(right)))), f"the first two questions in the study's order, no answer being {missing}"


def _example(
    study: Study, dataset: str, candidates: CandidateMeasures, scored: QuestionScores, position: int
) -> WorkedExample:
    key = scored.ids[position]
    asked = candidates.questions.loc[key]
    samples = candidates.of(study.main.sample, study.main.num_candidates)
    beams = candidates.of(study.main.beam, study.main.num_candidates)
    samples, beams = samples[samples["id"] == key], beams[beams["id"] == key]
    return WorkedExample(
        id=key,
        story=asked["context"][0]["text"] if study.datasets[dataset].adapter == "coqa" else "",
        question=asked["question"],
        greedy=str(candidates.greedy.loc[key, "text"]),
        reference=asked["references"][0],
        samples=tuple(samples["text"]),
        beams=tuple(zip(beams["text"], np.exp(beams["logprob"].to_numpy()).tolist(), strict=True)),
        multinomial=float(scored.scores(METHOD, captions.MULTINOMIAL)[position]),
        beamsearch=float(scored.scores(METHOD, captions.BEAMSEARCH)[position]),
    )


def _frame(examples: Sequence[WorkedExample]) -> pd.DataFrame:
    rows: list[tuple[str, str, int | None, str, float | None]] = []
    for example in examples:
        for part in ("story", "question", "greedy", "reference"):
            text = getattr(example, part)
            rows += [(example.id, part, None, text, None)] if text else []
        rows += [(example.id, "sample", rank, text, None) for rank, text in enumerate(example.samples)]
        rows += [(example.id, "beam", rank, text, p) for rank, (text, p) in enumerate(example.beams)]
        rows.append((example.id, captions.method_title(METHOD), None, "", example.multinomial))
        rows.append(
            (
                example.id,
                captions.method_title(METHOD, captions.BEAMSEARCH),
                None,
                "",
                example.beamsearch,
            )
        )
    return pd.DataFrame(rows, columns=["id", "part", "rank", "text", "value"]).astype({"rank": "Int64"})


def _draw(title: str, note: str, examples: Sequence[WorkedExample]) -> matplotlib.figure.Figure:
    heads = [_head(example) for example in examples]
    heights = [_height(example, head) for example, head in zip(examples, heads, strict=True)]
    figure = figure_style.canvas(sum(heights) + 0.1 * len(examples), title, note)
    panels = figure.subplots(len(examples), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, example, head, height in zip(panels, examples, heads, heights, strict=True):
        axes.set_xlim(0, WIDTH)
        axes.set_ylim(height, 0)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(True)
        axes.spines[:].set_color(figure_style.GREY)
        _panel(axes, example, head)
    return figure


def _head(example: WorkedExample) -> list[tuple[str, list[str]]]:
    """What stands above the columns: a label, and its text in lines."""
    parts = [("Story:", example.story, STORY_LINES), ("Question:", example.question, 4)]
    parts += [("Greedy:", example.greedy, 2), ("Reference:", example.reference, 2)]
    room = characters(WIDTH - INDENT - INSET)
    return [(label, wrapped(text or "(empty)", room, most)) for label, text, most in parts if text or label != "Story:"]


def _height(example: WorkedExample, head: Sequence[tuple[str, list[str]]]) -> float:
    """Inches that a panel takes."""
    rows = sum(len(lines) for _, lines in head) + max(len(example.samples), len(example.beams)) + 3
    return rows * LINE + 4 * INSET


def _panel(axes: matplotlib.axes.Axes, example: WorkedExample, head: Sequence[tuple[str, list[str]]]) -> None:
    y = INSET
    for label, lines in head:
        write(axes, INSET, y, label, bold=True)
        for line in lines:
            write(axes, INDENT, y, line)
            y += LINE
    y += INSET
    axes.hlines(y, INSET, WIDTH - INSET, **RULE)
    top = y
    y += 0.03
    write(axes, INSET, y, "Samples", bold=True)
    write(axes, MIDDLE + INSET, y, "Beams", bold=True)
    write(axes, WIDTH - INSET, y, "p", right=True)
    y += LINE
    of_samples, of_beams = characters(MIDDLE - 2 * INSET), characters(WIDTH - MIDDLE - 2 * INSET) - len(" 0.000")
    for position in range(max(len(example.samples), len(example.beams))):
        if position < len(example.samples):
            write(axes, INSET, y, one_line(example.samples[position] or "(empty)", of_samples))
        if position < len(example.beams):
            text, p = example.beams[position]
            write(axes, MIDDLE + INSET, y, one_line(text or "(empty)", of_beams))
            write(axes, WIDTH - INSET, y, f"{p:.3f}", right=True, grey=True)
        y += LINE
    y += 0.03
    axes.vlines(MIDDLE, top, y, **RULE)
    axes.hlines(y, INSET, WIDTH - INSET, **RULE)
    for label, value in (
        (captions.method_title(METHOD), example.multinomial),
        (captions.method_title(METHOD, captions.BEAMSEARCH), example.beamsearch),
    ):
        write(axes, INSET, y + 0.04, f"{label}:", bold=True)
        write(axes, INSET + CHARACTER * (len(label) + 2), y + 0.04, f"{value:.3f}")
        y += LINE
