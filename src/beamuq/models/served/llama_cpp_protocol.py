"""llama.cpp's ``/completion``: prompts of token ids, top k of the raw softmax, no named tokens."""

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


class LlamaCppProtocol(ServerProtocol):
    """Requests to llama.cpp's own interface.

    ``properties`` are those of ``/props``, ``entry`` is the model's part of ``/v1/models``.
    """

    path = "/completion"
    length_field = "n_probs"
    kind = "llama.cpp"

    def __init__(
        self, requests: ServerRequests, properties: Mapping[str, Any], entry: Mapping[str, Any]
    ) -> None:
        super().__init__(requests)
        self.version = str(properties.get("build_info", "unknown"))
        self.model = str(entry.get("id") or properties.get("model_alias") or "")
        settings = properties.get("default_generation_settings")
        length = settings.get("n_ctx") if isinstance(settings, Mapping) else None
        self.window = as_window(length)

    def lists(
        self, prefixes: Sequence[Prefix], length: int, *, temperature: float = 0.0
    ) -> list[TokenList]:
        answers = self._answers(prefixes, {"n_probs": length, "temperature": temperature})
        return [sorted_list(_entries(answer), length) for answer in answers]

    def read_as(self, prefixes: Sequence[Prefix]) -> list[Sequence[int] | int]:
        answers = self._answers(prefixes, {"n_probs": 1})
        return [int(answer.get("tokens_evaluated", -1)) for answer in answers]

    def tokenized(self, text: str) -> list[int] | None:
        reply = self.requests.post("/tokenize", {"content": text, "add_special": False})
        tokens = reply.content.get("tokens") if isinstance(reply.content, Mapping) else None
        return list(tokens) if isinstance(tokens, list) else None

    def named(self, prefixes: Sequence[Prefix], tokens: Sequence[int]) -> list[dict[int, float]]:
        raise BeamUQError(
            f"the model server: llama.cpp names no tokens ({len(tokens)} were asked for after "
            f"{len(prefixes)} prefixes)"
        )

    def draw(
        self, prefix: Prefix, size: int, *, seed: int, steps: int, stop_ids: frozenset[int]
    ) -> list[Drawn]:
        del prefix, size, seed, steps, stop_ids
        raise BeamUQError(
            "the model server: llama.cpp draws up to no stop token by its id; leave "
            "draws='server' out"
        )

    def _body(self, prefixes: Sequence[Prefix]) -> dict[str, Any]:
        return {
            "prompt": [list(prefix) for prefix in prefixes],
            "n_predict": 1,
            "temperature": 0.0,
            "cache_prompt": True,
            "post_sampling_probs": False,
        }

    def _answers(
        self, prefixes: Sequence[Prefix], fields: Mapping[str, Any]
    ) -> list[Mapping[str, Any]]:
        """The answers to prompts of one request, in order."""
        content = self._completed(prefixes, fields)
        members = [content] if isinstance(content, Mapping) else as_list(content, self.path)
        return in_order(members, len(prefixes), self.path)


def _entries(answer: Mapping[str, Any]) -> dict[int, float]:
    """Log p by token id of an answer's first step."""
    steps = as_list(answer.get("completion_probabilities"), "completion_probabilities")
    first = mapping(steps[0] if steps else None, "completion_probabilities")
    entries = {}
    for listed in as_list(first.get("top_logprobs"), "top_logprobs"):
        token = mapping(listed, "top_logprobs").get("id")
        if not isinstance(token, int):
            raise BeamUQError(f"the model server: lists a token without its id; {OTHER}")
        entries[token] = as_logprob(listed.get("logprob"))
    return entries
