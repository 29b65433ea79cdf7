"""One question to one model: its answer, its beams with their weights, the covered mass, and every uncertainty."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field
from tqdm import tqdm

from beamuq.api.asked_answer import Asked, AskedBeam
from beamuq.api.calibrate_and_decide import check_same, decided
from beamuq.api.calibration_file import Calibration, read_calibration
from beamuq.api.candidate_records import ANSWER_LABELS, Correct, Name, Quality, Rows, no_question, placed_rows
from beamuq.api.open_models import Similarity, model_folder, open_similarity
from beamuq.api.score_candidates import check_settings, score
from beamuq.beam_mass_theorem import corrected_threshold, covered_mass
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError
from beamuq.methods import candidate_weights
from beamuq.models.model_folder import model_identity
from beamuq.prompts import prompt_template as templates
from beamuq.scorers.quality_metrics import answer_f1
from beamuq.text_normalization import clean

DEMO_MODEL = "packaged:smollm2-135m-instruct"
STYLES = ("auto", "base", "instruct")
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
    question: str,
    model: str = DEMO_MODEL,
    *,
    style: str = "auto",
    shots: Rows | None = None,
    prompt_template: str | Path | None = None,
    width: int = 10,
    max_new_tokens: int = 20,
    similarity: str | Similarity = "auto",
    epsilon: float = 0.0,
    alpha: float = 0.9,
    threshold: float | None = None,
    calibration: Calibration | str | Path | None = None,
    force: bool = False,
    device: str = "auto",
    dtype: str = "auto",
    threads: int = 1,
) -> Asked:
    """Ask a model one question and measure how sure it is of its greedy answer, from a beam search.

    All bare stop tokens count as one ending, so that a text which may end in two ways is one beam with both
    probabilities; a recipe of a study does so with ``merge_stop_tokens: true`` (D21, merged endings).

    Parameters
    ----------
    model
        A folder, ``hub:ORG/NAME`` or ``packaged:NAME``, as :func:`beamuq.api.open_models.model_folder` takes it. A
        model is kept in memory for the next call.
    style
        ``base``: the prompt is continued as text; ``instruct``: it is a user's message in the model's chat template;
        ``auto``: ``instruct`` where the tokenizer has a template, but ``base`` for the packaged model, which then
        answers better.
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

    Raises
    ------
    BeamUQError
        In one line: an unknown model, a prompt that is too long, a bad template, a model the engine does not know.
    """
    if style not in STYLES:
        raise BeamUQError(f"style {style!r}: choose from {', '.join(STYLES)}")
    if not question.strip():
        raise BeamUQError("the question is empty; write one")
    for name, value in (("width", width), ("max_new_tokens", max_new_tokens)):
        if value < 1:
            raise BeamUQError(f"{name}: {value}: must be at least 1")
    check_settings(epsilon=epsilon, alpha=alpha)
    if threshold is not None and not 0 <= threshold <= 1:
        raise BeamUQError(f"threshold: {threshold}: must be from 0 to 1")
    made = calibration if isinstance(calibration, Calibration | None) else read_calibration(calibration)
    if made is not None and made.form == "multinomial":
        raise BeamUQError(f"calibration: form {made.form!r}: ask scores beams; calibrate with --form beamsearch")
    folder = model_folder(model)
    from beamuq import decoding
    from beamuq.models import devices, prompt_tokens

    on, precision = devices.prepare(device, dtype, threads)
    scorer = open_similarity(similarity, device=device, dtype=dtype, threads=threads)
    language_model, tokenizer = _loaded_model(folder, precision, on)
    if style == "auto":
        style = "instruct" if tokenizer.chat_template and model != DEMO_MODEL else "base"
    prompt = _prompts(style, shots, prompt_template)
    settings = {"width": width, "max_new_tokens": max_new_tokens, "epsilon": epsilon, "alpha": alpha}
    identity: dict[str, Any] = {
        "model_hash": model_identity(folder)["content"],
        "prompt_hash": _prompt_hash(f"{style}\n{prompt('?')}", settings),
    }
    told = identity | {"model": model, "similarity": scorer.name}
    warnings = [] if made is None else check_same(made, told, force=force, where="calibration")
    if style == "instruct":
        # a thought before the answer would take the answer's place
        thinking = False if prompt_tokens.can_think(tokenizer) else None
        ids = prompt_tokens.chat_prompt_ids(tokenizer, prompt(question), thinking)
    else:
        ids = prompt_tokens.plain_prompt_ids(tokenizer, prompt(question))
    stops = decoding.stop_tokens(tokenizer, language_model)
    answer, *beams = decoding.decode(
        language_model,
        [decoding.Prompt("the question", tuple(ids))],
        [decoding.Greedy(), decoding.Beam(width)],
        stop_ids=stops,
        seed=0,
        max_new_tokens=max_new_tokens,
        merge_stop_tokens=decoding.bare_stops(tokenizer, stops),
    )
    text, *texts = (clean(decoding.candidate_text(tokenizer, each.token_ids, stops)) for each in (answer, *beams))
    logprob = np.array([[beam.logprob for beam in beams]])
    mask = np.ones(logprob.shape, dtype=bool)
    shares = candidate_weights.restricted_mass(logprob, mask, epsilon)[0]
    row = {
        "answer": {
            "text": text,
            "token_logprobs": answer.token_logprobs.tolist(),
            "token_entropies": None if answer.entropies is None else answer.entropies.tolist(),
        },
        "beams": [{"text": text, "logprob": beam.logprob} for text, beam in zip(texts, beams, strict=True)],
    }
    methods = dict.fromkeys((*SHOWN_METHODS, *([made.method] if made else ())))
    scores = score([row], similarity=scorer, methods=list(methods), epsilon=epsilon, alpha=alpha)
    scores = scores[scores["variant"] != "multinomial"].reset_index(drop=True)
    dissimilarity = scores[scores["method"] == "Dissimilarity"].iloc[0]
    return Asked(
        question=question,
        model=model,
        answer=text,
        probability=float(np.exp(answer.logprob)),
        tokens=len(answer.token_ids),
        ended=answer.terminated,
        beams=tuple(
            AskedBeam(text, float(np.exp(beam.logprob)), float(share), beam.terminated)
            for text, beam, share in zip(texts, beams, shares, strict=True)
        ),
        width=width,
        covered_mass=float(covered_mass(logprob, mask)[0]),
        corrected_threshold=corrected_threshold(width),
        low=float(dissimilarity["low"]),
        high=float(dissimilarity["high"]),
        threshold=threshold,
        uncertainties=scores,
        **identity,
        decision=None if made is None else _decision(made, scores, warnings),
    )


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


def ask_all(rows: Rows, model: str = DEMO_MODEL, **options: Any) -> pd.DataFrame:
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
    machine = {name: options[name] for name in ("device", "dtype", "threads") if name in options}
    options["similarity"] = open_similarity(options.get("similarity", "auto"), **machine)  # once
    frames = []
    for position, (place, row) in enumerate(tqdm(list(placed_rows(rows)), desc="questions", disable=None), start=1):
        item: AskedRow = validated(AskedRow, dict(row), place)
        asked = ask(item.question, model, **options)
        labels: dict[str, Any] = {
            name: getattr(asked, name) for name in ("answer", "model", "model_hash", "prompt_hash")
        }
        labels |= {name: value for name in ANSWER_LABELS if (value := getattr(item, name)) is not None}
        if item.answers is not None and "quality" not in labels:
            labels["quality"] = answer_f1(asked.answer, item.answers)
        frames.append(asked.uncertainties.assign(id=item.id or str(position), **labels))
    if not frames:
        raise no_question(rows)
    return pd.concat(frames, ignore_index=True)


def _prompt_hash(around: str, settings: Mapping[str, float]) -> str:
    """Of the prompt without its question, and of those settings that change scores and are not the defaults."""
    defaults = inspect.signature(ask).parameters
    other = {name: value for name, value in settings.items() if value != defaults[name].default}
    return hashlib.sha256((around + (json.dumps(other) if other else "")).encode()).hexdigest()


def _decision(made: Calibration, scores: pd.DataFrame, warnings: Sequence[str]) -> dict[str, Any]:
    """What a calibration says of the one answer."""
    of = (scores["method"] == made.method) & (scores["variant"] == made.form) & (scores["setting"] == made.setting)
    value = scores.loc[of, "value"]
    if value.empty or value.isna().any():
        why = scores.loc[of, "reason"].iloc[0] if len(value) else "not scored by ask"
        raise BeamUQError(f"calibration: method {made.method!r}: {why}; calibrate another method")
    found = decided(made, value.tolist())[0].to_dict("records")[0]
    return {"method": made.method, **{str(key): each for key, each in found.items()}, "warnings": tuple(warnings)}


@lru_cache(maxsize=1)
def _loaded_model(folder: Path, dtype: Any, device: Any) -> tuple[Any, Any]:
    from transformers.utils import logging

    from beamuq.models.load_model import load_causal

    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    return load_causal(folder, dtype=dtype, device=device)


def _prompts(style: str, shots: Rows | None, prompt_template: str | Path | None) -> Callable[[str], str]:
    """From a question to its prompt."""
    path = templates.PROMPTS / style / "jsonl.txt" if prompt_template is None else Path(prompt_template)
    template, examples = templates.load(path), []
    for place, row in placed_rows(EXAMPLES if shots is None else shots):
        shot: Shot = validated(Shot, dict(row), f"shots: {place}")
        examples.append({"question": shot.question, "references": shot.answers, "options": []})

    def prompt(question: str) -> str:
        asked = {"question": " ".join(question.split()), "options": [], "history": [], "context": []}
        return templates.render(template, asked, examples, where=str(path))

    return prompt
