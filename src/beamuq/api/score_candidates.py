"""Every method on anyone's candidates, with the reason where one cannot be had.

Each question is scored alone, by the functions that a study's cells are scored by. What nobody gave
is unknown in the evidence. A method declares what it needs, one from outside the package too: where
that is unknown there is no score, and the reason is told.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq import __version__
from beamuq.api.candidate_records import (
    LABELS,
    ROUNDING,
    CandidateRecord,
    QuestionRecord,
    Records,
    by_probability,
    read_records,
)
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.api.paired_columns import check_order, group_column, number_column
from beamuq.api.rows import Rows, check_settings
from beamuq.api.score_series import ScoreSeries, score_series
from beamuq.errors import BeamUQError, hint
from beamuq.evaluation.bootstrap import Estimate, estimate, resample_blocks
from beamuq.evaluation.prr_and_auc import Judged, measure_blocks, why_undefined
from beamuq.log_space_sums import Array
from beamuq.methods import candidate_weights
from beamuq.methods.dissimilarity_estimators import certified_interval, certified_pair_interval
from beamuq.methods.method_inputs import UNKNOWN, Answer, Evidence, Pairs, missing_part
from beamuq.methods.registry import DIRECTION, FACTORS, METHODS, Method, compute, resolve
from beamuq.scorers.scorer_protocol import scored

FOUND = (
    "method",
    "variant",
    "setting",
    "value",
    "low",
    "high",
    "confidence",
    "range",
    "reason",
    "note",
    "candidates",
)
COLUMNS = ("id", *FOUND[:8], "direction", "similarity", *FOUND[8:], "scored_with", "version")
KINDS = ("answer", "samples", "beams")  # what a method compares the answer with
BLOCK_PAIRS = 250_000  # of texts, given to a similarity at once
SUMS = (
    "answer.logprob",
    "answer.length",
    "logprob",
    "weights",
)  # needs in which a left out ending is missing
MINUS_LOG_P = ("Prob", "PTrue")  # the scores that are −log of a probability
WITHOUT_ENDING = (
    "without the ending's log-probability, which the server left out: not p of the text"
)

REASONS = {
    "samples": "needs samples; give them under 'samples'",
    "beams": "needs beams; give them under 'beams'",
    "answer.logprob": (
        "needs the answer's log-probability; give answer.logprob or answer.token_logprobs"
    ),
    "answer.length": (
        "needs the answer's number of tokens; give answer.token_logprobs or answer.tokens"
    ),
    "answer.mean_entropy": "needs the entropy at each token; give answer.token_entropies",
    "answer.p_true_logprob": "needs the model's own judgement; give answer.p_true_logprob",
    "answer.ccp": (
        "needs NLI labels of alternative tokens, which only a study's judgements step makes"
    ),
    "token_sar": "needs the relevance of every token, which only a study's judgements step makes",
    "logprob": "needs each candidate's log-probability; give logprob or token_logprobs with it",
    "weights": (
        "needs each candidate's log-probability for its weight; give logprob or token_logprobs "
        "with it"
    ),
    "pairs.same": "needs a judgement of same meaning; give equivalence_threshold",
}


class Scores(pd.DataFrame):
    """The frame of :func:`score`; ``scores["CocoaPPL"]`` gives one method's scores, by id, higher =
    more uncertain.
    """

    @property
    def _constructor(self) -> type[Scores]:
        return Scores

    def __getitem__(self, key: Any) -> Any:
        """A column; or the scores of a method: over beams where there are any, else over
        samples.
        """
        if not isinstance(key, str) or key in self.columns or "method" not in self.columns:
            return super().__getitem__(key)
        return self.scores_of(key)

    def scores_of(self, method: str, form: str | None = None, setting: str = "") -> ScoreSeries:
        """The scores of a method in one form, by id, with what ``Calibration`` compares; without
        those of no value.

        ``form``: ``multinomial`` (over samples), ``beamsearch`` or, of a method in one form, "";
        without it over beams where there are any, else over samples. ``setting``: a further
        formulation.

        Raises BeamUQError naming the method, if it has no such score.
        """
        of_method = self[self["method"] == method]
        rows = of_method[(of_method["setting"] == setting) & of_method["value"].notna()]
        if form is not None:
            rows = rows[rows["variant"] == form]
        if rows.empty:
            if of_method.empty:
                raise BeamUQError(
                    f"{method!r}: no such column or score; "
                    f"{hint(method, dict.fromkeys(self['method']))}"
                )
            reasons = [reason for reason in of_method["reason"] if reason]
            asked = f" of form {form!r}" if form is not None else ""
            asked += f" of setting {setting!r}" if setting else ""
            raise BeamUQError(
                f"{method!r}: no such column or score{asked}: "
                f"{reasons[0] if reasons else 'not scored'}"
            )
        chosen = rows["variant"].min()  # "" before beamsearch before multinomial
        return score_series(rows[rows["variant"] == chosen], method)


def score(
    rows: Rows | Records,
    *,
    similarity: str | Similarity = "auto",
    methods: str | Sequence[str] | None = None,
    temperature: float = 1.0,
    epsilon: float = 0.0,
    alpha: float = 0.9,
    equivalence_threshold: float = 0.8,
    without_ending: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 1,
) -> Scores:
    """Score anyone's candidates: what a model answered, and what else it might have said.

    A row is a question with its answer and samples, beams or both; with log-probabilities, as far
    as they are known. Every method that the rows allow gives a score; what has none is told with
    the reason.

    Parameters
    ----------
    rows
        A .jsonl, .json or .parquet file, a question a row; in Python mappings or a frame too, with
        the keys of beamuq.api.candidate_records.QuestionRecord.
    similarity
        auto, lexical, minilm, nli:MODEL, cross_encoder:MODEL, embedding:MODEL or module:attribute.
    methods
        Names of methods between commas, or a list; module:attribute for one of your own; without it
        all there are.
    temperature
        At which the samples were drawn. Their weights are p^(1 − 1/T), so 1/M each at 1.
    epsilon
        Mass floor of the beams' weights, 0 to 1.
    alpha
        Eigenvalue threshold of Eccentricity and EigVecDissimilarity, above 0, at most 2.
    equivalence_threshold
        From which similarity on two texts mean the same, in (0, 1], for a similarity without
        classes.
    without_ending
        Where a server left out only the ending's log-probability, take the sum of the others; such
        scores have a note and no certified interval.
    device
        Of models; auto: cuda where there is one.
    dtype
        Of models; auto: of similarities float32, of the model bfloat16 on cuda and float32 on a
        CPU.
    threads
        Of torch on a CPU, in the whole process from then on.

    Returns ------- A frame with columns id, method, variant (``multinomial`` over samples,
    ``beamsearch`` over beams, "" for a method in one form), setting (a further formulation of the
    method, mostly ""), value (missing where there is none), low and high, confidence, range,
    direction, similarity, reason (why there is no value) and note (what to know of it); how many
    candidates it was scored over, the settings and beamuq's version, by which ``decide`` knows
    scores that are not those calibrated; and those of correct, quality, group, model, model_hash
    and prompt_hash that a row has. Questions in the order given. ``scores["CocoaPPL"]`` are one
    method's, by id.

    confidence, in [0, 1]: the probability where a score is −log of one, as Prob is; 1 − value where
    a score lies in [0, 1], as Dissimilarity does; missing for other methods. No calibrated
    probability of being right.

    [low, high] holds what Dissimilarity, CocoaMSP, CocoaPPL and DegreeMatrix would be under the
    model's whole distribution, whatever was not found (docs/theory.md). It rests on distinct
    outcomes of known probability: all beams, or one sample of each text; missing where one of them
    has no log-probability, and of samples at T ≠ 1.

    Raises BeamUQError in one line: a bad row, an unknown method, similarity or model.

    Examples
    --------
    >>> rows = [{"answer": "Rome", "samples": ["Rome", "Milan"]}]
    >>> scores = beamuq.score(rows, similarity="lexical")
    >>> scores["Dissimilarity"].to_dict()
    {'1': 0.5}
    """
    check_settings(
        temperature=temperature,
        epsilon=epsilon,
        alpha=alpha,
        equivalence_threshold=equivalence_threshold,
    )
    chosen = _chosen(methods)
    records = read_records(rows, without_ending=without_ending, temperature=temperature)
    scorer = open_similarity(similarity, device=device, dtype=dtype, threads=threads)
    widest = 1 + max(max(len(item.samples), len(item.beams)) for item in records)
    block = max(1, BLOCK_PAIRS // widest**2)
    found: list[tuple[Any, ...]] = []
    for start in range(0, len(records), block):
        members = records[start : start + block]
        compared = _Compared(scorer, members, equivalence_threshold)
        for item in members:
            known = _evidence(item, compared, temperature, epsilon, alpha)
            found += [(item.id, *row) for row in _scores(item, chosen, known, temperature)]
    frame = Scores(found, columns=["id", *FOUND])
    settings = {
        "temperature": float(temperature),
        "epsilon": float(epsilon),
        "alpha": float(alpha),
        "equivalence_threshold": float(equivalence_threshold)
        if compared.scores.neutral is None
        else None,
        "without_ending": without_ending,
        "similarity": scorer.content,
    }
    frame = frame.assign(
        direction=DIRECTION,
        similarity=scorer.name,
        scored_with=json.dumps(settings),
        version=__version__,
    ).reindex(columns=list(COLUMNS))
    for name in LABELS:
        labels = {item.id: getattr(item, name) for item in records}
        if any(label is not None for label in labels.values()):
            frame[name] = frame["id"].map(labels)
    return frame


def candidates_of(method: Method, variant: str) -> str:
    """Which of :data:`KINDS` a method reads in a form."""
    return (
        "beams" if variant == "beamsearch" else "answer" if method.scope == "answer" else "samples"
    )


def _chosen(methods: str | Sequence[str] | None) -> list[Method]:
    """The methods asked for, each once, in the order named."""
    if methods is None:
        return list(METHODS.values())
    names = methods.split(",") if isinstance(methods, str) else methods
    found = {
        method.name: method for name in names if name.strip() for method in [resolve(name.strip())]
    }
    if not found:
        raise BeamUQError(
            f"methods: none named; choose from {', '.join(METHODS)}, or leave the option out for "
            "all"
        )
    return list(found.values())


def _texts(item: QuestionRecord, kind: str) -> list[str]:
    """The answer's text, and behind it those of its candidates of a kind."""
    return [each.text.strip() for each in (item.answer, *_candidates(item, kind))]


def _candidates(item: QuestionRecord, kind: str) -> list[CandidateRecord]:
    """What a method compares the answer with: itself alone, samples as drawn, or beams by
    descending probability.
    """
    if kind == "answer":
        return [item.answer]
    return item.samples if kind == "samples" else by_probability(item.beams)


class _Compared:
    """What a similarity says of every ordered pair of texts that a method may ask for, each pair
    once.
    """

    def __init__(
        self, similarity: Similarity, items: Sequence[QuestionRecord], threshold: float
    ) -> None:
        sets = (_texts(item, kind) for item in items for kind in KINDS)
        pairs = {pair for texts in sets for pair in product(texts, texts)}
        self.place = {pair: place for place, pair in enumerate(sorted(pairs))}
        self.scores = scored(similarity.scorer, list(self.place))
        self.same = self.scores.same(threshold)

    def pairs(self, texts: Sequence[str]) -> Pairs:
        """All pairs of these texts, the answer's first."""
        place = np.array([[[self.place[pair] for pair in product([one], texts)] for one in texts]])
        similarity, contradict, same = (
            self.scores.entail[place],
            self.scores.contradict,
            self.same[place],
        )
        return Pairs(
            similarity=similarity,
            mask=np.ones((1, len(texts)), dtype=bool),
            contradiction=1.0 - similarity if contradict is None else contradict[place],
            same=same & same.transpose(0, 2, 1),
            identical=np.array([[[one == other for other in texts] for one in texts]]),
        )


def _evidence(
    item: QuestionRecord, compared: _Compared, T: float, epsilon: float, alpha: float
) -> dict[str, Evidence]:
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
        logprob = np.array(
            [[each.total for each in candidates]], dtype=np.float64
        )  # NaN where it is not known
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
    """Every method in every form; over samples in its further formulations too, as a study's main
    line has them.

    Each is what :data:`FOUND` names; a number that there is none of is NaN.
    """
    for method in methods:
        for variant in method.variants:
            kind = candidates_of(method, variant)
            count = 0 if kind == "answer" else len(_candidates(item, kind))
            for setting in ("", *method.formulations) if kind == "samples" else ("",):
                formulation = method.formulation(setting)
                missing = missing_part(formulation.needs, known[kind]) if kind in known else kind
                value, low, high, reason, note = math.nan, math.nan, math.nan, "", ""
                if missing:
                    reason = REASONS.get(missing, f"needs {missing}, which only a study holds")
                    of = _summed(item, missing, kind, T)
                    left_out = next(
                        (each.left_out for each in of if each.total is None and each.left_out), None
                    )
                    reason += f" ({left_out})" if left_out else ""
                else:
                    value = compute(method, known[kind], setting).item()
                    summed = [
                        each for need in formulation.needs for each in _summed(item, need, kind, T)
                    ]
                    note = WITHOUT_ENDING if any(each.without_ending for each in summed) else ""
                    whole = not any(
                        each.without_ending for each in (item.answer, *_candidates(item, kind))
                    )
                    if whole and (kind == "beams" or (kind == "samples" and T == 1)):
                        low, high = _interval(method.name, known[kind], drawn=kind == "samples")
                confidence = _confidence(method.name, formulation.range, value)
                row = method.name, variant, setting, value, low, high, confidence, formulation.range
                yield (*row, reason, note, count)


def _summed(item: QuestionRecord, need: str, kind: str, T: float) -> list[CandidateRecord]:
    """The records whose sums of log-probabilities a need of a method reads."""
    if need not in SUMS or (need == "weights" and kind == "samples" and T == 1):
        return []
    return [item.answer] if need.startswith("answer.") else _candidates(item, kind)


def _confidence(method: str, scores_range: str, value: float) -> float:
    """In [0, 1], higher = more certain: p where a score is −log p, 1 − value where it lies in [0,
    1]; else NaN.
    """
    if method in MINUS_LOG_P:
        return math.exp(-value)
    return min(max(1 - value, 0.0), 1.0) if scores_range == "[0, 1]" else math.nan


def _interval(method: str, evidence: Evidence, *, drawn: bool) -> tuple[float, float]:
    """The certified interval of a method that is linear in U or a mean over pairs; NaN of any
    other.

    Beams are distinct outcomes, as their column says. Of draws of one text only the most probable
    counts: they may be one outcome drawn twice.
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
        low, high = (
            factor * end
            for end in certified_interval(logprob, 1.0 - evidence.to_produced, outcomes)
        )
    return low.item(), max(
        low, high
    ).item()  # of a mass that rounding puts above 1 they cross by as little


def prr(
    scores: npt.ArrayLike,
    quality: npt.ArrayLike,
    *,
    groups: Sequence[object] | None = None,
    max_rejection: float = 0.5,
    resamples: int = 1000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Estimate:
    """The prediction–rejection ratio of uncertainty scores, with a bootstrap interval (section 4 of
    the paper).

    Parameters
    ----------
    scores, quality
        [N], higher = more uncertain; how right each answer is, higher = better.
    groups
        [N], what belongs together (a story, a user) and is resampled together; None: each answer on
        its own.
    max_rejection
        The area goes to this share of rejected answers.
    resamples, confidence, seed
        Of the percentile bootstrap.

    Returns ------- value, low, high and std: at most 1, 0 for a random order, negative for a worse
    one; None where undefined (constant quality), and ``note`` says why.

    Raises BeamUQError if lengths or the order of two series differ, or a score or quality is
    missing or not finite.

    Examples
    --------
    >>> beamuq.prr([0.9, 0.2, 0.7, 0.1], [0, 1, 0, 1]).value
    1.0
    """
    check_order(scores=scores, quality=quality, groups=groups)
    u = number_column("scores", scores)
    q = number_column("quality", quality, truth_values=True)
    units = [str(place) for place in range(len(u))] if groups is None else group_column(groups)
    if not len(u) == len(q) == len(units):
        counted = f"scores: {len(u)}, quality: {len(q)}" + (
            "" if groups is None else f", groups: {len(units)}"
        )
        raise BeamUQError(f"{counted}; give one of each per answer")
    for name, column in (("scores", u), ("quality", q)):
        missing = np.flatnonzero(np.isnan(column))
        if len(missing):
            raise BeamUQError(
                f"{name}: row {missing[0] + 1}: missing; leave this answer out of both"
            )
    if why := why_undefined("PRR", q, max_rejection):
        return Estimate(None, None, None, None, why)
    blocks = resample_blocks(units, resamples, seed, "prr")
    values = measure_blocks([u], [Judged(q)], blocks, ["PRR"], [max_rejection])[0][0]["PRR"]
    return estimate(float(values[0]), values[1:], confidence)
