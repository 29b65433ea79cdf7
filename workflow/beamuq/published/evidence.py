"""What the measures of claims read of a run, and how a measurement is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from beamuq.evaluation.bootstrap import Difference
from beamuq.evaluation.corrections import holm
from beamuq.exhibits.candidates import Candidates
from beamuq.exhibits.measured import Key
from beamuq.exhibits.scored import Scored
from beamuq.needs import Need
from beamuq.published.declared import Declared
from beamuq.published.results import Cell, Results, paired
from beamuq.published.values import Printed, incomparable
from beamuq.study import Study

Part = Literal["yes", "partly", "no", "-"]


class NotRunError(Exception):
    """What a claim needs and the run lacks, in a few words."""


@dataclass(frozen=True)
class Verdict:
    """Whether the sign, the size and the significance are as claimed ("-": not claimed), and what was found."""

    sign: Part
    size: Part
    significance: Part
    found: str

    @property
    def status(self) -> str:
        """supported: all that is claimed holds; not supported: the sign is wrong, or nothing holds; else partly."""
        parts = [part for part in (self.sign, self.size, self.significance) if part != "-"]
        if self.sign == "no" or all(part == "no" for part in parts):
            return "not supported"
        return "supported" if all(part == "yes" for part in parts) else "partly"


@dataclass(frozen=True)
class Evidence:
    """A run, the printed values, the declared rules and the paired differences."""

    results: Results
    values: Sequence[Printed]
    declared: Declared
    differences: pd.DataFrame

    @property
    def study(self) -> Study:
        return self.results.study

    def cell(self, model: str, dataset: str, recipe: str) -> Cell:
        """A cell under the main scorer. Raises NotRunError if it was not run or is not the paper's."""
        self.check(model, [dataset], scored=True)
        found = self.results.cell(Need("evaluation", dataset, model, recipe, scorer=self.study.main.scorer))
        if found is None:
            raise NotRunError(f"{model}/{dataset}/{recipe} was not run")
        return found

    def main(self, model: str, dataset: str) -> Cell:
        """A cell of the main recipe."""
        return self.cell(model, dataset, self.study.main.recipe)

    def check(self, model: str, datasets: Sequence[str], *, scored: bool = False) -> None:
        """Raises NotRunError if the study has no such model or dataset, or they are not as in the paper."""
        if model not in self.study.models or any(dataset not in self.study.datasets for dataset in datasets):
            raise NotRunError(f"the study has no {model} on {', '.join(datasets)}")
        scorer = self.study.main.scorer if scored else ""
        if reason := incomparable(self.study, self.declared, model, datasets, scorer=scorer):
            raise NotRunError(f"not comparable: {reason}")

    def candidates(self, model: str, dataset: str) -> Candidates:
        """The main recipe's candidates of a cell."""
        self.check(model, [dataset])
        needs = candidate_needs(self.study, model, dataset)
        self.require(needs)
        return Candidates(self.results.inputs, *needs)

    def scored(self, model: str, dataset: str) -> Scored:
        """The main recipe's scores and quality of a cell, by question."""
        self.check(model, [dataset], scored=True)
        needs = score_needs(self.study, model, dataset)
        self.require(needs)
        scores, quality, questions = needs
        return Scored(self.results.inputs, scores, quality, questions)

    def require(self, needs: Sequence[Need]) -> None:
        """Raises NotRunError if a file is not there."""
        for need in needs:
            if need not in self.results.present:
                raise NotRunError(f"{need.path} was not run")

    def difference(self, cells: Sequence[Cell], a: Key, b: Key) -> Difference:
        """Mean over cells of a − b, paired. Raises NotRunError if either was not measured."""
        for cell in cells:
            for key in (a, b):
                if key not in cell or cell[key].value is None:
                    raise NotRunError(f"{cell.path} has no value for {' '.join(filter(None, key))}")
        return paired(cells, a, b, self.study.evaluation.confidence)

    def share_significant(self, found: Sequence[Difference], sign: int = 1) -> float:
        """The share of differences of this sign that are significant, Holm over all of them."""
        p = [d.p if d.p is not None else 1.0 for d in found]
        small = holm(p, len(p)) < self.declared.claims.level
        right = [d.value is not None and d.value * sign > 0 for d in found]
        return float(np.mean(small & np.array(right)))


def candidate_needs(study: Study, model: str, dataset: str) -> list[Need]:
    """Candidates of the main recipe, and the questions for their order and groups."""
    return [Need("candidates", dataset, model, study.main.recipe), Need("questions", dataset)]


def score_needs(study: Study, model: str, dataset: str) -> list[Need]:
    """Scores and quality of the main recipe, and the questions."""
    recipe = study.main.recipe
    return [
        Need("scores", dataset, model, recipe, study.main.scorer),
        Need("quality", dataset, model, recipe, metric=study.quality.metric),
        Need("questions", dataset),
    ]


def share_as(share: float, most: float = 1.0) -> Part:
    """All (or at least ``most``): yes; more than half: partly; else no."""
    return "yes" if share >= most else "partly" if share > 0.5 else "no"


def some_as(share: float, most: float = 1.0) -> Part:
    """All (or at least ``most``): yes; any: partly; none: no."""
    return "yes" if share >= most else "partly" if share > 0 else "no"


def within(value: float, std: float, printed: Sequence[float], z: float) -> Part:
    """Whether a printed range (low, high) is as near as two such measurements may lie: print's spread taken as ours."""
    low, high = printed
    distance = max(low - value, value - high, 0.0)
    return "yes" if distance < z * np.sqrt(2) * std or distance == 0 else "no"
