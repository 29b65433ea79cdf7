"""Questions and answers in figures: a face of one width, so that lines are wrapped and cut by counting characters."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from beamuq.exhibits import figure_style

if TYPE_CHECKING:
    import matplotlib.axes

CHARACTER = 0.60205 * figure_style.TEXT / 72  # inches that a character of this face takes
ELLIPSIS = "…"
UNKNOWN = "\ufffd"


def characters(inches: float) -> int:
    """How many characters fit, at least one."""
    return max(1, int(inches / CHARACTER))


def one_line(text: str, most: int) -> str:
    """``text`` on one line of at most ``most`` characters, cut with an ellipsis; those the face lacks as U+FFFD."""
    from matplotlib.font_manager import findfont, get_font

    font = get_font(findfont(figure_style.FIXED_WIDTH))
    flat = " ".join(text.split())
    known = "".join(character if font.get_char_index(ord(character)) else UNKNOWN for character in flat)
    return known if len(known) <= most else known[: most - 1].rstrip() + ELLIPSIS


def wrapped(text: str, width: int, most: int) -> list[str]:
    """``text`` in at most ``most`` lines of ``width`` characters, the last cut with an ellipsis."""
    lines = textwrap.wrap(one_line(text, len(text) + 1), width, break_on_hyphens=False) or [""]
    return [*lines[: most - 1], one_line(" ".join(lines[most - 1 :]), width)] if len(lines) > most else lines


def write(
    axes: matplotlib.axes.Axes,
    x: float,
    y: float,
    text: str,
    *,
    bold: bool = False,
    right: bool = False,
    grey: bool = False,
) -> None:
    """A line with its top at (x, y) of axes whose units are inches downwards; ``right``: it ends at x."""
    axes.text(
        x,
        y,
        text,
        ha="right" if right else "left",
        va="top",
        family=figure_style.FIXED_WIDTH,
        fontsize=figure_style.TEXT,
        fontweight="bold" if bold else "normal",
        color="#555555" if grey else figure_style.BLACK,
        parse_math=False,
        in_layout=False,  # else the panel would shrink to make room for what is inside it
    )
