"""The device and dtype that a machine's settings name, and one job per graphics card, whoever
starts the jobs.

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
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from beamuq.errors import BeamUQError, reading

if TYPE_CHECKING:
    import torch

DEVICES, DTYPES = ("auto", "cpu", "cuda"), ("auto", "float32", "bfloat16")
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
    """The device that ``auto`` means in a machine's plan, without loading torch: cuda where a job
    could use a card.

    A card has to be listed, visible, and of use to the torch installed here; where none is (a thin
    environment that plans for others), the card alone decides.

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
    """:func:`resolve`, on a card (or on ``cards``) that no other job uses, and so many torch
    threads.

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
            "device: cpu in "
            "config.yaml, or install a torch with CUDA"
        )
    chosen = resolve(device, dtype)
    if cards > 1 and chosen[0].type == "cuda" and torch.cuda.device_count() < cards:
        raise BeamUQError(
            f"cards: {cards}: this job has {torch.cuda.device_count()}; ask for fewer, or give the "
            "job more"
        )
    return chosen


def bind(device: str, *, cards: int = 1) -> None:
    """Wait for a free card, or so many ``cards``, keep them until this process ends, and hide the
    others from it.

    Call before CUDA is first asked anything. Does nothing for ``cpu``, where ``nvidia-smi`` lists
    no card, in a scheduler's job that was given cards, and when called again. A
    ``CUDA_VISIBLE_DEVICES`` set by hand says which cards there are to choose from.

    Raises BeamUQError if ``nvidia-smi`` does not answer, or the machine has fewer cards.
    """
    if (
        device == "cpu"
        or _held
        or (VISIBLE in os.environ and any(name in os.environ for name in SCHEDULERS))
    ):
        return
    choice = usable_cards()
    if not choice:
        return
    if len(choice) < cards:
        raise BeamUQError(
            f"cards: {cards}: this machine has {len(choice)} to choose from; ask for fewer"
        )
    folder = Path(tempfile.gettempdir()) / "beamuq-gpu-slots"
    if not folder.exists():
        folder.mkdir(exist_ok=True)
        folder.chmod(0o777)  # of all users of the machine
    begun, announced = time.monotonic(), False
    flags = (
        os.O_CREAT | os.O_RDONLY | os.O_NOFOLLOW
    )  # of another user's file too: a lock needs no right to write
    locks = {name: os.open(folder / name, flags, 0o444) for name in ("queue", *choice)}
    taken: list[str] = []
    while len(taken) < cards:
        if _is_had(locks["queue"]):
            taken = list(islice((name for name in choice if _is_had(locks[name])), cards))
        if len(taken) < cards:
            if not announced:
                print(
                    f"too many of {len(choice)} cards are taken; waiting",
                    file=sys.stderr,
                    flush=True,
                )
            announced = True
            time.sleep(POLL_SECONDS)
    if announced:
        print(
            f"waited {time.monotonic() - begun:.0f} seconds for a card", file=sys.stderr, flush=True
        )
    _held.extend(locks[name] for name in taken)
    for name in locks.keys() - taken:
        os.close(locks[name])
    os.environ[VISIBLE] = ",".join(choice[name] for name in taken)


def usable_cards() -> dict[str, str]:
    """The machine's cards that ``CUDA_VISIBLE_DEVICES`` leaves to a job: UUID → what would select
    it there.

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
        selectors[named[0] if named else entry.replace("/", "_")] = (
            entry  # else a part of a card, which is its own
        )
    return selectors


def _listed_cards() -> list[str]:
    """The UUIDs of the machine's cards in ``nvidia-smi``'s order; empty where it is not there or
    finds none.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    command = [program, "--query-gpu=uuid", "--format=csv,noheader"]
    with reading(
        program, "a driver that answers", "restart the machine, or set device: cpu in config.yaml"
    ):
        done = subprocess.run(command, text=True, capture_output=True, check=False, timeout=60)
    return done.stdout.split() if done.returncode == 0 else []


def _is_had(lock: int) -> bool:
    """Whether a lock could be taken, or is this process's already."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
