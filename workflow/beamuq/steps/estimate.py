"""Tell what a study would run, fetch and take, before anything starts."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from beamuq.cost import measured_costs, run_messages
from beamuq.cost.downloads import downloads
from beamuq.plan.jobs import Plan
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Print jobs, downloads and a prediction scaled from a measured study."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.estimate", description=__doc__)
    parser.add_argument("--settings", type=json.loads, required=True, help="JSON: the machine's config.yaml")
    parser.add_argument("--results", type=Path, required=True, help="the folder of results of all studies")
    options = parser.parse_args(argv)
    plan = Plan.load(options.settings)
    sample = measured_costs.sample_of(options.results, plan.name)
    print("\n".join(_planned(plan) + (_predicted(plan, sample) if sample else [run_messages.NO_SAMPLE])))


def _planned(plan: Plan) -> list[str]:
    """What is known without a measurement: jobs, downloads, weights."""
    missing = [file for file in plan.fetched() if not Path(file).is_file()]
    return [
        f"Study {plan.name}: {len(plan.cells)} generations, {len(plan.tables())} tables, "
        f"{len(plan.drawn_figures())} figures. It would run here on {plan.device} in {plan.dtype}.",
        f"To fetch: {len(missing)} of {len(plan.fetched())} models and dataset splits{':' if missing else '.'}",
        *(f"  {file}" for file in missing),
        *([f"Downloads: {run_messages.told(downloads(plan))}."] if missing else []),
        *_weights(plan),
        "",
    ]


def _predicted(plan: Plan, sample: measured_costs.Sample) -> list[str]:
    """The prediction by rule, scaled from the sample."""
    jobs, device = sample.jobs, sample.device
    predictions = measured_costs.predict(plan, jobs, sample.titles)
    lines = [
        f"PREDICTION, not a measurement: scaled from {len(jobs)} jobs of {sample.folder}, run on {device}. It is what",
        "that device would take; another device, batch or length of answers takes another time.",
        "",
        f"{'rule':<12}{'jobs':>6}{'tokens':>15}{'pairs':>14}{'hours':>10}{'CPU hours':>11}{'disk MB':>9}",
    ]
    for row in predictions:
        lines.append(
            f"{row.rule:<12}{row.jobs:>6}{row.tokens or '':>15}{row.pairs or '':>14}"
            f"{_hours(row.seconds):>10}{_hours(row.cpu_seconds):>11}{row.size / 1e6:>9.1f}"
            + (f"  {row.note}" if row.note else "")
        )
    known = [row.seconds for row in predictions if row.seconds is not None]
    rest = "" if len(known) == len(predictions) else ", without the rules that the sample cannot tell of"
    peak = max(jobs, key=lambda job: job.memory_mb)
    return [
        *lines,
        "",
        f"Sum: {_hours(sum(known))} hours on one {device}{rest}. Largest job of the sample: {peak.memory_mb:.0f} MB "
        f"({peak.rule}).",
    ]


def _weights(plan: Plan) -> list[str]:
    """How large the models are that name their size."""
    used = {cell.model for cell in plan.cells.values()}
    sizes = [
        (model.title, size)
        for key, model in plan.study.models.items()
        if key in used and (size := measured_costs.parameters(model.title))
    ]
    return [f"Weights of {title} in bfloat16: about {2 * size / 1e9:.1f} GB" for title, size in sizes]


def _hours(seconds: float | None) -> str:
    return "?" if seconds is None else f"{seconds / 3600:.2f}"


if __name__ == "__main__":
    run(main)
