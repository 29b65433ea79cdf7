"""``tab:abl_sampling``: PRR of three methods over every way of generating candidates."""

from __future__ import annotations

from beamuq.artifacts import Artifact
from beamuq.exhibits import ablation_tables, wording
from beamuq.exhibits.evaluation_values import stored_setting
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import Exhibit, Heading, Rule, Table
from beamuq.exhibits.ranked_table import Line, Printed
from beamuq.strategies import of_kind, parse
from beamuq.study import Study

LABEL = "abl_sampling"
FAMILIES = {"diverse": "Diverse beam search", "hybrid": "Hybrid multinomial-beam"}


def needs(study: Study) -> list[Artifact]:
    """Evaluation and replicates of every cell of the recipe whose every strategy is scored."""
    return ablation_tables.needs(study, _recipe(study))


def build(study: Study, inputs: Inputs) -> Table:
    """A row a strategy: the main beam, temperatures in both weightings, diverse beams, hybrids."""
    recipe = _recipe(study)
    body = _body(study, recipe)
    return ablation_tables.table(
        LABEL,
        study,
        inputs,
        chosen=recipe,
        methods=wording.GRAPH,
        stub=("Candidates", "Setting"),
        body=body,
        what="PRR (higher is better) for different ways of generating candidates",
        sentences=[
            f"{study.main.num_candidates} candidates a question.",
            "Weights: p for beams, diverse beams and the beams of hybrids, whose samples share the remaining mass; "
            "p^(1 − 1/T) for temperatures, as printed, and beside it the exact p/p_T.",
            "Two groups of a diverse beam search may find the same token sequence; all candidates returned count, each "
            "with its full p."
            if study.recipes[recipe].diverse
            else "",
            "The rows of exact weights, which print lacks, are ranked with the others."
            if any(isinstance(line, Line) and line.key.setting.endswith("exact") for line in body)
            else "",
        ],
        stored=lambda at: stored_setting(study, at.setting),
    )


def _recipe(study: Study) -> str:
    return ablation_tables.recipe(study, "every_strategy", wording.GRAPH, lambda scoring: scoring.every_strategy)


def _body(study: Study, recipe: str) -> list[Line | Heading | Rule]:
    strategies = study.recipes[recipe].strategies()
    sampled = of_kind(strategies, "sample")
    body: list[Line | Heading | Rule] = [_line("Beam search", "", wording.BEAMSEARCH, "beam")]
    blocks = [
        ("Multinomial sampling", [(s, wording.MULTINOMIAL, "") for s in sampled]),
        ("Multinomial, exact weights", [(s, wording.MULTINOMIAL, " exact") for s in sampled if parse(s)[1]["T"] != 1]),
        *(
            (title, [(s, wording.BEAMSEARCH, "") for s in of_kind(strategies, kind)])
            for kind, title in FAMILIES.items()
        ),
    ]
    for title, lines in blocks:
        body += [Rule()] if lines else []
        for position, (strategy, variant, suffix) in enumerate(lines):
            printed = strategy.replace("sample", "multinomial") + suffix
            settings = ", ".join(strategy.split()[1:]).replace("lambda", "λ")
            body.append(_line("" if position else title, settings, variant, printed))
    return body


def _line(title: str, settings: str, variant: str, setting: str) -> Line:
    return Line((title, settings), Printed(variant=variant, setting=setting))


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__)
