"""Responses of servers, made up, and a server that gives them to the pages' questions."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Tokens = list[tuple[Any, Any]]


def chat(text: str | None, tokens: Tokens | None, finish: str = "stop") -> dict[str, Any]:
    """A choice of ``/v1/chat/completions``."""
    content = tokens and [
        {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": []}
        for token, logprob in tokens
    ]
    message = {"role": "assistant", "content": text, "refusal": None}
    logprobs = None if tokens is None else {"content": content, "refusal": None}
    return {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": finish}


def response(*choices: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "cmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": list(choices),
    }


def beam(text: str, tokens: int, logprob: float, kind: str = "stop") -> dict[str, Any]:
    """A beam as SGLang gives it: its score is the mean over its tokens."""
    finish = {"type": kind, "length": 8} if kind == "length" else {"type": kind, "matched": 2}
    return {
        "text": text,
        "output_ids": list(range(tokens)),
        "finish_reason": finish,
        "sequence_score": logprob / tokens,
        "meta_info": {"id": "x"},
    }


def choices_of(request: dict[str, Any]) -> list[dict[str, Any]]:
    """What a chat answers: right for even questions, and the less surely, the larger the number
    asked for.
    """
    n = int(re.findall(r"\d+", request["messages"][0]["content"])[0])
    sure = -0.01 - n / 100
    right, wrong = (
        chat(str(2 * n), [(str(2 * n), sure), ("</s>", -0.01)]),
        chat("?", [("?", -2.0), ("</s>", -0.01)]),
    )
    drawn = request.get("n", 1)
    return (
        [right if n % 4 else wrong]
        if request["temperature"] == 0
        else [right, *[wrong] * (n % 5)][:drawn]
    )


def generated(request: dict[str, Any]) -> dict[str, Any]:
    """What SGLang's beam search answers: the same, and two beams beside."""
    n = int(re.findall(r"\d+", request["text"])[-1])
    found = [
        beam(str(2 * n if n % 4 else "?"), 3, -0.1 - n / 100),
        beam("other", 1, -3.0),
        beam("pre", 2, -2.5, "length"),
    ]
    return {"text": "", "meta_info": {"beam_results": found[: request["sampling_params"]["n"]]}}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        is_search = self.path == "/generate"
        content = generated(request) if is_search else response(*choices_of(request))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(content | {"id": str(uuid.uuid4())}).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@contextmanager
def answering_server() -> Iterator[str]:
    """The address, host and port, of a server that runs in a thread."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
