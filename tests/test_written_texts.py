"""Ids and texts that could not be written down, or would come back as others, are refused where
they are read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import beamuq
from beamuq import beam_mass_theorem, io
from beamuq.api.rows import placed_rows, render, visible, write
from beamuq.cli import main
from beamuq.errors import BeamUQError
from beamuq.models.prompt_tokens import plain_prompt_ids
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.read_dataset_file import read_questions

HALF = "\ud83d"
ROW: dict[str, Any] = {"id": "a", "answer": "Rome", "samples": ["Rome", "Milan"]}


def scored(**change: Any) -> Any:
    return beamuq.score([ROW | change], similarity="lexical", methods="Dissimilarity")


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("id", {"id": f"a{HALF}"}),
        ("group", {"group": f"{HALF}b"}),
        ("model", {"model": HALF}),
        ("prompt_hash", {"prompt_hash": HALF}),
        ("question", {"question": f"Who {HALF}?"}),
        (r"answers\[0\]", {"answers": [HALF]}),
        ("answer.text", {"answer": f"Ro{HALF}"}),
        ("answer.text", {"answer": {"text": "\udc00", "logprob": -1.0}}),
        (r"samples\[1\].text", {"samples": ["Rome", f"Mi{HALF}lan"]}),
        (r"beams\[0\].text", {"beams": [f"Mi{HALF}lan"]}),
    ],
)
def test_half_a_surrogate_pair_is_refused_by_place_and_key(
    key: str, change: dict[str, Any], tmp_path: Path
) -> None:
    told = rf"row 1: {key}: .*holds U\+D(83D|C00), half a surrogate pair"
    with pytest.raises(BeamUQError, match=told):
        scored(**change)
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW | change) + "\n")
    with pytest.raises(BeamUQError, match=rf"rows.jsonl: line 1: {key}: "):
        beamuq.score(path, similarity="lexical")


def test_a_whole_character_beyond_the_basic_plane_is_a_text() -> None:
    assert scored(id="🙂", answer="👨‍👩‍👧", samples=["👨‍👩‍👧", "é"])[
        "Dissimilarity"
    ].index.tolist() == ["🙂"]


UNSEEN = {
    "carriage return": "\r",
    "line end": "\n",
    "zero": "\0",
    "next line": "\x85",
    "line separator": "\u2028",
    "paragraph separator": "\u2029",
    "space of width 0": "\u200b",
    "joiner of width 0": "\u200d",
    "byte order mark": "\ufeff",
    "soft hyphen": "\u00ad",
    "direction": "\u202e",
}


@pytest.mark.parametrize("key", ["id", "group", "model"])
@pytest.mark.parametrize("unseen", UNSEEN)
def test_a_name_is_one_line_and_shows_what_it_holds(key: str, unseen: str) -> None:
    character = UNSEEN[unseen]
    for name in (f"a{character}b", f"{character}a", f"a{character}"):
        with pytest.raises(
            BeamUQError, match=rf"row 1: {key}: .*holds U\+{ord(character):04X}, .*leave it out"
        ):
            scored(**{key: name})
    row = {"id": "a", "method": "Prob", "value": 0.1, "correct": 1}
    with pytest.raises(BeamUQError, match=rf"row 1: {key}: .*U\+"):
        beamuq.calibrate([row | {key: f"a{character}b"}], method="Prob")


@pytest.mark.parametrize(
    "name", ["é", "日本", "q 1", "a\u00a0b", "a/b", "𝒳", "ب", "\x1b[31m", "a\tb"]
)
def test_names_of_all_scripts_are_kept_by_every_file(name: str, tmp_path: Path) -> None:
    for ending in ("csv", "jsonl", "parquet"):
        path = tmp_path / f"o.{ending}"
        write(scored(id=name, group=name), path)
        assert {(row["id"], row["group"]) for _, row in placed_rows(path)} == {(name, name)}


def test_a_carriage_return_in_a_text_comes_back_from_csv(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "id": ["1", "2"],
            "answer": ["a\rb", "c\r\nd"],
            "value": [0.5, None],
            "shown": [True, False],
        }
    )
    write(table, tmp_path / "o.csv")
    read = [row for _, row in placed_rows(tmp_path / "o.csv")]
    assert [row["answer"] for row in read] == ["a\rb", "c\r\nd"]
    assert [row.get("value") for row in read] == ["0.5", None]
    assert '"' not in render(table[["id", "value"]], "csv")


@pytest.mark.parametrize(
    "character", ["\u200b", "\ufeff", "\u00ad", "\u2028", "\u200f", "\u2060", "\x1b", "\u202e"]
)
def test_what_does_not_show_is_escaped_where_it_is_printed(character: str) -> None:
    assert visible(f"a{character}b") == f"a{character.encode('unicode_escape').decode()}b"


def test_a_file_that_cannot_be_written_in_utf_8_is_named(tmp_path: Path) -> None:
    with pytest.raises(BeamUQError, match=r"o\.json: holds U\+D83D"):
        io.write_text(tmp_path / "o.json", HALF)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "door",
    [
        lambda path: beamuq.explore(path, similarity="lexical"),
        lambda path: main(["score", str(path), "--similarity", "lexical"]),
    ],
)
def test_no_door_fails_on_what_it_cannot_write(
    door: Callable[[Path], object], tmp_path: Path
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROW | {"question": HALF, "references": [HALF]}) + "\n")
    with pytest.raises((BeamUQError, SystemExit)) as caught:
        door(path)
    assert not isinstance(caught.value, SystemExit) or caught.value.code == 2


def test_a_prompt_with_half_a_surrogate_pair_is_not_tokenized() -> None:
    with pytest.raises(BeamUQError, match=r"prompt: holds U\+D83D"):
        plain_prompt_ids(None, f"Who {HALF}?")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": "a\rb"}, r"line 1: id: 'a\\+rb': holds U\+000D"),
        ({"id": "a\u200b"}, r"line 1: id: .*holds U\+200B"),
        ({"id": HALF}, r"line 1: id: .*holds U\+D83D"),
        ({"question": f"Who {HALF}?"}, r"line 1: question: holds U\+D83D"),
        ({"answers": ["x", HALF]}, r"line 1: answers: holds U\+D83D"),
    ],
)
def test_a_studys_questions_are_texts_and_their_ids_names(
    change: dict[str, Any], told: str, tmp_path: Path
) -> None:
    path = tmp_path / "test.jsonl"
    path.write_text(json.dumps({"id": "a", "question": "Who?", "answers": ["x"]} | change) + "\n")
    with pytest.raises(BeamUQError, match=told):
        read_questions(ADAPTERS["jsonl"], path)


def test_a_story_with_half_a_surrogate_pair_is_refused_before_it_is_hashed(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    row = {"story": HALF, "questions": ["Who?"], "answers": {"input_text": ["x"]}}
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(BeamUQError, match=r"line 1: story: holds U\+D83D"):
        read_questions(ADAPTERS["coqa"], path)


@pytest.mark.parametrize(
    "function", [beam_mass_theorem.printed_threshold, beam_mass_theorem.corrected_threshold]
)
def test_the_theorem_asks_for_one_outcome_at_least(function: Callable[[int], float]) -> None:
    with pytest.raises(BeamUQError, match="M: 0: "):
        function(0)
    assert function(1) == 0.5
