"""Which answer is judged: the sources of the produced answer, and the strategy whose first candidate each one is."""

from __future__ import annotations

from typing import Literal

from beamuq.errors import BeamUQError
from beamuq.strategy_names import GREEDY, SHIPPED

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
