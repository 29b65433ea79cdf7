"""Rows of lm-eval's logged samples (``--log_samples``): of a task's ``repeats`` the first is shown.

lm-eval's metric is of the first response, unless a filter votes; the others are its samples. The
log names no model and no seed: of a server, lm-eval asks with one seed, and all responses are one
draw.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

from beamuq.api.sampling_request import check_request, sampling_settings
from beamuq.errors import BeamUQError

KEYS = ("doc_id", "arguments", "resps", "filtered_resps")  # of a line of lm-eval
RENAMED = {"until": "stop", "max_gen_toks": "max_tokens"}
SETTINGS = "arguments.gen_args_0.arg_1"
UNSAID = (
    "lm-eval's log does not say top_p and top_k: transformers and vLLM take the model's own, which "
    "may cut the distribution; say top_p: 1 and top_k: 0 in the task's generation_kwargs"
)


def is_lm_eval_row(row: Mapping[str, Any]) -> bool:
    """Whether a row is a line of lm-eval's samples."""
    return all(key in row for key in KEYS)


def our_row_of_lm_eval(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    """A row of our own: answer, samples, question, answers, sampled_with and quality.

    quality: the line's metric, where it has one alone.

    Raises BeamUQError naming place and key: no generated texts, one alone, a metric that is not of
    the first, or responses that were not drawn from the model's own distribution.
    """
    responses = _responses(row, place)
    settings = _settings(row, place)
    temperature = _temperature(settings, place)
    check_request(settings, f"{place}: {SETTINGS}", temperature)
    if "top_p" not in settings or "top_k" not in settings:
        warnings.warn(UNSAID, stacklevel=4)
    _check_metric_is_of_first(row, responses[0], place)
    first, *samples = [{"text": text, "temperature": temperature} for text in responses]
    stated = sampling_settings(settings)
    fields = {
        "id": row["doc_id"],
        "answer": first,
        "samples": samples,
        "sampled_with": json.dumps(stated, ensure_ascii=False, sort_keys=True, default=str),
    }
    prompt = row["arguments"]["gen_args_0"].get("arg_0")
    if isinstance(prompt, str):
        fields["question"] = prompt
    if isinstance(row.get("target"), str):
        fields["answers"] = [row["target"]]
    metrics = row.get("metrics") or []
    if len(metrics) == 1:
        fields["quality"] = row.get(metrics[0])
    return fields


def _responses(row: Mapping[str, Any], place: str) -> list[str]:
    """The texts of the one request that a line has."""
    requests = row["resps"]
    is_one = isinstance(requests, list) and len(requests) == 1 and isinstance(requests[0], list)
    responses = requests[0] if is_one else []
    if not responses or not all(isinstance(text, str) for text in responses):
        raise BeamUQError(
            f"{place}: resps: no texts of one request; give a task of output_type generate_until"
        )
    if len(responses) == 1:
        raise BeamUQError(
            f"{place}: resps: one response, nothing to compare it with; say repeats: 10 in the task"
        )
    return responses


def _settings(row: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The settings of the request, by the names that servers have for them."""
    request = row["arguments"].get("gen_args_0") if isinstance(row["arguments"], Mapping) else None
    stated = request.get("arg_1") if isinstance(request, Mapping) else None
    if not isinstance(stated, Mapping):
        raise BeamUQError(f"{place}: {SETTINGS}: missing; give the line as lm-eval wrote it")
    return {
        RENAMED.get(str(name), str(name)): value
        for name, value in stated.items()
        if value is not None
    }


def _temperature(settings: Mapping[str, Any], place: str) -> float:
    """At which the responses were drawn; raises BeamUQError where nothing says that they were."""
    for name, value in (("do_sample", True), ("temperature", 1.0)):
        if name not in settings:
            raise BeamUQError(
                f"{place}: {SETTINGS}: {name}: not said, and lm-eval is greedy without it; say "
                f"{name}: {json.dumps(value)} in the task's generation_kwargs"
            )
    temperature = settings["temperature"]
    is_number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    return float(temperature) if is_number and temperature > 0 else 1.0


def _check_metric_is_of_first(row: Mapping[str, Any], first: str, place: str) -> None:
    """Refuse a filter that takes another response, or a vote."""
    filtered = row["filtered_resps"]
    judged = filtered[0] if isinstance(filtered, list) and filtered else filtered
    if not isinstance(judged, str) or judged.strip() not in first:
        raise BeamUQError(
            f"{place}: filtered_resps: {judged!r:.80}: not of the first response, so that the "
            f"metric is not the shown answer's (filter {row.get('filter')!r}); give the lines of a "
            "filter that takes the first"
        )
