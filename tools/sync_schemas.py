"""Write the JSON schemas of config.yaml and studies from the typed models; ``--check`` compares."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from beamuq_study.machine_config import Machine
from beamuq_study.study_config import Study

FOLDER = Path(__file__).resolve().parents[1] / "workflow" / "schemas"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of write")
    check = parser.parse_args().check
    for name, model in {"config": Machine, "study": Study}.items():
        path = FOLDER / f"{name}.schema.json"
        text = json.dumps(model.model_json_schema(), indent=2) + "\n"
        if not check:
            path.write_text(text, encoding="utf-8")
        elif path.read_text(encoding="utf-8") != text:
            sys.exit(
                f"workflow/schemas/{path.name} is out of step with the typed model; run python "
                "tools/sync_schemas.py"
            )


if __name__ == "__main__":
    main()
