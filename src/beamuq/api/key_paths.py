"""Paths into a row of another tool: ``output.text``, and the nearest one where a path is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

ABSENT = object()
DEEPEST = 8  # keys of a path that is suggested
MOST_PATHS = 2000  # of a row, that are looked at for the nearest
MOST_NAMED = 3  # paths that a message suggests
MOST_LISTED = 12  # of all paths, where none is near
AS_NEAR = 0.05  # of difflib's ratio, by which a further suggestion may be worse than the best


def value_at(row: Any, path: str) -> Any:
    """What stands at a path; ``ABSENT``: nothing does.

    Behind null is null. Of a list null stands for each object that lacks a key others have.
    """
    if isinstance(row, Mapping) and path in row:
        return row[path]
    first, _, rest = path.partition(".")
    value = _step(row, first)
    if value is ABSENT or not rest:
        return value
    return value_at(value, rest)


def _step(value: Any, name: str) -> Any:
    """One step of a path: a key of an object, a place of a list, or a key of all its objects."""
    if value is None:
        return None
    if isinstance(value, Mapping):
        return value.get(name, ABSENT)
    if not isinstance(value, list):
        return ABSENT
    if name.isdigit():
        return value[int(name)] if int(name) < len(value) else ABSENT
    parts = [_step(part, name) for part in value]
    if all(part is ABSENT for part in parts):
        return ABSENT
    return [None if part is ABSENT else part for part in parts]


def empty_list_at(row: Any, path: str) -> str:
    """The beginning of a path that leads to an empty list, behind which is nothing; "": none is."""
    parts = path.split(".")
    beginnings = [".".join(parts[:count]) for count in range(1, len(parts))]
    return next((name for name in beginnings if value_at(row, name) == []), "")


def hint_of_path(row: Mapping[str, Any], path: str) -> str:
    """A sentence on a path that leads nowhere: the nearest paths of the row, or else all of them.

    All are whole paths, as an option takes them.
    """
    paths = _paths(row, path)
    near = _nearest(path, paths)
    if near:
        return f"did you mean {' or '.join(repr(name) for name in near)}?"
    listed = ", ".join(paths[:MOST_LISTED])
    more = ", …" if len(paths) > MOST_LISTED else ""
    return f"there are: {listed}{more}." if paths else "the row has no key."


def _paths(row: Mapping[str, Any], path: str) -> list[str]:
    """The paths that lead somewhere; of lists by places only where ``path`` names places."""
    names_places = any(part.isdigit() for part in path.split("."))
    all_paths = islice(_paths_below(row, "", DEEPEST, names_places), MOST_PATHS)
    return [name for name in dict.fromkeys(all_paths) if value_at(row, name) is not ABSENT]


def _paths_below(value: Any, prefix: str, depth: int, names_places: bool) -> Iterator[str]:
    if not depth:
        return
    for name, part in _parts(value, names_places):
        yield f"{prefix}{name}"
        yield from _paths_below(part, f"{prefix}{name}.", depth - 1, names_places)


def _parts(value: Any, names_places: bool) -> list[tuple[str, Any]]:
    """The keys of an object, or of a list's objects, or the places of a list, with their values."""
    if isinstance(value, Mapping):
        return [(str(name), part) for name, part in value.items()]
    if not isinstance(value, list):
        return []
    if names_places:
        return [(str(place), part) for place, part in enumerate(value)]
    first = next((part for part in value if isinstance(part, dict)), {})
    return [(str(name), part) for name, part in first.items()]


def _nearest(path: str, paths: list[str]) -> list[str]:
    """The paths spelt most alike, the best first; where none is alike those that end as it does."""
    last = path.rpartition(".")[2].lower()
    nearness = {name: _nearness(path, name) for name in paths}
    by_nearness = sorted(paths, key=nearness.__getitem__, reverse=True)
    alike = difflib.get_close_matches(path.lower(), [name.lower() for name in paths], n=1)
    least = nearness[by_nearness[0]] - AS_NEAR if alike else 1.0
    near = [name for name in by_nearness if nearness[name] >= least]
    same_end = [name for name in by_nearness if name.rpartition(".")[2].lower() == last]
    return (near or same_end)[:MOST_NAMED]


def _nearness(path: str, name: str) -> float:
    return difflib.SequenceMatcher(None, path.lower(), name.lower()).ratio()
