"""Claims about the error of beams: the theorem, and Dissimilarity against many draws of samples."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from beamuq import beam_mass_theorem
from beamuq.array_types import Bools, Floats
from beamuq.evaluation import significance
from beamuq.evaluation.candidate_sets import CandidateSets, groups_of
from beamuq.evaluation.estimates import TIE
from beamuq.evaluation.intervals import mean_and_std
from beamuq_study import grid
from beamuq_study.comparison.claims.case import Case, NotAskedError, require_questions
from beamuq_study.comparison.claims.judges import judge, main_recipe_cells, per_dataset
from beamuq_study.comparison.claims.verdict import Verdict
from beamuq_study.exhibits.exhibit import CANDIDATES
from beamuq_study.grid import Cell
from beamuq_study.study_config import Study

COMPARED = (*CANDIDATES, "similarity")


def _with_disjoint_draws(study: Study, **_: Any) -> list[Cell]:
    """The cells whose samples make several disjoint draws, beside beams."""
    return grid.select(
        study,
        strategies=[study.main.sample, study.main.beam],
        has=lambda recipe: grid.draws(study, recipe) > 1,
        take="each",
    )


@judge(cells=main_recipe_cells)
def theorem(case: Case) -> Verdict:
    """The theorem's distribution-free condition, by its stored counterexample; needs no run.

    Yes: the counterexample, computed anew, does not meet the printed condition, or its beams have
    no larger error.

    No: it meets the condition, and its beams have a larger squared error than M samples.

    Value: none.
    """
    outcomes = beam_mass_theorem.COUNTEREXAMPLE
    M = beam_mass_theorem.COUNTEREXAMPLE_M
    beam_error, sample_error = beam_mass_theorem.squared_errors(outcomes, M)
    case.notes.append(
        f"mass {outcomes.mass:.2f}, squared error {beam_error:.4f} of beams, "
        f"{sample_error:.4f} of samples"
    )
    condition_is_met = outcomes.mass > beam_mass_theorem.printed_threshold(M)
    return Verdict(0, "no" if condition_is_met and beam_error > sample_error else "yes")


@judge(cells=_with_disjoint_draws, reads=COMPARED)
@per_dataset
def no_variance(case: Case) -> Verdict:
    """Whether the estimate varies over draws of samples; beams, which are searched, cannot.

    Yes: the variance of samples is above 0 by more than ``z`` standard errors.

    No: it is below by more, which no variance is.

    Value: that variance.
    """
    errors = _errors(case)
    return case.clear(*mean_and_std(errors.variance, errors.groups), len(errors.groups))


@judge(cells=_with_disjoint_draws, reads=COMPARED)
@per_dataset
def small_bias(case: Case, most: float) -> Verdict:
    """Whether the beams' mean bias is small.

    Yes: its interval, of ± ``z`` standard errors, lies within ± ``most``.

    No: it lies outside.

    Value: the bias.
    """
    errors = _errors(case)
    verdict = case.clear(*mean_and_std(errors.bias, errors.groups), len(errors.groups))
    (size,) = significance.within(pd.DataFrame([vars(verdict)]), most)
    return replace(verdict, sign="-", size=size)


@judge(cells=_with_disjoint_draws, reads=COMPARED)
@per_dataset
def smaller_error(case: Case) -> Verdict:
    """The squared error of one draw of M samples minus that of beams, by question.

    Yes: its mean is above 0 by more than ``z`` standard errors.

    No: it is below 0 by more.

    Value: that mean.
    """
    errors = _errors(case)
    case.notes.append(
        f"mean squared error of one draw {errors.variance.mean():.4f}, of beams "
        f"{errors.of_beams.mean():.4f}"
    )
    gain = errors.variance - errors.of_beams
    return case.clear(*mean_and_std(gain, errors.groups), len(errors.groups))


@judge(cells=_with_disjoint_draws, reads=COMPARED)
@per_dataset
def small_gap(case: Case) -> Verdict:
    """Whether the gap |μ_B − μ_out| is so modest that beams need less mass than is printed.

    Samples that are none of the beams are draws from outside them: their mean is μ_out, whose own
    error is taken off the squared gap. By the condition (1 − m_B)|μ_B − μ_out| < σ/√M a question
    needs the mass 1 − σ/(√M |μ_B − μ_out|). Under two samples outside tell nothing of a question.

    Yes: the mass that they need is below the printed threshold at more than half of the questions;
    and with the beams' own mass their mean squared error is below that of M samples; both by more
    than ``z`` standard errors.

    No: it is so at less than half of the questions, by more than ``z`` standard errors. At more
    than half, and the beams' error larger by as much: partly.

    Value: the share of questions.
    """
    draws = _draws_with_samples_outside(case)
    M = case.results.study.main.num_candidates
    gap, squared_gap = _gap(draws)
    sample_error = draws.samples.var(axis=1, ddof=1) / M
    error_at_threshold = (1 - beam_mass_theorem.printed_threshold(M)) ** 2 * squared_gap
    beam_error = (1 - draws.mass) ** 2 * squared_gap
    share, share_std = mean_and_std(error_at_threshold <= sample_error + TIE, draws.groups)
    gain, gain_std = mean_and_std(sample_error - beam_error, draws.groups)
    case.notes.append(
        f"dissimilarity outside minus inside {gap.mean():+.3f}; one draw's error minus {gain:+.4f}"
    )
    n = len(draws.groups)
    sign = case.clear(share - 0.5, share_std, n).sign
    size = case.clear(gain, gain_std, n).sign
    return replace(case.clear(share, share_std, n), sign=sign, size=size)


# -- what similarities say of beams and of samples -------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """Of N questions: how dissimilar S samples and the beams are to the greedy answer."""

    groups: list[str]  # [N] what is independent, such as a story
    samples: Floats  # [N, S] of each sample, in [0, 1]
    outside: Bools  # [N, S] whether a sample is none of the beams
    beams: Floats  # [N] Dissimilarity over beams
    mass: Floats  # [N] the probability that beams cover

    def of_questions(self, chosen: Bools) -> Draws:
        return Draws(
            groups_of(self.groups, chosen),
            self.samples[chosen],
            self.outside[chosen],
            self.beams[chosen],
            self.mass[chosen],
        )


@dataclass(frozen=True)
class Errors:
    """Of N questions: how far Dissimilarity is from the distribution's own."""

    groups: list[str]
    variance: Floats  # over draws of M samples
    bias: Floats  # of beams
    of_beams: Floats  # their squared error


@dataclass(frozen=True)
class Compared:
    """A strategy's S candidates of N questions, compared with the greedy answer."""

    sequences: list[tuple[Any, ...]]  # [N · S] id and tokens
    p: Floats  # [N, S]
    dissimilarity: Floats  # [N, S]


def _draws(case: Case) -> Draws:
    """Raises NotAskedError if there are no similarities, or not of all candidates."""
    case.require("similarity")
    sets = case.candidates()
    main = case.results.study.main
    similarity = case.cells[0].file("similarity")
    pairs = case.results.inputs.frame(similarity)
    similarities = pairs.set_index(["id", "premise", "hypothesis"])["entail"]
    samples = _compared(sets, main.sample, similarities, similarity.path)
    beams = _compared(sets, main.beam, similarities, similarity.path)
    beam_sequences = set(beams.sequences)
    outside = np.array([sequence not in beam_sequences for sequence in samples.sequences])
    mass = beams.p.sum(axis=1)
    return Draws(
        groups=sets.groups,
        samples=samples.dissimilarity,
        outside=outside.reshape(samples.dissimilarity.shape),
        beams=(beams.dissimilarity * beams.p).sum(axis=1) / mass,
        mass=np.minimum(mass, 1.0),
    )


def _draws_with_samples_outside(case: Case) -> Draws:
    """Of the questions with two samples that are no beams. Raises TooFewError if few have them."""
    draws = _draws(case)
    usable = draws.outside.sum(axis=1) >= 2
    dataset = case.cells[0].dataset
    require_questions(
        int(usable.sum()), f"of {dataset} with two samples that are none of the beams"
    )
    return draws.of_questions(usable)


def _compared(
    sets: CandidateSets, strategy: str, similarities: pd.Series[float], path: str
) -> Compared:
    """The candidates of a strategy. Raises NotAskedError if a pair is not among similarities."""
    rows = sets.rows(strategy).set_index("id").loc[sets.ids]
    greedy_texts = sets.greedy.loc[rows.index, "text"]
    pairs = pd.MultiIndex.from_arrays([rows.index, greedy_texts, rows["text"]])
    to_greedy: Floats = np.asarray(similarities.reindex(pairs), dtype=np.float64)
    of_unequal_number = rows.index.value_counts().nunique() > 1
    if np.isnan(to_greedy).any() or of_unequal_number:
        raise NotAskedError(
            f"{path} lacks pairs, or questions differ in their number of candidates"
        )
    tokens = zip(rows.index, rows["token_ids"], strict=True)
    dissimilarity = 1.0 - to_greedy.reshape(len(sets.ids), -1)
    p = np.exp(rows["logprob"].to_numpy(np.float64)).reshape(dissimilarity.shape)
    return Compared([(key, *sequence) for key, sequence in tokens], p, dissimilarity)


def _errors(case: Case) -> Errors:
    """The distribution's own Dissimilarity is estimated by the mean of all draws of M samples.

    The error of that mean is taken off the squared error of beams.
    """
    draws = _draws(case)
    M = case.results.study.main.num_candidates
    count = draws.samples.shape[1] // M
    drawn = draws.samples[:, : count * M].reshape(len(draws.groups), count, M).mean(axis=2)
    variance = drawn.var(axis=1, ddof=1)
    bias = draws.beams - drawn.mean(axis=1)
    return Errors(draws.groups, variance, bias, bias**2 - variance / count)


def _gap(draws: Draws) -> tuple[Floats, Floats]:
    """[N] dissimilarity outside minus inside the beams; its square, less the error of the mean."""
    outside = np.where(draws.outside, draws.samples, np.nan)
    gap = np.nanmean(outside, axis=1) - draws.beams
    error = np.nanvar(outside, axis=1, ddof=1) / draws.outside.sum(axis=1)
    return gap, gap**2 - error
