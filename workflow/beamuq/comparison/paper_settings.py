"""Whether a study measures as the paper did: what stands behind one cell against that of ``studies/paper.yaml``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from beamuq.comparison.declared_files import ComparisonRules
from beamuq.exhibits.cells import Cell
from beamuq.methods.score_all_methods import SPECTRAL
from beamuq.strategy_names import parse
from beamuq.study_config import Study

Difference = tuple[str, str]  # a setting's path, and how it differs


@dataclass(frozen=True)
class Kind:
    """What is looked at in a cell: its candidates alone, its answers' accuracy, or scores, of ``method`` or of all."""

    part: Literal["candidates", "accuracy", "scores"] = "scores"
    metric: str = "PRR"
    method: str = ""
    setting: str = ""

    def rests_on(self, path: str) -> bool:
        """Whether a setting can change it: by how the path begins, first match; without a match it does."""
        scores = self.part == "scores"
        by_beginning = {
            "relevance.": self.method == "SAR",
            "quality.*.threshold": self.part == "accuracy" or (scores and self.metric != "PRR"),
            "quality.": self.part != "candidates",
            "evaluation.max_rejection": scores and self.metric == "PRR",
            "main.alpha": scores and self.method in ("", *SPECTRAL),
            "main.epsilon": scores,
            "main.": self.part != "accuracy",
            "recipes.*.diverse.": self.setting.startswith("diverse"),
            "recipes.*.hybrid.": self.setting.startswith("hybrid"),
            "recipes.*.merge_stop_tokens": True,
            "recipes.": self.part != "accuracy",
            "scorers.": scores,
        }
        return next((rests for beginning, rests in by_beginning.items() if path.startswith(beginning)), True)

    def first(self, found: Sequence[Difference]) -> str:
        """How the first of the settings that it rests on differs, else nothing."""
        return next((how for path, how in found if self.rests_on(path)), "")


def differences(study: Study, rules: ComparisonRules, cell: Cell, role: str | None = "nli") -> list[Difference]:
    """Settings behind a cell that are not the paper's and not declared harmless.

    ``role``: which of the paper's scorers the cell's stands for; None: it has none.
    """
    paper = rules.paper
    sts = next(name for name, scorer in paper.scorers.items() if scorer.kind == "cross_encoder")
    theirs = settings(paper, Cell(cell.model, cell.dataset, "", sts if role == "cross_encoder" else paper.main.scorer))
    names = {"models": cell.model, "datasets": cell.dataset, "recipes": cell.recipe, "scorers": cell.scorer}
    found = []
    for kind, own, printed in (("models", cell.model, paper.models), ("datasets", cell.dataset, paper.datasets)):
        found += [(kind, f"{own} is none of the paper's {kind}")] if own not in printed else []
    for path, value in settings(study, cell).items():
        if path in theirs and path not in rules.harmless and not _same(path, value, theirs[path]):
            where = path.replace("quality.*", "quality").replace("*", names.get(path.split(".")[0], ""))
            found.append((path, f"{where} is {value}, the paper's is {theirs[path]}"))
    return found


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
    return dict(_flat("", whole | {"quality": {"*": whole["quality"][0]}}))


def _flat(path: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for name, inner in node.items():
            yield from _flat(f"{path}.{name}" if path else name, inner)
    else:
        yield path, node


def _same(path: str, ours: Any, theirs: Any) -> bool:
    if path.endswith((".source", ".backbone")) and isinstance(ours, str):
        return _same_source(ours, str(theirs))
    if path == "evaluation.max_rejection":  # further ones are rows of their own
        return bool(ours[0] == theirs[0])
    if path == "main.beam":  # the search's options are settings of their own
        (kind, options), (other, others) = parse(ours), parse(theirs)
        return kind == other and options.get("M") == others.get("M")
    at_least = path == "recipes.*.sample.size"  # the first ``main.num_candidates`` of them are looked at
    return bool(ours >= theirs if at_least else ours == theirs)


def _same_source(ours: str, paper: str) -> bool:
    """The hub's id, or a folder that bears the repository's name; of one file in a repository, the file's name."""
    where, _, name = ours.partition(":")
    repository = paper.removeprefix("hub:")
    file = Path(repository.split("/")[-1])
    names = (file.name, file.stem) if repository.count("/") == 2 else (file.name,)
    return ours == paper if where == "hub" else where == "folder" and Path(name).name in names
