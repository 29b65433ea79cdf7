"""What every exhibit says of empty produced answers.

A model that has nothing to say is certain of it, so whatever follows probability ranks such answers as the surest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from beamuq.evaluation.estimates import MOST_EMPTY
from beamuq.judged_answer import strategy_of
from beamuq.parquet_tables import ALL, ANSWERED, Artifact, Loaded
from beamuq.study_config import Study

if TYPE_CHECKING:
    from beamuq.exhibits.inputs import Inputs

MARK = " †"
MARK_SENTENCE = "†: more than a fifth of the answers are empty, and the cell is left out of means."


@dataclass(frozen=True)
class Empty:
    """How many of a cell's ``n`` produced answers are empty."""

    empty: int
    n: int

    @property
    def share(self) -> float:
        """The share of answers that are empty."""
        return self.empty / self.n

    @property
    def too_many(self) -> bool:
        """Whether a mean may not have the cell: what is measured there is how empty answers rank."""
        return self.share > MOST_EMPTY


def empty_answers(evaluation: pa.Table) -> dict[str, Empty]:
    """By answer source: the questions that are not among the answered ones."""
    counted = evaluation.select(["answer_source", "subset", "n"]).group_by(["answer_source", "subset"])
    n = {(row["answer_source"], row["subset"]): row["n_max"] for row in counted.aggregate([("n", "max")]).to_pylist()}
    return {of: Empty(n[of, ALL] - answered, n[of, ALL]) for (of, subset), answered in n.items() if subset == ANSWERED}


def sentence(study: Study, inputs: Inputs, files: Sequence[Artifact], answer_source: str = "greedy") -> str:
    """How many produced answers are empty, by cell of an exhibit's files; nothing for an exhibit without cells."""
    found: dict[str, Empty | None] = {}
    for file in files:
        if file.model and file.recipe:
            recipe = f", recipe {file.recipe}" * (file.recipe != study.main.recipe)
            place = f"{study.models[file.model].title} on {study.datasets[file.dataset].title}{recipe}"
            found[place] = _of_file(study, inputs[file], answer_source) or found.get(place)
    some = {place: of for place, of in found.items() if of is None or of.empty}
    told = [f"{at} {of.empty} of {of.n}{MARK * of.too_many}" if of else f"{at} not recorded" for at, of in some.items()]
    mark = f" {MARK_SENTENCE}" if any(of and of.too_many for of in some.values()) else ""
    return f"Empty {answer_source.replace('_', '-')} answers: {', '.join(told) or 'none'}.{mark}" if found else ""


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
