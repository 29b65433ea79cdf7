"""The command lines of ``ask`` and ``score``; what both take stands once, and the documentation is written from it."""

from __future__ import annotations

import argparse
from typing import Any

from beamuq.api.ask_model import DEMO_MODEL, STYLES
from beamuq.api.score_table_text import FORMATS
from beamuq.models.devices import DEVICES, DTYPES


def ask_parser() -> argparse.ArgumentParser:
    """The options of ``python -m beamuq.ask``."""
    parser = argparse.ArgumentParser(
        prog="python -m beamuq.ask", description="Ask a model a question and see how sure it is."
    )
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
    _add_shared(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    return parser


def score_parser() -> argparse.ArgumentParser:
    """The options of ``python -m beamuq.score``."""
    parser = argparse.ArgumentParser(
        prog="python -m beamuq.score", description="Score a JSON Lines or Parquet file of anyone's candidates."
    )
    parser.add_argument("file", help=".jsonl or .parquet, one row a question")
    parser.add_argument(
        "--methods", metavar="NAMES", help="comma-separated; module:attribute for your own; without it all there are"
    )
    parser.add_argument("--temperature", type=float, default=1.0, metavar="T", help="at which the samples were drawn")
    parser.add_argument(
        "--same-meaning",
        type=float,
        default=0.8,
        metavar="S",
        help="threshold of 'same meaning' for a similarity without classes",
    )
    _add_shared(parser)
    parser.add_argument("--format", choices=FORMATS, default="markdown", help="of what is printed")
    return parser


def shared(options: argparse.Namespace) -> dict[str, Any]:
    """The values of the options that both commands take, as keyword arguments."""
    names = ("similarity", "epsilon", "alpha", "device", "dtype", "threads")
    return {name: getattr(options, name) for name in names}


def _add_shared(parser: argparse.ArgumentParser) -> None:
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
