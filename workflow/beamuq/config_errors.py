"""Bad input told in one line: YAML files, JSON options and records checked against typed models.

Every check of a user's input ends in the same line, ``file: key: value: what is wrong; the fix``, and behind it the
number of further problems. A misspelt key is told with the nearest one that is allowed at its place, and a secret is
never printed.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from beamuq.errors import BeamUQError, hint, reading

SECRET = re.compile(r"((hf|hub|huggingface|access|api|auth)_?)*(token|key|secret|password|credentials?)", re.IGNORECASE)
UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")  # pydantic's names, of a model and of a dataclass

T = TypeVar("T")


class StrictModel(BaseModel):
    """Immutable; refuses unknown keys, values of another type, and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def validated(kind: type[T] | Any, content: object, place: str | Path) -> T:
    """``content`` as an object of ``kind``: a pydantic model, or any annotation such as ``list[Claim]``.

    Raises BeamUQError in one line, beginning with ``place`` (a file, an option, a row): the key, the value and the fix.
    """
    adapter: TypeAdapter[T] = TypeAdapter(kind)
    try:
        return adapter.validate_python(content)
    except ValidationError as error:
        raise BeamUQError(_first_problem(place, error, adapter)) from error


def validated_json(kind: type[T] | Any, text: str, place: str | Path) -> T:
    """A JSON text as an object of ``kind``; raises as :func:`validated`."""
    adapter: TypeAdapter[T] = TypeAdapter(kind)
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise BeamUQError(_first_problem(place, error, adapter)) from error


def read_yaml(path: Path) -> Any:
    """What a YAML file holds; no tags, and no key twice.

    Raises BeamUQError in one line: the file, and why it cannot be read.
    """
    with reading(path, "valid YAML", "correct the file"):
        loader = _UniqueKeyLoader(path.read_text(encoding="utf-8"))
        loader.name = path.name  # as its errors say it
        return loader.get_single_data()


def read_mapping(path: Path) -> dict[Any, Any]:
    """What a YAML file holds that must be a mapping; raises as :func:`read_yaml`."""
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise BeamUQError(f"{path}: must be a mapping of keys to values")
    return content


class _UniqueKeyLoader(yaml.SafeLoader):
    """Safe YAML in which a key that stands twice is an error, not a silent override; errors name the line."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def parse_json(text: str | bytes, place: str | Path, fix: str) -> Any:
    """What a JSON text in UTF-8 holds; no key twice.

    Raises BeamUQError in one line: the ``place``, why it cannot be read, and the ``fix``.
    """
    with reading(place, "valid JSON in UTF-8", fix):
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        return json.loads(text, object_pairs_hook=_unique_keys)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError(f"key {Counter(key for key, _ in pairs).most_common(1)[0][0]!r} stands twice")
    return content


def _first_problem(place: str | Path, error: ValidationError, adapter: TypeAdapter[Any]) -> str:
    problems = error.errors(include_url=False)
    # a misspelt key is told before the key that is missing for it
    first = next((problem for problem in problems if problem["type"] in UNKNOWN_KEY), problems[0])
    location, value = first["loc"], first["input"]
    key = ".".join(f"[{part}]" if isinstance(part, int) else str(part) for part in location).replace(".[", "[")
    message = first["msg"].removeprefix("Value error, ")
    shown = "" if isinstance(value, dict | list | BaseModel) else f"{json.dumps(value, default=str)}: "
    if first["type"] == "missing":
        shown, message = "", "this key is missing; add it"
    elif first["type"] in UNKNOWN_KEY:
        name = str(location[-1])
        if SECRET.fullmatch(name):
            fix = "log in with `hf auth login`, or put it into the environment as HF_TOKEN"
            shown, message = "", f"a secret never stands in a file or on the command line; remove it here, and {fix}"
        else:
            message = f"unknown key; {hint(name, _keys_beside(adapter.json_schema(), location))}"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return f"{place}: {key + ': ' if key else ''}{shown}{message}{more}"


def _keys_beside(schema: dict[str, Any], location: tuple[int | str, ...]) -> list[str]:
    """The keys allowed where an unknown one stands, by the model's JSON schema."""
    node = schema
    for part in location[:-1]:
        if isinstance(part, int):  # of a list, or of one of its items alone
            node = next((each["items"] for each in (node, *node.get("anyOf", [])) if "items" in each), {})
        else:
            node = _resolved(schema, node)
            of_any_name = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
            node = node.get("properties", {}).get(part) or next(filter(None, of_any_name), {})
    return list(_resolved(schema, node).get("properties", {}))


def _resolved(schema: dict[str, Any], node: dict[str, Any]) -> dict[str, Any]:
    """The definition that a node refers to, itself or as the model of an optional one."""
    reference = next((each["$ref"] for each in (node, *node.get("anyOf", [])) if "$ref" in each), None)
    return cast(dict[str, Any], schema["$defs"][reference.rsplit("/", 1)[-1]]) if reference else node
