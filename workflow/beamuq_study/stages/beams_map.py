"""When beams win: PRR of estimates from samples, beams and mixtures where the model's distribution is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from beamuq.evaluation.bootstrap import draws_name, interval, resample_counts
from beamuq.evaluation.prr_and_auc import Evaluator, why_undefined
from beamuq.methods.answer_probability import perplexity, prob
from beamuq.methods.dissimilarity_cocoa import cocoa
from beamuq.methods.dissimilarity_estimators import CandidateArrays
from beamuq.methods.method_inputs import Answer
from beamuq.methods.registry import DECIMALS
from beamuq.scorers.named_options import GOLD_LABEL, named_options
from beamuq.strategy_names import GREEDY, number
from beamuq_study.parquet_tables import ALL, SCHEMAS
from beamuq_study.stages.method_inputs_from_tables import CellTables
from beamuq_study.stages.metrics_of_scores import groups_by_id, quality_of

SIMILARITY, EXACT_TEXT = "similarity", "exact text"
"""Expected qualities: s(answer, right answer), and whether the two are the same text."""
DISSIMILARITY, TRUE, BEAMS, SAMPLES = "Dissimilarity", "true", "normalised beam", "uniform sample"
Row = dict[str, Any]
Scores = Mapping[tuple[str, str, int | None], Sequence[Floats]]  # method, variant, M: the scores [N] of each draw


class MapSettings(StrictModel):
    """``strategies``: those whose outcomes are known. ``quality``: the real one. ``skip``: so many first questions."""

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
    questions: pa.Table, candidates: pa.Table, similarity: pa.Table, quality: pa.Table, settings: MapSettings, name: str
) -> Iterator[Row]:
    """Rows of ``beams_map``: covered mass, fair share, and PRR of every estimate, at each power, κ and M.

    Of the greedy answers; ``name`` is the dataset's, for the resamples. Where questions have options there is no judge:
    texts that name the same one are one text, others differ, and the real quality is whether it is the gold one.

    Raises BeamUQError if the tables do not belong together, or no question is left.
    """
    decoded = set(candidates["id"].to_pylist())
    ids = [key for key in questions["id"].to_pylist() if key in decoded][settings.skip :]
    questions = questions.filter(pc.is_in(questions["id"], pa.array(ids, pa.string())))
    if not ids:
        raise BeamUQError(f"beams_map.skip: {settings.skip} leaves no question of {len(decoded)}; lower it")
    kept = (table.filter(pc.is_in(table["id"], questions["id"])) for table in (candidates, similarity, quality))
    candidates, similarity, quality = kept
    real, right_in_fact = settings.quality, quality_of(list(ids), "greedy", quality)
    if all(questions["options"].to_pylist()):
        candidates, similarity, right_in_fact = _as_options(questions, candidates)
        real = GOLD_LABEL
    cell, n = CellTables(questions, candidates, similarity), len(ids)
    outcomes, answer = cell.known_outcomes(settings.strategies, "greedy"), cell.answer("greedy")
    groups = groups_by_id(cell.ids, questions)
    drawn = draws_name(name, zip(cell.ids, groups, strict=True))
    resampled = resample_counts(groups, settings.resamples, settings.seed, drawn)
    counts = np.concatenate([np.ones((n, 1), dtype=np.int64), resampled], axis=1)
    uniforms = np.random.Generator(np.random.Philox(key=settings.seed)).random((settings.draws, n, max(settings.sizes)))
    alike = np.where(outcomes.mask, 1.0 - outcomes.dissimilarity, 0.0)
    same = (outcomes.mask & ~outcomes.differs).astype(np.float64)
    of = {"answer_source": "greedy", "subset": ALL, "n": n}
    for power in settings.powers:
        probability, log_total = known.sharpened(outcomes.logprob, outcomes.in_set, outcomes.drawn, power)
        for size in settings.sizes:
            for metric, values in known.covered(probability, outcomes.in_set, size).items():
                row = of | {"quality": "", "metric": metric, "method": "", "variant": ""}
                row |= {"setting": setting(power, M=size)}
                yield row | _summary(values @ counts / counts.sum(axis=0), settings.confidence)
        logprob = np.minimum(power * answer.logprob - log_total, 0.0)
        scores = _scores(probability, outcomes, same, Answer(logprob, answer.length), settings.sizes, uniforms)
        worlds: list[tuple[str, float | None, Floats]] = [(real, None, right_in_fact)]
        for raised in settings.kappas:
            truth = known.truth_distribution(probability, outcomes.in_set, raised)
            if real != GOLD_LABEL:
                worlds.append((SIMILARITY, raised, known.expected_quality(truth, alike)))
            worlds.append((EXACT_TEXT, raised, known.expected_quality(truth, same)))
        for quality_name, kappa, right in worlds:
            note = why_undefined("PRR", right, settings.max_rejection, 0.5)
            evaluator = Evaluator(right, counts, max_rejection=settings.max_rejection)
            for (method, variant, M), each in scores.items():
                values = np.mean([evaluator.measure(score, ["PRR"])["PRR"] for score in each], axis=0)
                row = of | {"quality": quality_name, "metric": "PRR", "method": method, "variant": variant}
                yield row | {"setting": setting(power, kappa, M)} | _summary(values, settings.confidence, note or "")


def _as_options(questions: pa.Table, candidates: pa.Table) -> tuple[pa.Table, pa.Table, Floats]:
    """Candidates whose texts are the one option that each names, if it does; similarities; which answers are gold."""
    options, references = (
        dict(zip(questions["id"].to_pylist(), questions[name].to_pylist(), strict=True))
        for name in ("options", "references")
    )
    rows = candidates.select(["id", "strategy", "text"]).to_pandas()
    named = [named_options(text, options[key]) for key, text in zip(rows["id"], rows["text"], strict=True)]
    found = zip(named, rows["id"], rows["text"], strict=True)
    rows["text"] = [options[key][of.pop()] if len(of) == 1 else text for of, key, text in found]
    answers = rows[rows["strategy"] == GREEDY].set_index("id")["text"]
    pairs = pd.DataFrame({"id": rows["id"], "premise": rows["id"].map(answers), "hypothesis": rows["text"]})
    pairs = pairs.drop_duplicates().assign(neutral=None, contradict=None)
    pairs["entail"] = (pairs["premise"] == pairs["hypothesis"]).astype(float)
    column = candidates.schema.get_field_index("text")
    texts = candidates.set_column(column, "text", pa.array(rows["text"], pa.string()))
    right = np.array([float(answers[key] in references[key]) for key in questions["id"].to_pylist()])
    return texts, pa.Table.from_pandas(pairs, schema=SCHEMAS["similarity"], preserve_index=False), right


def _scores(
    probability: Floats, outcomes: CandidateArrays, same: Floats, answer: Answer, sizes: Sequence[int], uniforms: Floats
) -> Scores:
    """Scores [N], higher = more uncertain, rounded as a study's are."""
    d, in_set = outcomes.dissimilarity, outcomes.in_set
    answers = {"CocoaMSP": prob(answer.logprob), "CocoaPPL": perplexity(answer.logprob, answer.length)}
    found: dict[tuple[str, str, int | None], list[Floats]] = {
        (DISSIMILARITY, TRUE, None): [(probability * d).sum(axis=1)],
        ("Prob", "text", None): [-(probability * same).sum(axis=1)],
    }
    for M in sizes:
        found[DISSIMILARITY, BEAMS, M] = [known.beam_estimate(probability, d, in_set, M)]
        for drawn in uniforms:
            for variant, values in known.estimates(probability, d, in_set, M, drawn[:, :M]).items():
                found.setdefault((DISSIMILARITY, variant, M), []).append(values)
    both = [key for key in found if key[1] in (TRUE, BEAMS, SAMPLES)]
    found |= {(name, *key[1:]): [cocoa(u, each) for each in found[key]] for name, u in answers.items() for key in both}
    return {key: [np.round(values, DECIMALS) for values in each] for key, each in found.items()}


def _summary(values: Floats, confidence: float, note: str = "") -> Row:
    """A value and its resamples, as a row has them."""
    if np.isnan(values[0]):
        ends: Row = dict.fromkeys(("value", "low", "high", "std")) | {"note": note}
    else:
        ends = {"value": float(values[0])} | asdict(interval(values[1:], confidence))
    return ends | {"values": values[1:].astype(np.float32)}
