"""The facts that a reader of the exhibits needs beside them, out of footers, manifests and candidates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from beamuq.study import Study
from beamuq.tables import Loaded

Json = Any


def models(study: Study, candidates: Iterable[Loaded], manifests: Mapping[str, Json]) -> pd.DataFrame:
    """One row a model: where it came from, its revision and licence, and on what it ran.

    ``manifests`` is by source; a model read from a folder has none, and its licence is then not known.
    """
    rows = {}
    for loaded in candidates:
        key = loaded.cell["model"]
        found, source = loaded.provenance["models"]["model"], study.models[key].source
        rows[key] = {
            "model": study.models[key].title,
            "source": source.split("/")[-1] if source.startswith("folder:") else source,
            "revision": found["revision"][:12],
            "licence": manifests.get(source, {}).get("licence") or "not known here",
            "dtype": loaded.provenance["dtype"],
            "device": loaded.provenance["device"],
        }
    return pd.DataFrame(rows.values())


def scorers(study: Study, manifests: Mapping[str, Json]) -> pd.DataFrame:
    """One row a similarity scorer or learned quality: title, source, revision, licence, what it stands in for."""
    quality = study.quality
    named = [(scorer.title, scorer.source, scorer.stand_in_for) for scorer in study.scorers.values()]
    named.append((quality.title, quality.source, quality.stand_in_for))
    return pd.DataFrame(
        {
            "scorer": title,
            "source": source or "no model",
            "revision": str(manifests.get(source or "", {}).get("revision", "–"))[:12],
            "licence": manifests.get(source or "", {}).get("licence") or "–",
            "stand-in for": stand_in or "–",
        }
        for title, source, stand_in in named
    )


def datasets(study: Study, questions: Iterable[Loaded]) -> pd.DataFrame:
    """One row a dataset: source, licence, how many questions and groups, and the hash of the file read."""
    rows = []
    for loaded in questions:
        dataset = study.datasets[loaded.cell["dataset"]]
        file = loaded.provenance["files"]["split"]
        rows.append(
            {
                "dataset": dataset.title,
                "source": dataset.source,
                "licence": dataset.licence,
                "questions": loaded.table.num_rows,
                "groups": len(set(loaded.table.column("group").to_pylist())),
                "file": file["name"],
                "sha256": file["sha256"][:12],
            }
        )
    return pd.DataFrame(rows)


def answers(study: Study, candidates: Iterable[Loaded]) -> pd.DataFrame:
    """One row a cell and strategy: candidates, the share of empty texts, and of those cut at the longest length."""
    rows = []
    for loaded in candidates:
        frame = loaded.table.select(["strategy", "text", "terminated"]).to_pandas()
        for strategy, group in frame.groupby("strategy", sort=False):
            rows.append(
                {
                    "model": study.models[loaded.cell["model"]].title,
                    "dataset": study.datasets[loaded.cell["dataset"]].title,
                    "recipe": loaded.cell["recipe"],
                    "strategy": strategy,
                    "candidates": len(group),
                    "empty %": round(100 * float((group["text"] == "").mean()), 1),
                    "cut %": round(100 * float((~group["terminated"]).mean()), 1),
                }
            )
    return pd.DataFrame(rows)


def versions(candidates: Iterable[Loaded]) -> pd.DataFrame:
    """Package versions that decoded, each with how many cells it decoded: more than one line a package is a warning."""
    counted: dict[tuple[str, str], int] = {}
    for loaded in candidates:
        for package, version in loaded.provenance["versions"].items():
            counted[package, version] = counted.get((package, version), 0) + 1
    return pd.DataFrame(
        [(*key, cells) for key, cells in sorted(counted.items())], columns=["package", "version", "cells"]
    )
