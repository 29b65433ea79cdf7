"""Claims about what candidates are: repeated samples, and the probability that beams cover."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from beamuq import beam_mass_theorem
from beamuq.array_types import Bools, Floats
from beamuq.evaluation.candidate_sets import CandidateSets, groups_of, length_bins
from beamuq.evaluation.intervals import mean_and_std
from beamuq_study.comparison.claims.case import Case, require_questions
from beamuq_study.comparison.claims.judges import judge, main_recipe_cells, per_dataset
from beamuq_study.comparison.claims.verdict import Verdict, part_of_share
from beamuq_study.exhibits.exhibit import CANDIDATES
from beamuq_study.study_config import Main

Lengths = Sequence[float]  # tokens of the greedy answer, its terminator counted: from, to
MOST_LENGTH_BINS = 7


@judge(cells=main_recipe_cells, reads=CANDIDATES)
@per_dataset
def mean_of_questions(
    case: Case,
    of: str,
    lengths: Lengths = (1, np.inf),
    paper_range: Sequence[float] = (),
    above: Lengths = (),
) -> Verdict:
    """Whether the mean over answers of some ``lengths`` is in the ``paper_range``.

    Or, without one, above the mean over answers of the lengths ``above``. ``of``: a quantity, as
    :func:`_quantity` has them.

    Yes: the mean is in the range, or as near it as two measurements may lie (``z`` · √2 standard
    errors), and at least ``least_share_of_questions`` of the paper's questions are asked; of fewer,
    the interval lies in the range. Without a range: the mean is above the other one by more than
    ``z`` standard errors of their difference.

    No: it is farther off; without a range, below by more than that.

    Value: the mean; without a range, the difference.
    """
    sets = case.candidates()
    values = _quantity(of, sets, case.results.study.main)
    chosen = _answers_of(sets, lengths)
    groups = groups_of(sets.groups, chosen)
    if paper_range:
        return case.within_paper_range(values[chosen], groups, paper_range, len(sets.ids))
    rest = _answers_of(sets, above)
    mean, std = mean_and_std(values[chosen], groups)
    rest_mean, rest_std = mean_and_std(values[rest], groups_of(sets.groups, rest))
    n = int(chosen.sum() + rest.sum())
    return case.clear(mean - rest_mean, float(np.hypot(std, rest_std)), n)


@judge(cells=main_recipe_cells, reads=CANDIDATES)
@per_dataset
def covered_mass(case: Case, first: int, share: float) -> Verdict:
    """Whether beams cover more probability than samples, at every length, most by the first.

    Yes: they do in each bin of lengths, in the mean by more than ``z`` standard errors, and the
    ``first`` beams hold more than a ``share`` of what all of them cover.

    No: they do in half of the bins, or in fewer, and in the mean they cover less by more than ``z``
    standard errors.

    Value: the mean of what beams cover more.
    """
    sets = case.candidates()
    main = case.results.study.main
    gain = _quantity("gain", sets, main)
    bins = length_bins(sets.lengths(), MOST_LENGTH_BINS)
    share_of_bins = float(np.mean([gain[answers.members].mean() > 0 for answers in bins]))
    leading_share = _share_of_first_beams(sets, main, first)
    case.notes.append(
        f"more in {share_of_bins:.0%} of the length bins; the first {first} hold "
        f"{leading_share:.0%} of the beams' mass"
    )
    verdict = case.clear(*mean_and_std(gain, sets.groups), len(gain))
    return replace(
        verdict,
        sign=part_of_share(share_of_bins),
        size="yes" if leading_share > share else "no",
        significance="yes" if verdict.sign == "yes" else "no",
        opposite=verdict.sign == "no",
    )


def _quantity(name: str, sets: CandidateSets, main: Main) -> Floats | Bools:
    """[N] of the main number of candidates.

    "repeat": the share of samples that repeat another; "gain": the mass of beams minus that of
    samples; "condition": whether beams cover more than the printed condition asks for.
    """
    M = main.num_candidates
    if name == "repeat":
        return sets.redundancy(main.sample, M)
    mass = sets.mass(main.beam, M)
    if name == "condition":
        return mass > beam_mass_theorem.printed_threshold(M)
    return mass - sets.mass(main.sample, M)


def _answers_of(sets: CandidateSets, lengths: Lengths) -> Bools:
    """[N] whether the greedy answer is of these lengths. Raises TooFewError if few are."""
    low, high = lengths
    tokens = sets.lengths()
    members = (tokens >= low) & (tokens <= high)
    require_questions(int(members.sum()), f"with answers of {low} to {high:g} tokens")
    return members


def _share_of_first_beams(sets: CandidateSets, main: Main, first: int) -> float:
    """What part of the beams' probability the ``first`` ranks hold, over all questions."""
    rows = sets.rows(main.beam, main.num_candidates)
    p = np.exp(rows["logprob"])
    return float(p[rows["rank"] < first].sum() / p.sum())
