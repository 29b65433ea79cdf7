"""Forward passes over a model's own cache, for models that tree attention cannot run.

A model may do its own attention, or keep a recurrent state. Its prompt is run once; what its cache
holds then, and after each generated token, is copied for the rows of the next step. Rows of a pass
are of one question and equally long, so nothing is padded. A node whose parent's cache is gone has
its few tokens run again behind the prompt.
"""

from __future__ import annotations

import copy
import inspect
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import Cache, DynamicCache, PreTrainedConfig, PreTrainedModel

from beamuq.array_types import Ints
from beamuq.decoding.forward_passes import BatchRunner, out_of_memory
from beamuq.decoding.output_layer import text_decoder
from beamuq.errors import BeamUQError

_Place = tuple[torch.nn.Module, str]
_NAMES = ("cache", "past_key_values", "cache_params")
"""What versions of transformers call a cache, as an argument and in the output."""


@dataclass
class _Cached:
    """A cache whose rows are after ``nodes``."""

    nodes: Ints
    cache: Any

    def rows_of(self, nodes: Ints) -> Ints:
        """The rows after each of ``nodes``, -1 for a node without one."""
        places = {node: row for row, node in enumerate(self.nodes.tolist())}
        return np.array([places.get(node, -1) for node in nodes.tolist()])


class CachedRunner(BatchRunner):
    """Rows of a question behind copies of its cache: for all models that `generate` can run."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._parameters = inspect.signature(self._decoder.forward).parameters
        self._name = cache_argument(self._parameters)
        self._roots: list[_Cached] = []
        self._latest: dict[int, list[_Cached]] = {}
        self._clean = _held(self._decoder)
        self._moving: list[_Place] = []

    @staticmethod
    @contextmanager
    def opened(model: PreTrainedModel) -> Iterator[torch.nn.Module]:
        decoder = text_decoder(model)
        clean = _held(decoder)
        try:
            yield decoder
        finally:
            for module, name in _changed(decoder, clean):
                setattr(module, name, clean.get((module, name)))

    def _run_prompts(self) -> None:
        for question, tokens in enumerate(self._prompts):
            root = np.array([question])
            states, cache = self._forward(np.array([tokens]), 0, None)
            self._roots.append(_Cached(root, cache))
            self._keep(root, states)
            self._work.prompt_rows += len(tokens)

    def _run_nodes(self, nodes: Ints) -> None:
        for question in np.unique(self._trie.question[nodes]).tolist():
            self._run_question(question, nodes[self._trie.question[nodes] == question])

    def _run_question(self, question: int, nodes: Ints) -> None:
        """Run ``nodes`` of one question, level by level, and keep the caches after them."""
        earlier_caches = [self._roots[question], *self._latest.get(question, [])]
        new_caches: list[_Cached] = []
        for depth in np.unique(self._trie.depth[nodes]).tolist():
            level = nodes[self._trie.depth[nodes] == depth]
            new_caches += self._caches_made_again(question, level, earlier_caches)
            for before in [*earlier_caches, *new_caches]:
                fresh = level[self._state[level] < 0]
                rows = before.rows_of(self._trie.parent[fresh])
                behind = self._behind(before, rows[rows >= 0], fresh[rows >= 0, None])
                for states, cached in behind:
                    self._keep(cached.nodes, states)
                    new_caches.append(cached)
        self._latest[question] = new_caches

    def _caches_made_again(
        self, question: int, level: Ints, earlier_caches: Sequence[_Cached]
    ) -> list[_Cached]:
        """Caches after those parents of ``level`` whose own are gone: they are run once more."""
        missing = np.unique(self._trie.parent[level])
        for cached in earlier_caches:
            missing = missing[cached.rows_of(missing) < 0]
        if not len(missing):
            return []
        paths = self._trie.ancestors(missing)
        rows = np.zeros(len(paths), np.int64)
        return [cached for _, cached in self._behind(self._roots[question], rows, paths)]

    def _behind(
        self, before: _Cached, rows: Ints, paths: Ints
    ) -> Iterator[tuple[torch.Tensor, _Cached]]:
        """Run the nodes of ``paths`` (rows, depth) one after the other behind ``rows`` of a cache.

        Yields the last hidden states and the cache after as many paths as fit at once, until all
        are run.
        """
        while len(paths):
            result = self._fitting(before.cache, rows, paths)
            if result is not None:
                states, cache = result
                yield states, _Cached(paths[: len(states), -1], cache)
                rows = rows[len(states) :]
                paths = paths[len(states) :]

    def _fitting(self, cache: Any, rows: Ints, paths: Ints) -> tuple[torch.Tensor, Any] | None:
        """As many paths of `_behind` as fit, their last hidden states and their cache.

        None, and half the rows from now on, if that did not fit.
        """
        count = min(len(rows), self._work.rows_at_once)
        first = paths[0, 0]
        behind = len(self._prompts[self._trie.question[first]]) + int(self._trie.depth[first]) - 1
        try:
            cache = _copied(cache, self._tensor(rows[:count]))
            for place, nodes in enumerate(paths[:count].T, behind):
                states, cache = self._forward(self._trie.token[nodes, None], place, cache)
            return states, cache
        except RuntimeError as error:
            if not out_of_memory(error) or count == 1:
                raise
        self._halve(count)
        return None

    def _forward(self, tokens: Ints, behind: int, cache: Any) -> tuple[torch.Tensor, Any]:
        """Last hidden states (rows, width) after ``tokens`` (rows, length), and the new cache.

        They come ``behind`` so many. A cache is transformers' own, and what modules hold beside it.
        """
        held: dict[Any, Any] = cache or {}
        for module, name in self._moving:
            setattr(module, name, held.get((module, name), self._clean.get((module, name))))
        output = self._decoder(**self._inputs(tokens, behind, cache))
        if cache is None and not self._roots:
            self._moving = _changed(self._decoder, self._clean)
        new_cache = _returned_cache(output, self._name)
        if cache is None and not self._name:
            raise BeamUQError("keeps no cache")
        if new_cache is None and cache is None:
            config: Any = self._decoder.config  # one that fills what it is given, and returns none
            return self._forward(tokens, behind, {self._name: DynamicCache(config=config)})
        states = output.last_hidden_state[:, -1]
        own_cache = held.get(self._name) if new_cache is None else new_cache
        beside = {(module, name): getattr(module, name) for module, name in self._moving}
        # The last layers may lie on another card.
        return states.to(self._device), {self._name: own_cache, **beside}

    def _inputs(self, tokens: Ints, behind: int, cache: Any) -> dict[str, object]:
        """The decoder's arguments for ``tokens`` that come ``behind`` so many, in a ``cache``."""
        inputs: dict[str, object] = {"input_ids": self._tensor(tokens), "use_cache": True}
        if "position_ids" in self._parameters:  # some count them from nought else
            positions = self._tensor(np.arange(behind, behind + tokens.shape[1])[None])
            inputs["position_ids"] = positions.expand(tokens.shape)
        if cache is not None:
            inputs[self._name] = cache[self._name]
        return inputs


def cache_argument(parameters: Mapping[str, inspect.Parameter]) -> str:
    """The name under which a forward with these parameters takes its cache; "" if it takes none.

    A name that no version has had yet is known by its annotation.
    """
    for name in _NAMES:
        if name in parameters:
            return name
    for name, parameter in parameters.items():
        if _is_cache_type(parameter.annotation):
            return name
    return ""


def _is_cache_type(annotation: Any) -> bool:
    """Whether an annotation, such as ``Cache | None`` or its text, allows transformers' cache."""
    if isinstance(annotation, str):
        return any(word.endswith("Cache") for word in re.findall(r"\w+", annotation))
    kinds = typing.get_args(annotation) or (annotation,)
    return any(isinstance(kind, type) and issubclass(kind, Cache) for kind in kinds)


def _returned_cache(output: Any, argument: str) -> Any:
    """The cache in a decoder's ``output``; None if it returns none.

    It need not have the name of the ``argument``: a class of an older version may return its cache
    in an output of the newest.
    """
    for name in (argument, *_NAMES):
        cache = getattr(output, name, None) if name else None
        if cache is not None:
            return cache
    return next((value for value in output.values() if isinstance(value, Cache)), None)


def _held(decoder: torch.nn.Module) -> dict[_Place, torch.Tensor | None]:
    """The tensors that modules hold as plain attributes, and None: some keep their state there."""
    return {
        (module, name): value
        for module in decoder.modules()
        for name, value in vars(module).items()
        if value is None or isinstance(value, torch.Tensor)
    }


def _changed(
    decoder: torch.nn.Module, before: Mapping[_Place, torch.Tensor | None]
) -> list[_Place]:
    """Where modules hold another tensor than ``before``."""
    return [place for place, value in _held(decoder).items() if value is not before.get(place)]


def _copied(held: Any, rows: torch.Tensor) -> Any:
    """A copy of ``rows`` of a cache: the first dimension of every tensor in it and its layers.

    Its own `reorder_cache` would leave out what some caches hold beside their layers.
    """
    if isinstance(held, torch.Tensor):
        return held.index_select(0, rows.to(held.device)) if held.dim() > 1 else held
    if isinstance(held, list | tuple):
        return type(held)(_copied(part, rows) for part in held)
    if isinstance(held, dict):
        return {name: _copied(part, rows) for name, part in held.items()}
    if type(held).__module__.startswith("transformers.") and not isinstance(held, PreTrainedConfig):
        copied = copy.copy(held)
        vars(copied).update(_copied(vars(held), rows))
        return copied
    return held
