"""When beams win, in a world whose distribution is known: sharpened outcomes, a truth of them.

Each of N questions has outcomes [N, A] of known probability p: a set B of distinct ones, the most
probable, and n draws from outside it, each of which stands for an equal share of the mass r that B
leaves. Sharpening by ``power`` g makes the probabilities p^g / Z, as peaked as a larger model's, in
the same order. The right answer is drawn from that distribution with its head B raised to ``kappa``
κ: at κ = 1 the model is calibrated, below 1 overconfident. So the quality of an answer is an
expectation, without judge or label noise. What this cannot show: no large model is a small one
sharpened, and the truth need not be a power of a model's distribution (docs/when_beams_win.md).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.special import chdtri

from beamuq.array_types import Bools, Counts, Floats, Ints
from beamuq.beam_mass_theorem import covered_mass, left_by_size, meets_fair_share
from beamuq.log_space_sums import log_sum_exp

LEAST_LEFT = 1e-9  # less mass outside the set is none
KAPPAS = np.arange(0.0, 3.0001, 0.01)
LEAST_TOLD = 10  # fewer questions whose right answer was found estimate no κ


def sharpened(logprob: Floats, in_set: Bools, drawn: Bools, power: float) -> tuple[Floats, Floats]:
    """The distribution p^g / Z: probabilities [N, A], which sum to 1, and log Z [N].

    logprob [N, A] in nats; in_set: B, distinct outcomes; drawn: independent draws from outside B;
    neither: padding. The sum of p^g outside B is estimated by r Σ p^(g − 1) / n over the draws.
    Without draws what is outside B is left out.

    Raises ValueError for a power below 1, where the weights of rare draws have no bound.
    """
    if power < 1:
        raise ValueError(f"power must be at least 1, not {power}")
    left = 1.0 - covered_mass(logprob, in_set)
    share = np.where(left > LEAST_LEFT, left, 0.0) / np.maximum(drawn.sum(axis=1), 1)
    outcome_logprob = np.where(in_set | drawn, logprob, 0.0)
    mass = np.where(drawn, share[:, None], np.where(in_set, np.exp(outcome_logprob), 0.0))
    weights = mass * np.exp((power - 1) * outcome_logprob)
    total = weights.sum(axis=1)
    return weights / total[:, None], np.log(total)


def truth_distribution(probability: Floats, head: Bools, kappa: float) -> Floats:
    """The distribution [N, A] of the right answer.

    p^κ over the head, which keeps its mass, and p over the tail. The whole cannot be raised: the
    weights of a few draws explode where gκ < 1. A question without a head is its tail.
    """
    raised = np.where(head, probability**kappa, 0.0)
    total = raised.sum(axis=1, keepdims=True)
    mass = np.where(head, probability, 0.0).sum(axis=1, keepdims=True)
    return np.where(head, raised / np.where(total > 0, total, 1.0) * mass, probability)


def expected_quality(truth: Floats, quality: Floats) -> Floats:
    """[N] the mean quality of an answer, in [0, 1] if ``quality`` is.

    quality [N, A]: that of the answer with each outcome right.
    """
    return np.asarray((truth * quality).sum(axis=1))


def tell_kappa(logprob: Floats, head: Bools, right: Bools) -> Bools:
    """[N] which questions tell κ: those with a right outcome and another one.

    The arrays are those of :func:`estimate_kappa`.
    """
    outcomes = head & np.isfinite(logprob)
    return np.asarray((outcomes & right).any(axis=1) & (outcomes & ~right).any(axis=1))


def estimate_kappa(logprob: Floats, head: Bools, right: Bools, counts: Counts) -> Floats:
    """κ of most likelihood on each resample, [R]: of the right answer, if it is in the head.

    logprob, head, right [N, A]: which outcomes have the right answer's text; counts [N, R]: how
    often each resample draws each question. From 0 to 3 in steps of .01, the ends where nothing
    inside is likelier; NaN where fewer than ten questions tell (:func:`tell_kappa`). It says
    nothing of the tail.
    """
    tells = tell_kappa(logprob, head, right)
    likelihood = _log_likelihood(logprob, head, right, tells).T @ counts[tells]
    enough = counts[tells].sum(axis=0) >= LEAST_TOLD
    return np.where(enough, KAPPAS[likelihood.argmax(axis=0)], np.nan)


def kappa_interval(
    logprob: Floats, head: Bools, right: Bools, groups: Sequence[str], confidence: float = 0.95
) -> tuple[float, float]:
    """The ends of κ by the likelihood ratio, which holds with few questions; NaN as the estimate.

    The arrays are those of :func:`estimate_kappa`; groups [N] are of questions that need not be
    independent. With 25 questions that tell it has 94 % coverage where percentiles of a bootstrap
    have 91 %. The ratio is divided by how much more the groups' scores vary than independent
    questions' would.
    """
    tells = tell_kappa(logprob, head, right)
    if tells.sum() < LEAST_TOLD:
        return np.nan, np.nan
    of_questions = _log_likelihood(logprob, head, right, tells)
    likelihood = of_questions.sum(axis=0)
    best = int(likelihood.argmax())
    inner = min(max(best, 1), len(KAPPAS) - 2)
    score = of_questions[:, inner + 1] - of_questions[:, inner - 1]
    effect = _design_effect(score, np.asarray(groups)[tells])
    ratio = 2 * (likelihood[best] - likelihood) / effect
    inside = KAPPAS[ratio <= chdtri(1, 1 - confidence)]
    return float(inside[0]), float(inside[-1])


def _design_effect(score: Floats, groups: npt.NDArray[np.str_]) -> float:
    """How much more the sums of groups vary than independent terms would; 1 at least."""
    _, places = np.unique(groups, return_inverse=True)
    sums = np.bincount(places, weights=score)
    independent = float(score @ score)
    if independent == 0:
        return 1.0
    return max(1.0, float(sums @ sums) / independent)


def _log_likelihood(logprob: Floats, head: Bools, right: Bools, tells: Bools) -> Floats:
    """[T, K] of each question that tells, that the right answer is the one it is, at each κ."""
    outcomes = head & np.isfinite(logprob)
    finite = np.where(outcomes, logprob, 0.0)[tells]
    raised = KAPPAS[:, None] * finite[:, None, :]
    total = _log_mass(raised, outcomes[tells])
    of_right = _log_mass(raised, (right & outcomes)[tells])
    return np.asarray(of_right - total)


def _log_mass(raised: Floats, members: Bools) -> Floats:
    """[N, K] log Σ over members [N, A] of log-probabilities raised to K powers, [N, K, A]."""
    return log_sum_exp(np.where(members[:, None, :], raised, -np.inf))


def draws(probability: Floats, uniforms: Floats) -> Ints:
    """[N, n] the positions at ``uniforms`` [N, n] in [0, 1) of the distribution function.

    In the order of the columns. Its rows need not sum to 1. With columns in the order of tokens,
    equally spaced uniforms are a lattice there.
    """
    total = np.cumsum(probability, axis=1)
    rows = np.arange(len(total))[:, None]
    places = (total / total[:, -1:] + rows).ravel()
    positions = np.searchsorted(places, uniforms + rows, side="right") - rows * total.shape[1]
    behind_last = (probability[:, ::-1] > 0).argmax(axis=1)
    last = probability.shape[1] - 1 - behind_last
    return np.asarray(np.clip(positions, 0, last[:, None]))


def _most_probable(probability: Floats, in_set: Bools, M: int) -> tuple[Ints, Floats, Floats]:
    """The M most probable of a set: places and probabilities [N, M], and the mass left [N, M + 1].

    The mass is that outside the first B = 0 … M of them. Places behind the set's last have
    probability 0; there are fewer than M where A < M.
    """
    places = np.argsort(-np.where(in_set, probability, -1.0), axis=1, kind="stable")[:, :M]
    p = np.take_along_axis(np.where(in_set, probability, 0.0), places, axis=1)
    with np.errstate(divide="ignore"):
        return places, p, left_by_size(np.log(p), p > 0)


def covered(probability: Floats, in_set: Bools, M: int, counts: Counts) -> dict[str, Floats]:
    """Where questions are, on each resample [R], by how much their most probable outcomes cover.

    ``mass``: that of the M most probable outcomes of the set, in the mean. ``fair share``: the
    share of questions of which some set covers its own. counts [N, R]: how often each resample
    draws each question.
    """
    _, _, left = _most_probable(probability, in_set, M)
    means = {"mass": 1.0 - left[:, -1], "fair share": meets_fair_share(left, M).astype(np.float64)}
    return {
        name: np.asarray(values @ counts / counts.sum(axis=0)) for name, values in means.items()
    }


def best_split(probability: Floats, in_set: Bools, M: int) -> Ints:
    """[N] B, the number of most probable outcomes with the least r_B / (M − B), 0 ≤ B < M.

    See fair share in :mod:`beamuq.beam_mass_theorem`.
    """
    _, _, left = _most_probable(probability, in_set, M)
    sizes = np.arange(left.shape[1])[:M]
    return np.asarray((left[:, :M] / (M - sizes)).argmin(axis=1))


def estimates(
    probability: Floats, dissimilarity: Floats, in_set: Bools, M: int, uniforms: Floats
) -> dict[str, Floats]:
    """Dissimilarity from M candidates of a known distribution, [N, D] each.

    By the weighting and the kind of candidates, at ``uniforms`` [N, D, M] in [0, 1) of D draws:
    M samples; the best number of most
    probable outcomes with independent draws, and with the points of one lattice.
    """
    inside = _best_set(probability, in_set, M)
    rest = np.where(inside, 0.0, probability)
    left = rest.sum(axis=1, keepdims=True)
    left = np.where(left > LEAST_LEFT, left, 0.0)
    rest = np.where(left > 0, rest, probability)  # drawn of, and not counted
    n = M - inside.sum(axis=1)[:, None, None]
    fixed = np.where(inside, probability * dissimilarity, 0.0).sum(axis=1, keepdims=True)
    lattice = np.minimum((np.arange(M) + uniforms[:, :, :1]) / n, 1 - 1e-12)
    all_drawn = np.full_like(n, M)
    of_samples = _mean_of_draws(dissimilarity, probability, uniforms, all_drawn)
    of_draws = _mean_of_draws(dissimilarity, rest, uniforms, n)
    of_lattice = _mean_of_draws(dissimilarity, rest, lattice, n)
    return {
        "uniform sample": of_samples,
        "stratified optimal_stratified": fixed + left * of_draws,
        "stratified adaptive": fixed + left * of_lattice,
    }


def _best_set(probability: Floats, in_set: Bools, M: int) -> Bools:
    """[N, A] the most probable outcomes of the set, as many as :func:`best_split` says."""
    places, _, _ = _most_probable(probability, in_set, M)
    size = best_split(probability, in_set, M)[:, None]
    inside = np.zeros_like(in_set)
    np.put_along_axis(inside, places, np.arange(places.shape[1]) < size, axis=1)
    return inside & in_set


def _mean_of_draws(
    dissimilarity: Floats, probability: Floats, uniforms: Floats, drawn: Ints
) -> Floats:
    """[N, D] the mean dissimilarity at the first ``drawn`` [N, 1, 1] of ``uniforms`` [N, D, M]."""
    positions = draws(probability, uniforms.reshape(len(uniforms), -1))
    values = np.take_along_axis(dissimilarity, positions, axis=1).reshape(uniforms.shape)
    counted = np.arange(uniforms.shape[2]) < drawn
    return np.asarray(np.where(counted, values, 0.0).sum(axis=2) / drawn[:, :, 0])


def beam_estimate(probability: Floats, dissimilarity: Floats, in_set: Bools, M: int) -> Floats:
    """[N] Dissimilarity over the M most probable outcomes of the set, normalised; 1 of none.

    It is the paper's beam form.
    """
    places, p, _ = _most_probable(probability, in_set, M)
    mass = p.sum(axis=1)
    weighted = (p * np.take_along_axis(dissimilarity, places, axis=1)).sum(axis=1)
    return np.asarray(np.where(mass > 0, weighted / np.where(mass > 0, mass, 1.0), 1.0))


def coordinates(logprob: Floats, right: Bools, counts: Counts, M: int) -> dict[str, Floats]:
    """Where questions are on the map, on each resample [R]: :func:`covered`, ``held``, ``kappa``.

    logprob, right [N, A] of distinct outcomes that were found (NaN: padding); counts [N, R]. held
    is the share of questions with a right one among the M most probable; kappa is as
    :func:`estimate_kappa` has it.
    """
    outcomes = ~np.isnan(logprob)
    outcome_logprob = np.where(outcomes, logprob, -np.inf)
    probability = np.exp(outcome_logprob)
    places, _, _ = _most_probable(probability, outcomes, M)
    held = np.take_along_axis(right & outcomes, places, axis=1)
    holds = held.any(axis=1)
    values = covered(probability, outcomes, M, counts)
    values["held"] = np.asarray(holds @ counts / counts.sum(axis=0))
    values["kappa"] = estimate_kappa(outcome_logprob, outcomes, right, counts)
    return values


def claims_more_than_held(mass_low: float, held_high: float) -> bool:
    """Whether beams claim more probability than questions have a right answer among them.

    By the ends of two intervals; then the truth is not drawn of such a distribution, and the map
    does not apply. False where either is NaN: not known.
    """
    return held_high < mass_low


def crossing(mass: Floats, difference: Floats) -> float:
    """The smallest mass from which a difference stays above 0, interpolated.

    NaN where it is not above 0 at the last. mass, difference [G], in any order. Above 0 everywhere:
    the smallest mass there is; undefined just before: NaN.
    """
    order = np.argsort(mass)
    x = mass[order]
    y = difference[order]
    below = np.flatnonzero(~(y > 0))  # NaN is not above 0
    if not len(below):
        return float(x[0])
    last = below[-1]
    if last == len(x) - 1:
        return float("nan")
    width = x[last + 1] - x[last]
    rise = y[last + 1] - y[last]
    return float(x[last] - y[last] * width / rise)
