# Loads and checks config.yaml and the study, once, before any rule is looked at.

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from beamuq.errors import BeamUQError
from beamuq.plan import FORMATS, Plan
from beamuq.sources import step_sources

try:
    plan = Plan.load(config)
except BeamUQError as error:
    print(f"error: {error}", file=sys.stderr, flush=True)
    os._exit(2)


# The package is found beside the Snakefile, in a virtual environment, a conda environment and on a cluster's node alike.
shell.prefix(
    f'set -euo pipefail; export PYTHONPATH="{workflow.basedir}/workflow:{plan.plugins_folder}${{{{PYTHONPATH:+:$PYTHONPATH}}}}"; '
)


started = time.monotonic()


onsuccess:
    print(plan.closing_line(time.monotonic() - started))


report: "../report/workflow.rst"


pathvars:
    results=plan.results,
    figures=plan.figures,
    logs=f"logs/{plan.name}",
    benchmarks=f"{plan.results}/benchmarks",
    models=plan.machine.models_root,
    datasets=plan.machine.datasets_root,


wildcard_constraints:
    **plan.patterns,
