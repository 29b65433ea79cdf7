"""The decoding engine: every strategy from one prefill and one trie.

Prompts of a batch form a radix tree and each of their tokens is run once; policies (greedy,
samples, beams) grow one trie of generated tokens per question, and a node that several of them
reach is run once.
"""

from __future__ import annotations

from beamuq.decoding.beam_search import Beam, DiverseBeam
from beamuq.decoding.decode_batch import decode, next_token_logprobs
from beamuq.decoding.forward_passes import ROWS, Work
from beamuq.decoding.greedy_and_samples import Greedy, Sample, Shipped
from beamuq.decoding.most_probable import Exact
from beamuq.decoding.optimal_set_and_draws import AllAbove, Hybrid, OptimalStratified, Systematic
from beamuq.decoding.search_state import (
    Candidate,
    Policy,
    Prompt,
    SearchContext,
    SearchState,
    compose_batches,
)
from beamuq.decoding.self_check import checked
from beamuq.decoding.stochastic_beams import Stochastic
from beamuq.decoding.stop_tokens_and_text import (
    answer_text,
    bare_stops,
    candidate_text,
    stop_tokens,
    token_texts,
)

__all__ = [
    "ROWS",
    "AllAbove",
    "Beam",
    "Candidate",
    "DiverseBeam",
    "Exact",
    "Greedy",
    "Hybrid",
    "OptimalStratified",
    "Policy",
    "Prompt",
    "Sample",
    "SearchContext",
    "SearchState",
    "Shipped",
    "Stochastic",
    "Systematic",
    "Work",
    "answer_text",
    "bare_stops",
    "candidate_text",
    "checked",
    "compose_batches",
    "decode",
    "next_token_logprobs",
    "stop_tokens",
    "token_texts",
]
