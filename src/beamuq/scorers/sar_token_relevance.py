"""SAR's token relevances: how much the meaning of question and answer changes without one token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beamuq.scorers.scorer_protocol import SimilarityScorer, scored
from beamuq.text_normalization import clean


def token_relevances(
    candidates: Sequence[Mapping[str, Any]], questions: Mapping[str, str], tokenizer: Any, scorer: SimilarityScorer
) -> list[list[float]]:
    """R_l = 1 − s(question answer, question answer without token l) of each candidate's tokens, in [0, 1].

    A terminator, which adds no meaning, gets 0; an answer in which no token matters has nothing but zeros, which
    TokenSAR reads as all alike. Higher = more relevant.

    ``questions`` are the bare ones by id: no passage, no examples. An answer without a token is what its other tokens
    decode to by the language model's ``tokenizer``, cleaned like any answer. The scorer is asked once for each distinct
    pair, over all candidates; premise is the whole answer.
    """
    cropped: dict[tuple[tuple[int, ...], bool], list[str]] = {}
    pairs_of_candidates: list[list[tuple[str, str]]] = []
    for candidate in candidates:
        key = tuple(candidate["token_ids"]), candidate["terminated"]
        if key not in cropped:
            cropped[key] = without_each_token(tokenizer, *key)
        question = questions[candidate["id"]]
        whole = _sentence(question, candidate["text"])
        pairs_of_candidates.append([(whole, _sentence(question, text)) for text in cropped[key]])
    pairs = list(dict.fromkeys(pair for of_candidate in pairs_of_candidates for pair in of_candidate))
    relevance = dict(zip(pairs, (1.0 - scored(scorer, pairs).entail).tolist(), strict=True))
    return [
        [relevance[pair] for pair in of_candidate] + [0.0] * candidate["terminated"]
        for candidate, of_candidate in zip(candidates, pairs_of_candidates, strict=True)
    ]


def without_each_token(tokenizer: Any, token_ids: Sequence[int], terminated: bool) -> list[str]:
    """The answer's text without its first token, its second, …; the terminator is never left out."""
    from beamuq.decoding import candidate_text

    stops = frozenset(token_ids[-1:]) if terminated else frozenset()
    return [
        clean(candidate_text(tokenizer, [*token_ids[:left_out], *token_ids[left_out + 1 :]], stops))
        for left_out in range(len(token_ids) - terminated)
    ]


def _sentence(question: str, answer: str) -> str:
    return f"{question} {answer}".rstrip()
