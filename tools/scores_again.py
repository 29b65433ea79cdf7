"""Hold the scores of a study that was run again against those published.

``python tools/scores_again.py results/small evidence/small --recipe main`` compares each published
cell of a recipe: the questions, the forms of methods, each question's scores, and PRR. Forms that
only the new run has are named and not compared. Another machine, or other questions in a batch,
moves a log-probability by about 1e-5, and near a tie an answer or a draw; hence the shares.
It exits with 1 if a cell differs by more, or was not run. With ``--so-far`` cells and questions may
lack that were not run; of a part of a cell's questions no PRR is compared.
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
class Comparison:
    """A cell that was run again."""

    name: str
    questions: int
    published_questions: int
    forms: int
    differing: float  # the largest share of questions over forms
    of_form: str
    prr: float  # the largest difference
    of_prr: str
    faults: Sequence[str]  # what cannot be compared at all
    further: int  # forms that the published scores lack

    @property
    def agrees(self) -> bool:
        within = self.differing <= MOST_DIFFERING and self.prr <= MOST_PRR
        return within and not self.faults

    def __str__(self) -> str:
        outcome = "agrees" if self.agrees else "DIFFERS"
        if self.faults:
            return f"{self.name}: {outcome}: {'; '.join(self.faults)}"
        prr = f"PRR by at most {self.prr:.4f} ({self.of_prr})"
        if self.questions < self.published_questions:
            prr = f"PRR not compared: {self.published_questions:,} questions are published"
        return (
            f"{self.name}: {outcome}: {self.questions:,} questions, {self.forms} forms "
            f"({self.further} new ones not compared); of a form at most {self.differing:.2%} of "
            f"the questions differ by more than {TOLERANCE:g} ({self.of_form}); {prr}"
        )


def compared(name: str, run: Path, published: Path, *, so_far: bool = False) -> Comparison:
    """One cell's scores and PRR beside those published.

    ``name``: its file below ``scores`` and ``evaluation``. ``so_far``: questions that were not run
    may lack, and then PRR is not compared. Raises BeamUQError for a bad file.
    """
    scores = _read(run / "scores" / name, "scores")
    published_scores = _read(published / "scores" / name, "scores")
    published_questions = published_scores["id"].nunique()
    if so_far:
        published_scores = published_scores[published_scores["id"].isin(scores["id"])]
    faults = _faults(scores, published_scores)
    forms = published_scores[FORM].drop_duplicates()
    further = len(scores[FORM].drop_duplicates()) - len(forms)
    if faults:
        nothing = (0.0, "")
        counts = (0, published_questions, len(forms))
        return Comparison(name, *counts, *nothing, *nothing, faults, further)
    questions = published_scores["id"].nunique()
    counts = (questions, published_questions, len(forms))
    differing = _largest_share(scores, published_scores)
    prr = (0.0, "")
    if questions == published_questions:
        prr = _largest_prr(
            _read(run / "evaluation" / name, "evaluation"),
            _read(published / "evaluation" / name, "evaluation"),
        )
    return Comparison(name, *counts, *differing, *prr, (), further)


def _read(path: Path, kind: str) -> pd.DataFrame:
    frame: pd.DataFrame = read(path, kind).table.to_pandas()
    return frame


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
    parser.add_argument(
        "--so-far", action="store_true", help="cells and questions that were not run may lack"
    )
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
