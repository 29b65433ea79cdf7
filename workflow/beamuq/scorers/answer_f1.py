"""Quality without a model: words shared with a reference, or all of a reference's words in a row (D17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from beamuq.text_normalization import clean, normalize_squad

Normalizer = Callable[[str], str]


def answer_f1(answer: str, references: Sequence[str]) -> float:
    """max(token F1, whole reference in the answer), best over references, SQuAD-normalised; in [0, 1].

    F1 counts a word as often as both have it. A reference is in the answer if its words are a contiguous run of the
    answer's. An empty answer scores 0. A reference of nothing but articles and punctuation (the answer "A") counts as
    right only when both are the same text but for case.
    """
    return max(_one(answer, reference) for reference in references)


def exact_match(answer: str, references: Sequence[str], normalize: Normalizer) -> float:
    """1 if the answer equals a reference after normalisation, else 0. An empty answer scores 0."""
    return float(any(_same(answer, reference, normalize) for reference in references))


def _one(answer: str, reference: str) -> float:
    words, wanted = normalize_squad(answer).split(), normalize_squad(reference).split()
    if not words or not wanted:
        return float(_same(answer, reference, normalize_squad))
    if any(words[start : start + len(wanted)] == wanted for start in range(len(words) - len(wanted) + 1)):
        return 1.0
    shared = (Counter(words) & Counter(wanted)).total()
    return 2 * shared / (len(words) + len(wanted))


def _same(answer: str, reference: str, normalize: Normalizer) -> bool:
    one, other = normalize(answer), normalize(reference)
    if one or other:
        return one == other
    raw = clean(answer).casefold()
    return bool(raw) and raw == clean(reference).casefold()
