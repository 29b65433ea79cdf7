"""The benchmarks, rehearsed on tiny models and a pretended card: what they print there are no measurements."""

from __future__ import annotations

import argparse
from functools import partial

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel

from benchmarks import decoding
from pretend_card import pretend_card


def test_the_gpu_benchmark_runs_and_reports_every_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=100_000, num_key_value_heads=1, **shape)
    arguments = argparse.Namespace(lengths=[48, 60], repeats=1, batch=3)
    with pretend_card(monkeypatch) as card:

        def random_model(_: str) -> PreTrainedModel:
            model = LlamaForCausalLM(config).to(torch.bfloat16).eval()
            card.hold(model)
            return model

        monkeypatch.setattr(decoding, "random_model", random_model)
        monkeypatch.setattr(decoding, "matrix_rate", partial(decoding.matrix_rate, 64, 1))
        monkeypatch.setattr(decoding, "POLICIES", decoding.POLICIES[:1])
        monkeypatch.setattr(decoding, "NEW_TOKENS", 2)
        cells = decoding.on_gpu(arguments)
    assert [(c["shape"], c["prompt tokens"], c["of them shared"]) for c in cells] == [
        (shape, tokens, shared)
        for shape in ("llama-8b", "gemma-4b")
        for tokens, shared in ((48, 0), (48, 8), (60, 0), (60, 20))
    ]
    for cell in cells:
        assert cell["questions a second"] > 0
        assert cell["prefill share of product rate"] > 0
        assert 3 <= cell["rows decoded"] <= 6
