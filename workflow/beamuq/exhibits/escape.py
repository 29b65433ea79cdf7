"""Plain text into LaTeX, Markdown and HTML, so that no question, prompt or title can break a page."""

from __future__ import annotations

import html
import re
import unicodedata

_LATEX = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": "{-}",  # no ligature may turn two of them into a dash
    "‘": r"\textquoteleft{}",
    "’": r"\textquoteright{}",
    "“": r"\textquotedblleft{}",
    "”": r"\textquotedblright{}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "…": r"\textellipsis{}",
    "\u00a0": "~",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "−": "$-$",
    "↑": r"$\uparrow$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "√": r"$\surd$",
    "→": r"$\rightarrow$",
    "∞": r"$\infty$",
    "α": r"$\alpha$",
    "ε": r"$\epsilon$",
    "λ": r"$\lambda$",
    "σ": r"$\sigma$",
    "Σ": r"$\Sigma$",
}
_MARKDOWN = re.compile(r"([\\`*_\[\]|~$])|^([#+-]|\d+(?=[.)]))")
# What pdflatex prints with T1 fonts and nothing more.
_T1 = frozenset("¡£§«»¿©®°´¶¸ĂăĄąĆćČčĎďĐđĘęĚěĞğİıŁłŃńŇňŐőŒœŘřŚśŞşŠšŤťŮůŰűŸŹźŻżŽž").union(map(chr, range(0xC0, 0x100)))


def latex(text: str) -> str:
    """For pdflatex with T1 fonts. A character those lack becomes ``U+4E2D``; line breaks become spaces."""
    return "".join(_latex_character(character) for character in text)


def _latex_character(character: str) -> str:
    if character in _LATEX:
        return _LATEX[character]
    if character.isascii():
        return character if character.isprintable() else " "
    if character in _T1:
        return character
    if unicodedata.category(character).startswith("Z"):
        return " "
    return rf"\texttt{{U+{ord(character):04X}}}"


def markdown(text: str) -> str:
    """For a cell of a GitHub table: one line, nothing read as markup or HTML."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKDOWN.sub(lambda match: f"\\{match[1]}" if match[1] else f"&#8203;{match[2]}", flat)


def page(text: str) -> str:
    """For HTML text and attribute values; control characters are shown as U+FFFD."""
    safe = "".join("\ufffd" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)
    return html.escape(safe, quote=True)
