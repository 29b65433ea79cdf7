"""All scores of a cell: which methods, over which candidates, with which settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from beamuq import plugins
from beamuq.config_errors import StrictModel
from beamuq.log_space_sums import Array
from beamuq.methods import candidate_weights
from beamuq.methods.dissimilarity_estimators import CandidateArrays, estimate, standard_error
from beamuq.methods.method_inputs import Evidence
from beamuq.methods.registry import DECIMALS, FACTORS, Method, compute, resolve
from beamuq.strategy_names import (
    FOR_ESTIMATORS,
    ablation,
    beam_of_width,
    kind_of,
    of_kind,
    parse,
    samples_of,
    set_beside_samples,
)
from beamuq_study.stages.method_inputs_from_tables import CellTables

OF_DISTINCT_OUTCOMES = ("beam", "exact")  # diverse beams may repeat, and draws do
SPECTRAL = ("Eccentricity", "EigVecDissimilarity")  # what alpha and K are parameters of


class Ablations(StrictModel):
    """Settings whose scores are rows beside the main line; each list may be empty."""

    epsilon: tuple[float, ...] = ()
    alpha: tuple[float, ...] = ()
    K: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()
    powers: tuple[float, ...] = ()
    strategies: tuple[str, ...] = ()


class MainStrategies(StrictModel):
    """The strategies of the main line: samples for "multinomial", beams for "beamsearch"; either
    may be absent.
    """

    sample: str | None = None
    beam: str | None = None


class ScoringSettings(StrictModel):
    """What is scored. ``num_candidates``: how many samples the main line looks at; None: all there
    are.

    ``every_draw``: the methods over samples are scored on each disjoint draw of so many, not on the
    first alone. ``estimators``: each a name of ``WEIGHTINGS`` and, behind a space, a strategy.
    """

    methods: tuple[str, ...]
    answer_source: tuple[str, ...]
    main: MainStrategies
    num_candidates: int | None = None
    alpha: float = 0.9
    epsilon: float = 0.0
    equivalence_threshold: float | None = None
    recipe: str = ""
    ablations: Ablations = Ablations()
    every_draw: bool = False
    estimators: tuple[str, ...] = ()
    format: int = 0
    seed: int = 0


class MethodScores(NamedTuple):
    """One method's scores [N] of a cell under one setting."""

    method: str
    variant: str
    setting: str
    values: Array


def compare_candidates(methods: Iterable[str]) -> bool:
    """Whether any of these methods may compare candidates with each other."""
    return any(
        name not in FACTORS and resolve(name).scope in ("samples", "candidates") for name in methods
    )


def score_cell(cell: CellTables, settings: ScoringSettings) -> pa.Table:
    """Every score of a cell, as a table of ``scores``, questions in order within each setting.

    Raises BeamUQError if a method is unknown, lacks what it needs, or gives a score that is not
    finite.
    """
    methods = [resolve(name) for name in settings.methods]
    ids = pa.array(cell.ids, pa.string())
    parts = []
    for answer_source in settings.answer_source:
        for scores in _Answers(cell, settings, methods, answer_source).scores():
            constant = {
                "answer_source": answer_source,
                "method": scores.method,
                "variant": scores.variant,
                "setting": scores.setting,
            }
            columns = {name: pa.repeat(value, len(ids)) for name, value in constant.items()}
            parts.append(pa.table({"id": ids} | columns | {"value": scores.values}))
    return pa.concat_tables(parts).combine_chunks()


@dataclass(frozen=True)
class _Answers:
    """A cell's produced answers from one source, and how they are scored."""

    cell: CellTables
    settings: ScoringSettings
    methods: list[Method]
    answer_source: str

    def scores(self) -> Iterator[MethodScores]:
        """The main line and its ablations, exact sets, further strategies, then estimators."""
        main = self.settings.main
        if main.sample:
            yield from self._of_samples(main.sample)
        if main.beam:
            yield from self._of_beams(main.beam)
        for strategy in of_kind(self.cell.strategies, "exact"):
            if strategy not in self.settings.ablations.strategies:
                yield from self._of_probabilities(strategy, strategy)
        for strategy in self.settings.ablations.strategies:
            yield from self._of_strategy(strategy)
        for estimator in self.settings.estimators:
            name, strategy = estimator.split(" ", 1)
            yield from self._of_estimator(name, strategy)

    def _scoped(self, *scopes: str) -> list[Method]:
        return [method for method in self.methods if method.scope in scopes]

    def _evidence(
        self,
        strategy: str,
        *,
        first: int = 0,
        budget: int | None = None,
        exact: bool = False,
        compared: bool = True,
    ) -> Evidence:
        """``compared``: with each other, where a method asks for that; else with the answer."""
        return self.cell.evidence(
            strategy,
            self.answer_source,
            first=first,
            budget=budget,
            exact=exact,
            epsilon=self.settings.epsilon,
            alpha=self.settings.alpha,
            among=compared and compare_candidates(self.settings.methods),
        )

    def _of_samples(self, strategy: str) -> Iterator[MethodScores]:
        on_answer = self._scoped("answer")
        on_samples = self._scoped("samples", "candidates")
        samples = self._evidence(strategy, budget=self.settings.num_candidates)
        yield from _scores_of(on_answer + on_samples, "multinomial", "", samples)
        for method in on_samples:
            for setting in method.formulations:
                values = compute(method, samples, setting)
                yield MethodScores(method.name, method.variants[0], setting, values)
        for M in self.settings.ablations.budgets:
            fewer = self._evidence(strategy, budget=M)
            yield from _scores_of(on_samples, "multinomial", ablation("M", M), fewer)
        if self.settings.every_draw:
            yield from self._of_every_draw(strategy, on_samples)

    def _of_every_draw(self, strategy: str, methods: Sequence[Method]) -> Iterator[MethodScores]:
        """The methods over samples on each disjoint draw of the main M, where two draws fit."""
        size = self.cell.size_of(strategy)
        M = self.settings.num_candidates or size
        for draw in range(size // M if size >= 2 * M else 0):
            drawn = self._evidence(strategy, first=draw * M, budget=M)
            setting = samples_of(strategy, M, draw + 1)
            yield from _scores_of(methods, "multinomial", setting, drawn)

    def _of_beams(self, strategy: str) -> Iterator[MethodScores]:
        on_both = self._scoped("candidates")
        beams = self._evidence(strategy)
        on_answer = [] if self.settings.main.sample else self._scoped("answer")
        yield from _scores_of(on_answer + on_both, "beamsearch", "", beams)
        yield from self._of_probabilities(strategy, "")
        yield from self._with_other_weights(beams)
        yield from self._with_other_embeddings(beams)
        for M in self.settings.ablations.budgets:
            narrower = beam_of_width(self.cell.strategies, M)
            varied = self._evidence(narrower)
            yield from _scores_of(on_both, "beamsearch", ablation("M", M), varied)
            yield from self._of_probabilities(narrower, ablation("M", M))

    def _with_other_weights(self, beams: Evidence) -> Iterator[MethodScores]:
        """A floor on the beams' masses, and for Dissimilarity powers of them."""
        on_both = self._scoped("candidates")
        for epsilon in self.settings.ablations.epsilon:
            weights = candidate_weights.restricted_mass(beams.logprob, beams.mask, epsilon)
            varied = replace(beams, weights=weights)
            yield from _scores_of(on_both, "beamsearch", ablation("epsilon", epsilon), varied)
        dissimilarity = [method for method in on_both if method.name == "Dissimilarity"]
        for gamma in self.settings.ablations.powers:
            weights = candidate_weights.power(beams.logprob, beams.mask, gamma)
            varied = replace(beams, weights=weights)
            yield from _scores_of(dissimilarity, "beamsearch", ablation("power", gamma), varied)

    def _with_other_embeddings(self, beams: Evidence) -> Iterator[MethodScores]:
        """Other numbers of eigenvectors of the Laplacian."""
        spectral = [method for method in self._scoped("candidates") if method.name in SPECTRAL]
        for alpha in self.settings.ablations.alpha:
            varied = replace(beams, alpha=alpha)
            yield from _scores_of(spectral, "beamsearch", ablation("alpha", alpha), varied)
        for K in self.settings.ablations.K:
            varied = replace(beams, K=K)
            yield from _scores_of(spectral, "beamsearch", ablation("K", K), varied)

    def _of_probabilities(self, strategy: str, setting: str) -> Iterator[MethodScores]:
        """The methods that read the probabilities of a search's outcomes alone.

        None that would say nothing of so few as the search was asked for.
        """
        on_beams = self._scoped("beams")
        size = _size_named(strategy)
        if size is not None:
            on_beams = [method for method in on_beams if method.least_candidates <= size]
        if on_beams:
            outcomes = self._evidence(strategy, compared=False)
            yield from _scores_of(on_beams, "beamsearch", setting, outcomes)

    def _of_strategy(self, strategy: str) -> Iterator[MethodScores]:
        """One of ``ablations.strategies``, by its name as the setting."""
        on_both = self._scoped("candidates")
        if kind_of(strategy) != "sample":
            yield from _scores_of(on_both, "beamsearch", strategy, self._evidence(strategy))
            if kind_of(strategy) in OF_DISTINCT_OUTCOMES:
                yield from self._of_probabilities(strategy, strategy)
            return
        budget = self.settings.num_candidates
        samples = self._evidence(strategy, budget=budget)
        yield from _scores_of(on_both, "multinomial", strategy, samples)
        exact = self._evidence(strategy, budget=budget, exact=True)
        yield from _scores_of(on_both, "multinomial", f"{strategy} exact", exact)

    def _of_estimator(self, name: str, strategy: str) -> Iterator[MethodScores]:
        """An estimator's scores; where lattices tell it, its standard error.

        The variant is the estimator's name, the setting its candidates.
        """
        if kind_of(strategy) == "sample":
            yield from self._of_sample_sizes(name, strategy)
            yield from self._of_disjoint_draws(name, strategy)
            return
        candidates = self._candidates(strategy)
        yield from self._estimates(name, strategy, strategy, candidates)
        lattices = int(parse(strategy)[1].get("lattices", 0))
        if name == "stratified" and lattices > 1:
            error = _rounded(f"{name} {strategy}", standard_error(candidates, lattices))
            yield MethodScores("Dissimilarity", "standard error", strategy, error)

    def _of_sample_sizes(self, name: str, strategy: str) -> Iterator[MethodScores]:
        """At every M: of the main line, of the budgets, of other strategies of the cell."""
        size = self.cell.size_of(strategy)
        sizes = {self.settings.num_candidates or size, *self.settings.ablations.budgets}
        sizes |= {M for M in map(_size_named, self._set_beside_samples()) if M}
        for M in sorted(sizes):
            if size >= M:
                candidates = self._candidates(strategy, budget=M)
                setting = samples_of(strategy, M)
                yield from self._estimates(name, strategy, setting, candidates)

    def _of_disjoint_draws(self, name: str, strategy: str) -> Iterator[MethodScores]:
        """Of as many samples as the main line or a compared strategy has, where two draws fit."""
        size = self.cell.size_of(strategy)
        main = self.settings.num_candidates or size
        sizes = {main}
        for compared in self._set_beside_samples():
            if kind_of(compared) in FOR_ESTIMATORS:
                sizes.add(_size_named(compared) or main)
        for M in sorted(sizes):
            if size < 2 * M:
                continue
            for draw in range(size // M):
                candidates = self._candidates(strategy, first=draw * M, budget=M)
                setting = samples_of(strategy, M, draw + 1)
                yield from self._estimates(name, strategy, setting, candidates)

    def _set_beside_samples(self) -> list[str]:
        kinds = {kind_of(name.split(" ", 1)[1]) for name in self.settings.estimators}
        return set_beside_samples(self.cell.strategies, kinds)

    def _candidates(
        self, strategy: str, *, first: int = 0, budget: int | None = None
    ) -> CandidateArrays:
        return self.cell.candidate_arrays(strategy, self.answer_source, first=first, budget=budget)

    def _estimates(
        self, name: str, strategy: str, setting: str, candidates: CandidateArrays
    ) -> Iterator[MethodScores]:
        """An estimator of Dissimilarity from candidates, and its products with other factors."""
        estimates = estimate(name, candidates)
        answer = self.cell.answer(self.answer_source)
        for method in self.settings.methods:
            if method in FACTORS:
                values = _rounded(f"{name} {strategy}", FACTORS[method](answer) * estimates)
                yield MethodScores(method, name, setting, values)


def _size_named(strategy: str) -> int | None:
    """M of a strategy whose name says it."""
    M = parse(strategy)[1].get("M")
    return None if M is None else int(M)


def _rounded(name: str, values: Array) -> Array:
    finite = plugins.numbers(f"estimator {name!r}", values, values.shape, 0.0, np.inf)
    return np.asarray(np.round(finite, DECIMALS) + 0.0)


def _scores_of(
    methods: Iterable[Method], variant: str, setting: str, evidence: Evidence
) -> Iterator[MethodScores]:
    for method in methods:
        stored = variant if variant in method.variants else ""
        yield MethodScores(method.name, stored, setting, compute(method, evidence))
