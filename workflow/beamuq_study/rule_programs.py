"""How the programs under ``workflow/scripts`` are started by their rules.

Each has one function ``run`` whose keyword arguments are called like the rule's files, parameters and wildcards. The
tables among the inputs, or the outputs, that it does not name are its ``**tables``, or ``**outputs``. A rule with
``shell:`` passes them as ``--name value …``, a rule with ``script:`` as Snakemake's object.
"""

from __future__ import annotations

import ast
import gc
import inspect
import os
import resource
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import BaseModel

from beamuq.errors import BeamUQError, exit_with_one_line
from beamuq.secret_masking import mask_output
from beamuq_study.parquet_tables import NAMED_BY

OTHERS = {"tables", "outputs"}


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
    names = set(inspect.signature(run).parameters)
    names.update((*NAMED_BY, "cross_similarity") if "tables" in names else ())
    names.update(snakemake.output.keys() if "outputs" in names else ())
    _run(lambda: run(**arguments_of(run, {name: value for name, value in given.items() if name in names})))


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
    needed = {name for name, parameter in parameters.items() if parameter.default is inspect.Parameter.empty}
    unknown = set() if OTHERS & parameters.keys() else given.keys() - parameters.keys()
    if wrong := unknown | needed - given.keys() - OTHERS:
        raise BeamUQError(f"--{min(wrong)}: unknown or missing; see the rule")
    return {name: _typed(value, types.get(name, Path)) for name, value in given.items()}


def _typed(value: Any, kind: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind.model_validate(value, strict=False)
    if value is None or isinstance(value, (dict, int, float)):
        return value
    values, named = [value] if isinstance(value, str) else list(value), str(kind)
    if "tuple" in named:
        return tuple(map(Path, values))
    if not values or values == ["None"]:
        return None
    (text,) = values
    if "Path" in named:
        return Path(text)
    return text if "str" in named and "dict" not in named else ast.literal_eval(text)


def _run(program: Callable[[], None]) -> None:
    mask_output()
    gc.set_threshold(10_000)  # importing torch makes so many objects that looking at them takes a sixth of its time
    exit_with_one_line(program)
    used = resource.getrusage(resource.RUSAGE_SELF)
    peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    print(f"peak memory: {peak / 1e9:.2f} GB; CPU: {used.ru_utime + used.ru_stime:.1f} s", file=sys.stderr)
    gc.freeze()  # nor looked at again at the end, which takes as long as a third of importing them
