"""The measure of readable code: what it counts, what it lets pass, and what it prints."""

from __future__ import annotations

from pathlib import Path

import pytest

import readable

NOTHING_PUBLIC: frozenset[str] = frozenset()


def measured(tmp_path: Path, text: str, public: frozenset[str] = NOTHING_PUBLIC) -> readable.Folder:
    (tmp_path / "module.py").write_text(text)
    return readable.measured(tmp_path, public)


def test_only_lines_with_code_count_and_without_their_indentation(tmp_path: Path) -> None:
    text = '''"""A docstring
of two lines."""

from math import (
    pi,
)

# a comment
def area(r):
    """Another one."""
    return """1
# no comment
2""" * pi
'''
    lines = ["def area(r):", 'return """1', "# no comment", '2""" * pi']
    assert measured(tmp_path, text).lengths == [len(line) for line in lines]


@pytest.mark.parametrize(
    ("statement", "is_packed"),
    [
        ("a, b = f(x), g(y)", True),
        ("self.a, self.b = self.x, self.y", True),
        ("FIRST, SECOND = BOTH = 'first', 'second'", True),
        ("a, b = f(x)", False),
        ("a, b = b, a", False),
        ("a, b = b, a + b", False),
        ("xs[i], xs[j] = xs[j], xs[i]", False),
        ("pair = f(x), g(y)", False),
    ],
)
def test_values_that_have_nothing_to_do_with_each_other_are_packed(
    tmp_path: Path, statement: str, is_packed: bool
) -> None:
    assert bool(measured(tmp_path, statement).packed) is is_packed


def test_variables_and_all_kinds_of_parameters_may_have_vague_names(tmp_path: Path) -> None:
    text = """
def f(a, /, of, *told, each, **made):
    found = [at for at in a]
    asked.x = here()
"""
    names = [place.what for place in measured(tmp_path, text).vague]
    assert names == [f"f: {name}" for name in ("at", "each", "found", "made", "of", "told")]


def test_parameters_count_as_variables_but_not_those_of_public_functions(tmp_path: Path) -> None:
    parameters = ", ".join(f"p{number}" for number in range(10))
    text = f"def f({parameters}):\n" + "".join(f"    v{number} = 0\n" for number in range(6))
    assert [place.what for place in measured(tmp_path, text).many_locals] == ["f: 16 variables"]
    assert not measured(tmp_path, text, frozenset({"f"})).many_locals


def test_branches_of_a_function_are_its_own_and_not_those_of_one_inside_it(tmp_path: Path) -> None:
    branches = """
        if x and y: pass
        for x in [z if z else y for z in y]:
            while x: assert y
        try: pass
        except OSError: pass
        match x:
            case 1: pass
            case _: pass
"""
    one = "    def inner():\n" + branches
    twice = one + branches
    assert not measured(tmp_path, f"def outer():\n{one}").complex
    found = measured(tmp_path, f"def outer():\n{twice}        return x or y\n").complex
    assert [(place.line, place.what) for place in found] == [(2, "inner: complexity 22")]


def test_dicts_of_anything_are_counted_where_they_are_bound(tmp_path: Path) -> None:
    text = """
def f(options: dict[str, Any]) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    shared: dict[str, Any] = {}
    counts: dict[str, int] = {}
"""
    assert [place.what for place in measured(tmp_path, text).bags] == ["rows", "shared"]


def test_each_place_that_passes_a_bound_is_told_in_a_line_with_the_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "module.py"
    module.write_text("def f(of):\n    a, b = 1, 2\n    c, d = 3, 4\n")
    with pytest.raises(SystemExit, match="1"):
        readable.main([str(tmp_path)])
    bound = "several values in one assignment; at most 4 per 1,000 lines, or one in a folder"
    assert capsys.readouterr().out.splitlines() == [  # and nothing of the one vague name
        f"{module}:2: (a, b): {bound}",
        f"{module}:3: (c, d): {bound}",
    ]


def test_long_lines_are_a_fault_of_the_folder(tmp_path: Path) -> None:
    found = readable.faults(measured(tmp_path, f"a = {'1' * 40}\n"))
    assert found == [f"{tmp_path}: 44.0 characters a line of code; at most 43"]


def test_code_without_a_fault_is_passed_in_silence_and_reported_with_its_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "module.py").write_text("def f(width):\n    return 2 * width\n")
    with pytest.raises(SystemExit, match="0"):
        readable.main([str(tmp_path)])
    assert not capsys.readouterr().out
    readable.main(["--report", str(tmp_path)])
    numbers = capsys.readouterr().out.splitlines()[1].split()
    assert numbers == [str(tmp_path), "2", "0.0", "0.0", "14.5", "0", "0", "0"]


def test_every_folder_of_the_projects_code_is_measured() -> None:
    folders = {str(readable.relative(path)) for path in readable.folders_of_project()}
    assert {"src/beamuq/api/server_forms", "workflow/beamuq_study/plan", "tools"} <= folders
    assert "score" in readable.names_offered()


@pytest.mark.parametrize(("functions", "faults"), [(3, 0), (4, 4)])
def test_three_functions_of_a_folder_may_have_many_variables(
    functions: int, faults: int, tmp_path: Path
) -> None:
    body = "; ".join(f"x{number} = 0" for number in range(16))
    text = "".join(f"def f{number}():\n    {body}\n" for number in range(functions))
    lines = readable.faults(measured(tmp_path, text))
    assert len([line for line in lines if "16 variables" in line]) == faults


def test_parameters_of_a_rule_s_program_are_its_options() -> None:
    assert "run" in readable.functions_with_options(readable.ROOT / readable.SCRIPTS)
    assert "run" not in readable.functions_with_options(readable.ROOT / "tools")
