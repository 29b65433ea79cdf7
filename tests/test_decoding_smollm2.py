"""The real SmolLM2 against ``generate``, where its weights have been fetched."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from beamuq.decoding import (
    Beam,
    Candidate,
    Greedy,
    Prompt,
    Sample,
    candidate_text,
    decode,
    stop_tokens,
)
from beamuq.decoding.random_numbers import draw_keys, gumbel_max
from tiny import DEVICE, generated, plain_logits

FOLDER = Path(__file__).resolve().parents[1] / "resources" / "models" / "smollm2-135m-instruct"
SHOTS = (
    "Question: What is the capital of Italy?\nAnswer: Rome\n\nQuestion: How many legs has a "
    "spider?\nAnswer: eight\n\n"
)
TEXTS = [
    SHOTS + "Question: Who painted the Mona Lisa?\nAnswer:",
    "The tallest mountain on Earth is",
]
BEAMS = [Beam(10), Beam(10, 1.0, False)]
STEPS = 8

pytestmark = [
    pytest.mark.packaged,
    pytest.mark.skipif(
        not (FOLDER / "model.safetensors").exists(), reason=f"{FOLDER} is absent; run make models"
    ),
]


@cache
def _model() -> tuple[Any, Any, frozenset[int]]:
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval().to(DEVICE)
    tokenizer = AutoTokenizer.from_pretrained(FOLDER)
    return model, tokenizer, stop_tokens(tokenizer, model)


@cache
def _decoded() -> list[Candidate]:
    model, tokenizer, stops = _model()
    prompts = [Prompt(text, tuple(tokenizer(text)["input_ids"])) for text in TEXTS]
    return decode(
        model, prompts, [Greedy(), Sample(6), *BEAMS], stop_ids=stops, seed=0, max_new_tokens=STEPS
    )


def _generate(text: str, **options: object) -> list[tuple[int, ...]]:
    model, tokenizer, stops = _model()
    return generated(model, tokenizer(text)["input_ids"], stops, STEPS, **options)


@pytest.mark.parametrize("text", TEXTS)
def test_greedy_is_identical_to_generate_on_real_weights(text: str) -> None:
    ours = [c.token_ids for c in _decoded() if c.prompt_id == text and c.strategy == "greedy"]
    assert ours == _generate(text)


@pytest.mark.parametrize(
    ("text", "beam"), list(zip(TEXTS, BEAMS, strict=True)), ids=["shots", "sentence"]
)
def test_beams_are_identical_to_generate_on_real_weights(text: str, beam: Beam) -> None:
    ours = [c.token_ids for c in _decoded() if c.prompt_id == text and c.strategy == beam.strategy]
    ends = {"length_penalty": beam.length_penalty, "early_stopping": beam.early_stopping}
    assert ours == _generate(text, num_beams=10, num_return_sequences=10, **ends)


def test_the_answer_to_an_easy_question_is_right() -> None:
    _, tokenizer, stops = _model()
    greedy = next(c for c in _decoded() if c.strategy == "greedy")
    assert candidate_text(tokenizer, greedy.token_ids, stops) == " Leonardo da Vinci"


def test_draws_survive_another_attention_kernel() -> None:
    model, tokenizer, _ = _model()
    eager = (
        AutoModelForCausalLM.from_pretrained(
            FOLDER, dtype=torch.float32, attn_implementation="eager"
        )
        .eval()
        .to(DEVICE)
    )
    assert model.config._attn_implementation != "eager"
    token_ids = tokenizer(TEXTS[0])["input_ids"]
    logprobs = [plain_logits(kernel, token_ids).log_softmax(dim=-1) for kernel in (model, eager)]
    assert not torch.equal(*logprobs)
    keys = draw_keys(0, "question", "sample", 200, len(logprobs[0]))
    rows = np.tile(np.arange(len(logprobs[0])), 200)
    first, second = (gumbel_max(table, rows, keys.ravel()) for table in logprobs)
    assert (
        first != second
    ).double().mean() <= 2e-4  # an inverse distribution function in token order: 3e-3
