"""A tiny model behind the stand-in for a model server, opened as a served model."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from beamuq.models.load_model import load_tokenizer
from beamuq.models.model_folder import tokenizer_hash
from beamuq.models.served.http_requests import Patience
from beamuq.models.served.opened_server import OpenedServer, open_server
from fake_model_server import FakeModelServer
from tiny import build_tiny_model, load_tiny_model

QUICK = Patience(retries=2, first=0.01, longest=0.05, connect=2.0)
_KEPT: list[tempfile.TemporaryDirectory[str]] = []


@cache
def folder() -> Path:
    """The folder of a tiny Llama, built once a test run."""
    _KEPT.append(tempfile.TemporaryDirectory())
    return build_tiny_model("llama", Path(_KEPT[-1].name) / "llama")


@cache
def pair() -> tuple[Any, Any]:
    """The model, on the CPU, and its tokenizer, which knows its folder."""
    model, _ = load_tiny_model(folder())
    model.requires_grad_(False)
    return model, load_tokenizer(folder())


def fake(**options: Any) -> FakeModelServer:
    """A server of the tiny model, not yet started."""
    return FakeModelServer(*pair(), **options)


@contextmanager
def opened(**options: Any) -> Iterator[tuple[FakeModelServer, OpenedServer]]:
    """A started server and what its handshake opens."""
    with fake(**options) as server:
        yield server, opened_at(server)


def opened_at(server: FakeModelServer) -> OpenedServer:
    """The handshake with a server that runs."""
    source = f"server:{server.url}"
    content = tokenizer_hash(folder())
    return open_server(source, pair()[1], folder(), content, patience=QUICK)
