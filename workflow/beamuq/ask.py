"""Ask a model a question and see how sure it is: ``python -m beamuq.ask --model PATH "question"``.

From Python, ``beamuq.ask(question, model)`` is :func:`beamuq.api.ask_model.ask`: this module can be called.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from beamuq.api.ask_model import Asked, ask
from beamuq.api.command_line import ask_parser, shared
from beamuq.steps.entry import run


def main(argv: Sequence[str] | None = None) -> None:
    """Read the options, ask, print what was answered."""
    options = ask_parser().parse_args(argv)
    asked = ask(
        options.question,
        options.model,
        style=options.style,
        shots=[] if options.shots == "none" else options.shots,
        prompt_template=options.template,
        width=options.width,
        max_new_tokens=options.max_new_tokens,
        **shared(options),
    )
    print(asked.as_json() if options.json else asked)


class _Callable(ModuleType):
    """``beamuq.ask`` is this module and, by the README, a function: it is both, whichever was imported first."""

    def __call__(self, *arguments: Any, **options: Any) -> Asked:
        return ask(*arguments, **options)


sys.modules[__name__].__class__ = _Callable

if __name__ == "__main__":
    run(main)
