"""Questions to a model: its answer, its beams with their weights, every uncertainty, and how that
is shown.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field
from tqdm import tqdm

from beamuq.api.calibration_comparison import check_same
from beamuq.api.calibration_file import CalibrationFile, read_calibration
from beamuq.api.candidate_records import AnswerLabels, Name
from beamuq.api.candidates_of_model import BATCH, check_stop, decoded_rows
from beamuq.api.decisions import decision_table
from beamuq.api.open_models import Similarity, open_model, open_similarity
from beamuq.api.rows import (
    ANSWER_LABELS,
    Rows,
    check_settings,
    no_question,
    number,
    placed_rows,
    plain,
)
from beamuq.api.score_candidates import score
from beamuq.beam_mass_theorem import corrected_threshold, covered_mass
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError, hint, nearest
from beamuq.methods import candidate_weights
from beamuq.models.conversations import Message, around, read_conversation
from beamuq.prompts import prompt_template as templates
from beamuq.scorers.quality_metrics import answer_f1
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
LEFT_OUT = ("uncertainties", "has_chat_template", "doubts")  # of JSON
LONG = 10  # tokens of an answer with so many wordings that no width finds most of them
BAR = 30  # characters of a bar at p = 1
SHOWN_METHODS = (
    *("Dissimilarity", "Eccentricity", "EigVecDissimilarity", "CocoaMSP", "CocoaPPL"),
    *("Prob", "MTE", "Perplexity"),
)


@dataclass(frozen=True)
class AskedBeam:
    """One hypothesis: its probability, its weight among the beams, and whether it ended or was
    cut.
    """

    text: str
    probability: float
    weight: float
    ended: bool


@dataclass(frozen=True)
class Asked:
    """What a model answers and how sure it is. ``print`` shows it; ``uncertainties`` is a frame as
    ``score`` gives it.

    covered_mass: probability of all beams together; corrected_threshold: what the paper's theorem,
    put right, asks of it, M/(M + 1). low, high: the certified interval, which holds Dissimilarity
    under the model's whole distribution, whatever there is beside the beams; threshold: what it is
    held against. style, examples: ``plain`` or ``chat``, and how many few-shot examples stand
    before the question. model_hash, prompt_hash: sha256 of the model's files, and of the prompt
    around the question with the settings that change scores; of a conversation of its system
    prompt. decision: by a calibration, its method, the score, right_low and right_high (its two
    probabilities), shown, reason, warnings; or None. messages: how many a conversation has, whose
    last one is the question; 0: a question alone was asked. stop: what ends an answer. doubts: why
    the texts may be no answers.
    """

    question: str
    model: str
    style: str
    examples: int
    has_chat_template: bool
    answer: str
    probability: float
    tokens: int
    ended: bool
    beams: tuple[AskedBeam, ...]
    width: int
    covered_mass: float
    corrected_threshold: float
    low: float
    high: float
    threshold: float | None
    uncertainties: pd.DataFrame
    model_hash: str
    prompt_hash: str
    decision: dict[str, Any] | None
    messages: int = 0
    stop: str = "newline"
    doubts: tuple[str, ...] = ()

    def uncertainty(self, method: str = "Dissimilarity") -> float:
        """One method's score: the beam form of a method in two forms. Higher = more uncertain."""
        rows = self.uncertainties[self.uncertainties["method"] == method]
        if len(rows) != 1:
            raise BeamUQError(
                f"method {method!r}: not scored here; {hint(method, self.uncertainties['method'])}"
            )
        return float(rows["value"].item())

    @property
    def decided(self) -> str | None:
        """On which side of the threshold the whole interval lies: ``below``, ``above`` or, across
        it, ``undecided``.
        """
        if self.threshold is None:
            return None
        return (
            "below"
            if self.high < self.threshold
            else "above"
            if self.low > self.threshold
            else "undecided"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why these numbers may mislead; empty where nothing speaks against them."""
        told = list(self.doubts)
        if self.covered_mass < 0.5:
            told.append(
                f"the beams cover {self.covered_mass:.2f} of the probability: the estimate of "
                "Dissimilarity may be off "
                f"by up to {1 - self.covered_mass:.2f}; {self._what_covers_more()}"
            )
        if not self.ended:
            told.append("the answer was cut at the largest number of tokens: raise it")
        cut = sum(not beam.ended for beam in self.beams)
        if cut:
            told.append(
                f"{cut} of {len(self.beams)} beams were cut at the largest number of tokens"
            )
        return (*told, *(self.decision["warnings"] if self.decision else ()))

    def _what_covers_more(self) -> str:
        """The advice that fits the cause: answers that are cut, a model that is asked otherwise,
        too few beams.
        """
        cut, long = (
            2 * sum(not beam.ended for beam in self.beams) > len(self.beams),
            self.tokens > LONG,
        )
        causes = {
            "most beams were cut: raise the largest number of tokens, or ask for a short "
            "answer": cut,
            "a long answer has many wordings: ask for a short one": long and not cut,
            "the model has a chat template, which --style chat uses": self.style == "plain"
            and self.has_chat_template,
            "more width covers more": not (cut or long),
        }
        return "; ".join(advice for advice, fits in causes.items() if fits)

    def as_json(self) -> str:
        """Everything as one JSON object."""
        content = {key: value for key, value in asdict(self).items() if key not in LEFT_OUT}
        scores = self.uncertainties.astype(object).where(self.uncertainties.notna(), None)[
            ["method", "variant", "value", "confidence", "range", "similarity"]
        ]
        content |= {
            "decided": self.decided,
            "uncertainties": scores.to_dict("records"),
            "warnings": self.warnings,
        }
        return json.dumps(content, ensure_ascii=False)

    @property
    def texts(self) -> dict[str, float]:
        """The probability of each text among the beams, the most probable first: two endings of one
        text count once.
        """
        found: dict[str, float] = {}
        for beam in self.beams:
            found[beam.text] = found.get(beam.text, 0.0) + beam.probability
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self, *, verbose: bool = False) -> str:
        """What ``beamuq ask`` prints; with ``verbose`` every beam too."""
        lines = [
            f"question      {_on_one_line(self.question)}",
            f"asked         {self._asked()}",
            f"answer        {_shown(self.answer)}",
            *([f"decision      {self._decision()}"] if self.decision else []),
            f"how sure      {self.texts.get(self.answer, self.probability):.1%} of the "
            "probability is on this text",
            "",
            *(
                _bar(p, _shown(text) + " ← the answer" * (text == self.answer))
                for text, p in self.texts.items()
            ),
            _bar(1 - self.covered_mass, "(not found)", "░"),
            "",
            f"interval      {self.low:.3f} to {self.high:.3f}, width {self.high - self.low:.3f}: "
            f"holds Dissimilarity under the model's whole distribution ({len(self.beams)} "
            "outcomes found)",
            *(
                []
                if self.threshold is None
                else [f"  threshold {self.threshold:g}: {self.decided}"]
            ),
            *(self._beams() if verbose else []),
            "scores        higher = more uncertain; similarity: "
            f"{self.uncertainties['similarity'].iloc[0]}",
        ]
        for row in self.uncertainties.to_dict("records"):
            name = row["method"] + (
                " + beamsearch"
                if row["variant"]
                else " (−log p)"
                if row["method"] == "Prob"
                else ""
            )
            confidence = number(row["confidence"]) and f", confidence {number(row['confidence'])}"
            lines.append(f"  {name:<34}{number(row['value']):>10}  in {row['range']}{confidence}")
        lines += [f"warning: {told}" for told in self.warnings]
        return "\n".join(lines)

    def _asked(self) -> str:
        if self.messages:
            return f"in the model's chat template, a conversation of {self.messages} messages"
        shown = f" with {self.examples} examples" if self.examples else ""
        other = "; --style chat uses the model's chat template" if self.has_chat_template else ""
        return (
            f"plainly{shown}{other}"
            if self.style == "plain"
            else f"in the model's chat template{shown}"
        )

    def _beams(self) -> list[str]:
        return [
            f"model         {self.model}; the answer has {self.tokens} tokens, p = "
            f"{self.probability:.4f}",
            "",
            "p       weight  beam",
            *(
                f"{beam.probability:.4f}  {beam.weight:.4f}  {_shown(beam.text)}"
                for beam in self.beams
            ),
            f"covered mass  {self.covered_mass:.3f} by {len(self.beams)} beams",
            "",
        ]

    def _decision(self) -> str:
        told = self.decision or {}
        between = " or ".join(
            dict.fromkeys(f"{told[end]:.2f}" for end in ("right_low", "right_high"))
        )
        shown = ("shown" if told["shown"] else "withheld") + (
            f" ({told['reason']})" if told["reason"] else ""
        )
        return f"p(right) {between} by {told['method']}; {shown}"


def _shown(text: str) -> str:
    return _on_one_line(text) or "(empty)"


def _on_one_line(text: str) -> str:
    return text.replace("\n", "\\n")


def _bar(p: float, text: str, block: str = "█") -> str:
    """A line of a bar chart: p, a bar of half characters as long as it, and what it is of."""
    halves = round(2 * BAR * p)
    return (
        f"{max(p, 0):6.3f}  "
        f"{block * (halves // 2) + ('▌' if halves % 2 and block == '█' else ''):<{BAR}}  {text}"
    )


def ask(
    question: str | Sequence[str | Sequence[Mapping[str, Any]]] | Sequence[Mapping[str, Any]],
    model: Any = DEMO_MODEL,
    *,
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
        Python (model, tokenizer) of transformers too, on any device.
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

    Returns ------- :class:`Asked`: what the model answers and how sure it is, to ``print``; of a
    list of questions a list.

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
    questions, one = _questions(question)
    talks = any(each.messages for each in questions)
    if talks:
        _check_conversations(questions, style, shots, prompt_template)
    check_settings(
        width=width,
        max_new_tokens=max_new_tokens,
        epsilon=epsilon,
        alpha=alpha,
        threshold=threshold,
    )
    made = (
        calibration
        if isinstance(calibration, CalibrationFile | None)
        else read_calibration(calibration)
    )
    if made is not None and made.form == "multinomial":
        raise BeamUQError(
            f"calibration: form {made.form!r}: ask scores beams; calibrate with --form beamsearch"
        )
    loaded = open_model(model, device=device, dtype=dtype, threads=threads)
    scorer = open_similarity(similarity, device=device, dtype=dtype, threads=threads)
    prompt, examples = _prompts(style, [] if talks else shots, prompt_template)
    settings: dict[str, float | str] = {
        "width": int(width),
        "max_new_tokens": int(max_new_tokens),
        "stop": stop,
    }
    settings |= {"epsilon": float(epsilon), "alpha": float(alpha)}
    hashes = []
    for each in questions:
        fixed = (
            f"conversation\n{around(each.messages)}"
            if each.messages
            else f"{STYLES[style]}\n{prompt('?')}"
        )
        hashes.append(_prompt_hash(fixed, settings))
    named = {"model": loaded.name, "model_hash": loaded.content}
    if made is not None:  # before minutes of decoding
        for prompt_hash in dict.fromkeys(hashes):
            facts = {**named, "prompt_hash": prompt_hash, "similarity": scorer.name}
            check_same(made, facts, force=force, where="calibration")
    rows, doubts = decoded_rows(
        loaded.model,
        loaded.tokenizer,
        [each.messages or prompt(each.text) for each in questions],
        beams=width,
        max_new_tokens=max_new_tokens,
        chat=style == "chat",
        stop=stop,
        places=[each.place for each in questions],
    )
    methods = list(dict.fromkeys((*SHOWN_METHODS, *([made.method] if made else ()))))
    scores = score(rows, similarity=scorer, methods=methods, epsilon=epsilon, alpha=alpha)
    scores = scores[scores["variant"] != "multinomial"]
    asked = []
    for each, row, told, prompt_hash in zip(questions, rows, doubts, hashes, strict=True):
        own = scores[scores["id"] == row["id"]].assign(id="1").reset_index(drop=True)
        identity: dict[str, Any] = {**named, "prompt_hash": prompt_hash}
        asked.append(
            Asked(
                question=each.text,
                style=style,
                examples=examples,
                has_chat_template=bool(getattr(loaded.tokenizer, "chat_template", None)),
                width=width,
                corrected_threshold=corrected_threshold(width),
                threshold=threshold,
                **_found(row, own, epsilon),
                **identity,
                decision=None if made is None else _decision(made, own, identity, force=force),
                messages=len(each.messages),
                stop=stop,
                doubts=tuple(told),
            )
        )
    return asked[0] if one else asked


def _found(row: Mapping[str, Any], scores: pd.DataFrame, epsilon: float) -> dict[str, Any]:
    """What :class:`Asked` says of the answer, its beams and their scores."""
    answer = row["answer"]
    beams = row["beams"]
    logprob = np.array([[beam["logprob"] for beam in beams]])
    mask = np.ones(logprob.shape, dtype=bool)
    shares = candidate_weights.restricted_mass(logprob, mask, epsilon)[0].tolist()
    dissimilarity = scores[scores["method"] == "Dissimilarity"].iloc[0]
    return {
        "answer": answer["text"],
        "probability": math.exp(answer["logprob"]),
        "tokens": len(answer["token_ids"]),
        "ended": answer["ended"],
        "beams": tuple(
            AskedBeam(beam["text"], math.exp(beam["logprob"]), share, beam["ended"])
            for beam, share in zip(beams, shares, strict=True)
        ),
        "covered_mass": float(covered_mass(logprob, mask)[0]),
        "low": float(dissimilarity["low"]),
        "high": float(dissimilarity["high"]),
        "uncertainties": scores,
    }


@dataclass(frozen=True)
class _Question:
    """What is asked: a question's text, or the messages of a conversation and the last one's text;
    and its place.
    """

    text: str
    messages: list[Message]
    place: str


def _questions(question: Any) -> tuple[list[_Question], bool]:
    """What a call of :func:`ask` asks, and whether it is one question or one conversation, and no
    list of them.

    Raises BeamUQError if it asks nothing, or what is neither text nor messages.
    """
    if isinstance(question, str):
        return [_read_question(question, "question 1")], True
    if isinstance(question, Mapping) or not isinstance(question, Iterable):
        raise BeamUQError(
            f"question: a {type(question).__name__}; give a question, a conversation, or a list of "
            "them"
        )
    listed = list(question)
    if not listed:
        raise BeamUQError("no question; give one")
    if all(_is_message(each) for each in listed):
        return [_read_question(listed, "question 1")], True
    questions = []
    for place, each in enumerate(listed, start=1):
        read = each if isinstance(each, _Question) else _read_question(each, f"question {place}")
        questions.append(read)
    return questions, False


def _is_message(part: Any) -> bool:
    """Whether it is a message of one conversation, and no question that was read before."""
    return not isinstance(part, _Question) and isinstance(plain(part), Mapping)


def _read_question(asked: Any, place: str) -> _Question:
    if isinstance(asked, str):
        if not asked.strip():
            raise BeamUQError(f"{place}: the question is empty; write one")
        return _Question(asked, [], place)
    messages = plain(asked)
    if not isinstance(messages, list):
        raise BeamUQError(
            f"{place}: a {type(asked).__name__}; give a text, or a conversation: a list of messages"
        )
    read = read_conversation(messages, place)
    return _Question(read[-1]["content"], read, place)


def _check_conversations(
    questions: Sequence[_Question],
    style: str,
    shots: Rows | None,
    prompt_template: str | Path | None,
) -> None:
    """Refuse what conversations cannot be asked with: each would be dropped."""
    talk = next(each for each in questions if each.messages)
    for each in questions:
        if not each.messages:
            raise BeamUQError(
                f"{each.place}: a question beside a conversation ({talk.place}), which is asked "
                "without examples and "
                'template; ask them apart, or give it as messages: [{"role": "user", "content": '
                '"…"}]'
            )
    if style != "chat":
        raise BeamUQError(
            f"{talk.place}: messages: they go through the model's chat template, and style is "
            f"{style!r}; give style "
            "chat"
        )
    if prompt_template is not None:
        raise BeamUQError(
            "prompt_template: a conversation is asked as it is; leave the template out"
        )
    if shots is not None and list(placed_rows(shots)):
        raise BeamUQError(
            "shots: a conversation is asked as it is; write examples as turns, and leave shots out"
        )


class Shot(StrictModel, extra="ignore"):
    """A few-shot example; other columns are left out."""

    question: WholeText
    answers: Annotated[list[WholeText], Field(min_length=1)]


class AskedRow(AnswerLabels, extra="ignore"):
    """A question of a file that :func:`ask_all` takes, with right answers; other columns are left
    out.
    """

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
    asked_rows: dict[str, AskedRow] = {}
    questions: list[_Question] = []
    for place, row in placed_rows(rows):
        if "answers" not in row and (
            near := [key for key in row if nearest(str(key), ["answers"])]
        ):
            raise BeamUQError(
                f"{place}: {near[0]}: unknown column; did you mean 'answers', a list of right ones?"
            )
        item: AskedRow = validated(AskedRow, {"id": str(len(asked_rows) + 1)} | dict(row), place)
        if asked_rows.setdefault(item.id, item) is not item:
            raise BeamUQError(f"{place}: id {item.id!r} stands twice; give each question its own")
        questions.append(_question_of_row(item, row, place))
    if not (items := list(asked_rows.values())):
        raise no_question(rows)
    machine = {name: options[name] for name in ("device", "dtype", "threads") if name in options}
    # once: reading them, and hashing a model in memory, takes as long as a batch
    options["similarity"] = open_similarity(options.get("similarity", "auto"), **machine)
    loaded = open_model(model, **machine)
    frames = []
    for start in tqdm(range(0, len(items), BATCH), desc="batches of questions", disable=None):
        members = items[start : start + BATCH]
        answers: list[Asked] = ask(questions[start : start + BATCH], loaded, **options)  # type: ignore[arg-type]
        for item, asked in zip(members, answers, strict=True):
            labels: dict[str, Any] = {
                name: getattr(asked, name)
                for name in ("answer", "model", "model_hash", "prompt_hash")
            }
            labels |= {
                name: value for name in ANSWER_LABELS if (value := getattr(item, name)) is not None
            }
            if item.answers is not None and "quality" not in labels:
                labels["quality"] = answer_f1(
                    " ".join(asked.answer.split()), item.answers
                )  # no line is left out
            frames.append(asked.uncertainties.assign(id=item.id, **labels))
    return pd.concat(frames, ignore_index=True)


def _question_of_row(item: AskedRow, row: Mapping[str, Any], place: str) -> _Question:
    if item.question is not None and item.messages is not None:
        raise BeamUQError(f"{place}: question and messages; give one of both")
    if item.messages is not None:
        return _read_question(item.messages, place)
    if item.question is not None:
        return _read_question(item.question, place)
    for key in row:
        if near := nearest(str(key), ["question", "messages"]):
            raise BeamUQError(f"{place}: {key}: unknown column; did you mean {near!r}?")
    raise BeamUQError(f"{place}: question: this key is missing; add it, or messages")


def _prompt_hash(fixed: str, settings: Mapping[str, float | str]) -> str:
    """Of the prompt without its question, and of those settings that change scores and are not the
    defaults.
    """
    defaults = inspect.signature(ask).parameters
    other = {name: value for name, value in settings.items() if value != defaults[name].default}
    return hashlib.sha256((fixed + (json.dumps(other) if other else "")).encode()).hexdigest()


def _decision(
    made: CalibrationFile, scores: pd.DataFrame, identity: dict[str, str], *, force: bool
) -> dict[str, Any]:
    """What a calibration says of the one answer."""
    of = scores[
        (scores["method"] == made.method)
        & (scores["variant"] == made.form)
        & (scores["setting"] == made.setting)
    ]
    if of.empty or of["value"].isna().any():
        why = of["reason"].iloc[0] if len(of) else "not scored by ask"
        raise BeamUQError(f"calibration: method {made.method!r}: {why}; calibrate another method")
    row = of.iloc[0]
    facts = identity | {name: row[name] for name in ("similarity", "scored_with", "version")}
    # how many beams were asked for is a part of the prompt's hash, and an answer may have fewer
    # outcomes
    told = check_same(
        made, facts | {"candidates": made.candidates}, force=force, where="calibration"
    )
    found = decision_table(made, [row["value"]]).to_dict("records")[0]
    return {
        "method": made.method,
        **{str(key): each for key, each in found.items()},
        "warnings": tuple(told),
    }


def _prompts(
    style: str, shots: Rows | None, prompt_template: str | Path | None
) -> tuple[Callable[[str], str], int]:
    """From a question to its prompt, and how many examples stand before it."""
    path = (
        templates.PROMPTS / STYLES[style] / "jsonl.txt"
        if prompt_template is None
        else Path(prompt_template)
    )
    template, examples = templates.load(path), []
    for place, row in placed_rows(EXAMPLES if shots is None else shots):
        shot: Shot = validated(Shot, dict(row), f"shots: {place}")
        examples.append({"question": shot.question, "references": shot.answers, "options": []})

    def prompt(question: str) -> str:
        asked = {
            "question": " ".join(question.split()),
            "options": [],
            "history": [],
            "context": [],
        }
        return templates.render(template, asked, examples, where=str(path))

    return prompt, len(examples)
