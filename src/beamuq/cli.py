"""The command ``beamuq``: one subcommand for each function of :mod:`beamuq.api`, whose parameters its options are."""

from __future__ import annotations

import argparse
import gc
import inspect
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from beamuq import __version__
from beamuq.api.ask_model import STYLES, ask, ask_all
from beamuq.api.calibrate_and_decide import calibrate, decide
from beamuq.api.explore_results import explore
from beamuq.api.print_scores import FORMATS, by_question, render, write
from beamuq.api.score_candidates import score
from beamuq.errors import BeamUQError, exit_with_one_line
from beamuq.evaluation.probability_of_being_right import CALIBRATORS
from beamuq.models.devices import DEVICES, DTYPES
from beamuq.secret_masking import mask_output

if TYPE_CHECKING:
    import pandas as pd

Told = tuple[str | Sequence[str] | None, str]
"""Of an option: its metavar, or its choices, or None where it is a flag; and its help."""
Command = tuple[Callable[..., Any], Callable[[argparse.Namespace], None], dict[str, Told]]
"""The function whose parameters the options are, what a command does and says, and its argument and options."""
SIMILARITIES = "auto, lexical, minilm, nli:MODEL, cross_encoder:MODEL, embedding:MODEL or module:attribute"
SAME = "from which similarity on two texts mean the same"
QUESTIONS = (
    "ask every question of a file (question, and as for score id, correct, quality, group; or answers, right ones)"
)
EPILOG = """\
beamuq COMMAND --help says more, with examples. In Python each command is a function: beamuq.ask(...), ...
From candidates to decisions: score, then calibrate on answers known to be right or wrong, then decide.
A script that completes in your shell, with shtab installed: shtab --shell bash beamuq.cli.command_parser"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says. Exit status 2, with one line on stderr: bad input."""
    if arguments is None:
        mask_output(results=False)
        gc.set_threshold(100_000)  # collecting as often as usual takes a sixth of the time in which torch is imported
    options = command_parser().parse_args(arguments)
    exit_with_one_line(lambda: options.perform(options))


class _Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Descriptions as they are written, and each default that says something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help if action.default in (None, False, "") else super()._get_help_string(action)


def command_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="beamuq",
        description="How sure a language model is of its answer.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"beamuq {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (function, perform, options) in COMMANDS.items():
        told = inspect.cleandoc(perform.__doc__ or "")
        command = commands.add_parser(name, help=told.split("\n")[0], description=told, formatter_class=_Help)
        command.set_defaults(perform=perform)
        _add(command, function, options)
    return parser


def _add(command: argparse.ArgumentParser, function: Callable[..., Any], options: dict[str, Told]) -> None:
    """The argument, which stands first, and the options; parameters of ``function`` have their default and type."""
    parameters = inspect.signature(function).parameters
    parser: argparse._ActionsContainer = command
    for position, (name, (values, told)) in enumerate(options.items()):
        if name == "similarity" and function in (ask, score):
            parser = command.add_argument_group("similarity, weights and machine")
        metavar = values if isinstance(values, str) else None
        if position == 0:
            parser.add_argument(name, nargs="?" if function is ask else None, metavar=metavar, help=told)
            continue
        flag = "--template" if name == "prompt_template" else f"--{name.replace('_', '-')}"
        if values is None:
            parser.add_argument(flag, action="store_true", help=told)
            continue
        default = parameters[name].default if name in parameters else "markdown" if name == "format" else None
        kind = parameters[name].annotation if name in parameters else "str"
        required = default is inspect.Parameter.empty or (function is calibrate and name == "output")
        parser.add_argument(
            flag,
            dest=name,
            default=None if required else default,
            required=required,
            type=float if kind.startswith("float") else int if kind == "int" else str,
            metavar=metavar,
            choices=None if isinstance(values, str) else values,
            help=told,
        )


def _called(options: argparse.Namespace, function: Callable[..., Any]) -> Any:
    """What ``function`` gives for the options that are parameters of it."""
    return function(**{name: vars(options)[name] for name in inspect.signature(function).parameters})


def _ask(options: argparse.Namespace) -> None:
    """Ask a model a question and see how sure it is.

    Shown are its answer, the texts that it might say with their probabilities,
    the interval that certainly holds Dissimilarity under its whole distribution,
    and eight scores; higher = more uncertain. Without --model it is the demo's
    small model, which is fetched once.

    examples:
      beamuq ask "Who wrote Hamlet?"
      beamuq ask "Who wrote Hamlet?" --model hub:ORG/NAME --verbose
      beamuq ask "Who wrote Hamlet?" --calibration my-model.calibration.json
    """
    if (options.question is None) == (options.questions is None):
        raise BeamUQError("question: give one, or with --questions a file of them")
    if options.shots == "none":
        options.shots = []
    if options.questions is None:
        asked = _called(options, ask)
        print(asked.as_json() if options.json else asked.as_text(verbose=options.verbose))
    else:
        keywords = {name: vars(options)[name] for name in inspect.signature(ask).parameters if name != "question"}
        _print_scores(ask_all(options.questions, **keywords), options.output)


def _score(options: argparse.Namespace) -> None:
    """Score anyone's candidates: what a model answered, and what else it might have said.

    A row of the file is a question with its answer and samples, beams or both;
    with log-probabilities, as far as they are known. Every method that the rows
    allow gives a score; what has none is told with the reason.

    examples:
      beamuq score rows.jsonl
      beamuq score rows.jsonl --methods Dissimilarity,CocoaPPL --similarity lexical
      beamuq score rows.jsonl --output scored.jsonl
    """
    form = "long" if options.long and options.format == "markdown" else options.format
    _print_scores(_called(options, score), options.output, form)


def _print_scores(scores: pd.DataFrame, output: str | None, form: str = "markdown") -> None:
    if output:
        write(scores, output)
    sys.stdout.write(by_question(scores) if form == "markdown" else render(scores, form))


def _calibrate(options: argparse.Namespace) -> None:
    """Learn from answers known to be right or wrong: a probability, and a threshold with a guarantee.

    The file is what score writes of rows with correct (0 or 1) or quality, and
    with group where questions belong together. With --confidence, at most a
    share --risk of the answers shown by the threshold is wrong.

    examples:
      beamuq calibrate scored.jsonl --method CocoaPPL --risk 0.10 --confidence 0.95 --output my-model.calibration.json
      beamuq calibrate scored.csv --method Dissimilarity --form beamsearch --quality-threshold 0.5 --output made.json
    """
    print(_called(options, calibrate))


def _decide(options: argparse.Namespace) -> None:
    """Show or withhold answers, by a calibration.

    The file is what score writes. A model, prompt, method, similarity or version
    that is not the calibration's is refused; scores that are not distributed as
    the calibration's are warned of.

    examples:
      beamuq decide new.jsonl --calibration my-model.calibration.json
    """
    decisions = _called(options, decide)
    if options.output:
        write(decisions.table, options.output)
    sys.stdout.write(render(decisions.table, options.format))
    print(*decisions.told(), sep="\n", file=sys.stderr)


def _explore(options: argparse.Namespace) -> None:
    """Go through the questions of a study in a browser.

    It writes one HTML file that needs nothing else and no network: a table of
    questions to search and sort, and of each question the answer, beams and
    samples, similarities and scores.

    examples:
      beamuq explore results/demo
      beamuq explore rows.jsonl --output explorer.html
    """
    print(_called(options, explore))


SHARED: dict[str, Told] = {
    "similarity": ("NAME", SIMILARITIES),
    "epsilon": ("E", "mass floor of the beams' weights, 0 to 1"),
    "alpha": ("A", "eigenvalue threshold of Eccentricity and EigVecDissimilarity, above 0, at most 2"),
    "device": (DEVICES, "auto: cuda where there is one"),
    "dtype": (DTYPES, "auto: of similarities float32, of the model bfloat16 on cuda and float32 on a CPU"),
    "threads": ("N", "of torch on a CPU"),
}
FORCE = "decide even where model, prompt, method, similarity or version are not those that were calibrated"
WRITTEN: dict[str, Told] = {
    "format": (FORMATS, "of what is printed"),
    "output": ("FILE", "write all rows there too: .csv, .jsonl or .parquet"),
}
ASK: dict[str, Told] = {
    "question": (None, "or a file of them, --questions"),
    "model": ("MODEL", "a folder, hub:ORG/NAME or packaged:NAME"),
    "style": (tuple(STYLES), "the prompt as text, or as a user's message in the model's chat template"),
    "shots": (
        "FILE",
        "JSON Lines of examples (id, question, answers), or none for no example; without it five of our own",
    ),
    "width": ("M", "beams"),
    "max_new_tokens": ("N", "an answer that has not ended by then is cut"),
    "calibration": ("FILE", "of beamuq calibrate: say whether the answer is shown"),
    "prompt_template": ("FILE", "a prompt template, as those in beamuq/prompts; without it that of jsonl.txt"),
    "threshold": ("U", "of Dissimilarity, 0 to 1: say whether the certified interval lies on one side of it"),
    "force": (None, FORCE),
    "questions": ("FILE", QUESTIONS),
    "output": ("FILE", "for --questions: the scores, for calibrate and decide"),
    "verbose": (None, "every beam, with its probability and weight"),
    "json": (None, "one JSON object instead of text"),
}
SCORE: dict[str, Told] = {
    "rows": ("file", ".jsonl, .json or .parquet: a question a row"),
    "methods": ("NAMES", "comma-separated; module:attribute for your own; without it all there are"),
    "temperature": ("T", "at which the samples were drawn"),
    "equivalence_threshold": ("S", f"{SAME}, for a similarity without classes"),
    "long": (None, "a row a score, with its interval, range and reason, as csv and jsonl have anyhow"),
}
CALIBRATE: dict[str, Told] = {
    "rows": ("file", "what score writes of rows with correct or quality"),
    "method": ("NAME", "whose scores"),
    "form": (("multinomial", "beamsearch"), "needed where the method has scores in both"),
    "setting": ("NAME", "a further formulation of the method"),
    "risk": ("A", "the largest share of wrong answers among the shown ones"),
    "confidence": ("C", "with which that holds, over calibrations"),
    "tried": ("K", "methods, forms and risks tried on these answers in all: each is tested more strictly"),
    "probability": (CALIBRATORS, "how a score becomes a probability of being right"),
    "seed": ("S", "of every draw"),
    "quality_threshold": ("Q", "an answer of quality above it is right"),
    "output": ("FILE", "the calibration, in JSON"),
}
DECIDE: dict[str, Told] = {
    "rows": ("file", "what score writes"),
    "calibration": ("FILE", "of beamuq calibrate"),
    "force": (None, FORCE),
}
EXPLORE: dict[str, Told] = {
    "source": (None, "results/STUDY, a Parquet file of one of its cells, or a file that score takes"),
    "output": ("FILE", "where to write it; without it explorer.html in the study's folder, or beside the file"),
    "questions": ("N", "the most questions in the file; several cells share them equally"),
    "similarity": ("NAME", SIMILARITIES),
    "equivalence_threshold": ("S", SAME),
}
COMMANDS: dict[str, Command] = {
    "ask": (ask, _ask, ASK | SHARED),
    "score": (score, _score, SCORE | WRITTEN | SHARED),
    "calibrate": (calibrate, _calibrate, CALIBRATE),
    "decide": (decide, _decide, DECIDE | WRITTEN),
    "explore": (explore, _explore, EXPLORE),
}
