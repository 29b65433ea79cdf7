"""Escape any text for an HTML page."""

from __future__ import annotations

import html
import unicodedata
from typing import Any


def escape(text: str) -> str:
    """A text for HTML, or for an attribute's value, outside of templates, which escape by
    themselves.
    """
    return html.escape(printable(text), quote=True)


def printable(value: Any) -> Any:
    """Control characters of a text as U+FFFD: HTML has no way to write them. Markup and other
    values as they are.
    """
    if hasattr(value, "__html__") or not isinstance(value, str):
        return value
    return "".join(
        "\ufffd" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in value
    )
