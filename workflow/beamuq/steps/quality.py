"""Measure how right the produced answers are."""

from __future__ import annotations

from beamuq import parquet_tables
from beamuq.errors import BeamUQError
from beamuq.models import devices
from beamuq.models.model_folder import identities
from beamuq.plan.job_types import MachineOptions, QualityJob
from beamuq.provenance import provenance, read_cell
from beamuq.scorers.quality_metrics import LEARNED, Learned, quality_values
from beamuq.scorers.similarity_table import produced_texts


def run(job: QualityJob, machine: MachineOptions) -> None:
    """Read questions and candidates, score the produced answers, write the quality table."""
    settings = job.settings
    read = {"candidates": ("candidates", job.candidates), "questions": ("questions", job.questions)}
    tables = read_cell(read, machine.expected)
    loaded, questions = tables["candidates"], tables["questions"].table
    references = dict(zip(*(questions.column(name).to_pylist() for name in ("id", "references")), strict=True))
    texts = produced_texts(loaded.table, settings.answer_source, settings.beam)
    answers = [(name, question) for name, of_name in texts.items() for question in of_name]
    for _, question in answers:
        if question not in references:
            raise BeamUQError(f"{job.candidates}: question {question!r} is not in {job.questions}; make both anew")
    folders = {name: file.parent for name, file in (("model", job.model), ("backbone", job.backbone)) if file}
    models = identities(folders, job.folders, folders)
    learned = Learned()
    if settings.metric in LEARNED:
        device, dtype = devices.prepare(job.device, job.dtype, machine.threads)
        learned = Learned(folders.get("model"), folders.get("backbone"), dtype, device, machine.cache_root)
    values = quality_values(
        settings.metric,
        [texts[name][question] for name, question in answers],
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
        folders=job.folders,
    )
    parquet_tables.write(job.quality, "quality", rows, cell=loaded.cell | {"metric": settings.metric}, provenance=made)
