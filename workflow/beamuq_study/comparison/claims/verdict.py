"""The verdict on a claim: sign, size and significance, and the outcome that they make."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Part = Literal["yes", "partly", "no", "undecided", "-"]
"""Whether a claim, or one part of it, holds; "-": that part is not claimed, or not tested."""


@dataclass(frozen=True)
class Verdict:
    """Whether sign and size are as claimed, what a test says, and a value with its interval."""

    n: int  # the questions it rests on
    sign: Part = "-"  # not claimed; "undecided": this study cannot tell
    size: Part = "-"
    significance: Part = "-"
    opposite: bool = False  # the opposite of something claimed is shown
    value: float = np.nan
    low: float = np.nan
    high: float = np.nan
    std: float = np.nan  # of the value, where that is what is tested
    families: int = 1  # as many verdicts like it are asked for together, and corrected for

    @property
    def outcome(self) -> Part:
        """Whether the whole claim holds, from what its parts say.

        A part that is "-" does not count.

        - Yes: sign and size are "yes".
        - No: the sign is "no", or sign and size both are.
        - Partly: sign and size are mixed in another way, such as the right sign and a wrong size.
        - Undecided: the sign is, or the size is and the sign is "yes" or "-".

        Where there is a test, chance alone must not have decided. So "yes" needs significance, and
        "no" and "partly" need that the opposite is shown; without these it is "undecided".
        """
        parts = {part for part in (self.sign, self.size) if part != "-"}
        is_tested = self.significance != "-"
        if parts == {"yes"}:
            return "undecided" if is_tested and self.significance != "yes" else "yes"
        nothing_speaks_against = parts <= {"yes", "undecided"}
        if self.sign == "undecided" or nothing_speaks_against:
            return "undecided"
        if is_tested and not self.opposite:
            return "undecided"
        is_denied = self.sign == "no" or parts == {"no"}
        return "no" if is_denied else "partly"


def part_of_share(share: float, most: float = 1.0) -> Part:
    """All (or at least ``most``): yes; more than half: partly; else no."""
    if share >= most:
        return "yes"
    return "partly" if share > 0.5 else "no"


def combined_part(parts: Sequence[Part]) -> Part:
    """Parts of several cells as one: the share that holds, undecided where open ones matter."""
    if len(set(parts)) == 1:
        return parts[0]
    holding = [part == "yes" for part in parts]
    holding_or_open = [part in ("yes", "undecided") for part in parts]
    worst = part_of_share(float(np.mean(holding)))
    best = part_of_share(float(np.mean(holding_or_open)))
    return worst if worst == best else "undecided"


def weakest_part(parts: Collection[Part]) -> Part:
    """No if any part is; else undecided if any is; else yes."""
    if "no" in parts:
        return "no"
    return "undecided" if "undecided" in parts else "yes"


def combined_verdict(verdicts: Sequence[Verdict]) -> Verdict:
    """Verdicts on independent cells as one: the mean of their values, with its interval."""
    if len(verdicts) == 1:
        return verdicts[0]
    count = len(verdicts)
    value = float(np.mean([verdict.value for verdict in verdicts]))
    widths = [verdict.high - verdict.low for verdict in verdicts]
    half_width = float(np.linalg.norm(widths)) / (2 * count)
    return Verdict(
        n=sum(verdict.n for verdict in verdicts),
        sign=combined_part([verdict.sign for verdict in verdicts]),
        size=combined_part([verdict.size for verdict in verdicts]),
        significance=combined_part([verdict.significance for verdict in verdicts]),
        opposite=any(verdict.opposite for verdict in verdicts),
        value=value,
        low=value - half_width,
        high=value + half_width,
        std=float(np.linalg.norm([verdict.std for verdict in verdicts])) / count,
    )
