"""One question to one model: its answer, its beams with their weights, the covered mass, and every uncertainty."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pandas as pd
from pydantic import ConfigDict, Field
from tqdm import tqdm

from beamuq.api.calibrate_and_decide import check_same, decided
from beamuq.api.calibration_file import Calibration, read_calibration
from beamuq.api.candidate_records import ANSWER_LABELS, Correct, Name, Quality, Rows, no_question, placed_rows
from beamuq.api.open_models import Similarity, model_folder, open_similarity
from beamuq.api.score_candidates import check_settings, score
from beamuq.api.score_table_text import number
from beamuq.beam_mass_theorem import corrected_threshold, covered_mass
from beamuq.config_errors import StrictModel, validated
from beamuq.errors import BeamUQError, hint
from beamuq.methods import candidate_weights
from beamuq.methods.dissimilarity_estimators import WEIGHTINGS, Found, certified_interval, standard_error
from beamuq.methods.log_space_sums import Array
from beamuq.models.model_folder import model_identity
from beamuq.prompts import prompt_template as templates
from beamuq.scorers.quality_metrics import answer_f1
from beamuq.scorers.scorer_protocol import scored
from beamuq.text_normalization import clean

if TYPE_CHECKING:
    from beamuq.decoding import Candidate

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
BAR = 30  # characters of a bar at p = 1
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


@dataclass(frozen=True)
class AskedBeam:
    """One hypothesis: its probability, its weight among the beams, and whether it ended or was cut."""

    text: str
    probability: float
    weight: float
    ended: bool


@dataclass(frozen=True)
class Asked:
    """What a model answers and how sure it is. ``print`` shows it; ``uncertainties`` is a frame as ``score`` gives it.

    covered_mass: probability of all beams together; corrected_threshold: what the paper's theorem, put right, asks of
    it, M/(M + 1). low, high: the certified interval, which holds Dissimilarity under the model's whole distribution,
    whatever there is beside the ``outcomes`` found; threshold: what it is held against.
    model_hash, prompt_hash: sha256 of the model's files, and of the prompt around the question with the settings that
    change scores. decision: by a calibration, its method, the score, low and high (probabilities of being right),
    shown, reason, warnings; or None.

    With ``verbose``, else None: never_worse: the estimate of Dissimilarity from the B = ``fair_share`` most probable
    outcomes found and M − B ``draws`` outside them, whose variance is at most ``variance_ratio`` times that of M
    samples; never_worse_error: its standard error, None of a single draw. B = 0: no B < M most probable outcomes cover
    their share B/M of the probability. Nothing is drawn where nothing is left.
    """

    question: str
    model: str
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
    outcomes: int
    threshold: float | None
    uncertainties: pd.DataFrame
    model_hash: str
    prompt_hash: str
    decision: dict[str, Any] | None
    never_worse: float | None = None
    never_worse_error: float | None = None
    fair_share: int | None = None
    draws: int | None = None
    variance_ratio: float | None = None

    def uncertainty(self, method: str = "Dissimilarity") -> float:
        """One method's score: the beam form of a method in two forms. Higher = more uncertain."""
        rows = self.uncertainties[self.uncertainties["method"] == method]
        if len(rows) != 1:
            raise BeamUQError(f"method {method!r}: not scored here; {hint(method, self.uncertainties['method'])}")
        return float(rows["value"].item())

    @property
    def decided(self) -> str | None:
        """On which side of the threshold the whole interval lies: ``below``, ``above`` or, across it, ``undecided``."""
        if self.threshold is None:
            return None
        return "below" if self.high < self.threshold else "above" if self.low > self.threshold else "undecided"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why these numbers may mislead; empty where nothing speaks against them."""
        told = []
        if self.covered_mass < 0.5:
            told.append(
                f"the beams cover {self.covered_mass:.2f} of the probability: the estimate of Dissimilarity may be off "
                f"by up to {1 - self.covered_mass:.2f}; more width covers more"
            )
        if not self.ended:
            told.append("the answer was cut at the largest number of tokens: raise it")
        cut = sum(not beam.ended for beam in self.beams)
        if cut:
            told.append(f"{cut} of {len(self.beams)} beams were cut at the largest number of tokens")
        return (*told, *(self.decision["warnings"] if self.decision else ()))

    def as_json(self) -> str:
        """Everything as one JSON object."""
        content = {key: value for key, value in asdict(self).items() if key != "uncertainties"}
        scores = self.uncertainties[["method", "variant", "value", "range", "similarity"]]
        content |= {"decided": self.decided, "uncertainties": scores.to_dict("records"), "warnings": self.warnings}
        return json.dumps(content, ensure_ascii=False)

    @property
    def texts(self) -> dict[str, float]:
        """The probability of each text among the beams, the most probable first: two endings of one text count once."""
        found: dict[str, float] = {}
        for beam in self.beams:
            found[beam.text] = found.get(beam.text, 0.0) + beam.probability
        return dict(sorted(found.items(), key=lambda each: -each[1]))

    def __str__(self) -> str:
        lines = [
            f"question      {self.question}",
            f"answer        {_shown(self.answer)}",
            *([f"decision      {self._decision()}"] if self.decision else []),
            f"how sure      {self.texts.get(self.answer, self.probability):.1%} of the probability is on this text",
            "",
            *(_bar(p, _shown(text) + " ← the answer" * (text == self.answer)) for text, p in self.texts.items()),
            _bar(1 - self.covered_mass, "(not found)", "░"),
            "",
            f"interval      {self.low:.3f} to {self.high:.3f}, width {self.high - self.low:.3f}: "
            f"holds Dissimilarity under the model's whole distribution ({self.outcomes} outcomes found)",
            *([] if self.threshold is None else [f"  threshold {self.threshold:g}: {self.decided}"]),
            *self._more(),
            f"scores        higher = more uncertain; similarity: {self.uncertainties['similarity'].iloc[0]}",
        ]
        for row in self.uncertainties.to_dict("records"):
            name = row["method"] + (" + beamsearch" if row["variant"] else "")
            lines.append(f"  {name:<34}{number(row['value']):>10}  in {row['range']}")
        lines += [f"warning: {told}" for told in self.warnings]
        return "\n".join(lines)

    def _more(self) -> list[str]:
        """What ``verbose`` adds."""
        if self.never_worse is None:
            return []
        error = "" if self.never_worse_error is None else f" ± {self.never_worse_error:.3f}"
        M, B = self.width, self.fair_share
        share = f"met by {B}: the variance is at most {self.variance_ratio:.2f} times that of {M} samples"
        if not B:
            share = f"not met: no B < {M} outcomes found cover B/{M} of the probability, so that all {M} are draws"
        return [
            f"never worse   {self.never_worse:.3f}{error}: "
            f"Dissimilarity by the {B} most probable outcomes found and {self.draws} draws outside",
            f"fair share    {share}",
            f"model         {self.model}; the answer has {self.tokens} tokens, p = {self.probability:.4f}",
            "",
            "p       weight  beam",
            *(f"{beam.probability:.4f}  {beam.weight:.4f}  {_shown(beam.text)}" for beam in self.beams),
            f"covered mass  {self.covered_mass:.3f} by {len(self.beams)} beams",
            "",
        ]

    def _decision(self) -> str:
        told = self.decision or {}
        between = " or ".join(dict.fromkeys(f"{told[end]:.2f}" for end in ("low", "high")))
        shown = ("shown" if told["shown"] else "withheld") + (f" ({told['reason']})" if told["reason"] else "")
        return f"p(right) {between} by {told['method']}; {shown}"


def _shown(text: str) -> str:
    return text or "(empty)"


def _bar(p: float, text: str, block: str = "█") -> str:
    """A line of a bar chart: p, a bar of half characters as long as it, and what it is of."""
    halves = round(2 * BAR * p)
    return f"{max(p, 0):6.3f}  {block * (halves // 2) + ('▌' if halves % 2 and block == '█' else ''):<{BAR}}  {text}"


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
    verbose: bool = False,
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
    verbose
        The never-worse estimate too (docs/theory.md), which takes a further search, of no more rows than beams may;
        its draws are the same at every call. All there is is then printed.
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
    # no more rows than a beam search may take
    further = [decoding.NeverWorse(width, rows=width * max_new_tokens)] if verbose else []
    found = decoding.decode(
        language_model,
        [decoding.Prompt("the question", tuple(ids))],
        [decoding.Greedy(), decoding.Beam(width), *further],
        stop_ids=stops,
        seed=0,
        max_new_tokens=max_new_tokens,
        merge_stop_tokens=decoding.bare_stops(tokenizer, stops),
    )
    texts = [clean(decoding.candidate_text(tokenizer, each.token_ids, stops)) for each in found]
    answer, beams = found[0], [each for each in found if each.strategy == f"beam M={width}"]
    logprob = np.array([[beam.logprob for beam in beams]])
    mask = np.ones(logprob.shape, dtype=bool)
    shares = candidate_weights.restricted_mass(logprob, mask, epsilon)[0]
    row = {
        "answer": {
            "text": texts[0],
            "token_logprobs": answer.token_logprobs.tolist(),
            "token_entropies": None if answer.entropies is None else answer.entropies.tolist(),
        },
        "beams": [{"text": text, "logprob": beam.logprob} for text, beam in zip(texts[1:], beams, strict=False)],
    }
    methods = dict.fromkeys((*SHOWN_METHODS, *([made.method] if made else ())))
    scores = score([row], similarity=scorer, methods=list(methods), epsilon=epsilon, alpha=alpha)
    scores = scores[scores["variant"] != "multinomial"].reset_index(drop=True)
    if further:
        similar = scored(scorer.scorer, [(texts[0], text) for text in texts]).entail
        estimates = _estimates(found, similar, range(1 + len(beams), len(found)))
    else:
        dissimilarity = scores[scores["method"] == "Dissimilarity"].iloc[0]
        estimates = {"low": float(dissimilarity["low"]), "high": float(dissimilarity["high"]), "outcomes": len(beams)}
    return Asked(
        question=question,
        model=model,
        answer=texts[0],
        probability=float(np.exp(answer.logprob)),
        tokens=len(answer.token_ids),
        ended=answer.terminated,
        beams=tuple(
            AskedBeam(text, float(np.exp(beam.logprob)), float(share), beam.terminated)
            for text, beam, share in zip(texts[1:], beams, shares, strict=False)
        ),
        width=width,
        covered_mass=float(covered_mass(logprob, mask)[0]),
        corrected_threshold=corrected_threshold(width),
        **estimates,
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


def _estimates(found: Sequence[Candidate], similarity: Array, mixed: Sequence[int]) -> dict[str, Any]:
    """The certified interval by every outcome found, and the never-worse estimate by those at the places ``mixed``."""
    logprob, dissimilarity = np.array([[each.logprob for each in found]]), 1.0 - similarity[None, :]
    known = np.zeros(logprob.shape, dtype=bool)
    known[0, list({each.token_ids: position for position, each in enumerate(found)}.values())] = True
    low, high = certified_interval(logprob, dissimilarity, known)
    drawn = np.array([[found[position].policy_logprob is not None for position in mixed]])
    estimated = Found(logprob[:, mixed], dissimilarity[:, mixed], np.ones_like(drawn), drawn)
    error, draws = float(standard_error(estimated)[0]), int(drawn.sum())
    return {
        "low": float(low[0]),
        "high": float(high[0]),
        "outcomes": int(known.sum()),
        "never_worse": float(WEIGHTINGS["stratified"].estimate(estimated)[0]),
        "never_worse_error": None if np.isnan(error) else error,
        "fair_share": len(mixed) - draws,
        "draws": draws,
        "variance_ratio": float(estimated.left[0]) * len(mixed) / max(draws, 1),
    }


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
