"""Hold the scores of a study that was run again against those published.

``python tools/scores_again.py results/small evidence/small --recipe main`` compares each published
cell of a recipe: the questions, the forms of methods, each question's scores, and PRR. Forms that
only the new run has are named and not compared. Another machine, or other questions in a batch,
moves a log-probability by about 1e-5, and near a tie an answer or a draw; hence the shares.
It exits with 1 if a cell differs by more, or was not run. With ``--so-far`` cells, questions and
forms may lack; they are counted, and of a part of a cell's questions no PRR is compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from beamuq.errors import BeamUQError
from beamuq_study.parquet_tables import read

TOLERANCE = 1e-3  # of a score, relative where it is above 1
MOST_DIFFERING = 0.02  # the share of questions of a form whose scores may differ by more
MOST_PRR = 0.01
FORM = ["answer_source", "method", "variant", "setting"]
EVALUATED = [*FORM, "quality", "subset", "metric"]


@dataclass(frozen=True)
class Counts:
    """What of a cell is compared."""

    questions: int
    published_questions: int
    forms: int
    further: int  # forms that the published scores lack
    missing: int  # published forms that were not scored

    def __str__(self) -> str:
        return (
            f"{self.questions:,} questions, {self.forms} forms ({self.further} new ones not "
            f"compared, {self.missing} not scored)"
        )


@dataclass(frozen=True)
class Comparison:
    """A cell that was run again."""

    name: str
    counts: Counts
    faults: Sequence[str] = ()  # what cannot be compared at all
    differing: float = 0.0  # the largest share of questions over forms
    of_form: str = ""
    prr: float | None = None  # the largest difference; None: of a part of the questions
    of_prr: str = ""

    @property
    def agrees(self) -> bool:
        within = self.differing <= MOST_DIFFERING and (self.prr or 0.0) <= MOST_PRR
        return within and not self.faults

    def __str__(self) -> str:
        outcome = "agrees" if self.agrees else "DIFFERS"
        if self.faults:
            return f"{self.name}: {outcome}: {'; '.join(self.faults)}"
        prr = f"PRR not compared: {self.counts.published_questions:,} questions are published"
        if self.prr is not None:
            prr = f"PRR by at most {self.prr:.4f} ({self.of_prr})"
        return (
            f"{self.name}: {outcome}: {self.counts}; of a form at most {self.differing:.2%} of the "
            f"questions differ by more than {TOLERANCE:g} ({self.of_form}); {prr}"
        )


def compared(name: str, run: Path, published: Path, *, so_far: bool = False) -> Comparison:
    """One cell's scores and PRR beside those published.

    ``name``: its file below ``scores`` and ``evaluation``. ``so_far``: questions and forms may
    lack; PRR is compared where all questions are there. Raises BeamUQError for a bad file.
    """
    scores = _read(run / "scores" / name, "scores")
    all_published = _read(published / "scores" / name, "scores")
    held_against = _those_run(all_published, scores) if so_far else all_published
    counts = _counts(scores, all_published, held_against)
    faults = _faults(scores, held_against)
    if faults:
        return Comparison(name, counts, faults)
    differing, of_form = _largest_share(scores, held_against)
    if counts.questions < counts.published_questions:
        return Comparison(name, counts, (), differing, of_form)
    evaluation = _read(run / "evaluation" / name, "evaluation")
    published_evaluation = _read(published / "evaluation" / name, "evaluation")
    prr, of_prr = _largest_prr(evaluation, _those_of(held_against, published_evaluation))
    return Comparison(name, counts, (), differing, of_form, prr, of_prr)


def _counts(scores: pd.DataFrame, published: pd.DataFrame, held_against: pd.DataFrame) -> Counts:
    """What is compared of the scores of a run: what is published, and the part of it that is."""
    run_forms, published_forms, forms = (
        len(frame[FORM].drop_duplicates()) for frame in (scores, published, held_against)
    )
    return Counts(
        questions=held_against["id"].nunique(),
        published_questions=published["id"].nunique(),
        forms=forms,
        further=run_forms - forms,
        missing=published_forms - forms,
    )


def _read(path: Path, kind: str) -> pd.DataFrame:
    frame: pd.DataFrame = read(path, kind).table.to_pandas()
    return frame


def _those_run(published: pd.DataFrame, scores: pd.DataFrame) -> pd.DataFrame:
    """The published scores of the questions and forms that were run."""
    return _those_of(scores, published[published["id"].isin(scores["id"])])


def _those_of(scores: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the forms that stand in scores."""
    return rows.merge(scores[FORM].drop_duplicates(), on=FORM)


def _faults(scores: pd.DataFrame, published: pd.DataFrame) -> list[str]:
    """Questions or forms that only one has, but for new forms."""
    faults = []
    only_one = set(scores["id"]) ^ set(published["id"])
    if only_one:
        faults.append(f"{len(only_one)} questions are in one alone, such as {min(only_one)!r}")
    lost = set(map(tuple, published[FORM].to_numpy())) - set(map(tuple, scores[FORM].to_numpy()))
    if lost:
        faults.append(f"{len(lost)} forms were not scored, such as {' '.join(min(lost)).strip()!r}")
    return faults


def _largest_share(scores: pd.DataFrame, published: pd.DataFrame) -> tuple[float, str]:
    """Over forms the largest share of questions whose scores differ, and whose it is."""
    keys = ["id", *FORM]
    both = published.merge(scores, "left", on=keys, suffixes=("_published", ""), validate="1:1")
    scale = np.maximum(1.0, both["value_published"].abs())
    # written so that a missing value differs
    both["differs"] = ~((both["value"] - both["value_published"]).abs() <= TOLERANCE * scale)
    return _largest(both.groupby(FORM, observed=True)["differs"].mean())


def _largest_prr(evaluation: pd.DataFrame, published: pd.DataFrame) -> tuple[float, str]:
    """The largest difference in PRR of all questions, and of what it is; NaN if one is lost."""
    rows = published[published["metric"].str.startswith("PRR") & (published["subset"] == "all")]
    both = rows.merge(evaluation, "left", on=EVALUATED, suffixes=("_published", ""), validate="1:1")
    defined = both[both["value_published"].notna()]
    difference = (defined["value"] - defined["value_published"]).abs()
    of_form = difference.fillna(np.inf).groupby([defined[name] for name in EVALUATED]).max()
    return _largest(of_form)


def _largest(by_form: pd.Series[float]) -> tuple[float, str]:
    place = int(by_form.to_numpy().argmax())
    words = [str(word) for word in by_form.index[place] if word]
    return float(by_form.iloc[place]), " ".join(words)


def cells(published: Path, recipe: str) -> list[str]:
    """The published cells of a recipe, as files below ``scores``."""
    folder = published / "scores"
    names = [str(path.relative_to(folder)) for path in folder.rglob(f"{recipe}.parquet")]
    if not names:
        raise BeamUQError(f"{folder}: holds no cell of recipe {recipe!r}; name another --recipe")
    return sorted(names)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of the study's results")
    parser.add_argument("published", type=Path, help="folder below evidence/")
    parser.add_argument("--recipe", default="main")
    parser.add_argument("--so-far", action="store_true", help="cells, questions and forms may lack")
    options = parser.parse_args(arguments)
    names = cells(options.published, options.recipe)
    is_run = {name: (options.run / "scores" / name).is_file() for name in names}
    comparisons = [
        compared(name, options.run, options.published, so_far=options.so_far)
        for name in names
        if is_run[name]
    ]
    missing = [name for name in names if not is_run[name]]
    for comparison in comparisons:
        print(comparison)
    for name in missing:
        print(f"{name}: not run")
    agree = all(comparison.agrees for comparison in comparisons)
    complete = options.so_far or not missing
    return 0 if agree and complete and comparisons else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BeamUQError as error:
        sys.exit(str(error))
