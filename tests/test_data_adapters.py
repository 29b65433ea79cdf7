"""Adapters: rows in the hub's schema to questions, and every row that is refused."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import pytest

from beamuq.errors import BeamUQError
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.question import Question, Row, one_line, question, questions_of
from beamuq_study.data.read_dataset_file import conform

TRIVIA = {
    "question": " Where was the singer born?\n",
    "question_id": "tc_3",
    "answer": {"value": "York", "aliases": ["York, England", "York", "  ", "YORK"]},
}
WEB = {
    "question": "what languages do people speak in kanto?",
    "answers": ["Common", "Old Common", "Common"],
}
COQA = {
    "story": " A cat sat.\n\nIt slept. ",
    "questions": ["Who sat?", "What did it do\nthen?", "Why?"],
    "answers": {"input_text": ["A cat", "slept", "unknown"]},
}
HOTPOT = {
    "id": "5a8b",
    "question": "Were Ann and Bob of one nationality?",
    "answer": "yes",
    "supporting_facts": {"title": ["Bob", "Ann", "Bob"]},
    "context": {
        "title": ["Cod", "Ann", "Dan", "Bob"],
        "sentences": [
            ["A fish."],
            ["Ann is", " Danish.", "She sings."],
            ["Nobody."],
            [" Bob is Danish."],
        ],
    },
}
CHOICE = {
    "id": "q1",
    "question": "Where do you put grapes?",
    "choices": {"label": ["A", "B", "C", "D", "E"], "text": ["pan", "bowl", "shop", "bowl", "hat"]},
    "answerKey": "D",
}
NUMBERED = {
    "id": "a1",
    "question": "Which warms most?",
    "choices": {"text": ["dry palms", "wet palms", "oil"], "label": ["1", "2", "3"]},
    "answerKey": "3",
}
OWN = {"id": "o1", "question": "Who?", "answers": ["Ann", "Anna", "Ann"]}
ROWS = {
    "trivia_qa": TRIVIA,
    "web_questions": WEB,
    "coqa": COQA,
    "hotpot_qa": HOTPOT,
    "commonsense_qa": CHOICE,
    "ai2_arc": NUMBERED,
    "jsonl": OWN,
}


def read(
    name: str, rows: Iterable[Row], split: str = "validation", repeated: list[str] | None = None
) -> list[Question]:
    reader = ADAPTERS[name]
    places = ((f"file: row {index}", row) for index, row in enumerate(rows))
    return questions_of(
        reader,
        ((place, conform(row, reader.columns, place)) for place, row in places),
        split,
        repeated,
    )


def changed(row: Row, path: str, value: Any) -> Row:
    """A copy of ``row`` with another value at a dotted path; Ellipsis removes the key."""
    fresh = copy.deepcopy(row)
    *parents, last = path.split(".")
    record = fresh
    for parent in parents:
        record = record[parent]
    if value is ...:
        del record[last]
    else:
        record[last] = value
    return fresh


def test_a_text_where_an_adapter_should_give_a_list_is_refused() -> None:
    with pytest.raises(BeamUQError, match="references 'Paris' and options are lists of texts"):
        question("1", "Which city?", "Paris")


def test_triviaqa_references_are_the_value_then_the_aliases_each_once() -> None:
    (found,) = read("trivia_qa", [TRIVIA])
    assert found["references"] == ["York", "York, England", "YORK"]
    assert (found["id"], found["question"], found["group"]) == (
        "tc_3",
        "Where was the singer born?",
        "tc_3",
    )
    assert found["context"] == found["history"] == found["options"] == []


def test_triviaqa_repeated_question_counts_once_and_the_first_stands() -> None:
    again = changed(TRIVIA, "answer.aliases", ["Other"])
    repeated: list[str] = []
    found = read(
        "trivia_qa", [TRIVIA, changed(TRIVIA, "question_id", "tc_4"), again], repeated=repeated
    )
    assert [item["id"] for item in found] == ["tc_3", "tc_4"]
    assert repeated == ["tc_3"]
    assert found[0]["references"] == ["York", "York, England", "YORK"]
    with pytest.raises(
        BeamUQError, match="file: row 1: id 'tc_3' already belongs to another question"
    ):
        read("trivia_qa", [TRIVIA, changed(TRIVIA, "question", "When?")])


def test_web_questions_are_named_by_split_and_row_and_keep_every_answer() -> None:
    found = read("web_questions", [WEB, changed(WEB, "question", "who?")], "test")
    assert [item["id"] for item in found] == ["test-0", "test-1"]
    assert found[0]["references"] == ["Common", "Old Common"]


def test_coqa_dialogue_becomes_turns_with_gold_history_of_the_turns_before() -> None:
    found = read("coqa", [COQA])
    assert [item["id"] for item in found] == ["validation-0-0", "validation-0-1", "validation-0-2"]
    assert [item["history"] for item in found] == [
        [],
        [{"question": "Who sat?", "answer": "A cat"}],
        [
            {"question": "Who sat?", "answer": "A cat"},
            {"question": "What did it do then?", "answer": "slept"},
        ],
    ]
    assert [item["references"] for item in found] == [["A cat"], ["slept"], ["unknown"]]
    assert all(
        item["context"] == [{"title": "", "text": "A cat sat.\n\nIt slept."}] for item in found
    )


def test_coqa_group_is_the_story_not_the_dialogue_nor_the_turn() -> None:
    other = changed(COQA, "story", "A dog ran.")
    groups = [item["group"] for item in read("coqa", [COQA, other, COQA])]
    assert groups[:3] == groups[6:] == [groups[0]] * 3
    assert groups[3:6] == [groups[3]] * 3
    assert groups[3] != groups[0]


def test_hotpotqa_shows_the_two_supporting_paragraphs_in_the_order_of_the_context() -> None:
    (found,) = read("hotpot_qa", [HOTPOT])
    assert found["context"] == [
        {"title": "Ann", "text": "Ann is Danish.She sings."},  # sentences bring their own spaces
        {"title": "Bob", "text": "Bob is Danish."},
    ]


@pytest.mark.parametrize(
    ("name", "changes", "options", "references"),
    [
        ("jsonl", {}, [], ["Ann", "Anna"]),
        (
            "commonsense_qa",
            {},
            ["pan", "bowl", "shop", "bowl", "hat"],
            ["bowl"],
        ),  # by label: a text may stand twice
        ("ai2_arc", {}, ["dry palms", "wet palms", "oil"], ["oil"]),
        (
            "ai2_arc",
            {"choices.text": ["dry\npalms", "wet", "oil\n"]},
            ["dry palms", "wet", "oil"],
            ["oil"],
        ),
    ],
)
def test_options_and_references(
    name: str, changes: Row, options: list[str], references: list[str]
) -> None:
    row = ROWS[name]
    for path, value in changes.items():
        row = changed(row, path, value)
    (found,) = read(name, [row])
    assert (found["id"], found["options"], found["references"]) == (row["id"], options, references)


def test_a_line_break_in_a_question_becomes_one_space_and_other_characters_stay() -> None:
    assert one_line("  What \r\n  does {x}\x85 \t it mean?\n") == "What does {x}\x85 \t it mean?"


@pytest.mark.parametrize(
    ("name", "path", "value", "told"),
    [
        (
            "trivia_qa",
            "answer.value",
            "<unk>",
            "answer.value: '<unk>': the row has no gold answer, as in a test split",
        ),
        ("trivia_qa", "answer.value", None, "answer.value is null"),
        ("trivia_qa", "answer.aliases", ..., "answer.aliases is missing"),
        ("trivia_qa", "question", " \n ", "the question is empty"),
        ("web_questions", "answers", [], "the list of answers is empty"),
        ("web_questions", "answers", ["Common", None], r"answers\[1\] is null"),
        ("web_questions", "answers", [3], r"answers\[0\] must be text, not 3"),
        ("coqa", "answers.input_text", ["A cat", "slept"], "3 of them, but 2 answers"),
        ("coqa", "story", "\n", "turn 0: a passage is empty"),
        ("coqa", "answers", ["A cat"], "answers must be a record with 'input_text', not 'A cat'"),
        ("hotpot_qa", "supporting_facts.title", ["Ann"], "1 different titles"),
        (
            "hotpot_qa",
            "context.title",
            ["Ann", "Ann", "Dan", "Bob"],
            "3 paragraphs bear the two supporting titles",
        ),
        (
            "hotpot_qa",
            "context.title",
            ["Ann", "Ann", "Dan", "Eve"],
            "lacks a paragraph that the supporting facts",
        ),
        ("hotpot_qa", "context.title", ["Ann", "Bob"], "2 titles but 4 paragraphs"),
        (
            "commonsense_qa",
            "answerKey",
            "",
            "answerKey: '': the row has no gold answer, as in a test split",
        ),
        ("commonsense_qa", "answerKey", "F", "'F' is not among the labels A, B, C, D, E"),
        (
            "commonsense_qa",
            "choices",
            {"label": list("ABCD"), "text": list("wxyz")},
            "4 options; CommonsenseQA has 5",
        ),
        ("commonsense_qa", "choices.label", ["A", "A", "C", "D", "E"], "a label stands twice"),
        ("ai2_arc", "answerKey", "A", "'A' is not among the labels 1, 2, 3"),
        (
            "ai2_arc",
            "choices",
            {"label": ["1"], "text": ["one"]},
            "1 options; there must be from 2 to 26",
        ),
    ],
)
def test_bad_row_is_refused_by_place_and_reason(
    name: str, path: str, value: object, told: str
) -> None:
    good = changed(ROWS[name], "story", "Another.") if name == "coqa" else ROWS[name]
    with pytest.raises(BeamUQError, match=rf"^file: row 1: .*{told}"):
        read(name, [good, changed(ROWS[name], path, value)])


@pytest.mark.parametrize("name", ["hotpot_qa", "commonsense_qa", "ai2_arc", "jsonl"])
def test_repeated_id_is_refused(name: str) -> None:
    with pytest.raises(BeamUQError, match=r"^file: row 1: id '.*' stands twice"):
        read(name, [ROWS[name], ROWS[name]])
