"""What a person is told around a run: the costs after a dry run, how a real one runs, where to look at its end."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from beamuq.cost import estimate
from beamuq.plan import snakemake_command
from beamuq.plan.study_on_machine import Plan


def opening(plan: Plan, argv: Sequence[str], environment: Mapping[str, str], folders: Sequence[Path]) -> str:
    """What a real run starts with: study, executor, profiles, device, costs; ``folders`` may hold profiles."""
    profiles = ", ".join(snakemake_command.profiles(argv, environment)) or "none"
    executor = snakemake_command.executor(argv, environment, folders)
    where = f"executor {executor}, profile {profiles}, {plan.jobs.device} in {plan.jobs.dtype}"
    return "\n".join([f"Study {plan.name}: {where}.", *_costs(plan)[1:]])


def closing_line(plan: Plan, seconds: float) -> str:
    """What a finished run tells: how long it took and where to look."""
    title = "".join(c if c.isprintable() else " " for c in plan.study.title)
    took = f"{title}: {int(seconds // 60)} min {int(seconds % 60)} s."
    demo = " Demo numbers show that the machinery works; they are no results of the paper." if plan.study.demo else ""
    return f"{took} Tables: {plan.paths.results}/tables/, figures: {plan.paths.figures}/.{demo}"


def end_of_dry_run(plan: Plan) -> None:
    """Print what is left to pay."""
    print("\n" + "\n".join(_costs(plan)), flush=True)


def _costs(plan: Plan) -> list[str]:
    try:
        return [*estimate.summary(plan), *stamped_in_the_future([plan.paths.results, plan.paths.figures], time.time())]
    except Exception as error:  # a courtesy must not stop a run, nor look like its failure
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        print(f"costs: cannot be told ({reason})", file=sys.stderr)
        return []


def stamped_in_the_future(folders: Sequence[Path], now: float) -> list[str]:
    """A line on results stamped in the future: what is changed before then would count as older than they are."""
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    ahead = sorted(str(path) for path in files if path.stat().st_mtime > now + 60)
    if not ahead:
        return []
    first = f"{len(ahead)} files are stamped in the future (first: {ahead[0]})"
    where = shlex.join(str(folder) for folder in folders if folder.is_dir())
    return [
        f"  clock: {first}; jobs that read them run and then fail, and changes before them go unnoticed. Mend it: "
        f"find {where} -newermt now -exec touch -d 1980-01-01 {{}} +"
    ]
