"""The prompts of a batch as a radix tree: a token that several begin with is run once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Edge:
    """Tokens at positions ``start`` … in every prompt of ``members`` (indices into the batch).

    ``ends`` are the members whose prompt ends with this edge's last token.
    """

    tokens: Tokens
    start: int
    members: tuple[int, ...]
    ends: tuple[int, ...]


def radix_edges(prompts: Sequence[Tokens]) -> list[Edge]:
    """The edges of the prompts' radix tree, each parent before its children.

    Every prompt is non-empty. The edges' tokens, followed down to a member, spell that member's
    prompt.
    """
    order = sorted(range(len(prompts)), key=lambda index: prompts[index])
    edges: list[Edge] = []
    waiting = [(order, 0)]
    while waiting:
        members, start = waiting.pop()
        for _, same in groupby(members, key=lambda index: prompts[index][start]):
            group = list(same)
            end = _end_of_shared(prompts[group[0]], prompts[group[-1]], start)
            ends = [index for index in group if len(prompts[index]) == end]
            tokens = prompts[group[0]][start:end]
            edges.append(Edge(tokens, start, tuple(group), tuple(ends)))
            if len(ends) < len(group):
                waiting.append((group[len(ends) :], end))
    return edges


def _end_of_shared(first: Tokens, last: Tokens, start: int) -> int:
    """Where the tokens end that the ``first`` and ``last`` of sorted prompts share from ``start``.

    All prompts between them share as much. If the first ends, the last goes on.
    """
    for place in range(start, len(first)):
        if first[place] != last[place]:
            return place
    return len(first)


def cut_into_passes(edges: Sequence[Edge], budget: int) -> Iterator[list[Edge]]:
    """Cut the edges, in order, into passes of at most ``budget`` tokens; a long one into pieces."""
    passed: list[Edge] = []
    left = budget
    for edge in edges:
        done = 0
        while done < len(edge.tokens):
            piece = edge.tokens[done : done + left]
            last = done + len(piece) == len(edge.tokens)
            passed.append(Edge(piece, edge.start + done, edge.members, edge.ends if last else ()))
            done += len(piece)
            left -= len(piece)
            if left == 0:
                yield passed
                passed = []
                left = budget
    if passed:
        yield passed
