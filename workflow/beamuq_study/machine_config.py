"""``config.yaml``: where things lie and what they run on, as a typed object."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError
from beamuq.models.served.server_address import KEY, PREFIX, parse_address
from beamuq_study.study_config import EXPANDED, FROM_HOME, Name


class Machine(StrictModel):
    """``config.yaml``: where things lie and what they run on. Never part of the science."""

    study: str = Field(
        default="demo", min_length=1, description="a name in studies/, or a path to your own file"
    )
    data_root: Annotated[str | None, FROM_HOME] = Field(
        default=None, description="local datasets in the hub's schema; null: the hub"
    )
    models_root: Annotated[str, EXPANDED, FROM_HOME] = Field(
        default="resources/models", min_length=1, description="where fetched models are kept"
    )
    datasets_root: Annotated[str, EXPANDED, FROM_HOME] = Field(
        default="resources/datasets", min_length=1, description="where fetched datasets are kept"
    )
    cache_root: Annotated[str, FROM_HOME] = Field(
        default="resources/cache",
        min_length=1,
        description="pairs scored before, shared by jobs and studies",
    )
    device: Literal["auto", "cpu", "cuda"] = Field(
        default="auto", description="auto: cuda where there is one"
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="of language models; auto: bfloat16 on cuda, float32 on cpu"
    )
    scorer_dtype: Literal["float32", "bfloat16"] = Field(
        default="float32", description="of similarity and quality models; the release's is float32"
    )
    memory_gb: float = Field(
        default=4.0, gt=0, description="main memory that one decoding or scoring job asks for"
    )
    offline: bool = Field(default=False, description="true: never ask the hub")
    shards: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="jobs that one cell's decoding is cut into; never changes a result",
    )
    servers: dict[Name, str | None] = Field(
        default={},
        repr=False,
        description=(
            "http://HOST:PORT/v1 of each model server, by the name that a study's source "
            "server:NAME has; null: not here, what it decoded stands"
        ),
    )


_SCALARS = {"true": True, "false": False, "null": None}
_TEXTS = frozenset(
    name for name, field in Machine.model_fields.items() if field.annotation in (str, str | None)
)


def load_machine(content: dict[str, Any], path: Path | str = "config.yaml") -> Machine:
    """Check the machine's configuration, as Snakemake merged it from file and command line.

    From the command line ``true``, ``false`` and ``null`` come as text; they mean what they mean in
    YAML. A name that looks like a number comes as one, and is the text of it: ``study=2024``.
    """
    meant = {key: _meant(key, value) for key, value in content.items()}
    machine: Machine = validated(Machine, meant, path)
    for name, address in machine.servers.items():
        if address is not None:
            _check_address(address, f"{path}: servers.{name}")
    return machine


def _check_address(address: str, place: str) -> None:
    """Refuse what is no address, or holds credentials, without showing it."""
    try:
        parse_address(PREFIX + address)
    except BeamUQError:
        raise BeamUQError(
            f"{place}: no address of a server, or one with a password or a query; write "
            f"http://HOST:PORT/v1, and put a key into the environment as {KEY}"
        ) from None


def _meant(key: str, value: Any) -> Any:
    if key == "servers" and isinstance(value, dict):
        return {name: _meant(name, address) for name, address in value.items()}
    if isinstance(value, str):
        return _SCALARS.get(value, value)
    if key in _TEXTS and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value
