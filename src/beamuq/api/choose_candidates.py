"""Of each question the candidate that the others resemble most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from beamuq.api.believed_endings import warn_if_endings_are_believed
from beamuq.api.candidate_records import (
    AnswerRecord,
    CandidateRecord,
    QuestionRecord,
    Records,
    by_probability,
    read_records,
)
from beamuq.api.cut_texts import CutTexts
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.api.rows import FORMS, Rows, check_settings
from beamuq.api.score_candidates import (
    FORM_OF_WORD,
    CallSettings,
    chosen_methods,
    score_records,
)
from beamuq.errors import BeamUQError, hint
from beamuq.evaluation.estimates import TIE

CHOSEN_BY = "Dissimilarity"
LISTS = {"beamsearch": "beams", "multinomial": "samples"}
"""The candidates of each form."""
COLUMNS = (
    *("id", "text", "value", "candidate", "answer", "answer_value"),
    *("form", "candidates", "similarity"),
)


def choose(
    rows: Rows | Records,
    *,
    similarity: str | Similarity = "auto",
    form: str | None = None,
    temperature: float = 1.0,
    epsilon: float = 0.0,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 1,
) -> pd.DataFrame:
    """Of each row the candidate of least Dissimilarity, with its score.

    Each distinct text among the answer and its candidates is scored as if it were the answer, as
    ``score`` does. The least is the minimum-Bayes-risk answer under the similarity. A sample counts
    among the M that it is compared with, so its score is lower by up to 1/M than that of a text
    that was not drawn.

    Parameters
    ----------
    rows
        As for score: each with beams that have log-probabilities, or samples.
    similarity
        As for score.
    form
        "beams" (beamsearch): among the answer and the beams, weighted by probability; "samples"
        (multinomial): among the answer and the samples. Without it over beams where any row has
        them, else over samples.
    temperature, epsilon
        As for score.
    device, dtype, threads
        Of the similarity, as for score.

    Returns
    -------
    A frame, a row a question in the order given: id, text (the one chosen), value (its
    Dissimilarity, in [0, 1], higher = more uncertain), candidate (answer, beams[0], samples[3]: its
    first place in the row), answer and answer_value (the produced answer and its Dissimilarity),
    form, candidates (how many) and similarity. Of equals the answer is chosen, then the most
    probable beam, or the first sample.

    Raises BeamUQError in one line: a bad row, one without candidates of the form, an unknown form
    or similarity. Warns where texts are longer than the similarity reads.

    Examples
    --------
    >>> rows = [{"answer": "Rome", "samples": ["Milan", "Milan", "Rome"]}]
    >>> beamuq.choose(rows, similarity="lexical")["text"].tolist()
    ['Milan']
    """
    check_settings(temperature=temperature, epsilon=epsilon)
    records = read_records(rows, temperature=temperature)
    warn_if_endings_are_believed(records)
    if form is None:
        form = "beamsearch" if any(record.beams for record in records) else "multinomial"
    form = _variant_of(form)
    scorer = open_similarity(similarity, device=device, dtype=dtype, threads=threads)
    candidates = [list(_distinct(record, form)) for record in records]
    as_answers = Records(
        _with_answer(record, form, text, f"{row}/{number}")
        for row, (record, listed) in enumerate(zip(records, candidates, strict=True))
        for number, (_, text) in enumerate(listed)
    )
    settings = CallSettings(
        temperature,
        epsilon,
        alpha=1.0,  # Dissimilarity reads neither this nor the threshold
        equivalence_threshold=1.0,
        without_ending=False,
    )
    cut = CutTexts(scorer.name)
    scores = score_records(as_answers, chosen_methods(CHOSEN_BY), scorer, settings, cut)
    _by_question(cut, records).warn()
    chosen = _chosen_rows(records, form, candidates, scores)
    return pd.DataFrame(chosen).assign(similarity=scorer.name)[list(COLUMNS)]


def _variant_of(form: object) -> str:
    """The variant that a form's name means; raises BeamUQError if there is none."""
    variant = FORM_OF_WORD.get(form, form) if isinstance(form, str) else ""
    if variant not in LISTS:
        raise BeamUQError(f"form {form!r:.40}: unknown; {hint(str(form), (*FORM_OF_WORD, *LISTS))}")
    return variant


def _by_question(cut: CutTexts, records: Records) -> CutTexts:
    """What was cut of questions, where ``cut`` says it of each with each of its candidates."""
    rows = dict.fromkeys(int(row_id.partition("/")[0]) for row_id in cut.ids)
    ids = [records[row].id for row in rows]
    return CutTexts(cut.similarity, cut.limit, ids, len(records))


def _chosen_rows(
    records: Records,
    form: str,
    candidates: Sequence[Sequence[tuple[str, str]]],
    scores: pd.DataFrame,
) -> list[dict[str, object]]:
    """A row a question; ``scores``: of each candidate, by its question and its number there."""
    in_form = scores[(scores["variant"] == form) & (scores["setting"] == "")].set_index("id")
    rows = []
    for row, (record, listed) in enumerate(zip(records, candidates, strict=True)):
        own_scores = in_form.loc[[f"{row}/{number}" for number in range(len(listed))]]
        rows.append(_chosen(record, form, listed, own_scores))
    return rows


def _distinct(record: QuestionRecord, form: str) -> Iterator[tuple[str, str]]:
    """Each distinct text of a question once, and its place: the answer, then the likeliest."""
    distinct_texts = {record.answer.text.strip()}
    yield "answer", record.answer.text
    name = LISTS[form]
    listed: list[CandidateRecord] = getattr(record, name)
    places = {id(candidate): place for place, candidate in enumerate(listed)}
    for candidate in by_probability(listed) if name == "beams" else listed:
        text = candidate.text.strip()
        if text not in distinct_texts:
            distinct_texts.add(text)
            yield f"{name}[{places[id(candidate)]}]", candidate.text


def _with_answer(record: QuestionRecord, form: str, text: str, row_id: str) -> QuestionRecord:
    """The question with another answer, and the candidates of one form."""
    name = LISTS[form]
    return QuestionRecord.model_construct(
        id=row_id, answer=AnswerRecord(text=text), **{name: getattr(record, name)}
    )


def _chosen(
    record: QuestionRecord, form: str, listed: Sequence[tuple[str, str]], scores: pd.DataFrame
) -> dict[str, object]:
    """The row of a question; raises BeamUQError if its candidates give no score."""
    values = scores["value"].to_numpy(np.float64)
    if np.isnan(values).any():
        other_forms = [name for name in LISTS if name != form]
        raise BeamUQError(
            f"id {record.id!r}: no {CHOSEN_BY} {FORMS[form]}: {scores['reason'].iloc[0]}; or give "
            f"form={other_forms[0]!r}"
        )
    least = int(np.flatnonzero(values <= values.min() + TIE)[0])
    candidate, text = listed[least]
    return {
        "id": record.id,
        "text": text,
        "value": values[least],
        "candidate": candidate,
        "answer": record.answer.text,
        "answer_value": values[0],
        "form": form,
        "candidates": len(getattr(record, LISTS[form])),
    }
