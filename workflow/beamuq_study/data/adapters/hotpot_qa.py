"""HotpotQA (``hotpotqa/hotpot_qa``, distractor): open book, with its two supporting paragraphs."""

from __future__ import annotations

import pyarrow as pa

from beamuq.errors import BeamUQError
from beamuq_study.data.question import STRING, STRINGS, Adapter, Passage, Question, Row, question


def read(row: Row, _: str) -> list[Question]:
    """One question with the two paragraphs that its supporting facts name, in the order in which the context has them.

    Sentences carry their own leading space, so a paragraph is their plain concatenation.
    """
    titles, paragraphs = row["context"]["title"], row["context"]["sentences"]
    if len(titles) != len(paragraphs):
        raise BeamUQError(f"context: {len(titles)} titles but {len(paragraphs)} paragraphs; give each one of both")
    names = set(row["supporting_facts"]["title"])
    if len(names) != 2:
        raise BeamUQError(f"supporting_facts: {len(names)} different titles, the prompt shows two; remove the row")
    context = [
        Passage(title=title, text="".join(sentences))
        for title, sentences in zip(titles, paragraphs, strict=True)
        if title in names
    ]
    if len(context) != 2:
        raise BeamUQError(f"context: {len(context)} paragraphs bear the two supporting titles; it must be one each")
    if {passage["title"] for passage in context} != names:
        raise BeamUQError("context: lacks a paragraph that the supporting facts name; use the distractor configuration")
    return [question(row["id"], row["question"], [row["answer"]], context=context)]


ADAPTER = Adapter(
    columns=pa.schema(
        {
            "id": STRING,
            "question": STRING,
            "answer": STRING,
            "supporting_facts": pa.struct({"title": STRINGS}),
            "context": pa.struct({"title": STRINGS, "sentences": pa.list_(STRINGS)}),
        }
    ),
    read=read,
)
