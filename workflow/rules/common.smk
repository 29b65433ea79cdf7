# Loads and checks config.yaml and the study, once, before any rule is looked at.

import os
import sys
from pathlib import Path

from snakemake.exceptions import WorkflowError
from snakemake.settings.types import DeploymentMethod

# of this file, not of the Snakefile that was started: another workflow may use this one as a module
rules_folder = Path(workflow.current_basedir.get_path_or_uri(secret_free=False))
project = rules_folder.parents[1]
sys.path[:0] = [str(project / "src"), str(project / "workflow")]

from beamuq.errors import BeamUQError, line_of
from beamuq_study.plan.code_hashes import code_hash
from beamuq_study.plan.stage_settings import FORMATS
from beamuq_study.plan.study_on_machine import Plan, not_compared, path_to_python


configfile: "config.yaml"


try:
    plan = Plan.load(config)
    environment = plan.environment(project / "src", project / "workflow")
    deployed = workflow.deployment_settings.deployment_method
    if not {DeploymentMethod.CONDA, DeploymentMethod.APPTAINER}.intersection(deployed):
        # no environment or image brings a `python` of its own: jobs run in the one that runs Snakemake
        environment["PATH"] = path_to_python(sys.executable)
except (BeamUQError, OSError) as error:
    print(f"error: {line_of(error)}", file=sys.stderr, flush=True)
    os._exit(2)

# The package is found beside the Snakefile, in a virtual environment, a conda environment and on a cluster's node
# alike. No job asks the hub: only the programs that fetch lift this, for themselves.
os.environ.update(environment)

settings = plan.settings  # of each rule's jobs
files = plan.files  # inputs that depend on the study
SCRIPTS = os.path.relpath(project / "workflow" / "scripts")
MODELS, DATASETS = Path(plan.machine.models_root), Path(plan.machine.datasets_root)
CACHE, LOCK = plan.machine.cache_root, plan.paths.lock


onstart:
    if plan.machine.device == "auto" and not workflow.local_exec:
        raise WorkflowError(
            'config.yaml: device: "auto": each node of a cluster would choose for itself; say --config device=cuda or '
            "device=cpu"
        )


onsuccess:
    places = (plan.paths.results / "tables", Path("figures", plan.name))
    made = [f"{place}/" for place in places if place.is_dir()]
    if made:
        print(f"Tables and figures: {', '.join(made)}")


def in_report(path, caption, category="0 Study", **labels):
    """An output as part of the report: its caption's file, its section, and how it is told from the others."""
    caption = f"../report/{caption}"
    return report(path, caption=caption, category=category, labels=labels)


report: "../report/workflow.rst"


wildcard_constraints:
    **plan.wildcard_patterns,
