"""When beams win: PRR of estimates from samples, beams and mixtures where the model's distribution
is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from beamuq.array_types import Floats
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

SIMILARITY, EXACT_TEXT = "similarity", "exact text"
"""Expected qualities: s(answer, right answer), and whether the two are the same text."""
DISSIMILARITY, TRUE, BEAMS, SAMPLES = "Dissimilarity", "true", "normalised beam", "uniform sample"
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
    """Rows of ``beams_map``: covered mass, fair share, and PRR of every estimate, at each power, κ
    and M.

    Of the greedy answers; ``name`` is the dataset's, for the resamples. Where questions have
    options there is no judge: texts that name the same one are one text, others differ, and the
    real quality is whether it is the gold one.

    Raises BeamUQError if the tables do not belong together, or no question is left.
    """
    decoded = pc.unique(candidates["id"])
    questions = questions.filter(pc.is_in(questions["id"], decoded)).slice(settings.skip)
    if not len(questions):
        raise BeamUQError(
            f"beams_map.skip: {settings.skip} leaves no question of {len(decoded)}; lower it"
        )
    candidates, quality = (
        of.filter(pc.is_in(of["id"], questions["id"])) for of in (candidates, quality)
    )
    real, right_in_fact = (
        settings.quality,
        quality_of(questions["id"].to_pylist(), "greedy", quality),
    )
    if all(questions["options"].to_pylist()):
        candidates, similarity, right_in_fact = _as_options(questions, candidates)
        real = GOLD_LABEL
    cell = CellTables(questions, candidates, similarity)
    outcomes, answer = cell.known_outcomes(settings.strategies, "greedy"), cell.answer("greedy")
    groups, n = groups_by_id(cell.ids, questions), len(cell.ids)
    drawn = draws_name(name, zip(cell.ids, groups, strict=True))
    counts = np.concatenate(
        [*resample_blocks(groups, settings.resamples, settings.seed, drawn)], axis=1
    )
    uniforms = np.random.Generator(np.random.Philox(key=settings.seed)).random(
        (settings.draws, n, max(settings.sizes))
    )
    uniforms = uniforms.transpose(1, 0, 2)
    alike = np.where(outcomes.mask, 1.0 - outcomes.dissimilarity, 0.0)
    same = (outcomes.mask & ~outcomes.differs).astype(np.float64)

    def row(values: Floats, place: str, note: str = "", **keys: str) -> Row:
        """A value and its resamples, at a place on the map."""
        told = asdict(estimate(values[0], values[1:], settings.confidence)) | (
            {"note": note} if note else {}
        )
        of = {"answer_source": "greedy", "subset": ALL, "n": n} | keys | {"setting": place}
        return of | told | {"values": values[1:].astype(np.float32)}

    for power in settings.powers:
        probability, log_total = known.sharpened(
            outcomes.logprob, outcomes.in_set, outcomes.drawn, power
        )
        for M in settings.sizes:
            for metric, values in known.covered(probability, outcomes.in_set, M, counts).items():
                yield row(
                    values, setting(power, M=M), quality="", metric=metric, method="", variant=""
                )
        logprob = np.minimum(power * answer.logprob - log_total, 0.0)
        scores = _scores(
            probability, outcomes, same, Answer(logprob, answer.length), settings.sizes, uniforms
        )
        worlds: list[tuple[str, float | None, Floats]] = [(real, None, right_in_fact)]
        for kappa in settings.kappas:
            truth = known.truth_distribution(probability, outcomes.in_set, kappa)
            by_outcome = (
                {EXACT_TEXT: same} if real == GOLD_LABEL else {SIMILARITY: alike, EXACT_TEXT: same}
            )
            worlds += [
                (each, kappa, known.expected_quality(truth, values))
                for each, values in by_outcome.items()
            ]
        evaluators = [
            Evaluator(right, counts, max_rejection=settings.max_rejection) for _, _, right in worlds
        ]
        qualities = np.stack([right for _, _, right in worlds])
        for (method, variant, size), each in scores.items():
            areas = np.mean([evaluators[0].area(score, qualities) for score in each], axis=0)
            for (quality_name, at, right), evaluator, area in zip(
                worlds, evaluators, areas, strict=True
            ):
                keys = {
                    "quality": quality_name,
                    "metric": "PRR",
                    "method": method,
                    "variant": variant,
                }
                note = why_undefined("PRR", right, settings.max_rejection)
                yield row(evaluator.prr(area), setting(power, at, size), note, **keys)


def _as_options(questions: pa.Table, candidates: pa.Table) -> tuple[pa.Table, pa.Table, Floats]:
    """Candidates whose texts are the one option that each names, if it does; similarities; which
    answers are gold.
    """
    asked = questions.select(["id", "options", "references"]).to_pandas().set_index("id")
    rows = candidates.select(["id", "strategy", "text"]).to_pandas().join(asked, on="id")
    named = map(named_options, rows["text"], rows["options"])
    pairs = zip(named, rows["options"], rows["text"], strict=True)
    rows["text"] = [options[of.pop()] if len(of) == 1 else text for of, options, text in pairs]
    answers = rows[rows["strategy"] == GREEDY].set_index("id")["text"]
    compared = pd.DataFrame(
        {"id": rows["id"], "premise": rows["id"].map(answers), "hypothesis": rows["text"]}
    )
    compared = compared.drop_duplicates().assign(neutral=None, contradict=None)
    compared["entail"] = (compared["premise"] == compared["hypothesis"]).astype(float)
    column = candidates.schema.get_field_index("text")
    texts = candidates.set_column(column, "text", pa.array(rows["text"], pa.string()))
    right = np.array(
        [float(answers[key] in accepted) for key, accepted in asked["references"].items()]
    )
    return (
        texts,
        pa.Table.from_pandas(compared, schema=SCHEMAS["similarity"], preserve_index=False),
        right,
    )


def _scores(
    probability: Floats,
    outcomes: CandidateArrays,
    same: Floats,
    answer: Answer,
    sizes: Sequence[int],
    uniforms: Floats,
) -> dict[tuple[str, str, int | None], list[Floats]]:
    """By method, variant and M the scores [N] of each draw, higher = more uncertain, rounded as a
    study's are.
    """
    d, in_set = outcomes.dissimilarity, outcomes.in_set
    found: dict[tuple[str, str, int | None], list[Floats]] = {
        (DISSIMILARITY, TRUE, None): [(probability * d).sum(axis=1)],
        ("Prob", "text", None): [-(probability * same).sum(axis=1)],
    }
    for M in sizes:
        found[DISSIMILARITY, BEAMS, M] = [known.beam_estimate(probability, d, in_set, M)]
        drawn = known.estimates(probability, d, in_set, M, uniforms[:, :, :M])
        found |= {(DISSIMILARITY, variant, M): list(values.T) for variant, values in drawn.items()}
    both = [key for key in found if key[1] in (TRUE, BEAMS, SAMPLES)]
    for name in ("CocoaMSP", "CocoaPPL"):
        found |= {
            (name, *key[1:]): [FACTORS[name](answer) * each for each in found[key]] for key in both
        }
    return {key: [np.round(values, DECIMALS) for values in each] for key, each in found.items()}
