"""Which of a multiple-choice question's options an answer names, by letter or by text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from string import ascii_uppercase

from beamuq.text_normalization import clean

GOLD_LABEL = "gold_label"  # the quality metric that reads them
_MARKS = " \t\"'`*_.,;:!?()[]{}"
_ARTICLE = re.compile(r"(?:an?|the)\s+(?=\S)", re.IGNORECASE)
_LETTERS = tuple(
    map(
        re.compile,
        (
            r"(?<!\w)[(\[]\W*([A-Za-z])\W*[)\]]",
            r"^\W*([A-Za-z])(?:\*|\s*[).:,]|\s+[-–—])",
            r"^\W*([B-HJ-Z])(?=[\s;/]|$)",
            r"^\W*([A-Z])(?=\s+(?:is|was|because|since|as|and|or)\b)",
            r"(?i:\b(?:is|be|was|answer|option|choice|letter|choose|pick|select)|'s)[^\w\0]+([A-Z])\b(?!['’-]\w)",
            r"(?i:\b(?:option|choice|letter))[^\w\0]+([a-z])\b(?!['’-]\w)",
            r"(?i:\b(?:is|answer))[^\w\0]+([a-z])\W*$",
        ),
    )
)
_JOINED = re.compile(r"(?=\b([A-Z])\b\W*(?:,|/|&|\band\b|\bor\b)\W*(?:(?:and|or)\b)?\W*([A-Z])\b)")


def named_options(answer: str, options: Sequence[str]) -> set[int]:
    """The places (0-based) of the options that an answer names; of options with the same text, the first.

    The answer is cleaned as all texts are. An option's text counts where the answer contains it as whole words,
    without its leading article and in any case, unless options differ in that alone; of texts that hold one another the
    longest. In what is left a letter counts if it is all there is, is in brackets, or opens the answer
    with a mark behind it; a capital also if it opens the answer, follows a word such as "is", "answer" or "option", or
    is joined to such a letter by "and", "or", a comma or a slash. A and I may be words: they open an answer only with a
    mark or a verb behind them. Letters beyond the last option are none.
    """
    stripped = [_text(option) for option in options]
    for texts, flags in ((stripped, re.IGNORECASE), (stripped, re.NOFLAG), (list(options), re.NOFLAG)):
        keys = [text.casefold() for text in texts] if flags else texts
        if len({*keys}) == len({*options}):
            break
    left, places_named = clean(answer).replace("’", "'"), set()
    for text, key in sorted(zip(texts, keys, strict=True), key=lambda pair: -len(pair[0])):
        whole = rf"(?<![\w\-−])(?<!\d[.,]){re.escape(text)}(?!\w|-\w|[.,]\d)"
        left, count = re.subn(whole, "\0", left, flags=flags)
        places_named |= {keys.index(key)} if count else set()
    places = {letter: keys.index(key) for letter, key in zip(ascii_uppercase, keys, strict=False)}
    return places_named | {places[letter] for letter in _letters(left) if letter in places}


def _text(option: str) -> str:
    """An option as it is looked for: without a leading article and the marks at its end."""
    text = clean(option).replace("’", "'")
    return _ARTICLE.sub("", text, count=1).rstrip(" .,;:!") if _ARTICLE.match(text) else text.rstrip(" .,;:!") or text


def _letters(answer: str) -> set[str]:
    r"""The letters, as capitals, that name options in an answer; ``\0`` replaces an option's text."""
    if len(bare := answer.strip(_MARKS)) == 1 and bare.isalpha():
        return {bare.upper()}
    letters = {letter.upper() for pattern in _LETTERS for letter in pattern.findall(answer)}
    for first, other in _JOINED.findall(answer):
        letters |= {other} if first in letters else set()
    return letters
