"""The comparison as files: CSV, a Markdown summary, one HTML page that holds everything. Same input, same bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from beamuq.comparison import beam_minus_multinomial, compare_numbers
from beamuq.comparison.comparison_rules import ComparisonRules
from beamuq.exhibits import escape, wording
from beamuq.study import Study

_STYLE = """body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#111}
h1{font-size:1.3rem}h2{font-size:1.1rem;margin-top:2.2rem}
table{border-collapse:collapse;border-top:2px solid #111;border-bottom:2px solid #111;margin:.8rem 0}
th,td{padding:.2rem .55rem;text-align:left;vertical-align:top}
td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
thead{border-bottom:1px solid #111}
.scroll{overflow-x:auto}
.agrees,.supported,.yes{background:#d9f0e3}.differs,.not-supported{background:#f6d9c9}
.errata,.partly,.undecided{background:#fbeec2}.not-run,.not-comparable{color:#555}
summary{cursor:pointer;padding:.25rem 0}
svg{width:46rem;max-width:100%;height:auto}
small{color:#444}"""
_DECIMALS = {"z": 2, "p": 4, "adjusted": 4}


@dataclass(frozen=True)
class Comparison:
    """Everything that a comparison found."""

    study: Study
    rules: ComparisonRules
    cells: pd.DataFrame
    formulations: pd.DataFrame
    nearer: pd.DataFrame
    differences: pd.DataFrame
    claims: pd.DataFrame
    errata: pd.DataFrame
    provenance: dict[str, Any]


OUTPUTS = ("csv", "formulations", "claims", "summary", "markdown", "html")


def contents(found: Comparison, forest: str) -> dict[str, str]:
    """The text of each of ``OUTPUTS``. ``forest``: the paired differences drawn, an SVG document."""
    return {
        "csv": csv(found.cells),
        "formulations": csv(found.formulations),
        "claims": csv(found.claims),
        "summary": summary(found),
        "markdown": markdown(found),
        "html": html(found, forest),
    }


def csv(frame: pd.DataFrame) -> str:
    """Unrounded; what does not exist is empty."""
    return str(frame.to_csv(index=False, lineterminator="\n"))


def summary(found: Comparison) -> str:
    """Counts, wins, nearness and provenance as JSON."""
    decided, chance = compare_numbers.expected_to_differ(found.cells, found.rules)
    content = {
        "study": found.study.title,
        "demo": found.study.demo,
        "rows": len(found.cells),
        "statuses": _counts(found.cells, compare_numbers.STATUSES),
        "held_against_print": decided,
        "expected_to_differ_by_chance": round(chance, 1),
        "claims": {str(k): int(v) for k, v in found.claims["status"].value_counts().sort_index().items()},
        "headline": beam_minus_multinomial.tally(found.differences, beam_minus_multinomial.HEADLINE),
        "cells": beam_minus_multinomial.tally(found.differences, beam_minus_multinomial.CELLS),
        "nearer": json.loads(found.nearer.to_json(orient="records", double_precision=6)),
        "provenance": found.provenance,
    }
    return json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def markdown(found: Comparison) -> str:
    """The summary: counts, differing cells, claims, wins and losses, errata."""
    lines = [f"# {_title(found)}", "", *(f"{sentence}\n" for sentence in _opening(found))]
    lines += _markdown_table(_by_table(found.cells))
    differing = found.cells[found.cells["status"] == "differs"]
    if len(differing):
        lines += ["", "## Cells that differ", "", *_markdown_table(_shown_cells(differing))]
    for heading, sentences, frame in _sections(found):
        lines += ["", f"## {heading}", "", *(f"{sentence}\n" for sentence in sentences), *_markdown_table(frame)]
    return "\n".join([*lines, "", *(f"- {key}: `{value}`" for key, value in _hashes(found)), ""])


def html(found: Comparison, forest: str) -> str:
    """One page, nothing loaded: the summary, ``forest`` (an SVG document) and all 1,958 rows, folded by table."""
    lines = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        f"<title>{escape.page(_title(found))}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{escape.page(_title(found))}</h1>",
        *(f"<p>{escape.page(sentence)}</p>" for sentence in _opening(found)),
        _html_table(_by_table(found.cells)),
    ]
    for heading, sentences, frame in _sections(found):
        lines.append(f"<h2>{escape.page(heading)}</h2>")
        lines += [f"<p>{escape.page(sentence)}</p>" for sentence in sentences]
        if heading == _PAIRED and len(found.differences):
            lines.append(_inline(forest))
        lines.append(_html_table(frame))
    lines.append("<h2>Every printed number</h2>")
    for table, part in found.cells.groupby("table", sort=False):
        counts = ", ".join(
            f"{count} {status}" for status, count in _counts(part, compare_numbers.STATUSES).items() if count
        )
        lines.append(f"<details><summary>{escape.page(str(table))}: {escape.page(counts)}</summary>")
        lines += [_html_table(_shown_cells(part.drop(columns="table"))), "</details>"]
    lines.append("<h2>Provenance</h2><ul>")
    lines += [f"<li><small>{escape.page(key)}: {escape.page(value)}</small></li>" for key, value in _hashes(found)]
    return "\n".join([*lines, "</ul></body></html>", ""])


_PAIRED = "Beam minus multinomial, paired"


def _title(found: Comparison) -> str:
    return wording.titled(found.study, f"Compared with print: {found.study.title}")


def _opening(found: Comparison) -> list[str]:
    rules = found.rules.agreement
    if found.study.demo:
        return [
            f"{len(found.cells):,} printed numbers, each not comparable: {compare_numbers.DEMO}. A demo shows that the "
            "machinery works; other models on other questions say nothing about the paper."
        ]
    decided, chance = compare_numbers.expected_to_differ(found.cells, found.rules)
    counts = _counts(found.cells, compare_numbers.STATUSES)
    return [
        f"{len(found.cells):,} printed numbers: " + ", ".join(f"{n:,} {status}" for status, n in counts.items()) + ".",
        f"Of the {decided:,} held against print, chance alone would on average call at most {chance:.0f} different; "
        "cells share questions, so that count scatters more than that of independent ones.",
        f"A cell agrees if |z| < {rules.z:g}, z = difference / √(our s² + printed s²). A printed ± that is absent or "
        "in the errata is replaced by ours. The two runs overlap in questions, which z leaves out, so their difference "
        "scatters less than z assumes: 'differs' is conservative, 'agrees' correspondingly easy.",
        f"'Detectable' is the true difference that would be called different with probability {rules.power:.0%}, if "
        "the runs had no question in common; with the overlap, smaller ones would be.",
    ]


def _sections(found: Comparison) -> list[tuple[str, list[str], pd.DataFrame]]:
    """Heading, sentences and table of every section behind the counts."""
    sections = []
    if len(found.nearer):
        nearest = found.nearer[found.nearer["model"] == "all"]["nearer"].iloc[0]
        sections.append(
            (
                "Which produced answer our greedy rows resemble",
                [
                    "Mean distance of our means with the greedy answer to the main table (tab:qa_mean_prr) and to the "
                    f"one with the top beam as the answer (tab:topbeam_scoring): nearer the {nearest} table over all.",
                ],
                found.nearer,
            )
        )
    read = found.formulations
    counted = read.groupby(["formulation", "status"], sort=False).size().rename("rows").reset_index()
    decided = read[read["status"].isin(["agrees", "differs"])]
    closest = decided.assign(distance=decided["difference"].abs()).groupby("formulation")["distance"].mean()
    counted = counted.assign(mean_distance=counted["formulation"].map(closest))
    sections.append(
        (
            "Semantic Entropy in its three forms",
            [
                "Print defines the sampled form in one way, the official code in another; every printed value is held "
                "against all three."
            ],
            counted,
        )
    )
    headline, cells = (
        beam_minus_multinomial.tally(found.differences, f)
        for f in (beam_minus_multinomial.HEADLINE, beam_minus_multinomial.CELLS)
    )
    sections.append(
        (
            _PAIRED,
            [
                _families(found),
                beam_minus_multinomial.resamples_sentence(found.differences, found.rules),
            ],
            pd.DataFrame([{"family": "means", **headline}, {"family": "cells", **cells}]),
        )
    )
    means = found.differences[found.differences["family"] == beam_minus_multinomial.HEADLINE]
    shown = [
        "model",
        "method",
        "beamsearch",
        "multinomial",
        "difference",
        "low",
        "high",
        "p",
        "adjusted",
        "significant",
        "n",
    ]
    sections.append(("Means over datasets, beam minus multinomial", [], means[[*shown, "note"]]))
    sections.append(("Claims", [] if found.study.demo else [_claims(found)], found.claims))
    sections.append(
        (
            "Print against itself",
            ["Found in the printed numbers and by stored counterexamples alone; a test regenerates every entry."],
            found.errata,
        )
    )
    return sections


def _families(found: Comparison) -> str:
    methods, paper = len(found.rules.families.methods), found.rules.paper
    models, datasets = len(paper.models), len(paper.datasets)
    if found.study.demo:
        return "The families of a demo are its own models: means corrected by Holm, cells by Benjamini and Hochberg."
    return (
        f"Declared before any run: {methods} methods × {models} models on the mean over datasets ({methods * models} "
        f"tests, Holm), and each dataset ({methods * models * datasets} cells, Benjamini and Hochberg). A test that "
        "was not run counts as the least significant."
    )


def _claims(found: Comparison) -> str:
    rules = found.rules.claims
    return (
        "Supported: all that is claimed of sign, size and significance holds. Undecided: this run cannot tell, as an "
        "interval lies across a margin or the resamples are too few for so many tests. Negligible is a difference "
        f"whose interval lies within ±{rules.negligible:g}. A cell or a file with under "
        f"{found.rules.agreement.least_share_of_questions:.0%} of the paper's questions decides nothing."
    )


def _counts(frame: pd.DataFrame, statuses: Sequence[str]) -> dict[str, int]:
    return {status: int((frame["status"] == status).sum()) for status in statuses}


def _by_table(cells: pd.DataFrame) -> pd.DataFrame:
    rows = [
        {"table": table, "rows": len(part), **_counts(part, compare_numbers.STATUSES)}
        for table, part in cells.groupby("table", sort=False)
    ]
    return pd.DataFrame([*rows, {"table": "all", "rows": len(cells), **_counts(cells, compare_numbers.STATUSES)}])


def _shown_cells(part: pd.DataFrame) -> pd.DataFrame:
    interval = [
        f"[{low:.3f}, {high:.3f}]" if pd.notna(low) else "" for low, high in zip(part["low"], part["high"], strict=True)
    ]
    status = [f"{s}: {r}" if r else s for s, r in zip(part["status"], part["reason"], strict=True)]
    before = [name for name in compare_numbers.COLUMNS[:7] if name in part and (part[name] != "").any()]
    behind = ["n", "difference", "z", "detectable"]
    shown = part[[*before, "printed", "value"]].assign(interval=interval)
    return pd.concat([shown, part[behind].assign(status=status)], axis=1)


def _hashes(found: Comparison) -> list[tuple[str, str]]:
    lines = [("study", str(found.provenance["study"]))]
    for part in ("declared", "versions"):
        lines += [(name, str(value)) for name, value in found.provenance[part].items()]
    return lines


def _text(column: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if value is None or pd.isna(value):
        return ""
    if isinstance(value, bool) or type(value).__name__ == "bool":
        return "yes" if value else "no"
    return f"{value:.{_DECIMALS.get(column, 3)}f}" if isinstance(value, float) else f"{value}"


def _markdown_table(frame: pd.DataFrame) -> list[str]:
    heads = [str(column).replace("_", " ") for column in frame.columns]
    lines = ["| " + " | ".join(map(escape.markdown, heads)) + " |", "|" + " --- |" * len(heads)]
    for row in frame.itertuples(index=False):
        texts = [_text(str(column), value) for column, value in zip(frame.columns, row, strict=True)]
        cells = [escape.markdown(t) if isinstance(v, str) else t for t, v in zip(texts, row, strict=True)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _html_table(frame: pd.DataFrame) -> str:
    number = {str(c): pd.api.types.is_numeric_dtype(frame[c]) and frame[c].dtype != bool for c in frame.columns}
    heads = "".join(
        f'<th scope="col"{_class("number" if number[str(c)] else "")}>{escape.page(str(c).replace("_", " "))}</th>'
        for c in frame.columns
    )
    lines = [f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>']
    for row in frame.itertuples(index=False):
        cells = []
        for column, value in zip(map(str, frame.columns), row, strict=True):
            text = _text(column, value)
            name = "number" if number[column] else text.split(":")[0].replace(" ", "-") if column == "status" else ""
            cells.append(f"<td{_class(name)}>{escape.page(text)}</td>")
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return "\n".join([*lines, "</tbody></table></div>"])


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""


def _inline(svg: str) -> str:
    """The drawing without its XML declaration and document type."""
    return svg[svg.index("<svg") :]
