"""Made-up results of ``studies/paper.yaml`` at its own size, as exhibits and comparison read them.

Every file has the rows and columns that the paper's study would give it; what stands in them is
random. Exhibits show nothing of it, but take the memory and the time that they would take.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from beamuq.evaluation.prr_and_auc import prr_to
from beamuq.methods.registry import FACTORS, Method, resolve
from beamuq.strategy_names import FOR_ESTIMATORS, ablation, kind_of, parse, samples_of
from beamuq_study.comparison.claims.asked_claims import needed_files
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.grid import Cell, Grid, questions_asked
from beamuq_study.parquet_tables import ALL, ANSWERED, SCHEMAS, Artifact, write
from beamuq_study.study_config import Study

Row = dict[str, Any]
Form = tuple[str, str, str]
"""Method, variant and setting of a score."""
SPECTRAL = ("Eccentricity", "EigVecDissimilarity")
TEXTS = 40  # different answers to a question
EMPTY = 0.01  # the share of empty answers
STORY = "A lighthouse stood on the rock for a hundred years before the lamp was lit. " * 25
ALTERNATIVES = 11  # tokens whose log-probabilities are kept at each step
OUTSIDE = 100  # candidates of a strategy that names no size
Floats = npt.NDArray[np.float64]


COMPARISON = "comparison"
"""The label of the comparison among those of exhibits."""


def needed(study: Study, labels: Sequence[str]) -> list[Artifact]:
    """Every file that these exhibits read, each once."""
    files: list[Artifact] = []
    for label in labels:
        if label == COMPARISON:
            files += needed_files(study)
        else:
            files += list_of_exhibits.exhibit(label, study).artifacts(study)
    return list(dict.fromkeys(files))


@dataclass(frozen=True)
class PaperResults:
    """Writes files of a study; ``questions``: at most so many of each cell, for a trial."""

    folder: Path
    study: Study
    questions: int | None = None

    def write(self, need: Artifact) -> None:
        """Write one file, always with the same content."""
        table = getattr(self, f"_{need.kind}")(need)
        write(self.folder / need.path, need.kind, table, cell=need.cell)

    @cached_property
    def _grid(self) -> Grid:
        return Grid(self.study)

    def size(self, need: Artifact) -> int:
        """How many questions a cell has."""
        size = self.study.datasets[need.dataset].questions
        if need.recipe:
            cell = Cell(need.model, need.dataset, need.recipe)
            size = questions_asked(self.study, cell)
        return min(size, self.questions or size)

    def _ids(self, need: Artifact) -> list[str]:
        return [f"{need.dataset}-{number:05d}" for number in range(self.size(need))]

    # -- questions ---------------------------------------------------------------------------------

    def _questions(self, need: Artifact) -> list[Row]:
        rows = []
        for number, key in enumerate(self._ids(need)):
            context = [{"title": "", "text": STORY}] if need.dataset in ("coqa", "hotpotqa") else []
            row = {
                "id": key,
                "question": f"Who lit lamp {number}?",
                "context": context,
                "history": [],
                "options": [],
                "references": ["a keeper"],
                "group": f"story-{number // 5}" if need.dataset == "coqa" else key,
            }
            rows.append(row)
        return rows

    def _shots(self, need: Artifact) -> list[Row]:
        return self._questions(need)[: self.study.datasets[need.dataset].few_shot]

    # -- candidates and what is judged of them -----------------------------------------------------

    def _strategies(self, need: Artifact) -> dict[str, int]:
        """How many candidates each strategy of a recipe has."""
        recipe = self.study.recipes[need.recipe]
        sizes = {}
        for name in recipe.strategies():
            kind, options = parse(name)
            one = 1 if kind in ("greedy", "shipped") else None
            stated = getattr(getattr(recipe, kind, None), "size", None)
            sizes[name] = one or int(options.get("M", stated or OUTSIDE))
        return sizes

    def _candidates(self, need: Artifact) -> pa.Table:
        random = _generator(need)
        parts = [
            self._of_strategy(need, name, size, random)
            for name, size in self._strategies(need).items()
        ]
        return pa.concat_tables(parts)

    def _of_strategy(
        self, need: Artifact, strategy: str, size: int, random: np.random.Generator
    ) -> pa.Table:
        ids = self._ids(need)
        count = len(ids) * size
        rank = np.tile(np.arange(size, dtype=np.int32), len(ids))
        searched = kind_of(strategy) in ("greedy", "beam", "diverse", "exact")
        text = rank % TEXTS if searched else random.integers(TEXTS, size=count)
        lengths = 2 + (text + np.repeat(np.arange(len(ids)), size)) % 7
        logprob = -0.7 - 0.35 * rank if searched else -random.exponential(2.0, size=count)
        tokens = int(lengths.sum())
        first = (rank == 0) & searched
        columns = {
            "id": np.repeat(ids, size),
            "strategy": pa.repeat(strategy, count),
            "rank": rank,
            "text": [_text(code) for code in text],
            "token_ids": _lists(lengths, np.repeat(text, lengths).astype(np.int32)),
            "token_texts": _lists(lengths, pa.repeat(" token", tokens)),
            "token_logprobs": _lists(lengths, random.normal(size=tokens)),
            "logprob": logprob,
            "policy_logprob": pa.array(logprob, mask=np.full(count, searched)),
            "terminated": np.ones(count, dtype=bool),
            **_of_steps(lengths, first, random),
            "search_rows": pa.array(np.full(count, 3 * size, dtype=np.int32), mask=rank > 0),
            "search_passes": pa.array(np.full(count, 8, dtype=np.int32), mask=rank > 0),
            "proven": pa.array(np.ones(count, dtype=bool), mask=rank > 0),
            "missed_logprob": pa.nulls(count, pa.float64()),
        }
        return _table(need.kind, columns)

    def _similarity(self, need: Artifact) -> pa.Table:
        """Every text against the greedy answer, which is text 0."""
        ids = self._ids(need)
        rest = len(ids) * TEXTS
        columns = {
            "id": np.repeat(ids, TEXTS),
            "premise": pa.repeat(_text(0), rest),
            "hypothesis": [_text(code) for code in range(TEXTS)] * len(ids),
            "entail": _generator(need, "entail").random(rest),
            "neutral": _generator(need, "neutral").random(rest),
            "contradict": _generator(need, "contradict").random(rest),
        }
        return _table(need.kind, columns)

    def _quality(self, need: Artifact) -> pa.Table:
        ids = self._ids(need)
        answers = self._grid.produced_answers(need.recipe)
        columns = {
            "id": ids * len(answers),
            "answer_source": np.repeat(answers, len(ids)),
            "value": _generator(need).random(len(ids) * len(answers)).round(2),
        }
        return _table(need.kind, columns)

    # -- scores and what is measured of them -------------------------------------------------------

    def _scores(self, need: Artifact) -> pa.Table:
        ids = self._ids(need)
        forms = list(self.forms(need.recipe))
        answers = self._grid.produced_answers(need.recipe)
        keys = [(answer, *form) for answer in answers for form in forms]
        names = ("answer_source", "method", "variant", "setting")
        columns = dict(
            zip(
                names,
                (np.repeat(column, len(ids)) for column in zip(*keys, strict=True)),
                strict=True,
            )
        )
        values = _generator(need).random(len(ids) * len(keys)).round(3)
        return _table(need.kind, columns | {"id": ids * len(keys), "value": values})

    def forms(self, recipe: str) -> Iterator[Form]:
        """Every score of a recipe, as the rule ``scores`` makes them."""
        scoring = self.study.scoring[recipe]
        methods = [resolve(name) for name in scoring.methods]
        of_both = [method for method in methods if method.scope == "candidates"]
        if self.study.recipes[recipe].decoded(self.study.main.sample):
            yield from _forms(methods, "multinomial", "")
            yield from self._forms_of_samples(recipe, methods)
            yield from _forms(of_both, "beamsearch", "")
        else:
            without_samples = [method for method in methods if method.scope != "samples"]
            yield from _forms(without_samples, "beamsearch", "")
        yield from self._ablations(recipe, of_both)
        if scoring.every_strategy:
            yield from self._forms_of_strategies(recipe, of_both)
        for name in self._grid.estimators_of(recipe, scoring.estimators):
            weighting, strategy = name.split(" ", 1)
            yield from self._forms_of_estimator(recipe, weighting, strategy)

    def _forms_of_samples(self, recipe: str, methods: Sequence[Method]) -> Iterator[Form]:
        """Other formulations, and fewer samples."""
        of_samples = [method for method in methods if method.scope != "answer"]
        for method in of_samples:
            for setting in method.formulations:
                yield method.name, method.variants[0], setting
        for size in self.study.scoring[recipe].budgets:
            yield from _forms(of_samples, "multinomial", ablation("M", size))

    def _ablations(self, recipe: str, methods: Sequence[Method]) -> Iterator[Form]:
        scoring = self.study.scoring[recipe]
        spectral = [method for method in methods if method.name in SPECTRAL]
        for value in scoring.epsilon:
            yield from _forms(methods, "beamsearch", ablation("epsilon", value))
        for value in scoring.alpha:
            yield from _forms(spectral, "beamsearch", ablation("alpha", value))
        for size in scoring.fixed_k:
            yield from _forms(spectral, "beamsearch", ablation("K", size))
        for size in scoring.budgets:
            yield from _forms(methods, "beamsearch", ablation("M", size))

    def _forms_of_strategies(self, recipe: str, methods: Sequence[Method]) -> Iterator[Form]:
        for strategy in self.study.recipes[recipe].strategies():
            if kind_of(strategy) == "sample":
                yield from _forms(methods, "multinomial", strategy)
                yield from _forms(methods, "multinomial", f"{strategy} exact")
            elif kind_of(strategy) not in ("greedy", "shipped"):
                yield from _forms(methods, "beamsearch", strategy)

    def _forms_of_estimator(self, recipe: str, weighting: str, strategy: str) -> Iterator[Form]:
        decoded = self.study.recipes[recipe]
        settings = [strategy]
        if kind_of(strategy) == "sample" and decoded.sample:
            settings = self._parts_of_samples(recipe, strategy, decoded.sample.size)
        for name in self.study.scoring[recipe].methods:
            if name in FACTORS:
                for setting in settings:
                    yield name, weighting, setting
        if weighting == "stratified" and "lattices" in parse(strategy)[1]:
            yield ("Dissimilarity", "standard error", strategy)

    def _parts_of_samples(self, recipe: str, strategy: str, size: int) -> list[str]:
        """The first M of so many samples, then draws of M samples each, as many as there are."""
        main = self.study.main.num_candidates
        prefixes = {main, *self.study.scoring[recipe].budgets}
        repeated = {main}
        for name in self.study.recipes[recipe].strategies():
            stated = parse(name)[1].get("M")
            if stated:
                prefixes.add(int(stated))
            if kind_of(name) in FOR_ESTIMATORS:
                repeated.add(int(stated or main))
        settings = [samples_of(strategy, M) for M in sorted(prefixes) if size >= M]
        for M in sorted(repeated):
            if size >= 2 * M:
                settings += [samples_of(strategy, M, draw + 1) for draw in range(size // M)]
        return settings

    def keys(self, need: Artifact) -> list[dict[str, str]]:
        """The keys of every row of an evaluation, as the rule ``evaluation`` writes them."""
        measured = [
            *self.study.evaluation.metrics,
            *map(prr_to, self.study.evaluation.max_rejection[1:]),
        ]
        forms = list(self.forms(need.recipe))
        return [
            {"answer_source": answer, "quality": quality.metric, "subset": subset, "metric": metric}
            | dict(zip(("method", "variant", "setting"), form, strict=True))
            for quality in self.study.qualities(need.dataset)
            for answer in self._grid.produced_answers(need.recipe)
            for subset in (ALL, ANSWERED)
            for form in forms
            for metric in measured
        ]

    def _values(self, need: Artifact) -> Floats:
        cell = Artifact("evaluation", need.dataset, need.model, need.recipe, need.scorer)
        return _generator(cell).uniform(0.2, 0.7, size=len(self.keys(need)))

    def _evaluation(self, need: Artifact) -> pa.Table:
        keys = self.keys(need)
        values = self._values(need)
        n = self.size(need)
        answered = n - max(1, int(EMPTY * n))
        columns = {
            **_columns(keys),
            "value": values,
            "low": values - 0.06,
            "high": values + 0.06,
            "std": np.full(len(keys), 0.03),
            "n": [n if key["subset"] == ALL else answered for key in keys],
            "note": pa.repeat("", len(keys)),
        }
        return _table(need.kind, columns)

    def _replicates(self, need: Artifact) -> pa.Table:
        keys = self.keys(need)
        values = self._values(need)
        random = _generator(need)
        resamples = self.study.evaluation.resamples
        shared = random.standard_normal(resamples, dtype=np.float32)
        drawn = random.standard_normal((len(keys), resamples), dtype=np.float32)
        drawn += shared  # the methods of a cell are paired
        drawn *= np.float32(0.02)
        drawn += values[:, None].astype(np.float32)
        lists = _lists(np.full(len(keys), resamples), drawn.ravel())
        return _table(need.kind, {**_columns(keys), "values": lists})

    def _decisions(self, need: Artifact) -> list[Row]:
        random = _generator(need)
        rows = []
        for method, variant, setting in self.forms(need.recipe):
            if not setting:
                form = {"method": method, "variant": variant}
                rows += [form | row for row in self._decided(self.size(need), random)]
        return rows

    def _decided(self, n: int, random: np.random.Generator) -> Iterator[Row]:
        """What is decided with one score of ``n`` questions."""
        resamples = self.study.evaluation.resamples

        def row(
            metric: str, value: float, n: int, risk: float | None, *, drawn: bool = False
        ) -> Row:
            values = random.normal(value, 0.02, size=resamples).astype(np.float32) if drawn else []
            return {
                "metric": metric,
                "risk": risk,
                "value": value,
                "n": n,
                "note": "",
                "values": values,
                "low": value - 0.04,
                "high": value + 0.04,
                "std": 0.02 if drawn else None,
            }

        for risk in self.study.decisions.risks:
            yield row("threshold", 0.4, n // 2, risk)
            yield row("least", 30.0, n // 2, risk)
            yield row("bound", risk, n // 2, risk)
            for metric in ("shown", "wrong", "wrong of shown"):
                yield row(metric, 0.3, n // 2, risk, drawn=True)
        for metric in ("ece", "brier", "reliability", "resolution", "uncertainty", "within"):
            yield row(metric, 0.1, n, None, drawn=True)
        for number in range(10):
            name = f"[{number / 10:g}, {(number + 1) / 10:g})"
            yield row(f"p in {name}", number / 10 + 0.05, n // 10, None)
            yield row(f"right in {name}", number / 10 + 0.04, n // 10, None)


def _forms(methods: Sequence[Method], variant: str, setting: str) -> Iterator[Form]:
    for method in methods:
        yield (method.name, variant if variant in method.variants else "", setting)


def _columns(keys: Sequence[dict[str, str]]) -> dict[str, list[str]]:
    """The columns of rows that have the same keys."""
    return {name: [key[name] for key in keys] for name in keys[0]}


def _text(code: int) -> str:
    return f"the answer no {code}"


def _lists(lengths: npt.NDArray[Any], values: Any) -> pa.Array:
    return pa.ListArray.from_arrays(
        np.append(0, np.cumsum(lengths)).astype(np.int32), pa.array(values)
    )


def _of_steps(
    lengths: npt.NDArray[np.int64], is_recorded: npt.NDArray[np.bool_], random: np.random.Generator
) -> Any:
    """What is kept of every step of greedy answers and first beams; null elsewhere."""
    steps = lengths[is_recorded]
    count = int(steps.sum())
    tops = count * ALTERNATIVES
    of_step = np.full(count, ALTERNATIVES)
    flat = {
        "entropies": random.random(count),
        "top_ids": _lists(of_step, random.integers(5000, size=tops).astype(np.int32)),
        "top_texts": _lists(of_step, pa.repeat(" token", tops)),
        "top_logprobs": _lists(of_step, random.normal(size=tops)),
    }
    place = pa.array(np.cumsum(is_recorded) - 1, mask=~is_recorded)
    return {name: _lists(steps, column).take(place) for name, column in flat.items()}


def _table(kind: str, columns: dict[str, Any]) -> pa.Table:
    schema = SCHEMAS[kind]
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


def _generator(*key: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(key).encode()))
