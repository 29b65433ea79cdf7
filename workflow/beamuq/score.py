"""Score a JSON Lines or Parquet file of anyone's candidates: ``python -m beamuq.score FILE``.

From Python, ``beamuq.score(rows)`` is :func:`beamuq.practice.scoring.score`: this module can be called.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from beamuq.practice.printing import FORMATS, render
from beamuq.practice.scoring import score
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, score, print the table."""
    parser = argparse.ArgumentParser(prog="python -m beamuq.score", description=__doc__.splitlines()[0])
    parser.add_argument("file", help=".jsonl or .parquet, one row a question")
    parser.add_argument(
        "--similarity",
        default="auto",
        help="auto, lexical, minilm, nli:MODEL, cross_encoder:MODEL, embedding:MODEL or module:attribute",
    )
    parser.add_argument("--methods", help="names, comma-separated; module:attribute for your own (default: all)")
    parser.add_argument("--temperature", type=float, default=1.0, help="at which the samples were drawn")
    parser.add_argument("--epsilon", type=float, default=0.0, help="mass floor of the beams' weights")
    parser.add_argument("--alpha", type=float, default=0.9, help="eigenvalue threshold")
    parser.add_argument("--same-meaning", type=float, default=0.8, help="threshold of a similarity without classes")
    parser.add_argument("--format", choices=FORMATS, default="markdown")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="auto", help="auto, float32 or bfloat16")
    options = parser.parse_args(argv)
    scores = score(
        options.file,
        similarity=options.similarity,
        methods=options.methods.split(",") if options.methods else None,
        temperature=options.temperature,
        epsilon=options.epsilon,
        alpha=options.alpha,
        same_meaning=options.same_meaning,
        device=options.device,
        dtype=options.dtype,
    )
    sys.stdout.write(render(scores, options.format))


class _Callable(ModuleType):
    """``beamuq.score`` is this module and, by the README, a function: it is both, whichever was imported first."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return score(*arguments, **options)


sys.modules[__name__].__class__ = _Callable

if __name__ == "__main__":
    run(main)
