"""Score a JSON Lines or Parquet file of anyone's candidates: ``python -m beamuq.score FILE``.

From Python, ``beamuq.score(rows)`` is :func:`beamuq.api.score_candidates.score`: this module can be called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from beamuq.api.command_line import score_parser, shared
from beamuq.api.score_candidates import score
from beamuq.api.score_table_text import render
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, score, print the table."""
    options = score_parser().parse_args(argv)
    scores = score(
        options.file,
        methods=options.methods,
        temperature=options.temperature,
        equivalence_threshold=options.equivalence_threshold,
        **shared(options),
    )
    sys.stdout.write(render(scores, options.format))


class _Callable(ModuleType):
    """``beamuq.score`` is this module and, by the README, a function: it is both, whichever was imported first."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return score(*arguments, **options)


sys.modules[__name__].__class__ = _Callable

if __name__ == "__main__":
    run(main)
