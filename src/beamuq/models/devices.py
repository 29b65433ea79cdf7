"""The device and dtype that a machine's settings name, and one job per graphics card.

Snakemake counts cards but never says which one a job gets, and counts nothing where no limit was
given. So each job that is to run on a card takes a free one by an exclusive lock, which the kernel
frees with the process, waits while there is none, and sees no other card
(``CUDA_VISIBLE_DEVICES``). Jobs queue for cards: only the first of them takes any, so that no two
that need several wait for each other's. The locks are the machine's, not the project's. In a
scheduler's job its own binding holds.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from beamuq.errors import BeamUQError, reading

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda")
DTYPES = ("auto", "float32", "bfloat16")
MOST_THREADS = 1024
VISIBLE = "CUDA_VISIBLE_DEVICES"
SCHEDULERS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "COBALT_JOBID")
POLL_SECONDS = 0.5

_held: list[int] = []


def resolve(device: str, dtype: str) -> tuple[torch.device, torch.dtype]:
    """``auto`` becomes cuda where there is one, and bfloat16 on cuda, float32 on a CPU.

    Raises BeamUQError if the name is unknown, or cuda is asked for on a machine without.
    """
    import torch

    if device not in DEVICES or dtype not in DTYPES:
        raise BeamUQError(f"device {device!r}, dtype {dtype!r}: choose from {DEVICES} and {DTYPES}")
    if device == "cuda" and not torch.cuda.is_available():
        raise BeamUQError(
            "device 'cuda': this machine has no usable GPU; give --device cpu, or device: cpu in "
            "config.yaml"
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if dtype == "auto":
        dtype = "bfloat16" if device == "cuda" else "float32"
    return torch.device(device), getattr(torch, dtype)


def present() -> str:
    """The device that ``auto`` means in a machine's plan: cuda where a job could use a card.

    It is found without loading torch. A card has to be listed, visible, and of use to the torch
    installed here; where none is (a thin environment that plans for others), the card alone
    decides.

    Raises BeamUQError if ``nvidia-smi`` does not answer.
    """
    try:
        build = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        build = ""
    return "cuda" if not build.endswith("+cpu") and usable_cards() else "cpu"


def prepare(
    device: str, dtype: str, threads: int, cards: int = 1
) -> tuple[torch.device, torch.dtype]:
    """:func:`resolve`, on so many ``cards`` that no other job uses, and with so many ``threads``.

    One thread by default, since more gain little and change sums' order. Never waits for a card
    that this torch could not use.

    Raises BeamUQError if the name is unknown, or cuda is asked for without a torch or the cards for
    it, or ``nvidia-smi`` hangs.
    """
    import torch

    if not 1 <= threads <= MOST_THREADS:
        raise BeamUQError(f"threads: {threads}: must be from 1 to {MOST_THREADS}")
    torch.set_num_threads(threads)
    if torch.backends.cuda.is_built():  # type: ignore[no-untyped-call]
        bind(device, cards=cards)
    elif device == "cuda":
        raise BeamUQError(
            f"device 'cuda': torch {torch.__version__} is built without CUDA; give --device cpu, "
            "device: cpu in config.yaml, or install a torch with CUDA"
        )
    chosen = resolve(device, dtype)
    if cards > 1 and chosen[0].type == "cuda" and torch.cuda.device_count() < cards:
        raise BeamUQError(
            f"cards: {cards}: this job has {torch.cuda.device_count()}; ask for fewer, or give the "
            "job more"
        )
    return chosen


def bind(device: str, *, cards: int = 1) -> None:
    """Wait for so many free ``cards``, keep them until this process ends, and hide all others.

    Call before CUDA is first asked anything. Does nothing for ``cpu``, where ``nvidia-smi`` lists
    no card, in a scheduler's job that was given cards, and when called again. A
    ``CUDA_VISIBLE_DEVICES`` set by hand says which cards there are to choose from.

    Raises BeamUQError if ``nvidia-smi`` does not answer, or the machine has fewer cards.
    """
    if device == "cpu" or _held or _is_bound_by_scheduler():
        return
    selectors = usable_cards()
    if not selectors:
        return
    if len(selectors) < cards:
        raise BeamUQError(
            f"cards: {cards}: this machine has {len(selectors)} to choose from; ask for fewer"
        )
    locks = _open_locks(["queue", *selectors])
    taken_cards = _wait_for_cards(locks, list(selectors), cards)
    _held.extend(locks[name] for name in taken_cards)
    for name in locks.keys() - taken_cards:
        os.close(locks[name])
    os.environ[VISIBLE] = ",".join(selectors[name] for name in taken_cards)


def _is_bound_by_scheduler() -> bool:
    """Whether this is a scheduler's job that was given cards."""
    return VISIBLE in os.environ and any(name in os.environ for name in SCHEDULERS)


def _open_locks(names: Sequence[str]) -> dict[str, int]:
    """The machine's lock files of these ``names``, open, as file descriptors."""
    folder = Path(tempfile.gettempdir()) / "beamuq-gpu-slots"
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)  # of all users of the machine
    # Another user's file too can be opened so: a lock needs no right to write.
    flags = os.O_CREAT | os.O_RDONLY | os.O_NOFOLLOW
    return {name: os.open(folder / name, flags, 0o444) for name in names}


def _wait_for_cards(locks: Mapping[str, int], choice: Sequence[str], count: int) -> list[str]:
    """Lock ``count`` cards of the ``choice``, waiting until this job is the first of the queue."""
    began = time.monotonic()
    is_waiting = False
    taken_cards: list[str] = []
    while True:
        if _is_had(locks["queue"]):
            free_cards = (name for name in choice if _is_had(locks[name]))
            taken_cards = list(islice(free_cards, count))
        if len(taken_cards) == count:
            break
        if not is_waiting:
            is_waiting = True
            _say(f"too many of {len(choice)} cards are taken; waiting")
        time.sleep(POLL_SECONDS)
    if is_waiting:
        _say(f"waited {time.monotonic() - began:.0f} seconds for a card")
    return taken_cards


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def usable_cards() -> dict[str, str]:
    """The cards that ``CUDA_VISIBLE_DEVICES`` leaves to a job: UUID → what would select it there.

    A card is the same whether it is called by number or by UUID. As CUDA does, -1 hides itself and
    what follows.

    Raises BeamUQError if ``nvidia-smi`` does not answer.
    """
    listed = _listed_cards()
    if VISIBLE not in os.environ or not listed:
        return {card: card for card in listed}
    selectors = {}
    for entry in filter(None, map(str.strip, os.environ[VISIBLE].split(","))):
        if entry == "-1":
            break
        named = [
            card
            for number, card in enumerate(listed)
            if entry == str(number) or card.startswith(entry)
        ]
        # What names no card is a part of one, which is its own.
        name = named[0] if named else entry.replace("/", "_")
        selectors[name] = entry
    return selectors


def _listed_cards() -> list[str]:
    """The UUIDs of the machine's cards in ``nvidia-smi``'s order; empty where it finds none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=uuid", "--format=csv,noheader"]
    fix = "restart the machine, or set device: cpu in config.yaml"
    with reading(program, "a driver that answers", fix):
        done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)
    return done.stdout.split() if done.returncode == 0 else []


def _is_had(lock: int) -> bool:
    """Whether a lock could be taken, or is this process's already."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
