"""The paper's claims in words: each with the measurement that decides it, and what a run makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import pandas as pd
from pydantic import Field, model_validator

from beamuq.comparison.claim_measures import AnyMeasure
from beamuq.comparison.claim_verdicts import ClaimEvidence, NotRunError
from beamuq.comparison.number_statuses import DEMO, NOT_COMPARABLE
from beamuq.comparison.tolerances_and_families import FOLDER, read_declared
from beamuq.config_errors import StrictModel

STATUSES = ("supported", "partly", "undecided", "not supported", "not run")
COLUMNS = ["id", "where", "claim", "sign", "size", "significance", "status", "found", "in_this_study"]


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


def judge(claims: Sequence[Claim], evidence: ClaimEvidence) -> pd.DataFrame:
    """One row a claim; ``COLUMNS``."""
    rows = [
        claim.model_dump(include={"id", "where", "claim"})
        | _judged(claim, evidence)
        | {"in_this_study": _in_this_study(claim, evidence)}
        for claim in claims
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def _in_this_study(claim: Claim, evidence: ClaimEvidence) -> str:
    """What the study's own cells say to the same question, whatever its settings; empty where it has none."""
    own, texts = replace(evidence, of_paper=False), []
    for model, measure in (claim.decided_by.asked_of(evidence.study) if claim.decided_by else {}).items():
        try:
            verdict = measure.verdict(own)
            texts.append(f"{model}: {verdict.status}; {verdict.found}")
        except NotRunError as reason:
            texts.append(f"{model}: not run; {reason}")
    return "; ".join(texts)


def _judged(claim: Claim, evidence: ClaimEvidence) -> dict[str, str]:
    nothing = {"sign": "-", "size": "-", "significance": "-"}
    if evidence.study.demo:
        return nothing | {"status": NOT_COMPARABLE, "found": DEMO}
    try:
        if claim.decided_by is None:
            raise NotRunError(f"missing: {claim.missing}")
        verdict = claim.decided_by.verdict(evidence)
    except NotRunError as reason:
        return nothing | {"status": "not run", "found": str(reason)}
    return {**asdict(verdict), "status": verdict.status}
