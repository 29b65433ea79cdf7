"""What a person is told around a run: costs after a dry run, how it runs before a real one, and misspelt names.

Snakemake prints jobs and nothing else; it runs no hook in a dry run, ignores a workflow profile that it does not find,
and suggests nothing for a target it does not know. What is said here is a courtesy and never stops or slows a run;
only the checks refuse one, before it starts.
"""

from __future__ import annotations

import atexit
import inspect
import os
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from beamuq.cost import measured_costs
from beamuq.cost.downloads import Downloads, downloads
from beamuq.errors import BeamUQError, hint, nearest
from beamuq.models import wait_for_gpu
from beamuq.models.hub_download import readable
from beamuq.plan.jobs import Plan

NO_SAMPLE = "No measured sample yet, so no time is predicted: run the demo (`make demo`), then ask again."
SECONDS = 1.0  # for reading the sample
SUFFIXES = {"tables": ("csv", "tex", "md", "html"), "figures": ("pdf", "svg", "png", "csv", "txt")}


def at_exit(workflow: Any, plan: Plan) -> None:
    """Have the last word of this Snakemake, if it is the one that a person started."""
    if workflow.is_main_process:
        atexit.register(_last_word, workflow, plan)


def _last_word(workflow: Any, plan: Plan) -> None:
    try:
        if workflow.dryrun and workflow.scheduler is not None and not _quiet(workflow):
            print("\n" + "\n".join(costs(plan, list(workflow.dag.needrun_jobs(exclude_finished=False)))), flush=True)
        elif workflow.executor_plugin is not None and workflow.scheduler is None:
            for line in misspelt(workflow, plan):
                print(line, file=sys.stderr, flush=True)
    except Exception as error:  # the run is over: whatever goes wrong here must not look like its failure
        print(f"costs: cannot be told ({_one_line(error)})", file=sys.stderr)


def opening(workflow: Any, plan: Plan, argv: Sequence[str]) -> str:
    """What a real run starts with: study, executor, profiles, device, costs."""
    profiles = ", ".join(profiles_of(argv)) or "none"
    where = f"executor {workflow.executor_plugin.name}, profile {profiles}, {plan.device} in {plan.dtype}"
    how = f"Study {plan.name}: {where}."
    try:
        jobs = list(workflow.dag.needrun_jobs(exclude_finished=False))
        return "\n".join([how, *costs(plan, jobs)[1:]])
    except Exception as error:  # a courtesy must not stop the run
        return f"{how}\ncosts: cannot be told ({_one_line(error)})"


def costs(plan: Plan, jobs: Iterable[Any]) -> list[str]:
    """Time, disk and downloads of the jobs that are still to run."""
    left = {_key(job.rule.name, job.wildcards_dict) for job in jobs}
    fetching = any(rule in ("fetch_model", "fetch_dataset") for rule, *_ in left)
    lines = [f"Costs of what is left of study {plan.name}, estimated:"]
    sample = measured_costs.sample_of(Path(plan.results).parent, plan.name, SECONDS)
    if not any(rule in measured_costs.RULES for rule, *_ in left):
        lines.append("  time: no model has to run")
    elif sample is None:
        lines.append(f"  time: {NO_SAMPLE[0].lower()}{NO_SAMPLE[1:]}")
    else:
        rows = measured_costs.predict(plan, sample.jobs, sample.titles, left)
        heavy = [row for row in rows if row.rule in ("candidates", "statistics", "similarity", "quality")]
        unit = "GPU-hours" if sample.device == "cuda" else f"hours on one {sample.device}"
        known = sum(row.seconds or 0.0 for row in heavy) / 3600
        unknown = [f"{row.rule} ({row.note})" for row in heavy if row.note]
        basis = f"scaled from {len(sample.jobs)} jobs of {sample.folder}, measured on {sample.device}"
        without = f", without {', '.join(unknown)}" if unknown else ""
        lines.append(f"  time: {known:,.2f} {unit}{without}; {basis}")
        lines.append(f"  disk: {readable(sum(row.size for row in rows))} of results")
    lines.append(f"  downloads: {told(downloads(plan)) if fetching else 'none'}")
    return lines + skewed([Path(plan.results), Path(plan.figures)], time.time())


def skewed(folders: Sequence[Path], now: float) -> list[str]:
    """A line on results stamped in the future: what is changed before then would count as older than they are."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    ahead = sorted(str(path) for path in files if path.stat().st_mtime > now + 60)
    if not ahead:
        return []
    first = f"{len(ahead)} files are stamped in the future (first: {ahead[0]})"
    where = " ".join(str(folder) for folder in folders if folder.is_dir())
    return [
        f"  clock: {first}; jobs that read them run and then fail, and changes before them go unnoticed. Mend it: "
        f"find {where} -newermt now -exec touch -d 1980-01-01 {{}} +"
    ]


def told(what: Downloads) -> str:
    """The downloads in words."""
    parts = [f"{what.count} models and dataset splits"]
    if what.size or not what.unknown:
        parts.append(readable(what.size) + (" of known size" if what.unknown else ""))
    if what.unknown:
        few = f" ({', '.join(what.unknown)})" if len(what.unknown) < 4 else ""
        guess = f", about {readable(what.guess)} for the models whose titles name their size" if what.guess else ""
        parts.append(f"size of {len(what.unknown)} sources unknown until asked{few}{guess}")
    return "; ".join(parts)


def profiles_of(argv: Sequence[str]) -> list[str]:
    """The profiles that a command line or the environment names."""
    named = [value for option in ("--profile", "--workflow-profile") for value in _values(argv, option)]
    return named or [name for name in [os.environ.get("SNAKEMAKE_PROFILE", "")] if name]


def check_profile(argv: Sequence[str], folders: Iterable[Path]) -> None:
    """Refuse a workflow profile that Snakemake would not find and therefore, without a word, run without.

    Raises
    ------
    BeamUQError
        Naming the profile, and the one that was probably meant.
    """
    places = [Path(folder) for folder in folders]
    for name in _values(argv, "--workflow-profile"):
        tried = [place / base / name for place in places for base in ("", "profiles")]
        if name == "none" or any(path.exists() for path in tried):
            continue
        there = sorted({path.parent.name for place in places for path in place.glob("profiles/*/profile.yaml")})
        known = [f"profiles/{folder}" for folder in there]
        raise BeamUQError(f"--workflow-profile {name}: no such profile; {hint(f'profiles/{Path(name).name}', known)}")


def executor() -> Any:
    """The executor plugin of the Snakemake that reads this Snakefile; None where no command line started it.

    Snakemake tells a Snakefile its executor only when the jobs are planned, and in a dry run never: it is read where
    the command line became calls.
    """
    for frame in inspect.stack(0):
        if frame.function == "args_to_api" and "executor_plugin" in frame.frame.f_locals:
            return frame.frame.f_locals["executor_plugin"]
    return None


def settle_cards(workflow: Any, plan: Plan, plugin: Any) -> None:
    """Let no more jobs start here than there are cards for, where no limit was given; elsewhere want a device named.

    ``plugin`` is that of :func:`executor`. A job waits for a card in any case; the limit keeps that out of its time.

    Raises
    ------
    BeamUQError
        Where jobs run on other machines and the device is ``auto``, or where ``nvidia-smi`` does not answer.
    """
    if plugin is None:
        return
    if not plugin.common_settings.local_exec:
        if plan.machine.device == "auto":
            raise BeamUQError(
                f'config.yaml: device: "auto": with the executor {plugin.name} each node would choose for itself; say '
                "--config device=cuda or device=cpu"
            )
    elif plan.gpus and "gpu" not in workflow.global_resources and (cards := wait_for_gpu.usable_cards()):
        workflow.register_resource("gpu", len(cards))


def _values(argv: Sequence[str], option: str) -> list[str]:
    following = [argv[index + 1] for index, word in enumerate(argv[:-1]) if word == option]
    return following + [word.partition("=")[2] for word in argv if word.startswith(f"{option}=")]


def misspelt(workflow: Any, plan: Plan) -> list[str]:
    """A line for each target that is no rule, no file and no output of any rule."""
    rules = {rule.name: rule for rule in workflow.rules}
    lines = []
    for target in map(str, workflow.dag_settings.targets or ()):
        if target in rules or Path(target).exists() or any(rule.is_producer(target) for rule in rules.values()):
            continue
        parts = Path(target).parts
        if len(parts) > 2 and parts[0] in ("results", "figures") and parts[1] != plan.name:
            fix = f"this run is of study {plan.name}; say --config study={parts[1]}"
        else:
            near = nearest(target, [*rules, *_files(plan)])
            fix = f"did you mean {near}?" if near else "`snakemake --list-target-rules` names what can be asked for"
        lines.append(f"error: {target}: no rule and no file of this study; {fix}")
    return lines


def _files(plan: Plan) -> list[str]:
    """Every file that a person is likely to ask for by name."""
    exhibits = [(plan.results + "/tables", "table", "tables"), (plan.figures, "figure", "figures")]
    return [
        f"{folder}/{name}.{suffix}"
        for folder, kind, key in exhibits
        for name in plan.exhibits(kind)
        for suffix in SUFFIXES[key]
    ] + [*plan.evaluations(), *plan.generations(), *plan.fetched()]


def _key(rule: str, wildcards: dict[str, str]) -> measured_costs.JobKey:
    """A job as :func:`beamuq.cost.measured_costs.predict` knows it; a shard counts as its whole."""
    names = [wildcards.get(name, "") for name in ("model", "dataset", "recipe", "scorer")]
    return (rule.removesuffix("_shard"), names[0], names[1], names[2], names[3])


def _quiet(workflow: Any) -> bool:
    return any(str(what).lower().endswith("all") for what in workflow.output_settings.quiet or ())


def _one_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
