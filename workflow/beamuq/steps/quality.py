"""Measure how right the produced answers are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.judged_answer import produced_texts
from beamuq.models import devices
from beamuq.models.model_folder import identities
from beamuq.plan.job_types import MachineOptions, QualityJob
from beamuq.provenance import provenance, read_cell
from beamuq.scorers.named_options import GOLD_LABEL, named_options
from beamuq.scorers.quality_metrics import LEARNED, Learned, quality_values


def run(job: QualityJob, machine: MachineOptions) -> None:
    """Read questions and candidates, score the produced answers, write the quality table."""
    settings = job.settings
    read = {"candidates": ("candidates", job.candidates), "questions": ("questions", job.questions)}
    tables = read_cell(read, machine.expected)
    loaded, questions = tables["candidates"], tables["questions"].table
    ids, *columns = (questions.column(name).to_pylist() for name in ("id", "references", "options"))
    references, options = (dict(zip(ids, column, strict=True)) for column in columns)
    texts = produced_texts(loaded.table, settings.answer_source, settings.beam)
    answers = [(name, question) for name, of_name in texts.items() for question in of_name]
    for _, question in answers:
        if question not in references:
            raise BeamUQError(f"{job.candidates}: question {question!r} is not in {job.questions}; make both anew")
    folders = {name: file.parent for name, file in (("model", job.model), ("backbone", job.backbone)) if file}
    models = identities(folders, job.folders, folders)
    learned = Learned(options=[options[question] for _, question in answers])
    if settings.metric in LEARNED:
        device, dtype = devices.prepare(job.device, job.dtype, machine.threads)
        model, backbone = folders.get("model"), folders.get("backbone")
        learned = replace(learned, model=model, backbone=backbone, dtype=dtype, device=device, cache=machine.cache_root)
    produced = [texts[name][question] for name, question in answers]
    values = quality_values(
        settings.metric,
        produced,
        [references[question] for _, question in answers],
        settings.normalizer,
        learned,
    )
    rows = [{"id": q, "answer_source": name, "value": float(v)} for (name, q), v in zip(answers, values, strict=True)]
    made = provenance(
        settings.model_dump(mode="json", exclude={"source", "backbone"}),
        {"questions": job.questions, "candidates": job.candidates},
        models=models,
        dtype=learned.dtype,
        device=learned.device,
    )
    made["empty"] = {name: [sum(not text for text in of.values()), len(of)] for name, of in texts.items()}
    if settings.metric == GOLD_LABEL:
        counts = {name: Counter({"answers": 0, "none": 0, "several": 0}) for name in texts}
        for (name, question), text in zip(answers, produced, strict=True):
            named = len(named_options(text, options[question]))
            counts[name].update({"answers": 1, "none": named == 0, "several": named > 1})
        made["options_named"] = counts
    parquet_tables.write(job.quality, "quality", rows, cell=loaded.cell | {"metric": settings.metric}, provenance=made)
