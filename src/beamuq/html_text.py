"""Escape any text for an HTML page."""

from __future__ import annotations

import html
import unicodedata
from typing import Any


def escape(text: str) -> str:
    """A text for HTML or an attribute's value, outside of templates, which escape themselves."""
    return html.escape(printable(text), quote=True)


def printable(value: Any) -> Any:
    """Control characters of a text as U+FFFD: HTML has no way to write them.

    Markup and other values are left as they are.
    """
    if hasattr(value, "__html__") or not isinstance(value, str):
        return value
    return "".join("\ufffd" if _is_control(character) else character for character in value)


def _is_control(character: str) -> bool:
    return unicodedata.category(character) == "Cc" and character not in "\n\t"
