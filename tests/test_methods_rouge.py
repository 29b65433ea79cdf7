"""Lexical Similarity, worked by hand."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer

from beamuq.methods.rouge import (
    lexical_similarity,
    longest_common_subsequence,
    rouge_l,
    rouge_matrix,
)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (
            "the sixth symphony",
            "sixth symphony",
            2 * (2 / 3) * 1 / (2 / 3 + 1),
        ),  # recall 2/3, precision 1
        ("a b c", "c b a", 1 / 3),  # the longest common subsequence is one word
        ("Running", "runs", 1.0),  # stemmed
        ("", "", 1.0),
        ("東京", "東京", 1.0),
        ("東京", "京都", 0.0),
        ("", "paris", 0.0),
    ],
)
def test_rouge_l(one: str, other: str, expected: float) -> None:
    assert rouge_l(one, other) == rouge_l(other, one) == pytest.approx(expected)


def test_stemming_loads_the_stemmer_alone_and_leaves_nltk_whole() -> None:
    code = (
        "import sys; from beamuq.methods.rouge import words; assert words('running') == ['run']; "
        "assert 'sklearn' not in sys.modules; "
        "import nltk; assert nltk.stem.SnowballStemmer('english').stem('running') == 'run'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lexical_similarity_averages_over_pairs() -> None:
    # pairs: rome–rome 1, rome–paris 0, rome–paris 0 → 1 − 1/3
    texts = np.array([["rome", "rome", "paris", ""]], dtype=object)
    mask = np.array([[True, True, True, False]])
    np.testing.assert_allclose(lexical_similarity(rouge_matrix(texts, mask), mask), [2 / 3])


def test_a_single_candidate_does_not_disagree_with_itself() -> None:
    mask = np.array([[True, False]])
    np.testing.assert_array_equal(lexical_similarity(np.zeros((1, 2, 2)), mask), [0.0])


TEXT = st.text("abc ", max_size=40)


@given(TEXT, TEXT)
def test_it_is_the_value_of_the_rouge_package(one: str, other: str) -> None:
    expected = RougeScorer(["rougeL"], use_stemmer=True).score(one, other)["rougeL"].fmeasure
    assert rouge_l(one, other) == expected or not (one.split() or other.split())


def test_long_texts_are_compared_in_little_memory() -> None:
    words = [str(number) for number in range(10_000)]  # a table of their subsequences takes 800 MB
    tracemalloc.start()
    assert longest_common_subsequence(words[5000:], words) == 5000
    assert tracemalloc.get_traced_memory()[1] < 20e6
    tracemalloc.stop()
