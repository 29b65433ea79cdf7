"""GPUs that are not there: tensors that say ``cuda:0`` and live on the CPU, so that a GPU's code
paths run anywhere.

As on a real card, an operation on tensors of two devices fails. What crosses between host and card
is counted. Kernels are the CPU's: this finds tensors left on the wrong device and needless waiting;
it says nothing of a card's numbers, speed or memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

CARD, SECOND = torch.device("cuda", 0), torch.device("cuda", 1)
aten = torch.ops.aten
_MAKERS = {torch.tensor, torch.as_tensor, torch.asarray}
_WAITS = {
    aten._local_scalar_dense.default,
    aten.nonzero.default,
    aten.equal.default,
    aten.masked_select.default,
}
_WAITS |= {aten.isin.Tensor_Tensor, aten._unique2.default}


def _stand_in(card: Any) -> torch.device:
    """A build without CUDA refuses to touch tensors of a card, so torch's own code is told of this
    device.
    """
    return torch.device("meta", torch.device(card).index or 0)


class _OnCard(torch.Tensor):
    """A tensor of a pretended card; ``inner`` holds its numbers."""

    inner: torch.Tensor
    device = CARD
    is_cuda = True
    is_meta = False
    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise AssertionError(f"{func}: a tensor of the pretended card is used outside of it")


def _on_card(inner: torch.Tensor, index: int = 0) -> _OnCard:
    """A tensor on the pretended card of this number."""
    # no view of it asks for a version counter, which only a real tensor has
    with torch.inference_mode():
        tensor: _OnCard = torch.Tensor._make_wrapper_subclass(
            _OnCard,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=_stand_in(CARD),
        )
    tensor.inner = inner
    tensor.device = torch.device("cuda", index)
    return tensor


class _Names(TorchFunctionMode):
    """Lets the names of the card stand for the stand-in, before torch looks for a driver."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _MAKERS and _is_card(kwargs.get("device")):
            there = _stand_in(kwargs.pop("device"))
            return func(*args, **kwargs).to(there)
        if func is torch.Tensor.to and isinstance(
            args[0], _OnCard
        ):  # the stand-in has no second card to go to
            to = next(
                (
                    each
                    for each in (*args[1:], kwargs.get("device"))
                    if isinstance(each, torch.device)
                ),
                None,
            )
            if to is not None and _is_card(to) and to != args[0].device:
                args = (_on_card(args[0].inner.clone(), to.index), *args[1:])
        if "device" in kwargs and _is_card(kwargs["device"]):
            kwargs["device"] = _stand_in(kwargs["device"])
        if func is torch.Tensor.tolist:  # refused for every subclass
            args = (args[0].cpu(),)
        named = (
            _stand_in(arg) if isinstance(arg, torch.device) and _is_card(arg) else arg
            for arg in args
        )
        return func(*named, **kwargs)


class PretendCard(TorchDispatchMode):
    """The card while it is there, with ``free`` bytes of memory.

    ``waits`` counts, by operation, how often the host waited for it; ``launches`` counts operations
    that make or change numbers there, views and empty tensors left out: a real card may take
    several kernels for one of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: Counter[str] = Counter()
        self.launches: Counter[str] = Counter()
        self.free = 1 << 40

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = list(_leaves((*args, *kwargs.values())))
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        there = [isinstance(tensor, _OnCard) for tensor in tensors]
        named = [value for value in given if isinstance(value, torch.device)]
        on_card = named[0].type == "meta" if named else any(there)
        cards = {tensor.device.index for tensor in tensors if isinstance(tensor, _OnCard)}
        card = named[0].index or 0 if named else min(cards, default=0)
        if (
            (on_card or any(there))
            and _can_decompose(func)
            and func is not aten.scaled_dot_product_attention.default
        ):
            # Under inference_mode, composite operations come whole; what they do to each device is
            # in their parts.
            with self:
                return func.decompose(*args, **kwargs)
        if func is aten.copy_.default:
            self._crossed(there[1], there[0], bool(args[2:] and args[2]))
        elif func is aten._to_copy.default:
            self._crossed(there[0], on_card, kwargs.get("non_blocking", False))
        elif any(there):
            strangers = [t for t, own in zip(tensors, there, strict=True) if not own and t.dim()]
            assert not strangers, (
                f"{func}: tensors on the card and on the CPU, {[tuple(t.shape) for t in strangers]}"
            )
            assert len(cards) == 1, f"{func}: tensors on the cards {sorted(cards)}"
            picked = func in (aten.index.Tensor, aten.index_put_.default)
            if func in _WAITS or (
                picked and any(t is not None and t.dtype == torch.bool for t in args[1])
            ):
                self.waits[str(func)] += 1
        if (on_card or any(there)) and not _is_free(func):
            self.launches[str(func)] += 1
        args, kwargs = (
            _mapped(_inner, args),
            {name: _mapped(_inner, value) for name, value in kwargs.items()},
        )
        if func is aten.mm.dtype:  # which CPUs do not have
            func, args = aten.mm.default, tuple(matrix.to(args[2]) for matrix in args[:2])
        found = func(*args, **kwargs)
        if not on_card:
            return found
        return _mapped(
            lambda value: _on_card(value, card) if isinstance(value, torch.Tensor) else value, found
        )

    def _crossed(self, source: bool, target: bool, goes_on: bool) -> None:
        self.waits["copy to the host"] += source and not target
        self.waits["copy to the card"] += target and not source and not goes_on

    @torch.inference_mode()
    def hold(self, module: torch.nn.Module, card: torch.device = CARD) -> None:
        """Move ``module`` to a card, for good."""
        for part in module.modules():
            for own in (part._parameters, part._buffers):
                for name, value in own.items():
                    if value is not None:
                        there = value.detach().to(card)
                        own[name] = (
                            torch.nn.Parameter(there, requires_grad=False)
                            if own is part._parameters
                            else there
                        )


@cache
def _can_decompose(func: Any) -> bool:
    return bool(func._can_decompose())


@cache
def _is_free(func: Any) -> bool:
    """Whether an operation runs no kernel: it makes a view, or memory without numbers."""
    views = any(
        made.alias_info is not None and not made.alias_info.is_write
        for made in func._schema.returns
    )
    return views or any(word in func._schema.name for word in ("empty", "_unsafe_view"))


# What operations take and give are lists and tuples, seldom nested: torch's walk over any tree
# takes half of a test.
def _leaves(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _leaves(value)
        else:
            yield value


def _mapped(change: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)([_mapped(change, each) for each in value])
    return change(value)


def _inner(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return value.inner if isinstance(value, _OnCard) else value


def _is_card(device: Any) -> bool:
    return device is not None and torch.device(device).type == "cuda"


@contextmanager
def pretend_card(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendCard]:
    """A machine with one GPU for the time of the block."""
    for name in ("_lazy_init", "empty_cache", "synchronize"):
        monkeypatch.setattr(torch.cuda, name, lambda _=None: None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    card = PretendCard()
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _=None: (card.free, card.free))
    for name in ("memory_reserved", "memory_allocated"):
        monkeypatch.setattr(torch.cuda, name, lambda _=None: 0)
    with card, _Names():
        yield card
