"""The explorer: questions and scores as one structure of plain lists, and the HTML file of it.

The tables are packed for size: each string appears once, numbers are rounded to what is drawn, JSON
is compressed. The page's script unpacks them (``explorer.js`` says how each list is read). The same
tables give the same bytes.
"""

from __future__ import annotations

import base64
import gzip
import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from itertools import islice, permutations
from typing import Any

import numpy as np
import pandas as pd

from beamuq import __version__
from beamuq.errors import BeamUQError
from beamuq.html_text import escape
from beamuq.methods.registry import PRINTED_VARIANTS, TITLES
from beamuq.methods.semantic_entropy_sar import semantic_clusters

FOLDER = resources.files("beamuq.explorer")
MOST_QUESTIONS = 2000  # of a page, by default: some 4 MB
MOST_COMPARED = 40  # texts of a similarity matrix, which more would make unreadable
NOT_COMPARED = "'"  # the character of a pair without similarity
ZERO = 40  # the code of the character that stands for similarity 0; 100 more stand for 1

PREFERRED = (("Dissimilarity", "beamsearch"), ("Dissimilarity", "multinomial"))
"""The methods that a page opens on, where no other one has more values."""

Row = Mapping[str, Any]
Pairs = Mapping[tuple[str, str], tuple[float, bool | None]]
"""Of ordered pairs of texts the similarity, and whether both mean the same (None: not judged)."""


@dataclass(frozen=True)
class Question:
    """A question and its answers.

    answer, samples, beams: rows of a candidates table (``logprob`` None: not known; no
    ``token_*``: no tree), samples as drawn, beams by descending log-probability. pairs: of texts
    of these rows. quality: of the answer; None: not known.
    """

    id: str
    text: str
    answer: Row
    samples: Sequence[Row]
    beams: Sequence[Row]
    references: Sequence[str] = ()
    prompt: str = ""
    pairs: Pairs = field(default_factory=dict)
    quality: float | None = None


@dataclass(frozen=True)
class Section:
    """Questions that are ranked together: a study's cell, or a file.

    name: part of a link to one of them. scores: as a table of scores, of one produced answer.
    sources: what answer, samples and beams are. similarity, quality: what they are called; an
    answer is right above ``threshold``. notes: sentences on the section. without_value: sentences
    on scores that lack values, which stand folded.
    """

    name: str
    title: str
    questions: Sequence[Question]
    scores: pd.DataFrame
    sources: Mapping[str, str] = field(default_factory=dict)
    similarity: str = ""
    quality: str = "quality"
    threshold: float = 0.5
    max_rejection: float = 0.5
    notes: Sequence[str] = ()
    without_value: Sequence[str] = ()


def page(
    title: str,
    notes: Sequence[str],
    sections: Sequence[Section],
    *,
    overview: str = "",
    date: str = "",
) -> str:
    """The page: it opens from a file, asks for nothing, and shows every text as text.

    ``overview``: the address of the page to go back to, where there is one. ``date``: the date that
    its footer names; of a study's page none, so that the same tables give the same bytes.

    Raises BeamUQError if there is no question.
    """
    if not any(section.questions for section in sections):
        raise BeamUQError(
            f"{title}: no question to show; give a study with candidates, or a file with rows"
        )
    back = f'<nav><a href="{escape(overview)}">← Overview</a></nav>' if overview else ""
    contents = {
        "TITLE": escape(title),
        "VERSION": __version__,
        "MADE": f" · made {escape(date)} (UTC)" if date else "",
        "BACK": back,
        "CSS": _file("explorer.css"),
        "DATA": _compressed(explorer_data(title, notes, sections)),
        "SCRIPT": _file("explorer.js"),
    }
    html = _file("explorer.html")
    for name, content in contents.items():
        html = html.replace(f"<!--{name}-->", content)
    return html


def _file(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _compressed(data: dict[str, Any]) -> str:
    """Data as JSON, compressed by gzip, in base64."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(gzip.compress(text.encode(), 9, mtime=0)).decode()


def explorer_data(title: str, notes: Sequence[str], sections: Sequence[Section]) -> dict[str, Any]:
    """The page's data as JSON.

    ``cells``: sections, as :func:`_packed_section` packs them. ``tokens``: each token's text once.
    """
    tokens: dict[str, int] = {}
    packed = [_packed_section(section, tokens) for section in sections if section.questions]
    return {"title": title, "notes": list(notes), "cells": packed, "tokens": list(tokens)}


def _packed_section(section: Section, tokens: dict[str, int]) -> dict[str, Any]:
    """A section as the page's script reads it: names, sentences and columns.

    These columns have one entry per question: ids, questions (texts), references, prompts, rated
    (the answer's quality), texts, trees, sets and pairs. All prompts begin with ``prefix``, and
    are given without it. For texts, trees, sets and pairs see :class:`_PackedQuestion`.

    values: for each of ``methods`` a list of scores, one per question. opens: the place among them
    of the one that is shown first. rejection: the largest share of questions that may be rejected.

    ``tokens`` numbers the tokens' texts. Those that it lacks are added.
    """
    questions = section.questions
    ids = [question.id for question in questions]
    prompts = [question.prompt for question in questions]
    prefix = os.path.commonprefix(prompts)  # noqa: RUF071  (by character)
    packed = [_packed_question(question, tokens) for question in questions]
    values = _values_by_method(section.scores, ids)
    return {
        "name": section.name,
        "title": section.title,
        "notes": list(section.notes),
        "without_value": list(section.without_value),
        "sources": {name: section.sources.get(name, "") for name in ("answer", "samples", "beams")},
        "similarity": section.similarity,
        "quality": section.quality,
        "threshold": section.threshold,
        "rejection": section.max_rejection,
        "ids": ids,
        "questions": [question.text for question in questions],
        "references": [list(question.references) for question in questions],
        "prefix": prefix,
        "prompts": [prompt[len(prefix) :] for prompt in prompts],
        "rated": [_six_digits(question.quality) for question in questions],
        "texts": [question.texts for question in packed],
        "trees": [question.tree for question in packed],
        "sets": [question.sets for question in packed],
        "pairs": [question.pairs for question in packed],
        "methods": list(values),
        "values": list(values.values()),
        "opens": _shown_first(values),
    }


@dataclass(frozen=True)
class _PackedQuestion:
    """A question's candidates.

    texts: the distinct ones. tree: see :func:`_tree`. sets: of the answer, samples and beams, see
    :func:`_packed_set`. pairs: see :func:`_matrix`.
    """

    texts: list[str]
    tree: list[list[int]]
    sets: list[list[Any]]
    pairs: str


def _packed_question(question: Question, tokens: dict[str, int]) -> _PackedQuestion:
    sets: tuple[Sequence[Row], ...] = ([question.answer], question.samples, question.beams)
    candidates = [row for rows in sets for row in rows]
    texts = list(dict.fromkeys(row["text"] for row in candidates))
    tree, last_nodes = _tree(candidates, tokens)
    nodes = iter(last_nodes)
    clusters: tuple[list[int], ...] = (
        [],
        _clusters(question.samples, question.pairs),
        _clusters(question.beams, question.pairs),
    )
    packed_sets = [
        _packed_set(rows, texts, list(islice(nodes, len(rows))), clusters_of_rows)
        for rows, clusters_of_rows in zip(sets, clusters, strict=True)
    ]
    return _PackedQuestion(texts, tree, packed_sets, _matrix(texts, question.pairs))


def _packed_set(
    rows: Sequence[Row], texts: Sequence[str], nodes: list[int], clusters: list[int]
) -> list[list[Any]]:
    """Of each row: its text's place, last node in the tree, log p, whether cut, and cluster."""
    return [
        [texts.index(row["text"]) for row in rows],
        nodes,
        [_in_ten_thousandths(row["logprob"]) for row in rows],
        [int(not row.get("terminated", True)) for row in rows],
        clusters,
    ]


def _values_by_method(
    scores: pd.DataFrame, ids: list[str]
) -> dict[tuple[str, str], list[float | None]]:
    """The scores of questions by a method's name on the page and its input."""
    defined = scores[scores["value"].notna()]
    values = {}
    for key, rows in defined.groupby(["method", "variant", "setting"], sort=False):
        by_id = rows.set_index("id")["value"].reindex(ids)
        name = _name_and_input(*map(str, key))
        values[name] = [_six_digits(value) for value in by_id]
    return values


def _shown_first(values: Mapping[tuple[str, str], Sequence[float | None]]) -> int:
    """The place of the method with the most values; of equals Dissimilarity, over beams first."""
    ranks = []
    for place, (name, column) in enumerate(values.items()):
        count = sum(value is not None for value in column)
        preference = PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)
        ranks.append((-count, preference, place))
    return min(ranks)[2] if ranks else 0


def _name_and_input(method: str, variant: str, setting: str) -> tuple[str, str]:
    """A method's name on the page, and its input: the answer (""), samples or beams."""
    is_printed = variant in PRINTED_VARIANTS
    further = " ".join(part for part in ("" if is_printed else variant, setting) if part)
    title = TITLES.get(method, method)
    if further:
        title += f" ({further})"
    return title, variant if is_printed else ""


@dataclass
class _Node:
    """A node of a trie: its depth, token, −log p given the prefix in 1e-3 nats, and children."""

    depth: int
    token: int
    cost: int
    children: dict[int, int] = field(default_factory=dict)


def _tree(rows: Iterable[Row], tokens: dict[str, int]) -> tuple[list[list[int]], list[int]]:
    """The trie of candidates, and the node at which each ends, −1: its tokens are not known.

    Nodes are in preorder, more probable siblings first, as three lists: depth from 1, token, −log p
    given the prefix in 1e-3 nats. A candidate's node is its position there. ``tokens`` is filled as
    they come.
    """
    nodes = [_Node(depth=0, token=-1, cost=0)]
    last_nodes = [_grown(nodes, row, tokens) for row in rows]
    root, *preorder = _preorder(nodes)
    position = {node: place for place, node in enumerate(preorder)}
    position[root] = -1
    lists = [
        [nodes[node].depth for node in preorder],
        [nodes[node].token for node in preorder],
        [nodes[node].cost for node in preorder],
    ]
    return lists, [position[node] for node in last_nodes]


def _grown(nodes: list[_Node], row: Row, tokens: dict[str, int]) -> int:
    """Add a candidate's tokens to the trie; the node at which it ends, 0: without tokens."""
    node = 0
    token_ids = row.get("token_ids", ())
    texts = row.get("token_texts", ())
    logprobs = row.get("token_logprobs", ())
    for token_id, text, logprob in zip(token_ids, texts, logprobs, strict=True):
        children = nodes[node].children
        if token_id not in children:
            children[token_id] = len(nodes)
            token = tokens.setdefault(text, len(tokens))
            cost = max(0, round(-1e3 * logprob))
            nodes.append(_Node(nodes[node].depth + 1, token, cost))
        node = children[token_id]
    return node


def _preorder(nodes: Sequence[_Node]) -> list[int]:
    """Each node before its children, the more probable child first."""
    order: list[int] = []
    pending = [0]
    while pending:
        node = pending.pop()
        order.append(node)
        children = nodes[node].children.values()
        pending += sorted(children, key=lambda child: -nodes[child].cost)
    return order


def _matrix(texts: Sequence[str], pairs: Pairs) -> str:
    """W = (S + Sᵀ)/2 of the first MOST_COMPARED texts: its upper triangle, a character a pair.

    Of a pair compared in one direction alone that one: recipes that need only s(y, y*) compare
    nothing else.
    """
    if not pairs:
        return ""
    shown = texts[:MOST_COMPARED]
    characters = []
    for row, text in enumerate(shown):
        for other in shown[row:]:
            values = [pairs[pair][0] for pair in ((text, other), (other, text)) if pair in pairs]
            if values:
                characters.append(chr(ZERO + round(100 * sum(values) / len(values))))
            else:
                characters.append(NOT_COMPARED)
    return "".join(characters)


def _clusters(rows: Sequence[Row], pairs: Pairs) -> list[int]:
    """The cluster of each candidate, as SemanticEntropy has it; [] unless every pair was judged."""
    texts = [str(row["text"]) for row in rows]
    judged = {pair: same for pair, (_, same) in pairs.items() if same is not None}
    if not texts or not judged or any(pair not in judged for pair in permutations(set(texts), 2)):
        return []
    alike = [[a == b or (judged[a, b] and judged[b, a]) for b in texts] for a in texts]
    mask = np.ones((1, len(texts)), dtype=bool)
    clusters: list[int] = semantic_clusters(np.array([alike]), mask)[0].tolist()
    return clusters


def _in_ten_thousandths(value: float | None) -> int | None:
    """A number in units of 1e-4; None where it is not known."""
    return None if value is None or not math.isfinite(value) else round(1e4 * value)


def _six_digits(value: float | None) -> float | None:
    """Six significant digits, an integer where it is one; None where it is not known."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.6g}")
    return int(short) if short == int(short) else short
