"""What a model answered to a question and how sure it is, and how that is printed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from beamuq.api.rows import number
from beamuq.errors import BeamUQError, hint
from beamuq.made_date import made

LEFT_OUT = ("uncertainties", "has_chat_template", "doubts")  # of JSON
LONG = 10  # tokens of an answer with so many wordings that no width finds most of them
BAR = 30  # characters of a bar at p = 1


@dataclass(frozen=True)
class AskedBeam:
    """One hypothesis: its probability, its weight among the beams, and whether it ended."""

    text: str
    probability: float
    weight: float
    ended: bool


@dataclass(frozen=True)
class Asked:
    """What a model answers and how sure it is, to ``print``.

    covered_mass
        Probability of all beams together; ``corrected_threshold``: what the paper's theorem, put
        right, asks of it, M/(M + 1).
    low, high
        The certified interval, which holds Dissimilarity under the model's whole distribution,
        whatever there is beside the beams, and 0 to 1 where the similarity cut texts;
        ``threshold``: what it is held against.
    uncertainties
        A frame as ``score`` gives it.
    style, examples
        ``plain`` or ``chat``, and how many few-shot examples stand before the question.
    model_hash, prompt_hash
        sha256 of the model's files, and of the prompt around the question with the settings that
        change scores; of a conversation of its system prompt.
    decision
        By a calibration: method, value, right (the probability that it is right), right_low and
        right_high (the two that it is made of), shown, reason, warnings; or None.
    messages
        How many a conversation has, whose last one is the question; 0: a question alone was asked.
    stop
        What ends an answer.
    doubts
        Why the texts may be no answers.
    server
        What is known of the server that answered, whose weights are unknown (``model_hash``: None).
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
    model_hash: str | None
    prompt_hash: str
    decision: Mapping[str, Any] | None
    messages: int = 0
    stop: str = "newline"
    doubts: tuple[str, ...] = ()
    server: Mapping[str, Any] | None = None

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
        """Where the whole interval lies: ``below`` the threshold, ``above``, or ``undecided``."""
        if self.threshold is None:
            return None
        if self.high < self.threshold:
            return "below"
        if self.low > self.threshold:
            return "above"
        return "undecided"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why these numbers may mislead; empty where nothing speaks against them."""
        warnings = list(self.doubts)
        if self.covered_mass < 0.5:
            warnings.append(
                f"the beams cover {self.covered_mass:.2f} of the probability: the estimate of "
                f"Dissimilarity may be off by up to {1 - self.covered_mass:.2f}; "
                f"{'; '.join(self._what_covers_more())}"
            )
        if not self.ended:
            warnings.append("the answer was cut at the largest number of tokens: raise it")
        if self._cut_beams:
            warnings.append(
                f"{self._cut_beams} of {len(self.beams)} beams were cut at the largest number of "
                "tokens"
            )
        if self.decision:
            warnings += self.decision["warnings"]
        return tuple(warnings)

    @property
    def _cut_beams(self) -> int:
        return sum(not beam.ended for beam in self.beams)

    def _what_covers_more(self) -> list[str]:
        """The advice that fits the cause."""
        most_are_cut = 2 * self._cut_beams > len(self.beams)
        is_long = self.tokens > LONG
        advice = []
        if most_are_cut:
            advice.append(
                "most beams were cut: raise the largest number of tokens, or ask for a short answer"
            )
        elif is_long:
            advice.append("a long answer has many wordings: ask for a short one")
        if self.style == "plain" and self.has_chat_template:
            advice.append("the model has a chat template, which --style chat uses")
        if not most_are_cut and not is_long:
            advice.append("more width covers more")
        return advice

    def as_json(self) -> str:
        """Everything as one JSON object."""
        content = {key: value for key, value in asdict(self).items() if key not in LEFT_OUT}
        columns = ["method", "variant", "value", "confidence", "range", "similarity"]
        scores = self.uncertainties.astype(object).where(self.uncertainties.notna(), None)
        content["decided"] = self.decided
        content["uncertainties"] = scores[columns].to_dict("records")
        content["warnings"] = self.warnings
        content |= made()
        return json.dumps(content, ensure_ascii=False)

    @property
    def texts(self) -> dict[str, float]:
        """Each text's probability among the beams, the most probable first.

        Two endings of one text count once.
        """
        probabilities: dict[str, float] = {}
        for beam in self.beams:
            probabilities[beam.text] = probabilities.get(beam.text, 0.0) + beam.probability
        ranked = sorted(probabilities, key=probabilities.__getitem__, reverse=True)
        return {text: probabilities[text] for text in ranked}

    def __str__(self) -> str:
        return self.as_text()

    def as_text(self, *, verbose: bool = False) -> str:
        """What ``beamuq ask`` prints; with ``verbose`` every beam too."""
        probability = self.texts.get(self.answer, self.probability)
        lines = [
            f"question      {_on_one_line(self.question)}",
            f"asked         {self._how_asked()}",
            f"answer        {_shown(self.answer)}",
        ]
        if self.decision:
            lines.append(f"decision      {_decision_as_text(self.decision)}")
        lines += [
            f"how sure      {probability:.1%} of the probability is on this text",
            "",
            *self._bars(),
            "",
            f"interval      {self.low:.3f} to {self.high:.3f}, width {self.high - self.low:.3f}: "
            f"holds Dissimilarity under the model's whole distribution ({len(self.beams)} "
            "outcomes found)",
        ]
        if self.threshold is not None:
            lines.append(f"  threshold {self.threshold:g}: {self.decided}")
        if verbose:
            lines += self._beam_lines()
        lines += self._score_lines()
        lines += [f"warning: {warning}" for warning in self.warnings]
        return "\n".join(lines)

    def _how_asked(self) -> str:
        if self.server is not None:
            server = f"{self.server['kind']} {self.server['version']}"
            return f"over {server}, whose weights are unknown, {self._in_which_form()}"
        return self._in_which_form()

    def _in_which_form(self) -> str:
        if self.messages:
            return f"in the model's chat template, a conversation of {self.messages} messages"
        examples = f" with {self.examples} examples" if self.examples else ""
        if self.style == "chat":
            return f"in the model's chat template{examples}"
        other = "; --style chat uses the model's chat template" if self.has_chat_template else ""
        return f"plainly{examples}{other}"

    def _bars(self) -> list[str]:
        lines = []
        for text, probability in self.texts.items():
            mark = " ← the answer" if text == self.answer else ""
            lines.append(_bar(probability, _shown(text) + mark))
        return [*lines, _bar(1 - self.covered_mass, "(not found)", "░")]

    def _beam_lines(self) -> list[str]:
        beams = [
            f"{beam.probability:.4f}  {beam.weight:.4f}  {_shown(beam.text)}" for beam in self.beams
        ]
        return [
            f"model         {self.model}; the answer has {self.tokens} tokens, p = "
            f"{self.probability:.4f}",
            "",
            "p       weight  beam",
            *beams,
            f"covered mass  {self.covered_mass:.3f} by {len(self.beams)} beams",
            "",
        ]

    def _score_lines(self) -> list[str]:
        lines = [
            "scores        higher = more uncertain; similarity: "
            f"{self.uncertainties['similarity'].iloc[0]}"
        ]
        for row in self.uncertainties.to_dict("records"):
            name = row["method"]
            if row["variant"]:
                name += " + beamsearch"
            elif name == "Prob":
                name += " (−log p)"
            confidence = number(row["confidence"])
            shown = f", confidence {confidence}" if confidence else ""
            if pd.isna(row["value"]):
                lines.append(f"  {name:<34}{'none':>10}  {row['reason']}")
                continue
            lines.append(f"  {name:<34}{number(row['value']):>10}  in {row['range']}{shown}")
        return lines


def _decision_as_text(decision: Mapping[str, Any]) -> str:
    ends = [f"{decision[end]:.2f}" for end in ("right_low", "right_high")]
    between = f" ({' or '.join(ends)})" if len(set(ends)) > 1 else ""
    shown = "shown" if decision["shown"] else "withheld"
    if decision["reason"]:
        shown += f" ({decision['reason']})"
    return f"p(right) {decision['right']:.2f}{between} by {decision['method']}; {shown}"


def _shown(text: str) -> str:
    return _on_one_line(text) or "(empty)"


def _on_one_line(text: str) -> str:
    return text.replace("\n", "\\n")


def _bar(p: float, text: str, block: str = "█") -> str:
    """A line of a bar chart: p, a bar of half characters as long as it, and what it is of."""
    halves = round(2 * BAR * p)
    bar = block * (halves // 2)
    if halves % 2 and block == "█":
        bar += "▌"
    return f"{max(p, 0):6.3f}  {bar:<{BAR}}  {text}"
