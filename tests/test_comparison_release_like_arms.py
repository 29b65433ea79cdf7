"""Which arm lies nearest to print, and how surely."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from beamuq.comparison.printed_numbers import MeasuredPlace
from beamuq.comparison.release_like_arms import nearest_arm
from beamuq.exhibits.read_evaluation import Key, Measured
from beamuq.parquet_tables import Artifact
from simulated_paper_run import study

RESAMPLES = 500


def measured(value: float, spread: float = 0.005) -> Measured:
    replicates = value + np.random.default_rng(int(value * 1e6)).normal(scale=spread, size=RESAMPLES)
    return Measured(value, None, None, spread, 100, replicates=replicates)


class Cell(dict[Key, Measured]):
    def replicates(self, key: Key) -> Any:
        return self[key].replicates


class Arm:
    """Results of the recipe ``released`` alone, the same in every dataset."""

    def __init__(self, values: dict[str, float], variant: str) -> None:
        self.study = study()
        self.rows = Cell({Key("PRR", "Dissimilarity", variant, "", name): measured(v) for name, v in values.items()})

    def cell(self, file: Artifact) -> Cell | None:
        return self.rows if file.recipe == "released" and self.rows else None


def place(variant: str, answer_source: str, datasets: tuple[str, ...] = ("coqa",)) -> MeasuredPlace:
    files = tuple(Artifact("evaluation", name, "gemma-3-4b-base", "main", "nli") for name in datasets)
    return MeasuredPlace(files, Key("PRR", "Dissimilarity", variant, "", answer_source))


@pytest.mark.parametrize(
    ("variant", "answer_source", "arm", "told"),
    [
        ("beamsearch", "greedy", {"shipped": 0.59, "greedy": 0.55}, "as the release draws the answer: 0.590"),
        ("beamsearch", "greedy", {"shipped": 0.45, "greedy": 0.61}, "as the release searches beams: 0.610"),
        ("multinomial", "greedy", {"shipped": 0.45, "greedy": 0.61}, "the main recipe: 0.500"),
        ("beamsearch", "top_beam", {"shipped": 0.60, "top_beam": 0.58}, "as the release searches beams: 0.580"),
    ],
)
def test_the_nearest_arm_is_named_with_its_share(
    variant: str, answer_source: str, arm: dict[str, float], told: str
) -> None:
    found = nearest_arm(Arm(arm, variant), place(variant, answer_source), measured(0.5), 0.6, 0.001)  # type: ignore[arg-type]
    assert found == f"{told}, nearest in 100% of {RESAMPLES} resamples"


def test_a_printed_spread_makes_it_unsure() -> None:
    arm = Arm({"shipped": 0.6}, "multinomial")
    found = nearest_arm(arm, place("multinomial", "greedy"), measured(0.5), 0.56, 0.1)  # type: ignore[arg-type]
    assert found.startswith("as the release draws the answer: 0.600, nearest in ")
    assert 50 <= int(found.split()[-4].removesuffix("%")) <= 65


def test_a_mean_takes_every_dataset_and_no_arm_says_nothing() -> None:
    datasets = tuple(study().datasets)
    arm = Arm({"shipped": 0.6}, "multinomial")
    assert "0.600" in nearest_arm(arm, place("multinomial", "greedy", datasets), measured(0.5), 0.6, 0.01)  # type: ignore[arg-type]
    assert nearest_arm(Arm({}, ""), place("multinomial", "greedy"), measured(0.5), 0.6, 0.01) == ""  # type: ignore[arg-type]
