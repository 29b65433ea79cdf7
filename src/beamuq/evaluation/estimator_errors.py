"""A cell's scores per question, for PRR on subsets and curves; errors and PRR of estimators where U
is known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from beamuq import beam_mass_theorem, strategy_names
from beamuq.array_types import Bools, Counts, Floats
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import resample_blocks
from beamuq.evaluation.candidate_sets import CandidateSets, groups_of
from beamuq.evaluation.estimates import TIE, Estimates, joined
from beamuq.evaluation.prr_and_auc import Judged, measure_blocks, why_undefined
from beamuq.evaluation.rank_correlations import partial_spearman, spearman
from beamuq.methods.dissimilarity_estimators import WEIGHTINGS
from beamuq.methods.registry import stored_variant

METHOD, TRUTH, ERROR, TRUE_DISSIMILARITY = (
    "Dissimilarity",
    "stratified",
    "standard error",
    "true dissimilarity",
)
PROB, BEAMS, PARTIAL = "Prob", "beams: p and s", "partial rank correlation"
GAIN, NOISE, TARGET = "beams - samples", "noise", "target"
PRINTED, CORRECTED, FAIR, IN_FACT = "printed condition", "M/(M + 1)", "fair share", "in fact"
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
Score = tuple[str, str, str]  # method, variant, setting


class QuestionScores:
    """``ids``, ``groups``, ``quality`` [N] and ``scores`` [N] of greedy answers, all in the
    questions' order.

    ``name`` is what messages call the scores, such as their file. Raises BeamUQError if the three
    frames do not belong together.
    """

    def __init__(
        self, scores: pd.DataFrame, quality: pd.DataFrame, questions: pd.DataFrame, name: str
    ) -> None:
        self.name = name
        values = quality[quality["answer_source"] == "greedy"].set_index("id")["value"]
        answered = questions[questions["id"].isin(set(values.index))]
        if len(answered) != len(values):
            raise BeamUQError(
                f"{name}: ids of its quality are not among the questions; make both of one study"
            )
        self.ids, self.groups = list(answered["id"]), list(answered["group"])
        self.quality: Floats = np.asarray(values.loc[self.ids], dtype=np.float64)
        greedy = scores[scores["answer_source"] == "greedy"]
        keys = ["method", "variant", "setting"]
        self._scores = {key: part.set_index("id")["value"] for key, part in greedy.groupby(keys)}

    def scores(self, method: str, variant: str, setting: str = "") -> Floats:
        """[N] uncertainty, higher = more uncertain."""
        key = (method, stored_variant(method, variant), setting)
        if key not in self._scores:
            raise BeamUQError(
                f"{self.name}: no scores for {' '.join(filter(None, key))}; run the scoring again"
            )
        rows: pd.Series[float] = self._scores[key]
        if set(rows.index) != set(self.ids) or len(rows) != len(self.ids):
            raise BeamUQError(
                f"{self.name}: {method} is not of the questions that have quality; score again"
            )
        return np.asarray(rows.loc[self.ids], dtype=np.float64)

    def has(self, method: str, variant: str, setting: str = "") -> bool:
        """Whether these were scored."""
        return (method, stored_variant(method, variant), setting) in self._scores

    def prr(
        self,
        members: Bools,
        subset: str,
        scores: Sequence[Score],
        *,
        max_rejection: float = 0.5,
        resamples: int = 2000,
        seed: int = 0,
    ) -> Estimates:
        """PRR of each score over some of the questions [N], paired. ``name`` and ``subset`` choose
        the resamples.
        """
        quality, n = self.quality[members], int(members.sum())
        keys = [
            {"metric": "PRR", "method": m, "variant": v, "setting": s, "n": n} for m, v, s in scores
        ]
        if (
            why := why_undefined("PRR", quality, max_rejection, 0.5)
            if n
            else "undefined: no questions"
        ):
            undefined = np.full(resamples, np.nan)
            return Estimates.from_rows(
                [key | {"value": np.nan, "note": why} for key in keys], [undefined] * len(keys)
            )
        groups, name = groups_of(self.groups, members), f"{self.name} {subset}"
        values = [self.scores(*of)[members] for of in scores]
        blocks = resample_blocks(groups, resamples, seed, name)
        measured = measure_blocks(values, [Judged(quality)], blocks, ["PRR"], [max_rejection])
        prrs = [of_score["PRR"] for (of_score,) in measured]
        rows = [key | {"value": values[0]} for key, values in zip(keys, prrs, strict=True)]
        return Estimates.from_rows(rows, [values[1:] for values in prrs])


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


@dataclass(eq=False)
class EstimatorsOfCell:
    """One cell's U and its standard error, [N], and every estimate of it, in the order of the ``n``
    questions.

    ``measured`` is PRR of the ``scores``, with the replicates of ``counts`` [N, R]: how often each
    resample draws each question. ``exact`` is the setting of the scores that are the true
    dissimilarity, ``main`` the first M main samples, uniformly weighted, and ``draws`` how many
    disjoint draws of M there are.
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

    def settings(self, estimator: Estimator) -> list[str]:
        """The settings of its scores: every disjoint draw where several are scored, else the
        one.
        """
        count = (
            self.draws * self.main.M // estimator.M
            if estimator.kind == "sample" and self.draws > 1
            else 0
        )
        draws = [
            strategy_names.samples_of(estimator.strategy, estimator.M, draw + 1)
            for draw in range(count)
        ]
        first = (METHOD, estimator.weighting, draws[0] if draws else "")
        return draws if self.scores.has(*first) else [estimator.setting]

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
        """[N] expected squared error of M samples, σ²/M; without disjoint draws, that of the first
        M.
        """
        if self.draws > 1:
            return np.asarray(self.main.M * self.estimates(self.main).var(axis=0, ddof=1) / M)
        return self.errors(samples(self.main.strategy, M))

    def prr(self, estimator: Estimator | None) -> Estimates:
        """PRR of an estimator, the mean over its draws; None: of U itself."""
        if estimator is None:
            return self.prr_at(TRUTH, [self.exact]).assign(variant=TRUE_DISSIMILARITY, setting="")
        return self.prr_at(estimator.weighting, self.settings(estimator)).assign(
            setting=estimator.setting
        )

    def prr_at(self, variant: str, settings: Sequence[str], method: str = METHOD) -> Estimates:
        """The mean of PRR over some settings of a method's variant."""
        rows = self.measured.where(method=method, variant=variant, setting=settings)
        if len(rows) != len(settings):
            place = f"PRR of {method} {variant} {settings[0]}"
            raise BeamUQError(f"evaluation: no row for {place}; run the evaluation again")
        return rows.mean_over_draws(settings[0])

    def estimate(
        self, metric: str, value: float, replicates: Any, note: str = "", **keys: str
    ) -> Estimates:
        """Another statistic of this cell, with its replicates [R]; NaN: undefined, for the reason
        in ``note``.
        """
        note = (note or "undefined: all values are equal") if np.isnan(value) else ""
        row = {
            **self.keys,
            "method": METHOD,
            "metric": metric,
            **keys,
            "value": value,
            "n": self.n,
            "note": note,
        }
        return Estimates.from_rows([row], [np.broadcast_to(replicates, self.counts.shape[1])])

    def bias(self, estimator: Estimator, **keys: str) -> Estimates:
        """Mean of estimate − U."""
        values = (self.estimates(estimator) - self.true_dissimilarity).mean(axis=0)
        return self.estimate(
            "bias", float(values.mean()), values @ self.counts / self.counts.sum(axis=0), **keys
        )

    def error_ratio(self, estimator: Estimator, **keys: str) -> Estimates:
        """RMSE divided by that expected of M samples; undefined where samples make no error."""
        reference = self.errors_of_samples(estimator.M)
        own = reference if estimator.title == "samples" else self.errors(estimator)
        value, *drawn = error_ratio(own, reference, self._with_all())
        return self.estimate("RMSE ratio", value, drawn, "undefined: samples make no error", **keys)

    def rank_correlation(self, estimator: Estimator, **keys: str) -> Estimates:
        """Spearman's correlation with U over questions, mean over draws."""
        rows = [
            spearman(row, self.true_dissimilarity, self._with_all())
            for row in self.estimates(estimator)
        ]
        value, *drawn = np.mean(rows, axis=0)
        return self.estimate("Spearman with U", value, drawn, **keys)

    def numbers(self, estimators: Sequence[Estimator]) -> Estimates:
        """PRR of U, then of each estimator whether it is unbiased, its effort, its errors and its
        PRR.
        """
        parts = [self.prr(None)]
        for estimator in estimators:
            keys = {"variant": estimator.weighting, "setting": estimator.setting}
            for name, value in (
                {"unbiased": float(estimator.unbiased)} | self.effort(estimator)
            ).items():
                parts.append(self.estimate(name, value, value, "not told by its file", **keys))
            parts += [
                measure(estimator, **keys)
                for measure in (self.bias, self.error_ratio, self.rank_correlation)
            ]
            parts.append(self.prr(estimator))
        return joined(parts)

    def controls(self, beam: str) -> Estimates:
        """PRR of the answer's probability and, by the name of a control, PRR and partial
        correlation of each score.

        Partial: Spearman's correlation of certainty with quality, given the answer's probability,
        mean over draws.
        """
        strategy, M = self.main.strategy, self.main.M
        rows: Mapping[str, tuple[str, Sequence[str]]] = {
            BEAMS: ("normalised", [beam]),
            "beams: s without p": ("uniform", [beam]),
            "beams: p without s": ("match", [beam]),
            "samples: s": ("uniform", self.settings(self.main)),
            "samples: without s": ("match", self.settings(samples(strategy, M, "match"))),
            TRUE_DISSIMILARITY: (TRUTH, [self.exact]),
        }
        prob, counts = self.scores.scores(PROB, ""), self._with_all()
        parts = [self.prr_at("", [""], PROB).assign(variant=PROB)]
        for name, (variant, settings) in rows.items():
            parts.append(self.prr_at(variant, settings).assign(variant=name, setting=""))
            certainty = [-self.scores.scores(METHOD, variant, setting) for setting in settings]
            drawn = np.mean(
                [partial_spearman(row, self.scores.quality, -prob, counts) for row in certainty],
                axis=0,
            )
            note = "undefined: ranks that are all equal"
            parts.append(self.estimate(PARTIAL, drawn[0], drawn[1:], note, variant=name))
        return joined(parts)

    def parts_of_gain(self, beam: str, M: int) -> Estimates:
        """PRR of M samples, a beam search and U, and their paired differences, by ``metric``.

        ``setting``: M and of how many draws of samples PRR is the mean, the first alone and all
        that were scored.
        """
        parts, first = [], samples(self.main.strategy, M)
        beams, exact = self.prr_at("normalised", [beam]), self.prr(None)
        for settings in dict.fromkeys([(first.setting,), tuple(self.settings(first))]):
            drawn = self.prr_at("uniform", settings)
            named = {"PRR of samples": drawn, "PRR of beams": beams, "PRR of U": exact}
            named |= {
                GAIN: beams.minus(drawn),
                NOISE: exact.minus(drawn),
                TARGET: beams.minus(exact),
            }
            at = f"{M} {len(settings)}"
            parts += [
                part.assign(metric=name, variant="", setting=at) for name, part in named.items()
            ]
        return joined(parts)

    def gains_within(
        self, members: Bools, subset: str, beam: str, variants: Sequence[str], **resampling: Any
    ) -> Estimates:
        """PRR of variants of beams, or of U, minus that of samples, the mean over draws, on some
        questions [N].

        ``subset`` and ``resampling`` are as :meth:`QuestionScores.prr` takes them.
        """
        own = [(METHOD, variant, self.exact if variant == TRUTH else beam) for variant in variants]
        drawn = [(METHOD, "uniform", setting) for setting in self.settings(self.main)]
        measured = self.scores.prr(members, subset, own + drawn, **resampling)
        of_samples = measured.where(variant="uniform").mean_over_draws("samples")
        gains = measured.rows(range(len(own))).minus(of_samples.rows([0] * len(own)))
        place = {name: self.keys[name] for name in ("model", "dataset", "empty")}
        return Estimates(gains.frame.assign(**place, variant=list(variants)), gains.replicates)

    def conditions(self, beam: str, most_probable: str, M: int) -> dict[str, Bools]:
        """By name: [N] whether a question meets it, the last one that beams err less than M
        samples.

        ``most_probable``: the strategy that knows the likeliest outcomes.
        """
        mass = self.candidates.mass(beam, M)
        logprob = self.candidates.log_probabilities(most_probable, M)
        left = beam_mass_theorem.left_by_size(logprob, ~np.isnan(logprob))
        return {
            PRINTED: mass > beam_mass_theorem.printed_threshold(M),
            CORRECTED: mass > beam_mass_theorem.corrected_threshold(M),
            FAIR: beam_mass_theorem.meets_fair_share(left, M),
            IN_FACT: self.errors(Estimator("normalised", beam, M, beam))
            < self.errors_of_samples(M) - TIE,
        }

    def _with_all(self) -> Counts:
        """The counts, behind a column of all questions once."""
        return np.column_stack([np.ones(self.n, dtype=self.counts.dtype), self.counts])

    def effort(self, estimator: Estimator) -> dict[str, float]:
        """Means over questions of candidates, distinct texts, rows and passes; NaN where the file
        has none.
        """
        size, sets = estimator.M if estimator.kind == "sample" else None, self.candidates
        rows, passes = (
            sets.effort_of_samples(estimator.strategy, size)
            if size
            else sets.effort(estimator.strategy)
        )
        count = (
            sets.rows(estimator.strategy, size)
            .groupby("id")
            .size()
            .loc[sets.ids]
            .to_numpy(dtype=np.float64)
        )
        distinct = sets.distinct(estimator.strategy, size or int(count.max()))
        named = {"candidates": count, "distinct texts": distinct, "rows": rows, "passes": passes}
        return {name: float(values.mean()) for name, values in named.items()}


def samples(strategy: str, M: int, weighting: str = "uniform") -> Estimator:
    """A weighting of a strategy's first M samples."""
    return Estimator(weighting, strategy, M, strategy_names.samples_of(strategy, M))


def spread(draws: Estimates, beams: Estimates) -> Estimates:
    """One metric of D draws and of beams on the same questions, and over the draws, by ``setting``.

    ``first``, ``mean``, ``sd`` (D − 1), ``lowest``, ``highest``; ``beams``, ``beams - mean``, and
    ``beaten``: how many draws are strictly below the beams. Undefined where any draw is.
    """
    mean, value = draws.mean_over_draws("mean"), float(beams.frame["value"].iloc[0])
    values = draws.frame["value"].to_numpy(dtype=np.float64)
    numbers = {"sd": values.std(ddof=1), "lowest": values.min(), "highest": values.max()}
    numbers["beaten"] = np.where(
        np.isnan([value, *values]).any(), np.nan, np.sum(value > values + TIE)
    )
    keys = {str(name): number for name, number in mean.frame.iloc[0].items()}
    rows = [keys | {"setting": name, "value": float(number)} for name, number in numbers.items()]
    lead = beams.combined(mean, np.subtract).assign(setting="beams - mean")
    parts = [
        draws,
        draws.rows([0]).assign(setting="first"),
        mean,
        beams.assign(setting="beams"),
        lead,
    ]
    return joined([*parts, Estimates.from_rows(rows, [row["value"] for row in rows])]).assign(
        variant=""
    )


def error_ratio(errors: Floats, reference: Floats, counts: Counts) -> Floats:
    """[R] √(mean of ``errors`` / mean of ``reference``), both [N] squared, in each resample: counts
    [N, R].

    A mean below 0 is taken for 0; NaN where the reference's is not above 0.
    """
    above, below = np.maximum(errors @ counts, 0.0), reference @ counts
    below[below < ROUNDING] = 0.0
    return np.asarray(
        np.sqrt(np.divide(above, below, out=np.full(len(below), np.nan), where=below > 0))
    )
