"""Which path decodes a class, found out on the checkpoint in hand; and that each path finds what
`generate` finds.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch

from beamuq.decoding import (
    Beam,
    Greedy,
    Hybrid,
    Prompt,
    Sample,
    Work,
    checked,
    decode,
    next_token_logprobs,
    tree_attention,
)
from beamuq.decoding.cached_passes import CachedRunner
from beamuq.decoding.self_check import TOLERANCE, SelfCheck, remember
from beamuq.errors import BeamUQError
from model_classes import VOCABULARY, random_model
from small_batch import FEW, POLICIES, Policies, assert_same, batch_of, decoded, expected
from test_decoding_memory import tight
from tiny import DEVICE, NEWEST, forced_logprobs, generated, plain_logits, tiny_model, toy_model

TREE = (
    "gpt_oss",
    "granite",
    "gemma2",
    "deepseek_v3",
    "llama4_text",
    "diffllama",
    "mixtral",
    "gemma3",
)
CACHED = ("jamba", "qwen3_next", "bloom", "mamba", "minimax", "lfm2", "recurrent_gemma")
PROMPTS = [
    Prompt("long", (*range(20, 50), 7)),
    Prompt("forked", (*range(20, 30), 8)),
    Prompt("short", (9,)),
]
STOPS = frozenset(range(1, 9))
STEPS = 5


@pytest.mark.parametrize("kind", TREE)
def test_the_tree_takes_sinks_scales_caps_chunks_and_values_of_another_width(kind: str) -> None:
    found = checked(random_model(kind))
    assert NEWEST or (found.path, found.reason) == ("tree", "")
    assert found.difference <= 1e-5


@pytest.mark.parametrize("kind", CACHED)
def test_what_keeps_states_or_attends_by_itself_is_decoded_over_its_cache(kind: str) -> None:
    found = checked(random_model(kind))
    assert NEWEST or found.path == "cached"
    assert found.difference <= (
        1e-5 if DEVICE.type == "cpu" else 1e-4
    )  # jamba and minimax round more on a card
    assert bool(found.reason) == (found.path == "cached")


@pytest.mark.parametrize("kind", ["gpt_oss", "gemma2", "bloom", "mamba", "recurrent_gemma"])
def test_log_probabilities_are_those_of_the_plain_forward_pass(kind: str) -> None:
    model: Any = random_model(kind)
    tokens = {prompt.id: prompt.token_ids for prompt in PROMPTS}
    policies = [Greedy(), Sample(6), Beam(4), Hybrid(6, 2)]
    for candidate in decode(model, PROMPTS, policies, stop_ids=STOPS, seed=3, max_new_tokens=STEPS):
        expected = forced_logprobs(model, tokens[candidate.prompt_id], candidate.token_ids)
        assert candidate.token_logprobs == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("kind", ["cohere", "gptj", "falcon_h1"])
def test_greedy_and_beams_are_those_of_generate(kind: str) -> None:
    model: Any = random_model(kind)
    exactly = {
        "num_beams": 4,
        "num_return_sequences": 4,
        "length_penalty": 0.0,
        "early_stopping": "never",
    }
    for prompt in PROMPTS:
        found = decode(
            model, [prompt], [Greedy(), Beam(4)], stop_ids=STOPS, seed=0, max_new_tokens=STEPS
        )
        greedy, beams = (
            generated(model, prompt.token_ids, STOPS, STEPS, **options) for options in ({}, exactly)
        )
        assert [candidate.token_ids for candidate in found] == [*greedy, *beams]


@pytest.mark.parametrize(("kind", "policies"), [("llama", POLICIES), ("gemma3", FEW)])
def test_both_paths_find_the_same(kind: str, policies: Policies) -> None:
    model = copy.deepcopy(tiny_model(kind)[0])
    remember(model, SelfCheck("cached", 0.0, "none"))
    work = Work()
    assert_same(decoded(kind, model, policies, work=work), expected(kind, policies))
    assert work.prompt_rows == sum(len(prompt.token_ids) for prompt in batch_of(kind))


def test_the_cached_path_goes_on_with_fewer_rows_where_memory_runs_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, work = copy.deepcopy(tiny_model("llama")[0]), Work()
    remember(model, SelfCheck("cached", 0.0, "none"))
    tight(monkeypatch, CachedRunner, "_forward", lambda _, tokens, *__: len(tokens) > 2)
    assert_same(decoded("llama", model, FEW, work=work), expected("llama", FEW))
    assert work.rows_at_once <= 2


def test_p_true_reads_the_cached_path() -> None:
    model: Any = random_model("mamba")
    found = next_token_logprobs(model, PROMPTS, [40, 50])
    logits = [plain_logits(model, prompt.token_ids)[-1] for prompt in PROMPTS]
    assert found == pytest.approx(
        torch.log_softmax(torch.stack(logits), dim=-1)[:, [40, 50]].numpy(), abs=1e-4
    )


def test_a_scale_behind_the_engines_back_is_caught_and_nothing_is_decoded() -> None:
    """What attention reads is scaled by how many tokens it is given, as code of a class may that no
    config tells of.
    """
    model: Any = copy.deepcopy(toy_model(20))
    for layer in model.get_decoder().layers:

        def forward(
            hidden_states: Any, *rest: Any, _plain: Any = layer.self_attn.forward, **more: Any
        ) -> Any:
            return _plain(hidden_states * (1.0 + hidden_states.shape[1] / 20), *rest, **more)

        layer.self_attn.forward = forward
    with pytest.raises(
        BeamUQError,
        match=r"'llama' cannot be decoded: over a tree: differs by .* cache: differs by",
    ):
        decode(
            model,
            [Prompt("q", (2, 3, 4))],
            [Greedy()],
            stop_ids=frozenset(),
            seed=0,
            max_new_tokens=2,
        )


@pytest.mark.parametrize(
    ("kind", "length", "told"),
    [
        ("mistral", {"sliding_window": 8}, "probed"),
        ("mistral", {"sliding_window": 4096}, "probed shortened"),
        ("gpt_oss", {"sliding_window": 4096}, "probed shortened"),
        ("ministral3", {"sliding_window": 4096}, "probed shortened"),
        ("recurrent_gemma", {"attention_window_size": 2048}, "probed shortened"),
        ("deepseek_v32", {"index_topk": 2048}, "probed shortened"),
        (
            "minimax_m3_vl_text",
            {"index_block_size": 128, "index_topk_blocks": 16},
            "probed shortened",
        ),
        (
            "gpt_neo",
            {"window_size": 256},
            "probed",
        ),  # its masks are made with the model: the probe is long instead
        ("cohere", {}, "none"),
    ],
)
def test_a_length_longer_than_the_probe_is_probed_shortened_or_by_a_longer_probe(
    kind: str, length: dict[str, int], told: str
) -> None:
    found = checked(random_model(kind, **length))
    assert (found.lengths, found.unprobed) == (told, ())


def test_a_length_that_no_probe_reaches_is_named_with_its_value() -> None:
    found = checked(random_model("gpt_neo", window_size=2048, max_position_embeddings=4096))
    assert (found.lengths, found.unprobed) == ("not probed", ("window_size=2048",))
    assert "not probed: window_size=2048" in found.summary


def test_a_length_beyond_the_model_s_context_needs_no_probe() -> None:
    found = checked(random_model("gpt_neo", window_size=2048, max_position_embeddings=512))
    assert (found.lengths, found.unprobed) == ("probed", ())


@pytest.mark.parametrize(
    ("kind", "length"),
    [
        ("deepseek_v32", {"index_topk": 2048}),
        ("minimax_m3_vl_text", {"index_block_size": 128, "index_topk_blocks": 16}),
    ],
)
def test_sparse_attention_is_not_decoded_over_a_tree_though_the_probe_is_too_short_for_it(
    kind: str, length: dict[str, int]
) -> None:
    assert NEWEST or checked(random_model(kind, **length)).path == "cached"


def test_a_wrong_window_is_found_by_the_longer_probe_where_it_cannot_be_shortened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The class reads its window when it is made; a path that forgets what lies far back has
    another one.
    """
    plain = CachedRunner._forward

    def forgetful(runner: Any, tokens: np.ndarray, behind: int, cache: Any) -> Any:
        return plain(
            runner, np.roll(tokens, 1, axis=1) if tokens.shape[1] > 250 else tokens, behind, cache
        )

    monkeypatch.setattr(CachedRunner, "_forward", forgetful)
    with pytest.raises(BeamUQError, match="over its own cache: differs"):
        checked(random_model("gpt_neo", window_size=256))


def test_a_wrong_window_is_found_though_it_is_longer_than_the_probe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tree_attention, "_window", lambda *_: None)
    found = checked(random_model("mistral", sliding_window=4096))
    assert found.path == "cached"


def test_a_llama_4_that_scales_by_position_is_not_decoded_over_a_tree() -> None:
    found = checked(random_model("llama4_text", attn_temperature_tuning=True))
    assert NEWEST or found.path == "cached"
    assert found.difference <= 1e-4


@pytest.mark.parametrize("kind", ["mixtral", "qwen2_moe", "gpt_oss", "deepseek_v3", "llama4_text"])
def test_rows_of_a_packed_pass_choose_their_experts_by_themselves(kind: str) -> None:
    model = random_model(kind)
    prompts = [
        Prompt(str(n), tuple(np.random.default_rng(n).integers(10, VOCABULARY, 5 + n).tolist()))
        for n in range(40)
    ]
    together = next_token_logprobs(model, prompts, range(VOCABULARY))
    alone = np.concatenate(
        [next_token_logprobs(model, [prompt], range(VOCABULARY)) for prompt in prompts]
    )
    assert np.abs(together - alone).mean() < TOLERANCE


@pytest.mark.parametrize("kind", ["gemma2", "gpt_oss", "mixtral", "mamba", "bloom"])
def test_a_bfloat16_model_is_checked_in_float32_too_and_left_as_it_was(kind: str) -> None:
    model = random_model(kind).bfloat16()
    before = {
        name: (tensor.dtype, tensor.data_ptr()) for name, tensor in model.state_dict().items()
    }
    assert checked(model).difference <= 1e-5
    assert {
        name: (tensor.dtype, tensor.data_ptr()) for name, tensor in model.state_dict().items()
    } == before


@pytest.mark.parametrize(("factor", "dtype"), [(2.0, torch.float32), (1.05, torch.bfloat16)])
def test_a_path_that_disagrees_is_not_taken_be_it_by_less_than_bfloat16_rounds(
    factor: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tree_attention.AttentionRule
    monkeypatch.setattr(
        tree_attention, "AttentionRule", lambda scaling, *rest: plain(factor * scaling, *rest)
    )
    model: Any = random_model("gemma2")
    found = checked(model.to(dtype))
    assert found.path == "cached"
    assert found.reason.startswith("differs by")
    assert ("(0.01 allowed)" in found.reason) == (dtype == torch.bfloat16)
