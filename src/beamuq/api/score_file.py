"""Scores of a file of any length: read, scored and written some questions at a time."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from beamuq.api.answer_among_samples import (
    warn_if_answers_are_samples,
    warn_if_samples_are_one_draw,
    without_the_answers,
)
from beamuq.api.believed_endings import check_one_is_said, warn_if_endings_are_believed
from beamuq.api.candidate_records import LABELS, Records, record_blocks, with_prompt_hash
from beamuq.api.cut_texts import CutTexts
from beamuq.api.draws_of_samples import check_draws
from beamuq.api.empty_answers import with_empty_answers_told
from beamuq.api.foreign_rows import Keys
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.api.rows import check_settings, render
from beamuq.api.score_candidates import (
    COLUMNS,
    CallSettings,
    Scores,
    chosen_methods,
    score_records,
)
from beamuq.errors import reading
from beamuq.io import SUFFIXES, atomic, check_ending, check_is_table, writing
from beamuq.made_date import made
from beamuq.methods.registry import Method
from beamuq.progress import job_progress

ATTRS = "PANDAS_ATTRS"  # metadata that pandas reads as a frame's attrs
BLOCK = 500  # questions scored at once; of usual rows some tens of megabytes
NUMBERS = {"value", "low", "high", "confidence", "correct", "quality"}


def score_file(
    rows: str | Path,
    output: str | Path,
    *,
    similarity: str | Similarity = "auto",
    methods: str | Sequence[str] | None = None,
    temperature: float = 1.0,
    epsilon: float = 0.0,
    alpha: float = 0.9,
    equivalence_threshold: float = 0.8,
    without_ending: bool = False,
    with_ending: bool = False,
    draw_size: int | None = None,
    answer_key: str = "",
    samples_key: str = "",
    answer_logprobs_key: str = "",
    samples_logprobs_key: str = "",
    id_key: str = "",
    correct_key: str = "",
    prompt_hash: str = "",
    skip_invalid: bool = False,
    skip_invalid_samples: bool = False,
    leave_one_out: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 1,
) -> int:
    """Score a file of any length, in memory that does not grow with it.

    What is written is what ``beamuq.score(rows, ...)`` gives, a row a score. What :func:`score`
    warns of is looked for in the first 500 questions, but empty answers and texts that the
    similarity cuts in all.

    Parameters
    ----------
    rows
        A .jsonl, .ndjson or .parquet file, a question a row, as :func:`score` takes it.
    output
        The file of scores: .parquet, .jsonl or .ndjson. It is there once all is scored, and else as
        before.
    similarity, methods, temperature, epsilon, alpha, equivalence_threshold
        As :func:`score` takes them.
    without_ending, with_ending, draw_size
        As :func:`score` takes them.
    answer_key, samples_key, answer_logprobs_key, samples_logprobs_key, id_key, correct_key
        As :func:`score` takes them.
    prompt_hash, skip_invalid, skip_invalid_samples, leave_one_out, device, dtype, threads
        As :func:`score` takes them.

    Returns
    -------
    How many questions were scored.

    Raises BeamUQError in one line as :func:`score` does, and for a file of another ending or one
    that cannot be written.

    Examples
    --------
    >>> row = '{"answer": "Rome", "samples": ["Rome", "Milan"]}'
    >>> _ = Path("rows.jsonl").write_text(row)
    >>> beamuq.score_file("rows.jsonl", "scores.parquet", similarity="lexical")
    1
    """
    rows, output = Path(rows), Path(output)
    check_settings(
        temperature=temperature,
        epsilon=epsilon,
        alpha=alpha,
        equivalence_threshold=equivalence_threshold,
        draw_size=draw_size,
    )
    check_one_is_said(with_ending=with_ending, without_ending=without_ending)
    check_ending(
        rows,
        SUFFIXES,
        setting="rows",
        of_array=(
            "an array is read whole, by beamuq.score; or write one object of it a line, as .jsonl"
        ),
    )
    check_ending(
        output,
        SUFFIXES,
        setting="output",
        of_array="give .jsonl, which has one object a line",
    )
    blocks = record_blocks(
        rows,
        BLOCK,
        without_ending=without_ending,
        temperature=temperature,
        keys=Keys(
            answer=answer_key,
            samples=samples_key,
            answer_logprobs=answer_logprobs_key,
            samples_logprobs=samples_logprobs_key,
            id=id_key,
            correct=correct_key,
        ),
        skip_invalid=skip_invalid,
        skip_invalid_samples=skip_invalid_samples,
    )
    opened = open_similarity(similarity, device=device, dtype=dtype, threads=threads)
    scoring = _Scoring(
        chosen_methods(methods),
        opened,
        CallSettings(temperature, epsilon, alpha, equivalence_threshold, without_ending, draw_size),
        CutTexts(opened.name),
    )
    if not with_ending:
        blocks = _with_endings_looked_at(blocks)
    labelled = (with_prompt_hash(block, prompt_hash, str(rows)) for block in blocks)
    compared = _compared(labelled, str(rows), leave_one_out, draw_size)
    counted = with_empty_answers_told(compared)
    total = lines_of(rows)
    with ExitStack() as stack:
        with writing(output):
            output.parent.mkdir(parents=True, exist_ok=True)
            folder = stack.enter_context(
                tempfile.TemporaryDirectory(dir=output.parent, prefix=".beamuq-")
            )
        table = stack.enter_context(_Table(Path(folder, "scores.parquet"), output))
        written = _write_blocks(counted, scoring, table, total)
        with atomic(output) as temporary:
            _write_columns(written, temporary, output.suffix)
    scoring.cut.warn()
    return written.questions


def lines_of(rows: Path) -> int:
    """How many questions a .jsonl, .ndjson or .parquet file has at most, without reading them.

    Raises BeamUQError if there is no such file, it cannot be read, or it is damaged.
    """
    check_is_table(rows)
    if rows.suffix == ".parquet":
        with reading(rows, "a readable Parquet file", "fetch or copy it again"):
            return int(pq.read_metadata(rows).num_rows)
    with reading(rows, "JSON Lines", "fetch or copy it again"), rows.open("rb") as file:
        return sum(1 for _ in file)


@dataclass(frozen=True)
class _Scoring:
    """What is scored, and how; ``cut``: the questions so far whose texts were cut."""

    methods: Sequence[Method]
    similarity: Similarity
    settings: CallSettings
    cut: CutTexts

    def of(self, records: Records) -> Scores:
        return score_records(records, self.methods, self.similarity, self.settings, self.cut)


def _with_endings_looked_at(blocks: Iterator[Records]) -> Iterator[Records]:
    """The same blocks; the first is looked at for endings that are believed."""
    first = next(blocks)
    warn_if_endings_are_believed(first)
    yield first
    yield from blocks


def _compared(
    blocks: Iterable[Records], where: str, leave_one_out: bool, draw_size: int | None
) -> Iterator[Records]:
    """Blocks as they are compared; the first is looked at for what ``score`` warns of."""
    first: Records | None = None
    for block in blocks:
        if leave_one_out:
            block = without_the_answers(block, where)
        elif first is None:
            warn_if_answers_are_samples(block)
        if first is None:
            warn_if_samples_are_one_draw(block)
            first = block
        if draw_size is not None:
            check_draws([first[0], *block], draw_size, where)
        yield block


@dataclass
class _Written:
    """A file with all scores, and with a column for every label; ``labels``: which have a value."""

    path: Path
    questions: int = 0
    labels: set[str] = field(default_factory=set)

    @property
    def columns(self) -> list[str]:
        """Those that ``score`` gives: a label's only where a row has it."""
        return [*COLUMNS, *(name for name in LABELS if name in self.labels)]


class _Table:
    """All scores in a file of Parquet at ``path``, on the way to ``output``.

    Raises BeamUQError naming ``output`` where the disk is full. What scoring raises between two
    blocks passes as it is: it says nothing of the file.
    """

    def __init__(self, path: Path, output: Path) -> None:
        self.path = path
        self._output = output
        self._schema = pa.schema([(name, _type(name)) for name in (*COLUMNS, *LABELS)])

    def __enter__(self) -> _Table:
        with writing(self._output):
            self._writer = pq.ParquetWriter(self.path, self._schema)
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def append(self, scores: pd.DataFrame) -> None:
        whole = scores.reindex(columns=[*COLUMNS, *LABELS])
        block = pa.Table.from_pandas(whole, self._schema, preserve_index=False)
        with writing(self._output):
            self._writer.write_table(block)

    def close(self) -> None:
        """End the file, after which it can be read; a second time is none."""
        with writing(self._output):
            self._writer.close()


def _write_blocks(
    blocks: Iterable[Records], scoring: _Scoring, table: _Table, total: int
) -> _Written:
    """Score each block and append it to a table, which is closed behind the last."""
    written = _Written(table.path)
    with job_progress(total, "scoring", "question") as bar:
        for block in blocks:
            frame = scoring.of(block)
            written.labels.update(name for name in LABELS if name in frame.columns)
            written.questions += len(block)
            table.append(frame)
            bar.update(len(block))
    table.close()
    return written


def _type(name: str) -> pa.DataType:
    if name == "candidates":
        return pa.int64()
    return pa.float64() if name in NUMBERS else pa.string()


def _write_columns(written: _Written, output: Path, suffix: str) -> None:
    """Copy the columns that ``score`` gives to a file of this ending."""
    with pq.ParquetFile(written.path) as file:
        blocks = (
            file.read_row_group(number, columns=written.columns)
            for number in range(file.num_row_groups)
        )
        if suffix == ".parquet":
            fields = [file.schema_arrow.field(name) for name in written.columns]
            schema = pa.schema(fields, metadata={ATTRS: json.dumps(made())})
            with pq.ParquetWriter(output, schema) as writer:
                for block in blocks:
                    writer.write_table(block)
        else:
            with output.open("w", encoding="utf-8", newline="\n") as lines:
                for block in blocks:
                    lines.write(render(block.to_pandas(), "jsonl"))
