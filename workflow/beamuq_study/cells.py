"""What a study's grid supplies: its cells, none where it lacks what is asked for, and which stand
for the paper's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from beamuq_study.result_files import Cell
from beamuq_study.study_config import Study


def asked(study: Study, cell: Cell) -> int:
    """How many questions of its dataset the grid's cell asks."""
    return (
        study.entries[cell.model, cell.dataset, cell.recipe].questions
        or study.datasets[cell.dataset].questions
    )


def recipe_cells(study: Study, recipe: str, scorer: str | None = "") -> list[Cell]:
    """The cells of a recipe under a scorer ("": the main one; None: any or none), models and
    datasets in order.
    """
    scorer = study.main.scorer if scorer == "" else scorer or ""
    places, entries = (
        [(model, dataset, recipe) for model in study.models for dataset in study.datasets],
        study.entries,
    )
    found = {place: entries[place] for place in places if place in entries}
    return [
        Cell(*place, scorer) for place, of in found.items() if not scorer or scorer in of.scorers
    ]


def models(study: Study, recipe: str) -> list[str]:
    """Models that the grid runs with ``recipe``, in the study's order."""
    return list(by_model(recipe_cells(study, recipe, None)))


def main_cells(study: Study, model: str = "", like: str = "") -> list[Cell]:
    """The cells of the main recipe under the main scorer: of a ``model``, of the one that stands
    for ``like``, or all.

    None where a model has none: it would have no number in any main table.
    """
    recipe = study.main.recipe
    cells = by_model(recipe_cells(study, recipe))
    if not cells or not set([model] if model else models(study, recipe)) <= set(cells):
        return []
    every = [cell for of_model in cells.values() for cell in of_model]
    return cells[model or nearest(study, every, like)[0].model] if model or like else every


def select(
    study: Study,
    *,
    methods: Iterable[str] = (),
    lists: Iterable[str] = (),
    estimators: Iterable[str] = (),
    strategies: Iterable[str] = (),
    has: Callable[[str], object] = lambda _: True,
    of: Literal["first", "each", "all"] = "first",
) -> list[Cell]:
    """The cells, under the main scorer, of recipes with all that is asked for.

    Of these ``lists`` name keys of scoring that are not empty; ``has`` is a further test of a
    recipe's name. ``of``: the "first" such recipe of the grid, the first of "each" model and
    dataset, or "all".
    """

    def supplies(name: str) -> bool:
        scoring, decoded = study.scoring[name], study.recipes[name].strategies()
        pairs = (
            (methods, scoring.methods),
            (estimators, scoring.estimators),
            (strategies, decoded),
        )
        there = all(set(names) <= set(given) for names, given in pairs) and all(
            getattr(scoring, key) for key in lists
        )
        return there and bool(has(name))

    recipes = [
        name for name in dict.fromkeys(entry.recipe for entry in study.grid) if supplies(name)
    ]
    cells = [cell for name in recipes for cell in recipe_cells(study, name)]
    if of == "each":  # model by model, datasets in the study's order
        first = {(cell.model, cell.dataset): cell for cell in reversed(cells)}
        return [first[m, d] for m in study.models for d in study.datasets if (m, d) in first]
    return [cell for cell in cells if of == "all" or cell.recipe == cells[0].recipe]


def with_methods(study: Study, methods: Iterable[str]) -> list[Cell]:
    """The cells of the main recipe, if it scores ``methods``."""
    return select(study, methods=methods, has=lambda recipe: recipe == study.main.recipe)


def with_budgets(
    study: Study, methods: Iterable[str], of: Literal["first", "each"] = "each"
) -> list[Cell]:
    """The cells in which both forms of ``methods`` are scored at several M."""
    return select(
        study,
        methods=methods,
        lists=["budgets"],
        strategies=[study.main.sample, study.main.beam],
        of=of,
    )


def draws(study: Study, recipe: str) -> int:
    """How many disjoint draws of the main M there are of a recipe's samples; 1 where there are not
    two.
    """
    sample = study.recipes[recipe].sample
    return max(1, sample.size // study.main.num_candidates) if sample else 1


def nearest(study: Study, cells: Sequence[Cell], model: str = "", dataset: str = "") -> list[Cell]:
    """The one cell that an exhibit about ``model`` on ``dataset`` shows, the first that stands for
    it where it lacks.

    The dataset counts more than the model; a base model stands for another one before an instruct
    model does.
    """

    def distance(cell: Cell) -> tuple[bool, bool, bool]:
        return (
            cell.dataset != dataset,
            cell.model != model,
            study.models[cell.model].style != "base",
        )

    return sorted(cells, key=distance)[:1]


def by_model(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Model → its cells."""
    return {
        model: [cell for cell in cells if cell.model == model]
        for model in dict.fromkeys(c.model for c in cells)
    }


def datasets_of(study: Study, cells: Sequence[Cell]) -> list[str]:
    return [dataset for dataset in study.datasets if any(cell.dataset == dataset for cell in cells)]
