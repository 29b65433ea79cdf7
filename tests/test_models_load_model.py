"""Loading language models from folders, and what their folders hold."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

import tiny
import tiny_scorers
from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.models import load_model, model_folder, place_on_cards, prompt_tokens
from beamuq.models.model_folder import (
    describe,
    identities,
    model_identity,
    publish_manifest,
    wanted_files,
    write_manifest,
)
from beamuq.scorers.alignscore import AlignScore
from beamuq.scorers.similarity_by_kind import SCORERS, load_scorer

CPU: dict[str, Any] = {"dtype": torch.float32, "device": torch.device("cpu")}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.build_tiny_model("llama", tmp_path_factory.mktemp("llama"))


def copied(folder: Path, to: Path, *, without: str = "") -> Path:
    to.mkdir(exist_ok=True)
    for file in folder.iterdir():
        if not without or without not in file.name:
            (to / file.name).write_bytes(file.read_bytes())
    return to


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_each_model_class_loads(kind: str, tmp_path: Path) -> None:
    model, tokenizer = load_model.load_causal(tiny.build_tiny_model(kind, tmp_path), **CPU)
    ids = prompt_tokens.plain_prompt_ids(tokenizer, "Question: why?\nAnswer:")
    assert torch.isfinite(model(input_ids=torch.tensor([ids])).logits).all()
    assert not model.training
    assert prompt_tokens.context_window(model) == tiny.CONTEXT


@pytest.mark.parametrize(
    ("part", "told"), [("tokenizer", "no tokenizer"), ("safetensors", "no weights"), ("config.json", "no config.json")]
)
def test_an_incomplete_folder_is_refused_by_name(part: str, told: str, llama: Path, tmp_path: Path) -> None:
    folder = copied(llama, tmp_path / "model", without=part)
    with pytest.raises(BeamUQError, match=rf"{folder}: not a model folder, it has {told}"):
        load_model.load_causal(folder, **CPU)
    with pytest.raises(BeamUQError, match="no such model folder"):
        load_model.load_causal(tmp_path / "nowhere", **CPU)


def test_a_parameter_that_is_not_stored_is_refused_not_drawn_at_random(llama: Path, tmp_path: Path) -> None:
    folder = copied(llama, tmp_path / "model")
    rewrite(folder, lambda weights: weights.pop("model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(BeamUQError, match=r"its weights lack model\.layers\.1\.mlp\.up_proj\.weight"):
        load_model.load_causal(folder, **CPU)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_truncated_file_is_refused_in_one_line(name: str, llama: Path, tmp_path: Path) -> None:
    folder = copied(llama, tmp_path / "model")
    (folder / name).write_bytes((folder / name).read_bytes()[:100])
    with pytest.raises(BeamUQError) as refused:
        load_model.load_causal(folder, **CPU)
    assert str(refused.value).startswith(str(folder))
    assert "\n" not in str(refused.value)


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change the weights in their file, which keeps its size where no weight is added."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def fetched(folder: Path) -> Path:
    write_manifest(folder, {"source": "hub:a/b", "revision": "c", "files": describe(folder)})
    publish_manifest(folder)
    return folder


CHANGES: dict[str, Callable[[Path], object]] = {
    "generation_config.json: is not the file that was fetched (size": lambda folder: (
        folder / "generation_config.json"
    ).write_text("{}"),
    "model.safetensors: is not the file that was fetched (sha256": lambda folder: rewrite(
        folder, lambda weights: weights["model.embed_tokens.weight"].view(-1)[:64].add_(0.01)
    ),
    "model.safetensors.index.json: is not among": lambda folder: (folder / "model.safetensors.index.json").touch(),
}


@pytest.mark.parametrize("told", CHANGES)
def test_a_file_that_is_not_the_fetched_one_is_refused(told: str, llama: Path, tmp_path: Path) -> None:
    folder = fetched(copied(llama, tmp_path / "model"))
    load_model.load_causal(folder, **CPU)
    assert model_identity(folder) == model_identity(llama) | {"source": "hub:a/b", "revision": "c"}
    CHANGES[told](folder)
    for load in (lambda: load_model.load_causal(folder, **CPU), lambda: model_identity(folder)):
        with pytest.raises(BeamUQError, match=re.escape(f"{folder}/{told}")):
            load()


@pytest.fixture
def hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files hashed from here on, in a home of their own; also those that are new are remembered."""
    files: list[str] = []

    def file_sha256(path: Path) -> str:
        files.append(path.name)
        return parquet_tables.file_sha256(path)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(model_folder, "_hashed", {})
    monkeypatch.setattr(model_folder, "SETTLED", -60.0)
    monkeypatch.setattr(model_folder, "file_sha256", file_sha256)
    return files


def test_a_file_is_hashed_once_by_all_processes_until_it_changes(
    llama: Path, tmp_path: Path, hashed: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = copied(llama, tmp_path / "model")
    first = model_identity(folder)
    assert sorted(hashed) == sorted(path.name for path in folder.iterdir())
    monkeypatch.setattr(model_folder, "_hashed", {})  # as another process starts
    assert model_identity(folder) == first
    assert len(hashed) == len(set(hashed))
    file = folder / "model.safetensors"
    before = file.stat()
    time.sleep(0.02)  # a tick of the time stamps
    rewrite(folder, lambda weights: weights["model.embed_tokens.weight"].add_(1.0))
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))  # as some copies do
    assert file.stat().st_size == before.st_size
    assert model_identity(folder)["content"] != first["content"]
    assert hashed[-1] == file.name
    assert hashed.count("config.json") == 1


def test_a_folder_that_changed_after_planning_is_refused(llama: Path) -> None:
    content = model_identity(llama)["content"]
    assert identities({"model": llama, "backbone": None}, {"model": content}) == {"model": model_identity(llama)}
    with pytest.raises(BeamUQError, match=f"{llama}: has changed since this run was planned"):
        identities({"model": llama}, {"model": "0" * 64})


BUILT: dict[str, Callable[[Path], Path]] = {kind: partial(tiny.build_tiny_model, kind) for kind in tiny.KINDS} | {
    "nli": tiny_scorers.build_nli,
    "cross_encoder": tiny_scorers.build_cross_encoder,
    "embedding": tiny_scorers.build_embedder,
    "alignscore": lambda folder: tiny_scorers.build_alignscore(folder)[1],
}


def load_any(kind: str, folder: Path) -> object:
    if kind == "alignscore":
        return AlignScore(folder.parent / "checkpoint", folder, **CPU)
    return load_scorer(kind, folder, **CPU) if kind in SCORERS else load_model.load_causal(folder, **CPU)


@pytest.mark.parametrize(("key", "change"), [("num_hidden_layers", -1), ("intermediate_size", 8)])
@pytest.mark.parametrize("kind", ["llama", "nli", "embedding", "alignscore"])
def test_a_config_that_fits_not_all_weights_is_refused(kind: str, key: str, change: int, tmp_path: Path) -> None:
    folder = BUILT[kind](tmp_path / "model")
    load_any(kind, folder)
    config = json.loads((folder / "config.json").read_text())
    part = config if key in config else config["text_config"]
    part[key] += change
    if "layer_types" in part:
        part["layer_types"] = part["layer_types"][: part["num_hidden_layers"]]
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(BeamUQError, match=r"layers?\.\d+\.") as refused:
        load_any(kind, folder)
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "unused"),
    [
        ("llama", "v_head.summary.weight"),
        ("llama", "model.layers.0.self_attn.rotary_emb.inv_freq"),
        ("cross_encoder", "roberta.pooler.dense.weight"),
        ("cross_encoder", "roberta.embeddings.position_ids"),
        ("embedding", "cls.predictions.bias"),
        ("nli", "config"),  # microsoft/deberta-large-mnli has it
    ],
)
def test_a_part_that_the_model_has_not_may_stay_unused(kind: str, unused: str, tmp_path: Path) -> None:
    folder = BUILT[kind](tmp_path / "model")
    rewrite(folder, lambda weights: weights.update({unused: torch.zeros(3)}))
    load_any(kind, folder)


@pytest.mark.parametrize(
    "more", ["model.layers.0.mlp.up_proj.bias", "model.layers.1.self_attn.q_norm.weight", "lm_head.bias"]
)
def test_a_weight_more_in_a_part_of_the_model_is_refused(more: str, llama: Path, tmp_path: Path) -> None:
    folder = copied(llama, tmp_path / "model")
    rewrite(folder, lambda weights: weights.update({more: torch.zeros(3)}))
    with pytest.raises(BeamUQError, match=re.escape(more)):
        load_model.load_causal(folder, **CPU)


def test_code_in_a_folder_never_runs(llama: Path, tmp_path: Path) -> None:
    folder = copied(llama, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "model_type": "unheard_of",
        "auto_map": {"AutoModelForCausalLM": "evil.Model", "AutoConfig": "evil.Config"},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n")
    with pytest.raises(BeamUQError, match="cannot be loaded"):
        load_model.load_causal(folder, **CPU)
    assert not (tmp_path / "ran").exists()


def test_only_what_loading_needs_is_wanted() -> None:
    names = ["config.json", "tokenizer.json", "merges.txt", "model-00001-of-00002.safetensors", "README.md", "code.py"]
    names += ["model-00002-of-00002.safetensors", "model.safetensors.index.json", "consolidated.safetensors"]
    names += ["pytorch_model.bin", "onnx/model.onnx", "original/consolidated.00.pth", "tf_model.h5"]
    weights = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    assert wanted_files(names) == sorted(["config.json", "tokenizer.json", "merges.txt", *weights])
    assert wanted_files(["pytorch_model.bin", "tf_model.h5"]) == ["pytorch_model.bin"]


QUANTISED = {
    "bitsandbytes": ({"load_in_4bit": True, "_load_in_4bit": True}, "bitsandbytes"),
    "gptq": ({"bits": 4, "group_size": 128}, "optimum|gptqmodel"),
    "unheard_of": ({}, "unknown to the transformers installed here; known: .*awq"),
}


@pytest.mark.parametrize("method", QUANTISED)
def test_quantised_weights_name_the_package_that_is_missing(method: str, llama: Path, tmp_path: Path) -> None:
    if importlib.util.find_spec(method.replace("-", "_") or "bitsandbytes") or importlib.util.find_spec("gptqmodel"):
        pytest.skip(f"{method}: its package is installed")
    settings, told = QUANTISED[method]
    folder = quantised(llama, tmp_path, ({"quant_method": method} if method else {}) | settings)
    with pytest.raises(BeamUQError, match=rf"{folder}.*({told})") as refused:
        load_model.load_causal(folder, **CPU)
    assert method in str(refused.value)
    assert "fetch it again" not in str(refused.value)


def quantised(folder: Path, to: Path, settings: dict[str, Any]) -> Path:
    folder = copied(folder, to / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
    return folder


@pytest.mark.parametrize("method", ["fp8", "mxfp4"])
def test_weights_that_need_no_package_here_load_as_transformers_loads_them(
    method: str, llama: Path, tmp_path: Path
) -> None:
    model, _ = load_model.load_causal(quantised(llama, tmp_path, {"quant_method": method}), **CPU)
    assert torch.isfinite(model(input_ids=torch.tensor([[5, 6, 7]])).logits).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_models_size_is_that_of_its_loaded_weights(dtype: torch.dtype, llama: Path) -> None:
    model, _ = load_model.load_causal(llama, dtype=dtype, device=torch.device("cpu"))
    stored = load_file(llama / "model.safetensors")
    assert place_on_cards.weight_bytes(llama, dtype) == sum(w.numel() for w in stored.values()) * dtype.itemsize
    assert {name for name, _ in model.named_parameters()} >= set(stored)


@pytest.mark.parametrize(
    ("device", "cards", "told"),
    [
        ("cpu", 1, "memory is 0.0 GB.*dtype: bfloat16, or a larger machine"),
        ("cuda", 1, "the card's memory is 0.0 GB.*cards: 5 for the model"),
        ("cuda", 2, "the memory of 2 cards is 0.0 GB.*cards: 5 for the model"),
    ],
)
def test_a_model_that_cannot_fit_is_told_before_it_is_read(
    device: str, cards: int, told: str, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = place_on_cards.weight_bytes(llama, torch.float32)
    monkeypatch.setattr(place_on_cards, "memory_bytes", lambda _, cards: int(size / 4.5 * cards))
    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", lambda *_, **__: pytest.fail("is read"))
    with pytest.raises(BeamUQError, match=rf"{llama}: its weights take 0.0 GB in float32, {told}"):
        load_model.load_causal(llama, dtype=torch.float32, device=torch.device(device), cards=cards)


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_each_model_class_is_spread_whole(kind: str, tmp_path: Path) -> None:
    """A ``device_map`` that names every part once, in the order of the layers, and is one that transformers takes."""
    folder = tiny.build_tiny_model(kind, tmp_path)
    placed = load_model._spread(AutoModelForCausalLM, folder, ["first", "second"])
    layers = [device for name, device in placed.items() if name.rpartition(".")[2].isdigit()]
    assert layers == sorted(layers)
    assert set(placed.values()) == {"first", "second"}
    model = AutoModelForCausalLM.from_pretrained(folder, device_map=dict.fromkeys(placed, "cpu"))
    for name, _ in model.named_parameters():
        assert sum(name.startswith(f"{part}.") or name == part for part in placed) == 1, name


def test_more_cards_than_layers_are_refused(llama: Path) -> None:
    with pytest.raises(BeamUQError, match="cards: 9: the model has 2 layers"):
        load_model._spread(AutoModelForCausalLM, llama, range(9))


def test_masks_that_older_checkpoints_keep_are_no_surplus_weights(tmp_path: Path) -> None:
    config = transformers.GPTJConfig(n_embd=16, n_layer=2, n_head=2, vocab_size=40, rotary_dim=4)
    transformers.GPTJForCausalLM(config).save_pretrained(tmp_path)
    masks = {"attn.bias": torch.ones(1, 1, 8, 8), "attn.masked_bias": torch.tensor(-1e9)}
    old = {f"transformer.h.{layer}.{name}": mask.clone() for layer in range(2) for name, mask in masks.items()}
    rewrite(tmp_path, lambda weights: weights.update(old))
    load_model.load_whole(transformers.AutoModelForCausalLM, tmp_path, **CPU)
    rewrite(tmp_path, lambda weights: weights.update({"transformer.h.0.attn.q_proj.bias": torch.ones(16)}))
    with pytest.raises(BeamUQError, match=r"beyond its config\.json, transformer\.h\.0\.attn\.q_proj\.bias;"):
        load_model.load_whole(transformers.AutoModelForCausalLM, tmp_path, **CPU)
