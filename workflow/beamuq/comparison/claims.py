"""The paper's claims in words, and ours: each with the measurement that decides it, and what a run makes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated

import pandas as pd
from pydantic import Field, model_validator

from beamuq.comparison.claim_measures import AnyMeasure
from beamuq.comparison.claim_verdicts import ClaimEvidence, NotRunError
from beamuq.comparison.number_statuses import DEMO, NOT_COMPARABLE
from beamuq.comparison.tolerances_and_families import FOLDER, read_declared
from beamuq.config_errors import StrictModel

COLUMNS = ["id", "where", "claim", "sign", "size", "significance", "status", "found", "in_this_study"]
ASKED = ["id", "claim", "of", "answer", "found"]
CANNOT_SAY = "cannot say"


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


def read_claims() -> list[Claim]:
    """``claims.yaml``."""
    found: list[Claim] = read_declared(list[Claim], FOLDER / "claims.yaml")
    return found


def judge(claims: Sequence[Claim], evidence: ClaimEvidence, asked: pd.DataFrame) -> pd.DataFrame:
    """One row a claim; ``COLUMNS``. ``asked``: what :func:`ask` found of them."""
    own = _texts(asked)
    rows = [
        claim.model_dump(include={"id", "where", "claim"}) | _judged(claim, evidence) | {"in_this_study": own[claim.id]}
        for claim in claims
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def ask(claims: Sequence[Claim], evidence: ClaimEvidence) -> pd.DataFrame:
    """What a study's own cells say to the same questions, whatever its settings; ``ASKED``.

    A row a claim and what it is asked of, those first that have an ``answer``: yes, partly, no or undecided. One that
    says "cannot say" tells in ``found`` what the study lacks.
    """
    own, rows = replace(evidence, of_paper=False), []
    for claim in claims:
        named = claim.model_dump(include={"id", "claim"})
        measures = claim.decided_by.asked_of(evidence.study, evidence.rules.paper) if claim.decided_by else {}
        for of, measure in measures.items():
            try:
                verdict = measure.verdict(own)
                rows.append(named | {"of": of, "answer": verdict.answer, "found": verdict.found})
            except NotRunError as reason:
                rows.append(named | {"of": of, "answer": CANNOT_SAY, "found": str(reason)})
        if not measures:
            why = claim.decided_by.needs if claim.decided_by else f"missing: {claim.missing}"
            rows.append(named | {"of": "", "answer": CANNOT_SAY, "found": why})
    frame = pd.DataFrame(rows, columns=ASKED)
    return frame.sort_values("answer", key=lambda answers: answers == CANNOT_SAY, kind="stable", ignore_index=True)


def _texts(asked: pd.DataFrame) -> dict[str, str]:
    """Claim → ``model: answer; found`` of all that it was asked of."""
    texts: dict[str, str] = {}
    for claim, of, answer, found in zip(*(asked[name] for name in ("id", "of", "answer", "found")), strict=True):
        told = f"{of}: {answer}; {found}" if of else f"{answer}; {found}"
        texts[claim] = f"{texts[claim]}; {told}" if claim in texts else told
    return texts


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
