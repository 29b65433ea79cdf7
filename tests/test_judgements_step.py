"""The step that writes the judgements table, and the methods that read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tiny_scorers
from beamuq.decoding import Beam, Greedy, Prompt, Sample, candidate_text, decode, stop_tokens
from beamuq.errors import BeamUQError
from beamuq.models.model_folder import model_identity
from beamuq.text_normalization import clean
from beamuq_study import parquet_tables
from beamuq_study.stages.recipe_to_policies import candidate_row
from run_job import run_job
from tiny import build_tiny_model, load_tiny_model

# the tiny models read 48 tokens at a time
pytestmark = pytest.mark.filterwarnings("ignore:.*only the beginnings were read")

TEMPLATE = Path(__file__).resolve().parents[1] / "src" / "beamuq" / "prompts" / "p_true.txt"
SAMPLE, BEAM = "sample T=1.0", "beam M=3"
CELL = {"model": "tiny", "dataset": "made", "recipe": "main"}
ALL: dict[str, Any] = {
    "answer_source": ["greedy", "top_beam"],
    "beam": BEAM,
    "sample": SAMPLE,
    "style": "base",
    "enable_thinking": None,
    "p_true": True,
    "ccp": {"kind": "nli", "equivalence_threshold": None},
    "relevance": {"kind": "cross_encoder"},
    "format": 1,
}
TEXTS = {
    "q1": "Which river runs through Paris?",
    "q2": "How many legs has a spider?",
    "q3": "Who wrote it?",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three tiny models and the tables of a cell that the first of them decoded."""
    folder = tmp_path_factory.mktemp("judgements")
    build_tiny_model("llama", folder / "language")
    tiny_scorers.build_nli(folder / "nli")
    tiny_scorers.build_cross_encoder(folder / "cross")
    model, tokenizer = load_tiny_model(folder / "language")
    stops = stop_tokens(tokenizer, model)
    prompts = [Prompt(key, tuple(tokenizer(text).input_ids)) for key, text in TEXTS.items()]
    found = decode(
        model, prompts, [Greedy(), Sample(3), Beam(3)], stop_ids=stops, seed=1, max_new_tokens=6
    )
    texts = {
        each.token_ids: clean(candidate_text(tokenizer, each.token_ids, stops)) for each in found
    }
    candidates = [candidate_row(each, texts[each.token_ids], tokenizer) for each in found]
    blank: dict[str, Any] = {"context": [], "history": [], "options": [], "references": ["x"]}
    questions = [{"id": key, "question": text, "group": key} | blank for key, text in TEXTS.items()]
    parquet_tables.write(
        folder / "questions.parquet", "questions", questions, cell={"dataset": "made"}
    )
    parquet_tables.write(folder / "candidates.parquet", "candidates", candidates, cell=CELL)
    return folder


def inputs_of(made: Path, settings: dict[str, Any]) -> dict[str, Path]:
    """The files that these settings call for, by name."""
    asked = {
        "template": (settings["p_true"], TEMPLATE),
        "language_model": (
            settings["p_true"] or settings["relevance"],
            made / "language/config.json",
        ),
        "nli": (settings["ccp"], made / "nli/config.json"),
        "relevance": (settings["relevance"], made / "cross/config.json"),
    }
    tables = {name: made / f"{name}.parquet" for name in ("questions", "candidates")}
    return tables | {name: path for name, (given, path) in asked.items() if given}


def run(
    made: Path,
    out: Path,
    *,
    give: dict[str, Path] | None = None,
    cache_root: Path | None = None,
    **changes: Any,
) -> parquet_tables.Loaded:
    settings = ALL | changes
    job = inputs_of(made, settings) | {"settings": settings, "judgements": out} | (give or {})
    run_job("model_judgements", job | {"device": "cpu", "dtype": "float32"}, cache=cache_root)
    return parquet_tables.read(out, "judgements")


@pytest.fixture(scope="module")
def whole(made: Path) -> parquet_tables.Loaded:
    return run(made, made / "whole.parquet")


def test_a_row_is_an_answer_or_a_candidate_that_sar_looks_at(whole: parquet_tables.Loaded) -> None:
    rows = whole.table.to_pylist()
    answers = [row for row in rows if not row["candidate_strategy"]]
    assert [(row["answer_source"], row["id"]) for row in answers] == [
        (p, q) for p in ALL["answer_source"] for q in TEXTS
    ]
    others = {
        (row["id"], row["candidate_strategy"], row["candidate_rank"])
        for row in rows[len(answers) :]
    }
    assert others == {
        (q, strategy, rank) for q in TEXTS for strategy in (SAMPLE, BEAM) for rank in range(3)
    }
    assert {row["answer_source"] for row in rows[len(answers) :]} == {""}
    assert all(
        row[part] is not None for row in answers for part in ("p_true_logprob", "ccp_labels")
    )
    assert all(row["token_relevances"] is not None for row in rows)


@pytest.mark.parametrize(("part", "off"), [("p_true", False), ("ccp", None), ("relevance", None)])
def test_a_part_not_asked_for_is_null_and_its_model_not_loaded(
    part: str, off: object, made: Path, whole: parquet_tables.Loaded, tmp_path: Path
) -> None:
    column = {"p_true": "p_true_logprob", "ccp": "ccp_labels", "relevance": "token_relevances"}[
        part
    ]
    found = run(made, tmp_path / "out.parquet", **{part: off})
    assert found.table.column(column).null_count == len(found.table)
    answers = whole.table.slice(0, 6)
    for other in {"p_true_logprob", "ccp_labels", "token_relevances"} - {column}:
        assert found.table.slice(0, 6).column(other).equals(answers.column(other))
    assert len(found.table) == (6 if part == "relevance" else len(whole.table))


def test_the_same_bytes_with_and_without_a_cache(
    made: Path, whole: parquet_tables.Loaded, tmp_path: Path
) -> None:
    assert len(whole.table) > 6
    expected = (made / "whole.parquet").read_bytes()
    for _ in range(2):
        run(made, tmp_path / "out.parquet", cache_root=tmp_path / "cache")
        assert (tmp_path / "out.parquet").read_bytes() == expected


def test_a_recipe_without_beams_has_greedy_answers_and_samples(made: Path, tmp_path: Path) -> None:
    found = run(made, tmp_path / "out.parquet", beam=None, answer_source=["greedy"]).table
    assert set(found.column("candidate_strategy").to_pylist()) == {"", SAMPLE}


def test_candidates_of_other_questions_are_refused(made: Path, tmp_path: Path) -> None:
    questions = parquet_tables.read(made / "questions.parquet", "questions").table.slice(1)
    parquet_tables.write(
        tmp_path / "fewer.parquet", "questions", questions, cell={"dataset": "made"}
    )
    with pytest.raises(BeamUQError, match="'q1'"):
        run(made, tmp_path / "out.parquet", give={"questions": tmp_path / "fewer.parquet"})


@pytest.mark.parametrize("part", ["p_true", "relevance"])
def test_another_model_than_the_one_that_gave_the_answers_is_refused(
    part: str, made: Path, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"p_true": False, "ccp": None, "relevance": None} | {part: ALL[part]}
    candidates = parquet_tables.read(made / "candidates.parquet", "candidates").table
    models = {"model": model_identity(made / "language")}
    give = {"candidates": tmp_path / "candidates.parquet"}
    parquet_tables.write(
        give["candidates"], "candidates", candidates, cell=CELL, provenance={"models": models}
    )
    run(made, tmp_path / "out.parquet", give=give, **asked)
    models["model"]["content"] = "0" * 64  # the weights were others then
    parquet_tables.write(
        give["candidates"], "candidates", candidates, cell=CELL, provenance={"models": models}
    )
    with pytest.raises(
        BeamUQError, match=rf"{made / 'language'}: is not the model .* {give['candidates']}"
    ):
        run(made, tmp_path / "out.parquet", give=give, **asked)
