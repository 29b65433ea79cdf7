"""The benchmarks run where they can be tested: on the CPU, on a pretended card, with tiny models and few sizes."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from beamuq.decoding.forward_passes import TreeRunner
from benchmarks import card as card_benchmark
from benchmarks import growth
from benchmarks.card import DEVICE, HOST, TINY
from pretend_card import CARD, pretend_card

ONE_CELL = replace(TINY, batches=(2,), prompts=((8, 4),), rows=(1, 4, 64), generate=(2,))


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(card_benchmark, "NEW_TOKENS", 4)
    monkeypatch.setattr("benchmarks.common.NEW_TOKENS", 4)
    return monkeypatch


def assert_attributed(told: dict[str, Any]) -> None:
    full, stopped = told["cells"]
    assert (full["stops"], stopped["stops"]) == (False, True)
    assert full["rows, sum"] == sum(full["rows per step"]) > stopped["rows, sum"]
    assert sum(full["steps by rows, at most"].values()) == len(full["rows per step"]) == 3
    for cell in told["cells"]:
        assert [*cell["host ms per step"]] == [*HOST]
        assert [*cell["device ms per step"]] == [*DEVICE]
        assert all(cell["device ms per step"].values())
        assert all(value for phase, value in cell["host ms per step"].items() if phase != "masks and indices")
        assert cell["floor seconds"] > 0
    assert json.loads(json.dumps(told))["torch"] == torch.__version__


@pytest.mark.usefixtures("short")
def test_a_cards_time_is_attributed_on_the_cpu_too(capsys: pytest.CaptureFixture[str]) -> None:
    before = vars(TreeRunner)["_forward"]
    told = card_benchmark.attributed(ONE_CELL)
    assert vars(TreeRunner)["_forward"] is before
    assert_attributed(told)
    assert told["generate, ten beams"]["questions per second"] > 0
    lines = capsys.readouterr().out.splitlines()
    assert json.loads(lines[0])["transformers"]
    assert [len(line.split("  ")[0]) > 0 for line in lines[-12:]] == [True] * 12
    assert lines[-1].startswith("time per floor")


def test_a_cards_time_is_attributed_on_a_card(short: pytest.MonkeyPatch) -> None:
    """A pretended one: its events are moments of the host, and there is no profiler that sees it."""

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = time.perf_counter()

        def elapsed_time(self, last: Event) -> float:
            return 1e3 * (last.at - self.at)

    model = card_benchmark.random_model(TINY, "cpu")
    short.setattr(torch.cuda, "Event", Event)
    short.setattr(torch.cuda, "get_device_name", lambda: "pretended")
    short.setattr(torch.cuda, "reset_peak_memory_stats", lambda: None)
    short.setattr(torch.cuda, "max_memory_allocated", lambda: 1 << 30)
    with pretend_card(short) as card:
        card.hold(model)
        told = card_benchmark.attributed(replace(ONE_CELL, generate=()), model)
    assert model.device == CARD
    assert_attributed(told)
    assert told["machine"] == "pretended"
    assert all(cell["host ms per step"]["masks and indices"] for cell in told["cells"])


def test_busy_share_is_that_of_kernels_and_copies_whose_times_overlap() -> None:
    def event(category: str, start: float, length: float) -> dict[str, Any]:
        return {"cat": category, "ts": start, "dur": length}

    events = [event("kernel", 10, 4), event("gpu_memcpy", 12, 4), event("kernel", 18, 2), event("cpu_op", 0, 99), {}]
    assert card_benchmark.busy_share({"traceEvents": events}) == (0.8, 2)
    assert card_benchmark.busy_share({"traceEvents": [event("cpu_op", 0, 9)]}) == (None, 0)


def test_growth_writes_the_cost_of_each_part_and_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(size: int) -> None:
        held, until = bytearray(size * 10_000_000), time.process_time() + size / 20
        while time.process_time() < until:
            held[::4096] = held[::4096]

    names = [("similarity", "pairs"), *(("explorer", f"questions {number}") for number in range(7))]
    parts = [(part, by, (1, 3), busy if number == 0 else growth.explored) for number, (part, by) in enumerate(names)]
    monkeypatch.setattr(growth, "parts", lambda: parts)
    growth.main(["--out", str(tmp_path / "growth")])
    table = pd.read_csv(tmp_path / "growth.csv")
    assert [*table] == ["part", "by", "size", "cpu_seconds", "wall_seconds", "peak_mb"]
    first, second = table[table["part"] == "similarity"].to_dict("records")
    assert second["cpu_seconds"] > 2 * first["cpu_seconds"]
    assert second["peak_mb"] > first["peak_mb"] + 10
    assert (tmp_path / "growth.png").stat().st_size > 10_000
