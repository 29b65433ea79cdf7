"""The cells that a claim is asked of, and the verbs that judging it is made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from beamuq.array_types import Bools, Floats
from beamuq.evaluation import intervals
from beamuq.evaluation.candidate_sets import CandidateSets
from beamuq.evaluation.estimates import TIE, Estimates
from beamuq.evaluation.holm_and_benjamini_hochberg import holm
from beamuq.evaluation.intervals import normal_quantile
from beamuq.evaluation.significance import Within, smallest_detectable, within
from beamuq_study.comparison.claims.verdict import Part, Verdict, part_of_share
from beamuq_study.comparison.comparison_inputs import ComparisonInputs
from beamuq_study.exhibits.exhibit import CANDIDATES, EVALUATION
from beamuq_study.exhibits.method_groups import OVER_BEAMS, OVER_SAMPLES
from beamuq_study.grid import Cell

LEAST_QUESTIONS = 50
MORE_THAN_HALF = float(np.nextafter(0.5, 1))


class NotAskedError(Exception):
    outcome = "not asked"


class TooFewError(NotAskedError):
    outcome = "too few"


@dataclass(frozen=True)
class Case:
    """The cells of a study that a claim is asked of, and notes beside the numbers."""

    results: ComparisonInputs
    cells: Sequence[Cell]
    notes: list[str] = field(default_factory=list)

    @property
    def tolerances(self) -> dict[str, float]:
        return self.results.rules.claims

    def with_cells(self, *cells: Cell) -> Case:
        """The same case, with the same notes, of other cells."""
        return replace(self, cells=cells)

    # -- what was measured -------------------------------------------------------------------------

    def require(self, *kinds: str) -> None:
        """Raises NotAskedError if a file of these cells was not run."""
        path = self.results.lacking(self.cells, *kinds)
        if path:
            raise NotAskedError(f"{path} was not run")

    def estimates(
        self, answer_source: str = "greedy", quality: str = "", /, **keys: str | Collection[str]
    ) -> Estimates:
        """The estimates of all questions under these ``keys``, each of enough.

        ``quality``: by which they are judged; "" is the study's main one.
        """
        self.require(*EVALUATION)
        estimates = self.results.estimates(self.cells, quality, answer_source=answer_source, **keys)
        for dataset, n in estimates.frame.groupby("dataset")["n"].min().items():
            require_questions(int(n), f"of {dataset}")
        return estimates

    def gains(
        self, methods: Sequence[str], metric: str = "PRR", answer_source: str = "greedy"
    ) -> Estimates:
        """Beam minus multinomial of each method in each cell, paired."""
        places = [cell.place | {"method": method} for cell in self.cells for method in methods]
        keys = pd.DataFrame(places).assign(metric=metric, setting="")
        estimates = self.estimates(answer_source, metric=metric, method=methods, setting="")
        beams = measured_at(estimates, keys.assign(variant=OVER_BEAMS))
        samples = measured_at(estimates, keys.assign(variant=OVER_SAMPLES))
        return beams.minus(samples)

    def candidates(self) -> CandidateSets:
        """The candidates of the first cell, of enough questions."""
        self.require(*CANDIDATES)
        candidates = self.results.inputs.candidates(self.cells[0])
        require_questions(len(candidates.ids), f"of {self.cells[0].dataset}")
        return candidates

    def answered(self, answer_source: str = "greedy") -> Case:
        """The cells whose answers are not empty too often. Raises NotAskedError without any."""
        self.require(*EVALUATION)
        answered_cells = []
        notes = []
        for cell in self.cells:
            empty = self.results.inputs.empty(cell).get(answer_source)
            if empty is not None and empty.too_many:
                notes.append(f"without {cell.dataset}: too many empty answers")
            else:
                answered_cells.append(cell)
        if not answered_cells:
            raise NotAskedError(
                f"more than a fifth of the answers of {self.cells[0].model} are empty on every "
                "dataset"
            )
        self.notes.extend(notes)
        return self.with_cells(*answered_cells)

    # -- what it shows -----------------------------------------------------------------------------

    def rise(
        self,
        differences: Estimates,
        n: int,
        margin: float = 0.0,
        *,
        most: float = 1.0,
        sign: Part | None = None,
        size: Part = "-",
        opposite: bool = False,
        families: int = 1,
    ) -> Verdict:
        """A verdict on differences claimed to be above −margin; the value is their mean.

        ``n``: questions; ``most``, ``sign``, ``size``, ``opposite``, ``families``: as of
        :meth:`above_zero`.
        """
        values = differences.frame["value"].to_numpy(np.float64)
        replicates = differences.replicates
        mean_replicates = replicates.astype(np.float64).mean(axis=0)
        mean = Estimates.from_rows([{"value": values.mean(), "n": n}], [mean_replicates])
        summary = mean.summary(self.results.study.evaluation.confidence)
        shifted = Estimates(differences.frame.assign(value=values + margin), replicates + margin)
        verdict = self.above_zero(
            values + margin,
            shifted.p(),
            replicates.shape[1],
            n,
            margin=margin,
            most=most,
            sign=sign,
            size=size,
            opposite=opposite,
            families=families,
        )
        return replace(verdict, **summary[["value", "low", "high", "std"]].iloc[0])

    def above_zero(
        self,
        values: Floats,
        p: Floats,
        resamples: int,
        n: int,
        *,
        margin: float = 0.0,
        most: float = 1.0,
        sign: Part | None = None,
        size: Part = "-",
        opposite: bool = False,
        families: int = 1,
    ) -> Verdict:
        """A verdict on values [K] claimed to be above 0, with their p [K], NaN as 1, after Holm.

        ``margin``: what was added to them, so that above 0 means above −margin, as the notes say.
        ``most``: the share that has to be significant. ``sign`` None: whether all values are above
        0, or ``most`` and more than half. ``opposite``: that it is shown, whatever the values say.
        ``families``: as many verdicts like this one are asked for together, and Holm's correction
        is for all of their tests.
        """
        positive = values > TIE
        negative = values < -TIE
        tests = families * len(p)
        significant = holm(np.nan_to_num(p, nan=1.0), tests) < self.tolerances["level"]
        above = float(np.mean(significant & positive))
        below = float(np.mean(significant & negative))
        limit = f"{-margin:g}, the margin" if margin else "0"
        pronoun = " that" if margin else ""
        self.notes.append(f"{positive.sum()} of {len(values)} above {limit}")
        significance: Part = "undecided"
        if not self.too_few_resamples(resamples, tests, 2):
            self.notes.append(
                f"{above:.0%} significantly above{pronoun}, "
                f"{below:.0%} significantly below{pronoun}"
            )
            significance = _significance(above, most)
        if sign is None:
            sign = part_of_share(float(positive.mean()), max(most, MORE_THAN_HALF))
        return Verdict(
            n,
            sign,
            size,
            significance,
            opposite or below > 0,
            value=float(values.mean()),
            families=families,
        )

    def too_few_resamples(self, resamples: int, tests: int, sides: int) -> bool:
        """Whether no p, at least ``sides`` / (resamples + 1), can be significant in these tests."""
        too_few = sides * tests / (resamples + 1) >= self.tolerances["level"]
        if too_few:
            self.notes.append(f"too few resamples ({resamples:,}) for {tests} tests")
        return too_few

    def clear(self, mean: float, std: float, n: int) -> Verdict:
        """Whether a mean is above 0 by its interval ± z · std; undecided where that holds 0."""
        half_width = self.results.rules.limits["z"] * std
        sign: Part = "undecided"
        if abs(mean) > half_width:
            sign = "yes" if mean > 0 else "no"
        return Verdict(n, sign, value=mean, low=mean - half_width, high=mean + half_width, std=std)

    def detectable(self, verdict: Verdict) -> float:
        """The smallest true difference that a two-sided test shows with the power declared.

        At 5 % and 80 % it is 2.8 standard errors; more of a verdict that is corrected for others
        beside it (Bonferroni). NaN of one that is not undecided.
        """
        if verdict.outcome != "undecided":
            return float("nan")
        z = normal_quantile(1 - self.tolerances["level"] / (2 * verdict.families))
        return float(smallest_detectable(verdict.std, 0.0, z, self.results.rules.limits["power"]))

    def negligible(self, differences: Estimates) -> tuple[list[Within], pd.DataFrame]:
        """Whether each difference's interval is within what is declared negligible; the summary."""
        summary = differences.summary(self.results.study.evaluation.confidence)
        return within(summary, self.tolerances["negligible"]), summary

    def within_paper_range(
        self,
        values: Floats | Bools,
        groups: Sequence[str],
        paper_range: Sequence[float],
        question_count: int,
    ) -> Verdict:
        """Whether the mean of shares [N] is as near the paper's range as two measurements may lie.

        No: it is farther off, the paper's spread taken as ours. Yes: it is not, and of this dataset
        about as many questions as in the paper are asked, ``question_count``; of fewer the interval
        lies inside the range. Undecided: anything else.
        """
        confidence = self.results.study.evaluation.confidence
        mean = float(values.mean())
        low, high = intervals.share_interval(values, groups, confidence) or (np.nan, np.nan)
        std = (high - low) / (2 * normal_quantile((1 + confidence) / 2))
        lowest, highest = paper_range
        distance = max(lowest - mean, mean - highest, 0.0)
        is_as_large = not np.isnan(low) and self._as_many_as_the_paper(question_count)
        size: Part = "undecided"
        if distance > self.results.rules.limits["z"] * np.sqrt(2) * std:
            size = "no"
        elif is_as_large or lowest <= low <= high <= highest:
            size = "yes"
        return Verdict(len(values), size=size, value=mean, low=low, high=high, std=std)

    def _as_many_as_the_paper(self, question_count: int) -> bool:
        """Whether so many questions of the first cell's dataset can stand for the paper's."""
        rules = self.results.rules
        paper = rules.paper.datasets.get(self.cells[0].dataset)
        return paper is not None and not rules.too_few(question_count, "", paper.questions)


def _significance(share: float, most: float) -> Part:
    """By the share of values that are significantly above 0, of which ``most`` have to be."""
    if share >= most:
        return "yes"
    return "partly" if share > 0 else "no"


def require_questions(count: int, where: str) -> None:
    """Raises TooFewError below ``LEAST_QUESTIONS``."""
    if count < LEAST_QUESTIONS:
        raise TooFewError(f"{count} questions {where}; {LEAST_QUESTIONS} are asked for")


def measured_at(estimates: Estimates, places: pd.DataFrame) -> Estimates:
    """The estimates at some places. Raises NotAskedError if one is not measured, or undefined."""
    try:
        chosen = estimates.at(places)
    except KeyError as error:
        raise NotAskedError(f"no value for {error.args[0]}") from error
    for row in chosen.frame[chosen.frame["value"].isna()].itertuples():
        raise NotAskedError(f"{row.metric} of {row.method} on {row.dataset}: {row.note}")
    return chosen


def question_count(estimates: Estimates) -> int:
    """How many questions the estimates of several cells rest on."""
    return int(estimates.frame.groupby(["model", "dataset"])["n"].max().sum())
