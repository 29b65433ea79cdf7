"""Quality of an answer: words shared with a reference, exact match, AlignScore, the gold option."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from beamuq import plugins
from beamuq.array_types import Floats
from beamuq.errors import BeamUQError, hint
from beamuq.folded_words import Words, folded_readings, normalize_folded
from beamuq.scorers.alignscore import AlignScore
from beamuq.scorers.named_options import GOLD_LABEL, named_options
from beamuq.text_normalization import clean, normalize_squad, normalize_triviaqa
from beamuq.unicode_folding import fold

if TYPE_CHECKING:
    import torch

Normalizer = Callable[[str], str]
Readings = list[tuple[Words, Words]]


@dataclass(frozen=True)
class AnswerRule:
    """How an answer is compared with a reference; called with a text, the text's normal form.

    ``normalize``: that form, which AlignScore reads. ``readings``: the words of answer and
    reference whose best F1 or containment counts; ``exact``: those of which one pair must be equal.
    ``bare``: what is left of a text that has no words, to be compared as it is.
    """

    normalize: Normalizer
    readings: Callable[[str, str], Readings]
    exact: Callable[[str, str], Readings]
    bare: Normalizer

    def __call__(self, text: str) -> str:
        return self.normalize(text)


def _cleaned(text: str) -> str:
    return clean(text).casefold()


def _folded(text: str) -> str:
    return fold(text).casefold().strip()


def _rule_of(normalize: Normalizer) -> AnswerRule:
    """As a dataset of the paper is compared: exactly by this normal form, by F1 as SQuAD does."""

    def exact(answer: str, reference: str) -> Readings:
        return [(tuple(normalize(answer).split()), tuple(normalize(reference).split()))]

    return AnswerRule(normalize, _squad_words, exact, _cleaned)


def _squad_words(answer: str, reference: str) -> Readings:
    return [(tuple(normalize_squad(answer).split()), tuple(normalize_squad(reference).split()))]


FOLDED = "folded"
NORMALIZERS: dict[str, AnswerRule] = {
    FOLDED: AnswerRule(normalize_folded, folded_readings, folded_readings, _folded),
    "squad": _rule_of(normalize_squad),
    "triviaqa": _rule_of(normalize_triviaqa),
    "coqa": _rule_of(normalize_squad),
}
"""``folded`` is the rule of one's own questions; the others are those of the paper (D17)."""


@dataclass(frozen=True)
class Learned:
    """The files and settings of a learned metric, None for others; the options of the questions.

    ``options``: those of each answer's question, in the order shown; empty where it is no multiple
    choice.
    """

    model: Path | None = None
    backbone: Path | None = None
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    cache: Path | None = None
    options: Sequence[Sequence[str]] = ()


References = Sequence[Sequence[str]]
Metric = Callable[[Sequence[str], References, Normalizer, Learned], Floats]


def answer_f1(answer: str, references: Sequence[str], normalizer: str = FOLDED) -> float:
    """max(token F1, whole reference in the answer), best over references; in [0, 1].

    F1 counts a word as often as both have it. A reference is in the answer if its words are a
    contiguous run of the answer's. An empty answer scores 0. A reference without words (under
    SQuAD's rule nothing but articles and punctuation) counts as right only when both are the same
    text but for case.

    ``normalizer``: what words are, a key of ``NORMALIZERS``. ``folded``:
    :mod:`beamuq.folded_words`, numbers by their value and symbols kept. ``squad``, ``triviaqa``,
    ``coqa``: SQuAD's, which drops signs, points and symbols.

    Raises BeamUQError if the name is unknown, or the references are one text or none.
    """
    rule = _rule(normalizer)
    _check_references(references)
    return max(_token_f1(answer, reference, rule) for reference in references)


def exact_match(
    answer: str, references: Sequence[str], normalize: Normalizer | str = FOLDED
) -> float:
    """1 if the answer equals a reference after normalisation, else 0. An empty answer scores 0.

    ``normalize``: a key of ``NORMALIZERS``, or a function from a text to its normal form.

    Raises BeamUQError if the name is unknown, or the references are one text.
    """
    rule = _rule(normalize)
    if isinstance(references, str):
        _check_references(references)
    return float(any(_same(answer, reference, rule) for reference in references))


def gold_label(answer: str, references: Sequence[str], options: Sequence[str]) -> float:
    """1 if the answer names one option alone and it is the gold one, the reference; else 0."""
    named = named_options(answer, options)
    return float(len(named) == 1 and options[named.pop()] in references)


def have_option(references: Sequence[str], options: Sequence[str]) -> bool:
    """Whether a reference is an option word for word; where none is, every answer would be wrong.

    The others may be further spellings, which other metrics read.
    """
    return any(reference in options for reference in references)


def _rule(normalize: Normalizer | str) -> AnswerRule:
    if isinstance(normalize, str):
        if normalize not in NORMALIZERS:
            raise BeamUQError(
                f"quality normalizer: unknown name {normalize!r}; {hint(normalize, NORMALIZERS)}"
            )
        return NORMALIZERS[normalize]
    return normalize if isinstance(normalize, AnswerRule) else _rule_of(normalize)


def _check_references(references: Sequence[str]) -> None:
    if isinstance(references, str):
        raise BeamUQError(f"references: {references!r:.60}: a text; give a list of right answers")
    if not references:
        raise BeamUQError("references: none; give at least one right answer")


def _token_f1(answer: str, reference: str, rule: AnswerRule) -> float:
    best = 0.0
    for words, target in rule.readings(answer, reference):
        if words and target:
            best = max(best, _overlap(words, target))
        else:
            best = max(best, float(_same_words(answer, reference, words, target, rule)))
    return best


def _overlap(words: Words, target: Words) -> float:
    """1 if the target is a contiguous run of the words, else F1."""
    starts = range(len(words) - len(target) + 1)
    if any(words[start : start + len(target)] == target for start in starts):
        return 1.0
    shared = (Counter(words) & Counter(target)).total()
    return 2 * shared / (len(words) + len(target))


def _same(answer: str, reference: str, rule: AnswerRule) -> bool:
    readings = rule.exact(answer, reference)
    return any(_same_words(answer, reference, words, target, rule) for words, target in readings)


def _same_words(answer: str, reference: str, words: Words, target: Words, rule: AnswerRule) -> bool:
    if words or target:
        return words == target
    bare = rule.bare(answer)
    return bool(bare) and bare == rule.bare(reference)


def _answer_f1(
    answers: Sequence[str], references: References, normalize: Normalizer, _: Learned
) -> Floats:
    rule = _rule(normalize)
    best = []
    for answer, texts in zip(answers, references, strict=True):
        best.append(max(_token_f1(answer, reference, rule) for reference in texts))
    return np.array(best, np.float64)


def _exact(
    answers: Sequence[str], references: References, normalize: Normalizer, _: Learned
) -> Floats:
    return np.array(
        [exact_match(*pair, normalize) for pair in zip(answers, references, strict=True)],
        np.float64,
    )


def _align(
    answers: Sequence[str], refs: References, normalize: Normalizer, learned: Learned
) -> Floats:
    if (
        learned.model is None
        or learned.backbone is None
        or learned.dtype is None
        or learned.device is None
    ):
        raise BeamUQError(
            "quality alignscore: needs --model (the checkpoint) and --backbone (config and "
            "tokenizer)"
        )
    scorer = AlignScore(
        learned.model,
        learned.backbone,
        dtype=learned.dtype,
        device=learned.device,
        cache=learned.cache,
    )
    contexts: list[str] = []
    claims: list[str] = []
    starts: list[int] = []  # of each answer's claims
    for answer, texts in zip(answers, refs, strict=True):
        distinct = list(dict.fromkeys(normalize(reference) for reference in texts))
        starts.append(len(claims))
        contexts += [normalize(answer)] * len(distinct)
        claims += distinct
    best: Floats = np.maximum.reduceat(scorer.score(contexts, claims), starts)
    return best


def _gold(
    answers: Sequence[str], references: References, _: Normalizer, learned: Learned
) -> Floats:
    if not learned.options or not all(learned.options):
        raise BeamUQError(
            "quality gold_label: a question has no options; list multiple-choice sets as its "
            "datasets"
        )
    for number, (texts, listed) in enumerate(zip(references, learned.options, strict=True)):
        if not have_option(texts, listed):
            raise BeamUQError(
                f"quality gold_label: answer {number}: reference {texts[0]!r:.60}: none of its "
                "options; give the option's text"
            )
    return np.array(
        [gold_label(*row) for row in zip(answers, references, learned.options, strict=True)],
        np.float64,
    )


QUALITY: dict[str, Metric] = {
    "answer_f1": _answer_f1,
    "exact_match": _exact,
    "alignscore": _align,
    GOLD_LABEL: _gold,
}
LEARNED = frozenset({"alignscore"})


def quality_values(
    metric: str,
    answers: Sequence[str],
    references: References,
    normalizer: str,
    learned: Learned | None = None,
) -> Floats:
    """Quality of each answer against its references, shape (A,), in [0, 1], higher is better.

    ``metric`` is a key of ``QUALITY``, or ``module:attribute`` of your own ``Metric``. The
    ``normalizer`` is a key of ``NORMALIZERS``: ``folded``, ``squad``, ``triviaqa`` or ``coqa``;
    under the last three ``answer_f1`` uses SQuAD's.

    Raises BeamUQError if a name is unknown, an answer has no reference, a model or options are
    missing, no reference of ``gold_label`` is an option, or a metric of your own fails or gives
    anything but one number in [0, 1] per answer.
    """
    measure = plugins.find("quality metric", metric, QUALITY)
    rule = _rule(normalizer)
    for number, texts in enumerate(references):
        if not texts:
            raise BeamUQError(f"quality {metric}: answer {number} has no reference")
    what = f"quality metric {metric!r}"
    values = plugins.call(what, measure, answers, references, rule, learned or Learned())
    return np.clip(plugins.numbers(what, values, (len(answers),), 0.0, 1.0), 0.0, 1.0)
