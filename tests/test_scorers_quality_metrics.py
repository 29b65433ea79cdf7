"""Quality of produced answers, and the step that writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer, RobertaModel

import synthetic
import tiny_scorers
from beamuq.errors import BeamUQError
from beamuq.scorers.alignscore import AlignScore, chunks, sentences
from beamuq.scorers.quality_metrics import Learned, answer_f1, exact_match, quality_values
from beamuq.text_normalization import normalize_triviaqa
from beamuq_study import parquet_tables
from run_job import run_job
from tiny import CPU


@pytest.mark.parametrize(
    ("answer", "references", "expected"),
    [
        ("the Eiffel Tower", ["Eiffel tower!"], 1.0),
        ("It was William Shakespeare, of course", ["Shakespeare"], 1.0),  # contained
        ("William Shakespeare", ["William Henry Shakespeare"], 0.8),  # 2·2 / (2 + 3)
        ("Shakespeare William", ["William Shakespeare"], 1.0),  # the same words
        ("a tower in Eiffel", ["Eiffel tower"], 0.8),  # both words, but not in a row: 2·2 / (3 + 2)
        ("1945", ["45"], 0.0),  # no part of a word
        ("no no no", ["no yes"], 0.4),  # 2·1 / (3 + 2): a word counts as often as both have it
        ("Rome", ["Paris", "Roma", "Rome"], 1.0),  # best over references
        ("", ["Paris"], 0.0),
        ("", [""], 0.0),  # an empty answer is never right
        ("...", ["the"], 0.0),
        ("Paris", ["the"], 0.0),  # a reference of nothing but an article is not in every answer
        ("A", ["a"], 1.0),  # ... but equals itself
    ],
)
def test_answer_f1(answer: str, references: list[str], expected: float) -> None:
    assert answer_f1(answer, references) == pytest.approx(expected)


DIFFER = [
    *[
        ("-5", "5"),
        ("5", "-5"),
        ("3.14", "314"),
        ("$5.00", "500"),
        ("C++", "C#"),
        ("C++", "C"),
        ("15.00", "5.00"),
    ],
    *[
        ("It is -5", "5"),
        ("It is 15.00", "5"),
        ("1.5", "5"),
        ("Hepatitis B", "Hepatitis A"),
        ("三十", "三"),
    ],
]
EQUAL = [
    *[
        ("−5", "-5"),
        ("Beyonce\u0301", "Beyonc\u00e9"),
        ("“Hamlet”", "Hamlet"),
        ("don’t", "don't"),
        ("２０", "20"),
    ],
    *[
        ("1939–1945", "1939-1945"),
        ("5.0", "5"),
        ("1,000", "1000"),
        ("$5.00", "$5"),
        ("$5", "5"),
        ("50 %", "50%"),
    ],
    *[
        ("Spider-Man", "Spiderman"),
        ("Spider-Man", "spider man"),
        ("٣", "3"),
        ("½", "0.5"),
        ("？", "?"),
    ],
]


@pytest.mark.parametrize(("answer", "reference"), DIFFER)
def test_answers_of_ones_own_that_differ_in_a_sign_a_point_or_a_symbol_are_wrong(
    answer: str, reference: str
) -> None:
    assert answer_f1(answer, [reference]) < 1
    assert exact_match(answer, [reference]) == 0


@pytest.mark.parametrize(("answer", "reference"), EQUAL)
def test_answers_of_ones_own_that_are_the_same_in_another_spelling_are_right(
    answer: str, reference: str
) -> None:
    assert answer_f1(answer, [reference]) == 1
    assert exact_match(answer, [reference]) == 1


def test_a_reference_is_found_in_a_script_without_spaces() -> None:
    assert answer_f1("答案是巴黎。", ["巴黎"]) == 1
    assert answer_f1("Ответ — Москва.", ["москва"]) == 1


@pytest.mark.parametrize("normalizer", ["squad", "triviaqa", "coqa"])
def test_the_papers_datasets_keep_squads_words(normalizer: str) -> None:
    pairs = [("-5", "5"), ("3.14", "314"), ("C++", "C#"), ("−5", "-5"), ("“Hamlet”", "Hamlet")]
    answers = [answer for answer, _ in pairs]
    references = [[reference] for _, reference in pairs]
    assert quality_values("answer_f1", answers, references, normalizer).tolist() == [1, 1, 1, 0, 0]
    assert quality_values("answer_f1", answers, references, "folded").tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("references", ["Paris", []])
def test_references_that_are_no_list_of_texts_are_refused(references: list[str]) -> None:
    with pytest.raises(BeamUQError, match=r"references: .*give .* right answer"):
        answer_f1("Paris", references)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("the Rock-n-Roll", 1.0), ("rock n roll music", 0.0), ("", 0.0), ("Roll", 0.0)],
)
def test_exact_match(answer: str, expected: float) -> None:
    assert exact_match(answer, ["Rock n Roll", "R&R"], normalize_triviaqa) == expected


def test_sentences_end_at_marks_before_space() -> None:
    assert sentences('He said "Go!" Then 3.5 men left. Why? ') == [
        'He said "Go!',
        "Then 3.5 men left.",
        "Why?",
    ]
    assert sentences("  ") == ["(empty)"]


def test_chunks_hold_about_350_words_of_whole_sentences() -> None:
    short = "one two three. " * 10
    assert len(chunks(short)) == 1
    long = (
        "one two three four. " * 200
    )  # 800 words: 800 // 350 + 1 = 3 parts of 200 // 3 = 66 sentences, and the rest
    assert [chunk.count(".") for chunk in chunks(long)] == [66, 66, 66, 2]
    assert len(chunks("word " * 800)) == 1  # one sentence is never cut


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return tiny_scorers.build_alignscore(tmp_path_factory.mktemp("alignscore"))


def by_hand(checkpoint: Path, backbone: Path, context: str, claim: str) -> float:
    """P(aligned) of one pair: body, pooler, three-way head, softmax, class 0."""
    state = torch.load(checkpoint, weights_only=True)["state_dict"]
    body = RobertaModel.from_pretrained(backbone).eval()
    tokens = AutoTokenizer.from_pretrained(backbone)(
        [context], [claim], return_tensors="pt", truncation="only_first"
    )
    with torch.no_grad():
        pooled = body(
            input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]
        ).pooler_output
        logits = torch.nn.functional.linear(
            pooled, state["tri_layer.weight"], state["tri_layer.bias"]
        )
    return float(logits.softmax(-1)[0, 0])


def test_alignscore_is_the_aligned_class_of_its_three_way_head(
    checkpoint: tuple[Path, Path],
) -> None:
    pairs = [
        ("paris", "the capital of france"),
        ("", "no"),
        ("no " * 60, "1945 " * 10 + "no"),
        ("yes", "yes"),
    ]
    contexts, claims = zip(*pairs, strict=True)
    values = AlignScore(*checkpoint, **CPU).score(contexts, claims)
    expected = [by_hand(*checkpoint, context or "(empty)", claim) for context, claim in pairs]
    np.testing.assert_allclose(values, expected, atol=1e-5)
    assert np.ptp(values) > 0.01


def test_alignscore_is_the_mean_over_claims_of_the_best_chunk(
    checkpoint: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = AlignScore(*checkpoint, **CPU)
    part = " ".join(["w"] * 200) + ". "
    table = {
        (1, "No."): 0.1,
        (2, "No."): 0.9,
        (3, "No."): 0.2,
        (1, "Yes."): 0.4,
        (2, "Yes."): 0.3,
        (3, "Yes."): 0.5,
    }

    def aligned(pairs: Sequence[tuple[str, str]]) -> Any:
        numbers = {text: i + 1 for i, text in enumerate(dict.fromkeys(first for first, _ in pairs))}
        return np.array([table[numbers[first], second] for first, second in pairs])

    monkeypatch.setattr(scorer, "_aligned", aligned)
    context = part.replace("w", "a") + part.replace("w", "b") + part.replace("w", "c")
    assert scorer.score([context], ["No. Yes."]).tolist() == [pytest.approx((0.9 + 0.5) / 2)]


def test_alignscore_takes_the_best_reference(checkpoint: tuple[Path, Path]) -> None:
    learned = Learned(*checkpoint, torch.float32, torch.device("cpu"))
    each = [
        quality_values("alignscore", ["Paris!"], [[claim]], "triviaqa", learned)[0]
        for claim in ("yes", "no")
    ]
    best = quality_values(
        "alignscore", ["paris", "Paris!"], [["no"], ["yes", "The no"]], "triviaqa", learned
    )
    assert best.tolist() == [each[1], max(each)]


def test_alignscore_warns_of_texts_of_which_it_reads_only_the_beginning(
    checkpoint: tuple[Path, Path],
) -> None:
    scorer = AlignScore(*checkpoint, **CPU)
    long = "yes " * scorer.encoding.max_length
    told = rf"AlignScore reads {scorer.encoding.max_length} tokens at a time: 1 of 2 pairs"
    with pytest.warns(UserWarning, match=told):
        scorer.score(["no", long], ["yes", "yes"])


class _Code:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("ran"),))


def test_code_in_a_checkpoint_never_runs(
    checkpoint: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stored = torch.load(checkpoint[0], weights_only=True)
    torch.save(stored | {"callbacks": _Code()}, tmp_path / "evil.ckpt")
    with pytest.raises(BeamUQError, match="not a readable AlignScore checkpoint"):
        AlignScore(tmp_path / "evil.ckpt", checkpoint[1], **CPU)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("metric", "references", "normalizer", "told"),
    [
        ("answer_f1", [[]], "squad", "answer 0 has no reference"),
        ("bleu", [["x"]], "squad", "'bleu'; known: answer_f1, exact_match, alignscore, gold_label"),
        ("answer_f1", [["x"]], "none", "'none'; known: folded, squad, triviaqa, coqa"),
        ("alignscore", [["x"]], "squad", "needs --model"),
        ("gold_label", [["x"]], "squad", "a question has no options; list multiple-choice sets"),
    ],
)
def test_quality_that_cannot_be_measured_is_refused(
    metric: str, references: list[list[str]], normalizer: str, told: str
) -> None:
    with pytest.raises(BeamUQError, match=told):
        quality_values(metric, ["Paris"], references, normalizer)


@pytest.mark.parametrize(
    ("answer", "value"), [("(B)", 1.0), ("a chair", 1.0), ("A", 0.0), ("A or B", 0.0), ("", 0.0)]
)
def test_gold_label_asks_that_the_one_option_named_is_the_gold_one(
    answer: str, value: float
) -> None:
    options = Learned(options=[["desk", "a chair"]])
    assert quality_values("gold_label", [answer], [["a chair"]], "squad", options).tolist() == [
        value
    ]


def test_gold_label_refuses_references_of_which_none_is_an_option() -> None:
    options = Learned(options=[["desk", "a chair"]])
    with pytest.raises(BeamUQError, match="answer 0: reference 'B': none of its options"):
        quality_values("gold_label", ["(B)"], [["B"]], "squad", options)


SETTINGS = {
    "normalizer": "triviaqa",
    "answer_source": ["greedy", "top_beam"],
    "beam": "beam M=2",
    "format": 1,
}


def run_step(
    folder: Path,
    settings: dict[str, Any],
    *,
    greedy: str = "Rome",
    made: dict[str, Any] | None = None,
    **models: Path,
) -> parquet_tables.Loaded:
    """The quality step on questions and candidates of two questions; ``made``: the settings of the
    candidates.
    """
    questions, candidates, quality = (
        folder / f"{kind}.parquet" for kind in ("questions", "candidates", "quality")
    )
    asked = [("q1", ["Paris", "City of Light"]), ("q2", ["six", "6"])]
    options = ["Paris", "six"]
    empty: dict[str, Any] = {
        "question": "?",
        "context": [],
        "history": [],
        "options": options,
        "group": "g",
    }
    rows = [empty | {"id": key, "references": references} for key, references in asked]
    parquet_tables.write(questions, "questions", rows, cell={"dataset": "d"})
    texts = {
        ("q1", "greedy"): greedy,
        ("q1", "beam M=2"): "It is Paris",
        ("q2", "greedy"): "6",
        ("q2", "beam M=2"): "",
    }
    table = synthetic.candidates(
        *((key, strategy, 0, text) for (key, strategy), text in texts.items())
    )
    facts = {"settings": made or {}}
    parquet_tables.write(
        candidates, "candidates", table, cell={"model": "m", "dataset": "d"}, provenance=facts
    )
    job = {"questions": questions, "candidates": candidates, "quality": quality} | models
    run_job("quality", job | {"settings": SETTINGS | settings, "device": "cpu", "dtype": "auto"})
    return parquet_tables.read(quality, "quality")


def test_the_step_scores_both_produced_answers(tmp_path: Path) -> None:
    loaded = run_step(tmp_path, {"metric": "answer_f1"})
    values = {(row["id"], row["answer_source"]): row["value"] for row in loaded.table.to_pylist()}
    expected = {
        ("q1", "greedy"): 0.0,
        ("q2", "greedy"): 1.0,
        ("q1", "top_beam"): 1.0,
        ("q2", "top_beam"): 0.0,
    }
    assert values == expected
    assert loaded.cell == {"model": "m", "dataset": "d", "metric": "answer_f1"}


def test_of_an_answer_with_all_its_lines_the_gold_option_is_looked_for_in_all(
    tmp_path: Path,
) -> None:
    made = {"newline_stops": False}
    loaded = run_step(tmp_path, {"metric": "gold_label"}, greedy="Let us see.\nParis", made=made)
    values = [row["value"] for row in loaded.table.to_pylist() if row["answer_source"] == "greedy"]
    assert values[0] == 1


def test_the_step_scores_with_alignscore(checkpoint: tuple[Path, Path], tmp_path: Path) -> None:
    models = {
        "model": checkpoint[0].parent / "fetched.json",
        "backbone": checkpoint[1] / "config.json",
    }
    loaded = run_step(tmp_path, {"metric": "alignscore"}, **models)
    values = loaded.table.column("value").to_numpy()
    assert len(values) == 4
    assert ((values > 0) & (values < 1)).all()
    assert set(loaded.provenance["models"]) == {"model", "backbone"}
