"""Responses of servers, written to the published schemas, become candidates with what the server
said and no more.
"""

from __future__ import annotations

import json
import math
import os
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from answering_server import Tokens, beam, chat, response
from beamuq.api import sampling_request
from beamuq.api.candidate_records import read_records
from beamuq.api.score_candidates import score
from beamuq.api.server_responses import NO_ENDING, NO_LOGPROBS, NO_SPELLING, NO_TOKEN
from beamuq.errors import BeamUQError

PARIS: Tokens = [(" Par", -0.5), ("is", -0.25)]
ENDED: Tokens = [*PARIS, ("<|im_end|>", -0.125)]


def completed(text: str, tokens: Tokens, finish: str = "stop") -> dict[str, Any]:
    """A choice of ``/v1/completions``."""
    names, logprobs = [token for token, _ in tokens], [logprob for _, logprob in tokens]
    offsets = [sum(map(len, names[:n])) for n in range(len(names))]
    held = {
        "tokens": names,
        "token_logprobs": logprobs,
        "text_offset": offsets,
        "top_logprobs": None,
    }
    return {"index": 0, "text": text, "logprobs": held, "finish_reason": finish}


WHOLE = {
    "chat, vLLM's with the turn's end": response(chat("Paris", ENDED)),
    "chat, one token is empty, as llama.cpp writes an ending": response(
        chat(" Paris", [*PARIS, ("", -0.125)])
    ),
    "text, a stop string beyond the text": response(completed(" Paris", [*PARIS, ("\n", -0.125)])),
    "text, an ending that holds some of the text": response(
        completed(" Paris.", [*PARIS, (".\n", -0.125)])
    ),
    "text, llama.cpp's with content": response(
        {"text": " Paris", **{k: v for k, v in chat("", ENDED).items() if k != "message"}}
    ),
    "space lost by the tokenizer": response(
        chat("Le Mans", [("Le", -0.5), ("Mans", -0.25), ("</s>", -0.125)])
    ),
    "half characters": response(
        chat("Z\u00fc", [("Z", -0.25), ("\ufffd", -0.25), ("\ufffd", -0.25), ("</s>", -0.125)])
    ),
}


LEFT_OUT = {
    "chat, OpenAI's has the text's tokens only": (response(chat(" Paris", PARIS)), NO_ENDING),
    "text, llama-cpp-python drops the end of text": (
        response(completed(" Paris", PARIS)),
        NO_ENDING,
    ),
    "half characters at the end": (
        response(chat("Z\u00fc", [("Z", -0.25), ("\ufffd", -0.25), ("\ufffd", -0.25)])),
        NO_ENDING,
    ),
    "an emoji in four parts before a word": (
        response(chat("\U0001f60a ok", [*[("\ufffd", -0.1)] * 4, (" ok", -0.7)])),
        NO_ENDING,
    ),
    "half characters before other text": (
        response(
            chat("Z\u00fcrich", [("Z", -0.1), ("\ufffd", -0.1), ("\ufffd", -0.1), ("rich", -0.7)])
        ),
        NO_ENDING,
    ),
    "text ends in a line break of its own": (
        response(completed(" Paris\n", [*PARIS, ("\n", -0.1)])),
        NO_ENDING,
    ),
    "not asked for": (response(chat("Paris", None)), NO_LOGPROBS),
    "the server's floor": (response(chat("Paris", [("Paris", -9999.0), ("</s>", -0.1)])), NO_TOKEN),
    "an echoed prompt": (
        response(completed("Q: Paris", [("Q:", None), (" Paris", -0.1)])),
        NO_TOKEN,
    ),
    "reasoning": (response(chat("Paris", [("<think>", -0.1), *ENDED])), NO_SPELLING),
    "token ids for texts": (
        response(
            chat("Paris", None)
            | {"logprobs": {"content": [{"token": "token_id:5", "logprob": -0.1}]}}
        ),
        NO_SPELLING,
    ),
}


@pytest.mark.parametrize("name", [*WHOLE, *LEFT_OUT])
def test_an_answer_with_its_ending_has_the_log_probability_of_all_its_tokens_and_another_none(
    name: str,
) -> None:
    found, why = LEFT_OUT.get(name, (WHOLE.get(name, {}), None))
    answer = read_records([{"answer": found}])[0].answer
    assert answer.left_out == why
    assert (answer.total, answer.length) == (
        (None, None) if why else (pytest.approx(-0.875), answer.length)
    )
    assert why or answer.length in (3, 4)


def test_where_a_server_lacks_the_ending_no_reason_asks_for_the_list_that_it_gave() -> None:
    beams = response(chat("Paris", PARIS), chat("Rome", [("Rome", -2.0)]))
    row = {
        "answer": response(chat("Paris", PARIS)),
        "beams": beams,
        "request": {"use_beam_search": True, "n": 2},
    }
    frame = score([row], similarity="lexical").set_index(["method", "variant", "setting"])
    for score_name in (
        *(("Prob", "", ""), ("Perplexity", "", ""), ("CocoaMSP", "beamsearch", "")),
        *(("Dissimilarity", "beamsearch", ""), ("PRO", "", "")),
    ):
        reason = frame.reason[score_name]
        assert "end-of-sequence token" in reason
        assert "not log p of the whole answer" in reason
        assert "give" not in reason


def test_the_reason_of_a_score_names_what_the_server_left_out() -> None:
    row = {
        "answer": response(chat("Paris", PARIS)),
        "samples": response(chat("Paris", ENDED), chat("Rome", None)),
    }
    frame = score([row], similarity="lexical").set_index(["method", "variant", "setting"])
    assert NO_ENDING in frame.reason["Prob", "", ""]
    assert NO_ENDING in frame.reason["CocoaPPL", "multinomial", ""]
    assert NO_LOGPROBS in frame.reason["SemanticEntropy", "multinomial", "likelihood-summed"]
    assert frame.value["Dissimilarity", "multinomial", ""] == pytest.approx(0.5)


def test_samples_may_be_several_responses_among_other_candidates_and_objects_of_a_client() -> None:
    client = SimpleNamespace(model_dump=lambda: response(chat("Paris", ENDED), chat("Nice", ENDED)))
    beams = response(completed("Rome", [("Rome", -0.1), ("\n", -0.2)]))
    item = read_records([{"answer": "Paris", "samples": [client, "Lyon"]}])[0]
    assert [(each.text, each.total) for each in item.samples] == [
        ("Paris", -0.875),
        ("Nice", None),
        ("Lyon", None),
    ]
    item = read_records(
        [{"answer": "Paris", "beams": beams, "request": {"use_beam_search": True}}]
    )[0]
    assert item.beams[0].total == pytest.approx(-0.3)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "two answers": ({"answer": response(chat("a", None), chat("b", None))}, "answer: 2 choices"),
    "a call of a tool": (
        {"answer": response(chat(None, None, "tool_calls"))},
        "finish_reason: 'tool_calls'",
    ),
    "a text for a logprob": (
        {"answer": response(completed("P", [("P", "x")]))},
        "token_logprobs[0]",
    ),
    "a positive logprob": (
        {"answer": response(chat("P", [("P", 0.5), ("</s>", -0.1)]))},
        "token_logprobs[0]: 0.5",
    ),
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


def listed_tokens(response: Any) -> int:
    """How many tokens of a completion have a log-probability, in either form of the list."""
    logprobs = response["choices"][0]["logprobs"]
    return len(logprobs["content"] if "content" in logprobs else logprobs["token_logprobs"])


@pytest.mark.server
def test_a_real_servers_answers_are_scored() -> None:
    """A base model's prompt, its line break as the ending; one request a sample, as not all servers
    take ``n``. vLLM lists the ending's log-probability; llama.cpp counts its token and leaves it
    out, so that log p of the answer is not known.
    """
    address = os.environ.get("BEAMUQ_SERVER")
    if not address:
        pytest.skip("no server: give its address up to /v1 as BEAMUQ_SERVER")
    own = {"top_p": 1, "top_k": 0, "min_p": 0, "max_tokens": 12, "logprobs": 1, "stop": ["\n"]}
    with urllib.request.urlopen(f"{address}/models", timeout=60) as models:
        model = json.load(models)["data"][0]["id"]
    prompt = (
        "Question: What is the capital of Italy?\nAnswer: Rome\nQuestion: What is the capital of "
        "France?\nAnswer:"
    )
    answered = []
    for seed, temperature in enumerate((0, 1, 1, 1)):
        request = {
            "model": model,
            "prompt": prompt,
            "temperature": temperature,
            "seed": seed,
            **own,
        }
        headers = {"Content-Type": "application/json"}
        sent = urllib.request.Request(
            f"{address}/completions", json.dumps(request).encode(), headers
        )
        with urllib.request.urlopen(sent, timeout=60) as received:
            answered.append(json.load(received))
    row = {"answer": answered[0], "samples": answered[1:]}
    item = read_records([row])[0]
    assert len(item.samples) == 3
    listed = [listed_tokens(response) for response in answered]
    are_whole = [
        tokens == response["usage"]["completion_tokens"]
        for tokens, response in zip(listed, answered, strict=True)
    ]
    totals = [answer.total for answer in (item.answer, *item.samples)]
    assert [total is not None for total in totals] == are_whole
    frame = score([row], similarity="lexical")
    prob = frame[frame.method == "Prob"].iloc[0]
    if are_whole[0]:
        assert prob.value == pytest.approx(-(item.answer.total or 0))
    else:
        assert math.isnan(prob.value)
        assert "ending" in prob.reason
    assert (
        frame[(frame.method == "Dissimilarity") & (frame.variant == "multinomial")]
        .value.notna()
        .all()
    )


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
    with pytest.warns(UserWarning, match="unfinished"):
        frame = score([row], similarity="lexical", methods="Dissimilarity")
    left = math.exp(-2.0) + math.exp(
        -4.0
    )  # which differ from the answer, of the outcomes that are left
    certified = frame[frame.variant == "beamsearch"][["low", "high"]].to_numpy().tolist()[0]
    assert certified == pytest.approx([left, 1 - math.exp(-0.5)])


def test_without_ending_scores_what_lacks_it_alone_with_a_note_and_no_interval() -> None:
    rome: Tokens = [("Rome", -2.0), ("</s>", -0.1)]
    row = {
        "answer": response(chat("Paris", PARIS)),
        "beams": response(chat("Paris", PARIS), chat("Rome", rome)),
    }
    row |= {"request": {"use_beam_search": True, "n": 2}}
    frame = score(
        [row],
        similarity="lexical",
        methods="Prob,Dissimilarity,LexicalSimilarity",
        without_ending=True,
    )
    frame = frame.set_index(["method", "variant"])
    assert frame.value["Prob", ""] == pytest.approx(0.75)
    assert frame.note["Prob", ""] == frame.note["Dissimilarity", "beamsearch"] != ""
    assert frame.low.isna().all()
    assert frame.note["LexicalSimilarity", ""] == ""
    assert all(
        json.loads(told)["without_ending"] for told in frame.scored_with
    )  # decide compares it
    whole = {"answer": response(chat("Paris", ENDED))}
    assert set(score([whole], similarity="lexical", without_ending=True)["note"]) == {""}


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"typical_p": 0.9}, "typical_p: 0.9: .*; ask with 1"),
        ({"logit_bias": {"5": -100}}, "logit_bias: "),
        ({"some_new_sampler": 1}, "some_new_sampler: 1: .*; ask without it"),
        ({"temperature": 0.7}, "temperature: 0.7: scored with 1"),
        ({"extra_body": {"min_p": 0.05}}, "min_p: 0.05"),
        ({"top_p": True}, "top_p: True: no number"),
        ({"min_p": False}, "min_p: False: no number"),
        ({"n": True}, "n: True: no number"),
        ({"extra_body": {"best_of": True}}, "best_of: True: no number"),
    ],
)
def test_samples_that_are_not_the_models_own_are_refused(
    setting: dict[str, Any], told: str
) -> None:
    row = {
        "answer": "Paris",
        "samples": response(chat("Paris", ENDED)),
        "request": {"model": "m", "top_p": 1, "n": 1},
    }
    assert read_records([row])
    with pytest.raises(BeamUQError, match=f"row 1: request: {told}"):
        read_records([row | {"request": setting}])
    if "extra_body" not in setting:  # as llama.cpp says of itself
        said = response(chat("Paris", ENDED)) | {"__verbose": {"generation_settings": setting}}
        with pytest.raises(BeamUQError, match=f"row 1: samples: generation_settings: {told}"):
            read_records([row | {"samples": said}])


def test_a_truth_value_is_no_number_of_a_beam_search() -> None:
    request = {"use_beam_search": True, "n": 2, "num_beams": True}
    with pytest.raises(BeamUQError, match=r"num_beams: True: no number"):
        sampling_request.check_beams_request(request, "row 1: request")


def test_a_truth_value_may_stand_where_one_is_due() -> None:
    request = {"ignore_eos": False, "do_sample": True, "logprobs": True, "stream": False}
    sampling_request.check_request(request, "row 1: request", 1.0)


def test_the_same_response_twice_doubles_no_samples() -> None:
    one = response(chat("Paris", ENDED), chat("Rome", None))
    with pytest.raises(BeamUQError, match="row 1: samples: the same response stands twice"):
        read_records([{"answer": "Paris", "samples": [one, dict(one)]}])


def test_two_samples_may_say_the_same_in_responses_of_their_own() -> None:
    samples = [{"choices": [chat("Rome", ENDED)]}, {"choices": [chat("Rome", ENDED)]}]
    assert len(read_records([{"answer": "Rome", "samples": samples}])[0].samples) == 2


def test_a_request_says_nothing_by_null() -> None:
    row = {"answer": "Rome", "samples": ["Rome"], "request": {"top_p": None, "extra_body": None}}
    assert read_records([row])[0].samples
