"""Plain text into LaTeX, so that no question, prompt or title can break a document or start a command."""

from __future__ import annotations

import unicodedata

_LATEX = {character: f"\\{character}" for character in "{}$&#%_"}
_LATEX |= {"-": "{-}", "\u00a0": "~", "−": "$-$"}  # no ligature may turn two hyphens into a dash
_NAMES = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater", "|": "bar"}
_NAMES |= {'"': "quotedbl", "'": "quotesingle", "`": "asciigrave"}
_LATEX |= {character: rf"\text{name}{{}}" for character, name in _NAMES.items()}
_MATHS = {"↑": "uparrow", "→": "rightarrow", "≤": "leq", "≥": "geq", "≠": "neq", "√": "surd", "∞": "infty"}
_MATHS |= {"α": "alpha", "Δ": "Delta", "ε": "epsilon", "λ": "lambda", "σ": "sigma", "Σ": "Sigma", "τ": "tau"}
_LATEX |= {character: rf"$\{name}$" for character, name in _MATHS.items()}
# What pdflatex prints of UTF-8 with T1 fonts and textcomp, and nothing more.
_T1 = frozenset("¡£§«»¿©®°´¶¸ĂăĄąĆćČčĎďĐđĘęĚěĞğİıŁłŃńŇňŐőŒœŘřŚśŞşŠšŤťŮůŰűŸŹźŻżŽž‘’“”–—…†²½±×·")
_T1 = _T1.union(map(chr, range(0xC0, 0x100)))


def escape(text: str) -> str:
    """For pdflatex with T1 fonts. A character those lack becomes ``U+4E2D``; line breaks become spaces."""
    return "".join(_latex_character(character) for character in text)


def _latex_character(character: str) -> str:
    if character in _LATEX:
        return _LATEX[character]
    if character in _T1 or (character.isascii() and character.isprintable()):
        return character
    if character.isascii() or unicodedata.category(character).startswith("Z"):
        return " "
    return rf"\texttt{{U+{ord(character):04X}}}"
