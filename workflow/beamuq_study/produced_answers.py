"""Which answer is judged: the sources of the produced answer, and the strategy whose first candidate each one is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from beamuq.errors import BeamUQError
from beamuq.strategy_names import GREEDY, SHIPPED

if TYPE_CHECKING:
    import pyarrow as pa

AnswerSource = Literal["greedy", "top_beam", "shipped"]


def strategy_of(answer_source: str, beam: str | None) -> str:
    """The strategy whose first candidate is a produced answer; ``beam`` is the main search, None where there is none.

    Raises BeamUQError if there is no such produced answer.
    """
    strategy = {"greedy": GREEDY, "shipped": SHIPPED, "top_beam": beam}.get(answer_source)
    if strategy is None:
        raise BeamUQError(
            f"answer_source: {answer_source!r} is not greedy, shipped or, with a main beam, top_beam; correct it"
        )
    return strategy


def produced_texts(candidates: pa.Table, answer_source: Sequence[str], beam: str | None) -> dict[str, dict[str, str]]:
    """The produced answers: ``{answer source: {question id: text}}``, in the file's order of questions.

    Raises BeamUQError as :func:`strategy_of`, or if a question has no such candidate.
    """
    rows = list(zip(*candidate_columns(candidates), strict=True))
    first = {(strategy, question): text for question, strategy, rank, text in rows if rank == 0}
    texts: dict[str, dict[str, str]] = {name: {} for name in answer_source}
    for name in answer_source:
        strategy = strategy_of(name, beam)
        for question in dict.fromkeys(row[0] for row in rows):
            if (strategy, question) not in first:
                raise BeamUQError(f"candidates: question {question!r} has no {strategy!r} for answer_source {name!r}")
            texts[name][question] = first[strategy, question]
    return texts


def candidate_columns(candidates: pa.Table) -> tuple[list[str], list[str], list[int], list[str]]:
    """Id, strategy, rank and text of every candidate."""
    id_, strategy, rank, text = (candidates.column(name).to_pylist() for name in ("id", "strategy", "rank", "text"))
    return id_, strategy, rank, text
