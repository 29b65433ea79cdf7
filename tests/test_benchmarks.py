"""Benchmarks run at small sizes too: that of a card with a tiny model on the CPU, that of memory
with few questions.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from beamuq.decoding.forward_passes import TreeRunner
from benchmarks import card as card_benchmark
from benchmarks import memory, methods, products, threads
from benchmarks.card import DEVICE, HOST, TINY

ONE_CELL = replace(TINY, batches=(2,), prompts=((8, 4),), rows=(1, 4, 64), generate=(2,))


def test_a_cards_time_is_attributed_on_the_cpu_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(card_benchmark, "NEW_TOKENS", 4)
    monkeypatch.setattr("benchmarks.common.NEW_TOKENS", 4)
    before = vars(TreeRunner)["_forward"]
    results = card_benchmark.attributed(ONE_CELL)
    assert vars(TreeRunner)["_forward"] is before
    full, stopped = results["cells"]
    assert (full["stops"], stopped["stops"]) == (False, True)
    assert full["rows, sum"] == sum(full["rows per step"]) > stopped["rows, sum"]
    assert sum(full["steps by rows, at most"].values()) == len(full["rows per step"]) == 3
    for cell in results["cells"]:
        assert [*cell["host ms per step"]] == [*HOST]
        assert [*cell["device ms per step"]] == [*DEVICE]
        assert all(cell["device ms per step"].values())
        assert cell["floor seconds"] > 0
    assert results["generate, ten beams"]["questions per second"] > 0
    lines = capsys.readouterr().out.splitlines()
    assert json.loads(lines[0])["transformers"]
    assert all(line.split("  ")[0] for line in lines[-12:])
    assert lines[-1].startswith("time per floor")


def test_memory_is_told_of_an_exhibit_made_of_made_up_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    of_trial = ["--folder", str(tmp_path), "--questions", "8", "--resamples", "100"]
    memory.main([*of_trial, "--only", "gains_gemma4b"])
    printed = capsys.readouterr().out
    assert re.search(r"^ *0\.\d\d GB +\d+\.\d CPU s  gains_gemma4b$", printed, re.MULTILINE)
    assert "largest: gains_gemma4b" in printed
    with pytest.raises(SystemExit):
        memory.main([*of_trial, "--only", "gains_gemma4b", "--most", "0.01"])


@pytest.mark.packaged
def test_what_a_score_costs_is_told_for_each_set_of_candidates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "costs.json"
    methods.main(["--questions", "2", "--repeats", "1", "--json", str(written)])
    sets = json.loads(written.read_text(encoding="utf-8"))["sets"]
    answer, *compared = sets
    assert [cost["candidates"] for cost in compared] == ["ten samples", "ten beams"]
    assert all(cost["rows"] > answer["rows"] for cost in compared)
    assert all(cost["scoring, CPU s"]["Dissimilarity"] > 0 for cost in compared)
    assert "| ten beams | " in capsys.readouterr().out


@pytest.mark.packaged
def test_shares_of_the_product_rate_add_up(tmp_path: Path) -> None:
    written = tmp_path / "products.json"
    products.main(["--questions", "1", "--lengths", "40", "--json", str(written)])
    results = json.loads(written.read_text(encoding="utf-8"))
    assert results["product rate"] > 1e9
    without_beams, with_beams = results["cells"]
    assert with_beams["rows"] > without_beams["rows"]
    for cell in results["cells"]:
        assert 0 < cell["share of product rate"] < 1
        assert 0 < cell["of it prompts"] < 1
        assert cell["products"] > cell["attention"] > 0


@pytest.mark.packaged
def test_what_threads_cost_is_told_for_each_number_and_repeat(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "threads.json"
    asked = ["--threads", "1", "2", "--questions", "1", "--repeats", "2"]
    threads.main([*asked, "--json", str(written)])
    cells = json.loads(written.read_text(encoding="utf-8"))["threads"]
    assert [cell["threads"] for cell in cells] == [1, 2]
    assert all(len(cell["seconds"]) == 2 for cell in cells)
    assert all(cell["CPU s"] > 0 for cell in cells)
    assert "| 2 | " in capsys.readouterr().out
