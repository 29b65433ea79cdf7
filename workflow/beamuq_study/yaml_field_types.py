"""Kinds of values that keys of a study and of config.yaml take, each refused with what is meant instead."""

from __future__ import annotations

import json
import os
import re
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field

from beamuq.errors import hint
from beamuq.plugins import FORM

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$", max_length=64, description="safe in a file name")]
Positive = Annotated[int, Field(ge=1, le=1_000_000)]  # far above what is decoded, and what memory bears


def one_of(choices: tuple[str, ...]) -> Any:
    """One of ``choices``, or ``module:attribute`` of one's own; another name is told with the nearest of them."""

    def check(name: Any) -> Any:
        if isinstance(name, str) and name not in choices and not re.fullmatch(FORM, name):
            raise ValueError(f"unknown name; {hint(name, choices, ', or module:attribute of your own')}")
        return name

    return BeforeValidator(check)


def shaped(pattern: str, meaning: str) -> Any:
    """A text of this pattern; another is told what is meant, not the pattern."""

    def check(text: Any) -> Any:
        if isinstance(text, str) and not re.fullmatch(pattern, text):
            raise ValueError(f"write {meaning}")
        return text

    return BeforeValidator(check)


def each_once(items: list[Any]) -> list[Any]:
    """The same list. Raises ValueError naming the first item that stands twice."""
    seen = set()
    for item in items:
        if item in seen:
            raise ValueError(f"{json.dumps(item)} stands twice; drop one")
        seen.add(item)
    return items


def from_home(place: Any) -> Any:
    """A path, or ``folder:PATH``, whose leading ``~`` is a home, as in a shell."""
    if not isinstance(place, str):
        return place
    kind = "folder:" if place.startswith("folder:") else ""
    return kind + os.path.expanduser(place.removeprefix(kind))  # noqa: PTH111  (keeps others as written)


def one_or_more(kind: Any) -> Any:
    """A list of numbers of this kind, or one of them alone."""
    return BeforeValidator(
        lambda value: value if isinstance(value, list) else [value], json_schema_input_type=kind | Distinct[kind]
    )


T = TypeVar("T")
Distinct = Annotated[list[T], AfterValidator(each_once), Field(json_schema_extra={"uniqueItems": True})]
FROM_HOME = BeforeValidator(from_home)
EXPANDED = shaped(r"[^$~][^$]*", "a path with nothing left for a shell to put in: no $NAME, no ~name")
