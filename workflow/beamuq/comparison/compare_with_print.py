"""A run held against print: every printed number, every claim, and beam minus multinomial paired."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from beamuq import __version__
from beamuq.artifacts import Artifact
from beamuq.comparison import beam_minus_multinomial, claims, compare_numbers, comparison_rules, errata, printed_numbers
from beamuq.comparison.claim_verdicts import ClaimEvidence
from beamuq.comparison.comparison_page import Comparison
from beamuq.comparison.measured_results import MeasuredResults
from beamuq.comparison.needed_files import needed_files
from beamuq.study import Study


def compare_with_print(study: Study, study_file: Path, results_folder: Path, *, partial: bool = False) -> Comparison:
    """Everything that is written of a run: see :mod:`beamuq.comparison.comparison_page` and :mod:`beamuq.comparison.paired_forest_plot`.

    ``study_file`` is only hashed. With ``partial``, files that are not there yet are "not run".

    Raises
    ------
    BeamUQError
        If a declared file is damaged, or a file of results is missing, unreadable or of another cell.
    """
    wanted = needed_files(study)
    provenance: dict[str, object] = {
        "study": _sha256(study_file),
        "declared": comparison_rules.hashes(),
        "inputs": _hashes(results_folder, wanted),
        "versions": {"beamuq": __version__, "numpy": np.__version__, "pandas": pd.__version__},
    }
    return compared(MeasuredResults.read(study, results_folder, wanted, partial=partial), provenance)


def compared(found: MeasuredResults, provenance: dict[str, object]) -> Comparison:
    """The comparison of results that have been read, with the declared files."""
    rules = comparison_rules.read()
    printed, ledger = printed_numbers.read_printed_numbers(rules), errata.read_ledger()
    return Comparison(
        study=found.study,
        declared=rules,
        cells=compare_numbers.compare(found, printed, ledger, rules),
        formulations=compare_numbers.formulations(found, printed, ledger, rules),
        nearer=compare_numbers.nearer(found, printed, rules),
        differences=beam_minus_multinomial.differences(found, rules),
        claims=claims.judge(claims.read_claims(), ClaimEvidence(found, printed, rules)),
        errata=errata.ledger_table(ledger, printed),
        provenance=provenance,
    )


def _hashes(folder: Path, wanted: Iterable[Artifact]) -> dict[str, str]:
    """sha256 of the files that are there, by path under the results folder."""
    return {needed.path: _sha256(folder / needed.path) for needed in wanted if (folder / needed.path).is_file()}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
