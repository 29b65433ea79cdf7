"""CCP's labels: which pairs are asked, and what becomes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from beamuq.errors import BeamUQError
from beamuq.scorers.judgements import ccp_labels, pair_labels, word_of
from beamuq.scorers.scorer_protocol import PairScores

ENTAIL, NEUTRAL, CONTRADICT = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
JUDGED = {
    ("Paris", "paris"): ENTAIL,
    ("paris", "Paris"): NEUTRAL,
    ("Paris", "Rome"): CONTRADICT,
    ("Rome", "Paris"): ENTAIL,
    ("Paris", "the"): NEUTRAL,
    ("the", "Paris"): NEUTRAL,
    ("Paris", "Paris"): CONTRADICT,
    ("", "im_end"): CONTRADICT,
    ("im_end", ""): NEUTRAL,
}


class ShortReader:
    """A judge that reads one token of the pairs of ``cut`` words, and says so."""

    def __init__(self, *cut: str) -> None:
        self.cut = cut

    def score(self, pairs: Any) -> PairScores:
        are_cut = np.array([not set(self.cut).isdisjoint(pair) for pair in pairs], dtype=bool)
        return PairScores(np.ones(len(pairs)), cut=are_cut, limit=1)


class Judge:
    """A scorer that knows ``JUDGED`` by heart, and what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def score(self, pairs: Any) -> PairScores:
        self.asked += pairs
        columns = np.array([JUDGED[pair] for pair in pairs], dtype=float).reshape(-1, 3).T
        return PairScores(*columns)


def answer(*steps: tuple[int, list[str]]) -> dict[str, Any]:
    """A candidates row of (place of the chosen alternative, texts) a step; an alternative's id is
    its place.
    """
    return {
        "id": "q",
        "strategy": "greedy",
        "token_ids": [chosen for chosen, _ in steps],
        "top_ids": [list(range(len(texts))) for _, texts in steps],
        "top_texts": [texts for _, texts in steps],
    }


# Step 1 chooses " Paris": "paris" entails one way and is neutral the other: entail; "Rome"
# contradicts one way and entails the other: neutral; " the" is neutral both ways. Step 2 is the
# terminator, chosen though it stands last.
ANSWER = answer((0, [" Paris", "paris.", "Rome", " the"]), (1, ["<|im_end|>", "\n"]))
LABELS = [["entail", "entail", "neutral", "neutral"], ["contradict", "entail"]]


def test_questions_are_named_whose_words_the_judge_reads_in_part() -> None:
    answers = [answer((0, ["Rome", "Oslo"])) | {"id": "short"}, ANSWER, ANSWER]
    told = r"CCP's model reads 1 tokens at a time: 1 of 2 questions \(first: 'q'\)"
    with pytest.warns(UserWarning, match=told):
        ccp_labels(answers, ShortReader("Paris"), 0.5)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (" Paris", "Paris"),
        ("Paris.\n", "Paris"),
        (",", ""),
        ("\n\n", ""),
        ("<|im_end|>", "im_end"),
        (" don't", "don't"),
    ],
)
def test_tokens_are_compared_without_what_surrounds_the_word(text: str, word: str) -> None:
    assert word_of(text) == word


def test_the_chosen_token_entails_wherever_it_stands_and_is_never_asked_about() -> None:
    judge = Judge()
    turned = answer((3, [" the", "Rome", "paris.", " Paris"]))
    assert ccp_labels([turned], judge, None) == [[["neutral", "neutral", "entail", "entail"]]]
    assert ("Paris", "Paris") not in judge.asked
    assert ccp_labels([answer((0, [" Paris"]))], judge, None) == [[["entail"]]]
    # another spelling of the chosen word gets the scorer's own label
    assert ccp_labels([answer((0, [" Paris", "Paris"]))], judge, None) == [
        [["entail", "contradict"]]
    ]


def test_each_pair_of_words_is_asked_once_over_the_whole_file() -> None:
    judge = Judge()
    labels = ccp_labels([ANSWER, answer((2, [" the", "Rome.", "\nParis"])), ANSWER], judge, None)
    assert labels == [LABELS, [["neutral", "neutral", "entail"]], LABELS]
    assert len(judge.asked) == len(set(judge.asked)) == 8


def test_the_most_probable_class_wins_and_a_tie_claims_nothing() -> None:
    values = np.array([(0.4, 0.3, 0.3), (0.4, 0.4, 0.2), (0.2, 0.4, 0.4), (0.4, 0.2, 0.4)]).T
    assert pair_labels(PairScores(*values), None) == ["entail", "neutral", "neutral", "contradict"]


def test_a_threshold_goes_with_a_scorer_without_classes_only() -> None:
    scores = PairScores(np.array([0.81, 0.8, 0.79, 0.0]))
    assert pair_labels(scores, 0.8) == ["entail", "entail", "contradict", "contradict"]
    with pytest.raises(BeamUQError, match="set it to null"):
        pair_labels(PairScores(*np.ones((3, 1))), 0.8)
    with pytest.raises(BeamUQError, match="needs equivalence_threshold"):
        pair_labels(PairScores(np.ones(1)), None)
