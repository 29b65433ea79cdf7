"""Where a number differs from print: does it lie nearer when decoded as the official release decodes?

The arm is a recipe of the grid that also draws the model's shipped answer: its beams are ``generate``'s, its produced
answers the argmax, its first beam and that draw. The main recipe's measurement is the first arm.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator, Philox

from beamuq.comparison.measured_results import MeasuredResults
from beamuq.comparison.printed_numbers import MeasuredPlace
from beamuq.exhibits.read_evaluation import Measured, mean_over_datasets
from beamuq.parquet_tables import Artifact

ARMS = {  # of tables with this produced answer: what is tried, and the produced answer of the arm's recipe
    "greedy": {"as the release draws the answer": "shipped", "as the release searches beams": "greedy"},
    "top_beam": {"as the release searches beams": "top_beam"},
}


def nearest_arm(results: MeasuredResults, place: MeasuredPlace, ours: Measured, printed: float, std: float) -> str:
    """Which arm lies nearest to a printed number, its value, and in what share of resamples it does.

    Every arm is resampled by the same draws of questions, and print within its ± ``std``; that the shipped answer is
    one draw of many is not in the share. Empty where no arm was run.
    """
    arms = {"the main recipe": ours} | _arms(results, place)
    values = {name: arm.value for name, arm in arms.items() if arm.value is not None and arm.replicates is not None}
    if len(values) < 2:
        return ""
    resampled = np.stack([np.asarray(arms[name].replicates, dtype=np.float64) for name in values])  # [arms, R]
    distances = np.abs(resampled - printed - Generator(Philox(0)).normal(scale=std, size=resampled.shape[1]))
    nearest = min(values, key=lambda name: abs(values[name] - printed))
    whole = distances[:, ~np.isnan(distances).any(axis=0)]
    share = float((whole.argmin(axis=0) == [*values].index(nearest)).mean()) if whole.size else 0.0
    return f"{nearest}: {values[nearest]:.3f}, nearest in {share:.0%} of {whole.shape[1]} resamples"


def _arms(results: MeasuredResults, place: MeasuredPlace) -> dict[str, Measured]:
    study = results.study
    recipe = next((e.recipe for e in study.grid if study.recipes[e.recipe].shipped), "")
    if not recipe or place.files[0].kind != "evaluation" or place.files[0].recipe != study.main.recipe:
        return {}
    files = [Artifact("evaluation", of.dataset, of.model, recipe, of.scorer) for of in place.files]
    cells = [cell for cell in map(results.cell, files) if cell is not None]
    found = {}
    for name, answer_source in ARMS[place.key.answer_source].items():
        key = place.key._replace(answer_source=answer_source)
        searched = key.variant == "beamsearch" or answer_source != place.key.answer_source
        if searched and len(cells) == len(files) and all(key in cell for cell in cells):
            titles = [file.dataset for file in files]
            found[name] = mean_over_datasets(cells, titles, key, study.evaluation.confidence)
    return found
