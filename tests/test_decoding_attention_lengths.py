"""Which attributes of a model are lengths of its attention, and how they are made short."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import PreTrainedConfig

from beamuq.decoding.attention_lengths import lengths_of


class SparseAttention(torch.nn.Module):
    """Attention of a class that nobody has seen yet."""

    def __init__(self, **own: Any) -> None:
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 1, 3, stride=200)
        vars(self).update(own)


class TopKRouter(SparseAttention):
    """Its top-k is of experts."""


def decoder(*parts: torch.nn.Module, **config: Any) -> Any:
    module: Any = torch.nn.ModuleList(parts)
    module.config = SimpleNamespace(**config)
    return module


def told(model: Any) -> list[str]:
    return [str(length) for length in lengths_of(model)]


@pytest.mark.parametrize(
    "name",
    [
        "sliding_window", "sliding_window_size", "attention_window_size", "keep_window_size",
        "attention_chunk_size", "local_attention", "index_topk", "index_topk_blocks",
        "index_block_size", "indexer_budget", "index_kpool", "indexer_compress_ratio",
        "floor_scale", "log_scaling_n_floor", "rel_extent", "attend_span", "sparse_stride",
    ],
)  # fmt: skip
def test_lengths_are_known_by_the_form_of_their_names(name: str) -> None:
    assert told(decoder(**{name: 100})) == [f"{name}=100"]
    assert told(decoder(SparseAttention(**{name: 100}))) == [f"{name}=100"]


@pytest.mark.parametrize(
    "name",
    [
        "max_window_layers", "topk_group", "topk_method", "moe_topk", "top_k", "num_local_experts",
        "use_sliding_window", "chunk_size_feed_forward", "vocab_size", "max_position_embeddings",
        "sliding_window_pattern", "rope_theta",
    ],
)  # fmt: skip
def test_what_is_no_length_of_a_text_is_left_alone(name: str) -> None:
    value: Any = True if name.startswith("use") else 100
    assert told(decoder(**{name: value})) == []


def test_parts_of_torch_and_those_that_choose_experts_have_none() -> None:
    assert told(decoder(SparseAttention(), TopKRouter(select_topk=100))) == []


def test_values_that_are_none_nought_or_text_are_no_lengths() -> None:
    assert (
        told(decoder(sliding_window=None, chunk_size=0, index_topk="all", attention_chunk_size=-1))
        == []
    )


def test_two_names_of_one_value_are_one_length_where_one_holds_the_other_or_the_config() -> None:
    model = decoder(
        SparseAttention(topk_blocks=16, sliding_window=64),
        index_topk_blocks=16,
        attention_window_size=64,
    )
    model.config.attribute_map = {"sliding_window": "attention_window_size"}
    assert told(model) == ["attention_window_size=64", "index_topk_blocks=16"]
    for length in lengths_of(model):
        with length.shortened():
            pass
    with lengths_of(model)[0].shortened():
        assert (model[0].sliding_window, model.config.attention_window_size) == (8, 8)
        assert model[0].topk_blocks == 16


def test_a_part_with_a_config_of_its_own_has_its_lengths() -> None:
    part = SparseAttention(config=PreTrainedConfig(local_attention_window_len=512))
    assert told(decoder(part)) == ["local_attention_window_len=512"]


def test_names_of_different_values_stay_apart() -> None:
    model = decoder(SparseAttention(block_size=4), index_block_size=128)
    assert told(model) == ["block_size=4", "index_block_size=128"]


@pytest.mark.parametrize(
    ("held", "value", "short"),
    [
        ({"sparse": 4, "heavy": 128}, 128, {"sparse": 4, "heavy": 8}),
        ([None, 512, 64], 512, [None, 8, 8]),
        ((2, 1024), 1024, (2, 8)),
    ],
)
def test_lengths_of_several_kinds_of_layers_are_shortened_together_and_put_back(
    held: Any, value: int, short: Any
) -> None:
    model = decoder(compress_rates=held)
    (length,) = lengths_of(model)
    assert length.value == value
    with length.shortened():
        assert model.config.compress_rates == short
    assert model.config.compress_rates is held


def test_a_scale_that_begins_at_a_position_is_a_length_of_the_rope() -> None:
    rope = {
        "rope_type": "yarn",
        "original_max_position_embeddings": 16384,
        "llama_4_scaling_beta": 0.1,
    }
    model = decoder(rope_parameters=rope)
    (length,) = lengths_of(model)
    assert length.value == 16384
    with length.shortened():
        assert model.config.rope_parameters["original_max_position_embeddings"] == 8
    assert model.config.rope_parameters is rope
    assert (
        told(
            decoder(
                rope_parameters={"rope_type": "yarn", "original_max_position_embeddings": 16384}
            )
        )
        == []
    )


def test_how_many_blocks_are_seen_is_never_taken_for_reached() -> None:
    blocks, window = lengths_of(decoder(index_topk_blocks=16, sliding_window=16))
    assert not blocks.is_short
    assert window.is_short
