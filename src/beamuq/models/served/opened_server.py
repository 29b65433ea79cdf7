"""A server that was checked, as a model that decodes: its requests, configs and identity."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from beamuq.array_types import Floats
from beamuq.decoding.context_window import context_window
from beamuq.decoding.served.served_model import Drawn, Prefix, ServedModel, TokenList
from beamuq.errors import BeamUQError, reason
from beamuq.models.model_folder import CONFIG
from beamuq.models.served.http_requests import Patience, ServerRequests
from beamuq.models.served.probe_distance import distance, tolerance
from beamuq.models.served.server_address import GIVE_FOLDER, parse_address
from beamuq.models.served.server_handshake import (
    NOISY,
    Handshake,
    protocol_of,
    shake_hands,
)
from beamuq.models.served.server_protocol import ServerProtocol, check_numbers, without_rounding


class OpenedServer(ServedModel):
    """A checked server. Its address and key stand in no attribute that is shown."""

    def __init__(
        self,
        protocol: ServerProtocol,
        handshake: Handshake,
        config: Any,
        generation_config: Any,
        tokenizer_hash: str,
    ) -> None:
        self._protocol = protocol
        self.handshake = handshake
        self.config = config
        self.generation_config = generation_config
        self.name = handshake.model
        self.vocabulary = handshake.vocabulary
        windows = [window for window in (context_window(self), protocol.window) if window]
        self.window = min(windows) if windows else None
        self.most_listed = handshake.most_listed
        self.most_named = handshake.most_named
        self.can_draw = protocol.can_draw
        self.tokenizer_hash = tokenizer_hash

    def __repr__(self) -> str:
        return f"<{self.handshake.summary}>"

    @property
    def requests(self) -> ServerRequests:
        """Its connection, which counts requests and bytes."""
        return self._protocol.requests

    @property
    def identity(self) -> dict[str, Any]:
        """What tells this server from others: no address, and no hash of its unknown weights."""
        handshake = self.handshake
        return {
            "kind": handshake.kind,
            "version": handshake.version,
            "model": handshake.model,
            "tokenizer": self.tokenizer_hash,
            "noise": handshake.noise,
            "probes": [[list(pair) for pair in probe] for probe in handshake.probes],
        }

    def most_probable(self, prefixes: Sequence[Prefix], length: int) -> list[TokenList]:
        least = min(length, self.vocabulary)
        lists = self._protocol.complete_lists(prefixes, length, least)
        for listed in lists:
            self._check_ids(listed)
        return lists

    def named(self, prefixes: Sequence[Prefix], tokens: Sequence[int]) -> Floats:
        rows = []
        for entries in self._protocol.named(prefixes, tokens):
            missing = [token for token in tokens if token not in entries]
            if missing:
                raise BeamUQError(
                    f"the model server: tells no log-probability of token {missing[0]}, which was "
                    "named; run again, and see that it is the server that was checked"
                )
            rows.append([entries[token] for token in tokens])
        logprobs = np.array(rows, dtype=np.float64)
        check_numbers(logprobs)
        return without_rounding(logprobs)

    def draw(
        self, prefix: Prefix, size: int, *, seed: int, steps: int, stop_ids: frozenset[int]
    ) -> list[Drawn]:
        return self._protocol.draw(prefix, size, seed=seed, steps=steps, stop_ids=stop_ids)

    def is_still_as_checked(self) -> bool:
        """Whether the first probe is answered as at the handshake: it may be another server now."""
        probe = self.handshake.probes[0]
        length = len(probe)
        listed = self._protocol.complete_lists([self.handshake.first_probe], length, length)[0]
        return distance(dict(probe), listed.by_token()) <= tolerance(self.handshake.noise)

    def _check_ids(self, listed: TokenList) -> None:
        """Refuse ids beyond the vocabulary."""
        if int(listed.tokens.max()) >= self.vocabulary or int(listed.tokens.min()) < 0:
            raise BeamUQError(
                f"the model server: lists token {int(listed.tokens.max())}, and the model has "
                f"{self.vocabulary}; give the tokenizer of the model that is served"
            )


def open_server(
    source: str,
    tokenizer: Any,
    folder: Path,
    tokenizer_hash: str,
    *,
    patience: Patience | None = None,
) -> OpenedServer:
    """Check the server of ``server:URL`` for a tokenizer, whose ``folder`` has the configs.

    Raises BeamUQError in one line: no address, no answer, a server that does not give what
    decoding needs, or configs that are missing.
    """
    address = parse_address(source)
    config, generation_config = _configs(folder)
    vocabulary = int(config.get_text_config().vocab_size)
    protocol = protocol_of(ServerRequests(address, patience), address.model)
    handshake = shake_hands(protocol, tokenizer, vocabulary)
    server = OpenedServer(protocol, handshake, config, generation_config, tokenizer_hash)
    if server.window is None:
        raise BeamUQError(
            f"tokenizer: {folder}: its config names no context window, nor does the server; "
            f"{GIVE_FOLDER}"
        )
    if handshake.noise > NOISY:
        warnings.warn(
            f"the model server: log-probabilities of one prefix differ by {handshake.noise:.1g} "
            "nats between requests; llama.cpp is steadier with --flash-attn off --cache-type-k f32 "
            "--cache-type-v f32, vLLM with VLLM_BATCH_INVARIANT=1",
            stacklevel=2,
        )
    return server


def _configs(folder: Path) -> tuple[Any, Any]:
    """The config and the generation config in a tokenizer's folder; the latter may be missing."""
    from transformers import AutoConfig, GenerationConfig

    if not (folder / CONFIG).is_file():
        raise BeamUQError(f"tokenizer: {folder}: has no {CONFIG}; {GIVE_FOLDER}")
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # whatever a foreign config makes transformers raise
        raise BeamUQError(
            f"tokenizer: {folder / CONFIG}: cannot be read ({reason(error)[:200]}); {GIVE_FOLDER}"
        ) from error
    generation = None
    if (folder / "generation_config.json").is_file():
        loader: Any = GenerationConfig
        generation = loader.from_pretrained(folder, local_files_only=True)
    return config, generation
