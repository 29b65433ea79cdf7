"""Quality of an answer: words shared with a reference, exact match, AlignScore, the gold option."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from beamuq import plugins
from beamuq.array_types import Floats
from beamuq.errors import BeamUQError, hint
from beamuq.scorers.alignscore import AlignScore
from beamuq.scorers.named_options import GOLD_LABEL, named_options
from beamuq.text_normalization import clean, normalize_squad, normalize_triviaqa

if TYPE_CHECKING:
    import torch

Normalizer = Callable[[str], str]
NORMALIZERS: dict[str, Normalizer] = {"squad": normalize_squad, "triviaqa": normalize_triviaqa, "coqa": normalize_squad}


@dataclass(frozen=True)
class Learned:
    """The files and settings of a learned metric (None for the others), and the options of the questions.

    ``options``: those of each answer's question, in the order shown; empty where it is no multiple choice.
    """

    model: Path | None = None
    backbone: Path | None = None
    dtype: torch.dtype | None = None
    device: torch.device | None = None
    cache: Path | None = None
    options: Sequence[Sequence[str]] = ()


References = Sequence[Sequence[str]]
Metric = Callable[[Sequence[str], References, Normalizer, Learned], Floats]


def answer_f1(answer: str, references: Sequence[str]) -> float:
    """max(token F1, whole reference in the answer), best over references, SQuAD-normalised; in [0, 1].

    F1 counts a word as often as both have it. A reference is in the answer if its words are a contiguous run of the
    answer's. An empty answer scores 0. A reference of nothing but articles and punctuation (the answer "A") counts as
    right only when both are the same text but for case.
    """
    return max(_token_f1(answer, reference) for reference in references)


def exact_match(answer: str, references: Sequence[str], normalize: Normalizer) -> float:
    """1 if the answer equals a reference after normalisation, else 0. An empty answer scores 0."""
    return float(any(_same(answer, reference, normalize) for reference in references))


def gold_label(answer: str, references: Sequence[str], options: Sequence[str]) -> float:
    """1 if the one option that the answer names is the gold one, whose text is the reference; none or several: 0."""
    named = named_options(answer, options)
    return float(len(named) == 1 and options[named.pop()] in references)


def _token_f1(answer: str, reference: str) -> float:
    words, target = normalize_squad(answer).split(), normalize_squad(reference).split()
    if not words or not target:
        return float(_same(answer, reference, normalize_squad))
    if any(words[start : start + len(target)] == target for start in range(len(words) - len(target) + 1)):
        return 1.0
    shared = (Counter(words) & Counter(target)).total()
    return 2 * shared / (len(words) + len(target))


def _same(answer: str, reference: str, normalize: Normalizer) -> bool:
    text, other = normalize(answer), normalize(reference)
    if text or other:
        return text == other
    raw = clean(answer).casefold()
    return bool(raw) and raw == clean(reference).casefold()


def _answer_f1(answers: Sequence[str], references: References, _: Normalizer, __: Learned) -> Floats:
    return np.array([answer_f1(*pair) for pair in zip(answers, references, strict=True)], np.float64)


def _exact(answers: Sequence[str], references: References, normalize: Normalizer, _: Learned) -> Floats:
    return np.array([exact_match(*pair, normalize) for pair in zip(answers, references, strict=True)], np.float64)


def _align(answers: Sequence[str], refs: References, normalize: Normalizer, learned: Learned) -> Floats:
    if learned.model is None or learned.backbone is None or learned.dtype is None or learned.device is None:
        raise BeamUQError("quality alignscore: needs --model (the checkpoint) and --backbone (config and tokenizer)")
    options: dict[str, Any] = {"dtype": learned.dtype, "device": learned.device, "cache": learned.cache}
    scorer = AlignScore(learned.model, learned.backbone, **options)
    claims = [list(dict.fromkeys(normalize(reference) for reference in texts)) for texts in refs]
    contexts = [normalize(answer) for answer, texts in zip(answers, claims, strict=True) for _ in texts]
    values = scorer.score(contexts, [claim for texts in claims for claim in texts])
    return np.maximum.reduceat(values, np.cumsum([0, *map(len, claims[:-1])]))  # the best of each answer's


def _gold(answers: Sequence[str], references: References, _: Normalizer, learned: Learned) -> Floats:
    if not learned.options or not all(learned.options):
        raise BeamUQError("quality gold_label: a question has no options; list multiple-choice sets as its datasets")
    return np.array([gold_label(*row) for row in zip(answers, references, learned.options, strict=True)], np.float64)


QUALITY: dict[str, Metric] = {"answer_f1": _answer_f1, "exact_match": _exact, "alignscore": _align, GOLD_LABEL: _gold}
LEARNED = frozenset({"alignscore"})


def quality_values(
    metric: str, answers: Sequence[str], references: References, normalizer: str, learned: Learned | None = None
) -> Floats:
    """Quality of each answer against its references, shape (A,), in [0, 1], higher is better.

    ``metric`` is a key of ``QUALITY``, or ``module:attribute`` of your own ``Metric``. The
    ``normalizer`` is ``squad``, ``triviaqa`` or ``coqa``; ``answer_f1`` always uses SQuAD's.

    Raises BeamUQError if a name is unknown, an answer has no reference, a model or options are missing, or a metric of
    your own fails or gives anything but one number in [0, 1] per answer.
    """
    measure = plugins.find("quality metric", metric, QUALITY)
    if normalizer not in NORMALIZERS:
        raise BeamUQError(f"quality normalizer: unknown name {normalizer!r}; {hint(normalizer, NORMALIZERS)}")
    if not all(references):
        raise BeamUQError(f"quality {metric}: answer {[bool(r) for r in references].index(False)} has no reference")
    what = f"quality metric {metric!r}"
    values = plugins.call(what, measure, answers, references, NORMALIZERS[normalizer], learned or Learned())
    return np.clip(plugins.numbers(what, values, (len(answers),), 0.0, 1.0), 0.0, 1.0)
