"""What a study takes from outside: its size on disk, its licence, and what there is still to download."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamuq.models.hub_download import GATES, UNKNOWN, readable
from beamuq.models.model_folder import read_manifest, wanted_files
from beamuq.models.model_source import parse_source
from beamuq.models.packaged_weights import PACKAGED
from beamuq.models.revision_lock import Kind, entry_of
from beamuq.plan.study_on_machine import Plan


@dataclass(frozen=True)
class FetchedSource:
    """One model folder or dataset split: what for, where from, which revision, bytes on disk, licence, gate."""

    use: str
    source: str
    revision: str
    size: int
    licence: str
    gated: str


def fetched_sources(plan: Plan) -> list[FetchedSource]:
    """Everything that the study reads, models and scorers first, each once.

    Raises BeamUQError if a manifest, a file it names or the lock file cannot be read.
    """
    lock = plan.paths.lock
    return [_model(plan, lock, source, use) for source, use in plan.grid.model_uses.items()] + _splits(plan, lock)


def _model(plan: Plan, lock: Path, source: str, use: str) -> FetchedSource:
    folder = plan.paths.model_manifest(source).parent
    known = read_manifest(folder) or {}
    parsed = parse_source(source)
    size = sum(file["size"] for file in known["files"].values()) if known else _size_of(folder.rglob("*"))
    facts = entry_of(lock, "models", parsed.name) if parsed.kind == "hub" else {"gated": False}
    licence = known.get("licence") or UNKNOWN
    return FetchedSource(use, source, known.get("revision", "–"), size, licence, _gate(facts))


def _splits(plan: Plan, lock: Path) -> list[FetchedSource]:
    held = []
    for key in plan.grid.datasets:
        dataset = plan.study.datasets[key]
        size = _size_of(set(plan.paths.splits(plan.study, key).values()))
        licence, source, facts = dataset.licence, dataset.source, {}
        if plan.paths.is_fetched(dataset):
            facts = entry_of(lock, "datasets", source.removeprefix("hub:"))
            licence += f"; card: {facts.get('licence', UNKNOWN)}"
        else:
            facts = {"gated": False}
            source = str(plan.paths.split(key, dataset, dataset.split).parent)
        held.append(FetchedSource(f"dataset {key}", source, facts.get("commit", "–"), size, licence, _gate(facts)))
    return held


def _gate(facts: dict[str, Any]) -> str:
    return GATES.get(facts.get("gated"), UNKNOWN)


def _size_of(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.is_file())


@dataclass(frozen=True)
class Downloads:
    """What is still to be fetched: how many models and splits, the bytes known of them, those of unknown size."""

    count: int
    size: int
    unknown: tuple[str, ...]

    def __str__(self) -> str:
        """In words."""
        parts = [f"{self.count} models and dataset splits"]
        if self.size or not self.unknown:
            parts.append(readable(self.size) + (" of known size" if self.unknown else ""))
        if self.unknown:
            few = f" ({', '.join(self.unknown)})" if len(self.unknown) < 4 else ""
            parts.append(f"size of {len(self.unknown)} sources unknown until asked{few}")
        return "; ".join(parts)


def downloads(plan: Plan) -> Downloads:
    """What the study lacks here; sizes are those pinned for packages or named by the lock file.

    Raises BeamUQError if the lock file cannot be read.
    """
    lock, count, size = plan.paths.lock, 0, 0
    unknown = []
    for source in plan.grid.model_uses:
        if not source.startswith("folder:") and not plan.paths.model_manifest(source).is_file():
            count += 1
            if (bytes_ := _download_of(lock, source)) is None:
                unknown.append(source)
            size += bytes_ or 0
    configs = {}
    for key in plan.grid.datasets:
        dataset = plan.study.datasets[key]
        missing = [file for file in set(plan.paths.splits(plan.study, key).values()) if not file.is_file()]
        if plan.paths.is_fetched(dataset) and missing:
            count += len(missing)
            sizes = _sizes(lock, "datasets", dataset.source.removeprefix("hub:"))
            configs[dataset.source, dataset.config] = sizes.get(dataset.config or "default")
    unknown += [source for (source, _), bytes_ in configs.items() if bytes_ is None]
    size += sum(bytes_ or 0 for bytes_ in configs.values())
    return Downloads(count, size, tuple(dict.fromkeys(unknown)))


def _download_of(lock: Path, source: str) -> int | None:
    parsed = parse_source(source)
    if parsed.kind == "packaged":
        return PACKAGED[parsed.name].wheels[0].size
    sizes = _sizes(lock, "models", parsed.name)
    if parsed.file:
        return sizes.get(parsed.file)
    return sum(sizes[name] for name in wanted_files(sizes)) if "config.json" in sizes else None


def _sizes(lock: Path, kind: Kind, repo_id: str) -> dict[str, int]:
    sizes = entry_of(lock, kind, repo_id).get("sizes")
    return sizes if isinstance(sizes, dict) else {}
