"""The figures of single questions: their samples and beams as bars, and worked examples as text."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from beamuq.exhibits import captions, cells, figure_style
from beamuq.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.exhibit import CANDIDATES, SCORES, Exhibit, Figure
from beamuq.exhibits.figure_style import BLACK, FIXED_WIDTH, GREY, TEXT, VARIANTS
from beamuq.exhibits.inputs import Inputs
from beamuq.study_config import Study

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes

MODEL, METHOD = "gemma-3-4b-base", "Dissimilarity"
# Inches: a panel's width, where its beams begin, its margin, where texts begin behind their labels, a line's height.
WIDTH, MIDDLE, INSET, INDENT, LINE = figure_style.WIDTH - 0.1, 2.5, 0.08, 0.85, 0.142
CHARACTER = 0.60205 * TEXT / 72  # inches that a character of the fixed-width face takes
PARTS = {"story": ("Story:", 5), "question": ("Question:", 4), "greedy": ("Greedy:", 2), "reference": ("Reference:", 2)}
"""What stands above the columns: its label, and the most lines it may take."""


def shown(dataset: str) -> Any:
    """The main cell that stands for the paper's model on a dataset: for CoQA, another with stories where there is."""

    def chosen(study: Study) -> list[Cell]:
        found = cells.with_methods(study, [METHOD])
        stories = [cell for cell in found if study.datasets[cell.dataset].adapter == "coqa"]
        return [cells.nearest(study, stories if dataset == "coqa" and stories else found, MODEL, dataset)]

    return chosen


# -- samples and beams of one question ---------------------------------------------------------------------------------


def samples_and_beams(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """The question of median redundancy among those with a repeated sample: typical, and chosen by rule."""
    candidates, scored, size = inputs.candidates(chosen[0]), inputs.scores(chosen[0]), study.main.num_candidates
    redundancy = candidates.redundancy(study.main.sample, size)
    among = np.flatnonzero(redundancy > 0) if redundancy.any() else np.arange(len(redundancy))
    position = int(among[np.argsort(redundancy[among], kind="stable")][(len(among) - 1) // 2])
    key = candidates.ids[position]
    samples, beams = (of[of["id"] == key] for of in _sets(study, candidates))
    counts = samples.groupby("text", sort=False).size().sort_values(ascending=False, kind="stable")
    rows = [("samples", n, str(text), of / counts.sum(), int(of)) for n, (text, of) in enumerate(counts.items(), 1)]
    p = np.exp(beams["logprob"]).tolist()
    rows += [("beams", n, text, of, 1) for n, (text, of) in enumerate(zip(beams["text"], p, strict=True), 1)]
    data = pd.DataFrame(rows, columns=["set", "rank", "text", "share", "count"])
    data.insert(0, "id", key)
    score = {variant: f"{METHOD} {scored.scores(METHOD, variant)[position]:.3f}" for variant in VARIANTS}
    names = {"samples": f"samples: {score[MULTINOMIAL]}", "beams": f"beams: {score[BEAMSEARCH]}"}
    room, most = characters(figure_style.WIDTH - 0.2), int(data["rank"].max())
    asked, greedy = (str(of.loc[key]) for of in (candidates.questions["question"], candidates.greedy["text"]))
    heading = [*wrapped(f"Question: {asked}", room, 3), one_line(f"Greedy answer: {greedy or '(empty)'}", room)]
    options: dict[str, Any] = {"height": 0.17 * most + 0.75, "sharey": False, "legend_rows": 0, "heading": heading}
    facts = cells.facts(study, chosen, [MODEL]) | {"beams": len(beams), "order": captions.BEAM_ORDER}
    return figure_style.figure(data, ["set"], names, partial(draw_candidates, rows=most), facts, **options)


def draw_candidates(data: pd.DataFrame, ax: Axes, rows: int = 0) -> None:
    """The candidates of one question as bars: ``set`` ("samples" or "beams"), ``rank``, ``text``, ``share``, ``count``.

    Samples are labelled with their count, beams with their share, which is their probability; ``rows``: room for more
    bars than there are.
    """
    sampled = data["set"].iloc[0] == "samples"
    look = VARIANTS[MULTINOMIAL if sampled else BEAMSEARCH]
    ax.barh(data["rank"], data["share"], 0.7, color=look.colour, hatch=look.hatch, edgecolor=BLACK)
    ax.set_yticks(data["rank"], [one_line(text or "(empty)", characters(1.2)) for text in data["text"]])
    for label in ax.get_yticklabels():
        label.set(parse_math=False, family=FIXED_WIDTH)
    for rank, share, count in data[["rank", "share", "count"]].itertuples(index=False):
        ax.text(share + 0.02, rank, f"{count}×" if sampled else f"{share:.3f}", va="center")
    ax.set(ylim=(max(rows, data["rank"].max()) + 0.6, 0.4), xlim=(0, 1.2), xticks=[0, 0.5, 1])
    ax.set_xlabel("Share of samples" if sampled else "Sequence probability p")


# -- worked examples ---------------------------------------------------------------------------------------------------


def worked_examples(study: Study, chosen: Sequence[Cell], inputs: Inputs, count: int) -> Figure:
    """The first wrong answer and, of two, the first right one; the first questions where there are no such."""
    (cell,) = chosen
    candidates, scored = inputs.candidates(cell), inputs.scores(cell)
    right = scored.quality > study.main_quality.threshold
    firsts = [int(np.flatnonzero(of)[0]) for of in (~right, right)[:count] if of.any()]
    places = firsts if len(firsts) == count else list(range(min(count, len(right))))
    rows: list[tuple[str, str, int | None, str, float | None]] = []
    for place in places:
        key = scored.ids[place]
        asked = candidates.questions.loc[key]
        story = asked["context"][0]["text"] if study.datasets[cell.dataset].adapter == "coqa" else ""
        texts = (story, asked["question"], str(candidates.greedy.loc[key, "text"]), asked["references"][0])
        rows += [(key, part, None, text, None) for part, text in zip(PARTS, texts, strict=True) if text]
        samples, beams = (of[of["id"] == key] for of in _sets(study, candidates))
        rows += [(key, "sample", rank, text, None) for rank, text in enumerate(samples["text"])]
        p = np.exp(beams["logprob"]).tolist()
        rows += [(key, "beam", n, text, of) for n, (text, of) in enumerate(zip(beams["text"], p, strict=True))]
        scores = {variant: float(scored.scores(METHOD, variant)[place]) for variant in VARIANTS}
        rows += [(key, captions.method_title(METHOD, variant), None, "", of) for variant, of in scores.items()]
    data = pd.DataFrame(rows, columns=["id", "part", "rank", "text", "value"]).astype({"rank": "Int64"})
    return Figure(data, partial(_examples, data), cells.facts(study, chosen, [MODEL]) | {"method": METHOD})


def draw_worked_example(data: pd.DataFrame, ax: Axes) -> None:
    """A question with its candidates as text, on axes 5.4 inches wide and :func:`example_height` high.

    ``data`` has rows of ``part`` "story", "question", "greedy", "reference" with ``text``; "sample" with ``text`` and
    "beam" with ``text`` and ``value``, its p, in their order; and of any other part, a score, with its ``value``.
    """
    ax.set(xlim=(0, WIDTH), ylim=(example_height(data), 0), xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=GREY)
    # Not clipped: the name of a clip in an SVG file holds the last digits of the layout, which differ from run to run.
    rule: dict[str, Any] = {"color": BLACK, "linewidth": 0.6, "clip_on": False}
    y = INSET
    for label, lines in _head(data):
        _write(ax, INSET, y, label, fontweight="bold")
        for line in lines:
            _write(ax, INDENT, y, line)
            y += LINE
    top = y = y + INSET
    ax.hlines(y, INSET, WIDTH - INSET, **rule)
    y += 0.03
    for x, label, side in (
        (INSET, "Samples", "left"),
        (MIDDLE + INSET, "Beams", "left"),
        (WIDTH - INSET, "p", "right"),
    ):
        _write(ax, x, y, label, fontweight="bold", ha=side)
    samples, beams = (data[data["part"] == part] for part in ("sample", "beam"))
    for n, text in enumerate(samples["text"], 1):
        _write(ax, INSET, y + n * LINE, one_line(text or "(empty)", characters(MIDDLE - 2 * INSET)))
    for n, (text, p) in enumerate(zip(beams["text"], beams["value"], strict=True), 1):
        room = characters(WIDTH - MIDDLE - 2 * INSET) - len(" 0.000")
        _write(ax, MIDDLE + INSET, y + n * LINE, one_line(text or "(empty)", room))
        _write(ax, WIDTH - INSET, y + n * LINE, f"{p:.3f}", ha="right", color="#555555")
    y += (1 + max(len(samples), len(beams))) * LINE + 0.03
    ax.vlines(MIDDLE, top, y, **rule)
    ax.hlines(y, INSET, WIDTH - INSET, **rule)
    for n, (label, value) in enumerate(_scores(data)[["part", "value"]].itertuples(index=False)):
        _write(ax, INSET, y + 0.04 + n * LINE, f"{label}:", fontweight="bold")
        _write(ax, INSET + CHARACTER * (len(label) + 2), y + 0.04 + n * LINE, f"{value:.3f}")


def example_height(data: pd.DataFrame) -> float:
    """Inches that :func:`draw_worked_example` takes."""
    parts = data["part"].value_counts()
    rows = max(parts.get("sample", 0), parts.get("beam", 0)) + len(_scores(data)) + 1
    return (rows + sum(len(lines) for _, lines in _head(data))) * LINE + 4 * INSET


def _examples(data: pd.DataFrame, title: str, note: str) -> matplotlib.figure.Figure:
    parts = [part for _, part in data.groupby("id", sort=False)]
    heights = [example_height(part) for part in parts]
    figure = figure_style.canvas(sum(heights) + 0.1 * len(parts), title, note)
    grid = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)
    for ax, part in zip(grid.flat, parts, strict=True):
        draw_worked_example(part, ax)
    return figure


def _head(data: pd.DataFrame) -> list[tuple[str, list[str]]]:
    """What stands above the columns: a label, and its text in lines."""
    texts, room = dict(zip(data["part"], data["text"], strict=True)), characters(WIDTH - INDENT - INSET)
    there = {part: of for part, of in PARTS.items() if part in texts or part != "story"}
    return [(label, wrapped(texts.get(part) or "(empty)", room, most)) for part, (label, most) in there.items()]


def _scores(data: pd.DataFrame) -> pd.DataFrame:
    return data[~data["part"].isin([*PARTS, "sample", "beam"])]


def _sets(study: Study, candidates: Any) -> tuple[pd.DataFrame, pd.DataFrame]:
    size = study.main.num_candidates
    return candidates.of(study.main.sample, size), candidates.of(study.main.beam, size)


# -- text in a face of one width, so that lines are wrapped and cut by counting characters -----------------------------


def characters(inches: float) -> int:
    """How many characters fit, at least one."""
    return max(1, int(inches / CHARACTER))


@cache
def _font() -> Any:
    from matplotlib.font_manager import findfont, get_font

    return get_font(findfont(FIXED_WIDTH))


def one_line(text: str, most: int) -> str:
    """``text`` on one line of at most ``most`` characters, cut with an ellipsis; those the face lacks as U+FFFD."""
    flat = " ".join(text.split())
    known = "".join(character if _font().get_char_index(ord(character)) else "\ufffd" for character in flat)
    return known if len(known) <= most else known[: most - 1].rstrip() + "…"


def wrapped(text: str, width: int, most: int) -> list[str]:
    """``text`` in at most ``most`` lines of ``width`` characters, the last cut with an ellipsis."""
    lines = textwrap.wrap(one_line(text, len(text) + 1), width, break_on_hyphens=False) or [""]
    return [*lines[: most - 1], one_line(" ".join(lines[most - 1 :]), width)] if len(lines) > most else lines


def _write(ax: Axes, x: float, y: float, text: str, **look: Any) -> None:
    """A line with its top at (x, y); not in the layout, else the panel would shrink to make room for it."""
    look = {"ha": "left", "va": "top", "family": FIXED_WIDTH, "fontsize": TEXT, "parse_math": False} | look
    ax.text(x, y, text, in_layout=False, **look)


def exhibits(_: Study) -> list[Exhibit]:
    """The figures of single questions."""
    reads = tuple(dict.fromkeys((*CANDIDATES, *SCORES)))
    one, two = (partial(worked_examples, count=count) for count in (1, 2))
    bars = Exhibit("sampling_vs_beamsearch", "figure", shown("triviaqa"), reads, samples_and_beams, quality=False)
    return [
        replace(bars, shows_questions=True),
        Exhibit("triviaqa-gemma4b", "figure", shown("triviaqa"), reads, two, "worked_examples", shows_questions=True),
        Exhibit("webq-gemma4b", "figure", shown("webquestions"), reads, two, "worked_examples", shows_questions=True),
        Exhibit("coqa-gemma4b-one", "figure", shown("coqa"), reads, one, "worked_example", shows_questions=True),
    ]
