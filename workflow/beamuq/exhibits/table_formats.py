"""Numbers as printed, and a built table as CSV, Markdown, LaTeX and HTML. Same table, same bytes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

from beamuq import html_pages
from beamuq.exhibits.exhibit import Built, Table, TableCell, TableHeading, TableRow, TableRule
from beamuq.exhibits.latex_escape import escape as latex

FORMULA = re.compile(r"[=+\-@\t\n\r＝＋－＠]")  # beginnings of formulas; the wide ones in some languages
_SIGNED_NUMBER = re.compile(r"[+-]|[+-]?(\d[\d,]*\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NUMBER = re.compile(r"-?[\d.]+")
_MARKUP = re.compile(r"([\\`*_\[\]|~$])|^([#+-]|\d+(?=[.)]))")


# -- CSV ---------------------------------------------------------------------------------------------------------------


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as CSV in which no text is a formula: spreadsheets run a cell that begins with =, +, - or @.

    An apostrophe before such a text makes them show it. A carriage return, which would end a row, becomes a line break.
    Numbers, those written as texts among them, and all other texts stay as they are.
    """
    cells = {name: pd.Series(map(_inert, frame[name]), frame.index, frame[name].dtype) for name in frame}
    return pd.DataFrame(cells, columns=frame.columns).to_csv(index=False, lineterminator="\n")


def _inert(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    begins = "'" if FORMULA.match(value) and not _SIGNED_NUMBER.fullmatch(value) else ""
    return begins + value.replace("\r\n", "\n").replace("\r", "\n")


# -- Markdown ----------------------------------------------------------------------------------------------------------


def markdown(built: Built) -> str:
    """A heading, the caption, one GitHub table (upper header levels joined to the last), the notes."""
    table = _table(built)
    grid, letters = table.grid, table.letters
    heads = [" · ".join(dict.fromkeys(filter(None, titles))) for titles in zip(*grid.header, strict=True)]
    lines = [f"# {markdown_text(built.title)}", "", markdown_text(built.caption), ""]
    lines.append(markdown_line(map(markdown_text, (*grid.stub, *heads))))
    lines.append(markdown_line([*[":---"] * len(grid.stub), *[":---:"] * len(heads)]))
    for item in grid.body:
        if isinstance(item, TableHeading):
            lines.append(markdown_line([f"*{markdown_text(item.title)}*", *[""] * (grid.width - 1)]))
        elif isinstance(item, TableRow):
            cells = (_markdown_cell(cell, letters) for cell in item.cells)
            lines.append(markdown_line([*map(markdown_text, item.titles), *cells]))
    for note in table.notes:
        lines += ["", markdown_text(note)]
    return "\n".join(lines) + "\n"


def markdown_text(text: str) -> str:
    """For a cell of a GitHub table: one line, nothing read as markup or HTML."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(lambda match: f"\\{match[1]}" if match[1] else f"&#8203;{match[2]}", flat)


def markdown_line(cells: Iterable[str]) -> str:
    """A line of a table, of cells that are escaped."""
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(cell: TableCell, letters: dict[str, str]) -> str:
    if cell.code:
        text = html_pages.escape(cell.text)
        for special in "\\`*_[]|~":
            text = text.replace(special, f"&#{ord(special)};")
        return f"<code>{text.replace(chr(10), '<br>')}</code>"
    text = cell.text if _NUMBER.fullmatch(cell.text) else markdown_text(cell.text)
    text = {"best": f"**{text}**", "second": f"<u>{text}</u>"}.get(cell.mark, text)
    text += f"<sup>{letters[cell.note]}</sup>" if cell.note else ""
    return text + " ↑" * cell.better + (f" {markdown_text(cell.spread)}" if cell.spread else "")


# -- LaTeX -------------------------------------------------------------------------------------------------------------

LATEX_PACKAGES = r"\usepackage{textcomp,booktabs,array,graphicx}"


def latex_fragment(built: Built) -> str:
    r"""A table environment to ``\input``: booktabs, the caption in normal size, never wider than the text."""
    table = _table(built)
    grid, letters, stub = table.grid, table.letters, len(table.grid.stub)
    columns = grid.width - stub
    code = any(cell.code for cell in grid.cells)
    column = f"p{{{0.78 / max(1, columns):.3f}\\textwidth}}" if code else "c"
    lines = [
        rf"% needs {LATEX_PACKAGES}",
        r"\begin{table}[!ht]",
        rf"\caption{{{latex(built.caption)}}}",
        rf"\label{{tab:{built.label}}}",
        r"\centering\small",
        r"\setbox0\hbox{%",
        rf"\begin{{tabular}}{{@{{}}{'l' * stub}{column * columns}@{{}}}}",
        r"\toprule",
    ]
    for level, (stubs, spans) in enumerate(grid.levels(), 1):
        lines.append(" & ".join([*map(latex, stubs), *(_latex_span(*span) for span in spans)]) + r" \\")
        if level < len(grid.header):
            lines.append(_latex_rules(spans, stub))
    lines.append(r"\midrule")
    for item in grid.body:
        if isinstance(item, TableHeading):
            lines.append(rf"\multicolumn{{{grid.width}}}{{c}}{{\textit{{{latex(item.title)}}}}} \\")
        elif isinstance(item, TableRow):
            cells = (_latex_cell(cell, letters) for cell in item.cells)
            lines.append(" & ".join([*map(latex, item.titles), *cells]) + r" \\")
        else:
            lines.append(r"\midrule")
    lines += [r"\bottomrule", r"\end{tabular}}", r"\ifdim\wd0>\textwidth\resizebox{\textwidth}{!}{\box0}\else\box0\fi"]
    lines += [rf"\par\smallskip\noindent{{\footnotesize {latex(note)}\par}}" for note in table.notes]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_span(title: str, count: int) -> str:
    return latex(title) if count == 1 else rf"\multicolumn{{{count}}}{{c}}{{{latex(title)}}}"


def _latex_rules(spans: list[tuple[str, int]], stub: int) -> str:
    rules, column = [], stub + 1
    for title, count in spans:
        rules += [rf"\cmidrule(lr){{{column}-{column + count - 1}}}"] if title else []
        column += count
    return "".join(rules)


def _latex_cell(cell: TableCell, letters: dict[str, str]) -> str:
    if cell.code:
        lines = r"\newline ".join(latex(line) or r"\mbox{}" for line in cell.text.split("\n"))
        return rf"\raggedright\arraybackslash\ttfamily\scriptsize {lines}"
    text = latex(cell.text)
    if cell.text.startswith("-") and _NUMBER.fullmatch(cell.text):
        text = "$-$" + latex(cell.text[1:])
    text = {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}"}.get(cell.mark, text)
    text += rf"\textsuperscript{{{letters[cell.note]}}}" if cell.note else ""
    text += r" $\uparrow$" if cell.better else ""
    return text + (rf" {{\scriptsize {latex(cell.spread)}}}" if cell.spread else "")


# -- HTML --------------------------------------------------------------------------------------------------------------


def html(built: Built) -> str:
    """A page that opens offline: title, caption, table with interval and n at the pointer, notes."""
    table = _table(built)
    body: list[tuple[TableRow | TableHeading, bool]] = []  # each with whether a rule stands above it
    for before, item in zip((None, *table.grid.body), table.grid.body, strict=False):
        if isinstance(item, TableRow | TableHeading):
            body.append((item, isinstance(before, TableRule)))
    return html_pages.render("exhibit_table.html.jinja", title=built.title, built=built, table=table, body=body)


def _table(built: Built) -> Table:
    assert isinstance(built.shown, Table)
    return built.shown
