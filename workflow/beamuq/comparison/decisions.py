"""What a measured number rests on beside what print states, as ``workflow/paper_numbers/decisions.yaml`` declares it.

A setting is stated in print, or *as in the official release* where print is silent, or *our decision*. Agreement that
rests on decisions of ours is no replication of print alone, and a difference may be theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from beamuq.comparison.paper_settings import Measurement, differing
from beamuq.comparison.tolerances_and_families import ComparisonRules, Decision, DecisionSource
from beamuq.study_config import Study

PRECISION, PROMPTS, P_TRUE = "precision", "prompts", "P(True)"
P_TRUE_TEMPLATE = "p_true.txt"


@dataclass(frozen=True)
class HowMade:
    """What the files behind a measurement say that its study does not; what is absent or empty is not known.

    ``dtypes``: what models ran in; ``templates``: sha256 of the template of each dataset's prompts; ``p_true``: that of
    P(True)'s wording in each cell, "" where a file does not say.
    """

    dtypes: frozenset[str] = frozenset()
    templates: Mapping[str, str] = field(default_factory=dict)
    p_true: frozenset[str] = frozenset()


def decisions_behind(study: Study, rules: ComparisonRules, of: Measurement, made: HowMade) -> dict[str, DecisionSource]:
    """The decisions that a measurement rests on, by id, in parentheses what departs from the paper's study."""
    found: dict[str, DecisionSource] = {}
    for decision in rules.decided.decisions:
        if not _concerns(decision, of):
            continue
        differ = [differing(study, rules, of, path) for path in decision.paths]
        departures = [text.partition(",")[0] for text in differ if text]
        if decision.id == PRECISION:
            departures = sorted(made.dtypes - {"float32"}) if made.dtypes else ["not known"]
            if not departures:
                continue
        elif decision.id == PROMPTS and not set(of.datasets) <= made.templates.keys():
            departures.append("template not known")
        elif decision.id == P_TRUE:
            departures += _other_wording(made.p_true, rules.decided.templates[P_TRUE_TEMPLATE])
        found[decision.id + (f" ({', '.join(departures)})" if departures else "")] = decision.source
    return found


def named(behind: Mapping[str, DecisionSource], source: DecisionSource) -> str:
    """``prompts; ending``: those of one source."""
    return "; ".join(name for name, found in behind.items() if found == source)


def ordered(behind: Mapping[str, DecisionSource], rules: ComparisonRules) -> dict[str, DecisionSource]:
    """The decisions behind several numbers in their declared order; one that departs anywhere stands so alone."""
    places = {decision.id: place for place, decision in enumerate(rules.decided.decisions)}
    departing = {decision_id(name) for name in behind if name not in places}
    names = [name for name in behind if name not in departing]
    return {name: behind[name] for name in sorted(names, key=lambda name: (places[decision_id(name)], name))}


def decision_id(name: str) -> str:
    """``precision (bfloat16)`` → ``precision``."""
    return name.partition(" (")[0]


def _other_wording(used: frozenset[str], declared: str) -> list[str]:
    """How wordings of P(True) depart from the declared one."""
    other = ["another wording"] if used - {"", declared} else []
    return other + (["wording not known"] if not used or "" in used else [])


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
