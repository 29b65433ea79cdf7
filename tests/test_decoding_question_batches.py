"""Batches and parts: a run that is killed and started again gives the same bytes; parts of other runs are refused."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from beamuq import artifacts
from beamuq.decoding import (
    BatchResult,
    Greedy,
    Prompt,
    Sample,
    compose_batches,
    decode,
    discard_parts,
    finished_batches,
    question_batches,
    run_batches,
    stop_tokens,
)
from beamuq.errors import BeamUQError
from tiny import tiny_model

PROMPTS = [Prompt(f"q{i}", (1, i % 3, i)) for i in range(7)]
BATCHES = compose_batches(PROMPTS, 2)
MANIFEST = {"model": "abc", "seed": 1}


def _rows(batch: Sequence[Prompt]) -> BatchResult:
    rows = [{"id": p.id, "answer_source": "greedy", "value": sum(p.token_ids) / 3} for p in batch]
    return BatchResult(rows, 10, {"rows at once": 4096})


def _run(folder: Path, manifest: dict[str, object] | None = None, calls: list[int] | None = None) -> pa.Table:
    def run(batch: Sequence[Prompt]) -> BatchResult:
        if calls is not None:
            calls.append(len(batch))
        return _rows(batch)

    return run_batches(BATCHES, run, folder=folder, kind="quality", manifest=manifest or MANIFEST)[0]


def _fails_at(folder: Path, batch: int) -> None:
    seen = []

    def run(prompts: Sequence[Prompt]) -> BatchResult:
        seen.append(prompts)
        if len(seen) > batch:
            raise KeyboardInterrupt
        return _rows(prompts)

    with pytest.raises(KeyboardInterrupt):
        run_batches(BATCHES, run, folder=folder, kind="quality", manifest=MANIFEST)


def test_waves_do_not_depend_on_the_order_of_the_prompts() -> None:
    assert compose_batches(PROMPTS[::-1], 2) == BATCHES
    assert [len(batch) for batch in BATCHES] == [2, 2, 2, 1]
    assert sorted(p.id for batch in BATCHES for p in batch) == [p.id for p in PROMPTS]
    assert [p.token_ids[1] for batch in BATCHES for p in batch] == sorted(p.token_ids[1] for p in PROMPTS)


def test_rows_come_in_the_order_of_the_waves(tmp_path: Path) -> None:
    table = _run(tmp_path / "parts")
    assert table.column("id").to_pylist() == [p.id for batch in BATCHES for p in batch]


def test_finished_waves_are_not_run_again(tmp_path: Path) -> None:
    _fails_at(tmp_path / "parts", 3)
    calls: list[int] = []
    resumed = _run(tmp_path / "parts", calls=calls)
    assert calls == [1]
    assert resumed.equals(_run(tmp_path / "whole"))
    discard_parts(tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_a_part_says_what_it_is_and_what_happened(tmp_path: Path) -> None:
    _run(tmp_path)
    part = artifacts.read(tmp_path / "part-00002.parquet", "quality")
    assert part.provenance["batch"] == 2
    assert part.provenance["note"] == {"rows at once": 4096}


def test_notes_of_earlier_waves_are_not_lost(tmp_path: Path) -> None:
    def run(batch: Sequence[Prompt]) -> BatchResult:
        return BatchResult(_rows(batch).rows, 1, {"pieces": [(len(batch), 1)]})

    def again(_: Sequence[Prompt]) -> BatchResult:
        raise AssertionError("every batch is there")

    for way in (run, again):
        _, notes = run_batches(BATCHES, way, folder=tmp_path, kind="quality", manifest=MANIFEST)
        assert notes == [{"pieces": [[2, 1]]}] * 3 + [{"pieces": [[1, 1]]}]


def test_content_is_the_values_not_their_layout(tmp_path: Path) -> None:
    def content(texts: list[str], tops: list[list[int] | None], value: float | None = 1.0) -> str:
        table = pa.table(
            {
                "texts": pa.array([texts] * len(tops), pa.list_(pa.string())),
                "tops": pa.array(tops, pa.list_(pa.int64())),
                "value": pa.array([value] * len(tops), pa.float64()),
            }
        )
        pq.write_table(table, tmp_path / "t", row_group_size=2)
        digest = finished_batches._content(table)
        assert finished_batches._content(pq.read_table(tmp_path / "t")) == digest
        assert finished_batches._content(pa.concat_tables([table, table]).slice(len(tops))) == digest
        return digest

    found = [
        content(["ab", "c"], [[1, 2], None, [3]]),
        content(["a", "bc"], [[1, 2], None, [3]]),
        content(["ab", "c"], [[1], None, [2, 3]]),
        content(["ab", "c"], [[1, 2], [], [3]]),
        content(["ab", "c"], [None, [1, 2], [3]]),
        content(["ab", "c"], [[1, 2], None, [3]], -0.0),
        content(["ab", "c"], [[1, 2], None, [3]], 0.0),
        content(["ab", "c"], [[1, 2], None, [3]], None),
        content(["ab", "c"], []),
    ]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("key", "manifest"),
    [
        ("seed", {"model": "abc", "seed": 2}),
        ("model", {"model": "b", "seed": 1}),
        ("dtype", {**MANIFEST, "dtype": "x"}),
    ],
)
def test_another_manifest_is_refused_by_what_differs(tmp_path: Path, key: str, manifest: dict[str, object]) -> None:
    _fails_at(tmp_path, 2)
    with pytest.raises(BeamUQError, match=rf"manifest\.json: belongs to another run, which differs in {key};"):
        _run(tmp_path, manifest)


def test_another_composition_of_waves_is_refused(tmp_path: Path) -> None:
    _run(tmp_path)
    with pytest.raises(BeamUQError, match="differs in batches, prompts"):
        run_batches(compose_batches(PROMPTS, 3), _rows, folder=tmp_path, kind="quality", manifest=MANIFEST)
    others = [*PROMPTS[:-1], Prompt("q6", (1, 0, 99))]
    with pytest.raises(BeamUQError, match="differs in prompts"):
        run_batches(compose_batches(others, 2), _rows, folder=tmp_path, kind="quality", manifest=MANIFEST)


def test_another_engine_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _run(tmp_path)
    monkeypatch.setattr(question_batches, "FORMAT", question_batches.FORMAT + 1)
    with pytest.raises(BeamUQError, match="differs in engine format"):
        _run(tmp_path)


def test_a_truncated_part_is_refused_by_name(tmp_path: Path) -> None:
    _run(tmp_path)
    path = tmp_path / "part-00001.parquet"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(BeamUQError, match=r"part-00001\.parquet: not a readable Parquet file"):
        _run(tmp_path)


def test_a_part_of_another_run_is_refused_by_name(tmp_path: Path) -> None:
    _run(tmp_path / "mine")
    _run(tmp_path / "theirs", {"model": "abc", "seed": 2})
    (tmp_path / "theirs/part-00003.parquet").replace(tmp_path / "mine/part-00003.parquet")
    with pytest.raises(BeamUQError, match=r"part-00003\.parquet: belongs to another run"):
        _run(tmp_path / "mine")


def test_a_renamed_or_altered_part_is_refused_by_name(tmp_path: Path) -> None:
    _run(tmp_path)
    path = tmp_path / "part-00001.parquet"
    path.write_bytes((tmp_path / "part-00000.parquet").read_bytes())
    with pytest.raises(BeamUQError, match=r"part-00001\.parquet: its content is not what was written"):
        _run(tmp_path)
    path.unlink()
    _run(tmp_path)
    part = artifacts.read(path, "quality")
    rows = part.table.to_pylist()
    rows[0]["value"] += 1.0
    artifacts.write(path, "quality", rows, provenance=part.provenance)
    with pytest.raises(BeamUQError, match=r"part-00001\.parquet: its content is not what was written"):
        _run(tmp_path)


@pytest.mark.parametrize("name", ["notes.txt", "part-00004.parquet", "part-1.parquet"])
def test_a_foreign_file_among_the_parts_is_refused_by_name(tmp_path: Path, name: str) -> None:
    _run(tmp_path)
    (tmp_path / name).write_text("something")
    with pytest.raises(BeamUQError, match=rf"{name}: not a part of this run"):
        _run(tmp_path)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    def again(_: Sequence[Prompt]) -> BatchResult:
        with pytest.raises(BeamUQError, match="another process is writing parts here"):
            _run(tmp_path)
        raise StopIteration

    with pytest.raises(StopIteration):
        run_batches(BATCHES, again, folder=tmp_path, kind="quality", manifest=MANIFEST)
    _run(tmp_path)


def test_half_written_files_of_a_killed_run_are_swept(tmp_path: Path) -> None:
    _fails_at(tmp_path, 1)
    (tmp_path / ".part-00001.parquet.abc.tmp").write_text("half")
    _run(tmp_path)
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_wave_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artifacts.pq, "write_table", full)
    with pytest.raises(BeamUQError, match=r"part-00000\.parquet: cannot be written \(No space left on device\)"):
        _run(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock", "manifest.json"]


def test_a_log_gets_a_line_a_wave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _fails_at(tmp_path, 1)
    capsys.readouterr()
    _run(tmp_path)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "2 of 7 questions are there from an earlier run"
    assert len(lines) == 4
    assert lines[1].startswith("batch 2 of 4: 4 of 7 questions, ")
    assert lines[-1].endswith("0 min 0 s left")


def _decode_all(folder: Path) -> None:
    """A run of real decoding, slowed down so that it can be killed within a batch."""
    torch.set_num_threads(1)
    model, tokenizer = tiny_model("llama")
    stops = stop_tokens(tokenizer, model)
    texts = [f"Question: Who wrote play {i}?" for i in range(8)]
    prompts = [Prompt(text, tuple(tokenizer(text)["input_ids"])) for text in texts]

    def run(batch: Sequence[Prompt]) -> BatchResult:
        print("begin", flush=True)
        found = decode(model, batch, [Greedy(), Sample(2)], stop_ids=stops, seed=0, max_new_tokens=4)
        time.sleep(0.15)
        return BatchResult([{"id": c.prompt_id, "answer_source": f"{c.rank}", "value": c.logprob} for c in found], 1)

    table, _ = run_batches(compose_batches(prompts, 2), run, folder=folder / "parts", kind="quality", manifest={})
    artifacts.write(folder / "out.parquet", "quality", table)


def _started(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    return subprocess.Popen(
        [sys.executable, __file__, str(folder)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _begun(process: subprocess.Popen[str], batches: int) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        batches -= line == "begin\n"
        if not batches:
            return
    raise AssertionError("the process ended early")


def test_a_run_killed_twice_ends_in_the_same_bytes(tmp_path: Path) -> None:
    undisturbed = _started(tmp_path / "whole")
    assert undisturbed.wait(timeout=120) == 0
    for delay in (0.05, 0.14):
        killed = _started(tmp_path / "killed")
        _begun(killed, 2)
        time.sleep(delay)
        killed.kill()
        assert killed.wait() == -signal.SIGKILL
    before = len(list((tmp_path / "killed/parts").glob("part-*")))
    last = _started(tmp_path / "killed")
    output, errors = last.communicate(timeout=120)
    assert last.returncode == 0, errors
    assert 1 <= before <= 3
    assert output.count("begin") == 4 - before
    assert (tmp_path / "killed/out.parquet").read_bytes() == (tmp_path / "whole/out.parquet").read_bytes()
    for part in (tmp_path / "whole/parts").glob("part-*"):
        assert part.read_bytes() == (tmp_path / "killed/parts" / part.name).read_bytes()


def test_sigterm_finishes_the_wave_and_exits_with_143(tmp_path: Path) -> None:
    process = _started(tmp_path)
    _begun(process, 2)
    process.terminate()
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 143, errors
    assert "begin" not in output
    assert sorted(path.name for path in (tmp_path / "parts").glob("part-*")) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]
    assert not (tmp_path / "out.parquet").exists()


if __name__ == "__main__":
    _decode_all(Path(sys.argv[1]))
