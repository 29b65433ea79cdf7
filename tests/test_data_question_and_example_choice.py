"""Seeded, nested subsets; few-shot examples that are never evaluated."""

from __future__ import annotations

import pytest

from beamuq.errors import BeamUQError
from beamuq_study.data.question import Question, question
from beamuq_study.data.question_and_example_choice import (
    choose_questions,
    choose_shots,
    permutation,
)


def some(count: int, prefix: str = "q") -> list[Question]:
    return [
        question(f"{prefix}{index}", f"What is {prefix}{index}?", ["x"]) for index in range(count)
    ]


def ids(found: list[Question]) -> list[str]:
    return [item["id"] for item in found]


def test_permutation_is_the_same_in_every_version_of_numpy() -> None:
    """Philox's raw stream is guaranteed; ``Generator.permutation`` is not."""
    assert permutation(8, 1, "triviaqa", "questions").tolist() == [3, 7, 5, 2, 0, 1, 4, 6]


@pytest.mark.parametrize("other", [(2, "d", "questions"), (1, "e", "questions"), (1, "d", "shots")])
def test_seed_dataset_and_purpose_each_change_the_permutation(other: tuple[int, str, str]) -> None:
    assert permutation(50, 1, "d", "questions").tolist() != permutation(50, *other).tolist()


def test_more_than_there_are_is_refused_with_both_numbers() -> None:
    with pytest.raises(BeamUQError, match=r"datasets\.coqa\.questions: 2000 is more than the 925"):
        choose_questions(some(925), 2000, seed=1, dataset="coqa")
    with pytest.raises(BeamUQError, match=r"datasets\.d\.few_shot: 2 is more than the 0 questions"):
        choose_shots(some(5), some(5), 2, seed=1, dataset="d")


def test_examples_are_never_evaluated_even_if_case_and_spacing_differ() -> None:
    evaluated = [question("e", "  what is Q1? ", ["x"]), question("f", "What  is q2?", ["x"])]
    shots = choose_shots(some(5), evaluated, 3, seed=1, dataset="d")
    assert sorted(ids(shots)) == ["q0", "q3", "q4"]


def test_examples_are_of_different_questions() -> None:
    twice = [*some(2), question("again", "What is q0?", ["y"])]
    assert sorted(ids(choose_shots(twice, [], 2, seed=1, dataset="d"))) == ["q0", "q1"]


def test_fewer_examples_are_a_prefix_of_more() -> None:
    five = ids(choose_shots(some(40), [], 5, seed=1, dataset="d"))
    assert ids(choose_shots(some(40), [], 2, seed=1, dataset="d")) == five[:2]
