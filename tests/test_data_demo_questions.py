"""The demo's own questions follow the hub's schemas, have answers, and share nothing with their few-shot rows."""

from __future__ import annotations

import json
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Iterator
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
ID_KEY = {
    "trivia_qa": "question_id",
    "web_questions": "url",
    "hotpot_qa": "id",
    "commonsense_qa": "id",
    "ai2_arc": "id",
}
FILES = [(name, split) for name in KEYS for split in ("train", EVALUATION[name])]
every_file = pytest.mark.parametrize(("name", "split"), FILES)
every_dataset = pytest.mark.parametrize("name", KEYS)
multiple_choice = pytest.mark.parametrize(
    ("name", "split"), [file for file in FILES if file[0] in ("commonsense_qa", "ai2_arc")]
)


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


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


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


def test_ids_are_unique_over_all_files_and_say_that_they_are_the_demos() -> None:
    ids = [row[ID_KEY[name]] for name, split in FILES if name in ID_KEY for row in rows(name, split)]
    assert len(set(ids)) == len(ids)
    assert [identifier for identifier in ids if not identifier.startswith("demo-")] == []


@every_file
def test_every_question_has_short_references_and_none_is_empty(name: str, split: str) -> None:
    per_question = [group for row in rows(name, split) for group in references(name, row)]
    assert all(per_question)
    assert [text for group in per_question for text in group if not normalized(text)] == []
    assert [group for group in per_question if len(set(group)) < len(group)] == []


@every_file
def test_text_is_clean(name: str, split: str) -> None:
    texts = [text for row in rows(name, split) for text in strings(row)]
    assert [text for text in texts if unicodedata.normalize("NFC", text) != text] == []
    assert [text for text in texts if any(unicodedata.category(mark)[0] == "C" for mark in text)] == []
    assert [text for text in texts if "  " in text or text != text.rstrip()] == []
    assert [text for text in texts if text.startswith(" ") and name != "hotpot_qa"] == []


@multiple_choice
def test_the_answer_is_one_of_the_labels_and_no_option_is_repeated(name: str, split: str) -> None:
    for row in rows(name, split):
        labels, texts = row["choices"]["label"], row["choices"]["text"]
        assert row["answerKey"] in labels, row["id"]
        assert labels in [list(letters[: len(texts)]) for letters in ("ABCDE", "12345")], row["id"]
        assert len({normalized(text) for text in texts}) == len(texts), row["id"]


def test_arc_has_digit_labels_and_an_item_of_three_options_as_the_real_set_has() -> None:
    choices = [row["choices"] for row in rows("ai2_arc", "test")]
    assert sum(choice["label"][0] == "1" for choice in choices) >= 2
    assert 3 in {len(choice["text"]) for choice in choices}


@pytest.mark.parametrize("split", ["train", "validation"])
def test_trivia_value_and_aliases_agree_with_their_normal_forms(split: str) -> None:
    for row in rows("trivia_qa", split):
        answer = row["answer"]
        assert answer["value"] in answer["aliases"], row["question_id"]
        assert answer["normalized_value"] == normalized(answer["value"]), row["question_id"]
        assert answer["normalized_aliases"] == list(dict.fromkeys(map(normalized, answer["aliases"])))


@pytest.mark.parametrize("split", ["train", "validation"])
def test_no_trivia_question_gives_its_own_answer_away(split: str) -> None:
    """An alias inside the question would make an echo of the question a right answer."""
    for row in rows("trivia_qa", split):
        question = f" {normalized(row['question'])} "
        assert [form for form in row["answer"]["normalized_aliases"] if f" {form} " in question] == []


@pytest.mark.parametrize("split", ["train", "validation"])
def test_dialogue_spans_are_whole_words_of_the_story_that_hold_the_answer(split: str) -> None:
    for row in rows("coqa", split):
        story, answers = row["story"], row["answers"]
        columns = (row["questions"], answers["input_text"], answers["answer_start"], answers["answer_end"])
        assert len({len(column) for column in columns}) == 1
        for question, answer, start, end in zip(*columns, strict=True):
            assert 0 <= start < end <= len(story), question
            span = story[start:end]
            assert span == span.strip(), question
            assert re.compile(rf"(?<!\w){re.escape(span)}(?!\w)").match(story, start), question
            if answer not in ("yes", "no"):
                # Words, not a substring: the answer "a kitten" stands in the story as "a grey kitten".
                assert set(normalized(answer).split()) <= set(normalized(span).split()), question


@pytest.mark.parametrize("split", ["train", "validation"])
def test_supporting_facts_name_two_paragraphs_of_the_context_and_their_sentences(split: str) -> None:
    for row in rows("hotpot_qa", split):
        titles, sentences = row["context"]["title"], row["context"]["sentences"]
        paragraphs = dict(zip(titles, sentences, strict=True))
        facts = list(zip(row["supporting_facts"]["title"], row["supporting_facts"]["sent_id"], strict=True))
        assert len(paragraphs) == len(titles) >= 3, row["id"]
        assert len({title for title, _ in facts}) == 2, row["id"]
        assert all(0 <= sentence < len(paragraphs[title]) for title, sentence in facts), row["id"]
        if row["answer"] not in ("yes", "no"):
            assert any(row["answer"] in paragraphs[title][sentence] for title, sentence in facts) or (
                row["type"] == "comparison" and row["answer"] in titles
            ), row["id"]
