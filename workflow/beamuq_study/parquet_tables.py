"""Every Parquet table of the workflow: its schema, where it lies, how it is read and written.

A file is a table of one ``kind``, zstd-compressed, whose footer holds, under the key ``beamuq``, a
JSON object with ``kind``, ``cell`` (which model, dataset, recipe, scorer the rows belong to) and
``provenance`` (versions, revisions, hashes, seed, dtype, device). It holds no time, host or path:
the same inputs give the same bytes. Pages carry checksums, without which most flipped bits would go
unnoticed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from beamuq.errors import BeamUQError, reading
from beamuq.io import atomic

Json = Any

ALL = "all"
ANSWERED = "answered"
"""Subsets of a cell's questions: all of them; those whose produced answer is not empty."""

STRING = pa.string()
INT = pa.int32()
FLOAT = pa.float64()
BOOL = pa.bool_()
STRINGS = pa.list_(STRING)
INTS = pa.list_(INT)
FLOATS = pa.list_(FLOAT)
PASSAGES = pa.list_(pa.struct([("title", STRING), ("text", STRING)]))
TURNS = pa.list_(pa.struct([("question", STRING), ("answer", STRING)]))


# Rows that are written, and can be read, together: 64 rows of 10,000 replicates take 2.5 MB, a cell
# up to 500 MB.
ROW_GROUPS = {"replicates": 64}


def _or_null(kind: pa.DataType) -> pa.Field:
    return pa.field("", kind)


def _schema(**columns: pa.DataType | pa.Field) -> pa.Schema:
    """A schema of columns that are never null, but for those of :func:`_or_null`."""
    fields = {
        name: kind if isinstance(kind, pa.Field) else pa.field("", kind, False)
        for name, kind in columns.items()
    }
    return pa.schema([field.with_name(name) for name, field in fields.items()])


_QUESTION = _schema(
    id=STRING,
    question=STRING,
    context=PASSAGES,  # CoQA: one untitled story; HotpotQA: the two supporting paragraphs
    history=TURNS,  # CoQA: the gold turns before this one
    options=STRINGS,  # multiple choice, in the order shown
    references=STRINGS,  # every accepted answer, best first
    group=STRING,  # the bootstrap's unit: a CoQA story, otherwise the question itself
)

_ESTIMATE = {
    "answer_source": STRING,
    "quality": STRING,
    "subset": STRING,  # "all"; "answered": of the questions whose produced answer is not empty
    # "PRR", "ROC-AUC", "PR-AUC"; "PRR@1": to a further rejection of evaluation.max_rejection
    "metric": STRING,
    "method": STRING,
    "variant": STRING,  # "multinomial", "beamsearch", or "" for a baseline
    "setting": STRING,  # "" for the main table
}
_VALUE = {
    "value": _or_null(
        FLOAT
    ),  # null: undefined, or no threshold has the guarantee, and `note` says why
    **dict.fromkeys(("low", "high", "std"), _or_null(FLOAT)),
    "n": INT,
    "note": STRING,
}

SCHEMAS: dict[str, pa.Schema] = {
    "questions": _QUESTION,
    "shots": _QUESTION,
    "prompts": _schema(id=STRING, prompt=STRING),
    "candidates": _schema(
        id=STRING,
        # "greedy", "sample T=1.0", "beam M=10", "diverse G=2 lambda=0.5", "hybrid B=3"
        strategy=STRING,
        # 0-based: draw number of a sample; the search's own order of beams (log p unless
        # length-penalised)
        rank=INT,
        # up to the first newline or stop, cleaned; whole without newline_stops (D1, D9)
        text=STRING,
        token_ids=INTS,  # terminator included
        token_texts=STRINGS,
        token_logprobs=FLOATS,  # natural log, of the model's own distribution at T = 1
        logprob=FLOAT,  # their sum
        # under what the candidate was drawn from; stochastic: that it is among them; null: searched
        policy_logprob=_or_null(FLOAT),
        terminated=BOOL,  # False: cut at max new tokens
        entropies=_or_null(
            FLOATS
        ),  # nats per step over the full vocabulary; greedy and rank-0 beams only
        top_ids=_or_null(
            pa.list_(INTS)
        ),  # ten most probable tokens per step, chosen one among them or appended
        top_texts=_or_null(pa.list_(STRINGS)),
        top_logprobs=_or_null(pa.list_(FLOATS)),
        # prefixes beyond the prompt that this strategy asked about; rank 0 only, as what follows
        search_rows=_or_null(INT),
        search_passes=_or_null(INT),  # forward passes that it must make one after the other
        # of exact, all_above, optimal_stratified, adaptive: False where the search stopped at its
        # cap
        proven=_or_null(BOOL),
        missed_logprob=_or_null(FLOAT),  # where it did: no outcome outside its set has more
    ),
    "judgements": _schema(
        id=STRING,
        answer_source=STRING,
        p_true_logprob=_or_null(FLOAT),
        ccp_labels=_or_null(
            pa.list_(STRINGS)
        ),  # per step and alternative: entail, neutral or contradict
        token_relevances=_or_null(FLOATS),
        # "" for the produced answer itself; else the candidate the relevances are of
        candidate_strategy=STRING,
        candidate_rank=INT,
    ),
    "similarity": _schema(
        id=STRING,
        premise=STRING,
        hypothesis=STRING,
        entail=FLOAT,
        neutral=_or_null(FLOAT),  # null where the scorer has no classes
        contradict=_or_null(FLOAT),
    ),
    "quality": _schema(id=STRING, answer_source=STRING, value=FLOAT),
    "scores": _schema(
        id=STRING, answer_source=STRING, method=STRING, variant=STRING, setting=STRING, value=FLOAT
    ),
    "evaluation": _schema(**_ESTIMATE, **_VALUE),
    # one value per resample; NaN where that resample leaves the metric undefined
    "replicates": _schema(**_ESTIMATE, values=pa.list_(pa.float32())),
    "beams_map": _schema(
        **_ESTIMATE, **_VALUE, values=pa.list_(pa.float32())
    ),  # method: "" of a cell's coordinates
    "decisions": _schema(
        method=STRING,
        variant=STRING,
        # "threshold", "least", "bound", "shown", "wrong"; "ece", …; "p in [0.1, 0.2)", "right in …"
        metric=STRING,
        risk=_or_null(
            FLOAT
        ),  # α of the first five: at most this share of the shown answers is wrong
        # n of threshold: questions or groups that calibrate, of least: of them tested, of bound:
        # shown
        **_VALUE,
        values=pa.list_(
            pa.float32()
        ),  # one per resample of what has an interval, those of bins apart
    ),
}


_CELL = ("model", "dataset", "recipe")
NAMED_BY: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("questions", "shots"), ("dataset",)),
    "prompts": ("style", "dataset"),
    **dict.fromkeys(("candidates", "judgements"), _CELL),
    "quality": ("metric", *_CELL),
    **dict.fromkeys(
        ("similarity", "scores", "evaluation", "replicates", "beams_map", "decisions"),
        ("scorer", *_CELL),
    ),
}


@dataclass(frozen=True, order=True)
class Artifact:
    """One file of a study by what it holds: its kind (a key of ``SCHEMAS``) and its cell.

    Raises ValueError if the fields given are not exactly those that a file of this kind is named
    by.
    """

    kind: str
    dataset: str = ""
    model: str = ""
    recipe: str = ""
    scorer: str = ""
    metric: str = ""
    style: str = ""

    def __post_init__(self) -> None:
        names = {name for name, value in vars(self).items() if value and name != "kind"}
        if names != set(NAMED_BY[self.kind]):
            raise ValueError(
                f"a {self.kind} file is named by {NAMED_BY[self.kind]}, not by {sorted(names)}"
            )

    @property
    def cell(self) -> dict[str, str]:
        """As the file's footer says it."""
        return {name: getattr(self, name) for name in NAMED_BY[self.kind]}

    @property
    def path(self) -> str:
        """Under ``results/<study>/``."""
        return (
            "/".join((self.kind, *(file_name(value) for value in self.cell.values()))) + ".parquet"
        )


def file_name(name: str) -> str:
    """A name as part of a path: a plug-in's colon becomes a dot."""
    return name.replace(":", ".")


@dataclass(frozen=True)
class Footer:
    """What the footer of the table at ``path`` says of it."""

    path: Path
    kind: str
    cell: dict[str, str]
    provenance: dict[str, Json]


@dataclass(frozen=True)
class Loaded(Footer):
    """A table with what its footer says of it."""

    table: pa.Table


@dataclass(frozen=True)
class OnDisk(Footer):
    """A large table: :attr:`table` reads the file each time, so that nothing is held between.

    ``columns``: those that are read, all if None.
    """

    columns: Sequence[str] | None

    @property
    def table(self) -> pa.Table:
        """Raises BeamUQError as :func:`read`."""
        return read(self.path, self.kind, self.columns).table


def write(
    path: Path,
    kind: str,
    rows: pa.Table | list[dict[str, Any]],
    *,
    cell: Mapping[str, str] | None = None,
    provenance: Mapping[str, Json] | None = None,
) -> None:
    """Write rows as a table of ``kind``, atomically: temporary file, fsync, rename.

    Raises BeamUQError if the rows do not fit the schema, or the disk is full. Nothing half-written
    is left.
    """
    schema = SCHEMAS[kind]
    try:
        if isinstance(rows, pa.Table):
            table = rows.select(schema.names)
        else:
            with _pandas_not_imported():
                table = pa.Table.from_pylist(rows, schema=schema)
        table = table.cast(schema)  # refuses nulls too
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise BeamUQError(f"{path}: rows do not fit the schema of '{kind}': {error}") from error
    footer = {"kind": kind, "cell": dict(cell or {}), "provenance": dict(provenance or {})}
    encoded = json.dumps(footer, sort_keys=True, ensure_ascii=False).encode()
    table = table.replace_schema_metadata({b"beamuq": encoded})
    with atomic(path) as temporary:
        together = ROW_GROUPS.get(kind)
        pq.write_table(
            table, temporary, compression="zstd", write_page_checksum=True, row_group_size=together
        )


def table_of(kind: str, columns: Mapping[str, Any]) -> pa.Table:
    """Rows of ``kind`` from columns, lists or arrays; one that is None, or missing, is null."""
    schema = SCHEMAS[kind]
    rows = len(next(iter(columns.values())))
    with _pandas_not_imported():
        arrays = [
            pa.nulls(rows, field.type)
            if columns.get(field.name) is None
            else pa.array(columns[field.name], field.type)
            for field in schema
        ]
    return pa.Table.from_arrays(arrays, schema=schema)


@contextmanager
def _pandas_not_imported() -> Iterator[None]:
    """Keep pyarrow from importing pandas, a third of the time of the smallest jobs.

    It does so to see whether values are objects of pandas, which none can be then.
    """
    if "pandas" in sys.modules:
        yield
        return
    refusing = _Refusing()
    sys.meta_path.insert(0, refusing)
    try:
        yield
    finally:
        sys.meta_path.remove(refusing)


class _Refusing(MetaPathFinder):
    """A finder that says of pandas that it is not there."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:  # noqa: ARG002  (Python calls it so)
        if fullname == "pandas":
            raise ModuleNotFoundError("not needed here", name=fullname)


def read(path: Path, kind: str, columns: Sequence[str] | None = None) -> Loaded:
    """Read a table of ``kind`` and its footer: all of it, or some ``columns``.

    Raises BeamUQError if the file is missing, corrupt, of another kind, or lacks a column: the
    message names it.
    """
    with _opened(path, kind) as (footer, file):
        table = file.read(columns)
        table.validate(full=True)  # texts that are no UTF-8, among others
        schema = SCHEMAS[kind]
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
            table = table.select(columns)
        return Loaded(path, kind, footer.cell, footer.provenance, table.cast(schema))


def on_disk(path: Path, kind: str, columns: Sequence[str] | None = None) -> OnDisk:
    """A table of ``kind`` to be read later. Raises as :func:`read`, but for damaged rows."""
    with _opened(path, kind) as (footer, _):
        return OnDisk(path, kind, footer.cell, footer.provenance, columns)


def read_lists(path: Path, kind: str, column: str, rows: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The lists of numbers, of one length, in some ``rows`` [K] of a ``column``: [K, length].

    Reads the groups of rows that hold any of them, one after the other, so that no more is held
    than these lists and a group.

    Raises BeamUQError as :func:`read`, and if the lists differ in length.
    """
    element = SCHEMAS[kind].field(column).type.value_type.to_pandas_dtype()
    numbers = np.empty((0, 1), dtype=element)
    with _opened(path, kind) as (_, file):
        sizes = [
            file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)
        ]
        ends = np.cumsum(sizes)
        group_of_row = np.searchsorted(ends, rows, side="right")
        for group in np.unique(group_of_row):
            in_group = group_of_row == group
            places = rows[in_group] - (ends[group] - sizes[group])
            read = file.read_row_group(int(group), columns=[column]).column(column)
            lists = read.combine_chunks().take(places)
            lengths = lists.value_lengths().to_numpy(zero_copy_only=False)
            if not len(numbers):
                numbers = np.empty((len(rows), lengths[0]), dtype=element)
            if (lengths != numbers.shape[1]).any():
                raise BeamUQError(
                    f"{path}: {column}: not all of {numbers.shape[1]} numbers; delete it and run "
                    "again"
                )
            flat = lists.flatten().to_numpy(zero_copy_only=False)
            numbers[in_group] = flat.reshape(len(lists), -1)
    return numbers


def read_footer(path: Path) -> Footer:
    """What a table's footer says of how it was made, without reading its rows.

    Raises BeamUQError if the file is missing or corrupt, or no table of the workflow.
    """
    with _opened(path) as (footer, _):
        return footer


@contextmanager
def _opened(path: Path, kind: str | None = None) -> Iterator[tuple[Footer, pq.ParquetFile]]:
    """The file and its footer; of a ``kind``, also with that kind's columns."""
    with (
        reading(path, "a readable Parquet file", "delete it and run again"),
        pq.ParquetFile(path, page_checksum_verification=True) as file,
    ):
        footer = json.loads((file.metadata.metadata or {}).get(b"beamuq", "{}"))
        if footer.get("kind") not in SCHEMAS:
            raise BeamUQError(f"{path}: no table of this workflow; delete it and run again")
        if kind is not None:
            _check_kind(path, kind, footer["kind"], file.schema_arrow)
        yield Footer(path, footer["kind"], footer["cell"], footer["provenance"]), file


def _check_kind(path: Path, kind: str, kind_of_file: str, columns: pa.Schema) -> None:
    if kind_of_file != kind:
        raise BeamUQError(
            f"{path}: expected a table of '{kind}', found '{kind_of_file}'; delete it and run again"
        )
    expected = [(field.name, field.type) for field in SCHEMAS[kind]]
    if [(field.name, field.type) for field in columns] != expected:
        raise BeamUQError(f"{path}: its columns are not those of '{kind}'; delete it and run again")
