"""What a model computes with, to be compared: has anything changed since its check?

A check of a model holds for the model as it was. Hooks, adapters, another attention or precision,
parts replaced or in training mode can change what either path or the plain forward pass computes,
and all of them may come after the check.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import torch
from torch.nn.modules import module as modules_of_torch
from transformers import PreTrainedConfig

State = tuple[object, ...]

_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module())) - {"training"}
_GLOBAL_HOOKS = ("_global_forward_pre_hooks", "_global_forward_hooks")
_PLAIN_TYPES = (bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)


class _Identity:
    """Which object it is: equal to itself alone. It is not kept alive: it may hold the model."""

    def __init__(self, value: object) -> None:
        self._kind = type(value)
        try:
            self._reference: Any = weakref.ref(value)
        except TypeError:
            self._reference = None
        self._number = id(value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Identity):
            return NotImplemented
        if self._reference is None or other._reference is None:
            return (self._kind, self._number) == (other._kind, other._number)
        value = self._reference()
        return value is not None and value is other._reference()

    def __hash__(self) -> int:
        return self._number


def state_of(model: torch.nn.Module) -> State:
    """Everything that decides what ``model`` computes, as far as it can be told; compare by ``==``.

    Of each module: its class and that class' forward, its own attributes (a forward of its own, the
    mode, windows, an adapter's name and whether it is merged or disabled), its hooks, and its
    parameters (which they are, their version, dtype, device). Of the model: its configs, the
    attention among their values. Of the process: global hooks and autocast. Tensors that a module
    holds beside its parameters are left out: some are replaced by every pass.
    """
    configs: dict[int, object] = {}
    parts = tuple((name, _of_module(module, configs)) for name, module in model.named_modules())
    hooks = tuple(tuple(getattr(modules_of_torch, name)) for name in _GLOBAL_HOOKS)
    devices = sorted({parameter.device.type for parameter in model.parameters()})
    autocast = tuple(
        (kind, torch.get_autocast_dtype(kind))
        for kind in devices
        if kind != "meta" and torch.is_autocast_enabled(kind)
    )
    return parts, tuple(configs.values()), hooks, autocast


def _of_module(module: torch.nn.Module, configs: dict[int, object]) -> State:
    """What a module is and has; configs, which many share, are put aside into ``configs`` once."""
    kind = type(module)
    # Their numbers, which are never used again.
    hooks = (*module._forward_pre_hooks, None, *module._forward_hooks)
    parameters = tuple((name, _of_parameter(tensor)) for name, tensor in module._parameters.items())
    own: list[tuple[str, object]] = []
    for name, value in vars(module).items():
        if name in _OF_EVERY_MODULE or isinstance(value, torch.Tensor):
            continue
        if isinstance(value, PreTrainedConfig):
            if id(value) not in configs:
                configs[id(value)] = _comparable(vars(value))
            own.append((name, id(value)))
        else:
            own.append((name, _comparable(value)))
    return kind, _Identity(kind.forward), hooks, parameters, tuple(own)


def _of_parameter(tensor: torch.Tensor | None) -> State:
    """What a parameter is, and its version."""
    if tensor is None:
        return ()
    kind = (tensor.shape, tensor.dtype, tensor.device)
    if tensor.is_meta:  # weights that are fetched for each pass are another tensor after it
        return kind
    return (*kind, id(tensor), None if tensor.is_inference() else tensor._version)


def _comparable(value: object) -> object:
    """What is compared of ``value``: equal before and after, unless ``value`` has changed.

    A plain value is compared by what it prints: so NaN is equal to NaN, and 1 is not True.
    Containers and configs are compared part by part. Tensors are left out: some are replaced by
    every pass, though the model stays the same. Any other object is compared by its identity.
    """
    if value is None or isinstance(value, _PLAIN_TYPES):
        return repr(value)
    if isinstance(value, PreTrainedConfig):
        return _comparable(vars(value))
    if isinstance(value, Mapping):
        return tuple((repr(name), _comparable(part)) for name, part in value.items())
    if isinstance(value, list | tuple):
        return tuple(_comparable(part) for part in value)
    if isinstance(value, set | frozenset):
        return frozenset(_comparable(part) for part in value)
    if isinstance(value, torch.Tensor):
        return None
    return _Identity(value)
