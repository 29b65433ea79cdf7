"""How a claim is judged: the cells that it is asked of, the verbs that its function is made of, and
the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Literal

import numpy as np
import pandas as pd

from beamuq.array_types import Bools, Floats
from beamuq.evaluation import intervals
from beamuq.evaluation.candidate_sets import CandidateSets
from beamuq.evaluation.estimates import TIE, Estimates
from beamuq.evaluation.holm_and_benjamini_hochberg import holm
from beamuq.evaluation.intervals import normal_quantile
from beamuq.evaluation.significance import Within, smallest_detectable, within
from beamuq_study.comparison.comparison_inputs import ComparisonInputs
from beamuq_study.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION
from beamuq_study.grid import Cell

Part = Literal["yes", "partly", "no", "undecided", "-"]
Judge = Callable[..., "Verdict"]
LEAST_QUESTIONS = 50


class NotAskedError(Exception):
    outcome = "not asked"


class TooFewError(NotAskedError):
    outcome = "too few"


@dataclass(frozen=True)
class Verdict:
    """Whether the sign and the size are as claimed, what a test says of it, and a value with its
    interval.
    """

    n: int  # the questions it rests on
    sign: Part = "-"  # not claimed; "undecided": this study cannot tell
    size: Part = "-"
    significance: Part = "-"
    opposite: bool = False  # the opposite of something claimed is shown
    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    std: float = np.nan  # of the value, where that is what is tested

    @property
    def outcome(self) -> Part:
        """Any answer has to be shown, beyond what chance alone does.

        Yes: sign and size are as claimed, and significantly so where there is a test. No: the sign
        is not, or nothing is, and the opposite is shown; partly: only a part is. Undecided:
        anything else.
        """
        parts = {part for part in (self.sign, self.size) if part != "-"}
        if parts == {"yes"}:
            return "yes" if self.significance in ("-", "yes") else "undecided"
        wrong = self.sign == "no" or parts == {"no"}
        if not wrong and (self.sign == "undecided" or parts <= {"undecided", "yes"}):
            return "undecided"
        shown = self.opposite or self.significance == "-"
        return "undecided" if not shown else "no" if wrong else "partly"


@dataclass(frozen=True)
class Case:
    """The cells of a study that a claim is asked of, and what is said beside the numbers, as it is
    found.
    """

    results: ComparisonInputs
    cells: Sequence[Cell]
    notes: list[str] = field(default_factory=list)

    @property
    def tolerances(self) -> dict[str, float]:
        return self.results.rules.claims

    def of(self, *cells: Cell) -> Case:
        return replace(self, cells=cells)

    def require(self, *kinds: str) -> None:
        """Raises NotAskedError if a file of these cells was not run."""
        if lacking := self.results.lacking(self.cells, *kinds):
            raise NotAskedError(f"{lacking} was not run")

    def estimates(
        self, answer_source: str = "greedy", /, **keys: str | Collection[str]
    ) -> Estimates:
        """The estimates of all questions under these ``keys``, each of enough."""
        self.require(*EVALUATION)
        estimates = self.results.estimates(self.cells, answer_source=answer_source, **keys)
        for dataset, n in estimates.frame.groupby("dataset")["n"].min().items():
            enough(int(n), f"of {dataset}")
        return estimates

    def gains(
        self, methods: Sequence[str], metric: str = "PRR", answer_source: str = "greedy"
    ) -> Estimates:
        """Beam minus multinomial of each method in each cell, paired."""
        places = [cell.place | {"method": method} for cell in self.cells for method in methods]
        keys = pd.DataFrame(places).assign(metric=metric, setting="")
        estimates = self.estimates(answer_source, metric=metric, method=methods, setting="")
        return at(estimates, keys.assign(variant=BEAMSEARCH)).minus(
            at(estimates, keys.assign(variant=MULTINOMIAL))
        )

    def candidates(self) -> CandidateSets:
        self.require(*CANDIDATES)
        candidates = self.results.inputs.candidates(self.cells[0])
        enough(len(candidates.ids), f"of {self.cells[0].dataset}")
        return candidates

    def answered(self, answer_source: str = "greedy") -> Case:
        """The cells whose answers are not empty too often."""
        self.require(*EVALUATION)
        empty = {cell: self.results.inputs.empty(cell).get(answer_source) for cell in self.cells}
        kept = [cell for cell, of in empty.items() if of is None or not of.too_many]
        if not kept:
            raise NotAskedError(
                f"more than a fifth of the answers of {self.cells[0].model} are empty on every "
                "dataset"
            )
        self.notes.extend(
            f"without {cell.dataset}: too many empty answers" for cell in empty if cell not in kept
        )
        return self.of(*kept)

    def rise(self, differences: Estimates, n: int, margin: float = 0.0, **parts: Any) -> Verdict:
        """A verdict on differences claimed to be above −margin, as :meth:`above_zero`; the value is
        their mean.
        """
        values, drawn = differences.frame["value"].to_numpy(np.float64), differences.replicates
        mean = Estimates.from_rows(
            [{"value": values.mean(), "n": n}], [drawn.astype(np.float64).mean(axis=0)]
        )
        found = mean.summary(self.results.study.evaluation.confidence)[
            ["value", "low", "high", "std"]
        ].iloc[0]
        shifted = Estimates(differences.frame.assign(value=values + margin), drawn + margin)
        return replace(
            self.above_zero(values + margin, shifted.p(), drawn.shape[1], n, **parts), **found
        )

    def above_zero(
        self, values: Floats, p: Floats, resamples: int, n: int, *, most: float = 1.0, **parts: Any
    ) -> Verdict:
        """A verdict on values [K] that are claimed to be above 0, with their p [K], NaN as 1, after
        Holm over all.

        ``most``: the share that has to be significant. ``parts``: of the verdict; where the sign is
        not among them, it is whether all values are above 0, or ``most`` and more than half.
        """
        positive = values > TIE
        small = holm(np.nan_to_num(p, nan=1.0), len(p)) < self.tolerances["level"]
        above, below = float(np.mean(small & positive)), float(np.mean(small & (values < -TIE)))
        self.notes.append(f"{positive.sum()} of {len(values)} above 0")
        significance: Part = "yes" if above >= most else "partly" if above > 0 else "no"
        if self.too_few_resamples(resamples, len(p), 2):
            significance = "undecided"
        else:
            self.notes.append(f"{above:.0%} significantly above, {below:.0%} significantly below")
        opposite = parts.pop("opposite", False) or below > 0
        parts = {"sign": share_as(float(positive.mean()), max(most, np.nextafter(0.5, 1)))} | parts
        return Verdict(
            n, significance=significance, opposite=opposite, value=float(values.mean()), **parts
        )

    def too_few_resamples(self, resamples: int, tests: int, sides: int) -> bool:
        """Whether no p, at least ``sides`` / (resamples + 1), can be significant among so many
        tests.
        """
        if few := sides * tests / (resamples + 1) >= self.tolerances["level"]:
            self.notes.append(f"too few resamples ({resamples:,}) for {tests} tests")
        return few

    def clear(self, mean: float, std: float, n: int) -> Verdict:
        """Whether a mean is above 0 by its interval ± z · std; undecided where that holds 0."""
        half = self.results.rules.agreement["z"] * std
        sign: Part = "undecided" if not abs(mean) > half else "yes" if mean > 0 else "no"
        return Verdict(n, sign, value=mean, low=mean - half, high=mean + half, std=std)

    def detectable(self, std: float) -> float:
        """The smallest true difference that a two-sided test of an estimate with this error shows,
        with the power declared: at 5 % and 80 %, 2.8 standard errors."""
        z = normal_quantile(1 - self.tolerances["level"] / 2)
        return float(smallest_detectable(std, 0.0, z, self.results.rules.agreement["power"]))

    def negligible(self, differences: Estimates) -> tuple[list[Within], pd.DataFrame]:
        """Whether the interval of each difference is within what was declared as nothing; and their
        summary.
        """
        summary = differences.summary(self.results.study.evaluation.confidence)
        return within(summary, self.tolerances["negligible"]), summary

    def within_paper_range(
        self,
        values: Floats | Bools,
        groups: Sequence[str],
        paper_range: Sequence[float],
        asked: int,
    ) -> Verdict:
        """Whether the mean of shares [N] is as near the paper's range as two such measurements may
        lie.

        No: it is farther off, the paper's spread taken as ours. Yes: it is not, and of this dataset
        about as many questions are ``asked`` as in the paper; of fewer the interval lies inside the
        range. Undecided: anything else.
        """
        confidence, mean, rules = (
            self.results.study.evaluation.confidence,
            float(values.mean()),
            self.results.rules,
        )
        low, high = intervals.share_interval(values, groups, confidence) or (np.nan, np.nan)
        paper = rules.paper.datasets.get(self.cells[0].dataset)
        many = (
            not np.isnan(low)
            and paper is not None
            and not rules.too_few(asked, "", paper.questions)
        )
        std = (high - low) / (2 * normal_quantile((1 + confidence) / 2))
        far = (
            max(paper_range[0] - mean, mean - paper_range[1], 0.0)
            > rules.agreement["z"] * np.sqrt(2) * std
        )
        size: Part = (
            "no"
            if far
            else "yes"
            if many or paper_range[0] <= low <= high <= paper_range[1]
            else "undecided"
        )
        return Verdict(len(values), size=size, value=mean, low=low, high=high, std=std)


def per_dataset(judge: Judge) -> Judge:
    """Judges a claim about one cell on each of several: those with too few questions are left
    out.
    """

    @wraps(judge)
    def judged(case: Case, **settings: Any) -> Verdict:
        verdicts, few = list[Verdict](), TooFewError("no dataset")
        for cell in case.cells:
            try:
                verdicts.append(judge(case.of(cell), **settings))
            except TooFewError as error:
                few = error
                case.notes.append(f"without {cell.dataset}: {error}")
        if not verdicts:
            raise few
        if len(verdicts) == 1:
            return verdicts[0]
        of = {name: [getattr(each, name) for each in verdicts] for name in vars(verdicts[0])}
        mean, half = (
            np.mean(of["value"]),
            np.linalg.norm(np.subtract(of["high"], of["low"])) / (2 * len(verdicts)),
        )
        sign, size, significance = (together(of[name]) for name in ("sign", "size", "significance"))
        ends = (
            float(mean),
            float(mean - half),
            float(mean + half),
            float(np.linalg.norm(of["std"]) / len(verdicts)),
        )
        return Verdict(sum(of["n"]), sign, size, significance, any(of["opposite"]), *ends)

    return judged


def enough(count: int, where: str) -> None:
    """Raises TooFewError below ``LEAST_QUESTIONS``."""
    if count < LEAST_QUESTIONS:
        raise TooFewError(f"{count} questions {where}; {LEAST_QUESTIONS} are asked for")


def at(estimates: Estimates, places: pd.DataFrame) -> Estimates:
    """The estimates at some places. Raises NotAskedError if one was not measured, or is
    undefined.
    """
    try:
        chosen = estimates.at(places)
    except KeyError as error:
        raise NotAskedError(f"no value for {error.args[0]}") from error
    for row in chosen.frame[chosen.frame["value"].isna()].itertuples():
        raise NotAskedError(f"{row.metric} of {row.method} on {row.dataset}: {row.note}")
    return chosen


def questions(estimates: Estimates) -> int:
    """How many questions the estimates of several cells rest on."""
    return int(estimates.frame.groupby(["model", "dataset"])["n"].max().sum())


def together(parts: Sequence[Part]) -> Part:
    """Parts of several cells as one: as :func:`share_as` of those that hold, undecided where the
    open ones matter.
    """
    if len(set(parts)) == 1:
        return parts[0]
    worst, best = (
        share_as(float(np.mean([p in yes for p in parts])))
        for yes in (("yes",), ("yes", "undecided"))
    )
    return worst if worst == best else "undecided"


def share_as(share: float, most: float = 1.0) -> Part:
    """All (or at least ``most``): yes; more than half: partly; else no."""
    return "yes" if share >= most else "partly" if share > 0.5 else "no"
