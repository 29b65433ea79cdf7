"""Pages escape what they are given, load nothing, and are the same each time."""

from __future__ import annotations

import jinja2
import numpy as np
import pandas as pd
import pytest

from beamuq import html_pages
from beamuq.html_pages import DASH, PageSection, sections_page

HOSTILE = "<script>alert('x')</script> & \"q\" {{ 7 * 7 }} \x00"
FRAME = pd.DataFrame({"a_name": [HOSTILE, "total"], "n": [1234, 5], "share": [0.25, 50.0], "empty": [DASH, 3]})


def page(**changes: object) -> str:
    return sections_page(HOSTILE, [HOSTILE], [PageSection(HOSTILE, **({"frame": FRAME, "notes": [HOSTILE]} | changes))])


def test_every_text_is_escaped_and_nothing_is_loaded() -> None:
    text = page()
    assert "<script>" not in text
    assert "49" not in text
    assert "\x00" not in text
    assert "<td>&lt;script&gt;" in text
    assert not any(word in text for word in ("src=", "href=", "url(", "@import"))
    assert text == page()


def test_numbers_stand_right_and_the_total_apart() -> None:
    text = page()
    assert '<th class="number">n</th><th class="number">share</th><th class="number">empty</th>' in text
    assert '<td class="number">1,234</td><td class="number">0.2</td><td class="number">–</td>' in text
    assert '<tr class="total"><td>total</td>' in text
    assert "<th>a name</th>" in text


def test_missing_values_truth_values_decimals_and_statuses() -> None:
    frame = pd.DataFrame({"z": [0.12345, np.nan], "ok": [True, None], "status": ["not run: no file", "agrees"]})
    text = page(frame=frame, decimals=3, column_decimals={"z": 2})
    assert '<tr><td class="number">0.12</td><td>yes</td><td class="not-run">not run: no file</td></tr>' in text
    assert '<tr><td class="number"></td><td></td><td class="agrees">agrees</td></tr>' in text


def test_folded_table_tells_its_rows_or_its_summary() -> None:
    assert "<details><summary>2 rows</summary>" in page(folded=True)
    assert "<details><summary>all &lt;rows&gt;</summary>" in page(folded=True, summary="all <rows>")
    assert "<details>" not in page()


def test_a_drawing_stands_in_the_page_without_its_declaration() -> None:
    assert "\n<svg><g/></svg>\n" in page(svg='<?xml version="1.0"?><!DOCTYPE svg><svg><g/></svg>')


def test_a_name_that_a_template_lacks_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        html_pages.render("sections_page.html.jinja", title="t")
