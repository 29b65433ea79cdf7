"""The explorer of a study, of a cell or of a file of candidates, from the command line and from Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from beamuq.api.calibrate_and_decide import ScoredRow
from beamuq.api.candidate_records import CandidateRecord, QuestionRecord, placed_rows, read_records
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.api.score_candidates import score
from beamuq.config_errors import validated
from beamuq.errors import BeamUQError
from beamuq.exhibits.captions import method_title, titled
from beamuq.exhibits.exhibit_inputs import read_study
from beamuq.explorer.explorer_page import MOST_QUESTIONS, Cell, Question, Row, page
from beamuq.explorer.read_results import read_cells
from beamuq.parquet_tables import Artifact, read_footer, write_text
from beamuq.plan.cells_of_a_study import Grid
from beamuq.scorers.scorer_protocol import Pair, PairScores, SimilarityScorer

CELL_KINDS = ("candidates", "scores", "similarity", "evaluation")


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
        A study's folder of results, such as ``results/demo``; a Parquet file of one of its cells (candidates, scores,
        similarity or evaluation); or a file as ``score`` takes it or prints it in JSON Lines. What ``score`` takes is
        scored first; what it prints has no texts, so the methods' values alone are shown.
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
    if footer.kind not in CELL_KINDS:
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


@dataclass
class _Remembering:
    """A similarity that keeps what it said."""

    scorer: SimilarityScorer
    said: dict[Pair, tuple[float, bool | None]] = field(default_factory=dict)

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        found = self.scorer.score(pairs)
        for k, pair in enumerate(pairs):
            classes = found.neutral, found.contradict
            s = float(found.entail[k])
            self.said[pair] = (
                s,
                None if classes[0] is None or classes[1] is None else s > max(classes[0][k], classes[1][k]),
            )
        return found


def _of_file(path: Path, similarity: str, threshold: float, questions: int) -> Cell:
    """The questions of a file that ``score`` takes, or the values of one that it printed."""
    rows = [row for _, row in placed_rows(path)]
    if rows and "method" in rows[0]:
        return _of_printed(path, questions)
    given, told = read_records(path), {str(row.get("id", k)): row for k, row in enumerate(rows, start=1)}
    scorer = open_similarity(similarity)
    remembering = _Remembering(scorer.scorer)
    scores = score(path, similarity=Similarity(scorer.name, remembering), equivalence_threshold=threshold)
    notes = [
        f"No {', '.join(dict.fromkeys(rows['method']))} of {rows['id'].nunique()} questions: {reason!s}."
        for reason, rows in scores.groupby("reason", sort=False)
        if reason
    ]
    shown = [_question(item, told.get(item.id, {}), remembering.said, threshold) for item in given[:questions]]
    if len(given) > questions:
        notes.append(f"The first {questions} of {len(given)} questions; all of them: --questions {len(given)}.")
    sources = {"answer": "", "samples": "given", "beams": "given"}
    return Cell(path.name, path.name, shown, _values(scores), sources, scorer.name, "quality", notes=notes)


def _question(
    item: QuestionRecord, row: Mapping[str, Any], said: Mapping[Pair, tuple[float, bool | None]], threshold: float
) -> Question:
    def candidate(record: CandidateRecord) -> Row:
        return {
            "text": record.text.strip(),
            "logprob": record.total,
            "token_ids": [],
            "token_texts": [],
            "token_logprobs": [],
        }

    beams = sorted(map(candidate, item.beams), key=lambda beam: -(beam["logprob"] or 0.0))
    answer, samples = candidate(item.answer), list(map(candidate, item.samples))
    texts = {each["text"] for each in (answer, *samples, *beams)}
    among = {pair: said[pair] for pair in ((a, b) for a in texts for b in texts) if pair in said}
    same = frozenset(pair for pair, (s, judged) in among.items() if (s >= threshold if judged is None else judged))
    quality = row.get("quality", row.get("correct"))
    return Question(
        item.id,
        item.question or item.id,
        [str(each) for each in row.get("references") or []],
        str(row.get("prompt") or ""),
        answer,
        samples,
        beams,
        {pair: s for pair, (s, _) in among.items()},
        same,
        None if quality is None else float(quality),
    )


def _of_printed(path: Path, questions: int) -> Cell:
    rows: list[ScoredRow] = [validated(ScoredRow, dict(row), place) for place, row in placed_rows(path)]
    frame = pd.DataFrame([row.model_dump() for row in rows])
    ids = list(dict.fromkeys(frame["id"]))[:questions]
    label = frame.assign(label=frame["quality"].fillna(frame["correct"])).dropna(subset="label")
    rated = dict(zip(label["id"], label["label"], strict=True))
    nothing: Row = {"text": "", "logprob": None, "token_ids": [], "token_texts": [], "token_logprobs": []}
    shown = [Question(key, key, [], "", nothing, [], [], quality=rated.get(key)) for key in ids]
    notes = ["What score printed holds no texts; give the file that it read to see these."]
    return Cell(
        path.name,
        path.name,
        shown,
        _values(frame),
        {"answer": "", "samples": "", "beams": ""},
        quality="quality",
        notes=notes,
    )


def _values(scores: pd.DataFrame) -> pd.DataFrame:
    """What ``score`` gives, as the explorer takes it; a method without any value is left out."""
    scores = scores[scores["value"].notna()]
    titles = [
        method_title(m) + (f" ({s})" if s else "") for m, s in zip(scores["method"], scores["setting"], strict=True)
    ]
    return pd.DataFrame({"id": scores["id"], "title": titles, "form": scores["variant"], "value": scores["value"]})
