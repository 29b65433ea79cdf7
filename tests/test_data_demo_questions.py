"""The demo's own questions follow the hub's schemas, have answers, and share nothing with their few-shot rows."""

from __future__ import annotations

import json
import string
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from beamuq.data.dataset_adapters import load_adapter
from beamuq.data.read_dataset_file import read_questions

Row = dict[str, Any]

DEMO = Path(__file__).resolve().parents[1] / "workflow" / "demo"
# The hub's keys in the hub's order, those of nested records after a dot.
KEYS = {
    "trivia_qa": "question question_id question_source"
    " entity_pages.doc_source entity_pages.filename entity_pages.title entity_pages.wiki_context"
    " search_results.description search_results.filename search_results.rank search_results.title search_results.url"
    " search_results.search_context answer.aliases answer.normalized_aliases answer.matched_wiki_entity_name"
    " answer.normalized_matched_wiki_entity_name answer.normalized_value answer.type answer.value",
    "web_questions": "url question answers",
    "coqa": "source story questions answers.input_text answers.answer_start answers.answer_end",
    "hotpot_qa": "id question answer type level supporting_facts.title supporting_facts.sent_id"
    " context.title context.sentences",
    "commonsense_qa": "id question question_concept choices.label choices.text answerKey",
    "ai2_arc": "id question choices.text choices.label answerKey",
}
EVALUATION = dict.fromkeys(KEYS, "validation") | {"web_questions": "test", "ai2_arc": "test"}
FILES = [(name, split) for name in KEYS for split in ("train", EVALUATION[name])]
every_file = pytest.mark.parametrize(("name", "split"), FILES)
every_dataset = pytest.mark.parametrize("name", KEYS)


@cache
def rows(name: str, split: str) -> list[Row]:
    text = (DEMO / name / f"{split}.jsonl").read_bytes().decode("utf-8")
    assert text.endswith("\n")
    return [json.loads(line) for line in text[:-1].split("\n")]


def keys_of(row: Row) -> list[str]:
    return [
        name if inner is None else f"{name}.{inner}"
        for name, value in row.items()
        for inner in (value if isinstance(value, dict) else [None])
    ]


def questions(name: str, split: str) -> list[str]:
    """Every question of a file; a dialogue's turn counts with its story: "Why?" suits many."""
    if name == "coqa":
        return [f"{row['story']} {question}" for row in rows(name, split) for question in row["questions"]]
    return [row["question"] for row in rows(name, split)]


def references(name: str, row: Row) -> list[list[str]]:
    """The references of each question of a row."""
    if name == "trivia_qa":
        return [row["answer"]["aliases"]]
    if name == "web_questions":
        return [row["answers"]]
    if name == "coqa":
        return [[answer] for answer in row["answers"]["input_text"]]
    if name == "hotpot_qa":
        return [[row["answer"]]]
    return [[row["choices"]["text"][row["choices"]["label"].index(row["answerKey"])]]]


def normalized(text: str) -> str:
    """TriviaQA's normal form: lower case, punctuation to spaces, no articles, single spaces."""
    spaced = "".join(" " if mark in string.punctuation else mark for mark in text.lower())
    return " ".join(word for word in spaced.split() if word not in ("a", "an", "the"))


@every_file
def test_rows_have_the_keys_and_order_of_the_hub(name: str, split: str) -> None:
    assert {" ".join(keys_of(row)) for row in rows(name, split)} == {KEYS[name]}
    assert len(read_questions(load_adapter(name), DEMO / name / f"{split}.jsonl")) == len(questions(name, split))


@every_dataset
def test_no_question_is_asked_twice_in_or_across_the_splits(name: str) -> None:
    asked = Counter(
        normalized(question) for split in ("train", EVALUATION[name]) for question in questions(name, split)
    )
    assert [question for question, count in asked.items() if count > 1] == []


@pytest.mark.parametrize("name", ["coqa", "hotpot_qa"])
def test_no_passage_is_shared_by_few_shot_and_evaluation_rows(name: str) -> None:
    def passages(split: str) -> set[str]:
        if name == "coqa":
            return {row["story"] for row in rows(name, split)}
        return {title for row in rows(name, split) for title in row["context"]["title"]}

    assert passages("train") & passages(EVALUATION[name]) == set()


@every_file
def test_every_question_has_short_references_and_none_is_empty(name: str, split: str) -> None:
    per_question = [group for row in rows(name, split) for group in references(name, row)]
    assert all(per_question)
    assert [text for group in per_question for text in group if not normalized(text)] == []
    assert [group for group in per_question if len(set(group)) < len(group)] == []
