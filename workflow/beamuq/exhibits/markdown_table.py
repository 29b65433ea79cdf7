"""A built table, or any rows of texts, as GitHub's Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable

from beamuq import html_pages
from beamuq.exhibits.exhibit_types import BuiltTable, TableCell, TableHeading, TableRow

_NUMBER = re.compile(r"-?[\d.]+")
_SPECIAL = re.compile(r"([\\`*_\[\]|~$])|^([#+-]|\d+(?=[.)]))")


def render(table: BuiltTable) -> str:
    """A heading, the caption, one GitHub table (upper header levels joined to the last), the notes."""
    grid, letters = table.grid, table.letters
    heads = [" · ".join(dict.fromkeys(filter(None, titles))) for titles in zip(*grid.header, strict=True)]
    lines = [f"# {escape(table.title)}", "", escape(table.caption), ""]
    lines.append(line(map(escape, (*grid.stub, *heads))))
    lines.append(line([*[":---"] * len(grid.stub), *[":---:"] * len(heads)]))
    for item in grid.body:
        if isinstance(item, TableHeading):
            lines.append(line([f"*{escape(item.title)}*", *[""] * (grid.width - 1)]))
        elif isinstance(item, TableRow):
            lines.append(line([*map(escape, item.titles), *(_cell(cell, letters) for cell in item.cells)]))
    for note in table.notes:
        lines += ["", escape(note)]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """For a cell of a GitHub table: one line, nothing read as markup or HTML."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(lambda match: f"\\{match[1]}" if match[1] else f"&#8203;{match[2]}", flat)


def line(cells: Iterable[str]) -> str:
    """A line of a table, of cells that are escaped."""
    return "| " + " | ".join(cells) + " |"


def _cell(cell: TableCell, letters: dict[str, str]) -> str:
    if cell.code:
        text = html_pages.escape(cell.text)
        for special in "\\`*_[]|~":
            text = text.replace(special, f"&#{ord(special)};")
        return f"<code>{text.replace(chr(10), '<br>')}</code>"
    text = escape(cell.text) if not _NUMBER.fullmatch(cell.text) else cell.text
    text = {"best": f"**{text}**", "second": f"<u>{text}</u>"}.get(cell.mark, text)
    if cell.note:
        text += f"<sup>{letters[cell.note]}</sup>"
    return text + " ↑" * cell.better + (f" {escape(cell.spread)}" if cell.spread else "")
