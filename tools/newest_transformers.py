"""Unpack pip's newest transformers, and what it needs beyond this environment, into a folder.

``python tools/newest_transformers.py FOLDER``, then put FOLDER first on PYTHONPATH: torch and all
the rest come from the environment, which stays as it is. Where the environment has the newest
already, there is no folder afterwards.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path

PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def newer_packages() -> dict[str, str]:
    """The version of each package that an upgrade of transformers would install here."""
    dry_run = (*PIP, "--dry-run", "--upgrade", "--report", "-", "transformers")
    finished = subprocess.run(dry_run, check=True, stdout=subprocess.PIPE, text=True)
    report = json.loads(finished.stdout)
    packages = [package["metadata"] for package in report["install"]]
    return {package["name"]: package["version"] for package in packages}


def unpacked_packages(folder: Path) -> dict[str, str]:
    """The version of each package in ``folder``; empty where there is none."""
    packages = importlib.metadata.distributions(path=[str(folder)])
    return {package.name: package.version for package in packages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    pinned = importlib.metadata.version("transformers")
    packages = newer_packages()
    if packages != unpacked_packages(folder):
        shutil.rmtree(folder, ignore_errors=True)
        if "transformers" in packages:
            pins = [f"{name}=={version}" for name, version in packages.items()]
            subprocess.run((*PIP, "--no-deps", "--target", str(folder), *pins), check=True)
    if "transformers" not in packages:
        print(f"transformers {pinned} is the newest there is")
        return
    newest = packages.pop("transformers")
    needs = [f"{name} {version}" for name, version in packages.items()]
    more = f", with {', '.join(needs)}" if needs else ""
    print(f"transformers {newest}, newer than {pinned}{more}")


if __name__ == "__main__":
    main()
