"""The facts that a reader of the exhibits needs beside them, out of footers and manifests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import pandas as pd

from beamuq_study.html_pages import DASH
from beamuq_study.parquet_tables import Footer, Json, Loaded
from beamuq_study.study_config import Quality, Study

UNKNOWN = "not known here"


def settings(study: Study, candidates: Iterable[Loaded]) -> pd.DataFrame:
    """What the study fixes for every cell, as name and value; the batch is that of the tables."""
    main, evaluation = study.main, study.evaluation
    batches = sorted({loaded.provenance["settings"]["batch_questions"] for loaded in candidates})
    merged = [name for name, recipe in study.recipes.items() if recipe.merge_stop_tokens]
    lines = {
        "seed of subsets, samples and bootstrap": study.seed,
        "questions decoded together": ", ".join(map(str, batches)),
        "a newline ends an answer": study.newline_stops,
        "recipes whose bare stop tokens are one ending": ", ".join(merged) or "none",
        "produced answers": ", ".join(study.answer_source),
        "candidates of the main tables": f"{main.sample}; {main.beam}",
        "similarity of the main tables": study.scorers[main.scorer].title,
        "quality; correct above": "; ".join(f"{of.title}; {of.threshold:g}" for of in study.quality),
        "bootstrap": f"{evaluation.resamples:,} resamples, {evaluation.confidence:.0%} intervals",
    }
    values = ["yes" if value is True else "no" if value is False else str(value) for value in lines.values()]
    return pd.DataFrame({"setting": list(lines), "value": values})


def models(study: Study, candidates: Iterable[Loaded], manifests: Mapping[str, Json]) -> pd.DataFrame:
    """One row a model, and one more for each further revision, device, dtype or path that decoded some of its cells.

    ``manifests`` is by source; a model read from a folder has none, and its licence is then not known.
    """
    cells: Counter[tuple[str, ...]] = Counter()
    for loaded in candidates:
        model, identity = study.models[loaded.cell["model"]], loaded.provenance["models"]["model"]
        path = loaded.provenance["self_check"]["told"]
        how = loaded.provenance["device"], loaded.provenance["dtype"], path
        cells[model.title, model.style, *_origin(model.source, identity, manifests), *how] += 1
    columns = ["model", "prompts", *_ORIGIN, "device", "dtype", "decoding"]
    return _counted(cells, columns, "cells")


def scorers(study: Study, footers: Iterable[Footer], manifests: Mapping[str, Json]) -> pd.DataFrame:
    """One row a similarity scorer or learned quality and its backbone; ``footers`` are footers of all tables."""
    used: Counter[tuple[str, ...]] = Counter()
    qualities = {of.metric: of for of in study.quality}
    for footer in footers:
        if footer.kind not in ("similarity", "quality"):
            continue
        of = qualities[footer.cell["metric"]] if footer.kind == "quality" else study.scorers[footer.cell["scorer"]]
        named = [(of.title, of.source, "model", of.proxy_for)]
        if isinstance(of, Quality) and of.backbone:
            named.append((f"{of.title}: backbone", of.backbone, "backbone", None))
        for title, source, role, proxy_for in named:
            origin = _origin(source, footer.provenance.get("models", {}).get(role, {}), manifests)
            ran = (str(footer.provenance.get(name) or DASH) for name in ("device", "dtype"))
            used[footer.kind, title, *origin, *ran, proxy_for or DASH] += 1
    return _counted(used, ["use", "scorer", *_ORIGIN, "device", "dtype", "proxy for"], "tables")


_ORIGIN = ("source", "revision", "licence", "sha256", "tokenizer sha256")


def _origin(source: str | None, identity: Mapping[str, str], manifests: Mapping[str, Json]) -> tuple[str, ...]:
    """Source without a folder's path, revision, licence, hashes of all files and of the tokenizer's, shortened."""
    if source is None:
        return ("no model", DASH, DASH, DASH, DASH)
    licence = manifests.get(source, {}).get("licence") or UNKNOWN
    hashes = (identity.get(key, UNKNOWN) for key in ("content", "tokenizer"))
    return (_source(source), _short(identity.get("revision", UNKNOWN)), str(licence), *map(_short, hashes))


def _source(source: str) -> str:
    return f"folder {source.rsplit('/', 1)[-1]}" if source.startswith("folder:") else source


def _short(digest: str) -> str:
    return digest if digest == UNKNOWN else digest[:12]


def options_named(study: Study, footers: Iterable[Footer]) -> pd.DataFrame:
    """One row a cell and produced answer judged by its gold option: of how many answers none or several are named."""
    rows = []
    for footer in footers:
        for answer_source, of in footer.provenance.get("options_named", {}).items():
            model, dataset = study.models[footer.cell["model"]].title, study.datasets[footer.cell["dataset"]].title
            row: dict[str, Json] = {"model": model, "dataset": dataset, "recipe": footer.cell["recipe"]}
            row |= {"answer_source": answer_source, "answers": of["answers"]}
            for what in ("none", "several"):
                row |= {what: of[what], f"{what} %": 100 * of[what] / max(1, of["answers"])}
            rows.append(row)
    return pd.DataFrame(rows)


def datasets(study: Study, questions: Iterable[Loaded]) -> pd.DataFrame:
    """One row a dataset: source, revision, licence, the file read and its hash, groups of the bootstrap."""
    rows = []
    for loaded in questions:
        dataset = study.datasets[loaded.cell["dataset"]]
        file, source = loaded.provenance["files"]["split"], _source(dataset.source)
        rows.append(
            {
                "dataset": dataset.title,
                "source": f"{source}, {dataset.config}" if dataset.config else source,
                "revision": _short(str((file["fetched"] or {}).get("revision") or DASH)),
                "licence": dataset.licence,
                "file": file["name"],
                "sha256": _short(file["sha256"]),
                "questions (n)": loaded.table.num_rows,
                "groups (n)": len(set(loaded.table.column("group").to_pylist())),
                "few-shot (n)": dataset.few_shot,
                "new tokens, at most": dataset.max_new_tokens,
            }
        )
    return pd.DataFrame(rows)


def reading(study: Study, questions: Iterable[Loaded]) -> pd.DataFrame:
    """One row a dataset: what its split holds and what of it is asked; nothing else is left out."""
    rows = []
    for loaded in questions:
        count, read = loaded.table.num_rows, loaded.provenance["read"]
        rows.append(
            {
                "dataset": study.datasets[loaded.cell["dataset"]].title,
                "questions in the split": read["questions"],
                "left out: row repeats an id": read["repeated_rows"],
                "left out: not in the seeded subset": read["questions"] - count,
                "asked": count,
            }
        )
    return pd.DataFrame(rows)


def prompts(study: Study, footers: Iterable[Footer]) -> pd.DataFrame:
    """One row a style and dataset: the hash of the template."""
    rows = [
        (footer.cell["style"], study.datasets[footer.cell["dataset"]].title, footer.provenance["template_sha256"][:12])
        for footer in footers
        if footer.kind == "prompts"
    ]
    return pd.DataFrame(rows, columns=["style", "dataset", "template sha256"])


def versions(footers: Iterable[Footer]) -> pd.DataFrame:
    """Package versions, each with the tables it made: more than one line a package is a warning."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for footer in footers:
        for key in footer.provenance.get("versions", {}).items():
            kinds.setdefault(key, []).append(footer.kind)
    rows = [(*key, len(of), ", ".join(dict.fromkeys(of))) for key, of in sorted(kinds.items())]
    return pd.DataFrame(rows, columns=["package", "version", "tables", "of"])


def _counted(counts: Mapping[tuple[str, ...], int], columns: list[str], unit: str) -> pd.DataFrame:
    return pd.DataFrame([(*row, count) for row, count in counts.items()], columns=[*columns, unit])
