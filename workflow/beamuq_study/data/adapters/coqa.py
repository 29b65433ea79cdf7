"""CoQA (``stanfordnlp/coqa``): a dialogue about a story; each turn is a question whose history is the gold one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pyarrow as pa

from beamuq.errors import BeamUQError
from beamuq_study.data.question import STRING, STRINGS, Adapter, Passage, Question, Row, Turn, question


def read(row: Row, name: str) -> Iterator[Question]:
    """Every turn of a dialogue; ids are ``<split>-<dialogue>-<turn>``, 0-based, since the hub has none.

    The group is the story (by its hash, so that two dialogues about one story are one unit of the bootstrap).
    """
    texts, answers = row["questions"], row["answers"]["input_text"]
    if len(texts) != len(answers):
        raise BeamUQError(f"questions: {len(texts)} of them, but {len(answers)} answers; give each turn one of both")
    if not texts:
        raise BeamUQError("questions: the dialogue has none; remove the row")
    story = row["story"].strip()
    group = f"story-{hashlib.sha256(story.encode()).hexdigest()[:12]}"
    history: list[Turn] = []
    for turn, (text, answer) in enumerate(zip(texts, answers, strict=True)):
        try:
            yield question(
                f"{name}-{turn}",
                text,
                [answer],
                context=[Passage(title="", text=story)],
                history=history,
                group=group,
            )
        except BeamUQError as error:
            raise BeamUQError(f"turn {turn}: {error}") from error
        history = [*history, Turn(question=text, answer=answer)]


ADAPTER = Adapter(
    columns=pa.schema({"story": STRING, "questions": STRINGS, "answers": pa.struct({"input_text": STRINGS})}),
    read=read,
)
