"""The figures of what a model generates: repeated texts, covered probability, single questions."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beamuq.array_types import Bools, Floats
from beamuq.beam_mass_theorem import corrected_threshold, printed_threshold
from beamuq.evaluation.candidate_sets import CandidateSets, length_bins, means_by_bin, with_all
from beamuq.evaluation.intervals import mean_interval, proportion_interval
from beamuq.evaluation.question_scores import QuestionScores
from beamuq_study import grid
from beamuq_study.exhibits import figure_style
from beamuq_study.exhibits.exhibit import CANDIDATES, SCORES, Exhibit, Figure
from beamuq_study.exhibits.figure_style import (
    BEAMS,
    BLACK,
    GREY,
    VARIANTS,
    Axes,
    Layout,
    draw_by_bin,
)
from beamuq_study.exhibits.method_groups import OVER_BEAMS, OVER_SAMPLES
from beamuq_study.exhibits.table_formats import percent
from beamuq_study.exhibits.table_of_numbers import records
from beamuq_study.grid import Cell
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

MODEL = "gemma-3-4b-base"
METHOD = "Dissimilarity"
THRESHOLDS = figure_style.looks("thresholds")
LENGTH = "Greedy answer length in tokens; below, n questions"
FIXED_WIDTH = "DejaVu Sans Mono"  # for questions and answers
EMPTY = "(empty)"


def _main_strategies(study: Study) -> dict[str, str]:
    """The main strategy that each variant is over."""
    return {OVER_SAMPLES: study.main.sample, OVER_BEAMS: study.main.beam}


# -- shares by length ------------------------------------------------------------------------------


def _means_by_length(
    study: Study,
    sets: CandidateSets,
    values: Mapping[str, Floats | Bools],
    columns: tuple[str, str],
    interval: Callable[..., tuple[float, float] | None] = mean_interval,
) -> pd.DataFrame:
    """Means of ``values`` over the questions of a length and over all.

    ``columns``: what the columns of their names and of the means are called.
    """
    bins = with_all(length_bins(sets.lengths()))
    data = means_by_bin(bins, sets.groups, values, study.evaluation.confidence, interval)
    return data.set_axis(["length", *columns, "low", "high", "n"], axis=1)


def redundancy(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """(M − distinct texts) / M of samples and beams, averaged over the questions of a length."""
    sets = inputs.candidates(chosen[0])
    values = {
        variant: sets.redundancy(strategy, study.main.num_candidates)
        for variant, strategy in _main_strategies(study).items()
    }
    data = _means_by_length(study, sets, values, ("variant", "redundancy"))
    facts = {"repeated": percent(float(values[OVER_BEAMS].mean()), 1)}
    return drawn_redundancy(study, data).with_facts(facts)


def drawn_redundancy(study: Study, data: pd.DataFrame) -> Figure:
    """The figure of its frame alone."""
    draw = partial(draw_by_bin, column="redundancy", percent=True)
    layout = Layout(
        (LENGTH, "Texts that repeat (%)"),
        height=2.3,
        before=figure_style.beyond_axis(data, "redundancy", "length"),
    )
    return figure_style.figure(study, data, [], "", draw, {}, layout)


def mass_above_thresholds(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share of questions with m_B strictly above each threshold of the theorem (D20, theorem)."""
    sets = inputs.candidates(chosen[0])
    size = study.main.num_candidates
    thresholds = {"printed": printed_threshold(size), "corrected": corrected_threshold(size)}
    mass = sets.mass(study.main.beam, size)
    above = {name: mass > threshold for name, threshold in thresholds.items()}
    data = _means_by_length(study, sets, above, ("threshold", "share"), proportion_interval)
    data.insert(2, "mass_above", data["threshold"].map(thresholds))
    facts = {f"above_{name}": percent(float(over.mean()), 1) for name, over in above.items()}
    return drawn_thresholds(study, data).with_facts(facts)


def drawn_thresholds(study: Study, data: pd.DataFrame) -> Figure:
    """The figure of its frame alone."""
    thresholds = dict(data[["threshold", "mass_above"]].drop_duplicates().to_numpy())
    draw = partial(
        draw_by_bin,
        column="share",
        looks=_looks_with_values(thresholds),
        by="threshold",
        bars=False,
        percent=True,
    )
    layout = Layout(
        (LENGTH, "Questions above (%)"),
        height=2.3,
        before=figure_style.beyond_axis(data, "share", "length"),
    )
    return figure_style.figure(study, data, [], "", draw, {}, layout)


def _looks_with_values(thresholds: Mapping[str, float]) -> figure_style.Looks:
    """How each threshold looks, with its value in the legend."""
    return {
        name: replace(look, title=f"{look.title} = {thresholds[name]:.3f}")
        for name, look in THRESHOLDS.items()
    }


# -- covered mass ----------------------------------------------------------------------------------

MASS_PANEL = "mass by length"
RANKS_PANEL = "p by rank"
MOST_LENGTHS = 7  # beyond these the longest share a bin
MOST_RANK_LABELS = 12  # beyond these every fifth rank is labelled
NAMES_OF_DESCRIBED = {
    "count": "n",
    "5%": "q05",
    "25%": "q25",
    "50%": "median",
    "75%": "q75",
    "95%": "q95",
}
NAMES_IN_BOX = {"median": "med", "q25": "q1", "q75": "q3", "q05": "whislo", "q95": "whishi"}
QUANTILES = ["q05", "q25", "median", "q75", "q95"]


def covered_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Left: Σ p over each set's distinct sequences, mean by length. Right: p at each beam rank."""
    sets = inputs.candidates(chosen[0])
    parts = [
        _mass_by_length(study, sets, variant, strategy)
        for variant, strategy in _main_strategies(study).items()
    ]
    parts.append(_probability_by_rank(study, sets))
    columns = ["panel", "variant", "length", "rank", "mean", "low", "high", *QUANTILES, "n"]
    data = pd.concat(parts, ignore_index=True)[columns]
    return drawn_mass(study, data)


def drawn_mass(study: Study, data: pd.DataFrame) -> Figure:
    """The figure of its frame alone."""
    layout = Layout(height=2.3, sharex=False, sharey=False)
    return figure_style.figure(study, data, ["panel"], "", _draw_mass, {}, layout)


def _mass_by_length(study: Study, sets: CandidateSets, variant: str, strategy: str) -> pd.DataFrame:
    means = means_by_bin(
        length_bins(sets.lengths(), MOST_LENGTHS),
        sets.groups,
        {variant: sets.mass(strategy, study.main.num_candidates)},
        study.evaluation.confidence,
    )
    named = means.set_axis(["length", "variant", "mean", "low", "high", "n"], axis=1)
    return named.assign(panel=MASS_PANEL)


def _probability_by_rank(study: Study, sets: CandidateSets) -> pd.DataFrame:
    """Quantiles and mean of p at each beam rank, from 1."""
    beams = sets.rows(study.main.beam, study.main.num_candidates)
    p = np.exp(beams.set_index("rank")["logprob"])
    described = p.groupby("rank").describe(percentiles=[0.05, 0.25, 0.5, 0.75, 0.95])
    by_rank = described.astype({"count": int}).reset_index().rename(columns=NAMES_OF_DESCRIBED)
    data: pd.DataFrame = by_rank.assign(
        panel=RANKS_PANEL, variant=OVER_BEAMS, rank=by_rank["rank"] + 1
    )
    return data


def _draw_mass(data: pd.DataFrame, ax: Axes) -> None:
    if data["panel"].iloc[0] == RANKS_PANEL:
        draw_rank_probabilities(data, ax)
        ax.set_title(f"n = {data['n'].iloc[0]}")
    else:
        draw_by_bin(data, ax, "mean")
        ax.set(
            ylim=(0, 1.04), xlabel="Length (tokens); below, n", ylabel="Probability mass covered"
        )


def draw_rank_probabilities(data: pd.DataFrame, ax: Axes) -> None:
    """A box of p at each beam ``rank``, and its ``mean`` as a dot.

    ``data`` also has ``q05``, ``q25``, ``median``, ``q75`` and ``q95``.
    """
    ranks = data["rank"].astype(int).to_list()
    thin = {"linewidth": 0.7}
    ax.bxp(
        records(data.rename(columns=NAMES_IN_BOX)),
        ranks,
        widths=0.6,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        boxprops={**thin, "facecolor": (BEAMS, 0.25)},
        whiskerprops=thin,
        capprops=thin,
        medianprops={"color": BEAMS, "linewidth": 1.3},
        meanprops={
            "marker": "o",
            "markersize": 2.5,
            "markerfacecolor": BLACK,
            "markeredgecolor": BLACK,
        },
    )
    labelled = ranks if len(ranks) <= MOST_RANK_LABELS else ranks[::5]
    ax.set_xticks(labelled, [str(rank) for rank in labelled])
    ax.set(ylim=(0, None), xlabel="Beam rank", ylabel="Sequence probability p")


# -- samples and beams of one question -------------------------------------------------------------

FORM_OF_SET = {"samples": OVER_SAMPLES, "beams": OVER_BEAMS}
HEAD_CHARACTERS = 72  # of a line above the panels; so few that capitals fit
LABEL_CHARACTERS = 17  # of a candidate's text


def samples_and_beams(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """The question of median redundancy among those with a repeated sample, chosen by rule."""
    candidates = inputs.candidates(chosen[0])
    scored = inputs.scores(chosen[0])
    place = _typical_question(study, candidates)
    key = candidates.ids[place]
    samples, beams = _sets(study, candidates, key)
    data = _shares_of_candidates(samples, beams).assign(id=key)
    data["rank"] = data.groupby("set").cumcount() + 1
    data = data[["id", "set", "rank", "text", "share", "count"]]
    most = int(data["rank"].max())
    layout = Layout(
        height=0.17 * most + 0.75,
        sharey=False,
        legend_rows=0,
        before=f"{_question_and_answer(candidates, key)}\n",
        titles=_titles_of_sets(scored, place),
    )
    draw = partial(draw_candidates, rows=most)
    facts = {"beams": len(beams)}
    return figure_style.figure(study, data, ["set"], "{set}", draw, facts, layout)


def _titles_of_sets(scored: QuestionScores, place: int) -> dict[str, str]:
    """Each set with its score at the question's place."""
    return {
        name: f"{name}: {METHOD} {scored.scores(METHOD, form)[place]:.3f}"
        for name, form in FORM_OF_SET.items()
    }


def _typical_question(study: Study, candidates: CandidateSets) -> int:
    """The place of the question of median redundancy, of all where no sample repeats."""
    values = candidates.redundancy(study.main.sample, study.main.num_candidates)
    places = np.flatnonzero(values > 0) if values.any() else np.arange(len(values))
    in_order = places[np.argsort(values[places], kind="stable")]
    return int(in_order[(len(in_order) - 1) // 2])


def _shares_of_candidates(samples: pd.DataFrame, beams: pd.DataFrame) -> pd.DataFrame:
    """The distinct texts of samples, most frequent first, then every beam, with their shares."""
    by_text = samples.groupby("text", sort=False)
    counts = by_text.size().sort_values(ascending=False, kind="stable")
    sampled = pd.DataFrame(
        {"set": "samples", "text": counts.index, "share": counts / counts.sum(), "count": counts}
    )
    searched = pd.DataFrame(
        {"set": "beams", "text": beams["text"], "share": beams["p"], "count": 1}
    )
    return pd.concat([sampled, searched], ignore_index=True)


def _question_and_answer(candidates: CandidateSets, key: str) -> str:
    question = str(candidates.questions.loc[key, "question"])
    greedy = str(candidates.greedy.loc[key, "text"]) or EMPTY
    lines = wrapped(f"Question: {question}", HEAD_CHARACTERS, 4)
    return "\n".join([*lines, one_line(f"Greedy answer: {greedy}", HEAD_CHARACTERS)])


def draw_candidates(data: pd.DataFrame, ax: Axes, rows: int = 0) -> None:
    """The candidates of one question as bars: samples with their count, beams with their p.

    ``data`` has ``set`` ("samples" or "beams"), ``rank``, ``text``, ``share`` (of beams their
    probability) and ``count``; ``rows``: room for more bars than there are.
    """
    sampled = data["set"].iloc[0] == "samples"
    look = VARIANTS[OVER_SAMPLES if sampled else OVER_BEAMS]
    ax.barh(data["rank"], data["share"], 0.7, color=look.colour, hatch=look.hatch, edgecolor=BLACK)
    texts = [one_line(text or EMPTY, LABEL_CHARACTERS) for text in data["text"]]
    ax.set_yticks(data["rank"], texts, parse_math=False, family=FIXED_WIDTH)
    for rank, share, count in data[["rank", "share", "count"]].itertuples(index=False):
        number = f"{count}×" if sampled else f"{share:.3f}"
        ax.text(share + 0.02, rank, number, va="center")  # of a long bar beside the axis
    ax.set(ylim=(max(rows, data["rank"].max()) + 0.6, 0.4), xlim=(0, 1), xticks=[0, 0.5, 1])
    ax.set_xlabel("Share of samples" if sampled else "Sequence probability p")


# -- worked examples -------------------------------------------------------------------------------

CHARACTER = 0.60205 * 8 / 72  # inches, the width of one in the fixed-width face
LINE = 0.142  # inches, the height of one
COLUMNS = 79  # characters of a line
LABEL_WIDTH = 11  # characters, of what stands before a text
SAMPLE_WIDTH = 36  # characters
BEAM_WIDTH = 34  # characters, its p not counted
# What stands above the candidates: its label, and the most lines it may take.
PARTS = {
    "story": ("Story:", 5),
    "question": ("Question:", 4),
    "greedy": ("Greedy:", 2),
    "reference": ("Reference:", 2),
}


def worked_examples(study: Study, chosen: Sequence[Cell], inputs: Inputs, count: int) -> Figure:
    """The first wrong answer and, of two, the first right one; else the first questions."""
    scored = inputs.scores(chosen[0])
    places = _places_of_examples(study, scored, count)
    rows = _rows_of_examples(study, chosen[0], inputs.candidates(chosen[0]), scored, places)
    data = pd.DataFrame(rows, columns=["id", "part", "rank", "text", "value"])
    data = data.astype({"rank": "Int64"})
    heights = [_height(part) for _, part in data.groupby("id", sort=False)]
    layout = Layout(height=heights, across=1, legend_rows=0, sharex=False, sharey=False)
    facts = {"method": METHOD}
    return figure_style.figure(study, data, ["id"], "", draw_worked_example, facts, layout)


def _places_of_examples(study: Study, scored: QuestionScores, count: int) -> Sequence[int]:
    right = scored.quality > study.main_quality.threshold
    firsts = [int(np.flatnonzero(kind)[0]) for kind in (~right, right)[:count] if kind.any()]
    return firsts if len(firsts) == count else range(min(count, len(right)))


def _rows_of_examples(
    study: Study,
    cell: Cell,
    candidates: CandidateSets,
    scored: QuestionScores,
    places: Sequence[int],
) -> list[dict[str, Any]]:
    """The rows of the questions at some places: texts, candidates and scores."""
    has_story = study.datasets[cell.dataset].adapter == "coqa"
    rows = []
    for place in places:
        key = scored.ids[place]
        rows += _rows_of_texts(candidates, key, has_story=has_story)
        rows += _rows_of_sets(study, candidates, key)
        rows += _rows_of_scores(scored, key, place)
    return rows


def _height(example: pd.DataFrame) -> float:
    """Inches that the lines of an example take."""
    return LINE * (len(example_lines(example)) + 1) + 0.1


def _rows_of_texts(candidates: CandidateSets, key: str, *, has_story: bool) -> list[dict[str, Any]]:
    """What stands above the candidates, without what is empty."""
    question = candidates.questions.loc[key]
    texts = {
        "story": question["context"][0]["text"] if has_story else "",
        "question": question["question"],
        "greedy": str(candidates.greedy.loc[key, "text"]),
        "reference": question["references"][0],
    }
    return [{"id": key, "part": part, "text": text} for part, text in texts.items() if text]


def _rows_of_sets(study: Study, candidates: CandidateSets, key: str) -> list[dict[str, Any]]:
    """The samples, then the beams with their p."""
    samples, beams = _sets(study, candidates, key)
    rows = []
    for part, candidate_set in (("sample", samples), ("beam", beams)):
        p = candidate_set["p"] if part == "beam" else np.nan
        shown = candidate_set.assign(id=key, part=part, rank=range(len(candidate_set)), value=p)
        rows += records(shown[["id", "part", "rank", "text", "value"]])
    return rows


def _rows_of_scores(scored: QuestionScores, key: str, place: int) -> list[dict[str, Any]]:
    return [
        {
            "id": key,
            "part": f"{METHOD} over {look.title}",
            "text": "",
            "value": scored.scores(METHOD, variant)[place],
        }
        for variant, look in VARIANTS.items()
    ]


def draw_worked_example(data: pd.DataFrame, ax: Axes) -> None:
    """A question with its candidates as text, on axes 5.4 inches wide.

    Each of its lines takes 0.142 inches. ``data`` has rows of ``part`` "story", "question",
    "greedy", "reference" with ``text``; "sample" with ``text`` and "beam" with ``text`` and
    ``value``, its p, in their order; and of any other part, a score, with its ``value``.
    """
    lines = example_lines(data)
    ax.set(xlim=(0, 5.4), ylim=(len(lines) + 1, 0), xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=GREY)
    for number, (label, text) in enumerate(lines):
        _write(ax, 0, number + 0.5, label, "bold")
        _write(ax, len(label), number + 0.5, text, "normal")
    top, bottom = (number + 1.0 for number, line in enumerate(lines) if line == ("", ""))
    middle = 0.06 + 37 * CHARACTER
    # Not clipped: the name of a clip in an SVG file holds the last digits of the layout, which
    # differ from run to run.
    ax.hlines([top, bottom], 0.06, 5.34, color=BLACK, linewidth=0.6, clip_on=False)
    ax.vlines(middle, top, bottom, color=BLACK, linewidth=0.6, clip_on=False)


def _write(ax: Axes, column: int, y: float, text: str, weight: str) -> None:
    """Text from a column of characters on."""
    ax.text(
        0.06 + CHARACTER * column,
        y,
        text,
        va="top",
        in_layout=False,
        fontweight=weight,
        family=FIXED_WIDTH,
        parse_math=False,
    )


def example_lines(data: pd.DataFrame) -> list[tuple[str, str]]:
    """The lines of a worked example, each what is bold and what follows it.

    An empty one stands before and after the sets.
    """
    scores = data[~data["part"].isin([*PARTS, "sample", "beam"])]
    return [
        *_lines_of_texts(data),
        ("", ""),
        ("Samples".ljust(SAMPLE_WIDTH + 2) + " " + "Beams".ljust(39) + "p", ""),
        *_lines_of_sets(data),
        ("", ""),
        *((f"{part}: ", f"{value:.3f}") for part, value in scores[["part", "value"]].to_numpy()),
    ]


def _lines_of_texts(data: pd.DataFrame) -> list[tuple[str, str]]:
    texts = dict(zip(data["part"], data["text"], strict=True))
    lines = []
    for part, (label, most) in PARTS.items():
        if part in texts or part != "story":
            first, *rest = wrapped(texts.get(part) or EMPTY, COLUMNS - LABEL_WIDTH, most)
            lines.append((label.ljust(LABEL_WIDTH), first))
            lines += [(" " * LABEL_WIDTH, line) for line in rest]
    return lines


def _lines_of_sets(data: pd.DataFrame) -> list[tuple[str, str]]:
    """A sample and a beam a line."""
    samples = data[data["part"] == "sample"]
    beams = data[data["part"] == "beam"]
    left = [one_line(text or EMPTY, SAMPLE_WIDTH) for text in samples["text"]]
    right = [
        f"{one_line(text or EMPTY, BEAM_WIDTH).ljust(BEAM_WIDTH)} {p:.3f}"
        for text, p in zip(beams["text"], beams["value"], strict=True)
    ]
    pairs = itertools.zip_longest(left, right, fillvalue="")
    return [("", f"{sample.ljust(SAMPLE_WIDTH + 2)} {beam}") for sample, beam in pairs]


def _sets(study: Study, candidates: CandidateSets, key: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The samples and the beams of a question, with their probabilities ``p``."""
    samples = _set_of_question(study, candidates, study.main.sample, key)
    beams = _set_of_question(study, candidates, study.main.beam, key)
    return samples, beams


def _set_of_question(
    study: Study, candidates: CandidateSets, strategy: str, key: str
) -> pd.DataFrame:
    rows = candidates.rows(strategy, study.main.num_candidates)
    of_question = rows[rows["id"] == key]
    return of_question.assign(p=np.exp(of_question["logprob"]))


# -- text ------------------------------------------------------------------------------------------


def one_line(text: str, most: int) -> str:
    """``text`` on one line of at most ``most`` characters, cut with an ellipsis.

    Characters that the face lacks are U+FFFD.
    """
    from matplotlib.font_manager import findfont, get_font

    face = get_font(findfont(FIXED_WIDTH))
    characters = " ".join(text.split())
    drawn = "".join(c if face.get_char_index(ord(c)) else "\ufffd" for c in characters)
    return drawn if len(drawn) <= most else drawn[: most - 1].rstrip() + "…"


def wrapped(text: str, width: int, most: int) -> list[str]:
    """``text`` in at most ``most`` lines of ``width`` characters, the last one cut."""
    whole = one_line(text, len(text) + 1)
    lines = textwrap.wrap(whole, width, break_on_hyphens=False) or [""]
    if len(lines) <= most:
        return lines
    rest = " ".join(lines[most - 1 :])
    return [*lines[: most - 1], one_line(rest, width)]


# -- exhibits --------------------------------------------------------------------------------------


def _scored(study: Study) -> list[Cell]:
    return grid.with_methods(study, [METHOD])


def _with_stories(study: Study) -> list[Cell]:
    """The scored cells of CoQA; of any dataset where none has stories."""
    chosen = _scored(study)
    return [cell for cell in chosen if study.datasets[cell.dataset].adapter == "coqa"] or chosen


def exhibits(study: Study) -> list[Exhibit]:
    triviaqa = (MODEL, "triviaqa")
    of_candidates = partial(
        Exhibit,
        kind="figure",
        cells=partial(grid.recipe_cells, recipe=study.main.recipe, scorer=None),
        near=triviaqa,
        reads=CANDIDATES,
        quality=False,
    )
    of_questions = partial(
        Exhibit, kind="figure", reads=(*CANDIDATES, *SCORES), shows_questions=True
    )
    pair = partial(
        of_questions,
        cells=_scored,
        build=partial(worked_examples, count=2),
        caption="worked_examples",
    )
    return [
        of_candidates("redundancy", build=redundancy),
        of_candidates("beam_mass_threshold", build=mass_above_thresholds),
        of_candidates("abl_prob_mass", build=covered_mass),
        of_questions(
            "sampling_vs_beamsearch",
            cells=_scored,
            near=triviaqa,
            build=samples_and_beams,
            quality=False,
        ),
        pair("triviaqa-gemma4b", near=triviaqa),
        pair("webq-gemma4b", near=(MODEL, "webquestions")),
        of_questions(
            "coqa-gemma4b-one",
            cells=_with_stories,
            near=(MODEL, "coqa"),
            build=partial(worked_examples, count=1),
            caption="worked_example",
        ),
    ]
