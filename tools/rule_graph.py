"""Draw the rules of a study as an SVG.

``snakemake --rulegraph --config study=demo | python tools/rule_graph.py FILE`` writes it. An arrow
that a longer way implies is left out, and so are ``all`` and ``study``, which writes the settings
that every exhibit reads. A rule's column is its longest way from a rule without inputs.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

# of a box, in pixels
WIDTH = 92
HEIGHT = 26
# from one box to the next
COLUMN = 126
ROW = 42
MARGIN = 8

Reads = dict[str, set[str]]  # of each rule, the rules whose files it reads
Places = dict[str, tuple[float, float]]  # of each rule, the left and top of its box


def edges_of(dot: str) -> Reads:
    """The arrows of Snakemake's dot text, without those that a longer way implies."""
    names = dict(re.findall(r'(\d+)\[label = "(\w+)"', dot))
    drawn = {number: rule for number, rule in names.items() if rule not in ("all", "study")}
    reads: Reads = {rule: set() for rule in drawn.values()}
    for before, after in re.findall(r"(\d+) -> (\d+)", dot):
        if before in drawn and after in drawn:
            reads[drawn[after]].add(drawn[before])
    edges = {}
    for rule in sorted(reads):
        implied = [_all_above(before, reads) for before in reads[rule]]
        edges[rule] = reads[rule].difference(*implied)
    return edges


def _all_above(rule: str, reads: Reads) -> set[str]:
    """The rules whose files a rule reads, and those whose files these read."""
    return reads[rule].union(*(_all_above(before, reads) for before in reads[rule]))


def svg(dot: str) -> str:
    """The picture, with white ground so that it can be read on a dark page too."""
    reads = edges_of(dot)
    places = _places(reads)
    width = max(left for left, _ in places.values()) + WIDTH + MARGIN
    boxes_by_column = Counter(left for left, _ in places.values())
    height = 2 * MARGIN + (max(boxes_by_column.values()) - 1) * ROW + HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">',
        '<marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" '
        'orient="auto">'
        '<path d="M0 0L6 3L0 6z" fill="#777"/></marker>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for rule, place in places.items():
        lines += [_arrow(start, place) for start in sorted(places[name] for name in reads[rule])]
    for rule, place in places.items():
        lines += _box(rule, place)
    return "\n".join([*lines, "</svg>", ""])


def _places(reads: Reads) -> Places:
    """Where the box of each rule goes."""
    columns = _columns(reads)
    tallest = max(Counter(columns.values()).values())
    places: Places = {}
    for column in range(max(columns.values()) + 1):
        rules = [rule for rule in reads if columns[rule] == column]
        heights = {rule: _mean_height(reads[rule], places) for rule in rules}
        # so few arrows cross; what is read far away is below the others
        rules.sort(key=lambda rule: (heights[rule], _last_reader(rule, reads)))
        for row, rule in enumerate(rules):
            middle = row + (tallest - len(rules)) / 2
            places[rule] = (MARGIN + column * COLUMN, MARGIN + middle * ROW)
    return places


def _columns(reads: Reads) -> dict[str, int]:
    """The column of each rule; one without inputs comes just before the first that reads it."""
    columns = {}
    for rule, inputs in reads.items():
        if inputs:
            columns[rule] = _depth(rule, reads)
        else:
            columns[rule] = min(_depth(reader, reads) for reader in _readers(rule, reads)) - 1
    return columns


def _depth(rule: str, reads: Reads) -> int:
    """How many rules are on the longest way to a rule."""
    return max((_depth(before, reads) + 1 for before in reads[rule]), default=0)


def _readers(rule: str, reads: Reads) -> list[str]:
    return [reader for reader, inputs in reads.items() if rule in inputs]


def _last_reader(rule: str, reads: Reads) -> int:
    """The depth of the last rule that reads a rule's files."""
    return max((_depth(reader, reads) for reader in _readers(rule, reads)), default=0)


def _mean_height(rules: set[str], places: Places) -> float:
    return sum(places[rule][1] for rule in rules) / max(1, len(rules))


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """From the right side of one box to the left side of another; the bend is before the latter."""
    start_x = start[0] + WIDTH
    start_y = start[1] + HEIGHT / 2
    end_x = end[0]
    end_y = end[1] + HEIGHT / 2
    bend_x = end_x - COLUMN + WIDTH
    middle_x = end_x - (COLUMN - WIDTH) / 2
    curve = f"C{middle_x} {start_y} {middle_x} {end_y} {end_x} {end_y}"
    path = f"M{start_x} {start_y}H{bend_x}{curve}"
    return f'<path d="{path}" fill="none" stroke="#777" marker-end="url(#tip)"/>'


def _box(rule: str, place: tuple[float, float]) -> list[str]:
    left, top = place
    middle_x = left + WIDTH / 2
    baseline = top + HEIGHT / 2 + 4
    font = 'text-anchor="middle" font-family="sans-serif" font-size="12"'
    return [
        f'<rect x="{left}" y="{top}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="#eaf2f8" '
        'stroke="#0072b2"/>',
        f'<text x="{middle_x}" y="{baseline}" {font}>{rule}</text>',
    ]


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(sys.stdin.read()), encoding="utf-8")
