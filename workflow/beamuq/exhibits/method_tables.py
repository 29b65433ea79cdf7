"""The tables of one metric for every method: a column a model (mean over datasets) or a column a dataset."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from beamuq.errors import BeamUQError
from beamuq.exhibits import best_marked_table, captions, exhibit_cells
from beamuq.exhibits.best_marked_table import RankedBody, RankedColumn, RankedRow, TablePlace
from beamuq.exhibits.empty_answers import MARK
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltTable, TableExhibit, TableHeading, TableRule
from beamuq.exhibits.read_evaluation import Key, Measured, mean_over_datasets, read_measurements
from beamuq.methods import registry
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study

MEAN = "mean"
BOTH_FORMS = {
    "SemanticEntropy": "Semantic Entropy: entropy of the clusters' counts (samples) or masses (beams).",
    "SAR": "SAR + beamsearch is our reading, −Σ w_i log(q_i + (1/t) Σ_{k≠i} s_ik q_k): the paper gives no formula.",
}
SEMANTIC_ENTROPY = "Semantic Entropy is the entropy of the clusters' counts."


@dataclass(frozen=True)
class MethodTable(TableExhibit):
    """Every method, a column a model with the mean over the datasets; or of one model, a column a dataset and the mean.

    Attributes
    ----------
    columns
        "models" or "datasets".
    model
        With "datasets": the model shown. Where the study lacks it another stands in and the caption says so, unless
        ``only_this_model``.
    what
        Opens the caption, before the number of datasets or the model; "" names the metric.
    methods
        Shown in both forms; none: the methods that the study scores, baselines first.
    cross_encoder
        Under the study's cross-encoder (or its proxy) instead of the main scorer.
    sentences
        Behind the caption's first sentence.
    """

    columns: Literal["models", "datasets"] = "datasets"
    model: str = ""
    only_this_model: bool = False
    what: str = ""
    metric: str = "PRR"
    methods: tuple[str, ...] = ()
    cross_encoder: bool = False
    sentences: tuple[str, ...] = ()

    def artifacts(self, study: Study) -> list[Artifact]:
        """Evaluation and replicates of the main recipe, model by model."""
        recipe = study.main.recipe
        if missing := [method for method in self.methods if method not in study.scoring[recipe].methods]:
            raise BeamUQError(f"needs methods {', '.join(missing)}; add them to scoring.{recipe}.methods")
        if self.metric.partition("@")[0] not in study.evaluation.metrics:
            raise BeamUQError(f"needs {self.metric}; add it to evaluation.metrics")
        if self.answer_source not in study.answer_source:
            raise BeamUQError(f"needs the top beam scored; add {self.answer_source} to answer_source")
        scorer, cells = self._scorer_and_cells(study)
        pairs = [(model, dataset) for model, datasets in cells.items() for dataset in datasets]
        return exhibit_cells.evaluation_artifacts(pairs, recipe, scorer)

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """Values as evaluated; a mean's interval from the stored replicates."""
        scorer, cells = self._scorer_and_cells(study)
        evaluations = read_measurements(study, inputs, self.artifacts(study))
        left_out = {cell for cell, of in evaluations.items() if of.left_out(self.answer_source)}
        datasets = exhibit_cells.datasets_of(study, cells)
        body = pair_body(self.methods) if self.methods else main_body(study)
        what = self._what(study, scorer, cells)

        def key(place: TablePlace) -> Key:
            return Key(self.metric, place.method, place.variant, place.setting, self.answer_source)

        def measure(place: TablePlace) -> Measured:
            if place.dataset != MEAN:
                return evaluations[place.model, place.dataset][key(place)]
            each = [evaluations[place.model, dataset] for dataset in cells[place.model]]
            titles = [study.datasets[dataset].title for dataset in cells[place.model]]
            return mean_over_datasets(each, titles, key(place), study.evaluation.confidence)

        rows = [item.key for item in body if isinstance(item, RankedRow)]
        sizes = {d: [of[key(rows[0])].n for (_, asked), of in evaluations.items() if asked == d] for d in datasets}
        arrows = "; " + best_marked_table.ARROW_SENTENCE if any(row.variant for row in rows) else ""
        sampled_entropy = any(row.method == "SemanticEntropy" and not row.variant for row in rows)

        def sentences(marks: str, spread: str) -> list[str]:
            return [
                f"{what}.",
                *self._sentences(study, cells),
                f"{marks}{arrows}.",
                spread,
                best_marked_table.size_sentence(study, sizes),
                SEMANTIC_ENTROPY if sampled_entropy else "",
            ]

        return best_marked_table.ranked_table(
            self,
            study,
            what,
            sentences,
            datasets=datasets,
            scorer=scorer,
            metric=self.metric,
            stub=("Method",),
            columns=self._columns(study, cells, left_out),
            body=body,
            measure=measure,
        )

    def _scorer_and_cells(self, study: Study) -> tuple[str, dict[str, list[str]]]:
        if self.cross_encoder:
            return _cross_encoder(study, self.model)
        chosen: Sequence[str] = ()
        if self.columns == "datasets":
            run = exhibit_cells.models(study, study.main.recipe)
            model = self.model
            if not self.only_this_model:
                model = exhibit_cells.first_model(study, model, lambda name: name in run)
            chosen = [model]
        return study.main.scorer, exhibit_cells.main_cells(study, chosen)

    def _what(self, study: Study, scorer: str, cells: dict[str, list[str]]) -> str:
        what = self.what or f"{self.metric} (higher is better)"
        count = max(map(len, cells.values()))
        if self.columns == "models":
            return f"{what}, mean over {count} datasets"
        if self.cross_encoder:
            what += f" with similarity {study.scorers[scorer].title}"
        elif not self.methods:
            what += f" on {count} datasets"
        return f"{what}, {study.models[next(iter(cells))].title}"

    def _sentences(self, study: Study, cells: dict[str, list[str]]) -> list[str]:
        found = list(self.sentences)
        if not self.metric.startswith("PRR"):
            found.append(
                f"Incorrect answers ({study.main_quality.title} ≤ {study.main_quality.threshold}) are the positives."
            )
        if self.cross_encoder:
            found.append(f"Everything but the similarity is as with {study.scorers[study.main.scorer].title}.")
        if self.columns == "datasets":
            found.append(exhibit_cells.shown_instead(study, [self.model], list(cells)))
        return found

    def _columns(
        self, study: Study, cells: dict[str, list[str]], left_out: Collection[exhibit_cells.Cell]
    ) -> list[RankedColumn]:
        if self.columns == "models":
            marked = {model for model, _ in left_out}
            titles = {
                m: study.models[m].title + MARK * (m in marked) + exhibit_cells.alone(study, cells, m) for m in cells
            }
            return [RankedColumn((title,), TablePlace(model=m, dataset=MEAN)) for m, title in titles.items()]
        ((model, datasets),) = cells.items()
        marked = {dataset for _, dataset in left_out}
        return [
            *(
                RankedColumn(
                    (study.datasets[d].category, study.datasets[d].title + MARK * (d in marked)),
                    TablePlace(model=model, dataset=d),
                )
                for d in datasets
            ),
            RankedColumn(("", "Mean"), TablePlace(model=model, dataset=MEAN)),
        ]


def main_body(study: Study) -> RankedBody:
    """The study's methods in its order: baselines, then each consistency-based method in both forms."""
    found = [registry.resolve(name) for name in study.scoring[study.main.recipe].methods]
    pairs = [m for m in found if len(m.variants) == 2 and m.name not in (*captions.BASELINES, "DegreeMatrix")]
    baselines = [m for m in found if len(m.variants) == 1 or m.name in captions.BASELINES]
    body: list[RankedRow | TableHeading | TableRule] = []
    if baselines:
        body += [TableHeading("Baseline UQ methods"), TableRule()]
        body += [RankedRow((captions.method_title(m.name),), TablePlace(method=m.name)) for m in baselines]
    if pairs:
        body += [TableRule()] if baselines else []
        body += [TableHeading("Consistency-based UQ: multinomial vs. beamsearch versions"), TableRule()]
        body += pair_body([m.name for m in pairs])
    return body


def pair_body(methods: Sequence[str]) -> RankedBody:
    """Each method in both forms, rules between the methods."""
    body: list[RankedRow | TableHeading | TableRule] = []
    for method in methods:
        body += [TableRule()] if body else []
        for variant in (captions.MULTINOMIAL, captions.BEAMSEARCH):
            title = captions.method_title(method, variant)
            body.append(RankedRow((title,), TablePlace(method=method, variant=variant)))
    return body


def _cross_encoder(study: Study, preferred: str) -> tuple[str, dict[str, list[str]]]:
    """The first cross-encoder, or proxy for one, that a model has on every dataset of the main recipe; that model."""
    recipe = study.main.recipe
    wanted = exhibit_cells.datasets(study, recipe)
    for scorer, found in study.scorers.items():
        replaces = "cross-encoder" in (found.proxy_for or "").lower()
        if scorer == study.main.scorer or not (found.kind == "cross_encoder" or replaces):
            continue

        def usable(model: str, scorer: str = scorer) -> bool:
            return bool(wanted) and all(exhibit_cells.covers(study, recipe, model, d, scorer) for d in wanted)

        if any(usable(model) for model in study.models):
            return scorer, {exhibit_cells.first_model(study, preferred, usable): wanted}
    raise BeamUQError(
        f"needs a model whose {recipe!r} cells all have a scorer of kind cross_encoder "
        "(or a proxy for the cross-encoder); add it to the grid's scorers"
    )
