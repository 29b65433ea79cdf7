"""Score every pair of answers that the methods can ask for."""

from __future__ import annotations

import sys

from beamuq import parquet_tables, plugins
from beamuq.models import devices
from beamuq.models.model_folder import identities
from beamuq.plan.job_types import MachineOptions, SimilarityJob
from beamuq.provenance import provenance, read_cell
from beamuq.scorers.scorer_protocol import scored, work_of
from beamuq.scorers.similarity_by_kind import load_scorer
from beamuq.scorers.similarity_table import needed_pairs, similarity_table


def run(job: SimilarityJob, machine: MachineOptions) -> None:
    """Read the candidates, score their pairs, write the similarity table."""
    settings = job.settings
    loaded = read_cell({"candidates": ("candidates", job.candidates)}, machine.expected)["candidates"]
    needed = needed_pairs(loaded.table, settings.answer_source, settings.beam, settings.only_with_answer)
    folder = job.model.parent if job.model else None
    models = identities({"model": folder}, job.folders, plugins.among(model=settings.kind))
    device, dtype = devices.prepare(job.device, job.dtype, machine.threads) if folder else (None, None)
    scorer = load_scorer(settings.kind, folder, dtype=dtype, device=device, cache=machine.cache_root)
    scores = scored(scorer, [(premise, hypothesis) for _, premise, hypothesis in needed])
    print(f"{settings.name}: {len(needed)} pairs; {work_of(scorer)}", file=sys.stderr)
    made = provenance(
        settings.model_dump(mode="json", exclude={"source"}),
        {"candidates": job.candidates},
        models=models,
        dtype=dtype,
        device=device,
    ) | {"pairs": len(needed)}
    cell = loaded.cell | {"scorer": settings.name}
    parquet_tables.write(job.similarity, "similarity", similarity_table(needed, scores), cell=cell, provenance=made)
