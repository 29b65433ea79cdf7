"""Write the parts of the pages that come from the code: methods, options, keys, columns, claims.

``--check`` compares in place of writing. They stand between ``<!-- generated: NAME -->`` and ``<!--
end -->``, so that a page reads the same on a code host as in the built site.
"""

from __future__ import annotations

import argparse
import ast
import collections
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from types import NoneType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import beamuq
from beamuq import cli
from beamuq.api import candidate_records
from beamuq.api.asked_object import AskedObject
from beamuq.api.calibration_file import CalibrationFile
from beamuq.api.decisions_object import DecisionsObject
from beamuq.api.score_candidates import REASONS
from beamuq.api.score_columns import SCORE_COLUMNS
from beamuq.evaluation.bootstrap import Estimate
from beamuq.methods.dissimilarity_estimators import CUSTOM, WEIGHTINGS, Weighting
from beamuq.methods.method_inputs import DERIVED, PARTS
from beamuq.methods.registry import METHODS, Method, candidates_of
from beamuq_study import machine_config, parquet_tables, study_config
from beamuq_study.comparison.claims.judges import JUDGES, Judge
from beamuq_study.comparison.comparison_inputs import Claim, read_claims, read_rules
from beamuq_study.exhibits import captions, list_of_exhibits
from beamuq_study.exhibits.exhibit import Exhibit
from beamuq_study.study_config import Study

SCOPES = {
    "answer": "the answer",
    "samples": "samples",
    "beams": "beams",
    "candidates": "samples or beams",
}
PART = re.compile(r"^<!-- generated: ([\w-]+) -->$.*?^<!-- end -->$", re.MULTILINE | re.DOTALL)


def filled(text: str, place: str) -> str:
    """A page's text with each generated part written anew; ``place`` names it in messages."""
    writers = _writers()

    def written_anew(part: re.Match[str]) -> str:
        name = part[1]
        if name not in writers:
            sys.exit(f"{place}: generated: unknown part {name!r}; known: {', '.join(writers)}")
        return f"<!-- generated: {name} -->\n\n{writers[name]()}\n\n<!-- end -->"

    return PART.sub(written_anew, text)


def _writers() -> dict[str, Callable[[], str]]:
    """By the name of a generated part, what writes it."""
    return {
        **{f"{name}-options": partial(options, name) for name in cli.COMMANDS},
        "functions": functions,
        "methods": methods,
        "evidence": evidence_parts,
        "estimators": estimators,
        "config": partial(keys, machine_config.Machine, "###"),
        "study": partial(keys, study_config.Study, "###"),
        "candidates": candidate_needs,
        "row": partial(keys, candidate_records.QuestionRecord, "###"),
        "score-columns": score_columns,
        "calibration": partial(keys, CalibrationFile, "###"),
        "decisions": partial(keys, DecisionsObject, "###"),
        "asked": partial(keys, AskedObject, "###"),
        "tables": schemas,
        "claims": claims,
        "judges": judges,
        "exhibits": exhibits,
    }


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of cells that are Markdown themselves."""
    first_line = _line(head).replace("|  |", "| |")
    second_line = _line(["---"] * len(head))
    return "\n".join([first_line, second_line, *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def functions() -> str:
    """What the package offers, each with the first sentence of its docstring."""
    offered = {f"beamuq.{name}": getattr(beamuq, name) for name in beamuq.__all__}
    drawing = inspect.getmembers(beamuq.plot, inspect.isfunction)
    for name, function in drawing:
        if function.__module__ == beamuq.plot.__name__ and not name.startswith("_"):
            offered[f"beamuq.plot.{name}"] = function
    rows = [(f"`{name}`", _cell(_text(_first_paragraph(part)))) for name, part in offered.items()]
    return _table(("", "does"), rows)


def _first_paragraph(part: Any) -> str:
    paragraph, _, _ = (inspect.getdoc(part) or "").partition("\n\n")
    return " ".join(paragraph.split())


def estimators() -> str:
    """Every estimator of Dissimilarity: its formula, and over which candidates it is unbiased."""
    rows = [
        (
            f"`{name}`",
            _cell(weighting.formula),
            _kinds(weighting, unbiased=True),
            _kinds(weighting, unbiased=False),
        )
        for name, weighting in WEIGHTINGS.items()
    ]
    table = _table(("weighting", "estimate", "unbiased over", "not unbiased over"), rows)
    return (
        f"{table}\n\n`{CUSTOM}`: any search of one's own. `sample` is at T = 1, `all_above` under "
        "`stratified` has draws."
    )


def _kinds(weighting: Weighting, *, unbiased: bool) -> str:
    """The kinds of candidates over which an estimator is unbiased, or is not."""
    return ", ".join(f"`{kind}`" for kind, is_so in weighting.kinds.items() if is_so == unbiased)


def claims() -> str:
    """Every claim, where it stands, and the judge with its settings."""
    rows = []
    for claim in read_claims():
        text = claim.claim
        if claim.missing:
            text += f" **Open**: {claim.missing}."
        rows.append((f"`{claim.id}`", claim.where, _judge_of(claim), _cell(text)))
    return _table(("claim", "where", "judge", ""), rows)


def _judge_of(claim: Claim) -> str:
    """A claim's judge with those settings that are a word, a number or a switch."""
    if not claim.judge:
        return ""
    settings = []
    for name, value in claim.settings.items():
        if value is True:
            settings.append(f"`{name}`")
        elif isinstance(value, (str, int, float)):
            settings.append(f"`{name}: {value}`")
    return ", ".join([f"`{claim.judge}`", *settings])


VERDICT_PARTS = ("Yes", "No", "Value")
"""The paragraphs of a judge's docstring that say what its verdict asks for."""


def judges() -> str:
    """Every judge of a claim: what it asks, what its verdicts require, what number it gives."""
    names = dict.fromkeys(claim.judge for claim in read_claims() if claim.judge)
    rows = [(f"`{name}`", *_judge_cells(name, JUDGES[name])) for name in names]
    return _table(("judge", "asks", "*yes*", "*no*", "the number"), rows)


def _judge_cells(name: str, judge: Judge) -> list[str]:
    """Its question, then ``VERDICT_PARTS``, with the numbers of the tolerances that they name."""
    question = _first_paragraph(judge.function)
    if hasattr(judge.function, "__wrapped__"):
        question += " Each dataset apart."
    texts = [question]
    paragraphs = (inspect.getdoc(judge.function) or "").split("\n\n")
    for part in VERDICT_PARTS:
        found_texts = [text for text in paragraphs if text.startswith(f"{part}: ")]
        if len(found_texts) != 1:
            sys.exit(f"judge {name!r}: its docstring needs one paragraph that begins {part!r}:")
        text = " ".join(found_texts[0].removeprefix(f"{part}: ").split())
        texts.append(text[0].upper() + text[1:])
    return [_cell(_with_tolerances(_text(text))) for text in texts]


def _with_tolerances(text: str) -> str:
    """A text with the number behind the name of each tolerance of the comparison."""
    rules = read_rules()
    for name, value in (rules.limits | rules.claims).items():
        number = f"{value:g}".removeprefix("0")
        text = text.replace(f"`{name}`", f"`{name}` ({number})")
    return text


def exhibits() -> str:
    """Every table and figure: what the paper's study would show, what any study needs for it."""
    study = study_config.load_study(study_config.study_path("paper"))
    rows: dict[str, tuple[str, ...]] = {}
    for label in list_of_exhibits.labels(study):
        general = _general_label(label, study)
        if general not in rows:
            exhibit = list_of_exhibits.exhibit(label, study)
            rows[general] = (f"`{general}`", *_exhibit_cells(exhibit, label, study))
    return _table(("label", "", "shows", "needs"), rows.values())


def _general_label(label: str, study: Study) -> str:
    """An exhibit's label with MODEL or DATASET in place of a model's or a dataset's at its end."""
    general_endings = {model.label: "MODEL" for model in study.models.values()}
    general_endings |= dict.fromkeys(study.datasets, "DATASET")
    name, _, ending = label.rpartition("_")
    if name and ending in general_endings:
        return f"{name}_{general_endings[ending]}"
    return label


def _exhibit_cells(exhibit: Exhibit, label: str, study: Study) -> tuple[str, str, str]:
    """What kind an exhibit is, what it shows and what it needs."""
    caption = exhibit.caption or label
    unknown_facts = collections.defaultdict(lambda: "…", metric=exhibit.metric)
    title, *_ = captions.text(caption, unknown_facts)
    needs = [captions.needs(study, caption) if exhibit.reads else "nothing"]
    if "AUC" in exhibit.metric:
        needs.append(f"`{exhibit.metric}` in `evaluation.metrics`")
    if exhibit.answer_source != "greedy":
        needs.append(f"`{exhibit.answer_source}` in `answer_source`")
    kind = f"{exhibit.kind}, ours" if exhibit.beyond_paper else exhibit.kind
    shows = re.sub(r", …(?=,|$)", "", title)
    return _cell(kind), _cell(shows), _cell("; ".join(needs))


def options(name: str) -> str:
    """Every option of a command."""
    rows = [
        _option_cells(action)
        for action in _command(name)._actions
        if action.option_strings
        and action.help is not argparse.SUPPRESS
        and not isinstance(action, argparse._HelpAction)
    ]
    return _table(("option", "default", ""), rows)


def _command(name: str) -> argparse.ArgumentParser:
    """The parser of a command's options."""
    for action in cli.command_parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            command: argparse.ArgumentParser = action.choices[name]
            return command
    raise ValueError("the command line has no commands")


def _option_cells(action: argparse.Action) -> tuple[str, str, str]:
    """An option with its value, its default, and what it says."""
    value = action.metavar or ""
    if not value and action.nargs != 0 and not action.choices:
        value = action.dest.upper().replace("_", "-")
    usage = " ".join(filter(None, (action.option_strings[-1], str(value))))
    default = ""
    if action.default is not None and action.default is not False:
        default = f"`{action.default}`"
    choices = ", ".join(f"`{choice}`" for choice in action.choices or ())
    text = "; ".join(filter(None, (choices, action.help)))
    return f"`{usage}`", default, _cell(text)


def methods() -> str:
    """A row for each method, out of its entry."""
    return _table(
        ("method", "looks at", "range", "needs", ""), map(_method_cells, METHODS.values())
    )


def _method_cells(method: Method) -> tuple[str, ...]:
    needs = _needs(method.needs)
    for setting, formulation in method.formulations.items():
        needs += f". Also as `{setting}`, in {formulation.range}: {_needs(formulation.needs)}"
    text = _text(f"{method.equation}. {method.limits}")
    cells = (f"`{method.name}`", SCOPES[method.scope], method.range, needs, text)
    return tuple(map(_cell, cells))


def _needs(parts: Sequence[str]) -> str:
    return ", ".join(f"`{part}`" for part in parts)


def evidence_parts() -> str:
    """What a method can declare, what is made of it, and what ``score`` says if nobody gave it."""
    rows = []
    for part, description in PARTS.items():
        derived = [name for name, sources in DERIVED.items() if part in sources]
        why_absent = REASONS.get(part, "")
        rows.append((f"`{part}`", _cell(_text(description)), _needs(derived), _cell(why_absent)))
    head = ("part", "", "read also as", "where a file of candidates lacks it")
    return _table(head, rows)


FIELDS = {
    "answer.logprob": "`logprob`",
    "answer.length": "`tokens`",
    "answer.mean_entropy": "`token_entropies`",
    "answer.p_true_logprob": "`p_true_logprob`",
    "logprob": "`logprob`",
    "weights": "`logprob`",
}
"""The field of an answer or a candidate that gives a part of the evidence; texts give the rest."""
STUDY_ALONE = ("answer.ccp", "token_sar")


def candidate_needs() -> str:
    """What a row has to hold for each method: of the answer, of samples at T = 1, of beams."""
    return _table(("method", "`answer`", "`samples`", "`beams`"), map(_row_needs, METHODS.values()))


def _row_needs(method: Method) -> tuple[str, str, str, str]:
    name = f"`{method.name}`"
    for part in method.needs:
        if part in STUDY_ALONE:
            return name, REASONS[part].removeprefix("needs "), "", ""
    of_answer = ["text"]
    for part in method.needs:
        if part.startswith("answer."):
            of_answer.append(_field_of(part, method))
    of_beam = {FIELDS[part] for part in method.needs if part in ("logprob", "weights")}
    kinds = [candidates_of(method, variant) for variant in method.variants]
    samples = "text" if "samples" in kinds else ""
    beams = ", ".join(["text", *sorted(of_beam)]) if "beams" in kinds else ""
    return name, ", ".join(of_answer), samples, beams


def _field_of(part: str, method: Method) -> str:
    if part not in FIELDS:
        sys.exit(f"method {method.name!r} needs {part}: add it to FIELDS of tools/sync_docs.py")
    return FIELDS[part]


def score_columns() -> str:
    """Every column of scores, those of labels too."""
    labels = {
        name: field.description or ""
        for name, field in candidate_records.Labels.model_fields.items()
    }
    rows = [(f"`{name}`", _cell(text)) for name, text in (SCORE_COLUMNS | labels).items()]
    return _table(("column", ""), rows)


NOTES_OF_ESTIMATE = {
    "value": "null: undefined, and note says why",
    "low": "lower end of the 95 % interval, of the bootstrap over groups",
    "high": "upper end",
    "std": "standard deviation over the resamples",
    "note": "why it is undefined; else empty",
    "n": "of how many answers",
}
"""What the keys of an Estimate mean, which holds numbers of studies too."""


def keys(model: type, heading: str) -> str:
    """Every key of a typed model and of the models in it, a table each under a ``heading``."""
    pending = [model]
    tables: dict[type, str] = {}
    while pending:
        next_model = pending.pop(0)
        if next_model in tables:
            continue
        tables[next_model] = _keys_of(next_model, heading)
        for field in _fields(next_model).values():
            pending += _models(field.annotation)
    return "\n\n".join(tables.values())


def _fields(model: type) -> dict[str, FieldInfo]:
    """The keys of a model, which may be a dataclass."""
    if issubclass(model, BaseModel):
        return model.model_fields
    hints = get_type_hints(model, include_extras=True)
    keys_of_model = {}
    for field in fields(model):
        info = FieldInfo.from_annotation(hints[field.name])
        if field.default is not MISSING:
            info.default = field.default
        if model is Estimate:
            info.description = NOTES_OF_ESTIMATE[field.name]
        keys_of_model[field.name] = info
    return keys_of_model


def _keys_of(model: type, heading: str) -> str:
    """A heading, the docstring and a table of the keys of one model."""
    description = _text(" ".join((inspect.getdoc(model) or "").split()))
    rows = [
        (f"`{name}`", _cell(_type(field.annotation)), _default(field), _cell(_notes(field)))
        for name, field in _fields(model).items()
    ]
    table = _table(("key", "type", "default", ""), rows)
    return f"{heading} {model.__name__}\n\n{description}\n\n{table}"


def _models(annotation: Any) -> list[type]:
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    if is_model or (isinstance(annotation, type) and is_dataclass(annotation)):
        return [annotation]
    return [model for argument in get_args(annotation) for model in _models(argument)]


def _type(annotation: Any) -> str:
    """The type of a configuration's key in plain words, such as ``list of text``.

    Several types, of a union or a tuple, are joined by "or".
    """
    origin = get_origin(annotation)
    arguments = get_args(annotation)
    if hasattr(annotation, "__metadata__"):  # Annotated[type, constraint]
        return _type(arguments[0])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"list of {_type(arguments[0])}"
    if origin is tuple and len(set(arguments)) == 1:
        return f"list of {len(arguments)} times {_type(arguments[0])}"
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
    if isinstance(field.default, BaseModel):
        return "see below"
    return f"`{json.dumps(field.default)}`"


def _notes(field: FieldInfo) -> str:
    notes = [field.description] if field.description else []
    for constraint in field.metadata:
        notes += _constraint_notes(constraint)
    return re.sub(r"<(?=\w)", r"\\<", "; ".join(notes))


def _constraint_notes(constraint: Any) -> list[str]:
    """What a constraint of a field says: none where it is no bound of a value or a length."""
    for kind, sign in {Ge: "≥", Gt: ">", Le: "≤", Lt: "<"}.items():
        if isinstance(constraint, kind):
            return [f"{sign} {getattr(constraint, kind.__name__.lower())}"]
    if isinstance(constraint, MinLen) and constraint.min_length == 1:
        return ["not empty"]
    if isinstance(constraint, MaxLen):
        return [f"at most {constraint.max_length}"]
    return []


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _text(doc: str) -> str:
    """A docstring as Markdown: references and literals as code; asterisks, as in y*, as such."""
    doc = re.sub(r":\w+:`~?([^`]+)`", lambda match: f"`{match[1].removeprefix('beamuq.')}`", doc)
    return re.sub(r"<(?=\w)", r"\\<", doc.replace("``", "`").replace("*", r"\*"))


def schemas() -> str:
    """Every Parquet schema with its comments, from ``beamuq_study.parquet_tables``."""
    comments = _comments()
    parts = []
    for kind, schema in parquet_tables.SCHEMAS.items():
        rows = []
        for field in schema:
            notes = ["may be null"] if field.nullable else []
            if (kind, field.name) in comments:
                notes.append(comments[kind, field.name])
            rows.append((f"`{field.name}`", f"`{_cell(str(field.type))}`", _cell("; ".join(notes))))
        parts.append(f"## {kind}\n\n{_table(('column', 'type', ''), rows)}")
    return "\n\n".join(parts)


def _comments() -> dict[tuple[str, str], str]:
    """What the source says behind each column, or in the line above it, by table and column."""
    source = inspect.getsource(parquet_tables)
    lines = source.splitlines()
    assigned = _assigned_expressions(source)
    comments = {}
    for kind, schema in _columns(assigned["SCHEMAS"], assigned):
        for name, column in _columns(schema, assigned):
            comment = _comment_at(column, lines)
            if comment is not None:
                comments[kind, name] = comment.replace("*", r"\*")
    return comments


def _assigned_expressions(source: str) -> dict[str, ast.expr | None]:
    """What a module assigns to each of its names."""
    assigned: dict[str, ast.expr | None] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            assigned[ast.unparse(node.targets[0])] = node.value
        elif isinstance(node, ast.AnnAssign):
            assigned[ast.unparse(node.target)] = node.value
    return assigned


def _columns(
    node: ast.expr | None, assigned: Mapping[str, ast.expr | None]
) -> Iterator[tuple[str, ast.expr]]:
    """The names and values of a dict, written as a display or a call, with all that it unpacks."""
    if isinstance(node, ast.Name):
        yield from _columns(assigned[node.id], assigned)
    elif isinstance(node, ast.Call):
        for keyword in node.keywords:
            if keyword.arg is None:
                yield from _columns(keyword.value, assigned)
            else:
                yield keyword.arg, keyword.value
    elif isinstance(node, ast.Dict):
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                yield from _columns(value, assigned)
            else:
                yield ast.literal_eval(key), value


def _comment_at(column: ast.expr, lines: Sequence[str]) -> str | None:
    """The comment behind a column, or alone in the line above it."""
    _, _, comment = lines[(column.end_lineno or 1) - 1].partition("  # ")
    if comment:
        return comment
    above = lines[column.lineno - 2].strip()
    if above.startswith("# "):
        return above.removeprefix("# ")
    return None


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of write")
    check = parser.parse_args().check
    for path in sorted((study_config.ROOT / "docs").glob("**/*.md")):
        text = path.read_text(encoding="utf-8")
        new = filled(text, str(path))
        if check and new != text:
            sys.exit(f"{path} is out of step with the code; run python tools/sync_docs.py")
        if new != text:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
