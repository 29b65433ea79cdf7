"""What the explorer shows of a study's results: its cells read from their tables, as far as these
are there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from beamuq.errors import BeamUQError
from beamuq.explorer.explorer_page import MOST_QUESTIONS, Question, page
from beamuq.explorer.explorer_page import Cell as CellOfPage
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.estimates_table import records
from beamuq_study.grid import Cell, Grid
from beamuq_study.parquet_tables import SCHEMAS, Loaded, OnDisk, read_footer
from beamuq_study.produced_answers import strategy_of
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study, load_study

NEEDED = {"questions", "prompts", "candidates"}
CANDIDATE = [
    "id",
    "strategy",
    "rank",
    "text",
    "token_ids",
    "token_texts",
    "token_logprobs",
    "logprob",
    "terminated",
]


def study_page(source: Path, most: int = MOST_QUESTIONS, *, overview: str = "") -> str:
    """The page of a study's folder of results, or of a cell of it by one of its files: ``most``
    questions in all.

    A cell without candidates is left out; without quality, similarity or scores it is shown without
    them.

    Raises BeamUQError if it is no study's folder or a table of no cell; if a file is unreadable, or
    files are not of one run and this study; or if no cell has candidates.
    """
    results, place = source, None
    if source.is_file():
        footer = read_footer(source)
        if not {"model", "dataset", "recipe"} <= footer.cell.keys():
            raise BeamUQError(
                f"{source}: a table of '{footer.kind}', which is of no cell; give candidates or "
                "scores"
            )
        results, place = source.absolute().parents[len(footer.cell)], footer.cell
    if not (results / "study.json").is_file():
        raise BeamUQError(
            f"{results}: holds no study.json; give a study's folder, such as results/demo"
        )
    study = load_study(results / "study.json")
    grid = Grid(study)
    chosen = grid.explored
    if place:
        cell = grid.cell(place["model"], place["dataset"], place["recipe"])
        chosen = [
            cell.under(place["scorer"]) if "scorer" in place else grid.under_main_scorer(cell)
        ]
    there = {
        cell: [t for t in grid.tables_explored(cell) if (results / t.path).exists()]
        for cell in chosen
    }
    shown = [cell for cell, tables in there.items() if {table.kind for table in tables} >= NEEDED]
    if not shown:
        raise BeamUQError(f"{results}: none of the chosen cells has candidates yet; run the study")
    notes = [captions.DEMO_WARNING] if study.demo else []
    if missing := [_name(study, cell) for cell in chosen if cell not in shown]:
        notes.append(f"Without candidates yet, so not here: {'; '.join(missing)}.")
    cells = []
    for cell in shown:
        read = Inputs.read(results, there[cell], study, large={"candidates": CANDIDATE})
        by_kind = {table.kind: loaded for table, loaded in read.items()}
        cells.append(_cell(study, cell, by_kind, max(1, most // len(shown))))
    return page(captions.titled(study, study.title), notes, cells, overview=overview)


def _name(study: Study, cell: Cell) -> str:
    title = f"{study.models[cell.model].title}, {study.datasets[cell.dataset].title}"
    return title if cell.recipe == study.main.recipe else f"{title}, {cell.recipe}"


def _cell(study: Study, cell: Cell, tables: dict[str, Loaded | OnDisk], most: int) -> CellOfPage:
    recipe, main = study.recipes[cell.recipe], study.main
    source = Grid(study).produced_answers(cell.recipe)[0]
    drawn = recipe.decoded(main.sample) or next(iter(recipe.samples()), "")
    search = recipe.decoded(main.beam) or next(iter(recipe.searches()), "")
    sources = {"answer": strategy_of(source, search or None), "samples": drawn, "beams": search}
    frames = {
        kind: table.table.to_pandas()
        for kind, table in tables.items()
        if kind not in ("candidates", "similarity")
    }
    candidates = tables["candidates"].table.select(CANDIDATE).to_pandas()
    decoded = set(candidates["id"])
    asked = frames["questions"][frames["questions"]["id"].isin(decoded)].set_index("id")
    ids = list(asked.index[:most])
    notes = [
        f"Similarity: {study.scorers[cell.scorer].title}; quality: {study.main_quality.title}."
    ]
    if len(ids) < len(asked):
        path = f"results/{tables['candidates'].path.parents[3].name}/{cell.file('candidates').path}"
        sentence = (
            f"The first {len(ids)} of {len(asked)} questions, among which places and curves are"
        )
        notes.append(f"{sentence}; all of them: beamuq explore {path} --questions {len(asked)}.")
    notes += [
        f"No {kind} yet." for kind in ("quality", "similarity", "scores") if kind not in tables
    ]
    candidates = candidates[
        candidates["id"].isin(set(ids)) & (candidates["rank"] < main.num_candidates)
    ]
    rows = {name: _by_question(candidates, strategy, name) for name, strategy in sources.items()}
    prompts = frames["prompts"].set_index("id")["prompt"]
    rated = _of_answer(frames, "quality", source).set_index("id")["value"]
    pairs = _pairs(tables, set(ids), study.scorers[cell.scorer].equivalence_threshold)
    questions = [
        Question(
            key,
            asked.loc[key, "question"],
            rows["answer"][key][0],
            rows["samples"].get(key, []),
            rows["beams"].get(key, []),
            list(asked.loc[key, "references"]),
            prompts.get(key, ""),
            pairs.get(key, {}),
            rated.get(key),
        )
        for key in ids
    ]
    scores = _of_answer(frames, "scores", source)
    return CellOfPage(
        f"{cell.model}/{cell.dataset}/{cell.recipe}",
        _name(study, cell),
        questions,
        scores[scores["setting"] == ""] if (scores["setting"] == "").any() else scores,
        sources,
        study.scorers[cell.scorer].title,
        study.main_quality.title,
        study.main_quality.threshold,
        study.evaluation.max_rejection[0],
        notes,
    )


def _by_question(
    candidates: pd.DataFrame, strategy: str, name: str
) -> dict[str, list[dict[str, Any]]]:
    """The candidates of a strategy by question: as drawn; of a search by descending p, as methods
    see them.
    """
    rows = candidates[candidates["strategy"] == strategy].sort_values("rank")
    if name == "beams":
        rows = rows.sort_values("logprob", ascending=False, kind="stable")
    return {str(key): records(of_question) for key, of_question in rows.groupby("id", sort=False)}


def _of_answer(frames: dict[str, pd.DataFrame], kind: str, source: str) -> pd.DataFrame:
    """The rows of one produced answer; none where the table is not there yet."""
    frame = frames.get(kind, pd.DataFrame(columns=SCHEMAS[kind].names))
    return frame[frame["answer_source"] == source]


def _pairs(
    tables: dict[str, Loaded | OnDisk], ids: set[str], threshold: float | None
) -> dict[str, Any]:
    """By question: of each ordered pair of texts its similarity, and whether they mean the same
    (D18, no classes).
    """
    pairs: dict[str, dict[tuple[str, str], tuple[float, bool]]] = {}
    table = (
        tables["similarity"].table
        if "similarity" in tables
        else SCHEMAS["similarity"].empty_table()
    )
    for key, premise, hypothesis, s, neutral, contradict in zip(
        *table.to_pydict().values(), strict=True
    ):
        if key in ids:
            same = s > max(neutral, contradict) if threshold is None else s >= threshold
            pairs.setdefault(key, {})[premise, hypothesis] = s, same
    return pairs
