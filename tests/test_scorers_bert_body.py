"""BERT bodies that are run without transformers, held against transformers on the same folder."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer, BertConfig, BertModel, BertTokenizer

import tiny_scorers
from beamuq.errors import BeamUQError
from beamuq.scorers.bert_body import usual_body
from beamuq.scorers.similarity_by_kind import load_scorer
from beamuq_study.study_config import ROOT
from tiny import CPU

MINILM = ROOT / "resources/models/all-minilm-l6-v2"
WORDS = ["paris", "the", "sei", "##ne", "dog", "cat", "a", "and", "!", "cafe", "東"]
TEXTS = [
    "",
    "Paris",
    "the Seine [SEP] and",
    "A DOG and\ta cat!",
    "café 東京",
    "dog " * 60,
    "\x00zz",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny random body with a tokenizer of words, as transformers saves both."""
    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = {word: number for number, word in enumerate(marks + WORDS)}
    tokenizer = BertTokenizer(vocab=words, model_max_length=tiny_scorers.LENGTH)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = BertConfig(
            **tiny_scorers.SHAPE, vocab_size=len(words), max_position_embeddings=tiny_scorers.LENGTH
        )
        BertModel(config).eval().save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def assert_as_transformers(folder: Path, texts: list[str]) -> None:
    """The same tokens and, bit for bit, the same hidden states, of texts alone and padded."""
    body = usual_body(folder, **CPU)
    assert body is not None
    tokenizer = AutoTokenizer.from_pretrained(folder)
    network = AutoModel.from_pretrained(folder).eval()
    options = {"truncation": "longest_first", "max_length": 40, "return_token_type_ids": True}
    theirs = tokenizer(texts, **options)
    ours = body.tokenizer(texts, **options)
    assert ours["input_ids"] == theirs["input_ids"]
    assert ours["token_type_ids"] == theirs["token_type_ids"]
    padded = tokenizer.pad(theirs, return_tensors="pt")
    alone = tokenizer(texts[2], return_tensors="pt")
    with torch.inference_mode():
        for inputs in (padded, alone):
            hidden = body.network(**inputs).last_hidden_state
            assert torch.equal(hidden, network(**inputs).last_hidden_state)


def test_a_usual_body_gives_what_transformers_gives(folder: Path) -> None:
    assert_as_transformers(folder, TEXTS)


def test_a_usual_body_marks_texts_whose_ends_it_does_not_read(folder: Path) -> None:
    scorer = load_scorer("embedding", folder, **CPU)
    fits = "dog " * (tiny_scorers.LENGTH - 2)  # beside the two marks
    pairs = [("cat", fits), ("cat", fits + "cat"), (fits + "dog", fits + "cat"), ("cat", "dog")]
    scores = scorer.score(pairs)
    assert scores.cut is not None
    assert scores.cut.tolist() == [False, True, True, False]
    assert scores.limit == tiny_scorers.LENGTH
    assert scores.entail[2] == pytest.approx(1)  # though they differ at the end


@pytest.mark.packaged
def test_the_packaged_encoder_gives_what_transformers_gives() -> None:
    assert_as_transformers(MINILM, TEXTS)


@pytest.mark.packaged
def test_the_packaged_encoder_is_run_without_transformers() -> None:
    program = (
        "import sys, torch\n"
        "from pathlib import Path\n"
        "from beamuq.scorers.similarity_by_kind import load_scorer\n"
        f"scorer = load_scorer('embedding', Path({str(MINILM)!r}), dtype=torch.float32,"
        " device=torch.device('cpu'))\n"
        "scorer.score([('Paris', 'London')])\n"
        "print('transformers' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True)
    assert done.stdout == "False\n", done.stderr


def changed_json(name: str, **changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
        (folder / name).write_text(json.dumps(content | changes), encoding="utf-8")

    return change


def changed_weights(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["encoder.layer.1.output.dense.bias"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


CHANGES = {
    "another activation": changed_json("config.json", hidden_act="relu"),
    "a decoder": changed_json("config.json", is_decoder=True),
    "an unknown key of the config": changed_json("config.json", layer_types=["sliding"]),
    "heads that do not divide it": changed_json("config.json", num_attention_heads=5),
    "another shape": changed_json("config.json", intermediate_size=7),
    "a weight that is missing": changed_weights,
    "an unknown key of the tokenizer": changed_json("tokenizer_config.json", add_prefix_space=True),
    "another case": changed_json("tokenizer_config.json", do_lower_case=False),
    "another normalizer": changed_json("tokenizer.json", normalizer=None),
    "damaged words": lambda folder: (folder / "tokenizer.json").write_text("{"),
    "another file of words": lambda folder: (folder / "vocab.txt").write_text("[PAD]\n"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_an_unusual_folder_is_left_to_transformers(name: str, folder: Path) -> None:
    assert usual_body(folder, **CPU) is not None
    CHANGES[name](folder)
    assert usual_body(folder, **CPU) is None


def test_weights_that_are_missing_are_named_as_before(folder: Path) -> None:
    changed_weights(folder)
    with pytest.raises(
        BeamUQError, match=r"its weights lack encoder\.layer\.1\.output\.dense\.bias"
    ):
        load_scorer("embedding", folder, **CPU)
