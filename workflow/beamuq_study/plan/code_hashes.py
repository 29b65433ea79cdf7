"""Which package files a rule's program imports, and their hash: a change reruns the rule."""

from __future__ import annotations

import ast
import hashlib
import re
from functools import cache
from pathlib import Path

import beamuq
from beamuq.io import file_sha256

STUDY = Path(__file__).resolve().parents[1]
LIBRARY = Path(beamuq.__file__).resolve().parent
SCRIPTS = STUDY.parent / "scripts"
READ_BY = {  # what is no Python, by the module that reads it
    STUDY / "html_pages.py": sorted((STUDY / "templates").iterdir()),
    LIBRARY / "explorer" / "explorer_page.py": sorted((LIBRARY / "explorer").glob("explorer.*")),
    STUDY / "exhibits" / "captions.py": [STUDY / "exhibits" / "captions.txt"],
    STUDY / "exhibits" / "figure_style.py": [
        STUDY / "exhibits" / name for name in ("figures.mplstyle", "series.yaml")
    ],
}
LIST_OF_EXHIBITS = STUDY / "exhibits" / "list_of_exhibits.py"
_content_hash = cache(file_sha256)


@cache
def code_hash(script: str, *modules: str) -> str:
    """A hash of the names and contents of :func:`script_sources`: 16 hexadecimal digits.

    As a parameter of a job it reruns exactly the rules whose modules changed; a program's own time
    stamp counts as well. (As input files of every cheap job they cost Snakemake more time than some
    of the jobs themselves.)
    """
    digest = hashlib.sha256()
    for path in script_sources(script, *modules):
        digest.update(f"{path.parent.name}/{path.name}\n{_content_hash(path)}\n".encode())
    return digest.hexdigest()[:16]


def script_sources(script: str, *modules: str) -> list[Path]:
    """The program of a rule and every package file that it or ``modules`` import, sorted.

    Imports inside functions count, and with a module come the files that it reads (templates,
    scripts).
    """
    sources: set[Path] = set()
    pending = [SCRIPTS / f"{script}.py", *map(_file, modules)]
    while pending:
        path = pending.pop()
        if path is not None and path not in sources:
            sources.add(path)
            # an exhibit names the module that builds it; others' change nothing in it
            if path != LIST_OF_EXHIBITS:
                pending += _imported(path)
    for module in sources.intersection(READ_BY):
        sources.update(READ_BY[module])
    return sorted(sources)


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """The package files that a file imports when it is run, those of parent packages too."""
    names: set[str] = set()
    text_without_type_checking = re.sub(
        r"^if TYPE_CHECKING:\n(?:    .*\n|\n)+",
        "",
        path.read_text(encoding="utf-8"),
        flags=re.MULTILINE,
    )
    for node in ast.walk(ast.parse(text_without_type_checking)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    names_and_parents = {
        ".".join(name.split(".")[:depth])
        for name in names
        for depth in range(1, name.count(".") + 2)
    }
    packages = ("beamuq", "beamuq_study")
    files = (_file(name) for name in names_and_parents if name.split(".")[0] in packages)
    return tuple(file for file in files if file is not None)


@cache
def _file(module: str) -> Path | None:
    """The file of a module or package by its dotted name; None: the name is of something in one."""
    package, *parts = module.split(".")
    base = {"beamuq": LIBRARY, "beamuq_study": STUDY}[package].joinpath(*parts)
    return next(
        (path for path in (base / "__init__.py", base.with_suffix(".py")) if path.is_file()), None
    )
