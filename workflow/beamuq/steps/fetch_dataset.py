"""Fetch one split of a hub dataset at its locked commit."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from beamuq.data.dataset_adapters import load_adapter
from beamuq.data.hub_dataset import fetch_split
from beamuq.errors import BeamUQError
from beamuq.models.offline_and_secrets import mask_output, open_for_fetching
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options and fetch."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.fetch_dataset", description=__doc__)
    parser.add_argument("--settings", required=True, help="JSON: source (hub:ORG/NAME), config (or null), adapter")
    parser.add_argument("--lock", type=Path, required=True, help="studies/NAME.lock.json")
    parser.add_argument("--offline", action="store_true", help="never ask the hub")
    parser.add_argument("--split-name", required=True, help="as the hub calls it")
    parser.add_argument("--split", type=Path, required=True, help="Parquet file to write")
    options = parser.parse_args(argv)
    try:
        settings = json.loads(options.settings)
        source, config, name = settings["source"], settings["config"], settings["adapter"]
    except (ValueError, KeyError, TypeError) as error:
        raise BeamUQError(f"--settings {options.settings}: must be JSON with source, config and adapter") from error
    if not str(source).startswith("hub:"):
        raise BeamUQError(f"--settings: source: {source!r}: only hub:ORG/NAME is fetched")
    fetch_split(
        source.removeprefix("hub:"),
        config,
        options.split_name,
        options.split,
        adapter=load_adapter(name),
        lock=options.lock,
        offline=open_for_fetching(offline=options.offline),
    )


if __name__ == "__main__":
    mask_output()
    run(main)
