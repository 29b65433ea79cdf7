"""Tiny random scorers of the real classes, saved as the published checkpoints are and loaded by the
real code.

Weights are drawn wide, so that outputs differ from text to text; every builder returns the folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import processors
from transformers import (
    BertConfig,
    BertModel,
    DebertaConfig,
    DebertaForSequenceClassification,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RobertaModel,
)

from tiny import byte_level

CORPUS = [
    "Paris is the capital of France.",
    "the Seine",
    "a dog and a cat",
    "William Shakespeare",
    "yes",
    "no",
    "1945",
]
LENGTH = 48
SHAPE: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "initializer_range": 0.4,
}
MNLI_LABELS = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")


def build_nli(
    folder: Path, *, labels: tuple[str, ...] = MNLI_LABELS, body: str = "deberta", seed: int = 0
) -> Path:
    """A three-class NLI classifier whose column i is ``labels[i]``; one seed gives one network,
    whatever the labels.
    """
    names = dict(enumerate(labels))
    options: dict[str, Any] = {
        "num_labels": len(labels),
        "id2label": names,
        "label2id": {label: i for i, label in names.items()},
    }
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        if body == "deberta":
            tokenizer = tokenizer_of("[CLS]", "[SEP]", "[PAD]", "$A:0 [SEP]:0 $B:1 [SEP]:1")
            relative: dict[str, Any] = {
                "relative_attention": True,
                "pos_att_type": ["c2p", "p2c"],
                "max_relative_positions": 16,
            }
            config = DebertaConfig(
                **SHAPE,
                **options,
                **relative,
                vocab_size=len(tokenizer),
                max_position_embeddings=LENGTH,
                type_vocab_size=0,
            )
            model: Any = DebertaForSequenceClassification(config)
        else:
            tokenizer = roberta_tokenizer()
            model = RobertaForSequenceClassification(roberta_config(tokenizer, **options))
    return _save(folder, model, tokenizer)


def build_cross_encoder(folder: Path, *, outputs: int = 1, seed: int = 1) -> Path:
    """A RoBERTa regressor with one logit."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        tokenizer = roberta_tokenizer()
        model = RobertaForSequenceClassification(roberta_config(tokenizer, num_labels=outputs))
    return _save(folder, model, tokenizer)


def build_embedder(folder: Path, *, seed: int = 2) -> Path:
    """A BERT body, as sentence encoders have it."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        tokenizer = tokenizer_of("[CLS]", "[SEP]", "[PAD]", "$A:0 [SEP]:0 $B:1 [SEP]:1")
        config = BertConfig(
            **SHAPE, vocab_size=len(tokenizer), max_position_embeddings=LENGTH, pad_token_id=0
        )
        return _save(folder, BertModel(config), tokenizer)


def build_alignscore(folder: Path, *, seed: int = 3) -> tuple[Path, Path]:
    """A checkpoint with the published one's keys, and its backbone's folder: ``(checkpoint file,
    backbone folder)``.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        tokenizer = roberta_tokenizer()
        config = roberta_config(tokenizer)
        body, language_head = RobertaModel(config), RobertaForMaskedLM(config).lm_head
        heads = {
            name: torch.nn.Linear(config.hidden_size, n)
            for name, n in (("bin", 2), ("tri", 3), ("reg", 1))
        }
    backbone = _save(folder / "backbone", body, tokenizer)
    state = {f"base_model.{name}": value for name, value in body.state_dict().items()}
    state["base_model.embeddings.position_ids"] = torch.arange(
        config.max_position_embeddings
    ).unsqueeze(0)
    state |= {f"mlm_head.{name}": value for name, value in language_head.state_dict().items()}
    for head, layer in heads.items():
        state |= {f"{head}_layer.{name}": value for name, value in layer.state_dict().items()}
    checkpoint = folder / "checkpoint" / "AlignScore-tiny.ckpt"
    checkpoint.parent.mkdir(parents=True)
    lightning = {
        "epoch": 2,
        "global_step": 10,
        "hyper_parameters": {"model": "roberta-tiny"},
        "state_dict": state,
    }
    torch.save(lightning, checkpoint)
    return checkpoint, backbone


def roberta_config(tokenizer: PreTrainedTokenizerFast, **options: Any) -> RobertaConfig:
    """A tiny RoBERTa config; positions start behind the padding id."""
    pad = int(tokenizer.pad_token_id)
    config = RobertaConfig(
        **SHAPE, **options, vocab_size=len(tokenizer), type_vocab_size=1, pad_token_id=pad
    )
    config.max_position_embeddings = LENGTH + pad + 1
    return config


def roberta_tokenizer() -> PreTrainedTokenizerFast:
    """``<s> A </s></s> B </s>``."""
    return tokenizer_of("<s>", "</s>", "<pad>", "$A:0 </s>:0 </s>:0 $B:0 </s>:0")


def tokenizer_of(first: str, last: str, pad: str, pair: str) -> PreTrainedTokenizerFast:
    """A byte-level BPE with the given specials; ``pair`` is the template behind the first one."""
    tokenizer = byte_level(CORPUS, 300, [pad, first, last])
    marks = [(mark, tokenizer.token_to_id(mark)) for mark in (first, last)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0", pair=f"{first}:0 {pair}", special_tokens=marks
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        cls_token=first,
        sep_token=last,
        pad_token=pad,
        model_max_length=LENGTH,
    )


def _save(folder: Path, model: Any, tokenizer: PreTrainedTokenizerFast) -> Path:
    model.eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
