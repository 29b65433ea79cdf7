"""One job per graphics card, whoever starts the jobs: one lock per card, which the kernel frees with the process.

Snakemake counts cards but never says which one a job gets, and counts nothing where no limit was given. So each job
that is to run on a card takes a free one by an exclusive lock, waits while there is none, and sees no other card
(``CUDA_VISIBLE_DEVICES``). Jobs queue for cards: only the first of them takes any, so that no two that need several
wait for each other's. The locks are the machine's, not the project's. In a scheduler's job its own binding holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from beamuq.errors import BeamUQError, reading

VISIBLE = "CUDA_VISIBLE_DEVICES"
SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "COBALT_JOBID")
POLL_SECONDS = 0.5

_held: list[int] = []


def bind(device: str, environment: MutableMapping[str, str] = os.environ, *, cards: int = 1) -> None:
    """Wait for a free card, or so many ``cards``, keep them until this process ends, and hide the others from it.

    Call before CUDA is first asked anything. Does nothing for ``cpu``, where ``nvidia-smi`` lists no card, in a
    scheduler's job that was given cards, and when called again. A ``CUDA_VISIBLE_DEVICES`` set by hand says which
    cards there are to choose from.

    Raises BeamUQError if ``nvidia-smi`` does not answer, or the machine has fewer cards.
    """
    if device == "cpu" or _held or (VISIBLE in environment and any(name in environment for name in SCHEDULERS)):
        return
    choice = usable_cards(environment)
    if not choice:
        return
    if len(choice) < cards:
        raise BeamUQError(f"cards: {cards}: this machine has {len(choice)} to choose from; ask for fewer")
    folder = Path(tempfile.gettempdir()) / "beamuq-gpu-slots"
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)  # of all users of the machine
    begun, announced = time.monotonic(), False
    locks = {name: _open(folder / name) for name in ("queue", *choice)}
    taken: list[str] = []
    while len(taken) < cards:
        if _is_had(locks["queue"]):
            for name in choice:
                if len(taken) < cards and name not in taken and _is_had(locks[name]):
                    taken.append(name)
        if len(taken) < cards:
            if not announced:
                print(f"too many of {len(choice)} cards are taken; waiting", file=sys.stderr, flush=True)
            announced = True
            time.sleep(POLL_SECONDS)
    if announced:
        print(f"waited {time.monotonic() - begun:.0f} seconds for a card", file=sys.stderr, flush=True)
    _held.extend(locks[name] for name in taken)
    for name in locks.keys() - taken:
        os.close(locks[name])
    environment[VISIBLE] = ",".join(choice[name] for name in choice if name in taken)


def usable_cards(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The machine's cards that ``CUDA_VISIBLE_DEVICES`` leaves to a job: UUID → what would select it there.

    A card is the same whether it is called by number or by UUID. As CUDA does, -1 hides itself and what follows.

    Raises BeamUQError if ``nvidia-smi`` does not answer.
    """
    listed = _listed_cards()
    if VISIBLE not in environment or not listed:
        return {card: card for card in listed}
    selectors = {}
    for entry in filter(None, map(str.strip, environment[VISIBLE].split(","))):
        if entry == "-1":
            break
        named = [card for number, card in enumerate(listed) if entry == str(number) or card.startswith(entry)]
        selectors[named[0] if named else entry.replace("/", "_")] = entry  # else a part of a card, which is its own
    return selectors


def _listed_cards() -> list[str]:
    """The UUIDs of the machine's cards in ``nvidia-smi``'s order; empty where it is not there or finds none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=uuid", "--format=csv,noheader"]
    with reading(program, "a driver that answers", "restart the machine, or set device: cpu in config.yaml"):
        done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)
    return done.stdout.split() if done.returncode == 0 else []


def _is_had(lock: int) -> bool:
    """Whether a lock could be taken, or is this process's already."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: Path) -> int:
    """A descriptor to lock, of our own file or another user's: a lock needs no right to write."""
    return os.open(path, os.O_CREAT | os.O_RDONLY | os.O_NOFOLLOW, 0o444)
