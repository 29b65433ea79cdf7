"""HTML pages that open offline, from the package's templates: one stylesheet, every text escaped, nothing loaded.

The same values give the same bytes: a template is given only what it shows, and no time, path or version.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup

from beamuq.html_text import printable

CLASSED = ("status", "outcome")
DASH = "–"  # in a column of numbers: there is none


@dataclass(frozen=True)
class PageSection:
    """A heading with what stands below it, in this order: sentences, a drawing, a table, notes; each may be absent.

    Parameters
    ----------
    frame
        The table: a column of numbers is set to the right; the text of a column in ``CLASSED`` is its cell's class; a
        row whose first cell is "total" is set off; missing values are left empty.
    folded, summary
        Whether a line is shown instead of the table until it is clicked, and its text; "": how many rows there are.
    svg
        An SVG document made by this package. It is put in as it is.
    decimals, column_decimals
        Digits behind the point, and other ones by column.
    """

    heading: str = ""
    frame: pd.DataFrame | None = None
    sentences: Sequence[str] = ()
    notes: Sequence[str] = ()
    folded: bool = False
    summary: str = ""
    svg: str = ""
    decimals: int = 1
    column_decimals: Mapping[str, int] = field(default_factory=dict)

    @property
    def drawing(self) -> Markup:
        """The SVG without its XML declaration and document type."""
        return Markup(self.svg[self.svg.index("<svg") :]) if self.svg else Markup()

    @property
    def heads(self) -> list[PageCell]:
        """The column titles."""
        assert self.frame is not None
        return [PageCell(str(name).replace("_", " "), _kind(column)) for name, column in self.frame.items()]

    @property
    def rows(self) -> list[list[PageCell]]:
        """The body."""
        assert self.frame is not None
        columns = []
        for name, column in self.frame.items():
            texts = [_text(value, self.column_decimals.get(str(name), self.decimals)) for value in column]
            kind = _kind(column)
            kinds = [text.split(":")[0].replace(" ", "-") if name in CLASSED else kind for text in texts]
            columns.append(map(PageCell, texts, kinds))
        return [list(row) for row in zip(*columns, strict=True)]


@dataclass(frozen=True)
class PageCell:
    """A cell's text and its class, "" for none."""

    text: str
    kind: str = ""


def sections_page(title: str, sentences: Sequence[str], sections: Sequence[PageSection]) -> str:
    """A page of sections, from its title to its last note."""
    return render("sections_page.html.jinja", title=title, sentences=sentences, sections=sections)


def render(template: str, **values: Any) -> str:
    """A page from a template of this package; what is put in is escaped, a name that is not given is an error."""
    return _environment().get_template(template).render(values)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("beamuq_study"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=printable,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _kind(column: pd.Series[Any]) -> str:
    shown = [value for value in column if not pd.isna(value) and value != DASH]
    return "number" if shown and all(isinstance(v, numbers.Real) and not isinstance(v, bool) for v in shown) else ""


def _text(value: Any, decimals: int) -> str:
    """A value as a cell shows it."""
    if isinstance(value, str) or pd.isna(value):
        return value if isinstance(value, str) else ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, numbers.Integral):
        return f"{value:,}"
    return f"{value:,.{decimals}f}" if isinstance(value, numbers.Real) else str(value)
