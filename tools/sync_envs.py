"""Write envs/gpu.yaml and envs/analysis.yaml from envs/constraints.txt.

So conda and venv users get the same pins. ``python tools/sync_envs.py`` writes, ``--check``
compares and fails on a difference. The closure of each environment is read from the metadata of the
installed packages, so run it inside the project's environment.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
PYTHON = "3.11"  # which CI tests
# torch's own metadata pins these; they differ between CPU and CUDA builds of one version
ACCELERATOR = re.compile(r"^(nvidia|cuda|triton)")


def pins() -> dict[str, str]:
    """Canonical package name → version, from envs/constraints.txt."""
    versions = {}
    for line in (ROOT / "envs/constraints.txt").read_text().splitlines():
        pin = line.split("#")[0].strip()
        if pin:
            name, version = pin.split("==")
            versions[canonicalize_name(name)] = version
    return versions


def closure(requirements: list[str]) -> set[str]:
    """The canonical names of all packages that ``requirements`` bring, those behind them too.

    Raises PackageNotFoundError where one is not installed: its metadata tell what it requires.
    """
    wanted: set[tuple[str, str]] = set()
    pending = [Requirement(text) for text in requirements]
    while pending:
        requirement = pending.pop()
        name = canonicalize_name(requirement.name)
        for extra in requirement.extras | {""}:
            if (name, extra) in wanted or ACCELERATOR.match(name):
                continue
            wanted.add((name, extra))
            for text in importlib.metadata.requires(name) or []:
                dependency = Requirement(text)
                if dependency.marker is None or dependency.marker.evaluate({"extra": extra}):
                    pending.append(dependency)
    return {name for name, _ in wanted}


def environment(name: str, requirements: list[str], versions: dict[str, str]) -> str:
    """The conda file of one environment."""
    packages = sorted(closure(requirements))
    missing = [package for package in packages if package not in versions]
    if missing:
        sys.exit(
            f"envs/constraints.txt lacks {', '.join(missing)}; add them with the installed versions"
        )
    lines = [
        "# Written by tools/sync_envs.py from envs/constraints.txt; do not edit. Environment: "
        f"{name}.",
        f"name: beamuq-{name}",
        "channels:",
        "  - conda-forge",
        "dependencies:",
        f"  - python={PYTHON}",
        "  - pip",
        "  - pip:",
        *(f"      - {package}=={versions[package]}" for package in packages),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare instead of write")
    check = parser.parse_args().check
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    analysis = project["dependencies"] + extras["study"]
    versions = pins()
    for name, requirements in {"analysis": analysis, "gpu": analysis + extras["models"]}.items():
        path = ROOT / f"envs/{name}.yaml"
        text = environment(name, requirements, versions)
        if not check:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(
                f"{path.relative_to(ROOT)} is out of step with envs/constraints.txt; run python "
                "tools/sync_envs.py"
            )


if __name__ == "__main__":
    main()
