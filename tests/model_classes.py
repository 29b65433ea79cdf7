"""Tiny random models of many classes of transformers, for the census of which path decodes which
class.

What their configs set away from values that do nothing is in ``model_classes.yaml``. The weights
are large enough that logits spread: a model whose distribution is flat agrees with anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import CONFIG_MAPPING, AutoModelForCausalLM, PreTrainedModel

from tiny import DEVICE

VOCABULARY = 96
SHAPE: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
    "pad_token_id": 0,
    "bos_token_id": 2,
    "eos_token_id": 1,
}
_LISTED: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)
CLASSES: dict[str, dict[str, Any]] = {kind: {} for kind in _LISTED["plain"]} | _LISTED["own"]
_OWN_START = ("A_log", "D", "dt_bias", "dt_proj.bias", "slope_rate", "recurrent_param")


def settings_of(kind: str) -> dict[str, Any]:
    """What the config of ``kind`` (a key of `CLASSES`) is made with."""
    usual = CONFIG_MAPPING[kind.partition(",")[0]]()
    known = {*vars(usual), *usual.attribute_map}
    found = (
        SHAPE
        | {name: of for name, of in _LISTED["settings"].items() if name in known}
        | CLASSES[kind]
    )
    if "vision_config" in found:
        found |= {
            "text_config": settings_of(found["text_config"]),
            "vision_config": SHAPE | found["vision_config"],
        }
    return {name: of for name, of in found.items() if of is not None}


def random_model(kind: str, *, seed: int = 0, **overrides: Any) -> PreTrainedModel:
    """A random model of ``kind`` (a key of `CLASSES`), in float32, whose logits spread, on
    ``DEVICE``.
    """
    torch.manual_seed(seed)
    config: Any = CONFIG_MAPPING[kind.partition(",")[0]](**settings_of(kind) | overrides)
    make: Any = AutoModelForCausalLM
    model: Any = make.from_config(config).float().eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(_OWN_START):
                continue
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
            else:
                parameter.normal_(0.0, 0.3)
        if hasattr(config, "logits_scaling"):  # it divides, and would leave little spread
            model.get_output_embeddings().weight.mul_(3.0)
    found: PreTrainedModel = model.to(DEVICE)
    return found
