"""The tables of estimates: of every method, of one setting varied, and of differences. Each is a specification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.evaluation.prr_and_auc import prr_to
from beamuq.exhibits import captions, cells
from beamuq.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq.exhibits.cells import Cell
from beamuq.exhibits.estimates_table import Row, prr_table
from beamuq.exhibits.exhibit import Exhibit
from beamuq.methods import registry
from beamuq.parquet_tables import ANSWERED
from beamuq.strategy_names import ablation, number, of_kind, parse, printed
from beamuq.study_config import Study

GEMMA = "gemma-3-4b-base"
Rows = Callable[[Study, str], Sequence[Row]]


# -- cells -------------------------------------------------------------------------------------------------------------


def of_model(model: str, study: Study) -> Sequence[Cell]:
    """The main cells of a model."""
    return cells.main_cells(study, model)


def one_model(model: str) -> Callable[[Study], Sequence[Cell]]:
    """The main cells of a model or, where the study lacks it, of its first."""

    def shown(study: Study) -> Sequence[Cell]:
        return cells.main_cells(study, cells.nearest(study, cells.main_cells(study), model).model)

    return shown


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


def scored_with(*keys: str, methods: Sequence[str]) -> Callable[[Study], Sequence[Cell]]:
    """The cells of the first recipe with the main beams whose ``scoring`` has all these keys and methods."""

    def shown(study: Study) -> Sequence[Cell]:
        def has(recipe: str) -> bool:
            scoring, decoded = study.scoring[recipe], study.recipes[recipe].decoded(study.main.beam)
            return bool(all(getattr(scoring, key) for key in keys) and set(methods) <= set(scoring.methods) and decoded)

        needs = f"with {study.main.beam!r} whose scoring has {' and '.join(keys)} with methods {', '.join(methods)}"
        return cells.recipe_cells(study, cells.first_recipe(study, has, needs))

    return shown


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
    single = [Row((captions.method_title(name),), {"method": name}, "Baseline UQ methods") for name in baselines]
    return [*single, *_pairs(pairs, "Consistency-based UQ: multinomial vs. beamsearch versions")]


def both_forms(*methods: str) -> Callable[[Study, str], Sequence[Row]]:
    """These methods in both forms."""

    def rows(study: Study, recipe: str) -> Sequence[Row]:
        if missing := [method for method in methods if method not in study.scoring[recipe].methods]:
            raise BeamUQError(f"needs methods {', '.join(missing)}; add them to scoring.{recipe}.methods")
        return _pairs(methods)

    return rows


def _pairs(methods: Sequence[str], group: str = "") -> Sequence[Row]:
    forms = [{"method": method, "variant": variant} for method in methods for variant in (MULTINOMIAL, BEAMSEARCH)]
    return [Row((captions.method_title(**form),), form, group) for form in forms]


def beam_forms(study: Study, recipe: str) -> Sequence[Row]:
    """The beam form of each method that has both."""
    methods = [registry.resolve(name) for name in study.scoring[recipe].methods]
    both = [method.name for method in methods if len(method.variants) == 2]
    if not both:
        raise BeamUQError(f"needs a method of samples and of beams, such as Dissimilarity; add it to scoring.{recipe}")
    return [Row((captions.method_title(name),), {"method": name, "variant": BEAMSEARCH}) for name in both]


def budgets(study: Study, recipe: str) -> Sequence[Row]:
    """A row a number of candidates."""
    sizes = sorted(study.scoring[recipe].budgets)
    return [Row((str(M),), {"variant": BEAMSEARCH, "setting": ablation("M", M)}) for M in sizes]


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


def varied(label: str, stub: tuple[str, ...], rows: Rows, *keys: str, **more: Any) -> Exhibit:
    """PRR of a few methods for every value of a setting, in each cell of the recipe that scores them."""
    methods = more.pop("methods", captions.GRAPH)
    shown = scored_with(*keys, methods=methods)
    return prr_table(label, shown, rows, stub=stub, columns="cells", methods=methods, beside="", **more)


main_table = partial(prr_table, rows=main_methods)
"""Every method of the main recipe."""
difference_table = partial(prr_table, methods=captions.GRAPH, beyond_paper=True)

TABLES = (
    main_table("qa_mean_prr", cells.main_cells, columns="models"),
    main_table("topbeam_scoring", cells.main_cells, columns="models", answer_source="top_beam"),
    main_table("answered", cells.main_cells, columns="models", subset=ANSWERED, beyond_paper=True),
    main_table("abl_rocauc", one_model(GEMMA), metric="ROC-AUC", template="abl_auc"),
    main_table("abl_prauc", one_model(GEMMA), metric="PR-AUC", template="abl_auc"),
    prr_table(
        "abl_other_methods",
        one_model(GEMMA),
        both_forms("SemanticEntropy", "DegreeMatrix", "SAR", *captions.CONSISTENCY),
    ),
    prr_table("abl_crossencoder", cross_encoder, both_forms(*captions.CONSISTENCY)),
    varied("abl_sampling", ("Candidates", "Setting"), strategies, "every_strategy"),
    varied("abl_normalization", ("Floor",), floors, "epsilon"),
    varied(
        "abl_ecc_params",
        ("Embedding",),
        embeddings,
        "alpha",
        "fixed_k",
        methods=("Eccentricity", "EigVecDissimilarity"),
    ),
    difference_table("gains_by_candidates", with_budgets, budgets, stub=("M",), minus={"variant": MULTINOMIAL}),
    difference_table(
        "gains_by_strategy",
        scored_with("every_strategy", methods=captions.GRAPH),
        other_candidates,
        stub=("Candidates", "Setting"),
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
        further = partial(main_table, columns="models", template="qa_mean_prr_to", beyond_paper=True)
        found.append(further(f"qa_mean_prr_{metric[4:]}", cells.main_cells, metric=metric))
    return found
