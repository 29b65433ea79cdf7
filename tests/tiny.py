"""Tiny random checkpoints of the supported model classes, built in a second and loaded like real
ones.

``build_tiny_model("gemma3", folder)`` writes config, weights and a byte-level BPE tokenizer trained
on a few lines. The models have several end-of-sequence ids, newline tokens, pad id 0 and, for Gemma
3, a sliding window shorter than the prompts of the tests.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    CONFIG_MAPPING,
    AutoModelForCausalLM,
    AutoTokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

KINDS = ("llama", "qwen3", "gemma3", "gemma3_multimodal")
WINDOW = 8
CONTEXT = 512
DEVICE = torch.device(os.environ.get("BEAMUQ_TEST_DEVICE", "cpu"))
"""Where the engine's tests run their models: ``BEAMUQ_TEST_DEVICE=cuda pytest
tests/test_decoding_*.py``.
"""
NEWEST = os.environ.get("BEAMUQ_NEWEST") == "1"
"""Whether `make newest` runs the tests, on another transformers than the pinned one: there a path
is not promised.
"""
CPU: dict[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}
SPECIAL = [
    "<pad>",
    "<eos>",
    "<bos>",
    "<end_of_turn>",
    "<start_of_turn>",
    "<image>",
    "<boi>",
    "<eoi>",
]
CORPUS = [
    "Question: Which river runs through Paris?\nAnswer: the Seine.\n\n",
    "Question: Who wrote the play about a prince of Denmark?\nAnswer: William Shakespeare\n\n",
    "Question: What is the capital of France? Answer: Paris\nQuestion: How many legs has a "
    "spider? Answer: eight\n",
    "(A) water (B) stone (C) paper (D) a tree (E) nothing at all\n",
]
CHAT = (
    "{% for message in messages %}<start_of_turn>{{ message['role'] }}\n{{ message['content'] "
    "}}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>assistant\n{% endif %}"
)


def build_tiny_model(kind: str, folder: Path, *, context: int = CONTEXT) -> Path:
    """Write a random model of ``kind`` (one of `KINDS`) and its tokenizer to ``folder``; returns
    the folder.
    """
    tokenizer = tiny_tokenizer()
    size = len(tokenizer)
    shape: dict[str, Any] = {
        "vocab_size": size,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "max_position_embeddings": context,
        "initializer_range": 0.3,  # larger makes sharper distributions
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": [1, 3],
        "tie_word_embeddings": True,
    }
    if kind.startswith("gemma3"):
        sliding = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
        shape |= sliding | {"query_pre_attn_scalar": 8}
    config = CONFIG_MAPPING[
        {"gemma3": "gemma3_text", "gemma3_multimodal": "gemma3_text"}.get(kind, kind)
    ](**shape)
    if kind == "gemma3_multimodal":
        vision = {
            "hidden_size": 8,
            "intermediate_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
        }
        vision |= {"image_size": 16, "patch_size": 8}
        tokens = {
            "image_token_index": 5,
            "boi_token_index": 6,
            "eoi_token_index": 7,
            "mm_tokens_per_image": 4,
        }
        ends = {
            name: shape[name]
            for name in ("eos_token_id", "pad_token_id", "bos_token_id", "tie_word_embeddings")
        }
        config = CONFIG_MAPPING["gemma3"](
            text_config=config.to_dict(), vision_config=vision, **tokens, **ends
        )
        config.initializer_range = shape["initializer_range"]
    torch.manual_seed(0)
    make: Any = AutoModelForCausalLM
    model: PreTrainedModel = make.from_config(config)
    model.generation_config.eos_token_id = [1, 3]
    model.generation_config.pad_token_id = 0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def load_tiny_model(folder: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model in float32 on the CPU, and its tokenizer, through the Auto classes."""
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    return model, AutoTokenizer.from_pretrained(folder)


def likes_newlines(
    folder: Path, factor: float = 2.0
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A tiny model whose answers often hold newlines: of two newline tokens one is probable behind
    any prompt.
    """
    model, tokenizer = load_tiny_model(folder)
    embedding = model.get_input_embeddings().weight
    newline = tokenizer.convert_tokens_to_ids("Ċ")
    with torch.no_grad():
        embedding[newline] *= factor
        embedding[tokenizer.convert_tokens_to_ids(".\n")] = -embedding[newline]
    return model, tokenizer


@cache
def tiny_model(kind: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A tiny model of ``kind`` that has been through a folder, built once a test run, on
    ``DEVICE``.
    """
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer = load_tiny_model(build_tiny_model(kind, Path(folder)))
    return model.to(DEVICE), tokenizer


@cache
def toy_model(vocabulary: int = 6, *, seed: int = 1, scale: float = 0.5) -> PreTrainedModel:
    """A Llama of so few tokens that all its answers can be listed."""
    torch.manual_seed(seed)
    shape: dict[str, Any] = {"vocab_size": vocabulary, "hidden_size": 16, "intermediate_size": 24}
    shape |= {
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "initializer_range": scale,
    }
    config = LlamaConfig(**shape, max_position_embeddings=64, tie_word_embeddings=False)
    return LlamaForCausalLM(config).eval().to(DEVICE)


def generated(
    model: Any, prompt: Sequence[int], stops: Iterable[int], steps: int, **options: Any
) -> list[tuple[int, ...]]:
    """The answers of transformers' ``generate``, each up to its first stop; it does not sample."""
    ids, stops = torch.tensor([prompt], device=model.device), sorted(stops)
    usual = {
        "attention_mask": torch.ones_like(ids),
        "do_sample": False,
        "max_new_tokens": steps,
        "pad_token_id": 0,
    }
    with torch.inference_mode():
        rows = model.generate(ids, eos_token_id=stops, **usual, **options)[
            :, len(prompt) :
        ].tolist()
    ends = [
        next((place + 1 for place, token in enumerate(row) if token in stops), steps)
        for row in rows
    ]
    return [tuple(row[:end]) for row, end in zip(rows, ends, strict=True)]


def plain_logits(model: Any, tokens: Sequence[int], **options: Any) -> torch.Tensor:
    """Logits (T, vocabulary) behind each of ``tokens`` by the untouched model, on the CPU."""
    with torch.inference_mode():
        logits: torch.Tensor = model(
            input_ids=torch.tensor([[*tokens]], device=model.device), **options
        ).logits[0]
    return logits.cpu()


def forced_logits(
    model: Any, prompt: Sequence[int], tokens: Sequence[int], padding: int = 0
) -> torch.Tensor:
    """Teacher-forced logits of ``tokens`` (T, vocabulary) in float64, from the untouched model,
    after so many pads.
    """
    ids = [0] * padding + [*prompt, *tokens]
    given: dict[str, Any] = {"use_cache": False}
    if padding:
        mask = (torch.arange(len(ids), device=model.device) >= padding).long()[None]
        given |= {"attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp_min(0)}
    return plain_logits(model, ids, **given)[-len(tokens) - 1 : -1].double()


def forced_logprobs(
    model: Any,
    prompt: Sequence[int],
    tokens: Sequence[int],
    padding: int = 0,
    temperature: float = 1.0,
) -> np.ndarray:
    """Teacher-forced log-probabilities of ``tokens``, sharpened to 1/``temperature``."""
    logprobs = torch.log_softmax(
        forced_logits(model, prompt, tokens, padding) / temperature, dim=-1
    )
    return logprobs.gather(1, torch.tensor(tokens)[:, None])[:, 0].numpy()


def byte_level(corpus: list[str], vocabulary: int, special: list[str]) -> Tokenizer:
    """A byte-level BPE of so many tokens, trained on a corpus."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet
    )
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of 320 tokens, trained on the corpus, and one for a full stop with a
    newline.
    """
    tokenizer = byte_level(CORPUS * 4, 320, SPECIAL)
    tokenizer.add_tokens([".\n"])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        eos_token="<eos>",
        bos_token="<bos>",
        extra_special_tokens={"turn_end": "<end_of_turn>", "turn_start": "<start_of_turn>"},
        padding_side="left",
        chat_template=CHAT,
        model_max_length=CONTEXT,
    )
