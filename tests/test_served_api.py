"""ask, decode, score, calibrate and decide over a model server, and what stands in no file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import AutoTokenizer

import beamuq
import served_tiny
from beamuq import cli
from beamuq.api import open_models
from beamuq.api.calibration_file import read_calibration
from beamuq.api.candidates_of_model import BATCH
from beamuq.api.server_identity import ServerIdentity, read_server
from beamuq.errors import BeamUQError, ServerLostError
from beamuq.io import file_sha256
from beamuq.models.model_folder import model_identity, tokenizer_hash
from beamuq.models.served import http_requests
from beamuq.models.served.server_address import KEY
from beamuq.models.served.vllm_protocol import NEUTRAL
from fake_model_server import FakeModelServer, Faults

PROMPTS = ["Question: Who", "Q: what is two?\nA:"]
OPTIONS: dict[str, Any] = {"samples": 3, "beams": 4, "max_new_tokens": 5}
ASK: dict[str, Any] = {"width": 3, "max_new_tokens": 3, "similarity": "lexical", "shots": []}
SECRET = "sk-very-secret-17"


@pytest.fixture(autouse=True)
def _quick_and_forgetful(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test waits for long, sees another's server, or has a key."""
    monkeypatch.setattr(http_requests, "PATIENCE", served_tiny.QUICK)
    monkeypatch.delenv(KEY, raising=False)
    open_models._SERVERS.clear()
    with torch.no_grad():
        yield


def source(server: FakeModelServer) -> str:
    return f"server:{server.url}"


@pytest.fixture(scope="module")
def in_process() -> list[dict[str, Any]]:
    return beamuq.decode(*served_tiny.pair(), PROMPTS, **OPTIONS)


@pytest.mark.parametrize("form", ["folder", "path", "tokenizer"])
def test_rows_over_a_server_are_those_in_process(
    form: str, in_process: list[dict[str, Any]]
) -> None:
    folder = served_tiny.folder()
    tokenizers = {"folder": f"folder:{folder}", "path": folder, "tokenizer": served_tiny.pair()[1]}
    with served_tiny.fake() as server:
        rows = beamuq.decode(source(server), tokenizers[form], PROMPTS, **OPTIONS)
    for row, expected in zip(rows, in_process, strict=True):
        assert row["question"] == expected["question"]
        for kind in ("samples", "beams"):
            for mine, other in zip(row[kind], expected[kind], strict=True):
                assert (mine["text"], mine["token_ids"]) == (other["text"], other["token_ids"])
                assert mine["logprob"] == pytest.approx(other["logprob"], abs=1e-5)
        assert row["answer"]["token_ids"] == expected["answer"]["token_ids"]


def test_rows_say_which_server_and_no_hash_of_weights() -> None:
    with served_tiny.fake() as server:
        (row,) = beamuq.decode(source(server), served_tiny.folder(), PROMPTS[:1], **OPTIONS)
    assert row["model"] == "tiny"
    assert row["model_hash"] is None
    identity = row["server"]
    assert (identity["kind"], identity["version"], identity["model"]) == ("vllm", "0.32.0", "tiny")
    assert identity["tokenizer"] == tokenizer_hash(served_tiny.folder())
    assert identity["tokenizer"] == model_identity(served_tiny.folder())["tokenizer"]
    assert len(identity["probes"]) == 8
    assert "token_entropies" not in row["answer"]
    assert json.loads(json.dumps(row)) == row


def test_mte_has_no_value_and_the_reason_is_the_server() -> None:
    with served_tiny.fake() as server:
        rows = beamuq.decode(source(server), served_tiny.folder(), PROMPTS, **OPTIONS)
    scores = beamuq.score(rows, methods=["MTE", "Prob", "Dissimilarity"], similarity="lexical")
    of_mte = scores[scores["method"] == "MTE"]
    assert of_mte["value"].isna().all()
    assert of_mte["reason"].str.contains("a server lists the most probable tokens").all()
    assert scores[scores["method"] == "Prob"]["value"].notna().all()
    assert json.loads(scores["server"].iloc[0])["kind"] == "vllm"


def test_the_handshake_is_made_once_for_calls_that_follow() -> None:
    with served_tiny.fake() as server:
        beamuq.decode(source(server), served_tiny.folder(), PROMPTS, beams=2, max_new_tokens=2)
        before = len(server.requests)
        beamuq.decode(source(server), served_tiny.folder(), PROMPTS, beams=2, max_new_tokens=2)
        assert len(server.requests) - before <= 1 + 2 * 2


def test_a_server_that_has_changed_is_checked_anew() -> None:
    faults = Faults()
    with served_tiny.fake(faults=faults) as server:
        beamuq.decode(source(server), served_tiny.folder(), PROMPTS, beams=2, max_new_tokens=2)
        faults.adds_bos = True
        with pytest.raises(BeamUQError, match="adds a start token"):
            beamuq.decode(source(server), served_tiny.folder(), PROMPTS, beams=2, max_new_tokens=2)


def test_a_batch_is_asked_as_one() -> None:
    with served_tiny.fake(max_logprobs=-1) as server:
        beamuq.decode(source(server), served_tiny.folder(), ["a"], beams=0, max_new_tokens=1)
        before = len(server.completions)
        many = [f"Question: who is {n}?\nAnswer:" for n in range(20)]
        beamuq.decode(source(server), served_tiny.folder(), many, beams=3, max_new_tokens=3)
        assert len(server.completions) - before <= 1 + 2 * 3


@pytest.mark.parametrize("stop", ["newline", "eos"])
def test_an_answer_of_ask_is_that_in_process(stop: str) -> None:
    expected = beamuq.ask("Who?", served_tiny.pair(), stop=stop, **ASK)
    with served_tiny.fake(max_logprobs=-1) as server:
        answer = beamuq.ask(
            "Who?", source(server), tokenizer=served_tiny.folder(), stop=stop, **ASK
        )
    assert answer.answer == expected.answer
    assert [beam.text for beam in answer.beams] == [beam.text for beam in expected.beams]
    assert answer.probability == pytest.approx(expected.probability, rel=1e-4)
    assert answer.prompt_hash == expected.prompt_hash
    assert answer.model_hash is None
    assert answer.server is not None
    assert "over vllm 0.32.0, whose weights are unknown" in str(answer)
    assert "a server lists the most probable tokens" in str(answer)
    assert json.loads(answer.as_json())["server"]["model"] == "tiny"


def test_the_command_asks_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["ask", "Who?", "--width", "3", "--max-new-tokens", "3", "--similarity", "lexical"]
    with served_tiny.fake() as server:
        options = ["--model", source(server), "--tokenizer", str(served_tiny.folder())]
        cli.main([*words, *options])
    printed = capsys.readouterr()
    assert "over vllm" in printed.out
    assert "serves 'tiny'" in printed.err


def test_draws_of_the_server_are_asked_for_by_name() -> None:
    with served_tiny.fake() as server:
        rows = beamuq.decode(
            source(server), served_tiny.folder(), PROMPTS, draws="server", **OPTIONS
        )
        drawing = [request.body for request in server.completions if request.body.get("n")]
    assert [len(row["samples"]) for row in rows] == [3, 3]
    assert [body["n"] for body in drawing] == [3, 3]
    assert {body["temperature"] for body in drawing} == {1.0}
    for body in drawing:
        assert body.items() >= NEUTRAL.items()  # a server has defaults of its own
    assert all(sample["logprob"] < 0 for row in rows for sample in row["samples"])


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ({"draws": "server"}, r"^draws: 'server': this model is in memory; leave it out$"),
        ({"draws": "mine"}, r"^draws: 'mine': choose from race, server$"),
    ],
)
def test_draws_that_cannot_be_had_are_refused(call: dict[str, Any], told: str) -> None:
    with pytest.raises(BeamUQError, match=told):
        beamuq.decode(*served_tiny.pair(), PROMPTS, samples=2, **call)


def test_llama_cpp_draws_no_samples_up_to_a_stop() -> None:
    with (
        served_tiny.fake(kind="llama.cpp") as server,
        pytest.raises(BeamUQError, match=r"^draws: 'server': tiny: .*leave it out"),
    ):
        beamuq.decode(source(server), served_tiny.folder(), PROMPTS, samples=2, draws="server")


@pytest.mark.parametrize("tokenizer", [None, ""])
def test_without_a_tokenizer_the_option_is_named(tokenizer: Any) -> None:
    with pytest.raises(BeamUQError, match=r"^tokenizer: missing: server:ADDRESS has none; give"):
        beamuq.ask("Who?", "server:http://localhost:1/v1", tokenizer=tokenizer, **ASK)


def test_a_tokenizer_of_no_folder_is_refused_naming_the_option(tmp_path: Path) -> None:
    files = tmp_path / "files"
    served_tiny.pair()[1].save_pretrained(files)
    tokenizer = AutoTokenizer.from_pretrained(files)
    for given in (tokenizer, str(files)):
        with pytest.raises(BeamUQError, match=r"config"):
            beamuq.decode("server:http://localhost:1/v1", given, PROMPTS)


def test_a_tokenizer_beside_a_model_in_memory_is_refused() -> None:
    with pytest.raises(BeamUQError, match=r"^tokenizer: is of model server:ADDRESS; leave it out"):
        beamuq.ask("Who?", served_tiny.pair(), tokenizer="folder:x", **ASK)


def test_a_killed_server_gives_one_line_and_no_address() -> None:
    faults = Faults()
    with served_tiny.fake(faults=faults) as server:
        beamuq.decode(source(server), served_tiny.folder(), ["a"], beams=2, max_new_tokens=2)
        faults.dies_after = len(server.completions) + 3
        with pytest.raises(BeamUQError) as error:
            beamuq.decode(source(server), served_tiny.folder(), PROMPTS, **OPTIONS)
    assert str(error.value).startswith("the model server: ")
    assert "\n" not in str(error.value)
    assert "127.0.0.1" not in str(error.value)


def test_what_was_decoded_before_a_server_died_is_kept_in_the_error() -> None:
    faults = Faults()
    with served_tiny.fake(faults=faults) as server:
        whole = beamuq.decode(source(server), served_tiny.folder(), PROMPTS, batch=1, **OPTIONS)
        first = len(server.completions)
        beamuq.decode(source(server), served_tiny.folder(), PROMPTS[1:], batch=1, **OPTIONS)
        of_one_prompt = len(server.completions) - first
        faults.dies_after = len(server.completions) + of_one_prompt + 1
        with pytest.raises(ServerLostError, match="1 of 2 prompts are decoded") as error:
            beamuq.decode(source(server), served_tiny.folder(), PROMPTS, batch=1, **OPTIONS)
    assert error.value.finished == whole[1:]  # the longer prompt comes first


def test_scores_of_questions_answered_before_a_server_died_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": str(number), "question": f"What is {number}?"} for number in range(BATCH + 1)]
    (tmp_path / "questions.json").write_text(json.dumps(rows))
    faults = Faults()
    with served_tiny.fake(faults=faults) as server:
        for _ in range(2):  # the first time with the handshake
            first = len(server.completions)
            beamuq.ask_all(rows[:BATCH], source(server), tokenizer=served_tiny.folder(), **ASK)
        faults.dies_after = 2 * len(server.completions) - first + 1
        words = ["ask", "--questions", str(tmp_path / "questions.json")]
        words += ["--model", source(server), "--tokenizer", str(served_tiny.folder())]
        words += ["--width=3", "--max-new-tokens=3", "--similarity=lexical", "--shots=none"]
        words += ["--output", str(tmp_path / "scores.csv")]
        with pytest.raises(SystemExit):
            cli.main(words)
    message = capsys.readouterr().err
    assert f"the scores of the first {BATCH} questions are in" in message
    assert pd.read_csv(tmp_path / "scores.csv")["id"].nunique() == BATCH


# -- calibrate and decide --------------------------------------------------------------------------


def scored(server: FakeModelServer, count: int = 24) -> Any:
    rows = [{"id": str(n), "question": f"What is {n}?", "correct": n % 3 > 0} for n in range(count)]
    return beamuq.ask_all(rows, source(server), tokenizer=served_tiny.folder(), **ASK)


def calibrated(server: FakeModelServer, path: Path) -> Any:
    return beamuq.calibrate(scored(server), method="Prob", risk=0.4, output=path)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibration over the server without a fault."""
    path = tmp_path_factory.mktemp("calibration") / "c.json"
    with served_tiny.fake() as server:
        calibrated(server, path)
    return path


def test_a_calibration_carries_the_server_and_says_that_weights_are_unknown(plain: Path) -> None:
    calibration = read_calibration(plain)
    with served_tiny.fake() as server:
        decisions = beamuq.decide(scored(server, 5), plain)
    assert calibration.server is not None
    assert calibration.server.kind == "vllm"
    assert calibration.model_hash is None
    assert "weights are unknown" in str(calibration)
    assert any("weights are unknown" in warning for warning in decisions.warnings)
    assert not any("not known whether" in warning for warning in decisions.warnings)


def test_another_quantisation_behind_the_same_names_is_refused(plain: Path) -> None:
    with served_tiny.fake(faults=Faults(temperature=1.02)) as server:
        scores = scored(server, 5)
    with pytest.raises(BeamUQError, match=r"server's lists of probes .* nats off, .* allowed"):
        beamuq.decide(scores, plain)
    decisions = beamuq.decide(scores, plain, force=True)
    assert any("another quantisation" in warning for warning in decisions.warnings)


def test_what_lies_within_ten_times_the_noise_is_the_same_server(tmp_path: Path) -> None:
    with served_tiny.fake(faults=Faults(noise=2e-4)) as server:
        calibrated(server, tmp_path / "c.json")
    with served_tiny.fake(faults=Faults(temperature=1.0001), version="0.33.0") as server:
        decisions = beamuq.decide(scored(server, 5), tmp_path / "c.json")
    assert any("0.33.0" in warning for warning in decisions.warnings)


def test_a_model_in_memory_is_another_than_a_server(plain: Path) -> None:
    rows = [{"id": str(n), "question": f"What is {n}?"} for n in range(5)]
    scores = beamuq.ask_all(rows, served_tiny.pair(), **ASK)
    with pytest.raises(BeamUQError, match="calibrated over a server"):
        beamuq.decide(scores, plain)


def test_ask_compares_the_server_before_it_decodes(plain: Path) -> None:
    options = {"tokenizer": served_tiny.folder(), "calibration": plain} | ASK
    with served_tiny.fake() as server:
        answer = beamuq.ask("Who?", source(server), **options)
    assert answer.decision is not None
    assert any("weights are unknown" in warning for warning in answer.warnings)
    with (
        served_tiny.fake(name="other") as server,
        pytest.raises(BeamUQError, match="server's model 'other', calibrated with 'tiny'"),
    ):
        beamuq.ask("Who?", source(server), **options)


def test_a_calibration_of_a_model_in_memory_is_written_as_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scores = rng.random(200)
    beamuq.Calibration(risk=0.3).fit(scores, rng.random(200) > scores).save(tmp_path / "c.json")
    assert "server" not in json.loads((tmp_path / "c.json").read_text())


def test_rows_of_two_servers_are_not_calibrated_together() -> None:
    with served_tiny.fake() as server:
        first = scored(server, 5)
    with served_tiny.fake(faults=Faults(temperature=1.1)) as server:
        second = scored(server, 5)
    second["id"] = "b" + second["id"]
    both = [*first.to_dict("records"), *second.to_dict("records")]
    with pytest.raises(BeamUQError, match="server: not that of the other rows"):
        beamuq.calibrate(both, method="Prob")


@pytest.mark.parametrize("text", ["{}", "nothing", '{"kind": "vllm"}'])
def test_a_server_of_a_row_that_is_none_is_refused(text: str) -> None:
    rows = [{"answer": "a", "samples": ["a"], "server": text}]
    with pytest.raises(BeamUQError, match="server"):
        beamuq.score(rows, similarity="lexical")


def test_an_identity_is_read_as_it_is_written() -> None:
    with served_tiny.opened() as (_, opened):
        identity = read_server(opened.identity)
    assert read_server(identity.as_json()) == identity
    assert identity.differences(identity) == []
    for name in ("kind", "model", "tokenizer"):
        other = identity.model_copy(update={name: "another"})
        (difference,) = other.differences(identity)
        assert difference.startswith(f"server's {name} 'another', calibrated with ")


@pytest.mark.parametrize("fact", ["kind", "model", "tokenizer"])
def test_servers_are_two_by_kind_model_and_tokenizer_each(fact: str) -> None:
    before = ServerIdentity(
        kind="vllm", version="1", model="m", tokenizer="t", noise=0.0, probes=(((1, -0.5),),)
    )
    now = before.model_copy(update={fact: "another"})
    (difference,) = now.differences(before)
    assert difference.startswith(f"server's {fact} 'another', calibrated with")


# -- tokenizers ------------------------------------------------------------------------------------


def test_a_tokenizer_of_the_hub_is_fetched_without_weights_and_a_model_then_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[bool] = []

    def fetch(source: str, folder: Path, *, weights: bool = True, **_: Any) -> None:
        fetched.append(weights)
        folder.mkdir(parents=True, exist_ok=True)
        manifest = {"source": source, "revision": "0", "files": {}, "weights": weights}
        (folder / "fetched.json").write_text(json.dumps(manifest))

    monkeypatch.setenv("BEAMUQ_MODELS", str(tmp_path))
    monkeypatch.setattr(open_models, "fetch_model", fetch)
    for weights in (False, False, True, True, False):
        beamuq.model_folder("hub:org/name", weights=weights)
    assert fetched == [False, True]


def test_a_tokenizer_that_was_changed_after_its_fetch_is_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(served_tiny.folder(), tmp_path / "fetched")
    files = {path.name: {"sha256": file_sha256(path)} for path in folder.iterdir()}
    manifest = {"source": "hub:org/name", "revision": "0", "files": files}
    (folder / "fetched.json").write_text(json.dumps(manifest))
    assert tokenizer_hash(folder) == tokenizer_hash(served_tiny.folder())
    (folder / "config.json").write_text("{}")
    with pytest.raises(BeamUQError, match=r"config\.json: is not as it was fetched"):
        beamuq.decode("server:http://localhost:1/v1", folder, PROMPTS)


# -- secrets ---------------------------------------------------------------------------------------


def test_neither_key_nor_address_stands_in_a_file_a_message_or_a_repr(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(KEY, SECRET)
    faults = Faults()
    shown = []
    with served_tiny.fake(api_key=SECRET, faults=faults) as server:
        folder = shutil.copytree(served_tiny.folder(), tmp_path / "tokenizer")
        frame = beamuq.ask_all(
            [{"id": str(n), "question": f"What is {n}?", "correct": n > 3} for n in range(12)],
            source(server),
            tokenizer=folder,
            **ASK,
        )
        frame.to_csv(tmp_path / "scores.csv")
        frame.to_parquet(tmp_path / "scores.parquet")
        calibration = beamuq.calibrate(frame, method="Prob", output=tmp_path / "c.json")
        rows = beamuq.decode(source(server), folder, PROMPTS, **OPTIONS)
        (tmp_path / "rows.json").write_text(json.dumps(rows))
        answer = beamuq.ask("Who?", source(server), tokenizer=folder, **ASK)
        shown += [str(answer), repr(answer), answer.as_json(), str(calibration)]
        opened = next(iter(open_models._SERVERS.values()))
        shown += [repr(opened), repr(opened.requests), repr(opened.identity)]
        faults.dies_after = len(server.completions)
        with pytest.raises(BeamUQError) as error:
            beamuq.decode(source(server), folder, PROMPTS, **OPTIONS)
        shown += [str(error.value), repr(error.value)]
        port = server.root.rpartition(":")[2]
    printed = capsys.readouterr()
    shown += [printed.out, printed.err]
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 4
    for word in (SECRET, "127.0.0.1", f":{port}"):
        assert not [text for text in shown if word in text]
        assert not [content for content in files if word.encode() in content]
