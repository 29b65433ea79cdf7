"""Plain text into LaTeX, so that no question, prompt or title can break a document or start a command."""

from __future__ import annotations

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
    "†": r"$\dagger$",
    "²": r"$^2$",
    "½": r"$\frac12$",
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
    "Δ": r"$\Delta$",
    "ε": r"$\epsilon$",
    "λ": r"$\lambda$",
    "σ": r"$\sigma$",
    "Σ": r"$\Sigma$",
    "τ": r"$\tau$",
}
# What pdflatex prints with T1 fonts and nothing more.
_T1 = frozenset("¡£§«»¿©®°´¶¸ĂăĄąĆćČčĎďĐđĘęĚěĞğİıŁłŃńŇňŐőŒœŘřŚśŞşŠšŤťŮůŰűŸŹźŻżŽž").union(map(chr, range(0xC0, 0x100)))


def escape(text: str) -> str:
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
