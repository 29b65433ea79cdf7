"""How methods, variants, settings, demos and proxies are called in what a reader sees."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from beamuq.beam_mass_theorem import corrected_threshold, printed_threshold
from beamuq.methods.registry import TITLES
from beamuq_study.study_config import Study

CONSISTENCY = ("Dissimilarity", "Eccentricity", "EigVecDissimilarity", "CocoaMSP", "CocoaPPL")
GRAPH = ("Dissimilarity", "Eccentricity", "EigVecDissimilarity")
MULTINOMIAL, BEAMSEARCH = "multinomial", "beamsearch"

_SHORT = {"Dissimilarity": "Dissim", "Eccentricity": "Ecc", "EigVecDissimilarity": "EigVecDissim"}
ARROWS = "; ↑: the beam form is better than its multinomial counterpart"
NEEDS = "Needs: "
DEMO_WARNING = "This is a demo: its numbers show that the machinery works and are no results of the paper."


def method_title(method: str, variant: str = "") -> str:
    """``Dissimilarity + beamsearch``; a method this table of names does not know keeps its key."""
    title = TITLES.get(method, method)
    return f"{title} + beamsearch" if variant == BEAMSEARCH else title


def method_short(method: str) -> str:
    """As column heads of wide tables print it."""
    return _SHORT.get(method, method)


def titled(study: Study, title: str) -> str:
    """A title, with the demo's tag where the study is one."""
    return "[demo] " * study.demo + title


def footnote(study: Study, scorers: Sequence[str] = (), *, quality: bool = False) -> str:
    """A sentence that names every scorer and quality metric used here that replaces the paper's; else nothing."""
    used = [("similarity", study.scorers[name]) for name in scorers] + [("quality", study.main_quality)] * quality
    proxies = [f"{what}: {of.title}, proxy for {of.proxy_for}" for what, of in used if of.proxy_for]
    return f"Proxies: {'; '.join(proxies)}." if proxies else ""


def listing(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1]))) if items else ""


@cache
def _templates() -> dict[str, str]:
    """The blocks of ``captions.txt``, by label."""
    _, *blocks = (resources.files("beamuq_study.exhibits") / "captions.txt").read_text(encoding="utf-8").split("\n== ")
    return dict(block.split(" ==\n", 1) for block in blocks)


# Of the paper's baseline methods: the category of each, and its title.
BASELINES = {name: of for name, *of in (line.split(" | ") for line in _templates()["baseline methods"].splitlines())}


def _lines(label: str, template: str, *, of_needs: bool) -> list[str]:
    return [s for s in (template or _templates()[label]).splitlines() if s and s.startswith(NEEDS) == of_needs]


def text(label: str, facts: Mapping[str, Any], template: str = "") -> list[str]:
    """The title and the sentences of a caption, from a template (that in ``captions.txt``) and what fills it.

    A sentence goes if a fact of it is None.
    """

    def known(line: str) -> bool:
        return all(facts[name] is not None for _, name, _, _ in string.Formatter().parse(line) if name)

    title, *sentences = (line.format_map(facts) for line in _lines(label, template, of_needs=False) if known(line))
    return [title, *(sentence for sentence in sentences if sentence.strip())]


def needs(study: Study, label: str, template: str = "") -> str:
    """What a study needs for an exhibit, as the caption's block says; else every model of the main recipe."""
    every = "every model of the grid's recipe {recipe!r} there under the main scorer"
    (line, *_) = [*_lines(label, template, of_needs=True), every]
    return line.removeprefix(NEEDS).format_map(study_facts(study))


def study_facts(study: Study) -> dict[str, Any]:
    """What a study says to every caption."""
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


def question_facts(study: Study, n: Mapping[str, Sequence[int]]) -> dict[str, str]:
    """Of the datasets an exhibit shows, and the questions of each cell of them: ``sizes`` and ``resampled``."""
    stories = [study.datasets[d].title for d in n if study.datasets[d].adapter == "coqa"]
    resampled = (
        f"{study.evaluation.resamples} bootstrap resamples of the questions"
        + (f" (of whole stories for {listing(stories)})" if stories else "")
        + (", each dataset resampled on its own" if len(n) > 1 else "")
    )
    ends = {study.datasets[d].title: sorted({min(counts), max(counts)}) for d, counts in n.items() if counts}
    parts = [f"{title} {'–'.join(map(str, of))}" for title, of in ends.items()]
    return {"sizes": f"Questions: {', '.join(parts)}." if parts else "", "resampled": resampled}
