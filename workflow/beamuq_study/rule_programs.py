"""How the programs under ``workflow/scripts`` are started by their rules.

Each has one function ``run`` whose keyword arguments are called like the rule's files, parameters
and wildcards. The tables among the inputs, or the outputs, that it does not name are its
``**tables``, or ``**outputs``. A rule passes them as ``--name value …``.
"""

from __future__ import annotations

import ast
import gc
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from beamuq.errors import BeamUQError, exit_with_one_line, print_warning
from beamuq.secret_masking import mask_output
from beamuq_study import cost_records

OTHERS = {"tables", "outputs"}


def run_program(run: Callable[..., None], *, output: str) -> None:
    """Run a program with its command line; ``output``: the argument that names its file."""
    mask_output()
    warnings.showwarning = print_warning
    # importing torch makes so many objects that looking at them takes a sixth of its time
    gc.set_threshold(10_000)
    exit_with_one_line(lambda: _run(run, words_by_name(sys.argv[1:]), output))
    took = cost_records.taken(cost_records.FINISHED)
    print(
        f"peak memory: {took['peak_memory_mb'] / 1e3:.2f} GB; CPU: {took['cpu_seconds']:.1f} s",
        file=sys.stderr,
    )
    gc.freeze()  # nor looked at again at the end, which takes as long as a third of importing them


def _run(run: Callable[..., None], words: Mapping[str, Sequence[str]], output: str) -> None:
    """Run it and write down what it takes."""
    arguments = arguments_of(run, words)
    lock = arguments.get("lock")
    file: Path = arguments[output]
    record = cost_records.record_of_fetched(file, lock) if lock else cost_records.record_of(file)
    with cost_records.recorded(record):
        run(**arguments)


def words_by_name(words: Sequence[str]) -> dict[str, list[str]]:
    """``--name value value --other`` as the values of each name."""
    by_name: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            values = by_name.setdefault(word.removeprefix("--").replace("-", "_"), [])
        else:
            values.append(word)
    return by_name


def arguments_of(run: Callable[..., None], words: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of ``run``, each as its type says: files as paths, dictionaries from
    Python's own text.

    A file that the job does not have, an empty list, is None.

    Raises BeamUQError naming an argument that ``run`` does not have, or lacks.
    """
    types = get_type_hints(run)
    parameters = inspect.signature(run).parameters
    needed = {
        name
        for name, parameter in parameters.items()
        if parameter.default is inspect.Parameter.empty
    }
    unknown = set() if OTHERS & parameters.keys() else words.keys() - parameters.keys()
    if wrong := unknown | needed - words.keys() - OTHERS:
        raise BeamUQError(f"--{min(wrong)}: unknown or missing; see the rule")
    return {name: _typed(value, types.get(name, Path)) for name, value in words.items()}


def _typed(value: Any, annotation: Any) -> Any:
    """A rule's value as the type that an argument of ``run`` is annotated with.

    ``value``: the words of the command line behind the argument's name; or, where Python gives the
    arguments, a text or what the text would mean.
    """
    if hasattr(annotation, "model_validate"):  # settings with a class of their own
        settings = value if isinstance(value, dict) else ast.literal_eval(_one_word(value))
        return annotation.model_validate(settings, strict=False)
    if value is None or isinstance(value, (dict, int, float)):
        return value
    words = [value] if isinstance(value, str) else list(value)
    return _typed_words(words, str(annotation))


def _typed_words(words: Sequence[str], annotation: str) -> Any:
    """Words as the type that an annotation, as Python prints it, names somewhere.

    It may name a type with others: ``Path | None`` stands for a path, or None where there is no
    word. The only tuples that programs take are of paths: a rule's lists of files.
    """
    if "tuple" in annotation:
        return tuple(map(Path, words))
    if not words or words == ["None"]:
        return None
    text = _one_word(words)
    if "Path" in annotation:
        return Path(text)
    if "str" in annotation and "dict" not in annotation:
        return text
    return ast.literal_eval(text)


def _one_word(value: str | Sequence[str]) -> str:
    """The text itself, or the only one of a list. Raises ValueError if there are more or none."""
    if isinstance(value, str):
        return value
    (text,) = value
    return text
