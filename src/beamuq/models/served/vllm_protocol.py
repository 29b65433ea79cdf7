"""vLLM's ``/v1/completions``: prompts of token ids, top k of the raw softmax, named tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from beamuq.decoding.served.served_model import Drawn, Prefix, TokenList
from beamuq.errors import BeamUQError
from beamuq.models.served.http_requests import ServerRequests
from beamuq.models.served.server_protocol import (
    OTHER,
    ServerProtocol,
    as_list,
    as_logprob,
    as_window,
    in_order,
    mapping,
    sorted_list,
)

TOKEN = "token_id:"
NEUTRAL: Mapping[str, Any] = {
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""So that a draw is from the model's own distribution, whatever the server's defaults are."""
DRAW_SEEDS = 1 << 63


class VLLMProtocol(ServerProtocol):
    """Requests to a server of OpenAI's completions with vLLM's further fields.

    ``entry`` is the model's part of ``/v1/models``.
    """

    path = "/v1/completions"
    length_field = "logprobs"
    can_name = True
    can_draw = True

    def __init__(self, requests: ServerRequests, entry: Mapping[str, Any], version: str) -> None:
        super().__init__(requests)
        self.kind = "vllm" if entry.get("owned_by") == "vllm" else "completions"
        self.version = version
        self.model = str(entry.get("id", ""))
        self.window = as_window(entry.get("max_model_len"))

    def lists(
        self, prefixes: Sequence[Prefix], length: int, *, temperature: float = 0.0
    ) -> list[TokenList]:
        steps = self._first_steps(prefixes, {"logprobs": length, "temperature": temperature})
        return [sorted_list(entries, length) for entries in steps]

    def named(self, prefixes: Sequence[Prefix], tokens: Sequence[int]) -> list[dict[int, float]]:
        fields = {"logprobs": len(tokens), "logprob_token_ids": list(tokens)}
        return self._first_steps(prefixes, fields)

    def read_as(self, prefixes: Sequence[Prefix]) -> list[Sequence[int] | int]:
        content = self._completed(prefixes, {"logprobs": 1, "return_token_ids": True})
        choices = self._choices(content, len(prefixes))
        read = [choice.get("prompt_token_ids") for choice in choices]
        if all(isinstance(ids, list) for ids in read):
            return [list(ids or ()) for ids in read]
        usage = mapping(content.get("usage"), "usage")
        return [int(usage.get("prompt_tokens", -1))]

    def tokenized(self, text: str) -> list[int] | None:
        body = {"model": self.model, "prompt": text, "add_special_tokens": False}
        reply = self.requests.post("/tokenize", body)
        if reply.status == 200 and isinstance(reply.content, Mapping):
            tokens = reply.content.get("tokens")
            return list(tokens) if isinstance(tokens, list) else None
        return self._tokenized_prompt(text)

    def _tokenized_prompt(self, text: str) -> list[int] | None:
        """The ids of a prompt that is a text, where the server tells them."""
        body = self._body([[0]]) | {"prompt": text, "logprobs": 1, "return_token_ids": True}
        reply = self.requests.post(self.path, body)
        if reply.status != 200:
            return None
        choices = mapping(reply.content, self.path).get("choices")
        first = choices[0] if isinstance(choices, list) and choices else {}
        ids = first.get("prompt_token_ids") if isinstance(first, Mapping) else None
        return list(ids) if isinstance(ids, list) else None

    def draw(
        self, prefix: Prefix, size: int, *, seed: int, steps: int, stop_ids: frozenset[int]
    ) -> list[Drawn]:
        drawing = {
            **NEUTRAL,
            "temperature": 1.0,
            "n": size,
            "seed": seed % DRAW_SEEDS,
            "max_tokens": steps,
            "stop_token_ids": sorted(stop_ids),
            "logprobs": 0,
        }
        choices = self._choices(self._completed([prefix], drawing), size)
        return [_drawn(choice, steps, stop_ids) for choice in choices]

    def _body(self, prefixes: Sequence[Prefix]) -> dict[str, Any]:
        return {
            "model": self.model,
            "prompt": [list(prefix) for prefix in prefixes],
            "max_tokens": 1,
            "temperature": 0.0,
            "add_special_tokens": False,
            "return_tokens_as_token_ids": True,
        }

    def _first_steps(
        self, prefixes: Sequence[Prefix], fields: Mapping[str, Any]
    ) -> list[dict[int, float]]:
        """Log p by token id at the first step after each prefix, of one request."""
        choices = self._choices(self._completed(prefixes, fields), len(prefixes))
        return [_entries(choice) for choice in choices]

    def _choices(self, content: Any, count: int) -> list[Mapping[str, Any]]:
        """So many choices of an answer, in order."""
        choices = mapping(content, self.path).get("choices")
        return in_order(as_list(choices, "choices"), count, "choices")


def _entries(choice: Mapping[str, Any]) -> dict[int, float]:
    """Log p by token id of a choice's first step."""
    steps = mapping(choice.get("logprobs"), "logprobs").get("top_logprobs")
    listed = mapping(as_list(steps, "top_logprobs")[0] if steps else None, "top_logprobs")
    return {_token(name): as_logprob(value) for name, value in listed.items()}


def _token(name: Any) -> int:
    """The id in ``token_id:5``; raises BeamUQError for a token's text."""
    if isinstance(name, str) and name.startswith(TOKEN) and name[len(TOKEN) :].isdigit():
        return int(name[len(TOKEN) :])
    raise BeamUQError(
        f"the model server: lists tokens by their texts, such as {name!r:.20}, and texts of tokens "
        f"repeat; {OTHER}"
    )


def _drawn(choice: Mapping[str, Any], steps: int, stop_ids: frozenset[int]) -> Drawn:
    """A drawn answer, up to its first stop token."""
    parts = mapping(choice.get("logprobs"), "logprobs")
    tokens = [_token(name) for name in as_list(parts.get("tokens"), "tokens")]
    values = as_list(parts.get("token_logprobs"), "token_logprobs")
    logprobs = [as_logprob(value) for value in values]
    places = [place for place, token in enumerate(tokens) if token in stop_ids]
    end = places[0] + 1 if places else len(tokens)
    is_complete = bool(places) or end == steps
    if not is_complete or len(logprobs) != len(tokens):
        raise BeamUQError(
            "the model server: an answer that it drew ends without a stop token; leave "
            "draws='server' out"
        )
    return Drawn(tuple(tokens[:end]), tuple(logprobs[:end]))
