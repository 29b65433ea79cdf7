"""Every method on anyone's candidates, with the reason where one cannot be had.

Each question is scored alone, by the functions that a study's cells are scored by. What nobody gave is unknown in the
evidence. A method declares what it needs, one from outside the package too: where that is unknown there is no score,
and the reason is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from beamuq.api.candidate_records import (
    LABELS,
    ROUNDING,
    CandidateRecord,
    QuestionRecord,
    Rows,
    by_probability,
    read_records,
)
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.errors import BeamUQError, hint
from beamuq.methods import candidate_weights
from beamuq.methods.dissimilarity_estimators import certified_interval, certified_pair_interval
from beamuq.methods.log_space_sums import Array
from beamuq.methods.method_inputs import UNKNOWN, Answer, Evidence, Pairs, missing_part
from beamuq.methods.registry import DIRECTION, FACTORS, METHODS, Method, compute, resolve
from beamuq.scorers.scorer_protocol import scored
from beamuq.strategy_names import LEAST_TEMPERATURE

COLUMNS = ("id", "method", "variant", "setting", "value", "low", "high", "range", "direction", "similarity", "reason")
KINDS = ("answer", "samples", "beams")  # what a method compares the answer with
BLOCK_PAIRS = 250_000  # of texts, given to a similarity at once

REASONS = {
    "samples": "needs samples; give them under 'samples'",
    "beams": "needs beams; give them under 'beams'",
    "answer.logprob": "needs the answer's log-probability; give answer.logprob or answer.token_logprobs",
    "answer.length": "needs the answer's number of tokens; give answer.token_logprobs or answer.tokens",
    "answer.mean_entropy": "needs the entropy at each token; give answer.token_entropies",
    "answer.p_true_logprob": "needs the model's own judgement; give answer.p_true_logprob",
    "answer.ccp": "needs NLI labels of alternative tokens, which only a study's judgements step makes",
    "token_sar": "needs the relevance of every token, which only a study's judgements step makes",
    "logprob": "needs each candidate's log-probability; give logprob or token_logprobs with it",
    "weights": "needs each candidate's log-probability for its weight; give logprob or token_logprobs with it",
    "pairs.same": "needs a judgement of same meaning; give equivalence_threshold",
}


class Scores(pd.DataFrame):
    """The frame of :func:`score`; ``scores["CocoaPPL"]`` gives one method's scores, by id, higher = more uncertain."""

    @property
    def _constructor(self) -> type[Scores]:
        return Scores

    def __getitem__(self, key: Any) -> Any:
        """A column; or the scores of a method: over beams where there are any, else over samples."""
        if not isinstance(key, str) or key in self.columns or "method" not in self.columns:
            return super().__getitem__(key)
        rows = self[(self["method"] == key) & (self["setting"] == "") & self["value"].notna()]
        if rows.empty:
            reasons = self[self["method"] == key]["reason"]
            why = f": {reasons.iloc[0]}" if len(reasons) else f"; {hint(key, dict.fromkeys(self['method']))}"
            raise BeamUQError(f"{key!r}: no such column or score{why}")
        form = rows["variant"].min()  # "" before beamsearch before multinomial
        return rows[rows["variant"] == form].set_index("id")["value"].rename(key)


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
) -> Scores:
    """Score candidates with every method whose inputs are known.

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
    widest = 1 + max(max(len(item.samples), len(item.beams)) for item in records)
    block = max(1, BLOCK_PAIRS // widest**2)
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(records), block):
        members = records[start : start + block]
        compared = _Compared(scorer, members, equivalence_threshold)
        for item in members:
            known = _evidence(item, compared, temperature, epsilon, alpha)
            for *row, reason in _scores(item, chosen, known, temperature):
                found.append((item.id, *row, DIRECTION, scorer.name, reason))
    frame = Scores(found, columns=list(COLUMNS))
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


def _texts(item: QuestionRecord, kind: str) -> list[str]:
    """The answer's text, and behind it those of its candidates of a kind."""
    return [each.text.strip() for each in (item.answer, *_candidates(item, kind))]


def _candidates(item: QuestionRecord, kind: str) -> list[CandidateRecord]:
    """What a method compares the answer with: itself alone, samples as drawn, or beams by descending probability."""
    if kind == "answer":
        return [item.answer]
    return item.samples if kind == "samples" else by_probability(item.beams)


class _Compared:
    """What a similarity says of every ordered pair of texts that a method may ask for, each pair once."""

    def __init__(self, similarity: Similarity, items: Sequence[QuestionRecord], threshold: float) -> None:
        sets = (_texts(item, kind) for item in items for kind in KINDS)
        pairs = {pair for texts in sets for pair in product(texts, texts)}
        self.place = {pair: place for place, pair in enumerate(sorted(pairs))}
        self.scores, self.threshold = scored(similarity.scorer, list(self.place)), threshold

    def pairs(self, texts: Sequence[str]) -> Pairs:
        """All pairs of these texts, the answer's first."""
        place = np.array([[[self.place[pair] for pair in product([one], texts)] for one in texts]])
        similarity = self.scores.entail[place]
        contradiction, same = 1.0 - similarity, similarity >= self.threshold
        if self.scores.neutral is not None and self.scores.contradict is not None:
            contradiction = self.scores.contradict[place]
            same = (similarity > self.scores.neutral[place]) & (similarity > contradiction)
        return Pairs(
            similarity=similarity,
            mask=np.ones((1, len(texts)), dtype=bool),
            contradiction=contradiction,
            same=same & same.transpose(0, 2, 1),
            identical=np.array([[[one == other for other in texts] for one in texts]]),
        )


def _evidence(item: QuestionRecord, compared: _Compared, T: float, epsilon: float, alpha: float) -> dict[str, Evidence]:
    """What is known of one question, by what a method looks at; what nobody gave is ``UNKNOWN``."""

    def known(value: float | None) -> Array:
        return UNKNOWN if value is None else np.array([value])

    given, entropies = item.answer, item.answer.token_entropies
    answer = Answer(
        logprob=known(given.total),
        length=UNKNOWN if given.length is None else np.array([given.length]),
        mean_entropy=known(None if entropies is None else float(np.mean(entropies))),
        p_true_logprob=known(given.p_true_logprob),
    )
    found = {}
    for kind in KINDS:
        candidates, texts = _candidates(item, kind), _texts(item, kind)
        if not candidates:
            continue
        mask = np.ones((1, len(candidates)), dtype=bool)
        logprob = np.array([[each.total for each in candidates]], dtype=np.float64)  # NaN where it is not known
        whole = not np.isnan(logprob).any()
        weights: Array = UNKNOWN
        if kind == "samples" and T == 1:
            weights = candidate_weights.uniform(mask)
        elif whole and kind == "samples":
            weights = candidate_weights.temperature(logprob, mask, T)
        elif whole:
            weights = candidate_weights.restricted_mass(logprob, mask, epsilon)
        pairs = compared.pairs(texts)
        found[kind] = Evidence(
            answer=answer,
            logprob=logprob if whole else UNKNOWN,
            mask=mask,
            weights=weights,
            pairs=pairs,
            texts=np.array([texts], dtype=object),
            sentence_similarity=pairs.similarity[:, 1:, 1:],
            alpha=alpha,
        )
    return found


def _scores(
    item: QuestionRecord, methods: Sequence[Method], known: Mapping[str, Evidence], T: float
) -> Iterator[tuple[Any, ...]]:
    """Every method in every form; over samples in its further formulations too, as a study's main line has them.

    Each is method, variant, setting, value, low and high (NaN where there is none), range, and why there is no value.
    """
    for method in methods:
        for variant in method.variants:
            kind = "beams" if variant == "beamsearch" else "answer" if method.scope == "answer" else "samples"
            for setting in ("", *method.formulations) if kind == "samples" else ("",):
                formulation = method.formulation(setting)
                missing = missing_part(formulation.needs, known[kind]) if kind in known else kind
                value, low, high, reason = np.nan, np.nan, np.nan, ""
                if missing:
                    reason = REASONS.get(missing, f"needs {missing}, which only a study holds")
                    if missing in ("answer.logprob", "answer.length", "logprob", "weights"):
                        reason += _left_out([item.answer] if missing.startswith("answer.") else _candidates(item, kind))
                else:
                    value = compute(method, known[kind], setting).item()
                    if kind == "beams" or (kind == "samples" and T == 1):
                        low, high = _interval(method.name, known[kind], drawn=kind == "samples")
                yield method.name, variant, setting, value, low, high, formulation.range, reason


def _left_out(candidates: Sequence[CandidateRecord]) -> str:
    """Why one of them has no log-probability, as far as it says so, in brackets; else empty."""
    return next((f" ({each.left_out})" for each in candidates if each.total is None and each.left_out), "")


def _interval(method: str, evidence: Evidence, *, drawn: bool) -> tuple[float, float]:
    """The certified interval of a method that is linear in U or a mean over pairs; NaN of any other.

    Beams are distinct outcomes, as their column says. Of draws of one text only the most probable counts: they may be
    one outcome drawn twice.
    """
    if evidence.logprob is UNKNOWN or method not in (*FACTORS, "DegreeMatrix"):
        return np.nan, np.nan
    outcomes, logprob = evidence.mask, evidence.logprob
    if drawn:
        rising = sorted(range(logprob.shape[1]), key=lambda place: (logprob[0, place], -place))
        of_text = {evidence.texts[0, 1 + place]: place for place in rising}
        outcomes = np.isin(np.arange(len(rising)), list(of_text.values()))[None]
    if np.exp(logprob[outcomes]).sum() > 1 + ROUNDING:
        return np.nan, np.nan  # no distinct outcomes have such probabilities
    if method == "DegreeMatrix":
        low, high = certified_pair_interval(logprob, 1.0 - evidence.among, outcomes)
    else:
        factor = FACTORS[method](evidence.answer)
        low, high = (factor * end for end in certified_interval(logprob, 1.0 - evidence.to_produced, outcomes))
    return low.item(), high.item()
