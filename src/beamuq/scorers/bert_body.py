"""The body of a usual BERT sentence encoder and its tokenizer, run by torch and tokenizers alone.

Importing transformers' models takes longer than embedding the answers of a cell. So a folder whose
every setting is one that is written here (all-MiniLM-L6-v2 is one) is run here, bit for bit as
transformers runs it; any other folder, damaged ones too, is left to transformers and its messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from beamuq.models.model_folder import CONFIG, TOKENIZER, loaded_weights

if TYPE_CHECKING:
    import torch
    from tokenizers import Tokenizer

WEIGHTS = "model.safetensors"
_TOKENIZER_FILES = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "sentence_bert_config.json",
}
_NOT_LOADED = ("embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias")
_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


class _Usual(BaseModel):
    """Settings of a file; any that is not listed, or has another value, makes it unusual."""

    model_config = ConfigDict(extra="forbid", strict=True)


Settings = TypeVar("Settings", bound=_Usual)


class BertConfig(_Usual):
    """What ``config.json`` says, with the defaults of transformers."""

    model_type: Literal["bert"]
    vocab_size: PositiveInt
    hidden_size: PositiveInt
    num_hidden_layers: PositiveInt
    num_attention_heads: PositiveInt
    intermediate_size: PositiveInt
    max_position_embeddings: PositiveInt
    type_vocab_size: PositiveInt = 2
    layer_norm_eps: float = Field(default=1e-12, gt=0)
    pad_token_id: Literal[0] = 0
    hidden_act: Literal["gelu"] = "gelu"
    position_embedding_type: Literal["absolute"] = "absolute"
    is_decoder: Literal[False] = False
    add_cross_attention: Literal[False] = False
    architectures: list[Literal["BertModel"]] = []
    # what changes nothing where a body is not trained
    name_or_path: str = Field(default="", alias="_name_or_path")
    attention_probs_dropout_prob: float = 0.1
    hidden_dropout_prob: float = 0.1
    classifier_dropout: float | None = None
    initializer_range: float = 0.02
    gradient_checkpointing: bool = False
    use_cache: bool = True
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    tie_word_embeddings: bool = True
    transformers_version: str = ""
    dtype: str = ""
    torch_dtype: str = ""


class _SpecialTokens(_Usual):
    unk_token: Literal["[UNK]"] = "[UNK]"
    sep_token: Literal["[SEP]"] = "[SEP]"
    pad_token: Literal["[PAD]"] = "[PAD]"
    cls_token: Literal["[CLS]"] = "[CLS]"
    mask_token: Literal["[MASK]"] = "[MASK]"


class _TokenizerConfig(_SpecialTokens):
    tokenizer_class: Literal["BertTokenizer", "BertTokenizerFast"]
    model_max_length: PositiveInt
    do_lower_case: bool = True
    tokenize_chinese_chars: bool = True
    strip_accents: bool | None = None
    backend: Literal["tokenizers"] = "tokenizers"
    # what transformers 5 no longer reads
    do_basic_tokenize: Literal[True] = True
    never_split: None = None
    name_or_path: str = ""


class Body(NamedTuple):
    """A network and its tokenizer."""

    network: BertBody
    tokenizer: WordPieceTokenizer


class Hidden(NamedTuple):
    """The network's output, called as transformers calls it: (B, L, hidden_size)."""

    last_hidden_state: torch.Tensor


def usual_body(folder: Path, *, dtype: torch.dtype, device: torch.device) -> Body | None:
    """The body in ``folder``, in ``dtype`` on ``device``; None: transformers has to load it.

    Raises BeamUQError as :func:`~beamuq.models.model_folder.loaded_weights`.
    """
    config = _usual(BertConfig, folder / CONFIG)
    if config is None or config.hidden_size % config.num_attention_heads:
        return None
    if loaded_weights(folder) != [WEIGHTS]:
        return None
    tokenizer = _usual_tokenizer(folder, config)
    if tokenizer is None:
        return None
    weights = _usual_weights(folder / WEIGHTS, config)
    if weights is None:
        return None
    placed = {name: tensor.to(device=device, dtype=dtype) for name, tensor in weights.items()}
    return Body(BertBody(config, placed), tokenizer)


def _usual(settings: type[Settings], path: Path) -> Settings | None:
    """A file's settings; None: it is not there, is not JSON, or has others."""
    try:
        return settings.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


# -- weights ---------------------------------------------------------------------------------------


def _usual_weights(path: Path, config: BertConfig) -> dict[str, torch.Tensor] | None:
    """The weights by name, without the pooler's; None: they are not just those of the config."""
    from safetensors import SafetensorError, safe_open

    shapes = _shapes(config)
    try:
        with safe_open(path, "pt") as file:
            names = set(file.keys())
            if not shapes.keys() <= names <= shapes.keys() | {"embeddings.position_ids"}:
                return None
            for name, shape in shapes.items():
                if tuple(file.get_slice(name).get_shape()) != shape:
                    return None
            return {name: file.get_tensor(name) for name in shapes.keys() - set(_NOT_LOADED)}
    except (OSError, SafetensorError):
        return None


def _shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    """The shape of each weight of a checkpoint, by name."""
    size = config.hidden_size
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word_embeddings.weight": (config.vocab_size, size),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, size),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, size),
        **_shapes_of_norm("embeddings.LayerNorm", size),
        **_shapes_of_linear("pooler.dense", size, size),
    }
    for number in range(config.num_hidden_layers):
        layer = f"encoder.layer.{number}"
        for name in ("query", "key", "value"):
            shapes |= _shapes_of_linear(f"{layer}.attention.self.{name}", size, size)
        shapes |= _shapes_of_linear(f"{layer}.attention.output.dense", size, size)
        shapes |= _shapes_of_norm(f"{layer}.attention.output.LayerNorm", size)
        shapes |= _shapes_of_linear(f"{layer}.intermediate.dense", size, config.intermediate_size)
        shapes |= _shapes_of_linear(f"{layer}.output.dense", config.intermediate_size, size)
        shapes |= _shapes_of_norm(f"{layer}.output.LayerNorm", size)
    return shapes


def _shapes_of_linear(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _shapes_of_norm(name: str, size: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}.weight": (size,), f"{name}.bias": (size,)}


class BertBody:
    """A BERT body in evaluation mode; ``weights`` by their names in the checkpoint."""

    def __init__(self, config: BertConfig, weights: Mapping[str, torch.Tensor]) -> None:
        self.config = config
        self._weights = weights

    def __call__(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> Hidden:
        """The hidden states of token ids (B, L); a mask of 1 where a token is, 0 behind the end."""
        if token_type_ids is None:
            token_type_ids = input_ids.new_zeros(input_ids.shape)
        hidden = self._embedded(input_ids, token_type_ids)
        mask = None
        if not attention_mask.all():
            length = input_ids.shape[1]
            mask = attention_mask.bool()[:, None, None, :].expand(-1, 1, length, length)
        for number in range(self.config.num_hidden_layers):
            hidden = self._layer(f"encoder.layer.{number}", hidden, mask)
        return Hidden(hidden)

    def _embedded(self, input_ids: torch.Tensor, token_type_ids: torch.Tensor) -> torch.Tensor:
        from torch.nn.functional import embedding

        words = embedding(input_ids, self._weights["embeddings.word_embeddings.weight"])
        types = embedding(token_type_ids, self._weights["embeddings.token_type_embeddings.weight"])
        positions = self._weights["embeddings.position_embeddings.weight"][: input_ids.shape[1]]
        return self._norm("embeddings.LayerNorm", words + types + positions)

    def _layer(self, name: str, hidden: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        from torch.nn.functional import gelu

        attended = self._attention(f"{name}.attention.self", hidden, mask)
        projected = self._linear(f"{name}.attention.output.dense", attended)
        middle = self._norm(f"{name}.attention.output.LayerNorm", projected + hidden)
        wide = gelu(self._linear(f"{name}.intermediate.dense", middle))
        narrow = self._linear(f"{name}.output.dense", wide)
        return self._norm(f"{name}.output.LayerNorm", narrow + middle)

    def _attention(
        self, name: str, hidden: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        from torch.nn.functional import scaled_dot_product_attention

        batch, length, size = hidden.shape
        heads = self.config.num_attention_heads
        query, key, value = (
            self._linear(f"{name}.{part}", hidden).view(batch, length, heads, -1).transpose(1, 2)
            for part in ("query", "key", "value")
        )
        attended = scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return attended.transpose(1, 2).reshape(batch, length, size)

    def _linear(self, name: str, inputs: torch.Tensor) -> torch.Tensor:
        from torch.nn.functional import linear

        return linear(inputs, self._weights[f"{name}.weight"], self._weights[f"{name}.bias"])

    def _norm(self, name: str, inputs: torch.Tensor) -> torch.Tensor:
        from torch.nn.functional import layer_norm

        weight = self._weights[f"{name}.weight"]
        bias = self._weights[f"{name}.bias"]
        return layer_norm(inputs, weight.shape, weight, bias, self.config.layer_norm_eps)


# -- tokens ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordPieceTokenizer:
    """A tokenizer that is called, with single texts, as those of transformers are."""

    backend: Tokenizer
    model_max_length: int
    pad_token_id: int = 0

    def __call__(
        self, texts: Sequence[str], *, max_length: int | None = None, **_options: Any
    ) -> dict[str, list[list[int]]]:
        """``input_ids`` and ``token_type_ids`` of each text, cut to ``max_length`` tokens."""
        if max_length is None:
            self.backend.no_truncation()
        else:
            self.backend.enable_truncation(max_length)
        coded = self.backend.encode_batch(list(texts))
        return {
            "input_ids": [text.ids for text in coded],
            "token_type_ids": [text.type_ids for text in coded],
        }


def _usual_tokenizer(folder: Path, config: BertConfig) -> WordPieceTokenizer | None:
    """The tokenizer in ``folder``; None: its files say more than is read here, or other things."""
    from tokenizers import Tokenizer

    names = {path.name for path in folder.iterdir() if TOKENIZER.fullmatch(path.name)}
    settings = _usual(_TokenizerConfig, folder / "tokenizer_config.json")
    if settings is None or not names <= _TOKENIZER_FILES:
        return None
    marks = folder / "special_tokens_map.json"
    if marks.exists() and _usual(_SpecialTokens, marks) is None:
        return None
    try:
        text = (folder / "tokenizer.json").read_text(encoding="utf-8")
        parts = json.loads(text)
        words = parts["model"]["vocab"]
        usual = _usual_parts(words, settings)
        is_usual = all(parts[name] == part for name, part in usual.items())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # of damaged files
        return None
    if not is_usual or len(words) != config.vocab_size or words["[PAD]"] != config.pad_token_id:
        return None
    tokenizer = Tokenizer.from_str(text)
    tokenizer.no_padding()
    return WordPieceTokenizer(tokenizer, settings.model_max_length)


def _usual_parts(words: Mapping[str, int], settings: _TokenizerConfig) -> dict[str, Any]:
    """The parts of ``tokenizer.json`` that transformers would write for the words and settings.

    Raises KeyError if a mark is not among the words.
    """
    marks = sorted(_MARKS, key=words.__getitem__)
    first = {"SpecialToken": {"id": "[CLS]", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    last = {"SpecialToken": {"id": "[SEP]", "type_id": 0}}
    second_text = {"Sequence": {"id": "B", "type_id": 1}}
    second_last = {"SpecialToken": {"id": "[SEP]", "type_id": 1}}
    return {
        "added_tokens": [_added_token(mark, words[mark]) for mark in marks],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": settings.tokenize_chinese_chars,
            "strip_accents": settings.strip_accents,
            "lowercase": settings.do_lower_case,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [first, text, last],
            "pair": [first, text, last, second_text, second_last],
            "special_tokens": {
                mark: {"id": mark, "ids": [words[mark]], "tokens": [mark]}
                for mark in ("[CLS]", "[SEP]")
            },
        },
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": words,
        },
    }


def _added_token(mark: str, identifier: int) -> dict[str, Any]:
    return {
        "id": identifier,
        "content": mark,
        "special": True,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
    }
