"""Check YAML files, JSON options and records against typed models; report bad input in one line.

The line is ``file: key: value: what is wrong; the fix`` in pydantic's words, and the number of
further problems. A misspelt key is reported with the nearest key allowed at its place, and a secret
is never printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from beamuq.errors import BeamUQError, hint, nearest, reading

SECRET = re.compile(
    r"((hf|hub|huggingface|access|api|auth)_?)*(token|key|secret|password|credentials?)",
    re.IGNORECASE,
)
# pydantic's names, of a model and of a dataclass
UNKNOWN_KEY = ("extra_forbidden", "unexpected_keyword_argument")
EXPECTED = {
    "string_type": "a text",
    "int_type": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "keys with values",
    "mapping_type": "keys with values",
    "model_type": "keys with values",
    "model_attributes_type": "keys with values",
    "dataclass_type": "keys with values",
}
"""What is due where nothing stands, by pydantic's name of the problem."""
A_SECRET = (
    "a secret never stands in a file or on the command line; remove it here, and log in with `hf "
    "auth login`, or put it into the environment as HF_TOKEN"
)

T = TypeVar("T")


class StrictModel(BaseModel):
    """Immutable; refuses unknown keys, values of another type, and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


NO_NAMES: Mapping[str, str] = {}


def validated(
    kind: type[T] | Any,
    content: Any,
    place: str | Path,
    *,
    is_json: bool = False,
    names: Mapping[str, str] = NO_NAMES,
) -> T:
    """``content`` as an object of ``kind``, a pydantic model or an annotation: ``list[Claim]``.

    ``is_json``: it is the text of one, in JSON. ``names``: what whoever wrote it calls a key,
    ``answer.text``, if otherwise.

    Raises BeamUQError in one line, beginning with ``place`` (a file, an option, a row): the key,
    the value and the fix.
    """
    adapter: TypeAdapter[T] = TypeAdapter(kind)
    try:
        return adapter.validate_json(content) if is_json else adapter.validate_python(content)
    except ValidationError as error:
        line = _line_of(error, adapter, names)
        raise BeamUQError(f"{place}: {line}" if str(place) else line) from error


def _line_of(error: ValidationError, adapter: TypeAdapter[Any], names: Mapping[str, str]) -> str:
    """The first problem in one line: key, value and fix, and how many more there are."""
    problems = error.errors(include_url=False)
    # report a misspelt key before the key that is missing for it
    misspelt = [problem for problem in problems if problem["type"] in UNKNOWN_KEY]
    first = misspelt[0] if misspelt else problems[0]
    key = _written_key(first["loc"], names)
    value = _written_value(first)
    message = _message(first, adapter, key if names else "")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ": ".join(filter(None, (key, value, message))) + more


def _written_key(location: tuple[int | str, ...], names: Mapping[str, str]) -> str:
    """``datasets[0].title``; with the longest beginning that has another name by that."""
    for length in range(len(location), 0, -1):
        beginning = location[:length]
        name = names.get(".".join(part for part in beginning if isinstance(part, str)))
        if name is not None:
            places = [part for part in beginning if isinstance(part, int)]
            return _joined_key((name, *places, *location[length:]))
    return _joined_key(location)


def _joined_key(location: tuple[int | str, ...]) -> str:
    parts = [f"[{part}]" if isinstance(part, int) else part for part in location]
    return ".".join(parts).replace(".[", "[")


def _written_value(problem: ErrorDetails) -> str:
    """The value that is wrong; none where it holds others, or a secret, or there is none."""
    value = problem["input"]
    # the value is everything around what is missing or no JSON
    around = problem["type"] in ("missing", "json_invalid")
    if around or _is_secret(problem) or isinstance(value, dict | list | BaseModel):
        return ""
    return json.dumps(value, default=str)


def _message(problem: ErrorDetails, adapter: TypeAdapter[Any], path: str) -> str:
    """What is wrong, and the fix; with ``path``, an unknown key's, the nearest is a path too."""
    kind = problem["type"]
    location = problem["loc"]
    if kind == "missing":
        return "this key is missing; add it"
    if _is_secret(problem):
        return A_SECRET
    if kind == "string_type" and isinstance(problem["input"], bool | int | float):
        return "must be a text; put it in quotes"
    if problem["input"] is None and kind in (*EXPECTED, "literal_error"):
        return _message_on_null(problem, adapter)
    if kind in UNKNOWN_KEY:
        allowed = _keys_beside(adapter.json_schema(), location)
        near = nearest(str(location[-1]), allowed)
        parent, point, _ = path.rpartition(".")
        if near and parent:
            return f"unknown key; did you mean {parent + point + near!r}?"
        return f"unknown key; {hint(str(location[-1]), allowed)}"
    return problem["msg"].removeprefix("Value error, ")


def _message_on_null(problem: ErrorDetails, adapter: TypeAdapter[Any]) -> str:
    """What is due where nothing stands, as behind a YAML key without a value."""
    expected = EXPECTED.get(problem["type"]) or problem["ctx"]["expected"]
    *around, last = problem["loc"] or ("",)
    if isinstance(last, int):
        return f"nothing stands here; give {expected}, or remove this entry"
    nodes = _nodes_at(adapter.json_schema(), around)
    is_needed = any(last in node.get("required", ()) for node in nodes)
    otherwise = "" if is_needed or not problem["loc"] else ", or leave the key out"
    return f"nothing stands here; give {expected}{otherwise}"


def _is_secret(problem: ErrorDetails) -> bool:
    """Whether an unknown key is the name of a secret."""
    if problem["type"] not in UNKNOWN_KEY:
        return False
    return SECRET.fullmatch(str(problem["loc"][-1])) is not None


def _keys_beside(schema: dict[str, Any], location: tuple[int | str, ...]) -> list[str]:
    """The keys allowed in place of an unknown one, by the model's JSON schema."""
    nodes = _nodes_at(schema, location[:-1])
    return [key for node in nodes for key in node.get("properties", {})]


def _nodes_at(schema: dict[str, Any], location: Sequence[int | str]) -> list[dict[str, Any]]:
    """The nodes of a JSON schema at a place, one for each form that it may have."""
    nodes = _forms(schema, schema)
    for part in location:
        inside = [node["properties"][part] for node in nodes if part in node.get("properties", {})]
        for node in nodes:
            inside += [
                *node.get("patternProperties", {}).values(),
                node.get("items"),
                node.get("additionalProperties"),
            ]
        nodes = [form for node in inside if isinstance(node, dict) for form in _forms(schema, node)]
    return nodes


def _forms(schema: dict[str, Any], node: dict[str, Any]) -> list[dict[str, Any]]:
    """A node of a JSON schema, or the node it refers to, and its alternatives."""
    if "$ref" in node:
        node = schema["$defs"][node["$ref"].rsplit("/", 1)[-1]]
    forms = [node]
    for alternative in node.get("anyOf", ()):
        forms += _forms(schema, alternative)
    return forms


def read_yaml(path: Path) -> Any:
    """Read a YAML file without tags and without repeated keys; its numbers are decimal.

    ``010`` (8 or 10, by version of YAML), ``1:30`` (90), ``1_000`` and ``0x1F`` are texts.

    Raises BeamUQError in one line: the file, and why it cannot be read.
    """
    with reading(path, "valid YAML", "correct the file"):
        loader = _UniqueKeyLoader(path.read_text(encoding="utf-8"))
        loader.name = path.name  # as its errors say it
        return loader.get_single_data()


_DECIMAL = r"(?:0|[1-9][0-9]*)"
_NUMBERS = {
    "int": rf"[-+]?{_DECIMAL}",
    "float": (
        rf"[-+]?(?:\.[0-9]+|{_DECIMAL}(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
    ),
}


_MERGE_KEY = "tag:yaml.org,2002:merge"
_TEXT = "tag:yaml.org,2002:str"


class _UniqueKeyLoader(yaml.SafeLoader):
    """Safe YAML in which a key is a text as written, and a repeated one an error of its line.

    YAML would read the keys ``2024``, ``no`` and ``1.0`` as a number, False and another number.
    """

    yaml_implicit_resolvers = {
        first: [(tag, form) for tag, form in resolvers if tag.rpartition(":")[2] not in _NUMBERS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        written: set[str] = set()
        for key in keys:
            if key.value in written:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} stands twice", key.start_mark
                )
            written.add(key.value)
            if key.tag != _MERGE_KEY:
                key.tag = _TEXT
        return super().construct_mapping(node, deep)


for _name, _form in _NUMBERS.items():
    _UniqueKeyLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_name}", re.compile(rf"(?:{_form})\Z"), list("-+.0123456789")
    )


def parse_json(text: bytes, place: str | Path, fix: str) -> Any:
    """Read a JSON text in UTF-8.

    Raises BeamUQError: the ``place``, why it cannot be read, and the ``fix``.
    """
    with reading(place, "valid JSON in UTF-8", fix):
        return json.loads(text.decode("utf-8"))
