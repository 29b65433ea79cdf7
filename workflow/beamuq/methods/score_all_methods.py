"""All scores of a cell: which methods, over which candidates, with which settings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, NamedTuple

import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field

from beamuq.methods import candidate_weights
from beamuq.methods.log_space_sums import Array
from beamuq.methods.method_inputs import Evidence
from beamuq.methods.method_inputs_from_tables import CellTables, SentenceSimilarity
from beamuq.methods.registry import Method, compute, resolve
from beamuq.strategy_names import ablation, beam_of_width, kind_of

SPECTRAL = ("Eccentricity", "EigVecDissimilarity")  # what alpha and K are parameters of


class _SettingsModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Ablations(_SettingsModel):
    """Settings whose scores are rows beside the main line; each list may be empty."""

    epsilon: tuple[Annotated[float, Field(ge=0, le=1)], ...] = ()
    alpha: tuple[Annotated[float, Field(gt=0)], ...] = ()
    K: tuple[Annotated[int, Field(ge=1)], ...] = ()
    budgets: tuple[Annotated[int, Field(ge=1)], ...] = ()
    strategies: tuple[str, ...] = ()


class MainStrategies(_SettingsModel):
    """The strategies of the main line: samples for "multinomial", beams for "beamsearch"; either may be absent."""

    sample: str | None = None
    beam: str | None = None


class ScoringSettings(_SettingsModel):
    """What is scored. ``num_candidates``: how many samples the main line looks at; None: all there are."""

    methods: tuple[str, ...]
    answer_source: tuple[str, ...]
    main: MainStrategies
    num_candidates: Annotated[int, Field(ge=1)] | None = None
    alpha: float = 0.9
    epsilon: float = 0.0
    equivalence_threshold: float | None = None
    sar_similarity: SentenceSimilarity | None = None
    recipe: str = ""
    ablations: Ablations = Ablations()
    format: int = 0
    seed: int = 0


class MethodScores(NamedTuple):
    """One method's scores [N] of a cell under one setting."""

    method: str
    variant: str
    setting: str
    values: Array


def score_cell(cell: CellTables, settings: ScoringSettings) -> pa.Table:
    """Every score of a cell, as a table of ``scores``: questions in the cell's order within each method and setting.

    Raises
    ------
    BeamUQError
        If a method is unknown, lacks what it needs, or gives a score that is not finite.
    """
    methods = [resolve(name) for name in settings.methods]
    parts = []
    for answer_source in settings.answer_source:
        for scores in _each_setting(cell, settings, methods, answer_source):
            constant = {"answer_source": answer_source} | scores._asdict()
            values = constant.pop("values")
            columns = {name: pa.repeat(value, len(cell.ids)) for name, value in constant.items()}
            parts.append(pa.table({"id": pa.array(cell.ids, pa.string())} | columns | {"value": values}))
    return pa.concat_tables(parts).combine_chunks()


def _each_setting(
    cell: CellTables, settings: ScoringSettings, methods: list[Method], answer_source: str
) -> Iterator[MethodScores]:
    main, ablations = settings.main, settings.ablations
    on_answer = [method for method in methods if method.scope == "answer"]
    on_samples = [method for method in methods if method.scope != "answer"]
    on_both = [method for method in methods if method.scope == "candidates"]
    spectral = [method for method in on_both if method.name in SPECTRAL]

    def evidence(strategy: str, *, budget: int | None = None, exact: bool = False) -> Evidence:
        return cell.evidence(
            strategy, answer_source, budget=budget, exact=exact, epsilon=settings.epsilon, alpha=settings.alpha
        )

    if main.sample:
        sampled = evidence(main.sample, budget=settings.num_candidates)
        yield from _every_method(on_answer + on_samples, "multinomial", "", sampled)
        for method in on_samples:
            for setting in method.formulations:
                yield MethodScores(method.name, method.variants[0], setting, compute(method, sampled, setting))
        for M in ablations.budgets:
            yield from _every_method(on_samples, "multinomial", ablation("M", M), evidence(main.sample, budget=M))
    if main.beam:
        beams = evidence(main.beam)
        yield from _every_method(on_both if main.sample else on_answer + on_both, "beamsearch", "", beams)
        for epsilon in ablations.epsilon:
            floored = replace(beams, weights=candidate_weights.restricted_mass(beams.logprob, beams.mask, epsilon))
            yield from _every_method(on_both, "beamsearch", ablation("epsilon", epsilon), floored)
        for alpha in ablations.alpha:
            yield from _every_method(spectral, "beamsearch", ablation("alpha", alpha), replace(beams, alpha=alpha))
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
        yield from _every_method(on_both, "multinomial", strategy, evidence(strategy, budget=settings.num_candidates))
        exact = evidence(strategy, budget=settings.num_candidates, exact=True)
        yield from _every_method(on_both, "multinomial", f"{strategy} exact", exact)


def _every_method(methods: Iterable[Method], variant: str, setting: str, evidence: Evidence) -> Iterator[MethodScores]:
    for method in methods:
        stored = variant if variant in method.variants else ""
        yield MethodScores(method.name, stored, setting, compute(method, evidence))
