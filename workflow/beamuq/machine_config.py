"""``config.yaml``: where things lie and what they run on, as a typed object."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from beamuq.config_errors import StrictModel, validated
from beamuq.yaml_field_types import EXPANDED, FROM_HOME


class Machine(StrictModel):
    """``config.yaml``: where things lie and what they run on. Never part of the science."""

    study: Annotated[str, Field(min_length=1, description="a name in studies/, or a path to your own file")] = "demo"
    data_root: Annotated[
        str | None, Field(description="local datasets in the hub's schema; null: the hub"), FROM_HOME
    ] = None
    models_root: Annotated[
        str, Field(min_length=1, description="where fetched models are kept"), EXPANDED, FROM_HOME
    ] = "resources/models"
    datasets_root: Annotated[
        str, Field(min_length=1, description="where fetched datasets are kept"), EXPANDED, FROM_HOME
    ] = "resources/datasets"
    cache_root: Annotated[
        str, Field(min_length=1, description="pairs scored before, shared by jobs and studies"), FROM_HOME
    ] = "resources/cache"
    device: Annotated[Literal["auto", "cpu", "cuda"], Field(description="auto: cuda where there is one")] = "auto"
    dtype: Annotated[
        Literal["auto", "float32", "bfloat16"],
        Field(description="of language models; auto: bfloat16 on cuda, float32 on cpu"),
    ] = "auto"
    scorer_dtype: Annotated[
        Literal["float32", "bfloat16"], Field(description="of similarity and quality models; the release's is float32")
    ] = "float32"
    memory_gb: Annotated[float, Field(gt=0, description="main memory that one decoding or scoring job asks for")] = 4.0
    offline: Annotated[bool, Field(description="true: never ask the hub")] = False
    shards: Annotated[
        int, Field(ge=1, le=1000, description="jobs that one cell's decoding is cut into; never changes a result")
    ] = 1


def load_machine(content: dict[str, Any], path: Path | str = "config.yaml") -> Machine:
    """Check the machine's configuration (a mapping, as Snakemake has merged it from file and command line).

    From the command line ``true``, ``false`` and ``null`` come as text; they mean what they mean in YAML.
    """
    scalars = {"true": True, "false": False, "null": None}
    meant = {key: scalars.get(value, value) if isinstance(value, str) else value for key, value in content.items()}
    return validated(Machine, meant, path)
