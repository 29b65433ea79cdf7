"""Which options an answer names: by letter or text, however it is written, and never by a letter
inside a word.
"""

from __future__ import annotations

import pytest

from beamuq.scorers.named_options import named_options

OPTIONS = ["a chair", "a desk", "river", "the ocean", "vitamin C"]


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        # a letter
        *[
            (text, "A")
            for text in (
                "A",
                "a",
                "(A)",
                "A is correct",
                "A because people sit",
                "It is A.",
                "The letter A",
            )
        ],
        *[
            (text, "B")
            for text in (
                "B.",
                "(B)",
                "(b)",
                "b)",
                "[B]",
                "**B**",
                "'B'",
                "B, because",
                "B - why",
                "It's B",
            )
        ],
        *[
            (text, "B")
            for text in (
                "Option b",
                "The answer is (B)",
                "The answer is B.",
                "the answer is b.",
                "choose B",
            )
        ],
        *[
            ("Answer: C", "C"),
            ("<b>C</b> it is", "C"),
            ("C\nD", "C"),
            ("The correct choice is C because", "C"),
        ],
        # a text
        *[
            (text, "A")
            for text in ("chair", "A chair", "a chair.", "THE CHAIR", "It is a chair, of course")
        ],
        *[("ocean", "D"), ("The ocean is big", "D"), ("vitamin C", "E"), ("Vitamin C.", "E")],
        # both, of one option or of two
        *[
            ("(A) a chair", "A"),
            ("A. chair", "A"),
            ("A: chair", "A"),
            ("(B) river", "BC"),
            ("B river", "BC"),
        ],
        # several
        *[
            ("A or B", "AB"),
            ("A, B and C", "ABC"),
            ("B/D", "BD"),
            ("(A) and (C)", "AC"),
            ("a chair or a desk", "AB"),
        ],
        # none
        *[
            (text, "")
            for text in (
                "",
                "Banana",
                "A dog",
                "a dog",
                "I",
                "I do not know",
                "F",
                "(F)",
                "Apples and pears",
            )
        ],
        *[
            (text, "")
            for text in (
                "chairs",
                "armchair",
                "arm-chair",
                "Class-A goods",
                "dog(s)",
                "is A's",
                "all of them",
            )
        ],
    ],
)
def test_an_answer_names(answer: str, named: str) -> None:
    assert "".join("ABCDE"[place] for place in sorted(named_options(answer, OPTIONS))) == named


@pytest.mark.parametrize(
    ("answer", "options", "named"),
    [
        ("salt water", ["water", "salt water"], {1}),  # the longest
        ("salt water and water", ["water", "salt water"], {0, 1}),
        *[
            (number, ["-5", "5", "3.5", "25"], {place})
            for place, number in enumerate(["-5", "5", "3.5", "25"])
        ],
        ("bb", ["BB", "Bb", "bb"], {2}),  # case decides where nothing else does
        ("B", ["yes", "yes", "no"], {0}),  # a text that stands twice is one option
        ("dog", ["a dog", "the dog"], set()),  # an article decides where nothing else does
        ("the dog", ["a dog", "the dog"], {1}),
        ("?", ["?", "!"], {0}),
        ("an earthquake’s waves", ["earthquake's waves", "wind"], {0}),
        ("C", ["one", "two"], set()),  # beyond the last
        ("−5", ["5", "-5"], {1}),  # another minus sign
        ("答案是黄金", ["铁", "金", "黄金"], {2}),
    ],
)
def test_options_that_resemble_one_another(
    answer: str, options: list[str], named: set[int]
) -> None:
    assert named_options(answer, options) == named


METALS = ["iron", "copper", "gold", "zinc"]


@pytest.mark.parametrize(
    "answer",
    [
        *[
            r"\boxed{C}",
            r"Answer: \boxed{C}",
            r"$\boxed{\text{C}}$",
            r"\boxed{C) gold}",
            r"\boxed{\mathbf{(C)}}",
        ],
        *[
            r"\text{C}",
            r"$\mathbf{C}$",
            r"\textbf{C}.",
            r"We get \boxed{C}",
            r"\boxed C",
            r"\boxed{C",
            r"\[\boxed{c}\]",
        ],
        *["Option A is wrong, B too.\nSo we have \\boxed{C}.", r"\boxed{42}. The answer is C"],
        *[
            "Therefore C",
            "Therefore, C.",
            "Thus, (C)",
            "Thus **C**",
            "So C.",
            "∴ C",
            "Hence C is the answer",
        ],
        *[
            "答案：C",
            "答案是C",
            "答案为（Ｃ）",
            "故选C。",
            "正解はCです",
            "정답은 C입니다",
            "C是正确的",
            "Ｃ",
        ],
        *[
            "La respuesta es C",
            "La respuesta correcta es la C.",
            "Die Antwort ist C",
            "La réponse est C",
            "Ответ: C",
        ],
        *["**C**", "Answer: **C**", "The answer is **(C) gold**.", "Let me see.\nThe answer is C"],
    ],
)
def test_a_letter_in_latex_after_a_conclusion_or_in_another_language_names_its_option(
    answer: str,
) -> None:
    assert named_options(answer, METALS) == {2}


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("The answer is B. Note that A is a common distractor.", {1}),
        (r"\boxed{A, C}", {0, 2}),
        (r"\boxed{A} or \boxed{C}", {0, 2}),
        ("Therefore, A dog", set()),
        ("So A copper is it", {1}),  # an article before an option's text
        ("so I went. Therefore I left", set()),
        ("答案不是A", set()),
        ("La respuesta no es A", set()),
        ("C++", set()),
    ],
)
def test_letters_that_name_other_options_or_none(answer: str, named: set[int]) -> None:
    assert named_options(answer, METALS) == named


def test_an_answer_built_to_be_slow_is_read_at_once() -> None:
    assert named_options("(A" * 40_000, ["a", "b"]) == {0}
