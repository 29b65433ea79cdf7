"""Texts that UTF-8 can write, and names that are one line and show all that they hold."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Any

from pydantic import BeforeValidator

from beamuq.errors import BeamUQError

_HALF = re.compile("[\ud800-\udfff]")
UNSEEN = ("Cf", "Zl", "Zp")
"""Unicode's categories of format characters (of width 0, or of direction) and of line ends."""
LINE_ENDS = "\0\n\r\v\f\x1c\x1d\x1e\x85"
"""Controls that end a line or, NUL, a text. Others are escaped where they are printed."""


def half_surrogate(text: str) -> str | None:
    """The first half of a surrogate pair in a text, no character, as U+D83D; None: none."""
    half = _HALF.search(text)
    return None if half is None else _code(half[0])


def unseen_character(text: str) -> str | None:
    """The first character that does not show, or ends the line, as U+000D; None: there is none."""
    if text.isprintable():
        return None
    for character in text:
        if character in LINE_ENDS or unicodedata.category(character) in UNSEEN:
            return _code(character)
    return None


def whole_text(value: Any) -> Any:
    """A validator: refuses a text with half a surrogate pair; what is no text it leaves to others.

    Raises ValueError, without the place.
    """
    half = half_surrogate(value) if isinstance(value, str) else None
    if half is not None:
        raise ValueError(
            f"holds {half}, half a surrogate pair: a part of a character that was cut in two, "
            "which UTF-8 cannot write; give the whole character, or U+FFFD in its place"
        )
    return value


def name(value: Any) -> Any:
    """A validator of ids and other names: refuses what does not show, or ends a line, too.

    The rest is as for :func:`whole_text`. A file of rows would lose or change them, and two names
    that look alike would be two.

    Raises ValueError, without the place.
    """
    value = whole_text(value)
    unseen = unseen_character(value) if isinstance(value, str) else None
    if unseen is not None:
        raise ValueError(
            f"holds {unseen}, which does not show or ends the line; leave it out of a name"
        )
    return value


def check_whole(text: str, what: str) -> None:
    """Refuse half a surrogate pair; raises BeamUQError that begins with ``what`` the text is."""
    try:
        whole_text(text)
    except ValueError as error:
        raise BeamUQError(f"{what}: {error}") from error


WholeText = Annotated[str, BeforeValidator(whole_text)]


def _code(character: str) -> str:
    return f"U+{ord(character):04X}"
