"""Whether this process is the command ``beamuq``, in which no one else's program runs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class _Program:
    """The program that this process runs."""

    is_command: bool = False


PROGRAM = _Program()
"""Of this process: the command's, once ``beamuq.cli`` has said so."""
