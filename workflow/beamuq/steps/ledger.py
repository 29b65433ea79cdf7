"""Sum what the jobs of a study took, as far as they were measured."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from beamuq import artifacts
from beamuq.artifacts import Artifact
from beamuq.cost import measured_costs
from beamuq.cost.measured_costs import Job
from beamuq.exhibits import wording
from beamuq.exhibits.exhibit_inputs import read_study
from beamuq.html_pages import DASH, PageSection, sections_page
from beamuq.steps.entry import run

NOTE = "Sums over the jobs whose benchmark is here, a job's last run each; peak memory is the largest job's."
SENTENCES = (
    NOTE,
    "Seconds are wall time added over jobs, which may have run side by side; those on a GPU are counted again in a "
    "column of their own. They differ from run to run, and this page with them, unlike every other result.",
    "A job that had to wait for a free card, because another run held it, counts its waiting; its log says how long.",
    "Benchmarks and tables tell CPU from GPU, not which model of either: note it where you quote the numbers.",
    "Not measured: fetching, reading questions, rendering prompts, drawing exhibits and pages; none asks a model.",
)
_HEADS = {
    "rule": "rule",
    "jobs": "jobs measured",
    "tables": "jobs of the study",
    "device": "device",
    "seconds": "wall time (s)",
    "gpu_seconds": "of it on a GPU (s)",
    "cpu_seconds": "CPU time (s)",
    "peak_memory_mb": "peak memory (MB)",
    "candidates": "candidates",
    "tokens": "tokens",
    "pairs": "pairs",
}
_DEVICES = {"": "CPU, no model", "cpu": "CPU", "cuda": "GPU (cuda)"}

Line = dict[str, str | int]


def main(argv: Sequence[str] | None = None) -> None:
    """Read the study's tables and the benchmarks beside them, write the sums by rule."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.ledger", description=__doc__)
    parser.add_argument("--study", type=Path, required=True, help="study.json")
    parser.add_argument("--tables", type=Path, nargs="+", required=True, help="every table of a measured rule")
    parser.add_argument("--csv", type=Path, required=True, help="in the folder of the study's results, which it sums")
    parser.add_argument("--markdown", type=Path, required=True)
    parser.add_argument("--html", type=Path, required=True)
    options = parser.parse_args(argv)
    study, results = read_study(options.study), options.csv.parent
    made = {str(path.relative_to(results)) for path in options.tables}
    jobs = [job for job in measured_costs.measured(results) if Artifact(job.rule, **job.cell).path in made]
    rows = lines(jobs, Counter(path.split("/")[0] for path in made))
    with artifacts.atomic(options.csv) as temporary:
        pd.DataFrame(rows).to_csv(temporary, index=False, lineterminator="\n")
    with artifacts.atomic(options.markdown) as temporary:
        temporary.write_text(markdown(rows), encoding="utf-8")
    opening = [wording.DEMO_WARNING] if study.demo else []
    section = PageSection("By rule", _shown(rows), gaps(rows), notes=SENTENCES)
    title = wording.titled(study, f"{study.title}: what it cost")
    with artifacts.atomic(options.html) as temporary:
        temporary.write_text(sections_page(title, opening, [section]), encoding="utf-8")


def lines(jobs: Sequence[Job], made: Mapping[str, int]) -> list[Line]:
    """:func:`beamuq.cost.measured_costs.ledger`, a row for every rule of ``made``: tables by rule, count and device."""
    sums: dict[str | int, Line] = {row["rule"]: row for row in measured_costs.ledger(jobs)}
    rows = []
    for rule in (*(rule for rule in measured_costs.RULES if rule in made), "total"):
        of_rule = [job for job in jobs if rule in (job.rule, "total")]
        devices = sorted({job.device for job in of_rule})
        if any(devices):
            devices = [name for name in devices if name]
        device = ", ".join(_DEVICES.get(name, name) for name in devices) or "not measured"
        count = sum(made.values()) if rule == "total" else made[rule]
        rows.append(
            dict.fromkeys(sums["total"], 0) | {"rule": rule} | sums.get(rule, {}) | {"tables": count, "device": device}
        )
    return rows


def _shown(rows: Sequence[Line]) -> pd.DataFrame:
    """The rows as the page has them; a dash for what was not measured, and for what a rule has none of."""
    shown = []
    for row in rows:
        empty = [name for name in ("candidates", "tokens", "pairs") if not row[name]]
        empty += [name for name in _HEADS if not row[name]] if not row["jobs"] else []
        shown.append({head: DASH if name in empty else row[name] for name, head in _HEADS.items()})
    return pd.DataFrame(shown)


def gaps(rows: Sequence[Line]) -> list[str]:
    """A sentence on the rules of which some or all jobs have no benchmark; none where nothing is missing."""
    without = [row for row in rows if row["rule"] != "total" and row["jobs"] != row["tables"]]
    if not without:
        return []
    told = ", ".join(
        f"{row['rule']} ({int(row['tables']) - int(row['jobs'])} of {row['tables']} jobs)" for row in without
    )
    return [
        f"No benchmark is beside the tables of: {told}. "
        "They ran elsewhere, or their benchmarks were deleted; the sums lack them."
    ]


def markdown(rows: Sequence[Line]) -> str:
    """The rows as a table of GitHub's Markdown, with a note on what they are sums of."""
    names = list(rows[0])
    body = [names, ["---"] + ["---:"] * (len(names) - 1)]
    body += [[f"{value:,}" if isinstance(value, int) else value for value in row.values()] for row in rows]
    notes = "\n\n".join([NOTE, *gaps(rows)])
    return "\n".join(f"| {' | '.join(line)} |" for line in body) + f"\n\n{notes}\n"


if __name__ == "__main__":
    run(main)
