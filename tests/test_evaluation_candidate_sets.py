"""What candidates are like: lengths, redundancy, covered mass, bins of questions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import synthetic
from beamuq.errors import BeamUQError
from beamuq.evaluation.candidate_sets import CandidateSets, equal_bins, length_bins


def row(
    key: str, strategy: str, rank: int, text: str, tokens: list[int], p: float
) -> dict[str, Any]:
    return synthetic.candidate(key, strategy, rank, text, tokens, float(np.log(p)))


def sets(rows: list[Any], ids: list[str]) -> CandidateSets:
    return CandidateSets(pd.DataFrame(rows), pd.DataFrame({"id": ids, "group": ids}), "theirs")


def test_redundancy_counts_texts_not_token_sequences() -> None:
    rows = [row("a", "greedy", 0, "x", [5, 2], 0.5)]
    rows += [
        row("a", "sample", n, text, [n, 2], 0.1) for n, text in enumerate(["x", "x", "y", "x", "z"])
    ]
    found = sets(rows, ["a"])
    assert found.redundancy("sample", 4).tolist() == [0.5]  # x x y x: 4 − 2 distinct of 4
    assert found.redundancy("sample", 10).tolist() == [0.4]
    assert found.distinct("sample", 4).tolist() == [2]


def test_mass_counts_a_repeated_sequence_once_and_equal_texts_apart() -> None:
    rows = [row("a", "greedy", 0, "x", [5, 2], 0.3)]
    drawn = [("x", [5, 2], 0.3), ("x", [5, 2], 0.3), ("x", [6, 2], 0.1)]
    rows += [row("a", "sample", n, text, tokens, p) for n, (text, tokens, p) in enumerate(drawn)]
    found = sets(rows, ["a"])
    assert found.mass("sample", 10) == pytest.approx([0.4])
    assert found.mass("sample", 2) == pytest.approx([0.3])
    assert np.exp(found.log_probabilities("sample", 3)[0, :2]) == pytest.approx([0.3, 0.1])
    assert np.isnan(found.log_probabilities("sample", 3)[0, 2])


def test_order_is_that_of_the_questions_and_length_counts_the_terminator() -> None:
    rows = [row(key, "greedy", 0, key, [1] * length, 0.5) for key, length in (("a", 1), ("b", 2))]
    found = sets(rows, ["b", "a", "c"])
    assert found.ids == found.groups == ["b", "a"]
    assert found.lengths().tolist() == [2, 1]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([row("z", "greedy", 0, "x", [1], 0.5)], "theirs: id 'z' is not among the questions"),
        (
            [row("a", "greedy", 0, "x", [1], 0.5), row("b", "sample", 0, "x", [1], 0.5)],
            "id 'b' has no greedy answer",
        ),
    ],
)
def test_candidates_of_other_questions_or_without_a_greedy_answer_are_refused(
    rows: list[Any], told: str
) -> None:
    with pytest.raises(BeamUQError, match=told):
        sets(rows, ["a", "b"])


def test_absent_strategy_is_named() -> None:
    with pytest.raises(BeamUQError, match="no strategy 'beam M=10'"):
        sets([row("a", "greedy", 0, "x", [1], 0.5)], ["a"]).mass("beam M=10", 10)


def test_longest_lengths_share_the_last_bin() -> None:
    lengths = np.array([1, 2, 2, 3, 5, 8, 13])
    assert [b.title for b in length_bins(lengths, most=4)] == ["1", "2", "3", "5+"]
    assert [int(b.members.sum()) for b in length_bins(lengths, most=4)] == [1, 2, 1, 3]
    assert [b.title for b in length_bins(lengths, most=6)] == ["1", "2", "3", "5", "8", "13"]


def test_equal_bins_close_at_their_share_never_split_a_length_and_hold_every_question_once() -> (
    None
):
    assert [b.title for b in equal_bins(np.repeat(np.arange(1, 11), 2))] == [
        "1–2",
        "3–4",
        "5–6",
        "7–8",
        "9–10",
    ]
    lengths = np.array(
        [1] * 11 + [2, 3, 4, 5, 6, 7, 8, 9, 10]
    )  # 55 % of the questions have length 1: two shares
    bins = equal_bins(lengths)
    assert [(b.title, int(b.members.sum())) for b in bins] == [
        ("1", 11),
        ("2", 1),
        ("3–6", 4),
        ("7–10", 4),
    ]
    lengths = np.random.default_rng(3).integers(1, 20, size=57)
    assert np.sum([b.members for b in equal_bins(lengths)], axis=0).tolist() == [1] * 57
