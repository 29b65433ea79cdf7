"""Texts that are somebody else's, for CSV, Markdown and LaTeX: none is a formula, markup or a
command there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import pandas as pd

FORMULA = re.compile(
    r"[=+\-@\t\n\r＝＋－＠]"
)  # beginnings of formulas; the wide ones in some languages
_SIGNED_NUMBER = re.compile(r"[+-]|[+-]?(\d[\d,]*\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MARKUP = re.compile(
    r"([\\`*_\[\]|~$]|^>)|^(#|[+-](?![\d.])|\d+(?=[.)](\s|$)))"
)  # a number begins no list
_LATEX = {character: f"\\{character}" for character in "{}$&#%_"}
_LATEX |= {"-": "{-}", "\u00a0": "~", "−": "$-$"}  # no ligature may turn two hyphens into a dash
_NAMES = {
    "\\": "backslash",
    "~": "asciitilde",
    "^": "asciicircum",
    "<": "less",
    ">": "greater",
    "|": "bar",
}
_NAMES |= {'"': "quotedbl", "'": "quotesingle", "`": "asciigrave"}
_LATEX |= {character: rf"\text{name}{{}}" for character, name in _NAMES.items()}
_MATHS = {
    "↑": "uparrow",
    "→": "rightarrow",
    "≤": "leq",
    "≥": "geq",
    "≠": "neq",
    "√": "surd",
    "∞": "infty",
}
_MATHS |= {
    "α": "alpha",
    "Δ": "Delta",
    "ε": "epsilon",
    "λ": "lambda",
    "σ": "sigma",
    "Σ": "Sigma",
    "τ": "tau",
}
_LATEX |= {character: rf"$\{name}$" for character, name in _MATHS.items()}
# What pdflatex prints of UTF-8 with T1 fonts and textcomp, and nothing more.
_T1 = frozenset("¡£§«»¿©®°´¶¸ĂăĄąĆćČčĎďĐđĘęĚěĞğİıŁłŃńŇňŐőŒœŘřŚśŞşŠšŤťŮůŰűŸŹźŻżŽž‘’“”–—…†²½±×·")
_T1 = _T1.union(map(chr, range(0xC0, 0x100)))


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as CSV in which no text is a formula: an apostrophe makes spreadsheets show what
    begins like one.

    A carriage return, which would end a row, becomes a line break. Numbers, as texts too, stay as
    they are.
    """

    def inert(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        begins = "'" * bool(FORMULA.match(value) and not _SIGNED_NUMBER.fullmatch(value))
        return begins + value.replace("\r\n", "\n").replace("\r", "\n")

    cells = {
        name: pd.Series(map(inert, frame[name]), frame.index, frame[name].dtype) for name in frame
    }
    return pd.DataFrame(cells, columns=frame.columns).to_csv(index=False, lineterminator="\n")


def markdown_text(text: str) -> str:
    """For a cell of a GitHub table: one line, nothing read as markup or HTML."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;")
    return _MARKUP.sub(lambda match: f"\\{match[1]}" if match[1] else f"&#8203;{match[2]}", flat)


def markdown_line(cells: Iterable[str]) -> str:
    """A line of a table, of cells that are escaped."""
    return "| " + " | ".join(cells) + " |"


def latex_text(text: str) -> str:
    """For pdflatex with T1 fonts: no text starts a command; what they lack becomes ``U+4E2D``, line
    breaks spaces.
    """

    def printed(character: str) -> str:
        if character in _T1 or (character.isascii() and character.isprintable()):
            return _LATEX.get(character, character)
        blank = character.isascii() or unicodedata.category(character).startswith("Z")
        return _LATEX.get(character, " " if blank else rf"\texttt{{U+{ord(character):04X}}}")

    return "".join(map(printed, text))
