"""The lengths at which a model begins to attend otherwise: windows, chunks, top-k of sparse attention, and their like.

A text that is shorter than such a length says nothing about how it is applied. Classes name theirs as they like, so
they are known by the form of the name, in the config and in the modules, and not by a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import torch

_LENGTH = re.compile(
    "window|chunk|block_size|top_?k|budget|kpool|compress|floor_scale|n_floor|extent|stride|span|local_attention"
)
_NO_LENGTH = re.compile(
    "expert|layer|group|head|method|dim|dropout|pattern|moe|router|rank|feed_forward|rope|norm|^top_k$"
)
_CHOOSES_EXPERTS = re.compile("Router|MoE|Moe|Expert|Gate|MLP|TopK")
_SCALED_BY_POSITION = "llama_4_scaling_beta"
_SCALED_FROM = "original_max_position_embeddings"


@dataclass
class Length:
    """A length of a model: its ``name``, its largest ``value`` in tokens, and the attributes that hold it."""

    name: str
    value: int
    places: list[tuple[Any, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}={self.value}"


def lengths_of(decoder: torch.nn.Module) -> list[Length]:
    """The lengths of a decoder's config and modules, by name; empty if it has none."""
    found: dict[str, Length] = {}
    for holder in (decoder.config, *filter(_attends, decoder.modules())):
        for name, held in vars(holder).items():
            value = _tokens(name, held)
            if value is not None:
                length = found.setdefault(name, Length(name, value))
                length.value = max(length.value, value)
                length.places.append((holder, name))
    return [found[name] for name in sorted(found)]


def _attends(module: torch.nn.Module) -> bool:
    """Whether a length of a module may be one of the text: torch's own parts and those that choose experts have none."""
    kind = type(module)
    return not kind.__module__.startswith("torch.") and not _CHOOSES_EXPERTS.search(kind.__name__)


def _tokens(name: str, held: object) -> int | None:
    """The length in tokens that an attribute holds, the largest of several; None if it holds none."""
    if name == "rope_parameters":
        return held.get(_SCALED_FROM) if isinstance(held, Mapping) and held.get(_SCALED_BY_POSITION) else None
    if not _LENGTH.search(name) or _NO_LENGTH.search(name):
        return None
    parts: Sequence[object]
    if isinstance(held, Mapping):
        parts = list(held.values())
    elif isinstance(held, list | tuple):
        parts = held
    else:
        parts = [held]
    numbers = [part for part in parts if isinstance(part, int) and not isinstance(part, bool) and part > 0]
    return max(numbers, default=None)


@contextmanager
def shortened(length: Length, tokens: int) -> Iterator[None]:
    """Within the block ``length`` is of so many ``tokens`` wherever it was more."""
    before = [(holder, name, vars(holder)[name]) for holder, name in length.places]
    for holder, name, held in before:
        vars(holder)[name] = _cut(name, held, tokens)
    try:
        yield
    finally:
        for holder, name, held in before:
            vars(holder)[name] = held


def _cut(name: str, held: Any, tokens: int) -> Any:
    if name == "rope_parameters":
        return {**held, _SCALED_FROM: min(held[_SCALED_FROM], tokens)}
    if isinstance(held, Mapping):
        cut: Any = copy(held)
        cut.update({key: _cut("", part, tokens) for key, part in held.items()})
        return cut
    if isinstance(held, list | tuple):
        return type(held)(_cut("", part, tokens) for part in held)
    return min(held, tokens) if type(held) is int else held
