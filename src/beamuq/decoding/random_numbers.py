"""Uniform numbers from a counter, so that a draw depends only on its seed, question, strategy, sample and step."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from beamuq.array_types import Floats


def uniforms(seed: int, question: str, strategy: str, size: int, steps: int) -> Floats:
    """Uniforms in [0, 1) of shape (size, steps), for the steps of ``size`` samples of one question.

    The key of the Philox generator is a hash of (seed, question, strategy); the sample is the second word of its
    counter and the step its position in the stream. So row i and column t are the same numbers for every ``size``
    and ``steps``, and for every batch, shard or order in which questions are decoded.
    """
    identity = json.dumps([seed, question, strategy], ensure_ascii=False).encode()
    key = np.frombuffer(hashlib.blake2b(identity, digest_size=16).digest(), dtype="<u8").astype(np.uint64)
    drawn = np.empty((size, steps))
    for sample in range(size):
        counter = np.array([0, sample, 0, 0], dtype=np.uint64)
        drawn[sample] = np.random.Generator(np.random.Philox(counter=counter, key=key)).random(steps)
    return drawn
