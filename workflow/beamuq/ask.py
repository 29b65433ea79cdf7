"""Ask a model a question and see how sure it is: ``python -m beamuq.ask --model PATH "question"``.

From Python, ``beamuq.ask(question, model)`` is :func:`beamuq.practice.asking.ask`: this module can be called.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from beamuq.practice.asking import DEMO_MODEL, STYLES, Asked, ask
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, ask, print what was answered."""
    parser = argparse.ArgumentParser(prog="python -m beamuq.ask", description=__doc__.splitlines()[0])
    parser.add_argument("question")
    parser.add_argument("--model", default=DEMO_MODEL, help="a folder, a hub id ORG/NAME or packaged:NAME")
    parser.add_argument("--style", choices=STYLES, default="auto", help="plain prompt or chat template")
    parser.add_argument("--shots", help="JSON Lines of examples (id, question, answers); none: no examples")
    parser.add_argument("--template", help="a prompt template as in workflow/prompts")
    parser.add_argument("--width", type=int, default=10, help="beams")
    parser.add_argument("--max-new-tokens", type=int, default=20)
    parser.add_argument(
        "--similarity",
        default="auto",
        help="auto, lexical, minilm, nli:MODEL, cross_encoder:MODEL, embedding:MODEL or module:attribute",
    )
    parser.add_argument("--epsilon", type=float, default=0.0, help="mass floor of the beams' weights")
    parser.add_argument("--alpha", type=float, default=0.9, help="eigenvalue threshold")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--threads", type=int, default=1, help="of torch on a CPU")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    options = parser.parse_args(argv)
    asked = ask(
        options.question,
        options.model,
        style=options.style,
        shots=[] if options.shots == "none" else options.shots,
        prompt_template=options.template,
        width=options.width,
        max_new_tokens=options.max_new_tokens,
        similarity=options.similarity,
        epsilon=options.epsilon,
        alpha=options.alpha,
        device=options.device,
        dtype=options.dtype,
        threads=options.threads,
    )
    print(asked.as_json() if options.json else asked)


class _Callable(ModuleType):
    """``beamuq.ask`` is this module and, by the README, a function: it is both, whichever was imported first."""

    def __call__(self, *arguments: Any, **options: Any) -> Asked:
        return ask(*arguments, **options)


sys.modules[__name__].__class__ = _Callable

if __name__ == "__main__":
    run(main)
