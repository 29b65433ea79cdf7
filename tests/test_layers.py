"""The library knows no study, and no module needs itself."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter

from beamuq_study.study_config import ROOT

FILES = {
    ".".join(path.relative_to(ROOT / folder).with_suffix("").parts).removesuffix(".__init__"): path
    for folder, package in (("src", "beamuq"), ("workflow", "beamuq_study"))
    for path in (ROOT / folder / package).rglob("*.py")
}


def imported(module: str, *, for_types: bool = True) -> set[str]:
    """The modules of both packages that one module imports, in functions too."""
    names, tree = set(), ast.parse(FILES[module].read_text(encoding="utf-8"))
    if not for_types:
        tree.body = [
            statement for statement in tree.body if not isinstance(statement, ast.If)
        ]  # if TYPE_CHECKING
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in FILES else str(node.module) for name in inside}
    return names & FILES.keys()


def test_the_library_imports_nothing_of_the_study() -> None:
    library = [module for module in FILES if module.partition(".")[0] == "beamuq"]
    assert not {
        module: found
        for module in library
        if (found := {n for n in imported(module) if "_study" in n})
    }


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {
        module: imported(module, for_types=False) - {"beamuq", "beamuq_study"} for module in FILES
    }
    TopologicalSorter(graph).prepare()
