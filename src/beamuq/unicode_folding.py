"""One spelling of texts that Unicode, typography or LaTeX can spell in several ways.

Nothing that tells answers apart is lost: letters keep their case and accents, a power stays a power
("10²" is "10^2", not "102"), and a minus sign stays a sign.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

_SINGLE_QUOTES = "‘’‚‛‹›`´ʹʻʼʽʾʿˈ′‵❛❜❟＇｀΄՚׳"
_DOUBLE_QUOTES = "“”„‟«»″‶‷‴⁗〝〞〟❝❞❠＂״⹂"
_CORNER_QUOTES = "「」『』｢｣《》〈〉"
_SHORT_DASHES = "‐‑‒–−﹣－⁃➖֊᠆゠"
_LONG_DASHES = "⸺⸻―﹘︱︲"
_SPELLED: dict[int, str | None] = {
    **dict.fromkeys(map(ord, _SINGLE_QUOTES), "'"),
    **dict.fromkeys(map(ord, _DOUBLE_QUOTES + _CORNER_QUOTES), '"'),
    **dict.fromkeys(map(ord, _SHORT_DASHES), "-"),
    **dict.fromkeys(map(ord, _LONG_DASHES), "—"),
    **dict.fromkeys(map(ord, "™℠®©"), None),  # NFKC would make letters of them
    ord("№"): "#",
    ord("♯"): "#",
    ord("⁄"): "/",
    ord("∕"): "/",
    ord("∗"): "*",
    ord("⋅"): "·",
    ord("٪"): "%",
    ord("٫"): ".",
    ord("٬"): ",",
    ord("،"): ",",
}
_SUPERSCRIPT = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-", strict=True))
_POWER = re.compile(f"(?<=[^\\W_])([{''.join(_SUPERSCRIPT)}]+)")
_CHARGE = re.compile(r"\^(\d*)([+-])(?!\d)")  # of an ion: Ca²⁺, Cl⁻
_GROUPING_SPACE = re.compile("(?<=\\d)[\u00a0\u2007\u2009\u202f](?=\\d{3}(?!\\d))")
_MATHEMATICS = re.compile(r"(?<![0-9A-Za-z\\])\$(?=\S)((?:\\.|[^$\\\n]){0,200}?)(?<=\S)\$(?!\d)")
_SPACED_MINUS = re.compile(r"(\A|[^\w\s%)\]])(\s{0,3})[−－]\s{1,3}(?=\.?\d)")
_WRAPPERS = (
    "boxed|fbox|mbox|text|textbf|textit|textrm|textsf|texttt|textnormal|emph|underline|"
    "mathbf|mathrm|mathit|mathsf|mathtt|mathcal|mathbb|mathfrak|boldsymbol|bm|operatorname"
)
_BOX = re.compile(r"\\(?:boxed|fbox)(?:\s*\{|\s+(?P<character>\w))")
_BRACE = re.compile(r"(?<!\\)[{}]")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{(\d+)\}\s*\{(\d+)\}")
_BRACES = re.compile(rf"\\(?:{_WRAPPERS})\*?\s*\{{|\\[{{}}]|[{{}}]")
_LATEX_SIGNS = {
    r"\times": "×",
    r"\circ": "°",
    r"\cdot": "·",
    r"\pm": "±",
    r"\%": "%",
    r"\$": "$",
    r"\#": "#",
    r"\&": "&",
    r"\_": "_",
    r"\(": " ",
    r"\)": " ",
    r"\[": " ",
    r"\]": " ",
    r"\,": " ",
    r"\;": " ",
    r"\!": "",
}
_NO_LETTER_BEHIND = {sign: "(?![A-Za-z])" if sign[1].isalpha() else "" for sign in _LATEX_SIGNS}
_LATEX_SIGN = re.compile("|".join(re.escape(sign) + end for sign, end in _NO_LETTER_BEHIND.items()))


def fold(text: str) -> str:
    """``text`` in Unicode's compatibility form (NFKC) with one spelling of each mark; case is kept.

    All kinds of quotes are ``'`` or ``"``, short dashes and minus signs ``-``, long dashes ``—``,
    digits of every script 0–9. A superscript is written with ``^``, a fraction with ``/``.
    Invisible characters and trademark signs go. LaTeX is as :func:`without_latex` leaves it.
    """
    plain = without_latex(_visible(text))
    plain = _SPACED_MINUS.sub(r"\1\2-", plain)
    plain = _GROUPING_SPACE.sub(",", plain.translate(_SPELLED))
    plain = _POWER.sub(_power, plain)
    plain = _CHARGE.sub(r"\1\2", plain)
    folded = unicodedata.normalize("NFKC", _numbers_apart(plain))
    return "".join(map(_digit, folded.translate(_SPELLED)))


def without_latex(text: str) -> str:
    r"""``text`` without LaTeX's wrappers: ``$\boxed{\text{C}}$`` is ``C``.

    Pairs of ``$`` go where they enclose mathematics, as Markdown knows it: no space inside them at
    either end, no digit behind them, no digit or letter before them. "$5 and $10" stays.
    """
    if "\\" not in text and "{,}" not in text and text.count("$") < 2:
        return text
    text = _MATHEMATICS.sub(r"\1", text.replace("$$", "$"))
    text = _FRACTION.sub(r" \1/\2 ", text.replace("{,}", ","))
    return _LATEX_SIGN.sub(lambda sign: _LATEX_SIGNS[sign[0]], _unwrapped(text))


def boxed(text: str) -> list[str]:
    r"""What stands in each outermost ``\boxed{…}``; one that is cut reaches to the text's end."""
    contents: list[str] = []
    end = 0
    for match in _BOX.finditer(text):
        if match.start() < end:
            continue
        if match["character"]:
            contents.append(match["character"])
            continue
        end = _closing(text, match.end())
        contents.append(text[match.end() : end])
    return contents


@cache
def marks() -> str:
    """The combining marks of every script, as ranges of a regular expression's character class.

    ``re`` counts none of them as part of a word, so that it would cut words of Devanagari apart.
    """
    points = [point for point in range(0x20000) if unicodedata.category(chr(point))[0] == "M"]
    ranges: list[list[int]] = []
    for point in points:
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


def _closing(text: str, start: int) -> int:
    """Where the brace closes that was opened before ``start``; the text's end, if nowhere."""
    depth = 1
    for match in _BRACE.finditer(text, start):
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.start()
    return len(text)


def _unwrapped(text: str) -> str:
    """Without each wrapper and the brace that closes it; a wrapper that is not closed goes too."""
    pieces: list[str] = []
    wraps: list[bool] = []  # of each open brace
    end = 0
    for match in _BRACES.finditer(text):
        brace = match[0]
        pieces.append(text[end : match.start()])
        end = match.end()
        drops = len(brace) > 2  # neither a brace nor an escaped one
        if brace == "}" and wraps:
            drops = wraps.pop()
        elif brace == "{" or drops:
            wraps.append(drops)
        if not drops:
            pieces.append(brace)
    return "".join((*pieces, text[end:]))


def _visible(text: str) -> str:
    """Without format characters, variation selectors and the grapheme joiner."""
    return text if text.isascii() else "".join(filter(_is_visible, text))


def _is_visible(character: str) -> bool:
    if unicodedata.category(character) == "Cf":
        return False
    selects = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return not selects and character != "\u034f"


def _power(superscript: re.Match[str]) -> str:
    return "^" + "".join(_SUPERSCRIPT[character] for character in superscript[0])


def _numbers_apart(text: str) -> str:
    """With a space between a digit and a fraction or a circled number.

    NFKC would make 31/2 of 3½, and 51 of 5①.
    """
    characters: list[str] = []
    before = ""
    for character in text:
        if before.isdigit() and unicodedata.category(character) == "No":
            characters.append(" ")
        characters.append(character)
        before = character
    return "".join(characters)


def _digit(character: str) -> str:
    value = unicodedata.decimal(character, -1)
    return character if value < 0 else str(value)
