"""Whether code says one thing a line: ``python tools/readable.py`` tells each place that does not.

A line of code is one with code on it: no docstring, comment, import or blank line. For each folder
of the package, the study, its scripts, the tools and the benchmarks this counts

- packed assignments: several values that have nothing to do with each other in one statement,
  ``a, b = f(x), g(y)``; a swap, and an update of the same names, is one thought;
- vague names: variables and parameters, such as ``of`` or ``found``, that do not say what they are;
- characters a line, without its indentation;
- functions with many variables: parameters count, but for the functions that `beamuq` offers and
  for ``run`` of a rule's program, where they are the options of a command;
- functions with many branches: a function has one, and each ``if``, loop, ``except``, ``case``,
  ``assert``, boolean operator, conditional expression and ``for`` of a comprehension is one more;
- variables of type ``dict[str, Any]``, through which no type checker sees arguments.

``--report`` prints the numbers of each folder instead.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = "workflow/scripts"
PLACES = ("src/beamuq", "workflow/beamuq_study", SCRIPTS, "tools", "benchmarks")

# of a folder, per 1,000 lines of code; one is always allowed
PACKED_PER_THOUSAND = 4
VAGUE_PER_THOUSAND = 1
# of a folder
CHARACTERS = 43
FUNCTIONS_OF_MANY_LOCALS = 3
BAGS = 0
# of a function
LOCALS = 15
COMPLEXITY = 15

VAGUE_NAMES = """
    of at apart here there
    each every these those others whys
    asked found given gone kept known made matches said seen stands taken told
    absent lacking
"""
NO_CODE = (
    tokenize.ENCODING,
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)
BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
    ast.Assert,
    ast.BoolOp,
    ast.IfExp,
    ast.comprehension,
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Place:
    """Where something stands, and what it is."""

    path: Path
    line: int
    what: str


@dataclass
class Folder:
    """What was counted in the modules of one folder."""

    path: Path
    lengths: list[int] = field(default_factory=list)
    packed: list[Place] = field(default_factory=list)
    vague: list[Place] = field(default_factory=list)
    many_locals: list[Place] = field(default_factory=list)
    complex: list[Place] = field(default_factory=list)
    bags: list[Place] = field(default_factory=list)

    @property
    def characters(self) -> float:
        """The mean of a line of code."""
        return sum(self.lengths) / max(1, len(self.lengths))

    def per_thousand(self, places: Sequence[Place]) -> float:
        """How many of 1,000 lines of code."""
        return 1000 * len(places) / max(1, len(self.lengths))

    def is_often(self, places: Sequence[Place], per_thousand: int) -> bool:
        """Whether there are more than one, and more than that many of 1,000 lines of code."""
        return len(places) > 1 and self.per_thousand(places) > per_thousand


def measured(path: Path, public: frozenset[str]) -> Folder:
    """The modules of a folder, without those of folders in it.

    ``public``: functions whose parameters are not counted as variables.
    """
    folder = Folder(path)
    for module in sorted(path.glob("*.py")):
        text = module.read_text(encoding="utf-8")
        tree = ast.parse(text)
        folder.lengths += lengths_of_code(text, tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and is_packed(node):
                folder.packed.append(Place(module, node.lineno, ast.unparse(node.targets[0])))
            elif isinstance(node, ast.AnnAssign) and is_bag(node):
                folder.bags.append(Place(module, node.lineno, ast.unparse(node.target)))
            elif isinstance(node, Function):
                count_function(folder, module, node, public)
    return folder


def lengths_of_code(text: str, tree: ast.Module) -> list[int]:
    """Of each line of code its characters without indentation."""
    rows: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            rows.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and is_import_or_docstring(node):
            rows.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    stripped = [line.strip() for line in text.splitlines()]
    return [len(stripped[row - 1]) for row in sorted(rows) if stripped[row - 1]]


def is_import_or_docstring(statement: ast.stmt) -> bool:
    """A docstring is a text and nothing else."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return True
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Constant):
        return False
    return isinstance(statement.value.value, str)


def is_packed(node: ast.Assign) -> bool:
    """Whether several values get names at once that are not all among those values."""
    if not isinstance(node.value, ast.Tuple) or len(node.value.elts) < 2:
        return False
    targets = [target for target in node.targets if isinstance(target, ast.Tuple)]
    read = {
        ast.unparse(part)
        for part in ast.walk(node.value)
        if isinstance(part, (ast.Name, ast.Attribute, ast.Subscript))
    }
    return any(ast.unparse(part) not in read for target in targets for part in target.elts)


def is_bag(node: ast.AnnAssign) -> bool:
    """Whether a variable or field is of type ``dict[str, Any]``, or holds such ones."""
    return "dict[str, Any]" in ast.unparse(node.annotation)


def count_function(
    folder: Folder, module: Path, function: Function, public: frozenset[str]
) -> None:
    """Add the faults of one function to its folder's."""
    nodes = list(nodes_of(function))
    parameters = {argument.arg for argument in arguments_of(function.args)}
    variables = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    for name in sorted((variables | parameters).intersection(VAGUE_NAMES.split())):
        folder.vague.append(Place(module, function.lineno, f"{function.name}: {name}"))
    local = variables if function.name in public else variables | parameters
    if len(local) > LOCALS:
        what = f"{function.name}: {len(local)} variables"
        folder.many_locals.append(Place(module, function.lineno, what))
    complexity = 1 + sum(isinstance(node, BRANCHES) for node in nodes)
    if complexity > COMPLEXITY:
        what = f"{function.name}: complexity {complexity}"
        folder.complex.append(Place(module, function.lineno, what))


def nodes_of(function: Function) -> Iterator[ast.AST]:
    """Everything in a function but what functions and classes inside it hold."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)


def arguments_of(parameters: ast.arguments) -> list[ast.arg]:
    """All parameters, those with stars among them."""
    starred = [star for star in (parameters.vararg, parameters.kwarg) if star]
    return [*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs, *starred]


def faults(folder: Folder) -> list[str]:
    """A message for each fault of a folder: where, what, and how much of it is allowed.

    Some faults are allowed up to a number in a folder. Beyond it all of them are listed.
    """
    per_folder = "per 1,000 lines, or one in a folder"
    lines = []
    if folder.is_often(folder.packed, PACKED_PER_THOUSAND):
        bound = f"several values in one assignment; at most {PACKED_PER_THOUSAND} {per_folder}"
        lines += [f"{located(place)}: {bound}" for place in folder.packed]
    if folder.is_often(folder.vague, VAGUE_PER_THOUSAND):
        bound = f"a name that says nothing; at most {VAGUE_PER_THOUSAND} {per_folder}"
        lines += [f"{located(place)}: {bound}" for place in folder.vague]
    if len(folder.many_locals) > FUNCTIONS_OF_MANY_LOCALS:
        bound = f"at most {LOCALS}, but for {FUNCTIONS_OF_MANY_LOCALS} functions of a folder"
        lines += [f"{located(place)}; {bound}" for place in folder.many_locals]
    lines += [f"{located(place)}; at most {COMPLEXITY}" for place in folder.complex]
    if len(folder.bags) > BAGS:
        bound = f"of type dict[str, Any]; at most {BAGS} in a folder: a dataclass, or arguments"
        lines += [f"{located(place)}: {bound}" for place in folder.bags]
    if folder.characters > CHARACTERS:
        lines.append(
            f"{relative(folder.path)}: {folder.characters:.1f} characters a line of code; "
            f"at most {CHARACTERS}"
        )
    return lines


def located(place: Place) -> str:
    """``file:line: what``."""
    return f"{relative(place.path)}:{place.line}: {place.what}"


def relative(path: Path) -> Path:
    """A path in the project as it is called there."""
    return path.relative_to(ROOT) if path.is_relative_to(ROOT) else path


def report(folders: Sequence[Folder]) -> str:
    """The numbers of each folder, a line each."""
    head = f"{'folder':36} {'lines':>6} {'packed':>7} {'vague':>6} {'chars':>6} {'locals':>7}"
    lines = [f"{head} {'complex':>8} {'bags':>5}"]
    lines += [
        f"{relative(folder.path)!s:36} {len(folder.lengths):6}"
        f" {folder.per_thousand(folder.packed):7.1f} {folder.per_thousand(folder.vague):6.1f}"
        f" {folder.characters:6.1f} {len(folder.many_locals):7} {len(folder.complex):8}"
        f" {len(folder.bags):5}"
        for folder in folders
    ]
    return "\n".join(lines)


def folders_of_project() -> list[Path]:
    """Every folder below `PLACES` that holds modules."""
    modules = [module for place in PLACES for module in sorted((ROOT / place).rglob("*.py"))]
    return list(dict.fromkeys(module.parent for module in modules))


def functions_with_options(folder: Path) -> frozenset[str]:
    """The functions of a folder whose parameters are the options of a command."""
    if folder == ROOT / SCRIPTS:
        return names_offered() | {"run"}  # of a rule's program
    return names_offered()


def names_offered() -> frozenset[str]:
    """What ``import beamuq`` offers."""
    tree = ast.parse((ROOT / "src/beamuq/__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    raise ValueError("src/beamuq/__init__.py: no __all__")


def main(argv: Sequence[str] | None = None) -> None:
    """Print a line for each fault and end with status 1 where there is one, or print the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("folders", type=Path, nargs="*", help="default: all of the project")
    parser.add_argument("--report", action="store_true", help="print the numbers of each folder")
    options = parser.parse_args(argv)
    paths = [path.absolute() for path in options.folders] or folders_of_project()
    folders = [measured(path, functions_with_options(path)) for path in paths]
    if options.report:
        print(report(folders))
        return
    lines = [line for folder in folders for line in faults(folder)]
    print("\n".join(lines), end="\n" if lines else "")
    sys.exit(1 if lines else 0)


if __name__ == "__main__":
    main()
