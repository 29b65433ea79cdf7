"""The command ``beamuq``: one subcommand for each entry of :data:`COMMANDS`.

To add one, write its options and what it does, and give it an entry there; the reference is written from the options.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from beamuq.api.ask_model import DEMO_MODEL, STYLES, ask
from beamuq.api.score_candidates import score
from beamuq.api.score_table_text import FORMATS, render
from beamuq.models.devices import DEVICES, DTYPES
from beamuq.steps.entry import run


@dataclass(frozen=True)
class Command:
    """A subcommand: what it is for, its options, and what is done with them."""

    purpose: str
    add_options: Callable[[argparse.ArgumentParser], None]
    perform: Callable[[argparse.Namespace], None]


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says. Exit status 2, with one line on stderr: bad input."""
    options = command_parser().parse_args(arguments)
    run(lambda: COMMANDS[options.command].perform(options))


def command_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = argparse.ArgumentParser(prog="beamuq", description="Uncertainty of answers of language models.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        command.add_options(subparsers.add_parser(name, help=command.purpose, description=command.purpose))
    return parser


def options_of(name: str) -> argparse.ArgumentParser:
    """A parser of one subcommand's options, for the reference."""
    parser = argparse.ArgumentParser(prog=f"beamuq {name}")
    COMMANDS[name].add_options(parser)
    return parser


def _add_ask_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("question")
    parser.add_argument("--model", default=DEMO_MODEL, help="a folder, a hub id ORG/NAME or packaged:NAME")
    parser.add_argument(
        "--style", choices=STYLES, default="auto", help="plain prompt or chat template; auto: chat where there is one"
    )
    parser.add_argument(
        "--shots",
        metavar="FILE",
        help="JSON Lines of examples (id, question, answers), or none for no example; without it five of the demo's",
    )
    parser.add_argument(
        "--template", metavar="FILE", help="a prompt template as in workflow/prompts; without it that of jsonl.txt"
    )
    parser.add_argument("--width", type=int, default=10, metavar="M", help="beams")
    parser.add_argument(
        "--max-new-tokens", type=int, default=20, metavar="N", help="an answer that has not ended by then is cut"
    )
    _add_shared_options(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def _ask(options: argparse.Namespace) -> None:
    asked = ask(
        options.question,
        options.model,
        style=options.style,
        shots=[] if options.shots == "none" else options.shots,
        prompt_template=options.template,
        width=options.width,
        max_new_tokens=options.max_new_tokens,
        **_shared_options(options),
    )
    print(asked.as_json() if options.json else asked)


def _add_score_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help=".jsonl or .parquet, one row a question")
    parser.add_argument(
        "--methods", metavar="NAMES", help="comma-separated; module:attribute for your own; without it all there are"
    )
    parser.add_argument("--temperature", type=float, default=1.0, metavar="T", help="at which the samples were drawn")
    parser.add_argument(  # the option's name in version 1
        "--same-meaning",
        type=float,
        dest="equivalence_threshold",
        default=argparse.SUPPRESS,
        help=argparse.SUPPRESS,
    )
    parser.add_argument(
        "--equivalence-threshold",
        type=float,
        default=0.8,
        metavar="S",
        help="from which similarity on two texts mean the same, for a similarity without classes",
    )
    _add_shared_options(parser)
    parser.add_argument("--format", choices=FORMATS, default="markdown", help="of what is printed")


def _score(options: argparse.Namespace) -> None:
    scores = score(
        options.file,
        methods=options.methods,
        temperature=options.temperature,
        equivalence_threshold=options.equivalence_threshold,
        **_shared_options(options),
    )
    sys.stdout.write(render(scores, options.format))


def _add_shared_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--similarity",
        default="auto",
        metavar="NAME",
        help="auto, lexical, minilm, nli:MODEL, cross_encoder:MODEL, embedding:MODEL or module:attribute",
    )
    parser.add_argument(
        "--epsilon", type=float, default=0.0, metavar="E", help="mass floor of the beams' weights, 0 to 1"
    )
    parser.add_argument(
        "--alpha",
        type=float,
        default=0.9,
        metavar="A",
        help="eigenvalue threshold of Eccentricity and EigVecDissimilarity, above 0, at most 2",
    )
    parser.add_argument("--device", choices=DEVICES, default="auto", help="auto: cuda where there is one")
    parser.add_argument("--dtype", choices=DTYPES, default="auto", help="auto: bfloat16 on cuda, float32 on a CPU")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="of torch on a CPU")


def _shared_options(options: argparse.Namespace) -> dict[str, Any]:
    names = ("similarity", "epsilon", "alpha", "device", "dtype", "threads")
    return {name: getattr(options, name) for name in names}


COMMANDS = {
    "ask": Command("Ask a model a question and see how sure it is.", _add_ask_options, _ask),
    "score": Command("Score a JSON Lines or Parquet file of anyone's candidates.", _add_score_options, _score),
}
