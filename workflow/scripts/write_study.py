"""Write down the study as exhibits and pages see it."""

import json
from pathlib import Path
from typing import Any

from beamuq import io
from beamuq_study.rule_programs import run_program


def run(*, settings: dict[str, Any], study: Path) -> None:
    """Write them as JSON."""
    io.write_text(study, json.dumps(settings, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    run_program(run, output="study")
