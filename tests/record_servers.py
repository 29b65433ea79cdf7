"""Ask a real server what `fake_model_server` imitates, and keep its answers.

``python tests/record_servers.py vllm http://127.0.0.1:8093/v1`` writes
``tests/recorded_servers/vllm.json``; ``llama.cpp http://127.0.0.1:8094`` the other one. The server
serves the packaged SmolLM2, as `tools/served_check.py` starts it, but vLLM with its default of 20
log-probabilities a token. Addresses, times and names of files are left out.
"""

from __future__ import annotations

import http.client
import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

FOLDER = Path(__file__).with_name("recorded_servers")
Json = dict[str, Any]
ONE = [2, 40, 50, 60]
TWO = [[2, 40, 50, 60], [2, 70, 80]]
TEXT = "Question: Who"
VLLM: Json = {
    "prompt": TWO,
    "add_special_tokens": False,
    "max_tokens": 1,
    "temperature": 0,
    "logprobs": 3,
    "return_tokens_as_token_ids": True,
    "return_token_ids": True,
}
LLAMA: Json = {
    "prompt": TWO,
    "n_predict": 1,
    "n_probs": 3,
    "temperature": 0,
    "return_tokens": True,
}
DRAWN: Json = {"temperature": 1, "seed": 1}
REQUESTS: dict[str, dict[str, tuple[str, Json | None]]] = {
    "vllm": {
        "health": ("/health", None),
        "version": ("/version", None),
        "models": ("/v1/models", None),
        "unknown path": ("/nothing", None),
        "tokenize": ("/tokenize", {"prompt": TEXT, "add_special_tokens": False}),
        "two prompts": ("/v1/completions", VLLM),
        "one prompt": ("/v1/completions", VLLM | {"prompt": ONE}),
        "tokens by their text": (
            "/v1/completions",
            VLLM | {"return_tokens_as_token_ids": False, "return_token_ids": False},
        ),
        "named tokens": ("/v1/completions", VLLM | {"logprob_token_ids": [5, 300]}),
        "129 named tokens": ("/v1/completions", VLLM | {"logprob_token_ids": [*range(129)]}),
        "named tokens without logprobs": (
            "/v1/completions",
            VLLM | {"logprob_token_ids": [5], "logprobs": None},
        ),
        "echo": ("/v1/completions", VLLM | {"echo": True}),
        "prompt only": ("/v1/completions", VLLM | {"echo": True, "max_tokens": 0}),
        "prompt log-probabilities": ("/v1/completions", VLLM | {"prompt_logprobs": 2}),
        "three draws": ("/v1/completions", VLLM | DRAWN | {"n": 3}),
        "no list": ("/v1/completions", VLLM | {"logprobs": None}),
        "a list of none": ("/v1/completions", VLLM | {"logprobs": 0}),
        "four tokens": ("/v1/completions", VLLM | {"max_tokens": 4, "ignore_eos": True}),
        "a stop token": ("/v1/completions", VLLM | {"stop_token_ids": [*range(319)]}),
        "unknown field": ("/v1/completions", VLLM | {"no_field": 1}),
        "unknown model": ("/v1/completions", VLLM | {"model": "other"}),
        "too many log-probabilities": ("/v1/completions", VLLM | {"logprobs": 21}),
        "all log-probabilities": ("/v1/completions", VLLM | {"logprobs": -1, "prompt": ONE}),
        "id out of the vocabulary": ("/v1/completions", VLLM | {"prompt": [[100_000]]}),
        "negative id": ("/v1/completions", VLLM | {"prompt": [[-1]]}),
        "prompt too long": ("/v1/completions", VLLM | {"prompt": [[5] * 1024]}),
        "prompt far too long": ("/v1/completions", VLLM | {"prompt": [[5] * 1100]}),
        "no room for so many tokens": (
            "/v1/completions",
            VLLM | {"prompt": [[5] * 1022], "max_tokens": 4, "return_token_ids": False},
        ),
        "empty prompt": ("/v1/completions", VLLM | {"prompt": [[]]}),
        "no tokens": ("/v1/completions", VLLM | {"max_tokens": 0}),
    },
    "llama.cpp": {
        "health": ("/health", None),
        "props": ("/props", None),
        "models": ("/v1/models", None),
        "unknown path": ("/nothing", None),
        "tokenize": ("/tokenize", {"content": TEXT, "add_special": False}),
        "two prompts": ("/completion", LLAMA),
        "one prompt": ("/completion", LLAMA | {"prompt": ONE}),
        "a list of one prompt": ("/completion", LLAMA | {"prompt": [ONE]}),
        "three draws": ("/completion", LLAMA | DRAWN | {"n": 3, "prompt": ONE}),
        "after samplers": (
            "/completion",
            LLAMA | DRAWN | {"post_sampling_probs": True, "n_probs": 60, "top_k": 5},
        ),
        "after samplers at temperature 0": ("/completion", LLAMA | {"post_sampling_probs": True}),
        "echo": ("/completion", LLAMA | {"echo": True}),
        "no list": ("/completion", LLAMA | {"n_probs": 0}),
        "four tokens": ("/completion", LLAMA | {"n_predict": 4, "ignore_eos": True}),
        "unknown field": ("/completion", LLAMA | {"no_field": 1}),
        "id out of the vocabulary": ("/completion", LLAMA | {"prompt": [[100_000]]}),
        "negative id": ("/completion", LLAMA | {"prompt": [[-1]]}),
        "prompt too long": ("/completion", LLAMA | {"prompt": [[5] * 1024]}),
        "empty prompt": ("/completion", LLAMA | {"prompt": [[]]}),
    },
}
"""By kind of server and by name: the path and, of a POST, its body."""
LEFT_OUT = {
    *(
        "created",
        "id",
        "chat_template",
        "media_marker",
        "model",
        "model_alias",
        "model_path",
        "name",
    ),
    *("owned_by", "root", "aliases", "generation_settings", "timings", "id_slot", "models"),
    *("params", "system_fingerprint"),
}
"""Of an answer: what says where and when, or is long and not read."""


def asked(host: str, path: str, body: Json | None) -> Json:
    """The status and the content of an answer."""
    connection = http.client.HTTPConnection(host, timeout=120)
    content = None if body is None else json.dumps(body)
    headers = {"Content-Type": "application/json"}
    connection.request("GET" if body is None else "POST", path, content, headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    try:
        read = json.loads(text) if text else None
    except ValueError:
        read = text
    return {"status": answer.status, "answer": without_places(read)}


def without_places(value: Any) -> Any:
    """An answer whose values that say where and when are null."""
    if isinstance(value, list):
        return [without_places(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    return {
        name: None if name in LEFT_OUT and not isinstance(entry, int) else without_places(entry)
        for name, entry in value.items()
    }


def main() -> None:
    kind, address = sys.argv[1:]
    host = urlsplit(address).netloc
    answers = {name: asked(host, path, body) for name, (path, body) in REQUESTS[kind].items()}
    FOLDER.mkdir(exist_ok=True)
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in answers.items()]
    text = ",\n".join(lines)
    (FOLDER / f"{kind}.json").write_text(f"{{{text}}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
