"""Evidence out of the tables of a cell: one model, dataset and recipe under one scorer."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from beamuq.errors import BeamUQError
from beamuq.judged_answer import strategy_of
from beamuq.methods import answer_probability, candidate_weights
from beamuq.methods.dissimilarity_estimators import Found
from beamuq.methods.find_rows_and_pairs import PairTable, padded_lists, positions, rows_by_question, rows_where
from beamuq.methods.log_space_sums import Array, Index, Mask
from beamuq.methods.method_inputs import UNKNOWN, Answer, Evidence, Pairs
from beamuq.methods.p_true_ccp_sar_inputs import JudgementColumns
from beamuq.methods.rouge import rouge_matrix
from beamuq.strategy_names import draws, kind_of, parse, searches

SentenceSimilarity = Literal["file", "scorer", "rouge-l"]


class CellTables:
    """The tables of a cell, indexed so that evidence is a few array look-ups.

    Parameters
    ----------
    questions, candidates, similarity, statistics, cross
        Tables of ``beamuq.parquet_tables``; statistics and cross (the cross-encoder, for SAR) may be absent.
        Questions without candidates are left out: a recipe may ask a prefix of the dataset.
    main_beam
        The search whose first beam is the produced answer ``top_beam``.
    equivalence_threshold
        Threshold on s for a scorer without classes (D18, no classes); None for one with classes.
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
        equivalence_threshold: float | None = None,
        sar_similarity: SentenceSimilarity | None = None,
    ) -> None:
        asked = set(candidates.column("id").to_pylist())
        self.ids: list[str] = [key for key in questions.column("id").to_pylist() if key in asked]
        if unknown := asked.difference(self.ids):
            raise BeamUQError(f"candidates: id {min(unknown)!r} is not in the questions file; make both of one study")
        if (sar_similarity == "file") != (cross is not None):
            raise BeamUQError("sar_similarity 'file' and a cross-encoder's similarity file go together; give both")
        ids, texts = pa.array(self.ids, pa.string()), pc.unique(candidates.column("text"))
        self.strategies: list[str] = pc.unique(candidates.column("strategy")).to_pylist()
        self._candidates = candidates.combine_chunks()
        self._question = positions(candidates.column("id"), ids)
        self._text = positions(candidates.column("text"), texts)
        self._texts = np.append(texts.to_numpy(zero_copy_only=False), "")  # position −1 is padding's
        self._rank = candidates.column("rank").to_numpy()
        self._logprob = candidates.column("logprob").to_numpy()
        self._policy_logprob = candidates.column("policy_logprob").to_numpy()
        self._judgements = JudgementColumns(statistics, self.ids)
        self._similarity = PairTable("similarity", similarity, ids, texts)
        self._cross = None if cross is None else PairTable("cross-similarity", cross, ids, texts)
        self._main_beam = main_beam
        self._equivalence_threshold = equivalence_threshold
        self._sar_similarity = sar_similarity
        self._answers: dict[str, Answer] = {}
        if equivalence_threshold is not None and self._similarity.classes is not None:
            raise BeamUQError(
                "equivalence_threshold is for a scorer without classes, and this one has them; set it to null"
            )

    def evidence(
        self,
        strategy: str,
        answer_source: str,
        *,
        budget: int | None = None,
        epsilon: float = 0.0,
        exact: bool = False,
        alpha: float = 0.9,
        among: bool = True,
    ) -> Evidence:
        """The evidence of one strategy's candidates about one produced answer, for every question.

        Parameters
        ----------
        strategy
            As in the candidates table. Samples weigh p^(1 − 1/T), which is 1/M each at T = 1, or ``exact``-ly p / p_T
            (D14, exact weights); beams and diverse beams their restricted mass with floor ``epsilon``; a set with draws
            outside it (hybrids) both; stochastic beams p over their probability of being included, normalised.
        answer_source
            The produced answer: ``greedy``; ``top_beam``, the first of the main search; or ``shipped``.
        budget
            The first so many samples only; None: all. (A smaller beam search is another strategy.)
        among
            Whether candidates are compared with each other too, and not with the produced answer alone.

        Raises
        ------
        BeamUQError
            If a question lacks the produced answer, a candidate, a pair or a statistic; the message names it.
        """
        rows = self._rows(strategy, budget)
        mask = rows >= 0
        answers = self._answer_rows(answer_source)
        codes = np.concatenate([self._text[answers][:, None], np.where(mask, self._text[rows], -1)], axis=1)
        pairs = self._pairs(codes) if among else self._to_produced(codes)
        return Evidence(
            answer=self._answer(answer_source, answers),
            logprob=np.where(mask, self._logprob[rows], -np.inf),
            mask=mask,
            weights=self._weights(strategy, rows, epsilon, exact),
            pairs=pairs,
            texts=self._texts[codes],
            token_sar=self._judgements.token_sar(strategy, self._candidates, rows),
            sentence_similarity=self._sentence_similarity(codes, pairs) if among else UNKNOWN,
            alpha=alpha,
        )

    def found(self, strategy: str, answer_source: str, *, first: int = 0, budget: int | None = None) -> Found:
        """A strategy's candidates from rank ``first`` on, for the estimators of Dissimilarity: pairs with y* alone.

        A question may have none of them. Raises BeamUQError as :meth:`evidence`.
        """
        rows = self._rows(strategy, None if budget is None else first + budget, least=budget or 0)[:, first:]
        mask, answers = rows >= 0, self._answer_rows(answer_source)
        codes, answer = np.where(mask, self._text[rows], -1), self._text[answers][:, None]
        pairs = self._similarity.rows_from(self.ids, answer, codes)[:, 0]
        policy_logprob = self._policy_logprob[rows]
        return Found(
            logprob=np.where(mask, self._logprob[rows], -np.inf),
            dissimilarity=np.where(mask, 1.0 - self._similarity.entail[pairs], 0.0),
            mask=mask,
            drawn=mask & ~np.isnan(policy_logprob),
            repeated=self._repeated(rows) if kind_of(strategy) == "sample" else UNKNOWN,
            differs=mask & (codes != answer),
            log_inclusion=policy_logprob if kind_of(strategy) == "stochastic" else None,
        )

    def size_of(self, strategy: str) -> int:
        """How many candidates of a strategy every question has, at least."""
        return int((self._rows(strategy) >= 0).sum(axis=1).min())

    def answer(self, answer_source: str) -> Answer:
        """What is known of the produced answers. Raises BeamUQError if a question lacks one."""
        return self._answer(answer_source, self._answer_rows(answer_source))

    def _repeated(self, rows: Index) -> Mask:
        """Which rows hold a token sequence that stands before in the same question, [N, M]."""
        sequences = self._candidates.column("token_ids").take(pa.array(rows[rows >= 0])).to_pylist()
        question = np.nonzero(rows >= 0)[0].tolist()
        named = pd.Series(list(zip(question, map(tuple, sequences), strict=True)), dtype=object)
        repeated = np.zeros(rows.shape, dtype=bool)
        repeated[rows >= 0] = named.duplicated().to_numpy()
        return repeated

    def _rows(self, strategy: str, budget: int | None = None, least: int | None = None) -> Index:
        """Rows of the candidates table, [N, M], −1 on padding; at least one a question, or so many.

        Draws stand as drawn, a search's candidates by descending p (D12, Semantic Entropy depends on the order).
        """
        rows = rows_where(self._candidates, strategy=strategy)
        order = self._rank[rows]
        if searches([strategy]):
            order = np.lexsort((order, -self._logprob[rows])).argsort()
        rows = rows[np.lexsort((order, self._question[rows]))]
        matrix = rows_by_question(rows, self._question[rows], len(self.ids))
        needed = (budget or 1) if least is None else least
        short = (matrix >= 0).sum(axis=1) < needed
        if short.any():
            raise BeamUQError(
                f"candidates: question {self.ids[int(short.argmax())]!r} has fewer than {needed} of {strategy!r}; "
                "decode them, or ask for fewer"
            )
        return matrix[:, :budget]

    def _answer_rows(self, answer_source: str) -> Index:
        strategy = strategy_of(answer_source, self._main_beam)
        rows = np.intersect1d(rows_where(self._candidates, strategy=strategy), np.flatnonzero(self._rank == 0))
        rows = rows[np.argsort(self._question[rows], kind="stable")]
        if not np.array_equal(self._question[rows], np.arange(len(self.ids))):
            missing = np.setdiff1d(np.arange(len(self.ids)), self._question[rows])
            which = self.ids[int(missing[0])] if len(missing) else "more than one"
            raise BeamUQError(f"candidates: question {which!r} has no first {strategy!r}; decode it again")
        return rows

    def _weights(self, strategy: str, rows: Index, epsilon: float, exact: bool) -> Array:
        kind, parameters = parse(strategy)
        mask, logprob, policy_logprob = rows >= 0, self._logprob[rows], self._policy_logprob[rows]
        if kind == "stochastic" or (kind == "sample" and exact):
            return candidate_weights.importance(logprob, policy_logprob, mask)
        if kind == "sample":
            return candidate_weights.temperature(logprob, mask, parameters["T"])
        if draws(strategy):
            return candidate_weights.hybrid(logprob, ~np.isnan(policy_logprob), mask)
        return candidate_weights.restricted_mass(logprob, mask, epsilon)

    def _pairs(self, codes: Index) -> Pairs:
        rows = self._similarity.rows(self.ids, codes)
        similarity = np.where(rows >= 0, self._similarity.entail[rows], 0.0)
        same: Mask = UNKNOWN
        if self._similarity.classes is not None:
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

    def _to_produced(self, codes: Index) -> Pairs:
        rows = self._similarity.rows_from(self.ids, codes[:, :1], codes)
        return Pairs(similarity=np.where(rows >= 0, self._similarity.entail[rows], 0.0), mask=codes >= 0)

    def _sentence_similarity(self, codes: Index, pairs: Pairs) -> Array:
        if self._sar_similarity == "scorer":
            return pairs.similarity[:, 1:, 1:]
        if self._sar_similarity == "rouge-l":
            return rouge_matrix(self._texts[codes[:, 1:]], pairs.mask[:, 1:])
        if self._cross is None:
            return UNKNOWN
        rows = self._cross.rows(self.ids, codes[:, 1:])
        return np.where(rows >= 0, self._cross.entail[rows], 0.0)

    def _answer(self, answer_source: str, answers: Index) -> Answer:
        if answer_source not in self._answers:
            entropies = padded_lists(self._candidates.column("entropies"), answers)
            self._answers[answer_source] = Answer(
                logprob=self._logprob[answers],
                length=pc.list_value_length(self._candidates.column("token_ids")).to_numpy()[answers].astype(np.int64),
                mean_entropy=UNKNOWN if entropies is None else answer_probability.mean_token_entropy(*entropies),
                p_true_logprob=self._judgements.p_true_logprob(answer_source),
                ccp=self._judgements.ccp(answer_source, self._candidates, answers),
            )
        return self._answers[answer_source]
