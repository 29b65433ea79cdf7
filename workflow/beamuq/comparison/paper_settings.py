"""Whether a study measures as the paper did: its settings against those of ``studies/paper.yaml``, path by path."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from beamuq.comparison.tolerances_and_families import ComparisonRules
from beamuq.methods.score_all_methods import SPECTRAL
from beamuq.strategy_names import parse
from beamuq.study_config import Study

AT_LEAST = "recipes.*.sample.size"  # the first ``main.num_candidates`` of them are looked at
_ABSENT = object()


@dataclass(frozen=True)
class Measurement:
    """What is held against print.

    ``part``: what is looked at, candidates alone, the answers' accuracy, or scores; ``scorer``: the study's similarity
    behind scores, ``role`` which of the paper's it stands for; ``method`` empty: any but SAR.
    """

    model: str
    datasets: tuple[str, ...]
    recipe: str
    part: Literal["candidates", "accuracy", "scores"] = "scores"
    scorer: str = ""
    role: Literal["nli", "cross_encoder"] = "nli"
    metric: str = "PRR"
    method: str = ""
    setting: str = ""


# which measurements a path affects, by the path's beginning, first match; without a match all of them
_AFFECTED: tuple[tuple[str, Callable[[Measurement], bool]], ...] = (
    ("quality.*.threshold", lambda of: of.part == "accuracy" or (of.part == "scores" and of.metric != "PRR")),
    ("quality.", lambda of: of.part != "candidates"),
    ("evaluation.max_rejection", lambda of: of.part == "scores" and of.metric == "PRR"),
    ("main.alpha", lambda of: of.part == "scores" and of.method in ("", *SPECTRAL)),
    ("main.epsilon", lambda of: of.part == "scores"),
    ("main.", lambda of: of.part != "accuracy"),
    ("recipes.*.diverse.", lambda of: of.setting.startswith("diverse")),
    ("recipes.*.hybrid.", lambda of: of.setting.startswith("hybrid")),
    ("recipes.*.merge_stop_tokens", lambda _: True),
    ("recipes.", lambda of: of.part != "accuracy"),
    ("scorers.", lambda of: of.part == "scores"),
)


def setting_paths(kind: type[BaseModel] = Study, prefix: str = "") -> Iterator[str]:
    """The dotted paths of every setting of a typed file; ``*`` stands for a key or a position."""
    for name, field in kind.model_fields.items():
        inner, stars = _inner(field.annotation)
        here = f"{prefix}{name}{stars}"
        if inner is None:
            yield here.removesuffix(".*")
        else:
            yield from setting_paths(inner, f"{here}.")


def _inner(annotation: Any) -> tuple[type[BaseModel] | None, str]:
    """The model inside a field's type, and a star where there are several of it."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, ""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _inner(arguments[0])
    if origin in (types.UnionType, typing.Union):
        return next((found for found in map(_inner, arguments) if found[0] is not None), (None, ""))
    if origin in (dict, list, tuple):
        inner, stars = _inner(arguments[1] if origin is dict else arguments[0])
        return inner, f".*{stars}"
    return None, ""


@cache
def compared_paths(not_compared: frozenset[str]) -> tuple[str, ...]:
    """Every setting of a study but these, which are harmless or not stated in print: a new one is compared."""
    return tuple(path for path in setting_paths() if path not in not_compared)


def incomparable(study: Study, rules: ComparisonRules, of: Measurement) -> str:
    """Why a measurement cannot be held against print, else nothing: the first setting that differs, by its path."""
    for path in compared_paths(frozenset(rules.harmless)):
        if reason := _differing(study, rules, of, path):
            return reason
    if of.method == "SAR":
        for path in ("kind", "source", "proxy_for"):
            ours, theirs = {"scorers": study.main.relevance or ""}, {"scorers": _cross_encoder(rules.paper)}
            if reason := _differs(study, rules.paper, f"scorers.*.{path}", ours, theirs):
                return f"SAR's relevance: {reason}"
    return ""


def _differing(study: Study, rules: ComparisonRules, of: Measurement, path: str) -> str:
    """How a setting behind a measurement differs from the paper's study, else nothing."""
    if not next((affects(of) for beginning, affects in _AFFECTED if path.startswith(beginning)), True):
        return ""
    paper = rules.paper
    role = paper.main.scorer if of.role == "nli" else _cross_encoder(paper)
    theirs = {"models": of.model, "recipes": _recipe_with(paper, path), "scorers": role}
    for dataset in of.datasets if path.startswith("datasets.") else ("",):
        ours = {"models": of.model, "datasets": dataset, "recipes": of.recipe, "scorers": of.scorer}
        if reason := _differs(study, paper, path, ours, theirs | {"datasets": dataset}):
            return reason
    return ""


def other_template(study: Study, rules: ComparisonRules, of: Measurement, used: Mapping[str, str]) -> str:
    """Why prompts are not those held against print, else nothing. ``used``: sha256 of the template by dataset."""
    for dataset in of.datasets:
        name = f"{study.models[of.model].style}/{study.datasets[dataset].adapter}.txt"
        if dataset in used and used[dataset] != rules.templates.get(name):
            return f"prompts of {dataset} are not from the declared template {name}"
    return ""


def _cross_encoder(paper: Study) -> str:
    return next(name for name, scorer in paper.scorers.items() if scorer.kind == "cross_encoder")


def _recipe_with(paper: Study, path: str) -> str:
    """The first of the paper's recipes with the strategy that a path is about: what they share stands in each."""
    if not path.startswith("recipes."):
        return ""
    strategy = path.split(".")[2]
    return next((name for name, recipe in paper.recipes.items() if getattr(recipe, strategy) is not None), "")


def _differs(study: Study, paper: Study, path: str, ours: dict[str, str], theirs: dict[str, str]) -> str:
    found, expected = _at(study, path, ours), _at(paper, path, theirs)
    if expected is _ABSENT:
        return ""
    if path.endswith((".source", ".backbone")):
        same = isinstance(found, str) and _same_source(found, str(expected))
    elif path == "evaluation.max_rejection":  # further ones are rows of their own
        same = found[0] == expected[0]
    elif path == "main.beam":  # the search's options are settings of their own
        same = _without_options(found) == _without_options(expected)
    else:
        same = found is _ABSENT or (found >= expected if path == AT_LEAST else found == expected)
    if same:
        return ""
    where = path.replace("quality.*", "quality").replace("*", ours.get(path.split(".")[0], "*"))
    return f"{where} is {'absent' if found is _ABSENT else found}, the paper's is {expected}"


def _without_options(strategy: str) -> tuple[str, float | bool | None]:
    kind, options = parse(strategy)
    return kind, options.get("M")


def _at(node: Any, path: str, keys: dict[str, str]) -> Any:
    """What stands at a path, of a list in its first item; a recipe may lack the strategy that a path is about."""
    first = path.split(".")[0]
    for name in path.split("."):
        if isinstance(node, list):
            node = node[0]
        elif name == "*":
            node = node.get(keys[first])
        else:
            node = getattr(node, name)
        if node is None and name != path.split(".")[-1]:
            return _ABSENT
    return node


def _same_source(ours: str, paper: str) -> bool:
    """The hub's id, or a folder that bears the repository's name; of one file in a repository, the file's name."""
    where, _, name = ours.partition(":")
    repository = paper.removeprefix("hub:")
    file = Path(repository.split("/")[-1])
    names = (file.name, file.stem) if repository.count("/") == 2 else (file.name,)
    return ours == paper if where == "hub" else where == "folder" and Path(name).name in names
