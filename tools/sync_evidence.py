"""Write what ``evidence/`` says into two pages and the map of ``beamuq advise``; ``--check`` compares.

A block stands between ``<!-- outcomes NAME -->`` (which claims have which outcome), ``<!-- claims NAME -->`` (``ours``
or ``paper`` behind it: these alone), ``<!-- table NAME LABEL TITLE -->`` (without TITLE all columns) or
``<!-- cells … -->`` (see `cells`) and ``<!-- end -->``. The rest of the page is written by hand.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from beamuq_study.exhibits.table_formats import decimal, interval, signed

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "docs/evidence.md", ROOT / "docs/when_beams_win.md")
MAP = ROOT / "src/beamuq/evaluation/when_beams_win.csv"
MAPPED = ("dataset", "quality", "power", "mass", "kappa", "value", "low", "high", "n")
BLOCK = re.compile(r"(<!-- (claims|outcomes|table|cells) (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
VERDICTS = ("yes", "partly", "no", "undecided", "another model", "cannot say")


def outcomes(name: str) -> str:
    """By outcome and model the claims that have it: a table."""
    told: dict[str, dict[str, list[str]]] = {}
    for row in _rows(f"{name}/comparison_claims"):
        for found in _of_cells(row["in_this_study"]):
            of, _, rest = found.partition(": ")
            if (verdict := rest.partition(";")[0]) in VERDICTS:
                told.setdefault(of.split()[0], {}).setdefault(verdict, []).append(f"`{row['id']}`")
    lines = [f"| outcome | {' | '.join(told)} |", f"| --- |{' --- |' * len(told)}"]
    for verdict in VERDICTS:
        if any(verdict in of for of in told.values()):
            lines.append(f"| {verdict} | {' | '.join(', '.join(of.get(verdict, ['none'])) for of in told.values())} |")
    return "\n".join(lines) + "\n"


def claims(name: str, whose: str = "") -> str:
    """The claims of a study, ours first, or ``whose`` alone; what came out, with its n and interval."""
    rows = [
        row
        for row in _rows(f"{name}/comparison_claims")
        if whose in ("", "ours" if row["where"].startswith("ours") else "paper")
    ]
    ours = [row for row in rows if row["where"].startswith("ours")]
    lines = []
    declared = {row["where"]: [of for of in ours if of["where"] == row["where"]] for row in ours}
    parts = {where[0].upper() + where[1:]: part for where, part in declared.items()}
    theirs = [row for row in rows if row not in ours]
    for title, part in (parts | ({"The paper's": theirs} if theirs else {})).items():
        answered = [row for row in part if not all(map(_not_asked, _of_cells(row["in_this_study"])))]
        lines += [f"**{title}** (`evidence/{name}/comparison_claims.csv`)", ""]
        for row in answered:
            lines += [f"- `{row['id']}` {row['claim']}"]
            shown = dict(of.split(": ") for of in row["detectable"].split("; ") if of)
            lines += [f"  - {_verdict(found, shown)}" for found in _of_cells(row["in_this_study"])]
        waiting = [row for row in part if row not in answered and "was not run" in row["in_this_study"]]
        others = [row for row in part if row not in answered and row not in waiting]
        lines += [""] * bool(answered)
        for told, rows_of in (("Waiting for cells that have not run", waiting), ("Not asked of this study", others)):
            names = [f"`{row['id']}`" for row in rows_of]
            lines += [f"{told}: {', '.join(names)}.", ""] if names else []
    return "\n".join(lines)


def table(name: str, label: str, title: str = "") -> str:
    """A published table; of its columns those under ``title``, headed by what stands below it.

    Raises SystemExit where no column has that title.
    """
    text = (ROOT / "evidence" / name / "tables" / f"{label}.md").read_text(encoding="utf-8").replace("&#8203;", "")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    if title:
        heads = [head.split(" · ") for head in rows[0]]
        stub = [len(titles) == 1 for titles in heads]
        under = [title in titles for titles in heads]
        if not any(under):
            sys.exit(f"table {name} {label} has no column under {title!r}; it has {', '.join(rows[0])}")
        rows[0] = [titles[-1] for titles in heads]
        rows = [[cell for cell, *kept in zip(row, stub, under, strict=True) if any(kept)] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def cells(*words: str) -> str:
    """Numbers of a CSV below ``evidence/``: ``FILE | ROWS | COLUMNS | WHERE``, WHERE may be missing.

    A row, and a column, reads ``key=value & key=value as Title``; ``;`` parts them. A cell is ``value [low, high]``, or
    the CSV's column NAME with ``show=NAME``. A title with − is of a difference: signed, in bold where its interval
    leaves out zero. Raises SystemExit where a cell is not exactly one row of the file.
    """
    file, *parts = " ".join(words).replace("\n", " ").split(" | ")
    data = _rows(file)
    rows, heads, *where = [[item.strip().partition(" as ")[::2] for item in part.split(";")] for part in parts]
    always = [conditions for ((conditions, _),) in where]
    table = [["", *(title for _, title in heads)], ["---", *["---:"] * len(heads)]]
    for row, title in rows:
        table.append([title, *(_cell(data, [row, column, *always], "−" in title + head) for column, head in heads)])
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
    return f"{bold}{(signed if difference else decimal)(value, digits)}{bold} {interval(low, high)}".replace(
        "[", "\\["
    ).strip()


def _rows(file: str) -> list[dict[str, str]]:
    with (ROOT / "evidence" / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _not_asked(found: str) -> bool:
    return found.startswith("cannot say") or found.endswith("was not run")


def _of_cells(text: str) -> list[str]:
    """The answers by what they are of: ``NAME: verdict; text`` each, one behind the other."""
    starts = [
        found.start() for found in re.finditer(rf"(?:^|(?<=; ))[\w.-]+(?: [\w.-]+)*: (?:{'|'.join(VERDICTS)});", text)
    ]
    return [text[a:b].rstrip("; ") for a, b in pairwise([*starts, len(text)])] or [text]


def _verdict(found: str, detectable: dict[str, str]) -> str:
    of, _, rest = found.partition(": ")
    verdict, _, text = rest.partition("; ")
    text += f"; smallest detectable difference {detectable[of]}" if of in detectable else ""
    return f"{of}: **{verdict}**. {text}".replace("[", "\\[").rstrip()


def written(page: str) -> str:
    """The page with its blocks as the evidence has them."""
    writers: dict[str, Callable[..., str]] = {"claims": claims, "outcomes": outcomes, "table": table, "cells": cells}
    return BLOCK.sub(lambda found: found[1] + writers[found[2]](*found[3].split(maxsplit=2)) + "\n" + found[4], page)


def packaged_map() -> str:
    """What ``beamuq advise`` knows: of study ``map`` each dataset whose answers a similarity judges."""
    titles = json.loads((ROOT / "evidence/map/study.json").read_text(encoding="utf-8"))["datasets"]
    rows = [row for row in _rows("map/figures/when_beams_win_by_dataset") if row["what"] == "beams - samples"]
    judged = {row["dataset"] for row in rows if row["quality"] == "similarity"}
    rows = [row | {"dataset": titles[row["dataset"]]["title"]} for row in rows if row["dataset"] in judged]
    for row in rows:
        row |= {name: f"{float(row[name]):.4f}" for name in ("mass", "value", "low", "high")}
    return "".join(",".join(row) + "\n" for row in (MAPPED, *([row[name] for name in MAPPED] for row in rows)))


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true")
    files = {page: written(page.read_text(encoding="utf-8")) for page in PAGES} | {MAP: packaged_map()}
    if parser.parse_args().check:
        old = [str(path) for path, text in files.items() if path.read_text(encoding="utf-8") != text]
        sys.exit(f"{', '.join(old)}: not as evidence/ has it; run python tools/sync_evidence.py" if old else 0)
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
