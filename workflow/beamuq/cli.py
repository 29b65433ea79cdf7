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
from beamuq.api.score_candidates import score
from beamuq.api.score_table_text import FORMATS, by_question, render, write
from beamuq.errors import BeamUQError, exit_with_one_line
from beamuq.evaluation.probability_of_being_right import CALIBRATORS
from beamuq.models.devices import DEVICES, DTYPES
from beamuq.secret_masking import mask_output

if TYPE_CHECKING:
    import pandas as pd

Told = tuple[str | Sequence[str], str]  # of an option: its metavar or its choices, and its help
SIMILARITIES = "auto, lexical, minilm, nli:MODEL, cross_encoder:MODEL, embedding:MODEL or module:attribute"
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
    for name, add_options in COMMANDS.items():
        purpose, more = (add_options.__doc__ or "").split("\n\n", 1)
        command = commands.add_parser(
            name,
            help=purpose,
            description=f"{purpose}\n\n{inspect.cleandoc(more)}",
            formatter_class=_Help,
        )
        add_options(command)
    return parser


def options_of(name: str) -> argparse.ArgumentParser:
    """A parser of one subcommand's options, for the reference."""
    parser = argparse.ArgumentParser(prog=f"beamuq {name}")
    COMMANDS[name](parser)
    return parser


def _add(parser: argparse._ActionsContainer, function: Callable[..., Any], options: dict[str, Told]) -> None:
    """Options for parameters of ``function``, with their defaults; by name the metavar or choices, and the help."""
    parameters = inspect.signature(function).parameters
    for name, (values, told) in options.items():
        default = parameters[name].default
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            default=default,
            type=str if default is None else type(default),
            metavar=values if isinstance(values, str) else None,
            choices=None if isinstance(values, str) else values,
            help=told,
        )


def _keywords(options: argparse.Namespace, function: Callable[..., Any]) -> dict[str, Any]:
    """The options that are parameters of ``function``."""
    return {name: vars(options)[name] for name in inspect.signature(function).parameters}


def _add_shared(parser: argparse.ArgumentParser, function: Callable[..., Any]) -> None:
    options: dict[str, Told] = {
        "similarity": ("NAME", SIMILARITIES),
        "epsilon": ("E", "mass floor of the beams' weights, 0 to 1"),
        "alpha": ("A", "eigenvalue threshold of Eccentricity and EigVecDissimilarity, above 0, at most 2"),
        "device": (DEVICES, "auto: cuda where there is one"),
        "dtype": (DTYPES, "auto: of similarities float32, of the model bfloat16 on cuda and float32 on a CPU"),
        "threads": ("N", "of torch on a CPU"),
    }
    _add(parser.add_argument_group("similarity, weights and machine"), function, options)


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=FORMATS, default="markdown", help="of what is printed")
    parser.add_argument("--output", metavar="FILE", help="write all rows there too: .csv, .jsonl or .parquet")


def _add_force(parser: argparse.ArgumentParser) -> None:
    told = "decide even where model, prompt, method, similarity or version are not those that were calibrated"
    parser.add_argument("--force", action="store_true", help=told)


def _ask_options(parser: argparse.ArgumentParser) -> None:
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
    style = "plain prompt or chat template; auto: chat where there is one, but not for the packaged model"
    shots = "JSON Lines of examples (id, question, answers), or none for no example; without it five of our own"
    parser.set_defaults(perform=_ask)
    parser.add_argument("question", nargs="?", help="or a file of them, --questions")
    _add(
        parser,
        ask,
        {
            "model": ("MODEL", "a folder, hub:ORG/NAME or packaged:NAME"),
            "style": (STYLES, style),
            "shots": ("FILE", shots),
            "width": ("M", "beams"),
            "max_new_tokens": ("N", "an answer that has not ended by then is cut"),
            "calibration": ("FILE", "of beamuq calibrate: say whether the answer is shown"),
        },
    )
    template = "a prompt template, as those in beamuq/prompts; without it that of jsonl.txt"
    parser.add_argument("--template", dest="prompt_template", metavar="FILE", help=template)
    threshold = "of Dissimilarity, 0 to 1: say whether the certified interval lies on one side of it"
    parser.add_argument("--threshold", type=float, metavar="U", help=threshold)
    _add_force(parser)
    asked = (
        "ask every question of a file (question, and as for score id, correct, quality, group; or answers, right ones)"
    )
    parser.add_argument("--questions", metavar="FILE", help=asked)
    parser.add_argument("--output", metavar="FILE", help="for --questions: the scores, for calibrate and decide")
    parser.add_argument("--verbose", action="store_true", help="every beam, and the never-worse estimate")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _add_shared(parser, ask)


def _ask(options: argparse.Namespace) -> None:
    keywords = _keywords(options, ask) | ({"shots": []} if options.shots == "none" else {})
    if (options.question is None) == (options.questions is None):
        raise BeamUQError("question: give one, or with --questions a file of them")
    if options.questions is not None:
        del keywords["question"]
        _print_scores(ask_all(options.questions, **keywords), options.output)
        return
    asked = ask(**keywords)
    print(asked.as_json() if options.json else asked)


def _score_options(parser: argparse.ArgumentParser) -> None:
    """Score anyone's candidates: what a model answered, and what else it might have said.

    A row of the file is a question with its answer and samples, beams or both;
    with log-probabilities, as far as they are known. Every method that the rows
    allow gives a score; what has none is told with the reason.

    examples:
      beamuq score rows.jsonl
      beamuq score rows.jsonl --methods Dissimilarity,CocoaPPL --similarity lexical
      beamuq score rows.jsonl --output scored.jsonl
    """
    parser.set_defaults(perform=_score)
    parser.add_argument("rows", metavar="file", help=".jsonl, .json or .parquet: a question a row")
    same = "from which similarity on two texts mean the same, for a similarity without classes"
    _add(
        parser,
        score,
        {
            "methods": ("NAMES", "comma-separated; module:attribute for your own; without it all there are"),
            "temperature": ("T", "at which the samples were drawn"),
            "equivalence_threshold": ("S", same),
        },
    )
    long = "a row a score, with its interval, range and reason, as csv and jsonl have anyhow"
    parser.add_argument("--long", action="store_true", help=long)
    _add_output(parser)
    _add_shared(parser, score)


def _score(options: argparse.Namespace) -> None:
    scores = score(**_keywords(options, score))
    _print_scores(scores, options.output, "long" if options.long and options.format == "markdown" else options.format)


def _print_scores(scores: pd.DataFrame, output: str | None, form: str = "markdown") -> None:
    if output:
        write(scores, output)
    sys.stdout.write(by_question(scores) if form == "markdown" else render(scores, form))


def _calibrate_options(parser: argparse.ArgumentParser) -> None:
    """Learn from answers known to be right or wrong: a probability, and a threshold with a guarantee.

    The file is what score writes of rows with correct (0 or 1) or quality, and
    with group where questions belong together. With --confidence, at most a
    share --risk of the answers shown by the threshold is wrong.

    examples:
      beamuq calibrate scored.jsonl --method CocoaPPL --risk 0.10 --confidence 0.95 --output my-model.calibration.json
      beamuq calibrate scored.csv --method Dissimilarity --form beamsearch --quality-threshold 0.5 --output made.json
    """
    parser.set_defaults(perform=lambda options: print(calibrate(**_keywords(options, calibrate))))
    parser.add_argument("rows", metavar="file", help="what score writes of rows with correct or quality")
    parser.add_argument("--method", required=True, metavar="NAME", help="whose scores")
    _add(
        parser,
        calibrate,
        {
            "form": (("multinomial", "beamsearch"), "needed where the method has scores in both"),
            "setting": ("NAME", "a further formulation of the method"),
            "risk": ("A", "the largest share of wrong answers among the shown ones"),
            "confidence": ("C", "with which that holds, over calibrations"),
            "tried": ("K", "methods, forms and risks tried on these answers in all: each is tested more strictly"),
            "probability": (CALIBRATORS, "how a score becomes a probability of being right"),
            "seed": ("S", "of every draw"),
        },
    )
    parser.add_argument("--quality-threshold", type=float, metavar="Q", help="an answer of quality above it is right")
    parser.add_argument("--output", required=True, metavar="FILE", help="the calibration, in JSON")


def _decide_options(parser: argparse.ArgumentParser) -> None:
    """Show or withhold answers, by a calibration.

    The file is what score writes. A model, prompt, method, similarity or version
    that is not the calibration's is refused; scores that are not distributed as
    the calibration's are warned of.

    examples:
      beamuq decide new.jsonl --calibration my-model.calibration.json
    """
    parser.set_defaults(perform=_decide)
    parser.add_argument("rows", metavar="file", help="what score writes")
    parser.add_argument("--calibration", required=True, metavar="FILE", help="of beamuq calibrate")
    _add_force(parser)
    _add_output(parser)


def _decide(options: argparse.Namespace) -> None:
    decisions = decide(**_keywords(options, decide))
    if options.output:
        write(decisions.table, options.output)
    sys.stdout.write(render(decisions.table, options.format))
    print(*decisions.told(), sep="\n", file=sys.stderr)


def _explore_options(parser: argparse.ArgumentParser) -> None:
    """Go through the questions of a study in a browser.

    It writes one HTML file that needs nothing else and no network: a table of
    questions to search and sort, and of each question the answer, beams and
    samples, similarities and scores.

    examples:
      beamuq explore results/demo
      beamuq explore rows.jsonl --output explorer.html
    """
    parser.set_defaults(perform=lambda options: print(explore(**_keywords(options, explore))))
    source = "results/STUDY, a Parquet file of one of its cells, or a file that score takes"
    output = "where to write it; without it explorer.html in the study's folder, or beside the file"
    parser.add_argument("source", help=source)
    _add(
        parser,
        explore,
        {
            "output": ("FILE", output),
            "questions": ("N", "the most questions in the file; several cells share them equally"),
            "similarity": ("NAME", SIMILARITIES),
            "equivalence_threshold": ("S", "from which similarity on two texts mean the same"),
        },
    )


COMMANDS = {
    "ask": _ask_options,
    "score": _score_options,
    "calibrate": _calibrate_options,
    "decide": _decide_options,
    "explore": _explore_options,
}
