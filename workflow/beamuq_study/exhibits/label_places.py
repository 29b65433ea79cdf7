"""Where small texts of a crowded panel stand: beside what they name, and over nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from beamuq.array_types import Floats
from beamuq_study.exhibits.figure_style import BLACK, Axes

if TYPE_CHECKING:
    from matplotlib.text import Text
    from matplotlib.transforms import Bbox

POINT = 1 / 72  # inches
GAP = 3.0  # points, between a text and what it names
PAD = 1.0  # points, kept free around a text
EDGE = 3.0  # points, of a text below which a line may run
STEP = 3.0  # points, by which further places are tried
FARTHEST = 30  # steps
LEADER_FROM = 7.0  # points; a text that stands farther off has a line to what it names
DIGITS = 6  # of a position: its last digits differ between processes
DIRECTIONS = (
    *((1, 0), (-1, 0), (0, 1), (0, -1)),
    *((1, 1), (-1, 1), (1, -1), (-1, -1)),
    *((1, 0.5), (1, -0.5), (-1, 0.5), (-1, -0.5)),
    *((0.5, 1), (0.5, -1), (-0.5, 1), (-0.5, -1)),
)
"""In which a text is moved: shares of its reach to the right and up."""


@dataclass
class LabelPlaces:
    """Places texts on axes whose layout is final, one after the other, each over nothing.

    ``taken``: what no text may cover, in pixels; ``texts``: those of it that were placed.
    """

    ax: Axes
    taken: list[Bbox] = field(default_factory=list)
    texts: list[Bbox] = field(default_factory=list)

    @property
    def _pixels(self) -> float:
        """Of a point."""
        figure = self.ax.get_figure(root=True)
        assert figure is not None
        return float(figure.dpi) * POINT

    def take_points(self, data: Floats, lows: Floats, highs: Floats, marker: float) -> None:
        """Keep marks free, and their bars. ``data``, ``lows``, ``highs``: [K, 2] of x and y."""
        radius = 0.5 * marker * self._pixels
        for centre, low, high in zip(*map(self._on_page, (data, lows, highs)), strict=True):
            self.taken.append(_around(centre, radius, radius))
            across = _box([low[0], centre[1] - 1], [high[0], centre[1] + 1])
            along = _box([centre[0] - 1, low[1]], [centre[0] + 1, high[1]])
            self.taken += [across, along]

    def move(self, text: Text) -> None:
        """Move a text that stands over something to the nearest free place."""
        box = text.get_window_extent()
        self._put(text, itertools.chain([box], self._beside(box)))

    def name(self, text: Text, point: tuple[float, float], marker: float) -> None:
        """Set the name of a mark beside it, with a line where no near place is free."""
        (centre,) = self._on_page(np.array([point]))
        radius = 0.5 * marker * self._pixels
        mark = _around(centre, radius, radius)
        size = text.get_window_extent()
        places = list(self._beside(mark, size.width, size.height))
        seen = [box for box in places if not self._is_hidden(centre, box)]
        box = self._put(text, iter(seen or places))
        nearest = np.clip(centre, box.min, box.max)
        if np.hypot(*(nearest - centre)) > LEADER_FROM * self._pixels:
            ends = self.ax.transData.inverted().transform([centre, nearest]).round(DIGITS)
            self.ax.plot(*ends.T, color=BLACK, linewidth=0.4, zorder=2.5)

    def _on_page(self, data: Floats) -> Floats:
        """[K, 2] pixels of [K, 2] data."""
        return np.asarray(self.ax.transData.transform(data), np.float64)

    def _beside(self, mark: Bbox, width: float = 0.0, height: float = 0.0) -> Iterator[Bbox]:
        """Places for a box around a mark, the nearest first; without a size the mark's, moved."""
        is_moved = width == 0
        half_width = 0.5 * (mark.width if is_moved else width)
        half_height = 0.5 * (mark.height if is_moved else height)
        reach = (0.0, 0.0) if is_moved else (half_width, half_height)
        middle = _middle(mark)
        for step, (right, up) in itertools.product(range(FARTHEST), DIRECTIONS):
            distance = (GAP + STEP * step) * self._pixels
            shift = np.array([right * (reach[0] + distance), up * (reach[1] + distance)])
            yield _around(middle + shift, half_width, half_height)

    def _put(self, text: Text, places: Iterator[Bbox]) -> Bbox:
        """Set a text to the first free place; where none is, to that which covers least."""
        page = self.ax.get_window_extent()
        inside = [box for box in places if _is_within(box, page)]
        free = (box for box in inside if not box.count_overlaps(self.taken))
        box = next(free, None) or min(inside, key=self._covered, default=text.get_window_extent())
        ((x, y),) = self.ax.transData.inverted().transform([_middle(box)])
        text.set(ha="center", va="center", position=(round(x, DIGITS), round(y, DIGITS)))
        self.texts.append(box.padded(PAD * self._pixels))
        self.taken.append(self.texts[-1])
        return box

    def _is_hidden(self, centre: Floats, box: Bbox) -> bool:
        """Whether the line from a mark to a box runs below another text, more than at its edge."""
        from matplotlib.path import Path

        leader = Path([centre, np.clip(centre, box.min, box.max)])
        inner = [text.padded(-EDGE * self._pixels) for text in self.texts]
        return any(leader.intersects_bbox(text, filled=False) for text in inner)

    def _covered(self, box: Bbox) -> float:
        """How much of what is taken a box covers, in square pixels."""
        shared = (type(box).intersection(box, other) for other in self.taken)
        return sum(part.width * part.height for part in shared if part is not None)


def _around(centre: Floats, half_width: float, half_height: float) -> Bbox:
    half = np.array([half_width, half_height])
    return _box(centre - half, centre + half)


def _box(low: Floats | Sequence[float], high: Floats | Sequence[float]) -> Bbox:
    """The box between two corners. A table's program, which reads this file, draws nothing."""
    from matplotlib.transforms import Bbox

    return Bbox([list(low), list(high)])


def _middle(box: Bbox) -> Floats:
    return np.asarray(np.mean(box.get_points(), axis=0), np.float64)


def _is_within(box: Bbox, page: Bbox) -> bool:
    low, high = box.get_points()
    page_low, page_high = page.get_points()
    return bool((low >= page_low).all() and (high <= page_high).all())


def without_common_words(titles: Sequence[str]) -> list[str]:
    """Titles without the words that all begin with; "" where nothing else is left."""
    words = [title.split(" ") for title in titles]
    places = zip(*words, strict=False)  # as many as the shortest title has
    common = len(list(itertools.takewhile(lambda same: len(set(same)) == 1, places)))
    return [" ".join(parts[common:]) for parts in words]
