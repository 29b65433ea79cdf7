"""A model's text decoder, and its own output layer: hidden states to logits, in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import functional
from transformers import PreTrainedModel
from transformers.modeling_outputs import BaseModelOutputWithPast

from beamuq.errors import BeamUQError


def text_decoder(model: PreTrainedModel) -> torch.nn.Module:
    """The module that makes hidden states of token ids, also inside a model that takes images.

    Raises BeamUQError if the model has none beside its output layer.
    """
    untyped: Any = model
    decoder: torch.nn.Module = untyped.get_decoder()
    if decoder is model:  # transformers found none under the usual names
        decoder = next(
            (child for child in model.children() if isinstance(child, PreTrainedModel)), model
        )
    if decoder is model:
        raise BeamUQError(f"{type(model).__name__}: has no decoder beside its output layer")
    return decoder


class OutputLayer:
    """A model's way from hidden states to logits: its forward pass without the decoder.

    So no scale, bias or cap of its can be missed. A plain linear layer in it is computed in
    float32, whatever the model's dtype.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        untyped: Any = model
        self.name = str(getattr(model, "name_or_path", ""))
        self._model = model
        self._decoder = text_decoder(model)
        head: Any = untyped.get_output_embeddings()
        self._head: torch.nn.Linear | None = head if type(head) is torch.nn.Linear else None
        weighted = self._decoder if self._head is None else self._head
        self.device = next(weighted.parameters()).device
        declared = untyped.config.get_text_config().vocab_size
        self.vocabulary = int(getattr(head, "out_features", declared))
        if self._head is not None:
            bias: torch.Tensor | None = self._head.bias
            self._bias = None if bias is None else bias.float()
            self._weight: torch.Tensor = self._head.weight
            # Once here, and not a chunk at a time, where the device cannot multiply into float32.
            self._fused = self._weight.is_cuda and _multiplies_into_float32(self._weight)
            if not self._fused:
                self._weight = self._weight.float()

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Float32 logits (rows, vocabulary), on ``device``, of last hidden states (rows, width).

        A model that leaves entries out that pad its vocabulary has logits of -inf there.
        """
        decoder_output = _States(last_hidden_state=states[:, None])
        ids = torch.zeros((len(states), 1), dtype=torch.long, device=states.device)
        with (
            _replaced(self._decoder, lambda *_, **__: decoder_output),
            _replaced(self._head, self._in_float32),
        ):
            logits: torch.Tensor = self._model(input_ids=ids, use_cache=False).logits
        return widened(logits[:, 0].float().to(self.device), self.vocabulary)

    def _in_float32(self, states: torch.Tensor) -> torch.Tensor:
        rows = states.reshape(-1, states.shape[-1]).to(self._weight.device)
        if self._fused:
            logits = torch.mm(rows, self._weight.t(), out_dtype=torch.float32)
        else:
            logits = functional.linear(rows.float(), self._weight)
        if self._bias is not None:
            logits += self._bias
        return logits.view(*states.shape[:-1], -1)


def widened(logits: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """``logits`` (…, entries) with -inf for the entries that a ``vocabulary`` has beyond them.

    Raises BeamUQError if there are more logits than that.
    """
    missing = vocabulary - logits.shape[-1]
    if missing < 0:
        raise BeamUQError(
            f"its forward pass gives {logits.shape[-1]} logits for a vocabulary of {vocabulary}"
        )
    return functional.pad(logits, (0, missing), value=-torch.inf) if missing else logits


class _States(BaseModelOutputWithPast):
    """The output of a decoder: hidden states, and None for any other attribute."""

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


@contextmanager
def _replaced(module: torch.nn.Module | None, forward: Callable[..., Any]) -> Iterator[None]:
    """``module`` with another forward for the time of the block; None is left alone."""
    if module is None:
        yield
        return
    before = module.__dict__.get("forward")  # accelerate may have replaced it too
    module.forward = forward
    try:
        yield
    finally:
        del module.forward
        if before is not None:
            module.forward = before


def _multiplies_into_float32(weight: torch.Tensor) -> bool:
    """Whether products of ``weight``'s type can be had on its device without rounding to it."""
    try:
        torch.mm(weight[:16, :16], weight[:16, :16], out_dtype=torch.float32)
    except (RuntimeError, TypeError):
        return False
    return True
