"""Tables of datasets, baseline methods and prompts: they hold no result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from beamuq.methods.registry import resolve
from beamuq.prompts import prompt_template
from beamuq.prompts.prompt_template import PROMPTS
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.cells import Cell
from beamuq_study.exhibits.exhibit import Exhibit, Row, Table, TableCell
from beamuq_study.exhibits.result_files import Inputs
from beamuq_study.study_config import Dataset, Study

STYLES = {"base": "Base prompt", "instruct": "Instruct prompt"}
FILLED = {"history": "all preceding QA pairs", "story": "context", "options": "options (A), (B), …"}


# -- methods -----------------------------------------------------------------------------------------------------------


def _methods(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a baseline method: its category, and whether the study scores it."""
    del chosen, inputs
    scored = {resolve(name).name for scoring in study.scoring.values() for name in scoring.methods}
    values, rows = [], []
    for category, methods in captions.CATEGORIES.items():
        for name, title in methods.items():
            values.append({"metric": "category", "method": name, "value": category})
            rows.append(_row(category, title, "yes" if name in scored else "no"))
    return Table(values, ("Category",), [("Uncertainty quantification method", "In this study")], rows)


def _row(title: str, *texts: object, code: bool = False) -> Row:
    return Row((title,), cells=tuple(TableCell(str(text), code=code) for text in texts))


# -- prompts -----------------------------------------------------------------------------------------------------------


def _prompts(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A row a dataset: its template for base and for instruct models, with ``<…>`` where a value is put in."""
    del chosen, inputs
    values, rows = [], []
    for key, dataset in study.datasets.items():
        shown = {style: shown_prompt(dataset, style) for style in STYLES}
        values += [{"model": s, "dataset": key, "metric": "prompt", "value": text} for s, text in shown.items()]
        rows.append(_row(dataset.title, *shown.values(), code=True))
    models = captions.listing([f"{model.title} ({model.style})" for model in study.models.values()])
    return Table(values, ("Dataset",), [tuple(STYLES.values())], rows, {"models": models})


def shown_prompt(dataset: Dataset, style: str) -> str:
    """The template of a dataset as a reader sees it."""
    prompt = prompt_template.load(_template(style, dataset.adapter))["prompt"]
    if not dataset.few_shot:
        prompt = re.sub(r"^\{shots\}\n\n?", "", prompt, flags=re.MULTILINE)
    words = FILLED | {"shots": f"{dataset.few_shot} few-shot QA pairs"}
    return re.sub(r"\{(\w+)\}", lambda match: f"<{words.get(match[1], match[1].replace('_', ' '))}>", prompt)


def _template(style: str, adapter: str) -> Path:
    return PROMPTS / style / f"{adapter}.txt"


def _templates(study: Study) -> list[Path]:
    adapters = dict.fromkeys(dataset.adapter for dataset in study.datasets.values())
    return [_template(style, adapter) for style in STYLES for adapter in adapters]


# -- datasets ----------------------------------------------------------------------------------------------------------


def _asked(study: Study) -> Sequence[Cell]:
    """The datasets that the grid asks, of no model."""
    return [Cell("", dataset) for dataset in study.datasets if any(dataset in entry.datasets for entry in study.grid)]


def _datasets(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """A column a dataset: counts of the files that were used."""
    frames = {cell.dataset: inputs.of(cell, "questions") for cell in chosen}
    of = {dataset: study.datasets[dataset] for dataset in frames}
    lines: dict[tuple[str, str], list[int | str]] = {
        ("# Questions", "questions"): [len(frame) for frame in frames.values()],
        ("# few-shot examples", "few_shot"): [_shots(study, inputs, cell) for cell in chosen],
        ("Max new tokens", "max_new_tokens"): [dataset.max_new_tokens for dataset in of.values()],
    }
    values = [
        {"dataset": dataset, "metric": metric, "value": value, "n": len(frame)}
        for (_, metric), datasets in lines.items()
        for (dataset, frame), value in zip(frames.items(), datasets, strict=True)
    ]
    stories = [
        f"the {len(frames[name])} questions of {dataset.title} are turns of {frames[name]['group'].nunique()} dialogues"
        for name, dataset in of.items()
        if dataset.adapter == "coqa"
    ]
    heads = [tuple(dataset.category for dataset in of.values()), tuple(dataset.title for dataset in of.values())]
    rows = [_row(title, *datasets) for (title, _), datasets in lines.items()]
    return Table(values, ("",), heads, rows, {"dialogues": captions.listing(stories) or None})


def _shots(study: Study, inputs: Inputs, cell: Cell) -> int | str:
    of = study.datasets[cell.dataset]
    if of.adapter == "coqa":
        return "all preceding"
    return len(inputs.of(cell, "shots")) if of.few_shot else 0


def exhibits(study: Study) -> list[Exhibit]:
    """Of every study the same."""
    del study
    described = partial(Exhibit, kind="table", quality=False, scored=False)
    return [
        described("test_datasets", cells=_asked, reads=("questions", "shots"), build=_datasets),
        described("lmpoly_methods", cells=lambda _: [], reads=(), build=_methods),
        described("prompts", cells=lambda _: [], reads=(), build=_prompts, files=_templates),
    ]
