"""Responses of servers, written to the published schemas, become candidates with what the server said and no more."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from beamuq.api.candidate_records import read_records
from beamuq.api.score_candidates import score
from beamuq.api.server_responses import NO_ENDING, NO_LOGPROBS, NO_SPELLING, NO_TOKEN
from beamuq.errors import BeamUQError

Tokens = list[tuple[Any, Any]]
PARIS: Tokens = [(" Par", -0.5), ("is", -0.25)]
ENDED: Tokens = [*PARIS, ("<|im_end|>", -0.125)]


def chat(text: str | None, tokens: Tokens | None, finish: str = "stop") -> dict[str, Any]:
    """A choice of ``/v1/chat/completions``."""
    content = tokens and [
        {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": []}
        for token, logprob in tokens
    ]
    message = {"role": "assistant", "content": text, "refusal": None}
    logprobs = None if tokens is None else {"content": content, "refusal": None}
    return {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish}


def completed(text: str, tokens: Tokens, finish: str = "stop") -> dict[str, Any]:
    """A choice of ``/v1/completions``."""
    names, logprobs = [token for token, _ in tokens], [logprob for _, logprob in tokens]
    offsets = [sum(map(len, names[:n])) for n in range(len(names))]
    held = {"tokens": names, "token_logprobs": logprobs, "text_offset": offsets, "top_logprobs": None}
    return {"index": 0, "text": text, "logprobs": held, "finish_reason": finish}


def response(*choices: dict[str, Any]) -> dict[str, Any]:
    return {"id": "cmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": list(choices)}


WHOLE = {
    "chat, vLLM's with the turn's end": response(chat("Paris", ENDED)),
    "chat, one token is empty, as llama.cpp writes an ending": response(chat(" Paris", [*PARIS, ("", -0.125)])),
    "text, a stop string beyond the text": response(completed(" Paris", [*PARIS, ("\n", -0.125)])),
    "text, an ending that holds some of the text": response(completed(" Paris.", [*PARIS, (".\n", -0.125)])),
    "text, llama.cpp's with content": response(
        {"text": " Paris", **{k: v for k, v in chat("", ENDED).items() if k != "message"}}
    ),
    "space lost by the tokenizer": response(chat("Le Mans", [("Le", -0.5), ("Mans", -0.25), ("</s>", -0.125)])),
    "half characters": response(
        chat("Z\u00fc", [("Z", -0.25), ("\ufffd", -0.25), ("\ufffd", -0.25), ("</s>", -0.125)])
    ),
}


LEFT_OUT = {
    "chat, OpenAI's has the text's tokens only": (response(chat(" Paris", PARIS)), NO_ENDING),
    "text, llama-cpp-python drops the end of text": (response(completed(" Paris", PARIS)), NO_ENDING),
    "half characters at the end": (
        response(chat("Z\u00fc", [("Z", -0.25), ("\ufffd", -0.25), ("\ufffd", -0.25)])),
        NO_ENDING,
    ),
    "text ends in a line break of its own": (response(completed(" Paris\n", [*PARIS, ("\n", -0.1)])), NO_ENDING),
    "not asked for": (response(chat("Paris", None)), NO_LOGPROBS),
    "the server's floor": (response(chat("Paris", [("Paris", -9999.0), ("</s>", -0.1)])), NO_TOKEN),
    "an echoed prompt": (response(completed("Q: Paris", [("Q:", None), (" Paris", -0.1)])), NO_TOKEN),
    "reasoning": (response(chat("Paris", [("<think>", -0.1), *ENDED])), NO_SPELLING),
    "token ids for texts": (
        response(chat("Paris", None) | {"logprobs": {"content": [{"token": "token_id:5", "logprob": -0.1}]}}),
        NO_SPELLING,
    ),
}


@pytest.mark.parametrize("name", [*WHOLE, *LEFT_OUT])
def test_an_answer_with_its_ending_has_the_log_probability_of_all_its_tokens_and_another_none(name: str) -> None:
    found, why = LEFT_OUT.get(name, (WHOLE.get(name, {}), None))
    answer = read_records([{"answer": found}])[0].answer
    assert answer.left_out == why
    assert (answer.total, answer.length) == ((None, None) if why else (pytest.approx(-0.875), answer.length))
    assert why or answer.length in (3, 4)


def test_the_reason_of_a_score_names_what_the_server_left_out() -> None:
    row = {"answer": response(chat("Paris", PARIS)), "samples": response(chat("Paris", ENDED), chat("Rome", None))}
    frame = score([row], similarity="lexical").set_index(["method", "variant", "setting"])
    assert NO_ENDING in frame.reason["Prob", "", ""]
    assert NO_ENDING in frame.reason["CocoaPPL", "multinomial", ""]
    assert NO_LOGPROBS in frame.reason["SemanticEntropy", "multinomial", "likelihood-summed"]
    assert frame.value["Dissimilarity", "multinomial", ""] == pytest.approx(0.5)


def test_samples_may_be_several_responses_among_other_candidates_and_objects_of_a_client() -> None:
    client = SimpleNamespace(model_dump=lambda: response(chat("Paris", ENDED), chat("Nice", ENDED)))
    beams = response(completed("Rome", [("Rome", -0.1), ("\n", -0.2)]))
    item = read_records([{"answer": "Paris", "samples": [client, "Lyon"], "beams": beams}])[0]
    assert [(each.text, each.total) for each in item.samples] == [("Paris", -0.875), ("Nice", None), ("Lyon", None)]
    assert item.beams[0].total == pytest.approx(-0.3)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "two answers": ({"answer": response(chat("a", None), chat("b", None))}, "answer: 2 choices"),
    "a call of a tool": ({"answer": response(chat(None, None, "tool_calls"))}, "finish_reason: 'tool_calls'"),
    "a text for a logprob": ({"answer": response(completed("P", [("P", "x")]))}, "token_logprobs[0]"),
    "a positive logprob": ({"answer": response(chat("P", [("P", 0.5), ("</s>", -0.1)]))}, "token_logprobs[0]: 0.5"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_response_is_told_in_one_line_with_its_place(name: str, tmp_path: Path) -> None:
    line, told = BAD[name]
    path = tmp_path / "responses.jsonl"
    path.write_text(json.dumps(line) + "\n")
    with pytest.raises(BeamUQError) as caught:
        read_records(path)
    assert str(caught.value).startswith(f"{path}: line 1")
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.server
def test_a_real_servers_answers_are_scored() -> None:
    """A base model's prompt, its line break as the ending; one request a sample, as not all servers take ``n``."""
    address = os.environ.get("BEAMUQ_SERVER")
    if not address:
        pytest.skip("no server: give its address up to /v1 as BEAMUQ_SERVER")
    own = {"top_p": 1, "top_k": 0, "min_p": 0, "max_tokens": 12, "logprobs": 1, "stop": ["\n"]}
    with urllib.request.urlopen(f"{address}/models", timeout=60) as models:
        model = json.load(models)["data"][0]["id"]
    prompt = "Question: What is the capital of Italy?\nAnswer: Rome\nQuestion: What is the capital of France?\nAnswer:"
    answered = []
    for seed, temperature in enumerate((0, 1, 1, 1)):
        request = {"model": model, "prompt": prompt, "temperature": temperature, "seed": seed, **own}
        headers = {"Content-Type": "application/json"}
        sent = urllib.request.Request(f"{address}/completions", json.dumps(request).encode(), headers)
        with urllib.request.urlopen(sent, timeout=60) as received:
            answered.append(json.load(received))
    row = {"answer": answered[0], "samples": answered[1:]}
    item = read_records([row])[0]
    assert len(item.samples) == 3
    assert all(each.total is not None for each in (item.answer, *item.samples))
    frame = score([row], similarity="lexical")
    assert frame[frame.method == "Prob"].value.item() == pytest.approx(-(item.answer.total or 0))
    assert frame[(frame.method == "Dissimilarity") & (frame.variant == "multinomial")].value.notna().all()


def beam(text: str, tokens: int, logprob: float, kind: str = "stop") -> dict[str, Any]:
    """A beam as SGLang gives it: its score is the mean over its tokens."""
    finish = {"type": kind, "length": 8} if kind == "length" else {"type": kind, "matched": 2}
    return {
        "text": text,
        "output_ids": list(range(tokens)),
        "finish_reason": finish,
        "sequence_score": logprob / tokens,
        "meta_info": {"id": "x"},
    }


def test_beams_of_sglang_get_their_whole_log_probability_and_unfinished_ones_are_left_out() -> None:
    found = [
        beam("Paris", 3, -0.5),
        beam("Lyon", 2, -2.0),
        beam("Par", 4, -3.0, "length"),
        beam("long", 8, -4.0, "length"),
    ]
    row = {"answer": "Paris", "beams": {"text": "Paris", "meta_info": {"beam_results": found}}}
    with pytest.warns(UserWarning, match="row 1: beams: 1 unfinished beams were left out"):
        (record,) = read_records([row])
    assert [(one.text, one.total) for one in record.beams] == [
        ("Paris", pytest.approx(-0.5)),
        ("Lyon", pytest.approx(-2.0)),
        ("long", pytest.approx(-4.0)),
    ]
