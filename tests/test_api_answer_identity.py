"""What decoded rows say of their model and prompt, so that ``decide`` can compare them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import beamuq
from beamuq.api.answer_identity import are_of_one_kind
from beamuq.api.open_models import open_model
from beamuq.models.load_model import load_causal
from tiny import build_tiny_model

SYSTEM = {"role": "system", "content": "Answer in one word."}
DECODED: dict[str, Any] = {"beams": 2, "max_new_tokens": 2, "stop": "eos"}
NOT_KNOWN = "not known whether"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_model("llama", tmp_path_factory.mktemp("tiny") / "llama")


@pytest.fixture(scope="module")
def loaded(folder: Path) -> tuple[Any, Any]:
    return load_causal(folder, dtype=torch.float32, device=torch.device("cpu"))


def conversation(number: int, *before: dict[str, str]) -> list[dict[str, str]]:
    return [*before, {"role": "user", "content": f"What is {number}?"}]


def prompt_hashes(loaded: tuple[Any, Any], prompts: list[Any], **options: Any) -> list[str | None]:
    rows = beamuq.decode(*loaded, prompts, chat=True, **DECODED | options)
    return [row.get("prompt_hash") for row in rows]


def labelled(rows: list[dict[str, Any]], **labels: str) -> list[dict[str, Any]]:
    return [
        row | labels | {"id": f"q{number}", "correct": number % 3 > 0}
        for number, row in enumerate(rows)
    ]


def calibrated(rows: list[dict[str, Any]]) -> Any:
    scores = beamuq.score(rows, similarity="lexical", methods="Prob")
    return beamuq.calibrate(scores, method="Prob", risk=0.4)


def told(rows: list[dict[str, Any]], calibration: Any) -> list[str]:
    scores = beamuq.score(rows, similarity="lexical", methods="Prob")
    return list(beamuq.decide(scores, calibration).warnings)


def test_decoded_rows_say_their_model_and_its_hash(loaded: tuple[Any, Any]) -> None:
    (row,) = beamuq.decode(*loaded, ["What is two?"], **DECODED)
    opened = open_model(loaded)
    assert (row["model"], row["model_hash"]) == (opened.name, opened.content)
    assert "prompt_hash" not in row  # which part of a text is the question is not known


def test_conversations_of_one_system_prompt_say_its_hash(loaded: tuple[Any, Any]) -> None:
    first, second = prompt_hashes(loaded, [conversation(1, SYSTEM), conversation(2, SYSTEM)])
    assert first is not None
    assert first == second
    others = [
        prompt_hashes(loaded, [conversation(1)]),
        prompt_hashes(loaded, [conversation(1, SYSTEM)], max_new_tokens=3),
    ]
    assert first not in [prompt_hash for (prompt_hash,) in others]
    assert prompt_hashes(loaded, [conversation(1, SYSTEM), conversation(2)]) == [None, None]
    assert prompt_hashes(loaded, [conversation(1, SYSTEM), "What is 2?"]) == [None, None]


def test_ask_gives_a_conversation_the_same_hash(loaded: tuple[Any, Any]) -> None:
    (decoded,) = prompt_hashes(loaded, [conversation(1, SYSTEM)])
    asked = beamuq.ask(
        conversation(1, SYSTEM),
        loaded,
        style="chat",
        width=10,
        max_new_tokens=2,
        stop="eos",
        similarity="lexical",
    )
    assert asked.prompt_hash == decoded
    assert set(asked.uncertainties["prompt_hash"]) == {decoded}


def test_of_decoded_conversations_nothing_is_unknown_to_decide(loaded: tuple[Any, Any]) -> None:
    talks = [conversation(number, SYSTEM) for number in range(24)]
    rows = labelled(beamuq.decode(*loaded, talks, chat=True, **DECODED))
    assert not any(NOT_KNOWN in warning for warning in told(rows[:5], calibrated(rows)))


def test_of_decoded_texts_the_prompt_alone_is_unknown_and_the_warning_says_what_to_do(
    loaded: tuple[Any, Any],
) -> None:
    decoded = beamuq.decode(*loaded, [f"What is {number}?" for number in range(24)], **DECODED)
    rows = labelled(decoded)
    (warning,) = [line for line in told(rows[:5], calibrated(rows)) if NOT_KNOWN in line]
    assert warning.startswith("not known whether the calibration's: prompt;")
    assert "give each row 'prompt_hash', any text that you change with the prompt" in warning
    named_rows = labelled(decoded, prompt_hash="no examples, version 1")
    assert not any(NOT_KNOWN in line for line in told(named_rows[:5], calibrated(named_rows)))


def test_a_hash_of_files_and_one_of_memory_are_not_compared_and_that_is_said(
    folder: Path, loaded: tuple[Any, Any]
) -> None:
    in_memory = open_model(loaded).content
    of_files = open_model(folder).content
    assert in_memory is not None
    assert of_files is not None
    assert not are_of_one_kind(in_memory, of_files)
    decoded = beamuq.decode(*loaded, [f"What is {number}?" for number in range(24)], **DECODED)
    rows = labelled(decoded, prompt_hash="p")
    calibration = calibrated([row | {"model_hash": of_files} for row in rows])
    (warning,) = [line for line in told(rows[:5], calibration) if NOT_KNOWN in line]
    assert "one hash is of a model's files" in warning


def test_of_weights_that_are_elsewhere_no_hash_is_known(loaded: tuple[Any, Any]) -> None:
    offloaded = copy.deepcopy(loaded[0]).to("meta")
    assert open_model((offloaded, loaded[1])).content is None
