"""How answers that `beamuq.decode` gives over a server agree with those in process."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = Mapping[str, Any]
LOGPROB_TOLERANCE = 1e-4
"""nats by which log-probabilities of beams over vLLM may differ."""
TOKEN_TOLERANCE = 5e-5
"""nats a token by which those of any text may: samples are longer and less probable than beams."""


@dataclass
class Agreement:
    """How answers over a server and those in process agree."""

    questions: int = 0
    greedy: int = 0
    """Questions with the same greedy answer, and so on."""
    beams_in_order: int = 0
    beams_as_set: int = 0
    samples: int = 0
    samples_drawn: int = 0
    logprob_difference: float = 0.0
    """The largest of a text that both have, nats."""
    token_difference: float = 0.0
    """The largest of a text that both have, divided by its tokens."""
    rank_difference: float = 0.0
    """The largest of the beams of one rank, nats: where beams are another, how near a tie."""
    mass_difference: float = 0.0
    """The largest of the beams' total probability."""
    differing: list[str] = field(default_factory=list)
    """The questions, by number, whose beams differ."""

    def add(self, local: Row, served: Row) -> None:
        """Compare a question's rows, in process and over the server."""
        self.questions += 1
        self.greedy += tokens(local["answer"]) == tokens(served["answer"])
        self._add_beams(local, served)
        self.samples_drawn += len(local["samples"])
        pairs = zip(local["samples"], served["samples"], strict=True)
        self.samples += sum(tokens(one) == tokens(other) for one, other in pairs)
        local_logprobs = logprobs_of(local)
        for text, logprob in logprobs_of(served).items():
            if text in local_logprobs:
                difference = abs(logprob - local_logprobs[text])
                per_token = difference / len(text)
                self.logprob_difference = max(self.logprob_difference, difference)
                self.token_difference = max(self.token_difference, per_token)

    def _add_beams(self, local: Row, served: Row) -> None:
        local_beams = [tokens(beam) for beam in local["beams"]]
        served_beams = [tokens(beam) for beam in served["beams"]]
        self.beams_in_order += local_beams == served_beams
        self.beams_as_set += set(local_beams) == set(served_beams)
        if local_beams != served_beams:
            self.differing.append(str(local["id"]))
        for one, other in zip(local["beams"], served["beams"], strict=True):
            difference = abs(one["logprob"] - other["logprob"])
            self.rank_difference = max(self.rank_difference, difference)
        mass = abs(mass_of(local) - mass_of(served))
        self.mass_difference = max(self.mass_difference, mass)

    @property
    def holds(self) -> bool:
        """Whether all tokens are the same but for near ties, and log p within the tolerances."""
        has_same_tokens = self.greedy == self.questions and self.samples == self.samples_drawn
        beams_are_near = self.rank_difference <= LOGPROB_TOLERANCE
        texts_are_near = self.token_difference <= TOKEN_TOLERANCE
        return has_same_tokens and beams_are_near and texts_are_near


def tokens(record: Row) -> tuple[int, ...]:
    return tuple(record["token_ids"])


def mass_of(row: Row) -> float:
    return math.fsum(math.exp(beam["logprob"]) for beam in row["beams"])


def logprobs_of(row: Row) -> dict[tuple[int, ...], float]:
    """Log p of each text of a question, by its tokens."""
    records = [row["answer"], *row["samples"], *row["beams"]]
    return {tokens(record): record["logprob"] for record in records}


def agreement(local: Sequence[Row], served: Sequence[Row]) -> Agreement:
    result = Agreement()
    for local_row, served_row in zip(local, served, strict=True):
        result.add(local_row, served_row)
    return result
