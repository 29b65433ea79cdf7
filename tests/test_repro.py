"""Every value with an interval that the evidence pages tell is in a published file, where repro.yaml says."""

from __future__ import annotations

import csv
import re
from functools import cache

import pandas as pd
import pytest
import yaml

from evidence_differences import FILE, table
from sync_evidence import BLOCK, ROOT

PAGES = ("docs/evidence.md", "docs/why_beams_win.md")
CLAIMS = yaml.safe_load((ROOT / "repro.yaml").read_text(encoding="utf-8"))["claims"]
NUMBER = r"[+−]?\d*\.?\d+"


@cache
def rows(file: str) -> list[dict[str, str]]:
    with (ROOT / file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def published(claim: dict[str, str]) -> tuple[float, ...]:
    """Value, low and high of the row to which an entry points."""
    keys, _, column = claim["pointer"].rpartition("/")
    wanted = dict(pair.split("=", 1) for pair in keys.split(","))
    (row,) = (row for row in rows(claim["file"]) if wanted.items() <= row.items())
    return float(row[column]), float(row["low"]), float(row["high"])


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if "file" in claim], ids=lambda claim: claim["id"])
def test_a_number_told_is_the_published_one(claim: dict[str, str]) -> None:
    told = re.findall(NUMBER, claim["text"])
    digits = max(len(number.partition(".")[2]) for number in told)
    factor = 100 if "%" in claim["text"] else 1
    expected = [float(number.replace("−", "-")) for number in told]
    assert [factor * number for number in published(claim)] == pytest.approx(expected, abs=0.5000001 * 10**-digits)


@pytest.mark.parametrize("page", PAGES)
def test_every_interval_told_has_an_entry_and_every_entry_is_told(page: str) -> None:
    text = " ".join(BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8")).replace("**", "").split())
    entries = [claim["text"] for claim in CLAIMS if claim["page"] == page]
    assert [entry for entry in entries if entry not in text] == []
    for entry in sorted(entries, key=len, reverse=True):
        text = text.replace(entry, "")
    assert re.findall(rf".{{60}}\[{NUMBER}, {NUMBER}\]", text) == []


@pytest.mark.slow
def test_the_differences_follow_from_the_published_scores() -> None:
    pd.testing.assert_frame_equal(table(), pd.read_csv(FILE), rtol=1e-5, atol=1e-6)
