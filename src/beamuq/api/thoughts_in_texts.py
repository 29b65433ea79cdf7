"""Marks that models put around a thought, found in texts that are to be compared as answers."""

from __future__ import annotations

import re
from collections.abc import Iterable

MARK = re.compile(
    r"[<\[◁][/|]?(?:seed:|antml:|begin_of_|start_of_|end_of_|begin_|start_|end_)?"
    r"(?:think(?:ing)?|thoughts?|reasoning|scratchpad)(?:\s+\w+=[^<>]{0,80})?\s*\|?[>\]▷]"
    r"|<\|channel\|?>\s*(?:analysis|thought)|<unused94>",
    re.IGNORECASE,
)


def marks_of_thoughts(places_and_texts: Iterable[tuple[str, str]]) -> str | None:
    """A warning of texts with such a mark, by the place of the first; None: no text has one."""
    marks = []
    for place, text in places_and_texts:
        match = MARK.search(text)
        if match:
            marks.append((place, match[0]))
    if not marks:
        return None
    place, mark = marks[0]
    more = f" (and {len(marks) - 1} more texts)" if len(marks) > 1 else ""
    return (
        f"{place}: holds the mark of a thought, {mark!r}{more}: texts are compared as they are, "
        "thoughts and all; take the thought off, or have the server do it"
    )
