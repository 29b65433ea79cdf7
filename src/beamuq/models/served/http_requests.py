"""Requests to a model server: kept connections, retries with back-off, and errors in one line.

The key comes from the environment when a request is made and is kept nowhere. A redirect is
refused, so that the key goes to no other host. No address stands in an error: logs are files.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from beamuq.errors import BeamUQError, ServerLostError, reason
from beamuq.models.served.server_address import KEY, ServerAddress

RETRIED = (408, 409, 425, 429)
"""Statuses, beside all from 500 on, after which a request is sent again."""
FINAL = (501, 505)
"""Statuses from 500 on that no further try changes."""
TIMEOUT = "BEAMUQ_SERVER_TIMEOUT"
LEAST_KEY = 3
"""Characters; a shorter key could not be masked without mangling every text."""
_PIECE = 1 << 16
_SHOWN = 300


@dataclass(frozen=True)
class Patience:
    """How often a request is sent again, after how many seconds at first, and at most.

    The wait doubles each time; a server that names a wait is heard up to ``longest`` seconds.
    """

    retries: int = 6
    first: float = 0.5
    longest: float = 30.0
    connect: float = 10.0


PATIENCE = Patience()


@dataclass(frozen=True)
class Reply:
    """What a server answered: its status, and its content, parsed from JSON; None: empty.

    ``message``: what an error says, in short and without the server's address.
    """

    status: int
    content: Any
    message: str


class _FailedTryError(Exception):
    """A try that may go better the next time; ``wait``: what the server asks for, in seconds."""

    def __init__(self, why: str, wait: float = 0.0) -> None:
        super().__init__(why)
        self.wait = wait


class ServerRequests:
    """One kept connection to a server, on which one request runs at a time."""

    def __init__(self, address: ServerAddress, patience: Patience | None = None) -> None:
        self._address = address
        self._patience = patience or PATIENCE
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        self.requests = 0
        self.bytes_sent = 0
        self.bytes_received = 0

    def get(self, path: str) -> Reply:
        """The answer to a GET. Raises as :meth:`post`."""
        return self._request("GET", path, b"")

    def post(self, path: str, body: Mapping[str, Any]) -> Reply:
        """The answer to a POST of JSON, whatever its status, unless that is one to be retried.

        Raises BeamUQError in one line where all tries fail, for a redirect, and for what is no
        JSON.
        """
        return self._request("POST", path, json.dumps(body).encode())

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _request(self, method: str, path: str, content: bytes) -> Reply:
        timeout = _timeout()
        headers = _headers()
        with self._lock:
            wait = self._patience.first
            for number in range(self._patience.retries + 1):
                try:
                    return self._tried(method, path, content, headers, timeout)
                except _FailedTryError as error:
                    failure = error
                if number < self._patience.retries:
                    time.sleep(min(max(wait, failure.wait), self._patience.longest))
                    wait = min(2 * wait, self._patience.longest)
            tries = self._patience.retries + 1
            raise ServerLostError(
                f"the model server: {failure} ({tries} tries); see that it runs, then run again"
            )

    def _tried(
        self, method: str, path: str, content: bytes, headers: Mapping[str, str], timeout: float
    ) -> Reply:
        """One try, or two where the connection was kept so long that the server has closed it."""
        was_kept = self._connection is not None
        try:
            return self._sent(method, path, content, headers, timeout)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
            self.close()
            if not was_kept:
                raise _FailedTryError("it closed the connection") from error
        except TimeoutError as error:
            self.close()
            raise ServerLostError(
                f"the model server: no answer within {timeout:g} seconds; ask it for less at once, "
                f"or set {TIMEOUT} to more seconds"
            ) from error
        except ssl.SSLCertVerificationError as error:
            self.close()
            raise BeamUQError(
                f"the model server: its certificate is not trusted ({error.verify_message}); make "
                "its authority known to this machine (SSL_CERT_FILE)"
            ) from error
        except (http.client.HTTPException, OSError) as error:
            self.close()
            raise _FailedTryError(self._in_words(error)) from error
        except BaseException:
            self.close()  # what is left of an answer must not begin the next
            raise
        return self._tried(method, path, content, headers, timeout)

    def _sent(
        self, method: str, path: str, content: bytes, headers: Mapping[str, str], timeout: float
    ) -> Reply:
        connection = self._opened(timeout)
        connection.request(method, self._address.path + path, content or None, dict(headers))
        self.requests += 1
        self.bytes_sent += len(content)
        response = connection.getresponse()
        text = _read_all(response, time.monotonic() + timeout)
        self.bytes_received += len(text)
        if response.will_close:
            self.close()
        return self._understood(response, text)

    def _opened(self, timeout: float) -> http.client.HTTPConnection:
        """The kept connection, or a new one."""
        if self._connection is None:
            address = self._address
            connect = min(timeout, self._patience.connect)
            if address.is_secure:
                context = ssl.create_default_context()
                connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                    address.host, address.port, timeout=connect, context=context
                )
            else:
                connection = http.client.HTTPConnection(address.host, address.port, timeout=connect)
            try:
                connection.connect()
            except TimeoutError as error:
                raise _FailedTryError(f"no connection within {connect:g} seconds") from error
            connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sock.settimeout(timeout)
            self._connection = connection
        return self._connection

    def _understood(self, response: http.client.HTTPResponse, text: bytes) -> Reply:
        """A whole answer; raises _FailedTryError for a status that is to be retried."""
        status = response.status
        if 300 <= status < 400:
            self.close()
            raise BeamUQError(
                f"the model server: status {status}, a redirect, which could take the key to "
                "another host; give the address that it leads to"
            )
        try:
            content = json.loads(text) if text.strip() else None
        except ValueError:
            content = None
            if status == http.client.OK:
                raise BeamUQError(
                    "the model server: answers with something else than JSON; give the address "
                    "of the server itself, up to /v1"
                ) from None
        message = "" if status == http.client.OK else _message(content)
        reply = Reply(status, content, self._address.without_address(message)[:_SHOWN])
        is_fault = status >= http.client.INTERNAL_SERVER_ERROR and status not in FINAL
        if status in RETRIED or is_fault:
            why = f": {reply.message}" if content else ""
            raise _FailedTryError(f"status {status}{why}", _wait_of(response))
        if status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
            raise BeamUQError(
                f"the model server: status {status}, it wants another key; put it into the "
                f"environment as {KEY}"
            )
        return reply

    def _in_words(self, error: Exception) -> str:
        if isinstance(error, ConnectionRefusedError):
            return "nothing listens at its address"
        if isinstance(error, http.client.IncompleteRead):
            return "its answer broke off"
        return self._address.without_address(reason(error))


def _message(content: Any) -> str:
    """What the content of an error says."""
    if isinstance(content, Mapping):
        error = content.get("error", content.get("message", content.get("detail", content)))
        content = error.get("message", error) if isinstance(error, Mapping) else error
    return " ".join(str(content).split())


def _read_all(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """The body of an answer; raises TimeoutError where it drips in until the deadline."""
    pieces = []
    while piece := response.read(_PIECE):
        pieces.append(piece)
        if time.monotonic() > deadline:
            raise TimeoutError
    text = b"".join(pieces)
    if response.length:  # of a body that ends early `read` with a size says nothing
        raise http.client.IncompleteRead(text, response.length)
    return text


def _wait_of(response: http.client.HTTPResponse) -> float:
    """The seconds that a server asks to wait; 0: it asks for none."""
    try:
        return max(0.0, float(response.headers.get("Retry-After", 0)))
    except ValueError:  # a date
        return 0.0


def _timeout() -> float:
    """Seconds that a server may take for an answer."""
    text = os.environ.get(TIMEOUT, "") or "600"
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise BeamUQError(f"{TIMEOUT}: {text!r:.20}: give seconds, from above 0 to 86400")
    return seconds


def _headers() -> dict[str, str]:
    """The head of a request, with the key from the environment where there is one."""
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    key = os.environ.get(KEY, "").strip()
    if key:
        is_plain = key.isascii() and key.isprintable() and " " not in key
        if not is_plain or len(key) < LEAST_KEY:
            raise BeamUQError(
                f"{KEY}: no key: it must have {LEAST_KEY} visible characters or more, without "
                "spaces"
            )
        headers["Authorization"] = f"Bearer {key}"
    return headers
