"""Every table and figure of the paper and beyond it, by its label.

To add one, write its specification into one of the modules here, or into one of your own that you
put here: what its function ``exhibits`` gives for a study is listed.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from beamuq.errors import BeamUQError, hint
from beamuq_study import exhibits
from beamuq_study.exhibits.exhibit import Exhibit
from beamuq_study.study_config import Study

_NAMES = [of.name for of in iter_modules(exhibits.__path__) if of.name != "list_of_exhibits"]
MODULES = tuple(import_module(f"{exhibits.__name__}.{name}") for name in _NAMES)


def labels(study: Study) -> list[str]:
    """Every label that exists for this study, whether or not its grid can supply it; tables
    first.
    """
    return [
        item.label
        for item in sorted(_by_label(study).values(), key=lambda of: (of.kind != "table", of.label))
    ]


def exhibit(label: str, study: Study) -> Exhibit:
    """The exhibit of this label. Raises BeamUQError if there is none; the message suggests the
    nearest.
    """
    by_label = _by_label(study)
    if label not in by_label:
        raise BeamUQError(f"{label!r}: no such exhibit; {hint(label, labels(study))}")
    return by_label[label]


def _by_label(study: Study) -> dict[str, Exhibit]:
    listing = [module for module in MODULES if hasattr(module, "exhibits")]
    every = (
        replace(item, module=module.__name__)
        for module in listing
        for item in module.exhibits(study)
    )
    return {item.label: item for item in every}
