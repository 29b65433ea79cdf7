"""The similarity scorers that a study can name by kind; add a new one here and nowhere else.

``nli`` and ``cross_encoder`` read both texts at once, ``embedding`` each text alone (a BERT body,
mean pooling, unit length, such as all-MiniLM-L6-v2), ``lexical`` counts words and loads no model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from beamuq import plugins
from beamuq.array_types import Bools, Floats, Ints
from beamuq.errors import BeamUQError, reading
from beamuq.folded_words import folded_words
from beamuq.methods import rouge
from beamuq.models.load_model import load_tokenizer, load_whole
from beamuq.models.model_folder import check_content, check_folder, model_identity
from beamuq.scorers.bert_body import usual_body
from beamuq.scorers.packed_encoder import EncoderInput, PackedEncoder
from beamuq.scorers.scorer_protocol import Pair, PairScores, SimilarityScorer

if TYPE_CHECKING:
    import torch

LexicalWords = Literal["folded", "rouge"]
FOLDED_WORDS = "folded words"  # what the settings of scores say of ``lexical``
CLASSES = ("entail", "neutral", "contradict")
BLOCK = 4096  # pairs whose vectors are held at a time: those of all pairs are gigabytes


class _FolderEncoder(PackedEncoder):
    """An encoder in a model's folder; ``options`` are further ones of :class:`.PackedEncoder`."""

    auto_class = "AutoModelForSequenceClassification"
    width_in_config = "num_labels"

    def __init__(
        self, folder: Path, *, dtype: torch.dtype, device: torch.device, **options: Any
    ) -> None:
        check_folder(folder)
        self.model, tokenizer = self.loaded(folder, dtype, device)
        super().__init__(
            self.model,
            tokenizer,
            model_identity(folder),
            dtype=dtype,
            device=device,
            width=int(getattr(self.model.config, self.width_in_config)),
            **options,
        )

    def loaded(self, folder: Path, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
        """The network and its tokenizer, by transformers."""
        import transformers

        model = load_whole(
            getattr(transformers, self.auto_class), folder, dtype=dtype, device=device
        )
        # DeBERTa's biases come out in float32 whatever was asked
        return model.to(device=device, dtype=dtype), load_tokenizer(folder)

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """Logits, (B, classes)."""
        logits: torch.Tensor = self.model(**inputs).logits
        return logits

    def with_cuts(self, scores: PairScores, are_cut: Bools) -> PairScores:
        """The scores of pairs, and of which of them texts were cut, [P]."""
        return replace(scores, cut=are_cut, limit=self.encoding.max_length)


class NLI(_FolderEncoder):
    """Natural language inference (DeBERTa-MNLI): softmax over three classes, no question prepended.

    Which logit is which class is read from the checkpoint's config, never assumed.

    Raises BeamUQError if the config does not name exactly these three classes.
    """

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        names = {
            int(column): str(label).lower() for column, label in self.model.config.id2label.items()
        }
        columns_of_classes = [
            [column for column, label in names.items() if label.startswith(name)]
            for name in CLASSES
        ]
        if len(names) != len(CLASSES) or any(len(columns) != 1 for columns in columns_of_classes):
            text = ", ".join(names[column] for column in sorted(names))
            raise BeamUQError(
                f"{folder}/config.json: id2label: {text} are not entailment, neutral, "
                "contradiction; fix it"
            )
        self.columns = [columns[0] for columns in columns_of_classes]

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """P(class | premise, hypothesis) of each pair, in [0, 1]; the three sum to 1."""
        from scipy.special import softmax  # no step without such a model needs it

        rows = self.encoding.pair_rows(pairs)
        probabilities = softmax(self.values(rows).astype(np.float64), axis=1)
        entail, neutral, contradict = (probabilities[:, column] for column in self.columns)
        return self.with_cuts(PairScores(entail, neutral, contradict), _are_cut(rows))


class CrossEncoder(_FolderEncoder):
    """Semantic textual similarity (RoBERTa STS): one logit through a sigmoid; not symmetric.

    Raises BeamUQError if the checkpoint has other than one output.
    """

    def __init__(self, folder: Path, **options: Any) -> None:
        super().__init__(folder, **options)
        count = self.model.config.num_labels
        if count != 1:
            raise BeamUQError(
                f"{folder}: a cross-encoder has one output, this has {count}; use kind: nli for "
                "classes"
            )

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Similarity of each pair, in (0, 1)."""
        rows = self.encoding.pair_rows(pairs)
        logits = self.values(rows)[:, 0].astype(np.float64)
        scores = PairScores(entail=1.0 / (1.0 + np.exp(-logits)))
        return self.with_cuts(scores, _are_cut(rows))


class Embedding(_FolderEncoder):
    """s = max(0, cos) of two sentence embeddings, symmetric, 1 for identical texts up to rounding.

    Not entailment: blind to direction, and soft on negation and numbers.
    """

    auto_class = "AutoModel"
    width_in_config = "hidden_size"
    output = "mean-pooled"
    label = "texts"

    def __init__(self, folder: Path, **options: Any) -> None:
        longest = None  # the length that it was trained with
        path = folder / "sentence_bert_config.json"
        if path.is_file():
            with reading(path, "a file that names max_seq_length", "restore it or fetch again"):
                longest = int(json.loads(path.read_text(encoding="utf-8"))["max_seq_length"])
        super().__init__(folder, longest=longest, **options)

    def loaded(self, folder: Path, dtype: torch.dtype, device: torch.device) -> tuple[Any, Any]:
        """The network and its tokenizer: without transformers where they are as usual."""
        check_content(folder)
        return usual_body(folder, dtype=dtype, device=device) or super().loaded(
            folder, dtype, device
        )

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        """The mean of the hidden states over each row's tokens, (B, width)."""
        hidden = self.model(**inputs).last_hidden_state.float()
        weights = inputs["attention_mask"].unsqueeze(-1).to(hidden.dtype)  # [B, L, 1]
        pooled: torch.Tensor = (hidden * weights).sum(dim=1) / weights.sum(dim=1)
        return pooled

    def embed(self, rows: Sequence[EncoderInput]) -> Floats:
        """Unit vectors of texts' rows, of shape (T, width), float64."""
        vectors = self.values(rows).astype(np.float64)
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """Cosine of each pair, in [0, 1]; each distinct text is embedded once."""
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        rows = self.encoding.single_rows(texts)
        vectors = self.embed(rows)
        are_cut = _are_cut(rows)
        position = {text: i for i, text in enumerate(texts)}
        premises = np.array([position[premise] for premise, _ in pairs], dtype=np.int64)
        hypotheses = np.array([position[hypothesis] for _, hypothesis in pairs], dtype=np.int64)
        cosines = _row_products(vectors, premises, hypotheses)
        scores = PairScores(entail=np.clip(cosines, 0.0, 1.0))
        return self.with_cuts(scores, are_cut[premises] | are_cut[hypotheses])


def _are_cut(rows: Sequence[EncoderInput]) -> Bools:
    """[R] which rows are of texts that were cut."""
    return np.array([row.is_cut for row in rows], dtype=bool)


def _row_products(vectors: Floats, first: Ints, second: Ints) -> Floats:
    """[P] scalar products of the vectors [T, width] at two places [P], some at a time."""
    products = np.empty(len(first))
    for start in range(0, len(first), BLOCK):
        block = slice(start, start + BLOCK)
        products[block] = (vectors[first[block]] * vectors[second[block]]).sum(axis=1)
    return products


class Lexical:
    """ROUGE-L F-measure of stemmed words, the proxy for the cross-encoder where there is no model.

    Symmetric, in [0, 1]; no meaning. ``words``: ``folded``, those of :mod:`beamuq.folded_words`
    with articles, in any script, so that −5 and 5, 3.14 and 314, C++ and C# are parted; ``rouge``,
    those of ROUGE, letters a–z and digits alone, as the paper's datasets are compared (D17,
    quality).
    """

    def __init__(self, words: LexicalWords = "folded") -> None:
        self.words = words
        self._similarity = _folded_rouge_l if words == "folded" else rouge.rouge_l

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        """ROUGE-L of each pair; each unordered pair is computed once."""
        unordered = [(min(pair), max(pair)) for pair in pairs]
        scores = {pair: self._similarity(*pair) for pair in dict.fromkeys(unordered)}
        return PairScores(entail=np.array([scores[pair] for pair in unordered], dtype=np.float64))


@lru_cache(maxsize=1 << 16)  # a pair is of one question, and seldom of another
def _folded_rouge_l(text: str, other: str) -> float:
    first = _folded_stems(text)
    second = _folded_stems(other)
    if not first and not second:
        return float(text == other)
    return rouge.rouge_l_of_words(first, second)


@lru_cache(maxsize=1 << 12)  # a text is compared with those of its question, and then no more
def _folded_stems(text: str) -> tuple[str, ...]:
    return tuple(map(_stem, folded_words(text, articles=True)))


def _stem(word: str) -> str:
    """As ROUGE has it; of what it would not take for one word, the word."""
    stems = rouge.words(word) if word.isascii() and word.isalnum() else []
    return stems[0] if len(stems) == 1 else word


SCORERS: dict[str, Callable[..., Any]] = {
    "nli": NLI,
    "cross_encoder": CrossEncoder,
    "embedding": Embedding,
    "lexical": Lexical,
}
WITHOUT_MODEL = frozenset({"lexical"})


def load_scorer(
    kind: str,
    folder: Path | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    cache: Path | None = None,
    words: LexicalWords = "folded",
) -> SimilarityScorer:
    """Load a scorer of a registered kind, or your own as ``module:attribute``, called alike.

    ``folder`` is the model's; None for a kind that loads none, which is called without arguments.
    ``cache`` is the root folder of what survives between jobs; None: nothing. ``words``: of
    :class:`Lexical`, which alone reads it.

    Raises BeamUQError if the kind is unknown, a folder is missing or too many, or your own scorer
    cannot be made.
    """
    make = plugins.find("scorer kind", kind, SCORERS)
    if kind in SCORERS and (folder is None) != (kind in WITHOUT_MODEL):
        raise BeamUQError(
            f"scorer kind {kind!r}: {'needs --model' if folder is None else 'loads no model'}"
        )
    what = f"scorer kind {kind!r}"
    scorer: SimilarityScorer
    if kind == "lexical":
        scorer = plugins.call(what, make, words=words)
    elif folder is None:
        scorer = plugins.call(what, make)
    else:
        scorer = plugins.call(what, make, folder, dtype=dtype, device=device, cache=cache)
    return scorer
