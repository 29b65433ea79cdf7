"""What is read of a log of Inspect (inspect-ai): samples, their epochs, outputs, scores, settings.

A log in JSON is read as it stands. ``.eval``, a compressed archive, is read by Inspect itself.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from beamuq.api.server_forms.reply import FormPart
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError, reading
from beamuq.installation import install_command

JsonObject = dict[str, Any]
ENDING = ".eval"
KEYS = ("eval", "plan", "status")  # of a log in JSON
FIELDS: JsonObject = {
    "status": True,
    "eval": {"model", "model_generate_config"},
    "plan": {"config"},
    "samples": {
        "__all__": {
            **dict.fromkeys(("id", "epoch", "input", "target", "messages", "output"), True),
            **dict.fromkeys(("scores", "error", "limit"), True),
            "events": {"__all__": {"event", "config", "output"}},
        }
    },
}
"""Of Inspect's ``EvalLog`` what is read here; a log holds much more."""


class _Evaluation(FormPart):
    model: str
    model_generate_config: JsonObject = {}


class _Plan(FormPart):
    config: JsonObject = {}


class InspectScore(FormPart):
    """What a scorer says of an answer."""

    value: Any = None


class InspectSample(FormPart):
    """A question in one epoch. ``output``: Inspect's ModelOutput; ``limit``: which one ended it."""

    id: int | str
    epoch: int
    input: str | list[JsonObject]
    target: str | list[str] = ""
    messages: list[JsonObject] = []
    output: JsonObject = {}
    scores: dict[str, InspectScore] | None = None
    error: JsonObject | None = None
    limit: JsonObject | None = None
    events: list[JsonObject] = []


class InspectLog(FormPart):
    """A log: ``evaluation.model`` as it was named, ``plan.config`` as it was run with."""

    status: str
    evaluation: _Evaluation = Field(alias="eval")
    plan: _Plan = _Plan()
    samples: list[InspectSample] | None = None


def is_inspect_log(value: object) -> bool:
    """Whether it is a log of Inspect: its object, a file of its ending, or JSON with its keys."""
    if isinstance(value, BaseModel):
        return all(hasattr(value, key) for key in KEYS)
    if not isinstance(value, str | Path):
        return False
    path = Path(value)
    if path.suffix == ENDING:
        return True
    if path.suffix != ".json" or not path.is_file():
        return False
    with suppress(BeamUQError):  # who reads it as rows says what is wrong
        return is_content_of_log(_json(path))
    return False


def is_content_of_log(content: object) -> bool:
    """Whether what a file in JSON holds is a log."""
    return isinstance(content, Mapping) and all(key in content for key in KEYS)


def read_inspect_log(log: Any, name: str) -> InspectLog:
    """A log from a file, or from Inspect's ``EvalLog``; ``name`` is what errors call it.

    Raises BeamUQError naming it: no log, damaged, no samples in it, or not run to its end.
    """
    content = _content(log, name)
    if not is_content_of_log(content):
        raise BeamUQError(
            f"{name}: no log of Inspect; give a .eval or .json file that Inspect wrote, or its "
            "EvalLog"
        )
    read: InspectLog = validated(InspectLog, content, name)
    if read.status != "success":
        raise BeamUQError(
            f"{name}: status: {read.status!r}: the evaluation did not run to its end; finish it "
            "with inspect eval-retry"
        )
    if not read.samples:
        raise BeamUQError(f"{name}: samples: none in the log; evaluate with log_samples")
    return read


def _content(log: Any, name: str) -> Any:
    if isinstance(log, BaseModel):
        return log.model_dump(mode="json", include=FIELDS, exclude_none=True)
    if not isinstance(log, str | Path):
        return None
    path = Path(log)
    if path.suffix == ENDING:
        return _content(_read_by_inspect(path), name)
    return _json(path)


def _json(path: Path) -> Any:
    with reading(path, "valid JSON in UTF-8", "give a log that Inspect wrote"):
        return json.loads(path.read_bytes())


def _read_by_inspect(path: Path) -> Any:
    if importlib.util.find_spec("inspect_ai") is None:
        raise BeamUQError(
            f"{path}: {ENDING} is read by inspect-ai, which is not installed; "
            f"{install_command('inspect')}, or write it in JSON: inspect log convert --to json"
        )
    from inspect_ai.log import read_eval_log

    with reading(path, "a log that Inspect reads", "copy it again, or run inspect eval-retry"):
        return read_eval_log(str(path))
