"""Cleaning and normalising texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamuq.text_normalization import clean, normalize_squad, normalize_triviaqa


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        (" Paris\nQuestion: next", "Paris"),
        ("Paris", "Paris"),
        ("<b>Paris</b> is it", "Paris"),
        ("The Answer: is Answer: 42", "42"),
        ("x<|eot_id|>y", "x"),
        ("x<end_of_turn>", "x"),
        ("a</think>b", "a"),
        ("\n\nfoo", ""),
        ("", ""),
    ],
)
def test_an_answer_is_what_is_left_of_a_generated_text(written: str, answer: str) -> None:
    assert clean(written) == answer


@given(st.text(alphabet="ab A<>|/\nnswer: ", max_size=40) | st.text(max_size=40))
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)


def test_equal_answers_are_equal_however_they_were_written() -> None:
    assert clean(" Rome\n") == clean("Answer: Rome") == clean("<strong>Rome</strong>") == "Rome"


def test_punctuation_joins_words_in_squad_and_parts_them_in_triviaqa() -> None:
    text = "The twenty-one U.S. ‘states’"
    assert normalize_squad(text) == "twentyone us ‘states’"
    assert normalize_triviaqa(text) == "twenty one u s states"


def test_articles_go_only_as_whole_words() -> None:
    assert normalize_squad("a theatre, an anthem, the banana") == "theatre anthem banana"
