"""Prompts as token ids: special tokens, thinking and dates of chat templates."""

from __future__ import annotations

import copy
from typing import Any

import pytest

import tiny
from beamuq.errors import BeamUQError
from beamuq.models import prompt_tokens


class Tokenizer:
    """One token a character; BOS 1 and EOS 2 are added as configured; the template writes a BOS of
    its own.
    """

    name_or_path = "toy"
    chat_template: str | None = "{{ messages }}"

    def __init__(self, *, bos: bool = True, eos: bool = False) -> None:
        self.bos, self.eos = bos, eos

    def __call__(self, text: str, add_special_tokens: bool = True) -> Any:
        ids = [1 if mark == "^" else ord(mark) for mark in text]
        if add_special_tokens:
            ids = [1] * self.bos + ids + [2] * self.eos
        return type("Encoding", (), {"input_ids": ids})()

    def apply_chat_template(
        self, messages: Any, *, tokenize: bool, add_generation_prompt: bool, **options: Any
    ) -> str:
        assert not tokenize
        assert add_generation_prompt
        return f"^{messages[0]['content']}{options.get('enable_thinking', '')}>"


@pytest.mark.parametrize(
    ("bos", "eos", "expected"),
    [(True, False, [1, 97, 98]), (False, False, [97, 98]), (True, True, [1, 97, 98])],
)
def test_a_plain_prompt_has_the_configured_bos_and_no_eos(
    bos: bool, eos: bool, expected: list[int]
) -> None:
    assert prompt_tokens.plain_prompt_ids(Tokenizer(bos=bos, eos=eos), "ab") == expected


def test_thinking_is_passed_to_a_template_that_knows_it_and_only_to_it() -> None:
    tokenizer = Tokenizer()
    assert prompt_tokens.chat_prompt_ids(tokenizer, "a") == [
        1,
        97,
        62,
    ]  # one BOS, the template's own
    with pytest.raises(BeamUQError, match="knows no enable_thinking; remove the key"):
        prompt_tokens.chat_prompt_ids(tokenizer, "a", enable_thinking=False)
    tokenizer.chat_template = "{% if enable_thinking %}"
    assert prompt_tokens.chat_prompt_ids(tokenizer, "a", enable_thinking=False) == [
        1,
        97,
        *map(ord, "False>"),
    ]
    with pytest.raises(BeamUQError, match="can think first; set enable_thinking: false"):
        prompt_tokens.chat_prompt_ids(tokenizer, "a")
    tokenizer.chat_template = None
    with pytest.raises(BeamUQError, match="has no chat template; use style: base"):
        prompt_tokens.chat_prompt_ids(tokenizer, "a")


def test_a_prompt_does_not_depend_on_the_day() -> None:
    _, tokenizer = tiny.tiny_model("llama")
    dated = (
        "{% if not date_string is defined %}{% set date_string = strftime_now('%d %b %Y') %}{% "
        "endif %}"
    )
    template = dated + "{{ date_string }} {{ messages[0]['content'] }}"
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = template
    assert (
        tokenizer.decode(prompt_tokens.chat_prompt_ids(tokenizer, "hello")) == "26 Jul 2024 hello"
    )
    tokenizer.chat_template = "{{ strftime_now('%d %b %Y') }} {{ messages[0]['content'] }}"
    with pytest.raises(BeamUQError, match="writes today's date"):
        prompt_tokens.chat_prompt_ids(tokenizer, "hello")


TURNS = (
    "{% for message in messages %}<start_of_turn>{{ message['role'] }}\n{{ message['content'] "
    "}}<end_of_turn>\n"
)
CLOSED = "{% endfor %}<start_of_turn>assistant\n"
PAIRED = (
    "{% for message in messages %}{{ 'Q: ' if message['role'] in ('system', 'user') else 'A: ' "
    "}}{% if 1 %}"
)
KNOWN = "{% for message in messages %}{% if message['role'] in ('system', 'user') %}"


def with_template(template: str) -> Any:
    _, tokenizer = tiny.tiny_model("llama")
    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.chat_template = template
    return tokenizer


@pytest.mark.parametrize(
    "mark", ["<think>\n", "[THINK]", "<seed:think>", "<|channel|>analysis<|message|>"]
)
def test_a_template_that_leaves_a_thought_open_is_refused_with_the_way_out(mark: str) -> None:
    tokenizer = with_template(f"{TURNS}{CLOSED}{mark}")
    with pytest.raises(
        BeamUQError, match=r"^prompt 3: .*chat template leaves a thought open .*; close it \("
    ):
        prompt_tokens.chat_prompt_ids(tokenizer, "Who?", place="prompt 3")


def test_a_thought_that_the_template_closes_is_none() -> None:
    tokenizer = with_template(f"{TURNS}{CLOSED}<think>\n\n</think>\n\n")
    text = tokenizer.decode(prompt_tokens.chat_prompt_ids(tokenizer, "Who?"))
    assert text.endswith("assistant\n<think>\n\n</think>\n")


def test_a_switch_that_leaves_the_thought_open_is_refused_and_one_that_closes_it_is_not() -> None:
    switched = "<think>\n{% if not enable_thinking %}</think>\n{% endif %}"
    tokenizer = with_template(f"{TURNS}{CLOSED}{switched}")
    with pytest.raises(BeamUQError, match=r"leaves a thought open .*; set enable_thinking: false"):
        prompt_tokens.chat_prompt_ids(tokenizer, "Who?", enable_thinking=True)
    assert prompt_tokens.chat_prompt_ids(tokenizer, "Who?", enable_thinking=False)
    always = with_template(f"{TURNS}{CLOSED}<think>\n{{# enable_thinking #}}")
    with pytest.raises(BeamUQError, match="leaves a thought open"):
        prompt_tokens.chat_prompt_ids(always, "Who?", enable_thinking=False)


@pytest.mark.parametrize("question", ["<think>", "think", "What is\n<think>\nfor?", "<think>\n"])
def test_a_message_may_speak_of_a_mark(question: str) -> None:
    assert prompt_tokens.chat_prompt_ids(with_template(f"{TURNS}{CLOSED}"), question)
    with pytest.raises(BeamUQError, match="leaves a thought open"):
        prompt_tokens.chat_prompt_ids(with_template(f"{TURNS}{CLOSED}<think>\n"), question)


def test_a_rendered_prompt_that_ends_in_a_thought_is_refused_with_the_mark_that_closes_it() -> None:
    tokenizer = with_template(f"{TURNS}{CLOSED}")
    text = "<start_of_turn>user\nWhat is\n<think>?<end_of_turn>\n<start_of_turn>assistant\n"
    prompt_tokens.check_no_open_thought(tokenizer, text, "prompt 2")
    prompt_tokens.check_no_open_thought(tokenizer, f"{text}<think>\nOkay.\n</think>\n", "prompt 2")
    with pytest.raises(
        BeamUQError, match=r"^prompt 2: .*leaves a thought open \(<think>\).* its end \(</think>\)"
    ):
        prompt_tokens.check_no_open_thought(tokenizer, f"{text}<think>\n", "prompt 2")


def test_a_conversation_is_rendered_as_the_tokenizer_renders_it() -> None:
    tokenizer = with_template(f"{TURNS}{CLOSED}")
    turns = [("system", "Be short."), ("user", "Who?"), ("assistant", "Ann"), ("user", "And then?")]
    messages = [{"role": role, "content": content} for role, content in turns]
    expected = tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False
    )
    assert prompt_tokens.chat_prompt_ids(tokenizer, messages) == expected


@pytest.mark.parametrize(
    ("template", "message", "told"),
    [
        (KNOWN, {"role": "developer"}, r"leaves out messages\[0\], whose role is 'developer'"),
        (
            PAIRED,
            {"role": "tool"},
            r"takes messages\[0\], whose role is 'tool', for the assistant's",
        ),
        (
            PAIRED,
            {"role": "system"},
            r"takes messages\[0\], whose role is 'system', for the user's",
        ),
        (KNOWN, {"role": "user", "name": "Ann"}, r"does not read messages\[0\]\.name"),
        (
            "{{ raise_exception('only user') }}{% for message in messages %}{% if 1 %}",
            {"role": "user"},
            "only user",
        ),
    ],
)
def test_what_a_template_rejects_or_passes_over_is_refused(
    template: str, message: dict[str, str], told: str
) -> None:
    tokenizer = with_template(f"{template}{{{{ message['content'] }}}}{{% endif %}}{{% endfor %}}:")
    with pytest.raises(BeamUQError, match=f"^prompt 1: .*its chat template: .*{told}"):
        prompt_tokens.chat_prompt_ids(
            tokenizer,
            [message | {"content": "x"}, {"role": "user", "content": "Who?"}],
            place="prompt 1",
        )


def test_a_text_that_begins_with_the_bos_gets_no_second_one() -> None:
    assert prompt_tokens.plain_prompt_ids(Tokenizer(), "^ab") == [1, 97, 98]
    assert prompt_tokens.plain_prompt_ids(Tokenizer(eos=True), "^ab") == [1, 97, 98]


def test_an_answer_s_mark_of_a_thought_is_seen_though_it_is_a_special_token() -> None:
    tokenizer = with_template(TURNS)
    tokenizer.add_special_tokens({"extra_special_tokens": ["[THINK]"]})
    ids = tokenizer("[THINK]Okay", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids, skip_special_tokens=True) == "Okay"
    assert prompt_tokens.mark_of_thought(tokenizer, ids) == "[THINK]"
    assert prompt_tokens.mark_of_thought(tokenizer, ids[1:]) == ""
