"""Each form of response is read as its server means it, or refused by its own name."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pydantic import BaseModel

from beamuq.api.calibration import calibrate, decide
from beamuq.api.calibration_class import Calibration
from beamuq.api.candidate_records import QuestionRecord, read_records
from beamuq.api.explore_results import explore
from beamuq.api.foreign_rows import Keys
from beamuq.api.rows import plain
from beamuq.api.score_candidates import score
from beamuq.api.server_forms.reply import (
    BEHIND_A_THOUGHT,
    NO_ENDING,
    NO_LOGPROBS,
    NO_TOKEN,
    TEMPERED,
    UNCLEAR_ENDING,
)
from beamuq.api.server_forms.sglang import NO_TEXTS, NOT_ALL
from beamuq.api.server_forms.vllm_output import NO_STOP_TOKEN, NOT_VLLM, STOPPED_BY_TEXT
from beamuq.errors import BeamUQError

Row = dict[str, Any]
PARIS = {"token": "Paris", "logprob": -0.1, "bytes": [80, 97, 114, 105, 115]}
END = {"token": "<|im_end|>", "logprob": -0.2, "bytes": None}


TEXT_PART = {"type": "text", "text": "Paris"}


def chat(*tokens: Row, text: Any = "Paris", finish: str | None = "stop", **more: Any) -> Row:
    """A chat completion of one choice."""
    choice = {
        "message": {"content": text},
        "finish_reason": finish,
        "logprobs": {"content": list(tokens)},
    }
    return {"model": "m", "choices": [choice | more]}


def responses_api(*parts: Row, **more: Any) -> Row:
    message = {"type": "message", "role": "assistant", "content": list(parts)}
    return {
        "object": "response",
        "model": "m",
        "status": "completed",
        "error": None,
        "output": [message],
    } | more


def output_text(text: str = "Paris") -> Row:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": [PARIS]}


def ollama(**more: Any) -> Row:
    message = {"role": "assistant", "content": "Paris"}
    return {
        "model": "m",
        "message": message,
        "done": True,
        "done_reason": "stop",
        "logprobs": [PARIS],
    } | more


def inspect(stop: str = "stop", **more: Any) -> Row:
    choice = {
        "message": {"content": "Paris"},
        "stop_reason": stop,
        "logprobs": {"content": [PARIS, END]},
    }
    return {"model": "m", "choices": [choice], "completion": "Paris"} | more


def sglang(finish: Any, tokens: list[list[Any]] | None, text: str = "Paris", **meta: Any) -> Row:
    return {
        "text": text,
        "meta_info": {"finish_reason": finish, "output_token_logprobs": tokens} | meta,
    }


def llama_cpp(**more: Any) -> Row:
    shown = [PARIS, {"token": "", "logprob": -0.2, "bytes": []}]
    return {
        "content": "Paris",
        "stop": True,
        "stop_type": "eos",
        "completion_probabilities": shown,
    } | more


@dataclass
class Logprob:
    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


class RequestOutput:
    """As vLLM's, which is no mapping and has no method that makes it one."""

    def __init__(self, *outputs: Any, finished: bool = True) -> None:
        self.request_id = "0"
        self.prompt = None
        self.prompt_logprobs = [None, {1: Logprob(-9.0)}]
        self.outputs = list(outputs)
        self.finished = finished


def output(**more: Any) -> SimpleNamespace:
    parts = {"index": 0, "text": " Paris", "token_ids": (3, 4, 2), "cumulative_logprob": -0.6}
    return SimpleNamespace(
        **(parts | {"logprobs": None, "finish_reason": "stop", "stop_reason": None} | more)
    )


def drawn(*tokens: tuple[int, str | None, float]) -> list[dict[int, Logprob]]:
    """Of each place the token that was drawn, and another."""
    return [
        {99: Logprob(-0.01, 1, "x"), place: Logprob(logprob, 2, text)}
        for place, text, logprob in tokens
    ]


STOPPED = {"type": "stop", "matched": 1}
TWO = [[-0.1, 5, None], [-0.2, 1, None]]
KNOWN: dict[str, tuple[Any, float]] = {
    "chat": (chat(PARIS, END), -0.3),
    "content in parts": (
        chat(PARIS, END, text=[{"type": "text", "text": "Par"}, {"type": "text", "text": "is"}]),
        -0.3,
    ),
    "Inspect": (inspect(), -0.3),
    "Inspect, an object": (SimpleNamespace(model_dump=inspect), -0.3),
    "Inspect, cut": (
        inspect("max_tokens")
        | {"choices": [inspect("max_tokens")["choices"][0] | {"logprobs": {"content": [PARIS]}}]},
        -0.1,
    ),
    "vLLM": (RequestOutput(output()), -0.6),
    "vLLM, its tokens": (
        RequestOutput(
            output(logprobs=drawn((3, " Par", -0.1), (4, "is", -0.2), (2, "</s>", -0.3)))
        ),
        -0.6,
    ),
    "vLLM, by a stop token": (RequestOutput(output(stop_reason=2)), -0.6),
    "vLLM, by a stop string": (
        RequestOutput(
            output(
                stop_reason="\nQ",
                logprobs=drawn((3, " Paris", -0.1), (4, "\n", -0.2), (2, "Q:", -0.3)),
            )
        ),
        -0.6,
    ),
    "vLLM, cut": (RequestOutput(output(finish_reason="length")), -0.6),
    "vLLM, a mapping": ({"outputs": [vars(output()) | {"token_ids": [3, 4, 2]}]}, -0.6),
    "SGLang": (sglang(STOPPED, TWO, completion_tokens=2), -0.3),
    "SGLang, by a stop string": (
        sglang({"type": "stop", "matched": "\n"}, [[-0.1, 5, "Paris"], [-0.2, 1, "\n"]]),
        -0.3,
    ),
    "SGLang, cut": (sglang({"type": "length", "length": 2}, TWO, completion_tokens=2), -0.3),
    "llama.cpp": (llama_cpp(), -0.3),
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_log_probability_with_its_ending_is_read(name: str) -> None:
    given, total = KNOWN[name]
    answer = read_records([{"answer": given}])[0].answer
    assert (answer.text.strip(), answer.left_out) == ("Paris", None)
    assert answer.total == pytest.approx(total)
    assert answer.length == {-0.1: 1, -0.3: 2, -0.6: 3}[total]


UNKNOWN: dict[str, tuple[Any, str]] = {
    "Responses": (responses_api(output_text()), NO_ENDING),
    "Responses that do not say how they ended": (
        responses_api(output_text(), status=None),
        "status",
    ),
    "Responses without log-probabilities": (
        responses_api({"type": "output_text", "text": "Paris"}),
        NO_LOGPROBS,
    ),
    "Ollama": (ollama(), NO_ENDING),
    "Ollama's prompt": (ollama(message=None, response="Paris", logprobs=None), NO_LOGPROBS),
    "vLLM without logprobs": (RequestOutput(output(cumulative_logprob=None)), NO_LOGPROBS),
    "vLLM, tokens without an ending": (
        RequestOutput(output(token_ids=[3, 4], logprobs=drawn((3, " Par", -0.2), (4, "is", -0.4)))),
        NO_ENDING,
    ),
    "vLLM, another stop token": (RequestOutput(output(stop_reason=7)), NO_STOP_TOKEN),
    "vLLM, a stop string without tokens": (
        RequestOutput(output(stop_reason="\n")),
        STOPPED_BY_TEXT,
    ),
    "vLLM, tokens behind a stop string": (
        RequestOutput(
            output(
                stop_reason="\n",
                logprobs=drawn((3, " Paris", -0.1), (4, "\n", -0.2), (2, "Q", -0.3)),
            )
        ),
        UNCLEAR_ENDING,
    ),
    "TensorRT-LLM": (
        RequestOutput(output(generation_logits=None, disaggregated_params=None)),
        NOT_VLLM,
    ),
    "SGLang, the stop token trimmed": (sglang(STOPPED, TWO[:1], completion_tokens=1), NO_ENDING),
    "SGLang, not all tokens": (sglang(STOPPED, TWO, completion_tokens=3), NOT_ALL),
    "SGLang, no texts": (sglang({"type": "stop", "matched": "\n"}, TWO), NO_TEXTS),
    "SGLang, a token without": (sglang(STOPPED, [[None, 5, None], [-0.2, 1, None]]), NO_TOKEN),
    "llama.cpp's probabilities": (
        llama_cpp(completion_probabilities=[{"token": "Paris", "prob": 0.9}]),
        NO_LOGPROBS,
    ),
    "llama.cpp, by a stop string": (
        llama_cpp(stop_type="word", stopping_word="\n", completion_probabilities=[PARIS]),
        NO_ENDING,
    ),
    "Anthropic": (
        {
            "type": "message",
            "content": [{"type": "text", "text": "Paris"}],
            "stop_reason": "end_turn",
        },
        NO_LOGPROBS,
    ),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_a_text_without_its_endings_log_probability_has_none_and_says_why(name: str) -> None:
    given, why = UNKNOWN[name]
    answer = read_records([{"answer": given}])[0].answer
    assert answer.text.strip() == "Paris"
    assert answer.total is None
    assert why in str(answer.left_out)


REFUSED: dict[str, tuple[Any, str]] = {
    "a refusal": (
        chat(text=None)
        | {
            "choices": [
                {"message": {"content": None, "refusal": "I cannot"}, "finish_reason": "stop"}
            ]
        },
        "the server refused: I cannot",
    ),
    "a refusal in a part": (
        responses_api({"type": "refusal", "refusal": "I cannot"}),
        "the server refused: I cannot",
    ),
    "Inspect's filter": (inspect("content_filter"), "the server refused"),
    "Anthropic's refusal": (
        {"type": "message", "content": [], "stop_reason": "refusal"},
        "the server refused",
    ),
    "an error": ({"error": {"message": "rate limit"}}, "the server's error: rate limit"),
    "Ollama's error": ({"error": "no such model"}, "the server's error: no such model"),
    "vLLM's error": (
        {"object": "error", "message": "too long", "code": 400},
        "the server's error: too long",
    ),
    "an error beside an answer": (inspect(error="timeout"), "the server's error: timeout"),
    "a failed response": (
        responses_api(status="failed", error={"message": "boom"}),
        "the server's error: boom",
    ),
    "a filtered response": (
        responses_api(
            output_text(), status="incomplete", incomplete_details={"reason": "content_filter"}
        ),
        "incomplete_details.reason: 'content_filter'",
    ),
    "a response on its way": (
        responses_api(output_text(), status="in_progress"),
        "status: 'in_progress'",
    ),
    "a search": (
        responses_api(output_text(), output=[{"type": "web_search_call"}]),
        "output[0].type: 'web_search_call'",
    ),
    "no message": (responses_api(output=[]), "output: no message"),
    "no end": (chat(PARIS, finish=None), "finish_reason: None"),
    "an abort": (chat(PARIS, finish="abort"), "finish_reason: 'abort'"),
    "a call of a tool": (
        chat(PARIS, message={"content": "", "tool_calls": [{"id": "1"}]}),
        "message.tool_calls",
    ),
    "an image": (chat(text=[{"type": "image_url", "image_url": {}}]), "type: 'image_url'"),
    "a stream": (
        {"choices": [{"delta": {"content": "P"}, "finish_reason": None}]},
        "a part of a stream",
    ),
    "Ollama's stream": (ollama(done=False), "done: false"),
    "Ollama's loading": (ollama(done_reason="load"), "done_reason: 'load'"),
    "Inspect's unknown end": (inspect("unknown"), "stop_reason: 'unknown'"),
    "vLLM's abort": (RequestOutput(output(finish_reason="abort")), "finish_reason: 'abort'"),
    "vLLM's end unknown": (RequestOutput(output(finish_reason=None)), "finish_reason: None"),
    "vLLM's stream": (RequestOutput(output(), finished=False), "finished: false"),
    "vLLM's sum": (
        RequestOutput(
            output(
                cumulative_logprob=-5.0,
                logprobs=drawn((3, " P", -0.1), (4, "a", -0.2), (2, "", -0.3)),
            )
        ),
        "cumulative_logprob: -5",
    ),
    "vLLM without texts": (RequestOutput(output(text="")), "text: empty, of 3 token_ids"),
    "vLLM's logprobs of others": (
        RequestOutput(output(logprobs=drawn((3, "", 0), (5, "", 0), (2, "", 0)))),
        "token 4",
    ),
    "vLLM's beams": (
        SimpleNamespace(sequences=[{"tokens": [1, 2], "cum_logprob": -1.0}]),
        "BeamSearchOutput",
    ),
    "SGLang's abort": (sglang({"type": "abort", "message": "x"}, None), "finish_reason: 'abort'"),
    "llama.cpp's end unknown": (llama_cpp(stop_type="none"), "stop_type: 'none'"),
    "a choice alone": (chat(PARIS)["choices"][0], "a choice of a response"),
    "a message alone": ({"role": "assistant", "content": "Paris"}, "a message alone"),
    "Gemini": ({"candidates": [{"content": {"parts": [{"text": "Paris"}]}}]}, "Gemini"),
    "Cohere": (
        {"finish_reason": "COMPLETE", "message": {"role": "assistant", "content": [TEXT_PART]}},
        "an answer of Cohere",
    ),
    "Cohere's generations": ({"generations": [{"text": "Paris"}]}, "an answer of Cohere"),
    "Bedrock's Llama": ({"generation": "Paris", "stop_reason": "stop"}, "Bedrock's invoke_model"),
    "Bedrock's Titan": ({"results": [{"outputText": "Paris"}]}, "Bedrock's invoke_model"),
    "a line of Anthropic's batches": (
        {
            "custom_id": "q",
            "result": {"type": "succeeded", "message": {"type": "message", "content": [TEXT_PART]}},
        },
        "a line of Anthropic's batches, which is not read; give its result.message",
    ),
    "choices in a mapping": ({"choices": {"0": {"text": "Paris"}}}, "choices that are no list"),
    "two of tokens": (
        {
            "choices": [
                {
                    "text": "P",
                    "finish_reason": "stop",
                    "logprobs": {"tokens": ["P"], "token_logprobs": []},
                }
            ]
        },
        "1 tokens, 0 token_logprobs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("place", ["answer", "samples", "a line"])
def test_what_is_no_answer_is_refused_by_its_own_name(name: str, place: str) -> None:
    given, told = REFUSED[name]
    row = {
        "answer": {"answer": given},
        "samples": {"answer": "Paris", "samples": [given]},
        "a line": given,
    }[place]
    with pytest.raises(BeamUQError) as caught:
        read_records([row])
    line = str(caught.value)
    assert line.startswith("row 1")
    assert told in line
    assert "\n" not in line


def test_lines_that_are_responses_are_questions_the_first_choice_the_answer(tmp_path: Path) -> None:
    choices = [
        chat(PARIS, END)["choices"][0],
        chat(text="Lyon")["choices"][0],
        chat(text="Nice")["choices"][0],
    ]
    lines = [
        {"id": "a", "model": "m", "choices": choices, "correct": 1, "usage": {}},
        {"model": "m", "choices": choices[:1], "request": {"temperature": 0}},
        {
            "id": "batch_1",
            "custom_id": "q3",
            "response": {"status_code": 200, "body": chat(PARIS, END)},
            "error": None,
        },
        responses_api(output_text(), id="resp_1", prompt=None),
    ]
    path = tmp_path / "responses.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    records = read_records(path)
    assert [(item.id, item.model, item.correct) for item in records] == [
        ("a", "m", 1),
        ("2", "m", None),
        ("q3", "m", None),
        ("resp_1", "m", None),
    ]
    assert [item.answer.text for item in records] == ["Paris"] * 4
    assert [sample.text for sample in records[0].samples] == ["Lyon", "Nice"]
    frame = score(path, similarity="lexical", methods="Prob,Dissimilarity").set_index(
        ["id", "method", "variant"]
    )
    assert frame.value["a", "Prob", ""] == pytest.approx(0.3)
    assert frame.value["a", "Dissimilarity", "multinomial"] == 1
    assert explore(path, similarity="lexical").exists()


ONE_KEY = Keys(answer="log.completion", samples="log.completion")


def logged(response: Row, **more: Any) -> Row:
    """A row of another tool with a whole response below a key of its own."""
    return {"question": "Capital?", "log": {"completion": response}, **more}


def drawn_together(*texts: str) -> Row:
    return chat() | {
        "id": "chatcmpl-1",
        "choices": [chat(text=text)["choices"][0] for text in texts],
    }


def test_a_response_by_one_key_for_both_is_divided_as_a_line_that_is_one() -> None:
    response = drawn_together("Paris", *["Lyon"] * 9, "Nice")
    rows = [logged(response, correct=1), logged(response, id="mine")]
    records = read_records(rows, keys=ONE_KEY)
    assert [item.id for item in records] == ["1", "mine"]
    assert [(item.question, item.correct) for item in records] == [
        ("Capital?", 1),
        ("Capital?", None),
    ]
    (as_line,) = read_records([response])
    for item in records:
        assert item.answer == as_line.answer
        assert [sample.text for sample in item.samples] == ["Lyon"] * 9 + ["Nice"]
        assert item.samples == as_line.samples
        assert item.model == as_line.model == "m"
    frame = score(
        rows, similarity="lexical", answer_key=ONE_KEY.answer, samples_key=ONE_KEY.samples
    )
    assert frame["Dissimilarity"].tolist() == [1, 1]


def test_a_response_of_beams_by_one_key_for_both_gives_answer_and_beams() -> None:
    found = [beam("Lyon", [6, 1], -0.9), beam("Paris", [5, 1], -0.2)]
    response = {"text": "", "meta_info": {"beam_results": found}}
    (as_line,) = read_records([response])
    (item,) = read_records([logged(response)], keys=ONE_KEY)
    assert (item.answer, item.samples, item.beams) == (as_line.answer, [], as_line.beams)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (logged(drawn_together("Paris")), r"log\.completion: one choice"),
        (logged("Paris"), r"log\.completion: answer and samples by one key"),
        (logged([chat(), chat()]), r"log\.completion: .*log\.completion\.0 and leave_one_out"),
        (logged(drawn_together("a", "b"), beams=["a"]), "beams: beside a response"),
    ],
)
def test_one_key_for_both_that_leads_to_no_answer_with_samples_is_refused(
    row: Row, told: str
) -> None:
    with pytest.raises(BeamUQError, match=f"row 1: {told}"):
        read_records([row], keys=ONE_KEY)


def test_several_choices_by_the_answers_key_alone_are_refused_with_the_other_key() -> None:
    row = logged(drawn_together("Paris", "Lyon"))
    with pytest.raises(BeamUQError, match=r"2 choices; .*--samples-key\) log\.completion too"):
        read_records([row], keys=Keys(answer="log.completion"))


def test_objects_are_rows_too_and_frames_and_parquet_hold_responses(tmp_path: Path) -> None:
    outputs = [RequestOutput(output(), output(text=" Lyon")), RequestOutput(output(text=" Rome"))]
    records = read_records(outputs)  # type: ignore[arg-type]
    assert [(item.answer.text, len(item.samples)) for item in records] == [
        (" Paris", 1),
        (" Rome", 0),
    ]
    rows = [
        {"answer": chat(PARIS, END), "samples": ["Paris"]},
        {"answer": inspect(), "samples": ["Lyon"]},
    ]
    pd.DataFrame(rows).to_parquet(tmp_path / "rows.parquet")
    for held in (pd.DataFrame(rows), tmp_path / "rows.parquet"):
        assert [item.answer.total for item in read_records(held)] == [pytest.approx(-0.3)] * 2


def test_one_object_in_place_of_a_list_of_them_is_told() -> None:
    class Completion(BaseModel):  # which can be iterated over
        choices: list[Row] = chat(PARIS)["choices"]

    with pytest.raises(BeamUQError, match="rows: a Completion; give a list"):
        read_records(Completion())  # type: ignore[arg-type]


def test_a_line_with_beams_has_the_most_probable_as_its_answer() -> None:
    found = [beam("Lyon", [6, 1], -0.9), beam("Paris", [5, 1], -0.2)]
    (item,) = read_records([{"text": "", "meta_info": {"beam_results": found}}])
    assert (item.answer.text, item.answer.total, item.answer.length) == (
        "Paris",
        pytest.approx(-0.4),
        2,
    )
    assert [one.text for one in item.beams] == ["Lyon", "Paris"]


def beam(text: str, tokens: list[int], mean: float, kind: Any = "stop") -> Row:
    finish = None if kind is None else {"type": kind}
    return {"text": text, "output_ids": tokens, "sequence_score": mean, "finish_reason": finish}


@pytest.mark.parametrize("kind", ["abort", "timeout", None])
def test_a_beam_that_neither_stopped_nor_reached_its_length_is_refused(kind: str | None) -> None:
    found = [beam("Paris", [5, 1], -0.2), beam("Ly", [6], -3.0, kind)]
    row = {"answer": "Paris", "beams": {"meta_info": {"beam_results": found}}}
    with pytest.raises(
        BeamUQError, match=rf"row 1: beams: meta_info.beam_results: \[1\].finish_reason: '?{kind}"
    ):
        read_records([row])


def test_a_beams_score_and_ending_may_stand_in_its_own_meta_info() -> None:
    inner = {
        "text": "Paris",
        "output_ids": [5, 1],
        "meta_info": {"sequence_score": -0.2, "finish_reason": STOPPED},
    }
    (item,) = read_records([{"answer": "Paris", "beams": {"meta_info": {"beam_results": [inner]}}}])
    assert item.beams[0].total == pytest.approx(-0.4)


def test_beams_are_no_samples_and_choices_no_beams_unless_the_request_says_so() -> None:
    beams = {"meta_info": {"beam_results": [beam("Paris", [5, 1], -0.2)]}}
    with pytest.raises(
        BeamUQError, match=r"row 1: samples: SGLang's .*no samples; give them under 'beams'"
    ):
        read_records([{"answer": "Paris", "samples": beams}])
    row = {"answer": "Paris", "beams": chat(PARIS, END)}
    for request in ({}, {"temperature": 1}, {"beam_width": 1}, {"use_beam_search": False}):
        with pytest.raises(
            BeamUQError, match=r"row 1: beams: .*nothing says .*use_beam_search in 'request'"
        ):
            read_records([row | {"request": request}])
    for request in (
        {"use_beam_search": True, "temperature": 0},
        {"extra_body": {"use_beam_search": True, "n": 1}},
    ):
        assert read_records([row | {"request": request}])[0].beams[0].total == pytest.approx(-0.3)
    for setting in ({"temperature": 0.5}, {"repetition_penalty": 1.2}):
        with pytest.raises(
            BeamUQError, match=f"row 1: request: {next(iter(setting))}: .*beams are not"
        ):
            read_records([row | {"request": {"use_beam_search": True} | setting}])
    with pytest.raises(BeamUQError, match="row 1: request: use_beam_search"):
        read_records(
            [
                {
                    "answer": "Paris",
                    "samples": ["Paris"],
                    "request": {"use_beam_search": True, "temperature": 1},
                }
            ]
        )


def drawn_with(seed: Any, **settings: Any) -> Row:
    return llama_cpp(generation_settings={"seed": seed, "temperature": 1.0} | settings)


SAME_DRAWS: dict[str, Row] = {
    "a seed in the request": {
        "samples": [chat(PARIS), chat(PARIS)],
        "request": {"seed": 1, "temperature": 1},
    },
    "a seed of Ollama's options": {
        "samples": [ollama(), ollama()],
        "request": {"options": {"seed": 1, "temperature": 1}},
    },
    "a seed of several choices each": {
        "samples": [
            RequestOutput(output(), output()),
            RequestOutput(output(), output(text=" Rome")),
        ],
        "request": {"seed": 1, "n": 2, "temperature": 1},
    },
    "a seed for texts": {"samples": ["Paris", "Paris"], "request": {"seed": 1, "temperature": 1}},
    "a seed that responses name": {"samples": [drawn_with(7), drawn_with(8), drawn_with(7)]},
    "a seed at the top": {"samples": [chat(PARIS) | {"seed": 7}, chat(PARIS) | {"seed": 7}]},
}


@pytest.mark.parametrize("name", SAME_DRAWS)
def test_several_responses_of_one_seed_are_refused_as_the_same_draws(name: str) -> None:
    with pytest.raises(
        BeamUQError, match=r"row 1: samples: .*(seed: 1:|of seed 7).* ask once with n"
    ):
        read_records([{"answer": "Paris"} | SAME_DRAWS[name]])


@pytest.mark.parametrize("seed", [7, 7.0, "7", " 7 ", "7.0"])
def test_a_seed_is_the_same_however_it_is_written(seed: Any) -> None:
    drawn = [chat(PARIS) | {"seed": each} for each in (7, seed)]
    with pytest.raises(BeamUQError, match="several responses of seed 7"):
        read_records([{"answer": "Paris", "samples": drawn}])


@pytest.mark.parametrize("seed", [True, "seven", 7.5, [1, 2], float("inf"), float("nan")])
def test_a_seed_that_is_no_whole_number_is_refused(seed: Any) -> None:
    row = {"answer": "Paris", "samples": ["a", "b"], "request": {"seed": seed, "temperature": 1}}
    with pytest.raises(
        BeamUQError, match=r"request: seed: .*: no whole number; give the whole number"
    ):
        read_records([row])
    with pytest.raises(BeamUQError, match=r"row 1: samples: seed: .*: no whole number"):
        read_records([{"answer": "Paris", "samples": [chat(PARIS) | {"seed": seed}]}])


@pytest.mark.parametrize("kind", ["samples", "beams"])
@pytest.mark.parametrize("temperature", ["1", True, float("nan"), [1]])
def test_a_temperature_that_is_no_number_is_refused_as_such(temperature: Any, kind: str) -> None:
    candidates = [{"text": "Paris", "logprob": -0.1}]
    row = {"answer": "Paris", kind: candidates, "request": {"temperature": temperature}}
    with pytest.raises(BeamUQError, match=r"request: temperature: .*: no number; give the one"):
        read_records([row])


@pytest.mark.parametrize("place", ["answer", "samples"])
def test_a_response_as_a_text_in_json_is_no_answer(place: str) -> None:
    given = json.dumps(chat(PARIS))
    row = {"answer": "Paris"} | {place: given if place == "answer" else [given]}
    with pytest.raises(
        BeamUQError, match=f"row 1: {place}: a text in JSON that is OpenAI's .*json.loads"
    ):
        read_records([row])


@pytest.mark.parametrize("text", ['{"city": "Paris"}', "{x}", '{"a":' * 10_000])
def test_a_text_that_is_other_json_or_begins_with_a_brace_is_an_answer(text: str) -> None:
    assert read_records([{"answer": text, "samples": [text]}])[0].answer.text == text


def test_a_lines_id_may_be_a_whole_number() -> None:
    assert read_records([chat(PARIS) | {"id": 5}])[0].id == "5"


OTHER_DRAWS: dict[str, Row] = {
    "one response": {"samples": chat(PARIS), "request": {"seed": 1, "temperature": 1}},
    "one request of two texts": {
        "samples": ["a", "b"],
        "request": {"seed": 1, "n": 2, "temperature": 1},
    },
    "seeds of their own": {
        "samples": [drawn_with(7), drawn_with(8)],
        "request": {"seed": 7, "temperature": 1},
    },
    "seeds drawn by the server": {"samples": [drawn_with(-1), drawn_with(-1)]},
    "seeds drawn by llama.cpp": {"samples": [drawn_with(2**32 - 1), drawn_with(2**32 - 1)]},
    "no seed": {"samples": [chat(PARIS), chat(PARIS)], "request": {"temperature": 1, "seed": None}},
}


@pytest.mark.parametrize("name", OTHER_DRAWS)
def test_responses_of_other_seeds_are_samples(name: str) -> None:
    assert read_records([{"answer": "Paris"} | OTHER_DRAWS[name]])[0].samples


SETTINGS: dict[str, tuple[Row, str]] = {
    "greedy": (
        {"samples": [chat(PARIS)], "request": {"temperature": 0}},
        "request: temperature: 0: .*greedy",
    ),
    "Ollama's options": (
        {"samples": [ollama()], "request": {"options": {"top_k": 40}}},
        "request: top_k: 40",
    ),
    "SGLang's": (
        {"samples": ["a"], "request": {"text": "q", "sampling_params": {"top_p": 0.9}}},
        "request: top_p: 0.9",
    ),
    "a response's own": (
        {"samples": [responses_api(output_text(), temperature=0.5)]},
        "samples: temperature: 0.5: scored with 1",
    ),
    "llama.cpp's own": (
        {"samples": [drawn_with(1, temperature=0.0)]},
        "generation_settings: temperature: 0.0: .*greedy",
    ),
    "a sampler with its own value": (
        {"samples": ["a"], "request": {"samplers": ["top_k", "temperature"], "temperature": 1}},
        "request: samplers: top_k: .*ask with top_k 0",
    ),
    "a temperature without its sampler": (
        {"samples": ["a"], "request": {"samplers": [], "temperature": 0.5}},
        "request: temperature: 0.5: not among samplers",
    ),
    "a form of answers": (
        {
            "samples": ["a"],
            "request": {"text": {"format": {"type": "json_schema"}}, "temperature": 1},
        },
        "request: text: ",
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_under_which_samples_are_not_the_models_own_are_refused(name: str) -> None:
    row, told = SETTINGS[name]
    with pytest.raises(BeamUQError, match=f"row 1: .*{told}"):
        read_records([{"answer": "Paris"} | row])


def test_samplers_that_are_not_asked_for_have_no_effect() -> None:
    settings = {
        "samplers": ["temperature"],
        "top_k": 40,
        "top_p": 0.95,
        "min_p": 0.05,
        "lora": [],
        "stop": [],
    }
    assert read_records([{"answer": "Paris", "samples": [drawn_with(1, **settings)]}])[0].samples


def test_a_request_that_does_not_say_its_temperature_is_told_what_is_assumed() -> None:
    with pytest.warns(UserWarning, match="does not say its temperature, which is taken as score's"):
        read_records([{"answer": "Paris", "samples": ["Paris"], "request": {"n": 1}}])


def test_tokens_at_another_temperature_give_no_log_p_where_the_server_tempers_them() -> None:
    row = {"answer": "Paris", "samples": [sglang(STOPPED, TWO, completion_tokens=2)]}
    assert read_records([row])[0].samples[0].total == pytest.approx(-0.3)
    assert read_records([row], temperature=0.5)[0].samples[0].left_out == TEMPERED


def test_without_ending_takes_the_other_tokens_of_every_form() -> None:
    for given in (
        ollama(),
        responses_api(output_text()),
        sglang(STOPPED, TWO[:1], completion_tokens=1),
    ):
        answer = read_records([{"answer": given}], without_ending=True)[0].answer
        assert (answer.total, answer.without_ending) == (pytest.approx(-0.1), True)


def by(model: str) -> Row:
    return chat(PARIS, END) | {"model": model}


def test_the_model_and_the_settings_that_responses_name_are_kept() -> None:
    request = {"messages": [], "model": "alias", "temperature": 1, "max_tokens": 5, "seed": 3}
    row = {"answer": by("m-1"), "samples": by("m-1"), "request": request, "group": "g"}
    frame = score([row], similarity="lexical", methods="Prob")
    assert frame["model"].tolist() == ["m-1"]
    assert json.loads(frame["sampled_with"][0]) == {"temperature": 1, "max_tokens": 5, "seed": 3}


def test_a_question_answered_by_two_models_is_refused() -> None:
    with pytest.raises(BeamUQError, match="row 1: model: responses of 'm-1' and 'm-2'"):
        read_records([{"answer": by("m-1"), "samples": by("m-2")}])
    with pytest.raises(BeamUQError, match="row 1: model: 'mine': the response is by 'm-1'"):
        read_records([{"answer": by("m-1"), "model": "mine"}])


def questions(models: Iterator[str]) -> list[Row]:
    rows = []
    for number, model in enumerate(models):
        sure = {"token": "Paris", "logprob": -number / 100, "bytes": None}
        response = {"id": f"r{number}", "model": model, "choices": chat(sure, END)["choices"]}
        rows.append(response | {"correct": int(number < 30)})
    return rows


def test_calibrate_and_decide_refuse_answers_of_several_models() -> None:
    scored = score(questions(iter(["m-1"] * 40)), similarity="lexical", methods="Prob")
    made = calibrate(scored, method="Prob", risk=0.5)
    assert made.model == "m-1"
    mixed = score(questions(iter(["m-1", "m-2"] * 20)), similarity="lexical", methods="Prob")
    with pytest.raises(BeamUQError, match="model: 'm-2', other rows have 'm-1'"):
        calibrate(mixed, method="Prob", risk=0.5)
    others = score(questions(iter(["m-2"] * 40)), similarity="lexical", methods="Prob")
    with pytest.raises(BeamUQError, match="model 'm-2', calibrated with 'm-1'"):
        decide(others, made)
    assert Calibration(risk=0.5).fit(scored["Prob"], scored.drop_duplicates("id")["correct"]).fitted


def thinking(text: Any = "Paris", **message: Any) -> Row:
    """A chat completion whose tokens spell the answer alone, as DeepSeek's do."""
    return chat(PARIS, END, message={"content": text, **message})


def reasoned() -> Row:
    response = responses_api(output_text())
    return response | {"output": [{"type": "reasoning", "summary": []}, *response["output"]]}


THOUGHT_PART = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
REASONING_PART = {"type": "reasoning", "reasoning": "hm"}
BEHIND: dict[str, Row] = {
    "DeepSeek": thinking(reasoning_content="hm"),
    "vLLM": thinking(reasoning="hm"),
    "Mistral": thinking([THOUGHT_PART, TEXT_PART]),
    "Inspect": inspect()
    | {
        "choices": [
            inspect()["choices"][0] | {"message": {"content": [REASONING_PART, TEXT_PART]}},
        ]
    },
    "Ollama's chat": ollama(message={"content": "Paris", "thinking": "hm"}),
    "Ollama's prompt": ollama(message=None, response="Paris", thinking="hm"),
    "Responses": reasoned(),
}


@pytest.mark.parametrize("without_ending", [False, True])
@pytest.mark.parametrize("name", BEHIND)
def test_log_probabilities_behind_a_thought_are_not_the_answers(
    name: str, without_ending: bool
) -> None:
    answer = read_records([{"answer": BEHIND[name]}], without_ending=without_ending)[0].answer
    assert (answer.text, answer.total, answer.left_out) == ("Paris", None, BEHIND_A_THOUGHT)


def test_a_thought_of_space_alone_is_none() -> None:
    answer = read_records([{"answer": thinking(reasoning_content="\n\n", reasoning=None)}])[
        0
    ].answer
    assert answer.total == pytest.approx(-0.3)


CUT_IN_A_THOUGHT: dict[str, Row] = {
    "DeepSeek": chat(message={"content": "", "reasoning_content": "hm"}, finish="length"),
    "Mistral": chat(message={"content": [THOUGHT_PART, {"type": "text", "text": ""}]}),
    "Ollama": ollama(message={"content": "\n", "thinking": "hm"}, done_reason="length"),
}


@pytest.mark.parametrize("name", CUT_IN_A_THOUGHT)
def test_a_thought_without_an_answer_is_no_empty_answer(name: str) -> None:
    with pytest.raises(
        BeamUQError, match=r"row 1: samples: .*a thought and no answer; ask with more tokens"
    ):
        read_records([{"answer": "Paris", "samples": [CUT_IN_A_THOUGHT[name]]}])


def test_a_call_of_a_function_in_the_older_form_is_refused() -> None:
    given = chat(message={"content": "", "function_call": {"name": "f", "arguments": "{}"}})
    with pytest.raises(BeamUQError, match=r"message\.function_call: a call of a tool is no answer"):
        read_records([{"answer": given}])


def test_token_ids_of_vllm_may_be_an_array() -> None:
    given = RequestOutput(output(token_ids=np.array([3, 4, 2])))
    assert read_records([{"answer": given}])[0].answer.length == 3


THOUGHTS = [
    "<think>hm</think>Paris",
    "hm</think>Paris",
    "[THINK]hm[/THINK]Paris",
    "<thinking>hm",
    "◁think▷hm",
    "<THINK >x",
]
MORE_THOUGHTS = [
    "<|channel|>analysis<|message|>hm",
    "<|begin_of_thought|>hm",
    "<|START_THINKING|>hm",
    "<seed:think>hm",
]


@pytest.mark.parametrize("text", THOUGHTS + MORE_THOUGHTS)
def test_a_thoughts_mark_in_a_text_is_warned_of(text: str) -> None:
    with pytest.warns(
        UserWarning, match=r"row 2: samples: holds the mark of a thought, .* \(and 1 more texts\)"
    ):
        score(
            [{"answer": "a", "samples": ["b"]}, {"answer": "a", "samples": [text, text]}],
            similarity="lexical",
        )


@pytest.mark.parametrize(
    "text", ["I think so", "a < think of > b", "[1] thought", "<b>Paris</b>", "reasoning"]
)
def test_an_ordinary_text_is_not_warned_of(text: str, recwarn: pytest.WarningsRecorder) -> None:
    read_records([{"answer": text, "samples": [text]}])
    assert not recwarn.list


ODD: tuple[Any, ...] = (0, "", [], {}, [None], {"a": [1]}, 1.5)


def damaged(value: Any) -> Iterator[Any]:
    """The same with each of its parts in turn replaced by something else."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from (value | {key: other} for other in (*ODD, *damaged(part)))
    if isinstance(value, list):
        for place, part in enumerate(value):
            yield from (
                [*value[:place], other, *value[place + 1 :]] for other in (*ODD, *damaged(part))
            )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["chat", "Responses", "Ollama", "Inspect", "vLLM, its tokens", "SGLang", "llama.cpp"]
)
def test_a_damaged_response_is_read_or_refused_in_one_line_and_nothing_else(name: str) -> None:
    whole = plain((KNOWN | UNKNOWN)[name][0])
    for given in damaged(whole):
        with contextlib.suppress(BeamUQError):
            read_records([{"answer": given}])


def test_a_reader_of_ones_own_rows_is_as_before() -> None:
    row: Mapping[str, Any] = {
        "question": "q",
        "answer": {"text": "Paris", "token_logprobs": [-0.1]},
        "message": "note",
    }
    (item,) = read_records([row])
    assert isinstance(item, QuestionRecord)
    assert (item.answer.total, item.model, item.sampled_with) == (-0.1, None, None)
