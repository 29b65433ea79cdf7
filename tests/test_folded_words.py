"""Words of answers of one's own: one spelling each, numbers by value, symbols kept, in any
script.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from beamuq.folded_words import folded_readings, folded_words, normalize_folded
from beamuq.text_normalization import normalize_squad
from beamuq.unicode_folding import boxed, fold, without_latex


@pytest.mark.parametrize(
    ("spellings", "words"),
    [
        (["5", "5.0", "05", "5.", "+5", "٥", "５", "५", "5.000", "**5**", "“5”", "$5$"], ["5"]),
        (["-5", "−5", "–5", "－5", "-5.0", "(−5)", "“−5”", "$-5$", "− 5"], ["-5"]),
        (
            [
                "1000",
                "1,000",
                "1'000",
                "1e3",
                "10³",
                "10^3",
                "1\u202f000",
                "1 000",
                "１，０００",
                "1,000.00",
            ],
            ["1000"],
        ),
        (["100000", "1,00,000", "1e5"], ["100000"]),
        (["1234567.5", "1.234.567,5", "1,234,567.50"], ["1234567.5"]),
        (["3.14", "3,14", "3.140", "٣٫١٤"], ["3.14"]),
        (["0.5", ".5", "½", "1/2", r"\frac{1}{2}", "0,5"], ["0.5"]),
        (["3.5", "3½", "3 1/2"], ["3.5"]),
        (["0.001", "10⁻³", "1e-3", "10^{-3}", "10^-3"], ["0.001"]),
        (["6.02×10²³", "6.02e23", "6.02 x 10^23"], ["602000000000000000000000"]),
        (["$5", "$5.00", "5 $", "$ 5"], ["5", "$"]),
        (["-$5", "$-5", "−$5.00"], ["-5", "$"]),
        (["50%", "50 %", "50％", r"50\%", "%50", "٪٥٠"], ["50", "%"]),
        (["1939–1945", "1939-1945", "1939 – 1945", "1939—1945", "1939～1945"], ["1939", "1945"]),
        (["$5-$10", "5$–10$"], ["5", "$", "10", "$"]),
        (["1.2.3"], ["1.2.3"]),
        (["192.168.100.200"], ["192.168.100.200"]),
        (["10:30"], ["10:30"]),
        (["05/06/2020", "5/6/2020", "05-06-2020"], ["5/6/2020"]),
        (["2/4"], ["2/4"]),
        (["May 5, 2020", "May 5,2020"], ["may", "5", "2020"]),
        (["1, 2, 3", "1,2,3"], ["1", "2", "3"]),
        (["5km", "5 km", "5.0 km", "5㎞"], ["5", "km"]),
        (["5th"], ["5th"]),
        (["18+"], ["18+"]),
        (["2+2", "2 + 2"], ["2", "+", "2"]),
        (["C++", "c++", "Ｃ＋＋"], ["c++"]),
        (["C#", "C♯"], ["c#"]),
        (["AB-", "AB−"], ["ab-"]),
        (["Ca²⁺", "Ca2+"], ["ca2+"]),
        (["H₂O", "H2O"], ["h2o"]),
        (["x²", "x^2", "x2"], ["x2"]),
        (["Beyonce\u0301", "Beyonc\u00e9", "BEYONCÉ"], ["beyoncé"]),
        (["don’t", "don't", "donʼt", "don`t"], ["dont"]),
        (
            [
                "“Hamlet”",
                "«Hamlet»",
                "„Hamlet“",
                "'Hamlet'",
                "「Hamlet」",
                "the Hamlet",
                "Ham\u00adlet",
            ],
            ["hamlet"],
        ),
        (["U.S.", "US", "u.s"], ["us"]),
        (["well-known", "well known", "well‑known"], ["well", "known"]),
        (["Simon & Garfunkel", "Simon and Garfunkel"], ["simon", "and", "garfunkel"]),
        (["Straße", "STRASSE"], ["strasse"]),
        (["ﬁne", "fine"], ["fine"]),
        (["2020年", "２０２０年"], ["2020", "年"]),
        (["答案是-5"], ["答", "案", "是", "-5"]),
        (["1939年-1945年"], ["1939", "年", "1945", "年"]),
        (["三十"], ["三十"]),
        (["2020년"], ["2020", "년"]),
        (["हिन्दी"], ["हिन्दी"]),
        (["Москва"], ["москва"]),
        (["hepatitis A", "Hepatitis A"], ["hepatitis", "a"]),
        (["A dog", "a dog", "dog"], ["dog"]),
        (["?!", "…", "the", ""], []),
    ],
)
def test_spellings_of_the_same_are_the_same_words(spellings: list[str], words: list[str]) -> None:
    assert {spelling: list(folded_words(spelling)) for spelling in spellings} == dict.fromkeys(
        spellings, words
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,125", ["0.125"]),
        ("-0,500", ["-0.5"]),
        ("0,125%", ["0.125", "%"]),
        ("0,2015", ["0.2015"]),
        ("1,250", ["1250"]),
        ("0'125", ["0", "125"]),
        ("0.125.250", ["0.125.250"]),
    ],
)
def test_no_number_in_groups_begins_with_zero(text: str, words: list[str]) -> None:
    assert list(folded_words(text)) == words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *[
            ("-5", "5"),
            ("3.14", "314"),
            ("$5.00", "500"),
            ("10²", "102"),
            ("3½", "31/2"),
            ("5①", "51"),
            ("1/2", "12"),
        ],
        *[
            ("1.2.3", "123"),
            ("10:30", "1030"),
            ("2020-01-05", "2020-05-01"),
            ("2/4", "1/2"),
            ("1e3", "1e-3"),
        ],
        *[
            ("C++", "C#"),
            ("C++", "C"),
            ("A+", "A-"),
            ("O−", "O"),
            ("F#", "F"),
            ("B♭", "B"),
            ("18+", "18"),
        ],
        *[
            ("×", "÷"),
            ("x < 5", "x > 5"),
            ("±5", "5"),
            ("三", "三十"),
            ("hepatitis A", "hepatitis B"),
        ],
        *[("vitamin A", "vitamin"), ("café", "cafe"), ("½", "¼"), ("5²", "52"), ("1e400", "1e401")],
    ],
)
def test_what_differs_in_a_sign_a_point_or_a_symbol_is_parted(one: str, other: str) -> None:
    assert folded_words(one) != folded_words(other)


def test_a_hyphen_parts_words_in_one_reading_and_joins_them_in_the_other() -> None:
    assert folded_words("e-mail 5-10", joined=True) == ("email", "5", "10")
    assert folded_words("Node.js 12 500", joined=True) == ("nodejs", "12500")
    assert folded_words("Node.js 12 500") == ("node", "js", "12", "500")
    assert folded_readings("e-mail", "email") == [
        (("e", "mail"), ("email",)),
        (("email",), ("email",)),
    ]


def test_signs_of_currency_and_the_like_count_only_where_both_texts_have_one() -> None:
    assert folded_readings("$5", "5 dollars") == [(("5",), ("5", "dollars"))]
    assert folded_readings("$5", "€5") == [(("5", "$"), ("5", "€"))]


@given(st.lists(st.sampled_from(["Paris", "theatre", "an", "dog", "1945", "the", "x"]), max_size=6))
def test_plain_words_are_those_of_squad(words: list[str]) -> None:
    text = " ".join(words)
    assert normalize_folded(text) == normalize_squad(text)


@given(st.text(max_size=30))
def test_no_text_is_beyond_it_and_no_word_is_empty(text: str) -> None:
    assert all(word.strip() == word != "" for word in folded_words(text))


def test_a_text_built_to_be_slow_is_not() -> None:
    for text in (
        r"\$" * 20_000,
        "! " * 30_000,
        "1," * 30_000,
        r"\boxed{" * 10_000,
        "5年-" * 20_000,
        "9" * 60_000,
    ):
        folded_words(text)  # quadratic ones would take minutes


def test_folding_keeps_case_and_powers_and_takes_off_what_cannot_be_seen() -> None:
    assert fold("Ｐ\u200bａｒｉｓ™ 10⁻³ “x” — ５") == 'Paris 10^-3 "x" — 5'


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        (r"$\boxed{\text{C}}$", "C"),
        (r"\mathbf{a_{1}}", "a_{1}"),
        (r"\text{cut", "cut"),
        ("$5 and $10", "$5 and $10"),
        (r"2 \times 3", "2 × 3"),
        (r"1{,}000", "1,000"),
    ],
)
def test_latex_goes_and_amounts_stay(text: str, plain: str) -> None:
    assert without_latex(text) == plain


def test_boxes_are_the_outermost_ones_whole_or_cut() -> None:
    assert boxed(r"\boxed{\frac{1}{2}}, \boxed 3, \fbox{x} \boxed{\boxed{y}} \boxed{z") == [
        r"\frac{1}{2}",
        "3",
        "x",
        r"\boxed{y}",
        "z",
    ]
