"""The parts of the pages that are written from the code: methods, configuration keys, row schema, table schemas."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import NoneType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from beamuq import study, tables
from beamuq.methods import consistency, information, lexical, semantic, spectral
from beamuq.methods.registry import METHODS, Method
from beamuq.practice import facts, given
from beamuq.practice.scoring import REASONS

DOCS = Path(__file__).resolve().parent
FUNCTIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Prob": (information.prob,),
    "MTE": (information.mean_token_entropy,),
    "Perplexity": (information.perplexity,),
    "CCP": (information.claim_conditioned_probability,),
    "PTrue": (information.p_true,),
    "SemanticEntropy": (
        semantic.semantic_entropy,
        semantic.semantic_clusters,
        semantic.semantic_entropy_printed,
        semantic.semantic_entropy_likelihood,
    ),
    "SAR": (semantic.sar, semantic.sentence_sar, semantic.token_sar),
    "LexicalSimilarity": (lexical.lexical_similarity, lexical.rouge_l),
    "EigValLaplacian": (spectral.eigval_laplacian,),
    "NumSemSets": (spectral.num_sem_sets,),
    "Dissimilarity": (consistency.dissimilarity,),
    "Eccentricity": (spectral.eccentricity, spectral.below_threshold),
    "EigVecDissimilarity": (spectral.eigvec_dissimilarity,),
    "CocoaMSP": (consistency.cocoa,),
    "CocoaPPL": (consistency.cocoa,),
    "DegreeMatrix": (consistency.degree_matrix,),
}
LOOKS_AT = {
    "answer": "the produced answer alone; one form",
    "samples": "the samples; one form",
    "candidates": "samples or beams; forms `multinomial` and `beamsearch`",
}


def fill(page: str, text: str) -> str:
    """``text`` with every ``@@name@@`` replaced; an unknown name is an error."""
    parts: dict[str, Callable[[], str]] = {
        "methods": methods,
        "methods-table": methods_table,
        "config": lambda: keys(study.Machine, "###"),
        "study": lambda: keys(study.Study, "###"),
        "row": lambda: keys(given.Given, "####"),
        "performance": lambda: "performance" if (DOCS / "performance.md").is_file() else "",
        "tables": schemas,
    }

    def part(match: re.Match[str]) -> str:
        if match[1] not in parts:
            raise KeyError(f"{page}: no generated part {match[1]!r}")
        return parts[match[1]]()

    return re.sub(r"^@@([\w-]+)@@$", part, text, flags=re.MULTILINE)


def methods_table() -> str:
    """One line a method."""
    rows = ["| method | looks at | range |", "| --- | --- | --- |"]
    rows += [
        f"| [{name}](#{name.lower()}) | {LOOKS_AT[m.looks_at]} | {facts.FACTS[name].range} |"
        for name, m in METHODS.items()
    ]
    return "\n".join(rows)


def methods() -> str:
    """A section a method: equation and shapes from the docstrings, range, inputs, limits."""
    return "\n\n".join(_method(name, method) for name, method in METHODS.items())


def _method(name: str, method: Method) -> str:
    fact = facts.FACTS[name]
    lines = [f"### {name}", "", fact.limits, ""]
    lines += [f"- looks at: {LOOKS_AT[method.looks_at]}", f"- range: {fact.range}, {facts.DIRECTION}"]
    lines += [f"- needs: `{need}` ({REASONS.get(need, 'given by the study')})" for need in method.needs]
    lines += [
        f"- further reading as setting `{reading}`, range {facts.range_of(name, reading)}"
        for reading in method.readings
    ]
    lines += [""]
    for function in FUNCTIONS[name]:
        where = f"{function.__module__}.{inspect.unwrap(function).__name__}"
        lines += [
            "```{eval-rst}",
            f".. autofunction:: {where}",
            "   :no-index:" if name == "CocoaPPL" else "",
            "```",
            "",
        ]
    return "\n".join(lines)


def keys(model: type[BaseModel], heading: str) -> str:
    """Every key of a typed model and of the models in it, a table each under a ``heading``."""
    pending, done, parts = [model], set(), []
    while pending:
        of = pending.pop(0)
        if of in done:
            continue
        done.add(of)
        rows = [f"{heading} {of.__name__}", "", " ".join((inspect.getdoc(of) or "").split()), ""]
        rows += ["| key | type | default | |", "| --- | --- | --- | --- |"]
        for name, field in of.model_fields.items():
            rows.append(f"| `{name}` | {_cell(_type(field.annotation))} | {_default(field)} | {_cell(_notes(field))} |")
            pending += _models(field.annotation)
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _models(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]


def _type(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _type(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is list:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"mapping of names to {_type(arguments[1])}"
    if origin is not None and (origin is Union or NoneType in arguments or len(arguments) > 1):
        return " or ".join(_type(argument) for argument in arguments)
    if annotation is NoneType:
        return "`null`"
    names = {str: "text", int: "whole number", float: "number", bool: "`true` or `false`"}
    return names.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "required"
    if field.default == "":
        return ""
    if field.default is None:
        return "`null`"
    return "see below" if isinstance(field.default, BaseModel) else f"`{field.default}`"


def _notes(field: FieldInfo) -> str:
    bounds = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}
    told = [field.description] if field.description else []
    for item in field.metadata:
        told += [
            f"{sign} {getattr(item, kind.__name__.lower())}" for kind, sign in bounds.items() if isinstance(item, kind)
        ]
        told += ["not empty"] if isinstance(item, MinLen) and item.min_length == 1 else []
        told += [f"at most {item.max_length}"] if isinstance(item, MaxLen) else []
    return "; ".join(told)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def schemas() -> str:
    """Every Parquet schema, from ``beamuq.tables``."""
    parts = []
    for kind, schema in tables.SCHEMAS.items():
        rows = [f"## {kind}", "", "| column | type | |", "| --- | --- | --- |"]
        rows += [f"| `{f.name}` | `{_cell(str(f.type))}` | {'may be null' if f.nullable else ''} |" for f in schema]
        parts.append("\n".join(rows))
    return "\n\n".join(parts)
