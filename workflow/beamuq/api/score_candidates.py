"""Every method on anyone's candidates, with the reason where one cannot be had.

The rows become the tables that a study's cell is made of, so the arithmetic is that of the workflow. What nobody gave
is unknown in the evidence. A method declares what it needs, one from outside the package too: where that is unknown
there is no score, and the reason is told.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from beamuq.api.candidate_records import LABELS, ROUNDING, CandidateRecord, QuestionRecord, Rows, read_records
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.errors import BeamUQError
from beamuq.methods import candidate_weights
from beamuq.methods.dissimilarity_estimators import certified_interval, certified_pair_interval
from beamuq.methods.log_space_sums import Array
from beamuq.methods.method_inputs import UNKNOWN, Evidence
from beamuq.methods.method_inputs_from_tables import CellTables
from beamuq.methods.needs_of_methods import missing_part
from beamuq.methods.registry import DIRECTION, METHODS, Method, compute, resolve
from beamuq.methods.score_all_methods import FACTORS
from beamuq.parquet_tables import SCHEMAS
from beamuq.scorers.scorer_protocol import scored
from beamuq.scorers.similarity_table import needed_pairs, similarity_table
from beamuq.strategy_names import LEAST_TEMPERATURE

COLUMNS = ("id", "method", "variant", "setting", "value", "low", "high", "range", "direction", "similarity", "reason")
ANSWER, SAMPLE, BEAM = "greedy", "sample", "beam"
BLOCK_PAIRS = 250_000  # of texts, in one array of the evidence and in one table

REASONS = {
    "samples": "needs samples; give them under 'samples'",
    "beams": "needs beams; give them under 'beams'",
    "answer.logprob": "needs the answer's log-probability; give answer.logprob or answer.token_logprobs",
    "answer.length": "needs the answer's number of tokens; give answer.token_logprobs or answer.tokens",
    "answer.mean_entropy": "needs the entropy at each token; give answer.token_entropies",
    "answer.p_true_logprob": "needs the model's own judgement; give answer.p_true_logprob",
    "answer.ccp": "needs NLI labels of alternative tokens, which only a study's statistics step makes",
    "token_sar": "needs the relevance of every token, which only a study's statistics step makes",
    "logprob": "needs each candidate's log-probability; give logprob or token_logprobs with it",
    "weights": "needs each candidate's log-probability for its weight; give logprob or token_logprobs with it",
    "pairs.same": "needs a judgement of same meaning; give equivalence_threshold",
}


class CandidateScores(NamedTuple):
    """One method in one form on N questions: values [N], or NaN and the reason why there are none.

    low, high [N]: the certified interval, NaN where there is none.
    """

    method: str
    variant: str
    setting: str
    range: str
    values: Array
    low: Array
    high: Array
    reason: str


def score(
    rows: Rows,
    *,
    similarity: str | Similarity = "auto",
    methods: str | Sequence[str] | None = None,
    temperature: float = 1.0,
    epsilon: float = 0.0,
    alpha: float = 0.9,
    equivalence_threshold: float = 0.8,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 1,
) -> pd.DataFrame:
    """Score anyone's candidates with every method that what is known allows.

    Parameters
    ----------
    rows
        A ``.jsonl``, ``.json`` or ``.parquet`` file, mappings or a pandas frame, one row a question, with the keys of
        ``beamuq.api.candidate_records.QuestionRecord``.
    similarity
        As :func:`beamuq.api.open_models.open_similarity` takes it.
    methods
        Names of methods, in a list or in one text between commas, ``module:attribute`` for one outside the package;
        None: all there are.
    temperature
        At which the samples were drawn. Their weights are p^(1 − 1/T), so 1/M each at 1.
    epsilon, alpha
        Mass floor of the beams' weights; eigenvalue threshold of Eccentricity and EigVecDissimilarity.
    equivalence_threshold
        From which similarity on two texts mean the same, in (0, 1], for a similarity without NLI classes.
    device, dtype, threads
        What a similarity that is a model runs on: ``auto``, ``cpu`` or ``cuda``; ``auto``, ``float32`` or ``bfloat16``;
        threads of torch on a CPU.

    Returns
    -------
    A frame with columns id, method, variant (``multinomial`` over samples, ``beamsearch`` over beams, "" for a method
    in one form), setting (a further formulation of the method, mostly ""), value (missing where there is none), low and
    high, range, direction, similarity and reason (why there is no value); and those of correct, quality, group, model,
    model_hash and prompt_hash that a row has, for ``calibrate`` and ``decide``. Questions in the order given.

    [low, high] holds what Dissimilarity, CocoaMSP, CocoaPPL and DegreeMatrix would be under the model's whole
    distribution, whatever was not found (docs/theory.md). It rests on distinct outcomes of known probability: all
    beams, or one sample of each text; missing where one of them has no log-probability, and of samples at T ≠ 1.

    Raises
    ------
    BeamUQError
        In one line: a bad row, an unknown method, similarity or model.
    """
    check_settings(temperature=temperature, epsilon=epsilon, alpha=alpha, equivalence_threshold=equivalence_threshold)
    chosen = _chosen(methods)
    records = read_records(rows)
    scorer = open_similarity(similarity, device=device, dtype=dtype, threads=threads)
    strategy = f"{SAMPLE} T={float(temperature)}"
    certified = ("samples", "beams") if temperature == 1 else ("beams",)
    found: dict[str, list[tuple[Any, ...]]] = {item.id: [] for item in records}
    for members in _alike(records):
        candidates = pa.Table.from_pylist([row for item in members for row in _candidates(item, strategy)], CANDIDATES)
        pairs = _similarities(candidates, scorer)
        cell = CellTables(
            pa.table({"id": pa.array([item.id for item in members])}),
            candidates,
            pairs,
            equivalence_threshold=equivalence_threshold if pairs.column("neutral").null_count else None,
            sar_similarity="scorer",
        )
        left_out = {about: _left_out(members[0], about) for about in ("answer", "samples", "beams")}
        for each in _scores(chosen, _evidence(cell, members, strategy, epsilon, alpha), left_out, certified):
            told = each.range, DIRECTION, scorer.name, each.reason
            for item, *numbers in zip(members, each.values, each.low, each.high, strict=True):
                found[item.id].append((item.id, each.method, each.variant, each.setting, *map(float, numbers), *told))
    frame = pd.DataFrame([row for rows in found.values() for row in rows], columns=list(COLUMNS))
    for name in LABELS:
        labels = {item.id: getattr(item, name) for item in records}
        if any(label is not None for label in labels.values()):
            frame[name] = frame["id"].map(labels)
    return frame


def check_settings(
    *, temperature: float = 1.0, epsilon: float = 0.0, alpha: float = 0.9, equivalence_threshold: float = 0.8
) -> None:
    """Refuse a number outside its range; raises BeamUQError naming it. :func:`score` says what each is."""
    if not LEAST_TEMPERATURE <= temperature <= 10:
        raise BeamUQError(f"temperature: {temperature}: must be from {LEAST_TEMPERATURE} to 10")
    for name, number, most in (("alpha", alpha, 2), ("equivalence_threshold", equivalence_threshold, 1)):
        if not 0 < number <= most:
            raise BeamUQError(f"{name}: {number}: must be above 0 and at most {most}")
    if not 0 <= epsilon <= 1:
        raise BeamUQError(f"epsilon: {epsilon}: must be from 0 to 1")


def _chosen(methods: str | Sequence[str] | None) -> list[Method]:
    """The methods asked for, each once, in the order named."""
    if methods is None:
        return list(METHODS.values())
    names = methods.split(",") if isinstance(methods, str) else methods
    found = {method.name: method for name in names if name.strip() for method in [resolve(name.strip())]}
    if not found:
        raise BeamUQError(f"methods: none named; choose from {', '.join(METHODS)}, or leave the option out for all")
    return list(found.values())


CANDIDATES = pa.schema([field.with_nullable(True) for field in SCHEMAS["candidates"]])


def _candidates(item: QuestionRecord, strategy: str) -> Iterator[dict[str, Any]]:
    """Rows of a candidates table, without tokens; NaN stands for an unknown log-probability."""
    answer = _candidate(item.id, ANSWER, 0, item.answer)
    yield answer | {"token_ids": [], "entropies": item.answer.token_entropies}
    for name, members in ((strategy, item.samples), (BEAM, item.beams)):
        for rank, candidate in enumerate(members):
            yield _candidate(item.id, name, rank, candidate)


def _candidate(key: str, strategy: str, rank: int, candidate: CandidateRecord) -> dict[str, Any]:
    logprob = np.nan if candidate.total is None else candidate.total
    return {"id": key, "strategy": strategy, "rank": rank, "text": candidate.text.strip(), "logprob": logprob}


def _similarities(candidates: pa.Table, similarity: Similarity) -> pa.Table:
    needed = needed_pairs(candidates, [ANSWER], None)
    scores = scored(similarity.scorer, [(premise, hypothesis) for _, premise, hypothesis in needed])
    return similarity_table(needed, scores)


def _alike(records: Sequence[QuestionRecord]) -> list[list[QuestionRecord]]:
    """The questions in groups of which the same things are known, so that a group is scored as arrays."""
    groups: dict[tuple[object, ...], list[QuestionRecord]] = {}
    for item in records:
        answer = item.answer
        pattern = (
            answer.total is None,
            answer.length is None,
            answer.token_entropies is None,
            answer.p_true_logprob is None,
            not item.samples,
            not item.beams,
            _lacks_logprob(item.samples),
            _lacks_logprob(item.beams),
            *(_left_out(item, about) for about in ("answer", "samples", "beams")),
        )
        groups.setdefault(pattern, []).append(item)
    return [block for members in groups.values() for block in _blocks(members)]


def _blocks(members: Sequence[QuestionRecord]) -> list[list[QuestionRecord]]:
    """Questions in their order, as many at once as memory bears: each takes as much as the widest of them."""
    nodes = 1 + max(max(len(item.samples), len(item.beams)) for item in members)
    size = max(1, BLOCK_PAIRS // nodes**2)
    return [list(members[start : start + size]) for start in range(0, len(members), size)]


def _lacks_logprob(candidates: Sequence[CandidateRecord]) -> bool:
    return any(candidate.total is None for candidate in candidates)


def _left_out(item: QuestionRecord, about: str) -> str:
    """Why a candidate of a question has no log-probability, as far as it says so, in brackets; else empty."""
    records = [item.answer] if about == "answer" else getattr(item, about)
    return next((f" ({each.left_out})" for each in records if each.total is None and each.left_out), "")


def _evidence(
    cell: CellTables, members: Sequence[QuestionRecord], strategy: str, epsilon: float, alpha: float
) -> dict[str, Evidence]:
    """What is known of some questions of which the same is known, by what a method looks at."""
    first = members[0]
    candidates: dict[str, tuple[str, Sequence[CandidateRecord]]] = {
        "answer": (ANSWER, [first.answer]),
        "samples": (strategy, first.samples),
        "beams": (BEAM, first.beams),
    }
    found = {}
    for kind, (name, records) in candidates.items():
        if not records:
            continue
        evidence = cell.evidence(name, ANSWER, epsilon=epsilon, alpha=alpha)
        answer = replace(
            evidence.answer,
            logprob=UNKNOWN if first.answer.total is None else evidence.answer.logprob,
            length=UNKNOWN
            if first.answer.length is None
            else np.array([item.answer.length for item in members], dtype=np.int64),
            p_true_logprob=UNKNOWN
            if first.answer.p_true_logprob is None
            else np.array([item.answer.p_true_logprob for item in members]),
        )
        evidence = replace(evidence, answer=answer)
        if _lacks_logprob(records):
            drawn_from_the_model = strategy == f"{SAMPLE} T=1.0" and kind == "samples"
            weights = candidate_weights.uniform(evidence.mask) if drawn_from_the_model else UNKNOWN
            evidence = replace(evidence, logprob=UNKNOWN, weights=weights)
        found[kind] = evidence
    return found


def _scores(
    methods: Sequence[Method], known: Mapping[str, Evidence], left_out: Mapping[str, str], certified: Collection[str]
) -> Iterator[CandidateScores]:
    """Every method in every form; over samples in its further formulations too, as a study's main line has them.

    ``certified``: whose log-probabilities are those of outcomes under the model's own distribution.
    """
    nothing = np.full(len(known["answer"].mask), np.nan)
    for method in methods:
        for variant in method.variants:
            about = "beams" if variant == "beamsearch" else "answer" if method.scope == "answer" else "samples"
            for setting in ("", *method.formulations) if about == "samples" else ("",):
                formulation = method.formulation(setting)
                missing = missing_part(formulation.needs, known[about]) if about in known else about
                reason = "" if missing is None else REASONS.get(missing, f"needs {missing}, which only a study holds")
                if missing in ("answer.logprob", "answer.length", "logprob", "weights"):
                    reason += left_out["answer" if missing.startswith("answer.") else about]
                values = nothing if missing else compute(method, known[about], setting)
                certain = not missing and about in certified
                low, high = _interval(method.name, known[about], about == "samples") if certain else (nothing, nothing)
                yield CandidateScores(method.name, variant, setting, formulation.range, values, low, high, reason)


def _interval(method: str, evidence: Evidence, drawn: bool) -> tuple[Array, Array]:
    """The certified interval of a method that is linear in U or a mean over pairs, two arrays [N]; NaN of any other.

    Beams are distinct outcomes, as their column says. Of draws of one text only the most probable counts: they may be
    one outcome drawn twice.
    """
    nothing = np.full(len(evidence.mask), np.nan)
    if missing_part(("logprob",), evidence):
        return nothing, nothing
    outcomes = evidence.mask
    if drawn:
        same, p = evidence.pairs.identical[:, 1:, 1:], evidence.logprob
        first = np.tri(p.shape[1], k=-1, dtype=bool)
        behind = (p[:, None, :] > p[:, :, None]) | ((p[:, None, :] == p[:, :, None]) & first)
        outcomes = outcomes & ~(same & behind).any(axis=2)
    if method == "DegreeMatrix":
        low, high = certified_pair_interval(evidence.logprob, 1.0 - evidence.among, outcomes)
    elif method in FACTORS:
        factor = FACTORS[method](evidence.answer)
        ends = certified_interval(np.where(outcomes, evidence.logprob, -np.inf), 1.0 - evidence.to_produced, outcomes)
        low, high = factor * ends[0], factor * ends[1]
    else:
        return nothing, nothing
    impossible = np.where(outcomes, np.exp(evidence.logprob), 0.0).sum(axis=1) > 1 + ROUNDING
    return np.where(impossible, np.nan, low), np.where(impossible, np.nan, high)
