"""The one exception a user is meant to read."""

from __future__ import annotations


class BeamUQError(Exception):
    """Bad configuration, data or environment, told in one line: file, key, value and the fix.

    Steps print the message and exit with status 2; no traceback is shown for it.
    """
