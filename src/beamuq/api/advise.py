"""Where one's own questions are on the map of when beams win, and what it shows there."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
import pandas as pd

from beamuq.api.candidate_records import QuestionRecord, read_records
from beamuq.api.rows import Rows, markdown, named
from beamuq.array_types import Floats, Ints
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import estimate, resample_blocks
from beamuq.evaluation.known_distribution import LEAST_TOLD, coordinates
from beamuq.scorers.quality_metrics import exact_match
from beamuq.text_normalization import normalize_triviaqa

RESAMPLES, LEAST_QUESTIONS = 2000, 50
MAPPED_M = 10
NAMES = {
    "mass": "covered mass of the beams",
    "repeats": "share of samples that repeat a text",
    "fair share": "share of questions with a fair share",
    "kappa": "κ (1: calibrated, below: overconfident)",
}
LIMITS = (
    "The map is of one small model (SmolLM2 135M), sharpened, with answers of a few words: a finding there, no promise "
    "here. It cannot tell how your quality is judged (exact text favours beams, similarity less), nor whether your "
    "model's errors follow κ."
)


@dataclass(frozen=True)
class Advice:
    """``coordinates``: name, value, low, high, n; ``findings``: what the map shows there; ``notes``: what is not known.

    Intervals are 95 %, over questions or their groups. ``findings`` has columns quality, dataset, kappa, and beams −
    samples: PRR of ten beams minus that of ten samples with its interval on the map, positive where beams rank better.
    """

    coordinates: pd.DataFrame
    findings: pd.DataFrame
    notes: tuple[str, ...]

    def __str__(self) -> str:
        head = f"PRR of {MAPPED_M} beams minus that of {MAPPED_M} samples on the map at this place:"
        notes = "".join(f"- {note}\n" for note in self.notes)
        return f"{markdown(self.coordinates)}\n{head}\n\n{markdown(self.findings)}\n{notes}"


def advise(rows: Rows) -> Advice:
    """Say where questions of one's own are on the map of when beams win, and what it shows there.

    50 to 200 questions do. Beams need log-probabilities of whole sequences; samples and right answers are optional.

    Parameters
    ----------
    rows
        A .jsonl, .json or .parquet file as score takes it, a question a row, with beams; in Python mappings or a frame
        too. Its key answers, a list of right ones, tells κ.

    Returns
    -------
    The coordinates with intervals, the map's differences there, and what cannot be told.

    Raises BeamUQError in one line: a bad row, or no question whose beams all have log-probabilities.

    Examples
    --------
    >>> beams = [{"text": "Rome", "logprob": -0.1}, {"text": "Milan", "logprob": -3.0}]
    >>> advice = beamuq.advise([{"answer": "Rome", "beams": beams}])
    >>> advice.coordinates.round(2)["value"].tolist()[0]
    0.95
    """
    records = read_records(rows)
    known = [record for record in records if record.beams and all(beam.total is not None for beam in record.beams)]
    if not known:
        raise BeamUQError(f"{named(rows)}: no question has beams that all have a logprob; decode with beams")
    groups = [record.group or record.id for record in known]
    counts = np.concatenate([*resample_blocks(groups, RESAMPLES, 0, "advise")], axis=1)
    M = min(MAPPED_M, *(len(record.beams) for record in known))
    drawn = _coordinates(known, counts, M)
    told = pd.DataFrame([vars(estimate(values[0], values[1:])) for values in drawn.values()])
    told = told[["value", "low", "high"]].astype(float).assign(questions=len(known))
    told.insert(0, "coordinate", list(NAMES.values()))
    mass, repeats, _, kappa = told["value"]
    with (resources.files("beamuq.evaluation") / "when_beams_win.csv").open(encoding="utf-8") as file:
        there = pd.read_csv(file)
    notes = {
        LIMITS: True,
        f"{len(records) - len(known)} of {len(records)} questions are left out: they lack beams or "
        "log-probabilities.": len(known) < len(records),
        f"{len(known)} questions are few: ask at least {LEAST_QUESTIONS}.": len(known) < LEAST_QUESTIONS,
        f"The mass is of {M} beams, the map of {MAPPED_M}, which would cover more.": M < MAPPED_M,
        "No samples: how many repeat is not known.": np.isnan(repeats),
        f"κ is not known: fewer than {LEAST_TOLD} questions have a right answer (answers) among their beams and "
        "another one. The map is shown for κ = 0.5 and 1.": np.isnan(kappa),
        "κ is outside the map; its edge is shown.": _outside(kappa, there["kappa"]),
        "The covered mass is outside the map; its edge is shown.": _outside(mass, there["mass"]),
    }
    return Advice(told, _findings(there, mass, kappa), tuple(note for note, due in notes.items() if due))


def _coordinates(known: list[QuestionRecord], counts: Ints, M: int) -> dict[str, Floats]:
    """Each of ``NAMES`` on all questions and on each resample, NaN where it is not known."""
    shape = len(known), max(len(record.beams) for record in known)
    logprob, right, repeats = np.full(shape, np.nan), np.zeros(shape, dtype=bool), np.full(len(known), np.nan)
    for n, record in enumerate(known):
        for place, beam in enumerate(record.beams):
            logprob[n, place] = beam.total
            right[n, place] = exact_match(beam.text, record.answers or [], normalize_triviaqa)
        if texts := [sample.text for sample in record.samples]:
            repeats[n] = 1 - len(set(texts)) / len(texts)
    weights = counts * ~np.isnan(repeats)[:, None]
    with np.errstate(invalid="ignore"):
        repeated = np.nan_to_num(repeats) @ weights / weights.sum(axis=0)
    found = coordinates(logprob, right, counts, M) | {"repeats": repeated}
    return {name: found[name] for name in NAMES}


def _outside(place: float, there: pd.Series[float]) -> bool:
    return place < there.min() or place > there.max()  # NaN is not


def _findings(there: pd.DataFrame, mass: float, kappa: float) -> pd.DataFrame:
    """The map's values at a place, by quality and dataset, interpolated in κ, then in mass; outside, at its edge."""
    found = []
    for (quality, dataset), part in there.groupby(["quality", "dataset"], sort=False):
        for place in [0.5, 1.0] if np.isnan(kappa) else [kappa]:
            row = {"quality": quality, "dataset": dataset, "kappa": place}
            for name, column in {"beams − samples": "value", "low": "low", "high": "high"}.items():
                grid = part.pivot(index="mass", columns="kappa", values=column)
                at_kappa = [np.interp(place, grid.columns, values) for values in grid.to_numpy()]
                row[name] = float(np.interp(mass, grid.index, at_kappa))
            found.append(row)
    return pd.DataFrame(found)
