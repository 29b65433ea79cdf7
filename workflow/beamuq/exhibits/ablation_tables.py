"""The tables that vary one thing at a time: rows of settings, columns of methods within dataset within model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from beamuq.errors import BeamUQError
from beamuq.exhibits import best_marked_table, captions, exhibit_cells
from beamuq.exhibits.best_marked_table import RankedBody, RankedColumn, RankedRow, TablePlace
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import BuiltTable, TableExhibit, TableHeading, TableRule
from beamuq.exhibits.read_evaluation import Key, Measured, read_measurements, stored_setting
from beamuq.parquet_tables import Artifact
from beamuq.strategy_names import ablation, number, of_kind, parse, printed
from beamuq.study_config import Study

MODELS = ("gemma-3-4b-base", "llama-3.1-8b-base")
SEARCHES = {"diverse": "Diverse beam search", "hybrid": "Hybrid multinomial-beam"}


@dataclass(frozen=True)
class AblationTable(TableExhibit):
    """PRR of a few methods for every setting that a recipe scores, in each cell of that recipe.

    Attributes
    ----------
    scores
        Keys of the study's ``scoring`` of which the recipe must have every one: "epsilon", "alpha", "fixed_k",
        "every_strategy". The first recipe of the grid that has them is shown.
    rows, sentences
        Of the study and the recipe: the rows, and what the caption says behind its first sentence, ``what``.
    """

    scores: tuple[str, ...]
    methods: tuple[str, ...]
    stub: tuple[str, ...]
    what: str
    rows: Callable[[Study, str], RankedBody]
    sentences: Callable[[Study, str], list[str]]

    def artifacts(self, study: Study) -> list[Artifact]:
        """Evaluation and replicates of every cell of the recipe."""
        recipe, scorer = self.recipe(study), study.main.scorer
        return exhibit_cells.evaluation_artifacts(
            exhibit_cells.cells(study, recipe, list(study.models)), recipe, scorer
        )

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """Values as evaluated."""
        recipe = self.recipe(study)
        body = self.rows(study, recipe)
        evaluations = read_measurements(study, inputs, self.artifacts(study))

        def measure(place: TablePlace) -> Measured:
            setting = stored_setting(study, place.setting)
            return evaluations[place.model, place.dataset][Key("PRR", place.method, place.variant, setting)]

        columns = [
            RankedColumn(
                (study.models[model].title, study.datasets[dataset].title, captions.method_short(method)),
                TablePlace(model=model, dataset=dataset, method=method),
            )
            for model, dataset in evaluations
            for method in self.methods
        ]
        first = next(item for item in body if isinstance(item, RankedRow)).key
        sizes: dict[str, list[int]] = {}
        for model, dataset in evaluations:
            sizes.setdefault(dataset, []).append(measure(columns[0].key | TablePlace(model, dataset) | first).n)

        def sentences(marks: str, spread: str) -> list[str]:
            return [
                f"{self.what}.",
                *self.sentences(study, recipe),
                f"{marks}.",
                f"{best_marked_table.size_sentence(study, sizes)} {spread}",
                exhibit_cells.shown_instead(study, MODELS, [model for model, _ in evaluations]),
            ]

        return best_marked_table.ranked_table(
            self,
            study,
            self.what,
            sentences,
            datasets=list(sizes),
            scorer=study.main.scorer,
            metric="PRR",
            stub=self.stub,
            columns=columns,
            body=body,
            measure=measure,
            spread=False,
            arrows=False,
        )

    def recipe(self, study: Study) -> str:
        """The recipe shown. Raises BeamUQError, with the fix, where the grid has none."""
        for entry in study.grid:
            scoring = study.scoring[entry.recipe]
            scored = all(getattr(scoring, name) for name in self.scores) and set(self.methods) <= set(scoring.methods)
            decoded = study.recipes[entry.recipe].decoded(study.main.beam)
            if scored and decoded and study.main.scorer in entry.scorers:
                return entry.recipe
        raise BeamUQError(
            f"needs a recipe of the grid with {study.main.beam!r} whose scoring has {' and '.join(self.scores)} with "
            f"methods {', '.join(self.methods)} under scorer {study.main.scorer!r}; add one or drop the exhibit"
        )


def floor_rows(study: Study, recipe: str) -> RankedBody:
    """A row a floor ε of the beams' masses, from uniform weights down to none."""
    return [_beam_row("ε", "epsilon", floor) for floor in sorted(study.scoring[recipe].epsilon, reverse=True)]


def floor_sentences(study: Study, recipe: str) -> list[str]:
    """How the floor weighs the beams."""
    del recipe
    return [
        f"Weights of the {study.main.num_candidates} beams are proportional to max(ε, p): ε = 0 is the main text's, "
        "ε = 1 weighs all beams alike."
    ]


def embedding_rows(study: Study, recipe: str) -> RankedBody:
    """Eigenvalue thresholds α first, then fixed dimensions K."""
    scoring = study.scoring[recipe]
    thresholds = [_beam_row("α", "alpha", alpha) for alpha in sorted(scoring.alpha)]
    return [*thresholds, TableRule(), *(_beam_row("K", "K", k) for k in sorted(scoring.fixed_k))]


def embedding_sentences(study: Study, recipe: str) -> list[str]:
    """What is kept of the eigenvectors."""
    del study, recipe
    return [
        "Beam form. Above: eigenvectors with eigenvalue below α are kept; below: the first K, where a K that cuts "
        "an eigenspace weighs its projector."
    ]


def strategy_rows(study: Study, recipe: str) -> RankedBody:
    """A row a strategy: the main beam, temperatures in both weightings, diverse beams, hybrids."""
    strategies = study.recipes[recipe].strategies()
    sampled = of_kind(strategies, "sample")
    body: list[RankedRow | TableHeading | TableRule] = [_strategy_row("Beam search", "", captions.BEAMSEARCH, "beam")]
    blocks = [
        ("Multinomial sampling", [(s, captions.MULTINOMIAL, "") for s in sampled]),
        (
            "Multinomial, exact weights",
            [(s, captions.MULTINOMIAL, " exact") for s in sampled if parse(s)[1]["T"] != 1],
        ),
        *(
            (title, [(s, captions.BEAMSEARCH, "") for s in of_kind(strategies, kind)])
            for kind, title in SEARCHES.items()
        ),
    ]
    for title, lines in blocks:
        body += [TableRule()] if lines else []
        for position, (strategy, variant, suffix) in enumerate(lines):
            settings = ", ".join(strategy.split()[1:]).replace("lambda", "λ")
            body.append(_strategy_row("" if position else title, settings, variant, printed(strategy) + suffix))
    return body


def strategy_sentences(study: Study, recipe: str) -> list[str]:
    """How each strategy's candidates are weighed."""
    exact = any(
        isinstance(row, RankedRow) and row.key.setting.endswith("exact") for row in strategy_rows(study, recipe)
    )
    return [
        f"{study.main.num_candidates} candidates a question.",
        "Weights: p for beams, diverse beams and the beams of hybrids, whose samples share the remaining mass; "
        "p^(1 − 1/T) for temperatures, as printed, and beside it the exact p/p_T.",
        "Two groups of a diverse beam search may find the same token sequence; all candidates returned count, each "
        "with its full p."
        if study.recipes[recipe].diverse
        else "",
        "Print lacks the rows of exact weights." if exact else "",
    ]


def _beam_row(symbol: str, name: str, value: float) -> RankedRow:
    """A row of the beam form at one setting, such as ``ε=0.1`` of the stored ``epsilon=0.1``."""
    place = TablePlace(variant=captions.BEAMSEARCH, setting=ablation(name, value))
    return RankedRow((f"{symbol}={number(value)}",), place)


def _strategy_row(title: str, settings: str, variant: str, setting: str) -> RankedRow:
    return RankedRow((title, settings), TablePlace(variant=variant, setting=setting))
