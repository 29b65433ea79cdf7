"""The command ``beamuq``: a subcommand for each function, whose parameters, told by its docstring,
are options.

A function is imported when its own command is used: ``beamuq --help`` answers at once.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import beamuq
from beamuq import __version__
from beamuq.errors import BeamUQError, exit_with_one_line
from beamuq.models.devices import DEVICES, DTYPES
from beamuq.secret_masking import mask_output

if TYPE_CHECKING:
    import pandas as pd

EPILOG = """\
beamuq COMMAND --help says more, with examples. In Python each command is a function:
beamuq.ask(...), ...
From candidates to decisions: score, then calibrate on answers known to
be right or wrong, then decide.
A script that completes in your shell, with shtab installed:
  shtab --shell bash beamuq.cli.command_parser"""
EXAMPLES = {
    "ask": """\
  beamuq ask "Who wrote Hamlet?"
  beamuq ask "Who wrote Hamlet?" --model hub:ORG/NAME --verbose
  beamuq ask "Who wrote Hamlet?" --calibration my-model.calibration.json""",
    "score": """\
  beamuq score rows.jsonl
  beamuq score rows.jsonl --methods Dissimilarity,CocoaPPL --similarity lexical
  beamuq score rows.jsonl --output scored.jsonl""",
    "calibrate": """\
  beamuq calibrate scored.jsonl --method CocoaPPL --risk 0.10 --output my-model.calibration.json
  beamuq calibrate scored.csv --method PTrue --quality-threshold 0.5 --output made.json""",
    "decide": """\
  beamuq decide new.jsonl --calibration my-model.calibration.json""",
    "advise": """\
  beamuq advise candidates.jsonl""",
    "explore": """\
  beamuq explore results/demo
  beamuq explore rows.jsonl --output explorer.html""",
}
CHOICES: dict[str, Sequence[str]] = {
    "style": ("plain", "chat"),
    "stop": ("newline", "eos"),
    "device": DEVICES,
    "dtype": DTYPES,
    "probability": ("venn_abers", "isotonic"),
    "form": ("multinomial", "beamsearch"),
    "format": ("markdown", "csv", "jsonl"),
}
METAVARS = {
    "model": "MODEL",
    "similarity": "NAME",
    "methods": "NAMES",
    "method": "NAME",
    "setting": "NAME",
}
WRITTEN = {
    "format": "Of what is printed.",
    "output": "Write all rows there too: .csv, .jsonl or .parquet.",
}
BESIDE: dict[str, dict[str, str]] = {
    "ask": {
        "questions": (
            "Ask every question of a file: question, or messages with --style chat, and answers "
            "(right "
            "ones), or as for score id, correct, quality, group."
        ),
        "output": "For --questions: the scores, for calibrate and decide.",
        "verbose": "Every beam, with its probability and weight.",
        "json": "One JSON object instead of text.",
    },
    "score": {
        "long": "A row a score, with its interval, range and reason, as csv and jsonl have anyhow."
    }
    | WRITTEN,
    "decide": WRITTEN,
}
"""Options of a command that are no parameters of its function."""
FLAGS = ("verbose", "json", "long")


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says. Exit status 2, with one line on stderr: bad
    input.
    """
    if arguments is None:
        mask_output(results=False)
        warnings.showwarning = lambda message, *_, **__: print(
            f"warning: {message}", file=sys.stderr
        )
        gc.set_threshold(
            1_000_000
        )  # what is imported is as many objects; looking at them would take a third as long
    words = sys.argv[1:] if arguments is None else arguments
    options = command_parser([word for word in words if word in COMMANDS][:1]).parse_args(words)
    exit_with_one_line(lambda: COMMANDS[options.command][1](vars(options)))
    if arguments is None:
        gc.freeze()  # or Python's end takes a third as long as importing torch


class _Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Descriptions as they are written, and each default that says something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return (
            action.help if action.default in (None, False, "") else super()._get_help_string(action)
        )


def command_parser(used: Collection[str] | None = None) -> argparse.ArgumentParser:
    """The parser of the command line, with the options of the commands ``used`` (default: all)."""
    parser = argparse.ArgumentParser(
        prog="beamuq",
        description="How sure a language model is of its answer.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"beamuq {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (told, _) in COMMANDS.items():
        command = commands.add_parser(
            name, help=told, epilog=f"examples:\n{EXAMPLES[name]}", formatter_class=_Help
        )
        if used is None or name in used:
            function = getattr(beamuq, name)
            command.description = inspect.getdoc(function).partition("\n\nParameters\n")[0]  # type: ignore[union-attr]
            _add_options(command, name, function)
    return parser


def _add_options(command: argparse.ArgumentParser, name: str, function: Callable[..., Any]) -> None:
    """The first parameter of a function, which stands alone, then the others as options, and those
    beside them.
    """
    parameters, told = inspect.signature(function).parameters, _told(beamuq.score) | _told(function)
    (first, *_), beside = parameters, BESIDE.get(name, {})
    command.add_argument(first, nargs="?" if name == "ask" else None, help=told[first])
    for option in dict.fromkeys((*list(parameters)[1:], *beside)):
        flag = "--template" if option == "prompt_template" else f"--{option.replace('_', '-')}"
        parameter = parameters.get(option)
        kind, default = (
            ("str", None) if parameter is None else (str(parameter.annotation), parameter.default)
        )
        text = beside.get(option) or told[option]
        if kind == "bool" or option in FLAGS:
            command.add_argument(flag, action="store_true", help=text)
            continue
        required = default is inspect.Parameter.empty or (
            name == "calibrate" and option == "output"
        )
        command.add_argument(
            flag,
            dest=option,
            default="markdown" if option == "format" else None if required else default,
            required=required,
            type=float if kind.startswith("float") else int if kind == "int" else str,
            metavar=None
            if option in CHOICES
            else METAVARS.get(option, {"float": "X", "int": "N"}.get(kind.split()[0], "FILE")),
            choices=CHOICES.get(option),
            help=text,
        )


def _told(function: Callable[..., Any]) -> dict[str, str]:
    """What a function's docstring says of each parameter; of one that is as ``score`` has it,
    nothing.
    """
    section = (
        (inspect.getdoc(function) or "")
        .partition("Parameters\n----------\n")[2]
        .partition("\n\n")[0]
    )
    found: dict[str, str] = {}
    for names, text in re.findall(r"^(\S.*)\n((?: .*(?:\n|$))+)", section, re.MULTILINE):
        if not text.strip().startswith("As for score"):
            found |= dict.fromkeys(names.split(", "), " ".join(text.split()))
    return found


def _called(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """What a function gives for the options that are parameters of it."""
    return function(**{name: options[name] for name in inspect.signature(function).parameters})


def _ask(options: dict[str, Any]) -> None:
    if (options["question"] is None) == (options["questions"] is None):
        raise BeamUQError("question: give one, or with --questions a file of them")
    if options["output"] and options["questions"] is None:
        raise BeamUQError("output: is of --questions; leave it out, or give a file of questions")
    options["shots"] = [] if options["shots"] == "none" else options["shots"]
    if options["questions"] is None:
        asked = _called(beamuq.ask, options)
        _print(
            asked.as_json() if options["json"] else asked.as_text(verbose=options["verbose"]),
            end="\n",
        )
    else:
        keywords = {
            name: options[name]
            for name in inspect.signature(beamuq.ask).parameters
            if name != "question"
        }
        _print_scores(beamuq.ask_all(options["questions"], **keywords), options["output"])


def _score(options: dict[str, Any]) -> None:
    long = options["long"] and options["format"] == "markdown"
    _print_scores(
        _called(beamuq.score, options), options["output"], "long" if long else options["format"]
    )


def _print_scores(scores: pd.DataFrame, output: str | None, form: str = "markdown") -> None:
    from beamuq.api.rows import by_question, render, write

    if output:
        write(scores, output)
    shown = scores.drop(columns="scored_with") if form == "long" else scores
    _print(by_question(scores) if form == "markdown" else render(shown, form))


def _print(text: str, end: str = "") -> None:
    """Print a text, escaped where stdout's encoding lacks a character, or a terminal would obey
    it.
    """
    from beamuq.api.rows import visible

    encoding = sys.stdout.encoding or "utf-8"
    print(visible(text).encode(encoding, "backslashreplace").decode(encoding), end=end)


def _decide(options: dict[str, Any]) -> None:
    from beamuq.api.rows import render, write

    decisions = _called(beamuq.decide, options)
    if options["output"]:
        write(decisions.table, options["output"])
    _print(render(decisions.table, options["format"]))
    print(*decisions.told(), sep="\n", file=sys.stderr)


COMMANDS: dict[str, tuple[str, Callable[[dict[str, Any]], None]]] = {
    "ask": (
        "Ask a model a question, or many, and see how sure it is of its greedy answer, from a "
        "beam search.",
        _ask,
    ),
    "score": (
        "Score anyone's candidates: what a model answered, and what else it might have said.",
        _score,
    ),
    "calibrate": (
        "Learn from answers known to be right or wrong: a probability, and a threshold with a "
        "guarantee.",
        lambda options: print(_called(beamuq.calibrate, options)),
    ),
    "decide": (
        "Show or withhold answers, by a calibration, with each one's probability of being right.",
        _decide,
    ),
    "advise": (
        "Say where questions of one's own are on the map of when beams win, and what it shows "
        "there.",
        lambda options: _print(str(_called(beamuq.advise, options))),
    ),
    "explore": (
        "Go through the questions of a study in a browser.",
        lambda options: print(_called(beamuq.explore, options)),
    ),
}
"""By command the first line of its function's docstring, and what does what its options say."""
