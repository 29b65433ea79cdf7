"""Forward passes over a model's own cache, for models that tree attention cannot run.

A model may do its own attention, or keep a recurrent state. Its prompt is run once; what its cache
holds then, and after each generated token, is copied for the rows of the next step. Rows of a pass
are of one question and equally long, so nothing is padded. A node whose parent's cache is gone has
its few tokens run again after the prompt.

Some modules keep a state of their own: a tensor in a plain attribute, which each pass changes. It
is kept and copied together with the cache.
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

_Attribute = tuple[torch.nn.Module, str]
"""An attribute of a module: the module, and the attribute's name."""
_CACHE_NAMES = ("cache", "past_key_values", "cache_params")
"""What versions of transformers call a cache, as an argument and in the output."""


@dataclass(frozen=True)
class _DecoderState:
    """What a pass leaves for the next one.

    ``cache`` is transformers' own. ``attributes`` are the values of the attributes in which modules
    keep a state beside the cache.
    """

    cache: Any
    attributes: Mapping[_Attribute, torch.Tensor | None]

    def copied(self, rows: torch.Tensor) -> _DecoderState:
        """A copy of these rows."""
        return _DecoderState(_copied(self.cache, rows), _copied(self.attributes, rows))


@dataclass
class _NodeStates:
    """A state of the decoder whose rows are those after ``nodes``."""

    nodes: Ints
    state: _DecoderState

    def rows_of(self, nodes: Ints) -> Ints:
        """The rows after each of ``nodes``, -1 for a node without one."""
        row_of_node = {node: row for row, node in enumerate(self.nodes.tolist())}
        return np.array([row_of_node.get(node, -1) for node in nodes.tolist()])


class CachedRunner(BatchRunner):
    """Rows of a question after copies of its cache: for all models that `generate` can run."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._parameters = inspect.signature(self._decoder.forward).parameters
        self._cache_name = cache_argument(self._parameters)
        self._roots: list[_NodeStates] = []
        self._latest: dict[int, list[_NodeStates]] = {}
        self._attributes_before = _tensor_attributes(self._decoder)
        self._changing_attributes: list[_Attribute] = []

    @staticmethod
    @contextmanager
    def opened(model: PreTrainedModel) -> Iterator[torch.nn.Module]:
        decoder = text_decoder(model)
        before = _tensor_attributes(decoder)
        try:
            yield decoder
        finally:
            for module, name in _changed_attributes(decoder, before):
                setattr(module, name, before.get((module, name)))

    def _run_prompts(self) -> None:
        for question, tokens in enumerate(self._prompts):
            root = np.array([question])
            hidden_states, state = self._forward(np.array([tokens]), 0, None)
            self._roots.append(_NodeStates(root, state))
            self._keep(root, hidden_states)
            self._work.prompt_rows += len(tokens)

    def _run_nodes(self, nodes: Ints) -> None:
        for question in np.unique(self._trie.question[nodes]).tolist():
            self._run_question(question, nodes[self._trie.question[nodes] == question])

    def _run_question(self, question: int, nodes: Ints) -> None:
        """Run ``nodes`` of one question, level by level, and keep the states after them."""
        earlier = [self._roots[question], *self._latest.get(question, [])]
        new: list[_NodeStates] = []
        for depth in np.unique(self._trie.depth[nodes]).tolist():
            level = nodes[self._trie.depth[nodes] == depth]
            new += self._states_made_again(question, level, earlier)
            for parents in [*earlier, *new]:
                fresh = level[self._state[level] < 0]
                rows = parents.rows_of(self._trie.parent[fresh])
                passes = self._run_paths(parents, rows[rows >= 0], fresh[rows >= 0, None])
                for hidden_states, node_states in passes:
                    self._keep(node_states.nodes, hidden_states)
                    new.append(node_states)
        self._latest[question] = new

    def _states_made_again(
        self, question: int, level: Ints, earlier: Sequence[_NodeStates]
    ) -> list[_NodeStates]:
        """The states after those parents of ``level`` whose own are gone: they are run again."""
        missing = np.unique(self._trie.parent[level])
        for node_states in earlier:
            missing = missing[node_states.rows_of(missing) < 0]
        if not len(missing):
            return []
        paths = self._trie.ancestors(missing)
        rows = np.zeros(len(paths), np.int64)
        passes = self._run_paths(self._roots[question], rows, paths)
        return [node_states for _, node_states in passes]

    def _run_paths(
        self, parents: _NodeStates, rows: Ints, paths: Ints
    ) -> Iterator[tuple[torch.Tensor, _NodeStates]]:
        """Run the nodes of each path one after the other, each path after its row of ``parents``.

        ``paths`` are (rows, depth). Yields the last hidden states and the decoder's state after as
        many paths as fit at once, until all are run.
        """
        while len(paths):
            result = self._run_paths_that_fit(parents.state, rows, paths)
            if result is not None:
                hidden_states, state = result
                count = len(hidden_states)
                yield hidden_states, _NodeStates(paths[:count, -1], state)
                rows = rows[count:]
                paths = paths[count:]

    def _run_paths_that_fit(
        self, state: _DecoderState, rows: Ints, paths: Ints
    ) -> tuple[torch.Tensor, _DecoderState] | None:
        """Run as many of the first paths as may be run at once.

        Returns their last hidden states, and the decoder's state after them. None: they did not fit
        into memory, and from now on half the rows are run at once.
        """
        count = min(len(rows), self._work.rows_at_once)
        first = paths[0, 0]
        prompt = self._prompts[self._trie.question[first]]
        tokens_before = len(prompt) + int(self._trie.depth[first]) - 1
        try:
            state = state.copied(self._tensor(rows[:count]))
            for position, nodes in enumerate(paths[:count].T, tokens_before):
                tokens = self._trie.token[nodes, None]
                hidden_states, state = self._forward(tokens, position, state)
            return hidden_states, state
        except RuntimeError as error:
            if not out_of_memory(error) or count == 1:
                raise
        self._halve(count)
        return None

    def _forward(
        self, tokens: Ints, tokens_before: int, state: _DecoderState | None
    ) -> tuple[torch.Tensor, _DecoderState]:
        """Run the decoder over ``tokens`` (rows, length), each row of one text.

        ``tokens_before`` tokens of each text were run before, and left ``state``. It is None where
        the tokens are a whole prompt. Returns the last hidden state of each row (rows, width), and
        the decoder's state after the tokens.

        Raises BeamUQError if the decoder takes no cache.
        """
        self._set_attributes(state)
        output = self._decoder(**self._inputs(tokens, tokens_before, state))
        if state is None and not self._roots:
            # The first prompt shows which attributes a pass changes.
            changed = _changed_attributes(self._decoder, self._attributes_before)
            self._changing_attributes = changed
        cache = _returned_cache(output, self._cache_name)
        if state is None and not self._cache_name:
            raise BeamUQError("keeps no cache")
        if cache is None and state is None:
            # Some models return no cache, but fill the one that they are given: give an empty one.
            config: Any = self._decoder.config
            empty = _DecoderState(DynamicCache(config=config), {})
            return self._forward(tokens, tokens_before, empty)
        if cache is None and state is not None:
            cache = state.cache
        hidden_states = output.last_hidden_state[:, -1]
        attributes = {
            (module, name): getattr(module, name) for module, name in self._changing_attributes
        }
        # The last layers may lie on another card.
        return hidden_states.to(self._device), _DecoderState(cache, attributes)

    def _set_attributes(self, state: _DecoderState | None) -> None:
        """Give modules the attributes of ``state``, or where it has none those before any pass."""
        attributes = {} if state is None else state.attributes
        for attribute in self._changing_attributes:
            value = attributes.get(attribute, self._attributes_before.get(attribute))
            setattr(*attribute, value)

    def _inputs(
        self, tokens: Ints, tokens_before: int, state: _DecoderState | None
    ) -> dict[str, object]:
        """The arguments of the decoder's forward: ids, positions where it takes them, the cache."""
        inputs: dict[str, object] = {"input_ids": self._tensor(tokens), "use_cache": True}
        if "position_ids" in self._parameters:  # some count them from nought else
            positions = np.arange(tokens_before, tokens_before + tokens.shape[1])
            inputs["position_ids"] = self._tensor(positions[None]).expand(tokens.shape)
        if state is not None:
            inputs[self._cache_name] = state.cache
        return inputs


def cache_argument(parameters: Mapping[str, inspect.Parameter]) -> str:
    """The name under which a forward with these parameters takes its cache; "" if it takes none.

    A name that no version has had yet is known by its annotation.
    """
    for name in _CACHE_NAMES:
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
    for name in (argument, *_CACHE_NAMES):
        cache = getattr(output, name, None) if name else None
        if cache is not None:
            return cache
    return next((value for value in output.values() if isinstance(value, Cache)), None)


def _tensor_attributes(decoder: torch.nn.Module) -> dict[_Attribute, torch.Tensor | None]:
    """The plain attributes of modules that are tensors or None: some modules keep a state there."""
    return {
        (module, name): value
        for module in decoder.modules()
        for name, value in vars(module).items()
        if value is None or isinstance(value, torch.Tensor)
    }


def _changed_attributes(
    decoder: torch.nn.Module, before: Mapping[_Attribute, torch.Tensor | None]
) -> list[_Attribute]:
    """The attributes that are another tensor than ``before``."""
    attributes = _tensor_attributes(decoder)
    return [
        attribute for attribute, value in attributes.items() if value is not before.get(attribute)
    ]


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
