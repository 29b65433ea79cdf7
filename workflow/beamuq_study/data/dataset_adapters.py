"""How the rows of each dataset, in the hub's schema, become questions.

Adding a dataset is adding a function and its columns to ``ADAPTERS``, and its two templates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import pyarrow as pa

from beamuq.errors import BeamUQError
from beamuq.scorers.quality_metrics import FOLDED
from beamuq_study.data.question import Adapter, Passage, Question, Row, Turn, question
from beamuq_study.study_config import Dataset

NO_ANSWER = "has no gold answer, as in a test split; choose a split with answers"
COMMONSENSE_QA_OPTIONS = 5
UNREAD = ("context", "passage", "story", "choices", "options", "history", "group")


def _trivia_qa(row: Row, _: str) -> Iterable[Question]:
    """References are ``answer.value``, then the aliases; blank aliases are dropped.

    A few-shot example shows the first reference, so the value as it is written, not the hub's
    ``normalized_value``.
    """
    value = row["answer"]["value"]
    aliases = row["answer"]["aliases"]
    if value == "<unk>":
        raise BeamUQError(f"answer.value: '<unk>': the row {NO_ANSWER}")
    return [
        question(
            row["question_id"],
            row["question"],
            [value, *(alias for alias in aliases if alias.strip())],
        )
    ]


def _web_questions(row: Row, name: str) -> Iterable[Question]:
    """Every answer is a reference; the hub has no ids, so the id is ``<split>-<row>``."""
    return [question(name, row["question"], row["answers"])]


def _jsonl(row: Row, _: str) -> Iterable[Question]:
    """One's own questions. Multiple choice and dialogues have richer schemas: those of ai2_arc and
    coqa.
    """
    return [question(row["id"], row["question"], row["answers"])]


def _coqa(row: Row, name: str) -> Iterator[Question]:
    """Every turn of a dialogue about a story, with the gold turns before it as history.

    Ids are ``<split>-<dialogue>-<turn>``, 0-based, since the hub has none. The group is the story,
    by its hash, so that two dialogues about one story are one unit of the bootstrap.
    """
    texts = row["questions"]
    answers = row["answers"]["input_text"]
    if len(texts) != len(answers):
        raise BeamUQError(
            f"questions: {len(texts)} of them, but {len(answers)} answers; give each turn one of "
            "both"
        )
    if not texts:
        raise BeamUQError("questions: the dialogue has none; remove the row")
    story = row["story"].strip()
    group = f"story-{hashlib.sha256(story.encode()).hexdigest()[:12]}"
    context = [Passage(title="", text=story)]
    history: list[Turn] = []
    for turn, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        try:
            yield question(
                f"{name}-{turn}", text, [answer], context=context, history=history, group=group
            )
        except BeamUQError as error:
            raise BeamUQError(f"turn {turn}: {error}") from error
        history.append(Turn(question=text, answer=answer))


def _hotpot_qa(row: Row, _: str) -> Iterable[Question]:
    """The two paragraphs that the supporting facts name, in the context's order.

    Sentences carry their own leading space, so a paragraph is their plain concatenation.
    """
    titles = row["context"]["title"]
    paragraphs = row["context"]["sentences"]
    if len(titles) != len(paragraphs):
        raise BeamUQError(
            f"context: {len(titles)} titles but {len(paragraphs)} paragraphs; give each one of both"
        )
    names = set(row["supporting_facts"]["title"])
    if len(names) != 2:
        raise BeamUQError(
            f"supporting_facts: {len(names)} different titles, the prompt shows two; remove the row"
        )
    shown = [
        (title, "".join(text))
        for title, text in zip(titles, paragraphs, strict=True)
        if title in names
    ]
    if len(shown) != 2:
        raise BeamUQError(
            f"context: {len(shown)} paragraphs bear the two supporting titles; it must be one each"
        )
    if {title for title, _ in shown} != names:
        raise BeamUQError(
            "context: lacks a paragraph that the supporting facts name; use the distractor "
            "configuration"
        )
    context = [Passage(title=title, text=text) for title, text in shown]
    return [question(row["id"], row["question"], [row["answer"]], context=context)]


def _ai2_arc(row: Row, _: str) -> list[Question]:
    """Multiple choice: the reference is the right option's text, which may stand twice.

    Options stay in the file's order and are lettered by place when shown, so labels 1–4 become
    (A)–(D).
    """
    labels = row["choices"]["label"]
    texts = row["choices"]["text"]
    key = row["answerKey"]
    if len(labels) != len(texts):
        raise BeamUQError(
            f"choices: {len(labels)} labels but {len(texts)} texts; give each option one of both"
        )
    if not 2 <= len(texts) <= 26:
        raise BeamUQError(
            f"choices: {len(texts)} options; there must be from 2 to 26, one a letter"
        )
    if len(set(labels)) != len(labels):
        raise BeamUQError(
            f"choices: a label stands twice in {', '.join(labels)}; label each option once"
        )
    if not key.strip():
        raise BeamUQError(f"answerKey: {key!r}: the row {NO_ANSWER}")
    if key not in labels:
        raise BeamUQError(
            f"answerKey: {key!r} is not among the labels {', '.join(labels)}; correct it"
        )
    return [question(row["id"], row["question"], [texts[labels.index(key)]], options=texts)]


def _commonsense_qa(row: Row, name: str) -> Iterable[Question]:
    """As ARC, with five options, all of them shown."""
    questions = _ai2_arc(row, name)
    if (count := len(questions[0]["options"])) != COMMONSENSE_QA_OPTIONS:
        raise BeamUQError(f"choices: {count} options; CommonsenseQA has {COMMONSENSE_QA_OPTIONS}")
    return questions


def _columns(*texts: str, **others: pa.DataType) -> pa.Schema:
    return pa.schema(dict.fromkeys(texts, pa.string()) | others)


TEXTS = pa.list_(pa.string())
CHOICES = _columns(
    "id", "question", "answerKey", choices=pa.struct({"text": TEXTS, "label": TEXTS})
)
ADAPTERS = {  # rc of TriviaQA lists a question once for the web and once for Wikipedia
    "ai2_arc": Adapter(CHOICES, _ai2_arc, "triviaqa", options=True),
    "commonsense_qa": Adapter(CHOICES, _commonsense_qa, "triviaqa", options=True),
    "coqa": Adapter(
        _columns("story", questions=TEXTS, answers=pa.struct({"input_text": TEXTS})), _coqa, "coqa"
    ),
    "hotpot_qa": Adapter(
        _columns(
            *("id", "question", "answer"),
            supporting_facts=pa.struct({"title": TEXTS}),
            context=pa.struct({"title": TEXTS, "sentences": pa.list_(TEXTS)}),
        ),
        _hotpot_qa,
        "triviaqa",
    ),
    "jsonl": Adapter(_columns("id", "question", answers=TEXTS), _jsonl, FOLDED, unread=UNREAD),
    "trivia_qa": Adapter(
        _columns(
            "question", "question_id", answer=pa.struct({"value": pa.string(), "aliases": TEXTS})
        ),
        _trivia_qa,
        "triviaqa",
        repeats=True,
    ),
    "web_questions": Adapter(_columns("question", answers=TEXTS), _web_questions, "triviaqa"),
}


def normalizer_of(dataset: Dataset) -> str:
    """How answers are compared with references: as the study says, else as the adapter."""
    return dataset.normalizer or ADAPTERS[dataset.adapter].normalizer
