"""The real questions, read through the same adapters and templates.

They lie outside the repository: BEAMUQ_DATA names their folder, default ``../shared/datasets``
beside it.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from beamuq.prompts.prompt_template import load, render
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.question import Question
from beamuq_study.data.read_dataset_file import read_questions

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("BEAMUQ_DATA", ROOT.parent / "shared" / "datasets"))

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(
        not DATA.is_dir(), reason=f"no real questions in {DATA}; set BEAMUQ_DATA to their folder"
    ),
]

COUNTS = {
    ("ai2_arc", "test"): 447,
    ("ai2_arc", "train"): 1119,
    ("ai2_arc", "validation"): 299,
    ("commonsense_qa", "train"): 1000,
    ("commonsense_qa", "validation"): 1221,
    ("coqa", "test_bigbench"): 1075,
    ("coqa", "train"): 20,
    ("coqa", "validation"): 925,
    ("hotpot_qa", "train"): 100,
    ("hotpot_qa", "validation"): 1974,
    ("trivia_qa", "train"): 117,
    ("trivia_qa", "validation"): 2000,
    ("web_questions", "test"): 1490,
    ("web_questions", "train"): 500,
}
# counted independently of this package from the same files, the first rows of train being the
# examples: mean and largest number of whitespace-separated words of a prompt
WORDS = {
    ("trivia_qa", "base"): (83.7, 127),
    ("trivia_qa", "instruct"): (96.7, 140),
    ("web_questions", "base"): (60.8, 69),
    ("web_questions", "instruct"): (81.8, 90),
    ("coqa", "base"): (351.5, 676),
    ("coqa", "instruct"): (359.5, 684),
    ("hotpot_qa", "base"): (166.1, 453),
    ("hotpot_qa", "instruct"): (190.1, 477),
    ("commonsense_qa", "base"): (105.6, 143),
    ("commonsense_qa", "instruct"): (126.6, 164),
    ("ai2_arc", "base"): (141.1, 220),
    ("ai2_arc", "instruct"): (162.1, 241),
}
EVALUATED = {
    "trivia_qa": (["validation"], 5),
    "web_questions": (["test"], 5),
    "coqa": (["validation", "test_bigbench"], 0),
    "hotpot_qa": (["validation"], 0),
    "commonsense_qa": (["validation"], 2),
    "ai2_arc": (["test"], 2),
}


@cache
def split(adapter: str, name: str) -> list[Question]:
    return read_questions(ADAPTERS[adapter], DATA / adapter / f"{name}.parquet")


@pytest.mark.parametrize(("adapter", "name"), sorted(COUNTS))
def test_split_has_its_questions_each_with_its_own_id_and_an_answer(
    adapter: str, name: str
) -> None:
    found = split(adapter, name)
    assert len(found) == len({item["id"] for item in found}) == COUNTS[adapter, name]
    assert all(all(item["references"]) and item["references"] for item in found)


@pytest.mark.parametrize(("adapter", "style"), sorted(WORDS))
def test_prompts_have_as_many_words_as_counted_elsewhere(adapter: str, style: str) -> None:
    splits, examples = EVALUATED[adapter]
    template = load(ROOT / "src" / "beamuq" / "prompts" / style / f"{adapter}.txt")
    shots = split(adapter, "train")[:examples]
    prompts = [
        render(template, item, shots, where=item["id"])
        for name in splits
        for item in split(adapter, name)
    ]
    words = [len(prompt.split()) for prompt in prompts]
    mean, largest = WORDS[adapter, style]
    assert sum(words) / len(words) == pytest.approx(mean, abs=0.05)
    assert max(words) == largest
    assert all(prompt.endswith(("nswer:", "\nA:")) for prompt in prompts)


def test_answers_and_groups_of_a_few_known_questions() -> None:
    trivia = {item["id"]: item for item in split("trivia_qa", "validation")}
    assert trivia["tc_56"]["question"].endswith("Ferrier?")
    assert trivia["tc_56"]["references"][0] == "Cancer"
    santa = next(q for q in split("web_questions", "test") if "santa clause" in q["question"])
    assert santa["references"] == ["Kansas City Athletics"]
    assert len({item["group"] for item in split("coqa", "validation")}) == 57
    assert {len(item["context"]) for item in split("hotpot_qa", "validation")} == {2}
    assert {len(item["options"]) for item in split("ai2_arc", "test")} == {3, 4}
