"""Tell what was fetched for a study: size on disk, licence and gate of every model, scorer and dataset."""

from __future__ import annotations

from collections.abc import Sequence

from beamuq import parquet_tables
from beamuq.cost.download_sizes import FetchedSource, fetched_sources
from beamuq.exhibits.markdown_table import escape, line
from beamuq.models.hub_download import readable
from beamuq.plan.job_types import FetchedPageJob, MachineOptions
from beamuq.plan.study_on_machine import Plan


def run(job: FetchedPageJob, machine: MachineOptions) -> None:  # noqa: ARG001  (as every step's)
    """Read manifests, splits and the lock file, write the page in Markdown."""
    plan = Plan.load(job.machine)
    parquet_tables.write_text(job.page, page(plan.study.title, fetched_sources(plan)))


def page(title: str, held: Sequence[FetchedSource]) -> str:
    """The fetched_sources as a table of GitHub's Markdown, with their sum."""
    names, sides = ("for", "source", "revision", "size", "licence", "gated"), ("---",) * 3 + ("---:",) + ("---",) * 2
    rows = [(one.use, one.source, one.revision[:12], readable(one.size), one.licence, one.gated) for one in held]
    body = "\n".join([line(names), line(sides), *(line(map(escape, row)) for row in rows)])
    total = readable(sum(one.size for one in held))
    return (
        f"# What “{escape(title)}” is made of\n\n{body}\n\n{total} on this disk. "
        "Licences are those that the packages and the hub's cards name; for datasets the study's own word stands "
        "first. `unknown`: nobody named one, so ask the owner before you pass anything on.\n"
    )
