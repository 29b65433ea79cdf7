"""What a study's grid supplies: which cells exist, and which stand for those that the paper shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from beamuq.errors import BeamUQError
from beamuq.exhibits import captions
from beamuq.parquet_tables import Artifact
from beamuq.study_config import GridEntry, Study

Cell = tuple[str, str]  # model, dataset


def entry(study: Study, recipe: str, model: str, dataset: str) -> GridEntry | None:
    """The grid's entry of this cell, or None."""
    for found in study.grid:
        if found.recipe == recipe and model in found.models and dataset in found.datasets:
            return found
    return None


def covers(study: Study, recipe: str, model: str, dataset: str, scorer: str = "") -> bool:
    """Whether the grid has the cell and, where one is named, scores it with ``scorer``."""
    found = entry(study, recipe, model, dataset)
    return found is not None and (not scorer or scorer in found.scorers)


def models(study: Study, recipe: str) -> list[str]:
    """Models that the grid runs with ``recipe``, in the study's order."""
    return [m for m in study.models if any(e.recipe == recipe and m in e.models for e in study.grid)]


def datasets(study: Study, recipe: str, model: str = "") -> list[str]:
    """Datasets that the grid runs with ``recipe`` (and ``model``), in the study's order."""
    return [
        d
        for d in study.datasets
        if any(e.recipe == recipe and d in e.datasets and (not model or model in e.models) for e in study.grid)
    ]


def cells(study: Study, recipe: str, chosen: Sequence[str]) -> list[Cell]:
    """The cells of a recipe under the main scorer, model by model of the chosen, datasets in the study's order."""
    return [(m, d) for m in chosen for d in study.datasets if covers(study, recipe, m, d, study.main.scorer)]


def main_cells(study: Study, chosen: Sequence[str] = ()) -> dict[str, list[str]]:
    """Model → its datasets of the main recipe under the main scorer, in the study's order.

    Raises BeamUQError if a model has none: it would have no number in any main table.
    """
    recipe, scorer = study.main.recipe, study.main.scorer
    found = list(chosen) or models(study, recipe)
    if not found:
        raise BeamUQError(f"the grid never runs recipe {recipe!r}; add it to grid")
    cells = {m: [d for d in datasets(study, recipe, m) if covers(study, recipe, m, d, scorer)] for m in found}
    for model, of_model in cells.items():
        if not of_model:
            raise BeamUQError(f"the grid lacks {model} in recipe {recipe!r} with scorer {scorer!r}; add it to grid")
    return cells


def datasets_of(study: Study, cells: Mapping[str, Sequence[str]]) -> list[str]:
    """All datasets of model → datasets, in the study's order."""
    return [dataset for dataset in study.datasets if any(dataset in of_model for of_model in cells.values())]


def alone(study: Study, cells: Mapping[str, Sequence[str]], model: str) -> str:
    """What the heading of a model's mean says where it has fewer datasets than all models together, else nothing."""
    titles = [study.datasets[dataset].title for dataset in cells[model]]
    return f" ({captions.listing(titles)} alone)" if len(titles) < len(datasets_of(study, cells)) else ""


def first_model(study: Study, preferred: str, usable: Callable[[str], bool]) -> str:
    """The paper's model where the study has it, else its first base model, else its first, among the usable ones.

    Raises BeamUQError if none is usable.
    """
    found = [model for model in study.models if usable(model)]
    if not found:
        raise BeamUQError("no model of the grid has what it draws; extend grid or drop the exhibit")
    if preferred in found:
        return preferred
    return next((model for model in found if study.models[model].style == "base"), found[0])


def one_cell(study: Study, model: str, dataset: str, scorer: str = "") -> Cell:
    """The cell of the main recipe that an exhibit about ``model`` on ``dataset`` shows, another model standing in.

    Raises BeamUQError if the grid runs the main recipe on that dataset with no model (under that scorer).
    """
    recipe = study.main.recipe
    if dataset not in study.datasets:
        raise BeamUQError(f"shows dataset {dataset!r}, which the study lacks (it has {', '.join(study.datasets)})")
    return first_model(study, model, lambda m: covers(study, recipe, m, dataset, scorer)), dataset


def candidate_artifacts(study: Study, model: str, dataset: str) -> list[Artifact]:
    """Candidates of the main recipe, and the questions for their order and groups."""
    return [Artifact("candidates", dataset, model, study.main.recipe), Artifact("questions", dataset)]


def score_artifacts(study: Study, model: str, dataset: str, recipe: str = "") -> list[Artifact]:
    """Scores under the main scorer and quality, of the main recipe unless told, and the questions."""
    recipe = recipe or study.main.recipe
    return [
        Artifact("scores", dataset, model, recipe, study.main.scorer),
        Artifact("quality", dataset, model, recipe, metric=study.main_quality.metric),
        Artifact("questions", dataset),
    ]


def answer_artifacts(study: Study, model: str, dataset: str) -> list[Artifact]:
    """Candidates, questions, scores and quality of the main recipe."""
    return [*candidate_artifacts(study, model, dataset), *score_artifacts(study, model, dataset)[:2]]


def evaluation_artifacts(cells: Sequence[Cell], recipe: str, scorer: str) -> list[Artifact]:
    """Evaluation and replicates of each cell, one behind the other."""
    return [
        Artifact(kind, model=model, dataset=dataset, recipe=recipe, scorer=scorer)
        for model, dataset in cells
        for kind in ("evaluation", "replicates")
    ]


def budget_recipe(study: Study, model: str, dataset: str, methods: Sequence[str] = ()) -> str | None:
    """The first recipe of the grid that scores ``methods`` at several M in this cell under the main scorer, or None.

    Both forms of a method are scored only where the recipe decodes the main samples and the main beams.
    """
    main = study.main
    for found in study.grid:
        scoring, decoded = study.scoring[found.recipe], set(study.recipes[found.recipe].strategies())
        scored = scoring.budgets and set(methods) <= set(scoring.methods) and {main.sample, main.beam} <= decoded
        if scored and covers(study, found.recipe, model, dataset, main.scorer):
            return found.recipe
    return None


def without_budgets(study: Study, methods: Sequence[str], dataset: str = "") -> BeamUQError:
    """What to raise where no cell (of ``dataset``) has the recipe that :func:`budget_recipe` looks for."""
    where = f"{dataset} in a recipe" if dataset else "a recipe"
    return BeamUQError(
        f"needs {where} that decodes {study.main.sample!r} and {study.main.beam!r} and whose scoring has budgets with "
        f"methods {', '.join(methods)} under scorer {study.main.scorer!r}; add one or drop the exhibit"
    )


def pool_artifacts(study: Study, model: str, dataset: str) -> list[Artifact]:
    """Candidates, similarity, quality and questions of the grid's first recipe with two draws of samples at least.

    It has to decode the main beams too; nothing where there is none.
    """
    main = study.main
    for found in study.grid:
        recipe = study.recipes[found.recipe]
        enough = recipe.sample is not None and recipe.sample.size >= 2 * main.num_candidates
        decoded = {main.sample, main.beam} <= set(recipe.strategies())
        if enough and decoded and covers(study, found.recipe, model, dataset, main.scorer):
            return [
                Artifact("candidates", dataset, model, found.recipe),
                Artifact("similarity", dataset, model, found.recipe, main.scorer),
                *score_artifacts(study, model, dataset, found.recipe)[1:],
            ]
    return []


def shown_instead(study: Study, wanted: Sequence[str], shown: Sequence[str]) -> str:
    """A sentence where models that the paper shows are not the ones shown, else nothing."""
    missing = [model for model in wanted if model not in shown]
    if not missing:
        return ""
    titles = ", ".join(study.models[model].title for model in dict.fromkeys(shown))
    return f"The paper shows {', '.join(missing)}, not in this study's grid; shown: {titles}."
