# Loads and checks config.yaml and the study, once, before any rule is looked at.

import atexit
import os
import sys
import time
from pathlib import Path

project = Path(workflow.basedir)
if not (project / "workflow").is_dir():
    project = project.parent  # started from workflow/Snakefile
sys.path.insert(0, str(project / "workflow"))

from beamuq import run_messages
from beamuq.errors import BeamUQError, line_of
from beamuq.plan import snakemake_command
from beamuq.plan.study_on_machine import Plan

profile_folders = [Path.cwd(), project]


def refuse(error):
    print(f"error: {line_of(error)}", file=sys.stderr, flush=True)
    os._exit(2)


try:
    snakemake_command.check_config_files(sys.argv, os.environ, profile_folders)
except (BeamUQError, OSError, MemoryError) as error:
    refuse(error)


configfile: "config.yaml"


try:
    plan = Plan.load(config)
    snakemake_command.check_command(sys.argv, os.environ, profile_folders, plan.machine)
    snakemake_command.check_folders(
        *profile_folders,
        snakemake_command.deploys_software(sys.argv, os.environ, profile_folders),
    )
    # The package is found beside the Snakefile, in a virtual environment, a conda environment and on a cluster's node
    # alike. No job asks the hub: only the steps that fetch lift this, for themselves.
    shell.prefix(plan.shell_prefix(project / "workflow"))
except (BeamUQError, OSError, MemoryError) as error:
    refuse(error)

paths = plan.paths


started = time.monotonic()
if snakemake_command.is_dry_run(sys.argv):
    atexit.register(run_messages.end_of_dry_run, plan)


onstart:
    print(run_messages.opening(plan, sys.argv, os.environ, profile_folders), flush=True)


onsuccess:
    print(run_messages.closing_line(plan, time.monotonic() - started))


def in_report(caption, category, **labels):
    """Flag an output as part of the report: its caption's file, its section, and how it is told from the others."""
    return lambda path: report(
        path, caption=f"../report/{caption}", category=category, labels=labels
    )


report: "../report/workflow.rst"


wildcard_constraints:
    **plan.wildcard_patterns,
