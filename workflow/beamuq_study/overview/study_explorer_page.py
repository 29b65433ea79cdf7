"""What the explorer shows of a study's results: its cells, as far as their tables are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq.errors import BeamUQError
from beamuq.explorer.explorer_page import MOST_QUESTIONS, Question, Section, page
from beamuq_study.exhibits import captions
from beamuq_study.exhibits.table_of_numbers import records
from beamuq_study.grid import Cell, Grid
from beamuq_study.parquet_tables import SCHEMAS, Artifact, Loaded, OnDisk, read_footer
from beamuq_study.produced_answers import strategy_of
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Scorer, Study, load_study

Similarities = dict[tuple[str, str], tuple[float, bool]]  # s, and whether two texts mean the same
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
    """The explorer's page, an HTML text, of a study's results.

    ``source``: the study's folder of results; or a file of one of its cells, which is then shown
    alone. ``most``: how many questions all cells show together. A cell without candidates is left
    out; without quality, similarity or scores it is shown without them.

    Raises BeamUQError if it is no study's folder or a table of no cell; if a file is unreadable, or
    files are not of one run and this study; or if no cell has candidates.
    """
    names_of_cell = _names_of_cell(source) if source.is_file() else {}
    # a table lies as many folders deep as its cell has names
    results = source.absolute().parents[len(names_of_cell)] if names_of_cell else source
    if not (results / "study.json").is_file():
        raise BeamUQError(
            f"{results}: holds no study.json; give a study's folder, such as results/demo"
        )
    study = load_study(results / "study.json")
    grid = Grid(study)
    files = {cell: _written_files(grid, cell, results) for cell in _chosen(grid, names_of_cell)}
    shown = [cell for cell in files if {file.kind for file in files[cell]} >= NEEDED]
    if not shown:
        raise BeamUQError(f"{results}: none of the chosen cells has candidates yet; run the study")
    missing = [_name(study, cell) for cell in files if cell not in shown]
    most_in_cell = max(1, most // len(shown))
    cells = [
        ShownCell(study, cell, _read(results, files[cell], study), most_in_cell).explored()
        for cell in shown
    ]
    title = captions.titled(study, study.title)
    return page(title, _notes(study, missing), cells, overview=overview)


def _read(results: Path, files: Sequence[Artifact], study: Study) -> dict[str, Loaded | OnDisk]:
    """The tables of a cell by kind."""
    read = Inputs.read(results, files, study, large={"candidates": CANDIDATE})
    return {file.kind: table for file, table in read.items()}


def _notes(study: Study, missing: Sequence[str]) -> list[str]:
    """Notes of the page. ``missing``: the titles of cells without candidates."""
    notes = [captions.DEMO_WARNING] if study.demo else []
    if missing:
        notes.append(f"Without candidates yet, so not here: {'; '.join(missing)}.")
    return notes


def _names_of_cell(file: Path) -> dict[str, str]:
    """Model, dataset, … of the cell that a file is of. Raises BeamUQError if it is of none."""
    footer = read_footer(file)
    if not {"model", "dataset", "recipe"} <= footer.cell.keys():
        raise BeamUQError(
            f"{file}: a table of '{footer.kind}', which is of no cell; give candidates or scores"
        )
    return footer.cell


def _chosen(grid: Grid, names: Mapping[str, str]) -> list[Cell]:
    """The cell of these names, or without names all that the explorer shows, under a scorer."""
    if not names:
        return grid.explored
    cell = grid.cell(names["model"], names["dataset"], names["recipe"])
    if "scorer" in names:
        return [cell.under(names["scorer"])]
    return [grid.under_main_scorer(cell)]


def _written_files(grid: Grid, cell: Cell, results: Path) -> list[Artifact]:
    files = grid.tables_explored(cell)
    return [file for file in files if (results / file.path).exists()]


def _name(study: Study, cell: Cell) -> str:
    title = f"{study.models[cell.model].title}, {study.datasets[cell.dataset].title}"
    return title if cell.recipe == study.main.recipe else f"{title}, {cell.recipe}"


@dataclass(frozen=True)
class ShownCell:
    """A cell of a study with its tables by kind, of which at most so many questions are shown."""

    study: Study
    cell: Cell
    tables: Mapping[str, Loaded | OnDisk]
    most: int

    @property
    def scorer(self) -> Scorer:
        return self.study.scorers[self.cell.scorer]

    @cached_property
    def answer_source(self) -> str:
        return Grid(self.study).produced_answers(self.cell.recipe)[0]

    @cached_property
    def strategies(self) -> dict[str, str]:
        """Those of the produced answer, of the samples and of the beams."""
        recipe = self.study.recipes[self.cell.recipe]
        main = self.study.main
        samples = recipe.decoded(main.sample) or next(iter(recipe.samples()), "")
        beams = recipe.decoded(main.beam) or next(iter(recipe.searches()), "")
        answer = strategy_of(self.answer_source, beams or None)
        return {"answer": answer, "samples": samples, "beams": beams}

    @cached_property
    def candidates(self) -> pd.DataFrame:
        frame: pd.DataFrame = self.tables["candidates"].table.select(CANDIDATE).to_pandas()
        return frame

    @cached_property
    def decoded_questions(self) -> pd.DataFrame:
        """The questions that have candidates, by id."""
        questions: pd.DataFrame = self.tables["questions"].table.to_pandas()
        is_decoded = questions["id"].isin(set(self.candidates["id"]))
        return questions[is_decoded].set_index("id")

    @property
    def ids(self) -> list[str]:
        """Of the questions shown."""
        return list(self.decoded_questions.index[: self.most])

    def explored(self) -> Section:
        """The cell as the explorer takes it."""
        cell = self.cell
        quality = self.study.main_quality
        return Section(
            name=f"{cell.model}/{cell.dataset}/{cell.recipe}",
            title=_name(self.study, cell),
            questions=self.questions(),
            scores=self.scores(),
            sources=self.strategies,
            similarity=self.scorer.title,
            quality=quality.title,
            threshold=quality.threshold,
            max_rejection=self.study.evaluation.max_rejection[0],
            notes=self.notes(),
        )

    def questions(self) -> list[Question]:
        """The questions shown, with answers, prompts, similarities and quality."""
        prompts = self.tables["prompts"].table.to_pandas().set_index("id")["prompt"]
        quality = self._of_answer("quality").set_index("id")["value"]
        answers = self._by_question("answer")
        samples = self._by_question("samples")
        beams = self._by_question("beams")
        similarities = self._similarities()
        texts = self.decoded_questions["question"]
        references = self.decoded_questions["references"]
        return [
            Question(
                id=key,
                text=texts.loc[key],
                answer=answers[key][0],
                samples=samples.get(key, []),
                beams=beams.get(key, []),
                references=list(references.loc[key]),
                prompt=prompts.get(key, ""),
                pairs=similarities.get(key, {}),
                quality=quality.get(key),
            )
            for key in self.ids
        ]

    def scores(self) -> pd.DataFrame:
        """Of the main line, where it has any; else of all settings."""
        scores = self._of_answer("scores")
        is_main = scores["setting"] == ""
        return scores[is_main] if is_main.any() else scores

    def notes(self) -> list[str]:
        """What judged the answers, and what is not shown."""
        quality = self.study.main_quality
        notes = [f"Similarity: {self.scorer.title}; quality: {quality.title}."]
        count = len(self.decoded_questions)
        if len(self.ids) < count:
            results = self.tables["candidates"].path.parents[3]
            path = f"results/{results.name}/{self.cell.file('candidates').path}"
            notes.append(
                f"The first {len(self.ids)} of {count} questions, among which places and curves "
                f"are; all of them: beamuq explore {path} --questions {count}."
            )
        for kind in ("quality", "similarity", "scores"):
            if kind not in self.tables:
                notes.append(f"No {kind} yet.")
        return notes

    def _by_question(self, name: str) -> dict[str, list[dict[str, Any]]]:
        """The candidates shown of a strategy by question: as drawn; of a search by falling p.

        That is the order in which methods see them.
        """
        candidates = self.candidates
        is_shown = candidates["id"].isin(set(self.ids)) & (
            candidates["rank"] < self.study.main.num_candidates
        )
        of_strategy = candidates["strategy"] == self.strategies[name]
        rows = candidates[is_shown & of_strategy].sort_values("rank")
        if name == "beams":
            rows = rows.sort_values("logprob", ascending=False, kind="stable")
        by_question = rows.groupby("id", sort=False)
        return {str(key): records(of_question) for key, of_question in by_question}

    def _of_answer(self, kind: str) -> pd.DataFrame:
        """The rows about the produced answer; none where the table is not there yet."""
        if kind not in self.tables:
            return pd.DataFrame(columns=SCHEMAS[kind].names)
        frame: pd.DataFrame = self.tables[kind].table.to_pandas()
        return frame[frame["answer_source"] == self.answer_source]

    def _similarities(self) -> dict[str, Similarities]:
        """By question shown, of ordered pairs of texts; none where there is no table yet."""
        if "similarity" not in self.tables:
            return {}
        ids = set(self.ids)
        threshold = self.scorer.equivalence_threshold
        similarities: dict[str, Similarities] = {}
        columns = self.tables["similarity"].table.to_pydict().values()
        for key, premise, hypothesis, s, neutral, contradict in zip(*columns, strict=True):
            if key in ids:
                # D18: without classes, by a threshold
                same = s > max(neutral, contradict) if threshold is None else s >= threshold
                similarities.setdefault(key, {})[premise, hypothesis] = (s, same)
        return similarities
