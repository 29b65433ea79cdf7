"""One cell in which U is known: errors and PRR of every estimator of U, and what its gain is of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from beamuq import beam_mass_theorem, strategy_names
from beamuq.array_types import Bools, Counts, Floats
from beamuq.errors import BeamUQError
from beamuq.evaluation.candidate_sets import CandidateSets
from beamuq.evaluation.estimates import TIE, Estimates, joined
from beamuq.evaluation.question_scores import QuestionScores
from beamuq.evaluation.rank_correlations import partial_spearman, spearman
from beamuq.methods.dissimilarity_estimators import WEIGHTINGS

METHOD = "Dissimilarity"
TRUTH = "stratified"
ERROR = "standard error"
TRUE_DISSIMILARITY = "true dissimilarity"

PROB = "Prob"
BEAMS = "beams: p and s"
PARTIAL = "partial rank correlation"

GAIN = "beams - samples"
NOISE = "noise"
TARGET = "target"

PRINTED = "printed condition"
CORRECTED = "M/(M + 1)"
FAIR = "fair share"
IN_FACT = "in fact"

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
    ("stratified", "optimal_stratified"): "optimal stratified",
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


def samples(strategy: str, M: int, weighting: str = "uniform") -> Estimator:
    """A weighting of a strategy's first M samples."""
    return Estimator(weighting, strategy, M, strategy_names.samples_of(strategy, M))


@dataclass(frozen=True)
class Statistic:
    """A number of a cell: its keys, ``value``, ``n`` and ``note``; and its replicates [R]."""

    row: Mapping[str, Any]
    replicates: Floats


def estimates_of(statistics: Sequence[Statistic]) -> Estimates:
    """The numbers as estimates, in their order."""
    return Estimates.from_rows(
        [statistic.row for statistic in statistics],
        [statistic.replicates for statistic in statistics],
    )


@dataclass(eq=False)
class EstimatorsOfCell:
    """One cell's U with its standard error, [N], and every estimate of it, question by question.

    ``measured`` is PRR of the ``scores``, with the replicates of ``counts`` [N, R]: how often each
    resample draws each question. ``exact`` is the setting of the scores that are the true
    dissimilarity, ``main`` the first M main samples, uniformly weighted, and ``draws`` how many
    disjoint draws of M there are.

    Raises BeamUQError if two rows of ``measured`` are of one score.
    """

    scores: QuestionScores
    candidates: CandidateSets
    measured: Estimates
    counts: Counts
    exact: str
    main: Estimator
    draws: int

    def __post_init__(self) -> None:
        first = self.measured.frame.iloc[0]
        self.keys: Mapping[str, Any] = {
            name: first[name] for name in ("model", "dataset", "recipe", "scorer", "empty")
        }
        self.true_dissimilarity = self.scores.scores(METHOD, TRUTH, self.exact)
        self.error = self.scores.scores(METHOD, ERROR, self.exact)
        self.n = len(self.true_dissimilarity)
        names = self.measured.frame[["method", "variant", "setting"]].itertuples(index=False)
        self._places_of_prr = {tuple(name): place for place, name in enumerate(names)}
        if len(self._places_of_prr) < len(self.measured):
            raise BeamUQError(
                "evaluation: two rows of PRR have one method, variant and setting; run the "
                "evaluation again"
            )

    # -- estimates and errors, question by question ------------------------------------------------

    def settings(self, estimator: Estimator) -> list[str]:
        """The settings of its scores: every disjoint draw if several are scored, else the one."""
        if estimator.kind != "sample" or self.draws <= 1:
            return [estimator.setting]
        count = self.draws * self.main.M // estimator.M
        draws = [
            strategy_names.samples_of(estimator.strategy, estimator.M, draw + 1)
            for draw in range(count)
        ]
        first = draws[0] if draws else ""
        if self.scores.has(METHOD, estimator.weighting, first):
            return draws
        return [estimator.setting]

    def estimates(self, estimator: Estimator) -> Floats:
        """[D, N] its estimates, a row a disjoint draw."""
        settings = self.settings(estimator)
        return np.stack(
            [self.scores.scores(METHOD, estimator.weighting, setting) for setting in settings]
        )

    def errors(self, estimator: Estimator) -> Floats:
        """[N] its squared errors, mean over draws, without that of U."""
        return np.asarray(
            ((self.estimates(estimator) - self.true_dissimilarity) ** 2).mean(axis=0)
            - self.error**2
        )

    def errors_of_samples(self, M: int) -> Floats:
        """[N] expected squared error of M samples, σ²/M; without disjoint draws, of the first M."""
        if self.draws > 1:
            return np.asarray(self.main.M * self.estimates(self.main).var(axis=0, ddof=1) / M)
        return self.errors(samples(self.main.strategy, M))

    # -- PRR of scores that were evaluated ---------------------------------------------------------

    def prr(self, estimator: Estimator | None) -> Estimates:
        """PRR of an estimator, the mean over its draws; None: of U itself."""
        if estimator is None:
            exact = self.prr_at(TRUTH, [self.exact])
            return exact.assign(variant=TRUE_DISSIMILARITY, setting="")
        mean = self.prr_at(estimator.weighting, self.settings(estimator))
        return mean.assign(setting=estimator.setting)

    def prr_at(self, variant: str, settings: Sequence[str], method: str = METHOD) -> Estimates:
        """The mean of PRR over some settings of a method's variant."""
        names = [(method, variant, setting) for setting in settings]
        lost = [name for name in names if name not in self._places_of_prr]
        if lost:
            place = f"PRR of {' '.join(lost[0])}"
            raise BeamUQError(f"evaluation: no row for {place}; run the evaluation again")
        rows = self.measured.rows([self._places_of_prr[name] for name in names])
        return rows if len(names) == 1 else rows.mean_over_draws(settings[0])

    # -- statistics of one estimator ---------------------------------------------------------------

    def statistic(
        self, metric: str, value: float, replicates: Any, note: str = "", **keys: str
    ) -> Statistic:
        """Another statistic of this cell, with its replicates [R].

        NaN: undefined, for the reason in ``note``.
        """
        reason = ""
        if np.isnan(value):
            reason = note or "undefined: all values are equal"
        row = {
            **self.keys,
            "method": METHOD,
            "metric": metric,
            **keys,
            "value": value,
            "n": self.n,
            "note": reason,
        }
        return Statistic(row, np.broadcast_to(replicates, self.counts.shape[1]))

    def bias(self, estimator: Estimator, **keys: str) -> Statistic:
        """Mean of estimate − U."""
        values = (self.estimates(estimator) - self.true_dissimilarity).mean(axis=0)
        drawn = values @ self.counts / self.counts.sum(axis=0)
        return self.statistic("bias", float(values.mean()), drawn, **keys)

    def error_ratio(self, estimator: Estimator, **keys: str) -> Statistic:
        """RMSE divided by that expected of M samples; undefined where samples make no error."""
        reference = self.errors_of_samples(estimator.M)
        own = reference if estimator.title == "samples" else self.errors(estimator)
        value, *drawn = error_ratio(own, reference, self._with_all())
        why_undefined = "undefined: samples make no error"
        return self.statistic("RMSE ratio", value, drawn, why_undefined, **keys)

    def rank_correlation(self, estimator: Estimator, **keys: str) -> Statistic:
        """Spearman's correlation with U over questions, mean over draws."""
        rows = [
            spearman(row, self.true_dissimilarity, self._with_all())
            for row in self.estimates(estimator)
        ]
        value, *drawn = np.mean(rows, axis=0)
        return self.statistic("Spearman with U", value, drawn, **keys)

    def effort(self, estimator: Estimator) -> dict[str, float]:
        """Means over questions of candidates, distinct texts, rows, passes; NaN where not told."""
        sets = self.candidates
        strategy = estimator.strategy
        size = None
        if estimator.kind == "sample":
            size = estimator.M
        if size:
            rows, passes = sets.effort_of_samples(strategy, size)
        else:
            rows, passes = sets.effort(strategy)
        counts = sets.rows(strategy, size).groupby("id").size()
        count = counts.loc[sets.ids].to_numpy(dtype=np.float64)
        distinct = sets.distinct(strategy, size or int(count.max()))
        by_question = {
            "candidates": count,
            "distinct texts": distinct,
            "rows": rows,
            "passes": passes,
        }
        return {name: float(values.mean()) for name, values in by_question.items()}

    # -- rows of our tables ------------------------------------------------------------------------

    def numbers(self, estimators: Sequence[Estimator]) -> Estimates:
        """PRR of U; then of each estimator whether it is unbiased, its effort, errors and PRR."""
        parts = [self.prr(None)]
        for estimator in estimators:
            keys = {"variant": estimator.weighting, "setting": estimator.setting}
            numbers = {"unbiased": float(estimator.unbiased)} | self.effort(estimator)
            statistics = [
                self.statistic(name, value, value, "not told by its file", **keys)
                for name, value in numbers.items()
            ]
            statistics += [
                self.bias(estimator, **keys),
                self.error_ratio(estimator, **keys),
                self.rank_correlation(estimator, **keys),
            ]
            parts += [estimates_of(statistics), self.prr(estimator)]
        return joined(parts)

    def controls(self, beam: str) -> Estimates:
        """PRR of the answer's probability, then PRR and partial correlation of each control.

        ``variant`` is the control's name. Partial: Spearman's correlation of certainty with
        quality, given the answer's probability, mean over draws.
        """
        rows: Mapping[str, tuple[str, Sequence[str]]] = {
            BEAMS: ("normalised", [beam]),
            "beams: s without p": ("uniform", [beam]),
            "beams: p without s": ("match", [beam]),
            "samples: s": ("uniform", self.settings(self.main)),
            "samples: without s": ("match", self.settings(self._main_samples("match"))),
            TRUE_DISSIMILARITY: (TRUTH, [self.exact]),
        }
        parts = [self.prr_at("", [""], PROB).assign(variant=PROB)]
        for name, (variant, settings) in rows.items():
            parts.append(self.prr_at(variant, settings).assign(variant=name, setting=""))
            drawn = self._partial_correlation(variant, settings)
            note = "undefined: ranks that are all equal"
            partial = self.statistic(PARTIAL, drawn[0], drawn[1:], note, variant=name)
            parts.append(estimates_of([partial]))
        return joined(parts)

    def _main_samples(self, weighting: str) -> Estimator:
        return samples(self.main.strategy, self.main.M, weighting)

    def _partial_correlation(self, variant: str, settings: Sequence[str]) -> Floats:
        """[1 + R] of all questions and of each resample, mean over the settings."""
        counts = self._with_all()
        prob = self.scores.scores(PROB, "")
        certainties = [-self.scores.scores(METHOD, variant, setting) for setting in settings]
        correlations = [
            partial_spearman(certainty, self.scores.quality, -prob, counts)
            for certainty in certainties
        ]
        return np.asarray(np.mean(correlations, axis=0))

    def parts_of_gain(self, beam: str, M: int) -> Estimates:
        """PRR of M samples, a beam search and U, and their paired differences, by ``metric``.

        ``setting``: M and of how many draws of samples PRR is the mean, the first alone and all
        that were scored.
        """
        first = samples(self.main.strategy, M)
        beams = self.prr_at("normalised", [beam])
        exact = self.prr(None)
        parts: list[Estimates] = []
        for settings in dict.fromkeys([(first.setting,), tuple(self.settings(first))]):
            drawn = self.prr_at("uniform", settings)
            by_metric = {
                "PRR of samples": drawn,
                "PRR of beams": beams,
                "PRR of U": exact,
                GAIN: beams.minus(drawn),
                NOISE: exact.minus(drawn),
                TARGET: beams.minus(exact),
            }
            size_and_draws = f"{M} {len(settings)}"
            parts += [
                part.assign(metric=name, variant="", setting=size_and_draws)
                for name, part in by_metric.items()
            ]
        return joined(parts)

    def gains_within(
        self, members: Bools, subset: str, beam: str, variants: Sequence[str], **resampling: Any
    ) -> Estimates:
        """PRR of variants of beams, or of U, minus that of samples, on some questions [N].

        That of samples is the mean over draws. ``subset`` and ``resampling`` are as
        :meth:`.QuestionScores.prr` takes them.
        """
        own = [(METHOD, variant, self.exact if variant == TRUTH else beam) for variant in variants]
        drawn = [(METHOD, "uniform", setting) for setting in self.settings(self.main)]
        measured = self.scores.prr(members, subset, own + drawn, **resampling)
        of_samples = measured.where(variant="uniform").mean_over_draws("samples")
        gains = measured.rows(range(len(own))).minus(of_samples.rows([0] * len(own)))
        place = {name: self.keys[name] for name in ("model", "dataset", "empty")}
        return Estimates(gains.frame.assign(**place, variant=list(variants)), gains.replicates)

    def conditions(self, beam: str, most_probable: str, M: int) -> dict[str, Bools]:
        """[N] whether a question meets each condition; the last: beams err less than M samples.

        ``most_probable``: the strategy that knows the likeliest outcomes.
        """
        mass = self.candidates.mass(beam, M)
        logprob = self.candidates.log_probabilities(most_probable, M)
        left = beam_mass_theorem.left_by_size(logprob, ~np.isnan(logprob))
        beam_errors = self.errors(Estimator("normalised", beam, M, beam))
        return {
            PRINTED: mass > beam_mass_theorem.printed_threshold(M),
            CORRECTED: mass > beam_mass_theorem.corrected_threshold(M),
            FAIR: beam_mass_theorem.meets_fair_share(left, M),
            IN_FACT: beam_errors < self.errors_of_samples(M) - TIE,
        }

    def _with_all(self) -> Counts:
        """The counts, behind a column of all questions once."""
        return np.column_stack([np.ones(self.n, dtype=self.counts.dtype), self.counts])


def spread(draws: Estimates, beams: Estimates) -> Estimates:
    """One metric of D draws and of beams on the same questions, and over the draws, by ``setting``.

    ``first``, ``mean``, ``sd`` (D − 1), ``lowest``, ``highest``; ``beams``, ``beams - mean``, and
    ``beaten``: how many draws are strictly below the beams. Undefined where any draw is.
    """
    mean = draws.mean_over_draws("mean")
    beams_value = float(beams.frame["value"].iloc[0])
    values = draws.frame["value"].to_numpy(dtype=np.float64)
    undefined = np.isnan([beams_value, *values]).any()
    numbers = {
        "sd": values.std(ddof=1),
        "lowest": values.min(),
        "highest": values.max(),
        "beaten": np.nan if undefined else np.sum(beams_value > values + TIE),
    }
    keys = {str(name): value for name, value in mean.frame.iloc[0].items()}
    rows = [keys | {"setting": name, "value": float(number)} for name, number in numbers.items()]
    parts = [
        draws,
        draws.rows([0]).assign(setting="first"),
        mean,
        beams.assign(setting="beams"),
        beams.combined(mean, np.subtract).assign(setting="beams - mean"),
        Estimates.from_rows(rows, [row["value"] for row in rows]),
    ]
    return joined(parts).assign(variant="")


def error_ratio(errors: Floats, reference: Floats, counts: Counts) -> Floats:
    """[R] √(mean of ``errors`` / mean of ``reference``), squared errors [N], in each resample.

    counts [N, R]. A mean below 0 is taken for 0; NaN where the reference's is not above 0.
    """
    above = np.maximum(errors @ counts, 0.0)
    below = reference @ counts
    below[below < ROUNDING] = 0.0
    ratio = np.divide(above, below, out=np.full(len(below), np.nan), where=below > 0)
    return np.asarray(np.sqrt(ratio))
