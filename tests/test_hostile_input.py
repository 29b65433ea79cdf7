"""Ten thousand hostile questions and answers, and hostile files: nothing opens, nothing climbs out, nothing runs."""

from __future__ import annotations

import copy
import csv
import html
import io
import json
import os
import pickle
import random
import re
import shutil
import subprocess
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from beamuq import html_pages, parquet_tables
from beamuq.data import prompt_template
from beamuq.errors import BeamUQError
from beamuq.exhibits import latex_escape, markdown_table
from beamuq.exhibits.exhibit_types import csv_text
from beamuq.models.load_model import load_causal
from beamuq.plan.study_on_machine import Plan
from beamuq.study_config import PROMPTS, ROOT, STUDIES
from beamuq.text_normalization import clean, normalize_squad, normalize_triviaqa
from micro import Workplace, micro_study
from tiny import build_tiny_model

TEXTS = 10_000
LATEX_PIECES = r"\input{/etc/passwd}  \write18{id}  \end{document}  \def\x{\x}\x  ^^5cinput  %%  $$  \\  \%"
HTML_PIECES = "<script>alert(1)</script>  <img src=x onerror=y>  &amp;  &#60;  <!--  ]]>  </td></table>  `|`  ](x)"
TEMPLATE_PIECES = "{question}  {shots}  {0}  {{  }}  %s  $(id)  `id`  ; rm -rf  == prompt ==  ../..  <b>"
PIECES = [
    *(chr(code) for code in range(0x20)),
    *"\x7f\x80\x85\x9f\\{}$%#&_^~<>|\"'`-*[]()!=+;:,.",
    *("\u200b", "\u200d", "\u202e", "\u2066", "\u2028", "\u2029", "\ufeff", "\u00ad", "\u0301", "\ufffd", "\ufffe"),
    *("שלום", "مرحبا", "日本", "é", "ẞ", "İ", "😀", "👩‍👩‍👧", "🇫🇷", "\U0010ffff", "ﬁ", "½", "−", "…"),
    *(piece for line in (LATEX_PIECES, HTML_PIECES, TEMPLATE_PIECES) for piece in line.split("  ")),
    "Answer: ",
    *(" ", "\n", "\r\n", "\t", "a", "word", "The capital of France", "NaN", "null", "-1"),
]
# What the escaped LaTeX may be made of: plain characters, a space, or one of these.
LATEX = re.compile(
    r"(?:[A-Za-z0-9 !()*+,./:;=?@\[\]~]|\\[{}$&#%_]|\\text[a-z]+\{\}|\{-\}|\$\\?[a-zA-Z]+\$|\$-\$"
    r"|\$\\frac12\$|\$\^2\$|\\texttt\{U\+[0-9A-F]{4,6}\}|[^\x00-\x7f])*"
)


def texts(seed: int, count: int = TEXTS) -> list[str]:
    """Seeded strings of hostile pieces: mostly short, some empty, every hundredth thousands long."""
    chance = random.Random(seed)
    lengths = [chance.randrange(2_000, 4_000) if n % 100 == 99 else chance.randrange(0, 30) for n in range(count)]
    return ["".join(chance.choices(PIECES, k=length)) for length in lengths]


ALL = texts(1)


def test_latex_holds_no_command_of_the_text() -> None:
    for text in ALL:
        escaped = latex_escape.escape(text)
        assert LATEX.fullmatch(escaped), ascii(text)
        assert not any(unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn") for character in escaped)


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(tmp_path: Path) -> None:
    body = "\n\n".join(f"x{latex_escape.escape(text[:60])}" for text in ALL[:1000])
    head = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage[utf8]{inputenc}\usepackage{textcomp,amssymb}"
    (tmp_path / "all.tex").write_text(head + "\\begin{document}\n" + body + "\n\\end{document}\n", encoding="utf-8")
    command = ["pdflatex", "-interaction=batchmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
    assert done.returncode == 0, (tmp_path / "all.log").read_text(errors="replace")[-1500:]


class Page(HTMLParser):
    """What a browser would make of a page: its text, and everything that is not text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.text, self.other = "", []  # type: str, list[str]

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.other.append(f"{tag} {attrs}")

    def note(self, data: str) -> None:
        self.other.append(data)

    handle_endtag = handle_comment = handle_decl = handle_pi = unknown_decl = note


def test_html_is_the_text_and_nothing_else() -> None:
    for text in ALL:
        page = Page()
        escaped = html_pages.escape(text)
        page.feed(escaped)
        page.close()
        assert page.other == []
        expected = "".join("\ufffd" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)
        assert html.unescape(escaped) == expected
        assert not re.search("[<>\"']", escaped)


def test_markdown_is_one_cell_without_markup() -> None:
    for text in ALL:
        escaped = markdown_table.escape(text)
        assert len(escaped.splitlines()) <= 1
        assert not re.search(r"[<>]", escaped)
        assert not re.search(r"(?<!\\)(?:\\\\)*[|`*_\[\]$~]", escaped)


@pytest.mark.parametrize("style", ["base", "instruct"])
def test_a_prompt_holds_the_question_as_it_is(style: str) -> None:
    page = prompt_template.load(PROMPTS / style / "trivia_qa.txt")
    marked = prompt_template.render(page, row("\0"), [row("\1")], where="marks")
    before, after = marked.split("\0")
    for question, shot in zip(ALL, texts(2), strict=True):
        rendered = prompt_template.render(page, row(question), [row(shot)], where="here")
        assert rendered == before.replace("\1", shot) + question + after


def row(question: str) -> dict[str, Any]:
    return {"question": question, "references": ["yes"], "options": [], "context": [], "history": []}


def test_cleaning_is_idempotent_and_leaves_one_line() -> None:
    for text in ALL:
        answer = clean(text)
        assert clean(answer) == answer
        assert "\n" not in answer
        for normalize in (normalize_squad, normalize_triviaqa):
            assert "\n" not in normalize(answer)


def test_a_table_gives_back_what_was_written(tmp_path: Path) -> None:
    rows = [{"id": f"q{number}", "prompt": text} for number, text in enumerate(ALL)]
    provenance = {"settings": ALL[:100]}
    parquet_tables.write(tmp_path / "x.parquet", "prompts", rows, provenance=provenance)
    loaded = parquet_tables.read(tmp_path / "x.parquet", "prompts")
    assert loaded.table.to_pylist() == rows
    assert loaded.provenance == provenance


FORMULAS = ["=HYPERLINK(1)", "+1+cmd|' /C calc'!A0", "-2+3", "@SUM(1)", "\t=1", "\r=1", "\n=1", "＝1+1", "-E5"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_text_is_a_formula_in_csv(text: str) -> None:
    written = csv_text(pd.DataFrame({"id": [text, "q1"], "value": [-1.5, 2]}))
    expected = f"'{text}".replace("\r", "\n")
    assert list(csv.reader(io.StringIO(written, newline="")))[1:] == [[expected, "-1.5"], ["q1", "2.0"]]


def test_numbers_and_harmless_texts_are_the_same_csv() -> None:
    frame = pd.DataFrame(
        {
            "text": ["a = b", "-1.5", "+2e-3", "-", "é", 'quo"te, x', None],
            "mixed": pd.Series([-1, "x", None, True, 2.5, np.int64(-3), np.nan], dtype=object),
            "whole": pd.array([-1, None, 3, 4, 5, 6, 7], dtype="Int64"),
            "yes": [True, False] * 3 + [True],
            "number": [-0.1, np.nan, np.inf, -np.inf, 1e-300, -5.0, 7],
        }
    )
    assert csv_text(frame) == frame.to_csv(index=False, lineterminator="\n")
    assert csv_text(frame[:0]) == frame[:0].to_csv(index=False, lineterminator="\n")


def test_the_paths_that_shell_lines_name_bare_are_plain(tiny_models: Path, tmp_path: Path) -> None:
    """To quote {log} there would change the text of every rule, and rerun whatever users have decoded."""
    rules = "".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    commands = re.findall(r'    shell:\n        (".*")\n', rules)
    assert len(commands) == rules.count("shell:")
    assert {name for command in commands for name in re.findall(r"{([\w.]+)}", command)} == {"log"}
    plan = Plan.load({"study": str(Workplace(tmp_path, micro_study(tiny_models)).folder / "micro.yaml")})
    patterns = {name: re.compile(pattern) for name, pattern in plan.wildcard_patterns.items()}
    for rule in ("candidates", "table", "fetch_model", "fetch_dataset", "quality"):
        assert set(re.findall(r"{(\w+)}", plan.paths.log(rule))) <= patterns.keys()
    for odd in "`$\"'\\ \n;&|<>(){}*?[]#~!":
        assert not [name for name, pattern in patterns.items() if pattern.fullmatch(f"a{odd}b")], odd


@pytest.mark.parametrize("mask", [0o077, 0o022, 0o002])
def test_files_and_folders_follow_the_umask(mask: int, tmp_path: Path) -> None:
    before = os.umask(mask)
    try:
        parquet_tables.write_text(tmp_path / "new/x.txt", "x")
    finally:
        os.umask(before)
    modes = [path.stat().st_mode & 0o777 for path in (tmp_path / "new", tmp_path / "new/x.txt")]
    assert modes == [0o777 & ~mask, 0o666 & ~mask]


UNSAFE = ["../up", "/etc", "a/b", "..", ".hidden", "a b", "$(id)", "a;b", "a\nb", "A", "-n", "é", "", "x" * 65]
SOURCES = [
    "hub:../x",
    "hub:x/..",
    "hub:a/b/../../c",
    "hub:a/b;id",
    "packaged:..",
    "packaged:../x",
    "packaged:A",
    "http://x",
]
DEMO = yaml.safe_load((STUDIES / "demo.yaml").read_text())


def refused(folder: Path, **changes: Any) -> None:
    """The demo study with other top-level keys is told to be bad."""
    path = folder / "mine.yaml"
    path.write_text(yaml.safe_dump(copy.deepcopy(DEMO) | changes))
    with pytest.raises(BeamUQError, match=r"mine\.yaml: "):
        Plan.load({"study": str(path)})


@pytest.mark.parametrize("where", ["models", "datasets", "recipes", "scorers"])
def test_no_name_of_a_study_climbs_out_of_its_folder(where: str, tmp_path: Path) -> None:
    for name in UNSAFE:
        refused(tmp_path, **{where: DEMO[where] | {name: next(iter(DEMO[where].values()))}})


@pytest.mark.parametrize("source", SOURCES)
def test_no_source_climbs_out_of_the_models_folder(source: str, tmp_path: Path) -> None:
    key, model = next(iter(DEMO["models"].items()))
    refused(tmp_path, models=DEMO["models"] | {key: model | {"source": source}})


@pytest.mark.parametrize("key", ["adapter", "split", "few_shot_split"])
def test_no_split_climbs_out_of_the_datasets_folder(key: str, tmp_path: Path) -> None:
    for value in ("../../etc/passwd", "/etc/passwd", "a b", "x;id", "x\n"):
        dataset = DEMO["datasets"]["triviaqa"] | {key: value}
        refused(tmp_path, datasets=DEMO["datasets"] | {"triviaqa": dataset})


def test_remote_code_cannot_be_asked_for(tmp_path: Path) -> None:
    trust = {"trust_remote_code": True}
    refused(tmp_path, **trust)
    refused(tmp_path, quality=[DEMO["quality"][0] | trust])
    for where in ("models", "scorers"):
        key, entry = next(iter(DEMO[where].items()))
        refused(tmp_path, **{where: DEMO[where] | {key: entry | trust}})


def test_remote_code_in_a_models_folder_does_not_run(tmp_path: Path) -> None:
    folder = build_tiny_model("llama", tmp_path / "llama")
    ran = tmp_path / "ran"
    (folder / "modeling_x.py").write_text(f"import pathlib; pathlib.Path({str(ran)!r}).touch()\nclass X: pass\n")
    config = json.loads((folder / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "modeling_x.X", "AutoConfig": "modeling_x.X"}
    (folder / "config.json").write_text(json.dumps(config))
    load_causal(folder, dtype=torch.float32, device=torch.device("cpu"))
    assert not ran.exists()


class Bomb:
    """Touches a file when unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_pickle_among_the_weights_does_not_run(tmp_path: Path) -> None:
    folder = build_tiny_model("llama", tmp_path / "llama")
    ran = tmp_path / "ran"
    for weights in folder.glob("*.safetensors"):
        weights.unlink()
    torch.save({"model.embed_tokens.weight": Bomb(ran)}, folder / "pytorch_model.bin")
    with pytest.raises(BeamUQError, match="cannot be loaded"):
        load_causal(folder, dtype=torch.float32, device=torch.device("cpu"))
    assert not ran.exists()
    pickle.load(io.BytesIO(pickle.dumps(Bomb(ran))))
    assert ran.exists()  # the bomb is one
