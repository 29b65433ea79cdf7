"""The marked blocks of a documentation page: files to write, commands to run, what these print."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

DOCS = Path(__file__).resolve().parents[1] / "docs"
BLOCK = re.compile(
    r"<!-- (file|add|run|python|prints)(?:: (\S+))? -->\n```\w+\n(.*?)```\n", re.DOTALL
)
_MARK = re.compile("<!-- (?:file|add|run|python|prints)")
_SECTION = re.compile(r"^#+ (.*)$", re.MULTILINE)


class Block(NamedTuple):
    """``file``: for ``path``; ``add``: its end; ``run``: shell; ``python``: statements; ``prints``:
    their output.
    """

    kind: str
    path: str
    text: str


def blocks(page: str) -> list[Block]:
    """The marked blocks of ``docs/<page>``, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    marked = [Block(*match) for match in BLOCK.findall(text)]
    assert len(marked) == len(_MARK.findall(text)), page
    return marked


def blocks_by_heading(page: str) -> dict[str, list[Block]]:
    """The blocks under each heading of ``docs/<page>`` that a reader runs or writes, without what
    is printed.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    headings = [(match.start(), match[1]) for match in _SECTION.finditer(_without_code(text))]
    sections: dict[str, list[Block]] = {heading: [] for _, heading in headings}
    for match in BLOCK.finditer(text):
        if match[1] == "prints":
            continue
        above = [heading for start, heading in headings if start < match.start()]
        sections[above[-1]].append(Block(*match.groups(default="")))
    return sections


def _without_code(text: str) -> str:
    """A page as long as ``text`` in which code is blank: a comment of it is no heading."""
    return re.sub(
        r"^```.*?^```$",
        lambda code: re.sub(r"[^\n]", " ", code[0]),
        text,
        flags=re.DOTALL | re.MULTILINE,
    )
