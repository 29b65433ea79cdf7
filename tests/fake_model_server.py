"""A stand-in on loopback for a model's server, vLLM or llama.cpp, over a model of a test.

It answers from the model's float32 logits what the real server answers, with its keys, statuses and
refusals; `tests/test_fake_model_server.py` holds it to recordings of both. A field of a request
that it does not know is refused, so that no test passes by a field without effect. It shows the
faults that a test asks for, keeps every request, and says nothing.

>>> with FakeModelServer(model, tokenizer) as server:
...     answers = beamuq.decode(f"server:{server.url}", tokenizer, prompts)
>>> assert len(server.completions) <= 20
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import torch

from beamuq.array_types import Floats, Ints

Json = dict[str, Any]
Tokens = tuple[int, ...]
Kind = Literal["vllm", "llama.cpp"]
LogprobsMode = Literal["raw_logprobs", "processed_logprobs", "raw_logits", "processed_logits"]
NAMED_TOKENS = 128
FLOOR = -9999.0
"""What vLLM writes for a log-probability below it, -inf too."""
PENALTIES = ("frequency_penalty", "presence_penalty", "repetition_penalty", "repeat_penalty")
COMPLETIONS = ("/v1/completions", "/completion")


@dataclass
class Faults:
    """What goes wrong. A test may change it while the server runs: the next request sees it."""

    statuses: list[int] = field(default_factory=list)
    """Each is the answer to one completion request, in order; then all goes well."""
    retry_after: float | None = None
    """Seconds that such an answer asks to wait."""
    cuts: int = 0
    """So many answers break off in the middle."""
    closes_silently: bool = False
    """A connection is closed after an answer that promised to keep it (a stale keep-alive)."""
    delay: float = 0.0
    """Seconds before each answer."""
    dies_after: int | None = None
    """So many completion requests are answered; then nobody listens any more."""
    dies_within: bool = False
    """The request that kills it is cut in the middle, not left without an answer."""
    loading: int = 0
    """So many requests are told that the model is being loaded (503)."""
    redirect: str | None = None
    """Completion requests are sent on to this address (307)."""
    wrong_ids: bool = False
    """Every token id of an answer is one too high: another vocabulary."""
    adds_bos: bool = False
    """A prompt of token ids gets the model's first token too."""
    temperature: float = 1.0
    """Log-probabilities are those of the logits divided by it."""
    noise: float = 0.0
    """The logits of several prompts at once differ by at most this from those of one alone."""
    short_lists: int = 0
    """So many lists hold the drawn token alone: what vLLM 0.32 gives while another client's request
    names tokens (``logprob_token_ids``).
    """
    ignores: Collection[str] = ()
    """Fields of a request without effect, as on a server that does not know them."""
    not_a_number: bool = False
    """Log-probabilities are NaN."""
    not_json: bool = False
    """Answers are a page of a proxy."""


@dataclass
class Request:
    """One request and what was answered."""

    method: str
    path: str
    headers: dict[str, str]
    body: Json
    bytes_in: int
    prompts: int
    status: int = 0
    bytes_out: int = 0


class RefusalError(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, body: Json) -> None:
        super().__init__(status)
        self.status, self.body = status, body


class Choice(NamedTuple):
    """One continuation: its tokens, and the log-probabilities (V,) behind each prefix of it."""

    tokens: list[int]
    logprobs: list[Floats]
    stopped: bool
    stop_reason: int | None


class NextTokens:
    """The logits (V,) of a model behind a prefix, and tokens drawn from them."""

    def __init__(self, model: Any, faults: Faults, mode: LogprobsMode) -> None:
        self._model, self._faults, self._mode = model, faults, mode
        self._alone = threading.Lock()
        self._last = lru_cache(maxsize=4096)(self._last_logits)

    def logits(self, tokens: Tokens, batch: int) -> Floats:
        """float32 (V,): behind the last of ``tokens``, in a request of ``batch`` prompts."""
        logits = self._last(tokens)
        if batch > 1 and self._faults.noise:
            logits = logits + self._noise(len(logits))
        return logits

    def all_logits(self, tokens: Tokens) -> Floats:
        """float32 (T, V): behind each of ``tokens``."""
        with self._alone, torch.inference_mode():
            ids = torch.tensor([tokens], device=self._model.device)
            logits: Floats = self._model(input_ids=ids).logits[0].float().cpu().numpy()
        return logits

    def logprobs(self, logits: Floats, request: Json) -> Floats:
        """float32 (V,): what the server lists, by its ``logprobs_mode`` and its faults."""
        if self._faults.not_a_number:
            return np.full_like(logits, np.nan)
        shown = logits / np.float32(self._faults.temperature)
        if self._mode.startswith("processed"):
            # vLLM neither tempers nor cuts the logits of a request at temperature 0
            shown = processed(shown, request) if request["temperature"] else shown
        return shown if self._mode.endswith("logits") else log_softmax(shown)

    def drawn(self, logits: Floats, request: Json, seed: list[int]) -> int:
        if not request["temperature"]:
            return int(np.argmax(logits))
        logprobs = log_softmax(processed(logits, request))
        gumbel = np.random.default_rng(seed).gumbel(size=len(logits))
        return int(np.argmax(logprobs + gumbel))

    def _last_logits(self, tokens: Tokens) -> Floats:
        return self.all_logits(tokens)[-1]

    def _noise(self, vocabulary: int) -> Floats:
        return (self._faults.noise * np.cos(np.arange(vocabulary))).astype(np.float32)


def log_softmax(logits: Floats) -> Floats:
    result: Floats = torch.log_softmax(torch.from_numpy(np.ascontiguousarray(logits)), -1).numpy()
    return result


def processed(logits: Floats, request: Json) -> Floats:
    """The logits (V,) that tokens are drawn from: tempered, and cut by top k, min p and top p."""
    logits = logits / np.float32(request["temperature"])
    order = np.argsort(-logits, kind="stable")
    probabilities = np.exp(log_softmax(logits).astype(np.float64))
    before = np.cumsum(probabilities[order]) - probabilities[order]
    cut = np.zeros(len(logits), dtype=bool)
    if request["top_k"] > 0:
        cut[order[request["top_k"] :]] = True
    if request["top_p"] < 1:
        cut[order[before >= request["top_p"]]] = True
    cut |= probabilities < request["min_p"] * probabilities.max()
    result: Floats = np.where(cut, np.float32(-np.inf), logits)
    return result


class Answers(ABC):
    """What both kinds of server share."""

    # of a request: its fields, with the server's own values
    defaults: Json

    def __init__(self, server: FakeModelServer) -> None:
        self.server = server
        self.faults = server.faults
        self.tokenizer = server.tokenizer
        self.next_tokens = NextTokens(server.model, server.faults, server.logprobs_mode)
        self.vocabulary = int(server.model.get_input_embeddings().weight.shape[0])

    def fields(self, body: Json) -> Json:
        """All fields of a request; those that the fake does not know are refused."""
        unknown = sorted(set(body) - set(self.defaults))
        if unknown:
            raise RefusalError(
                501, {"error": {"message": f"the fake has no {unknown}", "code": 501}}
            )
        for name in PENALTIES:
            if body.get(name, self.defaults.get(name)) != self.defaults.get(name):
                raise RefusalError(501, {"error": {"message": f"the fake has no {name}"}})
        heard = {name: value for name, value in body.items() if name not in self.faults.ignores}
        return self.defaults | heard

    def shown_id(self, token: int) -> int:
        return (token + 1) % self.vocabulary if self.faults.wrong_ids else token

    def prompt_tokens(self, prompt: str | Sequence[int], *, add_special_tokens: bool) -> Tokens:
        first = (int(self.tokenizer.bos_token_id),)
        if isinstance(prompt, str):
            ids = self.tokenizer(prompt, add_special_tokens=False)["input_ids"]
            return (*first, *ids) if add_special_tokens else tuple(ids)
        return (*first, *prompt) if self.faults.adds_bos else tuple(prompt)

    def choice(
        self, prompt: Tokens, request: Json, *, most: int, batch: int, seed: list[int]
    ) -> Choice:
        """A continuation of at most ``most`` tokens."""
        tokens: list[int] = []
        lists: list[Floats] = []
        ends = () if request["ignore_eos"] else self.server.end_ids
        while len(tokens) < most:
            logits = self.next_tokens.logits((*prompt, *tokens), batch)
            lists.append(self.next_tokens.logprobs(logits, request))
            token = self.next_tokens.drawn(logits, request, [*seed, len(tokens)])
            tokens.append(token)
            if token in request["stop_token_ids"]:
                return Choice(tokens, lists, stopped=True, stop_reason=token)
            if token in ends:
                # of the end tokens vLLM gives the first one without a reason
                reason = None if token == self.tokenizer.eos_token_id else token
                return Choice(tokens, lists, stopped=True, stop_reason=reason)
        return Choice(tokens, lists, stopped=False, stop_reason=None)

    def text(self, tokens: Sequence[int]) -> str:
        return str(self.tokenizer.decode(tokens, skip_special_tokens=True))

    def top(self, logprobs: Floats, number: int) -> Ints:
        """The ``number`` most probable tokens, the most probable first."""
        return np.argsort(-logprobs, kind="stable")[:number]

    @abstractmethod
    def get(self, path: str) -> Any:
        """The content of the answer to a GET."""

    @abstractmethod
    def post(self, path: str, body: Json) -> Any:
        """The content of the answer to a POST."""


class VLLM(Answers):
    """``/v1/completions``, ``/v1/models``, ``/tokenize``, ``/version`` and ``/health``."""

    defaults: Json = {
        "model": None,
        "prompt": None,
        "add_special_tokens": True,
        "echo": False,
        "frequency_penalty": 0.0,
        "ignore_eos": False,
        "logprobs": None,
        "logprob_token_ids": None,
        "max_tokens": 16,
        "min_p": 0.0,
        "n": 1,
        "presence_penalty": 0.0,
        "prompt_logprobs": None,
        "repetition_penalty": 1.0,
        "return_token_ids": False,
        "return_tokens_as_token_ids": False,
        "seed": None,
        "skip_special_tokens": True,
        "stop_token_ids": (),
        "stream": False,
        "temperature": 1.0,
        "top_k": 0,
        "top_p": 1.0,
        "user": None,
    }

    def get(self, path: str) -> Any:
        if path == "/v1/models":
            return {"object": "list", "data": [self._model()]}
        if path == "/version":
            return {"version": self.server.version}
        if path == "/health":
            return None
        raise RefusalError(404, {"detail": "Not Found"})

    def post(self, path: str, body: Json) -> Any:
        if path == "/v1/completions":
            return self._completions(self.fields(body))
        if path == "/tokenize":
            return self._tokenized(body)
        raise RefusalError(404, {"detail": "Not Found"})

    def _model(self) -> Json:
        return {
            "id": self.server.name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "vllm",
            "root": "/models/tiny",
            "parent": None,
            "max_model_len": self.server.context,
        }

    def _tokenized(self, body: Json) -> Json:
        special = body.get("add_special_tokens", True)
        tokens = self.prompt_tokens(body["prompt"], add_special_tokens=special)
        return {
            "count": len(tokens),
            "max_model_len": self.server.context,
            "tokens": [self.shown_id(token) for token in tokens],
            "token_strs": None,
        }

    def _completions(self, request: Json) -> Json:
        self._check(request)
        prompts = self._prompts(request)
        choices = [
            self._choice(prompt, request, len(prompts), [place, number])
            for place, prompt in enumerate(prompts)
            for number in range(request["n"])
        ]
        for index, choice in enumerate(choices):
            choice["index"] = index
        asked = sum(len(prompt) for prompt in prompts)
        generated = sum(choice.pop("_generated") for choice in choices)
        return {
            "id": f"cmpl-{len(self.server.requests):016x}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": self.server.name,
            "choices": choices,
            "service_tier": None,
            "system_fingerprint": f"vllm-{self.server.version}-tp1-00000000",
            "usage": {
                "prompt_tokens": asked,
                "total_tokens": asked + generated,
                "completion_tokens": generated,
                "prompt_tokens_details": None,
                "completion_tokens_details": None,
            },
            "kv_transfer_params": None,
            "ec_transfer_params": None,
            "metrics": None,
        }

    def _check(self, request: Json) -> None:
        """Refuse, as vLLM does, what it does not give."""
        if request["model"] not in (None, self.server.name):
            message = (
                f"The model `{request['model']}` does not exist. Valid aliases: {self.server.name}."
            )
            raise vllm_error(404, message, "NotFoundError", "model")
        named = request["logprob_token_ids"]
        if named is not None and request["logprobs"] is None:
            raise vllm_error(
                400,
                "when using `logprob_token_ids`, `logprobs` must be set. "
                "(parameter=logprob_token_ids)",
                parameter="logprob_token_ids",
            )
        if named is not None and len(named) > NAMED_TOKENS:
            raise vllm_error(
                400,
                f"Requested logprob_token_ids of length {len(named)}, which is greater than max "
                f"allowed: {NAMED_TOKENS} (parameter=logprob_token_ids, value={len(named)})",
                parameter="logprob_token_ids",
            )
        for name, kind in (("logprobs", "sample"), ("prompt_logprobs", "prompt")):
            self._check_number(request[name] if named is None else None, kind)
        if request["max_tokens"] < 1 and not request["echo"]:
            raise no_room(request["max_tokens"])

    def _check_number(self, number: int | None, kind: str) -> None:
        most = self.server.max_logprobs
        if number is None or most == -1:
            return
        wanted = self.vocabulary if number == -1 else number
        if wanted > most:
            parameter = "logprobs" if kind == "sample" else "prompt_logprobs"
            raise vllm_error(
                400,
                f"Requested {kind} logprobs of {wanted}, which is greater than max allowed: {most} "
                f"(parameter={parameter}, value={wanted})",
                parameter=parameter,
            )

    def _prompts(self, request: Json) -> list[Tokens]:
        prompts = prompts_of(request["prompt"])
        special = request["add_special_tokens"]
        tokens = [self.prompt_tokens(prompt, add_special_tokens=special) for prompt in prompts]
        for ids in tokens:
            self._check_prompt(ids)
        return tokens

    def _check_prompt(self, ids: Tokens) -> None:
        most = self.server.context
        if not ids:
            raise vllm_error(400, "The decoder prompt cannot be empty")
        if min(ids) < 0:
            message = "Input should be greater than or equal to 0"
            raise vllm_error(400, message, "Bad Request", "body.prompt.0")
        if len(ids) > most:
            raise vllm_error(
                400,
                f"This model's maximum context length is {most} tokens. However, your prompt "
                f"contains {len(ids)} input tokens, which exceeds this limit even without any "
                "output tokens. Please reduce the length of the input prompt. "
                f"(parameter=input_tokens, value={len(ids)})",
                parameter="input_tokens",
            )
        if max(ids) >= self.vocabulary:
            raise vllm_error(400, f"Token id {max(ids)} is out of vocabulary")
        if len(ids) == most:
            raise no_room(0)

    def _choice(self, prompt: Tokens, request: Json, batch: int, place: list[int]) -> Json:
        seed = [time.time_ns() if request["seed"] is None else request["seed"], *place]
        # of an answer without room for all its tokens vLLM gives those that fit, and says nothing
        most = min(request["max_tokens"], self.server.context - len(prompt))
        # a prompt alone is echoed after one token was drawn, which is not shown
        choice = self.choice(prompt, request, most=max(most, 1), batch=batch, seed=seed)
        tokens = choice.tokens
        lists: list[Floats | None] = [*choice.logprobs]
        if request["echo"]:
            shown = most > 0
            tokens = [*prompt, *(tokens if shown else ())]
            lists = [*self._prompt_lists(prompt, request), *(lists if shown else ())]
        ids = request["return_token_ids"]
        return {
            "index": 0,
            "text": self.text(choice.tokens[: len(choice.tokens) - choice.stopped]),
            "logprobs": self._listed(tokens, lists, request),
            "finish_reason": "stop" if choice.stopped else "length",
            "stop_reason": choice.stop_reason,
            "token_ids": [self.shown_id(token) for token in choice.tokens] if ids else None,
            "prompt_logprobs": self._prompt_logprobs(prompt, request),
            "prompt_token_ids": [self.shown_id(token) for token in prompt] if ids else None,
            "routed_experts": None,
            "_generated": len(choice.tokens),
        }

    def _prompt_lists(self, prompt: Tokens, request: Json) -> list[Floats | None]:
        """Log-probabilities at each token of a prompt; none at its first."""
        rows = self.next_tokens.all_logits(prompt)[:-1]
        return [None, *(self.next_tokens.logprobs(row, request) for row in rows)]

    def _prompt_logprobs(self, prompt: Tokens, request: Json) -> list[Json | None] | None:
        number = request["prompt_logprobs"]
        if number is None and request["echo"]:
            number = request["logprobs"]
        if number is None:
            return None
        lists = self._prompt_lists(prompt, request)
        return [
            None if logprobs is None else self._ranked(token, logprobs, number)
            for token, logprobs in zip(prompt, lists, strict=True)
        ]

    def _ranked(self, token: int, logprobs: Floats, number: int) -> Json:
        """A token of a prompt beside the most probable ones, by id, with their ranks."""
        order = self.top(logprobs, len(logprobs))
        rank = {int(other): place for place, other in enumerate(order, 1)}
        most = len(order) if number == -1 else number
        tokens = dict.fromkeys([token, *order[:most].tolist()])
        return {
            str(self.shown_id(other)): {
                "logprob": float(logprobs[other]),
                "rank": rank[other],
                "decoded_token": self.tokenizer.decode([other]),
            }
            for other in tokens
        }

    def _listed(
        self, tokens: Sequence[int], lists: Sequence[Floats | None], request: Json
    ) -> Json | None:
        """The log-probabilities of an answer, in the form of OpenAI's completions."""
        if request["logprobs"] is None:
            return None
        names = [self._name(token, request) for token in tokens]
        own: list[float | None] = []
        top: list[Json | None] = []
        for token, logprobs in zip(tokens, lists, strict=True):
            own.append(None if logprobs is None else floored(logprobs[token]))
            top.append(None if logprobs is None else self._alternatives(token, logprobs, request))
        lengths = [0, *(len(name) for name in names)]
        return {
            "text_offset": np.cumsum(lengths)[: len(names)].tolist(),
            "token_logprobs": own,
            "tokens": names,
            "top_logprobs": top,
        }

    def _alternatives(self, token: int, logprobs: Floats, request: Json) -> Json:
        """The token itself, then the named ones, or the most probable ones."""
        named = request["logprob_token_ids"]
        number = len(logprobs) if request["logprobs"] == -1 else request["logprobs"]
        if named is None and self.faults.short_lists:
            self.faults.short_lists -= 1
            number = 0
        others = self.top(logprobs, number).tolist() if named is None else named
        shown = dict.fromkeys([token, *others])
        return {self._name(other, request): floored(logprobs[other]) for other in shown}

    def _name(self, token: int, request: Json) -> str:
        if request["return_tokens_as_token_ids"]:
            return f"token_id:{self.shown_id(token)}"
        return str(self.tokenizer.decode([token]))


class LlamaCpp(Answers):
    """``/completion``, ``/tokenize``, ``/props``, ``/v1/models`` and ``/health``."""

    defaults: Json = {
        "prompt": None,
        "cache_prompt": True,
        "ignore_eos": False,
        "min_p": 0.05,
        "n": 1,
        "n_predict": -1,
        "n_probs": 0,
        "post_sampling_probs": False,
        "repeat_penalty": 1.0,
        "return_tokens": False,
        "samplers": None,
        "seed": None,
        "stop_token_ids": (),
        "stream": False,
        "temperature": 0.8,
        "top_k": 40,
        "top_p": 0.95,
    }

    def get(self, path: str) -> Any:
        if path == "/props":
            return self._props()
        if path in ("/v1/models", "/models"):
            return {"object": "list", "data": [self._model()]}
        if path in ("/health", "/v1/health"):
            return {"status": "ok"}
        raise llama_error(404, "File Not Found", "not_found_error")

    def post(self, path: str, body: Json) -> Any:
        if path == "/completion":
            # the server knows many more fields than it reads; these two change nothing
            known = {name: value for name, value in body.items() if name not in ("echo", "model")}
            return self._completion(self.fields(known))
        if path == "/tokenize":
            special = body.get("add_special", False)
            tokens = self.prompt_tokens(body["content"], add_special_tokens=special)
            return {"tokens": [self.shown_id(token) for token in tokens]}
        raise llama_error(404, "File Not Found", "not_found_error")

    def _props(self) -> Json:
        return {
            "default_generation_settings": {"n_ctx": self.server.context, "params": {}},
            "total_slots": 4,
            "model_path": "/models/tiny.gguf",
            "model_alias": self.server.name,
            "bos_token": self.tokenizer.bos_token,
            "eos_token": self.tokenizer.eos_token,
            "chat_template": "",
            "build_info": self.server.version,
        }

    def _model(self) -> Json:
        return {
            "id": self.server.name,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "llamacpp",
            "meta": {"n_vocab": self.vocabulary, "n_ctx_train": self.server.context},
        }

    def _completion(self, request: Json) -> Json | list[Json]:
        """An object for one answer, and a list for several."""
        prompts = [
            self.prompt_tokens(prompt, add_special_tokens=True)
            for prompt in prompts_of(request["prompt"])
        ]
        for ids in prompts:
            self._check_prompt(ids)
        answers = [
            self._answer(prompt, request, len(prompts), [place, number])
            for place, prompt in enumerate(prompts)
            for number in range(request["n"])
        ]
        for index, answer in enumerate(answers):
            answer["index"] = index
        return answers[0] if len(answers) == 1 else answers

    def _check_prompt(self, ids: Tokens) -> None:
        if not all(0 <= token < self.vocabulary for token in ids):
            raise llama_error(400, "Prompt contains invalid tokens", "invalid_request_error")
        most = self.server.context
        if len(ids) >= most:
            refusal = llama_error(
                400,
                f"request ({len(ids)} tokens) exceeds the available context size ({most} tokens), "
                "try increasing it",
                "exceed_context_size_error",
            )
            refusal.body["error"] |= {"n_prompt_tokens": len(ids), "n_ctx": most}
            raise refusal

    def _answer(self, prompt: Tokens, request: Json, batch: int, place: list[int]) -> Json:
        seed = [time.time_ns() if request["seed"] in (None, -1) else request["seed"], *place]
        # a prompt of no tokens is answered, by nothing
        room = self.server.context - len(prompt) if prompt else 0
        most = room if request["n_predict"] < 0 else min(room, request["n_predict"])
        choice = self.choice(prompt, request, most=most, batch=batch, seed=seed)
        answer: Json = {
            "index": 0,
            "content": self.text(choice.tokens),
            "tokens": [self.shown_id(token) for token in choice.tokens]
            if request["return_tokens"]
            else [],
            "id_slot": place[0] % 4,
            "stop": True,
            "model": self.server.name,
            "tokens_predicted": len(choice.tokens),
            "tokens_evaluated": len(prompt),
            "generation_settings": {},
            "prompt": self.tokenizer.decode(prompt),
            "has_new_line": "\n" in self.text(choice.tokens),
            "truncated": False,
            "stop_type": "eos" if choice.stopped else "limit" if prompt else "none",
            "stopping_word": "",
            "tokens_cached": max(0, len(prompt) + len(choice.tokens) - 1),
            "timings": {},
        }
        if request["n_probs"] and prompt:
            steps = zip(choice.tokens, choice.logprobs, strict=True)
            shown = [self._step(token, logprobs, request) for token, logprobs in steps]
            answer["completion_probabilities"] = shown
        return answer

    def _step(self, token: int, logprobs: Floats, request: Json) -> Json:
        """A token beside the most probable ones; ``post_sampling_probs``: after the samplers."""
        post = request["post_sampling_probs"]
        kind, tops = ("prob", "top_probs") if post else ("logprob", "top_logprobs")
        values = logprobs
        if post and request["temperature"]:
            values = np.exp(log_softmax(processed(logprobs, request)))
        elif post:
            values = (np.arange(len(logprobs)) == token).astype(np.float32)
        order = self.top(values, request["n_probs"]).tolist()
        if post:
            order = [other for other in order if values[other] > 0]
        top = [self._shown(other) | {kind: float(values[other])} for other in order]
        return self._shown(token) | {kind: float(values[token]), tops: top}

    def _shown(self, token: int) -> Json:
        text = self.tokenizer.decode([token])
        return {"id": self.shown_id(token), "token": text, "bytes": list(text.encode())}


def prompts_of(prompt: Any) -> list[str | list[int]]:
    """The prompts of a request, which is a text, token ids, or a list of either."""
    single = isinstance(prompt, str) or (prompt and isinstance(prompt[0], int))
    return [prompt] if single else list(prompt)


def floored(logprob: float) -> float:
    return max(float(logprob), FLOOR)


def vllm_error(
    status: int, message: str, kind: str = "BadRequestError", parameter: str | None = None
) -> RefusalError:
    error = {"message": message, "type": kind, "param": parameter, "code": status}
    return RefusalError(status, {"error": error})


def no_room(tokens: int) -> RefusalError:
    message = f"max_tokens must be at least 1, got {tokens}. (parameter=max_tokens, value={tokens})"
    return vllm_error(400, message, parameter="max_tokens")


def llama_error(status: int, message: str, kind: str) -> RefusalError:
    return RefusalError(status, {"error": {"code": status, "message": message, "type": kind}})


class FakeModelServer:
    """A server in a thread, while the block lasts. ``url`` is its address: of vLLM up to ``/v1``.

    Parameters
    ----------
    model, tokenizer
        Whose logits are served, on any device, and whose token ids.
    max_logprobs
        The most log-probabilities a token, as vLLM's option of that name; -1: all.
    logprobs_mode
        vLLM's option of that name.
    context
        Most tokens of a prompt and its answer; None: the model's own.
    api_key
        The key that every request below ``/v1`` must carry; None: no key is asked for.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        kind: Kind = "vllm",
        max_logprobs: int = 20,
        logprobs_mode: LogprobsMode = "raw_logprobs",
        faults: Faults | None = None,
        name: str = "tiny",
        version: str = "",
        context: int | None = None,
        api_key: str | None = None,
    ) -> None:
        self.model, self.tokenizer, self.kind = model, tokenizer, kind
        self.max_logprobs, self.logprobs_mode = max_logprobs, logprobs_mode
        self.faults = Faults() if faults is None else faults
        self.name, self.api_key = name, api_key
        self.version = version or {"vllm": "0.32.0", "llama.cpp": "b9000-00000000"}[kind]
        self.context = context or int(model.config.max_position_embeddings)
        ends = model.generation_config.eos_token_id
        self.end_ids = frozenset(ends if isinstance(ends, list) else [ends])
        self.requests: list[Request] = []
        self.answers: Answers = VLLM(self) if kind == "vllm" else LlamaCpp(self)
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._http: ThreadingHTTPServer | None = None
        self._port = 0

    @property
    def root(self) -> str:
        """The address without ``/v1``."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        return f"{self.root}/v1" if self.kind == "vllm" else self.root

    @property
    def completions(self) -> list[Request]:
        """The requests for tokens, in the order in which they came."""
        return [request for request in self.requests if request.path in COMPLETIONS]

    @property
    def prompts(self) -> int:
        """How many prompts all of them held."""
        return sum(request.prompts for request in self.completions)

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"fake": self})
        self._http = _Quiet(("127.0.0.1", 0), handler)
        self._port = int(self._http.server_address[1])
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.die()

    def die(self) -> None:
        """Listen no more, and cut every connection."""
        with self._lock:
            http, self._http = self._http, None
            connections = list(self._connections)
        if http is None:
            return
        http.shutdown()
        http.server_close()
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def record(self, request: Request) -> int:
        """Keep a request; how many for tokens there are with it."""
        with self._lock:
            self.requests.append(request)
            return len(self.completions)

    @contextlib.contextmanager
    def connected(self, connection: socket.socket) -> Iterator[None]:
        """A connection that `die` cuts."""
        with self._lock:
            self._connections.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._connections.discard(connection)


class _Quiet(ThreadingHTTPServer):
    """A client that goes away in the middle is no line of a log."""

    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


class _Handler(BaseHTTPRequestHandler):
    """The requests of one connection."""

    protocol_version = "HTTP/1.1"
    fake: FakeModelServer

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a test asks the server what was asked."""

    def handle(self) -> None:
        with self.fake.connected(self.connection):
            super().handle()

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("content-length") or 0)))

    def _answer(self, content: bytes) -> None:
        faults = self.fake.faults
        request = self._request(content)
        number = self.fake.record(request)
        is_completion = request.path in COMPLETIONS
        if is_completion and faults.dies_after is not None and number > faults.dies_after:
            self._die(request)
            return
        time.sleep(faults.delay)
        if is_completion and faults.redirect is not None:
            self._send(request, 307, b"", {"Location": faults.redirect})
            return
        try:
            self._fail_as_told(request, is_completion=is_completion)
            answer = self._content(request)
            status = int(HTTPStatus.OK)
        except RefusalError as refused:
            answer = refused.body
            status = refused.status
        body = b"" if answer is None else json.dumps(answer).encode()
        if faults.not_json and is_completion:
            body = b"<html><body>Bad gateway</body></html>"
        self._send(request, status, body, self._wait(status), cut=is_completion and self._cut())

    def _request(self, content: bytes) -> Request:
        body = json.loads(content) if content else {}
        path = self.path.partition("?")[0]
        prompts = len(prompts_of(body["prompt"])) if body.get("prompt") else 0
        headers = {name.lower(): value for name, value in self.headers.items()}
        return Request(self.command, path, headers, body, len(content), prompts)

    def _fail_as_told(self, request: Request, *, is_completion: bool) -> None:
        faults = self.fake.faults
        if faults.loading:
            faults.loading -= 1
            raise llama_error(503, "Loading model", "unavailable_error")
        if is_completion and faults.statuses:
            status = faults.statuses.pop(0)
            raise vllm_error(status, HTTPStatus(status).phrase, "InternalServerError")
        key = self.fake.api_key
        if key is None or not request.path.startswith(("/v1/", "/completion")):
            return
        if request.headers.get("authorization") != f"Bearer {key}":
            raise RefusalError(401, {"error": "Unauthorized"})

    def _content(self, request: Request) -> Any:
        if request.method == "GET":
            return self.fake.answers.get(request.path)
        return self.fake.answers.post(request.path, request.body)

    def _wait(self, status: int) -> dict[str, str]:
        seconds = self.fake.faults.retry_after
        return {} if seconds is None or status < 400 else {"Retry-After": f"{seconds:g}"}

    def _cut(self) -> bool:
        if not self.fake.faults.cuts:
            return False
        self.fake.faults.cuts -= 1
        return True

    def _die(self, request: Request) -> None:
        if self.fake.faults.dies_within:
            self._send(request, 200, b"{" * 2000, cut=True)
        self.close_connection = True
        self.fake.die()

    def _send(
        self,
        request: Request,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        *,
        cut: bool = False,
    ) -> None:
        request.status = status
        request.bytes_out = len(body)
        self.send_response(status)
        usual = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        for name, value in (usual | (headers or {})).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.wfile.flush()
        if cut or self.fake.faults.closes_silently:
            self.close_connection = True
