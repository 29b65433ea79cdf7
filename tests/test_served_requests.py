"""Requests to a model server: faults, retries, the key, redirects, addresses."""

from __future__ import annotations

import gc
import os
import time
from types import SimpleNamespace
from typing import Any

import pytest

import served_tiny
from beamuq.errors import BeamUQError
from beamuq.models.served import http_requests
from beamuq.models.served.http_requests import (
    TIMEOUT,
    Patience,
    ServerRequests,
)
from beamuq.models.served.server_address import KEY, is_server, parse_address
from beamuq.secret_masking import masked
from fake_model_server import FakeModelServer, Faults

BODY = {"model": "tiny", "prompt": [[5, 6]], "max_tokens": 1, "temperature": 0.0, "logprobs": 2}
PATH = "/v1/completions"
SECRET = "sk-very-secret-17"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.delenv(TIMEOUT, raising=False)


def requests_to(server: FakeModelServer, **patience: Any) -> ServerRequests:
    options = {"retries": 2, "first": 0.01, "longest": 0.05, "connect": 2.0} | patience
    return ServerRequests(parse_address(f"server:{server.url}"), Patience(**options))


@pytest.mark.filterwarnings("error")
def test_a_connection_is_closed_with_what_held_it() -> None:
    with served_tiny.fake() as server:
        requests = requests_to(server)
        requests.post(PATH, BODY)
        del requests
        gc.collect()


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504])
def test_a_request_is_sent_again_after_a_status_that_passes(status: int) -> None:
    with served_tiny.fake(faults=Faults(statuses=[status, status])) as server:
        assert requests_to(server).post(PATH, BODY).status == 200
        assert len(server.completions) == 3


def test_a_status_that_stays_is_told_in_one_line_after_all_tries() -> None:
    with (
        served_tiny.fake(faults=Faults(statuses=[500] * 9)) as server,
        pytest.raises(BeamUQError, match=r"^the model server: status 500: .* \(3 tries\); see"),
    ):
        requests_to(server).post(PATH, BODY)
    assert len(server.completions) == 3


def test_the_wait_between_tries_doubles_up_to_the_longest(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    clock = SimpleNamespace(sleep=waits.append, monotonic=time.monotonic)
    monkeypatch.setattr(http_requests, "time", clock)
    with (
        served_tiny.fake(faults=Faults(statuses=[500] * 9)) as server,
        pytest.raises(BeamUQError, match="5 tries"),
    ):
        requests_to(server, retries=4).post(PATH, BODY)
    assert waits == [0.01, 0.02, 0.04, 0.05]


def test_what_the_server_refuses_is_not_sent_again() -> None:
    with served_tiny.fake() as server:
        reply = requests_to(server).post(PATH, BODY | {"logprobs": 21})
    assert reply.status == 400
    assert "greater than max allowed: 20" in reply.message
    assert len(server.completions) == 1


def test_the_server_s_own_wait_is_heard_up_to_the_longest() -> None:
    faults = Faults(statuses=[429], retry_after=0.3)
    with served_tiny.fake(faults=faults) as server:
        started = time.monotonic()
        requests_to(server, longest=5.0).post(PATH, BODY)
        assert time.monotonic() - started >= 0.3
        faults.statuses = [429]
        faults.retry_after = 1000.0
        started = time.monotonic()
        requests_to(server, longest=0.1).post(PATH, BODY)
        assert time.monotonic() - started < 20


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    with served_tiny.fake(faults=Faults(cuts=1)) as server:
        assert requests_to(server).post(PATH, BODY).status == 200
        assert len(server.completions) == 2


def test_a_connection_that_the_server_has_closed_meanwhile_costs_no_try() -> None:
    with served_tiny.fake(faults=Faults(closes_silently=True)) as server:
        requests = requests_to(server, retries=0)
        for _ in range(3):
            assert requests.post(PATH, BODY).status == 200


def test_a_connection_is_kept() -> None:
    with served_tiny.fake() as server:
        requests = requests_to(server)
        requests.post(PATH, BODY)
        first = requests._connection
        requests.post(PATH, BODY)
        assert first is not None
        assert requests._connection is first


def test_a_slow_server_is_told_with_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT, "0.2")
    with (
        served_tiny.fake(faults=Faults(delay=1.0)) as server,
        pytest.raises(BeamUQError, match=rf"no answer within 0\.2 seconds; .*{TIMEOUT}"),
    ):
        requests_to(server).post(PATH, BODY)


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan", "1e9"])
def test_a_time_out_that_is_none_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIMEOUT, text)
    with (
        served_tiny.fake() as server,
        pytest.raises(BeamUQError, match=rf"^{TIMEOUT}: '{text}': give seconds"),
    ):
        requests_to(server).post(PATH, BODY)


def test_nobody_at_the_address_is_told_in_one_line_without_it() -> None:
    with served_tiny.fake() as server:
        requests = requests_to(server)
    with pytest.raises(BeamUQError, match="nothing listens at its address") as error:
        requests.post(PATH, BODY)
    assert "127.0.0.1" not in str(error.value)


@pytest.mark.parametrize("within", [False, True])
def test_a_server_that_is_killed_in_a_request_is_told_in_one_line(within: bool) -> None:
    faults = Faults(dies_after=1, dies_within=within)
    with served_tiny.fake(faults=faults) as server:
        requests = requests_to(server)
        requests.post(PATH, BODY)
        with pytest.raises(BeamUQError, match=r"^the model server: .* \(3 tries\)") as error:
            requests.post(PATH, BODY)
    assert "127.0.0.1" not in str(error.value)


def test_a_page_of_a_proxy_is_no_answer() -> None:
    with (
        served_tiny.fake(faults=Faults(not_json=True)) as server,
        pytest.raises(BeamUQError, match="something else than JSON; give the address"),
    ):
        requests_to(server).post(PATH, BODY)


def test_the_key_of_the_environment_goes_with_every_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(KEY, SECRET)
    with served_tiny.fake(api_key=SECRET) as server:
        requests = requests_to(server)
        assert requests.post(PATH, BODY).status == 200
        assert requests.get("/v1/models").status == 200
    assert SECRET not in repr(vars(requests))


def test_without_the_key_the_variable_is_named() -> None:
    with (
        served_tiny.fake(api_key=SECRET) as server,
        pytest.raises(BeamUQError, match=rf"status 401, .* environment as {KEY}"),
    ):
        requests_to(server).post(PATH, BODY)


@pytest.mark.parametrize("key", ["x", "two words", "line\nbreak", "schlüssel"])
def test_a_key_that_is_none_is_refused_without_being_shown(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, key)
    with (
        served_tiny.fake() as server,
        pytest.raises(BeamUQError, match=rf"^{KEY}: no key") as error,
    ):
        requests_to(server).post(PATH, BODY)
    assert len(server.requests) == 0
    assert len(key) == 1 or key not in str(error.value)


def test_a_redirect_is_refused_so_that_the_key_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)
    with served_tiny.fake() as other:
        faults = Faults(redirect=f"{other.url}/completions")
        with (
            served_tiny.fake(faults=faults) as server,
            pytest.raises(BeamUQError, match="status 307, a redirect"),
        ):
            requests_to(server).post(PATH, BODY)
        assert other.requests == []


def test_the_key_is_masked_in_whatever_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "tiny7")
    assert masked("Authorization: Bearer tiny7, tiny7") == "Authorization: Bearer ***, ***"
    assert "tiny7" not in str(BeamUQError("the server says tiny7 is wrong"))
    monkeypatch.setenv(KEY, "")
    assert masked("tiny7") == "tiny7"


def test_an_error_that_quotes_the_key_does_not_show_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, SECRET)
    with (
        served_tiny.fake(faults=Faults(not_json=True)) as server,
        pytest.raises(BeamUQError) as error,
    ):
        requests_to(server).post(PATH, BODY | {"user": SECRET})
    assert SECRET not in f"{error.value}{error.value!r}"


@pytest.mark.parametrize(
    "source",
    [
        "server:http://name:secretword@localhost:8000/v1",
        "server:https://secretword@localhost/v1",
        "server:http://localhost:8000/v1?api_key=secretword",
    ],
)
def test_credentials_in_an_address_are_refused_and_not_shown(source: str) -> None:
    with pytest.raises(BeamUQError, match=rf"holds credentials or a query, .* as {KEY}") as error:
        parse_address(source)
    assert "secretword" not in str(error.value)
    assert "localhost" not in str(error.value)


@pytest.mark.parametrize(
    "source",
    [
        "server:",
        "server:localhost:8000",
        "server:ftp://localhost/v1",
        "server:http://",
        "server:http://localhost:port/v1",
        "server:http://local host/v1",
        "server:http://[::1/v1",
    ],
)
def test_what_is_no_address_is_refused_with_its_form(source: str) -> None:
    with pytest.raises(BeamUQError, match=r"no address; write server:http://HOST:PORT/v1"):
        parse_address(source)


def test_an_error_that_quotes_the_address_does_not_show_it() -> None:
    with served_tiny.fake() as server:
        reply = requests_to(server).post(PATH, BODY | {"model": server.root})
        port = server.root.rpartition(":")[2]
    assert reply.status == 404
    assert "does not exist" in reply.message
    assert "127.0.0.1" not in reply.message
    assert port not in reply.message
    address = parse_address("server:http://host.example:81/llm/v1")
    shown = address.without_address("POST http://host.example:81/llm/v1, by host.example")
    assert shown == "POST http://the server/v1, by the server"


def test_an_address_is_read_and_shows_no_host() -> None:
    address = parse_address("server:https://host.example/llm/v1#org/name")
    assert (address.host, address.port, address.path) == ("host.example", 443, "/llm")
    assert address.model == "org/name"
    assert "host.example" not in repr(address)
    assert "llm" not in repr(address)
    assert parse_address("server:http://h:81/v1/").path == ""
    assert parse_address("server:http://h:81").path == ""


@pytest.mark.parametrize("source", ["hub:a/b", "packaged:x", "folder", None, 5])
def test_only_an_address_is_a_server(source: object) -> None:
    assert not is_server(source)


def test_bytes_and_requests_are_counted() -> None:
    with served_tiny.fake() as server:
        requests = requests_to(server)
        requests.post(PATH, BODY)
        assert requests.requests == 1
        assert requests.bytes_received == server.completions[0].bytes_out
        assert requests.bytes_sent == server.completions[0].bytes_in


def test_a_key_is_read_when_a_request_is_made_and_kept_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with served_tiny.fake(api_key=SECRET) as server:
        requests = requests_to(server)
        monkeypatch.setenv(KEY, SECRET)
        requests.post(PATH, BODY)
        del os.environ[KEY]
        with pytest.raises(BeamUQError, match="status 401"):
            requests.post(PATH, BODY)
