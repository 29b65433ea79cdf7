"""The hook ``beamuq.beams``: exact beams; inputs and settings that it does not read are refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForImageTextToText,
    DynamicCache,
    GenerationConfig,
    QuantizedCache,
    StaticCache,
    StoppingCriteria,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers.generation import logits_process, stopping_criteria

import beamuq
from beamuq.api.generate_hook import beams
from beamuq.errors import BeamUQError
from tiny import DEVICE, build_tiny_model, forced_logprobs, tiny_model

PROMPTS = ["a b c d", "e"]
ASKED = {"custom_generate": beamuq.beams, "width": 3, "max_new_tokens": 4}


@pytest.fixture(autouse=True)
def _without_gradients() -> Iterator[None]:
    with torch.no_grad():
        yield


@pytest.fixture
def inputs() -> dict[str, Any]:
    _, tokenizer = tiny_model("llama")
    encoded = tokenizer(PROMPTS, return_tensors="pt", padding=True, padding_side="left")
    return {name: values.to(DEVICE) for name, values in encoded.items()}


def call(inputs: dict[str, Any], **options: Any) -> Any:
    return tiny_model("llama")[0].generate(**inputs, **ASKED | options)


def test_every_beam_has_its_exact_log_probability_the_most_probable_first(
    inputs: dict[str, Any],
) -> None:
    model, _ = tiny_model("llama")
    output = call(inputs)
    start = inputs["input_ids"].shape[1]
    assert output.sequences.shape[0] == len(output.sequences_scores) == 6
    for row, (sequence, logprob) in enumerate(
        zip(output.sequences, output.sequences_scores, strict=True),
    ):
        kept = inputs["attention_mask"][row // 3].bool()
        prompt = inputs["input_ids"][row // 3][kept].tolist()
        answer = sequence[start : start + int(output.answer_tokens[row])].tolist()
        expected = forced_logprobs(model, prompt, answer)
        assert expected.sum() == pytest.approx(float(logprob), abs=2e-4)
        found = output.token_logprobs[row, : len(answer)].tolist()
        assert found == pytest.approx(expected.tolist(), abs=2e-4)
    assert (output.sequences_scores.reshape(2, 3).diff(dim=1) <= 0).all()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"repetition_penalty": 1.5}, r"RepetitionPenalty.*leave.*repetition_penalty=1\.0"),
        ({"no_repeat_ngram_size": 2}, "NoRepeatNGram.*no_repeat_ngram_size=0"),
        ({"min_new_tokens": 2}, r"MinLength.*leave.*min_new_tokens=0"),
        ({"forced_eos_token_id": 1}, "ForcedEOS.*leave"),
        ({"suppress_tokens": [5]}, "SuppressTokens.*leave"),
        ({"sequence_bias": [[[5], 1.0]]}, "SequenceBias.*leave"),
        ({"prefix_allowed_tokens_fn": lambda _, __: [5]}, "PrefixConstrained.*leave"),
        ({"max_time": 9}, "MaxTime.*leave"),
        ({"num_beams": 2}, "num_beams: 2: .*width.*leave.*num_beams=1"),
        ({"num_beams": 2, "num_return_sequences": 2}, "num_beams: 2: .*width.*leave"),
        ({"length_penalty": 2.0}, r"length_penalty: 2\.0: .*length_penalty=1\.0"),
        ({"early_stopping": True}, "early_stopping: True: .*early_stopping=False"),
        ({"output_logits": True}, "output_logits: True: .*output_logits=False"),
        ({"width": 0}, "width: .*0"),
        ({"width": 2.5}, "width: "),
    ],
    ids=lambda case: case if isinstance(case, str) else " ".join(case),
)
def test_a_setting_that_this_search_does_not_read_is_refused_by_name(
    setting: dict[str, Any], told: str, inputs: dict[str, Any]
) -> None:
    with pytest.raises(BeamUQError, match=told):
        call(inputs, **setting)


class RoundingCache(QuantizedCache):
    """A quantized cache without the package that quantizes."""

    def __init__(self) -> None:
        self.layers = []


def test_a_cache_that_rounds_is_refused(inputs: dict[str, Any]) -> None:
    model, _ = tiny_model("llama")
    config = GenerationConfig(cache_implementation="quantized", max_length=20)
    with pytest.raises(
        BeamUQError, match=r"cache_implementation: 'quantized': rounds.*leave it out"
    ):
        beams(model, **inputs, generation_config=config)
    config = GenerationConfig(max_length=20)
    with pytest.raises(BeamUQError, match=r"cache: RoundingCache: rounds.*leave it out"):
        beams(model, **inputs, generation_config=config, cache=RoundingCache())


def test_stop_strings_are_refused(inputs: dict[str, Any]) -> None:
    criterion = stopping_criteria.StopStringCriteria(tiny_model("llama")[1], ["a"])
    with pytest.raises(BeamUQError, match=r"StopString.*leave"):
        call(inputs, stopping_criteria=[criterion])


def test_settings_of_draws_do_not_touch_the_search(inputs: dict[str, Any]) -> None:
    drawn = {"do_sample": True, "temperature": 0.6, "top_p": 0.9, "top_k": 5, "min_p": 0.1}
    assert torch.equal(call(inputs, **drawn).sequences_scores, call(inputs).sequences_scores)
    normalised = call(inputs, renormalize_logits=True)
    assert torch.equal(normalised.sequences_scores, call(inputs).sequences_scores)


class TemperatureLogitsWarper(logits_process.LogitsProcessor):
    """Of the name of transformers' own."""

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        return scores + input_ids.shape[1]


class TopKOfOnesOwn(logits_process.TopKLogitsWarper):
    """Of a class that is transformers' own."""


class EosTokenCriteria(StoppingCriteria):
    """Of the name of transformers' own."""

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        return torch.full((len(input_ids),), scores is None, device=input_ids.device)


@pytest.mark.parametrize(
    "processor", [TemperatureLogitsWarper(), TopKOfOnesOwn(5)], ids=["warper", "top-k"]
)
@pytest.mark.parametrize("drawn", [True, False])
def test_a_processor_that_shares_a_name_with_transformers_own_is_refused(
    processor: Any, drawn: bool, inputs: dict[str, Any]
) -> None:
    name = f"test_api_generate_hook.{type(processor).__name__}"
    with pytest.raises(BeamUQError, match=f"{name}: changes the model's distribution"):
        call(inputs, logits_processor=[processor], do_sample=drawn)


def test_a_temperature_that_the_caller_gives_a_search_without_draws_is_refused(
    inputs: dict[str, Any],
) -> None:
    own = [logits_process.TemperatureLogitsWarper(0.5)]
    with pytest.raises(BeamUQError, match=r"^TemperatureLogitsWarper: changes"):
        call(inputs, logits_processor=own, do_sample=False)


@pytest.mark.parametrize(
    ("criterion", "told"),
    [
        (EosTokenCriteria(), "test_api_generate_hook.EosTokenCriteria"),
        (stopping_criteria.EosTokenCriteria(7), "^EosTokenCriteria"),
        (stopping_criteria.MaxLengthCriteria(99), "^MaxLengthCriteria"),
    ],
    ids=["shares a name", "other ends", "other length"],
)
def test_a_criterion_that_the_search_does_not_read_is_refused(
    criterion: Any, told: str, inputs: dict[str, Any]
) -> None:
    with pytest.raises(BeamUQError, match=f"{told}: changes where an answer ends.*max_new_tokens"):
        call(inputs, stopping_criteria=[criterion])


def test_inputs_that_generate_itself_adds_are_taken(inputs: dict[str, Any]) -> None:
    expected = call(inputs).sequences_scores
    mask = inputs["attention_mask"]
    positions = (mask.cumsum(-1) - 1).masked_fill(mask == 0, 1)
    added: list[dict[str, Any]] = [
        {"position_ids": positions},
        {"use_cache": False},
        {"logits_to_keep": 1},
        {"cache_implementation": "static"},
    ]
    for options in added:
        assert torch.equal(call(inputs, **options).sequences_scores, expected), options


@pytest.mark.parametrize("name", ["past_key_values", "cache", "cache_params"])
def test_an_empty_cache_is_taken_under_each_spelling_and_one_that_holds_tokens_is_not(
    name: str, inputs: dict[str, Any]
) -> None:
    model, _ = tiny_model("llama")
    config = model.generation_config
    asked: dict[str, Any] = {"generation_config": config, "width": 3}
    config.max_length = inputs["input_ids"].shape[1] + 4
    try:
        empty = beams(model, **inputs, **asked, **{name: DynamicCache()})
        assert torch.equal(empty.sequences_scores, call(inputs).sequences_scores)
        beams(model, **inputs, **asked, **{name: StaticCache(model.config, max_cache_len=20)})
        held = DynamicCache()
        held.update(torch.zeros(2, 2, 3, 8), torch.zeros(2, 2, 3, 8), 0)
        with pytest.raises(
            BeamUQError,
            match=f"{name}: DynamicCache: holds tokens already; leave it",
        ):
            beams(model, **inputs, **asked, **{name: held})
        with pytest.raises(BeamUQError, match=f"{name}: tuple: no cache"):
            beams(model, **inputs, **asked, **{name: ((torch.zeros(2, 2, 3, 8),) * 2,)})
    finally:
        config.max_length = None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("pixel_values", torch.zeros(2, 3, 4, 4)),
        ("inputs_embeds", torch.zeros(2, 4, 32)),
        ("mm_encoder_outputs", {"image": torch.zeros(1)}),
        ("token_type_ids", torch.ones(2, 4)),
        ("encoder_outputs", (torch.zeros(2, 4, 32),)),
        ("image_sizes", [[2, 2]]),
        ("something_new", 0),
    ],
)
def test_an_input_of_the_model_beside_ids_and_mask_is_refused_by_name(
    name: str, value: Any, inputs: dict[str, Any]
) -> None:
    model, _ = tiny_model("llama")
    config = model.generation_config
    with pytest.raises(
        BeamUQError,
        match=f"{name}.*token ids and their mask alone; leave that out",
    ):
        beams(model, **inputs, generation_config=config, **{name: value})


def test_embeddings_and_positions_of_one_s_own_are_refused(inputs: dict[str, Any]) -> None:
    model, _ = tiny_model("llama")
    embedded = model.get_input_embeddings()(inputs["input_ids"])
    with pytest.raises(BeamUQError, match=r"inputs_embeds.*leave that out"):
        model.generate(inputs_embeds=embedded, attention_mask=inputs["attention_mask"], **ASKED)
    mask = inputs["attention_mask"]
    for positions in (mask.cumsum(-1) + 3, torch.zeros(2, 99, dtype=torch.long, device=DEVICE)):
        with pytest.raises(BeamUQError, match=r"position_ids.*other positions"):
            beams(
                model,
                **inputs,
                generation_config=model.generation_config,
                position_ids=positions,
            )
    with pytest.raises(BeamUQError, match=r"position_ids.*other positions"):
        call(inputs, position_ids=mask.cumsum(-1) + 3)


def test_token_type_ids_without_content_are_taken(inputs: dict[str, Any]) -> None:
    model, _ = tiny_model("llama")
    config = model.generation_config
    config.max_length = inputs["input_ids"].shape[1] + 4
    try:
        kinds = torch.zeros_like(inputs["input_ids"])
        found = beams(model, **inputs, generation_config=config, width=3, token_type_ids=kinds)
    finally:
        config.max_length = None
    assert torch.equal(found.sequences_scores, call(inputs).sequences_scores)


def test_a_mask_that_is_no_mask_is_refused(inputs: dict[str, Any]) -> None:
    with pytest.raises(BeamUQError, match=r"attention_mask: .*0 or 1"):
        call(inputs | {"attention_mask": inputs["attention_mask"] * 0.5})


def test_a_model_that_sees_images_is_searched_without_one_and_refused_with_one(
    tmp_path: Path,
) -> None:
    folder = build_tiny_model("gemma3_multimodal", tmp_path / "gemma3")
    loaded: Any = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([[2, 20, 6, 5, 5, 5, 5, 7, 30, 31, 40]])
    given: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    assert len(loaded.generate(**given, **ASKED).sequences) == 3
    image = {"pixel_values": torch.zeros(1, 3, 16, 16)}
    with pytest.raises(BeamUQError, match=r"pixel_values.*leave that out"):
        loaded.generate(**given, **image, **ASKED)
    with pytest.raises(BeamUQError, match=r"token_type_ids, .*pixel_values.*leave that out"):
        loaded.generate(**given, **image, token_type_ids=(ids == 5).long(), **ASKED)


def test_a_model_of_an_encoder_and_a_decoder_is_refused_by_name() -> None:
    shape = {
        "vocab_size": 50,
        "d_model": 16,
        "d_kv": 8,
        "d_ff": 16,
        "num_layers": 1,
        "num_heads": 2,
    }
    ends = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    model: Any = T5ForConditionalGeneration(T5Config(**shape, **ends)).eval()
    with pytest.raises(BeamUQError, match=r"T5ForConditionalGeneration: an encoder and a decoder"):
        model.generate(input_ids=torch.tensor([[5, 6, 7, 1]]), **ASKED)
