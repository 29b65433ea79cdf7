"""Loading language models from folders, and what their folders hold."""

from __future__ import annotations

import json
import os
import re
import shutil
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
from beamuq import decoding
from beamuq.decoding.context_window import context_window
from beamuq.errors import BeamUQError
from beamuq.io import file_sha256
from beamuq.models import load_model, model_folder, prompt_tokens
from beamuq.models.model_folder import Origin, fill_folder, identities, model_identity, wanted_files
from beamuq.scorers.alignscore import AlignScore
from beamuq.scorers.similarity_by_kind import SCORERS, load_scorer
from model_classes import random_model
from tiny import CPU


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.build_tiny_model("llama", tmp_path_factory.mktemp("llama"))


def copied(folder: Path, to: Path) -> Path:
    return Path(shutil.copytree(folder, to, dirs_exist_ok=True))


@pytest.mark.parametrize("kind", tiny.KINDS)
def test_each_model_class_loads(kind: str, tmp_path: Path) -> None:
    model, tokenizer = load_model.load_causal(tiny.build_tiny_model(kind, tmp_path), **CPU)
    ids = prompt_tokens.plain_prompt_ids(tokenizer, "Question: why?\nAnswer:")
    assert torch.isfinite(model(input_ids=torch.tensor([ids])).logits).all()
    assert not model.training
    assert context_window(model) == tiny.CONTEXT


def rewrite(folder: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    """Change the weights in their file, which keeps its size where no weight is added."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def without(part: str) -> Callable[[Path], object]:
    return lambda folder: [file.unlink() for file in folder.iterdir() if part in file.name]


def cut_short(name: str) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:100])


def with_more(weight: str) -> Callable[[Path], object]:
    return lambda folder: rewrite(folder, lambda weights: weights.update({weight: torch.zeros(3)}))


SURPLUS = (
    "model.layers.0.mlp.up_proj.bias",
    "model.layers.1.self_attn.q_norm.weight",
    "lm_head.bias",
)
LACKING = "model.layers.1.mlp.up_proj.weight"
IN_4_BIT = {"quant_method": "bitsandbytes", "load_in_4bit": True, "_load_in_4bit": True}
DAMAGES: list[tuple[Callable[[Path], object], str]] = [
    (without("tokenizer"), "not a model folder, it has no tokenizer"),
    (without("safetensors"), "not a model folder, it has no weights"),
    (without("config.json"), "not a model folder, it has no config.json"),
    (
        lambda folder: rewrite(folder, lambda weights: weights.pop(LACKING)),
        f"its weights lack {LACKING}",
    ),
    *((cut_short(name), "") for name in ("model.safetensors", "tokenizer.json", "config.json")),
    *((with_more(weight), weight) for weight in SURPLUS),
    (
        lambda folder: configured(folder, quantization_config=IN_4_BIT),
        "bitsandbytes.*; install the package",
    ),
    (
        lambda folder: sharded(folder, "../base.safetensors"),
        r"index\.json: names '\.\./base\.safetensors', no file of",
    ),
    (
        lambda folder: sharded(folder, f"{folder.parent}/base.safetensors"),
        r"names '/.*base\.safetensors', no file of",
    ),
    (
        lambda folder: configured(folder, transformers_weights="../base.safetensors"),
        r"config\.json: names '\.\./base",
    ),
    (lambda folder: (folder / "adapter_config.json").touch(), "adapters are not loaded"),
    (
        lambda folder: configured(folder, num_hidden_layers=0),
        r"beyond its config\.json, model\.layers\.0",
    ),
    (
        lambda folder: configured(folder, num_hidden_layers=10**9),
        "num_hidden_layers: 1000000000: there can be 10000",
    ),
    (
        lambda folder: configured(folder, text_config={"n_layer": 10**9}),
        "n_layer: 1000000000: there can be 10000",
    ),
    (
        lambda folder: configured(folder, num_hidden_layers=1e9),
        r"num_hidden_layers: 1000000000\.0: there can be 10000",
    ),
]


def sharded(folder: Path, shard: str) -> None:
    """Put the weights into ``shard``, which an index file names."""
    weights = folder / "model.safetensors"
    index = {"metadata": {}, "weight_map": dict.fromkeys(load_file(weights), shard)}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / shard).parent.mkdir(exist_ok=True)
    weights.rename(folder / shard)


def configured(folder: Path, **settings: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | settings))


@pytest.mark.parametrize(("damage", "told"), DAMAGES)
def test_a_damaged_or_odd_folder_is_refused_by_name_in_one_line(
    damage: Callable[[Path], object], told: str, llama: Path, tmp_path: Path
) -> None:
    folder = copied(llama, tmp_path / "model")
    damage(folder)
    with pytest.raises(BeamUQError, match=rf"\A{folder}[^\n]*{told}[^\n]*\Z"):
        load_model.load_causal(folder, **CPU)


def fetched(source: Path, folder: Path) -> Path:
    def bring(partial: Path) -> Origin:
        copied(source, partial)
        return Origin("mit", "a/b")

    fill_folder(folder, "hub:a/b", "c", bring, offline=False)
    return folder


CHANGES: dict[str, Callable[[Path], object]] = {
    "model.safetensors": lambda file: rewrite(
        file.parent, lambda weights: weights["model.embed_tokens.weight"].view(-1)[:64].add_(0.01)
    ),
    "generation_config.json": lambda file: file.unlink(),
    "model.safetensors.index.json": lambda file: file.touch(),
    "fetched.json": lambda file: file.write_text('{"files": [3]}'),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_file_that_is_not_the_fetched_one_is_refused(
    name: str, llama: Path, tmp_path: Path
) -> None:
    folder = fetched(llama, tmp_path / "model")
    load_model.load_causal(folder, **CPU)
    assert model_identity(folder) == model_identity(llama) | {"source": "hub:a/b", "revision": "c"}
    CHANGES[name](folder / name)
    for load in (lambda folder: load_model.load_causal(folder, **CPU), model_identity):
        with pytest.raises(BeamUQError, match=re.escape(f"{folder / name}: ")):
            load(folder)


def test_a_file_of_a_fetched_folder_is_hashed_once_until_it_changes(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, read = fetched(llama, tmp_path / "model"), []

    def sha256(path: Path, _: str) -> str:
        read.append(path.name)
        return file_sha256(path)

    monkeypatch.setattr(model_folder, "_sha256", sha256)
    monkeypatch.setattr(model_folder, "SETTLED", 10**12)
    model_identity(folder)
    assert not (
        folder / model_folder.HASHES
    ).exists()  # files this young can change and keep their times
    monkeypatch.setattr(model_folder, "SETTLED", 0)
    identity = model_identity(folder)
    read.clear()
    assert model_identity(folder) == identity
    assert read == []
    config = folder / "config.json"
    config.write_bytes(config.read_bytes().replace(b"\n", b" "))  # of the same size
    os.utime(config, (1, 1))
    with pytest.raises(BeamUQError, match=r"config.json: is not as it was fetched"):
        model_identity(folder)
    assert read == ["config.json"]


STAMPED = '{"config.json": ["1 2 3 4", "0"]}'
NO_HASHES = [
    "[3]",
    "[[3, 4]]",
    '[["config.json", ["a", "b"]]]',
    "{",
    '{"config.json": 3}',
    STAMPED,
    "null",
    "3",
]
NO_HASHES += [
    '{"config.json": [1, 2]}',
    '{"config.json": {"a": 1}}',
    '{"config.json": ["a", "b", "c"]}',
    "[" * 100_000,
]
NO_HASHES += ['{"a":' * 100_000, "\x00", '"\\ud800"']


def as_link(target: str) -> Callable[[Path], object]:
    return lambda path: path.symlink_to(target)


@pytest.mark.parametrize(
    "damage",
    [
        *(partial(Path.write_text, data=text) for text in NO_HASHES),
        partial(Path.write_bytes, data=b"\xff"),
        Path.mkdir,
        os.mkfifo,
        as_link(".sha256.json"),
        as_link("/dev/zero"),
        as_link("missing"),
    ],
)
def test_without_readable_hashes_every_file_is_read(
    damage: Callable[[Path], object], llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "SETTLED", 0)
    folder = fetched(llama, tmp_path / "model")
    damage(folder / model_folder.HASHES)
    assert model_identity(folder)["content"] == model_identity(llama)["content"]
    assert model_identity(folder)["content"] == model_identity(llama)["content"]
    assert not (llama / model_folder.HASHES).exists()  # a folder of the user's own is left as it is


def test_a_hash_that_is_none_is_not_believed(
    llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_folder, "SETTLED", 0)
    folder = fetched(llama, tmp_path / "model")
    identity = model_identity(folder)
    kept = json.loads((folder / model_folder.HASHES).read_text())
    kept["config.json"][1] = "none"
    (folder / model_folder.HASHES).write_text(json.dumps(kept))
    assert model_identity(folder) == identity


def test_a_chat_template_in_a_folder_of_its_own_is_part_of_the_tokenizers_hash(
    llama: Path, tmp_path: Path
) -> None:
    folder = copied(llama, tmp_path / "model")
    before = model_identity(folder)["tokenizer"]
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates/default.jinja").write_text("what the prompt is made with")
    tokenizer = load_model.load_tokenizer(folder)
    assert (
        tokenizer.apply_chat_template([{"role": "user", "content": "?"}], tokenize=False)
        == "what the prompt is made with"
    )
    assert model_identity(folder)["tokenizer"] != before


@pytest.mark.parametrize(
    "moved",
    [
        lambda folder: sharded(folder, "part-00001-of-00001.safetensors"),
        lambda folder: sharded(folder, "weights/part.safetensors"),
        lambda folder: (
            (folder / "model.safetensors").rename(folder / "own.safetensors"),
            (folder / "model-old.safetensors").touch(),
            configured(folder, transformers_weights="own.safetensors"),
        ),
    ],
)
def test_weights_of_any_name_are_part_of_the_models_hash(
    moved: Callable[[Path], object], llama: Path, tmp_path: Path
) -> None:
    folder = copied(llama, tmp_path / "model")
    moved(folder)
    model, _ = load_model.load_causal(folder, **CPU)
    before = model_identity(folder)["content"]
    (file,) = (path for path in folder.rglob("*.safetensors") if path.stat().st_size)
    weights = load_file(file)
    weights["model.embed_tokens.weight"] += 1
    save_file(weights, file, metadata={"format": "pt"})
    other, _ = load_model.load_causal(folder, **CPU)
    assert not torch.equal(model.get_input_embeddings().weight, other.get_input_embeddings().weight)
    assert model_identity(folder)["content"] != before


def test_a_folder_that_changed_after_planning_is_refused(llama: Path) -> None:
    content = model_identity(llama)["content"]
    assert identities({"model": llama, "backbone": None}, {"model": content}) == {
        "model": model_identity(llama)
    }
    with pytest.raises(BeamUQError, match=f"{llama}: has changed since this run was planned"):
        identities({"model": llama}, {"model": "0" * 64})


BUILT: dict[str, Callable[[Path], Path]] = {
    kind: partial(tiny.build_tiny_model, kind) for kind in tiny.KINDS
} | {
    "nli": tiny_scorers.build_nli,
    "cross_encoder": tiny_scorers.build_cross_encoder,
    "embedding": tiny_scorers.build_embedder,
    "alignscore": lambda folder: tiny_scorers.build_alignscore(folder)[1],
}


def load_any(kind: str, folder: Path) -> object:
    if kind == "alignscore":
        return AlignScore(folder.parent / "checkpoint", folder, **CPU)
    return (
        load_scorer(kind, folder, **CPU)
        if kind in SCORERS
        else load_model.load_causal(folder, **CPU)
    )


@pytest.mark.parametrize(("key", "change"), [("num_hidden_layers", -1), ("intermediate_size", 8)])
@pytest.mark.parametrize("kind", ["llama", "nli", "embedding", "alignscore"])
def test_a_config_that_fits_not_all_weights_is_refused(
    kind: str, key: str, change: int, tmp_path: Path
) -> None:
    folder = BUILT[kind](tmp_path / "model")
    load_any(kind, folder)
    value = json.loads((folder / "config.json").read_text())[key]
    configured(folder, **{key: value + change})
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
def test_a_part_that_the_model_has_not_may_stay_unused(
    kind: str, unused: str, tmp_path: Path
) -> None:
    folder = BUILT[kind](tmp_path / "model")
    rewrite(folder, lambda weights: weights.update({unused: torch.zeros(3)}))
    load_any(kind, folder)


def test_code_in_a_folder_never_runs(llama: Path, tmp_path: Path) -> None:
    folder = copied(llama, tmp_path / "model")
    code = {"AutoModelForCausalLM": "evil.Model", "AutoConfig": "evil.Config"}
    configured(folder, model_type="unheard_of", auto_map=code)
    (folder / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'ran')!r}).touch()\n"
    )
    with pytest.raises(BeamUQError, match="cannot be loaded"):
        load_model.load_causal(folder, **CPU)
    assert not (tmp_path / "ran").exists()


def test_only_what_loading_needs_is_wanted() -> None:
    names = [
        "config.json",
        "tokenizer.json",
        "merges.txt",
        "model-00001-of-00002.safetensors",
        "README.md",
        "code.py",
    ]
    names += [
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "consolidated.safetensors",
    ]
    names += ["pytorch_model.bin", "onnx/model.onnx", "original/consolidated.00.pth", "tf_model.h5"]
    weights = [
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]
    assert wanted_files(names) == sorted(["config.json", "tokenizer.json", "merges.txt", *weights])
    assert wanted_files(["pytorch_model.bin", "tf_model.h5"]) == ["pytorch_model.bin"]


def test_a_model_that_cannot_fit_is_told_before_it_is_read(
    llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = sum(weight.numel() for weight in load_file(llama / "model.safetensors").values())
    monkeypatch.setattr(
        AutoModelForCausalLM, "from_pretrained", lambda *_, **__: pytest.fail("is read")
    )
    for dtype in (torch.float32, torch.bfloat16):
        memory = {"SC_PAGE_SIZE": dtype.itemsize, "SC_PHYS_PAGES": size - 1}
        monkeypatch.setattr(os, "sysconf", memory.__getitem__)
        with pytest.raises(
            BeamUQError,
            match=rf"{llama}: its weights take 0\.0 GB in {str(dtype)[6:]}, memory is 0\.0",
        ):
            load_model.load_causal(llama, dtype=dtype, device=torch.device("cpu"))
        memory["SC_PHYS_PAGES"] = size
        load_model._check_memory(llama, dtype)


def test_masks_that_older_checkpoints_keep_are_no_surplus_weights(tmp_path: Path) -> None:
    config = transformers.GPTJConfig(n_embd=16, n_layer=2, n_head=2, vocab_size=40, rotary_dim=4)
    transformers.GPTJForCausalLM(config).save_pretrained(tmp_path)
    masks = {"attn.bias": torch.ones(1, 1, 8, 8), "attn.masked_bias": torch.tensor(-1e9)}
    old = {
        f"transformer.h.{layer}.{name}": mask.clone()
        for layer in range(2)
        for name, mask in masks.items()
    }
    rewrite(tmp_path, lambda weights: weights.update(old))
    load_model.load_whole(AutoModelForCausalLM, tmp_path, **CPU)
    rewrite(
        tmp_path,
        lambda weights: weights.update({"transformer.h.0.attn.q_proj.bias": torch.ones(16)}),
    )
    with pytest.raises(
        BeamUQError, match=r"beyond its config\.json, transformer\.h\.0\.attn\.q_proj\.bias;"
    ):
        load_model.load_whole(AutoModelForCausalLM, tmp_path, **CPU)


def test_a_token_temperature_divides_what_gemma_2_has_capped() -> None:
    cap, ids = 3.0, torch.arange(10, 22)[None]
    model = random_model("gemma2", final_logit_softcapping=cap)
    with torch.inference_mode():
        capped = model(input_ids=ids).logits
    load_model.temper(model, 0.5)
    with torch.inference_mode():
        assert torch.equal(model(input_ids=ids).logits, capped / 0.5)
    assert capped.abs().max() <= cap


def test_samples_of_a_model_with_a_token_temperature_have_its_log_probabilities(
    llama: Path,
) -> None:
    T, prompt = 0.5, decoding.Prompt("q", (2, 40, 41, 42))
    plain, _ = load_model.load_causal(llama, **CPU)
    tempered, tokenizer = load_model.load_causal(llama, **CPU)
    load_model.temper(tempered, T)
    stops = decoding.stop_tokens(tokenizer, tempered, newline=True)
    policies = [decoding.Sample(size=6)]
    found = decoding.decode(tempered, [prompt], policies, stop_ids=stops, seed=0, max_new_tokens=6)
    for sample in found:
        forced = tiny.forced_logprobs(plain, prompt.token_ids, sample.token_ids, temperature=T)
        assert sample.token_logprobs == pytest.approx(forced, abs=1e-4)
        assert sample.logprob == pytest.approx(sample.policy_logprob)
