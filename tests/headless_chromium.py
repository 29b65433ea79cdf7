"""A page in a real headless Chromium, driven over its debugging pipe: no package, no port."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

KEYS = {
    "/": 191,
    "Enter": 13,
    "Escape": 27,
    "End": 35,
    "Home": 36,
    "ArrowUp": 38,
    "ArrowDown": 40,
    "ArrowRight": 39,
}


class Page:
    """One tab. ``events``: all that the browser told of it, in order."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._write, self._read = os.fdopen(to_browser, "wb", 0), os.fdopen(from_browser, "rb")
        self._number = itertools.count(1)
        self._session: str | None = None
        self._rest = b""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command of the DevTools protocol, and its answer."""
        number = next(self._number)
        message = {"id": number, "method": method, "params": parameters}
        message |= {"sessionId": self._session} if self._session else {}
        self._write.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                found: dict[str, Any] = answer["result"]
                return found
            self.events.append(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read.fileno(), 1 << 20)
            assert more, "the browser ended"
            self._rest += more
        first, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        return message

    def open(self, address: str) -> None:
        """Go to an address and wait until its script says that it is ready."""
        self._go(address, 1400)
        self.evaluate(
            "new Promise(done => { const look = () => "
            "document.body?.dataset.ready ? done() : setTimeout(look, 20); look(); })"
        )

    def show(self, address: str, width: int) -> None:
        """Go to an address in a window of some pixels' width and wait until it is whole."""
        self._go(address, width)
        self.evaluate(
            "new Promise(done => document.readyState === 'complete' ? done()"
            " : addEventListener('load', () => done()))"
        )

    def _go(self, address: str, width: int) -> None:
        """Go to an address in a window of some pixels' width."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=1000,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.call("Page.navigate", url=address)

    def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page, awaited if it is a promise."""
        found = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release one key where the focus is."""
        words = {"text": key} if len(key) == 1 else {}
        for kind, more in (("keyDown", words), ("keyUp", {})):
            self.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                windowsVirtualKeyCode=KEYS.get(key, 0),
                **more,
            )

    def type(self, words: str) -> None:
        """Write where the focus is."""
        self.call("Input.insertText", text=words)

    def requests(self) -> list[str]:
        """Every address that the page asked for, and was not opened at."""
        sent = [
            event["params"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [each["request"]["url"] for each in sent if each.get("type") != "Document"]

    def complaints(self) -> list[Any]:
        """Errors and warnings: uncaught ones, those of the console, and the browser's own."""
        told = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [event["params"] for event in self.events if event["method"] in told]


@contextmanager
def chromium(profile: Path) -> Iterator[Page]:
    """A page in a browser of its own, which is ended afterwards; the test is skipped where there is
    no browser.
    """
    browser = (
        shutil.which("chromium")
        or shutil.which("chromium-browser")
        or shutil.which("google-chrome")
    )
    if browser is None:
        pytest.skip("no headless Chromium")
    (its_in, our_out), (our_in, its_out) = os.pipe(), os.pipe()
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--no-first-run",
        "--disable-background-networking",
    ]
    flags += [
        "--disable-component-update",
        "--disable-sync",
        "--host-resolver-rules=MAP * ~NOTFOUND",
    ]
    command = [browser, *flags, "--remote-debugging-pipe", f"--user-data-dir={profile}"]
    wires = f'exec 3<&{its_in} 4>&{its_out}; exec "$@"'
    running = subprocess.Popen(
        ["bash", "-c", wires, "bash", *command],
        pass_fds=(its_in, its_out),
        stderr=subprocess.DEVNULL,
    )
    os.close(its_in)
    os.close(its_out)
    try:
        yield Page(our_out, our_in)
    finally:
        running.terminate()
        running.wait(20)
