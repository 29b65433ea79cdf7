"""The one exception a user is meant to read, and what it says of a name that nobody knows."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable


class BeamUQError(Exception):
    """Bad configuration, data or environment, told in one line: file, key, value and the fix.

    Steps print the message and exit with status 2; no traceback is shown for it.
    """


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The one of ``choices`` that ``name`` may be meant to be, upper and lower case alike; None: nothing is near."""
    spelled = {choice.lower(): choice for choice in choices}
    near = difflib.get_close_matches(name.lower(), spelled, n=1)
    return spelled[near[0]] if near else None


def hint(name: str, choices: Iterable[str], beyond: str = "") -> str:
    """The fix for an unknown ``name``: the nearest of ``choices``, or else all of them and what ``beyond`` adds."""
    choices = list(choices)
    near = nearest(name, choices)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(choices)}{beyond}"


def exit_with_one_line(main: Callable[[], None]) -> None:
    """Run a program. Exit status 0: done; 2: bad input, told in one line on stderr."""
    try:
        main()
    except BeamUQError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
