"""Mask access tokens and passwords of addresses in everything that is printed."""

from __future__ import annotations

import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

_SECRETS = re.compile(
    r"(?-i:hf_)[a-z0-9]{6,}"
    r"|(?<=://)[^\s/]+(?=@)"
    r"|\b(?!(?:folder|hub|packaged):)[\w.+-]+:[^\s/@:'\"]+(?=@\w)"  # the same without its https://
    r"|(?<=bearer )[^\s'\",}\]]+"
    r"|(?<=[?&]token=)[^\s&'\"]+"
    r"|(?<=[?&]access_token=)[^\s&'\"]+",
    re.IGNORECASE,
)


def masked(text: str) -> str:
    """``text`` with ``***`` for every access token and every credential inside an address."""
    for token in _tokens():
        text = text.replace(token, "***")
    return _SECRETS.sub("***", text)


def _tokens() -> list[str]:
    """The tokens that this process could use: from its environment and from the hub's own file.

    The key of a model server is masked whatever its length.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    home = Path(os.environ.get("HF_HOME") or cache / "huggingface")
    file = Path(os.environ.get("HF_TOKEN_PATH") or home / "token").expanduser()
    texts = [os.environ.get("HF_TOKEN", ""), os.environ.get("HUGGING_FACE_HUB_TOKEN", "")]
    if file.is_file() and os.access(file, os.R_OK):
        texts.append(file.read_text(encoding="utf-8", errors="replace"))
    tokens = [text.strip() for text in texts]
    long_tokens = [token for token in tokens if len(token) >= 6]
    server_key = os.environ.get("BEAMUQ_API_KEY", "").strip()
    return [*long_tokens, server_key] if server_key else long_tokens


class _Masked:
    """A text stream that prints no token."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        self._stream.write(masked(text))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        self.write("".join(lines))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def mask_output(*, results: bool = True) -> None:
    """From here on this process prints no token: in progress, logs, warnings or a traceback.

    ``results``: stdout too, which a job's log holds; a command writes its results there, and those
    stay as they are.
    """
    sys.stderr = _Masked(sys.stderr)
    if results:
        sys.stdout = _Masked(sys.stdout)
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and not isinstance(
            handler, logging.FileHandler
        ):
            handler.setStream(sys.stderr)
