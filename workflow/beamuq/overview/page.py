"""One self-contained HTML page of tables: nothing is loaded, every text is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from beamuq.exhibits import escape

_STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#111}
h1{font-size:1.3rem}h2{font-size:1.1rem;margin-top:2.2rem}
table{border-collapse:collapse;border-top:2px solid #111;border-bottom:2px solid #111;margin:.8rem 0}
th,td{padding:.2rem .55rem;text-align:left;vertical-align:top}th{vertical-align:bottom}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}td.number{white-space:nowrap}
thead{border-bottom:1px solid #111}tr.total>*{border-top:1px solid #111;font-weight:bold}
.scroll{overflow-x:auto}
summary{cursor:pointer;padding:.25rem 0}"""
NONE = "–"


@dataclass(frozen=True)
class Section:
    """A heading, sentences, a table and notes; ``folded``: it opens on a click. A row named total is set off."""

    heading: str
    frame: pd.DataFrame
    sentences: Sequence[str] = ()
    folded: bool = False
    notes: Sequence[str] = ()


def page(title: str, sentences: Sequence[str], sections: Sequence[Section]) -> str:
    """The page, from its title to its last table."""
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape.page(title)}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape.page(title)}</h1>",
        *_paragraphs(sentences),
    ]
    for section in sections:
        lines += [f"<h2>{escape.page(section.heading)}</h2>", *_paragraphs(section.sentences)]
        table = _table(section.frame)
        count = f"{len(section.frame):,} rows"
        lines.append(f"<details><summary>{count}</summary>{table}</details>" if section.folded else table)
        lines += _paragraphs(section.notes)
    return "\n".join([*lines, "</body></html>", ""])


def _paragraphs(sentences: Sequence[str]) -> list[str]:
    return [f"<p>{escape.page(sentence)}</p>" for sentence in sentences]


def _table(frame: pd.DataFrame) -> str:
    kinds = [{_is_number(value) for value in frame[name] if value != NONE} for name in frame]
    numbers = [kind == {True} for kind in kinds]
    lines = ['<div class="scroll"><table><thead><tr>']
    lines += [_cell("th", str(name), number) for name, number in zip(frame.columns, numbers, strict=True)]
    lines.append("</tr></thead><tbody>")
    for row in frame.itertuples(index=False):
        cells = [_cell("td", _text(value), number) for value, number in zip(row, numbers, strict=True)]
        start = '<tr class="total">' if row[0] == "total" else "<tr>"
        lines.append(f"{start}{''.join(cells)}</tr>")
    return "".join([*lines, "</tbody></table></div>"])


def _cell(tag: str, text: str, number: bool) -> str:
    kind = ' class="number"' if number else ""
    return f"<{tag}{kind}>{escape.page(text)}</{tag}>"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _text(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
