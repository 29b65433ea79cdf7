"""What tells one model server from another, as rows and calibrations carry it."""

from __future__ import annotations

import json
from typing import Annotated, Any

from pydantic import BaseModel, Field

from beamuq.config_errors import StrictModel, validated
from beamuq.models.served.probe_distance import distance, tolerance

WEIGHTS_UNKNOWN = "a server's weights are unknown: only the lists of its probes are compared"
Pair = tuple[Annotated[int, Field(ge=0)], Annotated[float, Field(le=0)]]


class ServerIdentity(StrictModel, strict=False):
    """A server, as far as it can be known: no address, and no hash of its weights."""

    kind: Annotated[str, Field(description="vllm, llama.cpp, …")]
    version: Annotated[str, Field(description="the server's")]
    model: Annotated[str, Field(description="its id at the server")]
    tokenizer: Annotated[str, Field(description="sha256 of the tokenizer's files")]
    noise: Annotated[
        float, Field(ge=0, description="nats between answers to one prefix, alone and in a batch")
    ]
    probes: Annotated[
        tuple[tuple[Pair, ...], ...],
        Field(description="of each of eight texts the most probable next tokens with their log p"),
    ]

    def as_json(self) -> str:
        """It in JSON, on one line."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)

    def differences(self, calibrated: ServerIdentity) -> list[str]:
        """In what this server is another than the calibrated one, in words."""
        differences = []
        for name in ("kind", "model", "tokenizer"):
            value = getattr(self, name)
            calibrated_value = getattr(calibrated, name)
            if value != calibrated_value:
                differences.append(
                    f"server's {name} {value!r:.80}, calibrated with {calibrated_value!r:.80}"
                )
        distance = self.distance(calibrated)
        allowed = tolerance(max(self.noise, calibrated.noise))
        if distance > allowed:
            differences.append(
                f"server's lists of probes {distance:.2g} nats off, {allowed:.2g} allowed: other "
                "weights, or another quantisation"
            )
        return differences

    def distance(self, other: ServerIdentity) -> float:
        """The largest difference, in nats, between the lists of probes."""
        if len(self.probes) != len(other.probes):
            return float("inf")
        pairs = zip(self.probes, other.probes, strict=True)
        return max((distance(dict(one), dict(two)) for one, two in pairs), default=0.0)


def server_text(value: Any) -> Any:
    """A row's server as JSON in one line, whichever way it is given; None: there is none."""
    if value is None or value == "":
        return None
    return read_server(value).as_json()


def read_server(value: Any) -> ServerIdentity:
    """A server's identity of a mapping, of JSON, or of an object that is one.

    Raises BeamUQError, naming the key, if it is none.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump()
    identity: ServerIdentity = validated(
        ServerIdentity, value, "server", is_json=isinstance(value, str)
    )
    return identity
