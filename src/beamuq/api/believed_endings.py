"""Whether lists of tokens' log-probabilities hold the ending's: what rows say of it, and a warning.

Many tools log an answer's tokens without the one that ended it. The sum is then log p of a prefix:
of the text and of all that begins with it. A list does not show which it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from beamuq.api.candidate_records import CandidateRecord, QuestionRecord
from beamuq.errors import BeamUQError


def check_one_is_said(*, with_ending: bool, without_ending: bool) -> None:
    """Raises BeamUQError where rows are said to hold the endings and to lack them."""
    if with_ending and without_ending:
        raise BeamUQError(
            "with_ending, without_ending: both; say one of all rows, or in each candidate its own "
            '"without_ending"'
        )


def warn_if_endings_are_believed(records: Sequence[QuestionRecord]) -> None:
    """Warn once of lists of tokens' log-probabilities that nothing says to hold the ending's."""
    places = []
    for record in records:
        by_kind: dict[str, Sequence[CandidateRecord]] = {
            "answer": [record.answer],
            "samples": record.samples,
            "beams": record.beams,
        }
        for kind, candidates in by_kind.items():
            if any(_is_believed(candidate) for candidate in candidates):
                places.append(f"id {record.id!r}: {kind}")
    if not places:
        return
    more = f" (and {len(places) - 1} more places)" if len(places) > 1 else ""
    warnings.warn(
        f"{places[0]}: token_logprobs{more}: believed to hold that of the ending (end-of-sequence "
        "token), which nothing says; without it their sum is log p of a prefix, not of the text. "
        'Where it is there, say with_ending (--with-ending), or "ended": true beside the list; '
        "where it is not, without_ending (--without-ending)",
        stacklevel=3,
    )


def _is_believed(candidate: CandidateRecord) -> bool:
    return candidate.token_logprobs is not None and not candidate.says_ending
