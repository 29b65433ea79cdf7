"""Numbers as printed, and a built table as CSV, Markdown, LaTeX and HTML. Same table, same bytes."""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections.abc import Iterable
from typing import Any

import pandas as pd

from beamuq_study import html_pages
from beamuq_study.exhibits.exhibit import Built, Table, TableCell

FORMULA = re.compile(r"[=+\-@\t\n\r＝＋－＠]")  # beginnings of formulas; the wide ones in some languages
_SIGNED_NUMBER = re.compile(r"[+-]|[+-]?(\d[\d,]*\.?\d*|\.\d+)([eE][+-]?\d+)?")
_MARKUP = re.compile(r"([\\`*_\[\]|~$])|^(#|[+-](?![\d.])|\d+(?=[.)](\s|$)))")  # a number begins no list

# -- numbers -----------------------------------------------------------------------------------------------------------


def decimal(value: float, digits: int = 3) -> str:
    """``.543``, ``-.096``, ``1.000``, ``.000`` (never ``-.000``): no zero before the point."""
    text = f"{value:.{digits}f}"
    return re.sub(r"^(-?)0\.", r"\1.", text if float(text) else text.lstrip("-"))


def signed(value: float, digits: int = 3) -> str:
    """A difference with its sign."""
    text = decimal(value, digits)
    return f"+{text}" if float(text) > 0 else text


def percent(value: float, digits: int = 0) -> str:
    """A fraction as ``63%``."""
    return f"{100 * value:.{digits}f}%"


def interval(low: float, high: float, digits: int = 3) -> str:
    """``[-.012, .345]``; nothing where there is none (NaN)."""
    return "" if math.isnan(low) or math.isnan(high) else f"[{decimal(low, digits)}, {decimal(high, digits)}]"


# -- CSV ---------------------------------------------------------------------------------------------------------------


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as CSV in which no text is a formula: an apostrophe makes spreadsheets show what begins like one.

    A carriage return, which would end a row, becomes a line break. Numbers, as texts too, stay as they are.
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
    """A heading, the caption, one GitHub table (upper header levels joined to the last)."""
    table = _table(built)
    heads = [" · ".join(dict.fromkeys(filter(None, titles))) for titles in zip(*table.header, strict=True)]
    lines = [[*map(markdown_text, (*table.stub, *heads))], [":---"] * len(table.stub) + [":---:"] * len(heads)]
    for title, rows in table.groups():
        lines += [[f"*{markdown_text(title)}*", *[""] * (table.width - 1)]] * bool(title)
        lines += [[*map(markdown_text, row.titles), *map(_markdown_cell, row.cells)] for row in rows]
    head = f"# {markdown_text(built.title)}", "", markdown_text(built.caption), ""
    return "\n".join([*head, *map(markdown_line, lines), ""])


def markdown_text(text: str) -> str:
    """For a cell of a GitHub table: one line, nothing read as markup or HTML."""
    flat = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(lambda match: f"\\{match[1]}" if match[1] else f"&#8203;{match[2]}", flat)


def markdown_line(cells: Iterable[str]) -> str:
    """A line of a table, of cells that are escaped."""
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(cell: TableCell) -> str:
    text = "<br>".join(map(markdown_text, cell.text.split("\n"))) if cell.code else markdown_text(cell.text)
    text = {"best": f"**{text}**", "second": f"<u>{text}</u>"}.get(cell.mark, text)
    return text + " ↑" * cell.better + (f" {markdown_text(cell.spread)}" if cell.spread else "")


# -- LaTeX -------------------------------------------------------------------------------------------------------------

LATEX_PACKAGES = r"\usepackage{textcomp,booktabs,array,graphicx}"
_LATEX = {character: f"\\{character}" for character in "{}$&#%_"}
_LATEX |= {"-": "{-}", "\u00a0": "~", "−": "$-$"}  # no ligature may turn two hyphens into a dash
_NAMES = {"\\": "backslash", "~": "asciitilde", "^": "asciicircum", "<": "less", ">": "greater", "|": "bar"}
_NAMES |= {'"': "quotedbl", "'": "quotesingle", "`": "asciigrave"}
_LATEX |= {character: rf"\text{name}{{}}" for character, name in _NAMES.items()}
_MATHS = {"↑": "uparrow", "→": "rightarrow", "≤": "leq", "≥": "geq", "≠": "neq", "√": "surd", "∞": "infty"}
_MATHS |= {"α": "alpha", "Δ": "Delta", "ε": "epsilon", "λ": "lambda", "σ": "sigma", "Σ": "Sigma", "τ": "tau"}
_LATEX |= {character: rf"$\{name}$" for character, name in _MATHS.items()}
# What pdflatex prints of UTF-8 with T1 fonts and textcomp, and nothing more.
_T1 = frozenset("¡£§«»¿©®°´¶¸ĂăĄąĆćČčĎďĐđĘęĚěĞğİıŁłŃńŇňŐőŒœŘřŚśŞşŠšŤťŮůŰűŸŹźŻżŽž‘’“”–—…†²½±×·")
_T1 = _T1.union(map(chr, range(0xC0, 0x100)))


def latex_fragment(built: Built) -> str:
    r"""A table environment to ``\input``: booktabs, the caption in normal size, never wider than the text."""
    table = _table(built)
    columns = table.width - len(table.stub)
    column = f"p{{{0.78 / columns:.3f}\\textwidth}}" if any(cell.code for cell in table.cells) else "c"
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
    for level in table.levels():
        lines.append(_latex_line(_latex_head(*head) for head in level))
        ends = itertools.accumulate(count for _, count in level)
        lines += [rf"\cmidrule(lr){{{end - n + 1}-{end}}}" for (_, n), end in zip(level, ends, strict=True) if n > 1]
    for title, rows in table.groups():
        lines.append(r"\midrule")
        if title:
            lines += [rf"\multicolumn{{{table.width}}}{{c}}{{\textit{{{latex_text(title)}}}}} \\", r"\midrule"]
        lines += [_latex_line([*map(latex_text, row.titles), *map(_latex_cell, row.cells)]) for row in rows]
    lines += [r"\bottomrule", r"\end{tabular}}", r"\ifdim\wd0>\textwidth\resizebox{\textwidth}{!}{\box0}\else\box0\fi"]
    return "\n".join([*lines, r"\end{table}", ""])


def _latex_line(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_head(title: str, count: int) -> str:
    return rf"\multicolumn{{{count}}}{{c}}{{{latex_text(title)}}}" if count > 1 else latex_text(title)


def _latex_cell(cell: TableCell) -> str:
    if cell.code:
        lines = r"\newline ".join(latex_text(line) or r"\mbox{}" for line in cell.text.split("\n"))
        return rf"\raggedright\arraybackslash\ttfamily\scriptsize {lines}"
    text = re.sub(r"^\{-\}(?=[\d.])", "$-$", latex_text(cell.text))  # of a number it is a minus sign
    text = {"best": rf"\textbf{{{text}}}", "second": rf"\underline{{{text}}}"}.get(cell.mark, text)
    return text + r" $\uparrow$" * cell.better + (rf" {{\scriptsize {latex_text(cell.spread)}}}" if cell.spread else "")


def latex_text(text: str) -> str:
    """For pdflatex with T1 fonts: no text starts a command; what they lack becomes ``U+4E2D``, line breaks spaces."""
    return "".join(_latex_character(character) for character in text)


def _latex_character(character: str) -> str:
    if character in _LATEX:
        return _LATEX[character]
    if character in _T1 or (character.isascii() and character.isprintable()):
        return character
    if character.isascii() or unicodedata.category(character).startswith("Z"):
        return " "
    return rf"\texttt{{U+{ord(character):04X}}}"


# -- HTML --------------------------------------------------------------------------------------------------------------


def html(built: Built) -> str:
    """A page that opens offline: title, caption, table with interval and n at the pointer."""
    return html_pages.render("exhibit_table.html.jinja", title=built.title, built=built, table=_table(built))


def _table(built: Built) -> Table:
    assert isinstance(built.shown, Table)
    return built.shown
