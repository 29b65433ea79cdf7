"""Models that a server holds: where a job finds their address, and what it writes of them.

Addresses stand in ``config.yaml``, the machine, and reach a job by its environment: in a rule's
parameter or command Snakemake would write them down. What a job finds behind an address goes into
the footer of what it makes; the address itself goes nowhere.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from beamuq import io
from beamuq.errors import BeamUQError
from beamuq.models.model_folder import (
    check_folder,
    content_without_weights,
    read_manifest,
    tokenizer_hash,
)
from beamuq_study.parquet_tables import Footer

if TYPE_CHECKING:
    from beamuq.api.server_identity import ServerIdentity
    from beamuq.models.served.opened_server import OpenedServer

ADDRESSES = "BEAMUQ_SERVERS"
"""The variable of the environment that holds addresses by name, in JSON."""
BEGUN_WITH = "server.json"


def environment(servers: Mapping[str, str | None]) -> dict[str, str]:
    """The variable that tells jobs the addresses; none where there are no servers."""
    return {ADDRESSES: json.dumps(dict(servers))} if servers else {}


def address_of(name: str) -> str:
    """The source that opens the server called ``name``.

    Raises BeamUQError if ``config.yaml`` has no address for it.
    """
    addresses = json.loads(os.environ.get(ADDRESSES) or "{}")
    address = addresses.get(name)
    if not address:
        raise BeamUQError(
            f"config.yaml: servers.{name}: has no address, and this job asks that server; write "
            f"servers: {{{name}: http://HOST:PORT/v1}}"
        )
    return f"server:{address}"


def open_named(name: str, tokenizer: Any, folder: Path) -> OpenedServer:
    """The server called ``name``, checked, for the tokenizer that was read from ``folder``.

    Raises BeamUQError as :func:`address_of` and
    :func:`beamuq.models.served.opened_server.open_server`.
    """
    from beamuq.models.served.opened_server import open_server

    server = open_server(address_of(name), tokenizer, folder, tokenizer_hash(folder))
    print(server.handshake.summary, file=sys.stderr, flush=True)
    return server


def identity_of(name: str, folder: Path, planned: str | None) -> dict[str, Any]:
    """A served model as footers have it among their models: of weights nothing is known.

    ``planned``: :func:`content_without_weights` of ``folder`` when the run was planned, where that
    is one's own.

    Raises BeamUQError if the folder lacks a tokenizer or config, or has changed since.
    """
    check_folder(folder, weights=False)
    if planned is not None and content_without_weights(folder) != planned:
        raise BeamUQError(f"{folder}: has changed since this run was planned; start the run again")
    manifest = read_manifest(folder)
    return {
        "source": f"server:{name}",
        "content": None,
        "tokenizer_source": manifest.source if manifest else f"folder:{folder.resolve().name}",
        "tokenizer": tokenizer_hash(folder),
    }


def settled(folder: Path, server: ServerIdentity) -> ServerIdentity:
    """The identity with which the batches in ``folder`` were begun, if the server is that one.

    Two handshakes with one server differ by its noise, and batches that are put together have one
    footer. Another server begins anew: ``server`` is returned, and written down for later jobs.

    Raises BeamUQError if the file there tells no server.
    """
    from beamuq.api.server_identity import read_server

    file = folder / BEGUN_WITH
    with io.exclusive(file):
        if file.is_file():
            try:
                begun = read_server(file.read_text(encoding="utf-8"))
            except (BeamUQError, OSError) as error:
                raise BeamUQError(f"{file}: tells no server; delete it and run again") from error
            differences = differences_of(server, begun)
            if not differences:
                return begun
            print(
                f"{folder}: begun with another server ({'; '.join(differences)}); its batches are "
                "decoded anew",
                file=sys.stderr,
                flush=True,
            )
        io.write_text(file, server.as_json() + "\n")
    return server


def differences_of(server: ServerIdentity, before: ServerIdentity) -> list[str]:
    """In what a server is another than before, its version included, in words."""
    differences = server.differences(before)
    if server.version != before.version:
        differences.insert(0, f"version {server.version!r}, {before.version!r} before")
    return [text.replace("calibrated with", "before it was") for text in differences]


def check_same_servers(candidates: Iterable[Footer]) -> None:
    """Refuse candidates of one model that different servers gave.

    Raises BeamUQError naming two files and in what their servers differ.
    """
    from beamuq.api.server_identity import read_server

    first_of_model: dict[str, tuple[Footer, ServerIdentity]] = {}
    for footer in candidates:
        if "server" not in footer.provenance:
            continue
        server = read_server(footer.provenance["server"])
        first, first_server = first_of_model.setdefault(footer.cell["model"], (footer, server))
        differences = server.differences(first_server)
        if differences:
            raise BeamUQError(
                f"{footer.path}: another server gave it than {first.path} "
                f"({'; '.join(differences)}); delete one of the two and run again"
            )
