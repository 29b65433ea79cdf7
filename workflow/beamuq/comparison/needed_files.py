"""Which files of a study's results are held against print."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.comparison import claims, measured_results
from beamuq.exhibits.core import unique
from beamuq.study import Study


def needed_files(study: Study) -> list[Artifact]:
    """Every file that the comparison reads, without repetitions; only what the study's grid has."""
    return unique([*measured_results.needs(study), *claims.needs(study, claims.read_claims())])
