"""The figures of single questions: their samples and beams as bars, and worked examples as text."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from beamuq.evaluation.candidate_sets import CandidateSets
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
CHARACTER, LINE = 0.60205 * TEXT / 72, 0.142  # inches that a character of the fixed-width face takes, and a line
COLUMNS = 79  # of characters in a worked example; its samples have 36, its labels 11
PARTS = {"story": ("Story:", 5), "question": ("Question:", 4), "greedy": ("Greedy:", 2), "reference": ("Reference:", 2)}
"""What stands above the candidates: its label, and the most lines it may take."""


def shown(dataset: str) -> Callable[[Study], list[Cell]]:
    """The main cell that stands for the paper's model on a dataset: for CoQA, another with stories where there is."""

    def chosen(study: Study) -> list[Cell]:
        found = cells.with_methods(study, [METHOD])
        stories = [cell for cell in found if dataset == "coqa" and study.datasets[cell.dataset].adapter == "coqa"]
        return [cells.nearest(study, stories or found, MODEL, dataset)]

    return chosen


def samples_and_beams(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """The question of median redundancy among those with a repeated sample: typical, and chosen by rule."""
    candidates, scored = inputs.candidates(chosen[0]), inputs.scores(chosen[0])
    redundancy = candidates.redundancy(study.main.sample, study.main.num_candidates)
    among = np.flatnonzero(redundancy > 0) if redundancy.any() else np.arange(len(redundancy))
    place = int(among[np.argsort(redundancy[among], kind="stable")][(len(among) - 1) // 2])
    key = candidates.ids[place]
    samples, beams = _sets(study, candidates, key)
    counts = samples.groupby("text", sort=False).size().sort_values(ascending=False, kind="stable")
    rows = [("samples", n, str(text), of / counts.sum(), int(of)) for n, (text, of) in enumerate(counts.items(), 1)]
    rows += [("beams", n, text, p, 1) for n, (text, p) in enumerate(zip(beams["text"], beams["p"], strict=True), 1)]
    data = pd.DataFrame(rows, columns=["set", "rank", "text", "share", "count"])
    data.insert(0, "id", key)
    of = {variant: f"{METHOD} {scored.scores(METHOD, variant)[place]:.3f}" for variant in VARIANTS}
    names = {"samples": f"samples: {of[MULTINOMIAL]}", "beams": f"beams: {of[BEAMSEARCH]}"}
    asked, greedy = str(candidates.questions.loc[key, "question"]), str(candidates.greedy.loc[key, "text"])
    # In lines so short that capitals fit
    told = "\n".join([*wrapped(f"Question: {asked}", 72, 4), one_line(f"Greedy answer: {greedy or '(empty)'}", 72)])
    most, facts = int(data["rank"].max()), {"beams": len(beams), "order": captions.BEAM_ORDER}
    options: dict[str, Any] = {"height": 0.17 * most + 0.75, "sharey": False, "legend_rows": 0, "before": f"{told}\n"}
    draw, facts = partial(draw_candidates, rows=most), facts | cells.facts(study, chosen, [MODEL])
    return figure_style.figure(data, ["set"], names, draw, facts, **options)


def draw_candidates(data: pd.DataFrame, ax: Axes, rows: int = 0) -> None:
    """The candidates of one question as bars: ``set`` ("samples" or "beams"), ``rank``, ``text``, ``share``, ``count``.

    Samples are labelled with their count, beams with their share, which is their probability; ``rows``: room for more
    bars than there are.
    """
    sampled = data["set"].iloc[0] == "samples"
    look = VARIANTS[MULTINOMIAL if sampled else BEAMSEARCH]
    ax.barh(data["rank"], data["share"], 0.7, color=look.colour, hatch=look.hatch, edgecolor=BLACK)
    ax.set_yticks(data["rank"], [one_line(text or "(empty)", 17) for text in data["text"]])
    for label in ax.get_yticklabels():
        label.set(parse_math=False, family=FIXED_WIDTH)
    for rank, share, count in data[["rank", "share", "count"]].itertuples(index=False):
        ax.text(share + 0.02, rank, f"{count}×" if sampled else f"{share:.3f}", va="center")
    ax.set(ylim=(max(rows, data["rank"].max()) + 0.6, 0.4), xlim=(0, 1.2), xticks=[0, 0.5, 1])
    ax.set_xlabel("Share of samples" if sampled else "Sequence probability p")


def worked_examples(study: Study, chosen: Sequence[Cell], inputs: Inputs, count: int) -> Figure:
    """The first wrong answer and, of two, the first right one; the first questions where there are no such."""
    candidates, scored = inputs.candidates(chosen[0]), inputs.scores(chosen[0])
    right = scored.quality > study.main_quality.threshold
    firsts = [int(np.flatnonzero(of)[0]) for of in (~right, right)[:count] if of.any()]
    rows: list[tuple[str, str, int | None, str, float | None]] = []
    for place in firsts if len(firsts) == count else range(min(count, len(right))):
        key = scored.ids[place]
        asked = candidates.questions.loc[key]
        story = asked["context"][0]["text"] if study.datasets[chosen[0].dataset].adapter == "coqa" else ""
        texts = (story, asked["question"], str(candidates.greedy.loc[key, "text"]), asked["references"][0])
        rows += [(key, part, None, text, None) for part, text in zip(PARTS, texts, strict=True) if text]
        samples, beams = _sets(study, candidates, key)
        rows += [(key, "sample", rank, text, None) for rank, text in enumerate(samples["text"])]
        rows += [(key, "beam", n, text, p) for n, (text, p) in enumerate(zip(beams["text"], beams["p"], strict=True))]
        scores = {variant: float(scored.scores(METHOD, variant)[place]) for variant in VARIANTS}
        rows += [(key, captions.method_title(METHOD, variant), None, "", of) for variant, of in scores.items()]
    data = pd.DataFrame(rows, columns=["id", "part", "rank", "text", "value"]).astype({"rank": "Int64"})
    return Figure(data, partial(_examples, data), cells.facts(study, chosen, [MODEL]) | {"method": METHOD})


def draw_worked_example(data: pd.DataFrame, ax: Axes) -> None:
    """A question with its candidates as text, on axes 5.4 inches wide, with 0.142 inches for each of its lines.

    ``data`` has rows of ``part`` "story", "question", "greedy", "reference" with ``text``; "sample" with ``text`` and
    "beam" with ``text`` and ``value``, its p, in their order; and of any other part, a score, with its ``value``.
    """
    head, body, scores = example_lines(data)
    lines = [*head, ("", ""), *body, ("", ""), *scores]
    ax.set(xlim=(0, 5.4), ylim=(len(lines) + 1, 0), xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=GREY)
    for n, (label, text) in enumerate(lines):
        for of, weight in ((label, "bold"), (text, "normal")):  # not in the layout, which would make room for it
            look: dict[str, Any] = {"fontweight": weight, "family": FIXED_WIDTH, "parse_math": False}
            x = 0.06 + CHARACTER * (len(of) - len(of.lstrip()))
            ax.text(x, n + 0.5, of.lstrip(), va="top", in_layout=False, **look)
    top, bottom = len(head) + 1, len(head) + len(body) + 2
    # Not clipped: the name of a clip in an SVG file holds the last digits of the layout, which differ from run to run.
    rule: dict[str, Any] = {"color": BLACK, "linewidth": 0.6, "clip_on": False}
    ax.hlines([top, bottom], 0.06, 5.34, **rule)
    ax.vlines(0.06 + 37 * CHARACTER, top, bottom, **rule)


def example_lines(data: pd.DataFrame) -> list[list[tuple[str, str]]]:
    """The lines of a worked example in three blocks, each what is bold and what is not, in one another's gaps."""
    texts = dict(zip(data["part"], data["text"], strict=True))
    head = []
    for part, (label, most) in PARTS.items():
        if part in texts or part != "story":
            wrapped_text = wrapped(texts.get(part) or "(empty)", COLUMNS - 11, most)
            head += [("" if n else label, " " * 11 + line) for n, line in enumerate(wrapped_text)]
    samples, beams = (data[data["part"] == part] for part in ("sample", "beam"))
    left = [one_line(text or "(empty)", 36) for text in samples["text"]]
    right = [
        f"{one_line(text or '(empty)', 34):34} {p:.3f}" for text, p in zip(beams["text"], beams["value"], strict=True)
    ]
    both = itertools.zip_longest(left, right, fillvalue="")
    body = [(f"{'Samples':38} {'Beams':39}p", ""), *(("", f"{a:38} {b}") for a, b in both)]
    others = data[~data["part"].isin([*PARTS, "sample", "beam"])]
    scores = [
        (f"{part}:", f"{'':{len(part) + 2}}{value:.3f}")
        for part, value in zip(others["part"], others["value"], strict=True)
    ]
    return [head, body, scores]


def _examples(data: pd.DataFrame, title: str, note: str) -> matplotlib.figure.Figure:
    parts = [part for _, part in data.groupby("id", sort=False)]
    heights = [LINE * (3 + sum(map(len, example_lines(part)))) for part in parts]
    figure = figure_style.canvas(sum(heights) + 0.1 * len(parts), title, note)
    grid = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)
    for ax, part in zip(grid.flat, parts, strict=True):
        draw_worked_example(part, ax)
    return figure


def _sets(study: Study, candidates: CandidateSets, key: str) -> list[pd.DataFrame]:
    """One question's samples and beams, with their ``p``."""
    found = (candidates.of(name, study.main.num_candidates) for name in (study.main.sample, study.main.beam))
    return [of[of["id"] == key].assign(p=lambda rows: np.exp(rows["logprob"])) for of in found]


@cache
def _font() -> Any:
    from matplotlib.font_manager import findfont, get_font

    return get_font(findfont(FIXED_WIDTH))


def one_line(text: str, most: int) -> str:
    """``text`` on one line of at most ``most`` characters, cut with an ellipsis; those the face lacks as U+FFFD."""
    known = "".join(c if _font().get_char_index(ord(c)) else "\ufffd" for c in " ".join(text.split()))
    return known if len(known) <= most else known[: most - 1].rstrip() + "…"


def wrapped(text: str, width: int, most: int) -> list[str]:
    """``text`` in at most ``most`` lines of ``width`` characters, the last cut with an ellipsis."""
    lines = textwrap.wrap(one_line(text, len(text) + 1), width, break_on_hyphens=False) or [""]
    return [*lines[: most - 1], one_line(" ".join(lines[most - 1 :]), width)] if len(lines) > most else lines


def exhibits(_: Study) -> list[Exhibit]:
    """The figures of single questions."""
    of: dict[str, Any] = {"kind": "figure", "reads": (*CANDIDATES, *SCORES), "shows_questions": True}
    two, one = partial(worked_examples, count=2), partial(worked_examples, count=1)
    return [
        Exhibit("sampling_vs_beamsearch", cells=shown("triviaqa"), build=samples_and_beams, quality=False, **of),
        Exhibit("triviaqa-gemma4b", cells=shown("triviaqa"), build=two, template="worked_examples", **of),
        Exhibit("webq-gemma4b", cells=shown("webquestions"), build=two, template="worked_examples", **of),
        Exhibit("coqa-gemma4b-one", cells=shown("coqa"), build=one, template="worked_example", **of),
    ]
