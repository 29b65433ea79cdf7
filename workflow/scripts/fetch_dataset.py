"""Fetch one split of a hub dataset at its locked commit."""

from pathlib import Path
from typing import Any

from beamuq.models.offline import open_for_fetching
from beamuq_study.data.dataset_adapters import ADAPTERS
from beamuq_study.data.hub_dataset import downloads_in, fetch_split
from beamuq_study.rule_programs import run_program


def run(*, settings: dict[str, Any], lock: Path, split: Path, offline: bool = False) -> None:
    """Fetch; the lock file keeps the commit."""
    with downloads_in(split.parent):
        fetch_split(
            settings["source"].removeprefix("hub:"),
            settings["config"],
            settings["split"],
            split,
            adapter=ADAPTERS[settings["adapter"]],
            lock=lock,
            offline=open_for_fetching(offline=offline),
        )


if __name__ == "__main__":
    run_program(run, output="split")
