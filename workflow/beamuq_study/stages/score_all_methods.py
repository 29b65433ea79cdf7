"""All scores of a cell: which methods, over which candidates, with which settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
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
    parse,
    samples_of,
)
from beamuq_study.stages.method_inputs_from_tables import CellTables

SPECTRAL = ("Eccentricity", "EigVecDissimilarity")  # what alpha and K are parameters of


class Ablations(StrictModel):
    """Settings whose scores are rows beside the main line; each list may be empty."""

    epsilon: tuple[float, ...] = ()
    alpha: tuple[float, ...] = ()
    K: tuple[int, ...] = ()
    budgets: tuple[int, ...] = ()
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

    ``estimators``: each a name of ``WEIGHTINGS`` and, behind a space, a strategy.
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
    """Whether any of these methods may read more of the similarities than those to the produced
    answer.
    """
    return any(name not in FACTORS and resolve(name).scope != "answer" for name in methods)


def score_cell(cell: CellTables, settings: ScoringSettings) -> pa.Table:
    """Every score of a cell, as a table of ``scores``: questions in the cell's order within each
    method and setting.

    Raises BeamUQError if a method is unknown, lacks what it needs, or gives a score that is not
    finite.
    """
    methods = [resolve(name) for name in settings.methods]
    parts = []
    for answer_source in settings.answer_source:
        for scores in _each_setting(cell, settings, methods, answer_source):
            constant = {"answer_source": answer_source} | scores._asdict()
            values = constant.pop("values")
            columns = {name: pa.repeat(value, len(cell.ids)) for name, value in constant.items()}
            parts.append(
                pa.table({"id": pa.array(cell.ids, pa.string())} | columns | {"value": values})
            )
    return pa.concat_tables(parts).combine_chunks()


def _each_setting(
    cell: CellTables, settings: ScoringSettings, methods: list[Method], answer_source: str
) -> Iterator[MethodScores]:
    main, ablations = settings.main, settings.ablations
    on_answer = [method for method in methods if method.scope == "answer"]
    on_samples = [method for method in methods if method.scope != "answer"]
    on_both = [method for method in methods if method.scope == "candidates"]
    spectral = [method for method in on_both if method.name in SPECTRAL]
    evidence = partial(
        cell.evidence,
        answer_source=answer_source,
        epsilon=settings.epsilon,
        alpha=settings.alpha,
        among=compare_candidates(settings.methods),
    )

    if main.sample:
        sampled = evidence(main.sample, budget=settings.num_candidates)
        yield from _every_method(on_answer + on_samples, "multinomial", "", sampled)
        for method in on_samples:
            for setting in method.formulations:
                yield MethodScores(
                    method.name, method.variants[0], setting, compute(method, sampled, setting)
                )
        for M in ablations.budgets:
            yield from _every_method(
                on_samples, "multinomial", ablation("M", M), evidence(main.sample, budget=M)
            )
    if main.beam:
        beams = evidence(main.beam)
        yield from _every_method(
            on_both if main.sample else on_answer + on_both, "beamsearch", "", beams
        )
        for epsilon in ablations.epsilon:
            floored = replace(
                beams, weights=candidate_weights.restricted_mass(beams.logprob, beams.mask, epsilon)
            )
            yield from _every_method(on_both, "beamsearch", ablation("epsilon", epsilon), floored)
        for alpha in ablations.alpha:
            yield from _every_method(
                spectral, "beamsearch", ablation("alpha", alpha), replace(beams, alpha=alpha)
            )
        for K in ablations.K:
            yield from _every_method(spectral, "beamsearch", ablation("K", K), replace(beams, K=K))
        for M in ablations.budgets:
            yield from _every_method(
                on_both, "beamsearch", ablation("M", M), evidence(beam_of_width(cell.strategies, M))
            )
    for strategy in ablations.strategies:
        if kind_of(strategy) != "sample":
            yield from _every_method(on_both, "beamsearch", strategy, evidence(strategy))
            continue
        yield from _every_method(
            on_both, "multinomial", strategy, evidence(strategy, budget=settings.num_candidates)
        )
        exact = evidence(strategy, budget=settings.num_candidates, exact=True)
        yield from _every_method(on_both, "multinomial", f"{strategy} exact", exact)

    for name in settings.estimators:
        yield from _estimates(cell, settings, answer_source, *name.split(" ", 1))


def _estimates(
    cell: CellTables, settings: ScoringSettings, answer_source: str, name: str, strategy: str
) -> Iterator[MethodScores]:
    """An estimator's scores: of samples at every M and in disjoint draws; where lattices tell it,
    its standard error.

    The variant is the estimator's name, the setting its candidates.
    """
    answer = cell.answer(answer_source)
    factors = {name: FACTORS[name](answer) for name in settings.methods if name in FACTORS}

    read = partial(cell.candidate_arrays, strategy, answer_source)

    def scores(setting: str, sets: CandidateArrays) -> Iterator[MethodScores]:
        estimates = estimate(name, sets)
        for method, factor in factors.items():
            yield MethodScores(
                method, name, setting, _rounded(f"{name} {strategy}", factor * estimates)
            )

    if kind_of(strategy) == "sample":
        size = cell.size_of(strategy)
        M = settings.num_candidates or size
        # as many as on the main line, as in the budgets, as other strategies have
        named = {int(of_size) for of in cell.strategies if (of_size := parse(of)[1].get("M"))}
        for budget in sorted({M, *settings.ablations.budgets, *named}):
            if budget <= size:
                yield from scores(samples_of(strategy, budget), read(budget=budget))
        compared = {
            int(parse(of)[1].get("M", M)) for of in cell.strategies if kind_of(of) in FOR_ESTIMATORS
        }
        for each in sorted({M, *compared}):
            for draw in range(size // each if size >= 2 * each else 0):
                yield from scores(
                    samples_of(strategy, each, draw + 1), read(first=draw * each, budget=each)
                )
        return
    sets = read()
    yield from scores(strategy, sets)
    lattices = int(parse(strategy)[1].get("lattices", 0))
    if name == "stratified" and lattices > 1:
        error = standard_error(sets, lattices)
        yield MethodScores(
            "Dissimilarity", "standard error", strategy, _rounded(f"{name} {strategy}", error)
        )


def _rounded(name: str, values: Array) -> Array:
    finite = plugins.numbers(f"estimator {name!r}", values, values.shape, 0.0, np.inf)
    return np.asarray(np.round(finite, DECIMALS) + 0.0)


def _every_method(
    methods: Iterable[Method], variant: str, setting: str, evidence: Evidence
) -> Iterator[MethodScores]:
    for method in methods:
        stored = variant if variant in method.variants else ""
        yield MethodScores(method.name, stored, setting, compute(method, evidence))
