"""A built table as an HTML page that opens offline, from the package's template."""

from __future__ import annotations

from beamuq import html_pages
from beamuq.exhibits.exhibit_types import BuiltTable, TableHeading, TableRow, TableRule


def render(table: BuiltTable) -> str:
    """The page: title, caption, table, notes."""
    body: list[tuple[TableRow | TableHeading, bool]] = []  # each with whether a rule stands above it
    for before, item in zip((None, *table.grid.body), table.grid.body, strict=False):
        if isinstance(item, TableRow | TableHeading):
            body.append((item, isinstance(before, TableRule)))
    return html_pages.render("exhibit_table.html.jinja", title=table.title, table=table, body=body)
