"""Measure how right the produced answers are."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamuq.errors import BeamUQError
from beamuq.models import devices
from beamuq.models.model_folder import identities
from beamuq.scorers.named_options import GOLD_LABEL, named_options
from beamuq.scorers.quality_metrics import LEARNED, QUALITY, Learned, quality_values
from beamuq.text_normalization import on_one_line
from beamuq_study import parquet_tables
from beamuq_study.produced_answers import produced_texts
from beamuq_study.provenance import newline_ended, provenance, read_cell
from beamuq_study.rule_programs import run_program

Row = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A produced answer: its source, its question's row, and its text as metrics read it."""

    source: str
    question: Row
    text: str


def run(
    *,
    questions: Path,
    candidates: Path,
    model: Path | None,
    backbone: Path | None,
    settings: dict[str, Any],
    made_with: dict[str, Any],
    loading: dict[str, Any],
    cache: Path | None = None,
    threads: int = 1,
    quality: Path,
) -> None:
    """Read questions and candidates, score the produced answers, write the quality table.

    ``model``: a file in the checkpoint's folder; ``backbone``: one in the folder with its config
    and tokenizer.
    """
    files = {"questions": questions, "candidates": candidates}
    read = read_cell(files, made_with)
    decoded = read["candidates"]
    texts = produced_texts(decoded.table, settings["answer_source"], settings["beam"])
    one_line = settings["metric"] in QUALITY and not newline_ended(decoded)
    answers = _answers(texts, read["questions"], candidates, one_line=one_line)
    folders = {
        name: file.parent for name, file in (("model", model), ("backbone", backbone)) if file
    }
    models = identities(folders, loading["content"], folders)
    options = [answer.question["options"] for answer in answers]
    learned = Learned(options=options)
    if settings["metric"] in LEARNED:
        device, dtype = devices.prepare(loading["device"], loading["dtype"], threads)
        learned = Learned(options=options, **folders, dtype=dtype, device=device, cache=cache)
    rows = _rows(answers, settings, learned)
    footer = provenance(settings, files, models=models, dtype=learned.dtype, device=learned.device)
    footer["empty"] = {
        source: [list(by_question.values()).count(""), len(by_question)]
        for source, by_question in texts.items()
    }
    if settings["metric"] == GOLD_LABEL:
        footer["options_named"] = _options_named(answers, texts)
    cell = decoded.cell | {"metric": settings["metric"]}
    parquet_tables.write(quality, "quality", rows, cell=cell, provenance=footer)


def _answers(
    texts: Mapping[str, Mapping[str, str]],
    questions: parquet_tables.Loaded,
    candidates: Path,
    *,
    one_line: bool,
) -> list[Answer]:
    """The produced answers, by source and question; ``one_line``: their lines are joined.

    Raises BeamUQError if a question is unknown.
    """
    columns = questions.table.select(["id", "references", "options"])
    rows = {row["id"]: row for row in columns.to_pylist()}
    answers = []
    for source, text_by_question in texts.items():
        for question, text in text_by_question.items():
            if question not in rows:
                raise BeamUQError(
                    f"{candidates}: question {question!r} is not in {questions.path}; make both "
                    "anew"
                )
            compared = on_one_line(text) if one_line else text
            answers.append(Answer(source, rows[question], compared))
    return answers


def _rows(answers: Sequence[Answer], settings: Mapping[str, Any], learned: Learned) -> list[Row]:
    """The rows of the table of quality."""
    values = quality_values(
        settings["metric"],
        [answer.text for answer in answers],
        [answer.question["references"] for answer in answers],
        settings["normalizer"],
        learned,
    )
    return [
        {"id": answer.question["id"], "answer_source": answer.source, "value": float(value)}
        for answer, value in zip(answers, values, strict=True)
    ]


def _options_named(answers: Sequence[Answer], sources: Iterable[str]) -> dict[str, Counter[str]]:
    """By source how many answers there are, and how many name no option or several."""
    counts = {source: Counter({"answers": 0, "none": 0, "several": 0}) for source in sources}
    for answer in answers:
        named = len(named_options(answer.text, answer.question["options"]))
        counts[answer.source].update({"answers": 1, "none": named == 0, "several": named > 1})
    return counts


if __name__ == "__main__":
    run_program(run, output="quality")
