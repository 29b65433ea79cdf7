"""How every step starts: its errors are one line on stderr, its exit codes few."""

from __future__ import annotations

import sys
from collections.abc import Callable

from beamuq.errors import BeamUQError


def run(main: Callable[[], None]) -> None:
    """Run a step. Exit status 0: done; 2: bad input, told in one line; 143: stopped by a signal, can be resumed."""
    try:
        main()
    except BeamUQError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
