"""Write the part of the paper's study that decides one claim: ``python tools/study_of_claim.py CLAIM``.

Claims are named as in ``docs/claims.md``. CLAIM.yaml has the settings of ``studies/paper.yaml``; the grid alone is cut.
"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from beamuq.comparison import claim_measures as measures
from beamuq.comparison.claims import Claim, read_claims
from beamuq.comparison.tolerances_and_families import PAPER_STUDY
from beamuq.errors import hint
from beamuq.exhibits import list_of_exhibits
from beamuq.exhibits.exhibit_cells import budget_recipe, pool_artifacts
from beamuq.plan.cells_of_a_study import Grid, GridCell
from beamuq.study_config import Study, load_study

Names = tuple[str, str, str]


def cells_of(claim: Claim, paper: Study) -> list[GridCell]:
    """The cells of the paper's grid that a claim is decided by, in the grid's order; none where it needs no model."""
    measure = claim.decided_by
    if measure is None or isinstance(measure, measures.Counterexample):
        return []
    models = getattr(measure, "models", None) or [*filter(None, [getattr(measure, "model", "")])] or [*paper.models]
    datasets = getattr(measure, "datasets", None) or [*filter(None, [getattr(measure, "dataset", "")])]
    pairs = [(model, dataset) for model in models for dataset in datasets or paper.datasets]
    found: set[Names | tuple[str, str, str | None]]
    if isinstance(measure, measures.AblationSettings):
        read = list_of_exhibits.exhibit(measure.table.removeprefix("tab:"), paper).artifacts(paper)
        found = {(file.model, file.dataset, file.recipe) for file in read}
    elif isinstance(measure, measures.OverBudgets):
        found = {(m, d, budget_recipe(paper, m, d, measure.scored())) for m, d in measure.cells}
    elif isinstance(measure, measures.OfPool):
        found = {(m, d, file.recipe) for m, d in pairs for file in pool_artifacts(paper, m, d)}
    elif isinstance(measure, measures.EstimatorsVersus):
        found = {(m, d, measure.recipe(paper, m, d)) for m, d in pairs}
    else:
        found = {(m, d, paper.main.recipe) for m, d in pairs}
    return [cell for names, cell in Grid(paper).cells.items() if names in found]


def cut(content: dict[str, Any], cells: list[GridCell]) -> dict[str, Any]:
    """A study's content with these cells for a grid, and no exhibits."""
    grid = [
        {"recipe": recipe, "models": [model], "datasets": [c.dataset for c in of], "questions": questions}
        | {"scorers": list(scorers)}
        for (recipe, model, questions, scorers), of in (
            (key, list(group)) for key, group in groupby(cells, lambda c: (c.recipe, c.model, c.questions, c.scorers))
        )
    ]
    return content | {"grid": grid, "exhibits": []}


def main() -> None:
    claims = {claim.id: claim for claim in read_claims()}
    wanted = sys.argv[1] if len(sys.argv) == 2 else ""
    if wanted not in claims:
        sys.exit(f"{wanted!r}: no such claim; {hint(wanted, claims)}")
    cells = cells_of(claims[wanted], load_study(PAPER_STUDY))
    if not cells:
        sys.exit(f"{wanted}: no run decides it; see docs/claims.md")
    content = yaml.safe_load(PAPER_STUDY.read_text(encoding="utf-8"))
    Path(f"{wanted}.yaml").write_text(yaml.safe_dump(cut(content, cells), sort_keys=False), encoding="utf-8")
    print(f"snakemake --cores all results/{wanted}/comparison.html --config study={wanted}.yaml")


if __name__ == "__main__":
    main()
