"""Which files of a study's results are held against print."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.comparison import claims, measured_results
from beamuq.exhibits.exhibit_inputs import distinct
from beamuq.study import Study


def needed_files(study: Study) -> list[Artifact]:
    """Every file that the comparison reads, without repetitions; only what the study's grid has."""
    return distinct([*measured_results.needs(study), *claims.needs(study, claims.read_claims())])
