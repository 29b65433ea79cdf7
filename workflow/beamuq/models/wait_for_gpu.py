"""One job a graphics card, whoever starts the jobs: a lock a card that the kernel frees with the process.

Snakemake counts cards but never says which one a job gets, and counts nothing where no limit was given. So each job
that is to run on a card takes a free one by an exclusive lock, waits while there is none, and sees no other card
(``CUDA_VISIBLE_DEVICES``). A job that needs several keeps those that it has until it has them all; only one such job
collects at a time, so no two wait for each other's. The locks are the machine's, not the project's: two Snakemakes in
two folders share cards too. In a scheduler's job its own binding stands and no lock is taken.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

from beamuq.errors import BeamUQError

VISIBLE = "CUDA_VISIBLE_DEVICES"
SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "COBALT_JOBID")
POLL_SECONDS = 0.5
PATIENCE_SECONDS = 60

COLLECTING = "several"  # the lock of the one job that collects cards

_held: list[int] = []


def bind(device: str, environment: MutableMapping[str, str] = os.environ, *, cards: int = 1) -> None:
    """Wait for a free card, or so many ``cards``, keep them until this process ends, and hide the others from it.

    Call before CUDA is first asked anything. Does nothing for ``cpu``, where ``nvidia-smi`` lists no card, in a
    scheduler's job that was given cards, and when called again. A ``CUDA_VISIBLE_DEVICES`` set by hand says which
    cards there are to choose from.

    Raises BeamUQError if ``nvidia-smi`` does not answer, or the machine has fewer cards.
    """
    if device == "cpu" or _held or _is_bound(environment):
        return
    choice = _choice(environment.get(VISIBLE), listed_cards())
    if not choice:
        return
    if len(choice) < cards:
        raise BeamUQError(f"cards: {cards}: this machine has {len(choice)} to choose from; ask for fewer")
    taken = _free(choice, cards, slot_folder())
    _held.extend(taken.values())
    environment[VISIBLE] = ",".join(choice[name] for name in choice if name in taken)


def slot_folder() -> Path:
    """Where this machine's locks lie, for all of its users."""
    return Path(tempfile.gettempdir()) / "beamuq-gpu-slots"


def usable_cards(environment: Mapping[str, str] = os.environ) -> list[str]:
    """The machine's cards that ``CUDA_VISIBLE_DEVICES`` leaves to a job, as it would name them.

    Raises BeamUQError if ``nvidia-smi`` does not answer.
    """
    listed = listed_cards()
    return list(_choice(environment.get(VISIBLE), listed).values()) if listed else []


def listed_cards() -> list[str]:
    """The UUIDs of the machine's cards in ``nvidia-smi``'s order; empty where it is not there or finds none.

    Raises BeamUQError if ``nvidia-smi`` does not answer.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=PATIENCE_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise BeamUQError(
            f"{program}: did not answer in {PATIENCE_SECONDS} seconds, the driver hangs; restart the machine, or set "
            "device: cpu in config.yaml"
        ) from error
    return done.stdout.split() if done.returncode == 0 else []


def _is_bound(environment: Mapping[str, str]) -> bool:
    return VISIBLE in environment and any(name in environment for name in SCHEDULERS)


def _choice(visible: str | None, listed: Sequence[str]) -> dict[str, str]:
    """Cards to choose from: the lock's name → the value of ``CUDA_VISIBLE_DEVICES`` that selects it.

    A card has one lock whether it is called by number or by UUID. As CUDA does, -1 hides itself and what follows.
    """
    if visible is None:
        return {card: card for card in listed}
    found = {}
    for entry in filter(None, (part.strip() for part in visible.split(","))):
        if entry == "-1":
            break
        named = [card for card in listed if card.startswith(entry)]
        if entry.isdigit() and int(entry) < len(listed):
            named = [listed[int(entry)]]
        found[named[0] if len(named) == 1 else entry] = entry
    return found


def _free(names: Mapping[str, str], count: int, folder: Path) -> dict[str, int]:
    """The first ``count`` names whose locks could be had, and the descriptors that hold them; waits for them."""
    with contextlib.suppress(FileExistsError):
        folder.mkdir()
        folder.chmod(0o1777)
    locks = {name: _open(folder / re.sub(r"[^\w.-]", "_", name)) for name in names}
    collecting = _open(folder / COLLECTING)
    taken: dict[str, int] = {}
    wanted = "a card" if count == 1 else f"{count} cards"
    begun = None
    while True:
        if count == 1 or _had(collecting):
            for name, lock in locks.items():
                if len(taken) < count and name not in taken and _had(lock):
                    taken[name] = lock
        if len(taken) == count:
            break
        if begun is None:
            begun = time.monotonic()
            print(f"too many of {len(locks)} cards are taken; waiting for {wanted}", file=sys.stderr, flush=True)
        time.sleep(POLL_SECONDS)
    for other in {*locks.values(), collecting} - {*taken.values()}:
        os.close(other)
    if begun is not None:
        print(f"waited {time.monotonic() - begun:.0f} seconds for {wanted}", file=sys.stderr, flush=True)
    return taken


def _had(lock: int) -> bool:
    """Whether a lock could be taken, or is this process's already."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _open(path: Path) -> int:
    """A descriptor to lock; another user's file will do, since a lock needs no right to write."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o444))
    return os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
