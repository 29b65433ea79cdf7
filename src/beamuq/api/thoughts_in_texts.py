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
    """What to say of texts that hold such a mark: the first, its place, and how many there are;
    None: none does.
    """
    found = [(place, match[0]) for place, text in places_and_texts if (match := MARK.search(text))]
    if not found:
        return None
    place, mark = found[0]
    more = f" (and {len(found) - 1} more texts)" if len(found) > 1 else ""
    return (
        f"{place}: holds the mark of a thought, {mark!r}{more}: texts are compared as they are, "
        "thoughts and all; take "
        "the thought off, or have the server do it"
    )
