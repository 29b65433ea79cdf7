"""A run's measurements as the comparison reads them: by cell, for those cells that there are."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from beamuq.evaluation import bootstrap, intervals
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.read_evaluation import Key, Measured, Measurements, stored
from beamuq.parquet_tables import Artifact, read_footer
from beamuq.study_config import Study

Floats = NDArray[np.float64]


class MeasuredCell(Measurements):
    """One cell's measurements, which can be asked whether they hold one: a study may score fewer methods."""

    def __init__(self, study: Study, inputs: Inputs, evaluation: Artifact, replicates: Artifact) -> None:
        super().__init__(study, inputs, evaluation, replicates)
        self.artifact = evaluation

    @property
    def questions(self) -> int:
        """How many questions its measurements rest on, the fewest if they differ."""
        return min((row.n for row in self._rows.values()), default=0)

    def __contains__(self, key: Key) -> bool:
        return stored(key) in self._rows


class MeasuredResults:
    """What was run. ``present``: the files that are there; ``folder``: theirs."""

    def __init__(self, study: Study, inputs: Inputs, present: Sequence[Artifact], folder: Path | None = None) -> None:
        self.study, self.inputs, self.present, self.folder = study, inputs, frozenset(present), folder
        self._cells: dict[Artifact, MeasuredCell] = {}

    @classmethod
    def read(cls, study: Study, folder: Path, wanted: Sequence[Artifact], *, partial: bool = False) -> MeasuredResults:
        """Read ``wanted`` from a results folder; with ``partial``, files that are not there yet are left out.

        Raises BeamUQError if a file is missing, unreadable, or of another cell, study or run.
        """
        present = [artifact for artifact in wanted if not partial or (folder / artifact.path).is_file()]
        return cls(study, Inputs.read(folder, present, study), present, folder)

    def templates(self, model: str, datasets: Sequence[str]) -> dict[str, str]:
        """sha256 of the template of each dataset's prompts, where the prompts are beside the results."""
        style = self.study.models[model].style
        found = {dataset: self._template(Artifact("prompts", dataset, style=style)) for dataset in datasets}
        return {dataset: digest for dataset, digest in found.items() if digest}

    @cache  # noqa: B019  (one comparison reads one set of results)
    def _template(self, prompts: Artifact) -> str:
        path = self.folder / prompts.path if self.folder else None
        return str(read_footer(path).provenance.get("template_sha256", "")) if path and path.is_file() else ""

    def cell(self, evaluation: Artifact) -> MeasuredCell | None:
        """A cell's measurements with their replicates, or None where they were not run."""
        replicates = Artifact(
            "replicates", evaluation.dataset, evaluation.model, evaluation.recipe, scorer=evaluation.scorer
        )
        if evaluation not in self.present or replicates not in self.present:
            return None
        if evaluation not in self._cells:
            self._cells[evaluation] = MeasuredCell(self.study, self.inputs, evaluation, replicates)
        return self._cells[evaluation]

    def main_cell(self, model: str, dataset: str) -> MeasuredCell | None:
        """The main recipe under the main scorer."""
        main = self.study.main
        return self.cell(Artifact("evaluation", dataset, model, main.recipe, scorer=main.scorer))

    def accuracy(self, quality: Artifact) -> Measured | None:
        """The share of greedy answers with quality above the threshold; stories count as groups.

        Its std is that of its interval: where all are right, or none, the answers' own is 0 and would judge nothing.
        """
        questions = Artifact("questions", quality.dataset)
        if quality not in self.present or questions not in self.present:
            return None
        study, frame, asked = self.study, self.inputs.frame(quality), self.inputs.frame(questions)
        if "greedy" not in set(frame["answer_source"]):
            return None
        of = intervals.accuracy(frame, asked, study.main_quality.threshold, study.evaluation.confidence)
        return Measured(of.value, of.low, of.high, of.std, of.n)


def mean_and_std(values: Floats, groups: Sequence[str]) -> tuple[float, float]:
    """The mean of values [N] and its cluster-robust standard error; groups [N] are independent of one another."""
    variance, _ = intervals.cluster_robust_variance(values, groups)
    return float(values.mean()), float(np.sqrt(variance))


def paired(cells: Sequence[MeasuredCell], a: Key, b: Key, confidence: float) -> bootstrap.Difference:
    """Mean over cells of a − b, paired within each cell's resamples; cells are resampled each on its own."""
    of_a, of_b = (np.array([cell[key].value for cell in cells], dtype=np.float64) for key in (a, b))
    replicates = replicated_difference(cells, a, b)
    return bootstrap.difference(
        float(of_a.mean()), float(of_b.mean()), replicates, np.zeros_like(replicates), confidence
    )


def replicated_difference(cells: Sequence[MeasuredCell], a: Key, b: Key) -> Floats:
    """Replicates [R] of the mean over cells of a − b, NaN where any is undefined."""
    of_a, of_b = (np.stack([cell.replicates(key) for cell in cells]).astype(np.float64) for key in (a, b))
    difference: Floats = (of_a - of_b).mean(axis=0)
    return difference
