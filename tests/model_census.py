"""The census of models behind docs/models.md: which path decodes a class, and how exactly."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel

from beamuq.decoding import Beam, Greedy, Prompt, Sample, checked, decode, stop_tokens
from beamuq.decoding.output_layer import text_decoder
from beamuq.decoding.tree_attention import attention
from beamuq.errors import BeamUQError
from model_classes import random_model
from tiny import DEVICE, plain_logits

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "models.md"
_DRAWS = np.random.default_rng(0).integers(10, 96, 41).tolist()
_OWN = ((16, 19), (19, 33), (33, 41))
PROMPTS = [
    Prompt(str(n), (*_DRAWS[:16], *_DRAWS[first:last])) for n, (first, last) in enumerate(_OWN)
]
LONGEST = PROMPTS[1].token_ids
STOPS = frozenset(range(1, 9))
WIDEST = 1e-2
PATHS, REFUSED = {"tree": "over a tree", "cached": "over its own cache"}, "**refused**"


@dataclass(frozen=True)
class Found:
    """What decoding some prompts with a model came to; ``difference`` is the largest, in nats."""

    path: str
    reason: str
    difference: float = 0.0


def plain_logprobs(model: PreTrainedModel, tokens: Sequence[int]) -> torch.Tensor:
    """Log-probabilities (places, vocabulary) after each token by the model's own forward pass,
    eager and uncached.
    """
    with attention(text_decoder(model), "eager"):
        logits = plain_logits(model, tokens, use_cache=False)
    return torch.log_softmax(logits.float(), dim=-1)


def found_of(
    model: PreTrainedModel, prompts: Sequence[Prompt], stops: frozenset[int], steps: int = 10
) -> Found:
    """Decode greedily, by beams and by draws; hold every token, and the sum of every finished
    answer, against plain.
    """
    try:
        check = checked(model)
    except BeamUQError as error:
        return Found(
            "refused", _told(str(error).partition("cannot be decoded: ")[2].rpartition("; ")[0])
        )
    tokens = {prompt.id: prompt.token_ids for prompt in prompts}
    candidates = decode(
        model, prompts, [Greedy(), Beam(4), Sample(6)], stop_ids=stops, seed=3, max_new_tokens=steps
    )
    largest = 0.0
    for answer in {(each.prompt_id, each.token_ids): each for each in candidates}.values():
        length = len(answer.token_ids)
        logprobs = plain_logprobs(model, [*tokens[answer.prompt_id], *answer.token_ids])[
            -length - 1 : -1
        ].double()
        plain = logprobs[range(length), list(answer.token_ids)].numpy()
        largest = max(largest, float(np.abs(plain - answer.token_logprobs).max()))
        if answer.terminated:
            largest = max(largest, abs(float(plain.sum()) - answer.logprob))
    return Found(check.path, _told(check.reason), largest)


def _told(reason: str) -> str:
    """A reason without what another machine would say otherwise: digits of a difference, texts of
    an exception.
    """
    return re.sub(
        r"(\w+Error): .*?(?=; over its|$)",
        r"\1",
        re.sub(r" by \S+ nats on average \(\S+ allowed\)", "", reason),
    )


def row(kind: str) -> tuple[str, float]:
    """The page's line of a class, and the largest difference."""
    found = found_of(random_model(kind), PROMPTS, STOPS)
    return _line(f"`{kind}`", found), found.difference


def _line(name: str, found: Found) -> str:
    cells = (name, PATHS.get(found.path, REFUSED), _bound(found), found.reason)
    return re.sub(" +", " ", f"| {' | '.join(cells)} |")


def _bound(found: Found) -> str:
    """A power of ten well above the difference, so that another machine's rounding stays below
    it.
    """
    if found.path == "refused":
        return ""
    return f"{10.0 ** np.ceil(np.log10(max(3 * found.difference, 1e-6))):.0e}"


TEXTS = (
    "What is the capital of Italy?\nAnswer:",
    "Who painted the Mona Lisa?\nAnswer:",
    "How old is the Earth?",
)
SHOTS = "Question: What is the capital of Peru?\nAnswer: Lima\n\nQuestion: "
REAL = {
    "SmolLM2 135M Instruct": ROOT / "resources" / "models" / "smollm2-135m-instruct",
    "Gemma 3 270M": Path(os.environ.get("BEAMUQ_GEMMA", "")),
}
"""Folders of real weights by name; Gemma's is where someone who accepts its terms has put it."""


def real_row(name: str) -> tuple[str, float]:
    """The page's line of real weights, and the largest difference."""
    makers: tuple[Any, Any] = AutoModelForCausalLM, AutoTokenizer
    model = makers[0].from_pretrained(REAL[name], dtype=torch.float32).eval().to(DEVICE)
    tokenizer = makers[1].from_pretrained(REAL[name])
    prompts = [Prompt(text, tuple(tokenizer(SHOTS + text)["input_ids"])) for text in TEXTS]
    found = found_of(model, prompts, stop_tokens(tokenizer, model))
    return _line(name, found), found.difference


def is_there(name: str) -> bool:
    """Whether there are real weights of that name on this machine."""
    return (REAL[name] / "config.json").exists()


def rows_of_page() -> dict[str, str]:
    """The lines of the page's tables by their first cell."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    return {line.split("|")[1].strip(" `"): line for line in lines if line.startswith("| ")}


def agrees(line: str, difference: float, with_page: str, *, any_path: bool = False) -> bool:
    """Whether the page says of a model what was measured: all cells alike, and a difference within
    the page's bound.

    With ``any_path`` a model that the page has decoded need only be decoded, over whatever path,
    within ten times that bound, and one that it has refused may be decoded, within the most of the
    page's bounds.
    """
    new, old = ([cell.strip() for cell in each.split("|")] for each in (line, with_page))
    if any_path:
        if new[2] == REFUSED:
            return old[2] == REFUSED
        return difference <= (10 * float(old[3]) if old[3] else WIDEST)
    return new[:3] + new[4:] == old[:3] + old[4:] and difference <= float(old[3] or 0)
