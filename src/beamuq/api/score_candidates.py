"""Every method on anyone's candidates, with the reason where one cannot be had.

Each question is scored alone, by the functions that a study's cells are scored by. What nobody gave
is unknown in the evidence. A method declares what it needs, one from outside the package too: where
that is unknown there is no score, and the reason is told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from beamuq import __version__
from beamuq.api.answer_among_samples import (
    warn_if_answers_are_samples,
    warn_if_samples_are_one_draw,
    without_the_answers,
)
from beamuq.api.answers_alone import JUDGED, SHOWN, check_are_of_the_same
from beamuq.api.believed_endings import check_one_is_said, warn_if_endings_are_believed
from beamuq.api.candidate_records import (
    LABELS,
    ROUNDING,
    AnswerRecord,
    CandidateRecord,
    QuestionRecord,
    Records,
    by_probability,
    read_records,
    with_prompt_hash,
)
from beamuq.api.cut_texts import CutTexts
from beamuq.api.draws_of_samples import check_draws, draws_of, setting_of_draw, settings_of_draws
from beamuq.api.empty_answers import warn_if_answers_are_empty
from beamuq.api.endings_in_scores import WITHOUT_ENDING
from beamuq.api.foreign_rows import Keys
from beamuq.api.inspect_log_file import is_inspect_log
from beamuq.api.inspect_logs import from_inspect
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.api.paired_columns import check_order, group_column, number_column
from beamuq.api.paired_prr import (
    PRR,
    RESAMPLES,
    measured_prr,
    names_of_answers,
    only_estimate,
)
from beamuq.api.rows import Rows, check_settings, named, score_names
from beamuq.api.score_columns import SCORE_COLUMNS
from beamuq.api.score_series import (
    ScoreSeries,
    form_in_words,
    judged_in_words,
    kind_of,
    score_series,
)
from beamuq.api.score_settings import ScoreSettings, scored_with
from beamuq.array_types import Bools, Floats
from beamuq.errors import BeamUQError, hint
from beamuq.evaluation.prr_and_auc import why_undefined
from beamuq.html_text import escape
from beamuq.methods import candidate_weights
from beamuq.methods.dissimilarity_estimators import certified_interval, certified_pair_interval
from beamuq.methods.method_inputs import UNKNOWN, Answer, Evidence, Pairs, missing_part
from beamuq.methods.registry import (
    DIRECTION,
    FACTORS,
    METHODS,
    Method,
    candidates_of,
    compute,
    resolve,
)
from beamuq.scorers.scorer_protocol import pairs_with_lost_ends, scored

COLUMNS = tuple(SCORE_COLUMNS)
KEYS = ("id", "method", "variant", "setting", "value")
"""What a frame of scores needs, to be looked up by method."""
EMPTY_TEXTS = ("variant", "setting", "reason", "note")
"""Columns whose empty text a CSV file, read by pandas, gives back as NaN."""
FORM_OF_WORD = {"samples": "multinomial", "beams": "beamsearch"}
"""What a form is called beside the paper's word for it."""
SHOWN_COLUMNS = (*KEYS, "similarity", "reason", "scored_with")
"""A frame that has these shows itself a row a question."""
ALL_METHODS = "all"
STARTING_METHODS = ("Perplexity", "Dissimilarity", "CocoaPPL")
"""What README starts with: the command prints these unless it is told which."""
KINDS = ("answer", "samples", "beams")  # what a method compares the answer with
BLOCK_PAIRS = 250_000  # of texts, given to a similarity at once
SUMS = ("answer.logprob", "answer.length", "logprob", "weights")
"""Needs in which a left out ending is missing."""
OF_SIMILARITY = ("pairs.similarity", "pairs.contradiction", "pairs.same", "sentence_similarity")
"""Needs that a similarity fills."""
MINUS_LOG_P = ("Prob", "PTrue", "GNLL")  # the scores that are −log of a probability
WITH_ENDING = "the ending token included, which a chat server's tokens may lack"
"""Without it a sum is not log p of the whole text."""

REASONS = {
    "samples": "needs samples; give them under 'samples'",
    "beams": "needs beams; give them under 'beams'",
    "answer.logprob": (
        "needs the answer's log-probability; give answer.logprob or answer.token_logprobs, "
        f"{WITH_ENDING}"
    ),
    "answer.length": (
        "needs the answer's number of tokens; give answer.token_logprobs or answer.tokens, "
        f"{WITH_ENDING}"
    ),
    "answer.mean_entropy": "needs the entropy at each token; give answer.token_entropies",
    "answer.p_true_logprob": "needs the model's own judgement; give answer.p_true_logprob",
    "answer.ccp": (
        "needs NLI labels of alternative tokens, which only a study's judgements step makes"
    ),
    "token_sar": "needs the relevance of every token, which only a study's judgements step makes",
    "logprob": (
        "needs each candidate's log-probability; give logprob or token_logprobs with it, "
        f"{WITH_ENDING}"
    ),
    "weights": (
        "needs each candidate's log-probability for its weight; give logprob or token_logprobs "
        f"with it, {WITH_ENDING}"
    ),
    "pairs.same": "needs a judgement of same meaning; give equivalence_threshold",
}
TOO_FEW = "needs {least} {kind} or more; give them under '{kind}'"


class Scores(pd.DataFrame):
    """The frame of :func:`score`; ``scores["CocoaPPL"]`` are one method's scores, by id.

    Higher = more uncertain.
    """

    @property
    def _constructor(self) -> type[Scores]:
        return Scores

    def __getitem__(self, key: Any) -> Any:
        """A column; or a method's scores, over beams where there are any, else over samples.

        Also a score by the name that ``wide`` has: ``Dissimilarity + multinomial``.
        """
        if isinstance(key, list):
            self._check_no_methods(key)
        if not isinstance(key, str) or key in self.columns or "method" not in self.columns:
            return super().__getitem__(key)
        if " " in key:
            return self._scores_of_name(key)
        return self.scores_of(key)

    def _check_no_methods(self, names: Sequence[object]) -> None:
        """Raises BeamUQError for a list that names methods, whose scores are no columns."""
        methods = set(super().__getitem__("method")) if "method" in self.columns else set()
        for name in names:
            if isinstance(name, str) and name in methods - set(self.columns):
                raise BeamUQError(
                    f"{names!r:.60}: methods, not columns; give one, scores[{name!r}], or take "
                    "several from scores.wide()"
                )

    def _scores_of_name(self, name: str) -> ScoreSeries:
        """The score that ``wide`` calls so; raises BeamUQError if there is none."""
        names = score_names(self)
        rows = self[names == name]
        if rows.empty:
            raise BeamUQError(f"{name!r}: no such column or score; {hint(name, names.unique())}")
        method, variant, setting = rows[["method", "variant", "setting"]].iloc[0]
        return self.scores_of(method, variant, setting)

    def scores_of(self, method: str, form: str | None = None, setting: str = "") -> ScoreSeries:
        """A method's scores in one form, by id, with what ``Calibration`` compares.

        Questions without a value are left out. ``form``: ``multinomial`` or "samples",
        ``beamsearch`` or "beams", or, of a method in one form, ""; without it over beams where
        there are any, else over samples. ``setting``: a further formulation.

        Raises BeamUQError naming the method, if it has no such score.
        """
        of_method = self[self["method"] == method]
        rows = of_method[(of_method["setting"] == setting) & of_method["value"].notna()]
        if form is not None:
            rows = rows[rows["variant"] == _variant_of(form, method, of_method)]
        if rows.empty:
            raise self._no_such_score(method, form, setting)
        first_form = rows["variant"].min()  # "" before beamsearch before multinomial
        return score_series(rows[rows["variant"] == first_form], method)

    def wide(self) -> pd.DataFrame:
        """A row a question, a column a score: ``Prob``, ``Dissimilarity + beamsearch``.

        Ids in their order, as the index; higher = more uncertain; NaN: this question has no value.
        A score that no question has is left out: the column ``reason`` of its rows says why.
        ``attrs["similarity"]`` names what texts were compared by; a Parquet file of it keeps that.

        Raises BeamUQError naming an id that has a score twice, or a column that is missing.
        """
        _check_columns(self)
        table = pd.DataFrame({"id": self["id"], "name": score_names(self), "value": self["value"]})
        repeated = table[table.duplicated(["id", "name"])]
        if len(repeated):
            row = repeated.iloc[0]
            raise BeamUQError(
                f"scores: id {row['id']!r}: {row['name']} stands twice; give each question its own "
                "id"
            )
        ids = pd.Index(table["id"].unique(), name="id")
        names = table.loc[table["value"].notna(), "name"].unique()
        values = table.pivot(index="id", columns="name", values="value")
        wide = values.reindex(index=ids, columns=names).rename_axis(columns=None)
        wide.attrs[JUDGED] = SHOWN
        if "similarity" in self.columns:
            wide.attrs["similarity"] = ", ".join(self["similarity"].unique())
        return wide

    def __repr__(self) -> str:
        if not self._is_whole():
            return super().__repr__()
        shown = self._without_draws()
        with pd.option_context("display.max_rows", 10, "display.width", 100):
            return f"{shown._heading()}\n{shown.wide().round(3)!r}\n{self._footer()}"

    def _repr_html_(self) -> str | None:
        if not self._is_whole():
            plain: Any = pd.DataFrame(self)
            return str(plain._repr_html_())
        shown = self._without_draws()
        table: Any = shown.wide().round(3)
        html: str | None = table._repr_html_()
        if html is None:
            return None
        return f"<p>{escape(shown._heading())}</p>\n{html}\n<p>{escape(self._footer())}</p>"

    def _hidden_settings(self) -> list[str]:
        """The settings of single draws, whose columns would fill the page; none where all are."""
        settings = list(self["setting"].unique())
        of_draws = settings_of_draws(settings)
        return of_draws if len(of_draws) < len(settings) else []

    def _without_draws(self) -> Scores:
        """The rows that are shown."""
        shown: Scores = self[~self["setting"].isin(self._hidden_settings())]
        return shown

    def _footer(self) -> str:
        """What is shown below the table: of which forms the scores are, and what is not shown."""
        forms = self._without_draws()._forms()
        settings = self._hidden_settings()
        if not settings:
            return forms
        methods = ", ".join(self.loc[self["setting"].isin(settings), "method"].unique())
        return (
            f"{forms}; not shown: each draw of samples, {settings[0]} to {settings[-1]}, of "
            f"{methods} (columns of scores.wide())"
        )

    def _is_whole(self) -> bool:
        """Whether it is a frame as ``score`` gives it, or some rows of one."""
        if self.empty or not set(SHOWN_COLUMNS) <= set(self.columns):
            return False
        return not pd.DataFrame(self).duplicated(list(KEYS[:4])).any()

    def _heading(self) -> str:
        """What is shown above the table of values."""
        wide = self.wide()
        scores = f"{wide.shape[1]} scores of {len(wide)} questions, higher = more uncertain"
        similarity = ", ".join(self["similarity"].unique())
        without_value = len(self.groupby(["method", "variant", "setting"])) - wide.shape[1]
        reasons = f"; {without_value} more have no value (column reason)" if without_value else ""
        return f"{scores}; similarity: {similarity}{reasons}"

    def _forms(self) -> str:
        """What is shown below it: of which form each score is, one of a method in one form too.

        As many names as the table has columns.
        """
        names: dict[str, list[str]] = {}
        with_value = pd.DataFrame(self)[self["value"].notna()]
        for (method, variant), rows in with_value.groupby(["method", "variant"], sort=False):
            words = form_in_words(str(method), str(variant)) or "form not known"
            names.setdefault(words, []).extend(dict.fromkeys(score_names(rows)))
        return "; ".join(f"{words}: {', '.join(listed)}" for words, listed in names.items())

    def _no_such_score(self, method: str, form: str | None, setting: str) -> BeamUQError:
        of_method = self[self["method"] == method]
        if of_method.empty:
            methods = dict.fromkeys(self["method"])
            return BeamUQError(f"{method!r}: no such column or score; {hint(method, methods)}")
        reasons = [reason for reason in of_method["reason"] if reason]
        reason = reasons[0] if reasons else "not scored"
        score_name = "score"
        if form is not None:
            score_name += f" of form {form!r}"
        if setting:
            score_name += f" of setting {setting!r}"
        return BeamUQError(f"{method!r}: no such column or {score_name}: {reason}")


def _variant_of(form: str, method: str, rows: pd.DataFrame) -> str:
    """The variant that a form's name means; of a method in one form "samples" may be that one."""
    in_one_form = set(rows["variant"]) == {""}
    if in_one_form and kind_of(method, "") == form:
        return ""
    return FORM_OF_WORD.get(form, form)


def _check_columns(scores: pd.DataFrame) -> None:
    if scores.attrs.get(JUDGED) == SHOWN:
        raise BeamUQError(
            "scores: what wide() returns; give the frame that beamuq.score returns, or to "
            "beamuq.plot some columns by name: dict(wide[['Prob', 'CocoaPPL + beamsearch']])"
        )
    for name in KEYS:
        if name not in scores.columns:
            raise BeamUQError(
                f"scores: column {name!r} is missing; give the frame as beamuq.score returns it"
            )


def as_scores(scores: object) -> Scores:
    """A frame of ``score``, also one that was read from a file.

    A text that is missing is the empty one: pandas reads that of a CSV file as NaN.

    Raises BeamUQError if it is none, or has no rows.
    """
    if not isinstance(scores, pd.DataFrame):
        raise BeamUQError(
            f"scores: a {type(scores).__name__}; give the frame that beamuq.score returns"
        )
    _check_columns(scores)
    if scores.empty:
        raise BeamUQError(
            "scores: no rows; ids are texts such as '1', and numbers where pandas read them from "
            "CSV: choose by ids of the same type"
        )
    empty_texts = {
        name: scores[name].astype(object).where(scores[name].notna(), "")
        for name in EMPTY_TEXTS
        if name in scores.columns and scores[name].isna().any()
    }
    return Scores(scores).assign(**empty_texts)


def score(
    rows: Rows | Records,
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
    shown: str | Path | None = None,
    scorer: str = "",
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 1,
) -> Scores:
    """Score anyone's candidates: what a model answered, and what else it might have said.

    A row is a question with its answer and samples, beams or both; with log-probabilities, as far
    as they are known. Every method that the rows allow gives a score; what has none is told with
    the reason.

    Parameters
    ----------
    rows
        A .jsonl, .ndjson, .json (an array) or .parquet file, a question a row; in Python mappings
        or a frame too, with the keys of beamuq.api.candidate_records.QuestionRecord. Or a log of
        Inspect, .eval or .json, see beamuq.from_inspect.
    similarity
        auto, lexical, minilm, nli:MODEL, cross_encoder:MODEL, embedding:MODEL or module:attribute.
        auto: minilm where it was fetched, else lexical, with a warning.
    methods
        Names of methods between commas, or a list; module:attribute for one of your own; all, or
        without it, all there are.
    temperature
        At which the samples were drawn. Their weights are p^(1 − 1/T), so 1/M each at 1.
    epsilon
        Mass floor of the beams' weights, 0 to 1.
    alpha
        Eigenvalue threshold of Eccentricity and EigVecDissimilarity, above 0, at most 2.
    equivalence_threshold
        From which similarity on two texts mean the same, in (0, 1], for a similarity without
        classes.
    without_ending
        Log-probabilities lack the ending's (end-of-sequence token's), where a server left out only
        that, or in rows of your own that do not say otherwise: take the sum of the others. Such
        scores have a note and no certified interval.
    with_ending
        Your own lists of tokens' log-probabilities hold the ending's: without this, or "ended"
        beside a list, that is believed with a warning.
    draw_size
        Of samples that are several draws: score the methods over samples on each disjoint draw of
        so many too, by settings M=10 draw=1, …, of which compare takes the mean of their PRR.
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
        the ending's included: without that of a chat server's list, say without_ending. Null, or
        not there, where it is not known.
    samples_logprobs_key
        The same of the samples: a list of one number, or one list, a sample.
    id_key
        Where they have the question's id, a text or a whole number: a key, or a path such as
        meta.id.
    correct_key
        Where they have whether the answer is right: 0 or 1, true or false; null, or not
        there, where it is not known.
    prompt_hash
        Of rows that do not say it: any text that changes with the prompt around the questions, by
        which decide refuses scores of another prompt than was calibrated.
    skip_invalid
        Leave out rows that cannot be read, such as one whose answer is null, and warn of them; else
        the first is refused.
    skip_invalid_samples
        Leave out samples that cannot be read, such as one that a filter cut, and score their rows
        with the others; a warning counts them. Else the first is refused.
    leave_one_out
        The answer is one of its samples: that one is left out of what it is compared with.
    shown
        Of a log of Inspect: another one, at temperature 0, whose answers are the shown ones;
        without it the first epoch's are.
    scorer
        Of a log of Inspect with several: whose score is the quality.
    device
        Of models; auto: cuda where there is one.
    dtype
        Of models; auto: of similarities float32, of the model bfloat16 on cuda and float32 on a
        CPU.
    threads
        Of torch on a CPU, in the whole process from then on.

    Returns
    -------
    A frame with columns id, method, variant (``multinomial`` over samples,
    ``beamsearch`` over beams, "" for a method in one form), setting (a further formulation of the
    method, mostly ""), value (missing where there is none), low and high, confidence, range,
    direction, similarity, reason (why there is no value) and note (what to know of it); how many
    candidates it was scored over, the settings and beamuq's version, by which ``decide`` knows
    scores that are not those calibrated; and those of correct, quality, group, model, model_hash
    and prompt_hash that a row has. Questions in the order given. ``scores["CocoaPPL"]`` are one
    method's, by id.

    confidence, in [0, 1]: the probability where a score is −log of one, as Prob is; 1 − value where
    a score lies in [0, 1], as Dissimilarity does; missing for other methods. No calibrated
    probability of being right.

    [low, high] holds what Dissimilarity, CocoaMSP, CocoaPPL and DegreeMatrix would be under the
    model's whole distribution, whatever was not found (docs/theory.md). It rests on distinct
    outcomes of known probability: all beams, or one sample of each text; missing where one of them
    has no log-probability, of samples at T ≠ 1, and where the similarity compared only beginnings.

    Raises BeamUQError in one line: a bad row, an unknown method, similarity or model; with
    leave_one_out an answer that is none of its samples. Warns where the answers seem to be one of
    their samples, by its place, where the samples of no question differ, where nothing says
    whether lists of log-probabilities hold the ending's, and where texts are longer than the
    similarity reads.

    Examples
    --------
    >>> rows = [{"answer": "Rome", "samples": ["Rome", "Milan"]}]
    >>> scores = beamuq.score(rows, similarity="lexical")
    >>> scores["Dissimilarity"].to_dict()
    {'1': 0.5}
    """
    check_settings(
        temperature=temperature,
        epsilon=epsilon,
        alpha=alpha,
        equivalence_threshold=equivalence_threshold,
        draw_size=draw_size,
    )
    check_one_is_said(with_ending=with_ending, without_ending=without_ending)
    chosen = chosen_methods(methods)
    where = "rows" if isinstance(rows, Records) else named(rows)
    if shown is not None or scorer or is_inspect_log(rows):
        if skip_invalid_samples:
            raise BeamUQError(
                f"{where}: skip_invalid_samples: is not of a log of Inspect, whose samples are "
                "epochs; leave questions that failed out with skip_invalid (--skip-invalid)"
            )
        rows = from_inspect(
            rows,
            shown=shown,
            scorer=scorer,
            without_ending=without_ending,
            skip_invalid=skip_invalid,
        )
    records = read_records(
        rows,
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
    records = with_prompt_hash(records, prompt_hash, where)
    if leave_one_out:
        records = without_the_answers(records, where)
    else:
        warn_if_answers_are_samples(records)
    warn_if_samples_are_one_draw(records)
    warn_if_answers_are_empty(records)
    if not with_ending:
        warn_if_endings_are_believed(records)
    if draw_size is not None:
        check_draws(records, draw_size, where)
    opened = open_similarity(similarity, device=device, dtype=dtype, threads=threads)
    settings = CallSettings(
        temperature, epsilon, alpha, equivalence_threshold, without_ending, draw_size
    )
    cut = CutTexts(opened.name)
    scores = score_records(records, chosen, opened, settings, cut)
    cut.warn()
    return scores


@dataclass(frozen=True)
class CallSettings:
    """The numbers of a call of :func:`score`.

    ``draw_size`` adds scores and changes none: it is no part of :meth:`as_json`.
    """

    temperature: float
    epsilon: float
    alpha: float
    equivalence_threshold: float
    without_ending: bool
    draw_size: int | None = None

    def as_json(self, similarity: str, *, with_threshold: bool) -> str:
        """``scored_with``; the threshold only where the similarity has no classes."""
        threshold = float(self.equivalence_threshold) if with_threshold else None
        return scored_with(
            ScoreSettings(
                temperature=float(self.temperature),
                epsilon=float(self.epsilon),
                alpha=float(self.alpha),
                equivalence_threshold=threshold,
                without_ending=self.without_ending,
                similarity=similarity,
            )
        )


class _ScoreRow(NamedTuple):
    """A row of the frame, without what is the same in all rows."""

    id: str
    method: str
    variant: str
    setting: str
    range: str
    candidates: int
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    confidence: float = math.nan
    reason: str = ""
    note: str = ""


def score_records(
    records: Records,
    methods: Sequence[Method],
    similarity: Similarity,
    settings: CallSettings,
    cut: CutTexts,
) -> Scores:
    """The frame of all questions, which are compared a block at a time.

    ``cut``: to which those are added of whose texts the similarity read only the beginnings, if a
    method reads what it compares.
    """
    widest = 1 + max(max(len(item.samples), len(item.beams)) for item in records)
    block = max(1, BLOCK_PAIRS // widest**2)
    rows: list[_ScoreRow] = []
    for start in range(0, len(records), block):
        members = records[start : start + block]
        compared = _Compared(similarity, members, settings.equivalence_threshold)
        for item in members:
            rows += _score_rows(item, methods, compared, settings)
        if any(map(_reads_similarity, methods)):
            cut.ids += [item.id for item in members if compared.lost_ends_of(item, KINDS)]
            cut.limit = compared.scores.limit
    cut.questions += len(records)
    has_classes = compared.scores.neutral is not None
    frame = Scores(rows, columns=list(_ScoreRow._fields)).assign(
        direction=DIRECTION,
        similarity=similarity.name,
        scored_with=settings.as_json(similarity.content, with_threshold=not has_classes),
        version=__version__,
    )
    frame = frame.reindex(columns=list(COLUMNS))
    _add_labels(frame, records)
    return frame


def _add_labels(frame: Scores, records: Records) -> None:
    """Add the columns of those labels that a row has."""
    for name in LABELS:
        labels = {item.id: getattr(item, name) for item in records}
        if any(label is not None for label in labels.values()):
            frame[name] = frame["id"].map(labels)


def chosen_methods(methods: str | Sequence[str] | None) -> list[Method]:
    """The methods asked for, each once, in the order named."""
    if methods is None or methods == ALL_METHODS:
        return list(METHODS.values())
    names = methods.split(",") if isinstance(methods, str) else methods
    chosen: dict[str, Method] = {}
    for name in names:
        if name.strip():
            method = resolve(name.strip())
            chosen[method.name] = method
    if not chosen:
        raise BeamUQError(
            f"methods: none named; choose from {', '.join(METHODS)}, or leave the option out for "
            "all"
        )
    return list(chosen.values())


def _reads_similarity(method: Method) -> bool:
    """Whether a method reads what a similarity says of two texts."""
    return any(need in OF_SIMILARITY for need in method.all_needs)


def _texts(item: QuestionRecord, kind: str) -> list[str]:
    """The answer's text, and behind it those of its candidates of a kind."""
    return [record.text.strip() for record in (item.answer, *_candidates(item, kind))]


def _candidates(item: QuestionRecord, kind: str) -> list[CandidateRecord]:
    """What the answer is compared with: itself, samples as drawn, or beams, the likeliest first."""
    if kind == "answer":
        return [item.answer]
    return item.samples if kind == "samples" else by_probability(item.beams)


class _Compared:
    """A similarity's scores of all pairs of texts that methods may ask for, each scored once."""

    def __init__(
        self, similarity: Similarity, items: Sequence[QuestionRecord], threshold: float
    ) -> None:
        pairs: set[tuple[str, str]] = set()
        for item in items:
            for kind in KINDS:
                texts = _texts(item, kind)
                pairs.update(product(texts, texts))
        self.place = {pair: place for place, pair in enumerate(sorted(pairs))}
        self.scores = scored(similarity.scorer, list(self.place))
        self.same = self.scores.same(threshold)
        self._with_lost_ends = pairs_with_lost_ends(list(self.place), self.scores)

    def lost_ends_of(self, item: QuestionRecord, kinds: Sequence[str]) -> bool:
        """Whether only beginnings were compared of some texts of a question, of these kinds."""
        if not self._with_lost_ends:
            return False
        for kind in kinds:
            texts = _texts(item, kind)
            if not self._with_lost_ends.isdisjoint(product(texts, texts)):
                return True
        return False

    def pairs(self, texts: Sequence[str]) -> Pairs:
        """All pairs of these texts, the answer's first."""
        place = np.array([[[self.place[one, other] for other in texts] for one in texts]])
        similarity = self.scores.entail[place]
        contradiction = 1.0 - similarity
        if self.scores.contradict is not None:
            contradiction = self.scores.contradict[place]
        same = self.same[place]
        return Pairs(
            similarity=similarity,
            mask=np.ones((1, len(texts)), dtype=bool),
            contradiction=contradiction,
            same=same & same.transpose(0, 2, 1),
            identical=np.array([[[one == other for other in texts] for one in texts]]),
        )


def _evidence(
    item: QuestionRecord, kind: str, compared: _Compared, settings: CallSettings
) -> Evidence:
    """What is known of a question and its candidates of a kind; the rest is ``UNKNOWN``."""
    candidates = _candidates(item, kind)
    texts = _texts(item, kind)
    pairs = compared.pairs(texts)
    # NaN where it is not known
    logprob = np.array([[candidate.total for candidate in candidates]], dtype=np.float64)
    return Evidence(
        answer=_answer(item.answer),
        logprob=UNKNOWN if np.isnan(logprob).any() else logprob,
        mask=np.ones(logprob.shape, dtype=bool),
        weights=_weights(kind, logprob, settings),
        pairs=pairs,
        texts=np.array([texts], dtype=object),
        sentence_similarity=pairs.similarity[:, 1:, 1:],
        alpha=settings.alpha,
    )


def _answer(answer: AnswerRecord) -> Answer:
    entropies = answer.token_entropies
    return Answer(
        logprob=_one_value(answer.total),
        length=UNKNOWN if answer.length is None else np.array([answer.length]),
        mean_entropy=_one_value(None if entropies is None else float(np.mean(entropies))),
        p_true_logprob=_one_value(answer.p_true_logprob),
    )


def _one_value(value: float | None) -> Floats:
    return UNKNOWN if value is None else np.array([value])


def _weights(kind: str, logprob: Floats, settings: CallSettings) -> Floats:
    """What each candidate counts for, [1, M], from log-probabilities that may hold NaN."""
    mask = np.ones(logprob.shape, dtype=bool)
    if kind == "samples" and settings.temperature == 1:
        return candidate_weights.uniform(mask)
    if np.isnan(logprob).any():
        return UNKNOWN
    if kind == "samples":
        return candidate_weights.temperature(logprob, mask, settings.temperature)
    return candidate_weights.restricted_mass(logprob, mask, settings.epsilon)


def _score_rows(
    item: QuestionRecord, methods: Sequence[Method], compared: _Compared, settings: CallSettings
) -> Iterator[_ScoreRow]:
    """A question's score by every method in every form.

    Over samples a method is scored in its further formulations too, as in a study's main line.
    """
    evidence = {
        kind: _evidence(item, kind, compared, settings) for kind in KINDS if _candidates(item, kind)
    }
    # of texts that were not compared whole an interval would say more than is known
    certifiable = [
        kind
        for kind in evidence
        if _may_have_interval(item, kind, settings.temperature)
        and not compared.lost_ends_of(item, [kind])
    ]
    for method in methods:
        for variant in method.variants:
            kind = candidates_of(method, variant)
            formulations = ("", *method.formulations) if kind == "samples" else ("",)
            for setting in formulations:
                row = _ScoreRow(
                    id=item.id,
                    method=method.name,
                    variant=variant,
                    setting=setting,
                    range=method.formulation(setting).range,
                    candidates=0 if kind == "answer" else len(_candidates(item, kind)),
                )
                if kind in evidence:
                    yield _with_score(
                        row,
                        item,
                        method,
                        evidence[kind],
                        settings.temperature,
                        certifiable=kind in certifiable,
                    )
                else:
                    yield row._replace(reason=REASONS[kind])
    if settings.draw_size is not None:
        yield from _rows_of_draws(item, methods, compared, settings, settings.draw_size)


def _rows_of_draws(
    item: QuestionRecord,
    methods: Sequence[Method],
    compared: _Compared,
    settings: CallSettings,
    size: int,
) -> Iterator[_ScoreRow]:
    """A question's score by every method over samples, on each disjoint draw of so many."""
    for number, samples in enumerate(draws_of(item.samples, size), start=1):
        drawn = item.model_copy(update={"samples": samples, "beams": []})
        setting = setting_of_draw(size, number)
        one_draw = replace(settings, draw_size=None)
        for row in _score_rows(drawn, _over_samples(methods), compared, one_draw):
            if row.setting == "" and row.variant != "beamsearch":
                yield row._replace(setting=setting)


def _over_samples(methods: Sequence[Method]) -> list[Method]:
    return [method for method in methods if candidates_of(method, method.variants[0]) == "samples"]


def _with_score(
    row: _ScoreRow,
    item: QuestionRecord,
    method: Method,
    evidence: Evidence,
    temperature: float,
    *,
    certifiable: bool,
) -> _ScoreRow:
    """A row with its score, or with the reason why there is none.

    ``certifiable``: whether the score may have an interval.
    """
    kind = candidates_of(method, row.variant)
    needs = method.formulation(row.setting).needs
    missing = missing_part(needs, evidence)
    if missing is not None:
        return row._replace(reason=_reason(item, missing, kind, temperature))
    if row.candidates < method.least_candidates:
        return row._replace(reason=TOO_FEW.format(least=method.least_candidates, kind=kind))
    value = compute(method, evidence, row.setting).item()
    row = row._replace(
        value=value,
        confidence=_confidence(method.name, row.range, value),
        note=_note(item, needs, kind, temperature),
    )
    if not certifiable:
        return row
    low, high = _interval(method.name, evidence, drawn=kind == "samples")
    return row._replace(low=low, high=high)


def _note(item: QuestionRecord, needs: Sequence[str], kind: str, temperature: float) -> str:
    """Whether a sum of log-probabilities that the score reads lacks the ending's."""
    for need in needs:
        if any(record.without_ending for record in _summed(item, need, kind, temperature)):
            return WITHOUT_ENDING
    return ""


def _may_have_interval(item: QuestionRecord, kind: str, temperature: float) -> bool:
    """Whether the log-probabilities are those of whole outcomes, drawn from the model's own."""
    if kind == "answer" or (kind == "samples" and temperature != 1):
        return False
    return not any(record.without_ending for record in (item.answer, *_candidates(item, kind)))


def _reason(item: QuestionRecord, missing: str, kind: str, temperature: float) -> str:
    """Why a method has no score that needs a missing part, and why a server left that out."""
    reason = REASONS.get(missing, f"needs {missing}, which only a study holds")
    if missing == "answer.mean_entropy" and item.server is not None:
        return f"{reason} (a server lists the most probable tokens, not whole distributions)"
    for record in _summed(item, missing, kind, temperature):
        if record.total is None and record.left_out:
            need, _, _ = reason.partition("; give ")  # what a server gave none of
            return f"{need} ({record.left_out})"
    return reason


def _summed(
    item: QuestionRecord, need: str, kind: str, temperature: float
) -> Sequence[CandidateRecord]:
    """The records whose sums of log-probabilities a need of a method reads."""
    are_uniform = need == "weights" and kind == "samples" and temperature == 1
    if need not in SUMS or are_uniform:
        return []
    return [item.answer] if need.startswith("answer.") else _candidates(item, kind)


def _confidence(method: str, scores_range: str, value: float) -> float:
    """In [0, 1], higher = more certain; NaN where a score's range says nothing of the kind.

    p where a score is −log p, 1 − value where it lies in [0, 1].
    """
    if method in MINUS_LOG_P:
        return math.exp(-value)
    if scores_range == "[0, 1]":
        return min(max(1 - value, 0.0), 1.0)
    return math.nan


def _interval(method: str, evidence: Evidence, *, drawn: bool) -> tuple[float, float]:
    """The certified interval of a method that is linear in U or a mean over pairs; else NaN.

    Beams are distinct outcomes, as their column says. Of draws of one text only the most probable
    counts: they may be one outcome drawn twice.
    """
    logprob = evidence.logprob
    if logprob is UNKNOWN or method not in (*FACTORS, "DegreeMatrix"):
        return math.nan, math.nan
    outcomes = _most_probable_of_each_text(evidence) if drawn else evidence.mask
    if np.exp(logprob[outcomes]).sum() > 1 + ROUNDING:
        return math.nan, math.nan  # no distinct outcomes have such probabilities
    if method == "DegreeMatrix":
        low, high = certified_pair_interval(logprob, 1.0 - evidence.among, outcomes)
    else:
        factor = FACTORS[method](evidence.answer)
        low, high = certified_interval(logprob, 1.0 - evidence.to_produced, outcomes)
        low = factor * low
        high = factor * high
    # of a mass that rounding puts above 1 the ends cross by as little
    return low.item(), max(low.item(), high.item())


def _most_probable_of_each_text(evidence: Evidence) -> Bools:
    """Which draws, [1, M], are the most probable of their text, of equals the first."""
    logprob = evidence.logprob[0]
    rising = sorted(range(len(logprob)), key=lambda place: (logprob[place], -place))
    of_text = {evidence.texts[0, 1 + place]: place for place in rising}
    return np.isin(np.arange(len(logprob)), list(of_text.values()))[None]


def prr(
    scores: npt.ArrayLike,
    quality: npt.ArrayLike,
    *,
    groups: Sequence[object] | None = None,
    max_rejection: float = 0.5,
    resamples: int = RESAMPLES,
    confidence: float = 0.95,
    seed: int = 0,
) -> PRR:
    """The prediction–rejection ratio of uncertainty scores, with a bootstrap interval.

    As in section 4 of the paper.

    Parameters
    ----------
    scores, quality
        [N], higher = more uncertain; how right each answer is, higher = better.
    groups
        [N], what belongs together (a story, a user) and is resampled together; None: each answer on
        its own.
    max_rejection
        The area goes to this share of rejected answers, in (0, 1].
    resamples, confidence, seed
        Of the percentile bootstrap, of two resamples or more. Its draws depend on the answers' ids
        and groups alone, so that the interval is the one that compare gives this score. Ids are
        those that a series has for its index; lists and arrays have 1, 2, …, as rows without ids
        do: of rows with ids of their own give the series, not its numbers, to draw as compare does.

    Returns
    -------
    value, low, high, std and n: at most 1, 0 for a random order, negative for a worse
    one; None where undefined (constant quality), and ``note`` says why. Of series it shows what
    they are: ``Estimate(PRR of Dissimilarity over 10 samples by answer_f1: …)``.

    Raises BeamUQError if lengths or the order of two series differ, a score or quality is missing
    or not finite, or a setting is out of its range.

    Examples
    --------
    >>> beamuq.prr([0.9, 0.2, 0.7, 0.1], [0, 1, 0, 1]).value
    1.0
    """
    check_settings(
        max_rejection=max_rejection, resamples=resamples, confidence=confidence, seed=seed
    )
    check_are_of_the_same(scores, quality)
    check_order(scores=scores, quality=quality, groups=groups)
    score_column = number_column("scores", scores)
    quality_column = number_column("quality", quality, truth_values=True)
    count = len(score_column)
    ids = names_of_answers(count, scores, quality)
    units = ids if groups is None else group_column(groups)
    if not count == len(quality_column) == len(units):
        counted_groups = "" if groups is None else f", groups: {len(units)}"
        raise BeamUQError(
            f"scores: {count}, quality: {len(quality_column)}{counted_groups}; "
            "give one of each per answer"
        )
    _check_all_there("scores", score_column)
    _check_all_there("quality", quality_column)
    of_scores = judged_in_words(scores, score_column, quality)
    if why := why_undefined("PRR", quality_column, max_rejection):
        return PRR(None, None, None, None, why, count, of_scores)
    measured = measured_prr(
        [({}, score_column)],
        quality_column,
        ids,
        units,
        max_rejection=max_rejection,
        resamples=resamples,
        seed=seed,
    )
    return only_estimate(measured, confidence, of_scores)


def _check_all_there(name: str, column: Floats) -> None:
    missing = np.flatnonzero(np.isnan(column))
    if len(missing):
        raise BeamUQError(f"{name}: row {missing[0] + 1}: missing; leave this answer out of both")
