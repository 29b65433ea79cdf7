"""The step that decodes: whole texts where newlines end none, and prompts that end in a thought."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from beamuq.errors import BeamUQError
from beamuq_study import parquet_tables
from beamuq_study.plan.paths import Artifact
from run_job import run_job
from tiny import CHAT, build_tiny_model, likes_newlines

CELL = {"model": "tiny", "dataset": "web", "recipe": "main"}
SETTINGS: dict[str, Any] = {
    "cell": CELL,
    "recipe": {"sample": {"size": 20, "temperatures": [1.0]}},
    "questions": 1,
    "max_new_tokens": 8,
    "newline_stops": True,
    "merge_stop_tokens": False,
    "seed": 1,
    "batch_questions": 1,
    "style": "base",
    "enable_thinking": None,
    "format": 1,
}
PROMPT = "Question: who?\nAnswer:"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("decoded") / "llama"
    model, tokenizer = likes_newlines(build_tiny_model("llama", place))
    model.save_pretrained(place)
    tokenizer.save_pretrained(place)
    return place


def run(folder: Path, out: Path, prompt: str = PROMPT, **changes: Any) -> parquet_tables.Loaded:
    """The candidates of one prompt."""
    settings = SETTINGS | changes
    prompts = out / Artifact("prompts", "web", style=settings["style"]).path
    rows = [{"id": "a", "prompt": prompt}]
    cell = {"style": settings["style"], "dataset": "web"}
    parquet_tables.write(prompts, "prompts", rows, cell=cell, provenance={"template_sha256": "x"})
    candidates = out / Artifact("candidates", "web", "tiny", "main").path
    job = {
        "prompts": prompts,
        "model": folder / "config.json",
        "candidates": candidates,
        "settings": settings,
    }
    run_job("candidates", job)
    return parquet_tables.read(candidates, "candidates")


def test_texts_have_all_their_lines_where_newlines_end_no_answer(
    folder: Path, tmp_path: Path
) -> None:
    whole = run(folder, tmp_path / "whole", newline_stops=False).table.to_pylist()
    lines = run(folder, tmp_path / "lines").table.to_pylist()
    assert any("\n" in row["text"] for row in whole)
    assert not any("\n" in row["text"] for row in lines)
    for row in whole:
        ending = 1 if row["terminated"] else 0
        texts = row["token_texts"][: len(row["token_texts"]) - ending]
        if not any("\ufffd" in text for text in texts):
            assert row["text"] == "".join(texts).strip()


@pytest.mark.parametrize("style", ["base", "instruct"])
def test_a_prompt_that_leaves_a_thought_open_is_refused_by_its_id(
    style: str, folder: Path, tmp_path: Path
) -> None:
    prompt = f"{PROMPT} <think>\n" if style == "base" else PROMPT
    template = folder / "chat_template.jinja"
    template.write_text(CHAT.replace("assistant\n{% endif %}", "assistant\n<think>\n\n{% endif %}"))
    with pytest.raises(BeamUQError, match=r"^prompt 'a': .*leaves a thought open \(<think>\)"):
        run(folder, tmp_path, prompt, style=style)
    template.write_text(CHAT)
