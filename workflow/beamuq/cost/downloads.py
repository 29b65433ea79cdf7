"""What a study takes from outside: its size on disk, its licence, and what there is still to download."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beamuq.cost.measured_costs import parameters
from beamuq.models.hub_download import GATES, UNKNOWN
from beamuq.models.model_folder import read_manifest, wanted_files
from beamuq.models.model_source import parse_source
from beamuq.models.packaged_weights import PACKAGED
from beamuq.models.revision_lock import Kind, entry_of
from beamuq.plan.jobs import Plan


@dataclass(frozen=True)
class Holding:
    """One model folder or dataset split: what for, where from, which revision, bytes on disk, licence, gate."""

    use: str
    source: str
    revision: str
    size: int
    licence: str
    gated: str


def holdings(plan: Plan) -> list[Holding]:
    """Everything that the study reads, models and scorers first, each once.

    Raises
    ------
    BeamUQError
        If a manifest, a file it names or the lock file cannot be read.
    """
    lock = Path(plan.lock)
    return [_model(plan, lock, source, use) for source, use in plan.uses().items()] + _splits(plan, lock)


def _model(plan: Plan, lock: Path, source: str, use: str) -> Holding:
    folder = Path(plan.model_manifest(source)).parent
    known = read_manifest(folder) or {}
    parsed = parse_source(source)
    size = sum(file["size"] for file in known["files"].values()) if known else _size_of(folder.rglob("*"))
    facts = entry_of(lock, "models", parsed.name) if parsed.kind == "hub" else {"gated": False}
    licence = known.get("licence") or UNKNOWN
    return Holding(use, source, known.get("revision", "–"), size, licence, _gate(facts))


def _splits(plan: Plan, lock: Path) -> list[Holding]:
    held = []
    for key in dict.fromkeys(cell.dataset for cell in plan.cells.values()):
        dataset = plan.study.datasets[key]
        size = _size_of(map(Path, set(plan.questions_inputs_of(key).values())))
        licence, source, facts = dataset.licence, dataset.source, {}
        if plan.from_hub(dataset):
            facts = entry_of(lock, "datasets", source.removeprefix("hub:"))
            licence += f"; card: {facts.get('licence', UNKNOWN)}"
        else:
            facts = {"gated": False}
            source = str(Path(plan.split_file(key, dataset.split)).parent)
        held.append(Holding(f"dataset {key}", source, facts.get("commit", "–"), size, licence, _gate(facts)))
    return held


def _gate(facts: dict[str, Any]) -> str:
    return GATES.get(facts.get("gated"), UNKNOWN)


def _size_of(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files if file.is_file())


@dataclass(frozen=True)
class Downloads:
    """What is still to be fetched: how many models and splits, the bytes known of them, those of unknown size.

    ``guess``: bytes of the latter's weights in bfloat16, as far as the titles of models name their parameters.
    """

    count: int
    size: int
    unknown: tuple[str, ...]
    guess: float


def downloads(plan: Plan) -> Downloads:
    """What :func:`fetched` of the plan lacks here; sizes are those pinned for packages or named by the lock file.

    Raises
    ------
    BeamUQError
        If the lock file cannot be read.
    """
    lock, count, size = Path(plan.lock), 0, 0
    unknown = []
    for source in plan.uses():
        if not source.startswith("folder:") and not Path(plan.model_manifest(source)).is_file():
            count += 1
            if (bytes_ := _download_of(lock, source)) is None:
                unknown.append(source)
            size += bytes_ or 0
    configs = {}
    for key in dict.fromkeys(cell.dataset for cell in plan.cells.values()):
        dataset = plan.study.datasets[key]
        missing = [file for file in set(plan.questions_inputs_of(key).values()) if not Path(file).is_file()]
        if plan.from_hub(dataset) and missing:
            count += len(missing)
            sizes = _sizes(lock, "datasets", dataset.source.removeprefix("hub:"))
            configs[dataset.source, dataset.config] = sizes.get(dataset.config or "default")
    unknown += [source for (source, _), bytes_ in configs.items() if bytes_ is None]
    size += sum(bytes_ or 0 for bytes_ in configs.values())
    titles = {model.source: model.title for model in plan.study.models.values() if model.source in unknown}
    guess = sum(2 * (parameters(title) or 0.0) for title in titles.values())
    return Downloads(count, size, tuple(dict.fromkeys(unknown)), guess)


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
