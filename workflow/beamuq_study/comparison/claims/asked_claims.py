"""Which cells of a study each claim is asked of, and the files that judging them reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import product

from beamuq_study import grid
from beamuq_study.comparison.claims.judges import JUDGES
from beamuq_study.comparison.comparison_inputs import (
    Claim,
    ComparisonRules,
    read_claims,
    read_rules,
)
from beamuq_study.comparison.number_statuses import OF_ACCURACY
from beamuq_study.exhibits.exhibit import EVALUATION
from beamuq_study.grid import Cell
from beamuq_study.parquet_tables import Artifact
from beamuq_study.study_config import GridEntry, Study

WITHOUT_RUN = "theorem"  # the judge that needs no cell
LACKS_CELLS = (
    "needs a recipe of the grid with what it is about, under the main scorer, as "
    "studies/paper.yaml has one"
)


@dataclass(frozen=True)
class ModelAsked:
    """A model that a claim is asked of, and on which cells; or why it is asked of none."""

    model: str  # "": none in particular
    cells: list[Cell]
    why_not: str = ""


def models_asked(study: Study, rules: ComparisonRules, claim: Claim) -> list[ModelAsked]:
    """The models of a study that a claim is asked of, each on the cells that have what it needs.

    They are of the claim's models and datasets and of all that are not the paper's; without these,
    all of the study's.
    """
    if study.demo:
        return [ModelAsked("", [], "a demo")]
    if claim.missing:
        return [ModelAsked("", [], f"missing: {claim.missing}")]
    if claim.judge == WITHOUT_RUN:
        return [ModelAsked("", [])]
    cells = JUDGES[claim.judge].cells(study, **claim.settings)
    datasets = _chosen(grid.datasets_of(study, cells), claim.datasets, rules.paper.datasets)
    cells_of_model = grid.by_model([cell for cell in cells if cell.dataset in datasets])
    if not cells_of_model:
        return [ModelAsked("", [], LACKS_CELLS)]
    models = _chosen(list(cells_of_model), claim.models, rules.paper.models)
    return [ModelAsked(model, cells_of_model[model]) for model in models]


def _chosen(own: Sequence[str], claimed: Sequence[str], of_paper: Collection[str]) -> list[str]:
    """Those claimed (none named: all of the paper's) and those not of the paper; else all."""
    wanted = claimed or of_paper
    chosen = [name for name in own if name in wanted or name not in of_paper]
    return chosen or list(own)


def needed_files(study: Study) -> list[Artifact]:
    """Every file that the comparison reads, once; only what the study's grid has."""
    rules = read_rules()
    files = list[Artifact]()
    for entry in study.grid:
        files += _files_of_entry(study, entry)
    for claim in read_claims():
        for asked_of in models_asked(study, rules, claim):
            if asked_of.cells:
                files += _files(study, asked_of.cells, JUDGES[claim.judge].reads)
    return list(dict.fromkeys(files))


def _files_of_entry(study: Study, entry: GridEntry) -> list[Artifact]:
    """Evaluations; of the main recipe also what accuracies are counted from."""
    places = product(entry.models, entry.datasets, [entry.recipe], entry.scorers)
    cells = [Cell(*place) for place in places]
    of_main = entry.recipe == study.main.recipe
    return _files(study, cells, (*EVALUATION, *OF_ACCURACY) if of_main else EVALUATION)


def _files(study: Study, cells: Sequence[Cell], kinds: Sequence[str]) -> list[Artifact]:
    metric = study.main_quality.metric
    return [cell.file(kind, metric) for cell in cells for kind in kinds]
