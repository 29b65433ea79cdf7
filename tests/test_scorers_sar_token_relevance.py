"""SAR's token relevances: answers without one token, and what a scorer says of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiny_scorers
from beamuq.decoding import candidate_text, token_texts
from beamuq.scorers.judgements import token_relevances, without_each_token
from beamuq.scorers.scorer_protocol import PairScores
from beamuq.scorers.similarity_by_kind import load_scorer
from beamuq.text_normalization import clean
from tiny import CPU, tiny_model

TOKENIZER = tiny_model("llama")[1]
END, TURN_END = 1, 3
QUESTIONS = {"q1": "Which river?", "q2": "Who?"}


class Counting:
    """s = length of the shorter sentence over that of the longer one: easy to work out by hand."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def score(self, pairs: Any) -> PairScores:
        self.asked += pairs
        return PairScores(
            np.array([min(map(len, pair)) / max(map(len, pair)) for pair in pairs], dtype=float)
        )


class ShortReader:
    """A scorer that reads whole texts of question q1 alone, and says so."""

    def score(self, pairs: Any) -> PairScores:
        are_cut = np.array([QUESTIONS["q1"] not in text for text, _ in pairs], dtype=bool)
        return PairScores(np.ones(len(pairs)), cut=are_cut, limit=2)


def ids_of(text: str) -> list[int]:
    return list(TOKENIZER(text, add_special_tokens=False).input_ids)


def candidate(token_ids: list[int], *, terminated: bool = True, id: str = "q1") -> dict[str, Any]:
    text = clean(
        candidate_text(
            TOKENIZER, token_ids, frozenset(token_ids[-1:]) if terminated else frozenset()
        )
    )
    return {"id": id, "text": text, "token_ids": token_ids, "terminated": terminated}


def relevances(*candidates: dict[str, Any], scorer: Any = None) -> list[list[float]]:
    return token_relevances(candidates, QUESTIONS, TOKENIZER, scorer or Counting())


def test_a_token_matters_as_much_as_question_and_answer_change_without_it() -> None:
    ids = [*ids_of("a"), *ids_of("b"), *ids_of("c"), END]
    assert len(ids) == 4
    judge = Counting()
    # "Which river? abc" has 16 characters, without one of them 15; the terminator says nothing.
    assert relevances(candidate(ids), scorer=judge) == [[pytest.approx(1 / 16)] * 3 + [0.0]]
    whole = "Which river? abc"
    assert judge.asked == [
        (whole, "Which river? bc"),
        (whole, "Which river? ac"),
        (whole, "Which river? ab"),
    ]


def test_questions_are_named_whose_answers_the_scorer_reads_in_part() -> None:
    ids = ids_of(" the Seine")
    told = r"SAR's model reads 2 tokens at a time: 1 of 2 questions \(first: 'q2'\)"
    with pytest.warns(UserWarning, match=told):
        relevances(candidate(ids), candidate(ids, id="q2"), scorer=ShortReader())


def test_there_is_one_relevance_a_token_and_0_at_the_terminator_only() -> None:
    ids = ids_of(" the Seine")
    ended, cut = relevances(candidate([*ids, TURN_END]), candidate(ids, terminated=False))
    assert ended == [*cut, 0.0]
    assert len(cut) == len(ids)
    assert min(cut) > 0


def test_one_token_is_compared_with_the_bare_question_and_an_empty_answer_with_nothing() -> None:
    judge = Counting()
    assert relevances(candidate([*ids_of("x"), END]), scorer=judge) == [
        [pytest.approx(2 / 14), 0.0]
    ]
    assert relevances(candidate([END]), scorer=judge) == [[0.0]]
    assert judge.asked == [("Which river? x", "Which river?")]


def test_a_stop_that_ends_a_sentence_keeps_its_full_stop_and_has_no_relevance() -> None:
    stop = TOKENIZER.convert_tokens_to_ids(".\n")
    ids = [*ids_of("a"), *ids_of("b"), stop]
    assert candidate(ids)["text"] == "ab."
    assert without_each_token(TOKENIZER, ids, True) == ["b.", "a."]
    assert relevances(candidate(ids))[0][-1] == 0.0


def test_a_character_of_two_tokens_survives_the_loss_of_another_token() -> None:
    ids = [*ids_of("x"), *ids_of("é"), END]
    assert len(ids) == 4
    assert "é" not in "".join(
        token_texts(TOKENIZER, ids)
    )  # so texts cannot be joined from their tokens' own
    assert without_each_token(TOKENIZER, ids, True)[0] == "é"


def test_repeated_answers_are_asked_about_once_and_questions_are_kept_apart() -> None:
    judge = Counting()
    same = candidate([*ids_of("ab"), END])
    other = candidate([*ids_of("ab"), TURN_END])  # the same answer, ended otherwise
    elsewhere = candidate([*ids_of("ab"), END], id="q2")
    found = relevances(same, same, other, elsewhere, scorer=judge)
    assert found[0] == found[1] == found[2] != found[3]
    assert len(judge.asked) == len(set(judge.asked)) == 2 * len(found[0][:-1])


def test_questions_longer_than_the_scorer_reads_make_few_rows(tmp_path: Path) -> None:
    scorer: Any = load_scorer("cross_encoder", tiny_scorers.build_cross_encoder(tmp_path), **CPU)
    answers = [
        candidate([*ids_of(text), END])
        for text in (" the Seine", " William Shakespeare", " a tree")
    ]
    with pytest.warns(UserWarning, match="only the beginnings were read"):
        found = token_relevances(answers, {"q1": "why oh why " * 100}, TOKENIZER, scorer)
    assert sum(map(len, found)) > 10
    assert scorer.scored == 1
    inside = [value for of_answer in found for value in of_answer[:-1]]
    assert len(set(inside)) == 1  # the scorer's own value for two equal texts, not a forced one


def test_relevances_do_not_depend_on_company_or_cache(tmp_path: Path) -> None:
    folder = tiny_scorers.build_cross_encoder(tmp_path / "model")
    answers = [candidate([*ids_of(text), END]) for text in (" the Seine", " Paris", " no", "")]

    def scored(*of: dict[str, Any], cache: Path | None = None) -> list[list[float]]:
        return relevances(*of, scorer=load_scorer("cross_encoder", folder, cache=cache, **CPU))

    together = scored(*answers)
    assert [scored(one, cache=tmp_path / "cache")[0] for one in answers[::-1]] == together[::-1]
    assert scored(*answers, cache=tmp_path / "cache") == together
    assert np.ptp([value for of_answer in together for value in of_answer[:-1]]) > 1e-3
    assert all(0 <= value <= 1 for of_answer in together for value in of_answer)


def test_an_answer_of_several_lines_is_left_whole_without_a_token_where_newlines_end_none() -> None:
    ids = [*ids_of("a"), *ids_of("\n"), *ids_of("b"), END]
    assert without_each_token(TOKENIZER, ids, True, newline=False) == ["b", "ab", "a"]
    assert without_each_token(TOKENIZER, ids, True) == ["", "ab", "a"]
    judge = Counting()
    whole = {"id": "q1", "text": "a\nb", "token_ids": ids, "terminated": True}
    token_relevances([whole], QUESTIONS, TOKENIZER, judge, newline=False)
    assert judge.asked[0] == ("Which river? a\nb", "Which river? b")
