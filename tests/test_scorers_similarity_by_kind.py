"""Scorers, their encoder and their cache: the real code on tiny random checkpoints of the real
classes.
"""

from __future__ import annotations

import itertools
import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForSequenceClassification, AutoTokenizer

import tiny_scorers
from beamuq.errors import BeamUQError
from beamuq.methods.rouge import rouge_l
from beamuq.models.load_model import load_tokenizer
from beamuq.scorers import packed_encoder
from beamuq.scorers.scored_pair_cache import ScoredPairCache
from beamuq.scorers.similarity_by_kind import SCORERS, load_scorer
from beamuq_study.study_config import ROOT
from tiny import CPU

TEXTS = [
    "",
    "Paris",
    "paris",
    "the Seine",
    "William Shakespeare",
    "a dog and a cat",
    "1945 " * 30,
    "東京",
    "yes",
]
PAIRS = list(itertools.product(TEXTS, TEXTS))
BUILDERS = {
    "nli": tiny_scorers.build_nli,
    "cross_encoder": tiny_scorers.build_cross_encoder,
    "embedding": tiny_scorers.build_embedder,
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {kind: build(tmp_path_factory.mktemp(kind)) for kind, build in BUILDERS.items()}


def one_by_one(kind: str, folder: Path, pairs: list[tuple[str, str]]) -> np.ndarray[Any, Any]:
    """P(entail) by transformers' own tokenizer call and one forward pass a pair: no packing, no
    padding.
    """
    tokenizer = AutoTokenizer.from_pretrained(folder)
    if kind == "embedding":
        body = AutoModel.from_pretrained(folder).eval()

        def embed(text: str) -> torch.Tensor:
            tokens = tokenizer(
                text, truncation=True, max_length=tiny_scorers.LENGTH, return_tensors="pt"
            )
            return torch.nn.functional.normalize(
                body(**tokens).last_hidden_state.mean(dim=1), dim=1
            )

        with torch.no_grad():
            return np.array([float((embed(a) * embed(b)).sum().clamp(min=0)) for a, b in pairs])
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    values = []
    for first, second in pairs:
        tokens = tokenizer(
            [first], [second], truncation=True, max_length=tiny_scorers.LENGTH, return_tensors="pt"
        )
        if kind == "cross_encoder":
            tokens.pop("token_type_ids", None)
        with torch.no_grad():
            logits = model(**tokens).logits[0]
        values.append(float(logits.sigmoid() if kind == "cross_encoder" else logits.softmax(0)[2]))
    return np.array(values)


@pytest.mark.parametrize("kind", BUILDERS)
def test_packed_scores_are_those_of_one_pair_at_a_time(kind: str, folders: dict[str, Path]) -> None:
    packed = load_scorer(kind, folders[kind], **CPU).score(PAIRS).entail
    np.testing.assert_allclose(packed, one_by_one(kind, folders[kind], PAIRS), atol=1e-5)
    assert np.ptp(packed) > 0.05  # the tiny weights do tell texts apart


@pytest.mark.parametrize("kind", SCORERS)
def test_scores_do_not_depend_on_order_or_company(kind: str, folders: dict[str, Path]) -> None:
    scorer = load_scorer(kind, folders[kind], **CPU) if kind in folders else load_scorer(kind)
    together = dict(zip(PAIRS, scorer.score(PAIRS).entail, strict=True))
    shuffled = random.Random(0).sample(PAIRS, 30) * 2
    assert scorer.score(shuffled).entail.tolist() == [together[pair] for pair in shuffled]


class EncoderOfFunction(packed_encoder.PackedEncoder):
    """An encoder of a function in place of a network and its tokenizer."""

    def __init__(
        self,
        function: Callable[[dict[str, torch.Tensor]], torch.Tensor],
        cache: ScoredPairCache | None = None,
    ) -> None:
        self.function = function
        self.cache = cache
        self.width = 1
        self.pad = 0
        self.device = torch.device("cpu")

    def forward(self, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        return self.function(inputs)


def test_the_cache_serves_only_lengths_whose_places_in_a_batch_are_alike(tmp_path: Path) -> None:
    def forward(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        place = torch.arange(len(ids)).unsqueeze(1) * (ids.shape[1] == 8)
        return (ids * mask).sum(dim=1, keepdim=True) + place * 0.25

    short = [packed_encoder.EncoderInput((number, 7)) for number in range(1, 40)]
    long = [packed_encoder.EncoderInput((number, *[7] * 10)) for number in range(1, 40)]
    alone = EncoderOfFunction(forward, ScoredPairCache(tmp_path / "other")).values(short + long)
    EncoderOfFunction(forward, ScoredPairCache(tmp_path)).values(long[:30])
    remembering = EncoderOfFunction(forward, ScoredPairCache(tmp_path))
    assert remembering.values(short + long).tolist() == alone.tolist()
    assert remembering.scored == len(short) + 9
    assert ScoredPairCache(tmp_path).find([row.key() for row in short]) == {}


@pytest.mark.parametrize(
    ("length", "shape"), [(3, (32, 8)), (30, (12, 32)), (128, (8, 128)), (300, (2, 304))]
)
def test_without_a_cache_few_texts_are_filled_up_to_few_tokens(
    length: int, shape: tuple[int, int]
) -> None:
    shapes = []

    def forward(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        shapes.append(tuple(inputs["input_ids"].shape))
        return inputs["input_ids"][:, :1].float()

    EncoderOfFunction(forward).values(
        [packed_encoder.EncoderInput((number,) * length) for number in range(shape[0])]
    )
    assert shapes == [shape]


def test_a_value_that_is_not_finite_is_never_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forward(inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        ids = inputs["input_ids"][:, :1]
        return torch.where(ids == 5, torch.nan, ids.float())

    monkeypatch.setattr("beamuq.scorers.scored_pair_cache.FLUSH_SECONDS", 0.0)
    row, cache = packed_encoder.EncoderInput((5,)), ScoredPairCache(tmp_path)
    with pytest.raises(BeamUQError, match="not finite"):
        EncoderOfFunction(forward, cache).values([row])
    assert not list(tmp_path.iterdir())


def test_the_embedder_never_holds_the_vectors_of_all_pairs(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = np.random.default_rng(0).normal(size=(250, 384))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    scorer = load_scorer("embedding", folders["embedding"], **CPU)
    monkeypatch.setattr(scorer, "embed", lambda _: vectors)
    pairs = list(itertools.product(map(str, range(250)), repeat=2))
    tracemalloc.start()
    scores = scorer.score(pairs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6  # the vectors of 62,500 pairs are 384 MB
    np.testing.assert_allclose(
        scores.entail.reshape(250, 250), (vectors @ vectors.T).clip(0, 1), atol=1e-12
    )


def test_deberta_joins_two_texts_by_one_separator_whatever_its_tokenizer_files(
    tmp_path: Path,
) -> None:
    whole = tiny_scorers.build_nli(tmp_path / "whole")
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).symlink_to(whole / name)
    stored = json.loads((whole / "tokenizer.json").read_text())["model"]
    (bare / "vocab.json").write_text(json.dumps(stored["vocab"]))
    (bare / "merges.txt").write_text("\n".join(" ".join(pair) for pair in stored["merges"]))
    (bare / "tokenizer_config.json").write_text(
        json.dumps({"model_max_length": tiny_scorers.LENGTH})
    )
    tokenizer = load_tokenizer(bare)
    assert type(tokenizer).__name__ == "DebertaTokenizer"
    ids = tokenizer("yes", "no")["input_ids"]
    assert (
        ids.count(tokenizer.sep_token_id) == 2
    )  # one between, one at the end: what it was trained on
    assert ids == load_tokenizer(whole)("yes", "no")["input_ids"]
    expected = load_scorer("nli", whole, **CPU).score(PAIRS).entail
    assert load_scorer("nli", bare, **CPU).score(PAIRS).entail.tolist() == expected.tolist()


@pytest.mark.parametrize("body", ["deberta", "roberta"])
def test_label_order_comes_from_the_config(body: str, tmp_path: Path) -> None:
    usual = tiny_scorers.build_nli(tmp_path / "usual", body=body)
    permuted = tiny_scorers.build_nli(
        tmp_path / "permuted", body=body, labels=("entailment", "contradiction", "neutral")
    )
    first, second = (load_scorer("nli", folder, **CPU).score(PAIRS) for folder in (usual, permuted))
    assert first.neutral is not None
    assert second.contradict is not None
    # the same network: its column 0 is called contradiction in one config and entailment in the
    # other
    assert second.entail.tolist() == first.contradict.tolist()  # type: ignore[union-attr]
    assert second.contradict.tolist() == first.neutral.tolist()
    assert second.neutral.tolist() == first.entail.tolist()  # type: ignore[union-attr]
    np.testing.assert_allclose(first.entail + first.neutral + second.entail, 1.0)


@pytest.mark.parametrize(
    "labels", [("LABEL_0", "LABEL_1", "LABEL_2"), ("entailment", "not_entailment"), ("e", "n", "c")]
)
def test_unnamed_classes_are_refused(labels: tuple[str, ...], tmp_path: Path) -> None:
    folder = tiny_scorers.build_nli(tmp_path / "nli", labels=labels)
    with pytest.raises(
        BeamUQError, match=r"id2label: .* are not entailment, neutral, contradiction"
    ):
        load_scorer("nli", folder, **CPU)


def test_a_cosine_has_no_direction_and_is_never_negative(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = load_scorer("embedding", folders["embedding"], **CPU)
    back = scorer.score([(b, a) for a, b in PAIRS])
    assert scorer.score(PAIRS).entail.tolist() == back.entail.tolist()
    monkeypatch.setattr(
        scorer, "embed", lambda texts: np.array([[1.0, 0.0], [-0.6, 0.8]])[: len(texts)]
    )
    assert scorer.score([("a", "b"), ("a", "a")]).entail.tolist() == [0.0, 1.0]


def test_each_distinct_row_is_scored_once(folders: dict[str, Path]) -> None:
    scorer: Any = load_scorer("cross_encoder", folders["cross_encoder"], **CPU)
    long = "William Shakespeare " * 20  # both of these are cut to the same tokens
    scorer.score(
        [("yes", "no"), ("yes", "no"), ("no", "yes"), (long, long), (long + "1945", long + "no")]
    )
    assert scorer.scored == 3


@pytest.mark.parametrize("kind", BUILDERS)
def test_pairs_of_which_ends_are_not_read_are_marked(kind: str, folders: dict[str, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders[kind])
    pairs = [(text, "no") for text in ("1" * count for count in range(30, 60))]
    scores = load_scorer(kind, folders[kind], **CPU).score(pairs)
    whole = [pair[:1] if kind == "embedding" else pair for pair in pairs]
    lengths = [len(tokenizer(*texts)["input_ids"]) for texts in whole]
    assert tiny_scorers.LENGTH in lengths  # what just fits is not cut
    assert scores.cut is not None
    assert scores.cut.tolist() == [length > tiny_scorers.LENGTH for length in lengths]
    assert scores.limit == tiny_scorers.LENGTH


@pytest.mark.parametrize("kind", ["nli", "cross_encoder"])
def test_rows_are_those_of_the_tokenizer(kind: str, folders: dict[str, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders[kind])
    encoding = packed_encoder.Encoding(tokenizer, max_length=tiny_scorers.LENGTH, with_types=True)
    draw = random.Random(1)
    texts = ["".join(draw.choices("aé n.東", k=draw.randrange(90))) for _ in range(60)]
    pairs = list(zip(texts, reversed(texts), strict=True))
    for row, (first, second) in zip(encoding.pair_rows(pairs), pairs, strict=True):
        whole = tokenizer([first], [second], truncation=True, return_token_type_ids=True)
        assert row == packed_encoder.EncoderInput(
            tuple(whole["input_ids"][0]), tuple(whole["token_type_ids"][0])
        )
    for row, text in zip(encoding.single_rows(texts), texts, strict=True):
        assert row.ids == tuple(tokenizer(text, truncation=True)["input_ids"])


def test_only_first_spares_the_second_text(folders: dict[str, Path]) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folders["cross_encoder"])
    encoding = packed_encoder.Encoding(tokenizer, max_length=tiny_scorers.LENGTH, with_types=False)
    pair = ("1945 no " * 30, "William Shakespeare " * 2)
    whole = tokenizer(*pair, truncation="only_first")
    assert encoding.pair_rows([pair], "only_first")[0].ids == tuple(whole["input_ids"])
    too_long = ("1945 no " * 30, "William Shakespeare " * 30)
    assert encoding.pair_rows([too_long], "only_first") == encoding.pair_rows([too_long])


@pytest.mark.parametrize("kind", BUILDERS)
def test_the_length_limit_is_the_models_where_the_tokenizer_names_none(
    kind: str, folders: dict[str, Path]
) -> None:
    scorer: Any = load_scorer(kind, folders[kind], **CPU)
    tokenizer = scorer.encoding.tokenizer
    tokenizer.model_max_length = int(1e30)
    limit = packed_encoder.max_length(scorer.model, tokenizer)
    assert limit == tiny_scorers.LENGTH
    mask = torch.ones(1, limit, dtype=torch.long)
    assert torch.isfinite(scorer.forward({"input_ids": 5 * mask, "attention_mask": mask})).all()


def test_bfloat16_stays_close(folders: dict[str, Path]) -> None:
    exact = load_scorer("embedding", folders["embedding"], **CPU).score(PAIRS).entail
    coarse = load_scorer(
        "embedding", folders["embedding"], dtype=torch.bfloat16, device=torch.device("cpu")
    )
    np.testing.assert_allclose(coarse.score(PAIRS).entail, exact, atol=0.1)


@pytest.mark.packaged
def test_minilm_gives_the_published_cosines() -> None:
    folder = ROOT / "resources/models/all-minilm-l6-v2"
    if not folder.is_dir():
        pytest.skip("resources/models/all-minilm-l6-v2 is not fetched")
    expected = {
        ("Euro", "euro"): 1.00,
        ("Paris", "London"): 0.58,
        ("a dog", "a cat"): 0.52,
        ("1945", "1946"): 0.80,
    }
    scores = load_scorer("embedding", folder, **CPU).score(list(expected)).entail
    np.testing.assert_allclose(scores, list(expected.values()), atol=0.005)


@pytest.mark.parametrize(
    ("one", "other"),
    [("-5", "5"), ("3.14", "314"), ("C++", "C#"), ("C++", "C"), ("+", "#"), ("Москва", "Париж")],
)
def test_lexical_parts_signs_points_and_symbols(one: str, other: str) -> None:
    assert load_scorer("lexical").score([(one, other), (one, one)]).entail.tolist() == [0, 1]


def test_lexical_under_the_papers_rule_has_rouges_words() -> None:
    pairs = [("-5", "5"), ("C++", "C#"), ("running dogs", "a dog runs")]
    assert load_scorer("lexical", words="rouge").score(pairs).entail.tolist() == [
        rouge_l(*pair) for pair in pairs
    ]
    assert rouge_l("-5", "5") == 1


def test_lexical_is_rouge_l_on_plain_words() -> None:
    plain = ["the Seine", "running dogs", "a dog runs", "William Shakespeare", "in 1945", ""]
    pairs = list(itertools.product(plain, plain))
    assert load_scorer("lexical").score(pairs).entail.tolist() == [rouge_l(*pair) for pair in pairs]
