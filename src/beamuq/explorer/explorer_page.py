"""The explorer: tables of a cell as one structure of plain lists, and the HTML file that holds it.

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
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd

from beamuq.errors import BeamUQError
from beamuq.html_text import escape
from beamuq.methods.registry import PRINTED_VARIANTS, TITLES
from beamuq.methods.semantic_entropy_sar import semantic_clusters

FOLDER = resources.files("beamuq.explorer")
PARTS = ("explorer.html", "explorer.css", "explorer.js")
MOST_QUESTIONS = 2000  # of a page, by default: some 4 MB
MOST_COMPARED = 40  # texts of a similarity matrix, which more would make unreadable
UNKNOWN, ZERO = (
    "'",
    40,
)  # of a matrix: a pair without similarity; the code of the character that stands for 0

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """A question and its answers: ``answer``, ``samples`` and ``beams`` are rows of a candidates
    table.

    samples, beams: as drawn, and by descending log-probability (``logprob`` None: not known; no
    ``token_*``: no tree). pairs: of ordered pairs of texts their similarity, and whether both mean
    the same (None: nothing was judged). quality: of the answer; None: not known.
    """

    id: str
    text: str
    answer: Row
    samples: Sequence[Row]
    beams: Sequence[Row]
    references: Sequence[str] = ()
    prompt: str = ""
    pairs: Mapping[tuple[str, str], tuple[float, bool | None]] = field(default_factory=dict)
    quality: float | None = None


@dataclass(frozen=True)
class Cell:
    """Questions that are ranked together. ``name``: part of a link to one of them.

    scores: as a table of scores, of one produced answer. sources: what answer, samples and beams
    are. similarity, quality: what they are called; an answer is right above ``threshold``. notes:
    sentences on the cell.
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


def page(title: str, notes: Sequence[str], cells: Sequence[Cell], *, overview: str = "") -> str:
    """The page: it opens from a file, asks for nothing, and treats every text of a question as
    text.

    ``overview``: the address of the page to go back to, where there is one.

    Raises BeamUQError if there is no question.
    """
    if not any(cell.questions for cell in cells):
        raise BeamUQError(
            f"{title}: no question to show; give a study with candidates, or a file with rows"
        )
    tables = explorer_data(title, notes, cells)
    text = json.dumps(tables, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    packed = gzip.compress(text.encode(), 9, mtime=0)
    html, css, js = ((FOLDER / part).read_text(encoding="utf-8") for part in PARTS)
    data = base64.b64encode(packed).decode()
    back = f'<nav><a href="{escape(overview)}">← Overview</a></nav>' if overview else ""
    parts = {"TITLE": escape(title), "BACK": back, "CSS": css, "DATA": data, "SCRIPT": js}
    for name, content in parts.items():
        html = html.replace(f"<!--{name}-->", content)
    return html


def explorer_data(title: str, notes: Sequence[str], cells: Sequence[Cell]) -> dict[str, Any]:
    """The page's data as JSON. ``tokens``: each token's text once; cells as :func:`_cell` packs
    them.
    """
    tokens: dict[str, int] = {}
    packed = [_cell(cell, tokens) for cell in cells if cell.questions]
    return {"title": title, "notes": list(notes), "cells": packed, "tokens": list(tokens)}


def _cell(cell: Cell, tokens: dict[str, int]) -> dict[str, Any]:
    """A cell as columns: each list has one entry per question.

    prompts: what follows ``prefix``, which they share. texts: the distinct ones. tree: see
    :func:`_tree`. sets: of the answer, samples and beams the places of their texts, the last nodes
    in the tree, log p in 1e-4 nats, whether cut, and clusters. pairs: see :func:`_matrix`. values:
    of each method, in the order of ``methods``.
    """
    prefix = os.path.commonprefix([question.prompt for question in cell.questions])  # noqa: RUF071  (by character)
    ids = [question.id for question in cell.questions]
    columns: dict[str, list[Any]] = {name: [] for name in ("texts", "trees", "sets", "pairs")}
    for question in cell.questions:
        groups = {"answer": [question.answer], "samples": question.samples, "beams": question.beams}
        texts = list(dict.fromkeys(row["text"] for rows in groups.values() for row in rows))
        tree, ends = _tree([row for rows in groups.values() for row in rows], tokens)
        columns["texts"].append(texts)
        columns["trees"].append(tree)
        columns["pairs"].append(_matrix(texts, question.pairs))
        last = iter(ends)
        columns["sets"].append(
            [
                [
                    [texts.index(row["text"]) for row in rows],
                    [next(last) for _ in rows],
                    [_scaled(row["logprob"]) for row in rows],
                    [int(not row.get("terminated", True)) for row in rows],
                    _clusters([row["text"] for row in rows], question) if name != "answer" else [],
                ]
                for name, rows in groups.items()
            ]
        )
    defined = cell.scores[cell.scores["value"].notna()]
    by_method = defined.groupby(["method", "variant", "setting"], sort=False)
    values = {
        _form(*map(str, key)): part.set_index("id")["value"].reindex(ids) for key, part in by_method
    }
    return {
        "name": cell.name,
        "title": cell.title,
        "notes": list(cell.notes),
        "sources": {name: cell.sources.get(name, "") for name in ("answer", "samples", "beams")},
        "similarity": cell.similarity,
        "quality": cell.quality,
        "threshold": cell.threshold,
        "rejection": cell.max_rejection,
        "ids": ids,
        "questions": [question.text for question in cell.questions],
        "references": [list(question.references) for question in cell.questions],
        "prefix": prefix,
        "prompts": [question.prompt[len(prefix) :] for question in cell.questions],
        "rated": [_digits(question.quality) for question in cell.questions],
        **columns,
        "methods": list(values),
        "values": [[_digits(value) for value in column] for column in values.values()],
    }


def _form(method: str, variant: str, setting: str) -> tuple[str, str]:
    """A method's name on the page, and its input: the answer (""), samples or beams."""
    form = variant if variant in PRINTED_VARIANTS else ""
    further = " ".join(part for part in (variant if form != variant else "", setting) if part)
    return TITLES.get(method, method) + (f" ({further})" if further else ""), form


def _tree(rows: Iterable[Row], tokens: dict[str, int]) -> tuple[list[list[int]], list[int]]:
    """The trie of some candidates, and the node at which each of them ends, −1 where its tokens are
    not known.

    Nodes are in preorder, more probable siblings first, as three lists: depth from 1, token, −log p
    given the prefix in 1e-3 nats. A candidate's node is its position there. ``tokens`` is filled as
    they come.
    """
    nodes: list[dict[str, Any]] = [{"depth": 0, "children": {}}]
    ends: list[int] = []
    for row in rows:
        node = 0
        tokens_of = (row.get(name, ()) for name in ("token_ids", "token_texts", "token_logprobs"))
        for key, text, logprob in zip(*tokens_of, strict=True):
            children = nodes[node]["children"]
            if key not in children:
                children[key] = len(nodes)
                cost, token = max(0, round(-1e3 * logprob)), tokens.setdefault(text, len(tokens))
                nodes.append(
                    {
                        "depth": nodes[node]["depth"] + 1,
                        "children": {},
                        "token": token,
                        "cost": cost,
                    }
                )
            node = children[key]
        ends.append(node)
    order, pending = [], [0]
    while pending:
        order.append(pending.pop())
        pending += sorted(
            nodes[order[-1]]["children"].values(), key=lambda child: -nodes[child]["cost"]
        )
    place = {node: position for position, node in enumerate(order, start=-1)}
    lists = [[nodes[node][name] for node in order[1:]] for name in ("depth", "token", "cost")]
    return lists, [place[end] for end in ends]


def _matrix(
    texts: Sequence[str], pairs: Mapping[tuple[str, str], tuple[float, bool | None]]
) -> str:
    """W = (S + Sᵀ)/2 of the first ``MOST_COMPARED`` texts: rows of its upper triangle, one
    character per pair.

    Of a pair compared in one direction alone that one: recipes that need only s(y, y*) compare
    nothing else.
    """
    if not pairs:
        return ""
    shown, characters = texts[:MOST_COMPARED], []
    for i, text in enumerate(shown):
        for other in shown[i:]:
            values = [pairs[pair][0] for pair in ((text, other), (other, text)) if pair in pairs]
            characters.append(
                chr(ZERO + round(100 * sum(values) / len(values))) if values else UNKNOWN
            )
    return "".join(characters)


def _clusters(texts: Sequence[str], question: Question) -> list[int]:
    """The cluster of each candidate, as SemanticEntropy has it; [] unless every pair was judged."""
    judged = {pair: same for pair, (_, same) in question.pairs.items() if same is not None}
    if not texts or not judged or any(pair not in judged for pair in permutations(set(texts), 2)):
        return []
    alike = [[a == b or (judged[a, b] and judged[b, a]) for b in texts] for a in texts]
    clusters: list[int] = semantic_clusters(
        np.array([alike]), np.ones((1, len(texts)), dtype=bool)
    )[0].tolist()
    return clusters


def _scaled(value: float | None) -> int | None:
    """A number in units of 1e-4; None where it is not known."""
    return None if value is None or not math.isfinite(value) else round(1e4 * value)


def _digits(value: float | None) -> float | None:
    """Six significant digits, an integer where it is one; None where it is not known."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.6g}")
    return int(short) if short == int(short) else short
