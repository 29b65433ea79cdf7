"""What the hook ``beamuq.beams`` gives back: beams with the log-probability of every token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from transformers.generation.utils import GenerateBeamDecoderOnlyOutput


@dataclass
class ExactBeams(GenerateBeamDecoderOnlyOutput):
    """Transformers' output of a beam search, with what ``from_generate`` reads.

    ``token_logprobs`` [prompts × width, longest answer] are natural, in float64, 0 behind an
    answer's ending; ``answer_tokens`` [prompts × width] are lengths, the ending included.
    ``sequences_scores`` are their sums.
    """

    token_logprobs: Any = None
    answer_tokens: Any = None
