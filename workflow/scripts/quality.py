"""Measure how right the produced answers are."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.models import devices
from beamuq.models.model_folder import identities
from beamuq.scorers.named_options import GOLD_LABEL, named_options
from beamuq.scorers.quality_metrics import LEARNED, Learned, quality_values
from beamuq_study import parquet_tables
from beamuq_study.produced_answers import produced_texts
from beamuq_study.provenance import provenance, read_cell
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

    ``model``: a file in the checkpoint's folder; ``backbone``: one in the folder with its config and tokenizer.
    """
    read = {"candidates": ("candidates", candidates), "questions": ("questions", questions)}
    tables = read_cell(read, made_with)
    loaded, questions_table = tables["candidates"], tables["questions"].table
    ids, *columns = (questions_table.column(name).to_pylist() for name in ("id", "references", "options"))
    references, options = (dict(zip(ids, column, strict=True)) for column in columns)
    texts = produced_texts(loaded.table, settings["answer_source"], settings["beam"])
    answers = [(name, question) for name, of_name in texts.items() for question in of_name]
    for _, question in answers:
        if question not in references:
            raise BeamUQError(f"{candidates}: question {question!r} is not in {questions}; make both anew")
    folders = {name: file.parent for name, file in (("model", model), ("backbone", backbone)) if file}
    models = identities(folders, loading["content"], folders)
    learned = Learned(options=[options[question] for _, question in answers])
    if settings["metric"] in LEARNED:
        device, dtype = devices.prepare(loading["device"], loading["dtype"], threads)
        model_folder, backbone_folder = folders.get("model"), folders.get("backbone")
        learned = replace(
            learned, model=model_folder, backbone=backbone_folder, dtype=dtype, device=device, cache=cache
        )
    produced = [texts[name][question] for name, question in answers]
    values = quality_values(
        settings["metric"],
        produced,
        [references[question] for _, question in answers],
        settings["normalizer"],
        learned,
    )
    rows = [{"id": q, "answer_source": name, "value": float(v)} for (name, q), v in zip(answers, values, strict=True)]
    footer = provenance(
        settings,
        {"questions": questions, "candidates": candidates},
        models=models,
        dtype=learned.dtype,
        device=learned.device,
    )
    footer["empty"] = {name: [sum(not text for text in of.values()), len(of)] for name, of in texts.items()}
    if settings["metric"] == GOLD_LABEL:
        counts = {name: Counter({"answers": 0, "none": 0, "several": 0}) for name in texts}
        for (name, question), text in zip(answers, produced, strict=True):
            named = len(named_options(text, options[question]))
            counts[name].update({"answers": 1, "none": named == 0, "several": named > 1})
        footer["options_named"] = counts
    parquet_tables.write(quality, "quality", rows, cell=loaded.cell | {"metric": settings["metric"]}, provenance=footer)


if __name__ == "__main__":
    run_program(run)
