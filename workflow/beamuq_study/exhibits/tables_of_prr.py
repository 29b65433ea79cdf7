"""The tables of PRR and ROC-AUC: of every method, of one setting varied, and of differences; each a
specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from beamuq.evaluation.prr_and_auc import prr_to
from beamuq.methods import registry
from beamuq.strategy_names import ablation, number, of_kind, parse, printed
from beamuq_study import grid as cells
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.captions import BEAMSEARCH, MULTINOMIAL
from beamuq_study.exhibits.estimates_table import prr_table
from beamuq_study.exhibits.exhibit import Exhibit, Row
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import ANSWERED
from beamuq_study.study_config import Study

GEMMA = "gemma-3-4b-base"
EMBEDDED = ("Eccentricity", "EigVecDissimilarity")
SAMPLES = {"variant": MULTINOMIAL}
VARIED = {
    "budgets": ("M", "M"),
    "epsilon": ("ε", "epsilon"),
    "alpha": ("α", "alpha"),
    "fixed_k": ("K", "K"),
}
Rows = Callable[[Study, str], Sequence[Row]]


def cross_encoder(study: Study) -> Sequence[Cell]:
    """The main cells, of one model, that have a cross-encoder or a proxy for one."""
    for scorer, of in study.scorers.items():
        stands = of.kind == "cross_encoder" or "cross-encoder" in (of.proxy_for or "").lower()
        supplied = cells.recipe_cells(study, study.main.recipe, scorer)
        if scorer != study.main.scorer and stands and supplied:
            return cells.by_model(supplied)[cells.nearest(study, supplied, GEMMA)[0].model]
    return []


def scored_with(lists: Sequence[str], methods: Sequence[str], study: Study) -> Sequence[Cell]:
    """The cells of the first recipe with the main beams whose ``scoring`` has all these lists and
    methods.
    """
    recipes, beam = study.recipes, study.main.beam
    return cells.select(
        study, lists=lists, methods=methods, has=lambda recipe: recipes[recipe].decoded(beam)
    )


def main_methods(study: Study, recipe: str) -> Sequence[Row]:
    """The recipe's methods in its order: baselines, then each consistency-based method in both
    forms.
    """
    methods = [registry.resolve(name) for name in study.scoring[recipe].methods]
    pairs = [
        m.name
        for m in methods
        if len(m.variants) == 2 and m.name not in (*captions.BASELINES, "DegreeMatrix")
    ]
    baselines = [m.name for m in methods if len(m.variants) == 1 or m.name in captions.BASELINES]
    single = [_of_method("Baseline UQ methods", method=name) for name in baselines]
    return [*single, *_pairs(pairs, "Consistency-based UQ: multinomial vs. beamsearch versions")]


def both_forms(methods: Sequence[str], study: Study, recipe: str) -> Sequence[Row]:
    """These methods in both forms; none where one is not scored."""
    return _pairs(methods) if set(methods) <= set(study.scoring[recipe].methods) else []


def beam_forms(study: Study, recipe: str) -> Sequence[Row]:
    """The beam form of each method that has both."""
    both = (
        of.name
        for name in study.scoring[recipe].methods
        if len((of := registry.resolve(name)).variants) == 2
    )
    return [
        Row((captions.method_title(name),), {"method": name, "variant": BEAMSEARCH})
        for name in both
    ]


def _pairs(methods: Sequence[str], group: str = "") -> Sequence[Row]:
    return [
        _of_method(group, method=name, variant=form)
        for name in methods
        for form in (MULTINOMIAL, BEAMSEARCH)
    ]


def _of_method(group: str = "", **keys: str) -> Row:
    return Row((captions.method_title(**keys),), keys, group)


def of_settings(names: Sequence[str], study: Study, recipe: str) -> Sequence[Row]:
    """A row a value of these keys of scoring; floors ε of the beams' masses from uniform weights
    down to none.
    """
    return [
        Row(
            (f"{symbol}={number(value)}",), {"variant": BEAMSEARCH, "setting": ablation(key, value)}
        )
        for name in names
        for symbol, key in [VARIED[name]]
        for value in sorted(getattr(study.scoring[recipe], name), reverse=name == "epsilon")
    ]


def budgets(study: Study, recipe: str) -> Sequence[Row]:
    rows = of_settings(["budgets"], study, recipe)
    return [replace(row, titles=(row.titles[0].removeprefix("M="),)) for row in rows]


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
            rows.append(
                Row((title, settings), {"variant": variant, "setting": printed(name) + suffix})
            )
    return rows


def other_candidates(study: Study, recipe: str) -> Sequence[Row]:
    """Every strategy but the main beams, then the floors but theirs."""
    main = ablation("epsilon", study.main.epsilon)
    floors = (row for row in of_settings(["epsilon"], study, recipe) if row.keys["setting"] != main)
    floored = [Row(("Beams with a floor", *row.titles), row.keys) for row in floors]
    return [*strategies(study, recipe)[1:], *floored]


OTHERS = ("SemanticEntropy", "DegreeMatrix", "SAR", *captions.CONSISTENCY)
one_model = partial(
    cells.main_cells, like=GEMMA
)  # the paper's model of the ablations, or what stands for it
main_table = partial(prr_table, rows=main_methods)
means_table = partial(main_table, shown=cells.main_cells, columns="models")
difference_table = partial(prr_table, methods=captions.GRAPH, beyond_paper=True)


def varied(
    label: str, rows: Rows, *lists: str, methods: tuple[str, ...] = captions.GRAPH, **more: Any
) -> Exhibit:
    """PRR of a few methods for every value of a setting, in each cell of the recipe that scores
    them.
    """
    shown = partial(scored_with, lists, methods)
    return prr_table(label, shown, rows, methods=methods, columns="cells", beside="", **more)


def exhibits(study: Study) -> list[Exhibit]:
    """The list, and of each model its methods and what beams gain, and the means of PRR to each
    further rejection.
    """
    ways, every, of_beams = (
        ("Candidates", "Setting"),
        "every_strategy",
        {"variant": BEAMSEARCH, "setting": "beam"},
    )
    floors, bases = ("epsilon",), ("alpha", "fixed_k")
    with_strategies = partial(scored_with, (every,), captions.GRAPH)
    with_budgets = partial(cells.with_budgets, methods=captions.GRAPH, take="first")
    listed = [
        means_table("qa_mean_prr"),
        means_table("topbeam_scoring", answer_source="top_beam"),
        means_table("answered", subset=ANSWERED, beyond_paper=True),
        main_table("abl_rocauc", one_model, metric="ROC-AUC", caption="abl_auc"),
        main_table("abl_prauc", one_model, metric="PR-AUC", caption="abl_auc"),
        prr_table("abl_other_methods", one_model, partial(both_forms, OTHERS)),
        prr_table("abl_crossencoder", cross_encoder, partial(both_forms, captions.CONSISTENCY)),
        varied("abl_sampling", strategies, every, stub=ways),
        varied("abl_normalization", partial(of_settings, floors), *floors, stub=("Floor",)),
        varied(
            "abl_ecc_params",
            partial(of_settings, bases),
            *bases,
            stub=("Embedding",),
            methods=EMBEDDED,
        ),
        difference_table("gains_by_candidates", with_budgets, budgets, stub=("M",), minus=SAMPLES),
        difference_table(
            "gains_by_strategy", with_strategies, other_candidates, stub=ways, minus=of_beams
        ),
    ]
    for name, model in study.models.items():
        shown = partial(cells.main_cells, model=name)
        listed.append(main_table(f"qa_{model.label}", shown, caption="qa"))
        if name in cells.models(study, study.main.recipe):
            gains = partial(difference_table, minus=SAMPLES, methods=("",), caption="gains")
            listed.append(gains(f"gains_{model.label}", shown, beam_forms))
    for metric in map(prr_to, study.evaluation.max_rejection[1:]):
        label = f"qa_mean_prr_{metric[4:]}"
        listed.append(
            means_table(label, metric=metric, caption="qa_mean_prr_to", beyond_paper=True)
        )
    return listed
