"""A run held against print: every printed number, every claim, and beam minus multinomial paired."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from beamuq import __version__
from beamuq.artifacts import Artifact
from beamuq.comparison import claims, compare, declared, paired, selfcheck, values
from beamuq.comparison.evidence import Evidence
from beamuq.comparison.needed_files import needed_files
from beamuq.comparison.render import Comparison
from beamuq.comparison.results import Results
from beamuq.study import Study


def compare_with_print(study: Study, study_file: Path, results_folder: Path, *, partial: bool = False) -> Comparison:
    """Everything that is written of a run: see :mod:`beamuq.comparison.render` and :mod:`beamuq.comparison.forest`.

    ``study_file`` is only hashed. With ``partial``, files that are not there yet are "not run".

    Raises
    ------
    BeamUQError
        If a declared file is damaged, or a file of results is missing, unreadable or of another cell.
    """
    wanted = needed_files(study)
    provenance: dict[str, object] = {
        "study": _sha256(study_file),
        "declared": declared.hashes(),
        "inputs": _hashes(results_folder, wanted),
        "versions": {"beamuq": __version__, "numpy": np.__version__, "pandas": pd.__version__},
    }
    return compared(Results.read(study, results_folder, wanted, partial=partial), provenance)


def compared(found: Results, provenance: dict[str, object]) -> Comparison:
    """The comparison of results that have been read, with the declared files."""
    rules = declared.read()
    printed, ledger = values.read_values(rules), selfcheck.read_ledger()
    return Comparison(
        study=found.study,
        declared=rules,
        cells=compare.compare(found, printed, ledger, rules),
        formulations=compare.formulations(found, printed, ledger, rules),
        nearer=compare.nearer(found, printed, rules),
        differences=paired.differences(found, rules),
        claims=claims.judge(claims.read_claims(), Evidence(found, printed, rules)),
        errata=selfcheck.ledger_table(ledger, printed),
        provenance=provenance,
    )


def _hashes(folder: Path, wanted: Iterable[Artifact]) -> dict[str, str]:
    """sha256 of the files that are there, by path under the results folder."""
    return {needed.path: _sha256(folder / needed.path) for needed in wanted if (folder / needed.path).is_file()}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
