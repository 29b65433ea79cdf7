"""Finished batches: a run that breaks off, or is shared by workers, gives the same bytes; other
runs' stay out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from beamuq.decoding import Prompt, compose_batches
from beamuq.errors import BeamUQError
from beamuq_study.stages import finished_batches
from beamuq_study.stages.finished_batches import (
    WHOLE,
    BatchResult,
    FinishedBatches,
    marked,
    run_batches,
    share_of,
)

PROMPTS = [Prompt(f"q{i}", (1, i % 3, i)) for i in range(7)]
BATCHES = compose_batches(PROMPTS, 2)
DESCRIBED = {"model": "abc", "seed": 1}
Run = Callable[[Sequence[Prompt]], BatchResult]


def decoded(batch: Sequence[Prompt]) -> BatchResult:
    alike = {
        "strategy": "greedy",
        "rank": 0,
        "text": "",
        "token_texts": [],
        "token_logprobs": [],
        "terminated": True,
    }
    rows = [
        alike | {"id": p.id, "token_ids": p.token_ids, "logprob": -sum(p.token_ids) / 3}
        for p in batch
    ]
    return BatchResult(rows, 10, {"pieces": [len(batch)]} if len(batch) == 1 else {})


def run(folder: Path, run: Run = decoded, share: str = WHOLE) -> FinishedBatches:
    return run_batches(BATCHES, run, folder=folder, described=DESCRIBED, share=share)


def fails_at(folder: Path, number: int) -> None:
    seen: list[int] = []

    def failing(batch: Sequence[Prompt]) -> BatchResult:
        seen.append(len(batch))
        if len(seen) > number:
            raise KeyboardInterrupt
        return decoded(batch)

    with pytest.raises(KeyboardInterrupt):
        run(folder, failing)


def never(_: Sequence[Prompt]) -> BatchResult:
    raise AssertionError("every batch is there")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*/batch-*")}


def test_batches_do_not_depend_on_the_order_of_the_prompts() -> None:
    assert compose_batches(PROMPTS[::-1], 2) == BATCHES
    assert [len(batch) for batch in BATCHES] == [2, 2, 2, 1]
    assert sorted(p.id for batch in BATCHES for p in batch) == [p.id for p in PROMPTS]
    assert [p.token_ids[1] for batch in BATCHES for p in batch] == sorted(
        p.token_ids[1] for p in PROMPTS
    )


def test_finished_batches_are_not_run_again_and_come_in_order(tmp_path: Path) -> None:
    fails_at(tmp_path, 3)
    calls: list[int] = []

    def counted(batch: Sequence[Prompt]) -> BatchResult:
        calls.append(len(batch))
        return decoded(batch)

    table, notes = run(tmp_path, counted).collected()
    assert calls == [1]
    assert table.column("id").to_pylist() == [p.id for batch in BATCHES for p in batch]
    assert table.equals(run(tmp_path / "undisturbed").collected()[0])
    assert (
        run(tmp_path, never).collected()[1] == notes == {3: {"pieces": [1]}}
    )  # what happened then is not lost
    run(tmp_path, never).discard()
    assert not tmp_path.exists()


@pytest.mark.parametrize("share", ["0-of-4", "5-of-4", "1-of-0"])
def test_a_share_that_there_is_not_is_refused(share: str) -> None:
    with pytest.raises(BeamUQError, match=f"shard '{share}': not a shard"):
        share_of(share, 10)


@pytest.mark.parametrize(("count", "number"), [(1, 1), (4, 7), (5, 3)])
def test_every_batch_is_in_one_share(count: int, number: int) -> None:
    cut = [share_of(f"{share}-of-{count}", number) for share in range(1, count + 1)]
    assert sorted(batch for part in cut for batch in part) == list(range(number))
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


def test_workers_fill_one_folder_whatever_their_number_and_who_was_killed(tmp_path: Path) -> None:
    run(tmp_path / "whole")
    fails_at(
        tmp_path / "shared", 1
    )  # alone at first, then on two cards, then on three of which one is empty
    run(tmp_path / "shared", share="2-of-2")
    markers = []
    for share in ("3-of-3", "1-of-3", "2-of-3"):
        kept = run(tmp_path / "shared", share=share)
        markers.append(tmp_path / f"{share}.parquet")
        kept.write_marker(markers[-1], share, DESCRIBED)
    assert files(tmp_path / "shared") == files(tmp_path / "whole")
    joined, made = marked(tmp_path / "shared", markers)
    assert made == DESCRIBED
    assert joined.finished() == {0, 1, 2, 3}
    assert joined.collected()[0].equals(run(tmp_path / "whole").collected()[0])


@pytest.mark.parametrize("change", ["seed", "dtype", "composition", "prompts", "engine"])
def test_batches_of_another_run_are_never_taken(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = run(tmp_path)
    described, batches = dict[str, object](DESCRIBED), BATCHES
    if change == "engine":
        monkeypatch.setattr(finished_batches, "FORMAT", finished_batches.FORMAT + 1)
    elif change == "composition":
        batches = compose_batches(PROMPTS, 3)
    elif change == "prompts":
        batches = compose_batches([*PROMPTS[:-1], Prompt("q6", (1, 0, 99))], 2)
    else:
        described[change] = 2
    other = run_batches(batches, decoded, folder=tmp_path, described=described)
    assert other.folder != kept.folder
    assert other.collected()[0].num_rows == len(PROMPTS)


@pytest.mark.parametrize(
    ("at_work", "comes", "refused"),
    [
        (WHOLE, WHOLE, True),
        (WHOLE, "1-of-2", True),
        ("1-of-2", "1-of-2", True),
        ("1-of-2", WHOLE, True),
        ("1-of-2", "2-of-2", False),
    ],
)
def test_two_processes_never_do_the_same_work(
    tmp_path: Path, at_work: str, comes: str, refused: bool
) -> None:
    def at_once(batch: Sequence[Prompt]) -> BatchResult:
        if refused:
            with pytest.raises(BeamUQError, match="another process is decoding batches here"):
                run(tmp_path, share=comes)
        else:
            run(tmp_path, share=comes)
        return decoded(batch)

    run(tmp_path, at_once, share=at_work)
    run(tmp_path, share=comes)
