"""What makes the check of a model be repeated: whatever can change what it computes, and nothing
else.
"""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.modules.module import register_module_forward_hook

from beamuq.decoding import Greedy, Prompt, Sample, decode, self_check
from beamuq.decoding.model_state import state_of
from beamuq.errors import BeamUQError
from tiny import toy_model

PROMPT = Prompt("q", (2, 3, 4))


@pytest.fixture
def model() -> Any:
    return copy.deepcopy(toy_model(20))


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The models that were checked, one entry a check."""
    done: list[object] = []
    plain = self_check._check

    def counted(model: Any) -> Any:
        done.append(model)
        return plain(model)

    monkeypatch.setattr(self_check, "_check", counted)
    return done


def run(model: Any) -> None:
    decode(model, [PROMPT], [Greedy(), Sample(2)], stop_ids=frozenset(), seed=0, max_new_tokens=2)


class LowRank(torch.nn.Module):
    """A linear layer with an adapter beside it, as libraries of adapters put one into a model."""

    def __init__(self, base: torch.nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.down = torch.nn.Linear(base.in_features, 2, bias=False)
        self.up = torch.nn.Linear(2, base.out_features, bias=False)
        self.merged_adapters: list[str] = []
        self._active_adapter = ["default"]
        self.eval()

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        return self.base_layer(states) + self.up(self.down(states))


def with_adapter(model: Any) -> LowRank:
    attention = model.model.layers[0].self_attn
    attention.q_proj = LowRank(attention.q_proj)
    return attention.q_proj


def replaced_parameter(model: Any) -> None:
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())


def trained_further(model: Any) -> None:
    with torch.no_grad():
        model.lm_head.weight.mul_(1.1)


def patched_forward(model: Any) -> None:
    plain = model.model.layers[1].forward
    model.model.layers[1].forward = lambda *some, **more: plain(*some, **more)


CHANGES: dict[str, Callable[[Any], object]] = {
    "a forward hook": lambda model: model.model.norm.register_forward_hook(lambda *_: None),
    "a forward hook before": lambda model: model.model.layers[0].register_forward_pre_hook(
        lambda *_: None
    ),
    "an adapter": with_adapter,
    "a value of the config": lambda model: setattr(model.config, "rms_norm_eps", 1e-3),
    "another attention": lambda model: model.set_attn_implementation("eager"),
    "another precision": lambda model: model.double(),
    "an attribute of a layer": lambda model: setattr(
        model.model.layers[0].self_attn, "scaling", 0.3
    ),
    "another parameter": replaced_parameter,
    "other numbers in it": trained_further,
    "a forward of its own": patched_forward,
    "one layer less": lambda model: (
        model.model.layers.pop(1) and setattr(model.config, "num_hidden_layers", 1)
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_model_is_checked_again_and_once(
    change: Callable[[Any], object], model: Any, checks: list[object]
) -> None:
    run(model)
    run(model)
    assert len(checks) == 1
    change(model)
    run(model)
    run(model)
    assert len(checks) == 2


def test_an_adapter_that_is_switched_or_merged_is_a_change(
    model: Any, checks: list[object]
) -> None:
    adapter = with_adapter(model)
    run(model)
    adapter._active_adapter = ["other"]
    run(model)
    adapter.merged_adapters.append("other")
    run(model)
    assert len(checks) == 3


def test_a_hook_of_all_modules_is_a_change(model: Any, checks: list[object]) -> None:
    run(model)
    handle = register_module_forward_hook(lambda *_: None)
    try:
        run(model)
    finally:
        handle.remove()
    run(model)
    assert len(checks) == 3


def test_a_class_whose_forward_was_replaced_is_a_change(
    model: Any, checks: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(model)
    kind = type(model.model.norm)
    plain = kind.forward
    monkeypatch.setattr(kind, "forward", lambda *some: plain(*some))
    run(model)
    assert len(checks) == 2


def test_autocast_is_a_change(model: Any) -> None:
    before = state_of(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert state_of(model) != before
    assert state_of(model) == before


def test_a_hook_that_breaks_agreement_after_the_check_is_found(model: Any) -> None:
    """It scales what a layer gives by how many tokens it sees: a pass over a packed tree sees
    others than a text.
    """
    run(model)
    layer = model.model.layers[0]
    layer.register_forward_hook(lambda _, __, output: output * (1 + output.shape[1] / 10))
    with pytest.raises(BeamUQError, match="cannot be decoded: over a tree: differs"):
        run(model)


@pytest.mark.parametrize(
    ("name", "told"), [("", "the model"), ("model.layers.1", "'model.layers.1'")]
)
def test_training_mode_of_any_part_is_refused_also_after_the_check(
    name: str, told: str, model: Any
) -> None:
    run(model)
    for module in model.get_submodule(name).modules():
        module.training = True
    with pytest.raises(BeamUQError, match=rf"{told} is in training mode.*call model\.eval\(\)"):
        run(model)
    model.eval()
    run(model)


def own_part(part: Any) -> Callable[..., None]:
    """A hook that holds what it is put on."""

    def hook(*_: Any) -> None:
        assert not part.training

    return hook


def test_results_do_not_keep_a_model_alive() -> None:
    own: Any = copy.deepcopy(toy_model(20))
    patched_forward(own)
    own.model.norm.register_forward_hook(own_part(own.model.norm))
    run(own)
    gone = weakref.ref(own)
    del own
    gc.collect()
    assert gone() is None
