"""What captions say: their templates filled in, and what methods, proxies and demos are called."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import TypeAlias

import pandas as pd

from beamuq.beam_mass_theorem import corrected_threshold, printed_threshold
from beamuq.errors import BeamUQError, hint
from beamuq.methods.registry import TITLES
from beamuq_study.exhibits.method_groups import OVER_BEAMS
from beamuq_study.study_config import Study

Facts: TypeAlias = Mapping[str, object]
"""What fills the ``{names}`` of a caption; a sentence goes if a fact of it is None."""

DEMO_WARNING = (
    "This is a demo: its numbers show that the machinery works and are no results of the paper."
)
RANKING = (
    "In each column the best value is bold and the second best underlined, compared unrounded, "
    "ties alike"
)
ARROWS = "; ↑: the beam form is better than its multinomial counterpart"
NEEDS = "Needs: "
EVERY_MAIN_MODEL = "every model of recipe {recipe!r} in the grid, under the main scorer"

_SHORT_NAMES = {
    "Dissimilarity": "Dissim",
    "Eccentricity": "Ecc",
    "EigVecDissimilarity": "EigVecDissim",
}


def _read_templates() -> dict[str, str]:
    """The captions of ``captions.txt``, by label."""
    path = resources.files("beamuq_study.exhibits") / "captions.txt"
    _, *blocks = path.read_text(encoding="utf-8").split("\n== ")
    return dict(block.split(" ==\n", 1) for block in blocks)


_TEMPLATES = _read_templates()


def method_title(method: str, variant: str = "") -> str:
    """``Dissimilarity + beamsearch``; a method this table of names does not know keeps its key."""
    title = TITLES.get(method, method)
    return f"{title} + beamsearch" if variant == OVER_BEAMS else title


def method_short(method: str) -> str:
    """``Dissim``: as heads of columns call a method."""
    return _SHORT_NAMES.get(method, method)


def titled(study: Study, title: str) -> str:
    """A title, with the demo's tag where the study is one."""
    return f"[demo] {title}" if study.demo else title


def footnote(study: Study, scorers: Sequence[str] = (), *, quality: bool = False) -> str:
    """A sentence that names the scorers and the quality metric that are proxies; else nothing."""
    used = [("similarity", study.scorers[name]) for name in scorers]
    proxies = [
        f"{role}: {scorer.title}, proxy for {scorer.proxy_for}"
        for role, scorer in used
        if scorer.proxy_for
    ]
    metric = study.main_quality
    if quality and metric.proxy_for:
        proxies.append(f"quality: {metric.title}, proxy for {metric.proxy_for}")
    return f"Proxies: {'; '.join(proxies)}." if proxies else ""


def listing(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} and {items[-1]}"


def ranking(*, arrows: bool) -> str:
    """The sentence on the marks of ranked values; ``arrows``: whether any beam form has one."""
    return f"{RANKING}{ARROWS if arrows else ''}."


def text(caption: str, facts: Facts) -> list[str]:
    """The title and the sentences of a caption, filled in."""
    lines = [line for line in _lines(caption) if not line.startswith(NEEDS)]
    title, *sentences = [_filled(line, facts) for line in lines]
    return [title, *(sentence for sentence in sentences if sentence.strip())]


def needs(study: Study, caption: str) -> str:
    """What a study needs for an exhibit, as its caption says; else all main models."""
    stated = [line.removeprefix(NEEDS) for line in _lines(caption) if line.startswith(NEEDS)]
    needed = stated[0] if stated else EVERY_MAIN_MODEL
    return _filled(needed, study_facts(study))


def _lines(caption: str) -> list[str]:
    """The lines of a caption, given by its label or as its text."""
    return [line for line in _TEMPLATES.get(caption, caption).splitlines() if line]


def _filled(line: str, facts: Facts) -> str:
    """A line with its facts, empty if one is None. Raises BeamUQError for a name without a fact."""
    for _, name, _, _ in string.Formatter().parse(line):
        if not name:
            continue
        try:
            fact = facts[name]
        except KeyError as error:
            problem = f"caption {line!r}: {{{name}}}: no fact here"
            raise BeamUQError(f"{problem}; {hint(name, facts)}") from error
        if fact is None:
            return ""
    return line.format_map(facts)


def study_facts(study: Study) -> dict[str, object]:
    """Facts of the main settings of a study."""
    main = study.main
    quality = study.main_quality
    evaluation = study.evaluation
    return {
        "M": main.num_candidates,
        "recipe": main.recipe,
        "beam": main.beam,
        "sample": main.sample,
        "main_scorer": study.scorers[main.scorer].title,
        "quality": quality.title,
        "threshold": f"{quality.threshold:g}",
        "confidence": f"{100 * evaluation.confidence:g} %",
        "guarantee": f"{100 * study.decisions.confidence:g} %",
        "printed": f"{printed_threshold(main.num_candidates):.3f}",
        "corrected": f"{corrected_threshold(main.num_candidates):.3f}",
        "resamples": evaluation.resamples,
        "rejection": f"{evaluation.max_rejection[0]:g}",
    }


def question_facts(study: Study, cells: pd.DataFrame) -> dict[str, str]:
    """Facts of the questions of some cells, by their ``dataset`` and ``n`` (NaN: not told)."""
    counts = {
        str(dataset): sizes.dropna()
        for dataset, sizes in cells.groupby("dataset", sort=False)["n"]
        if dataset in study.datasets
    }
    return {"sizes": _sizes(study, counts), "resampled": _resampled(study, list(counts))}


def _sizes(study: Study, counts: Mapping[str, pd.Series[int]]) -> str:
    """The sentence on the least and the most questions of each dataset; nothing where not told."""
    ranges = []
    for dataset, sizes in counts.items():
        if len(sizes):
            ends = sorted({min(sizes), max(sizes)})
            ranges.append(f"{study.datasets[dataset].title} {'–'.join(map(str, ends))}")
    return f"Questions: {', '.join(ranges)}." if ranges else ""


def _resampled(study: Study, datasets: Sequence[str]) -> str:
    """What the bootstrap of these datasets draws."""
    stories = [
        study.datasets[name].title for name in datasets if study.datasets[name].adapter == "coqa"
    ]
    phrase = f"{study.evaluation.resamples} bootstrap resamples of the questions"
    if stories:
        phrase += f" (of whole stories for {listing(stories)})"
    if len(datasets) > 1:
        phrase += ", each dataset resampled on its own"
    return phrase
