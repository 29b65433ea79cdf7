"""Write the generated parts of the documentation's pages from the code; ``--check`` compares."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import generate_reference

ROOT = Path(__file__).resolve().parents[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of write")
    check = parser.parse_args().check
    for path in sorted((ROOT / "docs").glob("**/*.md")):
        text = path.read_text(encoding="utf-8")
        name = path.relative_to(ROOT).as_posix()
        filled = generate_reference.fill(name, text)
        if filled == text:
            continue
        if check:
            sys.exit(f"{name} is out of step with the code; run python tools/sync_docs.py")
        path.write_text(filled, encoding="utf-8")


if __name__ == "__main__":
    main()
