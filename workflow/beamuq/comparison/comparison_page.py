"""The comparison as files: CSV, a Markdown summary, one HTML page that holds everything. Same input, same bytes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from beamuq.comparison import beam_minus_multinomial, claims, number_statuses
from beamuq.comparison.decisions import decision_id
from beamuq.comparison.printed_numbers import MEAN
from beamuq.comparison.tolerances_and_families import ComparisonRules
from beamuq.exhibits import captions, markdown_table
from beamuq.exhibits.exhibit_types import csv_text
from beamuq.html_pages import PageSection, sections_page
from beamuq.study_config import Study

OWN_CLAIMS = (
    "Ours, about estimators of Dissimilarity, declared with their tests before the run. Yes: on every dataset each "
    "difference in PRR has its one-sided lower bound at the declared level above minus the margin. No: on some dataset "
    "the upper bound, Bonferroni over all of the claim, lies below it. Undecided: anything else. Ten samples are the "
    "mean over all disjoint draws of ten that are scored."
)
OUTPUTS = ("csv", "formulations", "claims", "summary", "markdown", "html")


@dataclass(frozen=True)
class Comparison:
    """Everything that a comparison found."""

    study: Study
    rules: ComparisonRules
    cells: pd.DataFrame
    formulations: pd.DataFrame
    nearer: pd.DataFrame
    differences: pd.DataFrame
    arms: pd.DataFrame
    claims: pd.DataFrame
    asked: pd.DataFrame
    errata: pd.DataFrame
    provenance: dict[str, Any]

    @property
    def held(self) -> pd.DataFrame:
        """The printed numbers that the study could be held against."""
        return self.cells[self.cells["status"].isin(["agrees", "differs"])]

    @property
    def printed_claims(self) -> pd.DataFrame:
        """The rows of ``claims`` that are the paper's."""
        return self.claims[self.claims["where"] != claims.OURS]

    @property
    def own_claims(self) -> pd.DataFrame:
        """The rows of ``claims`` that are ours."""
        return self.claims[self.claims["where"] == claims.OURS]

    @property
    def printed_asked(self) -> pd.DataFrame:
        """The rows of ``asked`` that are about the paper's claims."""
        return self.asked[self.asked["id"].isin(self.printed_claims["id"])]

    @property
    def own_asked(self) -> pd.DataFrame:
        """The rows of ``asked`` that are about ours."""
        return self.asked[self.asked["id"].isin(self.own_claims["id"])]


def contents(found: Comparison, forest: str) -> dict[str, str]:
    """The text of each of ``OUTPUTS``. ``forest``: the paired differences drawn, an SVG document."""
    frames = {"csv": found.cells, "formulations": found.formulations, "claims": found.claims}
    unrounded = {name: csv_text(frame) for name, frame in frames.items()}
    return unrounded | {"summary": summary(found), "markdown": markdown(found), "html": html(found, forest)}


def summary(found: Comparison) -> str:
    """Counts, wins, nearness and provenance as JSON."""
    decided, chance = number_statuses.expected_to_differ(found.cells, found.rules)
    content = {
        "study": found.study.title,
        "demo": found.study.demo,
        "rows": len(found.cells),
        "statuses": _counts(found.cells),
        "held_against_print": decided,
        "expected_to_differ_by_chance": round(chance, 1),
        "claims": _statuses(found.printed_claims),
        "claims_in_this_study": _answers(found.printed_asked),
        "own_claims": _statuses(found.own_claims),
        "own_claims_in_this_study": _answers(found.own_asked),
        "headline": beam_minus_multinomial.tally(found.differences, beam_minus_multinomial.HEADLINE),
        "cells": beam_minus_multinomial.tally(found.differences, beam_minus_multinomial.CELLS),
        "nearer": json.loads(found.nearer.to_json(orient="records", double_precision=6)),
        "provenance": found.provenance,
    }
    return json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def markdown(found: Comparison) -> str:
    """The summary: counts, differing cells, claims, wins and losses, errata."""
    differing = found.cells[found.cells["status"] == "differs"]
    sections = [*_by_table(found), *_sections(found, "")]
    if len(differing):
        sections.insert(1, _section("Cells that differ", [], _shown_cells(differing, found.rules)))
    lines = [f"# {markdown_table.escape(_title(found))}", "", *(f"{sentence}\n" for sentence in _opening(found))]
    for section in sections:
        lines += [f"## {section.heading}", ""] if section.heading else []
        lines += [*(f"{sentence}\n" for sentence in section.sentences), *_markdown_table(section), ""]
    return "\n".join([*lines, *(f"- {name}: `{value}`" for name, value in _hashes(found)), ""])


def html(found: Comparison, forest: str) -> str:
    """One page, nothing loaded: the summary, ``forest`` (an SVG document) and every printed number, folded by table."""
    provenance = PageSection("Provenance", notes=[f"{name}: {value}" for name, value in _hashes(found)])
    sections = [*_by_table(found), *_sections(found, forest)]
    if len(found.held):
        sections.append(PageSection("Every printed number"))
        for table, part in found.cells.groupby("table", sort=False):
            same = [name for name in ("model", "dataset", "metric") if part[name].nunique() == 1]
            shown = _shown_cells(part.drop(columns=["table", *same]), found.rules)
            told = f"{table}: {_told(part)}" + (f" ({', '.join(part[same].iloc[0])})" if same else "")
            sections.append(_section("", [], shown, folded=True, summary=told))
    return sections_page(_title(found), _opening(found), [*sections, provenance])


def _title(found: Comparison) -> str:
    return captions.titled(found.study, f"Compared with print: {found.study.title}")


def _opening(found: Comparison) -> list[str]:
    rules = found.rules.agreement
    if found.study.demo:
        return [
            "What the paper claims, asked of this demo, which shows that the machinery works: other models on other "
            "questions say nothing about the paper.",
            f"The {len(found.cells):,} printed numbers and the {len(found.printed_claims)} claims about them are not "
            f"comparable ({number_statuses.DEMO}); comparison.csv and comparison_claims.csv list them.",
        ]
    if not len(found.held):
        return [
            "What the paper claims, asked of this study about itself.",
            f"None of the {len(found.cells):,} printed numbers can be held against it: {_reasons(found.cells)}; "
            "comparison.csv lists them.",
        ]
    decided, chance = number_statuses.expected_to_differ(found.cells, found.rules)
    arbitrary = found.cells["setting"].map(found.rules.arbitrary).dropna()
    rest_on = found.held["our_decisions"].map(lambda names: len(names.split("; ")) if names else 0)
    resting = (
        f"Each of these {decided:,} rests on {rest_on.min()} to {rest_on.max()} decisions of ours beside what print "
        "states: one that agrees replicates print only together with them, and one that differs may differ by them."
    )
    return [
        f"{len(found.cells):,} printed numbers: "
        + ", ".join(f"{count:,} {status}" for status, count in _counts(found.cells).items())
        + ".",
        f"Of the {decided:,} held against print, chance alone would on average call at most {chance:.0f} different; "
        "cells share questions, so that count scatters more than that of independent ones.",
        f"{len(arbitrary)} printed numbers are of a setting that no run can be held against: "
        f"{'; '.join(arbitrary.unique())}.",
        *([resting] if decided else []),
        f"A cell agrees if |z| < {rules.z:g}, z = difference / √(our s² + printed s²). A printed ± that is absent or "
        "in the errata is replaced by ours. The two runs overlap in questions, which z leaves out, so their difference "
        "scatters less than z assumes: 'differs' is conservative, 'agrees' correspondingly easy.",
        f"'Detectable' is the true difference that would be called different with probability {rules.power:.0%}, if "
        "the runs had no question in common; with the overlap, smaller ones would be.",
    ]


def _section(heading: str, sentences: Sequence[str], frame: pd.DataFrame, **options: Any) -> PageSection:
    decimals = {"z": 2, "p": 4, "adjusted": 4}
    return PageSection(heading, frame, sentences, decimals=3, column_decimals=decimals, **options)


def _sections(found: Comparison, forest: str) -> list[PageSection]:
    """Every section behind the counts; where nothing is held against print, the study's own answers lead."""
    held = len(found.held) > 0
    return [
        *_resembled(found),
        *([_entropy(found)] if held else _asked(found)),
        *_differences(found, forest),
        *_arms(found),
        *_claim_tables(found),
        _section(
            "Print against itself",
            ["Found in the printed numbers and by stored counterexamples alone; a test regenerates every entry."],
            found.errata,
            folded=not held,
        ),
        _section(
            "What print does not state",
            [
                "Settings as in the official release, where print is silent, and our decisions, where print is silent "
                "or unclear and the release does otherwise, or nobody can know. The tables of numbers name them by "
                "number; a study may set those with a path otherwise, and its numbers then say so. What is not here "
                "is stated in print."
            ],
            _decisions(found),
            folded=not held,
        ),
    ]


def _resembled(found: Comparison) -> list[PageSection]:
    """Which printed table our means lie nearer, where any could be held against both."""
    if not len(found.nearer):
        return []
    nearest = found.nearer[found.nearer["model"] == "all"]["nearer"].iloc[0]
    sentence = (
        "Mean distance of our means with the greedy answer to the main table (tab:qa_mean_prr) and to the one with "
        f"the top beam as the answer (tab:topbeam_scoring): nearer the {nearest} table over all."
    )
    return [_section("Which produced answer our greedy rows resemble", [sentence], found.nearer)]


def _entropy(found: Comparison) -> PageSection:
    read = found.formulations
    counted = read.groupby(["formulation", "status"], sort=False).size().rename("rows").reset_index()
    decided = read[read["status"].isin(["agrees", "differs"])]
    closest = decided.assign(distance=decided["difference"].abs()).groupby("formulation")["distance"].mean()
    sentence = (
        "Print defines the sampled form in one way, the official code in another; every printed value is held against "
        "all three."
    )
    shown = counted.assign(mean_distance=counted["formulation"].map(closest))
    return _section("Semantic Entropy in its three forms", [sentence], shown)


def _differences(found: Comparison, forest: str) -> list[PageSection]:
    """Wins and losses with the forest plot, then the means."""
    families = {"means": beam_minus_multinomial.HEADLINE, "cells": beam_minus_multinomial.CELLS}
    tallies = [{"family": n} | beam_minus_multinomial.tally(found.differences, of) for n, of in families.items()]
    told = [_families(found), beam_minus_multinomial.resamples_sentence(found.differences, found.rules)]
    means = found.differences[found.differences["family"] == beam_minus_multinomial.HEADLINE]
    means = _once(_with_interval(means.drop(columns=["family", "dataset", "std", "resamples"])), ["model"])
    drawn = forest if len(found.differences) else ""
    return [
        _section("Beam minus multinomial, paired", told, pd.DataFrame(tallies), svg=drawn),
        _section("Means over datasets, beam minus multinomial", [], means),
    ]


def _claim_tables(found: Comparison) -> list[PageSection]:
    """The claims held against print; where nothing is, those that could be decided all the same."""
    printed = found.printed_claims
    if not len(found.held):
        decided = printed[~printed["status"].isin(["not run", number_statuses.NOT_COMPARABLE])]
        shown = _numbered_decisions(decided.drop(columns="in_this_study"), found.rules)
        return [_section("Claims decided as in print", [_claims(found)], shown)] if len(decided) else []
    own = (
        "In this study: the same question asked of the study's own cells, whatever their settings. "
        f"{_answers_told(found.printed_asked)}"
    )
    return [
        _section("Claims", [_claims(found), own], _numbered_decisions(printed, found.rules)),
        _section("Claims of ours", [OWN_CLAIMS], _numbered_decisions(found.own_claims, found.rules)),
    ]


def _asked(found: Comparison) -> list[PageSection]:
    """The claims as questions about the study itself; a claim's words stand once."""
    shown, cannot = _answered(found.printed_asked)
    own, own_cannot = _answered(found.own_asked)
    explained = (
        f"{_answers_told(found.printed_asked)} This study's models are asked instead of the claim's, on its datasets "
        "where the study runs them and on all that are not the paper's. Yes: shown with this many questions; partly: "
        "of a part; no: the opposite is, or a value outside the printed range; undecided: what was found may be "
        "chance. Settings need not be the paper's."
    )
    sections = [_section("What the paper claims, asked of this study", [explained], shown[~cannot])]
    if not own_cannot.all():
        told = [OWN_CLAIMS, _answers_told(found.own_asked)]
        sections.append(_section("What we claim, asked of this study", told, own[~own_cannot]))
    if cannot.any() or own_cannot.any():
        without = pd.concat([shown[cannot], own[own_cannot]])
        sections.append(_section("What this study cannot say, and why", [], without, folded=True))
    return sections


def _answered(asked: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series[bool]]:
    """The answers as shown, a claim's words once; and which of them say nothing."""
    named = asked.rename(columns={"of": "asked of", "answer": "in this study"})
    shown = _once(named, ["claim"])[["claim", "in this study", "asked of", "found"]]
    return shown, named["in this study"] == claims.CANNOT_SAY


def _statuses(claimed: pd.DataFrame) -> dict[str, int]:
    """How many claims have each status."""
    return {str(k): int(v) for k, v in claimed["status"].value_counts().sort_index().items()}


def _answers(asked: pd.DataFrame) -> dict[str, int]:
    """How many answers of each kind the study's own cells give to claims."""
    return {answer: int((asked["answer"] == answer).sum()) for answer in claims.ANSWERS}


def _answers_told(asked: pd.DataFrame) -> str:
    """``51 answers of its models and datasets: 2 yes, …; 8 times it cannot say.``"""
    counts = _answers(asked)
    cannot = counts.pop(claims.CANNOT_SAY)
    told = ", ".join(f"{count} {answer}" for answer, count in counts.items() if count)
    answers = f"{sum(counts.values())} answers of its models and datasets: {told}" if told else "No answers"
    return f"{answers}; {cannot} times it cannot say."


def _arms(found: Comparison) -> list[PageSection]:
    """What decoding as the official release does changes, where the study has such a recipe."""
    if not len(found.arms):
        return []
    form = (found.arms["method"] + " " + found.arms["variant"]).str.strip()
    shown = _with_interval(found.arms.assign(method=form).drop(columns="variant"))
    means, cells = shown[shown["dataset"] == MEAN].drop(columns="dataset"), shown[shown["dataset"] != MEAN]
    explained = (
        "The release-like arm minus the main recipe, means over the arm's datasets, the same questions in the same "
        "resamples: beams as generate searches them by default, an answer drawn as the model's shipped settings say "
        "(the greedy one where they name no sampling). Each interval is of one difference, not corrected for their "
        "number. Which arm lies nearer to print stands beside each printed number that differs; of a number that is "
        "not held against print nothing can be said."
    )
    return [
        _section("Decoded as the official release does", [explained], _once(means, ["model", "arm", "answer"])),
        _section("Each dataset decoded as the official release does", [], cells, folded=True),
    ]


def _reasons(cells: pd.DataFrame) -> str:
    """``1,800 not run, 158 not comparable (the most frequent reasons)``."""
    frequent = cells.loc[cells["status"] != "errata", "reason"].value_counts(sort=True).head(3)
    reasons = "; ".join(f"{count:,}: {reason}" for reason, count in frequent.items() if reason)
    return f"{_told(cells)} (most often {reasons})"


def _decisions(found: Comparison) -> pd.DataFrame:
    rows = found.rules.decided.decisions
    columns = {"release": "release_decisions", "ours": "our_decisions"}
    counts = [sum(_rests_on(row.id, names) for names in found.held[columns[row.source]]) for row in rows]
    return pd.DataFrame(
        {
            "number": range(1, len(rows) + 1),
            "decision": [row.id for row in rows],
            "source": ["as in the release" if row.source == "release" else "our decision" for row in rows],
            "what": [row.about for row in rows],
            "settings": [", ".join(row.paths) for row in rows],
            "numbers that agree or differ": counts,
        }
    )


def _rests_on(decision: str, names: str) -> bool:
    return any(decision_id(name) == decision for name in names.split("; "))


def _families(found: Comparison) -> str:
    methods, paper = len(found.rules.families.methods), found.rules.paper
    models, datasets = len(paper.models), len(paper.datasets)
    if found.study.demo:
        return "The families of a demo are its own models: means corrected by Holm, cells by Benjamini and Hochberg."
    return (
        f"Declared before any run: {methods} methods × {models} models on the mean over datasets ({methods * models} "
        f"tests, Holm), and each dataset ({methods * models * datasets} cells, Benjamini and Hochberg). A test that "
        "was not run counts as the least significant."
    )


def _claims(found: Comparison) -> str:
    rules = found.rules.claims
    return (
        "Supported: what is claimed of sign and size holds; significance stands beside and counts only where print "
        "claims it. The lead of a best one is tested as the best of many (max-T). Undecided: this run cannot tell, as "
        "an interval lies across a margin or the resamples are too few for so many tests. Negligible is a difference "
        f"whose interval lies within ±{rules.negligible:g}. A cell or a file with under "
        f"{found.rules.agreement.least_share_of_questions:.0%} of the paper's questions decides nothing. Ours and "
        "release: on how many decisions the numbers that decide it rest, and on which (What print does not state)."
    )


def _counts(cells: pd.DataFrame) -> dict[str, int]:
    return {status: int((cells["status"] == status).sum()) for status in number_statuses.STATUSES}


def _told(cells: pd.DataFrame) -> str:
    """``80 agrees, 40 differs``."""
    return ", ".join(f"{count} {status}" for status, count in _counts(cells).items() if count)


def _by_table(found: Comparison) -> list[PageSection]:
    """The counts, where any number is held against print."""
    if not len(found.held):
        return []
    parts = [*found.cells.groupby("table", sort=False), ("total", found.cells)]
    rows = [{"table": table, "rows": len(part), **_counts(part)} for table, part in parts]
    return [_section("", [], pd.DataFrame(rows))]


def _shown_cells(part: pd.DataFrame, rules: ComparisonRules) -> pd.DataFrame:
    status = [f"{s}: {r}" if r else s for s, r in zip(part["status"], part["reason"], strict=True)]
    form = (part["method"] + " " + part["variant"] + " " + part["setting"]).str.split().str.join(" ")
    named = part.assign(method=form)
    before = [name for name in ("table", "model", "dataset", "metric", "method") if name in named and any(named[name])]
    shown = named[[*before, "printed", "value"]].assign(interval=_intervals(part))
    shown = shown.assign(difference=part["difference"], z=part["z"], status=status)
    if (part["nearest_arm"] != "").any():
        shown = shown.assign(**{"nearest arm": part["nearest_arm"]})
    behind = part[["n", "detectable", "errata", "our_decisions", "release_decisions"]]
    return pd.concat([shown, _numbered_decisions(behind, rules)], axis=1)


def _numbered_decisions(frame: pd.DataFrame, rules: ComparisonRules) -> pd.DataFrame:
    """The two columns of decisions by their count and numbers: ``prompts; beam search (…)`` → ``2: 1, 6 (…)``."""
    numbers = {decision.id: str(number) for number, decision in enumerate(rules.decided.decisions, start=1)}

    def numbered(names: str) -> str:
        found = [(decision_id(name), name) for name in names.split("; ") if name]
        told = ", ".join(numbers[decision] + name.removeprefix(decision) for decision, name in found)
        return f"{len({decision for decision, _ in found})}: {told}" if found else ""

    columns = {"our_decisions": "ours", "release_decisions": "release"}
    return frame.assign(**{old: frame[old].map(numbered) for old in columns}).rename(columns=columns)


def _intervals(frame: pd.DataFrame) -> list[str]:
    """``[0.100, 0.200]``, empty where there is none."""
    limits = zip(frame["low"], frame["high"], strict=True)
    return [f"[{low:.3f}, {high:.3f}]" if pd.notna(low) else "" for low, high in limits]


def _with_interval(frame: pd.DataFrame) -> pd.DataFrame:
    """Both ends in one column, and no notes where none says anything."""
    shown = frame.assign(low=_intervals(frame)).drop(columns="high").rename(columns={"low": "interval"})
    return shown if (frame["note"] != "").any() else shown.drop(columns="note")


def _once(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Names of rows stand where they change."""
    same = (frame[list(names)] == frame[list(names)].shift()).cummin(axis=1)
    return frame.assign(**{name: frame[name].mask(same[name], "") for name in names})


def _hashes(found: Comparison) -> list[tuple[str, str]]:
    named = [("study", found.provenance["study"])]
    for part in ("declared", "versions"):
        named += found.provenance[part].items()
    return [(name, str(value)) for name, value in named]


def _markdown_table(section: PageSection) -> list[str]:
    """The table of a section for GitHub; only numbers are left as they are."""
    rows = [
        [cell.text if cell.kind == "number" else markdown_table.escape(cell.text) for cell in row]
        for row in section.rows
    ]
    heads = [markdown_table.escape(head.text) for head in section.heads]
    return [markdown_table.line(row) for row in (heads, ["---"] * len(heads), *rows)]
