"""The facts that a reader of the exhibits needs beside them, out of footers, manifests and
candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pandas as pd

from beamuq_study.html_pages import DASH
from beamuq_study.parquet_tables import Footer, Json, Loaded, OnDisk
from beamuq_study.produced_answers import strategy_of
from beamuq_study.study_config import Quality, Study

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
    """One row a model, and one more for each further revision, device, dtype or path that decoded
    some of its cells.

    ``manifests`` is by source; a model read from a folder has none, and its licence is then not
    known.
    """
    cells: Counter[tuple[str, ...]] = Counter()
    for loaded in candidates:
        model, made = study.models[loaded.cell["model"]], loaded.provenance
        origin = _origin(model.source, made["models"]["model"], manifests)
        cells[
            model.title,
            model.style,
            *origin,
            made["device"],
            made["dtype"],
            made["self_check"]["told"],
        ] += 1
    return _counted(cells, ["model", "prompts", *ORIGIN, "device", "dtype", "decoding", "cells"])


def scorers(study: Study, footers: Iterable[Footer], manifests: Mapping[str, Json]) -> pd.DataFrame:
    """One row a similarity scorer or learned quality and its backbone; ``footers`` are footers of
    all tables.
    """
    used: Counter[tuple[str, ...]] = Counter()
    qualities = {quality.metric: quality for quality in study.quality}
    for footer in footers:
        if footer.kind not in ("similarity", "quality"):
            continue
        made, scorer = footer.provenance, study.scorers.get(footer.cell.get("scorer", ""))
        judge = scorer or qualities[footer.cell["metric"]]
        loaded = {"model": (judge.title, judge.source, judge.proxy_for or DASH)}
        if isinstance(judge, Quality) and judge.backbone:
            loaded["backbone"] = (f"{judge.title}: backbone", judge.backbone, DASH)
        for name, (title, source, proxy_for) in loaded.items():
            origin = _origin(source, made.get("models", {}).get(name, {}), manifests)
            ran = (str(made.get(key) or DASH) for key in ("device", "dtype"))
            used[footer.kind, title, *origin, *ran, proxy_for] += 1
    return _counted(used, ["use", "scorer", *ORIGIN, "device", "dtype", "proxy for", "tables"])


def options_named(study: Study, footers: Iterable[Footer]) -> pd.DataFrame:
    """One row a cell and produced answer judged by its gold option: of how many answers none or
    several are named.
    """
    rows = []
    for footer in footers:
        for answer_source, counts in footer.provenance.get("options_named", {}).items():
            shares = {
                f"{what} %": 100 * counts[what] / max(1, counts["answers"])
                for what in ("none", "several")
            }
            model, dataset = (
                study.models[footer.cell["model"]].title,
                study.datasets[footer.cell["dataset"]].title,
            )
            place = {"model": model, "dataset": dataset, "recipe": footer.cell["recipe"]}
            rows.append(place | {"answer_source": answer_source} | counts | shares)
    return pd.DataFrame(rows)


def datasets(study: Study, questions: Iterable[Loaded]) -> pd.DataFrame:
    """One row a dataset: source, revision, licence, the file read, its hash, and what of it is
    asked or left out.
    """
    rows = []
    for loaded in questions:
        dataset, made, count = (
            study.datasets[loaded.cell["dataset"]],
            loaded.provenance,
            loaded.table.num_rows,
        )
        file, source = made["files"]["split"], _source(dataset.source)
        rows.append(
            {
                "dataset": dataset.title,
                "source": f"{source}, {dataset.config}" if dataset.config else source,
                "revision": _short(str((file["fetched"] or {}).get("revision") or DASH)),
                "licence": dataset.licence,
                "file": file["name"],
                "sha256": _short(file["sha256"]),
                "questions in the split": made["read"]["questions"],
                "left out: row repeats an id": made["read"]["repeated_rows"],
                "left out: not in the seeded subset": made["read"]["questions"] - count,
                "asked": count,
                "groups (n)": len(set(loaded.table.column("group").to_pylist())),
                "few-shot (n)": dataset.few_shot,
                "new tokens, at most": dataset.max_new_tokens,
            }
        )
    return pd.DataFrame(rows)


def versions(footers: Iterable[Footer]) -> pd.DataFrame:
    """Package versions, each with the tables it made: more than one line a package is a warning."""
    made = [
        (*key, footer.kind)
        for footer in footers
        for key in footer.provenance.get("versions", {}).items()
    ]
    frame = pd.DataFrame(made, columns=["package", "version", "of"])
    kinds = frame.groupby(["package", "version"])["of"]
    return kinds.agg(tables="size", of=lambda kind: ", ".join(dict.fromkeys(kind))).reset_index()


def _origin(
    source: str | None, identity: Mapping[str, str], manifests: Mapping[str, Json]
) -> tuple[str, ...]:
    """Source without a folder's path, revision, licence, hashes of all files and of the
    tokenizer's, shortened.
    """
    if source is None:
        return ("no model", DASH, DASH, DASH, DASH)
    licence = str(manifests.get(source, {}).get("licence") or UNKNOWN)
    revision, content, tokenizer = (
        _short(identity.get(key, UNKNOWN)) for key in ("revision", "content", "tokenizer")
    )
    return (_source(source), revision, licence, content, tokenizer)


def _source(source: str) -> str:
    return f"folder {source.rsplit('/', 1)[-1]}" if source.startswith("folder:") else source


def _short(digest: str) -> str:
    return digest if digest == UNKNOWN else digest[:12]


def _counted(counts: Mapping[tuple[str, ...], int], columns: list[str]) -> pd.DataFrame:
    return pd.DataFrame([(*row, count) for row, count in counts.items()], columns=columns)


# -- answers that are missing, empty or cut --------------------------------------------------------


def counts(
    study: Study, question_ids: Mapping[str, Sequence[str]], candidates: Sequence[Loaded | OnDisk]
) -> pd.DataFrame:
    """A row a cell and produced answer, then one a strategy with all its candidates
    (``answer_source`` is "").

    ``question_ids``: by dataset, in the order of the subset; a cell asks the first of them, as many
    as the settings of its candidates say. ``dropped`` counts questions asked that have no such
    text, ``empty`` texts of which cleaning left nothing, ``cut`` texts that reached the largest
    number of tokens.
    """
    rows = []
    for keys, ids, texts in _texts(study, question_ids, candidates):
        dropped = len(set(ids) - set(texts["id"]))
        numbers = (
            len(ids),
            dropped,
            len(texts),
            (texts["text"] == "").sum(),
            (~texts["terminated"]).sum(),
        )
        rows.append((*keys, *map(int, numbers)))
    return pd.DataFrame(rows, columns=COUNTED)


def listed(
    study: Study, question_ids: Mapping[str, Sequence[str]], candidates: Sequence[Loaded | OnDisk]
) -> pd.DataFrame:
    """A row a produced answer that is dropped, empty or cut (``what``), with its question's id, in
    the order asked.
    """
    rows = []
    for (*cell, answer_source, _), ids, texts in _texts(study, question_ids, candidates):
        if answer_source:
            lists = {
                "dropped": set(ids) - set(texts["id"]),
                "empty": set(texts.loc[texts["text"] == "", "id"]),
                "cut": set(texts.loc[~texts["terminated"], "id"]),
            }
            rows += [
                (*cell, answer_source, what, key)
                for what in lists
                for key in ids
                if key in lists[what]
            ]
    return pd.DataFrame(rows, columns=[*CELL, "answer_source", "what", "id"])


def answers_shown(study: Study, counted: pd.DataFrame) -> pd.DataFrame:
    """The produced answers of :func:`counts` as the page has them, with the shares of those that
    are empty or cut.
    """
    answers = counted[counted["answer_source"] != ""]
    titles = {
        name: {key: of.title for key, of in getattr(study, f"{name}s").items()} for name in CELL[:2]
    }
    shares = {
        f"{name} %": 100 * answers[name] / answers["texts"].clip(lower=1)
        for name in ("empty", "cut")
    }
    return answers.replace(titles).assign(**shares)[
        [*COUNTED[:7], "empty", "empty %", "cut", "cut %"]
    ]


def _texts(
    study: Study, question_ids: Mapping[str, Sequence[str]], candidates: Sequence[Loaded | OnDisk]
) -> Iterator[tuple[list[str], Sequence[str], pd.DataFrame]]:
    """Of each cell's produced answers, then strategies: cell, answer source, strategy; questions
    asked; the texts.
    """
    for loaded in candidates:
        cell, recipe = [loaded.cell[name] for name in CELL], study.recipes[loaded.cell["recipe"]]
        ids = question_ids[loaded.cell["dataset"]][: loaded.provenance["settings"]["questions"]]
        frame = loaded.table.select(OF_TEXTS).to_pandas()
        for name in study.answer_source:
            if strategy := recipe.decoded(strategy_of(name, study.main.beam)):
                yield (
                    [*cell, name, strategy],
                    ids,
                    frame[(frame["strategy"] == strategy) & (frame["rank"] == 0)],
                )
        for strategy in recipe.strategies():
            yield [*cell, "", strategy], ids, frame[frame["strategy"] == strategy]
