"""One map from produced answers to strategies, for whoever asks."""

from __future__ import annotations

from typing import get_args

import pytest

from beamuq.errors import BeamUQError
from beamuq.produced_answer import AnswerSource, strategy_of


def test_every_produced_answer_of_a_study_has_its_strategy() -> None:
    found = {name: strategy_of(name, "beam M=3") for name in get_args(AnswerSource)}
    assert found == {"greedy": "greedy", "top_beam": "beam M=3", "shipped": "shipped"}


@pytest.mark.parametrize("answer_source", ["top_beam", "first"])
def test_an_answer_that_is_none_is_told(answer_source: str) -> None:
    with pytest.raises(
        BeamUQError, match=f"answer_source: '{answer_source}' is not greedy, shipped or, with a main beam"
    ):
        strategy_of(answer_source, None)
