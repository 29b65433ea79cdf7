"""What the explorer shows of a study's results: its cells read from their tables, as far as these are there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq.errors import BeamUQError
from beamuq.exhibits import captions
from beamuq.exhibits.exhibit_inputs import Inputs, distinct
from beamuq.explorer.explorer_page import MOST_QUESTIONS, Cell, Question, Row
from beamuq.judged_answer import strategy_of
from beamuq.parquet_tables import Artifact, Loaded
from beamuq.plan.cells_of_a_study import Grid, GridCell
from beamuq.study_config import Study

CANDIDATE = ["id", "strategy", "rank", "text", "token_ids", "token_texts", "token_logprobs", "logprob", "terminated"]


def read_cells(
    study: Study, results: Path, chosen: Sequence[tuple[GridCell, str]], most: int = MOST_QUESTIONS
) -> tuple[list[Cell], list[str]]:
    """Cells under a scorer, of each the first questions, ``most`` in all, and sentences on what is left out.

    A cell without candidates is left out; without quality, similarity or scores it is shown without them.

    Raises BeamUQError if a file is unreadable, or files are not of one run and this study; or if no cell has
    candidates.
    """
    grid = Grid(study)
    there = {cell: [t for t in grid.tables_explored(*cell) if (results / t.path).exists()] for cell in chosen}
    shown = [(cell, scorer) for cell, scorer in chosen if _holds(there[cell, scorer])]
    if not shown:
        raise BeamUQError(f"{results}: none of the chosen cells has candidates yet; run the study")
    notes = [captions.DEMO_WARNING] if study.demo else []
    if missing := [_name(study, cell) for cell, scorer in chosen if (cell, scorer) not in shown]:
        notes.append(f"Without candidates yet, so not here: {'; '.join(missing)}.")
    each = max(1, most // len(shown))
    cells = []
    for cell, scorer in shown:
        tables = there[cell, scorer]
        inputs = Inputs.read(results, distinct(tables), study)
        cells.append(_cell(study, cell, scorer, {table.kind: inputs[table] for table in tables}, each))
    return cells, notes


def _holds(tables: Sequence[Artifact]) -> bool:
    return {"questions", "prompts", "candidates"} <= {table.kind for table in tables}


def _name(study: Study, cell: GridCell) -> str:
    title = f"{study.models[cell.model].title}, {study.datasets[cell.dataset].title}"
    return title if cell.recipe == study.main.recipe else f"{title}, {cell.recipe}"


def _cell(study: Study, cell: GridCell, scorer: str, tables: dict[str, Loaded], most: int) -> Cell:
    recipe, main, threshold = study.recipes[cell.recipe], study.main, study.scorers[scorer].equivalence_threshold
    source = Grid(study).produced_answers(cell.recipe)[0]
    drawn = recipe.decoded(main.sample) or next(iter(recipe.samples()), None)
    found = recipe.decoded(main.beam) or next(iter(recipe.searches()), None)
    sources = {"answer": strategy_of(source, found), "samples": drawn or "", "beams": found or ""}
    candidates = tables["candidates"].table.select(CANDIDATE).to_pandas()
    asked = tables["questions"].table.to_pandas().set_index("id")
    ids = [key for key in asked.index if key in set(candidates["id"])]
    notes = [f"Similarity: {study.scorers[scorer].title}; quality: {study.main_quality.title}."]
    if len(ids) > most:
        path = f"results/…/{tables['candidates'].path.name}"
        notes.append(
            f"The first {most} of {len(ids)} questions; all of them: beamuq explore {path} --questions {len(ids)}."
        )
    notes += [f"No {kind} yet." for kind in ("quality", "similarity", "scores") if kind not in tables]
    ids = ids[:most]
    candidates = candidates[candidates["id"].isin(set(ids))]
    rows = {name: _by_question(candidates, strategy, main.num_candidates, name) for name, strategy in sources.items()}
    prompts = dict(zip(*tables["prompts"].table.select(["id", "prompt"]).to_pydict().values(), strict=True))
    rated = _rated(tables, source)
    similarity, same = _pairs(tables, set(ids), threshold)
    questions = [
        Question(
            id=key,
            text=asked.loc[key, "question"],
            references=list(asked.loc[key, "references"]),
            prompt=prompts.get(key, ""),
            answer=rows["answer"][key][0],
            samples=rows["samples"].get(key, []),
            beams=rows["beams"].get(key, []),
            similarity=similarity.get(key, {}),
            same=None if same is None else frozenset(same.get(key, ())),
            quality=rated.get(key),
        )
        for key in ids
    ]
    return Cell(
        name=f"{cell.model}/{cell.dataset}/{cell.recipe}",
        title=_name(study, cell),
        questions=questions,
        scores=_scores(tables, source),
        sources=sources,
        similarity=study.scorers[scorer].title,
        quality=study.main_quality.title,
        threshold=study.main_quality.threshold,
        max_rejection=study.evaluation.max_rejection[0],
        notes=notes,
    )


def _by_question(candidates: pd.DataFrame, strategy: str, most: int, name: str) -> dict[str, list[Row]]:
    """The first candidates of a strategy by question: as drawn; of a search by descending p, as methods see them."""
    rows = candidates[(candidates["strategy"] == strategy) & (candidates["rank"] < (1 if name == "answer" else most))]
    rows = rows.sort_values("rank")
    if name == "beams":
        rows = rows.sort_values("logprob", ascending=False, kind="stable")
    found: dict[str, list[Row]] = {}
    for row in rows.to_dict("records"):
        found.setdefault(row["id"], []).append({str(name): value for name, value in row.items()})
    return found


def _rated(tables: dict[str, Loaded], source: str) -> dict[str, float]:
    if "quality" not in tables:
        return {}
    frame = tables["quality"].table.to_pandas()
    return dict(frame[frame["answer_source"] == source][["id", "value"]].itertuples(index=False, name=None))


def _pairs(tables: dict[str, Loaded], ids: set[str], threshold: float | None) -> tuple[Any, Any]:
    """By question: the similarity of each ordered pair of texts, and the pairs that mean the same (D18, no classes)."""
    similarity: dict[str, dict[tuple[str, str], float]] = {}
    if "similarity" not in tables:
        return similarity, None
    same: dict[str, set[tuple[str, str]]] = {}
    columns = tables["similarity"].table.to_pydict()
    for key, premise, hypothesis, s, neutral, contradict in zip(*columns.values(), strict=True):
        if key in ids:
            pair = premise, hypothesis
            similarity.setdefault(key, {})[pair] = s
            if s > max(neutral, contradict) if threshold is None else s >= threshold:
                same.setdefault(key, set()).add(pair)
    return similarity, same


def _scores(tables: dict[str, Loaded], source: str) -> pd.DataFrame:
    """The main scores of the produced answer; of a cell that has none of them, all there are."""
    if "scores" not in tables:
        return pd.DataFrame(columns=["id", "title", "form", "value"])
    frame = tables["scores"].table.to_pandas()
    frame = frame[frame["answer_source"] == source]
    main = frame[frame["setting"] == ""]
    frame = main if len(main) else frame
    titles = [captions.method_title(method) for method in frame["method"]]
    titles = [
        f"{title} ({setting})" if setting else title for title, setting in zip(titles, frame["setting"], strict=True)
    ]
    return pd.DataFrame({"id": frame["id"], "title": titles, "form": frame["variant"], "value": frame["value"]})
