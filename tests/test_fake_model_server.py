"""The stand-in for a model's server: what it lists is its model's, and its faults happen."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from fake_model_server import FakeModelServer, Faults, Kind
from record_servers import FOLDER, REQUESTS
from record_servers import asked as recorded_request
from tiny import plain_logits, tiny_model

PROMPT = (2, 40, 50, 60)
OTHER = (2, 70, 80)


def server(kind: Kind = "vllm", **options: Any) -> FakeModelServer:
    model, tokenizer = tiny_model("llama")
    return FakeModelServer(model, tokenizer, kind=kind, **options)


@pytest.fixture
def vllm() -> Iterator[FakeModelServer]:
    with server() as running:
        yield running


@pytest.fixture
def llama_cpp() -> Iterator[FakeModelServer]:
    with server("llama.cpp") as running:
        yield running


SUBSETS = ("props", "models")
"""Of these answers the stand-in gives a part, which a client may read."""
UNKNOWN_FIELDS = "unknown field"
NUMBERS = (int, float)


def shape(value: Any, name: str = "") -> Any:
    """An answer without its values: keys, lengths of lists, kinds of values; of an error also what
    it is.

    Which tokens are listed, and how many with the drawn one, is the model's own.
    """
    if name in ("top_logprobs", "prompt_logprobs") and isinstance(value, list):
        return [None if entry is None else "list" for entry in value]
    if name in ("tokens", "bytes", "top_probs"):
        return "list"
    if name in ("type", "code", "param", "object", "finish_reason"):
        return value
    if isinstance(value, dict):
        return {key: shape(entry, key) for key, entry in value.items()}
    if isinstance(value, list):
        return [shape(entry) for entry in value]
    return "number" if isinstance(value, NUMBERS) else type(value).__name__


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, names in REQUESTS.items() for name in names if name != UNKNOWN_FIELDS],
)
def test_an_answer_has_the_form_of_the_real_servers(kind: Kind, name: str) -> None:
    recorded = json.loads((FOLDER / f"{kind}.json").read_text())[name]
    path, body = REQUESTS[kind][name]
    with server(kind, context=1024) as running:
        ours = recorded_request(running.root.removeprefix("http://"), path, body)
    assert ours["status"] == recorded["status"]
    real = recorded["answer"]
    if name in SUBSETS:
        real = cut_to(real, ours["answer"])
    assert shape(ours["answer"]) == shape(real)


def cut_to(value: Any, model: Any) -> Any:
    """A value without keys that ``model`` lacks."""
    if isinstance(value, dict) and isinstance(model, dict):
        return {key: cut_to(entry, model[key]) for key, entry in value.items() if key in model}
    if isinstance(value, list) and isinstance(model, list):
        return [cut_to(entry, other) for entry, other in zip(value, model, strict=True)]
    return value


def asked(address: str, body: dict[str, Any] | None = None, **headers: str) -> Any:
    """The JSON of an answer; a POST where there is a body."""
    content = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(address, content, headers), timeout=10) as a:
        return json.load(a)


def completed(running: FakeModelServer, **fields: Any) -> Any:
    """vLLM's answer to the prompt of token ids."""
    usual = {
        "model": "tiny",
        "prompt": [list(PROMPT)],
        "add_special_tokens": False,
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": 5,
        "return_tokens_as_token_ids": True,
    }
    return asked(f"{running.url}/completions", usual | fields)


def first_list(answer: Any) -> dict[int, float]:
    listed = answer["choices"][0]["logprobs"]["top_logprobs"][0]
    return {int(name.removeprefix("token_id:")): logprob for name, logprob in listed.items()}


def refusal(call: Any) -> tuple[int, Any]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        call()
    return caught.value.code, json.load(caught.value)


def logprobs_after(tokens: tuple[int, ...], temperature: float = 1.0) -> np.ndarray:
    model, _ = tiny_model("llama")
    logits = plain_logits(model, tokens)[-1].double() / temperature
    return logits.log_softmax(-1).numpy()


def test_a_list_holds_the_most_probable_tokens_of_the_raw_softmax(vllm: FakeModelServer) -> None:
    expected = logprobs_after(PROMPT)
    best = np.argsort(-expected)[:5].tolist()
    for temperature in (0, 0.5, 1):
        listed = first_list(completed(vllm, temperature=temperature, seed=1))
        assert set(best) <= set(listed)
        assert [listed[token] for token in best] == pytest.approx(expected[best].tolist(), abs=1e-5)


def test_named_tokens_stand_in_place_of_the_most_probable(vllm: FakeModelServer) -> None:
    expected = logprobs_after(PROMPT)
    listed = first_list(completed(vllm, logprob_token_ids=[1, 3, 200]))
    assert set(listed) == {int(np.argmax(expected)), 1, 3, 200}
    assert [listed[token] for token in (1, 3, 200)] == pytest.approx(
        expected[[1, 3, 200]].tolist(), abs=1e-5
    )


def test_prompts_of_one_request_are_answered_in_order(vllm: FakeModelServer) -> None:
    choices = completed(vllm, prompt=[list(PROMPT), list(OTHER)], return_token_ids=True)["choices"]
    assert [choice["index"] for choice in choices] == [0, 1]
    assert [tuple(choice["prompt_token_ids"]) for choice in choices] == [PROMPT, OTHER]
    assert choices[1]["token_ids"] == [int(np.argmax(logprobs_after(OTHER)))]
    assert vllm.completions[-1].prompts == 2


def test_an_echoed_prompt_has_its_own_log_probabilities(vllm: FakeModelServer) -> None:
    logprobs = completed(vllm, echo=True)["choices"][0]["logprobs"]
    expected = [float(logprobs_after(PROMPT[:end])[PROMPT[end]]) for end in range(1, len(PROMPT))]
    assert logprobs["tokens"][: len(PROMPT)] == [f"token_id:{token}" for token in PROMPT]
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["token_logprobs"][1 : len(PROMPT)] == pytest.approx(expected, abs=1e-5)


def test_draws_follow_the_seed_and_the_distribution(vllm: FakeModelServer) -> None:
    def drawn(seed: int) -> list[int]:
        answer = completed(vllm, n=500, temperature=1, seed=seed, logprobs=0, return_token_ids=True)
        return [choice["token_ids"][0] for choice in answer["choices"]]

    first = drawn(1)
    assert drawn(1) == first
    assert drawn(2) != first
    best = int(np.argmax(logprobs_after(PROMPT)))
    share = float(np.exp(logprobs_after(PROMPT)[best]))
    assert first.count(best) / 500 == pytest.approx(share, abs=4 * np.sqrt(share / 500))


def test_an_answer_ends_at_a_stop_token_or_at_its_length(vllm: FakeModelServer) -> None:
    whole = completed(vllm, max_tokens=6, ignore_eos=True, return_token_ids=True)["choices"][0]
    assert whole["finish_reason"] == "length"
    assert len(whole["token_ids"]) == 6
    third = whole["token_ids"][2]
    cut = completed(vllm, max_tokens=6, stop_token_ids=[third], return_token_ids=True)["choices"][0]
    assert (cut["finish_reason"], cut["stop_reason"]) == ("stop", third)
    assert cut["token_ids"] == whole["token_ids"][: whole["token_ids"].index(third) + 1]


def test_processed_log_probabilities_follow_the_temperature() -> None:
    with server(logprobs_mode="processed_logprobs") as running:
        listed = first_list(completed(running, temperature=0.5, seed=1))
        cold = first_list(completed(running, temperature=0))
    best = int(np.argmax(logprobs_after(PROMPT)))
    assert listed[best] == pytest.approx(float(logprobs_after(PROMPT, 0.5)[best]), abs=1e-5)
    assert cold[best] == pytest.approx(float(logprobs_after(PROMPT)[best]), abs=1e-5)


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"model": "other"}, 404, "The model `other` does not exist."),
        ({"logprobs": 21}, 400, "greater than max allowed: 20"),
        ({"logprobs": -1}, 400, "greater than max allowed: 20"),
        ({"prompt": [[100_000]]}, 400, "out of vocabulary"),
        ({"prompt": [[5] * 600]}, 400, "maximum context length is 512 tokens"),
        ({"prompt": [[5] * 512]}, 400, "max_tokens must be at least 1, got 0."),
        ({"logprob_token_ids": list(range(129))}, 400, "128"),
        ({"logprob_token_ids": [3], "logprobs": None}, 400, "`logprobs` must be set"),
        ({"top_logprobs": 3}, 501, "top_logprobs"),
    ],
)
def test_a_bad_request_is_refused_as_vllm_does(
    vllm: FakeModelServer, fields: dict[str, Any], status: int, words: str
) -> None:
    code, body = refusal(lambda: completed(vllm, **fields))
    assert code == status
    assert body["error"]["code"] == status
    assert words in body["error"]["message"]


def test_a_server_tells_its_model_and_version(vllm: FakeModelServer) -> None:
    model = asked(f"{vllm.url}/models")["data"][0]
    assert (model["id"], model["max_model_len"]) == ("tiny", 512)
    assert asked(f"{vllm.root}/version") == {"version": "0.32.0"}
    text = "Question: Who"
    ids = tiny_model("llama")[1](text)["input_ids"]
    told = {"prompt": text, "add_special_tokens": False}
    assert asked(f"{vllm.root}/tokenize", told)["tokens"] == ids


def test_llama_cpp_gives_an_object_for_one_prompt_and_a_list_for_two(
    llama_cpp: FakeModelServer,
) -> None:
    def answered(*prompts: tuple[int, ...]) -> Any:
        fields = {"prompt": prompts, "n_predict": 1, "n_probs": 4, "temperature": 0}
        return asked(f"{llama_cpp.url}/completion", fields)

    one = answered(PROMPT)
    two = answered(PROMPT, OTHER)
    expected = logprobs_after(PROMPT)
    best = np.argsort(-expected)[:4].tolist()
    top = one["completion_probabilities"][0]["top_logprobs"]
    assert [entry["id"] for entry in top] == best
    assert [entry["logprob"] for entry in top] == pytest.approx(expected[best].tolist(), abs=1e-5)
    assert [answer["index"] for answer in two] == [0, 1]
    assert two[0]["completion_probabilities"] == one["completion_probabilities"]


def test_llama_cpp_gives_probabilities_after_its_samplers_where_asked(
    llama_cpp: FakeModelServer,
) -> None:
    fields = {"prompt": PROMPT, "n_predict": 1, "n_probs": 300, "seed": 1}
    answer = asked(
        f"{llama_cpp.url}/completion",
        fields
        | {"temperature": 1, "top_k": 3, "top_p": 1, "min_p": 0, "post_sampling_probs": True},
    )
    top = answer["completion_probabilities"][0]["top_probs"]
    assert len(top) == 3
    assert sum(entry["prob"] for entry in top) == pytest.approx(1)


def test_llama_cpp_refuses_while_it_loads(llama_cpp: FakeModelServer) -> None:
    llama_cpp.faults.loading = 1
    code, body = refusal(lambda: asked(f"{llama_cpp.url}/props"))
    assert (code, body["error"]["message"]) == (503, "Loading model")
    assert asked(f"{llama_cpp.url}/props")["total_slots"] == 4


def test_statuses_come_once_each_with_their_wait(vllm: FakeModelServer) -> None:
    vllm.faults.statuses = [429, 503]
    vllm.faults.retry_after = 0.5
    with pytest.raises(urllib.error.HTTPError) as caught:
        completed(vllm)
    assert (caught.value.code, caught.value.headers["Retry-After"]) == (429, "0.5")
    assert refusal(lambda: completed(vllm))[0] == 503
    assert completed(vllm)["choices"]
    assert [request.status for request in vllm.completions] == [429, 503, 200]


def test_an_answer_breaks_off_in_the_middle(vllm: FakeModelServer) -> None:
    vllm.faults.cuts = 1
    with pytest.raises(http.client.IncompleteRead):
        completed(vllm)
    assert completed(vllm)["choices"]


def answered_again(connection: http.client.HTTPConnection) -> None:
    connection.request("GET", "/version")
    connection.getresponse()


def test_a_connection_closes_behind_an_answer_that_promised_to_keep_it(
    vllm: FakeModelServer,
) -> None:
    vllm.faults.closes_silently = True
    connection = http.client.HTTPConnection(vllm.root.removeprefix("http://"), timeout=10)
    connection.request("GET", "/version")
    answer = connection.getresponse()
    assert json.load(answer) == {"version": "0.32.0"}
    assert answer.headers["Connection"] is None
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        answered_again(connection)
    connection.close()


@pytest.mark.parametrize("within", [False, True])
def test_a_server_dies_after_some_requests(within: bool) -> None:
    with server(faults=Faults(dies_after=2, dies_within=within)) as running:
        for _ in range(2):
            completed(running)
        with pytest.raises((OSError, http.client.HTTPException)):
            completed(running)
        with pytest.raises(urllib.error.URLError):
            asked(f"{running.url}/models")


def test_a_redirect_names_another_host(vllm: FakeModelServer) -> None:
    with server() as other:
        vllm.faults.redirect = f"{other.url.replace('127.0.0.1', 'localhost')}/completions"
        connection = http.client.HTTPConnection(vllm.root.removeprefix("http://"), timeout=10)
        connection.request("POST", "/v1/completions", json.dumps({"prompt": PROMPT}))
        answer = connection.getresponse()
        assert (answer.status, answer.headers["Location"]) == (307, vllm.faults.redirect)
        connection.close()


def test_what_is_told_can_be_wrong(vllm: FakeModelServer) -> None:
    right = first_list(completed(vllm))

    def list_with(**faults: Any) -> dict[int, float]:
        for name, value in faults.items():
            setattr(vllm.faults, name, value)
        listed = first_list(completed(vllm))
        for name in faults:
            setattr(vllm.faults, name, getattr(Faults(), name))
        return listed

    assert list_with(wrong_ids=True) == {token + 1: logprob for token, logprob in right.items()}
    assert list_with(temperature=2.0) != right
    assert list_with(adds_bos=True) != right
    assert first_list(completed(vllm)) == right


def test_several_prompts_at_once_can_differ_from_one_alone(vllm: FakeModelServer) -> None:
    vllm.faults.noise = 1e-3
    alone = first_list(completed(vllm))
    together = first_list(completed(vllm, prompt=[list(PROMPT)] * 4))
    assert together != alone
    assert list(together.values()) == pytest.approx(list(alone.values()), abs=2.1e-3)


def test_a_field_can_be_without_effect(vllm: FakeModelServer) -> None:
    vllm.faults.ignores = {"logprob_token_ids"}
    assert len(first_list(completed(vllm, logprob_token_ids=[1, 3]))) == 5


def test_a_list_can_be_short_as_beside_a_client_that_names_tokens(vllm: FakeModelServer) -> None:
    vllm.faults.short_lists = 1
    assert len(first_list(completed(vllm))) == 1
    assert len(first_list(completed(vllm))) == 5


def test_a_key_is_asked_for() -> None:
    with server(api_key="secret") as running:
        address = f"{running.url}/models"
        assert refusal(lambda: asked(address))[0] == 401
        assert asked(address, Authorization="Bearer secret")["data"]


def test_requests_are_kept_and_nothing_is_printed(
    vllm: FakeModelServer, capfd: pytest.CaptureFixture[str]
) -> None:
    completed(vllm, prompt=[list(PROMPT), list(OTHER)])
    request = vllm.completions[0]
    assert (request.method, request.path, request.prompts) == ("POST", "/v1/completions", 2)
    assert request.bytes_in > 0
    assert request.bytes_out > 0
    assert vllm.prompts == 2
    assert capfd.readouterr() == ("", "")
