"""The tables of estimates: of every method, of one setting varied, and of differences. Each is a specification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from beamuq.errors import BeamUQError
from beamuq.evaluation.prr_and_auc import prr_to
from beamuq.exhibits import captions, cells
from beamuq.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.estimates_table import prr_table
from beamuq.exhibits.exhibit import Exhibit, Row
from beamuq.methods import registry
from beamuq.parquet_tables import ANSWERED
from beamuq.strategy_names import ablation, number, of_kind, parse, printed
from beamuq.study_config import Recipe, Scoring, Study

GEMMA = "gemma-3-4b-base"
Cells = Callable[[Study], Sequence[Cell]]
Rows = Callable[[Study, str], Sequence[Row]]


# -- cells -------------------------------------------------------------------------------------------------------------


def of_model(model: str, study: Study) -> Sequence[Cell]:
    """The main cells of a model."""
    return cells.main_cells(study, model)


def of_one_model(study: Study) -> Sequence[Cell]:
    """The main cells of the paper's model of the ablations or, where the study lacks it, of its first."""
    return cells.main_cells(study, cells.nearest(study, cells.main_cells(study), GEMMA).model)


def cross_encoder(study: Study) -> Sequence[Cell]:
    """The main cells, of one model, that have a cross-encoder or a proxy for one."""
    recipe = study.main.recipe
    for scorer, of in study.scorers.items():
        stands = of.kind == "cross_encoder" or "cross-encoder" in (of.proxy_for or "").lower()
        found = cells.recipe_cells(study, recipe, scorer)
        if scorer != study.main.scorer and stands and found:
            return cells.by_model(found)[cells.nearest(study, found, GEMMA).model]
    raise BeamUQError(
        f"needs a cell of {recipe!r} with a scorer of kind cross_encoder (or a proxy for the cross-encoder); "
        "add it to the grid's scorers"
    )


def scored_with(keys: Sequence[str], methods: Sequence[str], study: Study) -> Sequence[Cell]:
    """The cells of the first recipe with the main beams whose ``scoring`` has all these keys and methods."""

    def has(recipe: Recipe, scoring: Scoring) -> bool:
        there = all(getattr(scoring, key) for key in keys) and set(methods) <= set(scoring.methods)
        return there and recipe.decoded(study.main.beam) is not None

    needs = f"with {study.main.beam!r} whose scoring has {' and '.join(keys)} with methods {', '.join(methods)}"
    return cells.recipe_cells(study, cells.recipes_with(study, has, needs)[0])


def with_budgets(study: Study) -> Sequence[Cell]:
    """The cells of the first recipe that scores the graph methods of samples and beams at several M."""
    found = cells.with_budgets(study, captions.GRAPH)
    return [cell for cell in found if cell.recipe == found[0].recipe]


# -- rows --------------------------------------------------------------------------------------------------------------


def main_methods(study: Study, recipe: str) -> Sequence[Row]:
    """The recipe's methods in its order: baselines, then each consistency-based method in both forms."""
    found = [registry.resolve(name) for name in study.scoring[recipe].methods]
    pairs = [m.name for m in found if len(m.variants) == 2 and m.name not in (*captions.BASELINES, "DegreeMatrix")]
    baselines = [m.name for m in found if len(m.variants) == 1 or m.name in captions.BASELINES]
    single = [_of_method("Baseline UQ methods", method=name) for name in baselines]
    return [*single, *_pairs(pairs, "Consistency-based UQ: multinomial vs. beamsearch versions")]


def both_forms(methods: Sequence[str], study: Study, recipe: str) -> Sequence[Row]:
    """These methods in both forms."""
    if missing := [method for method in methods if method not in study.scoring[recipe].methods]:
        raise BeamUQError(f"needs methods {', '.join(missing)}; add them to scoring.{recipe}.methods")
    return _pairs(methods)


def beam_forms(study: Study, recipe: str) -> Sequence[Row]:
    """The beam form of each method that has both."""
    methods = [registry.resolve(name) for name in study.scoring[recipe].methods]
    both = [method.name for method in methods if len(method.variants) == 2]
    if not both:
        raise BeamUQError(f"needs a method of samples and of beams, such as Dissimilarity; add it to scoring.{recipe}")
    return [replace(_of_method(method=name), keys={"method": name, "variant": BEAMSEARCH}) for name in both]


def _pairs(methods: Sequence[str], group: str = "") -> Sequence[Row]:
    return [_of_method(group, method=name, variant=form) for name in methods for form in (MULTINOMIAL, BEAMSEARCH)]


def _of_method(group: str = "", **keys: str) -> Row:
    return Row((captions.method_title(**keys),), keys, group)


def budgets(study: Study, recipe: str) -> Sequence[Row]:
    """A row a number of candidates."""
    return [replace(_of_beams("M", "M", M), titles=(str(M),)) for M in sorted(study.scoring[recipe].budgets)]


def floors(study: Study, recipe: str) -> Sequence[Row]:
    """A row a floor ε of the beams' masses, from uniform weights down to none."""
    return [_of_beams("ε", "epsilon", floor) for floor in sorted(study.scoring[recipe].epsilon, reverse=True)]


def embeddings(study: Study, recipe: str) -> Sequence[Row]:
    """Eigenvalue thresholds α first, then fixed dimensions K."""
    scoring = study.scoring[recipe]
    thresholds = [_of_beams("α", "alpha", alpha) for alpha in sorted(scoring.alpha)]
    return [*thresholds, *(_of_beams("K", "K", k) for k in sorted(scoring.fixed_k))]


def _of_beams(symbol: str, name: str, value: float) -> Row:
    return Row((f"{symbol}={number(value)}",), {"variant": BEAMSEARCH, "setting": ablation(name, value)})


def strategies(study: Study, recipe: str) -> Sequence[Row]:
    """A row a strategy: the main beam, temperatures in both weightings, diverse beams, hybrids."""
    names = study.recipes[recipe].strategies()
    sampled = of_kind(names, "sample")
    warm = [name for name in sampled if parse(name)[1]["T"] != 1]
    rows = [Row(("Beam search", ""), {"variant": BEAMSEARCH, "setting": "beam"})]
    for title, variant, of, suffix in (
        ("Multinomial sampling", MULTINOMIAL, sampled, ""),
        ("Multinomial, exact weights", MULTINOMIAL, warm, " exact"),
        ("Diverse beam search", BEAMSEARCH, of_kind(names, "diverse"), ""),
        ("Hybrid multinomial-beam", BEAMSEARCH, of_kind(names, "hybrid"), ""),
    ):
        for name in of:
            settings = ", ".join(name.split()[1:]).replace("lambda", "λ")
            rows.append(Row((title, settings), {"variant": variant, "setting": printed(name) + suffix}))
    return rows


def other_candidates(study: Study, recipe: str) -> Sequence[Row]:
    """Every strategy but the main beams, then the floors but theirs."""
    main = ablation("epsilon", study.main.epsilon)
    others = [row for row in floors(study, recipe) if row.keys["setting"] != main]
    floored = [Row(("Beams with a floor", *row.titles), row.keys) for row in others]
    return [*strategies(study, recipe)[1:], *floored]


# -- specifications ----------------------------------------------------------------------------------------------------


main_table = partial(prr_table, rows=main_methods)
"""Every method of the main recipe."""
means_table = partial(main_table, shown=cells.main_cells, columns="models")
difference_table = partial(prr_table, methods=captions.GRAPH, beyond_paper=True)


def forms_table(label: str, shown: Cells, *methods: str) -> Exhibit:
    """PRR of methods in both forms."""
    return prr_table(label, shown, partial(both_forms, methods))


def varied(
    label: str, stub: tuple[str, ...], rows: Rows, *keys: str, methods: tuple[str, ...] = captions.GRAPH
) -> Exhibit:
    """PRR of a few methods for every value of a setting, in each cell of the recipe that scores them."""
    shown = partial(scored_with, keys, methods)
    return prr_table(label, shown, rows, stub=stub, columns="cells", methods=methods, beside="")


OTHERS = ("SemanticEntropy", "DegreeMatrix", "SAR", *captions.CONSISTENCY)
EMBEDDED = ("Eccentricity", "EigVecDissimilarity")
WAYS = ("Candidates", "Setting")
TABLES = (
    means_table("qa_mean_prr"),
    means_table("topbeam_scoring", answer_source="top_beam"),
    means_table("answered", subset=ANSWERED, beyond_paper=True),
    main_table("abl_rocauc", of_one_model, metric="ROC-AUC", template="abl_auc"),
    main_table("abl_prauc", of_one_model, metric="PR-AUC", template="abl_auc"),
    forms_table("abl_other_methods", of_one_model, *OTHERS),
    forms_table("abl_crossencoder", cross_encoder, *captions.CONSISTENCY),
    varied("abl_sampling", WAYS, strategies, "every_strategy"),
    varied("abl_normalization", ("Floor",), floors, "epsilon"),
    varied("abl_ecc_params", ("Embedding",), embeddings, "alpha", "fixed_k", methods=EMBEDDED),
    difference_table("gains_by_candidates", with_budgets, budgets, stub=("M",), minus={"variant": MULTINOMIAL}),
    difference_table(
        "gains_by_strategy",
        partial(scored_with, ("every_strategy",), captions.GRAPH),
        other_candidates,
        stub=WAYS,
        minus={"variant": BEAMSEARCH, "setting": "beam"},
    ),
)


def exhibits(study: Study) -> list[Exhibit]:
    """The list, and of each model its methods and what beams gain, and the means of PRR to each further rejection."""
    found = list(TABLES)
    for name, model in study.models.items():
        shown = partial(of_model, name)
        found.append(main_table(f"qa_{model.label}", shown, template="qa"))
        if name in cells.models(study, study.main.recipe):
            gains = partial(difference_table, minus={"variant": MULTINOMIAL}, methods=("",), template="gains")
            found.append(gains(f"gains_{model.label}", shown, beam_forms))
    for metric in map(prr_to, study.evaluation.max_rejection[1:]):
        label = f"qa_mean_prr_{metric[4:]}"
        found.append(means_table(label, metric=metric, template="qa_mean_prr_to", beyond_paper=True))
    return found
