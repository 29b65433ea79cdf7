"""Words of an answer of one's own, in any script: numbers by their value, symbols kept.

SQuAD's rule for comparing answers deletes punctuation, and so takes −5 for 5, 3.14 for 314 and C++
for C. It stays the rule of the paper's datasets (D17, quality); this one is that of all others.

A number is a word, written in one way: 5, 5.0, 05 and ٥ are ``5``, 1,000 and 1e3 are ``1000``, ½ is
``0.5``. What has several points, colons or slashes (a version, an address, a time, a date) is one
word and no number. A comma groups thousands, or is a decimal comma where it cannot: "1,234" is
1234, "3,14" is 3.14, "0,125" is 0.125. A dash between two numbers makes a range of two words, no
sign; three numbers with dashes between them are a date.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from math import gcd

from beamuq.unicode_folding import fold, marks

Words = tuple[str, ...]

MINUS = "−"  # a sign or a charge; any other dash is a hyphen, or parts two words
MOST_ZEROS = 24  # with which a number is written out
LARGEST_BYTE = 255

CURRENCIES = "$¢£¤¥֏؋৲৳৻૱௹฿៛₠-⃀﷼"
# scripts without spaces between words: Thai, Lao, Myanmar, Khmer, kana, Bopomofo, Han
UNSPACED = "ก-ฺเ-๎ກ-໌ໜ-ໟက-ဿၐ-ႏក-៓ぁ-ヿㄅ-ㄯㇰ-ㇿ々㐀-䶿一-鿿豈-﫿\U00020000-\U0003ffff"
HAN_NUMERALS = "〇零一二三四五六七八九十百千万萬亿億两兩"
UNITS = frozenset(
    {"nm", "mm", "cm", "km", "mg", "kg", "ml", "dl", "cl", "kb", "mb", "gb", "tb"}
    | {"hz", "khz", "mhz", "ghz", "kw", "mw", "gw", "kwh", "mph", "kmh", "kph", "am", "pm"}
    | {"ft", "lb", "lbs", "oz", "min", "mins", "sec", "secs", "hr", "hrs", "yr", "yrs"}
    | {"bn", "mn", "usd", "eur", "gbp"}
)
SAYS_NOTHING = frozenset("^`~|¨¯´¸")

_TIMES_TEN = re.compile(r"(?<![\w.,])(\d+(?:\.\d+)?) ?[×x·*] ?10\^\{?([+-]?\d{1,4})\}?(?!\d)")
_POWER_OF_TEN = re.compile(r"(?<![\w.,^])10\^\{?([+-]?\d{1,4})\}?(?!\d)")
_POWER_OF_LETTER = re.compile(r"(?<=[^\W\d_])\^\{?(\d+)\}?")
_AND = re.compile(r"(?<=\s)&(?=\s)")
_INNER_APOSTROPHE = re.compile(r"(?<=[^\W_])'(?=[^\W\d_])")
_OUTER_APOSTROPHE = re.compile(r"(?<!\d)'|'(?!\d{3}(?!\d))")
_ABBREVIATION = re.compile(r"(?<![\w.])(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}\.?(?!\w)")
_A_WORD_FOLLOWS = r"(?=\s+[^\W_])(?!\s+(?:and|or|nor|is|was|are|were)\b)"
_ARTICLE = re.compile(rf"(?<![\w-])(?:(?i:the|an)(?![\w-])|a{_A_WORD_FOLLOWS})")
_FIRST_A = re.compile(rf"((?:\A|[.!?:;]\s)\W{{0,3}})A{_A_WORD_FOLLOWS}")
_EXPONENT = re.compile(r"(?<=\d[eE])-(?=\d)")
_DATE = re.compile(r"(?<![\w-])\d+(?:-\d+){2,}(?![\w-])")  # or a telephone number
_COUNTED = rf"[%‰°{CURRENCIES}]{{1,2}}|[{UNSPACED}]{{1,3}}"  # what a number is of
_RANGE = re.compile(rf"(\d\s?(?:{_COUNTED})?)-(?=\s?[{CURRENCIES}]?\.?\d)")
_RANGE_OF_YEARS = re.compile(r"(?<=\d{4}) -(?=\d{4}(?!\d))")
_NEGATIVE_AMOUNT = re.compile(rf"(?<![\w)\]%°])-([{CURRENCIES}])\s?(?=\.?\d)")
_NEGATIVE = re.compile(r"(?<![\w)\]%°])-(?=\.?\d)")
_POSITIVE = re.compile(rf"(?<![\w)\]%°+])\+(?=[{CURRENCIES}]?\.?\d)")
_TRAILING_MINUS = re.compile(r"(?<![\w-])((?=[0-9]{0,2}[A-Za-z])[A-Za-z0-9]{1,3})-(?![\w-])")
_HYPHEN = re.compile(r"(?<=[^\W_])-(?=[^\W_])")
_POINT_IN_NAME = re.compile(r"(?<=[^\W\d_])[./](?=[^\W\d_])")
_SPACED_THOUSANDS = re.compile(r"(?<![\w.,])[1-9]\d{0,2}(?: \d{3})+(?!\d)")
_NUMBER = r"\.?\d(?:[\d.,:/'^]*\d)?"
_FIRST_SIGN = rf"(?<!\d)[{CURRENCIES}]|(?<!\d)(?<!\d\s)%|(?<![^\W_])#"
_SIGN_BEFORE_NUMBER = re.compile(rf"({_FIRST_SIGN})\s?({MINUS}?{_NUMBER})")
_MIXED = re.compile(r"(?<![\w.,:/^])(\d{1,6}) (\d{1,4}/\d{1,4})(?![\w/:^]|[.,]\d)")

_FIRST_GROUP = r"[1-9]\d{0,2}"  # no number that is written in groups begins with 0
_COMMAS = re.compile(
    rf"{_FIRST_GROUP}(?:,\d{{3}})+(?:\.\d+)?|[1-9]\d?(?:,\d{{2}})+,\d{{3}}(?:\.\d+)?"
)
_APOSTROPHES = re.compile(rf"{_FIRST_GROUP}(?:'\d{{3}})+(?:\.\d+)?")
_POINTS = re.compile(rf"{_FIRST_GROUP}(?:\.\d{{3}}){{2,}}|{_FIRST_GROUP}(?:\.\d{{3}})+,\d+")
_DECIMAL_COMMA = re.compile(r"0,\d+|\d+,(?!(?:19|20)\d\d\Z)\d+")  # no day before a year
_PLAIN = re.compile(r"\d+|\d*\.\d+")


def folded_words(text: str, *, articles: bool = False, joined: bool = False) -> Words:
    """The words of a text in any script, folded by :func:`beamuq.unicode_folding.fold`.

    They have no case. Of scripts without spaces each character is a word, but a run of Han numerals
    is one. A sign such as that of a currency is a word of its own behind its number. ``+``, ``#``
    and ``-`` at the end of a name stay with it: ``c++``, ``f#``, ``ab-``. A hyphen, a point or a
    slash inside a name parts it, or if ``joined`` makes one word of it; so does a space between
    thousands.
    ``articles``: whether a, an and the are kept; a last "A", or a capital one inside a text, is a
    letter, as in "hepatitis A".
    """
    return _words(text, articles, joined)


def normalize_folded(text: str) -> str:
    """The words of a text without articles, parted by single spaces."""
    return " ".join(folded_words(text))


def folded_readings(answer: str, reference: str) -> list[tuple[Words, Words]]:
    """The words of an answer and of a reference, in each way in which they may be compared.

    Hyphens and the like part words in both, or join them in both. Signs such as $, % and ° count
    only where both texts have some: "$5" is 5 and not €5.
    """
    readings: list[tuple[Words, Words]] = []
    for joined in (False, True):
        first = folded_words(answer, joined=joined)
        second = folded_words(reference, joined=joined)
        if not (any(map(is_soft, first)) and any(map(is_soft, second))):
            first = tuple(word for word in first if not is_soft(word))
            second = tuple(word for word in second if not is_soft(word))
        if (first, second) not in readings:
            readings.append((first, second))
    return readings


def is_soft(word: str) -> bool:
    """Whether a word is a sign that one may leave out: of a currency, %, °, =, #, a picture."""
    if len(word) != 1 or word.isalnum():
        return False
    return word in "%‰=#" or unicodedata.category(word) in ("Sc", "So")


@lru_cache(maxsize=1 << 12)  # a text is compared with those of its question, and then no more
def _words(text: str, articles: bool, joined: bool) -> Words:
    spelled = _SPACED_THOUSANDS.sub(_surely_one_number, _with_letters_apart(fold(text)))
    if not articles:
        spelled = _FIRST_A.sub(r"\1", _ARTICLE.sub(" ", spelled))
    alone, scanned = _patterns()
    spelled = alone.sub(r" \g<0> ", _with_ranges(spelled))
    spelled = _with_signs(spelled)
    spelled = _joined(spelled) if joined else _HYPHEN.sub(" ", spelled)
    spelled = _SIGN_BEFORE_NUMBER.sub(r" \2 \1 ", spelled)
    spelled = _MIXED.sub(_mixed_number, spelled)
    return tuple(_scanned(scanned, spelled))


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """What stands alone without spaces; and a word, a number or a sign."""
    mark = f"[{marks()}]"
    letter = rf"(?:[^\W_]|{mark})"
    alone = rf"[{HAN_NUMERALS}]+|[{UNSPACED}]{mark}*"
    number = (
        rf"(?P<minus>{MINUS}?)(?P<number>(?:(?<![\w.])\.)?\d(?:[\d.,:/'^]*\d)?)"
        rf"(?:[eE](?P<exponent>[{MINUS}+]?\d{{1,4}})(?!{letter}))?"
        rf"(?P<tail>{letter}*)(?P<plus>(?:\+(?!{letter}))?)"
    )
    behind = rf"\+\+|[+#♭{MINUS}](?!{letter})"
    name = rf"(?P<name>(?<!\w)[^\W\d_][#♭]|{letter}+(?:(?<=\d)\.\d+)*(?:{behind})?)"
    return re.compile(alone), re.compile(rf"{number}|{name}|(?P<sign>[^\w\s])")


def _with_letters_apart(text: str) -> str:
    """With apostrophes, abbreviations, ampersands and powers as they are compared."""
    text = _TIMES_TEN.sub(r"\1e\2", text)
    text = _POWER_OF_TEN.sub(r"1e\1", text)
    text = _POWER_OF_LETTER.sub(r"\1", text).replace("^°", "°").replace("+/-", "±")
    text = _AND.sub("and", text).replace("&", "").replace('"', " ")
    text = _OUTER_APOSTROPHE.sub(" ", _INNER_APOSTROPHE.sub("", text))
    return _ABBREVIATION.sub(lambda match: match[0].replace(".", ""), text)


def _surely_one_number(match: re.Match[str]) -> str:
    """10 000 as 10000; 747 400 may be two numbers."""
    return match[0].replace(" ", "") if " 0" in match[0] else match[0]


def _joined(text: str) -> str:
    """Without what may as well be left out: Spider-Man, Node.js, 12 500."""
    text = _POINT_IN_NAME.sub("", _HYPHEN.sub("", text))
    return _SPACED_THOUSANDS.sub(lambda match: match[0].replace(" ", ""), text)


def _with_ranges(text: str) -> str:
    """With a space for a dash between two numbers, and :data:`MINUS` for that of an exponent."""
    text = _EXPONENT.sub(MINUS, text)
    text = _DATE.sub(lambda match: match[0].replace("-", "/"), text)
    return _RANGE_OF_YEARS.sub("  ", _RANGE.sub(r"\1 ", text))


def _with_signs(text: str) -> str:
    """With :data:`MINUS` where a dash is a sign or a charge, and without a plus before a number."""
    text = _NEGATIVE_AMOUNT.sub(rf"\1{MINUS}", text)
    text = _NEGATIVE.sub(MINUS, text)
    text = _POSITIVE.sub("", text)
    return _TRAILING_MINUS.sub(rf"\1{MINUS}", text)


def _scanned(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    for match in pattern.finditer(text):
        if match["number"]:
            yield from _number_words(match)
        elif match["name"]:
            yield _without_case(match["name"].replace(MINUS, "-"))
        elif _is_sign(match["sign"]):
            yield match["sign"]


def _is_sign(character: str) -> bool:
    if character in SAYS_NOTHING:
        return False
    return character in "%‰#" or unicodedata.category(character)[0] == "S"


def _without_case(word: str) -> str:
    return unicodedata.normalize("NFKC", word.casefold())


def _number_words(match: re.Match[str]) -> list[str]:
    """The words of a number, of what is written like several, and of the letters behind it."""
    exponent = int((match["exponent"] or "0").replace(MINUS, "-"))
    words = _values(match["number"], exponent)
    if match["minus"] and words[0] != "0":
        words[0] = f"-{words[0]}"
    tail = _without_case(match["tail"])
    if tail and (tail in UNITS or not unicodedata.name(tail[0], "").startswith(("LATIN", "DIGIT"))):
        words.append(tail)
    else:
        words[-1] += tail
    words[-1] += match["plus"]
    return words


def _values(written: str, exponent: int) -> list[str]:
    """Numbers in their one form; of a list such as 1,2,3 each; a version or a date as it is."""
    if _COMMAS.fullmatch(written) or _APOSTROPHES.fullmatch(written):
        return [_decimal(re.sub("[,']", "", written), exponent)]
    if _POINTS.fullmatch(written) and not _is_address(written):
        return [_decimal(written.replace(".", "").replace(",", "."), exponent)]
    if _DECIMAL_COMMA.fullmatch(written):
        return [_decimal(written.replace(",", "."), exponent)]
    if _PLAIN.fullmatch(written):
        return [_decimal(written, exponent)]
    if re.search("[,']", written):
        return _values_of_list(re.split("[,']", written), exponent)
    fraction = _fraction(written)
    if fraction:
        return [fraction]
    power = f"e{exponent}" if exponent else ""
    return [re.sub(r"(?<!\d)0(?=\d(?!\d))", "", written) + power]


def _values_of_list(parts: Iterable[str], exponent: int) -> list[str]:
    values: list[str] = []
    for part in parts:
        written = part.strip(".:/^")
        if written:
            values += _values(written, exponent)
    return values


def _is_address(written: str) -> bool:
    parts = written.split(".")
    return len(parts) == 4 and all(part.isdigit() and int(part) <= LARGEST_BYTE for part in parts)


def _decimal(written: str, exponent: int) -> str:
    """A number without idle zeros: written out, or with a power of ten where that is long."""
    whole, _, fraction = written.partition(".")
    significant = (whole + fraction).lstrip("0")
    digits = significant.rstrip("0")
    exponent += len(significant) - len(digits) - len(fraction)
    places = len(digits) + exponent  # before the point
    if not digits:
        return "0"
    if exponent > MOST_ZEROS or places < -MOST_ZEROS:
        return f"{digits}e{exponent}"
    if exponent >= 0:
        return digits + "0" * exponent
    if places > 0:
        return f"{digits[:places]}.{digits[places:]}"
    return f"0.{'0' * -places}{digits}"


def _fraction(written: str) -> str:
    """The value of a fraction in lowest terms that ends as a decimal; of anything else nothing.

    2/4 may be a date, and is left as it is.
    """
    parts = written.split("/")
    if len(parts) != 2 or not all(re.fullmatch(r"[1-9]\d{0,3}", part) for part in parts):
        return ""
    numerator, denominator = map(int, parts)
    if denominator == 1 or gcd(numerator, denominator) > 1:
        return ""
    places = next((count for count in range(1, 14) if not 10**count % denominator), 0)
    return _decimal(str(numerator * 10**places // denominator), -places) if places else ""


def _mixed_number(match: re.Match[str]) -> str:
    """3 1/2 as 3.5, where the fraction is below 1 and ends."""
    value = _fraction(match[2])
    return match[1] + value[1:] if value.startswith("0.") else match[0]
