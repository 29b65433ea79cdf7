"""How methods, variants, settings, demos and proxies are called in what a reader sees."""

from __future__ import annotations

from collections.abc import Sequence

from beamuq.study_config import Study

BASELINES = (
    "Prob",
    "MTE",
    "Perplexity",
    "CCP",
    "SAR",
    "PTrue",
    "SemanticEntropy",
    "LexicalSimilarity",
    "EigValLaplacian",
    "NumSemSets",
)
CONSISTENCY = ("Dissimilarity", "Eccentricity", "EigVecDissimilarity", "CocoaMSP", "CocoaPPL")
GRAPH = ("Dissimilarity", "Eccentricity", "EigVecDissimilarity")
MULTINOMIAL, BEAMSEARCH = "multinomial", "beamsearch"

_METHODS = {
    "PTrue": "P(True)",
    "SemanticEntropy": "Semantic Entropy",
    "LexicalSimilarity": "Lexical Similarity",
    "DegreeMatrix": "Degree Matrix",
}
_SHORT = {"Dissimilarity": "Dissim", "Eccentricity": "Ecc", "EigVecDissimilarity": "EigVecDissim"}

BEAM_ORDER = "in the search's own order (by probability unless it has a length penalty)"

DEMO_TAG = "[demo] "
DEMO_WARNING = "This is a demo: its numbers show that the machinery works and are no results of the paper."


def method_title(method: str, variant: str = "") -> str:
    """``Dissimilarity + beamsearch``; a method this table of names does not know keeps its key."""
    title = _METHODS.get(method, method)
    return f"{title} + beamsearch" if variant == BEAMSEARCH else title


def method_short(method: str) -> str:
    """As column heads of wide tables print it."""
    return _SHORT.get(method, method)


def titled(study: Study, title: str) -> str:
    """A title, with the demo's tag where the study is one."""
    return f"{DEMO_TAG}{title}" if study.demo else title


def proxies(study: Study, scorers: Sequence[str] = (), *, quality: bool = False) -> list[str]:
    """One clause for each scorer or quality metric used here that replaces the paper's."""
    found = []
    for name in scorers:
        scorer = study.scorers[name]
        if scorer.proxy_for:
            found.append(f"similarity: {scorer.title}, proxy for {scorer.proxy_for}")
    if quality and study.main_quality.proxy_for:
        found.append(f"quality: {study.main_quality.title}, proxy for {study.main_quality.proxy_for}")
    return found


def caption(study: Study, sentences: Sequence[str], *, scorers: Sequence[str] = (), quality: bool = False) -> str:
    """The caption: its sentences, then every proxy, then the warning that a demo carries."""
    parts = [sentence for sentence in sentences if sentence]
    found = proxies(study, scorers, quality=quality)
    if found:
        parts.append(f"Proxies: {'; '.join(found)}.")
    if study.demo:
        parts.append(DEMO_WARNING)
    return titled(study, " ".join(parts))


def footnote(study: Study, scorers: Sequence[str] = (), *, quality: bool = False) -> str:
    """The small line under a figure that names every proxy; empty where there is none."""
    found = proxies(study, scorers, quality=quality)
    return f"Proxies: {'; '.join(found)}." if found else ""


def listing(items: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(filter(None, (", ".join(items[:-1]), items[-1]))) if items else ""


def confidence(study: Study) -> str:
    """``95 %``."""
    return f"{100 * study.evaluation.confidence:g} %"


def dataset_heads(study: Study, datasets: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Two levels of column titles: the datasets' categories, and their own."""
    return tuple(study.datasets[d].category for d in datasets), tuple(study.datasets[d].title for d in datasets)
