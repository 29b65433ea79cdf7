"""When beams win, in a world whose distribution is known: sharpened outcomes, and a truth drawn
from them.

Each of N questions has outcomes [N, A] of known probability p: a set B of distinct ones, the most
probable, and n draws from outside it, each of which stands for an equal share of the mass r that B
leaves. Sharpening by ``power`` g makes the probabilities p^g / Z, as peaked as a larger model's, in
the same order. The right answer is drawn from that distribution with its head B raised to ``kappa``
κ: at κ = 1 the model is calibrated, below 1 overconfident. So the quality of an answer is an
expectation, without judge or label noise. What this cannot show: no large model is a small one
sharpened, and the truth need not be a power of a model's distribution (docs/when_beams_win.md).
"""

from __future__ import annotations

import numpy as np

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
    known = np.where(in_set | drawn, logprob, 0.0)
    weights = np.where(drawn, share[:, None], np.where(in_set, np.exp(known), 0.0)) * np.exp(
        (power - 1) * known
    )
    total = weights.sum(axis=1)
    return weights / total[:, None], np.log(total)


def truth_distribution(probability: Floats, head: Bools, kappa: float) -> Floats:
    """The distribution [N, A] of the right answer: p^κ over the head, which keeps its mass, and p
    over the tail.

    The whole cannot be raised: the weights of a few draws explode where gκ < 1. A question without
    a head is its tail.
    """
    raised, inside = np.where(head, probability**kappa, 0.0), np.where(head, probability, 0.0)
    total, mass = (of.sum(axis=1, keepdims=True) for of in (raised, inside))
    return np.where(head, raised / np.where(total > 0, total, 1.0) * mass, probability)


def expected_quality(truth: Floats, quality: Floats) -> Floats:
    """[N] the mean quality of an answer, in [0, 1] if ``quality`` [N, A], that of it with each
    outcome right, is.
    """
    return np.asarray((truth * quality).sum(axis=1))


def tell_kappa(logprob: Floats, head: Bools, right: Bools) -> Bools:
    """[N] which questions tell κ, of the arrays of :func:`estimate_kappa`: those with a right and
    another outcome.
    """
    found = head & np.isfinite(logprob)
    return np.asarray((found & right).any(axis=1) & (found & ~right).any(axis=1))


def estimate_kappa(logprob: Floats, head: Bools, right: Bools, counts: Counts) -> Floats:
    """κ of most likelihood on each resample, [R]: of the right answer, given that it is in the
    head.

    logprob, head, right [N, A]: which outcomes have the right answer's text; counts [N, R]: how
    often each resample draws each question. From 0 to 3 in steps of .01, the ends where nothing
    inside is likelier; NaN where fewer than ten questions tell (:func:`tell_kappa`). It says
    nothing of the tail.
    """
    found, tells = head & np.isfinite(logprob), tell_kappa(logprob, head, right)
    right = right & found
    scaled = KAPPAS[:, None] * np.where(found, logprob, 0.0)[tells][:, None, :]
    total, of_right = (
        log_sum_exp(np.where(of[tells][:, None, :], scaled, -np.inf)) for of in (found, right)
    )
    likelihood = (of_right - total).T @ counts[tells]
    return np.where(
        counts[tells].sum(axis=0) >= LEAST_TOLD, KAPPAS[likelihood.argmax(axis=0)], np.nan
    )


def draws(probability: Floats, uniforms: Floats) -> Ints:
    """[N, n] the positions at ``uniforms`` [N, n] in [0, 1) of the distribution function, in the
    order of the columns.

    Its rows need not sum to 1. With columns in the order of tokens, equally spaced uniforms are a
    lattice there.
    """
    total = np.cumsum(probability, axis=1)
    rows = np.arange(len(total))[:, None]
    places = (total / total[:, -1:] + rows).ravel()
    found = np.searchsorted(places, uniforms + rows, side="right") - rows * total.shape[1]
    last = probability.shape[1] - 1 - (probability[:, ::-1] > 0).argmax(axis=1)
    return np.asarray(np.clip(found, 0, last[:, None]))


def _most_probable(probability: Floats, in_set: Bools, M: int) -> tuple[Ints, Floats, Floats]:
    """Places and probabilities [N, M] of the most probable of the set, then of others, as 0; and
    the mass [N, M + 1] outside the first B = 0 … M of them. Fewer where A < M."""
    places = np.argsort(-np.where(in_set, probability, -1.0), axis=1, kind="stable")[:, :M]
    p = np.take_along_axis(np.where(in_set, probability, 0.0), places, axis=1)
    with np.errstate(divide="ignore"):
        return places, p, left_by_size(np.log(p), p > 0)


def covered(probability: Floats, in_set: Bools, M: int, counts: Counts) -> dict[str, Floats]:
    """On each resample [R], which draws questions so often as ``counts`` [N, R] say: ``mass`` that
    the M most probable outcomes of the set cover in the mean, and ``fair share``, the share of
    questions of which some set covers its own.
    """
    _, _, left = _most_probable(probability, in_set, M)
    means = {"mass": 1.0 - left[:, -1], "fair share": meets_fair_share(left, M).astype(np.float64)}
    return {
        name: np.asarray(values @ counts / counts.sum(axis=0)) for name, values in means.items()
    }


def best_split(probability: Floats, in_set: Bools, M: int) -> Ints:
    """[N] B, the number of most probable outcomes with the least r_B / (M − B), 0 ≤ B < M (fair
    share).
    """
    _, _, left = _most_probable(probability, in_set, M)
    return np.asarray((left[:, :M] / (M - np.arange(left.shape[1])[:M])).argmin(axis=1))


def estimates(
    probability: Floats, dissimilarity: Floats, in_set: Bools, M: int, uniforms: Floats
) -> dict[str, Floats]:
    """Dissimilarity from M candidates of a known distribution, [N, D] each, by the weighting and
    kind of candidates.

    ``uniforms`` [N, D, M] in [0, 1) of D draws of M candidates: samples; the best number of most
    probable outcomes with independent draws, and with the points of one lattice.
    """
    places, _, _ = _most_probable(probability, in_set, M)
    inside, size = np.zeros_like(in_set), best_split(probability, in_set, M)[:, None]
    np.put_along_axis(inside, places, np.arange(places.shape[1]) < size, axis=1)
    inside &= in_set
    rest = np.where(inside, 0.0, probability)
    left = rest.sum(axis=1, keepdims=True)
    left = np.where(left > LEAST_LEFT, left, 0.0)
    rest = np.where(left > 0, rest, probability)  # drawn of, and not counted
    n = M - inside.sum(axis=1)[:, None, None]
    fixed = np.where(inside, probability * dissimilarity, 0.0).sum(axis=1, keepdims=True)
    lattice = np.minimum((np.arange(M) + uniforms[:, :, :1]) / n, 1 - 1e-12)

    def mean(of: Floats, at: Floats, drawn: Ints) -> Floats:
        chosen = np.take_along_axis(
            dissimilarity, draws(of, at.reshape(len(at), -1)), axis=1
        ).reshape(at.shape)
        return np.asarray(np.where(np.arange(M) < drawn, chosen, 0.0).sum(axis=2) / drawn[:, :, 0])

    return {
        "uniform sample": mean(probability, uniforms, np.full_like(n, M)),
        "stratified optimal_stratified": fixed + left * mean(rest, uniforms, n),
        "stratified adaptive": fixed + left * mean(rest, lattice, n),
    }


def beam_estimate(probability: Floats, dissimilarity: Floats, in_set: Bools, M: int) -> Floats:
    """Dissimilarity over the M most probable outcomes of the set, normalised (the paper's beams),
    [N]; 1 of none.
    """
    places, p, _ = _most_probable(probability, in_set, M)
    mass, estimate = (
        p.sum(axis=1),
        (p * np.take_along_axis(dissimilarity, places, axis=1)).sum(axis=1),
    )
    return np.asarray(np.where(mass > 0, estimate / np.where(mass > 0, mass, 1.0), 1.0))


def coordinates(logprob: Floats, right: Bools, counts: Counts, M: int) -> dict[str, Floats]:
    """Where questions are on the map, on each resample [R]: as :func:`covered`, and ``kappa``
    (:func:`estimate_kappa`).

    logprob, right [N, A] of distinct outcomes that were found (NaN: padding); counts [N, R].
    """
    found = ~np.isnan(logprob)
    known = np.where(found, logprob, -np.inf)
    return covered(np.exp(known), found, M, counts) | {
        "kappa": estimate_kappa(known, found, right, counts)
    }


def crossing(mass: Floats, difference: Floats) -> float:
    """The smallest mass from which a difference stays above 0, interpolated; NaN where it is not
    above 0 at the last.

    mass, difference [G], in any order. Above 0 everywhere: the smallest mass there is; undefined
    just before: NaN.
    """
    order = np.argsort(mass)
    x, y = mass[order], difference[order]
    below = np.flatnonzero(~(y > 0))  # NaN is not above 0
    if not len(below):
        return float(x[0])
    last = below[-1]
    if last == len(x) - 1:
        return float("nan")
    return float(x[last] - y[last] * (x[last + 1] - x[last]) / (y[last + 1] - y[last]))
