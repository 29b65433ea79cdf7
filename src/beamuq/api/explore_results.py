"""The explorer of a study, of one of its cells, or of a file of candidates."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from beamuq.api.believed_endings import check_one_is_said
from beamuq.api.candidate_records import (
    CandidateRecord,
    QuestionRecord,
    Records,
    by_probability,
    read_records,
)
from beamuq.api.endings_in_scores import WITHOUT_ENDING
from beamuq.api.foreign_rows import Keys
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.api.rows import check_settings, placed_rows_or_errors
from beamuq.api.score_candidates import score
from beamuq.api.score_series import form_in_words
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError, check_ends
from beamuq.explorer.explorer_page import MOST_QUESTIONS, Pairs, Question, Row, Section, page
from beamuq.installation import install_command
from beamuq.io import write_text
from beamuq.made_date import date_made
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
    answer_key: str = "",
    samples_key: str = "",
    answer_logprobs_key: str = "",
    samples_logprobs_key: str = "",
    id_key: str = "",
    correct_key: str = "",
    question_key: str = "",
    without_ending: bool = False,
    with_ending: bool = False,
    skip_invalid: bool = False,
    skip_invalid_samples: bool = False,
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
    answer_key
        Where another tool's rows have the answer: a key, or a path such as choices.0.text. Or a
        whole response of a server, of which endings, log-probabilities and model are read. Their
        other columns are then their own: a misspelt one is not noticed.
    samples_key
        Where they have the samples: a list, or a path such as choices.text; or whole responses of a
        server, one or a list. With the answer's key again, of one response: its first choice is the
        answer, the others are samples.
    answer_logprobs_key
        Where they have the answer's natural log-probability, a number; or a list of its tokens',
        the ending's included. Null, or not there, where it is not known.
    samples_logprobs_key
        The same of the samples: a list of one number, or one list, a sample.
    id_key
        Where they have the question's id, a text or a whole number: a key, or a path such as
        meta.id.
    correct_key
        Where they have whether the answer is right: 0 or 1, true or false; null, or not
        there, where it is not known.
    question_key
        Where they have the question, whose text is shown: a text, or a list of chat messages, of
        which the user's last is shown.
    without_ending
        Log-probabilities lack the ending's (end-of-sequence token's), where a server left out only
        that, or in rows of your own that do not say otherwise: take the sum of the others. Such
        scores have a note and no certified interval.
    with_ending
        Your own lists of tokens' log-probabilities hold the ending's: without this, or "ended"
        beside a list, that is believed with a warning.
    skip_invalid
        Leave out rows that cannot be read, such as one whose answer is null, and warn of them; else
        the first is refused.
    skip_invalid_samples
        Leave out samples that cannot be read, such as one that a filter cut, and score their rows
        with the others; a warning counts them. Else the first is refused.

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
    check_one_is_said(with_ending=with_ending, without_ending=without_ending)
    source = Path(source)
    if not source.exists():
        raise BeamUQError(
            f"{source}: no such file or folder; give results/STUDY, a cell's Parquet file, or rows"
        )
    check_ends(source)
    keys = Keys(
        answer=answer_key,
        samples=samples_key,
        answer_logprobs=answer_logprobs_key,
        samples_logprobs=samples_logprobs_key,
        id=id_key,
        correct=correct_key,
        question=question_key,
    )
    if source.is_dir() or _is_table_of_a_study(source):
        if keys.are_foreign:
            raise BeamUQError(
                f"{source}: answer_key, samples_key and the like are of another tool's rows, and "
                "this is of a study; leave them out"
            )
        if without_ending or with_ending:
            raise BeamUQError(
                f"{source}: without_ending, with_ending: of rows, and this is of a study; leave "
                "them out"
            )
        if skip_invalid or skip_invalid_samples:
            raise BeamUQError(
                f"{source}: skip_invalid, skip_invalid_samples: of rows, and this is of a study; "
                "leave them out"
            )
        html = _study_page(source, questions)
    else:
        reading = _Reading(
            keys=keys,
            without_ending=without_ending,
            with_ending=with_ending,
            skip_invalid=skip_invalid,
            skip_invalid_samples=skip_invalid_samples,
        )
        section = _section_of_file(source, similarity, equivalence_threshold, questions, reading)
        html = page(source.name, [], [section], date=date_made())
    beside = source / "explorer.html" if source.is_dir() else source.with_suffix(".explorer.html")
    written = Path(output) if output else beside
    write_text(written, html)
    return written


def _is_table_of_a_study(path: Path) -> bool:
    with suppress(OSError, pa.ArrowException):  # reading its rows tells more
        return path.suffix == ".parquet" and b"beamuq" in (pq.read_schema(path).metadata or {})
    return False


def _study_page(source: Path, questions: int) -> str:
    """The page of a study, which the study's own package reads: the library knows none.

    A checkout has that package beside.
    """
    checkout = Path(__file__).resolve().parents[3] / "workflow"
    if checkout.is_dir() and str(checkout) not in sys.path:
        sys.path.append(str(checkout))
    try:
        study = importlib.import_module(STUDY_READER)
    except ModuleNotFoundError as error:
        raise BeamUQError(
            f"{source}: a study is read by {STUDY_READER}, which needs {error.name}; "
            f"{install_command('study')}, and run there"
        ) from error
    return str(study.study_page(source, questions))


class _RecordingSimilarity:
    """A similarity that records what it says of each pair, and whether both mean the same."""

    def __init__(self, scorer: SimilarityScorer, threshold: float) -> None:
        self.scorer = scorer
        self.threshold = threshold
        self.pairs: dict[Pair, tuple[float, bool | None]] = {}

    def score(self, pairs: Sequence[Pair]) -> PairScores:
        scores = scored(self.scorer, pairs)
        similarity = scores.entail.tolist()
        same = scores.same(self.threshold).tolist()
        for pair, pair_similarity, pair_same in zip(pairs, similarity, same, strict=True):
            self.pairs[pair] = (pair_similarity, pair_same)
        return scores


@dataclass(frozen=True)
class _Reading:
    """How rows are read, as the options of ``explore`` say."""

    keys: Keys
    without_ending: bool
    with_ending: bool
    skip_invalid: bool
    skip_invalid_samples: bool


def _section_of_file(
    path: Path, similarity: str, threshold: float, most: int, reading: _Reading
) -> Section:
    """The first questions of a file that ``score`` takes; what follows is not scored."""
    opened = open_similarity(similarity)
    placed = list(placed_rows_or_errors(path))
    records = read_records(
        path,
        most=most,
        keys=reading.keys,
        without_ending=reading.without_ending,
        skip_invalid=reading.skip_invalid,
        skip_invalid_samples=reading.skip_invalid_samples,
    )
    recording = _RecordingSimilarity(opened.scorer, threshold)
    scores = score(
        records,
        similarity=Similarity(opened.name, recording),
        equivalence_threshold=threshold,
        without_ending=reading.without_ending,
        with_ending=reading.with_ending,
    )
    questions = []
    for record, number in zip(records, records.row_numbers, strict=True):
        further = _further_keys(*placed[number - 1], reading.keys)
        questions.append(_question(record, further, recording.pairs))
    return Section(
        name=path.name,
        title=path.name,
        questions=questions,
        scores=scores,
        sources={"samples": "given", "beams": "given"},
        similarity=opened.name,
        notes=[
            *_note_on_first(most, len(placed)),
            *_note_on_rows_left_out(records.row_numbers, most, len(placed)),
            *_note_on_samples_left_out(records),
            *_note_on_endings(scores),
        ],
        without_value=_reasons_of_missing(scores),
    )


def _note_on_first(most: int, count: int) -> list[str]:
    """A sentence where the page has only the first ``most`` of ``count`` questions."""
    if count <= most:
        return []
    return [f"The first {most} of {count} questions; all of them: --questions {count}."]


def _note_on_rows_left_out(row_numbers: Sequence[int], most: int, count: int) -> list[str]:
    """A sentence where rows were left out: of all ``count``, or of those up to the last one shown.

    ``row_numbers``: of the rows shown, from 1, at most ``most``.
    """
    looked_at = count if len(row_numbers) < most else row_numbers[-1]
    left_out = looked_at - len(row_numbers)
    if not left_out:
        return []
    return [f"Of {looked_at} rows {left_out} cannot be read and are left out."]


def _note_on_samples_left_out(records: Records) -> list[str]:
    """A sentence where samples of the rows shown were left out."""
    left_out = records.samples_left_out
    if not left_out:
        return []
    count = left_out + sum(len(record.samples) for record in records)
    return [f"Of {count} samples {left_out} cannot be read and are left out."]


def _note_on_endings(scores: pd.DataFrame) -> list[str]:
    """A sentence where scores lack their ending's log-probability, and so the p shown too."""
    lacking = scores.loc[scores["note"] == WITHOUT_ENDING, "id"].nunique()
    if not lacking:
        return []
    return [
        f"Of {scores['id'].nunique()} questions {lacking} have log-probabilities without the "
        "ending's: their p, and scores by it, are of a text that begins so, not of the whole one."
    ]


def _reasons_of_missing(scores: pd.DataFrame) -> list[str]:
    """A sentence for each reason why methods have no score, and for each of their forms."""
    sentences = []
    without_score = pd.DataFrame(scores[scores["reason"] != ""])
    forms = [
        form_in_words(method, variant, plain=True)
        for method, variant in zip(without_score["method"], without_score["variant"], strict=True)
    ]
    by_reason = without_score.assign(form=forms).groupby(["reason", "form"], sort=False)
    for (reason, form), rows in by_reason:
        names = (rows["method"] + " " + rows["setting"]).str.strip()
        methods = ", ".join(dict.fromkeys(names))
        count = rows["id"].nunique()
        of_questions = f"{count} questions" if count > 1 else "one question"
        sentences.append(f"No {methods}{f' {form}' if form else ''}, {of_questions}: {reason}.")
    return sentences


class _FurtherKeys(StrictModel, extra="ignore"):
    """What a row may say beside what ``score`` reads of it."""

    references: list[WholeText] = []
    prompt: WholeText = ""


def _further_keys(place: str, row: Mapping[str, Any] | BeamUQError, keys: Keys) -> _FurtherKeys:
    """Those of a row of ours; a server's response and another tool's row have keys of their own."""
    if isinstance(row, BeamUQError) or "answer" not in row or keys.are_foreign:
        return _FurtherKeys()
    content = {key: value for key, value in row.items() if value is not None}
    further: _FurtherKeys = validated(_FurtherKeys, content, place)
    return further


def _question(record: QuestionRecord, further: _FurtherKeys, all_pairs: Pairs) -> Question:
    answer = _row(record.answer)
    samples = [_row(sample) for sample in record.samples]
    beams = [_row(beam) for beam in by_probability(record.beams)]
    texts = {str(row["text"]) for row in (answer, *samples, *beams)}
    quality = record.correct if record.quality is None else record.quality
    return Question(
        id=record.id,
        text=record.question or record.id,
        answer=answer,
        samples=samples,
        beams=beams,
        references=further.references,
        prompt=further.prompt,
        pairs={pair: all_pairs[pair] for pair in product(texts, texts) if pair in all_pairs},
        quality=None if quality is None else float(quality),
    )


def _row(candidate: CandidateRecord) -> Row:
    return {"text": candidate.text.strip(), "logprob": candidate.total}
