"""What servers were asked for: settings that leave samples the model's own, and repeated draws."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from beamuq.errors import BeamUQError

NESTED = ("extra_body", "options", "sampling_params")
"""Where clients, Ollama and SGLang hold further settings."""
ASKS = """
model messages prompt input text input_ids instructions n stream stream_options user suffix system
images metadata store include reasoning tools tool_choice keep_alive rid service_tier extra_headers
extra_query timeout priority request_id cache_prompt id_slot raw template think chat_template_kwargs
add_generation_prompt add_special_tokens
"""
"""What is asked, of which model and how it is sent."""
FREE = f"""
{ASKS} seed sampling_seed max_tokens max_completion_tokens max_new_tokens max_output_tokens
n_predict num_predict logprobs top_logprobs n_probs return_logprob logprob_start_len
top_logprobs_num return_text_in_logprobs prompt_logprobs stop stop_sequences stop_token_ids
include_stop_str_in_output skip_special_tokens spaces_between_special_tokens detokenize temperature
return_tokens_as_token_ids return_token_ids return_tokens n_keep num_keep num_ctx num_batch num_gpu
main_gpu num_thread use_mmap n_discard min_keep samplers post_sampling_probs timings_per_token
response_fields chat_format reasoning_format reasoning_in_content thinking_forced_open
generation_prompt dynatemp_exponent xtc_threshold dry_base repeat_last_n dry_allowed_length
dry_penalty_last_n dry_sequence_breakers mirostat_tau mirostat_eta adaptive_decay grammar_lazy
grammar_triggers preserved_tokens backend_sampling n_indent t_max_predict_ms length_penalty
early_stopping
"""
"""Settings that leave the model's distribution as it is, some because others switch them on."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(
        ("top_p", "typical_p", "repetition_penalty", "repeat_penalty", "best_of", "tfs_z"), (1,)
    ),
    **dict.fromkeys(("top_k", "top_n_sigma"), (0, -1)),
    **dict.fromkeys(
        ("min_p", "presence_penalty", "frequency_penalty", "mirostat", "min_tokens"), (0,)
    ),
    **dict.fromkeys(
        ("xtc_probability", "dry_multiplier", "dynatemp_range", "min_new_tokens"), (0,)
    ),
    **dict.fromkeys(("ignore_eos", "echo"), (False,)),
    **dict.fromkeys(("logit_bias", "grammar", "lora", "format"), (None, "", [], {})),
    **dict.fromkeys(
        ("bad_words", "logits_processors", "json_schema", "regex", "ebnf"), (None, "", [], {})
    ),
    "response_format": (None, {}, {"type": "text"}),
    "adaptive_target": (-1,),
    "use_beam_search": (False,),
    **dict.fromkeys(("beam_width", "num_beams"), (0, 1)),
    "do_sample": (True,),
}
"""Settings that leave the model's distribution as it is at these values alone."""
COUNTED = """
n n_probs max_tokens max_completion_tokens max_new_tokens max_output_tokens n_predict num_predict
top_logprobs top_logprobs_num logprob_start_len mirostat_tau mirostat_eta adaptive_decay
dynatemp_exponent xtc_threshold dry_base dry_allowed_length dry_penalty_last_n repeat_last_n
length_penalty
"""
"""Of the free settings those that are numbers."""
NUMBERS = {
    *COUNTED.split(),
    *(name for name, values in NEUTRAL.items() if type(values[0]) is int),
}
"""Settings whose values are numbers: a truth value there is a mistake, though it equals 1 or 0."""
SAMPLERS: dict[str, tuple[str, ...]] = {
    "penalties": ("repeat_penalty", "presence_penalty", "frequency_penalty"),
    "dry": ("dry_multiplier",),
    "top_n_sigma": ("top_n_sigma",),
    "top_k": ("top_k",),
    "typ_p": ("typical_p",),
    "typical_p": ("typical_p",),
    "top_p": ("top_p",),
    "min_p": ("min_p",),
    "xtc": ("xtc_probability",),
    "temperature": ("temperature", "dynatemp_range"),
    "adaptive_p": ("adaptive_target",),
}
"""llama.cpp's samplers, and the settings that have an effect only where they are in its list."""
CUTTING = ("top_k", "top_p", "min_p")
"""llama.cpp's samplers that cut the distribution unless they are told not to."""
RANDOM_SEEDS = (-1, 2**32 - 1)  # by which llama.cpp and Ollama draw a seed for each request
NO_TEMPERATURE = (
    "a request does not say its temperature, which is taken as score's; vLLM and Ollama take their "
    "model's own where it is not said"
)


def settings_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """A request's settings, those inside its parts too; what is null says nothing."""
    own = {name: value for name, value in request.items() if name not in NESTED}
    settings = _without_nulls(own)
    for part in NESTED:
        inside = request.get(part)
        if isinstance(inside, Mapping):
            settings |= _without_nulls(inside)
    return settings


def _without_nulls(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if value is not None}


def asks_for_beams(request: Mapping[str, Any]) -> bool:
    """Whether a request is one for a beam search."""
    settings = settings_of(request)
    if settings.get("use_beam_search") is True:
        return True
    widths = [settings.get("beam_width"), settings.get("num_beams")]
    return any(isinstance(width, int) and width > 1 for width in widths)


def stop_strings(request: Mapping[str, Any]) -> tuple[str, ...]:
    """The stop strings of a request."""
    settings = settings_of(request)
    strings: list[str] = []
    for name in ("stop", "stop_sequences"):
        value = settings.get(name)
        listed = value if isinstance(value, list) else [value]
        strings += [string for string in listed if isinstance(string, str)]
    return tuple(strings)


def check_request(request: Mapping[str, Any], place: str, temperature: float) -> None:
    """Refuse settings unless they are known to leave samples the model's own, at this temperature.

    Raises BeamUQError naming the first.
    """
    stated = settings_of(request)
    _check_no_truth_values(stated, place)
    settings = _in_effect(stated, place)
    value = settings.get("temperature", temperature)
    _check_is_number("temperature", value, place)
    if value != temperature:
        fix = "give score that temperature"
        if value == 0:
            fix = "greedy answers are no samples; ask with 1"
        raise BeamUQError(f"{place}: temperature: {value}: scored with {temperature:g}; {fix}")
    _check_neutral(settings, place, "such samples are not the model's own")


def check_beams_request(request: Mapping[str, Any], place: str) -> None:
    """Refuse settings of a beam search unless its log-probabilities are known to be the model's.

    Raises BeamUQError naming the first.
    """
    searched_by = ("use_beam_search", "beam_width", "num_beams", "best_of", "do_sample")
    settings = settings_of(request)
    _check_no_truth_values(settings, place)
    for name in searched_by:
        settings.pop(name, None)
    value = settings.get("temperature", 1)
    _check_is_number("temperature", value, place)
    if value not in (0, 1):  # at 0 servers search by the model's own distribution
        raise BeamUQError(
            f"{place}: temperature: {value}: such beams are not the model's own; ask with 1"
        )
    _check_neutral(settings, place, "such beams are not the model's own")


def _check_is_number(name: str, value: Any, place: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BeamUQError(
            f"{place}: {name}: {value!r:.80}: no number; give the one that was asked with"
        )


def _check_no_truth_values(settings: Mapping[str, Any], place: str) -> None:
    """Refuse true and false where a number is due."""
    for name, value in settings.items():
        if name in NUMBERS and isinstance(value, bool):
            raise BeamUQError(
                f"{place}: {name}: {value!r}: no number; give the one that was asked with"
            )


def _check_neutral(settings: Mapping[str, Any], place: str, why: str) -> None:
    for name, value in settings.items():
        if not _is_neutral(name, value):
            fix = f"ask with {NEUTRAL[name][0]!r}" if name in NEUTRAL else "ask without it"
            raise BeamUQError(f"{place}: {name}: {value!r:.80}: {why}; {fix}")


def _is_neutral(name: str, value: Any) -> bool:
    # SGLang's text is the prompt, that of the Responses API says the form of the answer
    if name == "text" and isinstance(value, Mapping):
        form = value.get("format")
        return not isinstance(form, Mapping) or form.get("type") == "text"
    return name in FREE.split() or name.startswith("speculative.") or value in NEUTRAL.get(name, ())


def _in_effect(settings: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Settings without those whose sampler llama.cpp's list of samplers leaves out.

    Raises BeamUQError where a listed sampler cuts, or the temperature is not listed.
    """
    samplers = settings.get("samplers")
    if not isinstance(samplers, list):
        return dict(settings)
    for name in CUTTING:
        if name in samplers and name not in settings:
            raise BeamUQError(
                f"{place}: samplers: {name}: llama.cpp's own value of it cuts the distribution; "
                f"leave it out of samplers, or ask with {name} {NEUTRAL[name][0]}"
            )
    effective = _without_unlisted(settings, samplers)
    if "temperature" not in samplers:
        temperature = settings.get("temperature", 1)
        if temperature != 1:
            raise BeamUQError(
                f"{place}: temperature: {temperature}: not among samplers, so that it has no "
                "effect; add 'temperature' to samplers, or ask with 1"
            )
        effective["temperature"] = 1
    return effective


def _without_unlisted(settings: Mapping[str, Any], samplers: Sequence[Any]) -> dict[str, Any]:
    """Settings without those of samplers that are not listed."""
    listed = {name for sampler in samplers for name in SAMPLERS.get(str(sampler), ())}
    unlisted = {name for names in SAMPLERS.values() for name in names} - listed
    return {name: value for name, value in settings.items() if name not in unlisted}


def fixed_seed(request: Mapping[str, Any], place: str) -> int | None:
    """The seed that a request's settings fix; None: they fix none.

    Raises BeamUQError naming the ``place`` and a seed that is no whole number: whether draws repeat
    is not known then.
    """
    settings = settings_of(request)
    value = settings.get("seed", settings.get("sampling_seed"))
    if value is None:
        return None
    seed = _whole(value)
    if seed is None:
        raise BeamUQError(
            f"{place}: seed: {value!r:.80}: no whole number; give the whole number that was asked "
            "with, or leave it out where each request had its own"
        )
    return None if seed in RANDOM_SEEDS else seed


def _whole(value: Any) -> int | None:
    """A whole number, also one that is written as a float or a text; None: it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if isinstance(value, int):
        return value
    try:
        if isinstance(value, str) and value.strip().lstrip("-").isdigit():
            return int(value)  # a float would round it
        number = float(value)
    except ValueError:
        return None
    return int(number) if number.is_integer() else None


def check_seeds(
    request: Mapping[str, Any], seeds: Sequence[int | None], texts_drawn: int, place: str
) -> None:
    """Refuse samples of several requests with one seed: all are the same draws.

    ``seeds``: which each response names, or None; ``texts_drawn``: how many samples are no
    responses.

    Raises BeamUQError naming the seed.
    """
    fix = "ask once with n, or give each request a seed of its own and leave it out of 'request'"
    for seed, count in Counter(seeds).items():
        if seed is not None and count > 1:
            raise BeamUQError(
                f"{place}: several responses of seed {seed}, which are the same draws; {fix}"
            )
    common_seed = fixed_seed(request, f"{place}: request")
    texts_a_request = settings_of(request).get("n", 1)
    requests_of_texts = texts_drawn
    if isinstance(texts_a_request, int) and texts_a_request > 0:
        requests_of_texts = math.ceil(texts_drawn / texts_a_request)
    if common_seed is not None and seeds.count(None) + requests_of_texts > 1:
        why = "several requests of one seed, which are the same draws"
        raise BeamUQError(f"{place}: request.seed: {common_seed}: {why}; {fix}")


def sampling_settings(request: Mapping[str, Any]) -> dict[str, Any]:
    """The settings by which answers may differ, sorted by name: not the question, nor the model."""
    passed_over = {*ASKS.split(), "seed", "sampling_seed"}
    settings = sorted(settings_of(request).items())
    return {name: value for name, value in settings if name not in passed_over}
