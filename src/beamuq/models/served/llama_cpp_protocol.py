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
    mapping,
    refusal,
    sorted_list,
)

COMPLETION = "/completion"


class LlamaCppProtocol(ServerProtocol):
    """Requests to llama.cpp's own interface.

    ``properties`` are those of ``/props``, ``entry`` is the model's part of ``/v1/models``.
    """

    kind = "llama.cpp"

    def __init__(
        self, requests: ServerRequests, properties: Mapping[str, Any], entry: Mapping[str, Any]
    ) -> None:
        super().__init__(requests)
        self.version = str(properties.get("build_info", "unknown"))
        self.model = str(entry.get("id") or properties.get("model_alias") or "")
        settings = properties.get("default_generation_settings")
        length = settings.get("n_ctx") if isinstance(settings, Mapping) else None
        self._window = length if isinstance(length, int) and length > 0 else None

    @property
    def window(self) -> int | None:
        return self._window

    def lists(
        self, prefixes: Sequence[Prefix], length: int, *, temperature: float = 0.0
    ) -> list[TokenList]:
        fields = {"n_probs": length, "temperature": temperature}
        answers = self._completed(prefixes, fields)
        return [sorted_list(_entries(answer), length) for answer in answers]

    def list_refused(self, prefix: Prefix, length: int) -> str | None:
        reply = self.requests.post(COMPLETION, self._body([prefix]) | {"n_probs": length})
        return None if reply.status == 200 else reply.message

    def read_as(self, prefixes: Sequence[Prefix]) -> list[Sequence[int] | int]:
        answers = self._completed(prefixes, {"n_probs": 1})
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

    def _completed(
        self, prefixes: Sequence[Prefix], fields: Mapping[str, Any]
    ) -> list[Mapping[str, Any]]:
        """The answers to prompts of one request, in order."""
        reply = self.requests.post(COMPLETION, {**self._body(prefixes), **fields})
        if reply.status != 200:
            raise refusal(reply)
        content = reply.content
        members = [content] if isinstance(content, Mapping) else as_list(content, COMPLETION)
        answers = [mapping(member, COMPLETION) for member in members]
        by_index = {answer.get("index"): answer for answer in answers}
        if len(answers) != len(prefixes) or set(by_index) != set(range(len(prefixes))):
            raise BeamUQError(
                f"the model server: {len(answers)} answers for {len(prefixes)} prompts; {OTHER}"
            )
        return [by_index[number] for number in range(len(prefixes))]


def _entries(answer: Mapping[str, Any]) -> dict[int, float]:
    """Log p by token id of an answer's first step."""
    steps = as_list(answer.get("completion_probabilities"), "completion_probabilities")
    first = mapping(steps[0] if steps else None, "completion_probabilities")
    entries = {}
    for listed in as_list(first.get("top_logprobs"), "top_logprobs"):
        token = mapping(listed, "top_logprobs").get("id")
        logprob = listed.get("logprob")
        if not isinstance(token, int):
            raise BeamUQError(f"the model server: lists a token without its id; {OTHER}")
        entries[token] = float("nan") if logprob is None else float(logprob)
    return entries
