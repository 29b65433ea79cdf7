"""Write the parts of the pages that come from the code: methods, options, keys, columns, claims;
``--check`` compares.

They stand between ``<!-- generated: NAME -->`` and ``<!-- end -->``, so that a page reads the same
on a code host as in the built site.
"""

from __future__ import annotations

import argparse
import ast
import collections
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import NoneType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from beamuq import cli
from beamuq.api import candidate_records
from beamuq.api.score_candidates import REASONS, candidates_of
from beamuq.methods import (
    answer_probability,
    dissimilarity_cocoa,
    rouge,
    semantic_entropy_sar,
    spectral,
)
from beamuq.methods.dissimilarity_estimators import CUSTOM, WEIGHTINGS
from beamuq.methods.method_inputs import DERIVED, PARTS
from beamuq.methods.registry import METHODS
from beamuq_study import machine_config, parquet_tables, study_config
from beamuq_study.comparison.comparison_inputs import read_claims
from beamuq_study.exhibits import captions, list_of_exhibits

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "Prob": answer_probability.prob,
    "MTE": answer_probability.mean_token_entropy,
    "Perplexity": answer_probability.perplexity,
    "CCP": answer_probability.claim_conditioned_probability,
    "PTrue": answer_probability.p_true,
    "SemanticEntropy": semantic_entropy_sar.semantic_entropy,
    "SAR": semantic_entropy_sar.sar,
    "LexicalSimilarity": rouge.lexical_similarity,
    "EigValLaplacian": spectral.eigval_laplacian,
    "NumSemSets": spectral.num_sem_sets,
    "Dissimilarity": dissimilarity_cocoa.dissimilarity,
    "Eccentricity": spectral.eccentricity,
    "EigVecDissimilarity": spectral.eigvec_dissimilarity,
    "CocoaMSP": dissimilarity_cocoa.cocoa,
    "CocoaPPL": dissimilarity_cocoa.cocoa,
    "DegreeMatrix": dissimilarity_cocoa.degree_matrix,
}
"""Whose docstring's first line has the equation."""
SCOPES = {"answer": "the answer", "samples": "samples", "candidates": "samples or beams"}
PART = re.compile(r"^<!-- generated: ([\w-]+) -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


def filled(text: str) -> str:
    """A page's text with each generated part written anew."""
    parts: dict[str, Callable[[], str]] = {
        **{f"{name}-options": lambda name=name: options(name) for name in cli.COMMANDS},
        "methods": methods,
        "evidence": evidence_parts,
        "estimators": estimators,
        "config": lambda: keys(machine_config.Machine, "###"),
        "study": lambda: keys(study_config.Study, "###"),
        "candidates": candidate_needs,
        "row": lambda: keys(candidate_records.QuestionRecord, "###"),
        "tables": schemas,
        "claims": claims,
        "exhibits": exhibits,
    }
    return PART.sub(
        lambda part: f"<!-- generated: {part[1]} -->\n\n{parts[part[1]]()}\n\n<!-- end -->", text
    )


def estimators() -> str:
    """Every estimator of Dissimilarity: its formula, and over which kinds of candidates it is one,
    unbiased or not.
    """
    rows = [
        "| weighting | estimate | unbiased over | not unbiased over |",
        "| --- | --- | --- | --- |",
    ]
    for name, weighting in WEIGHTINGS.items():
        so, not_so = (
            ", ".join(f"`{k}`" for k, yes in weighting.kinds.items() if yes == of)
            for of in (True, False)
        )
        rows.append(f"| `{name}` | {_cell(weighting.formula)} | {so} | {not_so} |")
    rows += [
        "",
        f"`{CUSTOM}`: any search of one's own. `sample` is at T = 1, `all_above` under "
        "`stratified` has draws.",
    ]
    return "\n".join(rows)


def claims() -> str:
    """Every claim, and where it stands."""
    rows = ["| claim | where | |", "| --- | --- | --- |"]
    for claim in read_claims():
        text = claim.claim + (f" **Open**: {claim.missing}." if claim.missing else "")
        rows.append(f"| `{claim.id}` | {claim.where} | {_cell(text)} |")
    return "\n".join(rows)


def exhibits() -> str:
    """Every table and figure: what the paper's study would show, and what any study needs for
    it.
    """
    study = study_config.load_study(study_config.study_path("paper"))
    rows: dict[str, str] = {}
    endings = {of.label: "MODEL" for of in study.models.values()} | dict.fromkeys(
        study.datasets, "DATASET"
    )
    for label in list_of_exhibits.labels(study):
        name, _, ending = label.rpartition("_")
        named = f"{name}_{endings[ending]}" if name and ending in endings else label
        item = list_of_exhibits.exhibit(label, study)
        unknown = collections.defaultdict(lambda: "…", metric=item.metric)
        title, *_ = captions.text(item.caption or label, unknown)
        needs = [captions.needs(study, item.caption or label) if item.reads else "nothing"]
        needs += [f"`{item.metric}` in `evaluation.metrics`"] * ("AUC" in item.metric)
        needs += [f"`{item.answer_source}` in `answer_source`"] * (item.answer_source != "greedy")
        kind, shows = item.kind + ", ours" * item.beyond_paper, re.sub(r", …(?=,|$)", "", title)
        cells = (f"`{named}`", kind, shows, "; ".join(needs))
        rows.setdefault(named, f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(["| label | | shows | needs |", "| --- | --- | --- | --- |", *rows.values()])


def options(name: str) -> str:
    """Every option of a command."""
    commands = next(
        each
        for each in cli.command_parser()._actions
        if isinstance(each, argparse._SubParsersAction)
    )
    rows = ["| option | default | |", "| --- | --- | --- |"]
    for action in commands.choices[name]._actions:
        if (
            isinstance(action, argparse._HelpAction)
            or not action.option_strings
            or action.help is argparse.SUPPRESS
        ):
            continue
        value = action.metavar or (
            "" if action.nargs == 0 or action.choices else action.dest.upper().replace("_", "-")
        )
        values = ", ".join(f"`{choice}`" for choice in action.choices or ())
        default = "" if action.default is None or action.default is False else f"`{action.default}`"
        text = "; ".join(filter(None, (values, action.help)))
        rows.append(
            f"| `{' '.join(filter(None, (action.option_strings[-1], str(value))))}` | {default} | "
            f"{_cell(text)} |"
        )
    return "\n".join(rows)


def methods() -> str:
    """A row for each method."""
    rows = ["| method | looks at | range | needs | |", "| --- | --- | --- | --- | --- |"]
    for name, method in METHODS.items():
        equation = _text(inspect.getdoc(FUNCTIONS[name]) or "").split("\n\n")[0].replace("\n", " ")
        needs = _needs(method.formulation("").needs)
        for setting in method.formulations:
            formulation = method.formulation(setting)
            needs += f". Also as `{setting}`, in {formulation.range}: {_needs(formulation.needs)}"
        cells = (
            f"`{name}`",
            SCOPES[method.scope],
            method.range,
            needs,
            f"{equation} {method.limits}",
        )
        rows.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(rows)


def _needs(parts: Sequence[str]) -> str:
    return ", ".join(f"`{part}`" for part in parts)


def evidence_parts() -> str:
    """What a method can declare, what is made of it, and what ``score`` says where nobody gave
    it.
    """
    rows = [
        "| part | | read also as | where a file of candidates lacks it |",
        "| --- | --- | --- | --- |",
    ]
    for part, description in PARTS.items():
        derived = ", ".join(f"`{name}`" for name, made_of in DERIVED.items() if part in made_of)
        rows.append(
            f"| `{part}` | {_cell(_text(description))} | {derived} | "
            f"{_cell(REASONS.get(part, ''))} |"
        )
    return "\n".join(rows)


FIELDS = {
    "answer.logprob": "`logprob`",
    "answer.length": "`tokens`",
    "answer.mean_entropy": "`token_entropies`",
    "answer.p_true_logprob": "`p_true_logprob`",
    "logprob": "`logprob`",
    "weights": "`logprob`",
}
"""The field of an answer or a candidate that gives a part of the evidence; texts give all that is
not here.
"""
STUDY_ALONE = ("answer.ccp", "token_sar")


def candidate_needs() -> str:
    """What a row has to hold for each method: of the answer, of samples at temperature 1, of
    beams.
    """
    rows = ["| method | `answer` | `samples` | `beams` |", "| --- | --- | --- | --- |"]
    for name, method in METHODS.items():
        needs = method.formulation("").needs
        kinds = [candidates_of(method, variant) for variant in method.variants]
        if not_in_rows := [part for part in needs if part in STUDY_ALONE]:
            rows.append(f"| `{name}` | {REASONS[not_in_rows[0]].removeprefix('needs ')} | | |")
            continue
        of_answer = "text" + "".join(
            f", {FIELDS[part]}" for part in needs if part.startswith("answer.")
        )
        of_beams = ", ".join(
            ["text", *sorted({FIELDS[part] for part in needs if part in ("logprob", "weights")})]
        )
        cells = ("text" if "samples" in kinds else "", of_beams if "beams" in kinds else "")
        rows.append(f"| `{name}` | {of_answer} | {' | '.join(cells)} |")
    return "\n".join(rows)


def keys(model: type[BaseModel], heading: str) -> str:
    """Every key of a typed model and of the models in it, a table each under a ``heading``."""
    pending, done, parts = [model], set(), []
    while pending:
        of = pending.pop(0)
        if of in done:
            continue
        done.add(of)
        rows = [
            f"{heading} {of.__name__}",
            "",
            _text(" ".join((inspect.getdoc(of) or "").split())),
            "",
        ]
        rows += ["| key | type | default | |", "| --- | --- | --- | --- |"]
        for name, field in of.model_fields.items():
            rows.append(
                f"| `{name}` | {_cell(_type(field.annotation))} | {_default(field)} | "
                f"{_cell(_notes(field))} |"
            )
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
            f"{sign} {getattr(item, kind.__name__.lower())}"
            for kind, sign in bounds.items()
            if isinstance(item, kind)
        ]
        told += ["not empty"] if isinstance(item, MinLen) and item.min_length == 1 else []
        told += [f"at most {item.max_length}"] if isinstance(item, MaxLen) else []
    return re.sub(r"<(?=\w)", r"\\<", "; ".join(told))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _text(doc: str) -> str:
    """A docstring as Markdown: references and literals as code; asterisks, as in y*, stand for
    themselves.
    """
    doc = re.sub(r":\w+:`~?([^`]+)`", lambda match: f"`{match[1].removeprefix('beamuq.')}`", doc)
    return re.sub(r"<(?=\w)", r"\\<", doc.replace("``", "`").replace("*", r"\*"))


def schemas() -> str:
    """Every Parquet schema with its comments, from ``beamuq_study.parquet_tables``."""
    told, parts = _comments(), []
    for kind, schema in parquet_tables.SCHEMAS.items():
        rows = [f"## {kind}", "", "| column | type | |", "| --- | --- | --- |"]
        for field in schema:
            notes = ["may be null"] if field.nullable else []
            notes += [told[kind, field.name]] if (kind, field.name) in told else []
            rows.append(
                f"| `{field.name}` | `{_cell(str(field.type))}` | {_cell('; '.join(notes))} |"
            )
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def _comments() -> dict[tuple[str, str], str]:
    """What the source says behind each column, or in the line above it."""
    source = inspect.getsource(parquet_tables)
    lines, found = source.splitlines(), {}
    named = {
        ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target): node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
    }

    def columns(node: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
        if isinstance(node, ast.Name):
            yield from columns(named[node.id])
        elif isinstance(node, ast.Call):
            for keyword in node.keywords:
                yield from (
                    columns(keyword.value)
                    if keyword.arg is None
                    else [(keyword.arg, keyword.value)]
                )
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                yield from columns(value) if key is None else [(ast.literal_eval(key), value)]

    for kind, schema in columns(named["SCHEMAS"]):
        for name, column in columns(schema):
            _, _, comment = lines[(column.end_lineno or 1) - 1].partition("  # ")
            above = lines[column.lineno - 2].strip()
            if comment or above.startswith("# "):
                found[kind, name] = (comment or above.removeprefix("# ")).replace("*", r"\*")
    return found


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of write")
    check = parser.parse_args().check
    for path in sorted((study_config.ROOT / "docs").glob("**/*.md")):
        text = path.read_text(encoding="utf-8")
        new = filled(text)
        if check and new != text:
            sys.exit(f"{path} is out of step with the code; run python tools/sync_docs.py")
        if new != text:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
