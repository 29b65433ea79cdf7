"""The paper's study with simulated results: the paper's numbers taken for the truth, plus noise of
a known size.
"""

from __future__ import annotations

import copy
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

import synthetic
from beamuq.evaluation.estimates import MEAN
from beamuq.methods.registry import METHODS
from beamuq_study import parquet_tables
from beamuq_study.comparison import comparison_inputs
from beamuq_study.comparison.claims.asked_claims import needed_files
from beamuq_study.comparison.comparison_inputs import STORED, ComparisonInputs, table_cell, touching
from beamuq_study.grid import Cell, questions_asked
from beamuq_study.parquet_tables import Artifact
from beamuq_study.result_files import Inputs, as_stored
from beamuq_study.study_config import STUDIES, Study

RULES, NUMBERS = comparison_inputs.read_rules(), comparison_inputs.read_paper_numbers()
RESAMPLES, SPREAD = 200, 0.03
FORMS = ("multinomial", "beamsearch")
Key = tuple[str, ...]  # answer source, metric, method, variant, setting


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((STUDIES / "paper.yaml").read_text(encoding="utf-8"))
    content["scoring"]["main"]["methods"] = list(METHODS)
    content["evaluation"]["resamples"] = RESAMPLES
    content["exhibits"] = []
    content["quality"] = content["quality"][
        :3
    ]  # the gold option names datasets that a smaller study lacks
    return content


def study(**changes: Any) -> Study:
    """``studies/paper.yaml`` with every method and small bootstraps; top-level keys replaced."""
    return Study.model_validate(copy.deepcopy(_content()) | changes)


def one_model(*datasets: str, questions: int | None = None, **changes: Any) -> Study:
    """The study cut to Gemma base's main cells, of all datasets if none is named."""
    names = list(datasets or RULES.paper.datasets)
    entry = {"recipe": "main", "models": ["gemma-3-4b-base"], "datasets": names, "scorers": ["nli"]}
    return study(grid=[entry | ({"questions": questions} if questions else {})], **changes)


def read(of: Study, folder: Path, without: tuple[str, ...] = ()) -> ComparisonInputs:
    """Results of a study from a folder that may hold more; ``without``: files whose path holds one
    of these lack.
    """
    wanted = [need for need in measured_files(of) if not any(part in need.path for part in without)]
    return ComparisonInputs(of, Inputs.read(folder, wanted, of), NUMBERS, RULES, folder)


def measured_files(of: Study) -> list[Artifact]:
    """What the comparison reads and the simulation has: estimators that only claims of ours are
    about are not.
    """
    ours = ("reference", "repeated_draws")
    return [
        need for need in needed_files(of) if need.recipe not in ours or need.kind not in EVALUATED
    ]


EVALUATED = ("evaluation", "replicates")


def write(of: Study, folder: Path, shift: float = 0.0) -> None:
    """Simulated results of a study: each of our values is the paper's number + √2 · spread · noise
    + shift.
    """
    simulated = Simulated(of, shift)
    for need in measured_files(of):
        parquet_tables.write(
            folder / need.path, need.kind, getattr(simulated, need.kind)(need), cell=need.cell
        )


class Simulated:
    """Tables of two draws from one truth: the paper's, and ours."""

    def __init__(self, of: Study, shift: float) -> None:
        self.study, self.shift = of, shift
        self.rows: dict[Cell, dict[Key, tuple[float, float]]] = defaultdict(dict)
        doubtful = touching(comparison_inputs.read_errata(), NUMBERS, "std") != ""
        spreads = NUMBERS["printed_std"].mask(doubtful).fillna(SPREAD)
        keys = as_stored(of, NUMBERS)[STORED].itertuples(index=False)
        means = []
        for row, stored, spread in zip(NUMBERS.itertuples(), keys, spreads, strict=True):
            table = RULES.tables[row.table]  # type: ignore[index]
            place = (table, row.model, (table.answer_source, *stored), (row.printed, spread))
            if row.dataset == MEAN:
                means.append(place)
            elif table.part != "accuracy":
                self._add(*place, [str(row.dataset)])
        for of_mean in means:  # of cells that the paper has in the mean alone
            self._add(*of_mean, list(RULES.paper.datasets))
        for rows in self.rows.values():
            for key in [key for key in rows if key[2:4] == ("SemanticEntropy", "multinomial")]:
                for form in ("printed", "likelihood-summed"):
                    rows[*key[:4], form] = (rows[key][0] - 0.3, rows[key][1])

    def _add(
        self, table: Any, model: Any, key: Key, value: tuple[float, float], datasets: Sequence[str]
    ) -> None:
        for dataset in datasets:
            if cell := model in self.study.models and table_cell(self.study, table, model, dataset):
                self.rows[cell].setdefault(key, value)

    def _n(self, need: Artifact) -> int:
        return questions_asked(self.study, _cell(need))

    def _draws(
        self, need: Artifact
    ) -> Iterator[tuple[dict[str, Any], float, float, np.ndarray[Any, Any]]]:
        widths, measured = need.recipe == "beam_widths", self.rows[_cell(need)]
        if widths:
            forms = [
                (method, variant)
                for method in self.study.scoring["beam_widths"].methods
                for variant in FORMS
            ]
            points = [(form, M) for form in forms for M in range(1, 16)]
            measured = {
                ("greedy", "PRR", *form, f"M={M}"): (curve(*form, M), SPREAD) for form, M in points
            }
        # half of what spreads a method's replicates is shared by all methods of the cell: they are
        # paired
        shared = _random(need.model, need.dataset, need.recipe).normal(size=RESAMPLES)
        for key, (truth, spread) in measured.items():
            row = dict(
                zip(("answer_source", "metric", "method", "variant", "setting"), key, strict=True)
            )
            noise = _random(*_cell(need).place.values(), need.recipe, need.scorer, key)
            value = truth if widths else truth + np.sqrt(2) * spread * noise.normal() + self.shift
            own = noise.normal(size=RESAMPLES) * (
                0.1 if widths else 1.0
            )  # neighbouring M are alike
            drawn = value + spread * np.sqrt(0.5) * (shared + own)
            yield row | {"quality": "alignscore", "subset": "all"}, value, spread, drawn

    def evaluation(self, need: Artifact) -> list[dict[str, Any]]:
        n = self._n(need)
        return [
            row | {"value": v, "low": v - 2 * s, "high": v + 2 * s, "std": s, "n": n, "note": ""}
            for row, v, s, _ in self._draws(need)
        ]

    def replicates(self, need: Artifact) -> list[dict[str, Any]]:
        return [
            row | {"values": drawn.astype(np.float32)} for row, _, _, drawn in self._draws(need)
        ]

    def questions(self, need: Artifact) -> list[dict[str, Any]]:
        ids = [f"{need.dataset}-{i}" for i in range(self.study.datasets[need.dataset].questions)]
        return [{"id": key, "question": key, "group": key} | synthetic.EMPTY for key in ids]

    def quality(self, need: Artifact) -> pa.Table:
        n, accuracies = self._n(need), NUMBERS[NUMBERS["table"] == "tab:base_accs"]
        here = (accuracies["model"] == need.model) & (accuracies["dataset"] == need.dataset)
        correct = np.zeros(n)
        right = round(accuracies.loc[here, "printed"].iloc[0] * n)
        correct[_random(need.model, need.dataset, "which").permutation(n)[:right]] = 1.0
        ids = [f"{need.dataset}-{i}" for i in range(n)]
        return pa.table({"id": ids, "answer_source": ["greedy"] * n, "value": correct})

    def scores(self, need: Artifact) -> pa.Table:
        """Beams follow the quality more closely than samples."""
        quality = self.quality(need)
        right, ids, parts = quality.column("value").to_numpy(), quality.column("id").to_pylist(), []
        for method in RULES.families.methods:
            for variant, noise in zip(FORMS, (1.5, 0.5), strict=True):
                value = -right + noise * _random(need.model, need.dataset, method, variant).normal(
                    size=len(right)
                )
                names = {
                    "answer_source": "greedy",
                    "method": method,
                    "variant": variant,
                    "setting": "",
                }
                columns = {name: [text] * len(right) for name, text in names.items()}
                parts.append(pa.table({"id": ids, **columns, "value": value}))
        return pa.concat_tables(parts)

    def candidates(self, need: Artifact) -> list[dict[str, Any]]:
        size, rows = self.study.recipes[need.recipe].sample, []
        assert size is not None
        for i in range(self._n(need)):
            random, length, key = (
                _random(need.model, need.dataset, i),
                2 + i % 10,
                f"{need.dataset}-{i}",
            )
            rows.append(candidate(key, "greedy", 0, 0, length, -0.5))
            for rank in range(size.size):
                drawn = int(random.integers(0, 3 if length <= 4 else 40))
                rows.append(candidate(key, "sample T=1.0", rank, drawn, length, -1.0 - drawn))
            rows += [
                candidate(key, "beam M=10", rank, rank, length, -0.5 - rank) for rank in range(10)
            ]
        return rows

    def similarity(self, need: Artifact) -> list[dict[str, Any]]:
        ids, nothing = (
            [f"{need.dataset}-{i}" for i in range(self._n(need))],
            {"neutral": None, "contradict": None},
        )
        return [
            {
                "id": key,
                "premise": "answer 0",
                "hypothesis": f"answer {other}",
                "entail": 1 / (1 + other),
                **nothing,
            }
            for key in ids
            for other in range(40)
        ]


def curve(method: str, variant: str, M: int) -> float:
    """PRR against M: beams rise to .7 by M = 5, samples more slowly to .6; Semantic Entropy stays
    below.
    """
    if method == "SemanticEntropy":
        return 0.3
    return (
        0.7 - 0.35 * (5 - min(M, 5)) / 4 if variant == "beamsearch" else 0.6 - 0.2 * (15 - M) / 14
    )


def _cell(need: Artifact) -> Cell:
    return Cell(need.model, need.dataset, need.recipe, need.scorer)


def _random(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def candidate(
    key: str, strategy: str, rank: int, code: int, length: int, logprob: float
) -> dict[str, Any]:
    """A candidate whose text is ``answer CODE``."""
    return synthetic.candidate(
        key, strategy, rank, f"answer {code}", [code] * (length - 1) + [99], logprob
    )
