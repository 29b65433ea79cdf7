"""Where a number differs from print: does it lie nearer when decoded as the official release decodes?

The arm is another recipe than the main one, asked the same questions, that draws the model's shipped answer and whose
beams are those of ``generate``'s defaults; its produced answers are the argmax, its first beam and that draw. The main
recipe's measurement is the first arm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
from numpy.random import Generator, Philox

from beamuq.comparison.measured_results import MeasuredResults
from beamuq.comparison.printed_numbers import MEAN, MeasuredPlace
from beamuq.evaluation import bootstrap
from beamuq.exhibits import exhibit_cells
from beamuq.exhibits.read_evaluation import Measured, mean_over_datasets
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

ARMS = {  # of tables with this produced answer: what is tried, and the produced answer of the arm's recipe
    # a model that ships no sampling "draws" its greedy answer; of equally near arms the first is named
    "greedy": {"as the release searches beams": "greedy", "as the release draws the answer": "shipped"},
    "top_beam": {"as the release searches beams": "top_beam"},
}
ACCURACY = "accuracy"
COLUMNS = [
    *("model", "dataset", "arm", "answer", "method", "variant", "main", "released", "difference", "low", "high"),
    *("n", "note"),
]


def nearest_arm(results: MeasuredResults, place: MeasuredPlace, ours: Measured, printed: float, std: float) -> str:
    """Which arm lies nearest to a printed number, its value, and in what share of resamples it does.

    Every arm is resampled by the same draws of questions, and print within its ± ``std``; that the shipped answer is
    one draw of many is not in the share. Empty where no arm was run.
    """
    if place.files[0].kind == "quality":
        ours = results.accuracy(place.files[0], resampled=True) or ours
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


def changes(results: MeasuredResults, metric: str) -> pd.DataFrame:
    """The arm minus the main recipe, whatever print says: ``COLUMNS``, a row a cell and the mean over the cells.

    Of accuracy, and of ``metric`` of every method that both score; ``answer``: the main recipe's produced answer. The
    two are paired: cells that were not asked the same questions are left out.
    """
    study = results.study
    rows = []
    for model in exhibit_cells.models(study, study.main.recipe):
        for answer, arms in ARMS.items():
            for arm, produced in arms.items():
                pairs: dict[tuple[str, str], dict[str, tuple[Measured, Measured]]] = {}
                for dataset in exhibit_cells.datasets(study, study.main.recipe, model):
                    for form, pair in _pairs(results, metric, model, dataset, answer, produced):
                        pairs.setdefault(form, {})[dataset] = pair
                named = {"model": model, "arm": arm, "answer": answer}
                for (method, variant), of in pairs.items():
                    cells = {MEAN: list(of.values())} | {dataset: [pair] for dataset, pair in of.items()}
                    for dataset, chosen in cells.items():
                        where = named | {"dataset": dataset, "method": method, "variant": variant}
                        rows.append(where | _change(chosen, study.evaluation.confidence))
    return pd.DataFrame(rows, columns=COLUMNS)


def _pairs(
    results: MeasuredResults, metric: str, model: str, dataset: str, answer: str, produced: str
) -> Iterator[tuple[tuple[str, str], tuple[Measured, Measured]]]:
    """Method and variant, and what the main recipe and the arm measure of it in one cell."""
    study = results.study
    if (recipe := _recipe(study, model, dataset)) is None:
        return
    recipes = study.main.recipe, recipe
    main, arm = (results.cell(Artifact("evaluation", dataset, model, r, study.main.scorer)) for r in recipes)
    if main is None or arm is None or main.questions != arm.questions:
        return
    if (answer, produced) != ("greedy", "greedy"):  # the same answers
        files = (Artifact("quality", dataset, model, r, metric=study.main_quality.metric) for r in recipes)
        right = [results.accuracy(f, by, resampled=True) for f, by in zip(files, (answer, produced), strict=True)]
        if right[0] and right[1]:
            yield (ACCURACY, ""), (right[0], right[1])
    for key in main.measured:
        other = key._replace(answer_source=produced)
        searched = key.variant == "beamsearch" or answer != produced or answer == "top_beam"
        if (key.metric, key.setting, key.answer_source) == (metric, "", answer) and searched and other in arm:
            yield (key.method, key.variant), (main[key], arm[other])


def _change(pairs: Sequence[tuple[Measured, Measured]], confidence: float) -> dict[str, object]:
    """The mean over cells of arm − main, paired."""
    main, arm = (np.array([pair[i].value for pair in pairs], dtype=np.float64).mean() for i in (0, 1))
    resampled = [np.stack([np.asarray(pair[i].replicates, dtype=np.float64) for pair in pairs]) for i in (0, 1)]
    replicates = (resampled[1] - resampled[0]).mean(axis=0)
    found = bootstrap.difference(arm, main, replicates, np.zeros_like(replicates), confidence)
    return {
        "main": main,
        "released": arm,
        "difference": found.value,
        "low": found.low,
        "high": found.high,
        "n": sum(pair[0].n for pair in pairs),
        "note": found.note if found.low is None else "",
    }


def _recipe(study: Study, model: str, dataset: str) -> str | None:
    """The recipe that decodes a cell as the release does, of the questions that the main one is asked; None: none."""
    main = exhibit_cells.entry(study, study.main.recipe, model, dataset)
    for name, recipe in study.recipes.items():
        beam, entry = recipe.beam, exhibit_cells.entry(study, name, model, dataset)
        if name == study.main.recipe or not (recipe.shipped and beam and main and entry):
            continue
        of_generate = (beam.length_penalty, beam.early_stopping) == (1.0, False)
        if of_generate and len({each.questions or study.datasets[dataset].questions for each in (main, entry)}) == 1:
            return name
    return None


def _arms(results: MeasuredResults, place: MeasuredPlace) -> dict[str, Measured]:
    study = results.study
    recipes = [_recipe(study, of.model, of.dataset) for of in place.files]
    arms = [replace(of, recipe=recipe) for of, recipe in zip(place.files, recipes, strict=True) if recipe]
    if len(arms) < len(recipes) or place.files[0].recipe != study.main.recipe:
        return {}
    if place.files[0].kind == "quality":
        drawn = results.accuracy(arms[0], "shipped", resampled=True)
        return {"as the release draws the answer": drawn} if drawn else {}
    cells = [cell for cell in map(results.cell, arms) if cell is not None]
    found = {}
    for name, answer_source in ARMS[place.key.answer_source].items():
        key = place.key._replace(answer_source=answer_source)
        searched = key.variant == "beamsearch" or answer_source != place.key.answer_source
        if searched and len(cells) == len(arms) and all(key in cell for cell in cells):
            titles = [file.dataset for file in arms]
            found[name] = mean_over_datasets(cells, titles, key, study.evaluation.confidence)
    return found
