"""The tool that writes generated parts of the pages: it says in one line what it does not know."""

from __future__ import annotations

import inspect
import pydoc
import re
from dataclasses import replace

import pytest

import beamuq
import sync_docs
from beamuq.methods import METHODS
from beamuq_study.comparison.claims.judges import JUDGES
from page_blocks import DOCS


def test_a_part_that_is_not_known_is_named_with_its_page() -> None:
    page = "<!-- generated: method -->\n\nold\n\n<!-- end -->\n"
    with pytest.raises(SystemExit, match=r"page\.md: generated: unknown part 'method'; known: .*"):
        sync_docs.filled(page, "page.md")


def test_a_method_is_a_row_by_its_entry_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = replace(METHODS["Prob"], name="Mine", equation="−log p(y*|x)", limits="Blind.")
    monkeypatch.setitem(METHODS, "Mine", entry)
    row = "| `Mine` | the answer | [0, ∞) | `answer.logprob` | −log p(y\\*\\|x). Blind. |"
    assert row in sync_docs.methods().splitlines()
    assert "| `Mine` | text, `logprob` |  |  |" in sync_docs.candidate_needs().splitlines()


def test_a_part_of_the_evidence_without_a_field_of_a_row_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sync_docs.FIELDS, "answer.logprob")
    with pytest.raises(SystemExit, match=r"method 'Prob' needs answer\.logprob"):
        sync_docs.candidate_needs()


def test_the_python_page_lists_what_the_package_offers() -> None:
    rows = sync_docs.functions().splitlines()[2:]
    names = [row.split("`")[1].removeprefix("beamuq.") for row in rows]
    assert names[: len(beamuq.__all__)] == beamuq.__all__
    assert all(len(row.split(" | ")[1]) > 20 for row in rows)


def test_a_claim_is_listed_with_its_judge_and_settings() -> None:
    (row,) = (row for row in sync_docs.claims().splitlines() if row.startswith("| `roc-auc` |"))
    assert "| `beams_rise`, `metric: ROC-AUC`, `most`, `match` |" in row


def test_what_a_verdict_asks_for_names_the_margin_and_the_correction() -> None:
    (row,) = (row for row in sync_docs.judges().splitlines() if row.startswith("| `beams_rise` |"))
    _, _, _, asked_for_yes, asked_for_no, number, _ = row.split("|")
    assert "`level` (.05) after Holm over the methods" in asked_for_yes
    assert "above −`negligible` (.02)" in asked_for_yes
    assert "one loses significantly" in asked_for_no
    assert number == " The mean of the methods' gains. "


def test_a_judge_that_does_not_say_what_its_verdict_asks_for_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silent() -> None:
        """Whether it rains."""

    entry = replace(JUDGES["theorem"], function=silent)
    monkeypatch.setitem(JUDGES, "theorem", entry)
    with pytest.raises(SystemExit, match="judge 'theorem': its docstring needs one paragraph"):
        sync_docs.judges()


PYTHON_PAGE = (DOCS / "reference/python.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "path", re.findall(r"^\.\. auto\w+:: ([\w.]+)(?:\(\))?$", PYTHON_PAGE, flags=re.MULTILINE)
)
def test_help_shows_what_the_python_page_has_in_the_site(path: str) -> None:
    part = pydoc.locate(path)
    assert part is not None
    first_line = str(inspect.getdoc(part)).splitlines()[0]
    assert first_line in pydoc.plain(pydoc.render_doc(part))
