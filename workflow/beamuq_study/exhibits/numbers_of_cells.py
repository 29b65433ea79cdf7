"""The evaluated numbers of a study's cells as tables name them, and their means over datasets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from beamuq.errors import BeamUQError
from beamuq.evaluation.candidate_sets import QuestionBin, equal_bins
from beamuq.evaluation.estimates import KEYS, MEAN, Estimates, joined
from beamuq_study.exhibits.method_groups import OVER_BEAMS, OVER_SAMPLES
from beamuq_study.exhibits.table_formats import decimal
from beamuq_study.exhibits.table_of_numbers import Keys, frame_of
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ALL
from beamuq_study.result_files import MARK, Inputs, as_stored
from beamuq_study.study_config import Study

GAIN = f"{OVER_BEAMS} - {OVER_SAMPLES}"
"""The variant of what :func:`beam_gains` gives."""


def measured(
    study: Study,
    inputs: Inputs,
    chosen: Sequence[Cell],
    forms: Sequence[Keys],
    *,
    metric: str = "PRR",
    answer_source: str = "greedy",
    subset: str = ALL,
    quality: str = "",
) -> Estimates:
    """A metric of some forms of methods in each cell, under the keys by which tables name them.

    ``forms``: "method", "variant" and "setting" of each. ``quality``: "" is the study's main one.
    Raises BeamUQError where an evaluation has no such row.
    """
    places = frame_of(
        [{**cell.place, "metric": metric, **form} for form in forms for cell in chosen]
    )
    stored = as_stored(study, places)
    try:
        values = inputs.estimates(
            chosen,
            quality,
            metric=metric,
            answer_source=answer_source,
            subset=subset,
            method=set(stored["method"]),
            variant=set(stored["variant"]),
            setting=set(stored["setting"]),
        ).at(stored)
    except KeyError as error:
        raise BeamUQError(
            f"evaluation: no row for {error.args[0]}; add it to scoring, or evaluate again"
        ) from error
    return values.assign(variant=places["variant"].tolist(), setting=places["setting"].tolist())


def beam_gains(estimates: Estimates) -> Estimates:
    """Each beam form minus its multinomial form."""
    beams = estimates.where(variant=OVER_BEAMS)
    samples = estimates.where(variant=OVER_SAMPLES)
    return beams.minus(samples, on=set(KEYS) - {"variant"})


def gains_over_draws(estimates: Estimates, draws: Sequence[str]) -> Estimates:
    """Each beam form minus the mean of its multinomial form over the settings ``draws``, paired."""
    beams = estimates.where(variant=OVER_BEAMS, setting="")
    samples = estimates.where(variant=OVER_SAMPLES, setting=draws).mean_over_draws("")
    return beams.minus(samples, on=set(KEYS) - {"variant"})


def bins_of_mass(study: Study, inputs: Inputs, cell: Cell, count: int) -> list[QuestionBin]:
    """About equally many of a cell's questions each, by the mass that the main beams cover."""
    mass = inputs.candidates(cell).mass(study.main.beam, study.main.num_candidates)
    return equal_bins(mass, count, partial(decimal, digits=2))


def left_out(estimates: Estimates) -> str:
    """† where a cell of too many empty answers is left out of means."""
    return MARK if estimates.too_empty.any() else ""


def means(study: Study, estimates: Estimates) -> Estimates:
    """Means over datasets, whose notes call them by their titles."""
    titles = {name: dataset.title for name, dataset in study.datasets.items()}
    return estimates.mean_over_datasets(titles)


@dataclass(frozen=True)
class Averaged:
    """Estimates, with their means where they are of several datasets."""

    estimates: Estimates
    dataset: str  # the one to print: the mean, or the only one
    title: str  # what titles call it


def with_mean(study: Study, estimates: Estimates) -> Averaged:
    """Estimates and, where they are of several datasets, their means."""
    datasets = list(estimates.frame["dataset"].unique())
    if len(datasets) == 1:
        return Averaged(estimates, datasets[0], study.datasets[datasets[0]].title)
    both = joined([estimates, means(study, estimates)])
    return Averaged(both, MEAN, f"mean over {len(datasets)} datasets")
