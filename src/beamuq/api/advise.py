"""Where one's own questions are on the map of when beams win, and what it shows there."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
import pandas as pd

from beamuq.api.believed_endings import warn_if_endings_are_believed
from beamuq.api.candidate_records import QuestionRecord, read_records
from beamuq.api.rows import Rows, markdown, named
from beamuq.array_types import Bools, Floats, Ints
from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import estimate, resample_blocks
from beamuq.evaluation.known_distribution import (
    LEAST_TOLD,
    claims_more_than_held,
    coordinates,
    kappa_interval,
    tell_kappa,
)
from beamuq.scorers.quality_metrics import exact_match

RESAMPLES = 2000
LEAST_QUESTIONS = 50
MAPPED_M = 10
KAPPAS_WHERE_UNKNOWN = (0.75, 0.5, 1.0)  # value, low, high
NAMES = {
    "mass": "covered mass of the beams",
    "held": "questions with a right answer among the beams",
    "repeats": "samples that repeat a text",
    "fair share": "questions where a mixture is sure to err less than samples",
    "kappa": "κ (1: calibrated, below: overconfident)",
}
LIMITS = (
    "The map is of one small model (SmolLM2 135M), sharpened, with answers of a few words: a "
    "finding there, no promise here. It cannot tell how your quality is judged (exact text "
    "favours beams, similarity less), nor whether your model's errors follow κ."
)
BESIDE_THE_MAP = (
    "The beams claim more of the probability than questions have a right answer among them: the "
    "model is overconfident beyond what κ says, which is estimated from these questions alone. "
    "The map does not apply."
)


@dataclass(frozen=True)
class Advice:
    """Where questions are on the map (``coordinates``) and what it shows there (``findings``).

    ``coordinates`` has columns coordinate, value, low, high, questions; ``notes``: what is not
    known.

    Intervals are 95 %, over questions or their groups; that of κ is by the likelihood ratio.
    ``findings`` has columns quality, dataset, beams − samples: PRR of ten beams minus that of ten
    samples on the map, positive where beams rank better, with an interval that covers those of mass
    and κ; ``verdict``: who is ahead, or undecided.
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
        A .jsonl, .ndjson, .json or .parquet file as score takes it, a question a row, with beams;
        in Python mappings or a frame too. Its key answers, a list of right ones, tells κ and in
        how many questions one is among the beams.

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
    usable = [record for record in records if _beams_have_logprobs(record)]
    if not usable:
        raise BeamUQError(
            f"{named(rows)}: no question has beams that all have a logprob; "
            'give each as {"text": …, "logprob": …}'
        )
    warn_if_endings_are_believed(usable)
    groups = [record.group or record.id for record in usable]
    counts = np.concatenate([*resample_blocks(groups, RESAMPLES, 0, "advise")], axis=1)
    M = min(MAPPED_M, *(len(record.beams) for record in usable))
    places = _places(_coordinates(usable, groups, counts, M))
    beams_map = _read_map()
    notes = _notes(places, beams_map, M, questions=len(records), usable=len(usable))
    findings = _findings(beams_map, _masses(places), _kappas(places))
    table = places.reset_index(drop=True)
    table.insert(0, "coordinate", list(NAMES.values()))
    return Advice(table, findings, tuple(notes))


def _beams_have_logprobs(record: QuestionRecord) -> bool:
    return bool(record.beams) and all(beam.total is not None for beam in record.beams)


def _read_map() -> pd.DataFrame:
    path = resources.files("beamuq.evaluation") / "when_beams_win.csv"
    with path.open(encoding="utf-8") as file:
        return pd.read_csv(file)


@dataclass(frozen=True)
class _Coordinate:
    """On all questions, then on each resample [1 + B], NaN: not known; of how many questions.

    ``ends``: an interval of its own, in place of the resamples'.
    """

    values: Floats
    questions: int
    ends: tuple[float, float] | None = None


def _coordinates(
    records: list[QuestionRecord], groups: list[str], counts: Ints, M: int
) -> dict[str, _Coordinate]:
    """Each of NAMES, in their order; ``counts`` [N, 1 + B]: of each question in each resample."""
    logprob, right = _beams(records)
    of_beams = coordinates(logprob, right, counts, M)
    is_beam = ~np.isnan(logprob)
    tells_kappa = tell_kappa(logprob, is_beam, right)
    kappa_ends = kappa_interval(logprob, is_beam, right, groups)
    found_right = [
        float(right[n].any()) if record.answers else np.nan for n, record in enumerate(records)
    ]
    repeats = [_repeats(record) for record in records]
    return {
        "mass": _Coordinate(of_beams["mass"], len(records)),
        "held": _mean_of_known(np.array(found_right), counts),
        "repeats": _mean_of_known(np.array(repeats), counts),
        "fair share": _Coordinate(of_beams["fair share"], len(records)),
        "kappa": _Coordinate(of_beams["kappa"], int(tells_kappa.sum()), kappa_ends),
    }


def _beams(records: list[QuestionRecord]) -> tuple[Floats, Bools]:
    """log p of each question's beams [N, M], NaN: no beam, and whether each is a right answer."""
    shape = (len(records), max(len(record.beams) for record in records))
    logprob = np.full(shape, np.nan)
    right = np.zeros(shape, dtype=bool)
    for n, record in enumerate(records):
        for place, beam in enumerate(record.beams):
            logprob[n, place] = beam.total
            right[n, place] = exact_match(beam.text, record.answers or [])
    return logprob, right


def _repeats(record: QuestionRecord) -> float:
    """The share of samples that repeat a text; NaN without samples."""
    texts = [sample.text for sample in record.samples]
    return 1 - len(set(texts)) / len(texts) if texts else np.nan


def _mean_of_known(column: Floats, counts: Ints) -> _Coordinate:
    """The mean of a column [N] over the questions that are not NaN, on each resample."""
    is_known = ~np.isnan(column)
    with np.errstate(invalid="ignore"):
        means = np.nan_to_num(column) @ counts / (is_known @ counts)
    return _Coordinate(means, int(is_known.sum()))


def _places(by_name: dict[str, _Coordinate]) -> pd.DataFrame:
    """value, low, high and questions of each coordinate, by its name."""
    rows = [_row(coordinate) for coordinate in by_name.values()]
    places = pd.DataFrame(rows, index=pd.Index(by_name), columns=["value", "low", "high"])
    questions = [coordinate.questions for coordinate in by_name.values()]
    return places.astype(float).assign(questions=questions)


def _row(coordinate: _Coordinate) -> tuple[float | None, float | None, float | None]:
    """The value of a coordinate with the ends of its interval."""
    of_resamples = estimate(coordinate.values[0], coordinate.values[1:])
    if coordinate.ends is None:
        return of_resamples.value, of_resamples.low, of_resamples.high
    return of_resamples.value, *coordinate.ends


def _notes(
    places: pd.DataFrame, beams_map: pd.DataFrame, M: int, *, questions: int, usable: int
) -> list[str]:
    """What is not known, or does not hold, of ``usable`` of all ``questions``."""
    values = places["value"]
    notes = []
    if usable < LEAST_QUESTIONS:
        notes.append(f"{usable} questions are few: ask at least {LEAST_QUESTIONS}.")
    if claims_more_than_held(places["low"]["mass"], places["high"]["held"]):
        notes.append(BESIDE_THE_MAP)
    if usable < questions:
        notes.append(
            f"{questions - usable} of {questions} questions are left out: they lack beams or "
            "log-probabilities."
        )
    if M < MAPPED_M:
        notes.append(f"The mass is of {M} beams, the map of {MAPPED_M}, which would cover more.")
    if np.isnan(values["repeats"]):
        notes.append("No samples: how many repeat is not known.")
    if np.isnan(values["kappa"]):
        notes.append(
            "κ is not known: a right answer is among the beams of "
            f"{places['questions']['kappa']} questions that have another one, {LEAST_TOLD} are "
            "needed. The map is shown from κ = 0.5 to 1."
        )
    if _is_outside(values["kappa"], beams_map["kappa"]):
        notes.append("κ is outside the map; its edge is shown.")
    if _is_outside(values["mass"], beams_map["mass"]):
        notes.append("The covered mass is outside the map; its edge is shown.")
    return [*notes, LIMITS]


def _is_outside(value: float, mapped: pd.Series[float]) -> bool:
    return value < mapped.min() or value > mapped.max()  # NaN is not


def _masses(places: pd.DataFrame) -> Floats:
    """The covered mass and the ends of its interval."""
    return places.loc["mass", ["value", "low", "high"]].to_numpy(dtype=np.float64)


def _kappas(places: pd.DataFrame) -> Floats:
    """κ and the ends of its interval; where it is unknown those that the notes name."""
    kappas = places.loc["kappa", ["value", "low", "high"]].to_numpy(dtype=np.float64)
    return np.array(KAPPAS_WHERE_UNKNOWN) if np.isnan(kappas[0]) else kappas


def _findings(beams_map: pd.DataFrame, masses: Floats, kappas: Floats) -> pd.DataFrame:
    """The map at the first mass and κ, with an interval that covers all of them.

    Outside the map it is that of its edge.
    """
    findings = []
    for (quality, dataset), rows in beams_map.groupby(["quality", "dataset"], sort=False):
        low = float(_interpolated(rows, "low", masses, kappas).min())
        high = float(_interpolated(rows, "high", masses, kappas).max())
        findings.append(
            {
                "quality": quality,
                "dataset": dataset,
                "beams − samples": float(_interpolated(rows, "value", masses, kappas)[0, 0]),
                "low": low,
                "high": high,
                "verdict": _verdict(low, high),
            }
        )
    return pd.DataFrame(findings)


def _interpolated(rows: pd.DataFrame, column: str, masses: Floats, kappas: Floats) -> Floats:
    """A column of the map of one dataset and quality at each κ and mass: [κ, mass]."""
    grid = rows.pivot(index="mass", columns="kappa", values=column)
    by_mass = [np.interp(kappas, grid.columns, values) for values in grid.to_numpy()]
    by_kappa = np.transpose(by_mass)
    return np.array([np.interp(masses, grid.index, values) for values in by_kappa])


def _verdict(low: float, high: float) -> str:
    if low > 0:
        return "beams ahead"
    return "samples ahead" if high < 0 else "undecided"
