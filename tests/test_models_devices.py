"""One job a card, tested with cards that only a fake ``nvidia-smi`` knows; devices and dtypes."""

from __future__ import annotations

import importlib.metadata
import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from beamuq.errors import BeamUQError
from beamuq.models import devices
from beamuq_study.plan.study_on_machine import Plan

JOB = """
import sys, time
from beamuq.models import devices
devices.bind(sys.argv[1], cards=int(sys.argv[3]))
import os
start = time.monotonic()
print("start", os.environ.get("CUDA_VISIBLE_DEVICES", "unset"), start, flush=True)
time.sleep(float(sys.argv[2]))
print("end", time.monotonic(), flush=True)
"""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Start a job that binds a card of a machine with two and keeps it for a while."""
    program = tmp_path / "bin/nvidia-smi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho GPU-aaaa\necho GPU-bbbb\n")
    program.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != devices.VISIBLE}
    environment |= {"PATH": f"{program.parent}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}

    def job(
        seconds: float, device: str = "cuda", cards: int = 1, **more: str
    ) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", JOB, device, str(seconds), str(cards)]
        return subprocess.Popen(
            command,
            env=environment | more,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    return job


def test_jobs_that_need_both_cards_take_turns_with_those_that_need_one(start: Start) -> None:
    """A job that keeps what it has while it waits for the rest meets another like it."""
    spans = []
    for job in [start(0.2, cards=1 + number % 2) for number in range(6)]:
        words = job.communicate(timeout=60)[0].split()
        spans.append((float(words[2]), float(words[4]), set(words[1].split(","))))
    assert sorted(len(cards) for _, _, cards in spans) == [1, 1, 1, 2, 2, 2]
    assert set.union(*(cards for _, _, cards in spans)) == {"GPU-aaaa", "GPU-bbbb"}
    for one, other in itertools.combinations(sorted(spans, key=lambda span: span[:2]), 2):
        assert other[0] >= one[1] or not one[2] & other[2]


def test_more_cards_than_there_are_are_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "cards: 3: this machine has 2" in start(0, cards=3).communicate(timeout=60)[1]
    monkeypatch.setattr("torch.backends.cuda.is_built", lambda: True)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr(devices, "bind", lambda *_, **__: None)
    with pytest.raises(BeamUQError, match="cards: 2: this job has 1"):
        devices.prepare("cuda", "auto", 1, cards=2)


def test_a_schedulers_binding_stands(start: Start) -> None:
    jobs = [start(1, CUDA_VISIBLE_DEVICES="0", SLURM_JOB_ID=str(number)) for number in (1, 2)]
    spans = []
    for job in jobs:
        words = job.communicate(timeout=60)[0].split()
        assert words[1] == "0"
        spans.append((float(words[2]), float(words[4])))
    assert max(begin for begin, _ in spans) < min(end for _, end in spans)


@pytest.mark.parametrize(
    ("device", "more"),
    [
        ("cpu", {}),
        ("cuda", {"CUDA_VISIBLE_DEVICES": ""}),
        ("cuda", {"CUDA_VISIBLE_DEVICES": "-1,0"}),
    ],
)
def test_a_job_without_cards_takes_none(
    device: str, more: dict[str, str], start: Start, tmp_path: Path
) -> None:
    assert "end" in start(0, device, **more).communicate(timeout=60)[0]
    assert not (tmp_path / "beamuq-gpu-slots").exists()


def test_the_card_is_bound_before_cuda_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(devices, "bind", lambda device, **_: order.append(f"bind {device}"))
    monkeypatch.setattr("torch.cuda.is_available", lambda: bool(order.append("asked")) or True)
    monkeypatch.setattr("torch.backends.cuda.is_built", lambda: True)
    assert devices.prepare("cuda", "auto", 1)[0].type == "cuda"
    assert order[:2] == ["bind cuda", "asked"]


def test_a_torch_without_cuda_never_waits_for_a_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        devices, "bind", lambda device, **_: pytest.fail(f"waits for a card for {device}")
    )
    monkeypatch.setattr("torch.backends.cuda.is_built", lambda: False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert devices.prepare("auto", "auto", 1)[0].type == "cpu"
    with pytest.raises(
        BeamUQError, match=r"is built without CUDA; give --device cpu, device: cpu in config\.yaml"
    ):
        devices.prepare("cuda", "auto", 1)


def test_a_device_and_dtype_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, expected in ((True, ("cuda", torch.bfloat16)), (False, ("cpu", torch.float32))):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        device, dtype = devices.resolve("auto", "auto")
        assert (device.type, dtype) == expected
    for wrong_device, wrong_dtype in (("tpu", "float32"), ("cpu", "float16"), ("cuda", "auto")):
        with pytest.raises(BeamUQError, match=f"device '{wrong_device}'"):
            devices.resolve(wrong_device, wrong_dtype)


@pytest.mark.parametrize(
    ("says", "visible", "build", "device"),
    [
        ("echo GPU-aaaa", "0", "2.13.0+cu130", "cuda"),
        ("echo GPU-aaaa", None, None, "cuda"),
        ("echo GPU-aaaa", None, "2.13.0+cpu", "cpu"),
        ("echo GPU-aaaa", "", "2.13.0", "cpu"),
        ("echo No devices were found; exit 6", None, "2.13.0", "cpu"),
    ],
)
def test_auto_is_cuda_where_a_job_could_use_a_card(
    says: str,
    visible: str | None,
    build: str | None,
    device: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        if build is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return build

    (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{says}\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.delenv(devices.VISIBLE, raising=False)
    if visible is not None:
        monkeypatch.setenv(devices.VISIBLE, visible)
    plan = Plan.load({"study": "demo"})
    monkeypatch.setattr(importlib.metadata, "version", version)
    assert plan.settings.device == device
