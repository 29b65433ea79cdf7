"""Every table and figure of the paper and beyond it, by its label.

To add one, write its specification into one of the modules here, or into one of your own that you
put here: what its function ``exhibits`` gives for a study is listed.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from beamuq.errors import BeamUQError, hint
from beamuq_study import exhibits
from beamuq_study.exhibits.exhibit import Exhibit
from beamuq_study.study_config import Study


def _modules() -> tuple[ModuleType, ...]:
    """Every module of this folder but this one."""
    names = [module.name for module in iter_modules(exhibits.__path__)]
    own = __name__.rpartition(".")[2]
    return tuple(import_module(f"{exhibits.__name__}.{name}") for name in names if name != own)


MODULES = _modules()


def labels(study: Study) -> list[str]:
    """Every label for this study, whether or not its grid can supply it; tables first."""
    items = sorted(_by_label(study).values(), key=lambda item: (item.kind != "table", item.label))
    return [item.label for item in items]


def exhibit(label: str, study: Study) -> Exhibit:
    """The exhibit of this label. Raises BeamUQError, suggesting the nearest, if there is none."""
    by_label = _by_label(study)
    if label not in by_label:
        raise BeamUQError(f"{label!r}: no such exhibit; {hint(label, labels(study))}")
    return by_label[label]


def _by_label(study: Study) -> dict[str, Exhibit]:
    by_label = {}
    for module in MODULES:
        if hasattr(module, "exhibits"):
            for item in module.exhibits(study):
                by_label[item.label] = replace(item, module=module.__name__)
    return by_label
