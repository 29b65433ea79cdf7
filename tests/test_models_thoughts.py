"""Marks of thoughts: which are left open at the end of a prompt, and with which an answer
begins.
"""

from __future__ import annotations

import pytest

from beamuq.models.thoughts import closing, open_thought, thought_at_start

MARKS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<Thought>": "</Thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "<scratch_pad>": "</scratch_pad>",
    "<inner_monologue>": "</inner_monologue>",
    "<chain-of-thought>": "</chain-of-thought>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|begin_of_thought|>": "<|end_of_thought|>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|thought_start|>": "<|thought_end|>",
    "<｜begin▁of▁thinking｜>": "<｜end▁of▁thinking｜>",
    "<|channel|>analysis<|message|>": "<|end|><|start|>assistant<|channel|>final<|message|>",
    "<|channel>thought": "<channel|>",
    "<|inner_prefix|>": "<|inner_suffix|>",
    "<unused94>thought": "<unused95>",
}


@pytest.mark.parametrize("mark", MARKS)
@pytest.mark.parametrize("behind", ["", "\n", "\n\n", "\nOkay, the user asks"])
def test_a_thought_that_is_not_closed_is_found_however_it_is_spelled(
    mark: str, behind: str
) -> None:
    assert open_thought(f"<|im_start|>assistant\n{mark}{behind}") == mark
    assert thought_at_start(f" {mark}{behind}") == mark


@pytest.mark.parametrize(("mark", "end"), MARKS.items())
def test_the_end_that_is_told_closes_it(mark: str, end: str) -> None:
    assert closing(mark) == end
    assert open_thought(f"<|im_start|>assistant\n{mark}\nOkay.\n{end}") == ""
    assert open_thought(f"{mark}\n{end}\n{mark}\n") == mark


def test_a_mark_whose_end_is_not_known_is_left_open_all_the_same() -> None:
    assert open_thought("<|think|>\n") == "<|think|>"
    assert closing("<|think|>") == "its closing mark"


@pytest.mark.parametrize(
    "text",
    [
        "Q: What is the capital of France?\nA:",
        "Q: What does the tag <think> mean?\nA:",
        "Q: Is `<think>` a tag?\nA:",
        "</think>\n\n",
        "<|channel|>final<|message|>",
        "<|channel|>analysis<|message|>Okay.<|end|><|start|>assistant",
        "<no_think>\n",
        "<thinking_budget>\n",
        "[Thoughts on life]\n",
        "a < think > b",
        "<table>\n",
        "",
    ],
)
def test_a_prompt_that_opens_none_or_speaks_of_one_leaves_none_open(text: str) -> None:
    assert open_thought(text) == ""


def test_behind_the_token_of_another_turn_a_mark_was_spoken_of() -> None:
    text = "<|im_start|>user\n<think> is what?<|im_end|>\n<|im_start|>assistant\n"
    assert open_thought(text) == "<think>"
    assert open_thought(text, ["<|im_end|>", "<think>"]) == ""
    assert open_thought(f"{text}<think>\n", ["<|im_end|>", "<think>"]) == "<think>"


@pytest.mark.parametrize(
    "text", ["Paris", "I <think> so", "</think>Paris", "<|channel|>final<|message|>Paris", ""]
)
def test_an_answer_that_begins_otherwise_begins_with_no_thought(text: str) -> None:
    assert thought_at_start(text) == ""


def test_a_mark_may_have_attributes() -> None:
    assert open_thought('assistant\n<think type="long">\n') == '<think type="long">'
    assert not open_thought('<think type="long">\n</think>\n')
