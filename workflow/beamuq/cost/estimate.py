"""What a study would still take: jobs, downloads, and time and disk scaled from its own jobs measured so far.

Nothing here is a promise. A job to come is taken to cost, for each question, what the measured ones like it did on the
device they ran on; a job of which none like it was measured is named and not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from beamuq.cost.download_sizes import downloads
from beamuq.cost.measured_jobs import RULES, Benchmark, benchmark_of
from beamuq.models.hub_download import readable
from beamuq.parquet_tables import Artifact, read_footer
from beamuq.plan.study_on_machine import Plan

# Jobs of a rule are alike where these are equal: what a question costs depends on them more than on the rest.
ALIKE: dict[str, tuple[str, ...]] = {
    "candidates": ("model", "recipe"),
    "statistics": ("model", "recipe"),
    "similarity": ("scorer", "recipe"),
    "quality": ("metric",),
    "scores": ("recipe",),
    "evaluation": ("recipe",),
}
NOTHING_MEASURED = "unknown; nothing like what is left was measured here yet, so run one dataset, then ask again"


@dataclass(frozen=True)
class RuleEstimate:
    """What is left of one rule: seconds and bytes of the jobs like measured ones; ``unknown`` names the others."""

    rule: str
    jobs: int
    seconds: float
    cpu_seconds: float
    size: float
    unknown: tuple[str, ...]


def tables_left(plan: Plan) -> list[Artifact]:
    """The tables of measured rules that are not there yet."""
    return [artifact for artifact in plan.grid.measured if not plan.paths.table(artifact).is_file()]


def estimates(plan: Plan, left: Sequence[Artifact]) -> list[RuleEstimate]:
    """An estimate for every rule that writes any of the tables ``left``."""
    measured = {
        artifact: (took, plan.paths.table(artifact).stat().st_size)
        for artifact in plan.grid.measured
        if (took := benchmark_of(plan.paths.results, artifact)) is not None
    }
    return [
        _estimate(plan, rule, of_rule, measured)
        for rule in RULES
        if (of_rule := [artifact for artifact in left if artifact.kind == rule])
    ]


def _estimate(
    plan: Plan, rule: str, left: Sequence[Artifact], measured: dict[Artifact, tuple[Benchmark, int]]
) -> RuleEstimate:
    seconds = cpu_seconds = size = 0.0
    unknown = []
    for artifact in left:
        alike = [other for other in measured if _key(other) == _key(artifact)]
        if not alike:
            unknown.append("/".join(_key(artifact)[1:]))
            continue
        share = _questions(plan, artifact) / sum(_questions(plan, other) for other in alike)
        seconds += share * sum(measured[other][0].seconds for other in alike)
        cpu_seconds += share * sum(measured[other][0].cpu_seconds for other in alike)
        size += share * sum(measured[other][1] for other in alike)
    return RuleEstimate(rule, len(left), seconds, cpu_seconds, size, tuple(dict.fromkeys(unknown)))


def _key(artifact: Artifact) -> tuple[str, ...]:
    return (artifact.kind, *(str(getattr(artifact, name)) for name in ALIKE[artifact.kind]))


def _questions(plan: Plan, artifact: Artifact) -> int:
    return plan.grid.cell(artifact.model, artifact.dataset, artifact.recipe).questions


def measured_on(plan: Plan) -> str:
    """The device that the study's candidates so far were decoded on; "" where there are none."""
    there = [table for table in plan.generations if table.is_file()]
    return "/".join(sorted({str(read_footer(table).provenance.get("device") or "") for table in there}))


def summary(plan: Plan) -> list[str]:
    """Time, disk and downloads of what is left, in a few lines."""
    found = estimates(plan, tables_left(plan))
    lines = [f"Costs of what is left of study {plan.name}, estimated:"]
    if not found:
        lines.append("  time: no model has to run")
    else:
        unknown = [f"{row.rule} of {name}" for row in found for name in row.unknown]
        few = "; ".join(unknown[:3]) + (f"; and {len(unknown) - 3} more" if len(unknown) > 3 else "")
        without = f"; without what nothing like it was measured here: {few}" if unknown else ""
        hours = sum(row.seconds for row in found) / 3600
        told = f"{hours:,.2f} hours of jobs on {measured_on(plan)}{without}" if hours else NOTHING_MEASURED
        lines.append(f"  time: {told}")
        lines.append(f"  disk: {readable(sum(row.size for row in found))} of results")
    to_fetch = any(not file.is_file() for file in plan.jobs.fetched)
    return [*lines, f"  downloads: {downloads(plan) if to_fetch else 'none'}"]


def report(plan: Plan) -> list[str]:
    """What a study would run, fetch and take, rule by rule."""
    missing = [file for file in plan.jobs.fetched if not file.is_file()]
    lines = [
        f"Study {plan.name}: {len(plan.grid.cells)} generations, {len(plan.tables)} tables, "
        f"{len(plan.figures)} figures. It would run here on {plan.jobs.device} in {plan.jobs.dtype}.",
        f"To fetch: {len(missing)} of {len(plan.jobs.fetched)} models and dataset splits{':' if missing else '.'}",
        *(f"  {file}" for file in missing),
        *([f"Downloads: {downloads(plan)}."] if missing else []),
        "",
    ]
    rows = estimates(plan, tables_left(plan))
    if any(row.seconds for row in rows):
        lines += [
            f"PREDICTION, not a measurement: what is left, scaled by questions from this study's own jobs, run on "
            f"{measured_on(plan)}.",
            "Another device, batch or length of answers takes another time.",
            "",
        ]
    lines.append(f"{'rule':<12}{'jobs left':>10}{'hours':>10}{'CPU hours':>11}{'disk MB':>9}")
    for row in rows:
        numbers = f"{row.seconds / 3600:>10.2f}{row.cpu_seconds / 3600:>11.2f}{row.size / 1e6:>9.1f}"
        note = f"  not measured yet: {', '.join(row.unknown)}" if row.unknown else ""
        lines.append(f"{row.rule:<12}{row.jobs:>10}{numbers}{note}")
    if any(row.unknown for row in rows):
        lines.append("To measure what is not, run one dataset of each model, for example one evaluation of the grid.")
    return lines
