"""The command ``beamuq``: a subcommand for each function, with its options beside what reads them.

A function is imported when its own command is used: ``beamuq --help`` answers at once.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import beamuq
from beamuq import __version__
from beamuq.errors import BeamUQError, ServerLostError, exit_with_one_line, print_warning
from beamuq.models.devices import DEVICES, DTYPES
from beamuq.own_program import PROGRAM
from beamuq.secret_masking import mask_output

if TYPE_CHECKING:
    import pandas as pd

EPILOG = """\
beamuq COMMAND --help says more, with examples. In Python each command is a function:
beamuq.ask(...), ...
From candidates to decisions: score, then calibrate on answers known to
be right or wrong, then decide.
A script that completes in your shell, with shtab installed:
  shtab --shell bash beamuq.cli.command_parser
exit status:
  0  done
  1  a fault of beamuq, with a traceback
  2  bad input, a refusal: one line says why, nothing was decided
  3  of decide: written, but the guarantee does not hold; see its --help
  130  stopped by Ctrl-C"""
FORMATS = ("markdown", "csv", "jsonl")
IMPORTED_OBJECTS = 1_000_000  # about as many as importing torch makes


def main(arguments: Sequence[str] | None = None) -> None:
    """Read the command line and do what it says.

    Exit status 2, with one line on stderr: bad input. 3: ``decide`` has decided, and the guarantee
    does not hold.
    """
    is_program = arguments is None
    words = sys.argv[1:] if arguments is None else arguments
    if is_program:
        PROGRAM.is_command = True
        mask_output(results=False)
        warnings.showwarning = print_warning
        gc.set_threshold(IMPORTED_OBJECTS)  # looking at them would take a third as long
    first_command = [word for word in words if word in COMMANDS][:1]
    options = command_parser(first_command).parse_args(words)
    exit_with_one_line(lambda: COMMANDS[options.command].run(options))
    if is_program:
        gc.freeze()  # or Python's end takes a third as long as importing torch
        _end_at_once()


def _end_at_once() -> None:
    """End a process that has imported torch, without freeing each object: a seventh of a second."""
    if "torch" in sys.modules:
        exit_with_one_line(sys.stdout.flush)
        os._exit(0)


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
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(
            name,
            help=command.summary,
            epilog=f"examples:\n{command.examples}{command.exit_status}",
            formatter_class=_Help,
        )
        if used is None or name in used:
            docstring = inspect.getdoc(getattr(beamuq, name)) or ""
            subparser.description = docstring.partition("\n\nParameters\n")[0]
            command.add_options(subparser)
    return parser


class _Help(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Descriptions as they are written, and each default that says something."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, False, ""):
            return action.help
        return super()._get_help_string(action)


# -- ask -------------------------------------------------------------------------------------------

ASK_EXAMPLES = """\
  beamuq ask "Who wrote Hamlet?"
  beamuq ask "Who wrote Hamlet?" --model hub:ORG/NAME --verbose
  beamuq ask "Who wrote Hamlet?" --calibration my-model.calibration.json"""


def _add_ask_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "question",
        nargs="?",
        help="One question, on one line; in Python a list too, decoded in batches that run common "
        "few-shot examples once, and with style chat a conversation, as for decode, or a list of "
        "them: asked as it is, without examples or template.",
    )
    command.add_argument(
        "--model",
        metavar="MODEL",
        default="packaged:smollm2-135m-instruct",
        help="A folder, hub:ORG/NAME or packaged:NAME, which is kept in memory for the next call; "
        "in Python (model, tokenizer) of transformers too, on any device. "
        "server:http://HOST:PORT/v1 is a server of vLLM or llama.cpp; its key, if it wants one, is "
        "BEAMUQ_API_KEY of the environment.",
    )
    command.add_argument(
        "--tokenizer",
        metavar="TOKENIZER",
        help="Of a server's model: a folder with its config.json too, hub:ORG/NAME or "
        "packaged:NAME.",
    )
    command.add_argument(
        "--style",
        choices=("plain", "chat"),
        default="plain",
        help="plain: the prompt is continued as text; chat: it is a user's message in the model's "
        "chat template.",
    )
    command.add_argument(
        "--shots",
        metavar="FILE",
        help="JSON Lines of examples (question, answers), in Python mappings too; none, or an "
        "empty list: no example; without it five of our own.",
    )
    command.add_argument(
        "--template",
        dest="prompt_template",
        metavar="FILE",
        help="A prompt template, as those in beamuq/prompts; without it that of jsonl.txt.",
    )
    command.add_argument("--width", type=int, metavar="N", default=10, help="Beams.")
    command.add_argument(
        "--max-new-tokens",
        type=int,
        metavar="N",
        default=20,
        help="An answer that has not ended by then is cut.",
    )
    command.add_argument(
        "--stop",
        choices=("newline", "eos"),
        default="newline",
        help="newline: an answer is one line, as in the paper; eos: it ends where the model ends "
        "it, and its text is whole.",
    )
    command.add_argument(
        "--calibration",
        metavar="FILE",
        help="Of beamuq calibrate: say how probably the answer is right, and whether it is shown.",
    )
    _add_force(command)
    command.add_argument(
        "--threshold",
        type=float,
        metavar="X",
        help="Of Dissimilarity, 0 to 1: say whether the certified interval lies on one side of it.",
    )
    _add_similarity(command)
    _add_epsilon_and_alpha(command)
    _add_device_dtype_threads(command)
    command.add_argument(
        "--questions",
        metavar="FILE",
        help="Ask every question of a file: question, or messages with --style chat, and answers "
        "(right ones), or as for score id, correct, quality, group.",
    )
    command.add_argument(
        "--output",
        metavar="FILE",
        help="For --questions: the scores, for calibrate and decide.",
    )
    command.add_argument(
        "--verbose", action="store_true", help="Every beam, with its probability and weight."
    )
    command.add_argument("--json", action="store_true", help="One JSON object instead of text.")


def _ask(options: argparse.Namespace) -> None:
    asks_file = options.questions is not None
    if asks_file == (options.question is not None):
        raise BeamUQError("question: give one, or with --questions a file of them")
    if options.output and not asks_file:
        raise BeamUQError("output: is of --questions; leave it out, or give a file of questions")
    ask: Callable[..., Any] = beamuq.ask
    if asks_file:
        ask = partial(_ask_file, output=options.output)
    answered = ask(
        options.questions if asks_file else options.question,
        options.model,
        tokenizer=options.tokenizer,
        style=options.style,
        shots=[] if options.shots == "none" else options.shots,
        prompt_template=options.prompt_template,
        width=options.width,
        max_new_tokens=options.max_new_tokens,
        stop=options.stop,
        calibration=options.calibration,
        force=options.force,
        threshold=options.threshold,
        similarity=options.similarity,
        epsilon=options.epsilon,
        alpha=options.alpha,
        device=options.device,
        dtype=options.dtype,
        threads=options.threads,
    )
    if asks_file:
        _print_scores(answered, options.output)
    elif options.json:
        _print(answered.as_json() + "\n")
    else:
        _print(answered.as_text(verbose=options.verbose) + "\n")
        _print_footer()


def _ask_file(questions: str, model: str, *, output: str | None, **options: Any) -> pd.DataFrame:
    """As ``ask_all``; what was answered before a model server was lost is written."""
    from beamuq.api.rows import write

    try:
        return beamuq.ask_all(questions, model, **options)
    except ServerLostError as error:
        if error.finished is None or output is None:
            raise
        write(error.finished, output)
        count = error.finished["id"].nunique()
        raise BeamUQError(
            f"{error.__cause__}; the scores of the first {count} questions are in {output}"
        ) from error


# -- score -----------------------------------------------------------------------------------------

KEY_OPTIONS = (
    *("answer_key", "samples_key", "answer_logprobs_key", "samples_logprobs_key"),
    *("id_key", "correct_key"),
)
"""Where another tool's rows have what a command reads of them."""
SCORE_SETTINGS = (
    *("similarity", "methods", "temperature", "epsilon", "alpha", "equivalence_threshold"),
    *("without_ending", "with_ending", "draw_size"),
    *KEY_OPTIONS,
    *("prompt_hash", "skip_invalid", "skip_invalid_samples", "leave_one_out"),
    *("device", "dtype", "threads"),
)
MOST_PRINTED = 5_000
"""Questions; of a longer file the scores are written to ``--output`` alone, some at a time."""
LARGE_FILE = 10_000_000
"""Bytes of a file of scores from which it is said that Parquet is smaller."""
SCORE_EXAMPLES = """\
  beamuq score rows.jsonl
  beamuq score rows.jsonl --methods Dissimilarity,CocoaPPL --similarity lexical
  beamuq score rows.jsonl --output scored.jsonl
  beamuq score theirs.jsonl --answer-key response --samples-key choices.text
  beamuq score theirs.jsonl --answer-key response --samples-key choices.text \
    --id-key meta.id --correct-key grade.correct
  beamuq score run.eval --shown greedy.eval"""


def _add_score_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "rows",
        help="A .jsonl, .ndjson, .json (an array) or .parquet file, a question a row; in Python "
        "mappings or a frame too, with the keys of beamuq.api.candidate_records.QuestionRecord. Or "
        "a log of Inspect, .eval or .json, see beamuq.from_inspect.",
    )
    _add_similarity(command)
    command.add_argument(
        "--methods",
        metavar="NAMES",
        help="Names of methods between commas, or a list; module:attribute for one of your own; "
        "all: all there are. Without it the tables show Perplexity, Dissimilarity and CocoaPPL; "
        "files, csv and jsonl have all.",
    )
    command.add_argument(
        "--temperature",
        type=float,
        metavar="X",
        default=1.0,
        help="At which the samples were drawn. Their weights are p^(1 − 1/T), so 1/M each at 1.",
    )
    _add_epsilon_and_alpha(command)
    command.add_argument(
        "--equivalence-threshold",
        type=float,
        metavar="X",
        default=0.8,
        help="From which similarity on two texts mean the same, in (0, 1], for a similarity "
        "without classes.",
    )
    _add_endings(command)
    command.add_argument(
        "--draw-size",
        type=int,
        metavar="M",
        help="Of samples that are several draws: score the methods over samples on each disjoint "
        "draw of so many too, by settings M=10 draw=1, …, of which compare takes the mean of their "
        "PRR.",
    )
    _add_keys(command)
    command.add_argument(
        "--prompt-hash",
        metavar="TEXT",
        default="",
        help="Of rows that do not say it: any text that changes with the prompt around the "
        "questions, by which decide refuses scores of another prompt than was calibrated.",
    )
    _add_skip_invalid(command)
    command.add_argument(
        "--leave-one-out",
        action="store_true",
        help="The answer is one of its samples: that one is left out of what it is compared with.",
    )
    command.add_argument(
        "--shown",
        metavar="LOG",
        help="Of a log of Inspect: another one, at temperature 0, whose answers are the shown "
        "ones; without it the first epoch's are.",
    )
    command.add_argument(
        "--scorer",
        metavar="NAME",
        default="",
        help="Of a log of Inspect with several: whose score is the quality.",
    )
    _add_device_dtype_threads(command)
    command.add_argument(
        "--long",
        action="store_true",
        help="A row a score, with its interval, range and reason, as csv and jsonl have anyhow.",
    )
    _add_format_and_output(command)


def _score(options: argparse.Namespace) -> None:
    settings = {name: getattr(options, name) for name in SCORE_SETTINGS}
    if _is_long_file(options):
        count = beamuq.score_file(options.rows, options.output, **settings)
        _tell_if_large(Path(options.output))
        similarity = _similarity_in(Path(options.output))
        _print(f"{count} questions scored: {options.output}; similarity: {similarity}\n")
        _print_footer()
        return
    scores = beamuq.score(options.rows, shown=options.shown, scorer=options.scorer, **settings)
    is_long = options.long and options.format == "markdown"
    form = "long" if is_long else options.format
    _print_scores(scores, options.output, form, shows_few=options.methods is None)


def _similarity_in(scored: Path) -> str:
    """By which similarity the texts of a file of scores were compared."""
    from beamuq.io import rows_of

    _, first_row = next(rows_of(scored))
    return str(first_row["similarity"])


def _is_long_file(options: argparse.Namespace) -> bool:
    """Whether rows are written without being held or printed: too many to be looked at."""
    from beamuq.api.score_file import lines_of
    from beamuq.io import SUFFIXES

    rows = Path(options.rows)
    endings = {rows.suffix, Path(options.output or "").suffix}
    is_printed = options.format != "markdown" or options.long
    if is_printed or not endings <= set(SUFFIXES) or not rows.is_file():
        return False
    return lines_of(rows) > MOST_PRINTED


# -- calibrate -------------------------------------------------------------------------------------

CALIBRATE_EXAMPLES = """\
  beamuq calibrate scored.jsonl --method CocoaPPL --risk 0.10 --output my-model.calibration.json
  beamuq calibrate scored.csv --method PTrue --quality-threshold 0.5 --output made.json
  beamuq calibrate scored.jsonl --method CocoaPPL --json"""


CALIBRATE_EXIT_STATUS = """

exit status:
  0  calibrated and written, also where no threshold has the guarantee:
     threshold.value of the file is null then, and decide shows nothing
  2  refused, nothing is written: bad rows, or more than half without a
     score of the method"""


def _add_calibrate_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "rows",
        help="What score writes of rows with correct (0 or 1) or quality, and with group where "
        "questions belong together. Rows whose correct or quality is null, or that have no score "
        "of the method, are left out, which a warning says.",
    )
    command.add_argument("--method", metavar="NAME", required=True, help="Whose scores.")
    command.add_argument(
        "--form",
        choices=("multinomial", "beamsearch"),
        help="Over samples or beams, needed where the method has scores in both.",
    )
    command.add_argument(
        "--setting", metavar="NAME", default="", help="A further formulation of the method."
    )
    command.add_argument(
        "--risk",
        type=float,
        metavar="X",
        default=0.1,
        help="The largest share of wrong answers among the shown ones.",
    )
    command.add_argument(
        "--confidence",
        type=float,
        metavar="X",
        default=0.95,
        help="With which that holds, over calibrations.",
    )
    command.add_argument(
        "--tried",
        type=int,
        metavar="N",
        default=1,
        help="Methods, forms and risks tried on these answers in all: each is tested more "
        "strictly.",
    )
    command.add_argument(
        "--quality-threshold",
        type=float,
        metavar="X",
        help="An answer of quality above it is right; needed where rows have no correct.",
    )
    command.add_argument(
        "--probability",
        choices=("venn_abers", "isotonic"),
        default="venn_abers",
        help="How a score becomes a probability of being right.",
    )
    command.add_argument(
        "--output",
        metavar="FILE",
        help="Where to write the calibration, in JSON; the command needs it, or --json.",
    )
    command.add_argument(
        "--json",
        action="store_true",
        help="Print the calibration as one JSON object, as its file has it.",
    )


def _calibrate(options: argparse.Namespace) -> None:
    if options.output is None and not options.json:
        raise BeamUQError("output: missing; give --output FILE, or --json to print the calibration")
    calibration = beamuq.calibrate(
        options.rows,
        method=options.method,
        form=options.form,
        setting=options.setting,
        risk=options.risk,
        confidence=options.confidence,
        tried=options.tried,
        quality_threshold=options.quality_threshold,
        probability=options.probability,
        output=options.output,
    )
    if options.json:
        _print(f"{calibration.as_json()}\n")
        return
    print(calibration)
    _print_footer()


# -- decide ----------------------------------------------------------------------------------------

DECIDE_EXAMPLES = """\
  beamuq decide new.jsonl --calibration my-model.calibration.json
  beamuq decide new.jsonl --calibration my-model.calibration.json --json"""
DECIDE_EXIT_STATUS = """

exit status:
  0  decided, as was calibrated; nothing is shown where no threshold has the
     guarantee
  2  refused, nothing is written: bad rows or calibration, or scores of
     another model, prompt, method, similarity, setting or version
  3  decided and written, but the guarantee does not hold: the scores are
     not distributed as the calibration's (p < 0.01), --force let a
     difference pass, or scores were calibrated on: all of them are here,
     or, where values seldom repeat, a part; stderr says which"""
GUARANTEE_LOST = 3  # the exit status


def _add_decide_options(command: argparse.ArgumentParser) -> None:
    command.add_argument("rows", help="What score writes, with or without labels.")
    command.add_argument(
        "--calibration",
        metavar="FILE",
        required=True,
        help="Of beamuq calibrate; in Python its object too.",
    )
    _add_force(command)
    command.add_argument(
        "--quality-threshold",
        type=float,
        metavar="X",
        help="Where rows have quality in place of correct: an answer of quality above it is right, "
        "which is counted and decides nothing.",
    )
    _add_format_and_output(command)
    command.add_argument(
        "--json",
        action="store_true",
        help="Print one JSON object: decisions, the test's p, warnings, how many of the shown "
        "answers are wrong by labels beside them, whether the guarantee holds.",
    )


def _decide(options: argparse.Namespace) -> None:
    from beamuq.api.rows import render, write

    if options.json and options.format != "markdown":
        raise BeamUQError(f"format: {options.format}: is not of --json; give one of both")
    decisions = beamuq.decide(
        options.rows,
        options.calibration,
        force=options.force,
        quality_threshold=options.quality_threshold,
    )
    if options.output:
        write(decisions.table, options.output)
    if options.json:
        _print(decisions.as_json() + "\n")
    else:
        _print(render(decisions.table, options.format))
    if options.format == "markdown" and not options.json:
        _print_footer()
    print(*decisions.told(), sep="\n", file=sys.stderr)
    if not decisions.guarantee_holds:
        raise SystemExit(GUARANTEE_LOST)


# -- advise ----------------------------------------------------------------------------------------

ADVISE_EXAMPLES = """\
  beamuq advise candidates.jsonl"""


def _add_advise_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "rows",
        help="A .jsonl, .ndjson, .json or .parquet file as score takes it, a question a row, with "
        "beams; in Python mappings or a frame too. Its key answers, a list of right ones, tells κ "
        "and in how many questions one is among the beams.",
    )


def _advise(options: argparse.Namespace) -> None:
    _print(str(beamuq.advise(options.rows)))
    _print_footer()


# -- explore ---------------------------------------------------------------------------------------

EXPLORE_EXAMPLES = """\
  beamuq explore results/demo
  beamuq explore rows.jsonl --output explorer.html
  beamuq explore theirs.jsonl --answer-key response --samples-key choices.text \
    --question-key prompt"""


def _add_explore_options(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "source",
        help="results/STUDY, a Parquet file of one of its cells, or a file that score takes, which "
        "is scored first.",
    )
    command.add_argument(
        "--output",
        metavar="FILE",
        help="Where to write it; without it explorer.html in the study's folder, or beside the "
        "file, under its name.",
    )
    command.add_argument(
        "--questions",
        type=int,
        metavar="N",
        default=2000,
        help="The most questions in the file; several cells share them equally. The page says what "
        "is left out.",
    )
    command.add_argument(
        "--similarity",
        metavar="NAME",
        default="auto",
        help="Of a file that score takes, and as there.",
    )
    command.add_argument(
        "--equivalence-threshold",
        type=float,
        metavar="X",
        default=0.8,
        help="From which similarity on two texts mean the same.",
    )
    _add_keys(command)
    command.add_argument(
        "--question-key",
        metavar="KEY",
        default="",
        help="Where they have the question, whose text is shown: a text, or a list of chat "
        "messages, of which the user's last is shown.",
    )
    _add_endings(command)
    _add_skip_invalid(command)


def _explore(options: argparse.Namespace) -> None:
    keys = {name: getattr(options, name) for name in KEY_OPTIONS}
    path = beamuq.explore(
        options.source,
        output=options.output,
        questions=options.questions,
        similarity=options.similarity,
        equivalence_threshold=options.equivalence_threshold,
        without_ending=options.without_ending,
        with_ending=options.with_ending,
        question_key=options.question_key,
        skip_invalid=options.skip_invalid,
        skip_invalid_samples=options.skip_invalid_samples,
        **keys,
    )
    print(path)


# -- options and prints of several commands --------------------------------------------------------


def _add_keys(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--answer-key",
        metavar="KEY",
        default="",
        help="Where another tool's rows have the answer: a key, or a path such as choices.0.text. "
        "Or a whole response of a server, of which endings, log-probabilities and model are read. "
        "Their other columns are then their own: a misspelt one is not noticed.",
    )
    command.add_argument(
        "--samples-key",
        metavar="KEY",
        default="",
        help="Where they have the samples: a list, or a path such as choices.text; or whole "
        "responses of a server, one or a list. With the answer's key again, of one response: its "
        "first choice is the answer, the others are samples.",
    )
    command.add_argument(
        "--answer-logprobs-key",
        metavar="KEY",
        default="",
        help="Where they have the answer's natural log-probability, a number; or a list of its "
        "tokens', the ending's included: without that of a chat server's list, say "
        "--without-ending. Null, or not there, where it is not known; at least one row has it.",
    )
    command.add_argument(
        "--samples-logprobs-key",
        metavar="KEY",
        default="",
        help="The same of the samples: a list of one number, or one list, a sample.",
    )
    command.add_argument(
        "--id-key",
        metavar="KEY",
        default="",
        help="Where they have the question's id, a text or a whole number: a key, or a path such "
        "as meta.id.",
    )
    command.add_argument(
        "--correct-key",
        metavar="KEY",
        default="",
        help="Where they have whether the answer is right: 0 or 1, true or false; null, or not "
        "there, where it is not known; at least one row has it.",
    )


def _add_skip_invalid(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--skip-invalid",
        action="store_true",
        help="Leave out rows that cannot be read, such as one whose answer is null, and warn of "
        "them; else the first is refused.",
    )
    command.add_argument(
        "--skip-invalid-samples",
        action="store_true",
        help="Leave out samples that cannot be read, such as one that a filter cut, and score "
        "their rows with the others; a warning counts them. Else the first is refused.",
    )


def _add_endings(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--without-ending",
        action="store_true",
        help="Log-probabilities lack the ending's (end-of-sequence token's), where a server left "
        "out only that, or in rows of your own that do not say otherwise: take the sum of the "
        "others. Such scores have a note and no certified interval.",
    )
    command.add_argument(
        "--with-ending",
        action="store_true",
        help="Your own lists of tokens' log-probabilities hold the ending's: without this, or "
        '"ended" beside a list, that is believed with a warning.',
    )


def _add_similarity(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--similarity",
        metavar="NAME",
        default="auto",
        help="auto, lexical, minilm, nli:MODEL, cross_encoder:MODEL, embedding:MODEL or "
        "module:attribute. auto: minilm where it was fetched, else lexical, with a warning.",
    )


def _add_epsilon_and_alpha(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--epsilon",
        type=float,
        metavar="X",
        default=0.0,
        help="Mass floor of the beams' weights, 0 to 1.",
    )
    command.add_argument(
        "--alpha",
        type=float,
        metavar="X",
        default=0.9,
        help="Eigenvalue threshold of Eccentricity and EigVecDissimilarity, above 0, at most 2.",
    )


def _add_device_dtype_threads(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--device",
        choices=DEVICES,
        default="auto",
        help="Of models; auto: cuda where there is one.",
    )
    command.add_argument(
        "--dtype",
        choices=DTYPES,
        default="auto",
        help="Of models; auto: of similarities float32, of the model bfloat16 on cuda and float32 "
        "on a CPU.",
    )
    command.add_argument(
        "--threads",
        type=int,
        metavar="N",
        default=1,
        help="Of torch on a CPU, in the whole process from then on.",
    )


def _add_force(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--force",
        action="store_true",
        help="Decide even where model, prompt, method, similarity, settings or version are not "
        "those that were calibrated.",
    )


def _add_format_and_output(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--format", choices=FORMATS, default="markdown", help="Of what is printed."
    )
    command.add_argument(
        "--output",
        metavar="FILE",
        help="Write all rows there too: .parquet, the smallest by far, .jsonl or .csv.",
    )


def _print_scores(
    scores: pd.DataFrame, output: str | None, form: str = "markdown", *, shows_few: bool = False
) -> None:
    """Print scores as one of FORMATS, or ``long``: a row a score in Markdown; write them too.

    ``shows_few``: of the text for people, which csv and jsonl are not, the few scores to start
    with.
    """
    from beamuq.api.rows import by_question, render, write

    if output:
        write(scores, output)
        _tell_if_large(Path(output))
    if form not in ("markdown", "long"):
        _print(render(scores, form))
        return
    printed = _starting_scores(scores) if shows_few else scores
    if form == "markdown":
        _print(by_question(printed))
    else:
        _print(render(printed.drop(columns="scored_with"), form))
    left_out = scores[scores["value"].notna()]["method"].nunique()
    left_out -= printed[printed["value"].notna()]["method"].nunique()
    if left_out:
        _print(f"scores of {left_out} further methods: --methods all\n")
    _print_footer()


def _tell_if_large(scored: Path) -> None:
    """Say on stderr where a large file of scores could be a small one."""
    if scored.suffix == ".parquet" or not scored.is_file():
        return
    size = scored.stat().st_size
    if size > LARGE_FILE:
        print(
            f"{scored}: {size / 1e6:.0f} MB, as each score repeats what it was scored with; as "
            ".parquet the same columns take about a thirtieth",
            file=sys.stderr,
        )


def _starting_scores(scores: pd.DataFrame) -> pd.DataFrame:
    """The scores to start with; all of them where none of these has a value."""
    from beamuq.api.score_candidates import STARTING_METHODS

    few = scores[scores["method"].isin(STARTING_METHODS)]
    return few if few["value"].notna().any() else scores


def _print_footer() -> None:
    """When and by which version a result was made, below what is printed for people."""
    from beamuq.made_date import footer

    _print(f"{footer()}\n")


def _print(text: str) -> None:
    """Print a text, escaped where stdout's encoding lacks a character, or a terminal obeys it."""
    from beamuq.api.rows import visible

    encoding = sys.stdout.encoding or "utf-8"
    print(visible(text).encode(encoding, "backslashreplace").decode(encoding), end="")


@dataclass(frozen=True)
class Command:
    """A subcommand: a line on it, examples, what adds its options, and what does as they say.

    ``exit_status``: what its own mean, below the examples.
    """

    summary: str
    examples: str
    add_options: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], None]
    exit_status: str = ""


COMMANDS = {
    "ask": Command(
        "Ask a model a question, or many, and see how sure it is of its greedy answer, from a "
        "beam search.",
        ASK_EXAMPLES,
        _add_ask_options,
        _ask,
    ),
    "score": Command(
        "Score anyone's candidates: what a model answered, and what else it might have said.",
        SCORE_EXAMPLES,
        _add_score_options,
        _score,
    ),
    "calibrate": Command(
        "Learn from answers known to be right or wrong: a probability, and a threshold with a "
        "guarantee.",
        CALIBRATE_EXAMPLES,
        _add_calibrate_options,
        _calibrate,
        CALIBRATE_EXIT_STATUS,
    ),
    "decide": Command(
        "Show or withhold answers, by a calibration, with each one's probability of being right.",
        DECIDE_EXAMPLES,
        _add_decide_options,
        _decide,
        DECIDE_EXIT_STATUS,
    ),
    "advise": Command(
        "Say where questions of one's own are on the map of when beams win, and what it shows "
        "there.",
        ADVISE_EXAMPLES,
        _add_advise_options,
        _advise,
    ),
    "explore": Command(
        "Go through the questions of a study in a browser.",
        EXPLORE_EXAMPLES,
        _add_explore_options,
        _explore,
    ),
}
"""Each is a function of the package by the same name."""
