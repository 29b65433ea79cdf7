"""Answers that are missing, empty or cut: how many, and of which questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from beamuq_study.html_pages import DASH
from beamuq_study.parquet_tables import Loaded
from beamuq_study.produced_answers import strategy_of
from beamuq_study.study_config import Study

CELL = ["model", "dataset", "recipe"]
COLUMNS = [*CELL, "answer_source", "strategy", "asked", "dropped", "texts", "empty", "cut"]
LISTED = [*CELL, "answer_source", "what", "id"]
FIRST = 3


def counts(study: Study, question_ids: Mapping[str, Sequence[str]], candidates: Sequence[Loaded]) -> pd.DataFrame:
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
    rows = []
    for loaded in candidates:
        frame, ids = _frame(loaded), _asked(question_ids, loaded)
        all_of = (
            (name, frame[frame["strategy"] == name]) for name in study.recipes[loaded.cell["recipe"]].strategies()
        )
        every = [*_produced(study, loaded, frame), *(("", strategy, texts) for strategy, texts in all_of)]
        for answer_source, strategy, texts in every:
            dropped = len(set(ids) - set(texts["id"]))
            numbers = len(ids), dropped, len(texts), (texts["text"] == "").sum(), (~texts["terminated"]).sum()
            rows.append((*_cell(loaded), answer_source, strategy, *map(int, numbers)))
    return pd.DataFrame(rows, columns=COLUMNS)


def listed(study: Study, question_ids: Mapping[str, Sequence[str]], candidates: Sequence[Loaded]) -> pd.DataFrame:
    """A row a produced answer that is dropped, empty or cut (``what``), with its question's id, in the order asked."""
    rows = []
    for loaded in candidates:
        ids = _asked(question_ids, loaded)
        for answer_source, _, texts in _produced(study, loaded, _frame(loaded)):
            lists = {
                "dropped": set(ids) - set(texts["id"]),
                "empty": set(texts.loc[texts["text"] == "", "id"]),
                "cut": set(texts.loc[~texts["terminated"], "id"]),
            }
            rows += [(*_cell(loaded), answer_source, what, key) for what in lists for key in ids if key in lists[what]]
    return pd.DataFrame(rows, columns=LISTED)


def shown(study: Study, counted: pd.DataFrame, ids: pd.DataFrame) -> pd.DataFrame:
    """The produced answers of :func:`counts` as the page has them, with the first ids of :func:`listed`."""
    answers, by_answer = counted[counted["answer_source"] != ""], [*CELL, "answer_source"]
    lines: dict[tuple[Any, ...], list[str]] = {}
    for (*key, what), of_kind in ids.groupby([*by_answer, "what"], sort=False)["id"]:
        more = ", …" if len(of_kind) > FIRST else ""
        lines.setdefault(tuple(key), []).append(f"{what}: {', '.join(of_kind[:FIRST])}{more}")
    keys = answers[by_answer].itertuples(index=False, name=None)
    return _titled(study, answers).drop(columns="texts").assign(ids=["; ".join(lines.get(key, [DASH])) for key in keys])


def by_strategy(study: Study, counted: pd.DataFrame) -> pd.DataFrame:
    """All candidates of :func:`counts` as the page has them."""
    return _titled(study, counted[counted["answer_source"] == ""]).drop(columns="answer_source")


def _titled(study: Study, counted: pd.DataFrame) -> pd.DataFrame:
    shares = {f"{name} %": (100 * counted[name] / counted["texts"].clip(lower=1)).round(1) for name in ("empty", "cut")}
    models, datasets = ({key: each.title for key, each in of.items()} for of in (study.models, study.datasets))
    frame = counted.assign(model=counted["model"].map(models), dataset=counted["dataset"].map(datasets), **shares)
    return frame[[*CELL, "answer_source", "strategy", "asked", "dropped", "texts", "empty", "empty %", "cut", "cut %"]]


def _asked(question_ids: Mapping[str, Sequence[str]], loaded: Loaded) -> list[str]:
    return list(question_ids[loaded.cell["dataset"]][: loaded.provenance["settings"]["questions"]])


def _frame(loaded: Loaded) -> pd.DataFrame:
    frame: pd.DataFrame = loaded.table.select(["id", "strategy", "rank", "text", "terminated"]).to_pandas()
    return frame


def _cell(loaded: Loaded) -> tuple[str, ...]:
    return tuple(loaded.cell[name] for name in CELL)


def _produced(study: Study, loaded: Loaded, frame: pd.DataFrame) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Each produced answer that a recipe decodes, the strategy whose first text it is, and those texts."""
    recipe = study.recipes[loaded.cell["recipe"]]
    for name in study.answer_source:
        if strategy := recipe.decoded(strategy_of(name, study.main.beam)):
            yield name, strategy, frame[(frame["strategy"] == strategy) & (frame["rank"] == 0)]
