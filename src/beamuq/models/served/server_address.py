"""Where a model server is: ``server:http://HOST:PORT/v1``, which is never written anywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from beamuq.errors import BeamUQError

PREFIX = "server:"
HOW = "write server:http://HOST:PORT/v1, with #MODEL behind it where the server has several"
KEY = "BEAMUQ_API_KEY"
GIVE_FOLDER = (
    "give its folder, hub:ORG/NAME or packaged:NAME, whose config.json tells the end tokens and "
    "the context window"
)
_VERSION = re.compile(r"/v1/?$")


@dataclass(frozen=True)
class ServerAddress:
    """A server's scheme, host and port, the path before ``/v1``, and the model that is asked for.

    ``model`` is "" where the server has one alone. Neither host nor path is shown.
    """

    is_secure: bool = field(repr=False)
    host: str = field(repr=False)
    port: int = field(repr=False)
    path: str = field(repr=False)
    model: str = ""

    def without_address(self, text: str) -> str:
        """A text of a library or of the server in which neither host nor port nor path stands."""
        root = f"{self.host}:{self.port}"
        for part in (f"{root}{self.path}", root, self.host, self.path):
            if part:
                text = text.replace(part, "the server")
        return text


def is_server(source: object) -> bool:
    """Whether a model's source is the address of a server."""
    return isinstance(source, str) and source.startswith(PREFIX)


def parse_address(source: str) -> ServerAddress:
    """The address in ``server:http://HOST:PORT/v1#MODEL``.

    Raises BeamUQError, without showing it: no such address, or one with credentials or a query.
    """
    text = source.removeprefix(PREFIX)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BeamUQError(f"model {PREFIX}…: no address; {HOW}") from None
    if "@" in text or parts.query or "?" in text:
        raise BeamUQError(
            f"model {PREFIX}…: holds credentials or a query, which files would keep; leave them "
            f"out, and put a key into the environment as {KEY}"
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or _is_odd(text):
        raise BeamUQError(f"model {PREFIX}…: no address; {HOW}")
    is_secure = parts.scheme == "https"
    return ServerAddress(
        is_secure=is_secure,
        host=parts.hostname,
        port=port or (443 if is_secure else 80),
        path=_VERSION.sub("", parts.path).rstrip("/"),
        model=parts.fragment,
    )


def _is_odd(text: str) -> bool:
    """Whether an address holds what no address does: it would go into the head of a request."""
    return any(not character.isprintable() or character.isspace() for character in text)
