"""The command ``beamuq``: one subcommand for each entry of :data:`COMMANDS`.

To add one, write its options and what it does, and give it an entry there; the reference is written from the options.
An option stands for the parameter of the same name of a function in :mod:`beamuq.api`, whose default it has.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import shutil
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

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

SIMILARITIES = "auto, lexical, minilm, nli:MODEL, cross_encoder:MODEL, embedding:MODEL or module:attribute"


@dataclass(frozen=True)
class Command:
    """A subcommand: what it is for, what else its ``--help`` says, its options, and what is done with them."""

    purpose: str
    more: str
    examples: tuple[str, ...]
    add_options: Callable[[argparse.ArgumentParser], None]
    perform: Callable[[argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says. Exit status 2, with one line on stderr: bad input."""
    if arguments is None:
        mask_output(results=False)
        gc.set_threshold(100_000)  # collecting as often as usual takes a sixth of the time in which torch is imported
    options = command_parser().parse_args(arguments)
    exit_with_one_line(lambda: COMMANDS[options.command].perform(options))


class _Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Descriptions as they are written, and each default that says something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        unsaid = action.default is None or action.default is False or action.default == ""
        return action.help if unsaid else super()._get_help_string(action)


class _Parser(argparse.ArgumentParser):
    """A parser that repeats no wrong value of a million characters."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_Help, **settings)

    def error(self, message: str) -> NoReturn:
        super().error(str(BeamUQError(message)))


class _Completion(argparse.Action):
    """Print :func:`completion` and end."""

    def __call__(self, *_: Any) -> None:
        print(completion(), end="")
        raise SystemExit(0)


def command_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    epilog = (
        "beamuq COMMAND --help says more, with examples. In Python each command is a function: beamuq.ask(...), ...\n"
        "From candidates to decisions: score, then calibrate on answers known to be right or wrong, then decide."
    )
    parser = _Parser(prog="beamuq", description="How sure a language model is of its answer.", epilog=epilog)
    parser.add_argument("--version", action="version", version=f"beamuq {__version__}")
    parser.add_argument(
        "--completion", action=_Completion, nargs=0, help="print a script that completes in bash and zsh"
    )
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        examples = "".join(f"\n  beamuq {name} {each}" for each in command.examples)
        told = f"{command.purpose}\n\n{textwrap.fill(command.more, 79)}"
        each = subparsers.add_parser(name, help=command.purpose, description=told, epilog=f"examples:{examples}")
        command.add_options(each)
    return parser


def options_of(name: str) -> argparse.ArgumentParser:
    """A parser of one subcommand's options, for the reference and the completion."""
    parser = argparse.ArgumentParser(prog=f"beamuq {name}")
    COMMANDS[name].add_options(parser)
    return parser


def completion() -> str:
    """A script for bash and zsh that completes commands, options, their choices and, elsewhere, names of files."""
    cases = []
    for name in COMMANDS:
        options = [each for each in options_of(name)._actions if each.option_strings and each.help != argparse.SUPPRESS]
        for each in options:
            if each.nargs != 0:
                choices = " ".join(map(str, each.choices or ()))
                cases.append(f'    "{name} {each.option_strings[-1]}") words="{choices}" ;;')
        flags = " ".join(each.option_strings[-1] for each in options)
        cases.append(f'    "{name} "*) [[ $word == -* ]] && words="{flags}" ;;')
    return "\n".join(
        (
            "[[ -n ${ZSH_VERSION-} ]] && autoload -U +X compinit bashcompinit && compinit && bashcompinit",
            "_beamuq() {",
            '  local word="${COMP_WORDS[COMP_CWORD]}" words=""',
            '  case "${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD - 1]}" in',
            f'    "$word beamuq") words="{" ".join(COMMANDS)} --help --version" ;;',
            *cases,
            "  esac",
            '  COMPREPLY=($(compgen -W "$words" -- "$word"))',
            "}",
            "complete -o default -F _beamuq beamuq",
            "",
        )
    )


def _add_options(
    parser: argparse._ActionsContainer,
    function: Callable[..., Any],
    options: dict[str, tuple[str | Sequence[str], str]],
) -> None:
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


def _add_ask_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question", nargs="?", help="or a file of them, --questions")
    _add_options(
        parser,
        ask,
        {
            "model": ("MODEL", "a folder, hub:ORG/NAME or packaged:NAME"),
            "style": (
                STYLES,
                "plain prompt or chat template; auto: chat where there is one, but not for the packaged model",
            ),
            "shots": (
                "FILE",
                "JSON Lines of examples (id, question, answers), or none for no example; without it five of our own",
            ),
        },
    )
    parser.add_argument(
        "--template",
        dest="prompt_template",
        metavar="FILE",
        help="a prompt template, as those in beamuq/prompts; without it that of jsonl.txt",
    )
    _add_options(
        parser,
        ask,
        {
            "width": ("M", "beams"),
            "max_new_tokens": ("N", "an answer that has not ended by then is cut"),
        },
    )
    parser.add_argument(
        "--threshold",
        type=float,
        metavar="U",
        help="of Dissimilarity, 0 to 1: say whether the certified interval lies on one side of it",
    )
    parser.add_argument("--calibration", metavar="FILE", help="of beamuq calibrate: say whether the answer is shown")
    _add_force(parser)
    told = (
        "ask every question of a file (question, and as for score id, correct, quality, group; or answers, right ones)"
    )
    parser.add_argument("--questions", metavar="FILE", help=told)
    parser.add_argument("--output", metavar="FILE", help="for --questions: the scores, for calibrate and decide")
    parser.add_argument("--verbose", action="store_true", help="every beam, and the never-worse estimate")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _add_options(parser.add_argument_group(SHARED), ask, SHARED_OPTIONS)


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


def _add_score_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rows", metavar="file", help=".jsonl, .json or .parquet: a question a row, or a server's response a line"
    )
    parser.add_argument(  # the threshold's name in version 1
        "--same-meaning",
        dest="equivalence_threshold",
        type=float,
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )
    _add_options(
        parser,
        score,
        {
            "methods": ("NAMES", "comma-separated; module:attribute for your own; without it all there are"),
            "temperature": ("T", "at which the samples were drawn"),
            "equivalence_threshold": (
                "S",
                "from which similarity on two texts mean the same, for a similarity without classes",
            ),
        },
    )
    parser.add_argument(
        "--long",
        action="store_true",
        help="a row a score, with its interval, range and reason, as csv and jsonl have anyhow",
    )
    _add_output(parser)
    _add_options(parser.add_argument_group(SHARED), score, SHARED_OPTIONS)


def _add_output(parser: argparse.ArgumentParser) -> None:
    told = (
        "of what is printed; in csv an id or another text that a spreadsheet would "
        "run (it begins with =, +, - or @) has an apostrophe before it, in jsonl it is as it came"
    )
    parser.add_argument("--format", choices=FORMATS, default="markdown", help=told)
    parser.add_argument("--output", metavar="FILE", help="write all rows there too: .csv, .jsonl or .parquet")


def _score(options: argparse.Namespace) -> None:
    form = "long" if options.long and options.format == "markdown" else options.format
    _print_scores(score(**_keywords(options, score)), options.output, form)


def _print_scores(scores: pd.DataFrame, output: str | None, form: str = "markdown") -> None:
    if output:
        write(scores, output)
    columns = shutil.get_terminal_size((10**6, 24)).columns  # a file or another program takes lines of any length
    sys.stdout.write(by_question(scores, columns) if form == "markdown" else render(scores, form))


def _add_force(parser: argparse.ArgumentParser) -> None:
    told = "decide even where model, prompt, method, similarity or version are not those that were calibrated"
    parser.add_argument("--force", action="store_true", help=told)


def _add_calibrate_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rows", metavar="file", help="what score writes of rows with correct or quality")
    parser.add_argument("--method", required=True, metavar="NAME", help="whose scores")
    _add_options(
        parser,
        calibrate,
        {
            "form": (("multinomial", "beamsearch"), "needed where the method has scores in both"),
            "setting": ("NAME", "a further formulation of the method"),
            "risk": ("A", "the largest share of wrong answers among the shown ones"),
            "confidence": ("C", "with which that holds, over calibrations"),
            "tried": ("K", "methods, forms and risks tried on these answers in all: each is tested more strictly"),
        },
    )
    parser.add_argument("--quality-threshold", type=float, metavar="Q", help="an answer of quality above it is right")
    _add_options(
        parser,
        calibrate,
        {
            "probability": (CALIBRATORS, "how a score becomes a probability of being right"),
            "seed": ("S", "of every draw"),
        },
    )
    parser.add_argument("--output", required=True, metavar="FILE", help="the calibration, in JSON")


def _calibrate(options: argparse.Namespace) -> None:
    print(calibrate(**_keywords(options, calibrate)))


def _add_decide_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rows", metavar="file", help="what score writes")
    parser.add_argument("--calibration", required=True, metavar="FILE", help="of beamuq calibrate")
    _add_force(parser)
    _add_output(parser)


def _decide(options: argparse.Namespace) -> None:
    found = decide(**_keywords(options, decide))
    if options.output:
        write(found.table, options.output)
    sys.stdout.write(render(found.table, options.format))
    print(*found.told(), sep="\n", file=sys.stderr)


def _add_explore_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        help="results/STUDY, a Parquet file of one of its cells, or a file that score takes or prints (.jsonl)",
    )
    _add_options(
        parser,
        explore,
        {
            "output": ("FILE", "where to write it; without it explorer.html in the study's folder, or beside the file"),
            "questions": ("N", "the most questions in the file; several cells share them equally"),
            "similarity": ("NAME", SIMILARITIES),
            "equivalence_threshold": ("S", "from which similarity on two texts mean the same"),
        },
    )


def _explore(options: argparse.Namespace) -> None:
    print(explore(**_keywords(options, explore)))


SHARED = "similarity, weights and machine"
SHARED_OPTIONS: dict[str, tuple[str | Sequence[str], str]] = {
    "similarity": ("NAME", SIMILARITIES),
    "epsilon": ("E", "mass floor of the beams' weights, 0 to 1"),
    "alpha": ("A", "eigenvalue threshold of Eccentricity and EigVecDissimilarity, above 0, at most 2"),
    "device": (DEVICES, "auto: cuda where there is one"),
    "dtype": (DTYPES, "auto: of similarities float32, of the model bfloat16 on cuda and float32 on a CPU"),
    "threads": ("N", "of torch on a CPU"),
}
COMMANDS = {
    "ask": Command(
        "Ask a model a question and see how sure it is.",
        "Shown are its answer, the texts that it might say with their probabilities, the interval that certainly "
        "holds Dissimilarity under its whole distribution, and eight scores; higher = more uncertain. Without "
        "--model it is the demo's small model, which is fetched once.",
        (
            '"Who wrote Hamlet?"',
            '"Who wrote Hamlet?" --model hub:ORG/NAME --verbose',
            '"Who wrote Hamlet?" --calibration my-model.calibration.json',
        ),
        _add_ask_options,
        _ask,
    ),
    "score": Command(
        "Score anyone's candidates: what a model answered, and what else it might have said.",
        "A row of the file is a question with its answer and samples, beams or both; with log-probabilities, as "
        "far as they are known. Every method that the rows allow gives a score; what has none is told with the "
        "reason.",
        (
            "rows.jsonl",
            "rows.jsonl --methods Dissimilarity,CocoaPPL --similarity lexical",
            "responses-of-a-server.jsonl --output scored.jsonl",
        ),
        _add_score_options,
        _score,
    ),
    "calibrate": Command(
        "Learn from answers known to be right or wrong: a probability, and a threshold with a guarantee.",
        "The file is what score writes of rows with correct (0 or 1) or quality, and with group where questions "
        "belong together. With --confidence, at most a share --risk of the answers shown by the threshold is "
        "wrong.",
        (
            "scored.jsonl --method CocoaPPL --risk 0.10 --confidence 0.95 --output my-model.calibration.json",
            "scored.csv --method Dissimilarity --form beamsearch --quality-threshold 0.5 --output made.json",
        ),
        _add_calibrate_options,
        _calibrate,
    ),
    "decide": Command(
        "Show or withhold answers, by a calibration.",
        "The file is what score writes. A model, prompt, method, similarity or version that is not the "
        "calibration's is refused; scores that are not distributed as the calibration's are warned of.",
        ("new.jsonl --calibration my-model.calibration.json",),
        _add_decide_options,
        _decide,
    ),
    "explore": Command(
        "Go through the questions of a study in a browser.",
        "It writes one HTML file that needs nothing else and no network: a table of questions to search and sort, "
        "and of each question the answer, beams and samples, similarities and scores.",
        ("results/demo", "rows.jsonl --output explorer.html"),
        _add_explore_options,
        _explore,
    ),
}
