"""The tables of a cell as the arrays that methods take.

Here alone the methods meet Arrow: rows are found by question, texts by code, pairs by question and
texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from beamuq import plugins
from beamuq.errors import BeamUQError
from beamuq.log_space_sums import Array, Index, Mask
from beamuq.methods import answer_probability, candidate_weights, semantic_entropy_sar
from beamuq.methods.dissimilarity_estimators import CandidateArrays
from beamuq.methods.method_inputs import UNKNOWN, Answer, Evidence, Pairs
from beamuq.strategy_names import draws, kind_of, parse, searches
from beamuq_study.parquet_tables import SCHEMAS
from beamuq_study.produced_answers import strategy_of


class CellTables:
    """The tables of a cell, indexed so that evidence is a few array look-ups.

    Questions without candidates are left out: a recipe may ask a prefix of the dataset.
    ``cross_similarity``: of the cross-encoder, for SAR. ``main_beam``: the search whose first beam
    is the produced answer ``top_beam``. ``equivalence_threshold``: on s for a scorer without
    classes (D18, no classes); None for one with classes.

    Raises BeamUQError if the tables do not belong together.
    """

    def __init__(
        self,
        questions: pa.Table,
        candidates: pa.Table,
        similarity: pa.Table,
        judgements: pa.Table | None = None,
        cross_similarity: pa.Table | None = None,
        *,
        main_beam: str | None = None,
        equivalence_threshold: float | None = None,
    ) -> None:
        decoded_ids = set(candidates.column("id").to_pylist())
        self.ids: list[str] = [
            key for key in questions.column("id").to_pylist() if key in decoded_ids
        ]
        if unknown := decoded_ids.difference(self.ids):
            raise BeamUQError(
                f"candidates: id {min(unknown)!r} is not in the questions file; make both of one "
                "study"
            )
        ids = pa.array(self.ids, pa.string())
        texts = pc.unique(candidates.column("text"))
        self.strategies: list[str] = pc.unique(candidates.column("strategy")).to_pylist()
        self._candidates = candidates.combine_chunks()
        self._question = _positions(candidates.column("id"), ids)
        self._text = _positions(candidates.column("text"), texts)
        self._texts = np.append(
            texts.to_numpy(zero_copy_only=False), ""
        )  # position −1 is padding's
        self._rank, self._logprob, self._policy_logprob = (
            candidates.column(name).to_numpy() for name in ("rank", "logprob", "policy_logprob")
        )
        judged = SCHEMAS["judgements"].empty_table() if judgements is None else judgements
        self._judged: pd.DataFrame = judged.to_pandas()
        self._similarity = _PairTable("similarity", similarity, ids, texts)
        self._cross = None
        if cross_similarity is not None:
            self._cross = _PairTable("cross-similarity", cross_similarity, ids, texts)
        self._main_beam = main_beam
        self._equivalence_threshold = equivalence_threshold
        self._answers: dict[str, Answer] = {}
        if equivalence_threshold is not None and self._similarity.classes:
            raise BeamUQError(
                "equivalence_threshold is for a scorer without classes, and this one has them; set "
                "it to null"
            )

    def evidence(
        self,
        strategy: str,
        answer_source: str,
        *,
        first: int = 0,
        budget: int | None = None,
        epsilon: float = 0.0,
        exact: bool = False,
        alpha: float = 0.9,
        among: bool = True,
    ) -> Evidence:
        """The evidence of one strategy's candidates about one produced answer, for every question.

        Samples weigh p^(1 − 1/T), which is 1/M each at T = 1, or ``exact``-ly p / p_T (D14, exact
        weights); beams and diverse beams their restricted mass with floor ``epsilon``; a set with
        draws outside it (hybrids) both; stochastic beams p over their probability of being
        included, normalised. ``budget``: so many samples only, from the one of rank
        ``first`` on; None: all. ``among``: whether candidates are compared with each other too, not
        only with the answer.

        Raises BeamUQError if a question lacks the produced answer, a candidate, a pair or a
        judgement.
        """
        rows = self._rows(strategy, None if budget is None else first + budget)[:, first:]
        mask = rows >= 0
        answers = self._answer_rows(answer_source)
        codes = np.concatenate(
            [self._text[answers][:, None], np.where(mask, self._text[rows], -1)], axis=1
        )
        return Evidence(
            answer=self.answer(answer_source),
            logprob=np.where(mask, self._logprob[rows], -np.inf),
            mask=mask,
            weights=self._weights(strategy, rows, epsilon, exact),
            pairs=self._pairs(codes, among),
            texts=self._texts[codes],
            token_sar=self._token_sar(strategy, rows),
            sentence_similarity=(
                self._cross.entail_of(codes[:, 1:], codes[:, 1:])
                if among and self._cross is not None
                else UNKNOWN
            ),
            alpha=alpha,
        )

    def candidate_arrays(
        self, strategy: str, answer_source: str, *, first: int = 0, budget: int | None = None
    ) -> CandidateArrays:
        """A strategy's candidates from rank ``first`` on, as estimators take them.

        A question may have none of them. Raises BeamUQError as :meth:`evidence`.
        """
        rows = self._rows(strategy, None if budget is None else first + budget, least=budget or 0)[
            :, first:
        ]
        arrays = self._arrays(rows, answer_source)
        if kind_of(strategy) == "sample":
            repeated = np.zeros(rows.shape, dtype=bool)
            repeated[rows >= 0] = self._sequences(rows).duplicated(["question", "tokens"])
            return replace(arrays, repeated=repeated)
        return (
            replace(arrays, log_inclusion=self._policy_logprob[rows])
            if kind_of(strategy) == "stochastic"
            else arrays
        )

    def _arrays(self, rows: Index, answer_source: str) -> CandidateArrays:
        """Rows [N, M] of the candidates table (−1: padding) as the estimators take them."""
        mask = rows >= 0
        codes = np.where(mask, self._text[rows], -1)
        answer = self._text[self._answer_rows(answer_source)][:, None]
        return CandidateArrays(
            logprob=np.where(mask, self._logprob[rows], -np.inf),
            dissimilarity=np.where(
                mask, 1.0 - self._similarity.entail_of(answer, codes)[:, 0], 0.0
            ),
            mask=mask,
            drawn=mask & ~np.isnan(self._policy_logprob[rows]),
            differs=mask & (codes != answer),
        )

    def known_outcomes(self, strategies: Sequence[str], answer_source: str) -> CandidateArrays:
        """The distinct outcomes that some strategies found, and the draws from outside them.

        Draws are of the one strategy that is ``all_above``, whose condition the others' outcomes
        only narrow.
        """
        rows = np.concatenate([self._rows(strategy, least=0) for strategy in strategies], axis=1)
        frame = self._sequences(rows)
        frame["drawn"] = ~np.isnan(self._policy_logprob[frame["row"]])
        searched = frame[~frame["drawn"]].drop_duplicates(["question", "tokens"])
        merged = frame.merge(searched, "left", on=["question", "tokens"])
        inside = merged["row_y"].notna().to_numpy()
        outcomes = pd.concat([searched, frame[frame["drawn"] & ~inside]])
        outcomes = outcomes.sort_values(["question", "tokens"], kind="stable")
        matrix = _rows_by_question(
            outcomes["row"].to_numpy(), outcomes["question"].to_numpy(), len(self.ids)
        )
        return self._arrays(matrix, answer_source)

    def size_of(self, strategy: str) -> int:
        """How many candidates of a strategy every question has, at least."""
        return int((self._rows(strategy) >= 0).sum(axis=1).min())

    def answer(self, answer_source: str) -> Answer:
        """What is known of the produced answers. Raises BeamUQError if a question lacks one."""
        if answer_source not in self._answers:
            rows = self._answer_rows(answer_source)
            entropies = _padded_lists(self._candidates.column("entropies").take(pa.array(rows)))
            p_true = self._judged_answers("p_true_logprob", answer_source)
            self._answers[answer_source] = Answer(
                logprob=self._logprob[rows],
                length=pc.list_value_length(self._candidates.column("token_ids"))
                .to_numpy()[rows]
                .astype(np.int64),
                mean_entropy=UNKNOWN
                if entropies is None
                else answer_probability.mean_token_entropy(*entropies),
                p_true_logprob=UNKNOWN if p_true is None else np.asarray(p_true, dtype=np.float64),
                ccp=self._ccp(answer_source, rows),
            )
        return self._answers[answer_source]

    # -- judgements: UNKNOWN where their file holds nothing of the kind ----------------------------

    def _judged_answers(self, column: str, answer_source: str) -> list[Any] | None:
        """A column about the produced answers. Raises BeamUQError where it holds something for some
        questions only.
        """
        about = (self._judged["answer_source"] == answer_source) & (
            self._judged["candidate_strategy"] == ""
        )
        values = self._judged[about].set_index("id")[column].reindex(self.ids)
        missing = values.isna()
        if missing.any() and not missing.all():
            first = values.index[missing][0]
            raise BeamUQError(
                f"judgements: {column} of question {first!r} is missing; make the file again"
            )
        return None if missing.all() else values.to_list()

    def _ccp(self, answer_source: str, answer_rows: Index) -> Array:
        """Claim-conditioned probability [N] of the produced answers, one for each question.

        ``answer_rows`` [N]: where they stand in the table of candidates. At each step of an answer
        the table has the most probable tokens, its alternatives, and the judgements have a label
        for each. The chosen token always counts as entailed (docs/design.md, D16).
        """
        labels = self._judged_answers("ccp_labels", answer_source)
        if labels is None:
            return UNKNOWN
        columns = self._candidates.select(["token_ids", "top_ids", "top_logprobs"])
        chosen, alternatives, logprobs = (
            column.to_pylist() for column in columns.take(pa.array(answer_rows)).columns
        )
        most_steps = max(map(len, chosen))
        most_alternatives = max(len(ids) for answer in alternatives for ids in answer)
        # [N, steps, alternatives], padded with impossible ones
        values = np.full((len(answer_rows), most_steps, most_alternatives), -np.inf)
        codes = np.full(values.shape, answer_probability.NEUTRAL, dtype=np.int8)
        for n, answer_labels in enumerate(labels):
            if [*map(len, answer_labels)] != [*map(len, alternatives[n])]:
                raise BeamUQError(
                    f"judgements: ccp_labels of {self.ids[n]!r} are not of its alternatives; make "
                    "the file again"
                )
            for step, step_labels in enumerate(answer_labels):
                width = len(step_labels)
                values[n, step, :width] = logprobs[n][step]
                codes[n, step, :width] = list(map(answer_probability.LABELS.index, step_labels))
                chosen_alternative = alternatives[n][step].index(chosen[n][step])
                codes[n, step, chosen_alternative] = answer_probability.ENTAIL
        return answer_probability.claim_conditioned_probability(values, codes, np.isfinite(values))

    def _token_sar(self, strategy: str, rows: Index) -> Array:
        """TokenSAR of a strategy's candidates in rows [N, M] (−1: padding); 0 on padding."""
        mask = rows >= 0
        about = self._judged[self._judged["candidate_strategy"] == strategy]
        keys = pd.MultiIndex.from_arrays(
            [np.array(self.ids)[np.nonzero(mask)[0]], self._rank[rows[mask]]]
        )
        judged = about.set_index(["id", "candidate_rank"])["token_relevances"].reindex(keys)
        missing = judged.isna()
        if missing.all():
            return UNKNOWN
        if missing.any():
            first = judged.index[missing][0][0]
            raise BeamUQError(
                f"judgements: relevances of {strategy!r} lack question {first!r}; make the file "
                "again"
            )
        relevances = _padded_lists(pa.array(judged))
        logprobs = _padded_lists(
            self._candidates.column("token_logprobs").take(pa.array(rows[mask]))
        )
        if relevances is None or logprobs is None or not np.array_equal(relevances[1], logprobs[1]):
            raise BeamUQError(
                f"judgements: token_relevances of {strategy!r} are not of its tokens; make the "
                "file again"
            )
        scores = np.zeros(mask.shape)
        scores[mask] = semantic_entropy_sar.token_sar(relevances[0], *logprobs)
        return scores

    # -- rows, weights and pairs of candidates -----------------------------------------------------

    def _sequences(self, rows: Index) -> pd.DataFrame:
        """Row, place of the question and tokens of each of the rows [N, M] that is no padding."""
        flat = rows[rows >= 0]
        tokens = map(tuple, self._candidates.column("token_ids").take(pa.array(flat)).to_pylist())
        return pd.DataFrame(
            {"row": flat, "question": np.nonzero(rows >= 0)[0], "tokens": list(tokens)}
        )

    def _rows(self, strategy: str, budget: int | None = None, least: int | None = None) -> Index:
        """Rows of the candidates table, [N, M], −1 on padding; at least one a question, or so many.

        Draws stand as drawn, a search's candidates by descending p (D12, Semantic Entropy depends
        on the order).
        """
        rows = np.flatnonzero(pc.equal(self._candidates.column("strategy"), strategy).to_numpy())
        order = self._rank[rows]
        if searches([strategy]):
            order = np.lexsort((order, -self._logprob[rows])).argsort()
        rows = rows[np.lexsort((order, self._question[rows]))]
        matrix = _rows_by_question(rows, self._question[rows], len(self.ids))
        needed = (budget or 1) if least is None else least
        short = (matrix >= 0).sum(axis=1) < needed
        if short.any():
            raise BeamUQError(
                f"candidates: question {self.ids[int(short.argmax())]!r} has fewer than {needed} "
                f"of {strategy!r}; "
                "decode them, or ask for fewer"
            )
        return matrix[:, :budget]

    def _answer_rows(self, answer_source: str) -> Index:
        strategy = strategy_of(answer_source, self._main_beam)
        rows = np.flatnonzero(
            pc.equal(self._candidates.column("strategy"), strategy).to_numpy() & (self._rank == 0)
        )
        rows = rows[np.argsort(self._question[rows], kind="stable")]
        if not np.array_equal(self._question[rows], np.arange(len(self.ids))):
            missing = np.setdiff1d(np.arange(len(self.ids)), self._question[rows])
            which = self.ids[int(missing[0])] if len(missing) else "more than one"
            raise BeamUQError(
                f"candidates: question {which!r} has no first {strategy!r}; decode it again"
            )
        return rows

    def _weights(self, strategy: str, rows: Index, epsilon: float, exact: bool) -> Array:
        kind, parameters = parse(strategy)
        mask = rows >= 0
        logprob = self._logprob[rows]
        policy_logprob = self._policy_logprob[rows]
        if kind == "stochastic" or (kind == "sample" and exact):
            return candidate_weights.importance(logprob, policy_logprob, mask)
        if kind == "sample":
            return candidate_weights.temperature(logprob, mask, parameters["T"])
        if draws(strategy):
            return candidate_weights.hybrid(logprob, ~np.isnan(policy_logprob), mask)
        return candidate_weights.restricted_mass(logprob, mask, epsilon)

    def _pairs(self, codes: Index, among: bool) -> Pairs:
        if not among:
            return Pairs(
                similarity=self._similarity.entail_of(codes[:, :1], codes), mask=codes >= 0
            )
        rows = self._similarity.rows(codes, codes)
        similarity = np.where(rows >= 0, self._similarity.entail[rows], 0.0)
        same: Mask = UNKNOWN
        if self._similarity.classes:
            neutral, contradiction = (values[rows] for values in self._similarity.classes)
            same = (similarity > neutral) & (similarity > contradiction)
        else:
            contradiction = 1.0 - similarity
            if self._equivalence_threshold is not None:
                same = similarity >= self._equivalence_threshold
        return Pairs(
            similarity=similarity,
            mask=codes >= 0,
            contradiction=contradiction,
            same=UNKNOWN if same is UNKNOWN else same & same.transpose(0, 2, 1),
            identical=codes[:, :, None] == codes[:, None, :],
        )


class _PairTable:
    """A similarity table as a sorted array of (question, premise, hypothesis) codes.

    ``entail``, and ``classes`` where there are any: neutral and contradict; all in the order of the
    codes.
    """

    def __init__(self, name: str, table: pa.Table, ids: pa.Array, texts: pa.Array) -> None:
        self._name = name
        self._ids = ids
        self._texts = texts
        question, premise, hypothesis = (
            _positions(table.column(column), values)
            for column, values in (("id", ids), ("premise", texts), ("hypothesis", texts))
        )
        keys = (question * len(texts) + premise) * len(texts) + hypothesis
        keys[(question < 0) | (premise < 0) | (hypothesis < 0)] = -1
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        if (
            0
            < table.column("neutral").null_count + table.column("contradict").null_count
            < 2 * len(table)
        ):
            raise BeamUQError(
                f"{name}: some pairs have classes and some have none; make the file again"
            )
        columns = (
            ("entail",)
            if table.column("neutral").null_count
            else ("entail", "neutral", "contradict")
        )
        self.entail, *self.classes = (
            plugins.numbers(
                f"{name}: {column}", table.column(column).to_numpy(), (len(table),), 0.0, 1.0
            )[order]
            for column in columns
        )

    def rows(self, premises: Index, hypotheses: Index) -> Index:
        """Where the pairs of the texts [N, n] with the texts [N, m] stand, [N, n, m]; −1 on padding
        (codes −1).
        """
        first = premises[:, :, None]
        second = hypotheses[:, None, :]
        real = (first >= 0) & (second >= 0)
        question = np.arange(len(premises))[:, None, None]
        keys = (question * len(self._texts) + first) * len(self._texts) + second
        rows = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        missing = real & (self._keys[rows] != keys) if len(self._keys) else real
        if missing.any():
            self._refuse(missing, premises, hypotheses)
        return np.where(real, rows, -1)

    def _refuse(self, missing: Mask, premises: Index, hypotheses: Index) -> NoReturn:
        """Raise BeamUQError naming the first of the ``missing`` pairs [N, n, m]."""
        n, i, j = (int(axis[0]) for axis in np.nonzero(missing))
        codes = (int(premises[n, i]), int(hypotheses[n, j]))
        pair = tuple(self._texts[code].as_py() for code in codes)
        raise BeamUQError(
            f"{self._name}: question {self._ids[n].as_py()!r} lacks the pair {pair}; make the file "
            "again"
        )

    def entail_of(self, premises: Index, hypotheses: Index) -> Array:
        """How much the texts [N, n] entail the texts [N, m], [N, n, m]; 0 on padding."""
        rows = self.rows(premises, hypotheses)
        return np.where(rows >= 0, self.entail[rows], 0.0)


def _positions(column: pa.ChunkedArray, values: pa.Array) -> Index:
    """The position of each entry among distinct ``values``; −1 where it is not one of them."""
    positions: Index = (
        pc.fill_null(pc.index_in(column, value_set=values), -1).to_numpy().astype(np.int64)
    )
    return positions


def _rows_by_question(rows: Index, question: Index, N: int) -> Index:
    """Rows, sorted by question, as a matrix [N, M] padded with −1."""
    counts = np.bincount(question, minlength=N)
    matrix = np.full((N, max(int(counts.max(initial=0)), 1)), -1)
    matrix[np.arange(matrix.shape[1]) < counts[:, None]] = rows
    return matrix


def _padded_lists(lists: pa.Array | pa.ChunkedArray) -> tuple[Array, Mask] | None:
    """Lists padded to [R, L], with their mask; None where any is null."""
    if lists.null_count:
        return None
    lengths = pc.list_value_length(lists).to_numpy(zero_copy_only=False)
    mask: Mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    values = np.zeros(mask.shape)
    values[mask] = pc.list_flatten(lists).to_numpy(zero_copy_only=False)
    return values, mask
