"""P(True): the prompt, the token that is scored in its place, and its log-probability."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from beamuq import decoding
from beamuq.errors import BeamUQError
from beamuq.models.prompt_tokens import chat_prompt_ids, plain_prompt_ids
from beamuq.prompts.prompt_template import PROMPTS, placeholders
from beamuq.scorers.judgements import (
    PTrueQuery,
    load_template,
    p_true_logprobs,
    render_prompt,
    true_token,
)
from tiny import tiny_model

PARTS = load_template(PROMPTS / "p_true.txt")
SHORT = {
    "story": "S {text}",
    "passage": "P {title}: {text}",
    "turn": "{question} {answer}",
    "option": "{letter}) {text}",
    "prompt": "{passages}\n\n{history}\n\nQ {question}\n{options}\nA {answer}\nTrue?",
}


def question(text: str, **more: Any) -> dict[str, Any]:
    return {"id": text, "question": text, "context": [], "history": [], "options": []} | more


def ask(kind: str = "llama", style: str = "base") -> tuple[Any, PTrueQuery]:
    model, tokenizer = tiny_model(kind)
    return model, PTrueQuery(tokenizer, PARTS, style)


ASKED: list[tuple[str, Mapping[str, Any], str]] = [
    ("q1", question("Which river runs through Paris?"), "the Seine"),
    ("q2", question("Which is drunk?", options=["water", "stone"]), "water"),
    ("q3", question("And then?", context=[{"title": "", "text": "They left. " * 5}]), ""),
    ("q1 again", question("Which river runs through Paris?"), "the Seine"),
]


def test_the_prompt_shows_what_the_question_has_and_no_line_more() -> None:
    assert render_prompt(SHORT, question("How many?"), "six") == "Q How many?\nA six\nTrue?"
    assert (
        render_prompt(SHORT, question("Which?", options=["a", "b"]), "a")
        == "Q Which?\nA) a\nB) b\nA a\nTrue?"
    )
    story = question(
        "Who?",
        context=[{"title": "", "text": "Once."}],
        history=[{"question": "Where?", "answer": "here"}],
    )
    assert render_prompt(SHORT, story, "he") == "S Once.\n\nWhere? here\n\nQ Who?\nA he\nTrue?"
    titled = question("Who?", context=[{"title": "X", "text": "x."}, {"title": "Y", "text": "y."}])
    assert render_prompt(SHORT, titled, "he") == "P X: x.\n\nP Y: y.\n\nQ Who?\nA he\nTrue?"


def test_the_template_shows_all_that_a_question_has() -> None:
    assert {name: set(placeholders(body)) for name, body in PARTS.items()} == {
        name: set(placeholders(body)) for name, body in SHORT.items()
    }


def test_braces_in_a_question_are_just_braces() -> None:
    assert (
        render_prompt(SHORT, question("Is it {answer}?"), "{options}")
        == "Q Is it {answer}?\nA {options}\nTrue?"
    )


def test_true_is_scored_as_it_is_spelled_in_its_place() -> None:
    _, tokenizer = tiny_model("llama")
    spaced, bare = (
        tokenizer(text, add_special_tokens=False).input_ids[0] for text in (" True", "True")
    )
    assert spaced != bare
    assert ask(style="base")[1].true_token() == spaced  # behind "Verdict:"
    assert ask(style="instruct")[1].true_token() == bare  # behind the template's "assistant\n"
    turn = tokenizer.convert_tokens_to_ids("<start_of_turn>")
    assert (
        true_token(tokenizer, [*tokenizer("so", add_special_tokens=False).input_ids, turn]) == bare
    )


def test_a_tokenizer_that_joins_true_to_the_prompt_is_refused() -> None:
    class Joining:
        name_or_path = "joining"

        def decode(self, ids: list[int], **_: Any) -> str:
            return "?" * len(ids)

        def __call__(self, text: str, **_: Any) -> Any:
            ids = [1] * text.count("?")
            return SimpleNamespace(input_ids=[*ids[:-1], 2, 3] if "True" in text else ids)

    with pytest.raises(BeamUQError, match="joining"):
        true_token(Joining(), [1, 1])


@pytest.mark.parametrize("style", ["base", "instruct"])
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_p_true_is_what_a_forward_pass_of_the_prompt_alone_says(kind: str, style: str) -> None:
    model, query = ask(kind, style)
    found = p_true_logprobs(model, query, ASKED)
    for (_, row, answer), logprob in zip(ASKED, found, strict=True):
        text = render_prompt(PARTS, row, answer)
        encode = chat_prompt_ids if style == "instruct" else plain_prompt_ids
        ids = encode(query.tokenizer, text)
        with torch.no_grad():
            logprobs = model(torch.tensor([ids])).logits[0, -1].float().log_softmax(-1)
        assert logprob == pytest.approx(float(logprobs[query.true_token()]), abs=1e-4)
        assert logprob < 0
    assert np.ptp(found) > 1e-3  # the tiny weights do tell prompts apart


def test_p_true_does_not_depend_on_its_company() -> None:
    model, query = ask()
    together = p_true_logprobs(model, query, ASKED)
    for batch in (1, 2):
        np.testing.assert_allclose(
            p_true_logprobs(model, query, ASKED[::-1], batch=batch)[::-1], together, atol=1e-5
        )
    for one, logprob in zip(ASKED, together, strict=True):
        assert p_true_logprobs(model, query, [one]) == pytest.approx([logprob], abs=1e-5)


def test_equal_prompts_are_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def alike(_: object, prompts: list[decoding.Prompt], token_ids: list[int]) -> Any:
        seen.extend(prompt.id for prompt in prompts)
        return np.full((len(prompts), len(token_ids)), -1.0)

    monkeypatch.setattr(decoding, "next_token_logprobs", alike)
    model, query = ask()
    assert p_true_logprobs(model, query, ASKED) == [-1.0] * 4
    assert sorted(seen) == ["q1", "q2", "q3"]


def test_a_model_that_gives_true_a_probability_of_nought_is_told_with_the_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def masked(_: object, prompts: list[decoding.Prompt], token_ids: list[int]) -> Any:
        return np.full((len(prompts), len(token_ids)), -np.inf)

    monkeypatch.setattr(decoding, "next_token_logprobs", masked)
    model, query = ask()
    with pytest.raises(
        BeamUQError, match=r"q1: the model gives 'True' a probability of 0.*drop PTrue"
    ):
        p_true_logprobs(model, query, ASKED)
