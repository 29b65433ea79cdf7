"""The tables that vary one thing at a time: rows of settings, columns of methods within dataset within model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from beamuq.artifacts import Artifact
from beamuq.errors import BeamUQError
from beamuq.exhibits import ranked_table, study_grid, wording
from beamuq.exhibits.evaluation_values import Key, Measured, Measurements
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Heading, Rule, Table
from beamuq.exhibits.ranked_table import Column, Line, Printed
from beamuq.study import Scoring, Study

MODELS = ("gemma-3-4b-base", "llama-3.1-8b-base")
Body = Sequence[Line | Heading | Rule]


def recipe(study: Study, what: str, methods: Sequence[str], test: Callable[[Scoring], bool]) -> str:
    """The first recipe of the grid that scores ``what`` (``test`` says whether it does) with ``methods``.

    Raises
    ------
    BeamUQError
        If none does.
    """
    for entry in study.grid:
        scoring = study.scoring[entry.recipe]
        if test(scoring) and set(methods) <= set(scoring.methods) and study.main.scorer in entry.scorers:
            return entry.recipe
    raise BeamUQError(
        f"needs a recipe of the grid whose scoring has {what} with methods {', '.join(methods)} under scorer "
        f"{study.main.scorer!r}; add one or drop the exhibit"
    )


def cells(study: Study, chosen: str) -> list[study_grid.Cell]:
    """Model × dataset pairs that the grid runs with the recipe, in the study's order."""
    return [
        (model, dataset)
        for model in study.models
        for dataset in study.datasets
        if study_grid.covers(study, chosen, model, dataset, study.main.scorer)
    ]


def needs(study: Study, chosen: str) -> list[Artifact]:
    """Evaluation and replicates of every cell of the recipe."""
    return [
        Artifact(kind, model=model, dataset=dataset, recipe=chosen, scorer=study.main.scorer)
        for model, dataset in cells(study, chosen)
        for kind in ("evaluation", "replicates")
    ]


def table(
    label: str,
    study: Study,
    inputs: Inputs,
    *,
    chosen: str,
    methods: Sequence[str],
    stub: tuple[str, ...],
    body: Body,
    what: str,
    sentences: Sequence[str],
    stored: Callable[[Printed], str],
) -> Table:
    """Build the table; ``stored`` gives the setting under which the evaluation holds a printed row."""
    files = needs(study, chosen)
    evaluations = {
        (evaluation.model, evaluation.dataset): Measurements(study, inputs, evaluation, replicates)
        for evaluation, replicates in zip(files[::2], files[1::2], strict=True)
    }

    def measure(at: Printed) -> Measured:
        return evaluations[at.model, at.dataset][Key("PRR", at.method, at.variant, stored(at))]

    columns = [
        Column(
            (study.models[model].title, study.datasets[dataset].title, wording.method_short(method)),
            Printed(model=model, dataset=dataset, method=method),
        )
        for model, dataset in evaluations
        for method in methods
    ]
    first = next(item for item in body if isinstance(item, Line)).key
    sizes: dict[str, list[int]] = {}
    for model, dataset in evaluations:
        sizes.setdefault(dataset, []).append(measure(columns[0].key | Printed(model, dataset) | first).n)

    def caption(marks: str, spread: str) -> str:
        return wording.caption(
            study,
            [
                f"{what}.",
                *sentences,
                f"{marks}.",
                f"{ranked_table.size_sentence(study, sizes)} {spread}",
                study_grid.shown_instead(study, MODELS, [model for model, _ in evaluations]),
            ],
            scorers=[study.main.scorer],
            quality=True,
        )

    return ranked_table.ranked_table(
        label,
        title=wording.titled(study, what),
        caption=caption(ranked_table.MARKS_SENTENCE, "Intervals and ± are in the CSV file."),
        interval_caption=caption(
            ranked_table.bold_sentence(body), ranked_table.interval_sentence(study, list(sizes), body)
        ),
        metric="PRR",
        stub=stub,
        columns=columns,
        body=body,
        measure=measure,
        spread=False,
        arrows=False,
    )


def beam_line(title: str, setting: str) -> Line:
    """A row of the beam form."""
    return Line((title,), Printed(variant=wording.BEAMSEARCH, setting=setting))
