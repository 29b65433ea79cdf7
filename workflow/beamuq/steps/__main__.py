"""``python -m beamuq.steps RULE --job TEXT``: run one job of a rule, as the plan wrote it down.

The job's last line on stderr, its log, is the greatest memory that it held.

Exit status 0: done; 2: bad input, told in one line on stderr; 143: stopped by a signal, can be gone on with.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import pkgutil
import resource
import sys
from collections.abc import Sequence
from typing import get_type_hints

import beamuq.steps
from beamuq.config_errors import validated_json
from beamuq.errors import exit_with_one_line
from beamuq.plan.job_types import MODELS, MachineOptions, read_job
from beamuq.secret_masking import mask_output


def main(argv: Sequence[str] | None = None) -> None:
    """Read the job as the type that the step's ``run`` takes, and run it.

    Raises BeamUQError if a text is not such a job, or the step refuses what it reads.
    """
    steps = sorted(module.name for module in pkgutil.iter_modules(beamuq.steps.__path__) if module.name != "__main__")
    parser = argparse.ArgumentParser(prog="beamuq.steps", description="Run one job of a rule.")
    parser.add_argument("rule", choices=steps)
    parser.add_argument("--job", required=True, help="JSON: the rule's inputs, outputs and settings")
    parser.add_argument("--machine", default="{}", help="JSON: threads, cache_root, lock, offline")
    options = parser.parse_args(argv)
    gc.disable()  # modules leave no garbage; to look for it takes a sixth of the time in which torch is imported
    run = importlib.import_module(f"beamuq.steps.{options.rule}").run
    job = read_job(get_type_hints(run)["job"], options.job)
    if job.inputs().keys() & set(MODELS):
        importlib.import_module("transformers.modeling_utils")  # with torch: most of what a step imports
    gc.freeze()
    gc.enable()
    run(job, validated_json(MachineOptions, options.machine, "--machine"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"peak memory: {peak / 1e9:.2f} GB", file=sys.stderr)


if __name__ == "__main__":
    mask_output()
    exit_with_one_line(main)
