"""A warning of texts of which a similarity compared only the beginning.

Answers that differ behind it have the scores of equal ones, and seem the most certain.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field


@dataclass
class CutTexts:
    """The questions of a call with texts that the similarity cut.

    ``limit``: how many tokens it reads at a time. ``ids``: of those questions, in their order;
    ``questions``: how many were looked at.
    """

    similarity: str
    limit: int = 0
    ids: list[str] = field(default_factory=list)
    questions: int = 0

    def warn(self) -> None:
        """Warn of them, once; not where there are none."""
        if not self.ids:
            return
        warnings.warn(
            f"similarity {self.similarity} reads {self.limit} tokens at a time: {len(self.ids)} of "
            f"{self.questions} questions (first: id {self.ids[0]!r}) have longer texts, of which "
            "only the beginnings were compared; answers that differ behind seem equal and "
            "certain. Their scores have no certified interval; give shorter texts, or "
            "similarity='lexical' (--similarity lexical), which reads all",
            stacklevel=3,
        )
