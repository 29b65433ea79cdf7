"""The paper's claims in words: each with the measurement that decides it, and what a run makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pandas as pd
from pydantic import Field, model_validator

from beamuq.artifacts import Artifact
from beamuq.comparison.claim_measures import AnyMeasure
from beamuq.comparison.claim_verdicts import ClaimEvidence, NotRunError
from beamuq.comparison.compare_numbers import DEMO
from beamuq.comparison.comparison_rules import FOLDER, read_declared
from beamuq.exhibits.exhibit_inputs import distinct
from beamuq.study import Study
from beamuq.validation import StrictModel

STATUSES = ("supported", "partly", "undecided", "not supported", "not run")
COLUMNS = ["id", "where", "claim", "sign", "size", "significance", "status", "found"]


class Claim(StrictModel):
    """One claim, in our words, and what decides it."""

    id: Annotated[str, Field(pattern=r"^[a-z-]+$")]
    where: str
    claim: str
    decided_by: AnyMeasure | None = None
    missing: Annotated[str, Field(description="what would decide it, where no measurement of a study does")] = ""

    @model_validator(mode="after")
    def _decided_or_missing(self) -> Claim:
        if (self.decided_by is None) == (not self.missing):
            raise ValueError("a claim has either decided_by or missing; write one of them")
        return self


def read_claims(folder: Path = FOLDER) -> list[Claim]:
    """``claims.yaml``."""
    found: list[Claim] = read_declared(list[Claim], folder / "claims.yaml")
    return found


def needs(study: Study, claims: Sequence[Claim]) -> list[Artifact]:
    """What claims read beside evaluations, where the study's grid has it."""
    there = {
        (model, dataset, entry.recipe) for entry in study.grid for model in entry.models for dataset in entry.datasets
    }
    wanted = [need for claim in claims if claim.decided_by for need in claim.decided_by.needs(study)]
    cells = {need.dataset for need in wanted if (need.model, need.dataset, need.recipe) in there}
    return distinct(
        [
            need
            for need in wanted
            if (need.model, need.dataset, need.recipe) in there or (not need.model and need.dataset in cells)
        ]
    )


def judge(claims: Sequence[Claim], evidence: ClaimEvidence) -> pd.DataFrame:
    """One row a claim; ``COLUMNS``."""
    rows = []
    for claim in claims:
        row: dict[str, str] = {"id": claim.id, "where": claim.where, "claim": claim.claim}
        row |= {"sign": "-", "size": "-", "significance": "-"}
        if evidence.study.demo:
            rows.append(row | {"status": "not comparable", "found": DEMO})
            continue
        if claim.decided_by is None:
            rows.append(row | {"status": "not run", "found": f"missing: {claim.missing}"})
            continue
        try:
            verdict = claim.decided_by.verdict(evidence)
        except NotRunError as reason:
            rows.append(row | {"status": "not run", "found": str(reason)})
            continue
        parts = {"sign": verdict.sign, "size": verdict.size, "significance": verdict.significance}
        rows.append(row | parts | {"status": verdict.status, "found": verdict.found})
    return pd.DataFrame(rows, columns=COLUMNS)
