"""The date that commands write into what they print and into the files that they write.

A study's files have none: the same inputs give the same bytes.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime

from beamuq import __version__
from beamuq.errors import BeamUQError

VARIABLE = "SOURCE_DATE_EPOCH"
"""Of the environment: the date of all that is made, in seconds since 1970, as of
reproducible-builds.org.
"""


def date_made() -> str:
    """Today in UTC, as ``2026-11-28``; where the environment has SOURCE_DATE_EPOCH, its date.

    Raises BeamUQError if that is no number of seconds.
    """
    seconds = os.environ.get(VARIABLE)
    if not seconds:
        return datetime.now(UTC).date().isoformat()
    try:
        return datetime.fromtimestamp(int(seconds), UTC).date().isoformat()
    except (ValueError, OverflowError, OSError) as error:
        raise BeamUQError(
            f"{VARIABLE}: {seconds!r:.40}: must be whole seconds since 1970; mend it, or unset it "
            "for today's date"
        ) from error


def made() -> dict[str, str]:
    """When and by which version a file is made: ``made`` and ``version``."""
    return {"made": date_made(), "version": __version__}


def footer() -> str:
    """The same as a line below what is printed for people."""
    return f"made {date_made()} (UTC) by beamuq {__version__}"
