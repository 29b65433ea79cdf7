"""A stand-in for the Hugging Face hub on loopback: what its client and ``datasets`` ask, gates, and
a cut connection.

``ROOT/models/ORG/NAME`` and ``ROOT/datasets/ORG/NAME`` are repositories with one commit, ``main``.
As on the hub, large files are served by another host after a redirect, others by a redirect on the
same host. A gated repository shows its list of files to everybody; its files only to a token whose
owner has accepted the licence.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

ACCEPTED = "hf_accepted"
NOT_ACCEPTED = "hf_not_accepted"
GATED = ("meta-llama/", "google/")
LARGE = (".safetensors", ".bin", ".ckpt", ".parquet")
REPOSITORY = re.compile(
    r"/api/(?P<kind>models|datasets)/(?P<id>[^/]+/[^/]+)"
    r"(?:/(?P<what>revision|tree|paths-info)/(?P<revision>[^/]+)(?:/(?P<folder>.+))?)?"
)
FILE = re.compile(
    r"/(?P<kind>datasets/)?(?P<id>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<name>.+)"
)
CONTENT = re.compile(r"/content/(?P<kind>models|datasets)/(?P<id>[^/]+/[^/]+)/(?P<name>.+)")
BLOCK = 16_384


@dataclass(frozen=True)
class Repository:
    """A folder as the hub tells of it."""

    kind: str
    id: str
    folder: Path

    @cached_property
    def files(self) -> dict[str, dict[str, Any]]:
        """By path: what the hub says of a file."""
        paths = sorted(path for path in self.folder.rglob("*") if path.is_file())
        entries = (_entry(path, path.relative_to(self.folder).as_posix()) for path in paths)
        return {entry["path"]: entry for entry in entries}

    @cached_property
    def commit(self) -> str:
        names = "".join(f"{name} {entry['oid']}\n" for name, entry in self.files.items())
        return hashlib.sha1(names.encode()).hexdigest()

    @property
    def gated(self) -> bool:
        return self.kind == "models" and self.id.startswith(GATED)

    def info(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "sha": self.commit,
            "private": False,
            "gated": "manual" if self.gated else False,
            "disabled": False,
            "tags": [],
            "downloads": 1,
            "likes": 1,
            "siblings": [{"rfilename": name} for name in self.files],
            "cardData": {"license": "other"},
        }

    def tree(self, folder: str, *, recursive: bool) -> list[dict[str, Any]]:
        """Files and folders below ``folder``, as the hub lists them."""
        base = f"{folder}/" if folder else ""
        below = {name: entry for name, entry in self.files.items() if name.startswith(base)}
        folders = {
            base + "/".join(name.removeprefix(base).split("/")[:depth])
            for name in below
            for depth in range(1, name.removeprefix(base).count("/") + 1)
        }
        listed = [
            entry
            for name, entry in below.items()
            if recursive or "/" not in name.removeprefix(base)
        ]
        shown = [
            name for name in sorted(folders) if recursive or "/" not in name.removeprefix(base)
        ]
        return [_folder(name) for name in shown] + listed

    def paths(self, names: list[str]) -> list[dict[str, Any]]:
        """What there is of these paths."""
        files = [self.files[name] for name in names if name in self.files]
        folders = [
            _folder(name)
            for name in names
            if any(path.startswith(f"{name}/") for path in self.files)
        ]
        return files + folders


def _entry(path: Path, name: str) -> dict[str, Any]:
    content = path.read_bytes()
    size = len(content)
    git_hash = hashlib.sha1(b"blob %d\0" % size + content).hexdigest()
    entry: dict[str, Any] = {"type": "file", "oid": git_hash, "size": size, "path": name}
    if name.endswith(LARGE):
        entry["lfs"] = {
            "oid": hashlib.sha256(content).hexdigest(),
            "size": size,
            "pointerSize": 134,
        }
    return entry


def _folder(name: str) -> dict[str, Any]:
    return {
        "type": "directory",
        "oid": hashlib.sha1(name.encode()).hexdigest(),
        "size": 0,
        "path": name,
    }


@dataclass
class Hub:
    """A running hub: its address, what was downloaded, and the fault that it is to show."""

    root: Path
    port: int = 0
    downloads: list[str] = field(default_factory=list)
    """The content that was asked for: ``ORG/NAME/FILE``, in order."""
    cut: str = ""
    """A connection breaks in the middle of a file whose path holds this; empty: none does."""
    _repositories: dict[tuple[str, str], Repository] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def other_host(self) -> str:
        """Where large files lie: the same machine by another name, so another host to a client."""
        return f"http://localhost:{self.port}"

    def repository(self, kind: str, name: str) -> Repository | None:
        folder = self.root / kind / name
        if not folder.is_dir():
            return None
        with self._lock:
            return self._repositories.setdefault((kind, name), Repository(kind, name, folder))


@contextmanager
def running_hub(root: Path) -> Iterator[Hub]:
    """Serve the repositories below ``root`` until the body ends."""
    hub = Hub(root)
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    hub.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a test asks the hub what was downloaded."""

    def do_HEAD(self) -> None:
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("content-length") or 0)))

    def _answer(self, body: bytes) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        if match := REPOSITORY.fullmatch(path):
            self._repository(match, parse_qs(url.query), body)
        elif match := FILE.fullmatch(path):
            self._redirect(match)
        elif match := CONTENT.fullmatch(path):
            self._content(match)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "EntryNotFound", "not found")

    def _repository(self, match: re.Match[str], query: dict[str, list[str]], body: bytes) -> None:
        repository = self._known(match["kind"], match["id"], match["revision"])
        if repository is None:
            return
        if match["what"] == "tree":
            recursive = query.get("recursive", ["false"])[0].lower() in ("true", "1")
            self._send_json(repository.tree(match["folder"] or "", recursive=recursive))
        elif match["what"] == "paths-info":
            self._send_json(repository.paths(_asked_paths(body)))
        else:
            self._send_json(repository.info())

    def _redirect(self, match: re.Match[str]) -> None:
        """Where a file lies, to those who may have it."""
        kind = "datasets" if match["kind"] else "models"
        repository = self._known(kind, match["id"], match["revision"])
        if repository is None or not self._allowed(repository):
            return
        entry = repository.files.get(match["name"])
        if entry is None:
            self._refuse(HTTPStatus.NOT_FOUND, "EntryNotFound", "Entry not found")
            return
        large = "lfs" in entry
        place = f"/content/{kind}/{repository.id}/{match['name']}"
        self._send(
            HTTPStatus.FOUND if large else HTTPStatus.TEMPORARY_REDIRECT,
            {
                "Location": f"{self.hub.other_host if large else ''}{place}",
                "X-Repo-Commit": repository.commit,
                "X-Linked-Size": str(entry["size"]),
                "X-Linked-Etag": f'"{_content_hash(entry)}"',
                "Accept-Ranges": "bytes",
            },
        )

    def _content(self, match: re.Match[str]) -> None:
        """A file, or the rest of one (Range)."""
        repository = self._known(match["kind"], match["id"], None)
        if repository is None:
            return
        entry = repository.files[match["name"]]
        content = (repository.folder / match["name"]).read_bytes()
        headers = {
            "ETag": f'"{_content_hash(entry)}"',
            "X-Repo-Commit": repository.commit,
            "Accept-Ranges": "bytes",
        }
        status = HTTPStatus.OK
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("range", "")):
            first = int(asked[1])
            last = int(asked[2]) if asked[2] else len(content) - 1
            headers["Content-Range"] = f"bytes {first}-{last}/{len(content)}"
            content = content[first : last + 1]
            status = HTTPStatus.PARTIAL_CONTENT
        if self.command == "GET":
            self.hub.downloads.append(f"{repository.id}/{match['name']}")
        if self.command == "GET" and self.hub.cut and self.hub.cut in match["name"]:
            self._send(
                status,
                headers | {"Content-Length": str(len(content))},
                content[: len(content) // 2],
            )
            self.wfile.flush()
            self.close_connection = True
            self.connection.close()
            return
        self._send(status, headers, content)

    def _known(self, kind: str, name: str, revision: str | None) -> Repository | None:
        """The repository at that revision; otherwise the refusal is sent."""
        repository = self.hub.repository(kind, name)
        if repository is None:
            self._refuse(HTTPStatus.UNAUTHORIZED, "RepoNotFound", "Repository not found")
            return None
        if revision not in (None, "main", repository.commit):
            self._refuse(HTTPStatus.NOT_FOUND, "RevisionNotFound", f"Invalid rev id: {revision}")
            return None
        return repository

    def _allowed(self, repository: Repository) -> bool:
        if not repository.gated:
            return True
        token = self.headers.get("authorization", "").removeprefix("Bearer ")
        if token == ACCEPTED:
            return True
        status = HTTPStatus.FORBIDDEN if token else HTTPStatus.UNAUTHORIZED
        self._refuse(status, "GatedRepo", f"Access to model {repository.id} is restricted.")
        return False

    def _refuse(self, status: HTTPStatus, code: str, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        self._send(status, {"X-Error-Code": code, "X-Error-Message": message}, body)

    def _send_json(self, content: object) -> None:
        self._send(
            HTTPStatus.OK, {"Content-Type": "application/json"}, json.dumps(content).encode()
        )

    def _send(self, status: HTTPStatus, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            for start in range(0, len(body), BLOCK):
                self.wfile.write(body[start : start + BLOCK])


def _content_hash(entry: dict[str, Any]) -> str:
    return str(entry["lfs"]["oid"] if "lfs" in entry else entry["oid"])


def _asked_paths(body: bytes) -> list[str]:
    """The paths of a request, as JSON or as a form."""
    try:
        paths = json.loads(body)["paths"]
    except ValueError:
        paths = parse_qs(body.decode()).get("paths", [])
    return [paths] if isinstance(paths, str) else list(paths)
