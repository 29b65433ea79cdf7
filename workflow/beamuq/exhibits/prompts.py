"""``tab:prompts``: the prompt templates of each dataset, base and instruct, placeholders shown."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd

from beamuq.artifacts import Artifact
from beamuq.data import prompt_template
from beamuq.exhibits import wording
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import CSV_COLUMNS, Cell, Exhibit, Grid, Row, Rule, Table
from beamuq.study import PROMPTS, Dataset, Study

LABEL = "prompts"
STYLES = {"base": "Base prompt", "instruct": "Instruct prompt"}


def needs(study: Study) -> list[Artifact]:
    """None: the templates are files of the workflow, not results."""
    del study
    return []


def files(study: Study) -> list[Path]:
    """The templates."""
    adapters = dict.fromkeys(dataset.adapter for dataset in study.datasets.values())
    return [PROMPTS / style / f"{adapter}.txt" for style in STYLES for adapter in adapters]


def build(study: Study, inputs: Inputs) -> Table:
    """Each template's prompt with ``<…>`` where a value is put in."""
    del inputs
    rows: list[tuple[object, ...]] = []
    body: list[Row | Rule] = []
    for key, dataset in study.datasets.items():
        shown = {style: _shown(dataset, style) for style in STYLES}
        body += [Rule()] if body else []
        body.append(Row((dataset.title,), tuple(Cell(text, code=True) for text in shown.values())))
        rows += [
            (f"tab:{LABEL}", style, key, "prompt", "", "", "", text, None, None, None, None)
            for style, text in shown.items()
        ]
    title = "Prompt templates"
    used = wording.listing([f"{m.title} ({m.style})" for m in study.models.values()])
    caption = wording.caption(
        study,
        [
            f"{title} of each dataset for base and instruct models; <…> stands for what is put in at run time.",
            "Each few-shot example and preceding turn has the form of the question below it, with its answer.",
            "Options stand one a line, each after its letter in parentheses.",
            "Instruct prompts are sent as one user message through the model's chat template.",
            f"Models of this study: {used}.",
        ],
    )
    values = pd.DataFrame(rows, columns=list(CSV_COLUMNS))
    grid = Grid(("Dataset",), (tuple(STYLES.values()),), tuple(body))
    return Table(LABEL, wording.titled(study, title), caption, values, grid)


def _shown(dataset: Dataset, style: str) -> str:
    prompt = prompt_template.load(PROMPTS / style / f"{dataset.adapter}.txt").parts["prompt"]
    words = {
        "shots": f"<{dataset.few_shot} few-shot QA pairs>",
        "history": "<all preceding QA pairs>",
        "story": "<context>",
        "options": "<options (A), (B), …>",
    }
    if not dataset.few_shot:
        prompt = re.sub(r"^\{shots\}\n\n?", "", prompt, flags=re.MULTILINE)
    return re.sub(r"\{(\w+)\}", lambda match: words.get(match[1], f"<{match[1].replace('_', ' ')}>"), prompt)


EXHIBIT = Exhibit(LABEL, "table", needs, build, __name__, files)
