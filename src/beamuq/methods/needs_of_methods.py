"""The parts of the evidence that a method can declare: :data:`PARTS` is the vocabulary of ``Method.needs``.

What a method cannot compute is known from its ``needs`` alone, before it runs. How many candidates there are (``mask``,
``pairs.mask``) and the settings ``alpha`` and ``K`` are always known and need no declaration.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from beamuq.errors import BeamUQError, hint
from beamuq.methods.method_inputs import UNKNOWN, Evidence

PARTS = {
    "answer.logprob": "log-probability of the produced answer",
    "answer.length": "its number of tokens",
    "answer.mean_entropy": "mean entropy of its next-token distributions",
    "answer.p_true_logprob": 'log-probability of "True" when the model is asked about it',
    "answer.ccp": "its CCP score",
    "logprob": "log-probability of each candidate",
    "weights": "what each candidate counts for",
    "texts": "the texts, the produced answer's first",
    "token_sar": "TokenSAR of each candidate",
    "sentence_similarity": "similarity of the candidates by SAR's cross-encoder",
    "pairs.similarity": "similarity of every ordered pair of texts",
    "pairs.contradiction": "how much one text of a pair contradicts the other",
    "pairs.same": "whether both texts of a pair mean the same",
    "pairs.identical": "whether both are the same text",
}
DERIVED = {
    "to_produced": ("pairs.similarity",),
    "among": ("pairs.similarity",),
    "retained": ("pairs.similarity",),
    "pairs.spectrum": ("pairs.similarity",),
    "pairs.linked": ("pairs.similarity", "pairs.contradiction"),
    "pairs.clusters": ("pairs.same",),
}


def check_needs(method: str, needs: Sequence[str]) -> None:
    """Refuse ``needs`` that are not all names of :data:`PARTS`: BeamUQError, in one line, with the nearest part."""
    if isinstance(needs, str):
        raise BeamUQError(f"method {method!r}: needs is the text {needs!r}; write needs=({needs!r},)")
    for need in needs:
        if need not in PARTS:
            fix = f"declare {', '.join(DERIVED[need])}" if need in DERIVED else hint(need, PARTS)
            raise BeamUQError(f"method {method!r}: needs: unknown part {need!r}; {fix}")


def missing_part(needs: Sequence[str], evidence: Evidence) -> str | None:
    """The first of a method's ``needs`` that this cell lacks; None if it has all."""
    return next((need for need in needs if attrgetter(need)(evidence) is UNKNOWN), None)
