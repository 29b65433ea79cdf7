"""A built table as a LaTeX document that compiles alone. Same table, same bytes."""

from __future__ import annotations

import re

from beamuq.exhibits.exhibit_types import BuiltTable, TableCell, TableHeading, TableRow
from beamuq.exhibits.latex_escape import escape

_NUMBER = re.compile(r"-?[\d.]+")

_HEAD = r"""\documentclass[10pt]{article}
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


def render(table: BuiltTable) -> str:
    """A whole document: pdflatex needs nothing but the base and recommended packages."""
    grid, letters, stub = table.grid, table.letters, len(table.grid.stub)
    values = grid.width - stub
    code = any(cell.code for cell in grid.cells)
    column = f"p{{{0.78 / max(1, values):.3f}\\textwidth}}" if code else "c"
    lines = [
        r"\begin{table}[!ht]",
        rf"\caption{{{escape(table.caption)}}}",
        rf"\label{{tab:{table.label}}}",
        r"\centering\small",
        r"\begin{lrbox}{\tablebox}",
        rf"\begin{{tabular}}{{@{{}}{'l' * stub}{column * values}@{{}}}}",
        r"\toprule",
    ]
    for level, (stubs, spans) in enumerate(grid.levels(), 1):
        lines.append(" & ".join([*map(escape, stubs), *(_span(title, count) for title, count in spans)]) + r" \\")
        if level < len(grid.header):
            lines.append(_rules_below(spans, stub))
    lines.append(r"\midrule")
    for item in grid.body:
        if isinstance(item, TableHeading):
            lines.append(rf"\multicolumn{{{grid.width}}}{{c}}{{\textit{{{escape(item.title)}}}}} \\")
        elif isinstance(item, TableRow):
            cells = [*map(escape, item.titles), *(_cell(cell, letters) for cell in item.cells)]
            lines.append(" & ".join(cells) + r" \\")
        else:
            lines.append(r"\midrule")
    lines += [r"\bottomrule", r"\end{tabular}", r"\end{lrbox}"]
    lines += [r"\fittowidth", ""]
    lines += [rf"\par\smallskip\noindent{{\footnotesize {escape(note)}\par}}" for note in table.notes]
    lines += [r"\end{table}", r"\end{document}", ""]
    return _HEAD + "\n".join(lines)


def _span(title: str, count: int) -> str:
    text = escape(title)
    return text if count == 1 else rf"\multicolumn{{{count}}}{{c}}{{{text}}}"


def _rules_below(spans: list[tuple[str, int]], stub: int) -> str:
    rules, column = [], stub + 1
    for title, count in spans:
        if title:
            rules.append(rf"\cmidrule(lr){{{column}-{column + count - 1}}}")
        column += count
    return "".join(rules)


def _cell(cell: TableCell, letters: dict[str, str]) -> str:
    if cell.code:
        lines = r"\newline ".join(escape(line) or r"\mbox{}" for line in cell.text.split("\n"))
        return rf"\raggedright\arraybackslash\ttfamily\scriptsize {lines}"
    text = escape(cell.text)
    if cell.text.startswith("-") and _NUMBER.fullmatch(cell.text):
        text = "$-$" + escape(cell.text[1:])
    text = {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}"}.get(cell.mark, text)
    if cell.note:
        text += rf"\textsuperscript{{{letters[cell.note]}}}"
    text += r" $\uparrow$" if cell.better else ""
    return text + (rf" {{\scriptsize {escape(cell.spread)}}}" if cell.spread else "")
