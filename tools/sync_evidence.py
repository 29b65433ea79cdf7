"""Write what ``evidence/`` says into two pages and the map of ``beamuq advise``; ``--check``
compares.

A block stands between ``<!-- outcomes NAME -->`` (which claims have which outcome), ``<!-- claims
NAME -->`` (``ours`` or ``paper`` behind it: these alone), ``<!-- table NAME LABEL TITLE -->``
(without TITLE all columns) or ``<!-- cells … -->`` (see `cells`) and ``<!-- end -->``. The rest of
the page is written by hand.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path

from beamuq_study.exhibits.table_formats import decimal, interval, signed

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs/evidence.md", ROOT / "docs/when_beams_win.md")
MAP = ROOT / "src/beamuq/evaluation/when_beams_win.csv"
MAPPED = ("dataset", "quality", "power", "mass", "kappa", "value", "low", "high", "n")
BLOCK = re.compile(r"(<!-- (claims|outcomes|table|cells) (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
OUTCOMES = ("yes", "partly", "no", "undecided", "another model", "too few")


def outcomes(name: str) -> str:
    """By outcome and model the claims that have it: a table."""
    rows = [
        row
        for row in _rows(f"{name}/comparison_claims")
        if row["model"] and row["outcome"] in OUTCOMES
    ]
    models = list(dict.fromkeys(row["model"] for row in rows))
    lines = [f"| outcome | {' | '.join(models)} |", f"| --- |{' --- |' * len(models)}"]
    for outcome in OUTCOMES:
        having = [
            [f"`{row['id']}`" for row in rows if (row["model"], row["outcome"]) == (of, outcome)]
            for of in models
        ]
        if any(having):
            lines.append(
                f"| {outcome} | {' | '.join(', '.join(ids) or 'none' for ids in having)} |"
            )
    return "\n".join(lines) + "\n"


def claims(name: str, whose: str = "") -> str:
    """The claims of a study, ours first, or ``whose`` alone; what came out, with its n and
    interval.
    """
    declared: dict[str, dict[str, list[dict[str, str]]]] = {}
    rows = _rows(f"{name}/comparison_claims")
    for row in sorted(rows, key=lambda row: not row["where"].startswith("ours")):
        ours = row["where"].startswith("ours")
        if whose in ("", "ours" if ours else "paper"):
            title = row["where"][0].upper() + row["where"][1:] if ours else "The paper's"
            declared.setdefault(title, {}).setdefault(row["id"], []).append(row)
    lines = []
    for title, part in declared.items():
        asked = {
            label: of for label, of in part.items() if any(row["outcome"] in OUTCOMES for row in of)
        }
        lines += [f"**{title}** (`evidence/{name}/comparison_claims.csv`)", ""] if asked else []
        for label, of in asked.items():
            lines += [f"- `{label}` {of[0]['claim']}", *(f"  - {_told(row)}" for row in of)]
        others = [f"`{label}`" for label in part if label not in asked]
        lines += [""] * bool(asked) + (
            [f"Not asked of this study: {', '.join(others)}.", ""] if others else []
        )
    return "\n".join(lines)


def _told(row: dict[str, str]) -> str:
    """``model, datasets: outcome. value [low, high]; n; what was seen``."""
    datasets = (
        row["datasets"]
        if row["datasets"].count(", ") < 2
        else f"{row['datasets'].count(', ') + 1} datasets"
    )
    value, low, high, least, n = (
        float(row[key] or "nan") for key in ("value", "low", "high", "detectable", "n")
    )
    seen = []
    if not math.isnan(value):
        seen.append(f"{decimal(value, 3 if abs(value) < 10 else 0)} {interval(low, high)}".strip())
    if n > 0:
        seen.append(f"n = {n:,.0f}")
    if row["found"]:
        seen.append(row["found"])
    if not math.isnan(least):
        seen.append(f"smallest detectable difference {decimal(least)}")
    of = f"{row['model']}, {datasets}: " if row["model"] else ""
    return f"{of}**{row['outcome']}**. {'; '.join(seen)}".replace("[", "\\[")


def table(name: str, label: str, title: str = "") -> str:
    """A published table; of its columns those under ``title``, headed by what stands below it.

    Raises SystemExit where no column has that title.
    """
    text = (
        (ROOT / "evidence" / name / "tables" / f"{label}.md")
        .read_text(encoding="utf-8")
        .replace("&#8203;", "")
    )
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    heads = [head.split(" · ") for head in rows[0]]
    if title:
        stub = [len(titles) == 1 for titles in heads]
        under = [title in titles for titles in heads]
        if not any(under):
            sys.exit(
                f"table {name} {label} has no column under {title!r}; it has {', '.join(rows[0])}"
            )
        rows = [[titles[-1] for titles in heads], *rows[1:]]
        rows = [
            [cell for cell, *kept in zip(row, stub, under, strict=True) if any(kept)]
            for row in rows
        ]
    elif len({titles[-1] for titles in heads}) == len(heads):
        rows[0] = [titles[-1] for titles in heads]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def cells(*words: str) -> str:
    """Numbers of a CSV below ``evidence/``: ``FILE | ROWS | COLUMNS | WHERE``, WHERE may be
    missing.

    A row, and a column, reads ``key=value & key=value as Title``; ``;`` parts them. A cell is
    ``value [low, high]``, or the CSV's column NAME with ``show=NAME``. A title with − is of a
    difference: signed, in bold where its interval leaves out zero. Raises SystemExit where a cell
    is not exactly one row of the file.
    """
    file, *parts = " ".join(words).replace("\n", " ").split(" | ")
    data = _rows(file)
    rows, heads, *where = [
        [item.strip().partition(" as ")[::2] for item in part.split(";")] for part in parts
    ]
    always = [conditions for ((conditions, _),) in where]
    table = [["", *(title for _, title in heads)], ["---", *["---:"] * len(heads)]]
    for row, title in rows:
        table.append(
            [
                title,
                *(
                    _cell(data, [row, column, *always], "−" in title + head)
                    for column, head in heads
                ),
            ]
        )
    return "".join(f"| {' | '.join(line)} |\n" for line in table)


def _cell(data: list[dict[str, str]], conditions: list[str], difference: bool) -> str:
    wanted = dict(pair.split("=", maxsplit=1) for pair in " & ".join(conditions).split(" & "))
    shown = wanted.pop("show", "value")
    found = [row for row in data if wanted.items() <= row.items()]
    if len(found) != 1:
        sys.exit(f"{len(found)} rows are {wanted}")
    value, low, high = (float(found[0].get(name) or "nan") for name in (shown, "low", "high"))
    if shown != "value":
        return decimal(value)
    digits, bold = 3 if abs(value) < 10 else 1, "**" * (difference and (low > 0 or high < 0))
    return (
        (f"{bold}{(signed if difference else decimal)(value, digits)}{bold} {interval(low, high)}")
        .replace("[", "\\[")
        .strip()
    )


def _rows(file: str) -> list[dict[str, str]]:
    with (ROOT / "evidence" / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def written(page: str) -> str:
    """The page with its blocks as the evidence has them."""
    writers: dict[str, Callable[..., str]] = {
        "claims": claims,
        "outcomes": outcomes,
        "table": table,
        "cells": cells,
    }
    return BLOCK.sub(
        lambda found: found[1] + writers[found[2]](*found[3].split(maxsplit=2)) + "\n" + found[4],
        page,
    )


def packaged_map() -> str:
    """What ``beamuq advise`` knows: of the map each dataset whose answers a similarity judges."""
    titles = json.loads((ROOT / "evidence/small/study.json").read_text(encoding="utf-8"))[
        "datasets"
    ]
    rows = [
        row
        for row in _rows("small/figures/when_beams_win_by_dataset")
        if row["what"] == "beams - samples"
    ]
    judged = {row["dataset"] for row in rows if row["quality"] == "similarity"}
    rows = [
        row | {"dataset": titles[row["dataset"]]["title"]}
        for row in rows
        if row["dataset"] in judged
    ]
    for row in rows:
        row |= {name: f"{float(row[name]):.4f}" for name in ("mass", "value", "low", "high")}
    return "".join(
        ",".join(row) + "\n" for row in (MAPPED, *([row[name] for name in MAPPED] for row in rows))
    )


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true")
    files = {page: written(page.read_text(encoding="utf-8")) for page in PAGES} | {
        MAP: packaged_map()
    }
    if parser.parse_args().check:
        old = [
            str(path) for path, text in files.items() if path.read_text(encoding="utf-8") != text
        ]
        sys.exit(
            f"{', '.join(old)}: not as evidence/ has it; run python tools/sync_evidence.py"
            if old
            else 0
        )
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
