"""Responses of servers, written to the published schemas, become candidates with what the server said and no more."""

from __future__ import annotations

import json
import math
import os
import time
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beamuq.api.candidate_records import read_records
from beamuq.api.score_candidates import score
from beamuq.api.server_responses import NO_ENDING, NO_LOGPROBS, NO_SPELLING, NO_TOKEN, _beyond
from beamuq.errors import BeamUQError

Tokens = list[tuple[Any, Any]]
PARIS: Tokens = [(" Par", -0.5), ("is", -0.25)]
ENDED: Tokens = [*PARIS, ("<|im_end|>", -0.125)]


def chat(text: str | None, tokens: Tokens | None, finish: str = "stop", **more: Any) -> dict[str, Any]:
    """A choice of ``/v1/chat/completions``."""
    content = tokens and [
        {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": []}
        for token, logprob in tokens
    ]
    message = {"role": "assistant", "content": text, "refusal": None}
    logprobs = None if tokens is None else {"content": content, "refusal": None}
    return {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish, **more}


def completed(text: str, tokens: Tokens, finish: str = "stop", **more: Any) -> dict[str, Any]:
    """A choice of ``/v1/completions``."""
    names, logprobs = [token for token, _ in tokens], [logprob for _, logprob in tokens]
    offsets = [sum(map(len, names[:n])) for n in range(len(names))]
    held = {"tokens": names, "token_logprobs": logprobs, "text_offset": offsets, "top_logprobs": None}
    return {"index": 0, "text": text, "logprobs": held, "finish_reason": finish, **more}


def response(*choices: dict[str, Any], kind: str = "chat.completion") -> dict[str, Any]:
    return {"id": "cmpl-1", "object": kind, "created": 1, "model": "m", "choices": list(choices), "usage": {}}


def output(text: str, ids: list[int], tokens: Tokens | None, **more: Any) -> dict[str, Any]:
    """vLLM's ``CompletionOutput`` as JSON."""
    top = tokens and [
        {str(id_): {"logprob": logprob, "rank": 1, "decoded_token": token}, "99": {"logprob": -9.0, "rank": 2}}
        for id_, (token, logprob) in zip([*ids, *[7] * (len(tokens) - len(ids))], tokens, strict=True)
    ]
    total = math.fsum(logprob for _, logprob in tokens or ())
    known = {"cumulative_logprob": total, "logprobs": top, "finish_reason": "stop", "stop_reason": None}
    return {"index": 0, "text": text, "token_ids": ids} | known | more


def generated(text: str, tokens: list[list[Any]], kind: str = "stop", matched: Any = None) -> dict[str, Any]:
    """SGLang's ``/generate``."""
    finish = {"type": kind} | ({} if matched is None else {"matched": matched})
    return {"text": text, "meta_info": {"id": "1", "finish_reason": finish, "output_token_logprobs": tokens}}


def llama(text: str, tokens: Tokens, stop: str = "eos", **settings: Any) -> dict[str, Any]:
    """llama.cpp's ``/completion``."""
    probabilities = [
        {"id": n, "token": token, "bytes": list(token.encode()), "logprob": logprob, "top_logprobs": []}
        for n, (token, logprob) in enumerate(tokens)
    ]
    return {
        "content": text,
        "stop_type": stop,
        "stopping_word": "",
        "completion_probabilities": probabilities,
        "generation_settings": {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, **settings},
    }


def answer_of(found: dict[str, Any], **row: Any) -> Any:
    return read_records([{"answer": found, **row}])[0].answer


WHOLE = {
    "chat, vLLM's with the turn's end": response(chat("Paris", ENDED)),
    "chat, one token is empty, as llama.cpp writes an ending": response(chat(" Paris", [*PARIS, ("", -0.125)])),
    "text, a stop string beyond the text": response(completed(" Paris", [*PARIS, ("\n", -0.125)])),
    "text, the stop string is kept": response(completed(" Paris\n", [*PARIS, ("\n", -0.125)], stop_reason="\n")),
    "text, an ending that holds some of the text": response(completed(" Paris.", [*PARIS, (".\n", -0.125)])),
    "text, cut": response(completed(" Paris in", [*PARIS, (" in", -0.125)], "length")),
    "text, llama.cpp's with content": response(
        {"text": " Paris", **{k: v for k, v in chat("", ENDED).items() if k != "message"}}
    ),
    "space lost by the tokenizer": response(chat("Le Mans", [("Le", -0.5), ("Mans", -0.25), ("</s>", -0.125)])),
    "half characters": response(
        chat("Z\u00fc", [("Z", -0.25), ("\ufffd", -0.25), ("\ufffd", -0.25), ("</s>", -0.125)])
    ),
    "vLLM's RequestOutput": {"request_id": "0", "prompt": "?", "outputs": [output(" Paris", [1, 2, 7], ENDED)]},
    "vLLM's, a sum alone": {"outputs": [output(" Paris", [1, 2, 7], None, cumulative_logprob=-0.875)]},
    "SGLang's, by id": generated("Paris", [[-0.5, 1, None], [-0.25, 2, None], [-0.125, 7, None]], matched=7),
    "SGLang's, by text": generated("Paris", [[-0.5, 1, "Par"], [-0.25, 2, "is"], [-0.125, 3, "\n"]], matched="\n"),
    "llama.cpp's": llama(" Paris", [*PARIS, ("", -0.125)]),
    "llama.cpp's, cut": llama(" Paris in", [*PARIS, (" in", -0.125)], "limit"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_an_answer_with_its_ending_has_the_log_probability_of_all_its_tokens(name: str) -> None:
    answer = answer_of(WHOLE[name])
    assert answer.total == pytest.approx(-0.875)
    assert answer.length in (3, 4)
    assert answer.left_out is None


UNLIKELY = json.loads(
    json.dumps(output("Paris", [1, 2], PARIS)).replace("-0.5", "-1.7e308").replace("-0.25", "-1.7e308")
)
LEFT_OUT = {
    "vLLM's, numbers that no sum can hold": ({"outputs": [UNLIKELY | {"cumulative_logprob": None}]}, NO_TOKEN),
    "chat, OpenAI's has the text's tokens only": (response(chat(" Paris", PARIS)), NO_ENDING),
    "text, llama-cpp-python drops the end of text": (response(completed(" Paris", PARIS)), NO_ENDING),
    "text ends in a line break of its own": (response(completed(" Paris\n", [*PARIS, ("\n", -0.1)])), NO_ENDING),
    "ended at once": (response(chat("", [])), NO_ENDING),
    "SGLang's, another last token": (generated("Paris", [[-0.5, 1, "Paris"]], matched=7), NO_ENDING),
    "llama.cpp's takes a stop word's tokens away": (llama(" Paris", PARIS, "word"), NO_ENDING),
    "not asked for": (response(chat("Paris", None)), NO_LOGPROBS),
    "the server's floor": (response(chat("Paris", [("Paris", -9999.0), ("</s>", -0.1)])), NO_TOKEN),
    "an echoed prompt": (response(completed("Q: Paris", [("Q:", None), (" Paris", -0.1)])), NO_TOKEN),
    "reasoning": (response(chat("Paris", [("<think>", -0.1), *ENDED])), NO_SPELLING),
    "token ids for texts": (
        response(chat("Paris", None) | {"logprobs": {"content": [{"token": "token_id:5", "logprob": -0.1}]}}),
        NO_SPELLING,
    ),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_a_server_leaves_out_leaves_the_answer_without_a_log_probability(name: str) -> None:
    found, why = LEFT_OUT[name]
    answer = answer_of(found)
    assert (answer.total, answer.length, answer.left_out) == (None, None, why)


def test_the_reason_of_a_score_names_what_the_server_left_out() -> None:
    row = {"answer": response(chat("Paris", PARIS)), "samples": response(chat("Paris", ENDED), chat("Rome", None))}
    frame = score([row], similarity="lexical").set_index(["method", "variant", "setting"])
    assert NO_ENDING in frame.reason["Prob", "", ""]
    assert NO_ENDING in frame.reason["CocoaPPL", "multinomial", ""]
    assert NO_LOGPROBS in frame.reason["SemanticEntropy", "multinomial", "likelihood-summed"]
    assert frame.value["Dissimilarity", "multinomial", ""] == pytest.approx(0.5)


def sequence(tokens: Tokens, ids: list[int], **more: Any) -> dict[str, Any]:
    """vLLM's ``BeamSearchSequence`` behind the prompt "Q:" of ids 100 and 101, in tokens and text."""
    held = output("", ids, tokens)
    text = "Q:" + "".join(token for token, _ in tokens if token)
    return {"tokens": [100, 101, *ids], "text": text, "logprobs": held["logprobs"]} | {
        "cum_logprob": held["cumulative_logprob"],
        "finish_reason": None,
        "stop_reason": None,
        **more,
    }


BEAMS = {
    "offline": sequence(ENDED, [1, 2, 7]),
    "offline, reasons given": sequence(ENDED, [1, 2, 7], finish_reason="stop", stop_reason=7),
    "offline, ending dropped from the tokens": sequence(
        ENDED, [1, 2], finish_reason="stop", stop_reason=7, text="Q: Paris"
    ),
    "offline, a score divided by its length": sequence(ENDED, [1, 2, 7], cum_logprob=-0.875 / 2),
    "offline, divided by the prompt's length too": sequence(ENDED, [1, 2, 7], cum_logprob=-0.875 / 4),
}


@pytest.mark.parametrize("name", BEAMS)
def test_beams_of_vllm_are_read_without_their_prompt(name: str) -> None:
    beams = {"sequences": [BEAMS[name], sequence([(" Rome", -2.0)], [3], cum_logprob=-2.0)]}
    found = read_records([{"answer": "Paris", "beams": beams, "eos_token_id": 7}])[0].beams
    assert [(beam.text, beam.total) for beam in found] == [(" Paris", -0.875), (" Rome", -2.0)]


def test_beams_of_a_request_output_keep_the_ending_that_its_tokens_lack() -> None:
    dropped = output(" Paris", [1, 2], ENDED, stop_reason=7)
    found = read_records([{"answer": "Paris", "beams": {"outputs": [dropped]}}])[0].beams
    assert found[0].token_logprobs == [-0.5, -0.25, -0.125]


def test_a_beams_score_alone_is_taken_for_a_sum_only_where_the_row_says_so() -> None:
    beams = {"outputs": [output(" Paris", [1, 2, 7], None, cumulative_logprob=-0.875)]}
    assert read_records([{"answer": "x", "beams": beams, "beam_scores": "sum"}])[0].beams[0].total == -0.875
    with pytest.raises(BeamUQError, match="beam_scores: sum"):
        read_records([{"answer": "x", "beams": beams}])


def test_lines_of_requests_are_put_together_by_question_and_told_apart(tmp_path: Path) -> None:
    lines = [
        {"custom_id": "a", "request": {"temperature": 0}, "response": response(chat("Paris", ENDED))},
        {"custom_id": "b", "kind": "samples"} | response(chat("Rome", ENDED)),
        {"custom_id": "a", "temperature": 1.0, "response": {"body": response(chat("Paris", None), chat("Lyon", None))}},
        {"custom_id": "b", "temperature": 0.0} | response(completed("Rome", [("Rome", -0.1), ("\n", -0.2)])),
        {"custom_id": "a", "request": {"body": {"temperature": 1}}, "response": response(chat("Nice", None))},
        {"custom_id": "b", "response": [generated("Milan", []), generated("Rome", [])], "temperature": 1},
        {
            "custom_id": "b",
            "request": {"use_beam_search": True},
            "response": response(completed("Rome", [("Rome", -0.1), ("\n", -0.2)])),
        },
        {"custom_id": "b"} | llama("Turin", []),
    ]
    path = tmp_path / "responses.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    whole = tmp_path / "responses.json"
    whole.write_text(json.dumps(lines))
    for file in (path, whole):
        first, second = read_records(file)
        assert (first.id, first.answer.text, [each.text for each in first.samples]) == (
            "a",
            "Paris",
            ["Paris", "Lyon", "Nice"],
        )
        assert [each.text for each in second.samples] == ["Rome", "Milan", "Rome", "Turin"]
        assert [beam.total for beam in second.beams] == [pytest.approx(-0.3)]


def test_objects_of_clients_and_of_vllm_are_read_like_their_json() -> None:
    entries = [{n: SimpleNamespace(logprob=p, rank=1, decoded_token=t)} for n, (t, p) in enumerate(ENDED)]
    made = SimpleNamespace(text="Paris", token_ids=(0, 1, 2), logprobs=entries, cumulative_logprob=-0.875)
    vars(made).update(finish_reason="stop", stop_reason=None)
    client = SimpleNamespace(model_dump=lambda: response(chat("Paris", ENDED)))
    item = read_records([{"answer": SimpleNamespace(outputs=[made], prompt="?"), "samples": [client, "Lyon"]}])[0]
    assert item.answer.token_logprobs == [-0.5, -0.25, -0.125]
    assert [each.total for each in item.samples] == [-0.875, None]


def test_a_long_answer_of_half_characters_is_read_in_time_linear_in_its_length() -> None:
    tokens = [b"x", "\ufffd".encode()] * 100_000
    start = time.process_time()
    assert _beyond([*tokens, b"</s>"], "xy" * 100_000) is not None
    assert time.process_time() - start < 2.5


def test_a_question_may_be_called_0() -> None:
    (found,) = read_records([{"custom_id": 0, "temperature": 0, "response": ONE}])
    assert found.id == "0"


def test_what_the_answers_line_says_of_it_is_kept() -> None:
    answer = {"custom_id": "a", "temperature": 0, "correct": 1, "group": "story", "response": ONE}
    (found,) = read_records([answer, {"custom_id": "a", "temperature": 1, "correct": 0, "response": ONE}])
    assert (found.correct, found.quality, found.group) == (1, None, "story")


ONE = response(chat("Paris", ENDED))
HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "no question": ({"temperature": 0} | ONE, "custom_id: missing"),
    "no kind": ({"custom_id": "a", "response": ONE}, "kind: missing"),
    "another kind": ({"custom_id": "a", "kind": "greedy", "response": ONE}, "kind: 'greedy'"),
    "no greedy answer": ({"custom_id": "a", "temperature": 1, "response": ONE}, "no greedy answer"),
    "two greedy": (
        {"custom_id": "a", "temperature": 0, "response": response(chat("a", None), chat("b", None))},
        "answer: 2 choices",
    ),
    "warm samples": ({"custom_id": "a", "temperature": 0.7, "response": ONE}, "temperature: 0.7"),
    "truncated samples": (
        {"custom_id": "a", "request": {"temperature": 1, "top_p": 0.9}, "response": ONE},
        "top_p: 0.9",
    ),
    "llama.cpp's default samples": ({"answer": "x", "samples": [llama("y", [], top_k=40)]}, "top_k: 40"),
    "an error": ({"custom_id": "a", "error": {"message": "rate limit"}, "response": None}, "rate limit"),
    "no response": ({"custom_id": "a", "temperature": 0, "response": {"status_code": 500}}, "response: not of a form"),
    "no choice": ({"answer": response()}, "choices"),
    "a call of a tool": ({"answer": response(chat(None, None, "tool_calls"))}, "choices[0]: no text"),
    "a filtered answer": ({"answer": response(chat("P", None, "content_filter"))}, "finish_reason: 'content_filter'"),
    "a streamed chunk": ({"answer": {"choices": [{"delta": {"content": "P"}}]}}, "choices[0]: no text"),
    "a text for a logprob": ({"answer": response(completed("P", [("P", "x")]))}, "token_logprobs[0]"),
    "unequal lists": (
        {"answer": response(completed("P", []) | {"logprobs": {"tokens": ["P"], "token_logprobs": []}})},
        "1 tokens and 0",
    ),
    "a positive logprob": ({"answer": response(chat("P", [("P", 0.5), ("</s>", -0.1)]))}, "token_logprobs[0]: 0.5"),
    "a token without entry": (
        {"answer": {"outputs": [output("P", [1], [("P", -0.1)]) | {"token_ids": [5]}]}},
        "no entry for the token chosen, 5",
    ),
    "fewer entries": (
        {"answer": {"outputs": [output("P", [1], [("P", -0.1)]) | {"token_ids": [1, 5]}]}},
        "1 entries for 2 tokens",
    ),
    "a sum of other tokens": (
        {"answer": {"outputs": [output("P", [1], [("P", -0.1)], cumulative_logprob=-3.0)]}},
        "cumulative_logprob: -3",
    ),
    "beams without an end": ({"answer": "x", "beams": {"sequences": [sequence(ENDED, [1, 2, 7])]}}, "eos_token_id"),
    "beams without logprobs": (
        {"answer": "x", "beams": {"sequences": [sequence([], [1])]}},
        "logprobs: 0 for 3 tokens",
    ),
    "beams of another text": (
        {"answer": "x", "beams": {"sequences": [sequence(ENDED, [1, 2, 7], text="?")]}, "eos_token_id": 7},
        "text: does not end",
    ),
    "beams undecoded": (
        {"answer": "x", "beams": {"sequences": [sequence([(None, -0.1)], [1], text="?")]}, "eos_token_id": 7},
        "text: does not end",
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_bad_response_is_told_in_one_line_with_its_place(name: str, tmp_path: Path) -> None:
    line, told = HOSTILE[name]
    path = tmp_path / "responses.jsonl"
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(BeamUQError) as caught:
        read_records(path)
    assert str(caught.value).startswith(f"{path}: line 1")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.server
def test_a_real_servers_answers_are_scored(tmp_path: Path) -> None:
    """A base model's prompt, its line break as the ending; one request a sample, as not all servers take ``n``."""
    address = os.environ.get("BEAMUQ_SERVER")
    if not address:
        pytest.skip("no server: give its address up to /v1 as BEAMUQ_SERVER")
    own = {"top_p": 1, "top_k": 0, "min_p": 0, "max_tokens": 12, "logprobs": 1, "stop": ["\n"]}
    with urllib.request.urlopen(f"{address}/models", timeout=60) as models:
        model = json.load(models)["data"][0]["id"]
    prompt = "Question: What is the capital of Italy?\nAnswer: Rome\nQuestion: What is the capital of France?\nAnswer:"
    path = tmp_path / "responses.jsonl"
    with path.open("w") as file:
        for seed, temperature in enumerate((0, 1, 1, 1)):
            request = {"model": model, "prompt": prompt, "temperature": temperature, "seed": seed, **own}
            headers = {"Content-Type": "application/json"}
            sent = urllib.request.Request(f"{address}/completions", json.dumps(request).encode(), headers)
            with urllib.request.urlopen(sent, timeout=60) as answered:
                line = {"custom_id": "capital", "request": request, "response": json.load(answered)}
            file.write(json.dumps(line) + "\n")
    item = read_records(path)[0]
    assert len(item.samples) == 3
    assert all(each.total is not None for each in (item.answer, *item.samples))
    frame = score(path, similarity="lexical")
    assert frame[frame.method == "Prob"].value.item() == pytest.approx(-(item.answer.total or 0))
    assert frame[(frame.method == "Dissimilarity") & (frame.variant == "multinomial")].value.notna().all()
