"""How the programs under ``workflow/scripts`` are started by their rules.

Each has one function ``run`` whose keyword arguments are called like the rule's files, parameters and wildcards. A rule
with ``shell:`` passes them as ``--name value …``, a rule with ``script:`` as Snakemake's object.

Exit status 0: done; 2: bad input, told in one line on stderr; 143: stopped by a signal, can be gone on with.
"""

from __future__ import annotations

import ast
import inspect
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from beamuq.errors import BeamUQError, exit_with_one_line
from beamuq.secret_masking import mask_output


def run_program(run: Callable[..., None]) -> None:
    """Run a program of a ``shell:`` rule with the words of its command line."""
    _run(lambda: run(**arguments_of(run, words_by_name(sys.argv[1:]))))


def run_script(run: Callable[..., None]) -> None:
    """Run a program of a ``script:`` rule, which Snakemake starts; what it prints goes into the rule's log."""
    snakemake: Any = sys.modules["__main__"].__dict__["snakemake"]
    with Path(snakemake.log[0]).open("wb") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    parts = (snakemake.wildcards, snakemake.params, snakemake.input, snakemake.output)
    given = {name: value for part in parts for name, value in part.items()}
    parameters = inspect.signature(run).parameters
    _run(lambda: run(**arguments_of(run, {name: value for name, value in given.items() if name in parameters})))


def words_by_name(words: Sequence[str]) -> dict[str, list[str]]:
    """``--name value value --other`` as the values of each name."""
    by_name: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            values = by_name.setdefault(word.removeprefix("--").replace("-", "_"), [])
        else:
            values.append(word)
    return by_name


def arguments_of(run: Callable[..., None], given: Mapping[str, Any]) -> dict[str, Any]:
    """The keyword arguments of ``run``, each as its type says: files as paths, dictionaries from Python's own text.

    A file that the job does not have, an empty list, is None.

    Raises BeamUQError naming an argument that ``run`` does not have, or lacks.
    """
    types, parameters = get_type_hints(run), inspect.signature(run).parameters
    lacking = [name for name, of in parameters.items() if of.default is inspect.Parameter.empty and name not in given]
    if given.keys() - parameters.keys() or lacking:
        raise BeamUQError(f"--{min([*(given.keys() - parameters.keys()), *lacking])}: unknown or missing; see the rule")
    return {name: _typed(value, str(types[name])) for name, value in given.items()}


def _typed(value: Any, kind: str) -> Any:
    if value is None or isinstance(value, (dict, int, float)):
        return value
    values = [value] if isinstance(value, str) else list(value)
    if "tuple" in kind:
        return tuple(map(Path, values))
    if not values or values == ["None"]:
        return None
    (text,) = values
    if "Path" in kind:
        return Path(text)
    return text if "str" in kind and "dict" not in kind else ast.literal_eval(text)


def _run(program: Callable[[], None]) -> None:
    mask_output()
    exit_with_one_line(program)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"peak memory: {peak / 1e9:.2f} GB", file=sys.stderr)
