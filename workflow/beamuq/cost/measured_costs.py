"""What a study has cost, and what another would: sums of measured jobs, scaled by the work that a study plans.

Nothing here is a promise: a prediction assumes that seconds grow with the work (parameters × tokens for decoding, pairs
for similarity, questions elsewhere) as on the sample, on the sample's device.
"""

from __future__ import annotations

import csv
import json
import math
import re
import time
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from beamuq import artifacts
from beamuq.artifacts import Artifact
from beamuq.plan.jobs import Cell, Plan
from beamuq.study import Recipe

RULES = ("candidates", "statistics", "similarity", "quality", "scores", "evaluation")
JobKey = tuple[str, str, str, str, str]
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s?([MB])\b", re.IGNORECASE)


@dataclass(frozen=True)
class Job:
    """One finished job: what it took and how much it did. ``device`` is "" for a rule that loads no model."""

    rule: str
    cell: dict[str, str]
    kind: str
    device: str
    seconds: float
    cpu_seconds: float
    memory_mb: float
    questions: int
    candidates: int
    tokens: int
    pairs: int
    size: int


@dataclass(frozen=True)
class Prediction:
    """One rule of a planned study. ``seconds`` is None where the sample holds nothing to compare with.

    ``note`` names what the numbers lack.
    """

    rule: str
    jobs: int
    questions: int
    tokens: int
    pairs: int
    seconds: float | None
    cpu_seconds: float | None
    size: float
    note: str


@dataclass(frozen=True)
class _Planned:
    """One job to come: ``amount`` in the unit of its rule, each unit costing ``weight``; without searches ``own``."""

    kind: str
    questions: int
    amount: float
    weight: float = 1.0
    own: tuple[str, ...] = ()


def measured(results: Path, seconds: float = math.inf) -> list[Job]:
    """Every job of a study's results that has both its benchmark and its table; its shards' seconds are its own.

    Where reading takes more than ``seconds``, the jobs of those cells that were read until then.

    Raises
    ------
    BeamUQError
        If a table cannot be read.
    """
    begun, found = time.monotonic(), []
    for rule in RULES:
        for file in (results / "benchmarks" / rule).rglob("*.tsv"):
            path = results / rule / file.relative_to(results / "benchmarks" / rule).with_suffix(".parquet")
            if path.is_file():
                found.append((path.with_suffix("").parts[-3:], RULES.index(rule), rule, path, file))
    jobs = []
    for _, _, rule, path, file in sorted(found):
        if time.monotonic() - begun > seconds:
            break
        runs = (file, *_shards_of(results, path.relative_to(results)))
        jobs.append(_job(rule, path, [_benchmark(run) for run in runs]))
    return jobs


def _shards_of(results: Path, table: Path) -> list[Path]:
    """The benchmarks of the shards of a table ``candidates/…/main.parquet``, in ``candidates_shard/…/main/``."""
    rule, *cell = table.with_suffix("").parts
    return sorted((results / "benchmarks" / f"{rule}_shard" / Path(*cell)).glob("*.tsv"))


def forget(plan: Plan, jobs: Iterable[Any]) -> None:
    """Delete the benchmarks of the cells that Snakemake's ``jobs`` decode again, but of shards only what they have not.

    A table's bytes never tell in how many shards it was decoded, so what lies beside it has to be of the run that made
    it.
    """
    for job in jobs:
        if job.rule.name == "candidates":
            need = Artifact("candidates", **job.wildcards_dict)
            shards = _shards_of(Path(plan.results), Path(need.path))
            stale = [file for file in shards if not file.stem.endswith(f"-of-{plan.machine.shards}")]
            for file in (Path(plan.benchmark(need)), *stale):
                file.unlink(missing_ok=True)


@dataclass(frozen=True)
class Sample:
    """A measured study: its folder, its jobs, and its models' titles by key."""

    folder: Path
    jobs: list[Job]
    titles: dict[str, str]

    @property
    def device(self) -> str:
        """What its models ran on."""
        return "/".join(sorted({job.device for job in self.jobs if job.device}))


def _benchmark(file: Path) -> dict[str, str]:
    with file.open(newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))[-1]


def _job(rule: str, path: Path, runs: Sequence[Mapping[str, str]]) -> Job:
    loaded = artifacts.read(path, rule)
    table, decoded = loaded.table, rule == "candidates"
    settings = loaded.provenance.get("settings", {})
    return Job(
        rule=rule,
        cell=loaded.cell,
        kind=str(settings.get("kind") or settings.get("metric") or ""),
        device=str(loaded.provenance.get("device") or ""),
        seconds=sum(float(run["s"]) for run in runs),
        cpu_seconds=sum(_number(run["cpu_time"]) for run in runs),
        memory_mb=max(_number(run["max_rss"]) for run in runs),
        questions=pc.count_distinct(table["id"]).as_py() if "id" in table.column_names else 0,
        candidates=table.num_rows if decoded else 0,
        tokens=pc.sum(pc.list_value_length(table["token_ids"])).as_py() or 0 if decoded else 0,
        pairs=table.num_rows if rule == "similarity" else 0,
        size=path.stat().st_size,
    )


def _number(text: str) -> float:
    """A benchmark's value; "-" and "NA" stand where a job was too short to be looked at."""
    return 0.0 if text in ("-", "NA", "") else float(text)


def ledger(jobs: Sequence[Job]) -> list[dict[str, str | int]]:
    """A row a rule and one of sums: jobs, wall seconds, those on a card, CPU seconds, peak memory, tokens, pairs."""
    rows = [_sums(rule, [job for job in jobs if job.rule == rule]) for rule in RULES]
    return [row for row in rows if row["jobs"]] + [_sums("total", jobs)]


def _sums(name: str, jobs: Sequence[Job]) -> dict[str, str | int]:
    return {
        "rule": name,
        "jobs": len(jobs),
        "seconds": round(sum(job.seconds for job in jobs)),
        "gpu_seconds": round(sum(job.seconds for job in jobs if job.device == "cuda")),
        "cpu_seconds": round(sum(job.cpu_seconds for job in jobs)),
        "peak_memory_mb": round(max((job.memory_mb for job in jobs), default=0)),
        "candidates": sum(job.candidates for job in jobs),
        "tokens": sum(job.tokens for job in jobs),
        "pairs": sum(job.pairs for job in jobs),
    }


def parameters(title: str) -> float | None:
    """The size that a model's title names: ``Gemma 3 4B`` → 4e9, ``SmolLM2 135M chat`` → 1.35e8."""
    found = _SIZE.findall(title)
    return float(found[-1][0]) * {"M": 1e6, "B": 1e9}[found[-1][1].upper()] if found else None


def candidates_of(recipe: Recipe) -> int:
    """Candidates that a recipe decodes for one question, at most; without searches of one's own, which do not say."""
    number = 1 + int(recipe.shipped)
    if recipe.sample:
        number += recipe.sample.size * len(recipe.sample.temperatures)
    if recipe.beam:
        number += sum(recipe.beam.widths)
    if recipe.diverse:
        number += recipe.diverse.size * len(recipe.diverse.groups) * len(recipe.diverse.penalties)
    if recipe.hybrid:
        number += recipe.hybrid.size * len(recipe.hybrid.beams)
    return number


def sample_of(results: Path, name: str, seconds: float = math.inf) -> Sample | None:
    """The measured study nearest to the one asked for: its own finished part, else the demo; None if neither has any.

    Raises
    ------
    BeamUQError
        If a table cannot be read.
    """
    for folder in (results / name, results / "demo"):
        if (folder / "study.json").is_file():
            jobs = measured(folder, seconds)
            if any(job.rule == "candidates" for job in jobs):
                told = json.loads((folder / "study.json").read_text(encoding="utf-8"))
                return Sample(folder, jobs, {key: model["title"] for key, model in told["models"].items()})
    return None


def predict(
    plan: Plan, sample: Sequence[Job], titles: Mapping[str, str], left: Container[JobKey] | None = None
) -> list[Prediction]:
    """What each rule of ``plan`` would take, from the jobs of a study whose models have these titles.

    ``left`` limits it to some jobs: (rule, model, dataset, recipe, scorer, or "" where the rule has none).
    """

    def asked_for(rule: str, cell: Cell, scorer: str = "") -> bool:
        return left is None or (rule, cell.model, cell.dataset, cell.recipe, scorer) in left

    decoded = {_key(job): job for job in sample if job.rule == "candidates"}
    answer = defaultdict(lambda: _ratio((job.tokens, job.candidates) for job in decoded.values()))
    for dataset in {job.cell["dataset"] for job in decoded.values()}:
        of_dataset = [job for job in decoded.values() if job.cell["dataset"] == dataset]
        answer[dataset] = _ratio((job.tokens, job.candidates) for job in of_dataset)
    similar = [(job, decoded[_key(job)]) for job in sample if job.rule == "similarity" and _key(job) in decoded]
    density = _ratio((job.pairs, source.candidates**2 / source.questions) for job, source in similar)

    planned: dict[str, list[_Planned]] = {rule: [] for rule in RULES}
    for cell in plan.cells.values():
        recipe = plan.study.recipes[cell.recipe]
        many, own = candidates_of(recipe), tuple(search.strategy for search in recipe.custom or ())
        weight = parameters(plan.study.models[cell.model].title) or 0.0
        asked = cell.questions
        if asked_for("candidates", cell):
            planned["candidates"].append(_Planned("", asked, asked * many * answer[cell.dataset], weight, own))
        if asked_for("quality", cell):
            planned["quality"].append(_Planned(plan.study.quality.metric, asked, asked))
        for scorer in sorted(plan.scorers_of(cell)):
            kind = plan.study.scorers[scorer].kind
            if asked_for("similarity", cell, scorer):
                planned["similarity"].append(_Planned(kind, asked, density * asked * many**2, own=own))
        for scorer in cell.scorers:
            if asked_for("scores", cell, scorer):
                planned["scores"].append(_Planned("", asked, asked * many, own=own))
            if asked_for("evaluation", cell, scorer):
                planned["evaluation"].append(_Planned("", asked, asked))
    for cell in filter(partial(asked_for, "statistics"), plan.statistics_cells):
        weight = parameters(plan.study.models[cell.model].title) or 0.0
        planned["statistics"].append(_Planned("", cell.questions, cell.questions, weight))
    return [_predicted(rule, jobs, sample, titles, decoded) for rule, jobs in planned.items() if jobs]


def _predicted(
    rule: str,
    planned: Sequence[_Planned],
    sample: Sequence[Job],
    titles: Mapping[str, str],
    decoded: Mapping[tuple[str, str, str], Job],
) -> Prediction:
    seconds = cpu_seconds = size = 0.0
    unknown = []
    for kind in sorted({job.kind for job in planned}):
        wanted = [job for job in planned if job.kind == kind]
        alike = [job for job in sample if job.rule == rule and kind in ("", job.kind) and _key(job) in decoded]
        amounts = [_amount(job, decoded[_key(job)]) for job in alike]
        weights = [_weight(job, titles) for job in alike]
        work = sum(amount * weight for amount, weight in zip(amounts, weights, strict=True))
        if not work or not all(job.weight for job in wanted):
            unknown.append(kind or rule)
            continue
        scale = sum(job.amount * job.weight for job in wanted) / work
        seconds += scale * sum(job.seconds for job in alike)
        cpu_seconds += scale * sum(job.cpu_seconds for job in alike)
        size += sum(job.amount for job in wanted) / sum(amounts) * sum(job.size for job in alike)
    own = sorted({name for job in planned for name in job.own})
    notes = [f"not in the sample: {', '.join(unknown)}"] if unknown else []
    notes += [f"searches of one's own not counted: {', '.join(own)}"] if own else []
    total = round(sum(job.amount for job in planned))
    return Prediction(
        rule=rule,
        jobs=len(planned),
        questions=sum(job.questions for job in planned),
        tokens=total if rule == "candidates" else 0,
        pairs=total if rule == "similarity" else 0,
        seconds=None if unknown else seconds,
        cpu_seconds=None if unknown else cpu_seconds,
        size=size,
        note="; ".join(notes),
    )


def _weight(job: Job, titles: Mapping[str, str]) -> float:
    """Parameters where a language model works; 0 where its size is not known."""
    return (parameters(titles[job.cell["model"]]) or 0.0) if job.rule in ("candidates", "statistics") else 1.0


def _amount(job: Job, source: Job) -> float:
    """What a job did, in the unit that its rule's work grows with; ``source`` decoded its candidates."""
    amounts = {
        "candidates": job.tokens,
        "statistics": source.questions,
        "similarity": job.pairs,
        "quality": source.questions,
        "scores": source.candidates,
        "evaluation": source.questions,
    }
    return float(amounts[job.rule])


def _key(job: Job) -> tuple[str, str, str]:
    return job.cell["model"], job.cell["dataset"], job.cell["recipe"]


def _ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """Sum of the first over the sum of the second; 0 where there is nothing."""
    first, second = map(sum, zip(*pairs, strict=True)) if (pairs := list(pairs)) else (0, 0)
    return first / second if second else 0.0
