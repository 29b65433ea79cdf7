"""Questions to a model: its answer, its beams with their weights, and every uncertainty."""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field

from beamuq.api.answer_identity import hash_of_prompt, prompt_around
from beamuq.api.asked_answer import Asked, AskedBeam
from beamuq.api.calibration_comparison import check_same
from beamuq.api.calibration_file import CalibrationFile, read_calibration
from beamuq.api.candidate_records import AnswerLabels, Name
from beamuq.api.candidates_of_model import BATCH, check_stop, decoded_rows
from beamuq.api.decisions import decision_table
from beamuq.api.endings_in_scores import ending_count
from beamuq.api.open_models import LoadedModel, Similarity, open_model, open_similarity
from beamuq.api.questions_to_ask import (
    Question,
    check_conversations,
    read_question,
    read_questions,
)
from beamuq.api.rows import ANSWER_LABELS, Rows, check_settings, no_question, placed_rows
from beamuq.api.score_candidates import score
from beamuq.api.server_identity import read_server, server_text
from beamuq.array_types import Floats
from beamuq.beam_mass_theorem import corrected_threshold, covered_mass
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError, ServerLostError, nearest
from beamuq.methods import candidate_weights
from beamuq.models.conversations import Message
from beamuq.progress import job_progress
from beamuq.prompts import prompt_template as templates
from beamuq.scorers.quality_metrics import answer_f1
from beamuq.text_normalization import on_one_line
from beamuq.written_texts import WholeText

DEMO_MODEL = "packaged:smollm2-135m-instruct"
STYLES = {"plain": "base", "chat": "instruct"}
"""How a model is asked, and the folder of templates for it."""
EXAMPLES = (
    {"question": "What is the capital of Italy?", "answers": ["Rome"]},
    {"question": "Who is the painter of the Mona Lisa?", "answers": ["Leonardo da Vinci"]},
    {"question": "How many sides has a hexagon?", "answers": ["6"]},
    {"question": "Which planet is nearest to the Sun?", "answers": ["Mercury"]},
    {"question": "In what year did the First World War end?", "answers": ["1918"]},
)
SHOWN_METHODS = (
    *("Dissimilarity", "Eccentricity", "EigVecDissimilarity", "CocoaMSP", "CocoaPPL"),
    *("Prob", "MTE", "Perplexity"),
)


def ask(
    question: str | Sequence[str | Sequence[Mapping[str, Any]]] | Sequence[Mapping[str, Any]],
    model: Any = DEMO_MODEL,
    *,
    tokenizer: Any = None,
    style: str = "plain",
    shots: Rows | None = None,
    prompt_template: str | Path | None = None,
    width: int = 10,
    max_new_tokens: int = 20,
    stop: str = "newline",
    calibration: CalibrationFile | str | Path | None = None,
    force: bool = False,
    threshold: float | None = None,
    similarity: str | Similarity = "auto",
    epsilon: float = 0.0,
    alpha: float = 0.9,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 1,
) -> Any:
    """Ask a model a question, or many, and see how sure it is of its greedy answer, from a beam
    search.

    Shown are its answer, the texts that it might say with their probabilities, the interval that
    certainly holds Dissimilarity under its whole distribution, and eight scores; higher = more
    uncertain. All bare stop tokens count as one ending: a text which may end in two ways is one
    beam with both probabilities.

    Parameters
    ----------
    question
        One question, on one line; in Python a list too, decoded in batches that run common few-shot
        examples once, and with style chat a conversation, as for decode, or a list of them: asked
        as it is, without examples or template.
    model
        A folder, hub:ORG/NAME or packaged:NAME, which is kept in memory for the next call; in
        Python (model, tokenizer) of transformers too, on any device. server:http://HOST:PORT/v1 is
        a server of vLLM or llama.cpp; its key, if it wants one, is BEAMUQ_API_KEY of the
        environment.
    tokenizer
        Of a server's model: a folder with its config.json too, hub:ORG/NAME or packaged:NAME.
    style
        plain: the prompt is continued as text; chat: it is a user's message in the model's chat
        template.
    shots
        JSON Lines of examples (question, answers), in Python mappings too; none, or an empty list:
        no example; without it five of our own.
    prompt_template
        A prompt template, as those in beamuq/prompts; without it that of jsonl.txt.
    width
        Beams.
    max_new_tokens
        An answer that has not ended by then is cut.
    stop
        newline: an answer is one line, as in the paper; eos: it ends where the model ends it, and
        its text is whole.
    calibration
        Of beamuq calibrate: say how probably the answer is right, and whether it is shown.
    force
        Decide even where model, prompt, method, similarity, settings or version are not those that
        were calibrated.
    threshold
        Of Dissimilarity, 0 to 1: say whether the certified interval lies on one side of it.
    similarity, epsilon, alpha, device, dtype, threads
        As for score; device, dtype and threads are the model's too.

    Returns
    -------
    :class:`beamuq.api.asked_answer.Asked`: what the model answers and how sure it is, to
    ``print``; of a list of questions a list.

    The hash of a conversation's prompt is of its messages of the system and the developer; its
    other turns are the question.

    Raises BeamUQError in one line: an unknown model, a prompt that is too long or leaves a thought
    open, a malformed conversation or one beside questions, a bad template, a model the engine does
    not know.

    Examples
    --------
    >>> answer = beamuq.ask("Who wrote Hamlet?", model=(model, tokenizer), similarity="lexical")
    >>> answer.low <= answer.uncertainty("Dissimilarity") <= answer.high
    True
    """
    if style not in STYLES:
        raise BeamUQError(f"style {style!r}: choose from {', '.join(STYLES)}")
    check_stop(stop)
    questions, is_one = read_questions(question)
    check_conversations(questions, style, shots, prompt_template)
    check_settings(
        width=width,
        max_new_tokens=max_new_tokens,
        epsilon=epsilon,
        alpha=alpha,
        threshold=threshold,
    )
    calibration_file = _opened(calibration)
    loaded = open_model(model, tokenizer=tokenizer, device=device, dtype=dtype, threads=threads)
    scorer = open_similarity(similarity, device=device, dtype=dtype, threads=threads)
    are_conversations = bool(questions[0].messages)
    call = _Call(
        model=loaded,
        prompts=_read_prompts(style, [] if are_conversations else shots, prompt_template),
        settings=_Settings(
            width=int(width),
            max_new_tokens=int(max_new_tokens),
            stop=stop,
            epsilon=float(epsilon),
            alpha=float(alpha),
        ),
        threshold=threshold,
        calibration=calibration_file,
        force=force,
    )
    identities = [call.identity(member) for member in questions]
    call.check_calibration(identities, scorer.name)  # before minutes of decoding
    rows, doubts = decoded_rows(
        loaded,
        loaded.tokenizer,
        [call.prompts.prompt(member) for member in questions],
        beams=width,
        max_new_tokens=max_new_tokens,
        chat=style == "chat",
        stop=stop,
        places=[member.place for member in questions],
        bar="questions" if len(questions) > BATCH else "",  # ask_all, of one batch, has its own
    )
    methods = list(SHOWN_METHODS)
    if calibration_file is not None and calibration_file.method not in methods:
        methods.append(calibration_file.method)
    scores = score(rows, similarity=scorer, methods=methods, epsilon=epsilon, alpha=alpha)
    scores = scores[scores["variant"] != "multinomial"]
    answers = []
    for member, identity, row, row_doubts in zip(questions, identities, rows, doubts, strict=True):
        own_scores = scores[scores["id"] == row["id"]].reset_index(drop=True)
        own_scores = own_scores.assign(
            id="1",
            model=identity.model,
            model_hash=identity.model_hash,
            prompt_hash=identity.prompt_hash,
        )
        answers.append(call.answer(member, identity, row, row_doubts, own_scores))
    return answers[0] if is_one else answers


def _opened(calibration: CalibrationFile | str | Path | None) -> CalibrationFile | None:
    """A calibration, read where it is a path; raises BeamUQError if it is of samples."""
    if not isinstance(calibration, CalibrationFile | None):
        calibration = read_calibration(calibration)
    if calibration is not None and calibration.form == "multinomial":
        raise BeamUQError(
            f"calibration: form {calibration.form!r}: ask scores beams; calibrate with --form "
            "beamsearch"
        )
    return calibration


@dataclass(frozen=True)
class _Settings:
    """Settings of a call that change scores."""

    width: int
    max_new_tokens: int
    stop: str
    epsilon: float
    alpha: float

    def beside_the_defaults(self) -> dict[str, float | str]:
        """Those that are not the defaults of :func:`ask`."""
        parameters = inspect.signature(ask).parameters
        settings = vars(self).items()
        return {name: value for name, value in settings if value != parameters[name].default}


@dataclass(frozen=True)
class _Identity:
    """What a calibration compares of an answer: its model and the prompt around its question."""

    model: str
    model_hash: str | None
    prompt_hash: str
    server: str | None = None

    def facts(self) -> dict[str, Any]:
        """It by name, as a calibration is compared with it."""
        return vars(self) | {"server": None if self.server is None else read_server(self.server)}


@dataclass(frozen=True)
class _Prompts:
    """How questions become prompts: the style, and a template with examples before the question."""

    style: str
    path: Path
    template: templates.Template
    examples: list[Mapping[str, Any]]

    def prompt(self, question: Question) -> str | list[Message]:
        """What the model is given: a conversation as it is, a question in the template."""
        return question.messages or self._rendered(question.text)

    def around(self, question: Question) -> str:
        """The prompt around a question, which is the same for others of its kind."""
        if question.messages:
            return prompt_around(question.messages)
        return f"{STYLES[self.style]}\n{self._rendered('?')}"

    def _rendered(self, text: str) -> str:
        question = {"question": on_one_line(text), "options": [], "history": [], "context": []}
        return templates.render(self.template, question, self.examples, where=str(self.path))


def _read_prompts(style: str, shots: Rows | None, prompt_template: str | Path | None) -> _Prompts:
    path = templates.PROMPTS / STYLES[style] / "jsonl.txt"
    if prompt_template is not None:
        path = Path(prompt_template)
    template = templates.load(path)
    examples: list[Mapping[str, Any]] = []
    for place, row in placed_rows(EXAMPLES if shots is None else shots):
        shot: Shot = validated(Shot, dict(row), f"shots: {place}")
        examples.append({"question": shot.question, "references": shot.answers, "options": []})
    return _Prompts(style, path, template, examples)


@dataclass(frozen=True)
class _Call:
    """What a call of :func:`ask` asks with, and what it says of each answer."""

    model: LoadedModel
    prompts: _Prompts
    settings: _Settings
    threshold: float | None
    calibration: CalibrationFile | None
    force: bool

    def identity(self, question: Question) -> _Identity:
        """The model, and the hash of the prompt around a question and of unusual settings."""
        settings = self.settings.beside_the_defaults()
        prompt_hash = hash_of_prompt(self.prompts.around(question), settings)
        return _Identity(self.model.name, self.model.content, prompt_hash, self.model.server)

    def check_calibration(self, identities: Sequence[_Identity], similarity: str) -> None:
        """Refuse what differs from the calibration; see ``check_same``."""
        if self.calibration is None:
            return
        for identity in dict.fromkeys(identities):
            facts = {**identity.facts(), "similarity": similarity}
            check_same(self.calibration, facts, force=self.force, where="calibration")

    def answer(
        self,
        question: Question,
        identity: _Identity,
        row: Mapping[str, Any],
        doubts: Sequence[str],
        scores: pd.DataFrame,
    ) -> Asked:
        """What a decoded row and its scores say."""
        answer = row["answer"]
        logprob = np.array([[beam["logprob"] for beam in row["beams"]]])
        outcomes = np.ones(logprob.shape, dtype=bool)
        dissimilarity = scores[scores["method"] == "Dissimilarity"].iloc[0]
        return Asked(
            question=question.text,
            model=identity.model,
            style=self.prompts.style,
            examples=len(self.prompts.examples),
            has_chat_template=bool(getattr(self.model.tokenizer, "chat_template", None)),
            answer=answer["text"],
            probability=math.exp(answer["logprob"]),
            tokens=len(answer["token_ids"]),
            ended=answer["ended"],
            beams=self._beams(row["beams"], logprob),
            width=self.settings.width,
            covered_mass=float(covered_mass(logprob, outcomes)[0]),
            corrected_threshold=corrected_threshold(self.settings.width),
            # where it is not certified, of texts that the similarity cut, no less than all holds
            low=float(np.nan_to_num(dissimilarity["low"], nan=0.0)),
            high=float(np.nan_to_num(dissimilarity["high"], nan=1.0)),
            threshold=self.threshold,
            uncertainties=scores,
            model_hash=identity.model_hash,
            prompt_hash=identity.prompt_hash,
            decision=self._decision(identity, scores),
            messages=len(question.messages),
            stop=self.settings.stop,
            doubts=tuple(doubts),
            server=None if identity.server is None else json.loads(identity.server),
        )

    def _beams(self, beams: Sequence[Mapping[str, Any]], logprob: Floats) -> tuple[AskedBeam, ...]:
        outcomes = np.ones(logprob.shape, dtype=bool)
        weights = candidate_weights.restricted_mass(logprob, outcomes, self.settings.epsilon)[0]
        return tuple(
            AskedBeam(beam["text"], math.exp(beam["logprob"]), weight, beam["ended"])
            for beam, weight in zip(beams, weights.tolist(), strict=True)
        )

    def _decision(self, identity: _Identity, scores: pd.DataFrame) -> dict[str, Any] | None:
        """What the calibration says of the answer; None without one."""
        calibration = self.calibration
        if calibration is None:
            return None
        rows = scores[
            (scores["method"] == calibration.method)
            & (scores["variant"] == calibration.form)
            & (scores["setting"] == calibration.setting)
        ]
        if rows.empty or rows["value"].isna().any():
            why = "not scored by ask" if rows.empty else rows["reason"].iloc[0]
            raise BeamUQError(
                f"calibration: method {calibration.method!r}: {why}; calibrate another method"
            )
        row = rows.iloc[0]
        facts = {
            **identity.facts(),
            "similarity": row["similarity"],
            "scored_with": row["scored_with"],
            "endings": ending_count([row["note"]]),
            "version": row["version"],
            # how many beams were asked for is a part of the prompt's hash, and an answer may have
            # fewer outcomes
            "candidates": calibration.candidates,
        }
        warnings = check_same(calibration, facts, force=self.force, where="calibration")
        table = decision_table(calibration, [row["value"]])
        decision = {str(name): value for name, value in table.to_dict("records")[0].items()}
        return {"method": calibration.method, **decision, "warnings": tuple(warnings)}


class Shot(StrictModel, extra="ignore"):
    """A few-shot example; other columns are left out."""

    question: WholeText
    answers: Annotated[list[WholeText], Field(min_length=1)]


class AskedRow(AnswerLabels, extra="ignore"):
    """A question of a file that :func:`ask_all` takes; other columns are left out."""

    id: Name
    question: WholeText | None = None
    messages: list[Any] | None = None
    answers: Annotated[list[WholeText] | None, Field(min_length=1)] = None


def ask_all(rows: Rows, model: Any = DEMO_MODEL, **options: Any) -> pd.DataFrame:
    """Ask every question of a file, for ``calibrate`` and ``decide``.

    Parameters
    ----------
    rows
        A file as ``score`` takes it, mappings or a frame, with ``question``, or ``messages`` of a
        conversation, and ``id``, ``group``, ``correct`` or ``quality``; or ``answers``, a list of
        right ones, from which quality is found: the larger of token F1 and containment, with
        numbers by value and symbols kept (:mod:`beamuq.folded_words`).
    model, options
        As for :func:`ask`.

    Returns
    -------
    A frame as ``score`` gives it, with the answers, the model and the prompt.

    Raises BeamUQError as :func:`ask`; for a bad row, in one line.

    Examples
    --------
    >>> rows = [{"question": "Who wrote Hamlet?", "answers": ["William Shakespeare"]}]
    >>> asked = beamuq.ask_all(rows, model=(model, tokenizer), similarity="lexical")
    >>> asked["quality"].between(0, 1).all().item()
    True
    """
    questions = _read_rows(rows)
    if not questions:
        raise no_question(rows)
    machine = {name: options[name] for name in ("device", "dtype", "threads") if name in options}
    # once: reading them, and hashing a model in memory, takes as long as a batch
    options["similarity"] = open_similarity(options.get("similarity", "auto"), **machine)
    loaded = open_model(model, tokenizer=options.pop("tokenizer", None), **machine)
    frames: list[pd.DataFrame] = []
    with job_progress(len(questions), "questions", "question") as shown:
        for start in range(0, len(questions), BATCH):
            batch = questions[start : start + BATCH]
            asked = [row.question for row in batch]
            try:
                answers = ask(asked, loaded, **options)  # type: ignore[arg-type]
            except ServerLostError as error:
                if not frames:
                    raise
                raise ServerLostError(
                    f"{error}; {start} of {len(questions)} questions are answered: their scores "
                    "are the error's 'finished'",
                    pd.concat(frames, ignore_index=True),
                ) from error
            frames += [row.scores(answer) for row, answer in zip(batch, answers, strict=True)]
            shown.update(len(batch))
    return pd.concat(frames, ignore_index=True)


@dataclass(frozen=True)
class _QuestionOfRow:
    """A question, and what its row says of it."""

    question: Question
    row: AskedRow

    def scores(self, answer: Asked) -> pd.DataFrame:
        """The scores of its answer, as rows of ``score`` with labels."""
        scores = answer.uncertainties.assign(id=self.row.id, answer=answer.answer)
        if answer.server is not None:
            scores["server"] = server_text(answer.server)
        for name in ANSWER_LABELS:
            label = getattr(self.row, name)
            if label is not None:
                scores[name] = label
        if self.row.answers is not None and "quality" not in scores:
            scores["quality"] = answer_f1(on_one_line(answer.answer), self.row.answers)
        return scores


def _read_rows(rows: Rows) -> list[_QuestionOfRow]:
    """The questions of a file, in order; raises BeamUQError for an id that stands twice."""
    questions: dict[str, _QuestionOfRow] = {}
    for place, fields in placed_rows(rows):
        _check_no_misspelt_answers(fields, place)
        default_id = str(len(questions) + 1)
        row: AskedRow = validated(AskedRow, {"id": default_id} | dict(fields), place)
        if row.id in questions:
            raise BeamUQError(f"{place}: id {row.id!r} stands twice; give each question its own")
        questions[row.id] = _QuestionOfRow(_question_of_row(row, fields, place), row)
    return list(questions.values())


def _check_no_misspelt_answers(fields: Mapping[str, Any], place: str) -> None:
    if "answers" in fields:
        return
    for name in fields:
        if nearest(str(name), ["answers"]):
            raise BeamUQError(
                f"{place}: {name}: unknown column; did you mean 'answers', a list of right ones?"
            )


def _question_of_row(row: AskedRow, fields: Mapping[str, Any], place: str) -> Question:
    if row.question is not None and row.messages is not None:
        raise BeamUQError(f"{place}: question and messages; give one of both")
    if row.messages is not None:
        return read_question(row.messages, place)
    if row.question is not None:
        return read_question(row.question, place)
    for name in fields:
        if near := nearest(str(name), ["question", "messages"]):
            raise BeamUQError(f"{place}: {name}: unknown column; did you mean {near!r}?")
    raise BeamUQError(f"{place}: question: this key is missing; add it, or messages")
