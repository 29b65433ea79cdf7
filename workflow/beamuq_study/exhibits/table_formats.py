"""Numbers as printed, and a built table as Markdown, LaTeX and HTML. Same table, same bytes."""

from __future__ import annotations

import itertools
import re

from beamuq.printed_numbers import decimal as decimal
from beamuq.printed_numbers import interval as interval
from beamuq_study import html_pages
from beamuq_study.escaped_text import latex_text, markdown_line, markdown_text
from beamuq_study.exhibits.exhibit import Built, Row, Table, TableCell

LATEX_PACKAGES = r"\usepackage{textcomp,booktabs,array,graphicx}"
CODE_WIDTH = 0.78  # of the text's, that columns of code share

# -- numbers ---------------------------------------------------------------------------------------


def signed(value: float, digits: int = 3) -> str:
    """As :func:`decimal`, with a plus sign above 0."""
    text = decimal(value, digits)
    return f"+{text}" if float(text) > 0 else text


def percent(value: float, digits: int = 0) -> str:
    """``54%`` of a share in [0, 1]."""
    return f"{100 * value:.{digits}f}%"


# -- Markdown --------------------------------------------------------------------------------------


def markdown(built: Built) -> str:
    """A heading, the caption, one GitHub table (upper header levels joined to the last)."""
    table = _table(built)
    paths = zip(*table.header, strict=True)
    heads = [" · ".join(dict.fromkeys(filter(None, titles))) for titles in paths]
    lines = [
        [markdown_text(title) for title in (*table.stub, *heads)],
        [":---"] * len(table.stub) + [":---:"] * len(heads),
    ]
    for title, rows in table.groups():
        if title:
            lines.append([f"*{markdown_text(title)}*", *[""] * (table.width - 1)])
        lines += [_markdown_row(row) for row in rows]
    return "\n".join(
        [
            f"# {markdown_text(built.title)}",
            "",
            markdown_text(built.caption),
            "",
            *map(markdown_line, lines),
            "",
        ]
    )


def _markdown_row(row: Row) -> list[str]:
    return [*map(markdown_text, row.titles), *map(_markdown_cell, row.cells)]


def _markdown_cell(cell: TableCell) -> str:
    lines = cell.text.split("\n") if cell.code else [cell.text]
    text = "<br>".join(map(markdown_text, lines))
    if cell.mark == "best":
        text = f"**{text}**"
    elif cell.mark == "second":
        text = f"<u>{text}</u>"
    if cell.better:
        text += " ↑"
    if cell.spread:
        text += f" {markdown_text(cell.spread)}"
    return text


# -- LaTeX -----------------------------------------------------------------------------------------


def latex_fragment(built: Built) -> str:
    r"""A table environment to ``\input``: booktabs, and never wider than the text."""
    table = _table(built)
    lines = [
        rf"% needs {LATEX_PACKAGES}",
        r"\begin{table}[!ht]",
        rf"\caption{{{latex_text(built.caption)}}}",
        rf"\label{{tab:{built.label}}}",
        r"\centering\small",
        r"\setbox0\hbox{%",
        rf"\begin{{tabular}}{{@{{}}{_latex_columns(table)}@{{}}}}",
        r"\toprule",
    ]
    for level in table.levels():
        lines += _latex_header(level)
    for title, rows in table.groups():
        lines.append(r"\midrule")
        if title:
            group = _latex_spanning(table.width, rf"\textit{{{latex_text(title)}}}")
            lines += [rf"{group} \\", r"\midrule"]
        lines += [_latex_row(row) for row in rows]
    lines += [
        r"\bottomrule",
        r"\end{tabular}}",
        r"\ifdim\wd0>\textwidth\resizebox{\textwidth}{!}{\box0}\else\box0\fi",
        r"\end{table}",
        "",
    ]
    return "\n".join(lines)


def _latex_columns(table: Table) -> str:
    """The kinds of columns: of the stub, then of the values."""
    count = table.width - len(table.stub)
    column = "c"
    if any(cell.code for cell in table.cells):
        column = f"p{{{CODE_WIDTH / count:.3f}\\textwidth}}"
    return "l" * len(table.stub) + column * count


def _latex_header(level: list[tuple[str, int]]) -> list[str]:
    """The titles of a level, and a rule below each that spans several columns."""
    heads = [
        _latex_spanning(count, latex_text(title)) if count > 1 else latex_text(title)
        for title, count in level
    ]
    ends = itertools.accumulate(count for _, count in level)
    rules = [
        rf"\cmidrule(lr){{{end - count + 1}-{end}}}"
        for (_, count), end in zip(level, ends, strict=True)
        if count > 1
    ]
    return [" & ".join(heads) + r" \\", *rules]


def _latex_spanning(columns: int, text: str) -> str:
    return rf"\multicolumn{{{columns}}}{{c}}{{{text}}}"


def _latex_row(row: Row) -> str:
    return " & ".join([*map(latex_text, row.titles), *map(_latex_cell, row.cells)]) + r" \\"


def _latex_cell(cell: TableCell) -> str:
    if cell.code:
        lines = [latex_text(line) or r"\mbox{}" for line in cell.text.split("\n")]
        code = r"\newline ".join(lines)
        return rf"\raggedright\arraybackslash\ttfamily\scriptsize {code}"
    # Of a number it is a minus sign.
    text = re.sub(r"^\{-\}(?=[\d.])", "$-$", latex_text(cell.text))
    if cell.mark == "best":
        text = rf"\textbf{{{text}}}"
    elif cell.mark == "second":
        text = rf"\underline{{{text}}}"
    if cell.better:
        text += r" $\uparrow$"
    if cell.spread:
        text += rf" {{\scriptsize {latex_text(cell.spread)}}}"
    return text


# -- HTML ------------------------------------------------------------------------------------------


def html(built: Built) -> str:
    """A page that opens offline: title, caption, table with interval and n at the pointer."""
    return html_pages.render(
        "exhibit_table.html.jinja",
        title=built.title,
        study=built.study,
        built=built,
        table=_table(built),
    )


def _table(built: Built) -> Table:
    assert isinstance(built.shown, Table)
    return built.shown
