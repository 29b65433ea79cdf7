"""A built table as CSV (long), LaTeX that compiles alone, Markdown and an HTML page. Same input, same bytes."""

from __future__ import annotations

import io
import itertools
import re
import string
from collections.abc import Iterable

from beamuq import html_pages
from beamuq.exhibits import escape
from beamuq.exhibits.exhibit_types import CSV_COLUMNS, Cell, Grid, Heading, Row, Rule, Table

ARROW = "↑"
_NUMBER = re.compile(r"-?[\d.]+")

_LATEX_HEAD = r"""\documentclass[10pt]{article}
\usepackage[T1]{fontenc}
\usepackage[utf8]{inputenc}
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}% outlines instead of bitmaps, where installed
\usepackage{textcomp,booktabs,array,graphicx}
\setlength{\textwidth}{5.5in}
\setlength{\oddsidemargin}{0.5in}
\setlength{\textheight}{9.6in}
\setlength{\topmargin}{-0.6in}
\setlength{\abovecaptionskip}{0pt}
\setlength{\belowcaptionskip}{6pt}
\pagestyle{empty}
\newsavebox{\tablebox}
% At most the width of the text, never enlarged.
\newcommand{\fittowidth}{\ifdim\wd\tablebox>\textwidth\resizebox{\textwidth}{!}{\usebox{\tablebox}}\else\usebox{\tablebox}\fi}
\begin{document}
"""

# Rows of two lines: leaves room for a long caption on the same page.
_FIT_TO_HEIGHT = (
    r"\ifdim\dimexpr\ht\tablebox+\dp\tablebox\relax>7in"
    r"\sbox{\tablebox}{\resizebox*{!}{7in}{\usebox{\tablebox}}}\fi"
)


def csv(table: Table) -> str:
    """The long frame: every value unrounded (shortest text that reads back the same), undefined ones empty."""
    buffer = io.StringIO()
    table.values[list(CSV_COLUMNS)].to_csv(buffer, index=False, lineterminator="\n")
    return buffer.getvalue()


def latex(table: Table) -> str:
    """A whole document: pdflatex needs nothing but the base and recommended packages."""
    grid, letters = table.grid, _letters(table)
    stub, width = len(grid.stub), len(grid.stub) + len(grid.header[-1])
    code = any(cell.code for row in _rows(grid) for cell in row.cells)
    stacked = any(cell.interval for row in _rows(grid) for cell in row.cells)
    column = f"p{{{0.78 / max(1, width - stub):.3f}\\textwidth}}" if code else "c"
    lines = [
        r"\begin{table}[!ht]",
        rf"\caption{{{escape.latex(table.caption)}}}",
        rf"\label{{tab:{table.label}}}",
        r"\centering\small",
        r"\begin{lrbox}{\tablebox}",
        *([r"\setlength{\tabcolsep}{3pt}"] if stacked else []),
        rf"\begin{{tabular}}{{@{{}}{'l' * stub}{column * (width - stub)}@{{}}}}",
        r"\toprule",
    ]
    for level in range(len(grid.header)):
        last = level == len(grid.header) - 1
        stubs = [escape.latex(title) if last else "" for title in grid.stub]
        spans = _spans(grid.header, level)
        cells = [_latex_span(title, count) for title, count in spans]
        lines.append(" & ".join(stubs + cells) + r" \\")
        if not last:
            lines.append(_cmidrules(spans, stub))
    lines.append(r"\midrule")
    for item in grid.body:
        if isinstance(item, Heading):
            lines.append(rf"\multicolumn{{{width}}}{{c}}{{\textit{{{escape.latex(item.title)}}}}} \\")
        elif isinstance(item, Row):
            cells = [*map(escape.latex, item.titles), *(_latex_cell(cell, letters) for cell in item.cells)]
            lines.append(" & ".join(cells) + (r" \\ \addlinespace[2pt]" if stacked else r" \\"))
        else:
            lines.append(r"\midrule")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{lrbox}"]
    lines += [*([_FIT_TO_HEIGHT] if stacked else []), r"\fittowidth", ""]
    lines += [rf"\par\smallskip\noindent{{\footnotesize {escape.latex(note)}\par}}" for note in _notes(table, letters)]
    lines += [r"\end{table}", r"\end{document}", ""]
    return _LATEX_HEAD + "\n".join(lines)


def markdown(table: Table) -> str:
    """A heading, the caption, one GitHub table (upper header levels joined to the last), the notes."""
    grid, letters = table.grid, _letters(table)
    heads = [" · ".join(dict.fromkeys(filter(None, titles))) for titles in zip(*grid.header, strict=True)]
    width = len(grid.stub) + len(heads)
    lines = [f"# {escape.markdown(table.title)}", "", escape.markdown(table.caption), ""]
    lines.append(_markdown_line([escape.markdown(title) for title in (*grid.stub, *heads)]))
    lines.append(_markdown_line([*[":---"] * len(grid.stub), *[":---:"] * len(heads)]))
    for item in grid.body:
        if isinstance(item, Heading):
            lines.append(_markdown_line([f"*{escape.markdown(item.title)}*", *[""] * (width - 1)]))
        elif isinstance(item, Row):
            cells = (_markdown_cell(cell, letters) for cell in item.cells)
            lines.append(_markdown_line([*map(escape.markdown, item.titles), *cells]))
    for note in _notes(table, letters):
        lines += ["", escape.markdown(note)]
    return "\n".join(lines) + "\n"


def html(table: Table) -> str:
    """A page that opens offline: nothing is loaded."""
    grid, letters = table.grid, _letters(table)
    header = [
        (grid.stub if level == len(grid.header) - 1 else ("",) * len(grid.stub), _spans(grid.header, level))
        for level in range(len(grid.header))
    ]
    return html_pages.render(
        "exhibit_table.html.jinja",
        title=table.title,
        table=table,
        header=header,
        body=_with_rules(grid),
        width=len(grid.stub) + len(grid.header[-1]),
        letters=letters,
        notes=_notes(table, letters),
    )


def _with_rules(grid: Grid) -> list[tuple[Row | Heading, bool]]:
    """Rows and headings, each with whether a rule stands above it."""
    found: list[tuple[Row | Heading, bool]] = []
    for before, item in zip((None, *grid.body), grid.body, strict=False):
        if isinstance(item, Row | Heading):
            found.append((item, isinstance(before, Rule)))
    return found


def _rows(grid: Grid) -> Iterable[Row]:
    return (item for item in grid.body if isinstance(item, Row))


def _letters(table: Table) -> dict[str, str]:
    """A mark for each distinct reason, in the order of reading: a, …, z, aa, ab, …"""
    reasons = dict.fromkeys(cell.note for row in _rows(table.grid) for cell in row.cells if cell.note)
    return {reason: _letter(position) for position, reason in enumerate(reasons)}


def _letter(position: int) -> str:
    letters = string.ascii_lowercase
    return letters[position] if position < 26 else _letter(position // 26 - 1) + letters[position % 26]


def _notes(table: Table, letters: dict[str, str]) -> list[str]:
    return [*(f"({letter}) {reason}" for reason, letter in letters.items()), *table.notes]


def _spans(header: tuple[tuple[str, ...], ...], level: int) -> list[tuple[str, int]]:
    """Titles of a level with how many columns each spans: equal neighbours under equal titles share one."""
    paths = list(zip(*header[: level + 1], strict=True))
    if level == len(header) - 1:
        return [(path[-1], 1) for path in paths]
    return [(path[-1], len(list(group))) for path, group in itertools.groupby(paths)]


def _latex_span(title: str, count: int) -> str:
    text = escape.latex(title)
    return text if count == 1 else rf"\multicolumn{{{count}}}{{c}}{{{text}}}"


def _cmidrules(spans: list[tuple[str, int]], stub: int) -> str:
    rules, column = [], stub + 1
    for title, count in spans:
        if title:
            rules.append(rf"\cmidrule(lr){{{column}-{column + count - 1}}}")
        column += count
    return "".join(rules)


def _latex_cell(cell: Cell, letters: dict[str, str]) -> str:
    if cell.code:
        lines = r"\newline ".join(escape.latex(line) or r"\mbox{}" for line in cell.text.split("\n"))
        return rf"\raggedright\arraybackslash\ttfamily\scriptsize {lines}"
    text = escape.latex(cell.text)
    if cell.text.startswith("-") and _NUMBER.fullmatch(cell.text):
        text = "$-$" + escape.latex(cell.text[1:])
    text = {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}"}.get(cell.mark, text)
    if cell.note:
        text += rf"\textsuperscript{{{letters[cell.note]}}}"
    text += r" $\uparrow$" if cell.better else ""
    if cell.interval:
        lines = rf"{text}\\[-3pt]{{\scriptsize {escape.latex(cell.interval.replace('-', '−'))}}}"
        return rf"\begin{{tabular}}[t]{{@{{}}c@{{}}}}{lines}\end{{tabular}}"
    return text + (rf" {{\scriptsize {escape.latex(cell.spread)}}}" if cell.spread else "")


def _markdown_line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(cell: Cell, letters: dict[str, str]) -> str:
    if cell.code:
        text = escape.page(cell.text)
        for special in "\\`*_[]|~":
            text = text.replace(special, f"&#{ord(special)};")
        return f"<code>{text.replace(chr(10), '<br>')}</code>"
    text = escape.markdown(cell.text) if not _NUMBER.fullmatch(cell.text) else cell.text
    text = {"best": f"**{text}**", "second": f"<u>{text}</u>"}.get(cell.mark, text)
    if cell.note:
        text += f"<sup>{letters[cell.note]}</sup>"
    small = "".join(f" {escape.markdown(part)}" for part in (cell.spread, cell.interval) if part)
    return text + (f" {ARROW}" if cell.better else "") + small
