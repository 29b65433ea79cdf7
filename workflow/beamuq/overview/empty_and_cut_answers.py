"""Answers that are missing, empty or cut: how many, and of which questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

import pandas as pd

from beamuq.html_pages import DASH
from beamuq.judged_answer import strategy_of
from beamuq.parquet_tables import Loaded
from beamuq.study_config import Study

CELL = ["model", "dataset", "recipe"]
COLUMNS = [*CELL, "answer_source", "strategy", "asked", "dropped", "texts", "empty", "cut"]
LISTED = [*CELL, "answer_source", "what", "id"]
FIRST = 3


def counts(study: Study, asked: Mapping[str, Sequence[str]], candidates: Sequence[Loaded]) -> pd.DataFrame:
    """A row a cell and produced answer, then one a strategy with all its candidates (``produced`` is "").

    Parameters
    ----------
    asked
        Question ids by dataset, in the order of the subset; a cell asks the first of them.
    candidates
        Tables of candidates, whose settings say how many questions were asked.

    Returns
    -------
    DataFrame of ``COLUMNS``: ``dropped`` counts questions asked that have no such text, ``empty`` texts of which
    cleaning left nothing, ``cut`` texts that reached the largest number of tokens.
    """
    rows: list[tuple[object, ...]] = []
    for loaded in candidates:
        ids = _asked(asked, loaded)
        frame = _frame(loaded)
        for answer_source, strategy, texts in _produced(study, loaded.cell["recipe"], frame):
            rows.append((*_cell(loaded), answer_source, strategy, *_counted(texts, ids)))
        for strategy in study.recipes[loaded.cell["recipe"]].strategies():
            rows.append((*_cell(loaded), "", strategy, *_counted(frame[frame["strategy"] == strategy], ids)))
    return pd.DataFrame(rows, columns=COLUMNS)


def listed(study: Study, asked: Mapping[str, Sequence[str]], candidates: Sequence[Loaded]) -> pd.DataFrame:
    """A row a produced answer that is dropped, empty or cut (``what``), with its question's id, in the order asked."""
    rows: list[tuple[str, ...]] = []
    for loaded in candidates:
        ids = _asked(asked, loaded)
        frame = _frame(loaded)
        for answer_source, _, texts in _produced(study, loaded.cell["recipe"], frame):
            found = {
                "dropped": set(ids) - set(texts["id"]),
                "empty": set(texts.loc[texts["text"] == "", "id"]),
                "cut": set(texts.loc[~texts["terminated"], "id"]),
            }
            rows += [(*_cell(loaded), answer_source, what, key) for what in found for key in ids if key in found[what]]
    return pd.DataFrame(rows, columns=LISTED)


def shown(study: Study, found: pd.DataFrame, ids: pd.DataFrame) -> pd.DataFrame:
    """The produced answers of :func:`counts` as the page has them, with the first ids of :func:`listed`."""
    answer_source = found[found["answer_source"] != ""]
    by_answer: dict[tuple[str, ...], str] = {}
    for key, rows in groupby(ids.itertuples(index=False, name=None), key=lambda row: row[:4]):
        kinds = [(what, [row[5] for row in same]) for what, same in groupby(rows, key=lambda row: row[4])]
        by_answer[key] = "; ".join(_first(what, of_kind) for what, of_kind in kinds)
    keys = answer_source[[*CELL, "answer_source"]].itertuples(index=False, name=None)
    return _titled(study, answer_source).drop(columns="texts").assign(ids=[by_answer.get(key, DASH) for key in keys])


def by_strategy(study: Study, found: pd.DataFrame) -> pd.DataFrame:
    """All candidates of :func:`counts` as the page has them."""
    return _titled(study, found[found["answer_source"] == ""]).drop(columns="answer_source")


def _titled(study: Study, found: pd.DataFrame) -> pd.DataFrame:
    shares = {f"{name} %": (100 * found[name] / found["texts"].clip(lower=1)).round(1) for name in ("empty", "cut")}
    frame = found.assign(
        model=[study.models[key].title for key in found["model"]],
        dataset=[study.datasets[key].title for key in found["dataset"]],
        **shares,
    )
    return frame[[*CELL, "answer_source", "strategy", "asked", "dropped", "texts", "empty", "empty %", "cut", "cut %"]]


def _first(what: str, ids: Sequence[str]) -> str:
    return f"{what}: {', '.join(ids[:FIRST])}{', …' if len(ids) > FIRST else ''}"


def _asked(asked: Mapping[str, Sequence[str]], loaded: Loaded) -> list[str]:
    return list(asked[loaded.cell["dataset"]][: loaded.provenance["settings"]["questions"]])


def _frame(loaded: Loaded) -> pd.DataFrame:
    frame: pd.DataFrame = loaded.table.select(["id", "strategy", "rank", "text", "terminated"]).to_pandas()
    return frame


def _cell(loaded: Loaded) -> tuple[str, ...]:
    return tuple(loaded.cell[name] for name in CELL)


def _counted(texts: pd.DataFrame, ids: Sequence[str]) -> tuple[int, ...]:
    dropped = len(set(ids) - set(texts["id"]))
    return len(ids), dropped, len(texts), int((texts["text"] == "").sum()), int((~texts["terminated"]).sum())


def _produced(study: Study, recipe: str, frame: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Each produced answer that a recipe decodes, the strategy whose first text it is, and those texts."""
    for name in study.answer_source:
        if strategy := study.recipes[recipe].decoded(strategy_of(name, study.main.beam)):
            yield name, strategy, frame[(frame["strategy"] == strategy) & (frame["rank"] == 0)]
