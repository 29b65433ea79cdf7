"""The library knows no study, and no module needs itself."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import beamuq

PACKAGE = Path(beamuq.__file__).parent
STUDY = (
    "comparison",
    "data",
    "decoding.finished_batches",
    "decoding.question_batches",
    "evaluation.decisions_of_scores",
    "evaluation.metrics_of_scores",
    "exhibits",
    "html_pages",
    "judged_answer",
    "machine_config",
    "methods.method_inputs_from_tables",
    "methods.score_all_methods",
    "overview",
    "parquet_tables",
    "plan",
    "provenance",
    "rule_programs",
    "scorers.similarity_table",
    "study_config",
    "yaml_field_types",
)
"""Modules and folders of the study, among them all that reads or writes its tables; all others are the library."""
FILES = {
    ".".join(("beamuq", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}


def imported(module: str, *, for_types: bool = True) -> set[str]:
    """The package's modules that one module imports, in functions too."""
    names, tree = set(), ast.parse(FILES[module].read_text(encoding="utf-8"))
    if not for_types:
        tree.body = [statement for statement in tree.body if not isinstance(statement, ast.If)]  # if TYPE_CHECKING
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in FILES else str(node.module) for name in inside}
    return names & FILES.keys()


def test_the_library_imports_nothing_of_the_study() -> None:
    assert {f"beamuq.{name}" for name in STUDY} <= FILES.keys()
    of_study = {module for module in FILES if f"{module}.".startswith(tuple(f"beamuq.{name}." for name in STUDY))}
    upwards = {module: found for module in FILES.keys() - of_study if (found := imported(module) & of_study)}
    assert not upwards


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {module: imported(module, for_types=False) - {"beamuq"} for module in FILES}
    TopologicalSorter(graph).prepare()
