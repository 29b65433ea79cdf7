"""The library knows no study, its folders import downwards only, and no module needs itself."""

from __future__ import annotations

import ast
import re
from graphlib import TopologicalSorter

from beamuq_study.study_config import ROOT

FILES = {
    ".".join(path.relative_to(ROOT / folder).with_suffix("").parts).removesuffix(".__init__"): path
    for folder, package in (("src", "beamuq"), ("workflow", "beamuq_study"))
    for path in (ROOT / folder / package).rglob("*.py")
}
LAYERS = (
    "prompts",
    "methods",
    "beam_mass_theorem",
    "decoding",
    "models",
    "scorers",
    "evaluation",
    "explorer",
    "drawing",
    "api",
    "plot",
    "cli",
    "__main__",
)
"""What lies in `src/beamuq`, lowest first. Its other files lie below all folders."""


def imported(module: str, *, for_types: bool = True) -> set[str]:
    """The modules of both packages that one module imports, in functions too."""
    tree = ast.parse(FILES[module].read_text(encoding="utf-8"))
    if not for_types:  # leave out what stands under `if TYPE_CHECKING`
        tree.body = [statement for statement in tree.body if not isinstance(statement, ast.If)]
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= {name if name in FILES else str(node.module) for name in inside}
    return names & FILES.keys()


def layer(module: str) -> int:
    """The place of a library's module among `LAYERS`, -1 below all of them."""
    name = module.split(".")[1]
    return LAYERS.index(name) if name in LAYERS else -1


def test_the_library_imports_nothing_of_the_study() -> None:
    library = [module for module in FILES if module.partition(".")[0] == "beamuq"]
    of_the_study = {
        module: [name for name in imported(module) if "_study" in name] for module in library
    }
    assert not {module: names for module, names in of_the_study.items() if names}


def test_folders_of_the_library_import_downwards_only() -> None:
    # `beamuq` itself offers what lies at the top; what is below takes its version alone.
    modules = [module for module in FILES if module.startswith("beamuq.")]
    upward = [
        f"{module} imports {name}"
        for module in modules
        for name in sorted(imported(module) - {"beamuq"})
        if layer(name) > layer(module)
    ]
    assert not upward


def test_every_folder_of_the_library_has_its_place() -> None:
    folders = {module.split(".")[1] for module in FILES if module.count(".") == 2}
    assert {name for name in folders if f"beamuq.{name}" in FILES} <= set(LAYERS)


def test_the_page_of_the_design_orders_the_folders_so() -> None:
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    table = page.partition("| `src/beamuq`")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)(?:/|\.py)`", "".join(re.findall(r"^\|[^|]*", table, re.MULTILINE)))
    assert [*(name for name in named if name in LAYERS), "__main__"] == list(LAYERS)


def test_no_module_imports_itself_by_way_of_others() -> None:
    graph = {
        module: imported(module, for_types=False) - {"beamuq", "beamuq_study"} for module in FILES
    }
    TopologicalSorter(graph).prepare()
