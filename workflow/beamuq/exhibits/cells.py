"""What a study's grid supplies: its cells, and which of them stand for those that the paper shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.parquet_tables import NAMED_BY, Artifact
from beamuq.study_config import GridEntry, Recipe, Scoring, Study


@dataclass(frozen=True)
class Cell:
    """One model on one dataset in one recipe, under a scorer."""

    model: str
    dataset: str
    recipe: str = ""
    scorer: str = ""

    def file(self, kind: str, metric: str = "") -> Artifact:
        """Its file of a kind; ``metric`` is that of a quality."""
        known = vars(self) | {"metric": metric}
        return Artifact(kind, **{name: known[name] for name in NAMED_BY[kind]})

    @property
    def place(self) -> dict[str, str]:
        """Its keys in printed estimates."""
        return {"model": self.model, "dataset": self.dataset}

    def title(self, study: Study) -> str:
        """``TriviaQA, Gemma 3 4B base``."""
        return f"{study.datasets[self.dataset].title}, {study.models[self.model].title}"


def entry(study: Study, recipe: str, model: str, dataset: str) -> GridEntry | None:
    """The grid's entry of this cell, or None."""
    of_recipe = (each for each in study.grid if each.recipe == recipe)
    return next((each for each in of_recipe if model in each.models and dataset in each.datasets), None)


def covers(study: Study, recipe: str, model: str, dataset: str, scorer: str = "") -> bool:
    """Whether the grid has the cell and, where one is named, scores it with ``scorer``."""
    of = entry(study, recipe, model, dataset)
    return of is not None and (not scorer or scorer in of.scorers)


def asked(study: Study, cell: Cell) -> int | None:
    """How many questions of its dataset the grid's cell asks; None: all."""
    of = entry(study, cell.recipe, cell.model, cell.dataset)
    return (of and of.questions) or study.datasets[cell.dataset].questions


def models(study: Study, recipe: str) -> list[str]:
    """Models that the grid runs with ``recipe``, in the study's order."""
    return [m for m in study.models if any(e.recipe == recipe and m in e.models for e in study.grid)]


def recipe_cells(study: Study, recipe: str, scorer: str = "") -> list[Cell]:
    """The cells of a recipe under a scorer ("": the main one), model by model, datasets in the study's order."""
    scorer = scorer or study.main.scorer
    places = [(model, dataset) for model in study.models for dataset in study.datasets]
    return [Cell(*place, recipe, scorer) for place in places if covers(study, recipe, *place, scorer)]


def main_cells(study: Study, *chosen: str) -> list[Cell]:
    """The cells of the main recipe under the main scorer, of the ``chosen`` models or all.

    Raises BeamUQError if a model has none: it would have no number in any main table.
    """
    recipe = study.main.recipe
    found = by_model(recipe_cells(study, recipe))
    run = chosen or models(study, recipe) or ["every model"]
    if lacking := [model for model in run if model not in found]:
        raise BeamUQError(f"the grid lacks {lacking[0]} in recipe {recipe!r} with scorer {study.main.scorer!r}; add it")
    return [cell for model in run for cell in found[model]]


def recipes_with(study: Study, has: Callable[[Recipe, Scoring], object], needs: str = "") -> list[str]:
    """The recipes of the grid that run under the main scorer and, with their scoring, ``has`` what is needed, in order.

    Raises BeamUQError, saying what it ``needs`` to be there, if there is none.
    """
    scored = dict.fromkeys(each.recipe for each in study.grid if study.main.scorer in each.scorers)
    found = [recipe for recipe in scored if has(study.recipes[recipe], study.scoring[recipe])]
    if needs and not found:
        raise BeamUQError(f"needs a recipe of the grid {needs}, under scorer {study.main.scorer!r}; add one or drop it")
    return found


def check_measured(study: Study, metric: str, answer_source: str = "greedy") -> None:
    """Refuse a study that does not measure a metric of these answers. Raises BeamUQError with the fix."""
    if metric.partition("@")[0] not in study.evaluation.metrics:
        raise BeamUQError(f"needs {metric}; add it to evaluation.metrics")
    if answer_source not in study.answer_source:
        raise BeamUQError(f"needs other answers scored; add {answer_source} to answer_source")


def nearest(study: Study, cells: Sequence[Cell], model: str = "", dataset: str = "") -> Cell:
    """The cell that an exhibit about ``model`` on ``dataset`` shows, the first that stands for it where it is missing.

    The dataset counts more than the model; a base model stands for another one before an instruct model does.

    Raises BeamUQError if there is no cell.
    """
    if not cells:
        raise BeamUQError("no cell of the grid has what it draws; extend grid or drop the exhibit")
    return min(cells, key=lambda c: (c.dataset != dataset, c.model != model, study.models[c.model].style != "base"))


def with_budgets(study: Study, methods: Sequence[str]) -> list[Cell]:
    """The cells in which both forms of ``methods`` are scored at several M, each in the first recipe that does.

    Raises BeamUQError if there is none.
    """
    main = study.main

    def has(recipe: Recipe, scoring: Scoring) -> bool:
        scored = bool(scoring.budgets) and set(methods) <= set(scoring.methods)
        return scored and {main.sample, main.beam} <= set(recipe.strategies())

    needs = f"that decodes {main.sample!r} and {main.beam!r}, its scoring with budgets and {', '.join(methods)}"
    return _first_of_each(study, recipes_with(study, has, needs))


def with_pools(study: Study) -> list[Cell]:
    """The cells with two draws of samples at least beside the main beams, each in the first recipe that has them."""
    main = study.main

    def has(recipe: Recipe, _: Scoring) -> bool:
        enough = recipe.sample is not None and recipe.sample.size >= 2 * main.num_candidates
        return enough and {main.sample, main.beam} <= set(recipe.strategies())

    return _first_of_each(study, recipes_with(study, has))


def _first_of_each(study: Study, recipes: Sequence[str]) -> list[Cell]:
    """Of each model and dataset the cell of the first of these recipes."""
    every = [cell for recipe in reversed(recipes) for cell in recipe_cells(study, recipe)]
    return in_order(study, list({(cell.model, cell.dataset): cell for cell in every}.values()))


def with_methods(study: Study, methods: Sequence[str]) -> list[Cell]:
    """The cells of the main recipe, which has to score ``methods``. Raises BeamUQError if it does not."""
    recipe = study.main.recipe
    if lacking := [method for method in methods if method not in study.scoring[recipe].methods]:
        raise BeamUQError(f"scoring.{recipe}.methods lacks {', '.join(lacking)}; add it or drop the exhibit")
    return recipe_cells(study, recipe)


def in_order(study: Study, cells: Sequence[Cell]) -> list[Cell]:
    """Model by model, datasets in the study's order."""
    names = list(study.models), list(study.datasets)
    return sorted(cells, key=lambda cell: (names[0].index(cell.model), names[1].index(cell.dataset)))


def by_model(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Model → its cells."""
    return {model: [cell for cell in cells if cell.model == model] for model in dict.fromkeys(c.model for c in cells)}


def datasets_of(study: Study, cells: Sequence[Cell]) -> list[str]:
    """All datasets of some cells, in the study's order."""
    return [dataset for dataset in study.datasets if any(cell.dataset == dataset for cell in cells)]


def facts(study: Study, shown: Sequence[Cell], wanted: Sequence[str], n: int = 0) -> dict[str, Any]:
    """What captions say of the cells shown: ``where`` the first is, its ``n`` questions, and what is shown instead."""
    models = list(dict.fromkeys(cell.model for cell in shown))
    missing, titles = ", ".join(m for m in wanted if m not in models), ", ".join(study.models[m].title for m in models)
    instead = f"The paper shows {missing}, not in this study's grid; shown: {titles}." if missing else ""
    return {"where": shown[0].title(study), "n": n, "instead": instead}
