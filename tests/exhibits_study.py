"""A whole synthetic study, two models on six datasets, written as Parquet tables: input of
exhibits.
"""

from __future__ import annotations

import copy
import itertools
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

import synthetic
from beamuq import strategy_names
from beamuq.methods.dissimilarity_estimators import WEIGHTINGS
from beamuq_study import parquet_tables
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.exhibits.exhibit import Built
from beamuq_study.exhibits.figure_of_beams_map import MIXED
from beamuq_study.parquet_tables import Artifact
from beamuq_study.result_files import ROW, Inputs
from beamuq_study.stages import beams_map
from beamuq_study.stages.decisions_of_scores import DecisionSettings, decisions
from beamuq_study.study_config import Study

BASE, CHAT = "tiny-base", "tiny-chat"
DATASETS = ("triviaqa", "webquestions", "coqa", "hotpotqa", "commonsenseqa", "arc-challenge")
CHOICE = ("commonsenseqa", "arc-challenge")
PAIRED = ("Dissimilarity", "Eccentricity", "EigVecDissimilarity", "CocoaMSP", "CocoaPPL")
BOTH_FORMS = (*PAIRED, "SemanticEntropy", "SAR", "DegreeMatrix")
SIZE = {"main": 24, "beam_widths": 24, "strategies": 20, "merged": 24, "reference": 24, "map": 24}
SIZE["draws"] = 24  # of no cell of the study: tests of such tables add the recipe
SAMPLED = {"beam_widths": 15, "reference": 100, "draws": 30}
"""Samples of recipes that have another number than ten."""
QUALITIES = (beams_map.SIMILARITY, beams_map.EXACT_TEXT)
EMPTY = 1
"""Empty answers of each cell, of each answer source."""
OF_U = "all_above p=0.002 draws=100 lattices=10"
CONTENT: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
)
RESAMPLES: int = CONTENT["evaluation"]["resamples"]


def study(**changes: Any) -> Study:
    """The study, with top-level keys replaced."""
    return Study.model_validate(copy.deepcopy(CONTENT) | changes)


# They need samples that are scored draw by draw: test_exhibits_tables_of_draws.py
OF_DRAWS = ("sharpness", "gains_over_draws", "gains_over_draws_by_mass")


def labels(kind: str) -> list[str]:
    """Of every exhibit of the study that is a "table" or a "figure", without OF_DRAWS."""
    synthetic = study()
    return [
        label
        for label in list_of_exhibits.labels(synthetic)
        if label not in OF_DRAWS and list_of_exhibits.exhibit(label, synthetic).kind == kind
    ]


RANKED = [label for label in labels("table") if label.startswith(("qa_", "abl_", "topbeam"))]


class Results:
    """Writes any file that an exhibit needs, on demand, always the same bytes for the same need.

    What differs in one part of its key, such as the answer, the scorer or the metric, has another
    value.
    """

    def __init__(self, folder: Path, of: Study) -> None:
        self.folder, self.study = folder, of
        self._cells: dict[Artifact, tuple[list[dict[str, Any]], np.ndarray[Any, Any]]] = {}

    def paths(self, needs: list[Artifact]) -> list[Path]:
        for need in needs:
            path = self.folder / need.path
            if not path.exists():
                parquet_tables.write(
                    path, need.kind, getattr(self, f"_{need.kind}")(need), cell=need.cell
                )
        return [self.folder / need.path for need in needs]

    def inputs(self, needs: list[Artifact]) -> Inputs:
        self.paths(needs)
        return Inputs.read(self.folder, needs, self.study)

    def built(self, label: str, of: Study | None = None) -> Any:
        """An exhibit, from files that are written where they are not there yet."""
        asked = of or self.study
        item = list_of_exhibits.exhibit(label, asked)
        built = item.built(asked, self.inputs(item.artifacts(asked)))
        assert isinstance(built, Built)
        return built

    def _questions(self, need: Artifact) -> list[dict[str, Any]]:
        return [self._question(need.dataset, number) for number in range(SIZE["main"])]

    def _shots(self, need: Artifact) -> list[dict[str, Any]]:
        return [
            self._question(need.dataset, 900 + n)
            for n in range(self.study.datasets[need.dataset].few_shot)
        ]

    def _question(self, dataset: str, number: int) -> dict[str, Any]:
        story = [{"title": "", "text": "A long story about a lighthouse. " * 12}]
        return {
            "id": f"{dataset}-{number:03d}",
            "question": (
                f"Which of the many lighthouses of question {number} was lit first, and by whom?"
            ),
            "context": story if dataset == "coqa" else [],
            "history": [],
            "options": ["Eddystone", "Lighthouse"] if dataset in CHOICE else [],
            "references": ["Lighthouse"],
            "group": f"story-{number // 3}" if dataset == "coqa" else f"{dataset}-{number:03d}",
        }

    def _candidates(self, need: Artifact) -> list[dict[str, Any]]:
        rows = []
        for number in range(SIZE[need.recipe]):
            key = f"{need.dataset}-{number:03d}"
            random = generator(need.model, need.dataset, number)
            base = int(random.integers(1, 9))
            rows.append(_candidate(key, "greedy", 0, base, -0.5 * base / 3))
            for strategy in self.study.recipes[need.recipe].strategies()[1:]:
                kind, options = strategy_names.parse(strategy)
                size = int(options.get("M", SAMPLED.get(need.recipe, 10)))
                logprobs = np.log(
                    np.sort(random.dirichlet(np.full(size + 1, 0.3))[:size])[::-1] + 1e-12
                )
                for rank in range(size):
                    answer = rank if kind in ("beam", "exact") else int(random.integers(0, 7))
                    effort = (
                        {}
                        if rank
                        else {
                            "search_rows": 3 * size,
                            "search_passes": base,
                            "proven": kind == "exact",
                        }
                    )
                    rows.append(
                        _candidate(key, strategy, rank, base, float(logprobs[rank]), answer)
                        | effort
                    )
        return rows

    def _quality(self, need: Artifact) -> list[dict[str, Any]]:
        return [
            {"id": f"{need.dataset}-{number:03d}", "answer_source": answer_source, "value": value}
            for answer_source in self.study.answer_source
            for number, value in enumerate(
                quality_values(need.model, need.dataset, SIZE[need.recipe], answer_source)
            )
        ]

    def _scores(self, need: Artifact) -> list[dict[str, Any]]:
        rows = []
        for answer_source, method, variant, setting in self._keys(need):
            truth = quality_values(need.model, need.dataset, SIZE[need.recipe], answer_source)
            of = (
                (method, variant, setting)
                if answer_source == "greedy"
                else (answer_source, method, variant, setting)
            )
            noise = generator(need.model, need.dataset, *of).normal(size=len(truth))
            values = 0.5 * noise - truth
            if variant == "standard error":
                values = 0.01 * np.abs(noise)
            elif variant in WEIGHTINGS:  # around one value of each question
                values = np.round(0.5 - 0.3 * truth, 1) + 0.1 * noise * (setting != OF_U)
            keys = {
                "answer_source": answer_source,
                "method": method,
                "variant": variant,
                "setting": setting,
            }
            rows += [
                keys | {"id": f"{need.dataset}-{n:03d}", "value": float(of)}
                for n, of in enumerate(values)
            ]
        return rows

    def _evaluation(self, need: Artifact) -> list[dict[str, Any]]:
        measured, drawn = self._measured(replace(need, kind="evaluation"))
        spread = zip(
            *np.quantile(drawn, [0.025, 0.975], axis=1), np.std(drawn, axis=1, ddof=1), strict=True
        )
        n = {"all": SIZE[need.recipe], "answered": SIZE[need.recipe] - EMPTY}
        return [
            row
            | dict(zip(("low", "high", "std"), map(float, of), strict=True))
            | {"n": n[row["subset"]], "note": ""}
            for row, of in zip(measured, spread, strict=True)
        ]

    def _replicates(self, need: Artifact) -> list[dict[str, Any]]:
        measured, drawn = self._measured(replace(need, kind="evaluation"))
        return [
            {name: row[name] for name in ROW} | {"values": of}
            for row, of in zip(measured, drawn, strict=True)
        ]

    def _decisions(self, need: Artifact) -> list[dict[str, Any]]:
        quality = Artifact(
            "quality", need.dataset, need.model, need.recipe, metric=self.study.main_quality.metric
        )
        tables = {
            kind: pa.Table.from_pylist(
                getattr(self, f"_{kind}")(of), schema=parquet_tables.SCHEMAS[kind]
            )
            for kind, of in (("scores", replace(need, kind="scores")), ("quality", quality))
        }
        questions = self._questions(Artifact("questions", need.dataset))[: SIZE[need.recipe]]
        asked = pa.Table.from_pylist(questions, schema=parquet_tables.SCHEMAS["questions"])
        of = self.study.decisions
        settings = DecisionSettings(
            quality=quality.metric, risks=tuple(of.risks), resamples=RESAMPLES, seed=self.study.seed
        )
        return decisions(tables["scores"], tables["quality"], asked, settings, need.dataset)[0]

    def _beams_map(self, need: Artifact) -> list[dict[str, Any]]:
        of = self.study.scoring[need.recipe].beams_map
        assert of is not None
        noise = generator(need.model, need.dataset, "map").normal(scale=0.05, size=of.resamples)
        every = [
            ("", "mass", "", "", beams_map.setting(g, M=M)) for g in of.powers for M in of.sizes
        ]
        scored = [
            (beams_map.DISSIMILARITY, name) for name in (beams_map.SAMPLES, beams_map.BEAMS, *MIXED)
        ]
        scored += [
            (name, of_M)
            for name in ("CocoaMSP", "CocoaPPL")
            for of_M in (beams_map.SAMPLES, beams_map.BEAMS)
        ]
        exact = [
            (name, beams_map.TRUE) for name in (beams_map.DISSIMILARITY, "CocoaMSP", "CocoaPPL")
        ]
        for quality, g, kappa in itertools.product(QUALITIES, of.powers, of.kappas):
            every += [
                (quality, "PRR", *name, beams_map.setting(g, kappa, M))
                for name in scored
                for M in of.sizes
            ]
            every += [(quality, "PRR", *name, beams_map.setting(g, kappa)) for name in exact]
        rows = []
        for quality, metric, method, variant, setting in every:
            value = _value(need, quality, metric, method, variant, setting)
            if metric == "mass":
                value = float(1 - 0.8 / strategy_names.parse(setting)[1]["power"] ** 2)
            keys = {
                "answer_source": "greedy",
                "quality": quality,
                "subset": "all",
                "metric": metric,
            }
            keys |= {
                "method": method,
                "variant": variant,
                "setting": setting,
                "n": SIZE["map"],
                "note": "",
            }
            spread = {"low": value - 0.1, "high": value + 0.1, "std": 0.05}
            rows.append(
                keys | {"value": value} | spread | {"values": (value + noise).astype(np.float32)}
            )
        return rows

    def _measured(self, cell: Artifact) -> tuple[list[dict[str, Any]], np.ndarray[Any, Any]]:
        """Rows of a cell, each with its value, and their replicates."""
        if cell not in self._cells:
            rows = [
                dict(zip(ROW, (answer_source, quality.metric, subset, metric, *form), strict=True))
                | {"value": _value(cell, *further, *of_subset, answer_source, metric, *form)}
                for subset, of_subset in (("all", []), ("answered", ["answered"]))
                for quality in self.study.qualities(cell.dataset)[
                    : None if cell.recipe in ("main", "draws") else 1
                ]
                for further in [[] if quality is self.study.main_quality else [quality.metric]]
                for answer_source, *form in self._keys(cell)
                for metric in ("PRR", "ROC-AUC", "PR-AUC", "PRR@1")
            ]
            noise = generator(cell.model, cell.dataset, "noise").normal(scale=0.05, size=RESAMPLES)
            self._cells[cell] = (
                rows,
                (np.array([[row["value"]] for row in rows]) + noise).astype(np.float32),
            )
        return self._cells[cell]

    def _keys(self, need: Artifact) -> list[tuple[str, str, str, str]]:
        scoring, recipe = self.study.scoring[need.recipe], self.study.recipes[need.recipe]
        keys: list[tuple[str, str, str, str]] = []
        for answer_source in self.study.answer_source:
            for method in (
                name.rpartition(":")[2] for name in scoring.methods
            ):  # a plug-in's by its own name
                for variant in ("multinomial", "beamsearch") if method in BOTH_FORMS else ("",):
                    settings = [""] + [f"M={m}" for m in scoring.budgets]
                    if method == "GNLL":
                        settings += strategy_names.of_kind(recipe.strategies(), "exact")
                    if variant == "beamsearch":
                        settings += [strategy_names.ablation("epsilon", e) for e in scoring.epsilon]
                        if method == "Dissimilarity":
                            settings += [
                                f"power={strategy_names.number(p)}" for p in scoring.powers
                            ]
                        settings += [f"alpha={a}" for a in scoring.alpha] + [
                            f"K={k}" for k in scoring.fixed_k
                        ]
                    if scoring.every_draw and variant == "multinomial":
                        settings += [
                            strategy_names.samples_of("sample T=1.0", 10, draw)
                            for draw in (1, 2, 3)
                        ]
                    if scoring.every_strategy:
                        sampled = variant == "multinomial"
                        found = [
                            s for s in recipe.strategies()[1:] if s.startswith("sample") == sampled
                        ]
                        settings += found + [f"{s} exact" for s in found if sampled]
                    keys += [(answer_source, method, variant, setting) for setting in settings]
            for name in scoring.estimators:
                weighting, kind = name.split()
                for strategy in strategy_names.of_kind(recipe.strategies(), kind):
                    settings = [strategy]
                    if kind == "sample":
                        settings = [
                            strategy_names.samples_of(strategy, m) for m in (*range(1, 16), 20)
                        ]
                        settings += [
                            strategy_names.samples_of(strategy, 10, draw) for draw in range(1, 11)
                        ]
                    keys += [
                        (answer_source, "Dissimilarity", weighting, setting) for setting in settings
                    ]
            if scoring.estimators:
                keys.append((answer_source, "Dissimilarity", "standard error", OF_U))
        return keys


def generator(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


def quality_values(
    model: str, dataset: str, size: int, answer_source: str = "greedy"
) -> np.ndarray[Any, np.dtype[np.float64]]:
    of = () if answer_source == "greedy" else (answer_source,)
    values = generator(model, dataset, "quality", *of).choice(
        [0.0, 0.3, 0.5, 0.8, 1.0], size=SIZE["main"]
    )
    return np.asarray(values[:size], dtype=np.float64)


def _value(need: Artifact, *key: str) -> float:
    return float(
        generator(need.scorer, need.model, need.dataset, need.recipe, *key).uniform(-0.2, 0.8)
    )


def _candidate(
    key: str, strategy: str, rank: int, length: int, logprob: float, answer: int = 0
) -> dict[str, Any]:
    text = (
        "Eddystone",
        "the Pharos",
        "Bell Rock",
        "Fastnet",
        "La Jument",
        "a lamp",
        "no one knows",
    )[answer % 7]
    tokens = [10 + answer] * length + [2]
    found = synthetic.candidate(
        key, strategy, rank, text + f" {answer}" * (answer >= 7), tokens, logprob
    )
    return found | {"policy_logprob": logprob if strategy.startswith("sample") else None}


def rewrite(
    results: Results, need: Artifact, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Change every row of a file."""
    (path,) = results.paths([need])
    rows = [change(row) for row in parquet_tables.read(path, need.kind).table.to_pylist()]
    parquet_tables.write(path, need.kind, rows, cell=need.cell)
