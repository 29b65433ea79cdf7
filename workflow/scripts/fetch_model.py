"""Fetch one model into its folder."""

from pathlib import Path
from typing import Any

from beamuq.models.model_source import fetch_model
from beamuq.models.offline import open_for_fetching
from beamuq_study.rule_programs import run_program


def run(*, settings: dict[str, Any], model: Path, lock: Path, offline: bool = False) -> None:
    """Fetch; ``model`` is the manifest in the model's folder."""
    offline = open_for_fetching(offline=offline)
    weights = settings.get("weights", True)
    fetch_model(settings["source"], model.parent, lock=lock, offline=offline, weights=weights)


if __name__ == "__main__":
    run_program(run, output="model")
