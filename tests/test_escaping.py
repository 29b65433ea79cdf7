"""Questions and answers are somebody else's text: none is LaTeX, HTML, Markdown, a formula or a
path.
"""

from __future__ import annotations

import copy
import csv
import html
import io
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from beamuq import html_text
from beamuq.errors import BeamUQError
from beamuq.prompts import prompt_template
from beamuq.prompts.prompt_template import PROMPTS
from beamuq_study import html_pages
from beamuq_study.escaped_text import csv_text, latex_text, markdown_text
from beamuq_study.study_config import STUDIES, load_study

TEXTS = [
    *(
        "",
        " ",
        "plain words",
        "a\nb\r\nc\td",
        "Answer: x",
        "".join(map(chr, range(0x20))),
        "\x7f\x80\x85\x9f",
    ),
    *(
        "\\{}$%#&_^~<>|\"'`-*[]()!=+;:,.",
        r"\input{/etc/passwd}",
        r"\write18{id} \end{document}",
        r"\def\x{\x}\x",
    ),
    *(
        "^^5cinput",
        "%% $$ \\\\ \\%",
        "<script>alert(1)</script>",
        "<img src=x onerror=y>",
        "&amp; &#60; <!-- ]]>",
    ),
    *(
        "</td></table>",
        "`|` ](javascript:x) # h",
        "*b* _i_ ~s~ [l](u)",
        "{question} {shots} {0} {{ }} %s",
    ),
    *(
        "$(id) `id` ; rm -rf",
        "== prompt ==",
        "../..",
        "\u200b\u200d\u202e\u2066\u2028\u2029\ufeff\u00ad",
    ),
    *(
        "e\u0301 \ufffd \ufffe \U0010ffff",
        "שלום مرحبا 日本",
        "éẞİﬁ½−…",
        "😀 👩‍👩‍👧 🇫🇷",
        "NaN",
        "x" * 3000,
    ),
]
# What the escaped LaTeX may be made of: plain characters, a space, or one of these.
LATEX = re.compile(
    r"(?:[A-Za-z0-9 !()*+,./:;=?@\[\]~]|\\[{}$&#%_]|\\text[a-z]+\{\}|\{-\}|\$\\?[a-zA-Z]+\$|\$-\$"
    r"|\$\\frac12\$|\$\^2\$|\\texttt\{U\+[0-9A-F]{4,6}\}|[^\x00-\x7f])*"
)
of_each_text = pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))


@of_each_text
def test_latex_holds_no_command_of_the_text(text: str) -> None:
    escaped = latex_text(text)
    assert LATEX.fullmatch(escaped)
    assert not any(
        unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn") for character in escaped
    )


class Page(HTMLParser):
    """What a browser would make of a page: everything that is not text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.other: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.other.append(f"{tag} {attrs}")

    def note(self, data: str) -> None:
        self.other.append(data)

    handle_endtag = handle_comment = handle_decl = handle_pi = unknown_decl = note


@of_each_text
def test_html_is_the_text_and_nothing_else(text: str) -> None:
    page, escaped = Page(), html_text.escape(text)
    page.feed(escaped)
    page.close()
    assert page.other == []
    expected = "".join(
        "\ufffd" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text
    )
    assert html.unescape(escaped) == expected
    assert not re.search("[<>\"']", escaped)


def test_every_text_of_a_page_is_escaped_nothing_is_loaded_and_it_is_the_same_each_time() -> None:
    hostile = "<script>alert('x')</script> & \"q\" {{ 7 * 7 }} \x00"
    frame = pd.DataFrame(
        {"a_name": [hostile, "total"], "n": [1234, 5], "share": [0.25, 50.0], "empty": ["–", 3]}
    )
    table = html_pages.PageTable(frame)
    values = {"title": hostile, "study": hostile, "warning": hostile, "has_gpu": False}
    values |= {"rules": table, "cells": table}
    text = html_pages.render("ledger.html.jinja", **values)
    assert re.findall('href="(.*?)"', text) == ["overview.html"]  # a link, which loads nothing
    assert not any(word in text for word in ("<script>", "49", "\x00", "src=", "url(", "@import"))
    assert "<td>&lt;script&gt;" in text
    assert text == html_pages.render("ledger.html.jinja", **values)


@of_each_text
def test_markdown_is_one_cell_without_markup(text: str) -> None:
    escaped = markdown_text(text)
    assert len(escaped.splitlines()) <= 1
    assert not re.search(r"<|^>|(?<!\\)(?:\\\\)*[|`*_\[\]$~]", escaped)


def test_markdown_shows_a_comparison_as_it_is_and_begins_no_quotation() -> None:
    assert markdown_text("right where > 0.5") == "right where > 0.5"
    assert markdown_text("> said he") == r"\> said he"


@pytest.mark.parametrize("style", ["base", "instruct"])
def test_a_prompt_holds_the_question_as_it_is(style: str) -> None:
    def row(question: str) -> dict[str, Any]:
        return {
            "question": question,
            "references": ["yes"],
            "options": [],
            "context": [],
            "history": [],
        }

    page = prompt_template.load(PROMPTS / style / "trivia_qa.txt")
    before, after = prompt_template.render(page, row("\0"), [row("\1")], where="marks").split("\0")
    for question, shot in zip(TEXTS, reversed(TEXTS), strict=True):
        rendered = prompt_template.render(page, row(question), [row(shot)], where="here")
        assert rendered == before.replace("\1", shot) + question + after


FORMULAS = [
    "=HYPERLINK(1)",
    "+1+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1+1",
    "-E5",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_is_a_formula_in_csv(text: str) -> None:
    written = csv_text(pd.DataFrame({"id": [text, "-1.5", "a = b"], "value": [-1.5, 2, 3]}))
    expected = [[f"'{text}".replace("\r", "\n"), "-1.5"], ["-1.5", "2.0"], ["a = b", "3.0"]]
    assert list(csv.reader(io.StringIO(written, newline="")))[1:] == expected


DEMO = yaml.safe_load((STUDIES / "demo.yaml").read_text())
NAMES = ["../up", "/etc", "..", "$(id)", "a;b", "a\nb", "-n", ""]
SOURCES = ["hub:../x", "hub:a/b/../../c", "hub:a/b;id", "packaged:../x", "http://x"]
SPLITS = ["../../etc/passwd", "/etc/passwd", "x;id"]
BAD = [
    *(
        (where, name, {})
        for where in ("models", "datasets", "recipes", "scorers")
        for name in NAMES
    ),
    *(("models", "", {"source": source}) for source in SOURCES),
    *(
        ("datasets", "", {key: split})
        for key in ("adapter", "split", "few_shot_split")
        for split in SPLITS
    ),
    *((where, "", {"trust_remote_code": True}) for where in ("models", "scorers")),
]


def test_no_name_source_or_split_of_a_study_climbs_out_of_its_folder_or_runs_code(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.yaml"
    for where, name, entry in BAD:
        study = copy.deepcopy(DEMO)
        first = next(iter(study[where]))
        study[where][name if not entry else first] = study[where][first] | entry
        path.write_text(yaml.safe_dump(study))
        with pytest.raises(BeamUQError, match=r"mine\.yaml: "):
            load_study(path)
