"""Figures of one's own scores: rejection, risk against coverage, reliability, gains of beams.

Each function takes arrays, or the frame of ``beamuq.score``, draws on matplotlib's axes ``ax``
(None: those of a new figure) and returns them. Above the axes stand the judge, the similarity and
n, as far as columns say them (a series' name is the judge's); the legend is below. A figure without
a layout gets matplotlib's constrained one, which makes room for both. A study draws its figures
with the same functions (``beamuq.drawing.curves``). Without matplotlib they raise BeamUQError: how
to install it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq.api.answers_alone import check_are_of_the_same
from beamuq.api.named_scores import Name, ScoreColumn, ScoreKeys, column_of, columns_of, keys_of
from beamuq.api.paired_columns import check_order, group_column, number_column
from beamuq.api.paired_differences import PairedComparison, ScoresComparison, ends_of
from beamuq.api.rows import check_settings, plain
from beamuq.api.score_candidates import Scores, as_scores
from beamuq.api.score_series import (
    form_in_words,
    score_in_words,
    similarity_in_words,
    similarity_of,
)
from beamuq.array_types import Bools, Floats
from beamuq.drawing import curves
from beamuq.drawing.series_on_axes import (
    COLOURS,
    FORMS,
    Axes,
    Looks,
    SeriesStyle,
    axes_or_new,
    legend_below,
    legend_with_interval,
    title_with_facts,
)
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import resample_counts
from beamuq.evaluation.guaranteed_threshold import risk_coverage as risk_by_coverage
from beamuq.evaluation.probability_of_being_right import reliability_by_bin
from beamuq.evaluation.prr_and_auc import rejection_bands

Scored = pd.DataFrame | Mapping[str, npt.ArrayLike] | npt.ArrayLike
"""Scores: a frame of ``beamuq.score``, several columns by name, or one."""
LINES = ("-", "--", ":", "-.")
MARKERS = ("o", "s", "^", "D", "v")
RESAMPLES = 500  # an interval is drawn to the pixel, not to the third digit


def rejection_curves(
    scores: Scored,
    quality: npt.ArrayLike,
    *,
    method: Name = "Dissimilarity",
    groups: Sequence[object] | None = None,
    max_rejection: float = 0.5,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Mean quality of what is retained against the share rejected, the most uncertain first.

    ``scores``: a frame of ``beamuq.score``, of which ``method`` is drawn in each form that it has,
    or in one, ``("Dissimilarity", "samples")``; a mapping from names to columns [N]; or one column
    [N], higher = more uncertain. Where ``score`` was given ``draw_size``, samples have the mean of
    the draws' curves. ``quality`` [N], higher = better. Thin lines are ends of the bootstrap's
    intervals, over ``groups`` [N] if they are given. Beside them the oracle's order, the random
    one, and where PRR ends.

    Raises BeamUQError if columns are of different length or order, a value is missing, or a setting
    is out of its range, as of ``beamuq.prr``.

    Examples
    --------
    >>> ax = beamuq.plot.rejection_curves([0.9, 0.2, 0.7, 0.1], [0, 1, 0, 1])
    >>> ax.get_xlabel()
    'Share rejected'
    """
    check_settings(
        max_rejection=max_rejection, resamples=resamples, confidence=confidence, seed=seed
    )
    columns = _Columns("scores", scores, method, groups, by_draw=True, quality=quality)
    counts = resample_counts(columns.groups, resamples, seed, "rejection_curves")
    parts = []
    for name, draws in columns.draws.items():
        curve = rejection_bands(np.array(draws), columns.target, counts, confidence)
        parts.append(curve.assign(variant=name))
    ax = axes_or_new(ax)
    data = pd.concat(parts, ignore_index=True)
    curves.draw_rejection_curves(data, ax, max_rejection, columns.looks)
    ax.set(xlabel="Share rejected", ylabel="Mean quality retained")
    title_with_facts(ax, columns.title, columns.facts)
    legend_with_interval(ax, confidence)
    return ax


def risk_coverage(
    scores: Scored,
    correct: npt.ArrayLike,
    *,
    method: Name = "Dissimilarity",
    groups: Sequence[object] | None = None,
    risks: Sequence[float] = (),
    threshold: float | None = None,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Share wrong of the most certain answers against the share shown.

    ``scores``, ``method``, ``groups``: as for :func:`rejection_curves`, but of several draws of
    samples the scores over all samples are drawn; a group counts as much as another.
    ``correct`` [N]: 1 right, 0 wrong; answers where it is missing are left out with a warning, as
    ``Calibration.fit`` does. ``risks``: allowed shares wrong, dotted lines. ``threshold``: of a
    calibration, a mark on the curve at the largest score up to it.

    Raises BeamUQError as :func:`rejection_curves`, and if ``correct`` is neither 0 nor 1, a risk is
    no share, or the threshold no number.

    Examples
    --------
    >>> ax = beamuq.plot.risk_coverage([0.9, 0.2, 0.7, 0.1], [0, 1, 0, 1], risks=[0.1])
    >>> ax.get_ylabel()
    'Share of it wrong'
    """
    check_settings(resamples=resamples, confidence=confidence, seed=seed)
    shares = _shares_of(risks)
    _check_threshold(threshold)
    columns = _Columns("scores", scores, method, groups, leaves_out=True, correct=correct)
    wrong = ~columns.right()
    counts = resample_counts(columns.groups, resamples, seed, "risk_coverage")
    parts = []
    for name, values in columns.scores.items():
        curve = risk_by_coverage(values, wrong, columns.groups, counts, confidence)
        curve = curve.assign(variant=name, part="curve")
        parts.append(curve)
        if threshold is not None:
            shown = curve[curve["score"] <= threshold]
            parts.append(shown.tail(1).assign(part="guaranteed"))
    ax = axes_or_new(ax)
    data = pd.concat(parts, ignore_index=True)
    curves.draw_risk_coverage(data, ax, shares, looks=columns.looks)
    ax.set(xlabel="Share shown", ylabel="Share of it wrong")
    title_with_facts(ax, columns.title, columns.facts)
    legend_with_interval(ax, confidence)
    return ax


def _check_threshold(threshold: object) -> None:
    """Raises BeamUQError where it is neither a score nor None."""
    if threshold is None:
        return
    is_truth = isinstance(threshold, bool | np.bool_)
    if is_truth or not isinstance(threshold, int | float | np.number) or np.isnan(threshold):
        raise BeamUQError(
            f"threshold: {threshold!r:.40}: no score; give a calibration's threshold, or None"
        )


def _shares_of(risks: object) -> list[float]:
    """The shares of a list; raises BeamUQError where one is none, or what is given is no list."""
    shares = plain(risks)
    if isinstance(shares, str | Mapping) or not isinstance(shares, Iterable):
        raise BeamUQError(f"risks: {risks!r:.40}: no list of shares; give one, such as [0.1, 0.2]")
    shares = list(shares)
    for share in shares:
        check_settings(risk=share)
    return shares


def reliability(
    probability: Mapping[str, npt.ArrayLike] | npt.ArrayLike,
    correct: npt.ArrayLike,
    *,
    groups: Sequence[object] | None = None,
    confidence: float = 0.95,
    ax: Axes | None = None,
) -> Axes:
    """Share right against a stated probability of being right, in ten bins, with Wilson's interval.

    ``probability``: a column [N] in [0, 1], or several by name; ``correct`` [N]: 1 right, 0 wrong;
    ``groups`` [N]. On the diagonal it holds; marks grow with the answers of a bin. Give
    probabilities of answers that they were not learned from.

    Raises BeamUQError as :func:`risk_coverage`, and if a probability is outside [0, 1].

    Examples
    --------
    >>> ax = beamuq.plot.reliability([0.9, 0.2, 0.8, 0.1], [1, 0, 1, 0])
    >>> ax.get_ylabel()
    'Share right'
    """
    check_settings(confidence=confidence)
    columns = _Columns("probability", probability, "", groups, correct=correct)
    parts = []
    for name, values in columns.scores.items():
        if ((values < 0) | (values > 1)).any():
            raise BeamUQError(
                "probability: outside [0, 1]; a score is no probability, calibrate it"
            )
        bins = reliability_by_bin(values, columns.right(), columns.groups, confidence)
        parts.append(bins.assign(variant=name))
    ax = axes_or_new(ax)
    curves.draw_reliability(pd.concat(parts, ignore_index=True), ax, columns.looks)
    ax.set(xlabel="Mean p(right)", ylabel="Share right")
    title_with_facts(ax, columns.title, columns.facts)
    legend_below(ax)
    return ax


def gains(
    comparisons: Mapping[str, PairedComparison | ScoresComparison], ax: Axes | None = None
) -> Axes:
    """Differences in PRR, a row a comparison of ``beamuq.compare``, with their intervals.

    ``comparisons``: by the names that stand beside the rows, such as methods or datasets. One that
    is undefined is an empty row. Each row has its n; what all are by stands above.

    Raises BeamUQError if there is none, or what is given is no mapping of comparisons.
    """
    _check_comparisons(comparisons)
    listed = list(comparisons.values())
    rows = [
        {"name": f"{name} (n = {comparison.n})", "variant": "", **ends_of(comparison)}
        for name, comparison in comparisons.items()
    ]
    data = pd.DataFrame(rows)
    ax = axes_or_new(ax, height=1.3 + 0.3 * len(data))
    curves.draw_values(data, ax)
    judges = ", ".join(dict.fromkeys(comparison.quality for comparison in listed))
    similarities = dict.fromkeys(filter(None, (comparison.similarity for comparison in listed)))
    facts = [f"by {judges}", *_similarity_fact(", ".join(similarities))]
    title_with_facts(ax, _difference_of_all(listed), facts, list(data["name"]))
    ax.set_xlabel("difference in PRR")
    return ax


def _check_comparisons(comparisons: object) -> None:
    """Refuse what is no mapping of comparisons, with the call that makes one."""
    one = "method: beamuq.compare(scores, quality, method)"
    fix = f"give comparisons by name: {{{one} for method in …}}"
    if not isinstance(comparisons, Mapping):
        raise BeamUQError(f"comparisons: a {type(comparisons).__name__}; {fix}")
    for name, comparison in comparisons.items():
        if not isinstance(comparison, PairedComparison | ScoresComparison):
            raise BeamUQError(f"comparisons: {name!r}: a {type(comparison).__name__}; {fix}")
    if not comparisons:
        raise BeamUQError(f"comparisons: none; {fix}")


def _difference_of_all(comparisons: Sequence[PairedComparison | ScoresComparison]) -> str:
    """What is subtracted from what, as far as all rows have it in common."""
    names = {comparison.name_of_difference for comparison in comparisons}
    if len(names) == 1:
        return names.pop()
    seconds = {
        comparison.second.in_words()
        for comparison in comparisons
        if isinstance(comparison, ScoresComparison)
    }
    if len(seconds) == 1 and all(isinstance(one, ScoresComparison) for one in comparisons):
        return f"minus {seconds.pop()}"
    return ""


def _similarity_fact(similarity: str) -> list[str]:
    return [f"similarity {similarity}"] if similarity else []


class _Columns:
    """Scores by name, what they are judged by and groups, each [N], of the same answers.

    ``target``: the one column in ``judged``, by the name that errors call it. ``leaves_out``:
    answers where that is missing, with a warning. ``title`` and ``facts``: what stands above a
    picture. ``draws``: the columns of each name, several with ``by_draw`` where the samples make
    several draws.
    """

    def __init__(
        self,
        name: str,
        scores: Scored,
        method: Name,
        groups: Sequence[object] | None,
        *,
        by_draw: bool = False,
        leaves_out: bool = False,
        **judged: npt.ArrayLike,
    ) -> None:
        ((self.target_name, target),) = judged.items()
        check_are_of_the_same(scores, target)
        drawn = _drawn_columns(name, scores, method, by_draw=by_draw)
        self.title = drawn.title
        self.looks = drawn.looks
        self.draws: dict[str, list[Floats]] = {}
        for key, columns in drawn.columns.items():
            for column in columns:
                check_order(**{name: column, self.target_name: target}, groups=groups)
            self.draws[key] = [number_column(name, column) for column in columns]
        self.target = number_column(self.target_name, target, truth_values=True)
        count = len(self.target)
        self.groups = list(map(str, range(count))) if groups is None else group_column(groups)
        if leaves_out:
            self._leave_out_unlabelled()
            count = len(self.target)
        sizes = {"groups": len(self.groups), self.target_name: count}
        for values in chain.from_iterable(self.draws.values()):
            _check_complete({name: len(values)} | sizes, values, self.target)
        judge = getattr(target, "name", None)
        of_groups = "" if groups is None else f" in {len(set(self.groups))} groups"
        self.facts = [
            *([f"by {judge}"] if judge else []),
            *_similarity_fact(drawn.similarity),
            f"n = {count}{of_groups}",
        ]

    @property
    def scores(self) -> dict[str, Floats]:
        """The one column of each name, where they are not by draw."""
        return {key: values for key, (values,) in self.draws.items()}

    def _leave_out_unlabelled(self) -> None:
        """Leave out answers without a label, of which it warns.

        Raises BeamUQError where none has one. Where lengths differ, nothing is left out.
        """
        is_labelled = ~np.isnan(self.target)
        count = len(self.target)
        columns = chain.from_iterable(self.draws.values())
        lengths = {len(self.groups), *(len(values) for values in columns)}
        if is_labelled.all() or lengths != {count}:
            return
        if not is_labelled.any():
            raise BeamUQError(f"{self.target_name}: missing for every answer; give some a label")
        warnings.warn(
            f"{self.target_name}: {int((~is_labelled).sum())} of {count} without a label left out; "
            "what is drawn is of answers like the others",
            stacklevel=4,
        )
        self.draws = {
            key: [values[is_labelled] for values in columns] for key, columns in self.draws.items()
        }
        self.groups = list(compress(self.groups, is_labelled))
        self.target = self.target[is_labelled]

    def right(self) -> Bools:
        """Whether each answer is right; raises BeamUQError where that is neither 0 nor 1."""
        if not np.isin(self.target, (0, 1)).all():
            raise BeamUQError(
                f"{self.target_name}: neither 0 nor 1; of a quality give quality > threshold"
            )
        return np.asarray(self.target == 1)


@dataclass(frozen=True)
class _Drawn:
    """Columns by a key, how each looks, what all are of, and what texts were compared by.

    A key has one column, or that of each draw.
    """

    columns: Mapping[str, Sequence[npt.ArrayLike]]
    looks: Looks
    title: str
    similarity: str


def _drawn_columns(name: str, scores: Scored, method: Name, *, by_draw: bool) -> _Drawn:
    if isinstance(scores, pd.DataFrame) and method:
        return _forms_of_frame(scores, method, by_draw=by_draw)
    if isinstance(scores, Mapping):
        similarities = {similarity_in_words(column) for column in scores.values()}
        looks = {key: _look(str(key), place) for place, key in enumerate(scores)}
        columns = {key: [column] for key, column in scores.items()}
        return _Drawn(columns, looks, "", ", ".join(sorted(filter(None, similarities))))
    title = ""
    if isinstance(scores, pd.Series):
        title = score_in_words(scores, number_column(name, scores))
    look = _look(title or name, 0)
    return _Drawn({name: [scores]}, {name: look}, title, similarity_in_words(scores))


def _look(title: str, place: int) -> SeriesStyle:
    """How the column at a place looks."""
    colours = list(COLOURS.values())
    return SeriesStyle(
        title,
        colours[place % len(colours)],
        LINES[place % len(LINES)],
        MARKERS[place % len(MARKERS)],
    )


def _forms_of_frame(scores: pd.DataFrame, method: object, *, by_draw: bool) -> _Drawn:
    """A method's scores in each form that it has, or in the one that is named with it."""
    if not isinstance(method, str | tuple):
        raise BeamUQError(
            "method: give one; several by name in the place of scores: "
            "{name: scores[name] for name in ('CocoaPPL', 'Prob')}"
        )
    frame = as_scores(scores)
    ids = pd.Index(frame["id"].unique())
    forms = _forms_of_method(frame, method)
    columns: dict[str, Sequence[npt.ArrayLike]] = {}
    looks: dict[str, SeriesStyle] = {}
    for keys in forms:
        draws = columns_of(frame, ids, keys) if by_draw else [column_of(frame, ids, keys)]
        columns[keys.form] = [draw.values for draw in draws]
        looks[keys.form] = replace(FORMS[keys.form], title=_title_of(draws))
    title = f"{forms[0].method} {forms[0].setting}".strip()
    return _Drawn(columns, looks, title, similarity_of(frame, forms[0].method))


def _forms_of_method(scores: Scores, method: Name) -> list[ScoreKeys]:
    """What is drawn; raises BeamUQError if there is no such score."""
    if isinstance(method, str):
        rows = scores[(scores["method"] == method) & (scores["setting"] == "")]
        has_value = set(rows.loc[rows["value"].notna(), "variant"])
        forms = [ScoreKeys(method, form, "") for form in FORMS if form in has_value]
        if forms:
            return forms
    return [keys_of("method", scores, method)]  # or it says why there is none


def _title_of(draws: Sequence[ScoreColumn]) -> str:
    """What a legend calls a form: ``10 samples, mean of 5 draws``, ``10 beams``."""
    keys = draws[0].keys
    words = form_in_words(keys.method, keys.form, draws[0].counts, plain=True)
    form = words.removeprefix("over ").removeprefix("of the ") or FORMS[keys.form].title
    return f"{form}, mean of {len(draws)} draws" if len(draws) > 1 else form


def _check_complete(sizes: Mapping[str, int], values: Floats, target: Floats) -> None:
    """Refuse columns of different lengths, none, or with a value that is missing."""
    if len(set(sizes.values())) > 1 or not len(values):
        listed = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise BeamUQError(f"{listed}; give one of each per answer")
    missing = np.flatnonzero(np.isnan(values) | np.isnan(target))
    if len(missing):
        raise BeamUQError(f"row {missing[0] + 1}: a value is missing; leave this answer out of all")
