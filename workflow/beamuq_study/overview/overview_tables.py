"""What the exhibits were made of, and which answers are missing, empty or cut."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq_study.grid import most_questions_asked
from beamuq_study.html_pages import DASH
from beamuq_study.parquet_tables import Footer, Json, Loaded, OnDisk
from beamuq_study.produced_answers import strategy_of
from beamuq_study.study_config import Study

UNKNOWN = "not known here"
CELL = ["model", "dataset", "recipe"]
OF_TEXTS = ["id", "strategy", "rank", "text", "terminated"]
"""The columns of candidates that are read here."""
ORIGIN = ["source", "revision", "licence", "sha256", "tokenizer sha256"]
COUNTED = [*CELL, "answer_source", "strategy", "asked", "dropped", "texts", "empty", "cut"]


# -- what the tables were made of ------------------------------------------------------------------


def models(
    study: Study, candidates: Iterable[Footer], manifests: Mapping[str, Json]
) -> pd.DataFrame:
    """One row a model, and one more for each further revision, device, dtype or decoding path.

    ``manifests`` is by source; a model read from a folder has none, and its licence is then not
    known.
    """
    cells: Counter[tuple[str, ...]] = Counter()
    for footer in candidates:
        model = study.models[footer.cell["model"]]
        provenance = footer.provenance
        origin = _origin(model.source, provenance["models"]["model"], manifests)
        device = str(provenance.get("device") or "server")
        dtype = str(provenance.get("dtype") or DASH)
        machine = (device, dtype, provenance["self_check"]["told"])
        cells[model.title, model.style, *origin, *machine] += 1
    return _counted(cells, ["model", "prompts", *ORIGIN, "device", "dtype", "decoding", "cells"])


def scorers(study: Study, footers: Iterable[Footer], manifests: Mapping[str, Json]) -> pd.DataFrame:
    """One row a similarity scorer, learned quality or its backbone; ``footers``: of all tables."""
    tables: Counter[tuple[str, ...]] = Counter()
    for footer in footers:
        if footer.kind not in ("similarity", "quality"):
            continue
        provenance = footer.provenance
        device = str(provenance.get("device") or DASH)
        dtype = str(provenance.get("dtype") or DASH)
        for loaded in _models_of(study, footer):
            identity = provenance.get("models", {}).get(loaded.role, {})
            origin = _origin(loaded.source, identity, manifests)
            row = (footer.kind, loaded.title, *origin, device, dtype, loaded.proxy_for)
            tables[row] += 1
    return _counted(tables, ["use", "scorer", *ORIGIN, "device", "dtype", "proxy for", "tables"])


@dataclass(frozen=True)
class LoadedModel:
    """A model that made a table of similarities or of quality."""

    role: str  # its name among the models of the footer
    title: str
    source: str | None
    proxy_for: str = DASH


def _models_of(study: Study, footer: Footer) -> list[LoadedModel]:
    """The scorer or quality that made a table, and the backbone of a quality that has one."""
    scorer = study.scorers.get(footer.cell.get("scorer", ""))
    if scorer is not None:
        return [LoadedModel("model", scorer.title, scorer.source, scorer.proxy_for or DASH)]
    qualities = {quality.metric: quality for quality in study.quality}
    quality = qualities[footer.cell["metric"]]
    models = [LoadedModel("model", quality.title, quality.source, quality.proxy_for or DASH)]
    if quality.backbone:
        models.append(LoadedModel("backbone", f"{quality.title}: backbone", quality.backbone))
    return models


def options_named(study: Study, footers: Iterable[Footer]) -> pd.DataFrame:
    """One row a cell and produced answer judged by its gold option.

    Of how many answers none or several options are named.
    """
    rows = []
    for footer in footers:
        for answer_source, counts in footer.provenance.get("options_named", {}).items():
            count = max(1, counts["answers"])
            row = {
                "model": study.models[footer.cell["model"]].title,
                "dataset": study.datasets[footer.cell["dataset"]].title,
                "recipe": footer.cell["recipe"],
                "answer_source": answer_source,
                **counts,
                "none %": 100 * counts["none"] / count,
                "several %": 100 * counts["several"] / count,
            }
            rows.append(row)
    return pd.DataFrame(rows)


def datasets(study: Study, questions: Iterable[Loaded]) -> pd.DataFrame:
    """One row a dataset: source, revision, licence, the file read, and what of it is asked."""
    rows = []
    for loaded in questions:
        dataset = study.datasets[loaded.cell["dataset"]]
        file = loaded.provenance["files"]["split"]
        read = loaded.provenance["read"]
        asked_questions = loaded.table.slice(0, most_questions_asked(study, loaded.cell["dataset"]))
        source = _source(dataset.source)
        fetched = file["fetched"] or {}
        rows.append(
            {
                "dataset": dataset.title,
                "source": f"{source}, {dataset.config}" if dataset.config else source,
                "revision": _short(str(fetched.get("revision") or DASH)),
                "licence": dataset.licence,
                "file": file["name"],
                "sha256": _short(file["sha256"]),
                "questions in the split": read["questions"],
                "left out: row repeats an id": read["repeated_rows"],
                "left out: not in the seeded subset": read["questions"] - asked_questions.num_rows,
                "asked": asked_questions.num_rows,
                "groups (n)": len(set(asked_questions.column("group").to_pylist())),
                "few-shot (n)": dataset.few_shot,
                "new tokens, at most": dataset.max_new_tokens,
            }
        )
    return pd.DataFrame(rows)


def versions(footers: Iterable[Footer]) -> pd.DataFrame:
    """Package versions, each with the tables it made: more than one line a package is a warning."""
    rows = []
    for footer in footers:
        for package, version in footer.provenance.get("versions", {}).items():
            rows.append((package, version, footer.kind))
    frame = pd.DataFrame(rows, columns=["package", "version", "of"])
    kinds = frame.groupby(["package", "version"])["of"]
    return kinds.agg(tables="size", of=lambda kind: ", ".join(dict.fromkeys(kind))).reset_index()


def _origin(
    source: str | None, identity: Mapping[str, Any], manifests: Mapping[str, Json]
) -> tuple[str, ...]:
    """``ORIGIN``: hashes are of all files and of the tokenizer's, shortened."""
    if source is None:
        return ("no model", DASH, DASH, DASH, DASH)
    licence = str(manifests.get(source, {}).get("licence") or UNKNOWN)
    revision = _short(identity.get("revision") or UNKNOWN)
    content = _short(identity.get("content") or UNKNOWN)  # a server's weights are unknown
    tokenizer = _short(identity.get("tokenizer") or UNKNOWN)
    return (_source(source), revision, licence, content, tokenizer)


def _source(source: str) -> str:
    """A source without a folder's path."""
    if not source.startswith("folder:"):
        return source
    return f"folder {Path(source.removeprefix('folder:')).name}"


def _short(digest: str) -> str:
    return digest if digest == UNKNOWN else digest[:12]


def _counted(counts: Mapping[tuple[str, ...], int], columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame([(*row, count) for row, count in counts.items()], columns=columns)


# -- answers that are missing, empty or cut --------------------------------------------------------


@dataclass(frozen=True)
class Texts:
    """The texts of a produced answer of a cell, or of a strategy with all its candidates."""

    cell: list[str]  # by CELL
    answer_source: str  # "": a strategy
    strategy: str
    ids: Sequence[str]  # of the questions asked
    frame: pd.DataFrame  # of OF_TEXTS

    @property
    def keys(self) -> list[str]:
        return [*self.cell, self.answer_source, self.strategy]

    @property
    def dropped(self) -> set[str]:
        """The questions asked that have no such text."""
        return set(self.ids) - set(self.frame["id"])

    @property
    def is_empty(self) -> pd.Series[bool]:
        """By text: whether cleaning left nothing of it."""
        return self.frame["text"] == ""

    @property
    def is_cut(self) -> pd.Series[bool]:
        """By text: whether it reached the largest number of tokens."""
        return ~self.frame["terminated"]


def counts(
    study: Study, question_ids: Mapping[str, Sequence[str]], candidates: Sequence[Loaded | OnDisk]
) -> pd.DataFrame:
    """A row a cell and produced answer, then one a strategy with all its candidates.

    Its ``answer_source`` is "". ``question_ids``: by dataset, in the order of the subset; a cell
    asks the first of them, as many as the settings of its candidates say. ``dropped`` counts
    questions asked that have no such text, ``empty`` texts of which cleaning left nothing, ``cut``
    texts that reached the largest number of tokens.
    """
    rows = []
    for texts in _texts(study, question_ids, candidates):
        asked_count = len(texts.ids)
        empty_count = int(texts.is_empty.sum())
        cut_count = int(texts.is_cut.sum())
        row = (asked_count, len(texts.dropped), len(texts.frame), empty_count, cut_count)
        rows.append((*texts.keys, *row))
    return pd.DataFrame(rows, columns=COUNTED)


def listed(
    study: Study, question_ids: Mapping[str, Sequence[str]], candidates: Sequence[Loaded | OnDisk]
) -> pd.DataFrame:
    """A row a produced answer that is dropped, empty or cut (``what``), in the order asked.

    With its question's id.
    """
    rows = []
    for texts in _texts(study, question_ids, candidates):
        if not texts.answer_source:
            continue
        ids_by_fault = {
            "dropped": texts.dropped,
            "empty": set(texts.frame.loc[texts.is_empty, "id"]),
            "cut": set(texts.frame.loc[texts.is_cut, "id"]),
        }
        for fault, faulty_ids in ids_by_fault.items():
            place = (*texts.cell, texts.answer_source, fault)
            rows += [(*place, key) for key in texts.ids if key in faulty_ids]
    return pd.DataFrame(rows, columns=[*CELL, "answer_source", "what", "id"])


def answers_shown(study: Study, counted: pd.DataFrame) -> pd.DataFrame:
    """The produced answers of :func:`counts` as the page has them, with shares empty or cut."""
    answers = counted[counted["answer_source"] != ""]
    titles = {
        "model": {name: model.title for name, model in study.models.items()},
        "dataset": {name: dataset.title for name, dataset in study.datasets.items()},
    }
    count = answers["texts"].clip(lower=1)
    shares = {f"{name} %": 100 * answers[name] / count for name in ("empty", "cut")}
    columns = [*COUNTED[:7], "empty", "empty %", "cut", "cut %"]
    return answers.replace(titles).assign(**shares)[columns]


def _texts(
    study: Study, question_ids: Mapping[str, Sequence[str]], candidates: Sequence[Loaded | OnDisk]
) -> Iterator[Texts]:
    """Of each cell its produced answers, then its strategies."""
    for loaded in candidates:
        cell = [loaded.cell[name] for name in CELL]
        recipe = study.recipes[loaded.cell["recipe"]]
        asked_count = loaded.provenance["settings"]["questions"]
        ids = question_ids[loaded.cell["dataset"]][:asked_count]
        frame = loaded.table.select(OF_TEXTS).to_pandas()
        first = frame[frame["rank"] == 0]
        for name in study.answer_source:
            strategy = recipe.decoded(strategy_of(name, study.main.beam))
            if strategy:
                answers = first[first["strategy"] == strategy]
                yield Texts(cell, name, strategy, ids, answers)
        for strategy in recipe.strategies():
            yield Texts(cell, "", strategy, ids, frame[frame["strategy"] == strategy])
