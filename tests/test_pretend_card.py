"""The GPU's code paths on a pretended card: no tensor on the wrong device, the CPU's answers, and
little waiting.
"""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.utils import send_to_device
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.integrations.accelerate import infer_auto_device_map

import tiny_scorers
from beamuq.decoding import ROWS, Candidate, Sample, Work, stop_tokens
from beamuq.decoding.next_token_distributions import NextTokenDistributions
from beamuq.decoding.self_check import SelfCheck, checked, remember
from beamuq.decoding.tree_attention import AttentionRule, ForwardPass, TreeCache, padded_nodes
from beamuq.scorers.alignscore import AlignScore
from beamuq.scorers.similarity_by_kind import load_scorer
from pretend_card import CARD, SECOND, PretendCard, pretend_card
from small_batch import FEW, POLICIES, Policies, assert_same, batch_of, decoded
from tiny import CPU, KINDS, tiny_model

PAIRS = list(itertools.product(["", "Paris", "the Seine", "1945 " * 30], repeat=2))
EVERY: Policies = (*POLICIES, Sample(3, 0.5))


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendCard]:
    for kind in ("llama", "gemma3"):
        tiny_model(kind)  # built once, for the CPU, and copied to the card
    with pretend_card(monkeypatch) as card:
        yield card


def _moved(kind: str, card: PretendCard, dtype: torch.dtype = torch.float32) -> PreTrainedModel:
    model = copy.deepcopy(tiny_model(kind)[0]).to(dtype)
    card.hold(model)
    return model


def _decoded(
    kind: str, model: PreTrainedModel, policies: Policies = FEW, **options: Any
) -> list[Candidate]:
    stops = stop_tokens(tiny_model(kind)[1], model) | set(range(100, 120))
    return decoded(kind, model, policies, merge_stop_tokens=stops, max_new_tokens=5, **options)


@pytest.mark.parametrize(
    ("kind", "policies"), [("llama", EVERY), *((kind, FEW) for kind in KINDS if kind != "llama")]
)
def test_the_answers_on_a_card_are_those_of_the_cpu(
    kind: str, policies: Policies, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _decoded(kind, tiny_model(kind)[0], policies)
    with pretend_card(monkeypatch) as card:
        found = _decoded(kind, _moved(kind, card), policies)
    assert_same(found, expected)


def test_the_host_waits_for_the_card_once_a_step(
    card: PretendCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = Counter[str]()

    def counted(name: str) -> None:
        whole = getattr(NextTokenDistributions, name)

        def call(*arguments: Any) -> Any:
            calls[name] += 1
            return whole(*arguments)

        monkeypatch.setattr(NextTokenDistributions, name, call)

    counted("read")
    counted("_sorted")  # equal values at a list's edge are looked at once more
    model = _moved("gemma3", card)
    checked(model)
    card.waits.clear()
    _decoded("gemma3", model, EVERY)
    assert calls["_sorted"] < calls["read"] / 4
    assert +card.waits == {"copy to the host": calls.total()}


@torch.inference_mode()
def test_attention_of_a_step_takes_four_launches_a_layer(card: PretendCard) -> None:
    cache, rows = TreeCache(np.array([10, 12, 9]), 20, True), torch.zeros(1, 4, 5, 8).to(CARD)
    questions, visible = np.array([0, 0, 1, 2, 2]), np.array([[10], [11], [12], [9], [10]])
    piece = padded_nodes(questions, cache.lengths[questions], cache.lengths, visible, CARD)
    keys = torch.zeros(3, 20, 2, 8).to(CARD)
    run = ForwardPass(cache, torch.arange(5).to(CARD), None, [piece])
    run.attend(rows, keys, keys, AttentionRule())  # makes the mask, which all layers share
    card.launches.clear()
    run.attend(rows, keys, keys, AttentionRule())
    names = {name.split(".")[1] for name in card.launches}
    assert names == {"new_zeros", "index_put_", "scaled_dot_product_attention", "index"}
    assert card.launches.total() == 4


@pytest.mark.parametrize("questions", [2, 40])
@torch.inference_mode()
def test_buffers_are_widened_by_as_many_launches_for_any_number_of_questions(
    questions: int, card: PretendCard
) -> None:
    cache, layers = TreeCache(np.full(questions, 3), 4, True), 3
    rows, target = torch.ones(1, 2, questions, 8).to(CARD), torch.arange(questions).to(CARD) * 4
    for layer in range(layers):
        cache.store((layer, 0), rows, rows, target, None)
    card.launches.clear()
    cache.reserve(np.repeat(np.arange(questions), 2))
    assert cache.capacity == 5
    assert card.launches.total() <= 3 * 2 * layers


def test_a_batch_that_would_fill_the_card_is_cut_before_rows_are(card: PretendCard) -> None:
    expected, model, work = _decoded("llama", tiny_model("llama")[0]), _moved("llama", card), Work()
    checked(model)
    config = model.config
    width = config.hidden_size // config.num_attention_heads * config.num_key_value_heads
    longest = max(len(prompt.token_ids) for prompt in batch_of("llama"))
    card.free = 3 * (longest + 128) * 2 * config.num_hidden_layers * width * 4
    assert_same(_decoded("llama", model, work=work), expected)
    assert work.pieces == [(2, ROWS), (2, ROWS)]


@pytest.mark.parametrize("kind", ["llama", "gemma3_multimodal"])
def test_layers_spread_over_two_cards_find_the_same_answers(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inputs are sent as accelerate's hooks send them for such a ``device_map``; a layer's keys lie
    on its own card.
    """
    expected = _decoded(kind, tiny_model(kind)[0])
    with pretend_card(monkeypatch) as card:
        model = copy.deepcopy(tiny_model(kind)[0])
        size = sum(weight.nbytes for weight in model.parameters())
        cards = infer_auto_device_map(
            model, {0: size * 9 // 10, 1: size}, no_split_module_classes=model._no_split_modules
        )
        (layers,) = (name for name in cards if name.endswith(".layers"))
        del cards[
            layers
        ]  # few and small: one of them for either card, as of a model that is mostly layers
        placed = {name: (CARD, SECOND)[card] for name, card in cards.items()}
        placed |= {f"{layers}.{number}": card for number, card in enumerate((CARD, SECOND))}
        assert set(placed.values()) == {CARD, SECOND}
        for name, device in placed.items():
            part = model.get_submodule(name)
            card.hold(part, device)
            part.register_forward_pre_hook(
                lambda _, args, kwargs, device=device: send_to_device((args, kwargs), device),
                with_kwargs=True,
            )
        found = _decoded(kind, model)
        remember(model, SelfCheck("cached", 0.0, "none"))
        over_its_own_cache = _decoded(kind, model)
    assert_same(found, expected)
    assert_same(over_its_own_cache, expected)


@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_attention_has_forms_that_fused_kernels_take(
    kind: str, card: PretendCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain kernel would write out every score: flash takes no mask, the memory-efficient one
    no shared heads.
    """
    plain, forms = functional.scaled_dot_product_attention, Counter[str]()

    def noted(
        query: Any,
        key: Any,
        value: Any,
        *,
        attn_mask: Any = None,
        is_causal: bool = False,
        **rest: Any,
    ) -> Any:
        lies_well = all(tensor.stride(-1) == 1 for tensor in (query, key, value))
        if attn_mask is None and is_causal and query.shape[2] == key.shape[2]:
            form = "flash"
        elif (
            attn_mask is not None
            and query.shape[1] == key.shape[1]
            and attn_mask.stride()[-2:] == (8 * -(-key.shape[2] // 8), 1)
        ):
            form = "memory-efficient"
        else:
            form = "plain"
        forms[form if lies_well else "plain"] += 1
        return plain(query, key, value, attn_mask=attn_mask, is_causal=is_causal, **rest)

    model = _moved(kind, card, torch.bfloat16)
    checked(model)
    monkeypatch.setattr(functional, "scaled_dot_product_attention", noted)
    _decoded(kind, model)
    assert set(forms) == {"flash", "memory-efficient"}


def _scores(scorer: Any) -> Any:
    return (
        scorer.score(*zip(*PAIRS, strict=True))
        if isinstance(scorer, AlignScore)
        else scorer.score(PAIRS).entail
    )


@pytest.mark.parametrize("kind", ["nli", "cross_encoder", "embedder", "alignscore"])
def test_similarities_are_the_same_on_a_card(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: Any = getattr(tiny_scorers, f"build_{kind}")(tmp_path)
    load = partial(load_scorer, "embedding" if kind == "embedder" else kind)
    scorer: Any = AlignScore(*built, **CPU) if kind == "alignscore" else load(built, **CPU)
    expected = _scores(scorer)
    with pretend_card(monkeypatch) as card:
        for part in ("body", "head") if kind == "alignscore" else ("model",):
            card.hold(getattr(scorer, part))
        scorer.device = CARD
        found = _scores(scorer)
    np.testing.assert_allclose(found, expected, atol=1e-5)
