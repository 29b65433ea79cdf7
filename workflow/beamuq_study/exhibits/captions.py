"""How methods, variants, settings, demos and proxies are called in what a reader sees."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import pandas as pd

from beamuq.beam_mass_theorem import corrected_threshold, printed_threshold
from beamuq.errors import BeamUQError, hint
from beamuq.methods.registry import TITLES
from beamuq_study.study_config import Study

CONSISTENCY = ("Dissimilarity", "Eccentricity", "EigVecDissimilarity", "CocoaMSP", "CocoaPPL")
GRAPH = ("Dissimilarity", "Eccentricity", "EigVecDissimilarity")
MULTINOMIAL, BEAMSEARCH = "multinomial", "beamsearch"

_SHORT = {"Dissimilarity": "Dissim", "Eccentricity": "Ecc", "EigVecDissimilarity": "EigVecDissim"}
ARROWS = "; ↑: the beam form is better than its multinomial counterpart"
NEEDS = "Needs: "
DEMO_WARNING = (
    "This is a demo: its numbers show that the machinery works and are no results of the paper."
)
_, *_BLOCKS = (
    (resources.files("beamuq_study.exhibits") / "captions.txt")
    .read_text(encoding="utf-8")
    .split("\n== ")
)
_TEMPLATES = dict(block.split(" ==\n", 1) for block in _BLOCKS)
# Of the paper's baseline methods: the category of each, and its title.
BASELINES = {
    name: of
    for name, *of in (line.split(" | ") for line in _TEMPLATES["baseline methods"].splitlines())
}


def method_title(method: str, variant: str = "") -> str:
    """``Dissimilarity + beamsearch``; a method this table of names does not know keeps its key."""
    title = TITLES.get(method, method)
    return f"{title} + beamsearch" if variant == BEAMSEARCH else title


def method_short(method: str) -> str:
    return _SHORT.get(method, method)


def titled(study: Study, title: str) -> str:
    """A title, with the demo's tag where the study is one."""
    return "[demo] " * study.demo + title


def footnote(study: Study, scorers: Sequence[str] = (), *, quality: bool = False) -> str:
    """A sentence that names every scorer and quality metric used here that replaces the paper's;
    else nothing.
    """
    used = [("similarity", study.scorers[name]) for name in scorers] + [
        ("quality", study.main_quality)
    ] * quality
    proxies = [f"{what}: {of.title}, proxy for {of.proxy_for}" for what, of in used if of.proxy_for]
    return f"Proxies: {'; '.join(proxies)}." if proxies else ""


def listing(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1]))) if items else ""


def _lines(caption: str, *, of_needs: bool) -> list[str]:
    return [
        s
        for s in _TEMPLATES.get(caption, caption).splitlines()
        if s and s.startswith(NEEDS) == of_needs
    ]


def _filled(line: str, facts: Mapping[str, Any]) -> str:
    """A line with its facts; empty if one is None. Raises BeamUQError naming one that is no
    fact.
    """
    try:
        known = all(
            facts[name] is not None for _, name, _, _ in string.Formatter().parse(line) if name
        )
    except KeyError as error:
        name = error.args[0]
        raise BeamUQError(
            f"caption {line!r}: {{{name}}}: no fact here; {hint(name, facts)}"
        ) from error
    return line.format_map(facts) if known else ""


def text(caption: str, facts: Mapping[str, Any]) -> list[str]:
    """The title and the sentences of a caption, filled in; a sentence goes if a fact of it is
    None.
    """
    title, *sentences = (_filled(line, facts) for line in _lines(caption, of_needs=False))
    return [title, *(sentence for sentence in sentences if sentence.strip())]


def needs(study: Study, caption: str) -> str:
    """What a study needs for an exhibit, as the caption's block says; else every model of the main
    recipe.
    """
    every = "every model of recipe {recipe!r} in the grid, under the main scorer"
    (line, *_) = [*_lines(caption, of_needs=True), every]
    return _filled(line.removeprefix(NEEDS), study_facts(study))


def study_facts(study: Study) -> dict[str, Any]:
    main, quality, evaluation = study.main, study.main_quality, study.evaluation
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
    """Of the ``dataset`` of each of some cells, and its questions ``n`` (NaN: not told): ``sizes``,
    ``resampled``.
    """
    counts = {
        str(d): n.dropna()
        for d, n in cells.groupby("dataset", sort=False)["n"]
        if d in study.datasets
    }
    stories = [study.datasets[d].title for d in counts if study.datasets[d].adapter == "coqa"]
    resampled = f"{study.evaluation.resamples} bootstrap resamples of the questions"
    resampled += f" (of whole stories for {listing(stories)})" * bool(stories)
    resampled += ", each dataset resampled on its own" * (len(counts) > 1)
    ends = {study.datasets[d].title: sorted({min(n), max(n)}) for d, n in counts.items() if len(n)}
    parts = [f"{title} {'–'.join(map(str, of))}" for title, of in ends.items()]
    return {"sizes": f"Questions: {', '.join(parts)}." if parts else "", "resampled": resampled}
