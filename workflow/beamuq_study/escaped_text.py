"""Texts that are somebody else's, inert in CSV, Markdown and LaTeX: no formula, markup, command."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import pandas as pd

# beginnings of formulas; the wide ones in some languages
FORMULA = re.compile(r"[=+\-@\t\n\r＝＋－＠]")
_SIGNED_NUMBER = re.compile(r"[+-]|[+-]?(\d[\d,]*\.?\d*|\.\d+)([eE][+-]?\d+)?")
# a number begins no list
_MARKUP = re.compile(r"([\\`*_\[\]|~$]|^>)|^(#|[+-](?![\d.])|\d+(?=[.)](\s|$)))")
_NAMES = {
    "\\": "backslash",
    "~": "asciitilde",
    "^": "asciicircum",
    "<": "less",
    ">": "greater",
    "|": "bar",
    '"': "quotedbl",
    "'": "quotesingle",
    "`": "asciigrave",
}
_MATHS = {
    "↑": "uparrow",
    "→": "rightarrow",
    "≤": "leq",
    "≥": "geq",
    "≠": "neq",
    "√": "surd",
    "∞": "infty",
    "α": "alpha",
    "Δ": "Delta",
    "ε": "epsilon",
    "λ": "lambda",
    "σ": "sigma",
    "Σ": "Sigma",
    "τ": "tau",
}
_LATEX = {
    **{character: f"\\{character}" for character in "{}$&#%_"},
    "-": "{-}",  # no ligature may turn two hyphens into a dash
    "\u00a0": "~",
    "−": "$-$",
    **{character: rf"\text{name}{{}}" for character, name in _NAMES.items()},
    **{character: rf"$\{name}$" for character, name in _MATHS.items()},
}
# What pdflatex prints of UTF-8 with T1 fonts and textcomp, and nothing more.
_T1_LATIN = frozenset(map(chr, range(0xC0, 0x100)))
_T1 = _T1_LATIN.union(
    "¡£§«»¿©®°´¶¸ĂăĄąĆćČčĎďĐđĘęĚěĞğİıŁłŃńŇňŐőŒœŘřŚśŞşŠšŤťŮůŰűŸŹźŻżŽž‘’“”–—…†²½±×·"
)


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as CSV in which no text is a formula: an apostrophe stands before what begins so.

    A carriage return, which would end a row, becomes a line break. Numbers, as texts too, stay as
    they are.
    """
    columns = {
        name: pd.Series(map(_inert, frame[name]), frame.index, frame[name].dtype) for name in frame
    }
    inert = pd.DataFrame(columns, columns=frame.columns)
    return inert.to_csv(index=False, lineterminator="\n")


def _inert(value: Any) -> Any:
    """A value that no spreadsheet reads as a formula."""
    if not isinstance(value, str):
        return value
    is_formula = FORMULA.match(value) and not _SIGNED_NUMBER.fullmatch(value)
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if is_formula else text


def markdown_text(text: str) -> str:
    """For a cell of a GitHub table: one line, nothing read as markup or HTML."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKUP.sub(_inert_markup, flat)


def _inert_markup(markup: re.Match[str]) -> str:
    """A character escaped, or the beginning of a line after an invisible one."""
    return f"\\{markup[1]}" if markup[1] else f"&#8203;{markup[2]}"


def markdown_line(cells: Iterable[str]) -> str:
    """A line of a table, of cells that are escaped."""
    return "| " + " | ".join(cells) + " |"


def latex_text(text: str) -> str:
    """For pdflatex with T1 fonts: no text starts a command.

    What the fonts lack becomes ``U+4E2D``, line breaks spaces.
    """
    return "".join(map(_latex_character, text))


def _latex_character(character: str) -> str:
    if character in _LATEX:
        return _LATEX[character]
    if character in _T1 or (character.isascii() and character.isprintable()):
        return character
    is_blank = character.isascii() or unicodedata.category(character).startswith("Z")
    return " " if is_blank else rf"\texttt{{U+{ord(character):04X}}}"
