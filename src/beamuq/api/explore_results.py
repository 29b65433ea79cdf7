"""The explorer of a study, of a cell or of a file of candidates, from the command line and from
Python.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from beamuq.api.candidate_records import (
    CandidateRecord,
    QuestionRecord,
    by_probability,
    read_records,
)
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.api.rows import check_settings, placed_rows
from beamuq.api.score_candidates import score
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError
from beamuq.explorer.explorer_page import MOST_QUESTIONS, Cell, Question, Row, page
from beamuq.io import write_text
from beamuq.scorers.scorer_protocol import Pair, PairScores, SimilarityScorer, scored
from beamuq.written_texts import WholeText

STUDY_READER = "beamuq_study.overview.study_explorer_page"


def explore(
    source: str | Path,
    *,
    output: str | Path | None = None,
    questions: int = MOST_QUESTIONS,
    similarity: str = "auto",
    equivalence_threshold: float = 0.8,
) -> Path:
    """Go through the questions of a study in a browser.

    It writes one HTML file that needs nothing else and no network: a table of questions to search
    and sort, and of each question the answer, beams and samples, similarities and scores.

    Parameters
    ----------
    source
        results/STUDY, a Parquet file of one of its cells, or a file that score takes, which is
        scored first.
    output
        Where to write it; without it explorer.html in the study's folder, or beside the file, under
        its name.
    questions
        The most questions in the file; several cells share them equally. The page says what is left
        out.
    similarity
        Of a file that score takes, and as there.
    equivalence_threshold
        From which similarity on two texts mean the same.

    Returns
    -------
    The file written.

    Raises BeamUQError in one line: no such source, a bad row, a study that has no candidates yet.

    Examples
    --------
    >>> _ = Path("rows.jsonl").write_text('{"answer": "Rome", "samples": ["Rome", "Milan"]}')
    >>> beamuq.explore("rows.jsonl", similarity="lexical").name
    'rows.explorer.html'
    """
    check_settings(questions=questions, equivalence_threshold=equivalence_threshold)
    source = Path(source)
    if not source.exists():
        raise BeamUQError(
            f"{source}: no such file or folder; give results/STUDY, a cell's Parquet file, or rows"
        )
    if source.is_dir() or _is_table_of_a_study(source):
        html = _study_page(source, questions)
    else:
        html = page(
            source.name, [], [_of_file(source, similarity, equivalence_threshold, questions)]
        )
    beside = source / "explorer.html" if source.is_dir() else source.with_suffix(".explorer.html")
    written = Path(output) if output else beside
    write_text(written, html)
    return written


def _is_table_of_a_study(path: Path) -> bool:
    with suppress(OSError, pa.ArrowException):  # reading its rows tells more
        return path.suffix == ".parquet" and b"beamuq" in (pq.read_schema(path).metadata or {})
    return False


def _study_page(source: Path, questions: int) -> str:
    """The page of a study, which the study's own package reads: the library knows none. A checkout
    has it beside.
    """
    checkout = Path(__file__).resolve().parents[3] / "workflow"
    if checkout.is_dir() and str(checkout) not in sys.path:
        sys.path.append(str(checkout))
    try:
        study = importlib.import_module(STUDY_READER)
    except ModuleNotFoundError as error:
        fix = "install it, or run in a checkout of the workflow with its folder on PYTHONPATH"
        raise BeamUQError(
            f"{source}: a study is read by {STUDY_READER}, which needs {error.name}; {fix}"
        ) from error
    return str(study.study_page(source, questions))


class _Beside(StrictModel, extra="ignore"):
    """What a row may say beside what ``score`` reads of it."""

    references: list[WholeText] = []
    prompt: WholeText = ""


def _beside(place: str, row: Mapping[str, Any]) -> _Beside:
    """Of a row of ours; a line that is a server's response has keys of its own."""
    said = (
        {key: value for key, value in row.items() if value is not None} if "answer" in row else {}
    )
    beside: _Beside = validated(_Beside, said, place)
    return beside


class _Remembering:
    """A similarity that keeps what it said of each pair: s, and whether both mean the same."""

    def __init__(self, scorer: SimilarityScorer, threshold: float) -> None:
        self.scorer, self.threshold = scorer, threshold
        self.said: dict[Pair, tuple[float, bool | None]] = {}

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        found = scored(self.scorer, pairs)
        judged = zip(found.entail.tolist(), found.same(self.threshold).tolist(), strict=True)
        self.said |= zip(pairs, judged, strict=True)
        return found


def _of_file(path: Path, similarity: str, threshold: float, questions: int) -> Cell:
    """The first questions of a file that ``score`` takes; the others are not scored."""
    scorer, placed = open_similarity(similarity), list(placed_rows(path))
    shown, places = read_records(path, most=questions), placed[:questions]
    remembering = _Remembering(scorer.scorer, threshold)
    scores = score(
        shown, similarity=Similarity(scorer.name, remembering), equivalence_threshold=threshold
    )
    notes = [
        f"No {', '.join(dict.fromkeys(of['method']))} of {of['id'].nunique()} questions: "
        f"{reason!s}."
        for reason, of in scores[scores["reason"] != ""].groupby("reason", sort=False)
    ]
    if len(placed) > questions:
        notes.append(
            f"The first {questions} of {len(placed)} questions; all of them: --questions "
            f"{len(placed)}."
        )
    beside = [_beside(place, row) for place, row in places]
    cards = [
        _question(item, more, remembering.said) for item, more in zip(shown, beside, strict=True)
    ]
    sources = {"samples": "given", "beams": "given"}
    return Cell(path.name, path.name, cards, scores, sources, scorer.name, notes=notes)


def _question(
    item: QuestionRecord, beside: _Beside, said: Mapping[Pair, tuple[float, bool | None]]
) -> Question:
    def rows(candidates: Sequence[CandidateRecord]) -> list[Row]:
        return [{"text": each.text.strip(), "logprob": each.total} for each in candidates]

    answer, samples, beams = (
        rows([item.answer]),
        rows(item.samples),
        rows(by_probability(item.beams)),
    )
    texts = {str(row["text"]) for row in (*answer, *samples, *beams)}
    pairs = {pair: said[pair] for pair in product(texts, texts) if pair in said}
    quality = item.correct if item.quality is None else item.quality
    return Question(
        item.id,
        item.question or item.id,
        answer[0],
        samples,
        beams,
        beside.references,
        beside.prompt,
        pairs,
        None if quality is None else float(quality),
    )
