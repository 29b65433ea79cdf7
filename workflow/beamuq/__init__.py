"""Beam-weighted, consistency-based uncertainty for LLM answers: a room per stage, in the order data flows."""

__version__ = "0.1.0"
