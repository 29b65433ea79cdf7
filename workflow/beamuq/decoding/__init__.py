"""The decoding engine: every strategy from one prefill and one trie.

Prompts of a wave form a radix tree and each of their tokens is run once; policies (greedy, samples, beams) walk one
trie of generated tokens a question, and a node that several of them reach is run once.
"""

from __future__ import annotations

from beamuq.decoding.engine import decode, next_token_logprobs
from beamuq.decoding.parts import discard_parts
from beamuq.decoding.policies import Beam, Candidate, DiverseBeam, Greedy, Hybrid, Policy, Prompt, Sample, Shipped
from beamuq.decoding.runner import ROWS, Work
from beamuq.decoding.text import bare_stops, candidate_text, stop_tokens, token_texts
from beamuq.decoding.waves import WaveResult, compose_waves, run_waves

__all__ = [
    "ROWS",
    "Beam",
    "Candidate",
    "DiverseBeam",
    "Greedy",
    "Hybrid",
    "Policy",
    "Prompt",
    "Sample",
    "Shipped",
    "WaveResult",
    "Work",
    "bare_stops",
    "candidate_text",
    "compose_waves",
    "decode",
    "discard_parts",
    "next_token_logprobs",
    "run_waves",
    "stop_tokens",
    "token_texts",
]
