"""What figures measure of candidates: lengths, redundancy, covered mass, bins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.redundancy_and_covered_mass import CandidateMeasures, equal_bins, length_bins
from beamuq.parquet_tables import Artifact

CELL = Artifact("candidates", model="m", dataset="d", recipe="main")
QUESTIONS = Artifact("questions", dataset="d")
BLANK = {"policy_logprob": None, "entropies": None, "top_ids": None, "top_texts": None, "top_logprobs": None}


def row(key: str, strategy: str, rank: int, text: str, tokens: list[int], p: float, ended: bool = True) -> Any:
    given = {"id": key, "strategy": strategy, "rank": rank, "text": text, "token_ids": tokens, "terminated": ended}
    shares = [float(np.log(p)) / len(tokens)] * len(tokens)
    return given | BLANK | {"token_texts": ["t"] * len(tokens), "token_logprobs": shares, "logprob": float(np.log(p))}


def loaded(folder: Path, rows: list[Any], ids: list[str]) -> CandidateMeasures:
    asked = [
        {"id": key, "question": "?", "context": [], "history": [], "options": [], "references": ["r"], "group": key}
        for key in ids
    ]
    parquet_tables.write(folder / QUESTIONS.path, "questions", asked, cell=QUESTIONS.cell)
    parquet_tables.write(folder / CELL.path, "candidates", rows, cell=CELL.cell)
    return CandidateMeasures(Inputs.read(folder, [QUESTIONS, CELL]), CELL, QUESTIONS)


def test_length_counts_the_terminator_unless_told_otherwise(tmp_path: Path) -> None:
    rows = [row("a", "greedy", 0, "x y", [5, 6, 2], 0.5), row("b", "greedy", 0, "x y z", [5, 6, 7], 0.5, ended=False)]
    found = loaded(tmp_path, rows, ["b", "a"])
    assert found.lengths().tolist() == [3, 3]
    assert found.lengths(terminator=False).tolist() == [3, 2]


def test_redundancy_counts_texts_not_token_sequences(tmp_path: Path) -> None:
    rows = [row("a", "greedy", 0, "x", [5, 2], 0.5)]
    rows += [row("a", "sample", n, text, [n, 2], 0.1) for n, text in enumerate(["x", "x", "y", "x", "z"])]
    found = loaded(tmp_path, rows, ["a"])
    assert found.redundancy("sample", 4).tolist() == [0.5]  # x x y x: 4 − 2 distinct of 4
    assert found.redundancy("sample", 10).tolist() == [0.4]


def test_mass_counts_a_repeated_sequence_once_and_equal_texts_apart(tmp_path: Path) -> None:
    rows = [row("a", "greedy", 0, "x", [5, 2], 0.3)]
    drawn = [("x", [5, 2], 0.3), ("x", [5, 2], 0.3), ("x", [6, 2], 0.1)]
    rows += [row("a", "sample", n, text, tokens, p) for n, (text, tokens, p) in enumerate(drawn)]
    found = loaded(tmp_path, rows, ["a"])
    assert found.mass("sample", 10) == pytest.approx([0.4])
    assert found.mass("sample", 2) == pytest.approx([0.3])


def test_order_is_that_of_the_questions_file_and_a_prefix_may_be_asked(tmp_path: Path) -> None:
    rows = [row(key, "greedy", 0, key, [1] * length, 0.5) for key, length in (("a", 1), ("b", 2))]
    found = loaded(tmp_path, rows, ["b", "a", "c"])
    assert found.ids == ["b", "a"]
    assert found.lengths().tolist() == [2, 1]


def test_candidates_of_another_study_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match="'z' is not in"):
        loaded(tmp_path, [row("z", "greedy", 0, "x", [1], 0.5)], ["a"])


def test_question_without_greedy_answer_is_refused(tmp_path: Path) -> None:
    rows = [row("a", "greedy", 0, "x", [1], 0.5), row("b", "sample", 0, "x", [1], 0.5)]
    with pytest.raises(BeamUQError, match="'b' has no greedy answer"):
        loaded(tmp_path, rows, ["a", "b"])


def test_absent_strategy_is_named(tmp_path: Path) -> None:
    found = loaded(tmp_path, [row("a", "greedy", 0, "x", [1], 0.5)], ["a"])
    with pytest.raises(BeamUQError, match="no strategy 'beam M=10'"):
        found.mass("beam M=10", 10)


def test_longest_lengths_share_the_last_bin() -> None:
    lengths = np.array([1, 2, 2, 3, 5, 8, 13])
    assert [b.title for b in length_bins(lengths, most=4)] == ["1", "2", "3", "5+"]
    assert [int(b.members.sum()) for b in length_bins(lengths, most=4)] == [1, 2, 1, 3]
    assert [b.title for b in length_bins(lengths, most=6)] == ["1", "2", "3", "5", "8", "13"]


def test_equal_bins_close_when_their_share_is_in() -> None:
    lengths = np.repeat([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], 2)
    assert [b.title for b in equal_bins(lengths)] == ["1–2", "3–4", "5–6", "7–8", "9–10"]


def test_equal_bins_never_split_a_length() -> None:
    lengths = np.array([1] * 11 + [2, 3, 4, 5, 6, 7, 8, 9, 10])  # 55 % of the questions have length 1: two shares
    bins = equal_bins(lengths)
    assert [(b.title, int(b.members.sum())) for b in bins] == [("1", 11), ("2", 1), ("3–6", 4), ("7–10", 4)]


def test_equal_bins_hold_every_question_once() -> None:
    lengths = np.random.default_rng(3).integers(1, 20, size=57)
    assert sum(b.members.astype(int) for b in equal_bins(lengths)).tolist() == [1] * 57  # type: ignore[union-attr]
