"""Whether a study measures as the paper did: what stands behind one cell against that of ``studies/paper.yaml``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq.strategy_names import parse
from beamuq_study.comparison.paper_numbers_and_claims import ComparisonRules
from beamuq_study.exhibits.cells import Cell
from beamuq_study.study_config import Study

Difference = tuple[str, str]  # a setting's path, and how it differs


def first(differing: Sequence[Difference], kinds: Collection[str], rules: ComparisonRules) -> str:
    """How the first of the settings differs that numbers of these ``kinds`` rest on, by the rules; else nothing."""
    for path, how in differing:
        affected = next((every for beginning, every in rules.affects.items() if path.startswith(beginning)), kinds)
        if set(affected) & set(kinds):
            return how
    return ""


def differences(study: Study, rules: ComparisonRules, cell: Cell, role: str | None = "nli") -> list[Difference]:
    """Settings behind a cell that are not the paper's and not declared harmless.

    ``role``: which of the paper's scorers the cell's stands for; None: it has none.
    """
    paper = rules.paper
    sts = next(name for name, scorer in paper.scorers.items() if scorer.kind == "cross_encoder")
    theirs = settings(paper, Cell(cell.model, cell.dataset, "", sts if role == "cross_encoder" else paper.main.scorer))
    names = {"models": cell.model, "datasets": cell.dataset, "recipes": cell.recipe, "scorers": cell.scorer}
    of_paper: dict[str, Collection[str]] = {"models": paper.models, "datasets": paper.datasets}
    own = [name for name in of_paper if names[name] not in of_paper[name]]
    differing = [(name, f"{names[name]} is none of the paper's {name}") for name in own]
    for path, value in settings(study, cell).items():
        if path in theirs and path not in rules.harmless and not _same(path, value, theirs[path]):
            where = path.replace("quality.*", "quality").replace("*", names.get(path.split(".")[0], ""))
            differing.append((path, f"{where} is {value}, the paper's is {theirs[path]}"))
    return differing


def settings(study: Study, cell: Cell) -> dict[str, Any]:
    """Every setting behind a cell by its dotted path, with ``*`` for the cell's own model, dataset, recipe and scorer.

    Without a recipe: what each strategy has in the first recipe with it. The grid and the scoring, which say what rows
    there are, are left out.
    """
    whole = study.model_dump(mode="json", exclude={"grid", "scoring"})
    every = whole["recipes"].values()
    whole["recipes"][""] = {n: next((of[n] for of in every if of[n] is not None), None) for n in next(iter(every))}
    relevance = whole["scorers"].get(study.main.relevance, {})
    for name, key in zip(("models", "datasets", "recipes", "scorers"), vars(cell).values(), strict=True):
        whole[name] = {"*": whole[name].get(key, {})}
    whole["relevance"] = {name: relevance[name] for name in ("kind", "source", "proxy_for") if relevance}
    whole["quality"] = {"*": whole["quality"][0]}
    return {str(path): value for path, value in pd.json_normalize(whole).astype(object).iloc[0].items()}


def _same(path: str, ours: Any, theirs: Any) -> bool:
    if path.endswith((".source", ".backbone")) and isinstance(ours, str):
        # the hub's id, or a folder that bears the repository's name; of one file in a repository, the file's name
        where, _, name = ours.partition(":")
        repository = str(theirs).removeprefix("hub:")
        file = Path(repository.split("/")[-1])
        names = (file.name, file.stem) if repository.count("/") == 2 else (file.name,)
        return ours == theirs if where == "hub" else where == "folder" and Path(name).name in names
    if path == "evaluation.max_rejection":  # further ones are rows of their own
        return bool(ours[0] == theirs[0])
    if path == "main.beam":  # the search's options are settings of their own
        (kind, options), (other, others) = parse(ours), parse(theirs)
        return kind == other and options.get("M") == others.get("M")
    at_least = path == "recipes.*.sample.size"  # the first ``main.num_candidates`` of them are looked at
    return bool(ours >= theirs if at_least else ours == theirs)
