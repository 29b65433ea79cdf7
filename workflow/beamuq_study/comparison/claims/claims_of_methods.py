"""Claims about methods at the main number of candidates: beams against samples, and who leads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from beamuq.array_types import Floats
from beamuq.evaluation import prr_and_auc, significance
from beamuq.evaluation.estimates import TIE, Estimates, joined
from beamuq.evaluation.question_scores import QuestionScores
from beamuq_study import grid
from beamuq_study.comparison.claims.case import (
    Case,
    NotAskedError,
    measured_at,
    question_count,
    require_questions,
)
from beamuq_study.comparison.claims.judges import judge, main_recipe_cells, per_dataset
from beamuq_study.comparison.claims.verdict import Verdict, combined_part, part_of_share
from beamuq_study.exhibits.exhibit import CANDIDATES, SCORES
from beamuq_study.exhibits.method_groups import CONSISTENCY, OVER_BEAMS, OVER_SAMPLES
from beamuq_study.exhibits.numbers_of_cells import beam_gains
from beamuq_study.grid import Cell
from beamuq_study.study_config import Study

MAIN_TABLE = "tab:qa_mean_prr"
Side = Literal["below", "rest"]  # of a length


def _with_methods(
    study: Study, methods: Sequence[str] = ("Dissimilarity",), **_: Any
) -> list[Cell]:
    return grid.with_methods(study, methods)


@judge(cells=main_recipe_cells)
def beams_rise(
    case: Case,
    methods: Sequence[str] = CONSISTENCY,
    most: bool = False,
    match: bool = False,
    metric: str = "PRR",
    answer_source: str = "greedy",
) -> Verdict:
    """Whether beams raise the means over datasets of all methods, or of ``most``.

    ``match``: or lower them by less than what is negligible.

    Yes: every method gains, significantly at ``level`` after Holm over the methods; with ``most``,
    more than half gain, and half or more significantly. With ``match``, above −``negligible`` is a
    gain, and below it a loss.

    No: half of the methods gain, or fewer, and one loses significantly.

    Value: the mean of the methods' gains.
    """
    gains = case.answered(answer_source).gains(methods, metric, answer_source)
    return case.rise(
        gains.mean_over_datasets(),
        question_count(gains),
        margin=case.tolerances["negligible"] if match else 0.0,
        most=0.5 if most else 1.0,
    )


@judge(cells=main_recipe_cells)
def beams_change_nothing(case: Case, method: str) -> Verdict:
    """Whether beams change the mean over datasets of a method by a negligible amount.

    Yes: the interval of the gain lies within ± ``negligible``. One interval, no correction.

    No: it lies outside.

    Value: the gain.
    """
    gains = case.answered().gains([method])
    parts, summary = case.negligible(gains.mean_over_datasets())
    interval = summary[["value", "low", "high", "std"]].iloc[0]
    return Verdict(question_count(gains), parts[0], **interval)


Form = tuple[str, str]  # a method and its variant


def _with_both(study: Study, better: Form, worse: Form, **_: Any) -> list[Cell]:
    return grid.with_methods(study, [better[0], worse[0]])


@judge(cells=_with_both)
def method_ahead(case: Case, better: Form, worse: Form, qualities: Sequence[str]) -> Verdict:
    """Whether one form of a method ranks better than another by each of several qualities.

    By each quality the difference in PRR is that of the means over datasets; the notes have each.

    Yes: every difference is above 0, significantly at ``level`` after Holm over the qualities.

    No: half of them are above 0, or fewer, and one is significantly below.

    Value: the mean of the differences.
    """
    case = case.answered()
    leads = joined([_lead(case, better, worse, quality) for quality in qualities])
    means = leads.mean_over_datasets()
    summary = means.summary(case.results.study.evaluation.confidence)
    for row in summary.itertuples():
        case.notes.append(f"{row.quality} {row.value:+.3f} [{row.low:+.3f}, {row.high:+.3f}]")
    return case.rise(means, question_count(leads))


def _lead(case: Case, better: Form, worse: Form, quality: str) -> Estimates:
    """The better form minus the worse one in each cell by a quality, paired."""
    methods = {better[0], worse[0]}
    estimates = case.estimates("greedy", quality, metric="PRR", method=methods, setting="")
    of_forms = []
    for method, variant in (better, worse):
        keys = {"metric": "PRR", "setting": "", "method": method, "variant": variant}
        places = pd.DataFrame([cell.place | keys for cell in case.cells])
        of_forms.append(measured_at(estimates, places))
    return of_forms[0].minus(of_forms[1]).assign(quality=quality)


@judge(cells=main_recipe_cells)
def ranking(case: Case, place: str, method: str = "") -> Verdict:
    """Where the beam form of a method, or of any, stands in the main table by mean PRR.

    Yes: with ``place`` best, it is ahead of every other method, significantly at ``level`` by a p
    that allows for choosing the best of these forms and of the others. Any other place is left
    undecided: no test says how far a rank is one by chance.

    No: with ``place`` best, it is significantly behind the best of the others.

    Value: the lead over the best of the others, without an interval.
    """
    means = _means_of_main_table(case.answered())
    of_method = means.frame["method"] == method if method else True
    ahead = ((means.frame["variant"] == OVER_BEAMS) & of_method).to_numpy()
    if not ahead.any() or ahead.all():
        raise NotAskedError(f"no beam form of {method or 'any method'} beside other methods")
    ranks = means.frame["value"].rank(ascending=False, method="min")[ahead].sort_values()
    case.notes.append(f"rank {', '.join(f'{rank:.0f}' for rank in ranks)} of {len(means)}")
    if place != "best":
        return Verdict(question_count(means), "undecided")
    lead, p = significance.tested_lead(means, ahead)
    resamples = means.replicates.shape[1]
    return case.above_zero(np.array([lead]), np.array([p]), resamples, question_count(means))


def _means_of_main_table(case: Case) -> Estimates:
    """Means over datasets of the methods of the paper's main table that every cell has."""
    numbers = case.results.paper_numbers
    methods = set(numbers["method"][numbers["table"] == MAIN_TABLE])
    estimates = case.estimates(metric="PRR", setting="", method=methods)
    cell_counts = estimates.frame.groupby(["method", "variant"])["dataset"].transform("size")
    means = estimates.rows(cell_counts == len(case.cells)).mean_over_datasets()
    return measured_at(means, means.frame[["method", "variant"]])


@judge(cells=_with_methods, reads=(*SCORES, *CANDIDATES))
def gain_on_short_answers(case: Case, below: int) -> Verdict:
    """Whether Dissimilarity gains on answers of fewer tokens than ``below``, not on the others.

    Yes: on every dataset the short answers gain, significantly at ``level`` after Holm over the
    datasets, and the interval of the others' gain lies within ± ``negligible``, uncorrected.

    No: on half of the datasets the short answers gain, or on fewer; and on one they lose
    significantly, or on half or more the interval of the others lies outside.

    Value: the mean over datasets of the gain on the short answers.
    """
    case.require(*SCORES, *CANDIDATES)
    short = joined([_gain_by_length(case, cell, below, "below") for cell in case.cells])
    rest = joined([_gain_by_length(case, cell, below, "rest") for cell in case.cells])
    parts, _ = case.negligible(rest)
    size = combined_part(parts)
    n = question_count(short) + question_count(rest)
    return case.rise(short, n, size=size, opposite=size == "no")


def _gain_by_length(case: Case, cell: Cell, length: int, side: Side) -> Estimates:
    """What Dissimilarity gains on the answers of a cell below so many tokens, or on the rest."""
    scored = case.results.inputs.scores(cell)
    sets = case.with_cells(cell).candidates()
    is_below = pd.Series(sets.lengths() < length, sets.ids)
    members = (is_below if side == "below" else ~is_below).loc[scored.ids].to_numpy()
    require_questions(int(members.sum()), f"of {cell.dataset}, {side} {length} tokens")
    forms = [("Dissimilarity", variant, "") for variant in (OVER_BEAMS, OVER_SAMPLES)]
    prr = scored.prr(members, f"by length {side}", forms, **case.results.inputs.resampling)
    of_cell = prr.assign(**cell.place)
    return beam_gains(measured_at(of_cell, of_cell.frame[["variant"]]))


@judge(cells=_with_methods, reads=SCORES)
@per_dataset
def curves_ahead(case: Case, methods: Sequence[str]) -> Verdict:
    """Whether rejection curves of beams lie on or above those of samples over nearly all shares.

    Yes: for every method they do over ``nearly_all`` of the shares, and it gains in PRR,
    significantly at ``level`` after Holm over the methods.

    No: for one method they do over half of the shares, or less, and one loses significantly in PRR.

    Value: the mean of the methods' gains in PRR.
    """
    case.require(*SCORES)
    scored = case.results.inputs.scores(case.cells[0])
    shares_ahead = []
    for method in methods:
        beams = _rejection_curve(scored, method, OVER_BEAMS)
        samples = _rejection_curve(scored, method, OVER_SAMPLES)
        shares_ahead.append(float(np.mean(beams >= samples - TIE)))
    least = min(shares_ahead)
    case.notes.append(f"ahead over {least:.0%} of the range at least")
    sign = part_of_share(least, case.tolerances["nearly_all"])
    return case.rise(case.gains(methods), len(scored.ids), sign=sign)


def _rejection_curve(scored: QuestionScores, method: str, variant: str) -> Floats:
    """The quality of what is retained, after the first rejection."""
    scores = scored.scores(method, variant)
    curves = prr_and_auc.rejection_curves(scores, scored.quality)
    return curves["quality"].to_numpy()[1:]
