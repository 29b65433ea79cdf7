"""Which files of a study's results are held against print."""

from __future__ import annotations

from beamuq.comparison.claims import read_claims
from beamuq.comparison.tolerances_and_families import PAPER_STUDY
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study, load_study


def needed_files(study: Study) -> list[Artifact]:
    """Every file that the comparison reads, without repetitions; only what the study's grid has.

    Evaluation and replicates of the whole grid; quality and questions of the main recipe, for accuracies; and what
    claims read beside these.
    """
    found, cells = [], set()
    for entry in study.grid:
        for model in entry.models:
            for dataset in entry.datasets:
                cells.add((model, dataset, entry.recipe))
                for scorer in entry.scorers:
                    found += [
                        Artifact(kind, dataset, model, entry.recipe, scorer) for kind in ("evaluation", "replicates")
                    ]
                if entry.recipe == study.main.recipe:
                    found.append(Artifact("quality", dataset, model, entry.recipe, metric=study.main_quality.metric))
                    found.append(Artifact("questions", dataset))
    measures = [claim.decided_by for claim in read_claims() if claim.decided_by]
    paper = load_study(PAPER_STUDY)
    for measure in measures:
        files = [file for of in (measure, *measure.asked_of(study, paper).values()) for file in of.files(study)]
        there = {file.dataset for file in files if (file.model, file.dataset, file.recipe) in cells}
        found += [
            file
            for file in files
            if (file.model, file.dataset, file.recipe) in cells or (not file.model and file.dataset in there)
        ]
    return list(dict.fromkeys(found))
