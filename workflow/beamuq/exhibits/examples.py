"""Worked examples: a question, its greedy answer, every sample and beam, and both dissimilarities, as a panel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from beamuq.artifacts import Artifact
from beamuq.exhibits import figure_style, lettering, study_grid, wording
from beamuq.exhibits.candidate_measures import Candidates
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Figure
from beamuq.exhibits.question_scores import QuestionScores
from beamuq.study import Study

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

MODEL, METHOD = "gemma-3-4b-base", "Dissimilarity"
LINE, INSET, GAP = 0.142, 0.08, 0.05  # inches
STORY_LINES = 5


@dataclass(frozen=True)
class Example:
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


def needs(study: Study, dataset: str) -> list[Artifact]:
    """Candidates, questions, scores and quality of one cell of the main recipe."""
    return study_grid.answer_artifacts(study, *study_grid.one_cell(study, MODEL, dataset, study.main.scorer))


def read(inputs: Inputs, files: Sequence[Artifact]) -> tuple[Candidates, QuestionScores]:
    """What :func:`needs` names."""
    candidates, questions, scores, quality = files
    return Candidates(inputs, candidates, questions), QuestionScores(inputs, scores, quality, questions)


def build(label: str, study: Study, inputs: Inputs, dataset: str, count: int) -> Figure:
    """``count`` panels of questions chosen by rule: the first wrong answer, then the first right one."""
    files = needs(study, dataset)
    candidates, scored = read(inputs, files)
    chosen, rule = _chosen(scored, study.quality.threshold, count)
    examples = [_example(study, dataset, candidates, scored, position) for position in chosen]
    model, name = study.models[files[0].model].title, study.datasets[dataset].title
    title = wording.titled(study, f"Worked example{'s' if len(examples) > 1 else ''}, {name}, {model}")
    caption = wording.caption(
        study,
        [
            f"Worked examples of {model} on {name}: the greedy answer, {study.main.num_candidates} multinomial samples "
            f"in the order drawn, {study.main.num_candidates} beams with their sequence probability, and {METHOD} over "
            "each.",
            f"Chosen by rule, not by hand: {rule} "
            f"(right: {study.quality.title} > {study.quality.threshold:g}). Long texts are cut with an ellipsis; the "
            "CSV file has them whole.",
            study_grid.shown_instead(study, [MODEL], [files[0].model]),
        ],
        scorers=[study.main.scorer],
        quality=True,
    )
    note = wording.footnote(study, [study.main.scorer], quality=True)
    return Figure(label, title, caption, _frame(examples), lambda: _draw(title, note, examples))


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


def _example(study: Study, dataset: str, candidates: Candidates, scored: QuestionScores, position: int) -> Example:
    key = scored.ids[position]
    asked = candidates.questions.loc[key]
    samples = candidates.of(study.main.sample, study.main.num_candidates)
    beams = candidates.of(study.main.beam, study.main.num_candidates)
    samples, beams = samples[samples["id"] == key], beams[beams["id"] == key]
    return Example(
        id=key,
        story=asked["context"][0]["text"] if study.datasets[dataset].adapter == "coqa" else "",
        question=asked["question"],
        greedy=str(candidates.greedy.loc[key, "text"]),
        reference=asked["references"][0],
        samples=tuple(samples["text"]),
        beams=tuple(zip(beams["text"], np.exp(beams["logprob"].to_numpy()).tolist(), strict=True)),
        multinomial=float(scored.scores(METHOD, wording.MULTINOMIAL)[position]),
        beamsearch=float(scored.scores(METHOD, wording.BEAMSEARCH)[position]),
    )


def _frame(examples: Sequence[Example]) -> pd.DataFrame:
    rows: list[tuple[str, str, int | None, str, float | None]] = []
    for example in examples:
        for part in ("story", "question", "greedy", "reference"):
            text = getattr(example, part)
            rows += [(example.id, part, None, text, None)] if text else []
        rows += [(example.id, "sample", rank, text, None) for rank, text in enumerate(example.samples)]
        rows += [(example.id, "beam", rank, text, p) for rank, (text, p) in enumerate(example.beams)]
        rows.append((example.id, wording.method_title(METHOD), None, "", example.multinomial))
        rows.append((example.id, wording.method_title(METHOD, wording.BEAMSEARCH), None, "", example.beamsearch))
    return pd.DataFrame(rows, columns=["id", "part", "rank", "text", "value"]).astype({"rank": "Int64"})


def _draw(title: str, note: str, examples: Sequence[Example]) -> matplotlib.figure.Figure:
    width = (figure_style.WIDTH - 0.1) / len(examples) - 0.1
    heads = [_head(example, width - 2 * INSET) for example in examples]
    lines = max(map(len, heads)) + max(max(len(e.samples), len(e.beams)) for e in examples) + 3
    height = lines * LINE + 3 * INSET + 0.1
    figure = figure_style.canvas(height, title, note)
    panels = figure.subplots(1, len(examples), squeeze=False)[0]
    for axes, example, head in zip(panels, examples, heads, strict=True):
        axes.set_xlim(0, width)
        axes.set_ylim(height, 0)
        axes.set_xticks([])
        axes.set_yticks([])
        axes.spines[:].set_visible(True)
        axes.spines[:].set_color(figure_style.GREY)
        _panel(axes, example, head, width, max(map(len, heads)))
    return figure


def _head(example: Example, width: float) -> list[tuple[str, str]]:
    """Lines above the columns: a bold label where one starts, and text."""
    found: list[tuple[str, str]] = []
    parts = [("Story:", example.story, STORY_LINES), ("Question:", example.question, 4)]
    parts += [("Greedy:", example.greedy, 2), ("Reference:", example.reference, 2)]
    for label, text, most in parts:
        if label != "Story:" or text:
            lines = lettering.wrap(
                text or "(empty)", width, most, first=width - lettering.width(label, bold=True) - GAP
            )
            found += [(label if position == 0 else "", line) for position, line in enumerate(lines)]
    return found


def _panel(
    axes: matplotlib.axes.Axes, example: Example, head: Sequence[tuple[str, str]], width: float, rows: int
) -> None:
    write: Callable[..., object] = lettering.writer(axes)
    y = INSET
    for label, text in head:
        indent = lettering.width(label, bold=True) + GAP if label else 0.0
        if label:
            write(INSET, y, label, bold=True)
        write(INSET + indent, y, text)
        y += LINE
    y = INSET * 2 + rows * LINE
    middle = INSET + 0.42 * (width - 2 * INSET)
    axes.hlines(y, INSET, width - INSET, color=figure_style.BLACK, linewidth=0.6)
    write(INSET, y + 0.03, "Samples", bold=True)
    write(middle + 0.06, y + 0.03, "Beams", bold=True)
    write(width - INSET, y + 0.03, "p", right=True)
    y += LINE + 0.03
    top = y
    for position in range(max(len(example.samples), len(example.beams))):
        if position < len(example.samples):
            write(INSET, y, lettering.cut(example.samples[position] or "(empty)", middle - INSET - 0.05))
        if position < len(example.beams):
            text, p = example.beams[position]
            room = width - INSET - middle - 0.1 - lettering.width(" 0.000")
            write(middle + 0.06, y, lettering.cut(text or "(empty)", room))
            write(width - INSET, y, f"{p:.3f}", right=True, grey=True)
        y += LINE
    axes.vlines(middle, top - LINE, y, color=figure_style.BLACK, linewidth=0.6)
    axes.hlines(y + 0.02, INSET, width - INSET, color=figure_style.BLACK, linewidth=0.6)
    for label, value in (
        (wording.method_title(METHOD), example.multinomial),
        (wording.method_title(METHOD, wording.BEAMSEARCH), example.beamsearch),
    ):
        write(INSET, y + 0.05, f"{label}:", bold=True)
        write(INSET + lettering.width(f"{label}:", bold=True) + GAP, y + 0.05, f"{value:.3f}")
        y += LINE
