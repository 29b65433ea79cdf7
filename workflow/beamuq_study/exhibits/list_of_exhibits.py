"""Every table and figure of the paper and beyond it, by its label.

To add one, write its specification into one of the modules here, or into one of your own that you add.
"""

from __future__ import annotations

from dataclasses import replace

from beamuq.errors import BeamUQError, hint
from beamuq_study.exhibits import (
    estimators_of_u,
    figures_of_candidates,
    figures_of_scores,
    tables_of_prr,
    tables_of_questions_and_answers,
    when_beams_win,
)
from beamuq_study.exhibits.exhibit import Exhibit
from beamuq_study.study_config import Study

MODULES = (
    tables_of_questions_and_answers,
    tables_of_prr,
    figures_of_candidates,
    figures_of_scores,
    estimators_of_u,
    when_beams_win,
)


def labels(study: Study) -> list[str]:
    """Every label that exists for this study, whether or not its grid can supply it; tables first."""
    return [item.label for item in sorted(_by_label(study).values(), key=lambda of: (of.kind != "table", of.label))]


def exhibit(label: str, study: Study) -> Exhibit:
    """The exhibit of this label. Raises BeamUQError if there is none; the message suggests the nearest."""
    exhibits = _by_label(study)
    if label not in exhibits:
        raise BeamUQError(f"{label!r}: no such exhibit; {hint(label, labels(study))}")
    return exhibits[label]


def _by_label(study: Study) -> dict[str, Exhibit]:
    exhibits = (replace(item, module=module.__name__) for module in MODULES for item in module.exhibits(study))
    return {item.label: item for item in exhibits}
