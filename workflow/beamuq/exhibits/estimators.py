"""Estimators of U from few candidates: which ones a study scores, and what they give in one cell that knows U."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from beamuq import strategy_names
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import draws_name, resample_counts
from beamuq.evaluation.estimates import Estimates
from beamuq.evaluation.estimator_errors import error_ratio, squared_errors, variance_of_one_sample
from beamuq.evaluation.rank_correlations import spearman
from beamuq.exhibits import cells
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.exhibit import CANDIDATES, EVALUATION, SCORES
from beamuq.exhibits.inputs import Inputs
from beamuq.methods.dissimilarity_estimators import WEIGHTINGS, lacks
from beamuq.study_config import Study

Floats = NDArray[np.float64]
METHOD, OF_U, ERROR, U = "Dissimilarity", "stratified", "standard error", "U itself"
LARGE_ERROR = 0.01
"""Questions whose U has a larger standard error are counted in captions."""
READS = tuple(dict.fromkeys((*CANDIDATES, *SCORES, *EVALUATION)))

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


def samples(study: Study, M: int, weighting: str = "uniform") -> Estimator:
    """A weighting of the first M main samples."""
    return Estimator(weighting, study.main.sample, M, strategy_names.samples_of(study.main.sample, M))


def estimators(study: Study, recipe: str, sizes: Container[int]) -> list[Estimator]:
    """What the recipe's scoring estimates U by from M candidates, M among the ``sizes``: by M, then as listed."""
    of, listed = study.recipes[recipe], []
    strategies = of.strategies()
    for name in study.scoring[recipe].estimators:
        weighting, _, kind = name.partition(" ")
        for strategy in strategy_names.of_kind(strategies, kind):
            if lacks(weighting, strategy) is not None or kind == "above" or weighting == "match":
                continue
            settings = {int(M): strategy} if (M := strategy_names.parse(strategy)[1].get("M")) else {}
            if kind == "sample" and of.sample:
                scored = (M for M in {study.main.num_candidates, *_sizes_in(strategies)} if of.sample.size >= M)
                settings = {M: strategy_names.samples_of(strategy, M) for M in scored}
            elif kind == "hybrid" and of.hybrid:
                settings = {of.hybrid.size: strategy}
            listed += [Estimator(weighting, strategy, M, setting) for M, setting in settings.items() if M in sizes]
    return sorted(listed, key=lambda estimator: estimator.M)


def compared_sizes(study: Study, recipe: str) -> list[int]:
    """The M at which estimators are compared: those of strategies that only estimators read, else the main one."""
    of = study.recipes[recipe]
    names = [name for name in of.strategies() if strategy_names.kind_of(name) in strategy_names.FOR_ESTIMATORS]
    sizes = _sizes_in(names) or {study.main.num_candidates}
    return sorted(M for M in sizes if of.sample is None or of.sample.size >= M)


def _sizes_in(strategies: Iterable[str]) -> set[int]:
    return {int(M) for name in strategies if (M := strategy_names.parse(name)[1].get("M"))}


def cells_with_exact_value(study: Study, dataset: str = "", *needed: str) -> list[Cell]:
    """The cells of the first recipe that knows U with its standard error; ``needed``: further estimators or strategies.

    Raises BeamUQError if there is none, or it does not score what U is compared with.
    """

    def has(recipe: str) -> bool:
        above = study.recipes[recipe].above
        return bool(above and above.lattices > 1 and "stratified above" in study.scoring[recipe].estimators)

    recipe = cells.first_recipe(
        study,
        has,
        "with above: {draws: …, lattices: 2 or more} and, among its scoring's estimators, 'stratified above', as truth "
        "in studies/demo.yaml",
    )
    known = {*study.scoring[recipe].estimators, *study.scoring[recipe].methods, *study.recipes[recipe].strategies()}
    if lacking := [name for name in ("uniform sample", "normalised beam", *needed) if name not in known]:
        raise BeamUQError(
            f"recipes.{recipe} or scoring.{recipe} lacks {', '.join(lacking)}; add it or drop the exhibit"
        )
    return [cell for cell in cells.recipe_cells(study, recipe) if dataset in ("", cell.dataset)]


def exact_setting(study: Study, recipe: str) -> str:
    """The strategy whose stratified estimate is U."""
    names = strategy_names.of_kind(study.recipes[recipe].strategies(), "above")
    return next(name for name in names if "lattices" in strategy_names.parse(name)[1])


class EstimatorCell:
    """One cell's U and its standard error, [N], and every estimate of it, in the order of the questions.

    ``counts`` [N, R]: how often each resample draws each question, the draws of the cell's evaluation.
    """

    def __init__(self, study: Study, inputs: Inputs, cell: Cell) -> None:
        self.cell, self._study = cell, study
        self.scored, self.candidates = inputs.scores(cell), inputs.candidates(cell)
        measured = inputs.estimates([cell]).where(metric="PRR", answer_source="greedy", subset="all")
        self.measured = measured
        self.empty = float(measured.frame["empty"].iloc[0])
        of_U = exact_setting(study, cell.recipe)
        self.U, self.error = (self.scored.scores(METHOD, variant, of_U) for variant in (OF_U, ERROR))
        name = draws_name(cell.dataset, zip(self.scored.ids, self.scored.groups, strict=True))
        self.counts = resample_counts(self.scored.groups, study.evaluation.resamples, study.seed, name)
        sample, M = study.recipes[cell.recipe].sample, study.main.num_candidates
        self.draws = sample.size // M if sample and sample.size >= 2 * M else 1
        """Disjoint draws of the main number of samples."""

    @property
    def n(self) -> int:
        """Questions."""
        return len(self.U)

    def settings(self, estimator: Estimator) -> list[str]:
        """The settings of its scores: every disjoint draw where there are several, else the one."""
        if estimator.kind == "sample" and self._study.main.num_candidates == estimator.M and self.draws > 1:
            draws = range(1, self.draws + 1)
            return [strategy_names.samples_of(estimator.strategy, estimator.M, draw) for draw in draws]
        return [estimator.setting]

    def estimates(self, estimator: Estimator) -> Floats:
        """[D, N] its estimates, a row a disjoint draw."""
        settings = self.settings(estimator)
        return np.stack([self.scored.scores(METHOD, estimator.weighting, setting) for setting in settings])

    def errors(self, estimator: Estimator) -> Floats:
        """[N] its squared errors, mean over draws, without that of U."""
        return squared_errors(self.estimates(estimator), self.U, self.error)

    def errors_of_samples(self, M: int) -> Floats:
        """[N] expected squared error of M samples, σ²/M; without disjoint draws, that of the first M."""
        main = samples(self._study, self._study.main.num_candidates)
        if self.draws > 1:
            return variance_of_one_sample(self.estimates(main), main.M) / M
        return self.errors(samples(self._study, M))

    def prr(self, estimator: Estimator | None) -> Estimates:
        """PRR of an estimator, the mean over its draws; None: of U itself."""
        if estimator is None:
            return self.prr_at(OF_U, [exact_setting(self._study, self.cell.recipe)]).assign(variant=U, setting="")
        return self.prr_at(estimator.weighting, self.settings(estimator)).assign(setting=estimator.setting)

    def prr_at(self, variant: str, settings: Sequence[str], method: str = METHOD) -> Estimates:
        """The mean of PRR over some settings of a method's variant."""
        rows = self.measured.where(method=method, variant=variant, setting=settings)
        if len(rows) != len(settings):
            place = f"PRR of {method} {variant} {settings[0]}"
            raise BeamUQError(f"{self.cell.file('evaluation').path}: lacks {place}; run the evaluation again")
        return rows.mean_over_draws(settings[0])

    def estimate(self, metric: str, value: float, replicates: Any, note: str = "", **keys: str) -> Estimates:
        """Another statistic of this cell, with its replicates [R]; NaN: undefined, for the reason in ``note``."""
        place = {"model": self.cell.model, "dataset": self.cell.dataset, "method": METHOD, "metric": metric}
        note = (note or "undefined: all values are equal") if np.isnan(value) else ""
        row = place | keys | {"value": value, "n": self.n, "empty": self.empty, "note": note}
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

    def _with_all(self) -> NDArray[np.int64]:
        """The counts, behind a column of all questions once."""
        return np.column_stack([np.ones(self.n, dtype=np.int64), self.counts])

    def effort(self, estimator: Estimator) -> dict[str, float]:
        """Means over questions of candidates, distinct texts, rows and passes; NaN where the file tells none."""
        size, found = estimator.M if estimator.kind == "sample" else None, self.candidates
        rows, passes = found.effort_of_samples(estimator.strategy, size) if size else found.effort(estimator.strategy)
        count = found.of(estimator.strategy, size).groupby("id").size().loc[found.ids]
        distinct = found.distinct(estimator.strategy, size or int(count.max()))
        named = {"candidates": count, "distinct texts": distinct, "rows": rows, "passes": passes}
        return {name: np.nan if values is None else float(values.mean()) for name, values in named.items()}


def facts(study: Study, read: Sequence[EstimatorCell]) -> dict[str, Any]:
    """What captions say of U, of its standard error, and of draws."""
    n, uncertain = sum(of.n for of in read), sum(int((of.error > LARGE_ERROR).sum()) for of in read)
    worst, M, draws = max(float(of.error.max()) for of in read), study.main.num_candidates, read[0].draws
    return {
        "U": f"U is {METHOD} under the model's whole distribution, from every outcome above a probability and draws "
        f"outside them ({exact_setting(study, read[0].cell.recipe)}); its standard error is above {LARGE_ERROR:g} at "
        f"{uncertain} of {n} questions (at most {worst:.3f}).",
        "draws": f"Samples at M = {M} are the mean over {draws} disjoint draws of the same questions."
        if draws > 1
        else "",
    }
