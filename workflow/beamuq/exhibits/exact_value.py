"""U of one cell as a set with many draws outside it knows it, and what estimators make of few candidates."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from beamuq import strategy_names
from beamuq.errors import BeamUQError
from beamuq.evaluation import bootstrap
from beamuq.exhibits import exhibit_cells
from beamuq.exhibits.exhibit_inputs import Inputs, distinct
from beamuq.exhibits.exhibit_types import Exhibit
from beamuq.exhibits.question_scores import QuestionScores
from beamuq.exhibits.read_evaluation import Key, Measured, Measurements, mean_of
from beamuq.exhibits.redundancy_and_covered_mass import CandidateMeasures
from beamuq.methods.dissimilarity_estimators import WEIGHTINGS, lacks
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

Floats = NDArray[np.float64]
T = TypeVar("T")
METHOD, OF_U, ERROR = "Dissimilarity", "stratified", "standard error"
LARGE_ERROR = 0.01
"""Questions whose U has a larger standard error are counted and told."""
ROUNDING = 1e-20  # scores have 12 decimals: a smaller sum of squares is none
BLOCK = 1000  # resamples ranked at once


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


def cells_with_exact_value(study: Study) -> tuple[str, list[exhibit_cells.Cell]]:
    """The first recipe of the grid that knows U with its standard error under the main scorer, and its cells.

    Raises BeamUQError if there is none, or it does not score what U is compared with: samples and beams.
    """
    for entry in study.grid:
        above, named = study.recipes[entry.recipe].above, study.scoring[entry.recipe].estimators
        if above and above.lattices > 1 and "stratified above" in named and study.main.scorer in entry.scorers:
            if lacking := [name for name in ("uniform sample", "normalised beam") if name not in named]:
                raise BeamUQError(f"scoring.{entry.recipe}.estimators lacks {', '.join(lacking)}; add it")
            return entry.recipe, [
                (model, dataset)
                for model in exhibit_cells.models(study, entry.recipe)
                for dataset in exhibit_cells.datasets(study, entry.recipe, model)
                if exhibit_cells.covers(study, entry.recipe, model, dataset, study.main.scorer)
            ]
    raise BeamUQError(
        "needs a recipe of the grid with above: {draws: …, lattices: 2 or more} and, among its scoring's estimators, "
        "'stratified above', 'uniform sample' and 'normalised beam', as truth in studies/demo.yaml; add one or drop "
        "the exhibit"
    )


def setting_of_exact_value(study: Study, recipe: str) -> str:
    """The strategy whose stratified estimate is U."""
    return next(
        name
        for name in strategy_names.of_kind(study.recipes[recipe].strategies(), "above")
        if "lattices" in strategy_names.parse(name)[1]
    )


def estimators(study: Study, recipe: str, wanted: Container[int]) -> list[Estimator]:
    """What the recipe's scoring estimates U by from M candidates, M among the ``wanted``: by M, then as listed."""
    strategies, found = study.recipes[recipe].strategies(), []
    sampled = {study.main.num_candidates, *_numbers(strategies)}
    most = study.recipes[recipe].sample
    hybrid = study.recipes[recipe].hybrid
    for name in study.scoring[recipe].estimators:
        weighting, _, kind = name.partition(" ")
        for strategy in strategy_names.of_kind(strategies, kind):
            if lacks(weighting, strategy) is not None or kind == "above" or weighting == "match":
                continue
            if kind == "sample":
                scored = [M for M in sampled if most and most.size >= M]
                of = {M: strategy_names.samples_of(strategy, M) for M in scored}
            elif kind == "hybrid" and hybrid:
                of = {hybrid.size: strategy}
            else:
                of = {int(M): strategy} if (M := strategy_names.parse(strategy)[1].get("M")) else {}
            found += [Estimator(weighting, strategy, M, setting) for M, setting in of.items() if M in wanted]
    return sorted(found, key=lambda item: item.M)


def sizes(study: Study, recipe: str) -> list[int]:
    """The M at which estimators are compared: those of strategies that only estimators read, else the main one."""
    of = study.recipes[recipe]
    named = _numbers(name for name in of.strategies() if strategy_names.kind_of(name) in strategy_names.FOR_ESTIMATORS)
    return sorted(M for M in named or {study.main.num_candidates} if of.sample is None or of.sample.size >= M)


def _numbers(strategies: Iterable[str]) -> set[int]:
    """The M that strategies' names say."""
    return {int(M) for name in strategies if (M := strategy_names.parse(name)[1].get("M"))}


class OfExactValue(Exhibit):
    """An exhibit of the cells that know U."""

    def cells(self, study: Study) -> tuple[str, list[exhibit_cells.Cell]]:
        """The recipe and its cells. Raises BeamUQError if the study has none, or they lack what the exhibit needs."""
        return cells_with_exact_value(study)

    def artifacts(self, study: Study) -> list[Artifact]:
        """Candidates, scores, quality, questions, evaluation and replicates of every cell."""
        recipe, cells = self.cells(study)
        return distinct([file for cell in cells for file in question_files(study, *cell, recipe)])


def cells_with_beams(study: Study) -> tuple[str, list[exhibit_cells.Cell]]:
    """As :func:`cells_with_exact_value`, of a recipe that has to decode the main beams as they are."""
    recipe, cells = cells_with_exact_value(study)
    if study.main.beam not in study.recipes[recipe].strategies():
        raise BeamUQError(f"needs {study.main.beam!r} in recipes.{recipe}; add it there or drop the exhibit")
    return recipe, cells


def main_samples(study: Study, weighting: str = "uniform") -> Estimator:
    """A weighting of the first draw of the main samples."""
    sample, M = study.main.sample, study.main.num_candidates
    return Estimator(weighting, sample, M, strategy_names.samples_of(sample, M))


class CellEstimates:
    """One cell's U with its standard error, and every estimate of it, [N] in the order of ``ids``.

    ``counts`` [N, R]: how often each resample draws each question, the draws of the cell's evaluation.
    """

    def __init__(self, study: Study, inputs: Inputs, model: str, dataset: str, recipe: str) -> None:
        self._main, self._confidence = study.main, study.evaluation.confidence
        candidates, *scored = _question_files(study, model, dataset, recipe)
        self.scored = QuestionScores(inputs, *scored)
        self.found = CandidateMeasures(inputs, candidates, scored[-1])
        evaluation, replicates = exhibit_cells.evaluation_artifacts([(model, dataset)], recipe, study.main.scorer)
        self.measured = Measurements(study, inputs, evaluation, replicates)
        of_u = setting_of_exact_value(study, recipe)
        self.U, self.error = self.scored.scores(METHOD, OF_U, of_u), self.scored.scores(METHOD, ERROR, of_u)
        self.prr_of_U = self.measured[Key("PRR", METHOD, OF_U, of_u)]
        name = bootstrap.draws_name(dataset, zip(self.scored.ids, self.scored.groups, strict=True))
        self.counts = bootstrap.resample_counts(self.scored.groups, study.evaluation.resamples, study.seed, name)
        sample = study.recipes[recipe].sample
        size = sample.size if sample else 0
        self._draws = size // self._main.num_candidates if size >= 2 * self._main.num_candidates else 0

    @property
    def n(self) -> int:
        """Questions."""
        return len(self.U)

    @property
    def uncertain(self) -> int:
        """Questions whose U has a standard error above .01."""
        return int((self.error > LARGE_ERROR).sum())

    def settings(self, of: Estimator) -> list[str]:
        """The settings of its scores: every disjoint draw where there are several, else the one."""
        if of.kind == "sample" and self._main.num_candidates == of.M and self._draws:
            return [strategy_names.samples_of(of.strategy, of.M, draw + 1) for draw in range(self._draws)]
        return [of.setting]

    def estimates(self, of: Estimator) -> Floats:
        """[D, N] its estimates, a row a disjoint draw."""
        return np.stack([self.scored.scores(METHOD, of.weighting, setting) for setting in self.settings(of)])

    def squared_error(self, of: Estimator) -> Floats:
        """[N] squared error of an estimate (mean over draws); that of U is taken off, so single ones may be below 0."""
        return np.asarray(((self.estimates(of) - self.U) ** 2).mean(axis=0) - self.error**2)

    @cached_property
    def variance_of_a_sample(self) -> Floats | None:
        """[N] unbiased: from the disjoint draws of M samples, M times the variance of their means; None without."""
        size = self._main.num_candidates
        if not self._draws:
            return None
        settings = [strategy_names.samples_of(self._main.sample, size, draw + 1) for draw in range(self._draws)]
        draws = np.stack([self.scored.scores(METHOD, "uniform", setting) for setting in settings])
        return np.asarray(size * draws.var(axis=0, ddof=1), dtype=np.float64)

    def error_of_samples(self, M: int) -> Floats:
        """[N] expected squared error of M samples, σ²/M; without disjoint draws, that of the first M."""
        if self.variance_of_a_sample is not None:
            return self.variance_of_a_sample / M
        strategy = self._main.sample
        return self.squared_error(Estimator("uniform", strategy, M, strategy_names.samples_of(strategy, M)))

    def prr(self, of: Estimator) -> Measured:
        """PRR with replicates; of several draws the means over them."""
        found = [self.measured[Key("PRR", METHOD, of.weighting, setting)] for setting in self.settings(of)]
        return mean_of_draws(found, self._confidence)

    def with_interval(self, value: float, replicates: Floats, note: str = "") -> Measured:
        """A value with the percentile interval of its replicates; one that is NaN is undefined."""
        if np.isnan(value):
            return Measured(None, None, None, None, self.n, note or "undefined: all values are equal")
        return Measured.resampled(value, replicates, self.n, self._confidence)

    def mean(self, values: Floats) -> Measured:
        """The mean of values [N] over questions."""
        return self.with_interval(float(values.mean()), np.asarray(values @ self.counts / self.counts.sum(axis=0)))

    def error_ratio(self, of: Estimator) -> Measured:
        """RMSE divided by that expected of M samples; undefined where samples make no error."""
        own = self.error_of_samples(of.M) if of.title == "samples" else self.squared_error(of)
        every = np.ones((self.n, 1), dtype=np.int64)
        (value,), drawn = (self._ratio(own, self.error_of_samples(of.M), counts) for counts in (every, self.counts))
        return self.with_interval(float(value), drawn, "undefined: samples make no error")

    @staticmethod
    def _ratio(own: Floats, of_samples: Floats, counts: NDArray[np.int64]) -> Floats:
        """[R] √(mean of one / mean of the other), a mean below 0 taken for 0; NaN where the other is not above 0."""
        above, below = np.maximum(own @ counts, 0.0), of_samples @ counts
        below[below < ROUNDING] = 0.0
        return np.asarray(np.sqrt(np.divide(above, below, out=np.full(len(below), np.nan), where=below > 0)))

    def rank_correlation(self, of: Estimator) -> Measured:
        """Spearman's correlation with U over questions, mean over draws."""
        every = np.ones((self.n, 1), dtype=np.int64)
        rows = self.estimates(of)
        value = float(np.mean([spearman(row, self.U, every)[0] for row in rows]))
        drawn = np.stack([spearman(row, self.U, self.counts) for row in rows]).mean(axis=0)
        return self.with_interval(value, drawn)

    def taken(self, of: Estimator) -> dict[str, float | None]:
        """Means over questions of candidates, distinct texts, rows and passes; None where the file tells none."""
        sampled = of.kind == "sample"
        rows, passes = effort_of_samples(self.found, of.strategy, of.M) if sampled else effort(self.found, of.strategy)
        size = of.M if sampled else None
        candidates = self.found.of(of.strategy, size).groupby("id").size().loc[self.found.ids]
        distinct = self.found.distinct(of.strategy, size or int(candidates.max()))
        return {
            "candidates": float(candidates.mean()),
            "distinct texts": float(distinct.mean()),
            "rows": None if rows is None else float(rows.mean()),
            "passes": None if passes is None else float(passes.mean()),
        }


def question_files(study: Study, model: str, dataset: str, recipe: str) -> list[Artifact]:
    """What :class:`CellEstimates` reads."""
    return [
        *_question_files(study, model, dataset, recipe),
        *exhibit_cells.evaluation_artifacts([(model, dataset)], recipe, study.main.scorer),
    ]


def _question_files(study: Study, model: str, dataset: str, recipe: str) -> list[Artifact]:
    """Candidates, scores, quality, questions."""
    return [
        Artifact("candidates", dataset, model, recipe),
        *exhibit_cells.score_artifacts(study, model, dataset, recipe),
    ]


def effort(found: CandidateMeasures, strategy: str) -> tuple[Floats | None, Floats | None]:
    """[N] rows and passes that a strategy alone takes, as its file tells them; None in files of before."""
    first = found.of(strategy, 1).set_index("id").loc[found.ids]
    rows, passes = (first[name].to_numpy(dtype=np.float64) for name in ("search_rows", "search_passes"))
    return (None, None) if np.isnan(rows).any() or np.isnan(passes).any() else (rows, passes)


def effort_of_samples(found: CandidateMeasures, strategy: str, M: int) -> tuple[Floats, Floats]:
    """[N] what the first M samples alone take: their distinct prefixes that were continued, and the longest one."""
    tokens = found.of(strategy, M).groupby("id")["token_ids"]
    prefixes = tokens.agg(lambda rows: len({tuple(row[:k]) for row in rows for k in range(1, len(row))}))
    longest = tokens.agg(lambda rows: max(len(row) - 1 for row in rows))
    rows, passes = (np.asarray(of.loc[found.ids], dtype=np.float64) for of in (prefixes, longest))
    return rows, passes


def spearman(a: Floats, b: Floats, counts: NDArray[np.int64]) -> Floats:
    """[R] Spearman's rank correlation of a and b [N], ties at their mean rank, in each resample: counts [N, R].

    NaN where either is constant.
    """
    return np.concatenate(
        [_spearman(a, b, counts[:, start : start + BLOCK]) for start in range(0, counts.shape[1], BLOCK)]
    )


def _spearman(a: Floats, b: Floats, counts: NDArray[np.int64]) -> Floats:
    size = counts.sum(axis=0)
    one, two = (_ranks(values, counts) - (size + 1) / 2 for values in (a, b))
    squares = (counts * one**2).sum(axis=0) * (counts * two**2).sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((counts * one * two).sum(axis=0) / np.sqrt(squares), dtype=np.float64)


def _ranks(values: Floats, counts: NDArray[np.int64]) -> Floats:
    """[N, R] the mean rank, from 1, of each question's copies."""
    _, place = np.unique(values, return_inverse=True)
    copies = np.zeros((place.max() + 1, counts.shape[1]), dtype=np.int64)
    np.add.at(copies, place, counts)
    return np.asarray((np.cumsum(copies, axis=0) - (copies - 1) / 2)[place], dtype=np.float64)


def averaged(read: Mapping[exhibit_cells.Cell, CellEstimates], model: str) -> list[exhibit_cells.Cell]:
    """A model's cells that a mean may have: those where at most a fifth of the answers are empty."""
    return [cell for cell, of in read.items() if cell[0] == model and not of.measured.left_out()]


def means(
    study: Study, cells: Sequence[exhibit_cells.Cell], found: Sequence[Mapping[T, Measured]]
) -> dict[T, Measured]:
    """Name by name, the mean over cells of what is ``found`` in each."""
    titles = [study.datasets[dataset].title for _, dataset in cells]
    return {name: mean_of([of[name] for of in found], titles, study.evaluation.confidence) for name in found[0]}


def by_model(cells: Sequence[exhibit_cells.Cell]) -> dict[str, list[exhibit_cells.Cell]]:
    """Model → its cells."""
    return {model: [cell for cell in cells if cell[0] == model] for model, _ in cells}


def outcomes(found: CandidateMeasures, strategy: str) -> pd.DataFrame:
    """A strategy's candidates as distinct outcomes: ``id``, ``sequence`` and ``logprob``, most probable first."""
    rows = found.of(strategy)
    rows = rows.assign(sequence=rows["token_ids"].map(tuple)).drop_duplicates(["id", "sequence"])
    return rows.sort_values(["id", "logprob"], ascending=[True, False], kind="stable")


def mean_of_draws(found: Sequence[Measured], confidence: float) -> Measured:
    """The mean over disjoint draws of the same questions and resamples; undefined where any is."""
    undefined = [one for one in found if one.value is None or one.replicates is None]
    if len(found) == 1 or undefined:
        return [*undefined, *found][0]
    drawn = np.asarray(np.mean([one.replicates for one in found], axis=0), dtype=np.float64)  # type: ignore[arg-type]
    value = float(np.mean([one.value for one in found if one.value is not None]))
    return Measured.resampled(value, drawn, found[0].n, confidence)


def sentence_of_exact_value(study: Study, recipe: str, cells: Sequence[CellEstimates]) -> str:
    """What U is, and at how many questions its standard error is above .01."""
    n, uncertain = sum(cell.n for cell in cells), sum(cell.uncertain for cell in cells)
    worst = max(float(cell.error.max()) for cell in cells)
    return (
        f"U is {METHOD} under the model's whole distribution, from every outcome above a probability and draws outside "
        f"them ({setting_of_exact_value(study, recipe)}); its standard error is above {LARGE_ERROR:g} at {uncertain} "
        f"of {n} questions (at most {worst:.3f})."
    )
