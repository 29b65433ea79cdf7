"""The figures of what a model generates: repeated samples, covered probability, single questions,
worked examples.
"""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from beamuq.beam_mass_theorem import corrected_threshold, printed_threshold
from beamuq.evaluation.candidate_sets import CandidateSets, length_bins, means_by_bin, with_all
from beamuq.evaluation.intervals import proportion_interval
from beamuq_study import grid as cells
from beamuq_study.exhibits import figure_style
from beamuq_study.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq_study.exhibits.estimates_table import records
from beamuq_study.exhibits.exhibit import CANDIDATES, SCORES, Exhibit, Figure
from beamuq_study.exhibits.figure_style import BEAMS, BLACK, GREY, VARIANTS, draw_by_bin
from beamuq_study.exhibits.table_formats import percent
from beamuq_study.grid import Cell
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study

MODEL, METHOD = "gemma-3-4b-base", "Dissimilarity"
THRESHOLDS = figure_style.looks("thresholds")
DESCRIBED = {"count": "n", "5%": "q05", "25%": "q25", "50%": "median", "75%": "q75", "95%": "q95"}
OF_BOX = {"median": "med", "q25": "q1", "q75": "q3", "q05": "whislo", "q95": "whishi"}
MASS, RANKS = "mass by length", "p by rank"
LENGTH = "Greedy answer length in tokens; below, n questions"
FIXED_WIDTH = "DejaVu Sans Mono"  # for questions and answers
CHARACTER, LINE = (
    0.60205 * 8 / 72,
    0.142,
)  # inches that a character of the fixed-width face takes, and a line
COLUMNS = 79  # of characters in a worked example; its samples have 36, its labels 11
# What stands above the candidates: its label, and the most lines it may take.
PARTS = {
    "story": ("Story:", 5),
    "question": ("Question:", 4),
    "greedy": ("Greedy:", 2),
    "reference": ("Reference:", 2),
}


def _by_length(
    study: Study, sets: CandidateSets, values: dict[str, Any], names: str, *interval: Any
) -> pd.DataFrame:
    """Means of ``values`` over the questions of a length and over all; ``names``: what the columns
    are called.
    """
    bins = with_all(length_bins(sets.lengths()))
    data = means_by_bin(bins, sets.groups, values, study.evaluation.confidence, *interval)
    return data.set_axis(["length", *names.split(), "low", "high", "n"], axis=1)


def redundancy(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """(M − distinct cleaned texts) / M of samples and beams, averaged over the questions of a
    length.
    """
    sets = inputs.candidates(chosen[0])
    values = {
        name: sets.redundancy(of, study.main.num_candidates)
        for name, of in _strategies(study).items()
    }
    data = _by_length(study, sets, values, "variant redundancy")
    draw = partial(draw_by_bin, column="redundancy", percent=True)
    facts = {"repeated": percent(float(values[BEAMSEARCH].mean()), 1)}
    return figure_style.figure(
        study, data, [], "", draw, facts, (LENGTH, "Texts that repeat (%)"), height=2.3
    )


def mass_above_thresholds(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Share of questions with m_B above each threshold of the theorem, strictly; Wilson intervals
    (D20, theorem).
    """
    sets, size = inputs.candidates(chosen[0]), study.main.num_candidates
    thresholds = {"printed": printed_threshold(size), "corrected": corrected_threshold(size)}
    above = {
        name: sets.mass(study.main.beam, size) > threshold for name, threshold in thresholds.items()
    }
    data = _by_length(study, sets, above, "threshold share", proportion_interval)
    data.insert(2, "mass_above", data["threshold"].map(thresholds))
    looks = {
        of: replace(look, title=f"{look.title} = {thresholds[of]:.3f}")
        for of, look in THRESHOLDS.items()
    }
    facts = {f"above_{name}": percent(float(of.mean()), 1) for name, of in above.items()}
    draw = partial(
        draw_by_bin, column="share", looks=looks, by="threshold", bars=False, percent=True
    )
    return figure_style.figure(
        study, data, [], "", draw, facts, (LENGTH, "Questions above (%)"), height=2.3
    )


def covered_mass(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """Left: Σ p over each set's distinct sequences, mean by length. Right: quantiles of p at each
    beam rank.
    """
    sets, size = inputs.candidates(chosen[0]), study.main.num_candidates
    bins, confidence = length_bins(sets.lengths(), 7), study.evaluation.confidence
    parts = []
    for variant, strategy in _strategies(study).items():
        means = means_by_bin(bins, sets.groups, {variant: sets.mass(strategy, size)}, confidence)
        parts.append(
            means.set_axis(["length", "variant", "mean", "low", "high", "n"], axis=1).assign(
                panel=MASS
            )
        )
    p = np.exp(sets.rows(study.main.beam, size).set_index("rank")["logprob"])
    by_rank = (
        p.groupby("rank")
        .describe(percentiles=[0.05, 0.25, 0.5, 0.75, 0.95])
        .astype({"count": int})
        .reset_index()
    )
    by_rank = by_rank.rename(columns=DESCRIBED).assign(
        panel=RANKS, variant=BEAMSEARCH, rank=by_rank["rank"] + 1
    )
    columns = [
        "panel",
        "variant",
        "length",
        "rank",
        "mean",
        "low",
        "high",
        "q05",
        "q25",
        "median",
        "q75",
        "q95",
        "n",
    ]
    data = pd.concat([*parts, by_rank], ignore_index=True)[columns]
    return figure_style.figure(
        study, data, ["panel"], "", _draw_mass, {}, height=2.3, sharex=False, sharey=False
    )


def draw_rank_probabilities(data: pd.DataFrame, ax: figure_style.Axes) -> None:
    """A box of p at each beam ``rank``: ``q05``, ``q25``, ``median``, ``q75``, ``q95``, and its
    ``mean`` as a dot.
    """
    boxes = records(data.rename(columns=OF_BOX))
    ranks, thin = data["rank"].astype(int).to_list(), {"linewidth": 0.7}
    dot = {"marker": "o", "markersize": 2.5, "markerfacecolor": BLACK, "markeredgecolor": BLACK}
    looks: dict[str, Any] = {
        "boxprops": thin | {"facecolor": (BEAMS, 0.25)},
        "whiskerprops": thin,
        "capprops": thin,
    }
    looks |= {"medianprops": {"color": BEAMS, "linewidth": 1.3}, "meanprops": dot}
    ax.bxp(boxes, ranks, widths=0.6, showfliers=False, showmeans=True, patch_artist=True, **looks)
    every = slice(None, None, 1 if len(ranks) <= 12 else 5)
    ax.set_xticks(ranks[every], [str(rank) for rank in ranks[every]])
    ax.set(ylim=(0, None), xlabel="Beam rank", ylabel="Sequence probability p")


def _draw_mass(data: pd.DataFrame, ax: figure_style.Axes) -> None:
    if data["panel"].iloc[0] == RANKS:
        draw_rank_probabilities(data, ax)
        ax.set_title(f"n = {data['n'].iloc[0]}")
    else:
        draw_by_bin(data, ax, "mean")
        ax.set(
            ylim=(0, 1.04), xlabel="Length (tokens); below, n", ylabel="Probability mass covered"
        )


def _strategies(study: Study) -> dict[str, str]:
    return {MULTINOMIAL: study.main.sample, BEAMSEARCH: study.main.beam}


def samples_and_beams(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Figure:
    """The question of median redundancy among those with a repeated sample: typical, and chosen by
    rule.
    """
    candidates, scored = inputs.candidates(chosen[0]), inputs.scores(chosen[0])
    redundancy = candidates.redundancy(study.main.sample, study.main.num_candidates)
    among = np.flatnonzero(redundancy > 0) if redundancy.any() else np.arange(len(redundancy))
    place = int(among[np.argsort(redundancy[among], kind="stable")][(len(among) - 1) // 2])
    key = candidates.ids[place]
    samples, beams = _sets(study, candidates, key)
    counts = samples.groupby("text", sort=False).size().sort_values(ascending=False, kind="stable")
    sampled = pd.DataFrame(
        {"set": "samples", "text": counts.index, "share": counts / counts.sum(), "count": counts}
    )
    searched = pd.DataFrame(
        {"set": "beams", "text": beams["text"], "share": beams["p"], "count": 1}
    )
    data = pd.concat([sampled, searched], ignore_index=True).assign(id=key)
    data = data.assign(rank=data.groupby("set").cumcount() + 1)[
        ["id", "set", "rank", "text", "share", "count"]
    ]
    forms = {"samples": MULTINOMIAL, "beams": BEAMSEARCH}
    titles = {
        name: f"{name}: {METHOD} {scored.scores(METHOD, of)[place]:.3f}"
        for name, of in forms.items()
    }
    query, greedy = (
        str(candidates.questions.loc[key, "question"]),
        str(candidates.greedy.loc[key, "text"]),
    )
    # In lines so short that capitals fit
    head = "\n".join(
        [
            *wrapped(f"Question: {query}", 72, 4),
            one_line(f"Greedy answer: {greedy or '(empty)'}", 72),
        ]
    )
    most, facts = int(data["rank"].max()), {"beams": len(beams)}
    options: dict[str, Any] = {
        "height": 0.17 * most + 0.75,
        "sharey": False,
        "legend_rows": 0,
        "before": f"{head}\n",
    }
    draw = partial(draw_candidates, rows=most)
    return figure_style.figure(study, data, ["set"], "{set}", draw, facts, titles=titles, **options)


def draw_candidates(data: pd.DataFrame, ax: figure_style.Axes, rows: int = 0) -> None:
    """The candidates of one question as bars: ``set`` ("samples" or "beams"), ``rank``, ``text``,
    ``share``, ``count``.

    Samples are labelled with their count, beams with their share, which is their probability;
    ``rows``: room for more bars than there are.
    """
    sampled = data["set"].iloc[0] == "samples"
    look = VARIANTS[MULTINOMIAL if sampled else BEAMSEARCH]
    ax.barh(data["rank"], data["share"], 0.7, color=look.colour, hatch=look.hatch, edgecolor=BLACK)
    texts = [one_line(text or "(empty)", 17) for text in data["text"]]
    ax.set_yticks(data["rank"], texts, parse_math=False, family=FIXED_WIDTH)
    for rank, share, count in data[["rank", "share", "count"]].itertuples(index=False):
        ax.text(share + 0.02, rank, f"{count}×" if sampled else f"{share:.3f}", va="center")
    ax.set(ylim=(max(rows, data["rank"].max()) + 0.6, 0.4), xlim=(0, 1.2), xticks=[0, 0.5, 1])
    ax.set_xlabel("Share of samples" if sampled else "Sequence probability p")


def worked_examples(study: Study, chosen: Sequence[Cell], inputs: Inputs, count: int) -> Figure:
    """The first wrong answer and, of two, the first right one; the first questions where there are
    no such.
    """
    candidates, scored = inputs.candidates(chosen[0]), inputs.scores(chosen[0])
    right = scored.quality > study.main_quality.threshold
    firsts = [int(np.flatnonzero(of)[0]) for of in (~right, right)[:count] if of.any()]
    rows: list[dict[str, Any]] = []
    for place in firsts if len(firsts) == count else range(min(count, len(right))):
        key = scored.ids[place]
        question = candidates.questions.loc[key]
        story = (
            question["context"][0]["text"]
            if study.datasets[chosen[0].dataset].adapter == "coqa"
            else ""
        )
        texts = (
            story,
            question["question"],
            str(candidates.greedy.loc[key, "text"]),
            question["references"][0],
        )
        rows += [
            {"id": key, "part": part, "text": text}
            for part, text in zip(PARTS, texts, strict=True)
            if text
        ]
        for part, of in zip(("sample", "beam"), _sets(study, candidates, key), strict=True):
            of = of.assign(
                id=key, part=part, rank=range(len(of)), value=of["p"] if part == "beam" else np.nan
            )
            rows += records(of[["id", "part", "rank", "text", "value"]])
        for form in VARIANTS:
            score = scored.scores(METHOD, form)[place]
            rows.append(
                {
                    "id": key,
                    "part": f"{METHOD} over {VARIANTS[form].title}",
                    "text": "",
                    "value": score,
                }
            )
    data = pd.DataFrame(rows, columns=["id", "part", "rank", "text", "value"]).astype(
        {"rank": "Int64"}
    )
    heights = [
        LINE * (len(example_lines(part)) + 1) + 0.1 for _, part in data.groupby("id", sort=False)
    ]
    options: dict[str, Any] = {
        "height": heights,
        "across": 1,
        "legend_rows": 0,
        "sharex": False,
        "sharey": False,
    }
    return figure_style.figure(
        study, data, ["id"], "", draw_worked_example, {"method": METHOD}, **options
    )


def draw_worked_example(data: pd.DataFrame, ax: figure_style.Axes) -> None:
    """A question with its candidates as text, on axes 5.4 inches wide, with 0.142 inches for each
    of its lines.

    ``data`` has rows of ``part`` "story", "question", "greedy", "reference" with ``text``; "sample"
    with ``text`` and "beam" with ``text`` and ``value``, its p, in their order; and of any other
    part, a score, with its ``value``.
    """
    lines = example_lines(data)
    ax.set(xlim=(0, 5.4), ylim=(len(lines) + 1, 0), xticks=[], yticks=[])
    ax.spines[:].set(visible=True, color=GREY)
    for n, (label, text) in enumerate(lines):
        for x, part, weight in ((0, label, "bold"), (len(label), text, "normal")):
            look: dict[str, Any] = {
                "fontweight": weight,
                "family": FIXED_WIDTH,
                "parse_math": False,
            }
            ax.text(0.06 + CHARACTER * x, n + 0.5, part, va="top", in_layout=False, **look)
    top, bottom = (n + 0.5 for n, line in enumerate(lines) if line == ("", ""))
    # Not clipped: the name of a clip in an SVG file holds the last digits of the layout, which
    # differ from run to run.
    rule: dict[str, Any] = {"color": BLACK, "linewidth": 0.6, "clip_on": False}
    ax.hlines([top + 0.5, bottom + 0.5], 0.06, 5.34, **rule)
    ax.vlines(0.06 + 37 * CHARACTER, top + 0.5, bottom + 0.5, **rule)


def example_lines(data: pd.DataFrame) -> list[tuple[str, str]]:
    """The lines of a worked example, each what is bold and what follows it; an empty one before and
    after the sets.
    """
    texts, lines = dict(zip(data["part"], data["text"], strict=True)), []
    for part, (label, most) in PARTS.items():
        if part in texts or part != "story":
            first, *rest = wrapped(texts.get(part) or "(empty)", COLUMNS - 11, most)
            lines += [(f"{label:11}", first), *((" " * 11, line) for line in rest)]
    samples, beams = (data[data["part"] == part] for part in ("sample", "beam"))
    left = [one_line(text or "(empty)", 36) for text in samples["text"]]
    cut = [one_line(text or "(empty)", 34) for text in beams["text"]]
    right = [f"{text:34} {p:.3f}" for text, p in zip(cut, beams["value"], strict=True)]
    lines += [("", ""), (f"{'Samples':38} {'Beams':39}p", "")]
    lines += [("", f"{a:38} {b}") for a, b in itertools.zip_longest(left, right, fillvalue="")]
    others = data[~data["part"].isin([*PARTS, "sample", "beam"])]
    return [
        *lines,
        ("", ""),
        *((f"{part}: ", f"{of:.3f}") for part, of in others[["part", "value"]].to_numpy()),
    ]


def _sets(study: Study, candidates: CandidateSets, key: str) -> list[pd.DataFrame]:
    sets = (
        candidates.rows(name, study.main.num_candidates)
        for name in (study.main.sample, study.main.beam)
    )
    return [of[of["id"] == key].assign(p=lambda rows: np.exp(rows["logprob"])) for of in sets]


def one_line(text: str, most: int) -> str:
    """``text`` on one line of at most ``most`` characters, cut with an ellipsis; those the face
    lacks as U+FFFD.
    """
    from matplotlib.font_manager import findfont, get_font

    face = get_font(findfont(FIXED_WIDTH))
    drawn = "".join(c if face.get_char_index(ord(c)) else "\ufffd" for c in " ".join(text.split()))
    return drawn if len(drawn) <= most else drawn[: most - 1].rstrip() + "…"


def wrapped(text: str, width: int, most: int) -> list[str]:
    lines = textwrap.wrap(one_line(text, len(text) + 1), width, break_on_hyphens=False) or [""]
    return (
        [*lines[: most - 1], one_line(" ".join(lines[most - 1 :]), width)]
        if len(lines) > most
        else lines
    )


def exhibits(study: Study) -> list[Exhibit]:
    def with_stories(
        study: Study,
    ) -> list[Cell]:  # any dataset stands for CoQA where none has stories
        chosen = scored(study)
        return [cell for cell in chosen if study.datasets[cell.dataset].adapter == "coqa"] or chosen

    scored, triviaqa = partial(cells.with_methods, methods=[METHOD]), (MODEL, "triviaqa")
    decoded = partial(cells.recipe_cells, recipe=study.main.recipe, scorer=None)
    unscored = partial(Exhibit, kind="figure", cells=decoded, near=triviaqa, reads=CANDIDATES)
    single = partial(Exhibit, kind="figure", reads=(*CANDIDATES, *SCORES), shows_questions=True)
    two, one = partial(worked_examples, count=2), partial(worked_examples, count=1)
    pair = partial(single, cells=scored, build=two, caption="worked_examples")
    return [
        unscored("redundancy", build=redundancy, quality=False),
        unscored("beam_mass_threshold", build=mass_above_thresholds, quality=False),
        unscored("abl_prob_mass", build=covered_mass, quality=False),
        single(
            "sampling_vs_beamsearch",
            cells=scored,
            near=triviaqa,
            build=samples_and_beams,
            quality=False,
        ),
        pair("triviaqa-gemma4b", near=triviaqa),
        pair("webq-gemma4b", near=(MODEL, "webquestions")),
        single(
            "coqa-gemma4b-one",
            cells=with_stories,
            near=(MODEL, "coqa"),
            build=one,
            caption="worked_example",
        ),
    ]
