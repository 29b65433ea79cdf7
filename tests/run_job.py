"""Run the program of a rule in this process, as the rule starts it."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from beamuq_study.rule_programs import arguments_of
from beamuq_study.study_config import ROOT


@cache
def program(rule: str) -> ModuleType:
    """The module ``workflow/scripts/<rule>.py``."""
    spec = importlib.util.spec_from_file_location(
        f"scripts_{rule}", ROOT / "workflow" / "scripts" / f"{rule}.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run_job(rule: str, job: Mapping[str, object], **further: Any) -> None:
    """Run one job: files, parameters and wildcards by the rule's names for them; ``device``,
    ``dtype``: of its models.

    Files that are not named are not read, and tables may have been made with any settings unless
    ``made_with`` says.
    """
    run = program(rule).run
    known = inspect.signature(run).parameters
    given = {
        name: str(of) if isinstance(of, Path) else of for name, of in (dict(job) | further).items()
    }
    loading = {name: given.pop(name) for name in ("device", "dtype") if name in given}
    usual = {
        "made_with": {},
        "loading": {"device": "cpu", "dtype": "float32", "content": {}} | loading,
    }
    unread = {
        name: []
        for name, of in known.items()
        if "None" in str(of.annotation) or "tuple" in str(of.annotation)
    }
    run(
        **arguments_of(
            run, unread | {name: of for name, of in usual.items() if name in known} | given
        )
    )
