"""What is found out about a model server before it decodes, and what is refused."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import served_tiny
from beamuq.decoding.served.served_model import TokenList
from beamuq.errors import BeamUQError
from beamuq.models.load_model import load_tokenizer
from beamuq.models.served.opened_server import open_server
from beamuq.models.served.server_handshake import difference, shown_id
from beamuq.models.served.server_protocol import sorted_list
from fake_model_server import FakeModelServer, Faults


def test_what_is_found_is_told_in_one_line() -> None:
    with served_tiny.opened(max_logprobs=20) as (server, opened):
        found = opened.handshake
        assert server.root not in repr(opened)
    assert (found.kind, found.version, found.model) == ("vllm", "0.32.0", "tiny")
    assert (found.most_listed, found.most_named, found.noise) == (20, 128, 0.0)
    assert "\n" not in found.summary
    assert "lists 20 tokens and up to 128 named ones" in found.summary
    assert "weights are unknown" in found.summary


def test_a_server_that_lists_every_token_is_found_to() -> None:
    for kind, named in (("vllm", 128), ("llama.cpp", 0)):
        with served_tiny.opened(kind=kind, max_logprobs=-1) as (_, opened):
            assert opened.most_listed == opened.vocabulary == len(served_tiny.pair()[1])
            assert opened.most_named == named


@pytest.mark.parametrize("most", [5, 37, 100])
def test_the_number_of_listed_tokens_is_found(most: int) -> None:
    with served_tiny.opened(max_logprobs=most) as (_, opened):
        assert opened.most_listed == most


def test_a_server_without_the_field_for_named_tokens_is_found_to_name_none() -> None:
    with served_tiny.opened(faults=Faults(ignores={"logprob_token_ids"})) as (_, opened):
        assert opened.most_named == 0


@pytest.mark.parametrize("kind", ["vllm", "llama.cpp"])
@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ({"wrong_ids": True}, r"^tokenizer: '.*' has the ids .*, at the server .*; give the tok"),
        ({"adds_bos": True}, r"reads a prompt of \d+ token ids as \d+, .*start token"),
        ({"not_a_number": True}, r"log-probabilities are NaN"),
        ({"not_json": True}, r"something else than JSON"),
        ({"statuses": [500] * 9}, r"status 500"),
    ],
)
def test_a_server_that_cannot_be_believed_is_refused_with_the_reason(
    kind: str, fault: dict[str, Any], told: str
) -> None:
    with (
        served_tiny.fake(kind=kind, faults=Faults(**fault)) as server,
        pytest.raises(BeamUQError, match=told) as error,
    ):
        served_tiny.opened_at(server)
    assert "\n" not in str(error.value)
    assert "127.0.0.1" not in str(error.value)


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("processed_logprobs", r"change by .* with the temperature.*--logprobs-mode raw_logprobs"),
        ("raw_logits", r"of no probabilities.*--logprobs-mode raw_logprobs"),
        ("processed_logits", r"of no probabilities.*--logprobs-mode raw_logprobs"),
    ],
)
def test_lists_that_are_not_of_the_raw_softmax_are_refused(mode: str, told: str) -> None:
    with (
        served_tiny.fake(logprobs_mode=mode) as server,
        pytest.raises(BeamUQError, match=told),
    ):
        served_tiny.opened_at(server)


def test_another_model_s_tokenizer_is_refused() -> None:
    folder = served_tiny.folder()
    tokenizer = load_tokenizer(folder)
    tokenizer.add_tokens(["capital"])
    with (
        served_tiny.fake() as server,
        pytest.raises(BeamUQError, match=r"^tokenizer: .*give the tokenizer of the model that is"),
    ):
        open_server(f"server:{server.url}", tokenizer, folder, "", patience=served_tiny.QUICK)


def test_answers_that_depend_on_the_batch_are_measured_and_warned_of() -> None:
    with (
        pytest.warns(UserWarning, match=r"one prefix differ by 0\.0\d+ nats.*--flash-attn off"),
        served_tiny.opened(faults=Faults(noise=0.01)) as (_, opened),
    ):
        assert 0.002 < opened.handshake.noise < 0.03


def test_a_little_noise_is_noted_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with served_tiny.opened(faults=Faults(noise=1e-5)) as (_, opened):
            assert 1e-6 < opened.handshake.noise < 1e-4


def test_a_server_that_is_loading_is_waited_for() -> None:
    with served_tiny.fake(kind="llama.cpp", faults=Faults(loading=2)) as server:
        assert served_tiny.opened_at(server).name == "tiny"


class _SeveralModels(FakeModelServer):
    """A server with two models."""

    def __enter__(self) -> _SeveralModels:
        models = self.answers.get("/v1/models")
        models["data"].append(models["data"][0] | {"id": "/models/other"})
        plain = self.answers.get
        self.answers.get = lambda path: models if path == "/v1/models" else plain(path)  # type: ignore[method-assign]
        super().__enter__()
        return self


def test_of_several_models_one_must_be_chosen() -> None:
    with _SeveralModels(*served_tiny.pair()) as server:
        with pytest.raises(BeamUQError, match=r"serves 2 models \(tiny, other\); choose .*#MODEL"):
            served_tiny.opened_at(server)
        source = f"server:{server.url}#tiny"
        opened = open_server(
            source, served_tiny.pair()[1], served_tiny.folder(), "", patience=served_tiny.QUICK
        )
        assert opened.name == "tiny"
        with pytest.raises(BeamUQError, match="has no model 'none'; it has tiny, other"):
            open_server(
                f"server:{server.url}#none", served_tiny.pair()[1], served_tiny.folder(), ""
            )


def test_an_address_of_something_else_is_refused_by_what_it_answers() -> None:
    with served_tiny.fake() as server:
        source = f"server:{server.root}/elsewhere/v1"
        with pytest.raises(BeamUQError, match=r"status 404 for /v1/models; this server does not"):
            open_server(
                source, served_tiny.pair()[1], served_tiny.folder(), "", patience=served_tiny.QUICK
            )


def test_a_folder_without_a_config_is_refused_naming_the_option(tmp_path: Path) -> None:
    bare = shutil.copytree(served_tiny.folder(), tmp_path / "bare")
    (bare / "config.json").unlink()
    with (
        served_tiny.fake() as server,
        pytest.raises(BeamUQError, match=r"^tokenizer: .*has no config\.json; give its folder"),
    ):
        open_server(f"server:{server.url}", served_tiny.pair()[1], bare, "")


def test_no_weights_are_needed(tmp_path: Path) -> None:
    light = shutil.copytree(served_tiny.folder(), tmp_path / "light")
    (light / "model.safetensors").unlink()
    with served_tiny.fake() as server:
        source = f"server:{server.url}"
        opened = open_server(source, load_tokenizer(light), light, "")
    assert opened.window == 512


def test_the_smaller_window_counts() -> None:
    with served_tiny.opened(context=64) as (_, opened):
        assert opened.window == 64


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ("/data/models/llama", "llama"),
        ("./llama/", "llama"),
        ("C:\\models\\llama.gguf", "llama.gguf"),
        ("folder/llama.gguf", "llama.gguf"),
        ("meta-llama/Llama-3", "meta-llama/Llama-3"),
    ],
)
def test_a_model_that_is_named_by_its_path_is_shown_without_folders(model: str, shown: str) -> None:
    assert shown_id(model) == shown


def test_a_server_that_answers_otherwise_than_at_its_handshake_is_noticed() -> None:
    faults = Faults()
    with served_tiny.opened(faults=faults) as (_, opened):
        assert opened.is_still_as_checked()
        faults.temperature = 1.1
        assert not opened.is_still_as_checked()


def test_a_list_is_sorted_with_ties_by_id_and_the_drawn_token_beyond_it_left_out() -> None:
    listed = sorted_list({7: -1.0, 3: -2.0, 5: -1.0, 9: -9.0}, 3)
    assert listed.tokens.tolist() == [5, 7, 3]


@pytest.mark.parametrize("entries", [{1: 0.5}, {1: -0.1, 2: -0.2}])
def test_a_list_whose_mass_is_above_1_is_refused(entries: dict[int, float]) -> None:
    with pytest.raises(BeamUQError, match="of no probabilities"):
        sorted_list(entries, 5)


def test_lists_are_compared_up_to_the_end_of_each() -> None:
    one = TokenList(np.array([1, 2]), np.array([-0.5, -1.5]))
    other = TokenList(np.array([1, 3]), np.array([-0.6, -1.5]))
    assert difference(one, one) == 0
    assert difference(one, other) == pytest.approx(0.1)
    far = TokenList(np.array([1, 3]), np.array([-0.5, -3.5]))
    assert difference(one, far) == pytest.approx(2.0)
