"""Tables of what is asked and scored: datasets, prompts and baseline methods."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from beamuq.methods.registry import resolve
from beamuq.prompts import prompt_template
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.exhibit import Exhibit, Row, Table, TableCell
from beamuq_study.exhibits.method_groups import BASELINES
from beamuq_study.grid import Cell, most_questions_asked
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Dataset, Study

STYLES = {"base": "Base prompt", "instruct": "Instruct prompt"}
PLACEHOLDERS = {
    "history": "all preceding QA pairs",
    "story": "context",
    "options": "options (A), (B), …",
}
"""What a printed prompt says for a value that is put in, where its name does not."""


def _text_row(title: str, texts: Sequence[object], *, code: bool = False) -> Row:
    return Row((title,), cells=tuple(TableCell(str(text), code=code) for text in texts))


# -- methods ---------------------------------------------------------------------------------------


def baseline_methods(study: Study, *_: object) -> Table:
    """A row a baseline method: its category, and whether the study scores it."""
    scored = {resolve(name).name for scoring in study.scoring.values() for name in scoring.methods}
    values = [
        {"metric": "category", "method": name, "value": method.category}
        for name, method in BASELINES.items()
    ]
    rows = [
        _text_row(method.category, [method.title, "yes" if name in scored else "no"])
        for name, method in BASELINES.items()
    ]
    header = [("Uncertainty quantification method", "In this study")]
    return Table(values, ("Category",), header, rows)


# -- prompts ---------------------------------------------------------------------------------------


def prompts(study: Study, *_: object) -> Table:
    """A row a dataset: its template for base and for instruct models."""
    values = []
    rows = []
    for name, dataset in study.datasets.items():
        texts = {style: shown_prompt(dataset, style) for style in STYLES}
        for style, text in texts.items():
            values.append({"model": style, "dataset": name, "metric": "prompt", "value": text})
        rows.append(_text_row(dataset.title, list(texts.values()), code=True))
    models = captions.listing([f"{model.title} ({model.style})" for model in study.models.values()])
    return Table(values, ("Dataset",), [tuple(STYLES.values())], rows, {"models": models})


def shown_prompt(dataset: Dataset, style: str) -> str:
    """The template of a dataset's prompts, with ``<…>`` where a value is put in."""
    prompt = prompt_template.load(_template(style, dataset))["prompt"]
    if not dataset.few_shot:
        prompt = re.sub(r"^\{shots\}\n\n?", "", prompt, flags=re.MULTILINE)
    words = PLACEHOLDERS | {"shots": f"{dataset.few_shot} few-shot QA pairs"}
    return re.sub(r"\{(\w+)\}", lambda match: _placeholder(match[1], words), prompt)


def _placeholder(name: str, words: Mapping[str, str]) -> str:
    return f"<{words.get(name, name.replace('_', ' '))}>"


def _template(style: str, dataset: Dataset) -> Path:
    return prompt_template.PROMPTS / style / f"{dataset.adapter}.txt"


def _templates(study: Study) -> list[Path]:
    """The templates that the study's datasets use, each once."""
    paths = [_template(style, dataset) for style in STYLES for dataset in study.datasets.values()]
    return list(dict.fromkeys(paths))


# -- datasets --------------------------------------------------------------------------------------


def _datasets_of_grid(study: Study) -> Sequence[Cell]:
    """A cell without a model for each dataset that the grid asks."""
    in_grid = {dataset for _, dataset, _ in study.entries}
    return [Cell("", dataset) for dataset in study.datasets if dataset in in_grid]


@dataclass(frozen=True)
class _Measure:
    """A row of the table of datasets: a count for each dataset."""

    metric: str
    title: str
    counts: Sequence[int | str]

    def csv_rows(self, questions_by_dataset: Mapping[str, int]) -> list[dict[str, object]]:
        """A CSV row for each dataset: its count, and as ``n`` how many questions it has."""
        return [
            {"dataset": dataset, "metric": self.metric, "value": count, "n": n}
            for (dataset, n), count in zip(questions_by_dataset.items(), self.counts, strict=True)
        ]


def table_of_datasets(study: Study, chosen: Sequence[Cell], inputs: Inputs) -> Table:
    """What is asked of each dataset: questions, few-shot examples, and tokens of an answer at most.

    ``chosen``: one cell for each dataset, as :func:`_datasets_of_grid` gives them. The table has a
    column for each, in that order. Questions and examples are counted in the study's own files; of
    questions those that a cell asks.
    """
    frames = {
        cell.dataset: inputs.of(cell, "questions").head(most_questions_asked(study, cell.dataset))
        for cell in chosen
    }
    questions_by_dataset = {name: len(frame) for name, frame in frames.items()}
    datasets = [study.datasets[cell.dataset] for cell in chosen]
    max_new_tokens = [dataset.max_new_tokens for dataset in datasets]
    shots = [_shots(study, inputs, cell) for cell in chosen]
    measures = [
        _Measure("questions", "# Questions", list(questions_by_dataset.values())),
        _Measure("few_shot", "# few-shot examples", shots),
        _Measure("max_new_tokens", "Max new tokens", max_new_tokens),
    ]
    values = [row for measure in measures for row in measure.csv_rows(questions_by_dataset)]
    categories = tuple(dataset.category for dataset in datasets)
    titles = tuple(dataset.title for dataset in datasets)
    rows = [_text_row(measure.title, measure.counts) for measure in measures]
    facts = {"dialogues": _dialogues(study, frames)}
    return Table(values, ("",), [categories, titles], rows, facts)


def _dialogues(study: Study, questions: Mapping[str, pd.DataFrame]) -> str | None:
    """How many questions of each dataset of dialogues are turns of how many; None: no dialogues."""
    phrases = []
    for name, frame in questions.items():
        dataset = study.datasets[name]
        if dataset.adapter == "coqa":
            phrases.append(
                f"the {len(frame)} questions of {dataset.title} are turns of "
                f"{frame['group'].nunique()} dialogues"
            )
    return captions.listing(phrases) or None


def _shots(study: Study, inputs: Inputs, cell: Cell) -> int | str:
    """How many examples stand in a prompt of the cell's dataset."""
    dataset = study.datasets[cell.dataset]
    if dataset.adapter == "coqa":
        return "all preceding"
    return len(inputs.of(cell, "shots")) if dataset.few_shot else 0


def _no_cells(_: Study) -> Sequence[Cell]:
    return []


def exhibits(_: Study) -> list[Exhibit]:
    described = partial(Exhibit, kind="table", quality=False)
    return [
        described(
            "test_datasets",
            cells=_datasets_of_grid,
            reads=("questions", "shots"),
            build=table_of_datasets,
        ),
        described("lmpoly_methods", cells=_no_cells, reads=(), build=baseline_methods),
        described("prompts", cells=_no_cells, reads=(), build=prompts, files=_templates),
    ]
