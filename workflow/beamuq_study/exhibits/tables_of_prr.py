"""The tables of PRR and ROC-AUC: of every method, of one setting varied, and of differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from beamuq.evaluation.prr_and_auc import prr_to
from beamuq.methods import registry
from beamuq.strategy_names import ablation, number, of_kind, parse, printed
from beamuq_study import grid
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.exhibit import Exhibit, Row
from beamuq_study.exhibits.method_groups import (
    BASELINES,
    CONSISTENCY,
    GRAPH,
    OVER_BEAMS,
    OVER_SAMPLES,
)
from beamuq_study.exhibits.methods_by_cells_table import Rows, prr_table
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ANSWERED
from beamuq_study.study_config import Study

GEMMA = "gemma-3-4b-base"
EMBEDDED = ("Eccentricity", "EigVecDissimilarity")
FURTHER_METHODS = ("SemanticEntropy", "DegreeMatrix", "SAR", *CONSISTENCY)
MINUS_SAMPLES = {"variant": OVER_SAMPLES}
MINUS_BEAMS = {"variant": OVER_BEAMS, "setting": "beam"}
SYMBOLS = {"budgets": "M", "epsilon": "ε", "alpha": "α", "fixed_k": "K"}
"""How rows call the keys of scoring that list values of a setting."""
SETTINGS = {"budgets": "M", "epsilon": "epsilon", "alpha": "alpha", "fixed_k": "K"}
"""How the stored setting calls them."""

# -- cells -----------------------------------------------------------------------------------------


def one_model(study: Study) -> Sequence[Cell]:
    """The main cells of the paper's model of the ablations, or of what stands for it."""
    return grid.main_cells(study, like=GEMMA)


def cross_encoder(study: Study) -> Sequence[Cell]:
    """The main cells, of one model, that have a cross-encoder or a proxy for one."""
    for name, scorer in study.scorers.items():
        proxy = "cross-encoder" in (scorer.proxy_for or "").lower()
        if name == study.main.scorer or not (scorer.kind == "cross_encoder" or proxy):
            continue
        supplied = grid.recipe_cells(study, study.main.recipe, name)
        if supplied:
            nearest = grid.nearest(study, supplied, GEMMA)[0]
            return grid.by_model(supplied)[nearest.model]
    return []


def scored_with(lists: Sequence[str], methods: Sequence[str], study: Study) -> Sequence[Cell]:
    """The cells of the first recipe with the main beams that scores these lists and methods."""

    def has_main_beams(recipe: str) -> bool:
        return bool(study.recipes[recipe].decoded(study.main.beam))

    return grid.select(study, scoring_keys=lists, methods=methods, has=has_main_beams)


# -- rows ------------------------------------------------------------------------------------------


def main_methods(study: Study, recipe: str) -> Sequence[Row]:
    """The recipe's methods in its order: baselines, then consistency-based ones in both forms.

    Methods that read beams' probabilities alone have a table of their own.
    """
    baselines = []
    consistency = []
    for name in study.scoring[recipe].methods:
        method = registry.resolve(name)
        if method.scope == "beams":
            continue
        if len(method.variants) == 1 or method.name in BASELINES:
            baselines.append(method.name)
        elif method.name != "DegreeMatrix":
            consistency.append(method.name)
    rows = [_method_row(name, group="Baseline UQ methods") for name in baselines]
    group = "Consistency-based UQ: multinomial vs. beamsearch versions"
    return [*rows, *_rows_of_both_forms(consistency, group)]


def both_forms(methods: Sequence[str], study: Study, recipe: str) -> Sequence[Row]:
    """These methods in both forms; none where one is not scored."""
    scored = set(methods) <= set(study.scoring[recipe].methods)
    return _rows_of_both_forms(methods) if scored else []


def beam_forms(study: Study, recipe: str) -> Sequence[Row]:
    """The beam form of each method that has both."""
    resolved = [registry.resolve(name) for name in study.scoring[recipe].methods]
    names = [method.name for method in resolved if len(method.variants) == 2]
    return [
        Row((captions.method_title(name),), {"method": name, "variant": OVER_BEAMS})
        for name in names
    ]


def _rows_of_both_forms(methods: Sequence[str], group: str = "") -> list[Row]:
    return [
        _method_row(name, form, group=group)
        for name in methods
        for form in (OVER_SAMPLES, OVER_BEAMS)
    ]


def _method_row(method: str, variant: str | None = None, *, group: str) -> Row:
    """A row of a method; without a variant its estimates are found by the method alone."""
    keys = {"method": method}
    if variant is not None:
        keys["variant"] = variant
    return Row((captions.method_title(**keys),), keys, group)


def settings(lists: Sequence[str], study: Study, recipe: str) -> Sequence[Row]:
    """A row a value of these lists of scoring; floors ε of beams' masses from 1 down to none."""
    return [
        Row(
            (f"{SYMBOLS[name]}={number(value)}",),
            {"variant": OVER_BEAMS, "setting": ablation(SETTINGS[name], value)},
        )
        for name in lists
        for value in sorted(getattr(study.scoring[recipe], name), reverse=name == "epsilon")
    ]


def budgets(study: Study, recipe: str) -> Sequence[Row]:
    """A row a number of candidates."""
    rows = settings(["budgets"], study, recipe)
    return [replace(row, titles=(row.titles[0].removeprefix("M="),)) for row in rows]


def strategies(study: Study, recipe: str) -> Sequence[Row]:
    """A row a strategy: the main beam, temperatures in both weightings, diverse beams, hybrids."""
    names = study.recipes[recipe].strategies()
    sampled = of_kind(names, "sample")
    other_temperatures = [name for name in sampled if parse(name)[1]["T"] != 1]
    diverse = of_kind(names, "diverse")
    hybrid = of_kind(names, "hybrid")
    return [
        Row(("Beam search", ""), {"variant": OVER_BEAMS, "setting": "beam"}),
        *(_strategy_row("Multinomial sampling", OVER_SAMPLES, name) for name in sampled),
        *(
            _strategy_row("Multinomial, exact weights", OVER_SAMPLES, name, " exact")
            for name in other_temperatures
        ),
        *(_strategy_row("Diverse beam search", OVER_BEAMS, name) for name in diverse),
        *(_strategy_row("Hybrid multinomial-beam", OVER_BEAMS, name) for name in hybrid),
    ]


def _strategy_row(title: str, variant: str, strategy: str, weights: str = "") -> Row:
    options = ", ".join(strategy.split()[1:]).replace("lambda", "λ")
    return Row((title, options), {"variant": variant, "setting": printed(strategy) + weights})


def other_candidates(study: Study, recipe: str) -> Sequence[Row]:
    """Every strategy but the main beams, then the floors but theirs."""
    main_floor = ablation("epsilon", study.main.epsilon)
    floors = [
        Row(("Beams with a floor", *row.titles), row.keys)
        for row in settings(["epsilon"], study, recipe)
        if row.keys["setting"] != main_floor
    ]
    return [*strategies(study, recipe)[1:], *floors]


# -- tables ----------------------------------------------------------------------------------------

main_table = partial(prr_table, rows=main_methods)
means_table = partial(main_table, shown=grid.main_cells, columns="models")
difference_table = partial(prr_table, methods=GRAPH, beyond_paper=True)


def varied(
    label: str,
    rows: Rows,
    lists: Sequence[str],
    stub: tuple[str, ...],
    methods: tuple[str, ...] = GRAPH,
) -> Exhibit:
    """PRR of methods for every value of a setting, in each cell of the recipe that scores them."""
    shown = partial(scored_with, lists, methods)
    return prr_table(label, shown, rows, stub=stub, methods=methods, columns="cells", beside="")


def exhibits(study: Study) -> list[Exhibit]:
    """The tables of every study, then those of each model and of each further rejection."""
    models = [name for name in study.models if name in grid.models(study, study.main.recipe)]
    further = [prr_to(rejection) for rejection in study.evaluation.max_rejection[1:]]
    return [
        *_tables_of_main_methods(),
        *_tables_of_settings(),
        *_tables_of_differences(),
        *(_table_of_model(study, name) for name in study.models),
        *(_gains_of_model(study, name) for name in models),
        *(_means_to_rejection(metric) for metric in further),
    ]


def _tables_of_main_methods() -> list[Exhibit]:
    further = partial(both_forms, FURTHER_METHODS)
    consistency = partial(both_forms, CONSISTENCY)
    return [
        means_table("qa_mean_prr"),
        means_table("topbeam_scoring", answer_source="top_beam"),
        means_table("answered", subset=ANSWERED, beyond_paper=True),
        main_table("abl_rocauc", one_model, metric="ROC-AUC", caption="abl_auc"),
        main_table("abl_prauc", one_model, metric="PR-AUC", caption="abl_auc"),
        prr_table("abl_other_methods", one_model, further),
        prr_table("abl_crossencoder", cross_encoder, consistency),
    ]


def _tables_of_settings() -> list[Exhibit]:
    floors = ("epsilon",)
    bases = ("alpha", "fixed_k")
    return [
        varied("abl_sampling", strategies, ["every_strategy"], ("Candidates", "Setting")),
        varied("abl_normalization", partial(settings, floors), floors, ("Floor",)),
        varied("abl_ecc_params", partial(settings, bases), bases, ("Embedding",), EMBEDDED),
    ]


def _tables_of_differences() -> list[Exhibit]:
    return [
        difference_table(
            "gains_by_candidates",
            partial(grid.with_budgets, methods=GRAPH, take="first"),
            budgets,
            stub=("M",),
            minus=MINUS_SAMPLES,
        ),
        difference_table(
            "gains_by_strategy",
            partial(scored_with, ["every_strategy"], GRAPH),
            other_candidates,
            stub=("Candidates", "Setting"),
            minus=MINUS_BEAMS,
        ),
    ]


def _table_of_model(study: Study, model: str) -> Exhibit:
    shown = partial(grid.main_cells, model=model)
    return main_table(f"qa_{study.models[model].label}", shown, caption="qa")


def _gains_of_model(study: Study, model: str) -> Exhibit:
    return difference_table(
        f"gains_{study.models[model].label}",
        partial(grid.main_cells, model=model),
        beam_forms,
        methods=("",),
        minus=MINUS_SAMPLES,
        caption="gains",
    )


def _means_to_rejection(metric: str) -> Exhibit:
    """Means of PRR to another rejection, such as of "PRR@1"."""
    label = f"qa_mean_prr_{metric.removeprefix('PRR@')}"
    return means_table(label, metric=metric, caption="qa_mean_prr_to", beyond_paper=True)
