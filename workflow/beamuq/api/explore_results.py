"""The explorer of a study, of a cell or of a file of candidates, from the command line and from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from pydantic import ConfigDict

from beamuq.api.candidate_records import QuestionRecord, placed_rows, read_records
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.api.score_candidates import score
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError
from beamuq.exhibits.captions import titled
from beamuq.exhibits.inputs import read_study
from beamuq.explorer.explorer_page import MOST_QUESTIONS, Cell, Question, page
from beamuq.explorer.read_results import read_cells
from beamuq.parquet_tables import Artifact, read_footer, write_text
from beamuq.plan.cells_of_a_study import Grid
from beamuq.scorers.scorer_protocol import Pair, PairScores, SimilarityScorer


def explore(
    source: str | Path,
    *,
    output: str | Path | None = None,
    questions: int = MOST_QUESTIONS,
    similarity: str = "auto",
    equivalence_threshold: float = 0.8,
) -> Path:
    """Write one HTML file in which a person goes through the questions; it opens in a browser without a network.

    Parameters
    ----------
    source
        A study's folder of results, such as ``results/demo``; a Parquet file of one of its cells; or a file as
        ``score`` takes it, which is scored first.
    output
        Where to write it; None: ``explorer.html`` in the study's folder, else beside the file, under its name.
    questions
        The most questions in the file; of several cells, each has its equal share of them. The page says what is left
        out.
    similarity, equivalence_threshold
        As :func:`beamuq.api.score_candidates.score` takes them, for a file that it takes.

    Returns
    -------
    The file written.

    Raises
    ------
    BeamUQError
        In one line: no such source, a bad row, a study that has no candidates yet.
    """
    if questions < 1:
        raise BeamUQError(f"questions: {questions}: must be at least 1")
    source = Path(source)
    if source.is_dir():
        title, notes, cells = _of_study(source, None, questions)
        written = source / "explorer.html"
    elif not source.exists():
        raise BeamUQError(f"{source}: no such file or folder; give results/STUDY, a cell's Parquet file, or rows")
    elif source.suffix == ".parquet" and (footer := _footer(source)):
        title, notes, cells = _of_study(*footer, questions)
        written = source.with_suffix(".explorer.html")
    else:
        title, notes, cells = source.name, [], [_of_file(source, similarity, equivalence_threshold, questions)]
        written = source.with_suffix(".explorer.html")
    written = Path(output) if output else written
    write_text(written, page(title, notes, cells))
    return written


def _footer(path: Path) -> tuple[Path, dict[str, str]] | None:
    """The study's folder and the cell of a table of the workflow; None for another Parquet file."""
    try:
        footer = read_footer(path)
    except BeamUQError:  # rows of someone else, which reading them tells more of
        return None
    if not {"model", "dataset", "recipe"} <= footer.cell.keys():
        raise BeamUQError(f"{path}: a table of '{footer.kind}', which is of no cell; give one of candidates or scores")
    depth = len(Path(Artifact(footer.kind, **footer.cell).path).parts)
    return path.absolute().parents[depth - 1], footer.cell


def _of_study(results: Path, cell: dict[str, str] | None, questions: int) -> tuple[str, list[str], list[Cell]]:
    """Title, notes and cells of a study: the main ones, or one."""
    if not (results / "study.json").is_file():
        raise BeamUQError(f"{results}: holds no study.json; give a study's folder, such as results/demo")
    study = read_study(results / "study.json")
    grid = Grid(study)
    chosen = grid.explored
    if cell:
        found = grid.cell(cell["model"], cell["dataset"], cell["recipe"])
        main = study.main.scorer if study.main.scorer in found.scorers else found.scorers[0]
        chosen = [(found, cell.get("scorer", main))]
    cells, notes = read_cells(study, results, chosen, questions)
    return titled(study, study.title), notes, cells


class _Beside(StrictModel):
    """What a row may say beside what ``score`` reads of it."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)

    references: list[str] = []
    prompt: str = ""
    quality: float | None = None
    correct: float | bool | None = None


class _Remembering:
    """A similarity that keeps what it said of each pair: s, and whether both mean the same if it has classes."""

    def __init__(self, scorer: SimilarityScorer, threshold: float) -> None:
        self.scorer, self.threshold = scorer, threshold
        self.said: dict[Pair, tuple[float, bool | None]] = {}

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        found = self.scorer.score(pairs)
        same = found.entail >= self.threshold
        if found.neutral is not None and found.contradict is not None:
            same = found.entail > np.maximum(found.neutral, found.contradict)
        self.said |= zip(pairs, zip(map(float, found.entail), map(bool, same), strict=True), strict=True)
        return found


def _of_file(path: Path, similarity: str, threshold: float, questions: int) -> Cell:
    """The questions of a file that ``score`` takes."""
    rows = list(placed_rows(path))
    scorer = open_similarity(similarity)
    remembering = _Remembering(scorer.scorer, threshold)
    scores = score(path, similarity=Similarity(scorer.name, remembering), equivalence_threshold=threshold)
    notes = [
        f"No {', '.join(dict.fromkeys(of['method']))} of {of['id'].nunique()} questions: {reason!s}."
        for reason, of in scores[scores["reason"] != ""].groupby("reason", sort=False)
    ]
    if len(rows) > questions:
        notes.append(f"The first {questions} of {len(rows)} questions; all of them: --questions {len(rows)}.")
    asked = zip(read_records(path)[:questions], rows, strict=False)
    shown = [_question(item, validated(_Beside, dict(row), place), remembering.said) for item, (place, row) in asked]
    sources = {"samples": "given", "beams": "given"}
    return Cell(path.name, path.name, shown, scores, sources, scorer.name, notes=notes)


def _question(item: QuestionRecord, beside: _Beside, said: Mapping[Pair, tuple[float, bool | None]]) -> Question:
    of = (item.answer, *item.samples, *item.beams)
    answer, *others = ({"text": each.text.strip(), "logprob": each.total} for each in of)
    samples, beams = others[: len(item.samples)], others[len(item.samples) :]
    if None not in (logprobs := [beam.total for beam in item.beams]):
        beams = [beams[k] for k in np.argsort(-np.array(logprobs, dtype=float), kind="stable")]
    texts = {str(each["text"]) for each in (answer, *others)}
    pairs = {pair: said[pair] for pair in product(texts, texts) if pair in said}
    quality = beside.correct if beside.quality is None else beside.quality
    shown = Question(item.id, item.question or item.id, answer, samples, beams, beside.references, beside.prompt, pairs)
    return replace(shown, quality=None if quality is None else float(quality))
