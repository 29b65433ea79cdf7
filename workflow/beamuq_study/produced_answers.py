"""Which answers are judged, and which pairs of texts a scorer is asked about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product
from typing import TYPE_CHECKING, Literal

from beamuq.errors import BeamUQError
from beamuq.strategy_names import GREEDY, SHIPPED

if TYPE_CHECKING:
    import pyarrow as pa

AnswerSource = Literal["greedy", "top_beam", "shipped"]
COLUMNS = ["id", "strategy", "rank", "text"]
BATCH = 10_000


def strategy_of(answer_source: str, beam: str | None) -> str:
    """The strategy whose first candidate is a produced answer; ``beam`` is the main search, None
    where there is none.

    Raises BeamUQError if there is no such produced answer.
    """
    strategy = {"greedy": GREEDY, "shipped": SHIPPED, "top_beam": beam}.get(answer_source)
    if strategy is None:
        raise BeamUQError(
            f"answer_source: {answer_source!r} is not greedy, shipped or, with a main beam, "
            "top_beam; correct it"
        )
    return strategy


def produced_texts(
    candidates: pa.Table, answer_source: Sequence[str], beam: str | None
) -> dict[str, dict[str, str]]:
    """The produced answers by source and question id, in the file's order of questions.

    Raises BeamUQError as :func:`strategy_of`, or if a question has no such candidate.
    """
    first: dict[tuple[str, str], str] = {}
    questions: dict[str, None] = {}
    # batch by batch, since few rows are kept; as Python's own values, since pyarrow's filters
    # import pandas
    for batch in candidates.select(COLUMNS).to_batches(max_chunksize=BATCH):
        columns = batch.to_pydict().values()
        for question, strategy, rank, text in zip(*columns, strict=True):
            questions[question] = None
            if rank == 0:
                first[strategy, question] = text
    texts: dict[str, dict[str, str]] = {name: {} for name in answer_source}
    for name in answer_source:
        strategy = strategy_of(name, beam)
        for question in questions:
            if (strategy, question) not in first:
                raise BeamUQError(
                    f"candidates: question {question!r} has no {strategy!r} for answer_source "
                    f"{name!r}"
                )
            texts[name][question] = first[strategy, question]
    return texts


def needed_pairs(
    candidates: pa.Table,
    answer_source: Sequence[str],
    beam: str | None,
    only_with_answer: Collection[str] = (),
) -> list[tuple[str, str, str]]:
    """Every (question id, premise, hypothesis) that a method can ask for, once, in fixed order.

    For each question, strategy and produced answer: all ordered pairs of the distinct texts of that
    strategy's candidates and the answer, a text with itself included (D9, own values). Texts of two
    strategies do not meet. Of the strategies ``only_with_answer``, which may have hundreds of
    texts: each text as hypothesis of the answer alone.

    Raises BeamUQError as :func:`produced_texts`.
    """
    answers = produced_texts(candidates, answer_source, beam)
    texts: dict[str, dict[str, dict[str, None]]] = {}  # by question and strategy, each once
    columns = candidates.select(COLUMNS).to_pydict().values()
    for question, strategy, _, text in zip(*columns, strict=True):
        texts.setdefault(question, {}).setdefault(strategy, {})[text] = None
    needed: list[tuple[str, str, str]] = []
    for question, texts_by_strategy in texts.items():
        pairs: dict[tuple[str, str], None] = {}
        for strategy, members in texts_by_strategy.items():
            for answer in answers.values():
                nodes = list(dict.fromkeys([answer[question], *members]))
                premises = nodes[:1] if strategy in only_with_answer else nodes
                hypotheses = members if strategy in only_with_answer else nodes
                pairs.update(dict.fromkeys(product(premises, hypotheses)))
        needed += [(question, *pair) for pair in pairs]
    return needed
