"""Estimators of U from few candidates, in one cell that knows U: how far they are off, and how they rank answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from beamuq import strategy_names
from beamuq.errors import BeamUQError
from beamuq.evaluation.candidate_sets import CandidateSets
from beamuq.evaluation.estimates import Estimates
from beamuq.evaluation.question_scores import QuestionScores
from beamuq.evaluation.rank_correlations import spearman
from beamuq.methods.dissimilarity_estimators import WEIGHTINGS

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
METHOD, OF_U, ERROR, U = "Dissimilarity", "stratified", "standard error", "U itself"
ROUNDING = 1e-20  # scores have 12 decimals: a smaller sum of squares is none

_TITLES = {
    ("uniform", "sample"): "samples",
    ("distinct", "sample"): "distinct samples by p",
    ("normalised", "beam"): "beams, normalised",
    ("unnormalised", "beam"): "beams, unnormalised",
    ("uniform", "beam"): "beams, uniform",
    ("lower", "beam"): "beams, lower end",
    ("normalised", "exact"): "exact top M, normalised",
    ("unnormalised", "exact"): "exact top M, unnormalised",
    ("stratified", "hybrid"): "hybrid, stratified",
    ("uniform", "systematic"): "systematic",
    ("normalised", "stochastic"): "stochastic beams, normalised",
    ("inclusion", "stochastic"): "stochastic beams, p/q",
    ("stratified", "neverworse"): "never worse",
    ("stratified", "adaptive"): "adaptive systematic",
}


@dataclass(frozen=True)
class Estimator:
    """A weighting of a strategy's candidates, M of them. ``setting``: that of its scores."""

    weighting: str
    strategy: str
    M: int
    setting: str

    @property
    def kind(self) -> str:
        """The kind of its candidates."""
        return strategy_names.kind_of(self.strategy)

    @property
    def unbiased(self) -> bool:
        """Whether its mean is U."""
        return WEIGHTINGS[self.weighting].kinds.get(self.kind, False)

    @property
    def title(self) -> str:
        """As printed."""
        return _TITLES.get((self.weighting, self.kind), f"{self.kind}, {self.weighting}")


class EstimatorsOfCell:
    """One cell's U and its standard error, [N], and every estimate of it, in the order of the questions.

    Parameters
    ----------
    scores, candidates
        Of the cell.
    prr
        PRR of its scores, with the replicates of ``counts``.
    counts
        [N, R] how often each resample draws each question.
    exact
        The setting of the scores that are U.
    main
        The first M main samples, uniformly weighted; ``draws``: how many disjoint draws of M there are.
    """

    def __init__(
        self,
        scores: QuestionScores,
        candidates: CandidateSets,
        prr: Estimates,
        counts: Counts,
        exact: str,
        main: Estimator,
        draws: int,
    ) -> None:
        self.scores, self.candidates, self.measured = scores, candidates, prr
        self.counts, self.exact, self.main, self.draws = counts, exact, main, draws
        first = prr.frame.iloc[0]
        self.keys: Mapping[str, Any] = {name: first[name] for name in ("model", "dataset", "recipe", "scorer", "empty")}
        self.U, self.error = (scores.scores(METHOD, variant, exact) for variant in (OF_U, ERROR))

    @property
    def n(self) -> int:
        """Questions."""
        return len(self.U)

    def settings(self, estimator: Estimator) -> list[str]:
        """The settings of its scores: every disjoint draw where there are several, else the one."""
        if estimator.kind == "sample" and self.main.M == estimator.M and self.draws > 1:
            draws = range(1, self.draws + 1)
            return [strategy_names.samples_of(estimator.strategy, estimator.M, draw) for draw in draws]
        return [estimator.setting]

    def estimates(self, estimator: Estimator) -> Floats:
        """[D, N] its estimates, a row a disjoint draw."""
        settings = self.settings(estimator)
        return np.stack([self.scores.scores(METHOD, estimator.weighting, setting) for setting in settings])

    def errors(self, estimator: Estimator) -> Floats:
        """[N] its squared errors, mean over draws, without that of U."""
        return np.asarray(((self.estimates(estimator) - self.U) ** 2).mean(axis=0) - self.error**2)

    def errors_of_samples(self, M: int) -> Floats:
        """[N] expected squared error of M samples, σ²/M; without disjoint draws, that of the first M."""
        if self.draws > 1:
            return np.asarray(self.main.M * self.estimates(self.main).var(axis=0, ddof=1) / M)
        return self.errors(samples(self.main.strategy, M))

    def prr(self, estimator: Estimator | None) -> Estimates:
        """PRR of an estimator, the mean over its draws; None: of U itself."""
        if estimator is None:
            return self.prr_at(OF_U, [self.exact]).assign(variant=U, setting="")
        return self.prr_at(estimator.weighting, self.settings(estimator)).assign(setting=estimator.setting)

    def prr_at(self, variant: str, settings: Sequence[str], method: str = METHOD) -> Estimates:
        """The mean of PRR over some settings of a method's variant."""
        rows = self.measured.where(method=method, variant=variant, setting=settings)
        if len(rows) != len(settings):
            place = f"PRR of {method} {variant} {settings[0]}"
            raise BeamUQError(f"evaluation: no row for {place}; run the evaluation again")
        return rows.mean_over_draws(settings[0])

    def estimate(self, metric: str, value: float, replicates: Any, note: str = "", **keys: str) -> Estimates:
        """Another statistic of this cell, with its replicates [R]; NaN: undefined, for the reason in ``note``."""
        note = (note or "undefined: all values are equal") if np.isnan(value) else ""
        row = {**self.keys, "method": METHOD, "metric": metric, **keys, "value": value, "n": self.n, "note": note}
        return Estimates.made([row], [np.broadcast_to(replicates, self.counts.shape[1])])

    def bias(self, estimator: Estimator, **keys: str) -> Estimates:
        """Mean of estimate − U."""
        values = (self.estimates(estimator) - self.U).mean(axis=0)
        return self.estimate("bias", float(values.mean()), values @ self.counts / self.counts.sum(axis=0), **keys)

    def error_ratio(self, estimator: Estimator, **keys: str) -> Estimates:
        """RMSE divided by that expected of M samples; undefined where samples make no error."""
        reference = self.errors_of_samples(estimator.M)
        own = reference if estimator.title == "samples" else self.errors(estimator)
        value, *drawn = error_ratio(own, reference, self._with_all())
        return self.estimate("RMSE ratio", value, drawn, "undefined: samples make no error", **keys)

    def rank_correlation(self, estimator: Estimator, **keys: str) -> Estimates:
        """Spearman's correlation with U over questions, mean over draws."""
        rows = [spearman(row, self.U, self._with_all()) for row in self.estimates(estimator)]
        value, *drawn = np.mean(rows, axis=0)
        return self.estimate("Spearman with U", value, drawn, **keys)

    def _with_all(self) -> Counts:
        """The counts, behind a column of all questions once."""
        return np.column_stack([np.ones(self.n, dtype=np.int64), self.counts])

    def effort(self, estimator: Estimator) -> dict[str, float]:
        """Means over questions of candidates, distinct texts, rows and passes; NaN where the file tells none."""
        size, found = estimator.M if estimator.kind == "sample" else None, self.candidates
        rows, passes = found.effort_of_samples(estimator.strategy, size) if size else found.effort(estimator.strategy)
        count = found.of(estimator.strategy, size).groupby("id").size().loc[found.ids].to_numpy(dtype=np.float64)
        distinct = found.distinct(estimator.strategy, size or int(count.max()))
        named = {"candidates": count, "distinct texts": distinct, "rows": rows, "passes": passes}
        return {name: np.nan if values is None else float(values.mean()) for name, values in named.items()}


def samples(strategy: str, M: int, weighting: str = "uniform") -> Estimator:
    """A weighting of a strategy's first M samples."""
    return Estimator(weighting, strategy, M, strategy_names.samples_of(strategy, M))


def error_ratio(errors: Floats, reference: Floats, counts: Counts) -> Floats:
    """[R] √(mean of ``errors`` / mean of ``reference``), both [N] squared, in each resample: counts [N, R].

    A mean below 0 is taken for 0; NaN where the reference's is not above 0.
    """
    above, below = np.maximum(errors @ counts, 0.0), reference @ counts
    below[below < ROUNDING] = 0.0
    return np.asarray(np.sqrt(np.divide(above, below, out=np.full(len(below), np.nan), where=below > 0)))
