"""The measurements that decide the paper's claims in words. A measure's fields are parameters in ``claims.yaml``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from beamuq import beam_mass_theorem
from beamuq.comparison.claim_verdicts import (
    BEAM,
    SAMPLES,
    ClaimEvidence,
    ClaimVerdict,
    NotRunError,
    Part,
    TestedDifferences,
    above,
    all_as,
    selected_lead,
    share_as,
    share_rising,
    some_as,
    undecidable,
    within,
)
from beamuq.comparison.measured_results import MeasuredCell, mean_and_std, replicated_difference
from beamuq.comparison.printed_numbers import MEAN, measured_place
from beamuq.config_errors import StrictModel
from beamuq.evaluation import bootstrap, prr_and_auc
from beamuq.evaluation.estimates import TIE
from beamuq.evaluation.holm_and_benjamini_hochberg import holm
from beamuq.evaluation.intervals import LEAST_GROUPS
from beamuq.exhibits import exhibit_cells
from beamuq.exhibits.exhibit_cells import candidate_artifacts, pool_artifacts, score_artifacts
from beamuq.exhibits.question_scores import QuestionScores
from beamuq.exhibits.read_evaluation import Key
from beamuq.exhibits.redundancy_and_covered_mass import CandidateMeasures, group_of, length_bins
from beamuq.methods.dissimilarity_estimators import lacks
from beamuq.parquet_tables import Artifact
from beamuq.strategy_names import ablation, kind_of, of_kind
from beamuq.study_config import Study

Lengths = Annotated[list[int | None], Field(min_length=2, max_length=2, description="from, to; null: no upper end")]
Pair = Annotated[tuple[str, str], Field(strict=False)]  # YAML has no tuples
Floats = prr_and_auc.Array
Truths = NDArray[np.bool_]


def own_cells(
    study: Study, paper: Study, models: Sequence[str], datasets: Sequence[str], has: Callable[[str, str], object]
) -> dict[str, list[str]]:
    """A study's own cells that stand for those of a claim: model → datasets, among the ones that it ``has``.

    The claim's models and datasets (empty: all of the paper's), and every other that is not the paper's; where a study
    has none of these, all of its own.
    """

    def standing(own: Sequence[str], claimed: Sequence[str], printed: Sequence[str]) -> list[str]:
        return [name for name in own if name in (claimed or printed) or name not in printed] or list(own)

    cells = {model: [dataset for dataset in study.datasets if has(model, dataset)] for model in study.models}
    there = [dataset for dataset in study.datasets if any(dataset in found for found in cells.values())]
    chosen = standing(there, datasets, list(paper.datasets))
    of_model = {model: [d for d in found if d in chosen] for model, found in cells.items()}
    asked = [model for model, found in of_model.items() if found]
    return {model: of_model[model] for model in standing(asked, models, list(paper.models))}


class Measure(StrictModel):
    """One kind of measurement. ``needs``: what a study has to have, to be asked the same about itself."""

    needs: ClassVar[str] = "a question about the paper alone"

    def files(self, study: Study) -> list[Artifact]:  # noqa: ARG002  (the name is part of the interface)
        """Files beside the grid's evaluations, of cells that the grid may or may not have."""
        return []

    def asked_of(self, study: Study, paper: Study) -> dict[str, Measure]:  # noqa: ARG002
        """The same question asked of a study's own cells, by what they are called; empty where it has none."""
        return {}

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        """Raises NotRunError if the run lacks what it needs."""
        raise NotImplementedError


class OfMain(Measure):
    """A measurement of cells of the main recipe."""

    needs: ClassVar[str] = "needs a cell of the main recipe under the main scorer"

    def own_cells(
        self, study: Study, paper: Study, models: Sequence[str], datasets: Sequence[str] = ()
    ) -> dict[str, list[str]]:
        """A study's main cells: :func:`own_cells`."""
        recipe, scorer = study.main.recipe, study.main.scorer
        return own_cells(study, paper, models, datasets, lambda m, d: exhibit_cells.covers(study, recipe, m, d, scorer))


class OneCell(OfMain):
    """A measurement of one model on one dataset of the main recipe."""

    model: str
    dataset: str

    def asked_of(self, study: Study, paper: Study) -> dict[str, Measure]:
        return {
            f"{model} {dataset}": self.model_copy(update={"model": model, "dataset": dataset})
            for model, datasets in self.own_cells(study, paper, [self.model], [self.dataset]).items()
            for dataset in datasets
        }


class OfCandidates(OneCell):
    """A measurement of a cell's candidates."""

    def files(self, study: Study) -> list[Artifact]:
        return candidate_artifacts(study, self.model, self.dataset)


class MeanByLength(OfCandidates):
    """The mean of a quantity over the questions whose greedy answer has some lengths (the terminator counts).

    ``quantity``: whether the mass of the beams meets the printed condition, or the share of samples that repeat
    another. It is held against a ``printed`` range, or has to be above its mean over ``other_lengths``.
    """

    kind: Literal["mean by length"]
    quantity: Literal["printed condition met", "repeated samples"]
    lengths: Lengths = [1, None]
    printed: Annotated[list[float] | None, Field(min_length=2, max_length=2)] = None
    other_lengths: Lengths | None = None

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        main = evidence.study.main
        found = evidence.candidates(self.model, self.dataset)
        members, added = self._of_length(found, self.lengths), ""
        if self.quantity == "repeated samples":
            values = found.redundancy(main.sample, main.num_candidates)
        else:
            mass = found.mass(main.beam, main.num_candidates)
            values = (mass > beam_mass_theorem.printed_threshold(main.num_candidates)).astype(np.float64)
            corrected = (mass[members] > beam_mass_theorem.corrected_threshold(main.num_candidates)).mean()
            added = f"; {corrected:.1%} meet the corrected one"
        groups = group_of(found.groups, members)
        mean, std = mean_and_std(values[members], groups)
        text = f"{self.quantity}: {mean:.1%} ± {std:.1%}, {members.sum()} questions{added}"
        if self.printed is not None:
            return ClaimVerdict("-", evidence.as_printed(values[members], groups, self.printed), "-", text)
        others = self._of_length(found, self.other_lengths or [1, None])
        other, other_std = mean_and_std(values[others], group_of(found.groups, others))
        apart = evidence.rules.agreement.z * float(np.hypot(std, other_std))
        clear: Part = "yes" if mean - other > apart else "no"
        text += f", against {other:.1%} ± {other_std:.1%}, {others.sum()} questions"
        return ClaimVerdict("yes" if mean > other else "no", "-", clear, text, opposite=other - mean > apart)

    def _of_length(self, found: CandidateMeasures, lengths: Sequence[int | None]) -> Truths:
        """[N] which questions have a greedy answer of these lengths."""
        counted, (shortest, longest) = found.lengths(), lengths
        members = (counted >= (shortest or 0)) & (counted <= (longest or np.inf))
        if len(set(group_of(found.groups, members))) < LEAST_GROUPS:
            tokens = f"{shortest} to {longest}" if longest else f"{shortest} or more"
            raise NotRunError(f"too few answers of {tokens} tokens: {members.sum()}")
        return np.asarray(members)


class BeamCoverage(OfCandidates):
    """Whether beams cover more probability than samples at every length, and where their mass lies by rank."""

    kind: Literal["covered mass"]
    first: int
    share: float

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        found, main = evidence.candidates(self.model, self.dataset), evidence.study.main
        gain = found.mass(main.beam, main.num_candidates) - found.mass(main.sample, main.num_candidates)
        bins = [float(gain[chosen.members].mean()) for chosen in length_bins(found.lengths(), 7)]
        mean, std = mean_and_std(gain, found.groups)
        rows = found.of(main.beam, main.num_candidates)
        p = np.exp(rows["logprob"].to_numpy())
        leading = float(p[(rows["rank"] < self.first).to_numpy()].sum() / p.sum())
        text = (
            f"beams cover {mean:+.3f} more, more in {sum(b > 0 for b in bins)} of {len(bins)} length bins; the first "
            f"{self.first} beams hold {leading:.0%} of the beams' mass; ± {std:.3f}, {len(gain)} questions"
        )
        above = share_as(float(np.mean(np.array(bins) > 0)))
        clear: Part = "yes" if mean > evidence.rules.agreement.z * std else "no"
        less = mean < -evidence.rules.agreement.z * std
        return ClaimVerdict(above, "yes" if leading > self.share else "no", clear, text, opposite=less)


class BeamGains(OfMain):
    """Means of beam minus multinomial over methods and models: do ``all``, ``most`` or ``none`` of them change?

    ``table``: where the paper prints them, for the size. ``none``: every interval lies within the negligible margin;
    one that lies outside denies it, any other leaves it open. ``significant``: print calls the gains so.
    """

    kind: Literal["gains"]
    table: str
    metric: Literal["PRR", "ROC-AUC", "PR-AUC"] = "PRR"
    answer_source: Literal["greedy", "top_beam"] = "greedy"
    methods: list[str]
    models: list[str] = Field(default=[], description="empty: all of the paper's")
    datasets: list[str] = Field(default=[], description="empty: all of the paper's")
    expect: Literal["all", "most", "none"]
    significant: bool = False

    def asked_of(self, study: Study, paper: Study) -> dict[str, Measure]:
        found = self.own_cells(study, paper, self.models, self.datasets)
        return {model: self.model_copy(update={"models": [model], "datasets": own}) for model, own in found.items()}

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        models = self.models or list(evidence.rules.paper.models)
        datasets = self.datasets or list(evidence.rules.paper.datasets)
        found, spreads = [], []
        for model in models:
            cells = evidence.mains(model, datasets, self.answer_source)
            for method in self.methods:
                a, b = (Key(self.metric, method, variant, "", self.answer_source) for variant in (BEAM, SAMPLES))
                found.append(evidence.difference(cells, a, b))
                spreads.append(replicated_difference(cells, a, b))
        rising, tested = share_rising(found), evidence.tested(found)
        mean = float(np.mean([d.value or 0.0 for d in found]))
        # cells of the same questions share their resamples, so what methods and models have in common stays in
        std = float(np.nanstd(np.mean(spreads, axis=0), ddof=1))
        asked, of_datasets = _questions(evidence, models[0], datasets, self.answer_source)
        text = (
            f"{round(rising * len(found))} of {len(found)} rise; {_rise_and_fall(tested)}; mean {mean:+.3f} ± {std:.3f}"
        )
        size: Part = "-"
        if evidence.of_paper:
            printed = self._printed(evidence, models)
            size = within(mean, std, [printed, printed], evidence.rules.agreement.z)
            text += f", printed {printed:+.3f}"
        else:
            text += f", {of_datasets}"
        if any(len({evidence.main(model, dataset).questions for model in models}) > 1 for dataset in datasets):
            text += "; ± takes cells of different questions for unrelated, though they share some, and may be too small"
        if self.expect == "none":
            margin = evidence.rules.claims.negligible
            text = "; ".join([text, *undecidable(found, margin, asked)])
            return ClaimVerdict(all_as([negligible(d, margin) for d in found]), size, "-", text)
        if self.expect == "most":
            sign, significance = share_as(rising, np.nextafter(0.5, 1)), tested.part(0.5)
        else:
            sign, significance = share_as(rising), tested.part()
        return ClaimVerdict(sign, size, significance, text, self.significant, opposite=tested.opposite)

    def _printed(self, evidence: ClaimEvidence, models: Sequence[str]) -> float:
        by_key = {row.key: row.value for row in evidence.values if row.key.table == self.table}
        found = []
        for key, value in by_key.items():
            if key.variant != BEAM or key.method not in self.methods or key.model not in models or key.dataset != MEAN:
                continue
            other = [by_key[k] for v in (SAMPLES, "") if (k := key._replace(variant=v)) in by_key]
            found.append(value - other[0])
        return float(np.mean(found))


def _questions(
    evidence: ClaimEvidence, model: str, datasets: Sequence[str], answer_source: str = "greedy"
) -> tuple[int, str]:
    """How many questions a mean over datasets rests on, and the words for it, with what it leaves out."""
    cells = evidence.mains(model, datasets, answer_source)
    asked = sum(cell.questions for cell in cells)
    return asked, f"{asked:,} questions of {len(cells)} datasets{_left_out(datasets, cells)}"


def _left_out(datasets: Sequence[str], kept: Sequence[MeasuredCell]) -> str:
    there = [cell.artifact.dataset for cell in kept]
    empty = [dataset for dataset in datasets if dataset not in there]
    return f" (without {', '.join(empty)}, where more than a fifth of the answers are empty)" if empty else ""


def _rise_and_fall(tested: TestedDifferences) -> str:
    rising = tested.text("rise")
    return rising if tested.falling is None else f"{rising}, fall {tested.falling:.0%}"


def negligible(difference: bootstrap.Difference, margin: float) -> Part:
    """Whether a difference is nothing: its interval lies within ± margin (yes), outside (no), or across its ends."""
    if difference.low is None or difference.high is None:
        return "undecided"
    if -margin <= difference.low and difference.high <= margin:
        return "yes"
    return "no" if difference.low > margin or difference.high < -margin else "undecided"


class Ranking(OfMain):
    """Where a beam form stands among all forms of the main table, by its mean PRR, model by model.

    ``method``: whose beam form; none: the best of all beam forms. ``place``: it is claimed to be the best, tested
    against all others; or the second; or, of the best two forms of each model, nearly all are beam forms. That the best
    are chosen by the data they are tested on is corrected for: :func:`~.claim_verdicts.selected_lead`.
    """

    kind: Literal["ranking"]
    method: str | None = None
    models: Annotated[list[str], Field(description="empty: all of the paper's")] = []
    datasets: Annotated[list[str], Field(description="empty: all of the paper's")] = []
    place: Literal["best", "second", "best two"]

    def asked_of(self, study: Study, paper: Study) -> dict[str, Measure]:
        found = self.own_cells(study, paper, self.models, self.datasets)
        return {model: self.model_copy(update={"models": [model], "datasets": own}) for model, own in found.items()}

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        datasets = self.datasets or list(evidence.rules.paper.datasets)
        ranked = {
            model: _ranking(evidence, evidence.mains(model, datasets))
            for model in self.models or evidence.rules.paper.models
        }
        # no test says how far a rank is one by chance: asked of a study, it leaves the answer open
        untested: Part = "-" if evidence.of_paper else "undecided"
        n = "" if evidence.of_paper else f"; {_questions(evidence, next(iter(ranked)), datasets)[1]}"
        why = "" if evidence.of_paper else f"; no test of ranks{n}"
        if self.place == "best two":
            beams = sum(variant == BEAM for forms in ranked.values() for _, variant in forms[:2])
            sign = share_as(beams / (2 * len(ranked)), evidence.rules.claims.nearly_all)
            text = f"{beams} of {2 * len(ranked)} best and second-best methods are beam forms"
            return ClaimVerdict(sign, "-", untested, text + why)
        right, leads, behind, texts = [], [], [], []
        for model, forms in ranked.items():
            ahead = [form for form in forms if form[1] == BEAM and self.method in (None, form[0])]
            others = [form for form in forms if (form not in ahead if self.method else form[1] != BEAM)]
            if not ahead or not others:
                raise NotRunError(f"{model} has no beam form of {self.method or 'any method'} beside other methods")
            beam, place = ahead[0], forms.index(ahead[0]) + 1
            right.append(place == (1 if self.place == "best" else 2))
            text = f"{beam[0]} {place} of {len(forms)} in {model}"
            if self.place == "best":
                cells = evidence.mains(model, datasets)
                of_beams, of_others = ([Key("PRR", *form) for form in part] for part in (ahead, others))
                leads.append(evidence.lead(cells, of_beams, of_others))
                behind.append(evidence.lead(cells, of_others, of_beams))
                text += f", {leads[-1].value:+.3f} against {' '.join(filter(None, others[0]))}"
            texts.append(text)
        sign = some_as(float(np.mean(right))) if self.method else share_as(share_rising(leads))
        if not leads:
            return ClaimVerdict(sign, "-", untested, "; ".join(texts) + why)
        tested, opposite = evidence.tested(leads), bool(evidence.tested(behind).rising)
        text = "; ".join([*texts, tested.text("ahead in")]) + n
        return ClaimVerdict(sign, "-", tested.part(), text, opposite=opposite)


def _ranking(evidence: ClaimEvidence, cells: Sequence[MeasuredCell]) -> list[tuple[str, str]]:
    """The main table's forms, (method, variant), by mean PRR over a model's cells, best first.

    All those of the main table have to be measured; of a study asked about itself, those that it measures.
    """
    found = {}
    for row in evidence.values:
        key = Key("PRR", row.key.method, row.key.variant)
        if row.key.table == "tab:qa_mean_prr" and (row.key.method, row.key.variant) not in found:
            if not evidence.of_paper and not all(key in cell for cell in cells):
                continue
            for cell in cells:
                evidence.measured(cell, key)
            found[row.key.method, row.key.variant] = float(np.mean([cell[key].value or 0 for cell in cells]))
    return sorted(found, key=lambda form: -found[form])


class OverBudgets(Measure):
    """PRR against M on some cells (model, dataset); ``questions``: the paper's of each, where not all."""

    needs: ClassVar[str] = "needs a recipe with budgets that scores these methods, as widths in studies/demo.yaml"

    cells: list[Pair]
    questions: int | None = None

    def scored(self) -> list[str]:
        """The methods whose curves are read."""
        raise NotImplementedError

    def asked_of(self, study: Study, paper: Study) -> dict[str, Measure]:
        methods, models, datasets = self.scored(), *(list(names) for names in zip(*self.cells, strict=True))
        found = own_cells(
            study, paper, models, datasets, lambda m, d: exhibit_cells.budget_recipe(study, m, d, methods)
        )
        return {m: self.model_copy(update={"cells": [(m, d) for d in own]}) for m, own in found.items()}

    def curves(self, evidence: ClaimEvidence, methods: Sequence[str]) -> Iterator[tuple[str, MeasuredCell, list[int]]]:
        """Each cell's name, measurements and budgets, in the recipe whose curves of these methods the figures draw."""
        for model, dataset in self.cells:
            recipe = exhibit_cells.budget_recipe(evidence.study, model, dataset, methods)
            if not recipe:
                raise NotRunError(f"the grid has no budgets of {model} on {dataset}")
            cell = evidence.cell(model, dataset, recipe, self.questions)
            yield f"{model} {dataset}", cell, sorted(evidence.study.scoring[recipe].budgets)


class AheadAtBudgets(OverBudgets):
    """Whether one method is ahead of others at every budget from ``from`` on; pairs of method and variant."""

    kind: Literal["ahead at every budget"]
    better: list[Pair]
    worse: list[Pair]
    first: int = 2
    last: int | None = None

    def scored(self) -> list[str]:
        return [method for method, _ in (*self.better, *self.worse)]

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        found, asked = [], []
        for name, cell, budgets in self.curves(evidence, self.scored()):
            asked.append(f"{cell.questions} questions of {name}")
            for M in (m for m in budgets if self.first <= m <= (self.last or m)):
                for a, b in zip(self.better, self.worse, strict=True):
                    found.append(
                        evidence.difference([cell], Key("PRR", *a, ablation("M", M)), Key("PRR", *b, ablation("M", M)))
                    )
        if not found:
            raise NotRunError(f"no budget is from {self.first} to {self.last or 'more'}")
        ahead, tested = share_rising(found), evidence.tested(found)
        text = f"ahead at {ahead:.0%} of {len(found)} points, {tested.text('at')}; {', '.join(asked)}"
        return ClaimVerdict(share_as(ahead), "-", tested.part(), text, opposite=tested.opposite)


class Plateau(OverBudgets):
    """From which M on a curve is at its end's height: the first M whose paired interval to the end is negligible.

    It has to stay: an M whose interval is shown to be off starts the search anew. A later start than claimed denies the
    claim only where the curve is shown to be off before. The start may be off by a declared share of the claimed M.
    """

    kind: Literal["plateau"]
    method: str
    variant: str
    at: int

    def scored(self) -> list[str]:
        return [self.method]

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        rules, near, rises, texts = evidence.rules.claims, [], [], []
        slack = rules.plateau_slack * self.at
        for name, cell, budgets in self.curves(evidence, self.scored()):
            keys = {M: Key("PRR", self.method, self.variant, ablation("M", M)) for M in budgets}
            last = budgets[-1]
            rises.append(evidence.difference([cell], keys[last], keys[budgets[0]]))
            to_end = {M: evidence.difference([cell], keys[M], keys[last]) for M in budgets[:-1]}
            there = {M: negligible(difference, rules.plateau) for M, difference in to_end.items()}
            off = max((M for M, part in there.items() if part == "no"), default=0)
            start = next((M for M, part in there.items() if off < M and part == "yes"), None)
            earliest = next(M for M in budgets if off < M)
            near.append(self._near(start, earliest, slack))
            texts.append(f"M = {start} in {name}" if start else f"from M = {earliest} on, or later, in {name}")
            claimed = [difference for M, difference in to_end.items() if abs(M - self.at) <= slack]
            texts += undecidable(claimed, rules.plateau, cell.questions)
        rising, tested = share_as(share_rising(rises)), evidence.tested(rises)
        text, opposite = "; ".join([*texts, tested.text("rising in")]), tested.opposite or "no" in near
        return ClaimVerdict(rising, all_as(near), tested.part(), text, opposite=opposite)

    def _near(self, start: int | None, earliest: int, slack: float) -> Part:
        """``start``: where the curve is shown to be there, if anywhere; ``earliest``: from where on it may be."""
        if start is not None and abs(start - self.at) <= slack:
            return "yes"
        shown = start is not None and start < self.at - slack
        return "no" if shown or earliest > self.at + slack else "undecided"


class GainByLength(OfMain):
    """The gain of beams on answers shorter than ``short_below`` tokens, and on the others, where it is negligible."""

    kind: Literal["gain by length"]
    model: str
    datasets: list[str]
    method: str
    short_below: int

    def asked_of(self, study: Study, paper: Study) -> dict[str, Measure]:
        found = self.own_cells(study, paper, [self.model], self.datasets)
        return {model: self.model_copy(update={"model": model, "datasets": own}) for model, own in found.items()}

    def files(self, study: Study) -> list[Artifact]:
        return [
            file
            for dataset in self.datasets
            for file in (*score_artifacts(study, self.model, dataset), *candidate_artifacts(study, self.model, dataset))
        ]

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        gains: dict[str, list[bootstrap.Difference]] = {"below": [], "from": []}
        texts = []
        for dataset in self.datasets:
            scored = evidence.scored(self.model, dataset, [self.method])
            found = evidence.candidates(self.model, dataset)
            lengths = dict(zip(found.ids, found.lengths(), strict=True))
            short = np.array([lengths[key] < self.short_below for key in scored.ids])
            for where, members in (("below", short), ("from", ~short)):
                gain = self._gain(evidence, scored, members)
                gains[where].append(gain)
                around = "" if gain.low is None else f" [{gain.low:+.3f}, {gain.high:+.3f}]"
                texts.append(
                    f"{gain.value:+.3f}{around} {where} {self.short_below} tokens on {dataset}, n = {members.sum()}"
                )
            texts += undecidable(gains["from"][-1:], evidence.rules.claims.negligible, int((~short).sum()))
        rising, tested = share_as(share_rising(gains["below"])), evidence.tested(gains["below"])
        size = all_as([negligible(gain, evidence.rules.claims.negligible) for gain in gains["from"]])
        text, opposite = "; ".join([*texts, tested.text("rising below in")]), tested.opposite or size == "no"
        return ClaimVerdict(rising, size, tested.part(), text, opposite=opposite)

    def _gain(self, evidence: ClaimEvidence, scored: QuestionScores, members: Truths) -> bootstrap.Difference:
        """Beam minus multinomial over some of the questions, paired."""
        keys = [(self.method, variant, "") for variant in (BEAM, SAMPLES)]
        beam, samples = scored.prr(evidence.study, members, "by length", keys)
        if beam.value is None or samples.value is None or beam.replicates is None or samples.replicates is None:
            raise NotRunError(f"{scored.path}: {beam.note or samples.note}")
        confidence = evidence.study.evaluation.confidence
        return bootstrap.difference(beam.value, samples.value, beam.replicates, samples.replicates, confidence)


class CurvesAhead(OneCell):
    """Over how much of the rejection range the beam form's curve lies on or above the sampled one's."""

    kind: Literal["rejection curves"]
    methods: list[str]

    def files(self, study: Study) -> list[Artifact]:
        return score_artifacts(study, self.model, self.dataset)

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        scored = evidence.scored(self.model, self.dataset, self.methods)
        cell = evidence.main(self.model, self.dataset)
        shares, found = [], []
        for method in self.methods:
            a, b = (prr_and_auc.rejection_curves(scored.scores(method, v), scored.quality) for v in (BEAM, SAMPLES))
            shares.append(float(np.mean(a.uncertainty[1:] >= b.uncertainty[1:])))
            found.append(evidence.difference([cell], Key("PRR", method, BEAM), Key("PRR", method, SAMPLES)))
        text = "; ".join(f"{share:.0%} of the range for {m}" for m, share in zip(self.methods, shares, strict=True))
        sign, tested = share_as(min(shares), evidence.rules.claims.nearly_all), evidence.tested(found)
        text += f"; {tested.text('ahead in')}; {len(scored.ids)} questions"
        return ClaimVerdict(sign, "-", tested.part(), text, opposite=tested.opposite)


class AblationSettings(Measure):
    """Settings of an ablation in the paper's own rows of ``table``: a column is a cell (model, dataset) and a method.

    ``expect``: "ahead", the one of ``settings`` is above all others that start with one of ``worse``; "robust", all of
    ``settings`` come within ``margin`` of the best in every column, and the last of them, the default, is above the
    best that starts with one of ``worse``; "none dominates", every setting is significantly behind another one in some
    column (one that is the best of all in every column denies it; anything else leaves it open).
    """

    kind: Literal["ablation settings"]
    needs: ClassVar[str] = "needs a recipe that scores these settings, as strategies in studies/demo.yaml"

    table: Literal["tab:abl_sampling", "tab:abl_normalization", "tab:abl_ecc_params"]
    expect: Literal["ahead", "robust", "none dominates"]
    settings: list[str] = []
    worse: list[str] = []
    margin: float = 0.0
    cells: list[Pair] = Field(default=[], description="empty: the table's own")

    def asked_of(self, study: Study, paper: Study) -> dict[str, Measure]:
        part = {"tab:abl_sampling": "every_strategy", "tab:abl_normalization": "epsilon", "tab:abl_ecc_params": "alpha"}
        recipes = [name for name, scoring in study.scoring.items() if getattr(scoring, part[self.table])]
        scorer = study.main.scorer

        def has(model: str, dataset: str) -> bool:
            return any(exhibit_cells.covers(study, recipe, model, dataset, scorer) for recipe in recipes)

        found = own_cells(study, paper, [], [], has)
        return {m: self.model_copy(update={"cells": [(m, d) for d in own]}) for m, own in found.items()}

    def columns(self, evidence: ClaimEvidence) -> list[tuple[MeasuredCell, dict[str, Key]]]:
        """Each cell × method with the stored key of every printed setting."""
        found: dict[tuple[str, str, str], tuple[MeasuredCell, dict[str, Key]]] = {}
        keys = [row.key for row in evidence.values if row.key.table == self.table]
        if self.cells:
            keys = [key._replace(model=model, dataset=dataset) for model, dataset in self.cells for key in keys]
        for key in dict.fromkeys(keys):
            place = measured_place(evidence.study, key, evidence.rules)
            if isinstance(place, str):
                raise NotRunError(place)
            model, dataset = key.model, key.dataset
            questions = evidence.rules.questions(dataset, self.table)
            cell = evidence.cell(model, dataset, place.files[0].recipe, questions)
            evidence.measured(cell, place.key)
            found.setdefault((model, dataset, key.method), (cell, {}))[1][key.setting] = place.key
        return list(found.values())

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        columns = self.columns(evidence)
        if self.expect == "ahead":
            return self._ahead(evidence, columns)
        return self._robust(evidence, columns) if self.expect == "robust" else _none_dominates(evidence, columns)

    def _ahead(self, evidence: ClaimEvidence, columns: Columns) -> ClaimVerdict:
        better = self.settings[0]
        found = [
            evidence.difference([cell], keys[better], key)
            for cell, keys in columns
            for setting, key in keys.items()
            if setting.startswith(tuple(self.worse)) and key != keys[better]
        ]
        below, tested = share_rising(found), evidence.tested(found)
        text = f"below {better} in {below:.0%} of {len(found)} comparisons, {tested.text('in')}"
        sign = share_as(below, evidence.rules.claims.nearly_all)
        return ClaimVerdict(sign, "-", tested.part(), text + _asked(columns), opposite=tested.opposite)

    def _robust(self, evidence: ClaimEvidence, columns: Columns) -> ClaimVerdict:
        close, found, default = [], [], self.settings[-1]
        named = " or ".join(name.rstrip("=") for name in self.worse)
        for cell, keys in columns:
            values = {setting: cell[key].value or 0.0 for setting, key in keys.items()}
            close += [values[setting] >= max(values.values()) - self.margin for setting in self.settings]
            rivals = [key for setting, key in keys.items() if setting.startswith(tuple(self.worse))]
            found.append(evidence.lead([cell], [keys[default]], rivals))
        ahead, near, tested = share_rising(found), float(np.mean(close)), evidence.tested(found)
        text = (
            f"{near:.0%} within {self.margin:g} of the best; {default} ahead of the best {named} in "
            f"{ahead:.0%} of {len(found)} columns, {tested.text('in')}"
        )
        size = share_as(near, evidence.rules.claims.nearly_all)
        text += _asked(columns)
        return ClaimVerdict(share_as(ahead), size, tested.part(), text, opposite=tested.opposite)


Columns: TypeAlias = Sequence[tuple[MeasuredCell, dict[str, Key]]]


def _asked(columns: Columns) -> str:
    """``; 16 questions of triviaqa``, of each dataset."""
    asked = dict.fromkeys(f"{cell.questions} questions of {cell.artifact.dataset}" for cell, _ in columns)
    return f"; {', '.join(asked)}"


def _none_dominates(evidence: ClaimEvidence, columns: Columns) -> ClaimVerdict:
    names = [setting for setting in columns[0][1] if all(setting in keys for _, keys in columns)]
    values = np.array([[cell[keys[name]].value for name in names] for cell, keys in columns], dtype=np.float64)
    best = {names[i] for i in values.argmax(axis=1)}
    why = evidence.too_few_resamples(len(columns), 1)
    behind = []
    for name in names:
        p = [selected_lead([c], [keys[o] for o in names if o != name], [keys[name]])[1] for c, keys in columns]
        behind.append(holm(p, len(p)).min() < evidence.rules.claims.level)
    text = f"{len(best)} of {len(names)} settings are best in some of {len(columns)} columns; "
    text += why or f"{sum(behind)} are significantly behind another in some column"
    text += _asked(columns)
    if len(best) == 1:
        return ClaimVerdict("no", "-", "-", text)
    return ClaimVerdict("yes" if not why and all(behind) else "undecided", "-", "-", text)


class OfPool(Measure):
    """A measurement of several draws of samples beside the main beams, of one model on some datasets.

    ``questions``: how many are asked for at least.
    """

    needs: ClassVar[str] = "needs a recipe with two draws of samples and the main beams, as pool in studies/demo.yaml"

    model: str
    datasets: list[str]
    questions: int

    def files(self, study: Study) -> list[Artifact]:
        return [file for model in study.models for d in study.datasets for file in pool_artifacts(study, model, d)]

    def asked_of(self, study: Study, paper: Study) -> dict[str, Measure]:
        pools = own_cells(study, paper, [self.model], self.datasets, lambda m, d: pool_artifacts(study, m, d))
        return {m: self.model_copy(update={"model": m, "datasets": found}) for m, found in pools.items()}

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        found = [self.of(evidence, dataset) for dataset in self.datasets]
        texts = [f"{dataset}: {of.found}" for dataset, of in zip(self.datasets, found, strict=True)]
        sign, size, significance = (
            "-" if "-" in parts else all_as(parts)
            for parts in zip(*((of.sign, of.size, of.significance) for of in found), strict=True)
        )
        opposite = any(of.opposite for of in found)
        return ClaimVerdict(sign, size, significance, "; ".join(texts), opposite=opposite)

    def of(self, evidence: ClaimEvidence, dataset: str) -> ClaimVerdict:
        """The verdict on one dataset. Raises NotRunError if the run lacks what it needs."""
        raise NotImplementedError


class VarianceAcrossRuns(OfPool):
    """The squared error of Dissimilarity over beams against that of one draw of M samples, question by question.

    Beams are deterministic: that they do not vary says nothing of how far off they are. The Dissimilarity of the
    distribution itself is estimated by the mean of all draws, whose own error is taken off.
    """

    kind: Literal["variance across runs"]

    def of(self, evidence: ClaimEvidence, dataset: str) -> ClaimVerdict:
        study, draws = evidence.study, evidence.draws(self.model, dataset, self.questions)
        M, limit = study.main.num_candidates, study.evaluation.max_rejection[0]
        runs = draws.samples.shape[1] // M
        scores = draws.samples[:, : runs * M].reshape(len(draws.groups), runs, M).mean(axis=2)
        prr = np.array([prr_and_auc.measure("PRR", run, draws.quality, max_rejection=limit)[0] for run in scores.T])
        variance = scores.var(axis=1, ddof=1)
        error = (draws.inside - scores.mean(axis=1)) ** 2 - variance / runs
        gain, std = mean_and_std(variance - error, draws.groups)
        text = (
            f"{len(draws.groups)} questions; "
            f"over {runs} draws of {M} samples Dissimilarity varies by {variance.mean() ** 0.5:.3f} and PRR by "
            f"{prr.std(ddof=1):.4f}; beams, being deterministic, by nothing. Mean squared error: one draw "
            f"{variance.mean():.4f}, beams {error.mean():.4f}, the former minus the latter {gain:+.4f} ± {std:.4f}"
        )
        apart = evidence.rules.agreement.z * std
        clear: Part = "yes" if gain > apart else "no"
        return ClaimVerdict("yes" if gain > 0 else "no", "-", clear, text, opposite=gain < -apart)


class GapOutsideBeams(OfPool):
    """Whether the gap |μ_B − μ_out| is so modest that beams need less mass than the printed condition asks for.

    Samples that are none of the beams are draws from outside them: their mean is μ_out, and from its squared distance
    to μ_B its own error is taken off. By the general condition (1 − m_B)|μ_B − μ_out| < σ/√M a question needs the mass
    1 − σ/(√M |μ_B − μ_out|). Sign: that is below the printed threshold at more than half of the questions. Size: with
    the mass that the beams have, their mean squared error is below that of M samples. Either is undecided where its
    interval lies across. A question with under two samples outside tells nothing.
    """

    kind: Literal["gap outside beams"]

    def of(self, evidence: ClaimEvidence, dataset: str) -> ClaimVerdict:
        M, z = evidence.study.main.num_candidates, evidence.rules.agreement.z
        draws = evidence.draws(self.model, dataset, self.questions)
        told = draws.outside.sum(axis=1) >= 2
        if told.sum() < 2:
            raise NotRunError(f"{told.sum()} questions of {dataset} have two samples that are none of the beams")
        groups = group_of(draws.groups, told)
        outside = np.where(draws.outside[told], draws.samples[told], np.nan)
        gap = np.nanmean(outside, axis=1) - draws.inside[told]
        squared = gap**2 - np.nanvar(outside, axis=1, ddof=1) / draws.outside[told].sum(axis=1)
        of_samples, printed = draws.samples[told].var(axis=1, ddof=1) / M, beam_mass_theorem.printed_threshold(M)
        of_beams = (1 - draws.mass[told]) ** 2 * squared
        below = ((1 - printed) ** 2 * squared <= of_samples + TIE).astype(np.float64)
        measured = [mean_and_std(values, groups) for values in (gap, below, of_samples - of_beams)]
        (mean, of_mean), (share, of_share), (gain, of_gain) = measured
        text = (
            f"{told.sum()} of {len(told)} questions, {draws.outside[told].sum():,} samples outside the beams: "
            f"dissimilarity outside minus inside {mean:+.3f} ± {of_mean:.3f}, root mean square "
            f"{max(squared.mean(), 0.0) ** 0.5:.3f}; a mass below {printed:.3f} is enough at {share:.1%} ± "
            f"{of_share:.1%}. Mean squared error: one draw {of_samples.mean():.4f}, beams {of_beams.mean():.4f}, the "
            f"former minus the latter {gain:+.4f} ± {of_gain:.4f}"
        )
        return ClaimVerdict(above(share - 0.5, of_share, z), above(gain, of_gain, z), "-", text)


class Versus(StrictModel):
    """One estimator of Dissimilarity against another: ``better`` − ``worse`` in PRR is above −``margin``.

    Each is a weighting and its candidates: ``unnormalised beam M=5``, ``uniform sample T=1.0 M=10`` (its mean over all
    disjoint draws of so many that are scored); a kind alone is the recipe's strategy of it.
    """

    better: str
    worse: str
    margin: Annotated[float, Field(ge=0, description="0: better; above: not inferior by more")] = 0.0


class EstimatorsVersus(Measure):
    """Estimators of Dissimilarity against others in PRR, on every dataset, of one model: by one-sided bounds.

    Yes: every lower bound at the declared level, of each comparison on each dataset, is above −margin; since all of
    them have to be, no correction is needed. No: some upper bound, corrected by Bonferroni over all, is below it.
    Undecided: anything else. The bounds are of a paired bootstrap over questions.
    """

    kind: Literal["estimators"]
    needs: ClassVar[str] = "needs a recipe that scores these estimators, as truth in studies/demo.yaml"

    model: str
    datasets: list[str] = Field(default=[], description="empty: all of the paper's")
    comparisons: Annotated[list[Versus], Field(min_length=1)]

    def recipe(self, study: Study, model: str, dataset: str) -> str | None:
        """The first recipe of the grid that scores all of them in this cell under the main scorer, or None."""
        names = [name for of in self.comparisons for name in (of.better, of.worse)]
        for entry in study.grid:
            if exhibit_cells.covers(study, entry.recipe, model, dataset, study.main.scorer) and all(
                scored_as(study, entry.recipe, name) for name in names
            ):
                return entry.recipe
        return None

    def asked_of(self, study: Study, paper: Study) -> dict[str, Measure]:
        found = own_cells(study, paper, [self.model], self.datasets, lambda m, d: self.recipe(study, m, d))
        return {m: self.model_copy(update={"model": m, "datasets": own}) for m, own in found.items()}

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:
        datasets, level = self.datasets or list(evidence.rules.paper.datasets), evidence.rules.claims.level
        shown, opposite, texts, found = [], [], [], []
        for dataset in datasets:
            recipe = self.recipe(evidence.study, self.model, dataset)
            if recipe is None:
                raise NotRunError(f"the grid has no recipe that scores them, of {self.model} on {dataset}")
            found.append(evidence.cell(self.model, dataset, recipe))
        cells = evidence.answered(found)
        for of in self.comparisons:
            parts = []
            for cell in cells:
                value, drawn = self._difference(evidence, cell, of)
                low, high = _bounds(drawn, level, level / (len(self.comparisons) * len(cells)))
                shown.append(low is not None and low > -of.margin)
                opposite.append(high is not None and high < -of.margin)
                bound = "no bound: resamples undefined" if low is None else f"at least {low:+.3f}"
                parts.append(f"{value:+.3f} ({bound}) on {cell.artifact.dataset}, n = {cell.questions}")
            least = f"above {-of.margin:g}" if of.margin else "above 0"
            texts.append(f"{of.better} minus {of.worse}, {least} claimed: {', '.join(parts)}")
        sign: Part = "yes" if all(shown) else "no" if any(opposite) else "undecided"
        asked = f"{len(cells)} of the paper's {len(evidence.rules.paper.datasets)} datasets{_left_out(datasets, cells)}"
        text = f"{'; '.join(texts)}; {asked}; one-sided {1 - level:.0%} bounds, {sum(shown)} of {len(shown)} shown"
        return ClaimVerdict(sign, "-", "-", text, opposite=any(opposite))

    @staticmethod
    def _difference(evidence: ClaimEvidence, cell: MeasuredCell, of: Versus) -> tuple[float, Floats]:
        """PRR of the better minus that of the worse, and its replicates [R]."""
        values, replicates = [], []
        for name in (of.better, of.worse):
            keys = _draws_of(cell, scored_as(evidence.study, cell.artifact.recipe, name) or name)
            for key in keys:
                evidence.measured(cell, key)
            values.append(float(np.mean([cell[key].value for key in keys])))
            replicates.append(np.stack([cell.replicates(key) for key in keys]).mean(axis=0, dtype=np.float64))
        return values[0] - values[1], replicates[0] - replicates[1]


def scored_as(study: Study, recipe: str, name: str) -> str | None:
    """``name`` with the strategy whose scores it is of, where the recipe's scoring has it, else None."""
    weighting, _, candidates = name.partition(" ")
    kind, strategies = kind_of(candidates), study.recipes[recipe].strategies()
    if f"{weighting} {kind}" not in study.scoring[recipe].estimators:
        return None
    if kind == "sample":
        strategy, _, size = candidates.rpartition(" M=")
        sample = study.recipes[recipe].sample
        return name if sample and strategy in strategies and int(size) <= sample.size else None
    found = [one for one in of_kind(strategies, kind) if candidates in (kind, one) and lacks(weighting, one) is None]
    return f"{weighting} {found[0]}" if found else None


def _draws_of(cell: MeasuredCell, name: str) -> list[Key]:
    """The keys of an estimator's PRR: of each disjoint draw where several are measured, else the one."""
    variant, _, setting = name.partition(" ")
    key = Key("PRR", "Dissimilarity", variant, setting)
    draws: list[Key] = []
    while kind_of(setting) == "sample" and (one := key._replace(setting=f"{setting} draw={len(draws) + 1}")) in cell:
        draws.append(one)
    return draws or [key]


def _bounds(drawn: Floats, below: float, above: float) -> tuple[float | None, float | None]:
    """The one-sided lower bound at level ``below`` and upper bound at ``above``; None above 1 % undefined resamples."""
    defined = drawn[~np.isnan(drawn)]
    if len(defined) < (1 - bootstrap.MOST_UNDEFINED) * len(drawn):
        return None, None
    return float(np.quantile(defined, below)), float(np.quantile(defined, 1 - above))


class Counterexample(Measure):
    """The theorem's distribution-free condition, by its stored counterexample; needs no run."""

    needs: ClassVar[str] = "a question of the theorem, which no study decides: see Print against itself"

    kind: Literal["counterexample"]

    def verdict(self, evidence: ClaimEvidence) -> ClaimVerdict:  # noqa: ARG002  (the name is part of the interface)
        outcomes, M = beam_mass_theorem.COUNTEREXAMPLE, beam_mass_theorem.COUNTEREXAMPLE_M
        (beam, sampled), printed = beam_mass_theorem.squared_errors(outcomes, M), beam_mass_theorem.printed_threshold(M)
        meets = outcomes.mass > printed
        found = f"mass {outcomes.mass:.2f} {'>' if meets else '≤'} {printed:.3f} and squared error {beam:.4f} of beams"
        sign: Part = "no" if meets and beam > sampled else "yes"
        return ClaimVerdict(sign, "-", "-", f"{found} against {sampled:.4f} of samples")


AnyMeasure: TypeAlias = Annotated[
    MeanByLength
    | BeamCoverage
    | BeamGains
    | Ranking
    | AheadAtBudgets
    | Plateau
    | GainByLength
    | CurvesAhead
    | AblationSettings
    | VarianceAcrossRuns
    | GapOutsideBeams
    | EstimatorsVersus
    | Counterexample,
    Field(discriminator="kind"),
]
