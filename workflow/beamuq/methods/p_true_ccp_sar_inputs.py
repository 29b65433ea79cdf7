"""What the statistics file of a cell adds to the evidence: P(True), CCP and TokenSAR."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from beamuq.errors import BeamUQError
from beamuq.methods import answer_probability, semantic_entropy_sar
from beamuq.methods.find_rows_and_pairs import padded_lists, positions, rows_where
from beamuq.methods.log_space_sums import Array, Index
from beamuq.methods.method_inputs import UNKNOWN
from beamuq.parquet_tables import SCHEMAS


class JudgementColumns:
    """A table of ``statistics``, or None where there is no such file, for the questions ``ids``.

    Each of its methods gives UNKNOWN where the file holds nothing of the kind, and raises BeamUQError, naming the
    question, where it holds something for some questions only.
    """

    def __init__(self, table: pa.Table | None, ids: list[str]) -> None:
        table = SCHEMAS["statistics"].empty_table() if table is None else table
        self._table = table.combine_chunks()
        self._ids = ids
        self._question = positions(table.column("id"), pa.array(ids, pa.string()))
        self._rank = table.column("candidate_rank").to_numpy()

    def p_true_logprob(self, answer_source: str) -> Array:
        """log p("True") of the produced answers, [N]."""
        values = self._of_answers("p_true_logprob", answer_source)
        return UNKNOWN if values is None else np.asarray(values.to_numpy())

    def ccp(self, answer_source: str, candidates: pa.Table, answers: Index) -> Array:
        """CCP of the answers in rows ``answers`` [N] of the candidates; the chosen token always counts (D16, CCP)."""
        labels = self._of_answers("ccp_labels", answer_source)
        if labels is None:
            return UNKNOWN
        taken = candidates.select(["token_ids", "top_ids", "top_logprobs"]).take(pa.array(answers))
        chosen, alternatives, logprobs = (column.to_pylist() for column in taken.columns)
        shape = (len(answers), max(map(len, chosen)), max(len(step) for row in alternatives for step in row))
        values, codes = np.full(shape, -np.inf), np.full(shape, answer_probability.NEUTRAL, dtype=np.int8)
        for n, answer_labels in enumerate(labels.to_pylist()):
            if [len(step) for step in answer_labels] != [len(step) for step in alternatives[n]]:
                raise BeamUQError(
                    f"statistics: ccp_labels of {self._ids[n]!r} are not of its alternatives; make the file again"
                )
            for step, of_step in enumerate(answer_labels):
                width = len(of_step)
                values[n, step, :width] = logprobs[n][step]
                codes[n, step, :width] = [answer_probability.LABELS.index(label) for label in of_step]
                codes[n, step, alternatives[n][step].index(chosen[n][step])] = answer_probability.ENTAIL
        return answer_probability.claim_conditioned_probability(values, codes, np.isfinite(values))

    def token_sar(self, strategy: str, candidates: pa.Table, rows: Index) -> Array:
        """TokenSAR of a strategy's candidates, rows [N, M] of their table (−1: padding); 0 on padding."""
        mask = rows >= 0
        rank = np.where(mask, candidates.column("rank").to_numpy()[rows], -1)
        about = self._rows(int(rank.max()) + 1, candidate_strategy=strategy)
        asked = np.take_along_axis(about, np.maximum(rank, 0), axis=1)[mask]
        if (asked < 0).all():
            return UNKNOWN
        if (asked < 0).any():
            first = self._ids[int(np.nonzero(mask)[0][asked < 0][0])]
            raise BeamUQError(f"statistics: relevances of {strategy!r} lack question {first!r}; make the file again")
        relevances = padded_lists(self._table.column("token_relevances"), asked)
        logprobs = padded_lists(candidates.column("token_logprobs"), rows[mask])
        if relevances is None or logprobs is None:
            return UNKNOWN
        if not np.array_equal(relevances[1], logprobs[1]):
            raise BeamUQError(
                f"statistics: token_relevances of {strategy!r} are not of its tokens; make the file again"
            )
        scores = np.zeros(mask.shape)
        scores[mask] = semantic_entropy_sar.token_sar(relevances[0], logprobs[0], logprobs[1])
        return scores

    def _of_answers(self, column: str, answer_source: str) -> pa.Array | None:
        rows = self._rows(1, answer_source=answer_source, candidate_strategy="")[:, 0]
        values = self._table.column(column).combine_chunks().take(pa.array(rows, mask=rows < 0))
        if values.null_count == len(values):
            return None
        if values.null_count:
            first = self._ids[values.is_null().to_pylist().index(True)]
            raise BeamUQError(f"statistics: {column} of question {first!r} is missing; make the file again")
        return values

    def _rows(self, width: int, **equal: str) -> Index:
        """The rows about each question's candidates of rank 0 … width − 1, [N, width]; −1 where there is none."""
        rows = rows_where(self._table, **equal)
        rows = rows[(self._question[rows] >= 0) & (self._rank[rows] < width)]
        matrix = np.full((len(self._ids), width), -1)
        matrix[self._question[rows], self._rank[rows]] = rows
        return matrix
