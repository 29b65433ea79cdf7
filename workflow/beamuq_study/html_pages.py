"""HTML pages that open offline, from the package's templates: every text escaped, nothing loaded.

The same values give the same bytes: a template is given only what it shows, and no time or path.
The footer names the study and the version of this package, no date: results hold none.
"""

from __future__ import annotations

import base64
import html
import numbers
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd

from beamuq import __version__
from beamuq.html_text import printable

CLASSED = ("status", "outcome")
DASH = "–"  # in a column of numbers: there is none
_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("beamuq_study"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    finalize=printable,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.globals["version"] = __version__


@dataclass(frozen=True)
class Drawing:
    """A figure of a study for a page: title, caption, and its SVG as an address."""

    title: str
    caption: str
    source: str

    @classmethod
    def read(cls, svg: Path) -> Drawing:
        """From an SVG file and the caption beside it, ``.txt``, which begins with the title."""
        title = title_of(svg)
        text = svg.with_suffix(".txt").read_text(encoding="utf-8")
        caption = text.strip().removeprefix(f"{title}. ")
        data = base64.b64encode(svg.read_bytes()).decode()
        return cls(title, caption, f"data:image/svg+xml;base64,{data}")


def title_of(page: Path) -> str:
    """The title of an HTML page or an SVG drawing of this package."""
    title = re.search("<title>(.*?)</title>", page.read_text(encoding="utf-8"), re.DOTALL)
    return html.unescape(title[1]) if title else page.stem


@dataclass(frozen=True)
class PageTable:
    """A table of a page.

    ``decimals`` are digits behind the point, ``column_decimals`` other ones by column. A column of
    numbers is set to the right; the text of a column in ``CLASSED`` is its cell's class; a row
    whose first cell is "total" is set off; missing values are left empty.
    """

    frame: pd.DataFrame
    decimals: int = 1
    column_decimals: Mapping[str, int] = field(default_factory=dict)

    @property
    def heads(self) -> list[PageCell]:
        """The column titles."""
        return [
            PageCell(str(name).replace("_", " "), _kind(column))
            for name, column in self.frame.items()
        ]

    @property
    def rows(self) -> list[list[PageCell]]:
        """The body."""
        columns = [self._cells(str(name), column) for name, column in self.frame.items()]
        return [list(row) for row in zip(*columns, strict=True)]

    def _cells(self, name: str, column: pd.Series[Any]) -> list[PageCell]:
        """The cells of a column."""
        decimals = self.column_decimals.get(name, self.decimals)
        texts = [_text(value, decimals) for value in column]
        if name in CLASSED:
            return [PageCell(text, text.split(":")[0].replace(" ", "-")) for text in texts]
        kind = _kind(column)
        return [PageCell(text, kind) for text in texts]


@dataclass(frozen=True)
class PageCell:
    """A cell's text and its class, "" for none."""

    text: str
    kind: str = ""


def render(template: str, **values: Any) -> str:
    """A page from a template of this package: values are escaped, one that lacks is an error."""
    return _TEMPLATES.get_template(template).render(values)


def _kind(column: pd.Series[Any]) -> str:
    """The class of a column: "number" if it holds numbers alone, else ""."""
    shown = [value for value in column if not pd.isna(value) and value != DASH]
    return "number" if shown and all(map(_is_number, shown)) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _text(value: Any, decimals: int) -> str:
    """A value as a cell shows it."""
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return f"{value:,}"
    if isinstance(value, numbers.Real):
        return f"{value:z,.{decimals}f}"
    return str(value)
