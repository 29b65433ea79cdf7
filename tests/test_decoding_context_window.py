"""How far a model's positions reach, and prompts that leave no room for their answers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from beamuq.decoding.context_window import check_prompt_lengths, context_window
from beamuq.errors import BeamUQError


def test_a_prompt_must_leave_room_for_its_answer() -> None:
    check_prompt_lengths({"q1": [0] * 80}, window=100, max_new_tokens=20)
    with pytest.raises(
        BeamUQError,
        match="prompt 'q2': 81 tokens and 20 new ones exceed the model's context of 100",
    ):
        check_prompt_lengths({"q1": [0] * 80, "q2": [0] * 81}, window=100, max_new_tokens=20)


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({"max_position_embeddings": 512}, 512),
        ({"max_seq_len": 512}, 512),
        ({}, None),  # a recurrent state, or penalties by distance: there is no last position
        (
            {
                "max_position_embeddings": 4096,
                "rope_parameters": {
                    "rope_type": "longrope",
                    "original_max_position_embeddings": 512,
                },
            },
            512,
        ),
        (
            {
                "max_position_embeddings": 4096,
                "rope_parameters": {
                    "full_attention": {
                        "rope_type": "longrope",
                        "original_max_position_embeddings": 512,
                    },
                    "sliding_attention": {"rope_type": "default"},
                },
            },
            512,
        ),
        (
            {
                "max_position_embeddings": 512,
                "rope_parameters": {"rope_type": "linear", "factor": 4.0},
            },
            512,
        ),
    ],
)
def test_the_context_window_ends_where_positions_do(
    config: dict[str, Any], window: int | None
) -> None:
    text = SimpleNamespace(**config)
    model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text))
    assert context_window(model) == window
    check_prompt_lengths({"q": range(500)}, window, 12)
    if window is not None:
        with pytest.raises(BeamUQError, match="drop the question"):
            check_prompt_lengths({"q": range(501)}, window, 12)
