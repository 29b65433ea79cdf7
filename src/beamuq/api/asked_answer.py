"""What a model answered to one question and how sure it is, and how that is shown."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from beamuq.api.print_scores import number
from beamuq.errors import BeamUQError, hint

LEFT_OUT = ("uncertainties", "has_chat_template")  # of JSON
BAR = 30  # characters of a bar at p = 1


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
    whatever there is beside the beams; threshold: what it is held against.
    style, examples: ``plain`` or ``chat``, and how many few-shot examples stand before the question.
    model_hash, prompt_hash: sha256 of the model's files, and of the prompt around the question with the settings that
    change scores. decision: by a calibration, its method, the score, right_low and right_high (its two probabilities),
    shown, reason, warnings; or None.
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
                f"by up to {1 - self.covered_mass:.2f}; {self._what_covers_more()}"
            )
        if not self.ended:
            told.append("the answer was cut at the largest number of tokens: raise it")
        cut = sum(not beam.ended for beam in self.beams)
        if cut:
            told.append(f"{cut} of {len(self.beams)} beams were cut at the largest number of tokens")
        return (*told, *(self.decision["warnings"] if self.decision else ()))

    def _what_covers_more(self) -> str:
        """The advice that fits the cause: answers that are cut, a model that is asked otherwise, too few beams."""
        if 2 * sum(not beam.ended for beam in self.beams) > len(self.beams):
            return "most beams were cut: raise the largest number of tokens, or ask for a short answer"
        if self.style == "plain" and self.has_chat_template:
            return "the model has a chat template, which --style chat uses; more width covers more"
        return "more width covers more"

    def as_json(self) -> str:
        """Everything as one JSON object."""
        content = {key: value for key, value in asdict(self).items() if key not in LEFT_OUT}
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
        return self.as_text()

    def as_text(self, *, verbose: bool = False) -> str:
        """What ``beamuq ask`` prints; with ``verbose`` every beam too."""
        lines = [
            f"question      {self.question}",
            f"asked         {self._asked()}",
            f"answer        {_shown(self.answer)}",
            *([f"decision      {self._decision()}"] if self.decision else []),
            f"how sure      {self.texts.get(self.answer, self.probability):.1%} of the probability is on this text",
            "",
            *(_bar(p, _shown(text) + " ← the answer" * (text == self.answer)) for text, p in self.texts.items()),
            _bar(1 - self.covered_mass, "(not found)", "░"),
            "",
            f"interval      {self.low:.3f} to {self.high:.3f}, width {self.high - self.low:.3f}: "
            f"holds Dissimilarity under the model's whole distribution ({len(self.beams)} outcomes found)",
            *([] if self.threshold is None else [f"  threshold {self.threshold:g}: {self.decided}"]),
            *(self._beams() if verbose else []),
            f"scores        higher = more uncertain; similarity: {self.uncertainties['similarity'].iloc[0]}",
        ]
        for row in self.uncertainties.to_dict("records"):
            name = row["method"] + (" + beamsearch" if row["variant"] else "")
            lines.append(f"  {name:<34}{number(row['value']):>10}  in {row['range']}")
        lines += [f"warning: {told}" for told in self.warnings]
        return "\n".join(lines)

    def _asked(self) -> str:
        shown = f" with {self.examples} examples" if self.examples else ""
        other = "; --style chat uses the model's chat template" if self.has_chat_template else ""
        return f"plainly{shown}{other}" if self.style == "plain" else f"in the model's chat template{shown}"

    def _beams(self) -> list[str]:
        return [
            f"model         {self.model}; the answer has {self.tokens} tokens, p = {self.probability:.4f}",
            "",
            "p       weight  beam",
            *(f"{beam.probability:.4f}  {beam.weight:.4f}  {_shown(beam.text)}" for beam in self.beams),
            f"covered mass  {self.covered_mass:.3f} by {len(self.beams)} beams",
            "",
        ]

    def _decision(self) -> str:
        told = self.decision or {}
        between = " or ".join(dict.fromkeys(f"{told[end]:.2f}" for end in ("right_low", "right_high")))
        shown = ("shown" if told["shown"] else "withheld") + (f" ({told['reason']})" if told["reason"] else "")
        return f"p(right) {between} by {told['method']}; {shown}"


def _shown(text: str) -> str:
    return text or "(empty)"


def _bar(p: float, text: str, block: str = "█") -> str:
    """A line of a bar chart: p, a bar of half characters as long as it, and what it is of."""
    halves = round(2 * BAR * p)
    return f"{max(p, 0):6.3f}  {block * (halves // 2) + ('▌' if halves % 2 and block == '█' else ''):<{BAR}}  {text}"
