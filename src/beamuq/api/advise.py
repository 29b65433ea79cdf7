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
from beamuq.evaluation.known_distribution import LEAST_TOLD, coordinates, tell_kappa
from beamuq.scorers.quality_metrics import exact_match

RESAMPLES, LEAST_QUESTIONS = 2000, 50
MAPPED_M = 10
NAMES = {
    "mass": "covered mass of the beams",
    "held": "questions with a right answer among the beams",
    "repeats": "samples that repeat a text",
    "fair share": "questions where a mixture is sure to err less than samples",
    "kappa": "κ (1: calibrated, below: overconfident)",
}
LIMITS = (
    "The map is of one small model (SmolLM2 135M), sharpened, with answers of a few words: a "
    "finding there, no promise "
    "here. It cannot tell how your quality is judged (exact text favours beams, similarity less), "
    "nor whether your "
    "model's errors follow κ."
)
BESIDE_THE_MAP = (
    "The beams claim more of the probability than questions have a right answer among them: the "
    "model is overconfident "
    "beyond what κ says, which is estimated from these questions alone. The map does not apply."
)


@dataclass(frozen=True)
class Advice:
    """``coordinates``: name, value, low, high, n; ``findings``: what the map shows there;
    ``notes``: what is not known.

    Intervals are 95 %, over questions or their groups. ``findings`` has columns quality, dataset,
    beams − samples: PRR of ten beams minus that of ten samples on the map, positive where beams
    rank better, with an interval that covers those of mass and κ; ``verdict``: who is ahead, or
    undecided.
    """

    coordinates: pd.DataFrame
    findings: pd.DataFrame
    notes: tuple[str, ...]

    def __str__(self) -> str:
        head = f"PRR of {MAPPED_M} beams minus that of {MAPPED_M} samples on the map at this place:"
        notes = "".join(f"- {note}\n" for note in self.notes)
        return f"{notes}\n{markdown(self.coordinates)}\n{head}\n\n{markdown(self.findings)}"


def advise(rows: Rows) -> Advice:
    """Say where questions of one's own are on the map of when beams win, and what it shows there.

    50 to 200 questions do. Beams need log-probabilities of whole sequences; samples and right
    answers are optional.

    Parameters
    ----------
    rows
        A .jsonl, .json or .parquet file as score takes it, a question a row, with beams; in Python
        mappings or a frame too. Its key answers, a list of right ones, tells κ and in how many
        questions one is among the beams.

    Returns
    -------
    The coordinates with intervals, the map's differences there, and what cannot be told.

    Raises BeamUQError in one line: a bad row, or no question whose beams all have
    log-probabilities.

    Examples
    --------
    >>> beams = [{"text": "Rome", "logprob": -0.1}, {"text": "Milan", "logprob": -3.0}]
    >>> advice = beamuq.advise([{"answer": "Rome", "beams": beams}])
    >>> advice.coordinates.round(2)["value"].tolist()[0]
    0.95
    """
    records = read_records(rows)
    known = [
        record
        for record in records
        if record.beams and all(beam.total is not None for beam in record.beams)
    ]
    if not known:
        fix = 'give each as {"text": …, "logprob": …}'
        raise BeamUQError(f"{named(rows)}: no question has beams that all have a logprob; {fix}")
    groups = [record.group or record.id for record in known]
    counts = np.concatenate([*resample_blocks(groups, RESAMPLES, 0, "advise")], axis=1)
    M = min(MAPPED_M, *(len(record.beams) for record in known))
    drawn = _coordinates(known, counts, M)
    with (resources.files("beamuq.evaluation") / "when_beams_win.csv").open(
        encoding="utf-8"
    ) as file:
        there = pd.read_csv(file)
    told = pd.DataFrame([vars(estimate(values[0], values[1:])) for values, _ in drawn.values()])
    told = (
        told[["value", "low", "high"]]
        .astype(float)
        .assign(questions=[n for _, n in drawn.values()])
    )
    told.insert(0, "coordinate", list(NAMES.values()))
    places = told.set_index(pd.Index(NAMES))
    mass, kappa = places["value"]["mass"], places["value"]["kappa"]
    left_out, telling = len(records) - len(known), places["questions"]["kappa"]
    notes = (
        (
            len(known) < LEAST_QUESTIONS,
            f"{len(known)} questions are few: ask at least {LEAST_QUESTIONS}.",
        ),
        (places["high"]["held"] < places["low"]["mass"], BESIDE_THE_MAP),
        (
            left_out,
            f"{left_out} of {len(records)} questions are left out: they lack beams or "
            "log-probabilities.",
        ),
        (M < MAPPED_M, f"The mass is of {M} beams, the map of {MAPPED_M}, which would cover more."),
        (np.isnan(places["value"]["repeats"]), "No samples: how many repeat is not known."),
        (
            np.isnan(kappa),
            f"κ is not known: a right answer is among the beams of {telling} questions that have "
            "another one, "
            f"{LEAST_TOLD} are needed. The map is shown from κ = 0.5 to 1.",
        ),
        (
            kappa >= 0 and np.isnan(places["low"]["kappa"]),
            "κ has no interval, as too few resamples tell of it; the map is shown for any.",
        ),
        (_outside(kappa, there["kappa"]), "κ is outside the map; its edge is shown."),
        (_outside(mass, there["mass"]), "The covered mass is outside the map; its edge is shown."),
        (True, LIMITS),
    )
    if np.isnan(kappa):
        places.loc["kappa", ["value", "low", "high"]] = 0.75, 0.5, 1.0
    ends = places[["value", "low", "high"]].fillna(
        {"low": there["kappa"].min(), "high": there["kappa"].max()}
    )
    findings = _findings(there, ends.loc["mass"].to_numpy(), ends.loc["kappa"].to_numpy())
    return Advice(told, findings, tuple(note for due, note in notes if due))


def _coordinates(
    known: list[QuestionRecord], counts: Ints, M: int
) -> dict[str, tuple[Floats, int]]:
    """Each of ``NAMES`` on all questions and on each resample, NaN where it is not known; of how
    many questions.
    """
    shape = len(known), max(len(record.beams) for record in known)
    logprob, right = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    repeats, held = np.full(len(known), np.nan), np.full(len(known), np.nan)
    for n, record in enumerate(known):
        for place, beam in enumerate(record.beams):
            logprob[n, place] = beam.total
            right[n, place] = exact_match(beam.text, record.answers or [])
        if texts := [sample.text for sample in record.samples]:
            repeats[n] = 1 - len(set(texts)) / len(texts)
        if record.answers:
            held[n] = right[n].any()
    found = {
        name: (values, len(known))
        for name, values in coordinates(logprob, right, counts, M).items()
    }
    for name, column in {"repeats": repeats, "held": held}.items():
        told = ~np.isnan(column)
        with np.errstate(invalid="ignore"):
            found[name] = np.nan_to_num(column) @ counts / (told @ counts), int(told.sum())
    found["kappa"] = found["kappa"][0], int(tell_kappa(logprob, ~np.isnan(logprob), right).sum())
    return {name: found[name] for name in NAMES}


def _outside(place: float, there: pd.Series[float]) -> bool:
    return place < there.min() or place > there.max()  # NaN is not


def _findings(there: pd.DataFrame, masses: Floats, kappas: Floats) -> pd.DataFrame:
    """The map's values at the first mass and κ, with an interval that covers all of them; outside,
    at its edge.
    """
    found = []
    for (quality, dataset), part in there.groupby(["quality", "dataset"], sort=False):
        at = {}
        for column in ("value", "low", "high"):
            grid = part.pivot(index="mass", columns="kappa", values=column)
            by_kappa = np.transpose(
                [np.interp(kappas, grid.columns, values) for values in grid.to_numpy()]
            )
            at[column] = np.array([np.interp(masses, grid.index, values) for values in by_kappa])
        low, high = float(at["low"].min()), float(at["high"].max())
        verdict = "beams ahead" if low > 0 else "samples ahead" if high < 0 else "undecided"
        row = {"quality": quality, "dataset": dataset, "beams − samples": float(at["value"][0, 0])}
        found.append(row | {"low": low, "high": high, "verdict": verdict})
    return pd.DataFrame(found)
