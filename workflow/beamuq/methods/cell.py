"""Evidence out of the tables of a cell: one model, dataset and recipe under one scorer."""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from beamuq.errors import BeamUQError
from beamuq.methods import information, semantic, weights
from beamuq.methods.arrays import Array, Index, Mask
from beamuq.methods.evidence import Answer, Evidence, Pairs
from beamuq.methods.lexical import rouge_matrix
from beamuq.methods.settings import parse

SentenceSimilarity = Literal["file", "scorer", "rouge-l"]


class Cell:
    """The tables of a cell, indexed so that evidence is a few array look-ups.

    Parameters
    ----------
    questions, candidates, similarity, statistics, cross
        Tables of ``beamuq.tables``; statistics and cross (the cross-encoder's similarity, for SAR) may be absent.
        Questions without candidates are left out: a recipe may ask a prefix of the dataset.
    main_beam
        The search whose first beam is the produced answer ``top_beam``.
    same_meaning
        Threshold on s for a scorer without classes (D18); None for one with classes.
    sar_similarity
        Where SAR's sentence similarity comes from: the cross-encoder's file, the scorer's own, ROUGE-L; None: nowhere.

    Raises
    ------
    BeamUQError
        If the tables do not belong together.
    """

    def __init__(
        self,
        questions: pa.Table,
        candidates: pa.Table,
        similarity: pa.Table,
        statistics: pa.Table | None = None,
        cross: pa.Table | None = None,
        *,
        main_beam: str | None = None,
        same_meaning: float | None = None,
        sar_similarity: SentenceSimilarity | None = None,
    ) -> None:
        asked = set(candidates.column("id").to_pylist())
        self.ids: list[str] = [key for key in questions.column("id").to_pylist() if key in asked]
        if unknown := asked.difference(self.ids):
            raise BeamUQError(f"candidates: id {min(unknown)!r} is not in the questions file; make both of one study")
        if (sar_similarity == "file") != (cross is not None):
            raise BeamUQError("sar_similarity 'file' and a cross-encoder's similarity file go together; give both")
        ids, texts = pa.array(self.ids, pa.string()), pc.unique(candidates.column("text"))
        self._candidates = candidates.combine_chunks()
        self._question = _positions(candidates.column("id"), ids)
        self._text = _positions(candidates.column("text"), texts)
        self._texts = np.append(texts.to_numpy(zero_copy_only=False), "")  # position −1 is padding's
        self._rank = candidates.column("rank").to_numpy()
        self._logprob = candidates.column("logprob").to_numpy()
        self._policy_logprob = candidates.column("policy_logprob").to_numpy()
        self._statistics = None if statistics is None else statistics.combine_chunks()
        self._similarity = _PairTable("similarity", similarity, ids, texts)
        self._cross = None if cross is None else _PairTable("cross-similarity", cross, ids, texts)
        self._main_beam = main_beam
        self._same_meaning = same_meaning
        self._sar_similarity = sar_similarity
        self._answers: dict[str, Answer] = {}
        if same_meaning is not None and self._similarity.classes is not None:
            raise BeamUQError("same_meaning is for a scorer without classes, and this one has them; set it to null")

    def evidence(
        self,
        strategy: str,
        produced: str,
        *,
        budget: int | None = None,
        epsilon: float = 0.0,
        exact: bool = False,
        alpha: float = 0.9,
    ) -> Evidence:
        """The evidence of one strategy's candidates about one produced answer, for every question.

        Parameters
        ----------
        strategy
            As in the candidates table. Samples weigh p^(1 − 1/T), which is 1/M each at T = 1, or ``exact``-ly p / p_T
            (D14); beams and diverse beams their restricted mass with floor ``epsilon``; hybrids both.
        produced
            ``greedy``; ``top_beam``, the first of the main search; or ``shipped``.
        budget
            The first so many samples only; None: all. (A smaller beam search is another strategy.)

        Raises
        ------
        BeamUQError
            If a question lacks the produced answer, a candidate, a pair or a statistic; the message names it.
        """
        rows = self._rows(strategy, budget)
        mask = rows >= 0
        answers = self._answer_rows(produced)
        codes = np.concatenate([self._text[answers][:, None], np.where(mask, self._text[rows], -1)], axis=1)
        pairs = self._pairs(codes)
        return Evidence(
            answer=self._answer(produced, answers),
            logprob=np.where(mask, self._logprob[rows], -np.inf),
            mask=mask,
            weights=self._weights(strategy, rows, epsilon, exact),
            pairs=pairs,
            texts=self._texts[codes],
            token_sar=self._token_sar(strategy, rows),
            sentence_similarity=self._sentence_similarity(codes, pairs),
            alpha=alpha,
        )

    def _rows(self, strategy: str, budget: int | None = None) -> Index:
        """Rows of the candidates table, [N, M]: draws as drawn, searched ones by descending p; −1 on padding."""
        kind, _ = parse(strategy)
        rows = _where(self._candidates, strategy=strategy)
        order = self._rank[rows]
        if kind in ("beam", "diverse"):
            order = np.lexsort((order, -self._logprob[rows])).argsort()
        rows = rows[np.lexsort((order, self._question[rows]))]
        matrix = _by_question(rows, self._question[rows], len(self.ids))
        short = (matrix >= 0).sum(axis=1) < (budget or 1)
        if short.any():
            raise BeamUQError(
                f"candidates: question {self.ids[int(short.argmax())]!r} has fewer than {budget or 1} of {strategy!r}; "
                "decode them, or ask for fewer"
            )
        return matrix[:, :budget]

    def _answer_rows(self, produced: str) -> Index:
        strategy = {"greedy": "greedy", "top_beam": self._main_beam, "shipped": "shipped"}.get(produced)
        if strategy is None:
            raise BeamUQError(f"produced: {produced!r} is not greedy, shipped or, where there is a main beam, top_beam")
        rows = np.intersect1d(_where(self._candidates, strategy=strategy), np.flatnonzero(self._rank == 0))
        rows = rows[np.argsort(self._question[rows], kind="stable")]
        if not np.array_equal(self._question[rows], np.arange(len(self.ids))):
            missing = np.setdiff1d(np.arange(len(self.ids)), self._question[rows])
            which = self.ids[int(missing[0])] if len(missing) else "more than one"
            raise BeamUQError(f"candidates: question {which!r} has no first {strategy!r}; decode it again")
        return rows

    def _weights(self, strategy: str, rows: Index, epsilon: float, exact: bool) -> Array:
        kind, parameters = parse(strategy)
        mask, logprob, policy_logprob = rows >= 0, self._logprob[rows], self._policy_logprob[rows]
        if kind == "hybrid":
            return weights.hybrid(logprob, ~np.isnan(policy_logprob), mask)
        if kind != "sample":
            return weights.restricted_mass(logprob, mask, epsilon)
        if exact:
            return weights.importance(logprob, policy_logprob, mask)
        return weights.temperature(logprob, mask, parameters["T"])

    def _pairs(self, codes: Index) -> Pairs:
        rows = self._similarity.rows(self.ids, codes)
        similarity = np.where(rows >= 0, self._similarity.entail[rows], 0.0)
        same: Mask | None = None
        if self._similarity.classes is not None:
            neutral, contradiction = (values[rows] for values in self._similarity.classes)
            same = (similarity > neutral) & (similarity > contradiction)
        else:
            contradiction = 1.0 - similarity
            if self._same_meaning is not None:
                same = similarity >= self._same_meaning
        return Pairs(
            similarity=similarity,
            mask=codes >= 0,
            contradiction=contradiction,
            same=None if same is None else same & same.transpose(0, 2, 1),
            identical=codes[:, :, None] == codes[:, None, :],
        )

    def _sentence_similarity(self, codes: Index, pairs: Pairs) -> Array | None:
        if self._sar_similarity == "scorer":
            return pairs.similarity[:, 1:, 1:]
        if self._sar_similarity == "rouge-l":
            return rouge_matrix(self._texts[codes[:, 1:]], pairs.mask[:, 1:])
        if self._cross is None:
            return None
        rows = self._cross.rows(self.ids, codes[:, 1:])
        return np.where(rows >= 0, self._cross.entail[rows], 0.0)

    def _answer(self, produced: str, answers: Index) -> Answer:
        if produced not in self._answers:
            entropies = _lists(self._candidates.column("entropies"), answers)
            statistics = self._statistics_rows("", produced=produced)
            self._answers[produced] = Answer(
                logprob=self._logprob[answers],
                length=pc.list_value_length(self._candidates.column("token_ids")).to_numpy()[answers].astype(np.int64),
                mean_entropy=None if entropies is None else information.mean_token_entropy(*entropies),
                p_true_logprob=self._p_true(statistics),
                ccp=self._ccp(statistics, answers),
            )
        return self._answers[produced]

    def _statistics_rows(self, strategy: str, **where: str) -> Index | None:
        """Rows of the statistics table about the candidates of a strategy, [N, M]; −1 where there is none."""
        if self._statistics is None:
            return None
        rows = _where(self._statistics, candidate_strategy=strategy, **where)
        if not len(rows):
            return None
        ids = _positions(self._statistics.column("id").take(pa.array(rows)), pa.array(self.ids, pa.string()))
        matrix = np.full((len(self.ids), 1 + int(self._statistics.column("candidate_rank").to_numpy()[rows].max())), -1)
        known = ids >= 0
        matrix[ids[known], self._statistics.column("candidate_rank").to_numpy()[rows[known]]] = rows[known]
        return matrix

    def _p_true(self, statistics: Index | None) -> Array | None:
        values = self._statistic("p_true_logprob", statistics)
        return None if values is None else values.to_numpy()

    def _ccp(self, statistics: Index | None, answers: Index) -> Array | None:
        labels = self._statistic("ccp_labels", statistics)
        if labels is None:
            return None
        taken = self._candidates.select(["token_ids", "top_ids", "top_logprobs"]).take(pa.array(answers))
        chosen, alternatives, logprobs = (column.to_pylist() for column in taken.columns)
        shape = (len(answers), max(map(len, chosen)), max(len(step) for row in alternatives for step in row))
        values, codes = np.full(shape, -np.inf), np.full(shape, information.NEUTRAL, dtype=np.int8)
        for n, answer_labels in enumerate(labels.to_pylist()):
            if [len(step) for step in answer_labels] != [len(step) for step in alternatives[n]]:
                raise BeamUQError(
                    f"statistics: ccp_labels of {self.ids[n]!r} are not of its alternatives; make them again"
                )
            for step, of_step in enumerate(answer_labels):
                width = len(of_step)
                values[n, step, :width] = logprobs[n][step]
                codes[n, step, :width] = [information.LABELS.index(label) for label in of_step]
                codes[n, step, alternatives[n][step].index(chosen[n][step])] = information.ENTAIL
        return information.claim_conditioned_probability(values, codes, np.isfinite(values))

    def _statistic(self, column: str, rows: Index | None) -> pa.Array | None:
        """A column for every produced answer; None where the whole cell lacks it."""
        if self._statistics is None or rows is None:
            return None
        known = rows[:, 0] >= 0
        values = self._statistics.column(column).combine_chunks().take(pa.array(rows[:, 0], mask=~known))
        if values.null_count == len(values):
            return None
        if values.null_count:
            first = self.ids[values.is_null().to_pylist().index(True)]
            raise BeamUQError(f"statistics: {column} of question {first!r} is missing; make the file again")
        return values

    def _token_sar(self, strategy: str, rows: Index) -> Array | None:
        statistics = self._statistics_rows(strategy)
        if self._statistics is None or statistics is None:
            return None
        mask = rows >= 0
        rank = np.where(mask, self._rank[rows], 0)
        if rank.max() >= statistics.shape[1]:
            return None
        asked = np.take_along_axis(statistics, rank, axis=1)[mask]
        relevances = _lists(self._statistics.column("token_relevances"), asked)
        logprobs = _lists(self._candidates.column("token_logprobs"), rows[mask])
        if (asked < 0).any() or relevances is None or logprobs is None:
            return None
        if not np.array_equal(relevances[1], logprobs[1]):
            raise BeamUQError(
                f"statistics: token_relevances of {strategy!r} are not of its tokens; make the file again"
            )
        scores = np.zeros(mask.shape)
        scores[mask] = semantic.token_sar(relevances[0], logprobs[0], logprobs[1])
        return scores


class _PairTable:
    """A similarity table as a sorted array of (question, premise, hypothesis) codes."""

    def __init__(self, name: str, table: pa.Table, ids: pa.Array, texts: pa.Array) -> None:
        self._name, self._texts = name, texts
        question, premise, hypothesis = (
            _positions(table.column(column), values)
            for column, values in (("id", ids), ("premise", texts), ("hypothesis", texts))
        )
        keys = (question * len(texts) + premise) * len(texts) + hypothesis
        keys[(question < 0) | (premise < 0) | (hypothesis < 0)] = -1
        order = np.argsort(keys, kind="stable")
        self._keys = keys[order]
        self.entail: Array = table.column("entail").to_numpy()[order]
        self.classes: tuple[Array, Array] | None = None
        neutral, contradict = table.column("neutral"), table.column("contradict")
        if neutral.null_count + contradict.null_count == 0:
            self.classes = neutral.to_numpy()[order], contradict.to_numpy()[order]
        elif neutral.null_count + contradict.null_count < 2 * len(table):
            raise BeamUQError(f"{name}: some pairs have classes and some have none; make the file again")

    def rows(self, ids: list[str], codes: Index) -> Index:
        """Where every ordered pair of the texts [N, n] stands, [N, n, n]; −1 on padding (codes −1)."""
        real = (codes[:, :, None] >= 0) & (codes[:, None, :] >= 0)
        keys = (np.arange(len(codes))[:, None, None] * len(self._texts) + codes[:, :, None]) * len(self._texts) + codes[
            :, None, :
        ]
        rows = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
        missing = real & (self._keys[rows] != keys) if len(self._keys) else real
        if missing.any():
            question, premise, hypothesis = (int(axis[0]) for axis in np.nonzero(missing))
            pair = tuple(self._texts[int(codes[question, node])].as_py() for node in (premise, hypothesis))
            raise BeamUQError(f"{self._name}: question {ids[question]!r} lacks the pair {pair}; make the file again")
        return np.where(real, rows, -1)


def _positions(column: pa.ChunkedArray, values: pa.Array) -> Index:
    """The position of each entry among distinct ``values``; −1 where it is not one of them."""
    positions: Index = pc.fill_null(pc.index_in(column, value_set=values), -1).to_numpy().astype(np.int64)
    return positions


def _where(table: pa.Table, **equal: str) -> Index:
    """Rows whose columns equal the given strings, in file order."""
    chosen = np.ones(len(table), dtype=bool)
    for column, value in equal.items():
        chosen &= pc.equal(table.column(column), value).to_numpy()
    return np.flatnonzero(chosen)


def _by_question(rows: Index, question: Index, N: int) -> Index:
    """Rows, sorted by question, as a matrix [N, M] padded with −1."""
    counts = np.bincount(question, minlength=N)
    matrix = np.full((N, max(int(counts.max(initial=0)), 1)), -1)
    matrix[np.arange(matrix.shape[1]) < counts[:, None]] = rows
    return matrix


def _lists(column: pa.ChunkedArray, rows: npt.NDArray[np.int64]) -> tuple[Array, Mask] | None:
    """List entries of some rows, padded to [R, L], with their mask; None where any row has none."""
    lists = column.combine_chunks().take(pa.array(rows))
    if lists.null_count:
        return None
    lengths = pc.list_value_length(lists).to_numpy()
    mask: Mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    values = np.zeros(mask.shape)
    values[mask] = lists.flatten().to_numpy()
    return values, mask
