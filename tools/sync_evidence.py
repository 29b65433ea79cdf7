"""Write what ``evidence/`` says into five pages and the map of ``beamuq advise``.

``--check`` compares. A block stands between ``<!-- outcomes NAME -->`` (which claims have which
outcome), ``<!-- claims NAME -->`` (``ours`` or ``paper`` behind it: these alone), ``<!-- verdicts
NAME | … -->`` (see `verdicts`), ``<!-- waiting ours -->`` (those that no published study was asked
about), ``<!-- table NAME LABEL TITLE -->`` (without TITLE all columns) or ``<!-- cells … -->`` (see
`cells`) and ``<!-- end -->``. The rest of the page is written by hand.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from beamuq_study.comparison.comparison_inputs import read_claims
from beamuq_study.exhibits.table_formats import decimal, interval, signed

ROOT = Path(__file__).resolve().parents[1]
PAGES = tuple(
    ROOT / f"docs/{name}.md"
    for name in ("evidence", "evidence_tables", "every_claim", "when_beams_win", "tuned_models")
)
MAP = ROOT / "src/beamuq/evaluation/when_beams_win.csv"
MAPPED = ("dataset", "quality", "power", "mass", "kappa", "value", "low", "high", "n")
BLOCK = re.compile(
    r"(<!-- (claims|outcomes|verdicts|waiting|table|cells) (.+?) -->\n).*?(<!-- end -->)", re.DOTALL
)
Row = dict[str, str]  # of a CSV
OUTCOMES = ("yes", "partly", "no", "undecided", "another model", "too few")
TESTED = re.compile(  # what a judge says of several parts
    r"of (\d+) above [^;]*; \d+% significantly above[^,]*, (\d+)% significantly below"
)
MOST_DIGITS = 6  # of an end of an interval that rounds to zero: what is smaller is rounding


def outcomes(name: str) -> str:
    """By outcome and model the claims that have it: a table; below it those of no model."""
    claims_by_place: dict[tuple[str, str], list[str]] = {}
    models: list[str] = []
    without_model = []
    for row in _rows(f"{name}/comparison_claims"):
        if row["outcome"] in OUTCOMES and row["model"]:
            models.append(row["model"])
            place = (row["outcome"], row["model"])
            claims_by_place.setdefault(place, []).append(f"`{row['id']}`")
        elif row["outcome"] in OUTCOMES:
            without_model.append(f"`{row['id']}` **{row['outcome']}** ({row['found']})")
    models = list(dict.fromkeys(models))
    lines = [f"| outcome | {' | '.join(models)} |", f"| --- |{' --- |' * len(models)}"]
    for outcome in OUTCOMES:
        columns = [", ".join(claims_by_place.get((outcome, model), [])) for model in models]
        if any(columns):
            shown = [column or "none" for column in columns]
            lines.append(f"| {outcome} | {' | '.join(shown)} |")
    if without_model:
        lines += ["", f"Whatever the model: {'; '.join(without_model)}."]
    return "\n".join(lines) + "\n"


def claims(name: str, whose: str = "") -> str:
    """The claims of a study, ours first, or ``whose`` alone, each with its outcomes."""
    sections: dict[str, dict[str, list[Row]]] = {}
    rows = _rows(f"{name}/comparison_claims")
    for row in sorted(rows, key=lambda row: not _is_ours(row)):
        if whose in ("", "ours" if _is_ours(row) else "paper"):
            section = sections.setdefault(_title(row), {})
            section.setdefault(row["id"], []).append(row)
    lines = []
    for title, section in sections.items():
        lines += _section(f"**{title}** (`evidence/{name}/comparison_claims.csv`)", section)
    return "\n".join(lines)


def verdicts(*words: str) -> str:
    """The paper's claims by model, as a table: ``NAME | MODEL as TITLE; …``.

    A cell is ``outcome value [low, high]``. Below the table: of how many questions, and the claims
    that were asked of none of these models.
    """
    name, part = " ".join(words).replace("\n", " ").split(" | ")
    models = _items(part)
    rows_of_claims = _rows_of_claims(name, [model.conditions for model in models])
    lines = [["claim", *(model.title for model in models)], ["---"] * (1 + len(models))]
    not_asked = []
    for identifier, rows in rows_of_claims.items():
        if any(row.get("outcome") in OUTCOMES for row in rows):
            lines.append([f"`{identifier}`", *map(_verdict, rows)])
        else:
            not_asked.append(f"`{identifier}`")
    if len(lines) == 2:
        sys.exit(f"verdicts {name}: no claim of the paper was asked of {part}")
    table_lines = [f"| {' | '.join(line)} |" for line in lines]
    table_lines += ["", _questions_of_claims(rows_of_claims)]
    if not_asked:
        table_lines += ["", f"Not asked of them: {', '.join(not_asked)}."]
    return "\n".join(table_lines) + "\n"


def _rows_of_claims(name: str, models: list[str]) -> dict[str, list[Row]]:
    """By claim of the paper a row a model, empty where there is none; not those of no model."""
    rows_by_place: dict[str, dict[str, Row]] = {}
    for row in _rows(f"{name}/comparison_claims"):
        if not _is_ours(row):
            rows_by_place.setdefault(row["id"], {})[row["model"]] = row
    return {
        identifier: [row_of_model.get(model, {}) for model in models]
        for identifier, row_of_model in rows_by_place.items()
        if row_of_model.get("", {}).get("outcome") not in OUTCOMES
    }


def _questions_of_claims(rows_of_claims: dict[str, list[Row]]) -> str:
    """Of how many questions most claims are, then each other number with its claims."""
    claims_by_number: dict[str, list[str]] = {}
    for identifier, rows in rows_of_claims.items():
        counts = [count for row in rows if (count := _number(row, "n")) > 0]
        if counts:
            ends = dict.fromkeys(f"{count:,.0f}" for count in (min(counts), max(counts)))
            claims_by_number.setdefault(" to ".join(ends), []).append(f"`{identifier}`")
    of_most = max(claims_by_number, key=lambda number: len(claims_by_number[number]))
    numbers = [of_most]
    for number, identifiers in claims_by_number.items():
        if number != of_most:
            numbers.append(f"{number} of {', '.join(identifiers)}")
    return f"n = {'; '.join(numbers)}."


def _verdict(row: Row) -> str:
    """``outcome value [low, high]``."""
    if row.get("outcome") not in OUTCOMES:
        return "not asked"
    return f"**{row['outcome']}** {_measured(row)}".strip().replace("[", "\\[")


def waiting(_whose: str) -> str:
    """Those claims of ours that no published study has been asked about."""
    judged = {
        row["id"]
        for path in sorted((ROOT / "evidence").glob("*/comparison_claims.csv"))
        for row in _rows(f"{path.parent.name}/comparison_claims")
        if row["outcome"] in OUTCOMES
    }
    ours = [claim.id for claim in read_claims() if claim.where.startswith("ours")]
    not_run = [f"`{identifier}`" for identifier in ours if identifier not in judged]
    if not not_run:
        return "All have been run.\n"
    return f"Not yet run ({len(not_run)}): {', '.join(not_run)}.\n"


def _is_ours(row: Row) -> bool:
    return row["where"].startswith("ours")


def _title(row: Row) -> str:
    """The title of the section that a claim is in."""
    if not _is_ours(row):
        return "The paper's"
    return row["where"][0].upper() + row["where"][1:]


def _section(title: str, claims_by_id: dict[str, list[Row]]) -> list[str]:
    """A list of claims that were asked of a study, and the ids of the others; empty: none was."""
    asked_lines = []
    not_asked = []
    for identifier, rows in claims_by_id.items():
        if any(row["outcome"] in OUTCOMES for row in rows):
            asked_lines.append(f"- `{identifier}` {rows[0]['claim']}")
            asked_lines += [f"  - {_outcome(row)}" for row in rows]
        else:
            not_asked.append(f"`{identifier}`")
    if not asked_lines:
        return []
    lines = [title, "", *asked_lines, ""]
    if not_asked:
        lines += [f"Not asked of this study: {', '.join(not_asked)}.", ""]
    return lines


def _outcome(row: Row) -> str:
    """``model, datasets: outcome. value [low, high]; n; what was seen``.

    Behind a *no* stands which of several parts denies it; behind an interval that leaves out zero
    where the corrected verdict is undecided, that it is uncorrected.
    """
    n = _number(row, "n")
    detectable = _number(row, "detectable")
    facts = []
    measured = _measured(row)
    if measured:
        facts.append(f"{measured}{_uncorrected(row)}")
    if n > 0:
        facts.append(f"n = {n:,.0f}")
    if row["found"]:
        facts.append(row["found"])
    if not math.isnan(detectable):
        facts.append(f"smallest detectable difference {decimal(detectable)}")
    subject = f"{row['model']}, {_datasets(row)}: " if row["model"] else ""
    outcome = f"{subject}**{row['outcome']}**{_denying_parts(row)}. {'; '.join(facts)}"
    return outcome.replace("[", "\\[")


def _measured(row: Row) -> str:
    """``value [low, high]``; nothing where there is none."""
    value = _number(row, "value")
    if math.isnan(value):
        return ""
    return f"{decimal(value, 3 if abs(value) < 10 else 0)} {_ends(row)}".strip()


def _ends(row: Row) -> str:
    """``[low, high]``, each on its side of zero; nothing where one is not there."""
    low = _number(row, "low")
    high = _number(row, "high")
    if math.isnan(low) or math.isnan(high):
        return ""
    return f"[{_end(low)}, {_end(high)}]"


def _end(number: float) -> str:
    """An end of an interval, with as many digits as show on which side of zero it lies."""
    for digits in range(3, MOST_DIGITS + 1):
        if float(f"{number:.{digits}f}"):
            return decimal(number, digits)
    return decimal(number)


def _uncorrected(row: Row) -> str:
    """A remark on an interval that leaves out zero though the verdict is undecided."""
    leaves_out_zero = _number(row, "low") > 0 or _number(row, "high") < 0
    is_tested = TESTED.search(row["found"]) and "the margin" not in row["found"]
    if row["outcome"] == "undecided" and leaves_out_zero and is_tested:
        return " (uncorrected)"
    return ""


def _denying_parts(row: Row) -> str:
    """How many of several parts are significantly below zero, of a claim that is denied."""
    tested_parts = [(int(parts), int(percent)) for parts, percent in TESTED.findall(row["found"])]
    part_count = sum(parts for parts, _ in tested_parts)
    below = sum(round(parts * percent / 100) for parts, percent in tested_parts)
    if row["outcome"] != "no" or part_count < 2 or below == 0:
        return ""
    return f" ({below} of {part_count} significantly below)"


def _datasets(row: Row) -> str:
    """Names of one or two datasets, or how many there are."""
    number = row["datasets"].count(", ") + 1
    return row["datasets"] if number < 3 else f"{number} datasets"


def _number(row: Row, column: str) -> float:
    """A number of a CSV; NaN where the row has none."""
    return float(row.get(column) or "nan")


def table(name: str, label: str, title: str = "") -> str:
    """A table of the study ``name`` in ``evidence/``, as Markdown.

    ``label``: the table's file, without its ending. In that file the head of a column has the
    titles of all levels, ``PRR · Beams · M = 10``. Here it has the last alone, if that is enough
    to tell the columns apart.

    ``title``: keep only the columns that have this title at some level, and those that name the
    rows, which have one level. Raises SystemExit where no column has that title.
    """
    head, *further_rows = _rows_of_table(ROOT / "evidence" / name / "tables" / f"{label}.md")
    titles_by_column = [text.split(" · ") for text in head]
    if title and not any(title in titles for titles in titles_by_column):
        sys.exit(f"table {name} {label} has no column under {title!r}; it has {', '.join(head)}")
    last_titles = [titles[-1] for titles in titles_by_column]
    if title or len(set(last_titles)) == len(last_titles):
        head = last_titles
    is_kept = [not title or len(titles) == 1 or title in titles for titles in titles_by_column]
    rows = [list(itertools.compress(row, is_kept)) for row in [head, *further_rows]]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _rows_of_table(path: Path) -> list[list[str]]:
    """The cells of each row of a Markdown table: its head, the line of dashes, then the rest."""
    text = path.read_text(encoding="utf-8").replace("&#8203;", "")
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]


def cells(*words: str) -> str:
    """Numbers of a CSV below ``evidence/``: ``FILE | ROWS | COLUMNS | WHERE``.

    WHERE may be missing. A row, and a column, reads ``key=value & key=value as Title``; ``;`` parts
    them. A cell is ``value [low, high]``, or the CSV's column NAME with ``show=NAME``. A title with
    − is of a difference: signed, in bold where its interval leaves out zero. Raises SystemExit
    where a cell is not exactly one row of the file.
    """
    file, *parts = " ".join(words).replace("\n", " ").split(" | ")
    data = _rows(file)
    rows, columns, *where = [_items(part) for part in parts]
    always = [item.conditions for items in where for item in items]
    lines = [["", *(column.title for column in columns)], ["---", *["---:"] * len(columns)]]
    for row in rows:
        line = [row.title]
        for column in columns:
            conditions = [row.conditions, column.conditions, *always]
            line.append(_cell(data, conditions, is_difference="−" in row.title + column.title))
        lines.append(line)
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


class Item(NamedTuple):
    """A row or column of a block of cells."""

    conditions: str  # KEY=VALUE & KEY=VALUE
    title: str


def _items(part: str) -> list[Item]:
    """``CONDITIONS as TITLE; …``; a title may be missing."""
    items = []
    for item in part.split(";"):
        conditions, _, title = item.strip().partition(" as ")
        items.append(Item(conditions, title))
    return items


def _cell(data: list[Row], conditions: list[str], *, is_difference: bool) -> str:
    """What a cell prints: the number, with its interval, of the one row that meets all conditions.

    ``conditions``: ``column=text``, several joined by " & "; ``show=column`` prints that column,
    which has no interval, in place of ``value``.
    """
    pairs = " & ".join(conditions).split(" & ")
    texts_by_column = dict(pair.split("=", maxsplit=1) for pair in pairs)
    column = texts_by_column.pop("show", "value")
    rows = [row for row in data if texts_by_column.items() <= row.items()]
    if len(rows) != 1:
        sys.exit(f"{len(rows)} rows are {texts_by_column}")
    value = _number(rows[0], column)
    if column != "value":
        return "–" if math.isnan(value) else decimal(value)
    low = _number(rows[0], "low")
    high = _number(rows[0], "high")
    digits = 3 if abs(value) < 10 else 1
    number = signed(value, digits) if is_difference else decimal(value, digits)
    if is_difference and (low > 0 or high < 0):
        number = f"**{number}**"
    ends = _ends(rows[0]) if is_difference else interval(low, high)
    return f"{number} {ends}".replace("[", "\\[").strip()


def _rows(file: str) -> list[Row]:
    with (ROOT / "evidence" / f"{file}.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def written(page: str) -> str:
    """The page with its blocks as the evidence has them."""
    return BLOCK.sub(_block, page)


def _block(block: re.Match[str]) -> str:
    start, kind, words, end = block.groups()
    return start + WRITERS[kind](*words.split(maxsplit=2)) + "\n" + end


WRITERS: dict[str, Callable[..., str]] = {
    "claims": claims,
    "outcomes": outcomes,
    "verdicts": verdicts,
    "waiting": waiting,
    "table": table,
    "cells": cells,
}


def packaged_map() -> str:
    """What ``beamuq advise`` knows: of the map each dataset whose answers a similarity judges."""
    study = json.loads((ROOT / "evidence/small/study.json").read_text(encoding="utf-8"))
    differences = [
        row
        for row in _rows("small/figures/when_beams_win_by_dataset")
        if row["what"] == "beams - samples"
    ]
    judged = {row["dataset"] for row in differences if row["quality"] == "similarity"}
    lines = [MAPPED]
    for row in differences:
        if row["dataset"] in judged:
            shown = row | {"dataset": study["datasets"][row["dataset"]]["title"]}
            shown |= {name: f"{float(row[name]):.4f}" for name in ("mass", "value", "low", "high")}
            lines.append(tuple(shown[name] for name in MAPPED))
    return "".join(",".join(line) + "\n" for line in lines)


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--check", action="store_true")
    files = {page: written(page.read_text(encoding="utf-8")) for page in PAGES}
    files[MAP] = packaged_map()
    stale = [path for path, text in files.items() if path.read_text(encoding="utf-8") != text]
    if parser.parse_args().check:
        names = ", ".join(map(str, stale))
        sys.exit(
            f"{names}: not as evidence/ has it; run python tools/sync_evidence.py" if stale else 0
        )
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
