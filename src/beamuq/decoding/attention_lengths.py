"""The lengths at which a model begins to attend otherwise: windows, chunks, top-k and their like.

A text that is shorter than such a length says nothing about how it is applied. Classes name theirs
as they like, so they are known by the form of the name, in the config and in the modules, and not
by a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import PreTrainedConfig

_LENGTH = re.compile(
    "window|chunk|block_size|top_?k|budget|kpool|compress|floor_scale|n_floor|extent|stride|span|local_attention"
)
_NO_LENGTH = re.compile(
    "expert|layer|group|head|method|dim|dropout|pattern|moe|router|rank|feed_forward|rope|norm|^top_k$"
)
_CHOOSES_EXPERTS = re.compile("Router|Expert|Gate$|Gating|MLP|Mlp|MoE$|Moe$|Moe.*Block$|TopK")
_COUNTS_BLOCKS = re.compile("blocks|top_?k")
_SHORT = 8
_FEW = 2
_LONGEST = 24
_SCALED_BY_POSITION = "llama_4_scaling_beta"
_SCALED_FROM = "original_max_position_embeddings"


@dataclass
class Length:
    """A length of a model: its ``name``, its largest ``value``, and the attributes that hold it.

    It is in tokens, or where the name says so in what may be blocks of them: how many blocks or
    best keys are seen.
    """

    name: str
    value: int
    places: list[tuple[Any, str]] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.name}={self.value}"

    @property
    def in_blocks(self) -> bool:
        """Whether it may count blocks, so that not even a text of more tokens need have as many."""
        return _COUNTS_BLOCKS.search(self.name) is not None

    @property
    def is_short(self) -> bool:
        """Whether a text of forty tokens is longer, so that nothing need be done to reach it."""
        return self.value < _LONGEST and not self.in_blocks

    @contextmanager
    def shortened(self) -> Iterator[None]:
        """Within the block it is so short, wherever it is held, that the probe is longer."""
        tokens = _FEW if self.in_blocks else _SHORT
        before = [(holder, name, vars(holder)[name]) for holder, name in self.places]
        for holder, name, held in before:
            vars(holder)[name] = _cut(name, held, tokens)
        try:
            yield
        finally:
            for holder, name, held in before:
                vars(holder)[name] = held


def lengths_of(decoder: torch.nn.Module) -> list[Length]:
    """The lengths of a decoder's config and modules, by name; empty if it has none.

    Two names of one value, one of which the config or the form of the other makes its alias, are
    one length.
    """
    lengths: dict[str, Length] = {}
    for holder in (*_configs(decoder), *filter(_attends, decoder.modules())):
        for name, held in vars(holder).items():
            value = _tokens(name, held)
            if value is not None:
                length = lengths.setdefault(name, Length(name, value))
                length.value = max(length.value, value)
                length.places.append((holder, name))
    aliases: Mapping[str, str] = getattr(decoder.config, "attribute_map", {})
    merged: list[Length] = []
    for name in sorted(lengths, key=lambda name: (-len(name), name)):
        length = lengths[name]
        twin = next((other for other in merged if _is_alias(length, other, aliases)), None)
        if twin is None:
            merged.append(length)
        else:
            twin.places += length.places
    return sorted(merged, key=lambda length: length.name)


def _is_alias(length: Length, other: Length, aliases: Mapping[str, str]) -> bool:
    """Whether ``length`` is another name of ``other``: of one value, and by ``aliases`` or form."""
    is_named_so = length.name in other.name or aliases.get(length.name) == other.name
    return other.value == length.value and is_named_so


def _configs(decoder: torch.nn.Module) -> list[Any]:
    """The config of a decoder, and those that its modules hold beside it."""
    configs: dict[int, Any] = {id(decoder.config): decoder.config}
    for module in decoder.modules():
        own: list[Any] = list(vars(module).values())
        configs |= {id(held): held for held in own if isinstance(held, PreTrainedConfig)}
    return list(configs.values())


def _attends(module: torch.nn.Module) -> bool:
    """Whether a length of a module may be one of the text: not torch's own, not one of experts."""
    kind = type(module)
    return not kind.__module__.startswith("torch.") and not _CHOOSES_EXPERTS.search(kind.__name__)


def _tokens(name: str, held: object) -> int | None:
    """The length that an attribute holds, the largest of several; None if it holds none."""
    if name == "rope_parameters":
        scaled = isinstance(held, Mapping) and held.get(_SCALED_BY_POSITION)
        return held.get(_SCALED_FROM) if scaled else None  # type: ignore[attr-defined]
    if not _LENGTH.search(name) or _NO_LENGTH.search(name):
        return None
    parts: Sequence[object]
    if isinstance(held, Mapping):
        parts = list(held.values())
    elif isinstance(held, list | tuple):
        parts = held
    else:
        parts = [held]
    numbers = [part for part in parts if type(part) is int and part > 0]
    return max(numbers, default=None)


def _cut(name: str, held: Any, tokens: int) -> Any:
    """What an attribute holds, with no length in it above ``tokens``."""
    if name == "rope_parameters":
        return {**held, _SCALED_FROM: min(held[_SCALED_FROM], tokens)}
    if isinstance(held, Mapping):
        cut: Any = copy(held)
        cut.update({key: _cut("", part, tokens) for key, part in held.items()})
        return cut
    if isinstance(held, list | tuple):
        return type(held)(_cut("", part, tokens) for part in held)
    return min(held, tokens) if type(held) is int and held > 0 else held
