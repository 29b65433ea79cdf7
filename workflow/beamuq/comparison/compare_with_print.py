"""A run held against print: every printed number, every claim, and beam minus multinomial paired."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from beamuq import __version__
from beamuq.comparison import beam_minus_multinomial, claims, errata, number_statuses
from beamuq.comparison.claim_verdicts import ClaimEvidence
from beamuq.comparison.comparison_page import Comparison
from beamuq.comparison.files_held_against_print import needed_files
from beamuq.comparison.measured_results import MeasuredResults
from beamuq.comparison.printed_numbers import read_printed_numbers
from beamuq.comparison.tolerances_and_families import declared_hashes, read_rules
from beamuq.parquet_tables import file_sha256
from beamuq.study_config import Study


def compare_with_print(study: Study, study_file: Path, results_folder: Path, *, partial: bool = False) -> Comparison:
    """Everything that is written of a run, by :mod:`.comparison_page` and :mod:`.paired_forest_plot`.

    ``study_file`` is only hashed. With ``partial``, files that are not there yet are "not run".

    Raises BeamUQError if a declared file is damaged, or a file of results is missing, unreadable or of another cell.
    """
    versions = {"beamuq": __version__, "numpy": np.__version__, "pandas": pd.__version__}
    provenance = {"study": file_sha256(study_file), **declared_hashes(), **versions}
    return compared(MeasuredResults.read(study, results_folder, needed_files(study), partial=partial), provenance)


def compared(found: MeasuredResults, provenance: dict[str, str]) -> Comparison:
    """The comparison of results that have been read, with the declared files."""
    rules = read_rules()
    printed, ledger = read_printed_numbers(), errata.read_ledger()
    cells = number_statuses.compare(found, printed, ledger, rules)
    claimed, evidence = claims.read_claims(), ClaimEvidence(found, printed, rules)
    asked = claims.ask(claimed, evidence)
    return Comparison(
        study=found.study,
        rules=rules,
        cells=cells,
        formulations=number_statuses.formulations(found, printed, ledger, rules),
        differences=beam_minus_multinomial.differences(found, rules),
        claims=claims.judge(claimed, evidence, asked),
        asked=asked,
        errata=errata.ledger_table(ledger, printed),
        provenance=provenance,
    )
