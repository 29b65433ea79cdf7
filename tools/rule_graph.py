"""Draw the rules of a study as an SVG: ``snakemake --rulegraph --config study=demo | python
tools/rule_graph.py FILE``.

An arrow that a longer way implies is left out, and so are ``all`` and ``study``, which writes the
settings that every exhibit reads. A rule's column is its longest way from a rule without inputs.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

WIDTH, HEIGHT, COLUMN, ROW = 92, 26, 126, 42  # of a box, and from one box to the next, in pixels


def edges_of(dot: str) -> dict[str, set[str]]:
    """Of each rule in Snakemake's dot text the rules whose files it reads, without those read
    through another one.
    """
    names = {
        n: rule
        for n, rule in re.findall(r'(\d+)\[label = "(\w+)"', dot)
        if rule not in ("all", "study")
    }
    reads: dict[str, set[str]] = {rule: set() for rule in names.values()}
    for before, after in re.findall(r"(\d+) -> (\d+)", dot):
        if before in names and after in names:
            reads[names[after]].add(names[before])

    def above(rule: str) -> set[str]:
        return reads[rule].union(*map(above, reads[rule]))

    return {rule: reads[rule] - set().union(*map(above, reads[rule])) for rule in sorted(reads)}


def svg(dot: str) -> str:
    """The picture, with white ground so that it can be read on a dark page too."""
    reads = edges_of(dot)

    def column(rule: str) -> int:
        return max((column(each) + 1 for each in reads[rule]), default=0)

    def reach(rule: str) -> int:
        return max((column(each) for each in reads if rule in reads[each]), default=0)

    # a rule without inputs comes just before the first rule that reads it
    columns = {
        rule: column(rule)
        if reads[rule]
        else min(column(each) for each in reads if rule in reads[each]) - 1
        for rule in reads
    }
    places: dict[str, tuple[float, float]] = {}
    tallest = max(list(columns.values()).count(each) for each in columns.values())
    for number in range(max(columns.values()) + 1):
        # by the mean height of what a rule reads, so that few arrows cross; what is read far away
        # below the others
        rules = [rule for rule in reads if columns[rule] == number]
        heights = {
            rule: sum(places[each][1] for each in reads[rule]) / max(1, len(reads[rule]))
            for rule in rules
        }
        rules.sort(key=lambda rule: (heights[rule], reach(rule)))
        for row, rule in enumerate(rules):
            places[rule] = (8 + number * COLUMN, 8 + (row + (tallest - len(rules)) / 2) * ROW)
    width, height = 16 + max(columns.values()) * COLUMN + WIDTH, 16 + (tallest - 1) * ROW + HEIGHT
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">',
        '<marker id="tip" viewBox="0 0 6 6" refX="6" refY="3" markerWidth="6" markerHeight="6" '
        'orient="auto">'
        '<path d="M0 0L6 3L0 6z" fill="#777"/></marker>',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for rule, (x, y) in places.items():
        for left, top in sorted(places[each] for each in reads[rule]):
            start, middle, above, here = (
                x - COLUMN + WIDTH,
                x - (COLUMN - WIDTH) / 2,
                top + HEIGHT / 2,
                y + HEIGHT / 2,
            )
            path = f"M{left + WIDTH} {above}H{start}C{middle} {above} {middle} {here} {x} {here}"
            lines.append(f'<path d="{path}" fill="none" stroke="#777" marker-end="url(#tip)"/>')
    for rule, (x, y) in places.items():
        lines.append(
            f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="#eaf2f8" '
            'stroke="#0072b2"/>'
        )
        text = (
            f'x="{x + WIDTH / 2}" y="{y + HEIGHT / 2 + 4}" text-anchor="middle" '
            'font-family="sans-serif" font-size="12"'
        )
        lines.append(f"<text {text}>{rule}</text>")
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(svg(sys.stdin.read()), encoding="utf-8")
