"""When beams win: PRR of estimates from samples, beams and mixtures where the model's distribution
is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from beamuq.array_types import Floats, Ints
from beamuq.config_errors import StrictModel
from beamuq.errors import BeamUQError
from beamuq.evaluation import known_distribution as known
from beamuq.evaluation.bootstrap import draws_name, estimate, resample_blocks
from beamuq.evaluation.prr_and_auc import Evaluator, why_undefined
from beamuq.methods.dissimilarity_estimators import CandidateArrays
from beamuq.methods.method_inputs import Answer
from beamuq.methods.registry import DECIMALS, FACTORS
from beamuq.scorers.named_options import GOLD_LABEL, named_options
from beamuq.strategy_names import GREEDY, number
from beamuq_study.parquet_tables import ALL, SCHEMAS
from beamuq_study.stages.method_inputs_from_tables import CellTables
from beamuq_study.stages.metrics_of_scores import groups_by_id, quality_of

SIMILARITY = "similarity"
EXACT_TEXT = "exact text"
"""Expected qualities: s(answer, right answer), and whether the two are the same text."""
DISSIMILARITY = "Dissimilarity"
TRUE = "true"
BEAMS = "normalised beam"
SAMPLES = "uniform sample"
Row = dict[str, Any]


class MapSettings(StrictModel):
    """``strategies``: those whose outcomes are known. ``quality``: the real one. ``skip``: so many
    first questions.
    """

    strategies: tuple[str, ...]
    powers: tuple[float, ...]
    kappas: tuple[float, ...]
    sizes: tuple[int, ...]
    draws: int
    resamples: int
    skip: int = 0
    quality: str
    max_rejection: float = 0.5
    confidence: float = 0.95
    seed: int = 0
    format: int = 0


def setting(power: float, kappa: float | None = None, M: int | None = None) -> str:
    """A place on the map as the column ``setting`` has it: ``power=1.5 kappa=1.0 M=10``."""
    named = {"power": float(power), "kappa": kappa if kappa is None else float(kappa), "M": M}
    return " ".join(f"{name}={number(value)}" for name, value in named.items() if value is not None)


def map_of_cell(
    questions: pa.Table,
    candidates: pa.Table,
    similarity: pa.Table,
    quality: pa.Table,
    settings: MapSettings,
    name: str,
) -> Iterator[Row]:
    """Rows of ``beams_map``: coverage, and PRR of every estimate, at each power, κ and M.

    Of the greedy answers; ``name`` is the dataset's, for the resamples. Where questions have
    options there is no judge: texts that name the same one are one text, others differ, and the
    real quality is whether it is the gold one.

    Raises BeamUQError if the tables do not belong together, or no question is left.
    """
    questions = _decoded_questions(questions, candidates, settings.skip)
    candidates = candidates.filter(pc.is_in(candidates["id"], questions["id"]))
    quality = quality.filter(pc.is_in(quality["id"], questions["id"]))
    real = settings.quality
    right = quality_of(questions["id"].to_pylist(), "greedy", quality)
    if all(questions["options"].to_pylist()):
        real = GOLD_LABEL
        candidates, similarity, right = _as_options(questions, candidates)
    tables = CellTables(questions, candidates, similarity)
    groups = groups_by_id(tables.ids, questions)
    draws = draws_name(name, zip(tables.ids, groups, strict=True))
    blocks = resample_blocks(groups, settings.resamples, settings.seed, draws)
    cell = _KnownCell(
        settings,
        tables.known_outcomes(settings.strategies, "greedy"),
        tables.answer("greedy"),
        _World(real, None, right),
        np.concatenate([*blocks], axis=1),
        _uniforms(settings, len(tables.ids)),
    )
    yield from cell.rows()


def _decoded_questions(questions: pa.Table, candidates: pa.Table, skip: int) -> pa.Table:
    """Those that have candidates, without the first ``skip``."""
    decoded = pc.unique(candidates["id"])
    questions = questions.filter(pc.is_in(questions["id"], decoded)).slice(skip)
    if not len(questions):
        raise BeamUQError(f"beams_map.skip: {skip} leaves no question of {len(decoded)}; lower it")
    return questions


def _uniforms(settings: MapSettings, n: int) -> Floats:
    """[n, draws, largest M] in [0, 1), which draw the candidates."""
    generator = np.random.Generator(np.random.Philox(key=settings.seed))
    uniforms = generator.random((settings.draws, n, max(settings.sizes)))
    return uniforms.transpose(1, 0, 2)


class _World(NamedTuple):
    """What the truth is: how right the answers [N] are, by a quality; ``kappa``: None if real."""

    quality: str
    kappa: float | None
    right: Floats


class _Estimate(NamedTuple):
    """A method in one form, from M candidates where it is not of all outcomes."""

    method: str
    variant: str
    M: int | None = None


@dataclass(frozen=True)
class _KnownCell:
    """The N questions of a cell whose outcomes are known.

    ``counts`` [N, resamples]: how often each resample draws each question. ``uniforms`` [N, draws,
    M] draw the candidates.
    """

    settings: MapSettings
    outcomes: CandidateArrays
    answer: Answer
    real: _World
    counts: Ints
    uniforms: Floats

    def rows(self) -> Iterator[Row]:
        outcomes = self.outcomes
        for power in self.settings.powers:
            probability, log_total = known.sharpened(
                outcomes.logprob, outcomes.in_set, outcomes.drawn, power
            )
            yield from self._coverage(power, probability)
            logprob = np.minimum(power * self.answer.logprob - log_total, 0.0)
            scores = self._scores(probability, Answer(logprob, self.answer.length))
            yield from self._prr(power, scores, self._worlds(probability))

    @cached_property
    def _same(self) -> Floats:
        """[N, outcomes] 1 where an outcome is the answer's own text."""
        return (self.outcomes.mask & ~self.outcomes.differs).astype(np.float64)

    def _coverage(self, power: float, probability: Floats) -> Iterator[Row]:
        """How much mass M candidates cover."""
        for M in self.settings.sizes:
            measures = known.covered(probability, self.outcomes.in_set, M, self.counts)
            for metric, values in measures.items():
                row = self._row(values, setting(power, M=M))
                yield row | {"quality": "", "metric": metric, "method": "", "variant": ""}

    def _worlds(self, probability: Floats) -> list[_World]:
        """The real one, then for each κ the truth by every expected quality."""
        outcomes = self.outcomes
        qualities = {EXACT_TEXT: self._same}
        if self.real.quality != GOLD_LABEL:
            alike = np.where(outcomes.mask, 1.0 - outcomes.dissimilarity, 0.0)
            qualities = {SIMILARITY: alike, EXACT_TEXT: self._same}
        worlds = [self.real]
        for kappa in self.settings.kappas:
            truth = known.truth_distribution(probability, outcomes.in_set, kappa)
            for quality, by_outcome in qualities.items():
                right = known.expected_quality(truth, by_outcome)
                worlds.append(_World(quality, kappa, right))
        return worlds

    def _scores(self, probability: Floats, answer: Answer) -> dict[_Estimate, list[Floats]]:
        """The scores [N] of each draw, higher = more uncertain, rounded as a study's are."""
        dissimilarity = self.outcomes.dissimilarity
        in_set = self.outcomes.in_set
        scores = {
            _Estimate(DISSIMILARITY, TRUE): [(probability * dissimilarity).sum(axis=1)],
            _Estimate("Prob", "text"): [-(probability * self._same).sum(axis=1)],
        }
        for M in self.settings.sizes:
            of_beams = known.beam_estimate(probability, dissimilarity, in_set, M)
            scores[_Estimate(DISSIMILARITY, BEAMS, M)] = [of_beams]
            uniforms = self.uniforms[:, :, :M]
            drawn = known.estimates(probability, dissimilarity, in_set, M, uniforms)
            for variant, values in drawn.items():
                scores[_Estimate(DISSIMILARITY, variant, M)] = list(values.T)
        scores |= _times_factors(scores, answer)
        return {
            form: [np.round(values, DECIMALS) for values in draws] for form, draws in scores.items()
        }

    def _prr(
        self, power: float, scores: Mapping[_Estimate, list[Floats]], worlds: Sequence[_World]
    ) -> Iterator[Row]:
        """PRR of every estimate in every world, averaged over the draws."""
        limit = self.settings.max_rejection
        evaluators = [Evaluator(world.right, self.counts, max_rejection=limit) for world in worlds]
        qualities = np.stack([world.right for world in worlds])
        for form, draws in scores.items():
            areas = np.mean([evaluators[0].area(values, qualities) for values in draws], axis=0)
            for world, evaluator, area in zip(worlds, evaluators, areas, strict=True):
                row = self._row(evaluator.prr(area), setting(power, world.kappa, form.M))
                row |= {"quality": world.quality, "metric": "PRR"}
                row |= {"method": form.method, "variant": form.variant}
                row["note"] = why_undefined("PRR", world.right, limit) or row["note"]
                yield row

    def _row(self, values: Floats, place: str) -> Row:
        """A value, the first, and its resamples, at a place on the map."""
        confidence = self.settings.confidence
        return {
            "answer_source": "greedy",
            "subset": ALL,
            "setting": place,
            **asdict(estimate(values[0], values[1:], confidence, n=len(self.counts))),
            "values": values[1:].astype(np.float32),
        }


def _times_factors(
    scores: Mapping[_Estimate, list[Floats]], answer: Answer
) -> dict[_Estimate, list[Floats]]:
    """CoCoA's products of the estimates that it is made of."""
    products = {}
    for method in ("CocoaMSP", "CocoaPPL"):
        factor = FACTORS[method](answer)
        for form, draws in scores.items():
            if form.variant in (TRUE, BEAMS, SAMPLES):
                products[form._replace(method=method)] = [factor * values for values in draws]
    return products


def _as_options(questions: pa.Table, candidates: pa.Table) -> tuple[pa.Table, pa.Table, Floats]:
    """Candidates, their similarities, and which answers are gold, of multiple choice.

    A candidate's text is the option that it names, where it names one alone.
    """
    options = questions.select(["id", "options", "references"]).to_pandas().set_index("id")
    rows = candidates.select(["id", "strategy", "text"]).to_pandas().join(options, on="id")
    rows["text"] = list(map(_option_named, rows["text"], rows["options"]))
    column = candidates.schema.get_field_index("text")
    texts = candidates.set_column(column, "text", pa.array(rows["text"], pa.string()))
    answers = rows[rows["strategy"] == GREEDY].set_index("id")["text"]
    right = [
        float(answers[question] in references)
        for question, references in options["references"].items()
    ]
    return texts, _equality(rows, answers), np.array(right)


def _option_named(text: str, options: Sequence[str]) -> str:
    named = named_options(text, options)
    return options[named.pop()] if len(named) == 1 else text


def _equality(rows: pd.DataFrame, answers: pd.Series[str]) -> pa.Table:
    """A table of similarities: 1 where a candidate's text is the answer's, else 0."""
    premises = rows["id"].map(answers)
    compared = pd.DataFrame({"id": rows["id"], "premise": premises, "hypothesis": rows["text"]})
    compared = compared.drop_duplicates().assign(neutral=None, contradict=None)
    compared["entail"] = (compared["premise"] == compared["hypothesis"]).astype(float)
    schema = SCHEMAS["similarity"]
    return pa.Table.from_pandas(compared, schema=schema, preserve_index=False)
