"""What a measured number rests on beside what print states, as ``workflow/paper_numbers/decisions.yaml`` declares it.

A setting is stated in print, or *as in the official release* where print is silent, or *our decision*. Agreement that
rests on decisions of ours is no replication of print alone, and a difference may be theirs.
"""

from __future__ import annotations

from collections.abc import Mapping

from beamuq.comparison.paper_settings import Measurement, differing
from beamuq.comparison.tolerances_and_families import ComparisonRules, Decision, DecisionSource
from beamuq.study_config import Study

PRECISION = "precision"


def decisions_behind(
    study: Study, rules: ComparisonRules, of: Measurement, dtypes: frozenset[str]
) -> dict[str, DecisionSource]:
    """The decisions that a measurement rests on, by id, in parentheses what departs from the paper's study.

    ``dtypes``: what the models behind it ran in; empty: not known.
    """
    found: dict[str, DecisionSource] = {}
    for decision in rules.decided.decisions:
        if not _concerns(decision, of):
            continue
        if decision.id == PRECISION:
            departures = sorted(dtypes - {"float32"}) if dtypes else ["not known"]
            if not departures:
                continue
        else:
            differ = [differing(study, rules, of, path) for path in decision.paths]
            departures = [text.partition(",")[0] for text in differ if text]
        found[decision.id + (f" ({', '.join(departures)})" if departures else "")] = decision.source
    return found


def other_template(study: Study, rules: ComparisonRules, of: Measurement, used: Mapping[str, str]) -> str:
    """Why prompts are not those held against print, else nothing. ``used``: sha256 of the template by dataset."""
    for dataset in of.datasets:
        name = f"{study.models[of.model].style}/{study.datasets[dataset].adapter}.txt"
        if dataset in used and used[dataset] != rules.decided.templates.get(name):
            return f"prompts of {dataset} are not from the declared template {name}"
    return ""


def _concerns(decision: Decision, of: Measurement) -> bool:
    numbers = decision.of
    asked = (
        (numbers.parts, of.part),
        (numbers.methods, of.method),
        (numbers.variants, of.variant),
        (numbers.metrics, of.metric),
        (numbers.settings, of.setting.partition(" ")[0]),
        (numbers.answer_sources, of.answer_source),
    )
    of_datasets = not numbers.datasets or bool({*numbers.datasets} & {*of.datasets})
    return of_datasets and all(not names or name in names for names, name in asked)
