# Loads and checks config.yaml and the study, once, before any rule is looked at.

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from beamuq.cost import run_messages
from beamuq.cost import measured_costs
from beamuq.errors import BeamUQError
from beamuq.plan.jobs import FORMATS, Plan
from beamuq.plan.code_inputs import step_sources

try:
    if workflow.is_main_process:
        run_messages.check_profile(
            sys.argv, [workflow.workdir_init, workflow.basedir, Path.cwd()]
        )
    plan = Plan.load(config)
    if workflow.is_main_process:
        run_messages.settle_cards(workflow, plan, run_messages.executor())
except BeamUQError as error:
    print(f"error: {error}", file=sys.stderr, flush=True)
    os._exit(2)


# The package is found beside the Snakefile, in a virtual environment, a conda environment and on a cluster's node alike.
# No job asks the hub: only the steps that fetch lift this, for themselves.
shell.prefix(
    f'set -euo pipefail; {plan.exports}; export PYTHONPATH="{workflow.basedir}/workflow:{plan.plugins_folder}${{{{PYTHONPATH:+:$PYTHONPATH}}}}"; '
)


started = time.monotonic()
run_messages.at_exit(workflow, plan)


onstart:
    print(run_messages.opening(workflow, plan, sys.argv), flush=True)
    if not workflow.touch:
        measured_costs.forget(
            plan, workflow.dag.needrun_jobs(exclude_finished=False)
        )


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
