"""Tell what was fetched for a study: size on disk, licence and gate of every model, scorer and dataset."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from beamuq import artifacts
from beamuq.cost.downloads import Holding, holdings
from beamuq.models.hub_download import readable
from beamuq.plan.jobs import Plan
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read manifests, splits and the lock file, write the page."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.fetched", description=__doc__)
    parser.add_argument("--settings", type=json.loads, required=True, help="JSON: the machine's config.yaml")
    parser.add_argument("--page", type=Path, required=True, help="Markdown to write")
    options = parser.parse_args(argv)
    plan = Plan.load(options.settings)
    with artifacts.atomic(options.page) as temporary:
        temporary.write_text(page(plan.study.title, holdings(plan)), encoding="utf-8")


def page(title: str, held: Sequence[Holding]) -> str:
    """The holdings as a table of GitHub's Markdown, with their sum."""
    rows = [
        ("for", "source", "revision", "size", "licence", "gated"),
        ("---", "---", "---", "---:", "---", "---"),
        *((one.use, one.source, one.revision[:12], readable(one.size), one.licence, one.gated) for one in held),
    ]
    body = "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows)
    total = readable(sum(one.size for one in held))
    return (
        f"# What “{title}” is made of\n\n{body}\n\n{total} on this disk. Licences are those that the packages and the "
        "hub's cards name; for datasets the study's own word stands first. `unknown`: nobody named one, so ask the "
        "owner before you pass anything on.\n"
    )


if __name__ == "__main__":
    run(main)
