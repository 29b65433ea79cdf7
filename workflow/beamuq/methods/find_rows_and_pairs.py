"""Looking things up in the tables of a cell: rows by question, texts by code, pairs by question and texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.methods.log_space_sums import Array, Index, Mask


class PairTable:
    """A similarity table as a sorted array of (question, premise, hypothesis) codes."""

    def __init__(self, name: str, table: pa.Table, ids: pa.Array, texts: pa.Array) -> None:
        self._name, self._texts = name, texts
        question, premise, hypothesis = (
            positions(table.column(column), values)
            for column, values in (("id", ids), ("premise", texts), ("hypothesis", texts))
        )
        keys = (question * len(texts) + premise) * len(texts) + hypothesis
        keys[(question < 0) | (premise < 0) | (hypothesis < 0)] = -1
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        shape = (len(table),)
        entail = plugins.numbers(f"{name}: entail", table.column("entail").to_numpy(), shape, 0.0, 1.0)
        self.entail: Array = entail[order]
        self.classes: tuple[Array, Array] | None = None
        neutral, contradict = table.column("neutral"), table.column("contradict")
        if neutral.null_count + contradict.null_count == 0:
            self.classes = (
                plugins.numbers(f"{name}: neutral", neutral.to_numpy(), shape, 0.0, 1.0)[order],
                plugins.numbers(f"{name}: contradict", contradict.to_numpy(), shape, 0.0, 1.0)[order],
            )
        elif neutral.null_count + contradict.null_count < 2 * len(table):
            raise BeamUQError(f"{name}: some pairs have classes and some have none; make the file again")

    def rows(self, ids: list[str], codes: Index) -> Index:
        """Where every ordered pair of the texts [N, n] stands, [N, n, n]; −1 on padding (codes −1)."""
        return self.rows_from(ids, codes, codes)

    def rows_from(self, ids: list[str], premises: Index, hypotheses: Index) -> Index:
        """Where the pairs of the texts [N, n] with the texts [N, m] stand, [N, n, m]; −1 on padding (codes −1)."""
        first, second = premises[:, :, None], hypotheses[:, None, :]
        real = (first >= 0) & (second >= 0)
        keys = (np.arange(len(premises))[:, None, None] * len(self._texts) + first) * len(self._texts) + second
        rows = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        missing = real & (self._keys[rows] != keys) if len(self._keys) else real
        if missing.any():
            question, premise, hypothesis = (int(axis[0]) for axis in np.nonzero(missing))
            texts = int(premises[question, premise]), int(hypotheses[question, hypothesis])
            pair = tuple(self._texts[code].as_py() for code in texts)
            raise BeamUQError(f"{self._name}: question {ids[question]!r} lacks the pair {pair}; make the file again")
        return np.where(real, rows, -1)


def positions(column: pa.ChunkedArray, values: pa.Array) -> Index:
    """The position of each entry among distinct ``values``; −1 where it is not one of them."""
    positions: Index = pc.fill_null(pc.index_in(column, value_set=values), -1).to_numpy().astype(np.int64)
    return positions


def rows_where(table: pa.Table, **equal: str) -> Index:
    """Rows whose columns equal the given strings, in file order."""
    chosen = np.ones(len(table), dtype=bool)
    for column, value in equal.items():
        chosen &= pc.equal(table.column(column), value).to_numpy()
    return np.flatnonzero(chosen)


def rows_by_question(rows: Index, question: Index, N: int) -> Index:
    """Rows, sorted by question, as a matrix [N, M] padded with −1."""
    counts = np.bincount(question, minlength=N)
    matrix = np.full((N, max(int(counts.max(initial=0)), 1)), -1)
    matrix[np.arange(matrix.shape[1]) < counts[:, None]] = rows
    return matrix


def padded_lists(column: pa.ChunkedArray, rows: Index) -> tuple[Array, Mask] | None:
    """List entries of some rows, padded to [R, L], with their mask; None where any row has none."""
    lists = column.combine_chunks().take(pa.array(rows))
    if lists.null_count:
        return None
    lengths = pc.list_value_length(lists).to_numpy()
    mask: Mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    values = np.zeros(mask.shape)
    values[mask] = lists.flatten().to_numpy()
    return values, mask
