"""Loading language models from folders, and what their folders hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import tiny
from beamuq.errors import BeamUQError
from beamuq.models import load_model, prompt_tokens
from beamuq.models.model_folder import describe, model_identity, publish_manifest, wanted_files, write_manifest

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
    weights = load_file(folder / "model.safetensors")
    del weights["model.layers.1.mlp.up_proj.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
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


def test_a_file_that_is_not_the_fetched_one_is_refused(llama: Path, tmp_path: Path) -> None:
    folder = copied(llama, tmp_path / "model")
    write_manifest(folder, {"source": "hub:a/b", "revision": "c", "files": describe(folder)})
    publish_manifest(folder)
    load_model.load_causal(folder, **CPU)
    assert model_identity(folder) == model_identity(llama) | {"source": "hub:a/b", "revision": "c"}
    (folder / "generation_config.json").write_text("{}")
    with pytest.raises(BeamUQError, match=r"generation_config\.json: is not the file that was fetched"):
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


def test_identity_is_that_of_the_content_not_of_the_place(llama: Path, tmp_path: Path) -> None:
    first = model_identity(copied(llama, tmp_path / "first"))
    second = model_identity(copied(llama, tmp_path / "second"))
    assert first["content"] == second["content"]
    (tmp_path / "second" / "config.json").write_text("{}")
    changed = model_identity(tmp_path / "second")
    assert changed["content"] != first["content"]
    assert changed["tokenizer"] == first["tokenizer"]


def test_only_what_loading_needs_is_wanted() -> None:
    names = ["config.json", "tokenizer.json", "merges.txt", "model-00001-of-00002.safetensors", "README.md", "code.py"]
    names += ["model-00002-of-00002.safetensors", "model.safetensors.index.json", "consolidated.safetensors"]
    names += ["pytorch_model.bin", "onnx/model.onnx", "original/consolidated.00.pth", "tf_model.h5"]
    weights = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "model.safetensors.index.json"]
    assert wanted_files(names) == sorted(["config.json", "tokenizer.json", "merges.txt", *weights])
    assert wanted_files(["pytorch_model.bin", "tf_model.h5"]) == ["pytorch_model.bin"]


@pytest.mark.packaged
def test_smollm2_knows_the_capital_of_france(root: Path) -> None:
    folder = root / "resources/models/smollm2-135m-instruct"
    if not folder.is_dir():
        pytest.skip("resources/models/smollm2-135m-instruct is not fetched")
    torch.set_num_threads(1)
    model, tokenizer = load_model.load_causal(folder, **CPU)
    shown = [("Who painted the Mona Lisa?", "Leonardo da Vinci"), ("What is the capital of Japan?", "Tokyo")]
    shown += [("Which river runs through London?", "the Thames"), ("How many legs has a spider?", "eight")]
    shots = "".join(f"Question: {question}\nAnswer: {answer}\n\n" for question, answer in shown)
    ids = prompt_tokens.plain_prompt_ids(tokenizer, f"{shots}Question: What is the capital of France?\nAnswer:")
    with torch.inference_mode():
        best = int(model(input_ids=torch.tensor([ids])).logits[0, -1].argmax())
    assert tokenizer.decode([best]) == " Paris"
    assert prompt_tokens.context_window(model) == 8192
    assert tokenizer.decode(prompt_tokens.chat_prompt_ids(tokenizer, "Hello")).endswith("<|im_start|>assistant\n")
