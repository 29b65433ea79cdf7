"""The twelve templates, each rendered in full, and what a template may and may not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from beamuq.errors import BeamUQError
from beamuq.prompts.prompt_template import PROMPTS, load, parse, render
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.question import Passage, Question, Turn, question

GOLDEN = Path(__file__).with_name("golden_prompts")

ASKED = question("q", "Who wrote Emma?", ["Jane Austen"])
SHOTS = [
    question("s", "Where is Oslo?", ["Norway", "in Norway"]),
    question("t", "What is 2 + 2?", ["4"]),
]
STORY = [Passage(title="", text="A cat sat.\n\nIt slept.")]
HISTORY = [Turn(question="Who sat?", answer="A cat"), Turn(question="Where?", answer="unknown")]
TOLD = question("q", "What did it do?", ["slept"], context=STORY, history=HISTORY)
FIRST_TURN = question("q", "Who sat?", ["A cat"], context=STORY)
HOPS = question(
    "q",
    "Are both Danish?",
    ["yes"],
    context=[
        Passage(title="Ann", text="Ann is Danish. She sings."),
        Passage(title="Bob", text="Bob is Danish."),
    ],
)
FIVE = question("q", "Where are grapes?", ["bowl"], options=["pan", "bowl", "shop", "lap", "hat"])
FIVE_SHOTS = [
    question("s", "What is red?", ["blood"], options=["sky", "milk", "blood", "grass", "coal"]),
    question("t", "What flies?", ["kite"], options=["kite", "stone", "desk", "shoe", "pond"]),
]
THREE = question("q", "Which melts?", ["ice"], options=["ice", "iron", "oak"])
FOUR_SHOTS = [
    question("s", "Which floats?", ["cork"], options=["lead", "cork", "gold", "tin"]),
    question("t", "Which glows?", ["sun"], options=["sun", "mud", "fog", "ash"]),
]

ASKED_OF = {
    "trivia_qa": (ASKED, SHOTS),
    "web_questions": (ASKED, SHOTS),
    "jsonl": (ASKED, SHOTS),  # one's own questions are asked as TriviaQA's
    "coqa": (TOLD, []),
    "hotpot_qa": (HOPS, []),
    "commonsense_qa": (FIVE, FIVE_SHOTS),
    "ai2_arc": (THREE, FOUR_SHOTS),
}


def test_there_is_one_template_an_adapter_and_style_and_no_other() -> None:
    found = sorted(
        path.relative_to(PROMPTS).with_suffix("").as_posix() for path in PROMPTS.glob("*/*.txt")
    )
    assert found == sorted(f"{style}/{name}" for style in ("base", "instruct") for name in ADAPTERS)


@pytest.mark.parametrize("style", ["base", "instruct"])
@pytest.mark.parametrize("name", ASKED_OF)
def test_template_renders_as_written_out(name: str, style: str) -> None:
    golden = GOLDEN / style / f"{'trivia_qa' if name == 'jsonl' else name}.txt"
    found = render(load(PROMPTS / style / f"{name}.txt"), *ASKED_OF[name], where=name)
    assert found + "\n" == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("template", "asked", "expected"),
    [
        ("base/trivia_qa", ASKED, "Question: Who wrote Emma?\nAnswer:"),
        ("base/coqa", FIRST_TURN, "Story: A cat sat.\n\nIt slept.\n\nQuestion: Who sat?\nAnswer:"),
        (
            "instruct/coqa",
            FIRST_TURN,
            "Story: A cat sat.\n\nIt slept.\n\nAnswer the following question as briefly as "
            "possible.\n"
            "Question: Who sat?\nAnswer:",
        ),
    ],
)
def test_no_gap_is_left_where_examples_or_history_would_be(
    template: str, asked: Question, expected: str
) -> None:
    assert render(load(PROMPTS / f"{template}.txt"), asked, [], where="q") == expected


def test_question_that_looks_like_an_empty_block_is_not_removed() -> None:
    history = [Turn(question="{history}", answer="{shots}")]
    asked = question(
        "q", "Who?", ["x"], context=[Passage(title="", text="{history}\n\nEnd.")], history=history
    )
    prompt = render(load(PROMPTS / "base/coqa.txt"), asked, [], where="q")
    expected = (
        "Story: {history}\n\nEnd.\n\n"
        "Question: {history}\nAnswer: {shots}\n\n"
        "Question: Who?\nAnswer:"
    )
    assert prompt == expected


@pytest.mark.parametrize(
    ("template", "asked", "shots", "told"),
    [
        ("base/trivia_qa", FIVE, SHOTS, r"the template has no part '== option =='"),
        (
            "base/ai2_arc",
            ASKED,
            [],
            r"part 'prompt' asks for \{options\}, which the question has not",
        ),
        ("base/hotpot_qa", HOPS, SHOTS, r"the template has no part '== shot =='"),
    ],
)
def test_template_of_another_dataset_is_refused(
    template: str, asked: Question, shots: list[Question], told: str
) -> None:
    with pytest.raises(BeamUQError, match=rf"^here: {told}"):
        render(load(PROMPTS / f"{template}.txt"), asked, shots, where="here")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Question: {question}", "has no part '== prompt =='"),
        (
            "== prompt ==\n{quesion}\nAnswer:",
            r"part 'prompt': unknown placeholder \{quesion\}; known: question, options",
        ),
        ("== prompt ==\n{shots}\n\n{question}", r"\{shots\} needs a part '== shot =='"),
        ("== prompt ==\n{question}\nAnswer: ", "part 'prompt' has a line that ends with a space"),
        (
            "== example ==\nx\n== prompt ==\n{question}",
            "unknown part 'example'; known: prompt, shot, turn, option",
        ),
    ],
)
def test_bad_template_is_refused(text: str, told: str) -> None:
    with pytest.raises(BeamUQError, match=rf"^file: {told}"):
        parse(text, "file")
