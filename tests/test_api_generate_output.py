"""What ``generate`` returned, as candidates: log-probabilities, endings, prompts and texts."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LogitsProcessor, T5Config, T5ForConditionalGeneration

import beamuq
from beamuq.errors import BeamUQError
from docs_blocks import MODELS, assert_prints, blocks
from tiny import DEVICE, forced_logprobs, tiny_model, tiny_tokenizer

ENDS = [1, 3]
PROMPTS = ["Question: Which river", "Who"]
RETURNED = {"return_dict_in_generate": True, "max_new_tokens": 8}
BEAMS = RETURNED | {"num_beams": 4, "num_return_sequences": 4, "do_sample": False}
DRAWS = RETURNED | {"num_return_sequences": 5, "do_sample": True, "top_k": 0, "output_logits": True}
VOCABULARY = len(tiny_tokenizer())
STRINGS = ["e", "a", "o"]


@pytest.fixture(autouse=True)
def _without_gradients_or_warnings() -> Iterator[None]:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        torch.manual_seed(0)
        yield


def prompts() -> dict[str, Any]:
    _, tokenizer = tiny_model("llama")
    inputs = tokenizer(PROMPTS, return_tensors="pt", padding=True, padding_side="left")
    return {name: values.to(DEVICE) for name, values in inputs.items()}


def call(**options: Any) -> Any:
    """The output of ``generate`` for both prompts."""
    model, tokenizer = tiny_model("llama")
    if "stop_strings" in options:
        options["tokenizer"] = tokenizer
    return model.generate(**prompts(), **options)


def read(output: Any, **stated: Any) -> list[list[dict[str, Any]]]:
    usual = {"prompt_tokens": prompts()["input_ids"].shape[1], "per_prompt": 4, "stop_ids": ENDS}
    return beamuq.from_generate(output, tiny_model("llama")[1], **usual | stated)


def assert_own(candidates: Sequence[Sequence[dict[str, Any]]]) -> None:
    """Each log-probability is that of the untouched model, which runs the answer once more."""
    model, tokenizer = tiny_model("llama")
    for prompt, found in zip(PROMPTS, candidates, strict=True):
        ids = tokenizer(prompt)["input_ids"]
        for candidate in found:
            expected = forced_logprobs(model, ids, candidate["token_ids"])
            assert candidate["token_logprobs"] == pytest.approx(expected.tolist(), abs=1e-4)
            assert candidate["logprob"] == pytest.approx(expected.sum(), abs=1e-4)


CHANGED = {
    "repetition penalty": {"repetition_penalty": 1.5},
    "beam sampling": {"do_sample": True, "temperature": 0.5, "top_k": 5},
    "length penalty": {"length_penalty": 2.0},
    "forced end": {"forced_eos_token_id": 1},
    "no repeated token": {"no_repeat_ngram_size": 1},
    "renormalised penalty": {"repetition_penalty": 1.5, "renormalize_logits": True},
    "early stopping": {"early_stopping": True},
}


@pytest.mark.parametrize("setting", ["", *CHANGED])
def test_beams_with_logits_have_the_model_s_own_log_probability(setting: str) -> None:
    output = call(**BEAMS | CHANGED.get(setting, {}), output_logits=True)
    found = read(output)
    assert [len(candidates) for candidates in found] == [4, 4]
    assert_own(found)


def test_beams_that_were_searched_under_another_distribution_are_warned_of() -> None:
    output = call(**BEAMS, repetition_penalty=1.5, output_logits=True, output_scores=True)
    with pytest.warns(UserWarning, match="others may be more probable"):
        found = read(output)
    assert_own(found)
    assert_own(read(call(**BEAMS, output_logits=True, output_scores=True)))


@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0, -1.0])
def test_plain_scores_are_believed_under_the_stated_length_penalty(length_penalty: float) -> None:
    output = call(**BEAMS, output_scores=True, length_penalty=length_penalty)
    assert_own(read(output, length_penalty=length_penalty))
    with pytest.raises(
        BeamUQError,
        match=r"length_penalty: 0\.5: sequences_scores\[0\] .*output_log",
    ):
        read(output, length_penalty=0.5)


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("repetition penalty", r"sum to 0\.\d+, not 1"),
        ("beam sampling", "-inf"),
        ("forced end", "-inf"),
        ("no repeated token", "-inf"),
    ],
)
def test_scores_of_another_distribution_are_refused_with_the_call_that_gives_logits(
    setting: str,
    why: str,
) -> None:
    output = call(**BEAMS | CHANGED[setting], output_scores=True)
    with pytest.raises(BeamUQError, match=f"scores.*{why}.*do_sample=False, output_logits=True"):
        read(output)


def test_a_temperature_alone_is_seen_in_beams_scores() -> None:
    drawn = {"do_sample": True, "temperature": 0.5, "top_k": 0}
    with pytest.raises(BeamUQError, match="not 1: of a temperature"):
        read(call(**BEAMS | drawn, output_scores=True))


@pytest.mark.parametrize("missing", ["beam_indices", "scores", "sequences_scores"])
def test_beams_that_lack_what_their_log_probability_comes_from_are_refused(missing: str) -> None:
    output = call(**BEAMS, output_scores=True, output_logits=missing == "beam_indices")
    setattr(output, missing, None)
    with pytest.raises(BeamUQError, match=r"output: .*output_logits=True"):
        read(output)


def test_a_temperature_of_beams_is_refused() -> None:
    with pytest.raises(BeamUQError, match=r"temperature: 0\.5: of samples alone"):
        read(call(**BEAMS, output_logits=True), temperature=0.5)


def test_a_search_that_found_fewer_beams_than_asked_for_is_refused() -> None:
    output = call(**BEAMS, output_logits=True, output_scores=True)
    output.sequences_scores[2] = -1e9
    with pytest.raises(BeamUQError, match=r"sequences\[2\].*fewer than .*num_return_sequences"):
        read(output)
    output = call(**BEAMS, output_logits=True)
    output.sequences[1] = output.sequences[0]
    output.beam_indices[1] = output.beam_indices[0]
    with pytest.raises(BeamUQError, match="prompt 1: 4 beams, 3 of them distinct; ask for fewer"):
        read(output)


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_samples_whose_scores_are_the_logits_over_the_stated_temperature(
    temperature: float,
) -> None:
    output = call(**DRAWS, output_scores=True, temperature=temperature)
    found = read(output, per_prompt=5, temperature=temperature)
    assert_own(found)
    assert {candidate["temperature"] for candidate in found[0]} == {temperature}
    other = 0.7
    with pytest.raises(
        BeamUQError,
        match=rf"temperature: 0\.7: .* over {temperature:g}; give temp",
    ):
        read(output, per_prompt=5, temperature=other)


def test_score_refuses_samples_of_another_temperature_than_its_own() -> None:
    output = call(**DRAWS, output_scores=True, temperature=0.5)
    samples = read(output, per_prompt=5, temperature=0.5)[0]
    rows = [{"answer": "a", "samples": samples}]
    asked: dict[str, Any] = {"similarity": "lexical", "methods": "Dissimilarity"}
    assert beamuq.score(rows, temperature=0.5, **asked)["Dissimilarity"].notna().all()
    with pytest.raises(
        BeamUQError,
        match=r"row 1: samples\[0\]: temperature: 0\.5: scored with 1; give",
    ):
        beamuq.score(rows, **asked)


@pytest.mark.parametrize(
    "setting",
    [
        {"top_k": 5},
        {"top_p": 0.9},
        {"min_p": 0.05},
        {"typical_p": 0.9},
        {"repetition_penalty": 1.05},
        {"min_new_tokens": 5},
        {"suppress_tokens": [30]},
        {"sequence_bias": [[[30], 1.0]]},
        {"temperature": 0.5, "top_k": 5},
        {"do_sample": False, "num_return_sequences": 1, "repetition_penalty": 1.3},
    ],
    ids=str,
)
def test_samples_of_another_distribution_are_refused(setting: dict[str, Any]) -> None:
    output = call(**DRAWS | {"output_scores": True} | setting)
    with pytest.raises(BeamUQError, match=r"scores\[\d\]: not the logits.*top_k=0, top_p=1\.0"):
        read(output, per_prompt=setting.get("num_return_sequences", 5))


def test_scores_that_were_only_normalised_are_the_model_s_own() -> None:
    assert_own(read(call(**DRAWS, output_scores=True, renormalize_logits=True), per_prompt=5))


def test_samples_without_scores_are_believed_with_a_warning() -> None:
    output = call(**DRAWS)
    with pytest.warns(UserWarning, match="no scores.*believed.*output_scores=True"):
        found = read(output, per_prompt=5)
    assert_own(found)


def test_an_output_without_logits_is_refused_with_the_call_that_gives_them() -> None:
    for options in (RETURNED | {"output_scores": True}, {"max_new_tokens": 2}):
        with pytest.raises(BeamUQError, match=r"output: .*no log-prob.*output_logits=True"):
            read(call(**options), per_prompt=1)


def made_up(answers: Sequence[Sequence[int]], *, logits: Any = None, prompt: int = 5) -> Any:
    """An output of samples [rows, steps] behind a prompt of one token, all tokens alike."""
    tokens = torch.tensor(answers)
    rows, steps = tokens.shape
    tables = torch.zeros(steps, rows, VOCABULARY) if logits is None else logits
    sequences = torch.cat([torch.full((rows, 1), prompt), tokens], dim=1)
    tables = tuple(tables)
    return SimpleNamespace(sequences=sequences, logits=tables, scores=tables)


def read_made_up(output: Any, **stated: Any) -> list[dict[str, Any]]:
    rows = len(output.sequences)
    return read(output, **{"prompt_tokens": 1, "per_prompt": rows, "stop_strings": []} | stated)[0]


@pytest.mark.parametrize(("value", "told"), [(math.nan, "NaN"), (math.inf, r"\+inf")])
def test_broken_logits_are_refused_by_name(value: float, told: str) -> None:
    logits = torch.zeros(2, 1, VOCABULARY)
    logits[1, 0, 40] = value
    with pytest.raises(BeamUQError, match=rf"logits\[1\]: holds {told}"):
        read_made_up(made_up([[7, 8]], logits=logits))
    output = call(**BEAMS, output_logits=True)
    output.logits[2][0, 5] = value
    with pytest.raises(BeamUQError, match=rf"logits\[2\]: holds {told}"):
        read(output)


def test_minus_infinity_is_a_probability_of_0_which_nothing_chosen_has() -> None:
    logits = torch.zeros(2, 1, VOCABULARY)
    logits[:, :, 160:] = -math.inf
    (found,) = read_made_up(made_up([[7, 8]], logits=logits))
    assert found["logprob"] == pytest.approx(2 * -math.log(160))
    with pytest.raises(BeamUQError, match=r"sequence 1, token 2 \(200\): has probability 0"):
        read_made_up(made_up([[7, 200]], logits=logits))


@pytest.mark.parametrize("beams", [True, False])
def test_an_answer_that_a_stop_string_ended_is_its_tokens_up_to_there(beams: bool) -> None:
    options = BEAMS | {"output_logits": True} if beams else DRAWS | {"output_scores": True}
    options |= {"max_new_tokens": 12, "stop_strings": STRINGS}
    per_prompt = 4 if beams else 5
    found = read(call(**options), per_prompt=per_prompt, stop_strings=STRINGS)
    assert_own(found)
    ended = [candidate for each in found for candidate in each if candidate["ended"]]
    assert ended
    by_string = [candidate for candidate in ended if candidate["token_ids"][-1] not in ENDS]
    assert by_string
    decode = tiny_model("llama")[1].decode
    texts = [decode(candidate["token_ids"]) for candidate in by_string]
    assert [text for text in texts if not any(string in text for string in STRINGS)] == []


@pytest.mark.parametrize("pad", [0, 3])
@pytest.mark.parametrize("beams", [True, False])
def test_padding_behind_an_unnamed_stop_string_is_not_summed_in(beams: bool, pad: int) -> None:
    options = BEAMS | {"output_logits": True} if beams else DRAWS | {"output_scores": True}
    options |= {"max_new_tokens": 12, "stop_strings": STRINGS, "pad_token_id": pad}
    with pytest.raises(BeamUQError, match=r"stop_strings: (sequence \d|\d answers).*give all ends"):
        read(call(**options), per_prompt=4 if beams else 5)


@pytest.mark.parametrize("stop_ids", [1, [3], []])
def test_padding_behind_an_end_that_is_missing_from_stop_ids_is_not_summed_in(
    stop_ids: Any,
) -> None:
    options = DRAWS | {"output_scores": True, "num_return_sequences": 50, "max_new_tokens": 20}
    output = call(**options)
    found = read(output, per_prompt=50)
    assert sum(candidate["ended"] for each in found for candidate in each) > 4
    with pytest.raises(BeamUQError, match=r"stop_ids.*sequence \d+ holds .* alone.*eos_token_id"):
        read(output, per_prompt=50, stop_ids=stop_ids)


def test_the_tokenizer_s_end_is_none_where_the_call_had_others() -> None:
    end = tiny_model("llama")[1].eos_token_id
    found = read_made_up(made_up([[7, end, 8, 3], [9, 8, 7, 6]]), stop_ids=3)
    assert found[0]["token_ids"] == [7, end, 8, 3]


def test_a_stop_id_behind_which_the_answer_goes_on_is_refused() -> None:
    with pytest.raises(BeamUQError, match=r"stop_ids: 7, .*sequence 1 goes on behind it"):
        read_made_up(made_up([[7, 8, 3, 0], [9, 3, 0, 0]]), stop_ids=[3, 7])
    with pytest.raises(BeamUQError, match=r"stop_ids: 7, .*goes on behind it"):
        read_made_up(made_up([[9, 7, 40]]), stop_ids=7)
    output = call(**BEAMS, output_logits=True)
    inside = int(output.sequences[0, -3])
    with pytest.raises(BeamUQError, match=rf"stop_ids: {inside}, .*goes on behind it"):
        read(output, stop_ids=[*ENDS, inside])


def test_a_stop_string_behind_which_a_beam_goes_on_is_refused() -> None:
    with pytest.raises(BeamUQError, match=r"stop_strings: 'ap': sequence \d goes on behind it"):
        read(call(**BEAMS, output_logits=True), stop_strings=["a"])


@pytest.mark.parametrize("padding", [0, 40])
def test_padding_that_is_no_end_marks_an_ending_that_nobody_named(padding: int) -> None:
    answers = [[7, padding, padding, padding], [8, 9, 10, 11]]
    logits = torch.zeros(4, 2, VOCABULARY)
    logits[:, :, padding] = -9.0
    with pytest.raises(
        BeamUQError,
        match=r"sequence 1 holds .* alone behind token 1 .*give all ends",
    ):
        read_made_up(made_up(answers, logits=logits))


@pytest.mark.parametrize("other", [[8, 9, 10, 11], [8, 7, 10, 11], [0, 9, 10, 11]])
def test_repeated_padding_is_drawn_only_where_neither_it_nor_what_is_before_can_be_an_ending(
    other: list[int],
) -> None:
    with pytest.raises(BeamUQError, match=r"sequence 1 holds '<pad>' alone behind token 1"):
        read_made_up(made_up([[7, 0, 0, 0], other]))
    goes_on = [[7, 0, 0, 0], [8, 7, 10, 11], [0, 9, 10, 11], [8, 9, 10, 11]]
    assert read_made_up(made_up(goes_on))[0]["token_ids"] == goes_on[0]


def test_a_padding_token_that_the_model_draws_is_a_token() -> None:
    answers = [[7, 0, 9, 8, 6], [9, 7, 8, 0, 7], [8, 9, 7, 6, 0], [8, 6, 7, 0, 0]]
    found = read_made_up(made_up(answers))
    assert [candidate["token_ids"] for candidate in found] == answers


def ending(logprob: float, rows: int, before: int = 9) -> Any:
    """Answers that end in token 3, which also pads, with this log-probability; one is cut."""
    logits = torch.zeros(4, rows + 1, VOCABULARY, dtype=torch.float64)
    rest = math.log(-math.expm1(logprob) / 319)
    logits[1] = rest
    logits[1, :, 3] = logprob
    return made_up([*[[before, 3, 3, 3]] * rows, [7, 8, 10, 11]], logits=logits)


def test_an_ending_that_is_also_padding_is_warned_of_unless_stop_strings_are_stated() -> None:
    output = ending(-0.5, 4)
    assert read_made_up(output)[0]["token_ids"] == [9, 3]
    with pytest.warns(UserWarning, match=r"4 of 5 answers.*stop_strings=\[\].*pad_token_id"):
        read_made_up(output, stop_strings=None)


@pytest.mark.parametrize(
    ("logprob", "rows", "before", "told"),
    [
        (-20.0, 1, 9, "log p -20"),
        (-4.0, 5, 9, r"5 answers end .*0\.\d+ are expected"),
        (-4.0, 1, 2, "stands behind '<bos>'"),
    ],
)
def test_an_ending_that_is_also_padding_is_refused_where_it_cannot_have_been_drawn(
    logprob: float, rows: int, before: int, told: str
) -> None:
    with pytest.raises(BeamUQError, match=f"{told}.*padding behind.*pad_token_id"):
        read_made_up(ending(logprob, rows, before), stop_strings=None)


def test_a_greedy_answer_ends_where_ending_is_most_probable() -> None:
    logits = torch.zeros(3, 2, VOCABULARY)
    tokens = torch.tensor([[7, 3, 3], [8, 9, 10]])
    for step in range(3):
        for row in range(2):
            logits[step, row, tokens[row, step]] = 9.0
    output = made_up(tokens.tolist(), logits=logits)
    asked = {"per_prompt": 1, "prompt_tokens": 1, "stop_strings": []}
    assert read(output, **asked)[0][0]["token_ids"] == [7, 3]
    output.logits[1][0, 40] = 10.0
    with pytest.raises(
        BeamUQError,
        match=r"sequence 1 ends in .*most probable token is another one",
    ):
        read(output, **asked)


def test_an_answer_alone_was_not_padded() -> None:
    (found,) = read_made_up(made_up([[7, 0, 0]]), stop_strings=None)
    assert (found["token_ids"], found["ended"]) == ([7, 0, 0], False)


def test_behind_a_stop_string_a_call_without_ends_goes_on_and_that_is_left_out() -> None:
    tokens = tiny_model("llama")[1]("Paris", add_special_tokens=False)["input_ids"]
    answers = [[*tokens, 40, 41], [*[50] * len(tokens), 51, 52]]
    found = read_made_up(made_up(answers), stop_ids=[], stop_strings="Paris")
    assert found[0]["token_ids"] == tokens
    assert [candidate["ended"] for candidate in found] == [True, False]


@pytest.mark.parametrize("stop_ids", [None, 1.5, True, "2", -1, [1, -2], [[1.0]]])
def test_stop_ids_that_are_no_tokens_are_refused(stop_ids: Any) -> None:
    with pytest.raises(BeamUQError, match=r"stop_ids: .*eos_token_id.*\[\] if it had none"):
        read(call(**BEAMS, output_logits=True), stop_ids=stop_ids)


def test_stop_ids_may_be_a_tensor_or_none_at_all() -> None:
    output = call(**BEAMS, output_logits=True)
    assert read(output, stop_ids=torch.tensor(ENDS)) == read(output, stop_ids=ENDS)
    assert read(output, stop_ids=[])[0][0]["ended"] is False


@pytest.mark.parametrize("stop_strings", [[""], [3], 4])
def test_stop_strings_that_are_no_texts_are_refused(stop_strings: Any) -> None:
    with pytest.raises(BeamUQError, match=r"stop_strings: .*give texts"):
        read(call(**BEAMS, output_logits=True), stop_strings=stop_strings)


@pytest.mark.parametrize(
    ("stated", "told"),
    [
        ({"per_prompt": 3}, "per_prompt: 3: does not divide the 8 sequences"),
        ({"per_prompt": 8}, "per_prompt: 8: sequences 1 to 8 are of several prompts"),
        ({"per_prompt": 2}, "per_prompt: 2: prompts 1 and 2 are the same"),
        ({"per_prompt": 0}, "per_prompt: 0: must be a whole number, at least 1"),
        ({"per_prompt": 2.0}, "per_prompt: 2.0: must be a whole number"),
        ({"per_prompt": True}, "per_prompt: True: must be a whole number"),
        ({"prompt_tokens": -3}, "prompt_tokens: -3: must be a whole number, at least 0"),
        ({"prompt_tokens": 0}, "prompt_tokens: 0: .*17 tokens, of which 8 .*which is 9"),
        ({"prompt_tokens": 10}, "prompt_tokens: 10: .*which is 9"),
        ({"prompt_tokens": 99}, "prompt_tokens: 99: .*which is 9"),
        ({"length_penalty": math.nan}, "length_penalty: nan: must be a number"),
        ({"length_penalty": "1"}, "length_penalty: '1': must be a number"),
        ({"temperature": 0}, "temperature: .*0"),
    ],
)
def test_what_is_said_of_the_call_has_to_agree_with_its_output(stated: Any, told: str) -> None:
    with pytest.raises(BeamUQError, match=told):
        read(call(**BEAMS, output_logits=True), **stated)


def test_prompts_of_samples_are_not_mixed() -> None:
    output = call(**DRAWS, output_scores=True)
    with pytest.raises(
        BeamUQError,
        match="per_prompt: 10: sequences 1 to 10 are of several prompts",
    ):
        read(output, per_prompt=10)
    with pytest.warns(UserWarning, match="per_prompt: 1: prompts 1 and 2 are the same"):
        read(output, per_prompt=1)


@pytest.mark.parametrize("beams", [True, False])
def test_answers_behind_an_encoder_are_read_too(beams: bool) -> None:
    shape = {"vocab_size": 321, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1}
    ends = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    model: Any = T5ForConditionalGeneration(T5Config(**shape, num_heads=2, **ends)).eval()
    asked = torch.tensor([[50, 60, 70, 1], [90, 90, 10, 1]])
    options = BEAMS | {"output_logits": True} if beams else DRAWS | {"output_scores": True}
    per_prompt = options["num_return_sequences"]
    output = model.generate(input_ids=asked, **options)
    found = read(output, prompt_tokens=1, per_prompt=per_prompt, stop_ids=1, stop_strings=[])
    for ids, candidates in zip(asked, found, strict=True):
        for candidate in candidates:
            answer = torch.tensor([candidate["token_ids"]])
            logits = model(input_ids=ids[None], labels=answer).logits[0].double()
            own = logits.log_softmax(dim=-1).gather(1, answer[0][:, None]).sum()
            assert candidate["logprob"] == pytest.approx(float(own), abs=1e-4)


def test_outputs_of_two_calls_are_refused() -> None:
    output = call(**DRAWS, output_scores=True)
    other = call(**DRAWS | {"num_return_sequences": 2}, output_scores=True)
    output.logits = other.logits
    with pytest.raises(BeamUQError, match="10 sequences, logits of 4"):
        read(output, per_prompt=5)
    searched = call(**BEAMS, output_logits=True)
    searched.logits = searched.logits[:3]
    with pytest.raises(BeamUQError, match="logits: 3 steps"):
        read(searched)
    searched.beam_indices = searched.beam_indices[:3]
    with pytest.raises(BeamUQError, match="8 sequences, beam_indices of 3"):
        read(searched)
    output = call(**DRAWS, output_scores=True)
    output.scores = output.scores[:2]
    with pytest.raises(BeamUQError, match="8 steps of logits, 2 of scores"):
        read(output, per_prompt=5)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("\nParis", "Paris"),
        ("one\ntwo\n\nthree\n", "one\ntwo\n\nthree"),
        ("<b>one</b> two", "<b>one</b> two"),
        ("one</think>two", "one</think>two"),
        ("one Answer: two", "one Answer: two"),
        ("one , two .\n", "one , two ."),
        (" \n ", ""),
    ],
)
@pytest.mark.parametrize("ended", ["<eos>", "<end_of_turn>", ""])
def test_of_a_text_only_special_tokens_and_outer_space_are_taken_off(
    written: str,
    text: str,
    ended: str,
) -> None:
    tokens = tiny_model("llama")[1](f"{written}{ended}", add_special_tokens=False)["input_ids"]
    (found,) = read_made_up(made_up([tokens]))
    assert (found["text"], found["ended"], found["token_ids"]) == (text, bool(ended), tokens)


def test_an_ending_that_says_something_stays_in_the_text() -> None:
    _, tokenizer = tiny_model("llama")
    stop = tokenizer.convert_tokens_to_ids(".\n")
    (found,) = read_made_up(made_up([[40, stop]]), stop_ids=stop)
    assert found["text"] == f"{tokenizer.decode([40])}."
    assert found["ended"] is True


def test_several_lines_are_scored_as_they_are() -> None:
    texts = ("1. Red\n2. Blue", "1. Red\n2. Green")
    candidates = [{"text": text, "logprob": -1.5} for text in texts]
    rows = [{"answer": candidates[0], "beams": candidates}]
    scores = beamuq.score(rows, similarity="lexical", methods="Dissimilarity")
    assert scores["Dissimilarity"]["1"] > 0


@pytest.mark.parametrize("width", [1, 4])
def test_what_the_hook_gave_back_is_read_as_it_was_computed(width: int) -> None:
    output = call(custom_generate=beamuq.beams, width=width, max_new_tokens=8)
    found = read(output, per_prompt=width)
    assert_own(found)
    told = [candidate["logprob"] for each in found for candidate in each]
    assert told == pytest.approx(output.sequences_scores.tolist(), abs=1e-12)
    with pytest.raises(BeamUQError, match="prompt_tokens: 3: "):
        read(output, per_prompt=width, prompt_tokens=3)


@pytest.mark.slow
@pytest.mark.packaged
def test_the_page_s_block_gives_the_same_under_a_generation_config_that_samples(
    tmp_path: Path,
) -> None:
    """As those of Llama 3 and Qwen 2.5 do."""
    if not any(MODELS.glob("*/model.safetensors")):
        pytest.skip("the packaged models are not fetched; run make models")
    page = blocks("your_own_answers.md")
    (loaded,) = (block for block in page if block.path == "loaded.py")
    place = next(n for n, block in enumerate(page) if "beamuq.from_generate(" in block.text)
    samples = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "repetition_penalty": 1.05}
    sampling = f"\nmodel.generation_config.update(**{json.loads(json.dumps(samples))!r})\n"
    (tmp_path / "loaded.py").write_text(
        loaded.text + sampling.replace("true", "True"),
        encoding="utf-8",
    )
    environment = os.environ | {"BEAMUQ_MODELS": str(MODELS), "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", page[place].text],
        cwd=tmp_path,
        env=environment,
        text=True,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert_prints(page[place + 1].text, done.stdout)


class Evil(LogitsProcessor):
    """Prefers one token, and normalises: no trace of it is in the scores' sums."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        biased = scores.clone()
        biased[:, 40] += 3.0 if input_ids.numel() else 0.0
        return biased.log_softmax(dim=-1)


def test_a_processor_that_normalises_escapes_the_scores_but_not_the_logits() -> None:
    output = call(**BEAMS, output_logits=True, output_scores=True, logits_processor=[Evil()])
    with pytest.warns(UserWarning, match="not the log-softmax of the logits"):
        found = read(output)
    assert_own(found)
    drawn = call(**DRAWS, output_scores=True, logits_processor=[Evil()])
    with pytest.raises(BeamUQError, match=r"scores\[0\]: not the logits"):
        read(drawn, per_prompt=5)
    assert np.isfinite([candidate["logprob"] for each in found for candidate in each]).all()
