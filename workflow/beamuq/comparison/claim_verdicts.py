"""What the measures of claims read of a run, and how a measurement is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq.comparison.measured_results import Floats, MeasuredCell, MeasuredResults, mean_and_std, paired
from beamuq.comparison.number_statuses import too_few
from beamuq.comparison.paper_settings import Measurement, incomparable, other_template
from beamuq.comparison.printed_numbers import PrintedNumber
from beamuq.comparison.tolerances_and_families import ComparisonRules
from beamuq.evaluation import intervals
from beamuq.evaluation.bootstrap import MOST_UNDEFINED, Difference
from beamuq.evaluation.estimates import TIE
from beamuq.evaluation.holm_and_benjamini_hochberg import holm
from beamuq.exhibits.exhibit_cells import candidate_artifacts, pool_artifacts, score_artifacts
from beamuq.exhibits.number_format import better
from beamuq.exhibits.question_scores import QuestionScores
from beamuq.exhibits.read_evaluation import Key
from beamuq.exhibits.redundancy_and_covered_mass import CandidateMeasures
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

BEAM, SAMPLES = "beamsearch", "multinomial"
Part = Literal["yes", "partly", "no", "undecided", "-"]


class NotRunError(Exception):
    """What a claim needs and the run lacks, in a few words."""


@dataclass(frozen=True)
class ClaimVerdict:
    """Whether the sign, the size and the significance are as claimed, and what was found.

    "-": not claimed; "undecided": claimed, and the run cannot tell. Significance is told beside the others: it counts
    only where print claims it. ``opposite``: whether the run shows the opposite of something claimed.
    """

    sign: Part
    size: Part
    significance: Part
    found: str
    significance_claimed: bool = False
    opposite: bool = False

    @property
    def status(self) -> str:
        """Supported: all that is claimed holds; not supported: the sign is wrong, or nothing holds; else partly.

        Undecided: the sign is, or another part is and all others hold.
        """
        claimed = (self.sign, self.size, self.significance if self.significance_claimed else "-")
        parts = [part for part in claimed if part != "-"]
        if self.sign == "no" or all(part == "no" for part in parts):
            return "not supported"
        if all(part == "yes" for part in parts):
            return "supported"
        if self.sign == "undecided" or ("undecided" in parts and set(parts) <= {"undecided", "yes"}):
            return "undecided"
        return "partly"

    @property
    def answer(self) -> Part:
        """The claim asked of a study as a question: any answer has to be shown, beyond what chance alone does.

        A status by sign and size becomes "undecided" where a test was made and shows neither it nor its opposite.
        """
        by_value: dict[str, Part] = {"supported": "yes", "partly": "partly", "not supported": "no"}
        answer = by_value.get(self.status, "undecided")
        shown = self.significance in ("-", "yes") if answer == "yes" else self.opposite or self.significance == "-"
        return answer if shown else "undecided"


@dataclass(frozen=True)
class TestedDifferences:
    """Differences tested together: the shares that rise and that fall significantly; None where no test could tell."""

    rising: float | None
    falling: float | None
    why: str = ""

    def part(self, most: float = 1.0) -> Part:
        """Whether all (or at least ``most``) rise significantly."""
        return "undecided" if self.rising is None else some_as(self.rising, most)

    @property
    def opposite(self) -> bool:
        """Whether any falls significantly."""
        return bool(self.falling)

    def text(self, where: str) -> str:
        """``significantly <where> 40 %``, or why that cannot be said."""
        return self.why if self.rising is None else f"significantly {where} {self.rising:.0%}"


@dataclass(frozen=True)
class Draws:
    """N questions with many samples: Dissimilarity of each sample [N, S], and whether it is ``outside`` the main beams.

    ``inside`` [N]: Dissimilarity over beams; ``mass`` [N]: of the beams; ``quality`` [N]: of the greedy answer.
    """

    groups: list[str]
    samples: Floats
    outside: NDArray[np.bool_]
    inside: Floats
    mass: Floats
    quality: Floats


@dataclass(frozen=True)
class ClaimEvidence:
    """A run, the printed values and the declared rules.

    Not ``of_paper``: the study is asked about itself, and nothing need be measured as in the paper.
    """

    results: MeasuredResults
    values: Sequence[PrintedNumber]
    rules: ComparisonRules
    of_paper: bool = True

    @property
    def study(self) -> Study:
        return self.results.study

    def cell(self, model: str, dataset: str, recipe: str, questions: int | None = None) -> MeasuredCell:
        """A cell under the main scorer; ``questions``: the paper's, where not all of the dataset's.

        Raises NotRunError if it was not run, or is not the paper's or of too few questions.
        """
        self.check(model, dataset, recipe)
        found = self.results.cell(Artifact("evaluation", dataset, model, recipe, scorer=self.study.main.scorer))
        if found is None:
            raise NotRunError(f"{model}/{dataset}/{recipe} was not run")
        self.enough(found.questions, dataset, questions)
        return found

    def main(self, model: str, dataset: str) -> MeasuredCell:
        """A cell of the main recipe."""
        return self.cell(model, dataset, self.study.main.recipe)

    def mains(self, model: str, datasets: Sequence[str], answer_source: str = "greedy") -> list[MeasuredCell]:
        """The main recipe's cells that are averaged, as :meth:`answered`."""
        return self.answered([self.main(model, dataset) for dataset in datasets], answer_source)

    def answered(self, cells: Sequence[MeasuredCell], answer_source: str = "greedy") -> list[MeasuredCell]:
        """The cells of a model but for those with more than a fifth of empty answers.

        Raises NotRunError if none is left, and for the paper's claim if any is left out.
        """
        kept = [cell for cell in cells if not cell.left_out(answer_source)]
        if not kept or (self.of_paper and len(kept) < len(cells)):
            empty = [cell.artifact.dataset for cell in cells if cell not in kept]
            raise NotRunError(
                f"more than a fifth of the answers of {cells[0].artifact.model} are empty on {', '.join(empty)}"
            )
        return kept

    def check(self, model: str, dataset: str, recipe: str, *keys: Key, scored: bool = True) -> None:
        """Raises NotRunError if the study has no such model or dataset, or they are not measured as in the paper.

        ``keys``: what is read of the cell, which is asked about as a whole without; not ``scored``: its candidates.
        """
        if model not in self.study.models or dataset not in self.study.datasets:
            raise NotRunError(f"the study has no {model} on {dataset}")
        if not self.of_paper:
            return
        whole = Measurement(model, (dataset,), recipe, part="candidates")
        if scored:
            whole = replace(whole, part="scores", scorer=self.study.main.scorer)
        templates = self.results.templates(model, [dataset])
        of_keys = [replace(whole, metric=key.metric, method=key.method, setting=key.setting) for key in keys]
        for of in of_keys or [whole]:
            reason = incomparable(self.study, self.rules, of)
            if reason := reason or other_template(self.study, self.rules, of, templates):
                raise NotRunError(f"not comparable: {reason}")

    def enough(self, count: int, dataset: str, questions: int | None = None) -> None:
        """Raises NotRunError if there are too few of the paper's questions, all of the dataset's unless told."""
        if not self.of_paper:
            return
        size = questions or self.rules.questions(dataset)
        if reason := too_few(count, dataset, size, self.rules):
            raise NotRunError(f"not comparable: {reason}")

    def candidates(self, model: str, dataset: str) -> CandidateMeasures:
        """The main recipe's candidates of a cell."""
        self.check(model, dataset, self.study.main.recipe, scored=False)
        candidates, questions = self.require(candidate_artifacts(self.study, model, dataset))
        found = CandidateMeasures(self.results.inputs, candidates, questions)
        self.enough(len(found.ids), dataset)
        return found

    def scored(self, model: str, dataset: str, methods: Sequence[str]) -> QuestionScores:
        """The main recipe's scores and quality of a cell, by question."""
        self.check(model, dataset, self.study.main.recipe, *(Key("PRR", method, "") for method in methods))
        if lacking := [name for name in methods if name not in self.study.scoring[self.study.main.recipe].methods]:
            raise NotRunError(f"the main recipe does not score {', '.join(lacking)}")
        scores, quality, questions = self.require(score_artifacts(self.study, model, dataset))
        found = QuestionScores(self.results.inputs, scores, quality, questions)
        self.enough(len(found.ids), dataset)
        return found

    def draws(self, model: str, dataset: str, questions: int) -> Draws:
        """Several draws of samples of a cell beside its main beams, of at least so many ``questions``."""
        main, inputs = self.study.main, self.results.inputs
        files = pool_artifacts(self.study, model, dataset)
        self.check(model, dataset, files[0].recipe if files else main.recipe, Key("PRR", "Dissimilarity", ""))
        if not files:
            raise NotRunError(f"the grid has no recipe with several draws of samples of {model} on {dataset}")
        frame, similarities, rated, asked = (inputs.frame(file) for file in self.require(files))
        pairs = similarities.set_index(["id", "premise", "hypothesis"])["entail"]
        answers = frame[frame["strategy"] == "greedy"].set_index("id")["text"].sort_index()
        self.enough(len(answers), dataset, questions)

        def of(strategy: str) -> tuple[list[tuple[object, ...]], Floats, Floats]:
            """Id and token sequence of each candidate; probability and dissimilarity, each [N, candidates]."""
            rows = frame[frame["strategy"] == strategy].sort_values(["id", "rank"])
            keys = pd.MultiIndex.from_arrays([rows["id"], answers.loc[rows["id"]], rows["text"]])
            s = pairs.reindex(keys).to_numpy(dtype=np.float64).reshape(len(answers), -1)
            if np.isnan(s).any():
                raise NotRunError(f"{files[1].path} lacks pairs of answers and candidates")
            sequences = [(key, *tokens) for key, tokens in zip(rows["id"], rows["token_ids"], strict=True)]
            return sequences, np.exp(rows["logprob"].to_numpy(dtype=np.float64)).reshape(s.shape), 1.0 - s

        (drawn, _, samples), (beams, p, dissimilarity) = of(main.sample), of(main.beam)
        known, mass = set(beams), p.sum(axis=1)
        quality = rated[rated["answer_source"] == "greedy"].set_index("id")["value"].loc[answers.index]
        return Draws(
            groups=list(asked.set_index("id")["group"].loc[answers.index]),
            samples=samples,
            outside=np.array([sequence not in known for sequence in drawn]).reshape(samples.shape),
            inside=(dissimilarity * p).sum(axis=1) / mass,
            mass=np.minimum(mass, 1.0),
            quality=quality.to_numpy(dtype=np.float64),
        )

    def as_printed(self, values: Floats, groups: Sequence[str], printed: Sequence[float]) -> Part:
        """Whether the mean of shares [N] is as near a printed range as two such measurements may lie.

        Not ``of_paper``: whether the mean's interval lies inside that range (yes), outside (no), or across its ends; it
        is undecided too where few values have no interval. Equal values have the exact one of their number.
        """
        if self.of_paper:
            return within(*mean_and_std(values, groups), printed, self.rules.agreement.z)
        confidence = self.study.evaluation.confidence
        interval = intervals.mean_interval(values, groups, confidence)
        if interval is None and np.ptp(values) == 0:
            interval = intervals.interval_of_equal_values(float(values[0]), groups, confidence)
        if interval is None:
            return "undecided"
        inside = printed[0] <= interval[0] and interval[1] <= printed[1]
        return "yes" if inside else "no" if interval[1] < printed[0] or printed[1] < interval[0] else "undecided"

    def require(self, files: Sequence[Artifact]) -> Sequence[Artifact]:
        """The same files. Raises NotRunError if one is not there."""
        for file in files:
            if file not in self.results.present:
                raise NotRunError(f"{file.path} was not run")
        return files

    def measured(self, cell: MeasuredCell, key: Key) -> None:
        """Raises NotRunError if a cell lacks a measurement, or it is not the paper's."""
        self.check(cell.artifact.model, cell.artifact.dataset, cell.artifact.recipe, key)
        if key not in cell or cell[key].value is None:
            raise NotRunError(f"{cell.path} has no value for {' '.join(filter(None, key))}")

    def difference(self, cells: Sequence[MeasuredCell], a: Key, b: Key) -> Difference:
        """Mean over cells of a − b, paired. Raises NotRunError if either was not measured."""
        for cell in cells:
            for key in (a, b):
                self.measured(cell, key)
        return paired(cells, a, b, self.study.evaluation.confidence)

    def lead(self, cells: Sequence[MeasuredCell], ahead: Sequence[Key], others: Sequence[Key]) -> Difference:
        """The best of ``ahead`` minus the best of ``others``: :func:`selected_lead`, its p doubled, as of two sides.

        Raises NotRunError if any was not measured.
        """
        for cell in cells:
            for key in (*ahead, *others):
                self.measured(cell, key)
        value, p = selected_lead(cells, ahead, others)
        return Difference(value, None, None, None, "", min(1.0, 2 * p))

    def tested(self, found: Sequence[Difference]) -> TestedDifferences:
        """Which differences are significant, Holm over all of them."""
        if why := self.too_few_resamples(len(found), 2):
            return TestedDifferences(None, None, why)
        p = [d.p if d.p is not None else 1.0 for d in found]
        small = holm(p, len(p)) < self.rules.claims.level
        value = np.array([d.value for d in found], dtype=np.float64)
        return TestedDifferences(float(np.mean(small & (value > TIE))), float(np.mean(small & (value < -TIE))))

    def too_few_resamples(self, tests: int, sides: int) -> str:
        """Why no p, at least ``sides`` / (resamples + 1), can be significant among so many tests, else nothing."""
        resamples, level = self.study.evaluation.resamples, self.rules.claims.level
        possible = sides * tests / (resamples + 1) < level
        return "" if possible else f"too few resamples ({resamples:,}) for {tests} tests at {level:.0%}"


def selected_lead(cells: Sequence[MeasuredCell], ahead: Sequence[Key], others: Sequence[Key]) -> tuple[float, float]:
    """Mean over cells of the best of ``ahead`` minus the best of ``others``; its one-sided p, corrected for the choice.

    Max-T over the replicates, each centred on its own value. p against one of ``others``: how often the largest lead of
    any of ``ahead`` over it is by chance at least the one found, as the best of many leads too far by chance. All of
    ``others`` have to be beaten, so theirs is the largest of these p, and choosing the best of them needs no further
    correction. Choosing anew within each resample would not do: the largest of resampled values is itself too large.
    More than 1 % of resamples undefined: p is 1.
    """
    keys, first = [*ahead, *others], len(ahead)
    values = np.array([[cell[key].value for key in keys] for cell in cells], dtype=np.float64).mean(axis=0)
    replicates = np.array([[cell.replicates(key) for key in keys] for cell in cells], dtype=np.float64).mean(axis=0)
    off = replicates - values[:, None]
    off = off[:, ~np.isnan(off).any(axis=0)]
    leads, resamples = values[:first].max() - values[first:], replicates.shape[1]
    if off.shape[1] < (1 - MOST_UNDEFINED) * resamples:
        return float(leads.min()), 1.0
    by_chance = [(off[:first] - other).max(axis=0) for other in off[first:]]
    p = [(1 + int((c >= lead).sum())) / (off.shape[1] + 1) for c, lead in zip(by_chance, leads, strict=True)]
    return float(leads.min()), max(p)


def undecidable(found: Sequence[Difference], margin: float, questions: int) -> list[str]:
    """Why no value could show any of these negligible with so many questions, if so: all intervals are too wide.

    It is told from the replicates' spread alone, before any value is looked at. A value far off still denies.
    """
    widths = [(of.high - of.low) / 2 for of in found if of.high is not None and of.low is not None]
    if not widths or min(widths) <= margin:
        return []
    return [
        f"undecidable with n = {questions:,} unless clearly off: half-width {min(widths):.3f}, margin {margin:g}; "
        f"about {questions * (min(widths) / margin) ** 2:,.0f} questions would do"
    ]


def all_as(parts: Sequence[Part]) -> Part:
    """Parts of several cells as one: as :func:`share_as` of those that hold, undecided where the open ones matter."""
    worst = share_as(float(np.mean([part == "yes" for part in parts])))
    best = share_as(float(np.mean([part in ("yes", "undecided") for part in parts])))
    return worst if worst == best else "undecided"


def share_rising(found: Sequence[Difference]) -> float:
    """The share of differences above 0 by more than a tie."""
    return float(np.mean([better(difference.value, 0.0) for difference in found]))


def share_as(share: float, most: float = 1.0) -> Part:
    """All (or at least ``most``): yes; more than half: partly; else no."""
    return "yes" if share >= most else "partly" if share > 0.5 else "no"


def some_as(share: float, most: float = 1.0) -> Part:
    """All (or at least ``most``): yes; any: partly; none: no."""
    return "yes" if share >= most else "partly" if share > 0 else "no"


def above(value: float, std: float, z: float) -> Part:
    """Whether a value is above 0 by its interval ± z · std; undecided where that holds 0."""
    return "undecided" if abs(value) <= z * std else "yes" if value > 0 else "no"


def within(value: float, std: float, printed: Sequence[float], z: float) -> Part:
    """Whether a printed range (low, high) is as near as two such measurements may lie: print's spread taken as ours."""
    low, high = printed
    distance = max(low - value, value - high, 0.0)
    return "yes" if distance < z * np.sqrt(2) * std or distance == 0 else "no"
