"""Measure docs/models.md anew, in a minute or two: which path decodes each class of models.

`make census` compares.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from model_census import PAGE, PATHS, REAL, REFUSED, is_there, real_row, row, rows_of_page
from model_classes import CLASSES

HEAD = "| {} | decoded | within | not over a tree because |\n| --- | --- | --- | --- |"
ORDER = [*PATHS.values(), REFUSED]


def place_in_table(line: str) -> tuple[int, str]:
    """A row's place: by its path, then by its text."""
    path = line.split(" | ")[1]
    return ORDER.index(path), line


def main() -> None:
    before = rows_of_page()
    classes = sorted((row(kind)[0] for kind in CLASSES), key=place_in_table)
    weights = [real_row(name)[0] if is_there(name) else before[name] for name in REAL]
    text = PAGE.read_text(encoding="utf-8")
    for name, lines in (("class", classes), ("model", weights)):
        table = "\n".join([HEAD.format(name), *lines])
        text = re.sub(
            rf"(?<=<!-- measured: {name} -->\n\n).*?(?=\n\n<!-- end)", table, text, flags=re.DOTALL
        )
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
