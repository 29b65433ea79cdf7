"""Pages escape what they are given, load nothing, and are the same each time."""

from __future__ import annotations

import pandas as pd

from beamuq.html_pages import DASH, PageSection, sections_page

HOSTILE = "<script>alert('x')</script> & \"q\" {{ 7 * 7 }} \x00"
FRAME = pd.DataFrame({"a_name": [HOSTILE, "total"], "n": [1234, 5], "share": [0.25, 50.0], "empty": [DASH, 3]})


def page() -> str:
    return sections_page(HOSTILE, [HOSTILE], [PageSection(HOSTILE, frame=FRAME, notes=[HOSTILE])])


def test_every_text_is_escaped_and_nothing_is_loaded() -> None:
    text = page()
    assert "<script>" not in text
    assert "49" not in text
    assert "\x00" not in text
    assert "<td>&lt;script&gt;" in text
    assert not any(word in text for word in ("src=", "href=", "url(", "@import"))
    assert text == page()
