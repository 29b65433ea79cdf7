"""Which pairs of texts a candidates file asks for, and the table of what a scorer says of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from beamuq.scorers.scorer_protocol import PairScores
from beamuq_study.parquet_tables import SCHEMAS
from beamuq_study.produced_answers import candidate_columns, produced_texts


def needed_pairs(
    candidates: pa.Table, answer_source: Sequence[str], beam: str | None, only_with_answer: Collection[str] = ()
) -> list[tuple[str, str, str]]:
    """Every (question id, premise, hypothesis) that a method can ask for, each once, in a fixed order.

    For each question, strategy and produced answer: all ordered pairs of the distinct texts of that strategy's
    candidates and the answer, a text with itself included (D9, own values). Texts of two strategies do not meet. Of the
    strategies ``only_with_answer``, which may have hundreds of texts: each text as hypothesis of the answer alone.

    Raises BeamUQError as :func:`beamuq_study.produced_answers.produced_texts`.
    """
    answers = produced_texts(candidates, answer_source, beam)
    ids, strategies, _, texts = candidate_columns(candidates)
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
