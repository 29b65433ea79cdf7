"""Code that a step imports, and only that, makes its rule run again."""

from __future__ import annotations

import pytest

from beamuq.plan.code_inputs import step_sources


def names(step: str) -> set[str]:
    return {path.name for path in step_sources(step)}


def test_direct_and_indirect_imports_are_found() -> None:
    found = names("scores")
    assert {"scores.py", "parquet_tables.py", "errors.py", "registry.py"} <= found


@pytest.mark.parametrize(
    ("step", "stages"), [("scores", {"methods"}), ("evaluation", {"evaluation"}), ("table", {"exhibits", "methods"})]
)
def test_code_of_other_stages_is_not_an_input(step: str, stages: set[str]) -> None:
    folders = {path.parent.name for path in step_sources(step)}
    assert stages <= folders
    assert folders <= {*stages, "beamuq", "evaluation", "models", "plan", "steps", "templates"}
