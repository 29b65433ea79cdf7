"""From where beamuq is installed: what errors say where an extra is missing, and the pages."""

from __future__ import annotations

SOURCE = "."
"""What pip is given: a checkout's folder, and ``beamuq`` once the package is on PyPI."""
PLACE = " in a checkout of beamuq"
"""Where the command is given; "" once ``SOURCE`` is no folder."""


def install_command(extra: str = "") -> str:
    """The command that installs beamuq, with an extra or several between commas, and its place.

    >>> install_command("models")
    "pip install '.[models]' in a checkout of beamuq"
    """
    extras = f"[{extra}]" if extra else ""
    return f"pip install '{SOURCE}{extras}'{PLACE}"
