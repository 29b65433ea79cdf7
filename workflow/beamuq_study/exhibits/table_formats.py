"""Numbers as printed, and a built table as Markdown, LaTeX and HTML. Same table, same bytes."""

from __future__ import annotations

import itertools
import math
import re

from beamuq_study import html_pages
from beamuq_study.escaped_text import latex_text, markdown_line, markdown_text
from beamuq_study.exhibits.exhibit import Built, Table, TableCell

LATEX_PACKAGES = r"\usepackage{textcomp,booktabs,array,graphicx}"


def decimal(value: float, digits: int = 3) -> str:
    """``.543``, ``-.096``, ``1.000``, ``.000`` (never ``-.000``): no zero before the point."""
    text = f"{value:.{digits}f}"
    return re.sub(r"^(-?)0\.", r"\1.", text if float(text) else text.lstrip("-"))


def signed(value: float, digits: int = 3) -> str:
    text = decimal(value, digits)
    return f"+{text}" if float(text) > 0 else text


def percent(value: float, digits: int = 0) -> str:
    return f"{100 * value:.{digits}f}%"


def interval(low: float, high: float, digits: int = 3) -> str:
    """``[-.012, .345]``; nothing where there is none (NaN)."""
    return (
        ""
        if math.isnan(low) or math.isnan(high)
        else f"[{decimal(low, digits)}, {decimal(high, digits)}]"
    )


def markdown(built: Built) -> str:
    """A heading, the caption, one GitHub table (upper header levels joined to the last)."""
    table = _table(built)
    heads = [
        " · ".join(dict.fromkeys(filter(None, titles)))
        for titles in zip(*table.header, strict=True)
    ]
    lines = [
        [*map(markdown_text, (*table.stub, *heads))],
        [":---"] * len(table.stub) + [":---:"] * len(heads),
    ]
    for title, rows in table.groups():
        lines += [[f"*{markdown_text(title)}*", *[""] * (table.width - 1)]] * bool(title)
        lines += [
            [*map(markdown_text, row.titles), *map(_markdown_cell, row.cells)] for row in rows
        ]
    head = f"# {markdown_text(built.title)}", "", markdown_text(built.caption), ""
    return "\n".join([*head, *map(markdown_line, lines), ""])


def _markdown_cell(cell: TableCell) -> str:
    text = (
        "<br>".join(map(markdown_text, cell.text.split("\n")))
        if cell.code
        else markdown_text(cell.text)
    )
    text = {"best": f"**{text}**", "second": f"<u>{text}</u>"}.get(cell.mark, text)
    return text + " ↑" * cell.better + f" {markdown_text(cell.spread)}" * bool(cell.spread)


def latex_fragment(built: Built) -> str:
    r"""A table environment to ``\input``: booktabs, the caption in normal size, never wider than
    the text.
    """
    table = _table(built)
    columns = table.width - len(table.stub)
    column = (
        f"p{{{0.78 / columns:.3f}\\textwidth}}" if any(cell.code for cell in table.cells) else "c"
    )
    lines = [
        rf"% needs {LATEX_PACKAGES}",
        r"\begin{table}[!ht]",
        rf"\caption{{{latex_text(built.caption)}}}",
        rf"\label{{tab:{built.label}}}",
        r"\centering\small",
        r"\setbox0\hbox{%",
        rf"\begin{{tabular}}{{@{{}}{'l' * len(table.stub)}{column * columns}@{{}}}}",
        r"\toprule",
    ]
    over = r"\multicolumn{%d}{c}{%s}"
    for level in table.levels():
        heads = (
            over % (n, latex_text(title)) if n > 1 else latex_text(title) for title, n in level
        )
        lines.append(" & ".join(heads) + r" \\")
        ends = itertools.accumulate(count for _, count in level)
        lines += [
            rf"\cmidrule(lr){{{end - n + 1}-{end}}}"
            for (_, n), end in zip(level, ends, strict=True)
            if n > 1
        ]
    for title, rows in table.groups():
        head = over % (table.width, rf"\textit{{{latex_text(title)}}}") + r" \\"
        lines += [r"\midrule", *[head, r"\midrule"] * bool(title)]
        cells = ([*map(latex_text, row.titles), *map(_latex_cell, row.cells)] for row in rows)
        lines += [" & ".join(of_row) + r" \\" for of_row in cells]
    lines += [
        r"\bottomrule",
        r"\end{tabular}}",
        r"\ifdim\wd0>\textwidth\resizebox{\textwidth}{!}{\box0}\else\box0\fi",
    ]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_cell(cell: TableCell) -> str:
    if cell.code:
        lines = r"\newline ".join(latex_text(line) or r"\mbox{}" for line in cell.text.split("\n"))
        return rf"\raggedright\arraybackslash\ttfamily\scriptsize {lines}"
    text = re.sub(
        r"^\{-\}(?=[\d.])", "$-$", latex_text(cell.text)
    )  # of a number it is a minus sign
    text = {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}"}.get(cell.mark, text)
    return (
        text
        + r" $\uparrow$" * cell.better
        + (rf" {{\scriptsize {latex_text(cell.spread)}}}" if cell.spread else "")
    )


def html(built: Built) -> str:
    """A page that opens offline: title, caption, table with interval and n at the pointer."""
    return html_pages.render(
        "exhibit_table.html.jinja", title=built.title, built=built, table=_table(built)
    )


def _table(built: Built) -> Table:
    assert isinstance(built.shown, Table)
    return built.shown
