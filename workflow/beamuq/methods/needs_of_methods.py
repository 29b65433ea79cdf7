"""The inputs that a method declares are the ones it can read: :data:`PARTS` is the vocabulary of ``Method.needs``.

So what a method cannot compute is known from its ``needs`` alone, before it runs, and nothing that is not known can
slip into a score. How many candidates there are (``mask``, ``pairs.mask``) and the settings ``alpha`` and ``K`` are
always known and need no declaration.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, cast

import numpy as np

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
ALWAYS_KNOWN = ("mask", "alpha", "K", "pairs.mask")
READABLE = {part: (part,) for part in PARTS} | DERIVED | dict.fromkeys(ALWAYS_KNOWN, ())


def check_needs(method: str, needs: Sequence[str]) -> None:
    """Refuse ``needs`` that are not all names of :data:`PARTS`.

    Raises BeamUQError in one line, with the part meant: the nearest name, or what a derived one is made of.
    """
    if isinstance(needs, str):
        raise BeamUQError(f"method {method!r}: needs is the text {needs!r}; write needs=({needs!r},)")
    for need in needs:
        if need not in PARTS:
            made_of = DERIVED.get(need)
            fix = f"it is made of {', '.join(made_of)}: name that" if made_of else hint(need, PARTS)
            raise BeamUQError(f"method {method!r}: needs: unknown part {need!r}; {fix}")


def missing_part(needs: Sequence[str], evidence: Evidence) -> str | None:
    """The first of a method's ``needs`` that is not known in this cell; None where all are."""
    return next((need for need in needs if attrgetter(need)(evidence) is UNKNOWN), None)


def only_declared(evidence: Evidence, method: str, needs: Sequence[str]) -> Evidence:
    """The evidence with all but the declared ``needs`` shut: reading anything else raises BeamUQError, in one line."""
    return cast(Evidence, _DeclaredOnly(evidence, method, tuple(needs), ""))


class _DeclaredOnly:
    """Stands for an object of the evidence; ``prefix`` is its place in it, ``""`` or such as ``"pairs."``."""

    __slots__ = ("_method", "_needs", "_of", "_prefix")

    def __init__(self, of: Any, method: str, needs: tuple[str, ...], prefix: str) -> None:
        self._of, self._method, self._needs, self._prefix = of, method, needs, prefix

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        path = self._prefix + name
        if path in ("answer", "pairs"):
            return _DeclaredOnly(getattr(self._of, name), self._method, self._needs, f"{path}.")
        if path not in READABLE:
            raise BeamUQError(f"method {self._method!r} reads {path}, which no evidence has; {hint(path, READABLE)}")
        undeclared = [part for part in READABLE[path] if part not in self._needs]
        if undeclared:
            raise BeamUQError(
                f"method {self._method!r} reads {path}, which it does not declare; "
                f"write needs={(*self._needs, *undeclared)} in its Method"
            )
        return _own_copy(getattr(self._of, name))


def _own_copy(part: Any) -> Any:
    """Read-only copies of arrays: torch and ``setflags`` can write to a read-only array, and others read the same."""
    if isinstance(part, tuple):
        return tuple(_own_copy(each) for each in part)
    if not isinstance(part, np.ndarray):
        return part
    copied = part.copy()
    copied.setflags(write=False)
    return copied
