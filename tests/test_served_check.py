"""The check of real model servers: how agreement is counted, and what becomes of its processes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from model_servers import Server, free_port
from served_agreement import agreement

ANSWERS = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def record(token: int, logprob: float) -> dict[str, Any]:
    return {"token_ids": [token], "logprob": logprob}


def row(*beams: tuple[int, float], samples: tuple[int, ...] = (7, 8)) -> dict[str, Any]:
    return {
        "id": "1",
        "answer": record(*beams[0]),
        "samples": [record(token, -3.0) for token in samples],
        "beams": [record(*beam) for beam in beams],
    }


def test_equal_rows_agree() -> None:
    same = agreement([row((1, -0.5), (2, -1.5))], [row((1, -0.50001), (2, -1.5))])
    assert (same.greedy, same.beams_in_order, same.beams_as_set) == (1, 1, 1)
    assert (same.samples, same.samples_drawn) == (2, 2)
    assert same.logprob_difference == pytest.approx(1e-5)
    assert same.holds


def test_a_long_text_may_differ_by_more_than_a_short_one() -> None:
    def sampled(tokens: int, logprob: float) -> list[dict[str, Any]]:
        sample = {"token_ids": list(range(tokens)), "logprob": logprob}
        return [{**row((99, -0.5), samples=()), "samples": [sample]}]

    long = agreement(sampled(20, -60.0), sampled(20, -60.00015))
    assert long.logprob_difference == pytest.approx(1.5e-4)
    assert long.holds
    assert not agreement(sampled(2, -60.0), sampled(2, -60.00015)).holds


def test_beams_that_change_places_agree_only_where_they_tie() -> None:
    near = agreement([row((0, 0), (1, -1.00000), (2, -1.000005))], [row((0, 0), (2, -1), (1, -1))])
    assert (near.beams_in_order, near.beams_as_set, near.differing) == (0, 1, ["1"])
    assert near.holds
    far = agreement([row((0, 0), (1, -1.0), (2, -1.5))], [row((0, 0), (2, -1.5), (1, -1.0))])
    assert far.rank_difference == pytest.approx(0.5)
    assert not far.holds


def test_another_sample_or_greedy_answer_does_not_agree() -> None:
    local = [row((1, -0.5), (2, -0.5))]
    assert not agreement(local, [row((1, -0.5), (2, -0.5), samples=(7, 9))]).holds
    assert not agreement(local, [row((2, -0.5), (1, -0.5))]).holds


def server(script: str, log: Path) -> Server:
    port = free_port()
    return Server("llama.cpp", [sys.executable, "-c", script, str(port)], {}, port, log)


def test_a_server_is_ended_with_the_block(tmp_path: Path) -> None:
    started = server(ANSWERS, tmp_path / "log")
    with started.running():
        process = started.process
        assert process.poll() is None
    assert process.poll() is not None


def test_a_server_that_is_killed_is_gone_at_once(tmp_path: Path) -> None:
    started = server(ANSWERS, tmp_path / "log")
    with started.running():
        started.kill()
        assert started.process.wait(10) == -9


def test_a_server_that_does_not_start_is_told_with_its_log(tmp_path: Path) -> None:
    started = server("raise SystemExit(3)", tmp_path / "server.log")
    with (
        pytest.raises(SystemExit, match=r"llama\.cpp has ended; see .*server\.log"),
        started.running(),
    ):
        pass
