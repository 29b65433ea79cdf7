"""Which arm lies nearest to print, and how surely."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from beamuq import parquet_tables
from beamuq.comparison.measured_results import MeasuredResults
from beamuq.comparison.printed_numbers import MEAN, MeasuredPlace
from beamuq.comparison.release_like_arms import changes, nearest_arm
from beamuq.exhibits.exhibit_inputs import Inputs
from beamuq.exhibits.read_evaluation import Key, Measured
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study
from simulated_paper_run import study

RESAMPLES = 500


def measured(value: float, spread: float = 0.005) -> Measured:
    replicates = value + np.random.default_rng(int(value * 1e6)).normal(scale=spread, size=RESAMPLES)
    return Measured(value, None, None, spread, 100, replicates=replicates)


class Cell(dict[Key, Measured]):
    def replicates(self, key: Key) -> Any:
        return self[key].replicates

    def left_out(self, answer_source: str) -> bool:
        del answer_source
        return False


class Arm:
    """Results of the recipe ``released`` alone, the same in every dataset."""

    def __init__(self, values: dict[str, float], variant: str, of: Study | None = None) -> None:
        self.study = of or study()
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
        # a model that ships no sampling: both arms are the same, and the beams are what differs
        ("beamsearch", "greedy", {"shipped": 0.59, "greedy": 0.59}, "as the release searches beams: 0.590"),
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


N = 40
OF = {"dataset": "coqa", "model": "gemma-3-4b-base", "metric": "alignscore"}
MAIN, RELEASED = Artifact("quality", recipe="main", **OF), Artifact("quality", recipe="released", **OF)


def answered(folder: Path, right: dict[Artifact, dict[str, int]]) -> MeasuredResults:
    """Results in which so many of forty answers are right, by produced answer: the first so many."""
    asked = Artifact("questions", "coqa")
    empty: dict[str, Any] = {"context": [], "history": [], "options": [], "references": []}
    rows = [{"id": f"q{i:02}", "question": "?", "group": f"story {i // 2}", **empty} for i in range(N)]
    parquet_tables.write(folder / asked.path, "questions", rows, cell=asked.cell)
    for file, counts in right.items():
        judged = [
            {"id": f"q{i:02}", "answer_source": source, "value": float(i < count)}
            for source, count in counts.items()
            for i in range(N)
        ]
        parquet_tables.write(folder / file.path, "quality", judged, cell=file.cell)
    return MeasuredResults(study(), Inputs.read(folder, [asked, *right]), [asked, *right])


def test_an_accuracy_that_differs_is_held_against_that_of_the_drawn_answer(tmp_path: Path) -> None:
    results = answered(tmp_path, {MAIN: {"greedy": 20}, RELEASED: {"greedy": 20, "shipped": 32}})
    at = MeasuredPlace((MAIN,), Key("accuracy", "", ""))
    ours = results.accuracy(MAIN)
    assert ours
    found = nearest_arm(results, at, ours, 0.81, 0.001)
    assert found.startswith("as the release draws the answer: 0.800, nearest in ")
    assert nearest_arm(results, at, ours, 0.45, 0.001).startswith("the main recipe: 0.500, nearest in ")
    assert nearest_arm(answered(tmp_path, {MAIN: {"greedy": 20}}), at, ours, 0.81, 0.001) == ""


def test_a_resampled_accuracy_draws_stories_and_has_the_mean_of_the_answers(tmp_path: Path) -> None:
    found = answered(tmp_path, {MAIN: {"greedy": 20}}).accuracy(MAIN, resampled=True)
    assert found
    assert found.replicates is not None
    assert found.replicates.mean() == pytest.approx(0.5, abs=0.03)
    assert set(np.round(found.replicates * 20, 9) % 1) == {0.0}  # of twenty stories, each right or wrong as a whole
    assert found.replicates.std() == pytest.approx((0.25 / 20) ** 0.5, rel=0.15)


class Both(Arm):
    """The main recipe's and the arm's cells of two datasets; of other datasets there is nothing."""

    def __init__(self, main: dict[str, float], arm: dict[str, float], questions: int = 100) -> None:
        super().__init__({}, "")
        self.cells = {"main": cell_of(main, 100), "released": cell_of(arm, questions)}

    def cell(self, file: Artifact) -> Any:
        here = file.model == "gemma-3-4b-base" and file.dataset in ("triviaqa", "coqa")
        return self.cells[file.recipe] if here else None

    def accuracy(self, *_: object, **__: object) -> None:
        return None


class MadeCell(Cell):
    questions = 100

    @property
    def measured(self) -> list[Key]:
        return list(self)


def cell_of(values: dict[str, float], questions: int) -> MadeCell:
    rng = np.random.default_rng(3).normal(scale=0.1, size=RESAMPLES)  # the same resamples: what differs is the value
    found = MadeCell()
    for source, value in values.items():
        for variant in ("multinomial", "beamsearch"):
            key = Key("PRR", "Dissimilarity", variant, "", source)
            found[key] = Measured(value, None, None, 0.1, 100, replicates=value + rng)
    found.questions = questions
    return found


def test_what_the_arm_changes_is_paired_and_needs_no_printed_number() -> None:
    results: Any = Both({"greedy": 0.5, "top_beam": 0.4}, {"greedy": 0.55, "top_beam": 0.3, "shipped": 0.7})
    found = changes(results, "PRR").set_index(["arm", "answer", "variant", "dataset"])
    assert set(found.index.get_level_values("dataset")) == {MEAN, "triviaqa", "coqa"}
    differences = {key[:3]: row["difference"] for key, row in found.iterrows() if key[3] == MEAN}
    searched, drawn = "as the release searches beams", "as the release draws the answer"
    assert differences == {
        (searched, "greedy", "beamsearch"): pytest.approx(0.05),
        (drawn, "greedy", "multinomial"): pytest.approx(0.2),
        (drawn, "greedy", "beamsearch"): pytest.approx(0.2),
        (searched, "top_beam", "multinomial"): pytest.approx(-0.1),
        (searched, "top_beam", "beamsearch"): pytest.approx(-0.1),
    }
    row = found.loc[(drawn, "greedy", "multinomial", MEAN)]
    assert (row["low"], row["high"]) == (pytest.approx(0.2), pytest.approx(0.2))  # unpaired it would be .4 wide
    assert (row["main"], row["released"], row["n"]) == (0.5, 0.7, 200)


def test_cells_of_other_questions_are_not_paired() -> None:
    assert changes(Both({"greedy": 0.5}, {"greedy": 0.6, "shipped": 0.7}, questions=90), "PRR").empty  # type: ignore[arg-type]


def changed(recipe: dict[str, Any], beam: dict[str, Any], entry: dict[str, Any], main: str = "main") -> Study:
    """The paper's study with another release-like recipe, asked in another place, or another main recipe."""
    found = study()
    released = found.recipes["released"]
    assert released.beam
    released = released.model_copy(update={"beam": released.beam.model_copy(update=beam)} | recipe)
    grid = [each.model_copy(update=entry) if each.recipe == "released" else each for each in found.grid]
    settings = found.main.model_copy(update={"recipe": main})
    return found.model_copy(update={"recipes": found.recipes | {"released": released}, "grid": grid, "main": settings})


@pytest.mark.parametrize(
    "other",
    [
        changed({"shipped": False}, {}, {}),
        changed({"beam": None}, {}, {}),
        changed({}, {"length_penalty": 0.0}, {}),
        changed({}, {"early_stopping": True}, {}),
        changed({}, {}, {"models": ["llama-3.1-8b-instruct"]}),
        changed({}, {}, {"datasets": ["triviaqa"]}),
        changed({}, {}, {"questions": 200}),
        changed({}, {}, {}, main="released"),
    ],
)
def test_what_does_not_decode_as_the_release_or_asks_elsewhere_is_no_arm(other: Study) -> None:
    where = place("multinomial", "greedy")
    files = tuple(replace(file, recipe=other.main.recipe) for file in where.files)
    assert nearest_arm(Arm({"shipped": 0.6}, "multinomial"), where, measured(0.5), 0.6, 0.01)  # type: ignore[arg-type]
    arm = Arm({"shipped": 0.6}, "multinomial", other)
    assert nearest_arm(arm, replace(where, files=files), measured(0.5), 0.6, 0.01) == ""  # type: ignore[arg-type]


def test_an_arm_that_covers_the_cell_is_found_behind_one_that_does_not() -> None:
    elsewhere = changed({}, {}, {})
    recipes = {"elsewhere": elsewhere.recipes["released"], **elsewhere.recipes}
    arm = Arm({"shipped": 0.6}, "multinomial", elsewhere.model_copy(update={"recipes": recipes}))
    assert "0.600" in nearest_arm(arm, place("multinomial", "greedy"), measured(0.5), 0.6, 0.01)  # type: ignore[arg-type]
