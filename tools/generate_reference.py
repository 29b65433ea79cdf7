"""The parts of the pages that are written from the code: methods, options, configuration keys, row and table schemas.

They stand in the pages, between ``<!-- generated: NAME -->`` and ``<!-- end -->``, so that a page reads the same on a
code host as in the built site; ``tools/sync_docs.py`` writes them, and ``--check`` compares.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, NoneType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from beamuq import beam_mass_theorem, cli, machine_config, parquet_tables, study_config
from beamuq.api import candidate_records
from beamuq.api.score_candidates import REASONS
from beamuq.comparison.claims import read_claims
from beamuq.methods import (
    answer_probability,
    candidate_weights,
    dissimilarity_cocoa,
    rouge,
    semantic_entropy_sar,
    spectral,
)
from beamuq.methods.dissimilarity_estimators import CUSTOM, WEIGHTINGS
from beamuq.methods.needs_of_methods import DERIVED, PARTS
from beamuq.methods.registry import DIRECTION, METHODS, Method

FUNCTIONS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Prob": (answer_probability.prob,),
    "MTE": (answer_probability.mean_token_entropy,),
    "Perplexity": (answer_probability.perplexity,),
    "CCP": (answer_probability.claim_conditioned_probability,),
    "PTrue": (answer_probability.p_true,),
    "SemanticEntropy": (
        semantic_entropy_sar.semantic_entropy,
        semantic_entropy_sar.semantic_clusters,
        semantic_entropy_sar.semantic_entropy_printed,
        semantic_entropy_sar.semantic_entropy_likelihood,
    ),
    "SAR": (semantic_entropy_sar.sar, semantic_entropy_sar.sentence_sar, semantic_entropy_sar.token_sar),
    "LexicalSimilarity": (rouge.lexical_similarity, rouge.rouge_l),
    "EigValLaplacian": (spectral.eigval_laplacian,),
    "NumSemSets": (spectral.num_sem_sets,),
    "Dissimilarity": (dissimilarity_cocoa.dissimilarity,),
    "Eccentricity": (spectral.eccentricity, spectral.below_threshold),
    "EigVecDissimilarity": (spectral.eigvec_dissimilarity,),
    "CocoaMSP": (dissimilarity_cocoa.cocoa,),
    "CocoaPPL": (dissimilarity_cocoa.cocoa,),
    "DegreeMatrix": (dissimilarity_cocoa.degree_matrix,),
}
SCOPES = {
    "answer": "the produced answer alone; one form",
    "samples": "the samples; one form",
    "candidates": "samples or beams; forms `multinomial` and `beamsearch`",
}


PART = re.compile(r"^<!-- generated: ([\w-]+) -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


def fill(page: str, text: str) -> str:
    """``text`` of a page with each generated part written anew.

    Raises
    ------
    KeyError
        For a part of an unknown name, or one without an end.
    """
    parts: dict[str, Callable[[], str]] = {
        "ask-options": lambda: command(cli.options_of("ask")),
        "score-options": lambda: command(cli.options_of("score")),
        "calibrate-options": lambda: command(cli.options_of("calibrate")),
        "decide-options": lambda: command(cli.options_of("decide")),
        "explore-options": lambda: command(cli.options_of("explore")),
        "methods-table": methods_table,
        "methods": methods,
        "evidence": evidence_parts,
        "estimators": estimators,
        "weights": lambda: functions(candidate_weights),
        "theorem": lambda: functions(beam_mass_theorem),
        "config": lambda: keys(machine_config.Machine, "###"),
        "study": lambda: keys(study_config.Study, "###"),
        "row": lambda: keys(candidate_records.QuestionRecord, "####"),
        "tables": schemas,
        "python": lambda: index(text),
        "claims": claims,
    }

    def part(match: re.Match[str]) -> str:
        if match[1] not in parts:
            raise KeyError(f"{page}: no generated part {match[1]!r}; known: {', '.join(parts)}")
        return f"<!-- generated: {match[1]} -->\n\n{parts[match[1]]()}\n\n<!-- end -->"

    found, count = PART.subn(part, text)
    if count != text.count("<!-- generated:"):
        raise KeyError(f"{page}: a generated part has no end; write <!-- end --> after it")
    return found


def estimators() -> str:
    """Every estimator of Dissimilarity: its formula, and over which kinds of candidates it is one, unbiased or not."""
    rows = ["| weighting | estimate | unbiased over | not unbiased over |", "| --- | --- | --- | --- |"]
    for name, weighting in WEIGHTINGS.items():
        so, not_so = (", ".join(f"`{k}`" for k, yes in weighting.kinds.items() if yes == of) for of in (True, False))
        rows.append(f"| `{name}` | {_cell(weighting.formula)} | {so} | {not_so} |")
    rows += ["", f"`{CUSTOM}`: any search of one's own. `sample` is at T = 1, `above` under `stratified` has draws."]
    return "\n".join(rows)


def claims() -> str:
    """Every claim, and where it stands."""
    rows = ["| claim | where | |", "| --- | --- | --- |"]
    for claim in read_claims():
        told = claim.claim + (f" **Open**: {claim.missing}." if claim.missing else "")
        rows.append(f"| `{claim.id}` | {claim.where} | {_cell(told)} |")
    return "\n".join(rows)


def command(parser: argparse.ArgumentParser) -> str:
    """Every option of a command line."""
    rows = ["| option | default | |", "| --- | --- | --- |"]
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction) or not action.option_strings or action.help is argparse.SUPPRESS:
            continue
        value = action.metavar or ("" if action.nargs == 0 or action.choices else action.dest.upper().replace("_", "-"))
        values = ", ".join(f"`{choice}`" for choice in action.choices or ())
        default = "" if action.default is None or action.default is False else f"`{action.default}`"
        told = "; ".join(filter(None, (values, action.help)))
        rows.append(
            f"| `{' '.join(filter(None, (action.option_strings[-1], str(value))))}` | {default} | {_cell(told)} |"
        )
    return "\n".join(rows)


def methods_table() -> str:
    """One line a method."""
    rows = ["| method | looks at | range |", "| --- | --- | --- |"]
    rows += [f"| [{name}](#{name.lower()}) | {SCOPES[m.scope]} | {m.range} |" for name, m in METHODS.items()]
    return "\n".join(rows)


def methods() -> str:
    """A section a method: equation and shapes from the docstrings, range, inputs, limits."""
    return "\n\n".join(_method(name, method) for name, method in METHODS.items())


def _method(name: str, method: Method) -> str:
    lines = [f"### {name}", "", method.limits, ""]
    lines += [f"- looks at: {SCOPES[method.scope]}", f"- range: {method.range}, {DIRECTION}"]
    lines += [f"- needs: {_needs(method)}"]
    lines += [
        f"- further formulation as setting `{setting}`, range {method.formulation(setting).range}; "
        f"needs: {_needs(method, setting)}"
        for setting in method.formulations
    ]
    return "\n\n".join(["\n".join(lines), *(_function(function) for function in FUNCTIONS[name])])


def _needs(method: Method, setting: str = "") -> str:
    return ", ".join(f"[`{need}`](#evidence)" for need in method.formulation(setting).needs)


def evidence_parts() -> str:
    """What a method can declare, what is made of it, and what ``score`` says where nobody gave it."""
    rows = ["| part | | read also as | where a file of candidates lacks it |", "| --- | --- | --- | --- |"]
    for part, told in PARTS.items():
        derived = ", ".join(f"`{name}`" for name, made_of in DERIVED.items() if part in made_of)
        rows.append(f"| `{part}` | {_cell(markdown(told))} | {derived} | {_cell(REASONS.get(part, ''))} |")
    return "\n".join(rows)


def functions(module: ModuleType) -> str:
    """A module's text, then its public functions and classes."""
    public = [
        item
        for name, item in vars(module).items()
        if (inspect.isfunction(item) or inspect.isclass(item))
        and item.__module__ == module.__name__
        and not name.startswith("_")
    ]
    return "\n\n".join([markdown(inspect.getdoc(module) or ""), *(_function(item) for item in public)])


def _function(function: Callable[..., Any]) -> str:
    function = inspect.unwrap(function)
    names = ", ".join(inspect.signature(function).parameters)
    return f"`{function.__module__}.{function.__name__}({names})`\n\n{markdown(inspect.getdoc(function) or '')}"


def markdown(doc: str) -> str:
    """A docstring as Markdown: literals, references and numpy's sections; asterisks, as in y*, stand for themselves."""
    doc = re.sub(r":\w+:`~?([^`]+)`", lambda match: f"`{match[1].removeprefix('beamuq.')}`", doc)
    doc = re.sub(r"<(?=\w)", r"\\<", doc.replace("``", "`").replace("*", r"\*"))
    doc = re.sub(r"^(\w+)\n-{3,}$", r"**\1**\n", doc, flags=re.MULTILINE)
    doc = re.sub(r"^(\w[\w, ]*)\n((?: {4}.*\n?)+)", _entry, doc, flags=re.MULTILINE)
    return doc.strip()


def _entry(match: re.Match[str]) -> str:
    return f"- `{match[1]}`: {' '.join(match[2].split())}\n"


def index(page: str) -> str:
    """What a page documents from docstrings: first sentence and source file, readable before the site is built."""
    rows = ["| name | | source |", "| --- | --- | --- |"]
    for name in re.findall(r"^\.\. auto\w+:: ([\w.]+)$", page, re.MULTILINE):
        item = _named(name)
        told = (inspect.getdoc(item) or "").split("\n\n")[0]
        sentence = re.split(r"(?<=[.:]) ", markdown(" ".join(told.split())))[0].rstrip(":.")
        source = Path(inspect.getsourcefile(item) or "").relative_to(study_config.ROOT).as_posix()
        short = name.removeprefix("beamuq.")
        rows.append(f"| `{short}` | {_cell(sentence)} | [{source}](../../{source}) |")
    return "\n".join(rows)


def _named(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, attribute = name.rpartition(".")
        return getattr(importlib.import_module(module), attribute)


def keys(model: type[BaseModel], heading: str) -> str:
    """Every key of a typed model and of the models in it, a table each under a ``heading``."""
    pending, done, parts = [model], set(), []
    while pending:
        of = pending.pop(0)
        if of in done:
            continue
        done.add(of)
        rows = [f"{heading} {of.__name__}", "", markdown(" ".join((inspect.getdoc(of) or "").split())), ""]
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
    return "see below" if isinstance(field.default, BaseModel) else f"`{json.dumps(field.default)}`"


def _notes(field: FieldInfo) -> str:
    bounds = {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}
    told = [field.description] if field.description else []
    for item in field.metadata:
        told += [
            f"{sign} {getattr(item, kind.__name__.lower())}" for kind, sign in bounds.items() if isinstance(item, kind)
        ]
        told += ["not empty"] if isinstance(item, MinLen) and item.min_length == 1 else []
        told += [f"at most {item.max_length}"] if isinstance(item, MaxLen) else []
    return re.sub(r"<(?=\w)", r"\\<", "; ".join(told))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def schemas() -> str:
    """Every Parquet schema with its comments, from ``beamuq.parquet_tables``."""
    told, parts = _comments(), []
    for kind, schema in parquet_tables.SCHEMAS.items():
        rows = [f"## {kind}", "", "| column | type | |", "| --- | --- | --- |"]
        for field in schema:
            notes = ["may be null"] if field.nullable else []
            notes += [told[kind, field.name]] if (kind, field.name) in told else []
            rows.append(f"| `{field.name}` | `{_cell(str(field.type))}` | {_cell('; '.join(notes))} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _comments() -> dict[tuple[str, str], str]:
    """What the source says behind each column."""
    source = inspect.getsource(parquet_tables)
    lines, found = source.splitlines(), {}
    calls: dict[str, ast.expr] = {}
    named: dict[str, ast.expr] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named[node.targets[0].id] = node.value
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict):
            pairs = zip(node.value.keys, node.value.values, strict=True)
            calls = {ast.literal_eval(key): value for key, value in pairs if key is not None}
    for kind, call in calls.items():
        call = named[call.id] if isinstance(call, ast.Name) else call
        for keyword in call.keywords if isinstance(call, ast.Call) else ():
            _, _, comment = lines[(keyword.end_lineno or 1) - 1].partition("  # ")
            if comment:
                found[kind, str(keyword.arg)] = comment.replace("*", r"\*")
    return found
