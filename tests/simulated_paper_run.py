"""The paper's study with simulated results: printed numbers taken for the truth, plus noise of a known size."""

from __future__ import annotations

import copy
import zlib
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from beamuq import parquet_tables
from beamuq.comparison.errata import errata_of, read_ledger
from beamuq.comparison.files_held_against_print import needed_files
from beamuq.comparison.measured_results import MeasuredResults
from beamuq.comparison.printed_numbers import RowKey, measured_place, read_printed_numbers
from beamuq.comparison.tolerances_and_families import read_rules
from beamuq.exhibits.read_evaluation import Key, stored
from beamuq.methods.registry import METHODS
from beamuq.parquet_tables import Artifact
from beamuq.study_config import STUDIES, Study

RULES = read_rules()
PRINTED = read_printed_numbers()
RESAMPLES, SPREAD = 200, 0.03
MAIN, NLI = "main", "nli"


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((STUDIES / "paper.yaml").read_text(encoding="utf-8"))
    content["scoring"]["main"]["methods"] = list(METHODS)
    content["evaluation"]["resamples"] = RESAMPLES
    content["exhibits"] = []
    content["quality"] = content["quality"][:3]  # the gold option names datasets that a smaller study lacks
    return content


def study(**changes: Any) -> Study:
    """``studies/paper.yaml`` with every method and small bootstraps; top-level keys replaced."""
    return Study.model_validate(copy.deepcopy(_content()) | changes)


def one_model(*datasets: str, questions: int | None = None, **changes: Any) -> Study:
    """The study cut to Gemma base's main cells, of all datasets if none is named."""
    names = list(datasets or RULES.paper.datasets)
    entry = {"recipe": "main", "models": ["gemma-3-4b-base"], "datasets": names, "scorers": ["nli"]}
    return study(grid=[entry | ({"questions": questions} if questions else {})], **changes)


def results(of: Study, folder: Path, *, shift: float = 0.0) -> MeasuredResults:
    """Simulated results of a study, read back from files."""
    write(of, folder, needed_files(of), shift)
    return read(of, folder)


def read(of: Study, folder: Path, without: tuple[str, ...] = ()) -> MeasuredResults:
    """Results of a study from a folder that may hold more; ``without``: files whose path holds one of these lack."""
    wanted = [need for need in needed_files(of) if not any(part in need.path for part in without)]
    return MeasuredResults.read(of, folder, wanted)


def write(of: Study, folder: Path, needs: list[Artifact], shift: float = 0.0) -> None:
    simulated = Simulated(of, shift)
    for need in needs:
        rows = getattr(simulated, need.kind)(need)
        parquet_tables.write(folder / need.path, need.kind, rows, cell=need.cell)


class Simulated:
    """Our value of every printed number: printed + √2 · spread · noise + shift, as of two draws from one truth."""

    def __init__(self, of: Study, shift: float) -> None:
        self.study, self.shift = of, shift
        self.rows: dict[Artifact, dict[Key, tuple[float, float]]] = defaultdict(dict)
        for table_of_means in (False, True):
            for row in PRINTED:
                at = measured_place(of, row.key, RULES)
                if isinstance(at, str) or at.files[0].kind != "evaluation":
                    continue
                for need in at.files if (row.key.dataset == "mean") == table_of_means else ():
                    self.rows[need].setdefault(stored(at.key), (row.value, _spreads().get(row.key) or SPREAD))
        for need, rows in self.rows.items():
            for key in [key for key in rows if key.method == "SemanticEntropy" and key.variant == "multinomial"]:
                for reading in ("printed", "likelihood-summed"):
                    rows[key._replace(setting=reading)] = (rows[key][0] - 0.3, rows[key][1])
            self.rows[need] = rows

    def _n(self, need: Artifact) -> int:
        entry = next(e for e in self.study.grid if e.recipe == need.recipe and need.dataset in e.datasets)
        return entry.questions or self.study.datasets[need.dataset].questions

    def _measured(self, need: Artifact) -> dict[Key, tuple[float, float]]:
        if need.recipe == "widths":
            return {
                Key("PRR", method, variant, f"M={M}"): (curve(method, variant, M), SPREAD)
                for method in self.study.scoring["widths"].methods
                for variant in ("multinomial", "beamsearch")
                for M in range(1, 16)
            }
        return self.rows.get(need) or self.rows[Artifact("evaluation", *_names(need))]

    def _draws(self, need: Artifact) -> list[tuple[dict[str, Any], float, float, np.ndarray[Any, Any]]]:
        found = []
        for key, (truth, spread) in self._measured(need).items():
            row = {"answer_source": key.answer_source, "quality": "alignscore", "subset": "all", "metric": key.metric}
            row |= {"method": key.method, "variant": key.variant, "setting": key.setting}
            noise = _random(0, need.model, need.dataset, need.recipe, need.scorer, tuple(key))
            value = truth + np.sqrt(2) * spread * noise.normal() + self.shift
            value = truth if need.recipe == "widths" else value
            # half of what spreads a method's replicates is shared by all methods of the cell: they are paired
            shared = _random(need.model, need.dataset, need.recipe).normal(size=RESAMPLES)
            own = noise.normal(size=RESAMPLES) * (0.1 if need.recipe == "widths" else 1.0)  # neighbouring M are alike
            found.append((row, value, spread, value + spread * np.sqrt(0.5) * (shared + own)))
        return found

    def evaluation(self, need: Artifact) -> list[dict[str, Any]]:
        return [
            row | {"value": v, "low": v - 2 * s, "high": v + 2 * s, "std": s, "n": self._n(need), "note": ""}
            for row, v, s, _ in self._draws(need)
        ]

    def replicates(self, need: Artifact) -> list[dict[str, Any]]:
        return [row | {"values": replicates.astype(np.float32)} for row, _, _, replicates in self._draws(need)]

    def questions(self, need: Artifact) -> pa.Table:
        n = self.study.datasets[need.dataset].questions
        ids = [f"{need.dataset}-{i}" for i in range(n)]
        empty: dict[str, Any] = {"context": [[]] * n, "history": [[]] * n, "options": [[]] * n, "references": [[]] * n}
        content = {"id": ids, "question": ids, **empty, "group": ids}
        return pa.table(
            {name: content[name] for name in parquet_tables.SCHEMAS["questions"].names},
            parquet_tables.SCHEMAS["questions"],
        )

    def quality(self, need: Artifact) -> pa.Table:
        n = self._n(need)
        truth = next(
            r.value
            for r in PRINTED
            if r.key.table == "tab:base_accs" and (r.key.model, r.key.dataset) == (need.model, need.dataset)
        )
        correct = np.zeros(n)
        correct[_random(need.model, need.dataset, "which").permutation(n)[: round(truth * n)]] = 1.0
        return pa.table(
            {"id": [f"{need.dataset}-{i}" for i in range(n)], "answer_source": ["greedy"] * n, "value": correct}
        )

    def scores(self, need: Artifact) -> pa.Table:
        """Beams follow the quality more closely than samples."""
        quality = self.quality(Artifact("quality", need.dataset, need.model, need.recipe, metric="alignscore"))
        right, ids = quality.column("value").to_numpy(), quality.column("id").to_pylist()
        parts = []
        for method in RULES.families.methods:
            for variant, noise in (("multinomial", 1.5), ("beamsearch", 0.5)):
                value = -right + noise * _random(need.model, need.dataset, method, variant).normal(size=len(right))
                names = [{"answer_source": "greedy", "method": method, "variant": variant, "setting": ""}] * len(right)
                parts.append(pa.table({"id": ids, **pa.Table.from_pylist(names).to_pydict(), "value": value}))
        return pa.concat_tables(parts)

    def candidates(self, need: Artifact) -> list[dict[str, Any]]:
        size = self.study.recipes[need.recipe].sample
        assert size is not None
        rows = []
        for i in range(self._n(need)):
            random, length = _random(need.model, need.dataset, i), 2 + i % 10
            rows.append(candidate(need, i, "greedy", 0, "answer 0", length, -0.5))
            for rank in range(size.size):
                drawn = int(random.integers(0, 3 if length <= 4 else 40))
                rows.append(candidate(need, i, "sample T=1.0", rank, f"answer {drawn}", length, -1.0 - drawn))
            for rank in range(10):
                rows.append(candidate(need, i, "beam M=10", rank, f"answer {rank}", length, -0.5 - rank))
        return rows

    def similarity(self, need: Artifact) -> list[dict[str, Any]]:
        return [
            {
                "id": f"{need.dataset}-{i}",
                "premise": "answer 0",
                "hypothesis": f"answer {other}",
                "entail": 1 / (1 + other),
                "neutral": None,
                "contradict": None,
            }
            for i in range(self._n(need))
            for other in range(40)
        ]


def curve(method: str, variant: str, M: int) -> float:
    """PRR against M: beams rise to .7 by M = 5, samples more slowly to .6; Semantic Entropy stays below."""
    if method == "SemanticEntropy":
        return 0.3
    return 0.7 - 0.35 * (5 - min(M, 5)) / 4 if variant == "beamsearch" else 0.6 - 0.2 * (15 - M) / 14


def _names(need: Artifact) -> tuple[str, str, str, str]:
    return need.dataset, need.model, need.recipe, need.scorer


def _random(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))


@cache
def _spreads() -> dict[RowKey, float | None]:
    doubtful = errata_of(read_ledger(), PRINTED, "std")
    return {row.key: None if row.key in doubtful else row.std for row in PRINTED}


def candidate(
    need: Artifact, i: int, strategy: str, rank: int, text: str, length: int, logprob: float
) -> dict[str, Any]:
    code = int(text.split()[-1])
    nothing = dict.fromkeys(("policy_logprob", "entropies", "top_ids", "top_texts", "top_logprobs"))
    return nothing | {
        "id": f"{need.dataset}-{i}",
        "strategy": strategy,
        "rank": rank,
        "text": text,
        "token_ids": [code] * (length - 1) + [99],
        "token_texts": ["x"] * length,
        "token_logprobs": [logprob / length] * length,
        "logprob": logprob,
        "terminated": True,
    }
