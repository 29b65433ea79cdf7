"""Which pairs of texts a candidates file asks for, and the table of what a scorer says of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from beamuq.errors import BeamUQError
from beamuq.judged_answer import strategy_of
from beamuq.parquet_tables import SCHEMAS
from beamuq.scorers.scorer_protocol import PairScores


def produced_texts(candidates: pa.Table, answer_source: Sequence[str], beam: str | None) -> dict[str, dict[str, str]]:
    """The produced answers: ``{answer source: {question id: text}}``, in the file's order of questions.

    Raises BeamUQError as :func:`beamuq.judged_answer.strategy_of`, or if a question has no such candidate.
    """
    ids, strategies, ranks, texts = _columns(candidates)
    questions = list(dict.fromkeys(ids))
    found: dict[str, dict[str, str]] = {}
    for name in answer_source:
        strategy = strategy_of(name, beam)
        first = {
            question: text
            for question, each, rank, text in zip(ids, strategies, ranks, texts, strict=True)
            if each == strategy and rank == 0
        }
        for question in questions:
            if question not in first:
                raise BeamUQError(f"candidates: question {question!r} has no {strategy!r} for answer_source {name!r}")
        found[name] = {question: first[question] for question in questions}
    return found


def needed_pairs(
    candidates: pa.Table, answer_source: Sequence[str], beam: str | None, only_with_answer: Collection[str] = ()
) -> list[tuple[str, str, str]]:
    """Every (question id, premise, hypothesis) that a method can ask for, each once, in a fixed order.

    For each question, strategy and produced answer: all ordered pairs of the distinct texts of that strategy's
    candidates and the answer, a text with itself included (D9, own values). Texts of two strategies do not meet. Of the
    strategies ``only_with_answer``, which may have hundreds of texts: each text as hypothesis of the answer alone.

    Raises BeamUQError as :func:`produced_texts`.
    """
    answers = produced_texts(candidates, answer_source, beam)
    ids, strategies, _, texts = _columns(candidates)
    by_question: dict[str, dict[str, dict[str, None]]] = {}
    for question, strategy, text in zip(ids, strategies, texts, strict=True):
        by_question.setdefault(question, {}).setdefault(strategy, {})[text] = None
    needed: list[tuple[str, str, str]] = []
    for question, sets in by_question.items():
        pairs: dict[tuple[str, str], None] = {}
        for strategy, members in sets.items():
            for answer in answers.values():
                if strategy in only_with_answer:
                    pairs.update(dict.fromkeys((answer[question], text) for text in members))
                    continue
                nodes = list(dict.fromkeys([answer[question], *members]))
                pairs.update(dict.fromkeys((premise, hypothesis) for premise in nodes for hypothesis in nodes))
        needed += [(question, premise, hypothesis) for premise, hypothesis in pairs]
    return needed


def similarity_table(needed: Sequence[tuple[str, str, str]], scores: PairScores) -> pa.Table:
    """The rows of a similarity table: ``needed`` pairs and what a scorer says of them, in the same order."""
    ids, premises, hypotheses = zip(*needed, strict=True) if needed else ((), (), ())
    nothing = [None] * len(needed)
    rows = {
        "id": ids,
        "premise": premises,
        "hypothesis": hypotheses,
        "entail": scores.entail,
        "neutral": nothing if scores.neutral is None else scores.neutral,
        "contradict": nothing if scores.contradict is None else scores.contradict,
    }
    return pa.table(rows, schema=SCHEMAS["similarity"])


def _columns(candidates: pa.Table) -> tuple[list[str], list[str], list[int], list[str]]:
    id_, strategy, rank, text = (candidates.column(name).to_pylist() for name in ("id", "strategy", "rank", "text"))
    return id_, strategy, rank, text
