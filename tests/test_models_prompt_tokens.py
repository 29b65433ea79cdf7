"""Prompts as token ids: special tokens, thinking and dates of chat templates, the context window."""

from __future__ import annotations

import copy
from types import SimpleNamespace
from typing import Any

import pytest

import tiny
from beamuq.errors import BeamUQError
from beamuq.models import prompt_tokens


class Tokenizer:
    """One token a character; BOS 1 and EOS 2 are added as configured; the template writes a BOS of its own."""

    name_or_path = "toy"
    chat_template: str | None = "{{ messages }}"

    def __init__(self, *, bos: bool = True, eos: bool = False) -> None:
        self.bos, self.eos = bos, eos

    def __call__(self, text: str, add_special_tokens: bool = True) -> Any:
        ids = [1 if mark == "^" else ord(mark) for mark in text]
        if add_special_tokens:
            ids = [1] * self.bos + ids + [2] * self.eos
        return type("Encoding", (), {"input_ids": ids})()

    def apply_chat_template(self, messages: Any, *, tokenize: bool, add_generation_prompt: bool, **options: Any) -> str:
        assert not tokenize
        assert add_generation_prompt
        return f"^{messages[0]['content']}{options.get('enable_thinking', '')}>"


@pytest.mark.parametrize(
    ("bos", "eos", "expected"), [(True, False, [1, 97, 98]), (False, False, [97, 98]), (True, True, [1, 97, 98])]
)
def test_a_plain_prompt_has_the_configured_bos_and_no_eos(bos: bool, eos: bool, expected: list[int]) -> None:
    assert prompt_tokens.plain_prompt_ids(Tokenizer(bos=bos, eos=eos), "ab") == expected


def test_thinking_is_passed_to_a_template_that_knows_it_and_only_to_it() -> None:
    tokenizer = Tokenizer()
    assert prompt_tokens.chat_prompt_ids(tokenizer, "a") == [1, 97, 62]  # one BOS, the template's own
    with pytest.raises(BeamUQError, match="knows no enable_thinking; remove the key"):
        prompt_tokens.chat_prompt_ids(tokenizer, "a", enable_thinking=False)
    tokenizer.chat_template = "{% if enable_thinking %}"
    assert prompt_tokens.chat_prompt_ids(tokenizer, "a", enable_thinking=False) == [1, 97, *map(ord, "False>")]
    with pytest.raises(BeamUQError, match="can think first; set enable_thinking: false"):
        prompt_tokens.chat_prompt_ids(tokenizer, "a")
    tokenizer.chat_template = None
    with pytest.raises(BeamUQError, match="has no chat template; use style: base"):
        prompt_tokens.chat_prompt_ids(tokenizer, "a")


def test_a_prompt_does_not_depend_on_the_day() -> None:
    _, tokenizer = tiny.tiny_model("llama")
    dated = "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% endif %}"
    template = dated + "{{ date_string }} {{ messages[0]['content'] }}"
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = template
    assert tokenizer.decode(prompt_tokens.chat_prompt_ids(tokenizer, "hello")) == "26 Jul 2024 hello"
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }} {{ messages[0]['content'] }}"
    with pytest.raises(BeamUQError, match="writes today's date"):
        prompt_tokens.chat_prompt_ids(tokenizer, "hello")


def test_a_prompt_must_leave_room_for_its_answer() -> None:
    prompt_tokens.check_prompt_lengths({"q1": [0] * 80}, window=100, max_new_tokens=20)
    with pytest.raises(BeamUQError, match="prompt 'q2': 81 tokens and 20 new ones exceed the model's context of 100"):
        prompt_tokens.check_prompt_lengths({"q1": [0] * 80, "q2": [0] * 81}, window=100, max_new_tokens=20)


@pytest.mark.parametrize(
    ("config", "window"),
    [
        ({"max_position_embeddings": 512}, 512),
        ({"max_seq_len": 512}, 512),
        ({}, None),  # a recurrent state, or penalties by distance: there is no last position
        (
            {
                "max_position_embeddings": 4096,
                "rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 512},
            },
            512,
        ),
        (
            {
                "max_position_embeddings": 4096,
                "rope_parameters": {
                    "full_attention": {"rope_type": "longrope", "original_max_position_embeddings": 512},
                    "sliding_attention": {"rope_type": "default"},
                },
            },
            512,
        ),
        ({"max_position_embeddings": 512, "rope_parameters": {"rope_type": "linear", "factor": 4.0}}, 512),
    ],
)
def test_the_context_window_ends_where_positions_do(config: dict[str, Any], window: int | None) -> None:
    text = SimpleNamespace(**config)
    model = SimpleNamespace(config=SimpleNamespace(get_text_config=lambda: text))
    assert prompt_tokens.context_window(model) == window
    prompt_tokens.check_prompt_lengths({"q": range(500)}, window, 12)
    if window is not None:
        with pytest.raises(BeamUQError, match="drop the question"):
            prompt_tokens.check_prompt_lengths({"q": range(501)}, window, 12)
