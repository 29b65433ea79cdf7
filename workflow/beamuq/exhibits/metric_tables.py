"""The tables of one metric for every method: a column a model (mean over datasets) or a column a dataset."""

from __future__ import annotations

from collections.abc import Sequence

from beamuq.artifacts import Artifact
from beamuq.exhibits import ranked_table, study_grid, wording
from beamuq.exhibits.evaluation_values import Key, Measured, Measurements, mean_over_datasets
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Heading, Rule, Table
from beamuq.exhibits.ranked_table import Column, Line, Printed
from beamuq.methods import registry
from beamuq.study import Study

MEAN = "mean"
Body = list[Line | Heading | Rule]

SEMANTIC_ENTROPY = "Semantic Entropy is the entropy of the clusters' counts."


def needs(study: Study, cells: dict[str, list[str]], scorer: str) -> list[Artifact]:
    """Evaluation and replicates of every model × dataset in the main recipe, model by model."""
    return [
        Artifact(kind, model=model, dataset=dataset, recipe=study.main.recipe, scorer=scorer)
        for model, datasets in cells.items()
        for dataset in datasets
        for kind in ("evaluation", "replicates")
    ]


def main_body(study: Study) -> Body:
    """The study's methods in its order: baselines, then each consistency-based method in both forms."""
    found = [registry.resolve(name) for name in study.scoring[study.main.recipe].methods]
    pairs = [m for m in found if len(m.variants) == 2 and m.name not in (*wording.BASELINES, "DegreeMatrix")]
    baselines = [m for m in found if len(m.variants) == 1 or m.name in wording.BASELINES]
    body: Body = []
    if baselines:
        body += [Heading("Baseline UQ methods"), Rule()]
        body += [Line((wording.method_title(m.name),), Printed(method=m.name)) for m in baselines]
    if pairs:
        body += [Rule()] if baselines else []
        body += [Heading("Consistency-based UQ: multinomial vs. beamsearch versions")]
        body += pair_body([m.name for m in pairs], first_rule=True)
    return body


def pair_body(methods: Sequence[str], *, first_rule: bool = False) -> Body:
    """Each method in both forms, rules between the methods."""
    body: Body = []
    for method in methods:
        body += [Rule()] if body or first_rule else []
        for variant in (wording.MULTINOMIAL, wording.BEAMSEARCH):
            body.append(Line((wording.method_title(method, variant),), Printed(method=method, variant=variant)))
    return body


def table(
    label: str,
    study: Study,
    inputs: Inputs,
    *,
    cells: dict[str, list[str]],
    columns: Sequence[Column],
    body: Body,
    what: str,
    scorer: str,
    metric: str = "PRR",
    answer_source: str = "greedy",
    sentences: Sequence[str] = (),
) -> Table:
    """Build the table: ``what`` opens the caption and is the title; ``sentences`` follow before the common ones."""
    evaluations: dict[tuple[str, str], Measurements] = {}
    files = needs(study, cells, scorer)
    for evaluation, replicates in zip(files[::2], files[1::2], strict=True):
        evaluations[evaluation.model, evaluation.dataset] = Measurements(study, inputs, evaluation, replicates)

    def measure(at: Printed) -> Measured:
        key = Key(metric, at.method, at.variant, at.setting, answer_source)
        if at.dataset != MEAN:
            return evaluations[at.model, at.dataset][key]
        datasets = cells[at.model]
        titles = [study.datasets[d].title for d in datasets]
        each = [evaluations[at.model, d] for d in datasets]
        return mean_over_datasets(each, titles, key, study.evaluation.confidence)

    shown = list(dict.fromkeys(d for datasets in cells.values() for d in datasets))
    first = next(item for item in body if isinstance(item, Line)).key
    key = Key(metric, first.method, first.variant, first.setting, answer_source)
    sizes = {d: [evaluations[m, d][key].n for m in cells if d in cells[m]] for d in shown}
    has_pairs = any(isinstance(item, Line) and item.key.variant for item in body)
    has_entropy = any(isinstance(i, Line) and i.key.method == "SemanticEntropy" and not i.key.variant for i in body)

    def caption(marks: str, spread: str) -> str:
        return wording.caption(
            study,
            [
                f"{what}.",
                *sentences,
                f"{marks}{'; ' + ranked_table.ARROW_SENTENCE if has_pairs else ''}.",
                spread,
                ranked_table.size_sentence(study, sizes),
                SEMANTIC_ENTROPY if has_entropy else "",
            ],
            scorers=[scorer],
            quality=True,
        )

    return ranked_table.ranked_table(
        label,
        title=wording.titled(study, what),
        caption=caption(ranked_table.MARKS_SENTENCE, ranked_table.spread_sentence(study, shown)),
        interval_caption=caption(ranked_table.bold_sentence(body), ranked_table.interval_sentence(study, shown, body)),
        metric=metric,
        stub=("Method",),
        columns=columns,
        body=body,
        measure=measure,
    )


def by_model(
    label: str, study: Study, inputs: Inputs, *, what: str, answer_source: str = "greedy", sentences: Sequence[str] = ()
) -> Table:
    """Every method of the main recipe, a column a model: PRR, mean over the datasets."""
    cells = study_grid.main_cells(study)
    return table(
        label,
        study,
        inputs,
        cells=cells,
        columns=[Column((study.models[model].title,), Printed(model=model, dataset=MEAN)) for model in cells],
        body=main_body(study),
        what=f"{what}, mean over {len(next(iter(cells.values())))} datasets",
        scorer=study.main.scorer,
        answer_source=answer_source,
        sentences=sentences,
    )


def by_dataset(
    label: str,
    study: Study,
    inputs: Inputs,
    *,
    cells: dict[str, list[str]],
    body: Body,
    what: str,
    scorer: str,
    metric: str = "PRR",
    sentences: Sequence[str] = (),
) -> Table:
    """One model (the only one of ``cells``), a column a dataset under its category, then the mean."""
    ((model, datasets),) = cells.items()
    columns = [
        Column((study.datasets[d].category, study.datasets[d].title), Printed(model=model, dataset=d)) for d in datasets
    ]
    return table(
        label,
        study,
        inputs,
        cells=cells,
        columns=[*columns, Column(("", "Mean"), Printed(model=model, dataset=MEAN))],
        body=body,
        what=f"{what}, {study.models[model].title}",
        scorer=scorer,
        metric=metric,
        sentences=sentences,
    )


def one_model(study: Study, preferred: str) -> dict[str, list[str]]:
    """The paper's model, or its stand-in, with every dataset of the main recipe."""
    recipe = study.main.recipe
    model = study_grid.first_model(study, preferred, lambda m: m in study_grid.models(study, recipe))
    return study_grid.main_cells(study, [model])
