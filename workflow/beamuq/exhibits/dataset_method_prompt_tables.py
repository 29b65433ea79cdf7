"""The tables that describe methods, prompts and datasets: they hold no result."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beamuq.data import prompt_template
from beamuq.errors import BeamUQError
from beamuq.exhibits import captions
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.exhibit_types import (
    BuiltTable,
    TableCell,
    TableExhibit,
    TableGrid,
    TableRow,
    TableRule,
)
from beamuq.methods.registry import resolve
from beamuq.parquet_tables import Artifact
from beamuq.study_config import PROMPTS, Dataset, Study

METHODS_BY_CATEGORY = {
    "Information-based": {
        "Prob": "Sequence Probability (Prob)",
        "MTE": "Mean Token Entropy (MTE)",
        "Perplexity": "Perplexity",
        "CCP": "Claim Conditioned Probability (CCP)",
    },
    "Reflexive": {"PTrue": "P(True)"},
    "Sampling-based": {
        "SemanticEntropy": "Semantic Entropy",
        "SAR": "Shifting Attention to Relevance (SAR)",
        "LexicalSimilarity": "Lexical Similarity",
        "EigValLaplacian": "Sum of Eigenvalues of the Laplacian (EigValLaplacian)",
        "NumSemSets": "Number of Semantic Sets (NumSemSets)",
    },
}
PROMPT_STYLES = {"base": "Base prompt", "instruct": "Instruct prompt"}
PRINTED_SUBSETS = {"web_questions": (1490, 2032), "ai2_arc": (447, 1172)}  # questions in print, in the test split
ALL_PRECEDING = "all preceding"


@dataclass(frozen=True)
class MethodCategories(TableExhibit):
    """The baseline methods by category, and whether this study scores them."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """None: it describes methods."""
        del study
        return []

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A row a method."""
        del inputs
        scored = {resolve(name).name for scoring in study.scoring.values() for name in scoring.methods}
        values: list[dict[str, str]] = []
        groups = []
        for category, methods in METHODS_BY_CATEGORY.items():
            values += [{"metric": "category", "method": method, "value": category} for method in methods]
            cells = [(TableCell(title), TableCell("yes" if m in scored else "no")) for m, title in methods.items()]
            groups.append([TableRow(("" if n else category,), pair) for n, pair in enumerate(cells)])
        title = "Baseline uncertainty methods by category"
        sentences = [f"{title}, and whether this study scores them."]
        grid = TableGrid(("Category",), (("Uncertainty quantification method", "In this study"),), _ruled(groups))
        return self.table(study, title, sentences, values, grid, (), quality=False)


@dataclass(frozen=True)
class PromptTemplates(TableExhibit):
    """The prompt template of each dataset, for base and instruct models, with ``<…>`` where a value is put in."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """None: the templates are files of the workflow, not results."""
        del study
        return []

    def files(self, study: Study) -> list[Path]:
        """The templates."""
        adapters = dict.fromkeys(dataset.adapter for dataset in study.datasets.values())
        return [_template(style, adapter) for style in PROMPT_STYLES for adapter in adapters]

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A row a dataset."""
        del inputs
        values: list[dict[str, str]] = []
        groups = []
        for key, dataset in study.datasets.items():
            shown = {style: _shown_prompt(dataset, style) for style in PROMPT_STYLES}
            values += [{"model": s, "dataset": key, "metric": "prompt", "value": text} for s, text in shown.items()]
            groups.append([TableRow((dataset.title,), tuple(TableCell(text, code=True) for text in shown.values()))])
        title = "Prompt templates"
        used = captions.listing([f"{m.title} ({m.style})" for m in study.models.values()])
        sentences = [
            f"{title} of each dataset for base and instruct models; <…> stands for what is put in at run time.",
            "Each few-shot example and preceding turn has the form of the question below it, with its answer.",
            "Options stand one a line, each after its letter in parentheses.",
            "Instruct prompts are sent as one user message through the model's chat template.",
            f"Models of this study: {used}.",
        ]
        grid = TableGrid(("Dataset",), (tuple(PROMPT_STYLES.values()),), _ruled(groups))
        return self.table(study, title, sentences, values, grid, (), quality=False)


@dataclass(frozen=True)
class DatasetSizes(TableExhibit):
    """How many questions, few-shot examples and new tokens each dataset has: counts of the files that were used."""

    def artifacts(self, study: Study) -> list[Artifact]:
        """The questions of every dataset that the grid asks, and its few-shot examples where it has some."""
        found = []
        for dataset in _asked(study):
            found.append(Artifact("questions", dataset=dataset))
            if study.datasets[dataset].few_shot:
                found.append(Artifact("shots", dataset=dataset))
        return found

    def build(self, study: Study, inputs: Inputs) -> BuiltTable:
        """A column a dataset."""
        datasets = _asked(study)
        frames = {d: inputs.frame(Artifact("questions", dataset=d)) for d in datasets}
        questions = {d: len(frame) for d, frame in frames.items()}
        lines: dict[tuple[str, str], Mapping[str, int | str]] = {
            ("questions", "# Questions"): questions,
            ("few_shot", "# few-shot examples"): {d: _shots(study, inputs, d) for d in datasets},
            ("max_new_tokens", "Max new tokens"): {d: study.datasets[d].max_new_tokens for d in datasets},
        }
        values = [
            {"dataset": d, "metric": metric, "value": found[d], "n": questions[d]}
            for (metric, _), found in lines.items()
            for d in datasets
        ]
        rows = [
            [TableRow((title,), tuple(TableCell(str(found[d])) for d in datasets))]
            for (_, title), found in lines.items()
        ]
        stories = [
            f"the {questions[d]} questions of {study.datasets[d].title} are turns of "
            f"{frames[d]['group'].nunique()} dialogues"
            for d in datasets
            if study.datasets[d].adapter == "coqa"
        ]
        title = "Test datasets: settings and sizes"
        asked = f"Of these, {captions.listing(stories)}; each is asked with all preceding turns." if stories else ""
        sentences = [f"{title}, as used in this study.", asked, "" if study.demo else _unknown_subsets(study, datasets)]
        grid = TableGrid(("",), captions.dataset_heads(study, datasets), _ruled(rows))
        return self.table(study, title, sentences, values, grid, (), quality=False)


def _ruled(groups: Sequence[Sequence[TableRow]]) -> tuple[TableRow | TableRule, ...]:
    """The rows, with a rule between groups."""
    body: list[TableRow | TableRule] = []
    for group in groups:
        body += [TableRule()] if body else []
        body += group
    return tuple(body)


def _template(style: str, adapter: str) -> Path:
    return PROMPTS / style / f"{adapter}.txt"


def _shown_prompt(dataset: Dataset, style: str) -> str:
    prompt = prompt_template.load(_template(style, dataset.adapter)).parts["prompt"]
    words = {
        "shots": f"<{dataset.few_shot} few-shot QA pairs>",
        "history": "<all preceding QA pairs>",
        "story": "<context>",
        "options": "<options (A), (B), …>",
    }
    if not dataset.few_shot:
        prompt = re.sub(r"^\{shots\}\n\n?", "", prompt, flags=re.MULTILINE)
    return re.sub(r"\{(\w+)\}", lambda match: words.get(match[1], f"<{match[1].replace('_', ' ')}>"), prompt)


def _asked(study: Study) -> list[str]:
    return [d for d in study.datasets if any(d in entry.datasets for entry in study.grid)]


def _unknown_subsets(study: Study, datasets: Sequence[str]) -> str:
    """Which datasets print seems to have filtered by a rule that nobody knows."""
    each = [
        "{:,} of the {:,} test questions of ".format(*PRINTED_SUBSETS[adapter]) + study.datasets[dataset].title
        for dataset in datasets
        if (adapter := study.datasets[dataset].adapter) in PRINTED_SUBSETS
    ]
    what = (
        "called random, but of sizes that look like what an unknown filter left; here the subset is random (D15, data)"
    )
    return f"Print has {captions.listing(each)}: {what}." if each else ""


def _shots(study: Study, inputs: Inputs, dataset: str) -> int | str:
    if study.datasets[dataset].adapter == "coqa":
        return ALL_PRECEDING
    wanted = study.datasets[dataset].few_shot
    if not wanted:
        return 0
    file = Artifact("shots", dataset=dataset)
    found = len(inputs.frame(file))
    if found != wanted:
        raise BeamUQError(f"{file.path}: holds {found} examples, the study asks {wanted}")
    return found
