"""What every exhibit says of empty produced answers, and what it reads where only the answered questions count.

A model that has nothing to say is certain of it, so whatever follows probability ranks such answers as the surest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import pyarrow as pa
import pyarrow.compute as pc

from beamuq.errors import BeamUQError
from beamuq.exhibits import captions
from beamuq.exhibits.exhibit_inputs import Inputs, distinct
from beamuq.judged_answer import AnswerSource, produced_texts, strategy_of
from beamuq.parquet_tables import ALL, ANSWERED, Artifact, Loaded
from beamuq.study_config import Study

MOST_EMPTY = 0.2
MARK = " †"
ALL_EMPTY = "in every cell more than a fifth of the answers are empty"
MARK_SENTENCE = {
    ALL: "†: more than a fifth of the answers are empty, and the cell is left out of means.",
    ANSWERED: "†: more than a fifth of the answers are empty; only the answered questions count here.",
}

_OF_QUESTIONS = ("candidates", "quality", "scores")


@dataclass(frozen=True)
class Empty:
    """How many of a cell's ``n`` produced answers are empty."""

    empty: int
    n: int

    @property
    def too_many(self) -> bool:
        """Whether a mean may not have the cell: what is measured there is how empty answers rank."""
        return self.empty > MOST_EMPTY * self.n


def empty_answers(evaluation: pa.Table) -> dict[str, Empty]:
    """By answer source; a file of a version that did not measure the answered questions apart tells of none."""
    counted = evaluation.select(["answer_source", "subset", "n"]).group_by(["answer_source", "subset"])
    n = {(row["answer_source"], row["subset"]): row["n_max"] for row in counted.aggregate([("n", "max")]).to_pylist()}
    return {of: Empty(n[of, ALL] - answered, n[of, ALL]) for (of, subset), answered in n.items() if subset == ANSWERED}


def sentence(
    study: Study, inputs: Inputs, files: Sequence[Artifact], answer_source: str = "greedy", subset: str = ALL
) -> str:
    """How many produced answers are empty, by cell of an exhibit's files; nothing for an exhibit without cells."""
    found: dict[tuple[str, str, str], Empty | None] = {}
    for file in files:
        if file.model and file.recipe:
            cell = (file.model, file.dataset, file.recipe)
            found[cell] = found.get(cell) or _of_file(study, inputs[file], answer_source)
    if not found:
        return ""
    recipes = {recipe for *_, recipe in found}
    some: dict[str, list[str]] = {}  # of each model
    unknown: list[str] = []
    none = 0
    for (model, dataset, recipe), of in found.items():
        title, place = study.models[model].title, study.datasets[dataset].title
        place += f" in recipe {recipe}" if len(recipes) > 1 else ""
        if of is None:
            unknown.append(f"{title} on {place}")
        elif of.empty:
            some.setdefault(title, []).append(f"{place} {of.empty} of {of.n}{MARK * of.too_many}")
        else:
            none += 1
    told = [f"{title} on {', '.join(cells)}" for title, cells in some.items()]
    if none:
        told.append("none in the other cells" if some or unknown else "none")
    if unknown:
        told.append(f"not recorded for {captions.listing(unknown)}")
    mark = f" {MARK_SENTENCE[subset]}" if any(of and of.too_many for of in found.values()) else ""
    return f"Empty {answer_source.replace('_', '-')} answers: {'; '.join(told)}.{mark}"


def of_questions(subset: str, answer_source: str = "greedy") -> str:
    """What an exhibit says of its questions where they are the answered ones alone, else nothing."""
    source = answer_source.replace("_", "-")
    return f"questions whose {source} answer is not empty" if subset == ANSWERED else ""


def answered_files(files: Sequence[Artifact]) -> list[Artifact]:
    """What says which questions are answered in the cells that ``files`` tell question by question: candidates."""
    return [Artifact("candidates", f.dataset, f.model, f.recipe) for f in files if f.kind in _OF_QUESTIONS]


def of_answered(study: Study, inputs: Inputs, files: Sequence[Artifact], answer_source: str = "greedy") -> Inputs:
    """``files`` as if the questions whose produced answer is empty had not been asked.

    Of a file that tells of several produced answers, each has its own; any other, those of ``answer_source``.

    Raises BeamUQError if a cell has no other question.
    """
    cells = distinct(answered_files(files))
    empty = {file: _empty_ids(study, file.recipe, inputs[file], answer_source) for file in cells}
    found = {}
    for file in files:
        table = inputs[file].table
        if file.kind in _OF_QUESTIONS:
            ids = empty[Artifact("candidates", file.dataset, file.model, file.recipe)]
            table = _without(table, ids, answer_source)
        elif file.kind in ("evaluation", "replicates"):
            table = _of_subset(table, empty_answers(inputs[replace(file, kind="evaluation")].table))
        found[file] = replace(inputs[file], table=table)
    return Inputs(found)


def _empty_ids(study: Study, recipe: str, candidates: Loaded, answer_source: str) -> dict[str, set[str]]:
    """By answer source the ids of the questions whose produced answer is empty."""
    decoded = candidates.table.column("strategy").unique().to_pylist()
    beam = study.recipes[recipe].decoded(study.main.beam)
    sources = [
        name for name in get_args(AnswerSource) if (name != "top_beam" or beam) and strategy_of(name, beam) in decoded
    ]
    found = {}
    for name, texts in produced_texts(candidates.table, sources, beam).items():
        found[name] = {key for key, text in texts.items() if not text}
        if name == answer_source and len(found[name]) == len(texts):
            raise BeamUQError(f"{candidates.path}: every {name} answer is empty; drop this exhibit")
    return found


def _without(table: pa.Table, empty: dict[str, set[str]], answer_source: str) -> pa.Table:
    """The rows of answered questions."""
    ids = table.column("id").to_pylist()
    several = "answer_source" in table.column_names
    sources = table.column("answer_source").to_pylist() if several else [answer_source] * len(ids)
    return table.filter(pa.array([key not in empty[of] for key, of in zip(ids, sources, strict=True)], pa.bool_()))


def _of_subset(table: pa.Table, empty: dict[str, Empty]) -> pa.Table:
    """The rows of the answered questions as if of all; where none is empty those of all are the same."""
    same = [name for name, of in empty.items() if not of.empty]
    taken = pc.if_else(pc.is_in(table.column("answer_source"), pa.array(same, pa.string())), ALL, ANSWERED)
    table = table.filter(pc.equal(table.column("subset"), taken))
    place = table.column_names.index("subset")
    return table.set_column(place, table.schema.field("subset"), pa.array([ALL] * len(table), pa.string()))


def _of_file(study: Study, loaded: Loaded, answer_source: str) -> Empty | None:
    """Counted in an evaluation or candidates, or as the footer says; None where a file does not tell."""
    if loaded.kind == "evaluation":
        return empty_answers(loaded.table).get(answer_source)
    if loaded.kind == "candidates":
        strategy = strategy_of(answer_source, study.main.beam)
        table = loaded.table.select(["strategy", "rank", "text"]).to_pandas()
        texts = table.loc[(table["strategy"] == strategy) & (table["rank"] == 0), "text"]
        return Empty(int((texts == "").sum()), len(texts)) if len(texts) else None
    return in_footer(loaded, answer_source)


def in_footer(loaded: Loaded, answer_source: str) -> Empty | None:
    """As the footer of a quality, or of decisions by it, says; None where it does not."""
    told = loaded.provenance.get("empty", {}).get(answer_source)
    return Empty(*told) if told else None
