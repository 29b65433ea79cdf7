"""The tool that writes generated parts of the pages: it says in one line what it does not know."""

from __future__ import annotations

from dataclasses import replace

import pytest

import sync_docs
from beamuq.methods import METHODS


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
