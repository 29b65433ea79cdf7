"""Text set by measure: wrapped and cut to a width in inches, in a face that every machine has."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from beamuq.exhibits import figure_style

if TYPE_CHECKING:
    import matplotlib.axes
    from matplotlib.font_manager import FontProperties

ELLIPSIS = "…"
UNKNOWN = "\ufffd"


def width(text: str, *, bold: bool = False) -> float:
    """Inches that ``text`` takes in the figures' type."""
    from matplotlib.textpath import text_to_path

    points, _, _ = text_to_path.get_text_width_height_descent(known(text), _font(bold), ismath=False)
    return float(points) / 72


def known(text: str) -> str:
    """``text`` on one line, characters that the face lacks replaced by U+FFFD."""
    return "".join(character if ord(character) in _charmap() else UNKNOWN for character in " ".join(text.split()))


def cut(text: str, room: float) -> str:
    """``text`` if it fits into ``room`` inches, else its longest beginning with an ellipsis behind."""
    text = known(text)
    if width(text) <= room:
        return text
    fits = [end for end in range(len(text)) if width(text[:end].rstrip() + ELLIPSIS) <= room]
    return text[: fits[-1]].rstrip() + ELLIPSIS if fits else ELLIPSIS


def wrap(text: str, room: float, most: int, *, first: float | None = None) -> list[str]:
    """``text`` in at most ``most`` lines of ``room`` inches (the first of ``first``), cut with an ellipsis."""
    words, lines = known(text).split(" "), [""]
    for position, word in enumerate(words):
        limit = first if first is not None and len(lines) == 1 else room
        longer = f"{lines[-1]} {word}".strip()
        if width(longer) <= limit:
            lines[-1] = longer
        elif len(lines) == most:
            lines[-1] = cut(" ".join([lines[-1], *words[position:]]).strip(), limit)
            break
        elif lines[-1] or (len(lines) == 1 and limit < room):
            lines.append(cut(word, room))
        else:
            lines[-1] = cut(word, limit)
    return lines


def writer(axes: matplotlib.axes.Axes) -> Callable[..., None]:
    """A function that writes a line with its top at (x, y) of ``axes``, whose units are inches downwards."""

    def write(x: float, y: float, text: str, *, bold: bool = False, right: bool = False, grey: bool = False) -> None:
        axes.text(
            x,
            y,
            text,
            ha="right" if right else "left",
            va="top",
            fontsize=figure_style.TEXT,
            fontweight="bold" if bold else "normal",
            color="#555555" if grey else figure_style.BLACK,
            parse_math=False,
            in_layout=False,  # else the panel would shrink to make room for what is inside it
        )

    return write


@cache
def _font(bold: bool) -> FontProperties:
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=figure_style.FAMILY, size=figure_style.TEXT, weight="bold" if bold else "normal")


@cache
def _charmap() -> frozenset[int]:
    from matplotlib.font_manager import findfont, get_font

    return frozenset(get_font(findfont(_font(False))).get_charmap())
