"""Estimators of U = Σ_y p(y) d(y), the Dissimilarity under the model's whole distribution.

Proofs: docs/theory.md. d(y) = 1 − s(y, y*) in [0, 1]. Each estimator is Σ_i w_i d_i over M
candidates [N, M], where some count what was not found as full disagreement. The weights serve the
other weighted methods too, as plug-ins: of those only CocoaMSP and CocoaPPL, which multiply U by a
factor of the answer, keep what is proven here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from beamuq.errors import BeamUQError, hint
from beamuq.log_space_sums import Array, Mask, covered_mass
from beamuq.methods import candidate_weights
from beamuq.methods.method_inputs import UNKNOWN
from beamuq.strategy_names import KINDS, parse

EXACT = 1e-3
"""A set that leaves no more mass than this gives the true dissimilarity."""
CUSTOM = "custom"


@dataclass(frozen=True)
class CandidateArrays:
    """The candidates of N questions: logprob, dissimilarity (0 on padding), mask, each [N, M].

    drawn [N, M]: candidates that were drawn; the others are a set B of distinct outcomes of known
    probability. Draws exclude B and are in the order drawn. differs [N, M]: the text is not y*'s.
    repeated [N, M], of samples: the same token sequence occurs before. log_inclusion [N, M], of
    stochastic beams: log q, where q is the probability of being included given the threshold κ.
    """

    logprob: Array
    dissimilarity: Array
    mask: Mask
    drawn: Mask
    repeated: Mask = UNKNOWN
    differs: Mask = UNKNOWN
    log_inclusion: Array | None = None

    @property
    def in_set(self) -> Mask:
        """B, [N, M]."""
        return self.mask & ~self.drawn

    @property
    def left(self) -> Array:
        """r = 1 − Σ_B p, the mass outside the set, [N] in [0, 1]; 1 without a set."""
        return 1.0 - covered_mass(self.logprob, self.in_set)


@dataclass(frozen=True)
class Weighting:
    """An estimator: weights [N, M] of the candidates; by kind of strategy, whether its mean is U.

    ``and_left``: the mass that was not found is added, as outcomes of d = 1.
    """

    weights: Callable[[CandidateArrays], Array]
    kinds: Mapping[str, bool]
    formula: str
    and_left: bool = False

    def estimate(self, candidates: CandidateArrays) -> Array:
        """[N], higher = more uncertain; in [0, 1], but ``inclusion`` is unbounded above."""
        estimate: Array = (self.weights(candidates) * candidates.dissimilarity).sum(axis=1)
        return estimate + candidates.left if self.and_left else estimate


def _uniform(candidates: CandidateArrays) -> Array:
    return candidate_weights.uniform(candidates.mask)


def _distinct(candidates: CandidateArrays) -> Array:
    first_of_each = candidates.mask & ~candidates.repeated
    return candidate_weights.restricted_mass(candidates.logprob, first_of_each)


def _normalised(candidates: CandidateArrays) -> Array:
    if candidates.log_inclusion is not None:
        return candidate_weights.importance(
            candidates.logprob, candidates.log_inclusion, candidates.mask
        )
    return candidate_weights.restricted_mass(candidates.logprob, candidates.mask)


def _unnormalised(candidates: CandidateArrays) -> Array:
    return np.where(candidates.in_set, np.exp(candidates.logprob), 0.0)


def _inclusion(candidates: CandidateArrays) -> Array:
    assert candidates.log_inclusion is not None
    return np.where(candidates.mask, np.exp(candidates.logprob - candidates.log_inclusion), 0.0)


def _stratified(candidates: CandidateArrays) -> Array:
    return candidate_weights.hybrid(candidates.logprob, candidates.drawn, candidates.mask)


def _usual(candidates: CandidateArrays) -> Array:
    """What a method takes over such candidates: normalised, stratified, or 1/M over draws alone."""
    if candidates.log_inclusion is None:
        return _stratified(candidates)
    return _normalised(candidates)


_SETS = {"beam": False, "exact": False, CUSTOM: False}
_STRATA = {"hybrid": True, "optimal_stratified": True, "adaptive": True, "all_above": True}
WEIGHTINGS: dict[str, Weighting] = {
    "uniform": Weighting(
        _uniform,
        {"sample": True, "systematic": True} | _SETS,
        "Σ d / M",
    ),
    "distinct": Weighting(
        _distinct,
        {"sample": False},
        "Σ p d / Σ p, each token sequence once",
    ),
    "normalised": Weighting(
        _normalised,
        _SETS | {"stochastic": False},
        "Σ p d / Σ p; of stochastic beams Σ (p/q) d / Σ (p/q)",
    ),
    "unnormalised": Weighting(
        _unnormalised,
        _SETS | {"all_above": False},
        "Σ_B p d + r, the certified interval's upper end",
        and_left=True,
    ),
    "lower": Weighting(_unnormalised, _SETS | {"all_above": False}, "Σ_B p d, its lower end"),
    "stratified": Weighting(_stratified, _STRATA, "Σ_B p d + (r/n) Σ d over the n draws outside B"),
    "inclusion": Weighting(_inclusion, {"stochastic": True}, "Σ (p/q) d"),
    "match": Weighting(
        _usual,
        dict.fromkeys(("sample", "systematic", *_SETS, *_STRATA, "stochastic"), False),
        "as usual over such candidates, with 1 where the text is not y*'s in place of d",
    ),
}
"""By name: the variant of its rows among the scores."""


def estimate(name: str, candidates: CandidateArrays) -> Array:
    """[N] U by the estimator ``name``, from candidates of a strategy that allows it.

    :func:`lacks` says which do.
    """
    if name == "match":
        candidates = replace(candidates, dissimilarity=candidates.differs.astype(np.float64))
    return WEIGHTINGS[name].estimate(candidates)


def check_kind(name: str, kind: str) -> None:
    """Refuse an unknown estimator, or one that does not work on candidates of this kind.

    Raises BeamUQError.
    """
    if name not in WEIGHTINGS:
        raise BeamUQError(f"{name!r}: unknown weighting; {hint(name, WEIGHTINGS)}")
    kinds = WEIGHTINGS[name].kinds
    if kind not in kinds and (kind in KINDS or CUSTOM not in kinds):
        raise BeamUQError(
            f"{name} {kind!r}: that kind of candidates does not do; choose from {', '.join(kinds)}"
        )


def lacks(name: str, strategy: str) -> str | None:
    """What an estimator requires and candidates of a strategy of a right kind miss, if anything."""
    kind, options = parse(strategy)
    if kind == "sample" and options["T"] != 1:
        return "samples at T = 1"
    if kind == "all_above" and name in ("stratified", "match") and not options.get("draws"):
        return "draws outside the set (all_above … draws=)"
    return None


def standard_error(candidates: CandidateArrays, lattices: int = 0) -> Array:
    """The standard error of the mean of draws (``uniform``, ``stratified``), r · σ̂/√n, [N].

    ``lattices``: draws of the same lattice depend on each other, so that only the means of whole
    lattices show the error; they follow one another, equally many draws each. 0: independent draws.
    Of one lattice, and of fewer than two independent draws, there is none: NaN, but 0 where the set
    leaves at most 1e-3 and nothing was drawn.
    """
    values = candidates.dissimilarity
    counted = candidates.mask & candidates.drawn
    n = counted.sum(axis=1)
    units = n
    if lattices:
        values = _lattice_means(values, counted, lattices)
        counted = np.ones(values.shape, dtype=bool)
        units = np.where(n >= lattices, lattices, 0)
    mean = _mean(values, counted)[:, None]
    squares = np.where(counted, (values - mean) ** 2, 0.0).sum(axis=1)
    error = candidates.left * np.sqrt(squares / np.maximum(units - 1, 1) / np.maximum(units, 1))
    without_draws = np.where((n == 0) & (candidates.left <= EXACT), 0.0, np.nan)
    return np.where(units >= 2, error, without_draws)


def _lattice_means(values: Array, drawn: Mask, lattices: int) -> Array:
    """[N, lattices] the mean over the draws of each lattice, which follow one another."""
    n = drawn.sum(axis=1)
    number = (np.cumsum(drawn, axis=1) - 1) * lattices // np.maximum(n, 1)[:, None]
    means = [_mean(values, drawn & (number == lattice)) for lattice in range(lattices)]
    return np.stack(means, axis=1)


def certified_interval(logprob: Array, dissimilarity: Array, in_set: Mask) -> tuple[Array, Array]:
    """[Σ_B p d, Σ_B p d + r], which holds U for any outcomes outside B: two arrays [N].

    All [N, M]. True where the members of B are distinct outcomes, each with the probability of its
    whole sequence, the ending included, under the distribution that U is about. Without a set: [0,
    1].
    """
    lower = np.where(in_set, np.exp(logprob) * dissimilarity, 0.0).sum(axis=1)
    return lower, lower + 1.0 - covered_mass(logprob, in_set)


def certified_pair_interval(logprob: Array, values: Array, in_set: Mask) -> tuple[Array, Array]:
    """[S_in, S_in + 1 − m²] around Σ_y Σ_z p(y) p(z) v(y, z), with S_in its part within B.

    Two arrays [N]. values [N, M, M] in [0, 1], such as 1 − s for Degree Matrix; the rest as for
    :func:`certified_interval`.
    """
    p = np.where(in_set, np.exp(logprob), 0.0)
    lower = np.einsum("ni,nij,nj->n", p, values, p)
    return lower, lower + 1.0 - covered_mass(logprob, in_set) ** 2


def _mean(values: Array, chosen: Mask) -> Array:
    """Mean along the last axis over the chosen, 0 of none."""
    return np.asarray(np.where(chosen, values, 0.0).sum(axis=1) / np.maximum(chosen.sum(axis=1), 1))
