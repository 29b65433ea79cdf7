"""repro.yaml names the published cell of each value with an interval in README and evidence."""

from __future__ import annotations

import csv
import re
from functools import cache
from typing import Any

import pandas as pd
import pytest
import yaml

from beamuq.io import file_sha256
from evidence_differences import FILE, GAINS_FILE, POWER_FILE, gains, power, table
from sync_evidence import BLOCK, ROOT

PAGES = ("README.md", "docs/evidence.md", "docs/when_beams_win.md")
MANIFEST = yaml.safe_load((ROOT / "repro.yaml").read_text(encoding="utf-8"))
CLAIMS = MANIFEST["claims"]
ARTIFACTS = {artifact["id"]: artifact for artifact in MANIFEST["artifacts"]}
INTERVAL = r".{60}\[[+−]?\d*\.?\d+, [+−]?\d*\.?\d+\]"


@cache
def rows(artifact: str) -> list[dict[str, str]]:
    with (ROOT / ARTIFACTS[artifact]["path"]).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("artifact", ARTIFACTS)
def test_a_published_file_has_the_hash_that_is_pinned(artifact: str) -> None:
    assert file_sha256(ROOT / ARTIFACTS[artifact]["path"]) == ARTIFACTS[artifact]["digest"]["value"]


@pytest.mark.parametrize(
    "claim", [claim for claim in CLAIMS if "evidence" in claim], ids=lambda claim: claim["id"]
)
def test_a_number_told_is_the_published_one(claim: dict[str, Any]) -> None:
    numbers = iter(re.findall(r"-?\d*\.?\d+", claim["text"].replace("−", "-")))
    for cell in claim["evidence"]:
        assert float(next(numbers)) == float(cell["reported"])
        (row,) = (row for row in rows(cell["artifact"]) if cell["where"].items() <= row.items())
        digits = len(cell["reported"].partition(".")[2])
        published = float(row[cell["column"]]) * (100 if cell.get("conversion") == "percent" else 1)
        assert published == pytest.approx(float(cell["reported"]), abs=0.5000001 * 10**-digits)


@pytest.mark.parametrize("page", PAGES)
def test_every_interval_told_has_an_entry_and_every_entry_is_told(page: str) -> None:
    text = " ".join(
        BLOCK.sub("", (ROOT / page).read_text(encoding="utf-8")).replace("**", "").split()
    )
    entries = [claim["text"] for claim in CLAIMS if claim["where"] == page]
    assert [entry for entry in entries if entry not in text] == []
    for entry in sorted(entries, key=len, reverse=True):
        text = text.replace(entry, "")
    assert re.findall(INTERVAL, text) == []


def test_the_power_follows_from_the_published_table_and_the_paper_s_numbers() -> None:
    pd.testing.assert_frame_equal(power(), pd.read_csv(POWER_FILE), check_dtype=False)


@pytest.mark.evidence
def test_the_differences_follow_from_the_published_scores() -> None:
    pd.testing.assert_frame_equal(table(), pd.read_csv(FILE), rtol=1e-5, atol=1e-6)


@pytest.mark.evidence
def test_the_gains_by_both_judges_follow_from_the_published_scores() -> None:
    pd.testing.assert_frame_equal(
        gains(), pd.read_csv(GAINS_FILE), check_dtype=False, rtol=1e-5, atol=1e-6
    )
