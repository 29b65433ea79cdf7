"""One question to one model: its answer, its beams with their weights, the covered mass, and every uncertainty."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field
from tqdm import tqdm

from beamuq.api.asked_answer import Asked, AskedBeam
from beamuq.api.calibrate_and_decide import check_same, decided
from beamuq.api.calibration_file import CalibrationFile, read_calibration
from beamuq.api.candidate_records import ANSWER_LABELS, Correct, Name, Quality, Rows, no_question, placed_rows
from beamuq.api.decode_prompts import BATCH, decode, open_model
from beamuq.api.open_models import Similarity, open_similarity
from beamuq.api.score_candidates import check_settings, score
from beamuq.beam_mass_theorem import corrected_threshold, covered_mass
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError
from beamuq.methods import candidate_weights
from beamuq.prompts import prompt_template as templates
from beamuq.scorers.quality_metrics import answer_f1

DEMO_MODEL = "packaged:smollm2-135m-instruct"
STYLES = {"plain": "base", "chat": "instruct"}
"""How a model is asked, and the folder of templates for it."""
EXAMPLES = tuple(
    {"question": question, "answers": [answer]}
    for question, answer in (
        ("What is the capital of Italy?", "Rome"),
        ("Who is the painter of the Mona Lisa?", "Leonardo da Vinci"),
        ("How many sides has a hexagon?", "6"),
        ("Which planet is nearest to the Sun?", "Mercury"),
        ("In what year did the First World War end?", "1918"),
    )
)
SHOWN_METHODS = (
    "Dissimilarity",
    "Eccentricity",
    "EigVecDissimilarity",
    "CocoaMSP",
    "CocoaPPL",
    "Prob",
    "MTE",
    "Perplexity",
)


def ask(
    question: str | Sequence[str],
    model: Any = DEMO_MODEL,
    *,
    style: str = "plain",
    shots: Rows | None = None,
    prompt_template: str | Path | None = None,
    width: int = 10,
    max_new_tokens: int = 20,
    similarity: str | Similarity = "auto",
    epsilon: float = 0.0,
    alpha: float = 0.9,
    threshold: float | None = None,
    calibration: CalibrationFile | str | Path | None = None,
    force: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 1,
) -> Any:
    """Ask a model a question, or many, and measure how sure it is of its greedy answer, from a beam search.

    All bare stop tokens count as one ending, so that a text which may end in two ways is one beam with both
    probabilities; a recipe of a study does so with ``merge_stop_tokens: true`` (D21, merged endings).

    Parameters
    ----------
    question
        One question, or a list of them, which are decoded in batches: their common few-shot examples are run once.
    model
        A folder, ``hub:ORG/NAME`` or ``packaged:NAME``, as :func:`beamuq.api.open_models.model_folder` takes it, kept
        in memory for the next call; or ``(model, tokenizer)`` of transformers, on any device.
    style
        ``plain``: the prompt is continued as text; ``chat``: it is a user's message in the model's chat template.
    shots
        Few-shot examples: mappings with ``question`` and ``answers``, or a file of such rows;
        None: :data:`EXAMPLES`; an empty list: none.
    prompt_template
        A file, as those in ``beamuq/prompts``; None: that of adapter ``jsonl`` in this style.
    width, max_new_tokens
        M of the beam search; an answer that has not ended after so many tokens is cut.
    threshold
        Of Dissimilarity, from 0 to 1: decided where the certified interval lies on one side of it; None: not asked.
    calibration, force
        A calibration or its file: the probability of being right, and whether the answer is shown; ``force``: even
        where model, prompt, settings, similarity or version are not those that were calibrated.
    similarity, epsilon, alpha, device, dtype, threads
        As for :func:`beamuq.api.score_candidates.score`; device, dtype and threads are the model's too.

    Returns
    -------
    :class:`~beamuq.api.asked_answer.Asked`: what the model answers and how sure it is; of a list of questions a list.

    Raises
    ------
    BeamUQError
        In one line: an unknown model, a prompt that is too long, a bad template, a model the engine does not know.

    Examples
    --------
    >>> answer = beamuq.ask("Who wrote Hamlet?")  # doctest: +SKIP
    >>> answer.answer, answer.uncertainty("CocoaPPL")  # doctest: +SKIP
    """
    questions = [question] if isinstance(question, str) else list(question)
    if style not in STYLES:
        raise BeamUQError(f"style {style!r}: choose from {', '.join(STYLES)}")
    if not questions or not all(isinstance(each, str) and each.strip() for each in questions):
        raise BeamUQError("the question is empty; write one" if questions else "no question; give one")
    for name, value in (("width", width), ("max_new_tokens", max_new_tokens)):
        if value < 1:
            raise BeamUQError(f"{name}: {value}: must be at least 1")
    check_settings(epsilon=epsilon, alpha=alpha)
    if threshold is not None and not 0 <= threshold <= 1:
        raise BeamUQError(f"threshold: {threshold}: must be from 0 to 1")
    made = calibration if isinstance(calibration, CalibrationFile | None) else read_calibration(calibration)
    if made is not None and made.form == "multinomial":
        raise BeamUQError(f"calibration: form {made.form!r}: ask scores beams; calibrate with --form beamsearch")
    loaded = open_model(model, device=device, dtype=dtype, threads=threads)
    scorer = open_similarity(similarity, device=device, dtype=dtype, threads=threads)
    prompt, examples = _prompts(style, shots, prompt_template)
    settings = {"width": width, "max_new_tokens": max_new_tokens, "epsilon": epsilon, "alpha": alpha}
    identity = {
        "model_hash": loaded.content,
        "prompt_hash": _prompt_hash(f"{STYLES[style]}\n{prompt('?')}", settings),
    }
    known = identity | {"model": loaded.name, "similarity": scorer.name}
    warnings = [] if made is None else check_same(made, known, force=force, where="calibration")
    prompts = [prompt(each) for each in questions]
    rows = decode(
        loaded.model,
        loaded.tokenizer,
        prompts,
        beams=width,
        max_new_tokens=max_new_tokens,
        chat=style == "chat",
    )
    methods = dict.fromkeys((*SHOWN_METHODS, *([made.method] if made else ())))
    scores = score(rows, similarity=scorer, methods=list(methods), epsilon=epsilon, alpha=alpha)
    scores = scores[scores["variant"] != "multinomial"]
    asked = []
    for text, row in zip(questions, rows, strict=True):
        own = scores[scores["id"] == row["id"]].assign(id="1").reset_index(drop=True)
        dissimilarity = own[own["method"] == "Dissimilarity"].iloc[0]
        answer, beams = row["answer"], row["beams"]
        logprob = np.array([[beam["logprob"] for beam in beams]])
        mask = np.ones(logprob.shape, dtype=bool)
        shares = candidate_weights.restricted_mass(logprob, mask, epsilon)[0].tolist()
        asked.append(
            Asked(
                question=text,
                model=loaded.name,
                style=style,
                examples=examples,
                has_chat_template=bool(getattr(loaded.tokenizer, "chat_template", None)),
                answer=answer["text"],
                probability=math.exp(answer["logprob"]),
                tokens=len(answer["token_ids"]),
                ended=answer["ended"],
                beams=tuple(
                    AskedBeam(beam["text"], math.exp(beam["logprob"]), share, beam["ended"])
                    for beam, share in zip(beams, shares, strict=True)
                ),
                width=width,
                covered_mass=float(covered_mass(logprob, mask)[0]),
                corrected_threshold=corrected_threshold(width),
                low=float(dissimilarity["low"]),
                high=float(dissimilarity["high"]),
                threshold=threshold,
                uncertainties=own,
                **identity,
                decision=None if made is None else _decision(made, own, warnings),
            )
        )
    return asked[0] if isinstance(question, str) else asked


class Shot(StrictModel):
    """A few-shot example; other columns are left out."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)

    question: str
    answers: Annotated[list[str], Field(min_length=1)]


class AskedRow(StrictModel):
    """A question of a file that :func:`ask_all` takes, with right answers; other columns are left out."""

    model_config = Shot.model_config

    id: Name = ""
    question: str
    answers: Annotated[list[str] | None, Field(min_length=1)] = None
    correct: Correct = None
    quality: Quality = None
    group: Name | None = None


def ask_all(rows: Rows, model: Any = DEMO_MODEL, **options: Any) -> pd.DataFrame:
    """Ask many questions; a frame as ``score`` gives it, for ``calibrate``, with the answers, the model and the prompt.

    Parameters
    ----------
    rows
        A file as ``score`` takes it, mappings or a frame, with ``question``, and ``id``, ``group``, ``correct`` or
        ``quality``; or ``answers``, a list of right ones, from which quality is found: the larger of token F1 and
        containment.
    model, options
        As for :func:`ask`.

    Raises
    ------
    BeamUQError
        As :func:`ask`; for a bad row, in one line.
    """
    items: list[AskedRow] = [validated(AskedRow, dict(row), place) for place, row in placed_rows(rows)]
    if not items:
        raise no_question(rows)
    machine = {name: options[name] for name in ("device", "dtype", "threads") if name in options}
    options["similarity"] = open_similarity(options.get("similarity", "auto"), **machine)  # once
    frames = []
    for start in tqdm(range(0, len(items), BATCH), desc="batches of questions", disable=None):
        members = items[start : start + BATCH]
        answers: list[Asked] = ask([item.question for item in members], model, **options)
        for position, (item, asked) in enumerate(zip(members, answers, strict=True), start=start + 1):
            labels: dict[str, Any] = {
                name: getattr(asked, name) for name in ("answer", "model", "model_hash", "prompt_hash")
            }
            labels |= {name: value for name in ANSWER_LABELS if (value := getattr(item, name)) is not None}
            if item.answers is not None and "quality" not in labels:
                labels["quality"] = answer_f1(asked.answer, item.answers)
            frames.append(asked.uncertainties.assign(id=item.id or str(position), **labels))
    return pd.concat(frames, ignore_index=True)


def _prompt_hash(around: str, settings: Mapping[str, float]) -> str:
    """Of the prompt without its question, and of those settings that change scores and are not the defaults."""
    defaults = inspect.signature(ask).parameters
    other = {name: value for name, value in settings.items() if value != defaults[name].default}
    return hashlib.sha256((around + (json.dumps(other) if other else "")).encode()).hexdigest()


def _decision(made: CalibrationFile, scores: pd.DataFrame, warnings: Sequence[str]) -> dict[str, Any]:
    """What a calibration says of the one answer."""
    of = (scores["method"] == made.method) & (scores["variant"] == made.form) & (scores["setting"] == made.setting)
    value = scores.loc[of, "value"]
    if value.empty or value.isna().any():
        why = scores.loc[of, "reason"].iloc[0] if len(value) else "not scored by ask"
        raise BeamUQError(f"calibration: method {made.method!r}: {why}; calibrate another method")
    found = decided(made, value.tolist())[0].to_dict("records")[0]
    return {"method": made.method, **{str(key): each for key, each in found.items()}, "warnings": tuple(warnings)}


def _prompts(style: str, shots: Rows | None, prompt_template: str | Path | None) -> tuple[Callable[[str], str], int]:
    """From a question to its prompt, and how many examples stand before it."""
    path = templates.PROMPTS / STYLES[style] / "jsonl.txt" if prompt_template is None else Path(prompt_template)
    template, examples = templates.load(path), []
    for place, row in placed_rows(EXAMPLES if shots is None else shots):
        shot: Shot = validated(Shot, dict(row), f"shots: {place}")
        examples.append({"question": shot.question, "references": shot.answers, "options": []})

    def prompt(question: str) -> str:
        asked = {"question": " ".join(question.split()), "options": [], "history": [], "context": []}
        return templates.render(template, asked, examples, where=str(path))

    return prompt, len(examples)
