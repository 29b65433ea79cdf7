"""The repositories that ``studies/paper.yaml`` fetches, tiny: the same ids, classes and file
layouts.

Questions are the demo's own. Weights are random, in bfloat16 and in several files; vocabularies
have a few hundred tokens. Chat templates have what the real ones have and ours must handle: a date
(Llama), a switch for thinking (Qwen), other names of roles and no system prompt (Gemma).
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
import yaml
from datasets import Dataset
from tokenizers import Regex, Tokenizer, pre_tokenizers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

from beamuq_study.study_config import DEMO_DATA
from tiny import build_tiny_model
from tiny_scorers import build_alignscore, build_cross_encoder, build_nli

LLAMA_CHAT = (
    "{{ bos_token }}<start_of_turn>system\nToday Date: {{ date_string }}<end_of_turn>\n"
    "{% for message in messages %}<start_of_turn>{{ message.role }}\n{{ message.content "
    "}}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>assistant\n{% endif %}"
)
QWEN_CHAT = (
    "{% for message in messages %}<start_of_turn>{{ message.role }}\n{{ message.content "
    "}}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif "
    "%}{% endif %}"
)
GEMMA_CHAT = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message.role == 'system' %}{{ raise_exception('no system prompt') }}{% endif %}"
    "<start_of_turn>{{ 'model' if message.role == 'assistant' else message.role }}\n{{ "
    "message.content | trim }}"
    "<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
QWEN_WORDS = r"\s*[\r\n]+|[^\S\r\n]?\p{L}+|\p{N}|[^\s\p{L}\p{N}]+|\s+"
"""Line breaks are never joined to the word behind them, whatever stands before."""
SAMPLING = {"do_sample": True, "temperature": 0.6, "top_p": 0.9}  # as the real ones ship

MODELS: dict[str, tuple[str, str | None]] = {
    "meta-llama/Llama-3.1-8B": ("llama", None),
    "meta-llama/Llama-3.1-8B-Instruct": ("llama", LLAMA_CHAT),
    "google/gemma-3-4b-pt": ("gemma3_multimodal", None),
    "google/gemma-3-4b-it": ("gemma3_multimodal", GEMMA_CHAT),
    "Qwen/Qwen3-8B-Base": ("qwen3", QWEN_CHAT),
    "Qwen/Qwen3-8B": ("qwen3", QWEN_CHAT),
}
"""By id on the hub: the class of the tiny model, and its chat template."""
DATASETS: dict[str, tuple[str, str | None, dict[str, str]]] = {
    "mandarjoshi/trivia_qa": (
        "trivia_qa",
        "rc.nocontext",
        {"train": "train", "validation": "validation"},
    ),
    "stanfordnlp/web_questions": ("web_questions", None, {"train": "train", "test": "test"}),
    "stanfordnlp/coqa": ("coqa", None, {"train": "train", "validation": "validation"}),
    "hotpotqa/hotpot_qa": (
        "hotpot_qa",
        "distractor",
        {"train": "train", "validation": "validation"},
    ),
    "tau/commonsense_qa": ("commonsense_qa", None, {"train": "train", "validation": "validation"}),
    "allenai/ai2_arc": ("ai2_arc", "ARC-Challenge", {"train": "train", "test": "test"}),
}
"""By id on the hub: the folder of the demo's questions, the configuration, the splits."""


def build_repositories(root: Path) -> None:
    """Write every repository below ``root/models`` and ``root/datasets``."""
    for seed, (name, (kind, template)) in enumerate(MODELS.items()):
        _build_causal(root / "models" / name, kind, template, seed)
    _build_scorers(root / "models")
    for name, (folder, config, splits) in DATASETS.items():
        _build_dataset(root / "datasets" / name, DEMO_DATA / folder, config, splits)


def _build_causal(folder: Path, kind: str, template: str | None, seed: int) -> None:
    """A model with an index of several files of weights, and what else its repository holds."""
    with tempfile.TemporaryDirectory() as name:
        whole = build_tiny_model(kind, Path(name) / "model", context=8192)
        model_class: Any = (
            AutoModelForImageTextToText if kind == "gemma3_multimodal" else AutoModelForCausalLM
        )
        torch.manual_seed(seed)
        model = model_class.from_config(AutoConfig.from_pretrained(whole), dtype=torch.bfloat16)
        model.save_pretrained(folder, max_shard_size="40KB")
        for path in whole.glob("*token*"):
            shutil.copy(path, folder / path.name)
        if (whole / "chat_template.jinja").is_file() and template is not None:
            (folder / "chat_template.jinja").write_text(template)
        if kind == "qwen3":
            _split_as_qwen(folder / "tokenizer.json")
        generation = json.loads((whole / "generation_config.json").read_text())
    (folder / "generation_config.json").write_text(json.dumps(generation | SAMPLING))
    (folder / "README.md").write_text("---\nlicense: other\n---\n")
    (folder / "original").mkdir()
    (folder / "original/consolidated.00.pth").write_bytes(b"the same weights in another form")
    assert (folder / "model.safetensors.index.json").is_file()


def _split_as_qwen(file: Path) -> None:
    tokenizer = Tokenizer.from_file(str(file))
    words = pre_tokenizers.Split(Regex(QWEN_WORDS), "isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, as_bytes])
    tokenizer.save(str(file))


def _build_scorers(models: Path) -> None:
    """NLI and AlignScore as pickled weights, the cross-encoder as safetensors, as their
    repositories have them.
    """
    nli = build_nli(models / "microsoft/deberta-large-mnli")
    _as_pickle(nli)
    build_cross_encoder(models / "cross-encoder/stsb-roberta-large")
    with tempfile.TemporaryDirectory() as name:
        checkpoint, backbone = build_alignscore(Path(name))
        shutil.copytree(backbone, models / "FacebookAI/roberta-large")
        for size in ("base", "large"):
            target = models / f"yzha/AlignScore/AlignScore-{size}.ckpt"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(checkpoint, target)


def _as_pickle(folder: Path) -> None:
    from safetensors.torch import load_file

    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


def _build_dataset(
    folder: Path, questions: Path, config: str | None, splits: dict[str, str]
) -> None:
    """Parquet files of a configuration, and a card that names them, as the hub's datasets have
    it.
    """
    data = config or "data"
    (folder / data).mkdir(parents=True)
    for split in splits:
        rows = [
            json.loads(line) for line in (questions / f"{split}.jsonl").read_text().splitlines()
        ]
        Dataset.from_list(rows).to_parquet(str(folder / data / f"{split}-00000-of-00001.parquet"))
    files = [{"split": split, "path": f"{data}/{split}-*"} for split in splits]
    card = {
        "license": "other",
        "configs": [{"config_name": config or "default", "data_files": files}],
    }
    (folder / "README.md").write_text(f"---\n{yaml.safe_dump(card)}---\n")
