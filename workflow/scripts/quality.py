"""Measure how right the produced answers are."""

from collections import Counter
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.models import devices
from beamuq.models.model_folder import identities
from beamuq.scorers.named_options import GOLD_LABEL, named_options
from beamuq.scorers.quality_metrics import LEARNED, QUALITY, Learned, quality_values
from beamuq_study import parquet_tables
from beamuq_study.produced_answers import produced_texts
from beamuq_study.provenance import newline_ended, provenance, read_cell
from beamuq_study.rule_programs import run_program


def run(
    *,
    questions: Path,
    candidates: Path,
    model: Path | None,
    backbone: Path | None,
    settings: dict[str, Any],
    made_with: dict[str, Any],
    loading: dict[str, Any],
    cache: Path | None = None,
    threads: int = 1,
    quality: Path,
) -> None:
    """Read questions and candidates, score the produced answers, write the quality table.

    ``model``: a file in the checkpoint's folder; ``backbone``: one in the folder with its config
    and tokenizer.
    """
    files = {"questions": questions, "candidates": candidates}
    read = read_cell(files, made_with)
    asked = {
        row["id"]: row
        for row in read["questions"].table.select(["id", "references", "options"]).to_pylist()
    }
    answers = produced_texts(read["candidates"].table, settings["answer_source"], settings["beam"])
    texts = [
        (name, question, text)
        for name, by_id in answers.items()
        for question, text in by_id.items()
    ]
    if unknown := [question for _, question, _ in texts if question not in asked]:
        raise BeamUQError(
            f"{candidates}: question {unknown[0]!r} is not in {questions}; make both anew"
        )
    references, options = (
        [asked[question][key] for _, question, _ in texts] for key in ("references", "options")
    )
    folders = {
        name: file.parent for name, file in (("model", model), ("backbone", backbone)) if file
    }
    models = identities(folders, loading["content"], folders)
    learned = Learned(options=options)
    if settings["metric"] in LEARNED:
        device, dtype = devices.prepare(loading["device"], loading["dtype"], threads)
        learned = Learned(options=options, **folders, dtype=dtype, device=device, cache=cache)
    produced = [text for _, _, text in texts]
    if settings["metric"] in QUALITY and not newline_ended(read["candidates"]):
        produced = [" ".join(text.split()) for text in produced]  # metrics compare one line
    values = quality_values(
        settings["metric"], produced, references, settings["normalizer"], learned
    )
    rows = [
        {"id": question, "answer_source": name, "value": float(value)}
        for (name, question, _), value in zip(texts, values, strict=True)
    ]
    footer = provenance(settings, files, models=models, dtype=learned.dtype, device=learned.device)
    footer["empty"] = {
        name: [list(by_id.values()).count(""), len(by_id)] for name, by_id in answers.items()
    }
    if settings["metric"] == GOLD_LABEL:
        counts = {name: Counter({"answers": 0, "none": 0, "several": 0}) for name in answers}
        for (name, _, _), text, shown in zip(texts, produced, options, strict=True):
            named = len(named_options(text, shown))
            counts[name].update({"answers": 1, "none": named == 0, "several": named > 1})
        footer["options_named"] = counts
    cell = read["candidates"].cell | {"metric": settings["metric"]}
    parquet_tables.write(quality, "quality", rows, cell=cell, provenance=footer)


if __name__ == "__main__":
    run_program(run, made="quality")
