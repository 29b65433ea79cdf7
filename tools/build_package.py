"""Build the source archive, and from it the wheel, as they are published.

``python tools/build_package.py FOLDER`` builds both in FOLDER and checks them with twine. An index
shows README alone, where links to files of this project lead nowhere: with ``--address``, the web
address of the repository, the README that is built in has whole addresses, and the metadata name
the address. ``--tag`` is the tag that is published: links lead to it, and its version has to be the
package's.

The address is none that this file knows: ``[project.urls]`` in ``pyproject.toml`` may name it as
``Source``, and the release workflow gives that of the repository in which it runs. Without
either, links stay as they are.
"""

from __future__ import annotations

import argparse
import calendar
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CITATION.cff", "CHANGELOG.md")
# -P: no folder that is called build is taken for the program
PYTHON = (sys.executable, "-P", "-m")
PICTURES = (".png", ".svg")
LINK = re.compile(r"(?<=\]\()(?!https?://|#|mailto:)([^)\s#]+)")


def version() -> str:
    """That of the package, from its source: nothing is imported."""
    source = (ROOT / "src/beamuq/__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"$', source, re.MULTILINE)[1]  # type: ignore[index]


def known_address() -> str:
    """The repository that ``pyproject.toml`` names, or nothing."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project.get("urls", {}).get("Source", ""))


def with_whole_links(page: str, address: str, tag: str) -> str:
    """A page of the project's folder whose links to files are addresses, pictures as raw files."""

    def whole(link: re.Match[str]) -> str:
        path = link[1]
        kind = "raw" if path.endswith(PICTURES) else "blob"
        return f"{address}/{kind}/{tag}/{path}"

    return LINK.sub(whole, page)


def with_addresses(pyproject: str, address: str, tag: str) -> str:
    """``pyproject.toml`` that names the repository, its changes and its issues."""
    if "urls" in tomllib.loads(pyproject)["project"]:
        return pyproject
    urls = (
        "[project.urls]\n"
        f'Source = "{address}"\n'
        f'Changelog = "{address}/blob/{tag}/CHANGELOG.md"\n'
        f'Issues = "{address}/issues"\n\n'
    )
    return pyproject.replace("[project.scripts]\n", f"{urls}[project.scripts]\n", 1)


def copy_sources(folder: Path, address: str, tag: str) -> None:
    """What is built, in a folder of its own: a build leaves files beside what it builds."""
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", folder / "src", ignore=unwanted)
    for name in FILES:
        shutil.copy(ROOT / name, folder)
    if not address:
        return
    readme = folder / "README.md"
    page = with_whole_links(readme.read_text(encoding="utf-8"), address, tag)
    readme.write_text(page, encoding="utf-8")
    metadata = folder / "pyproject.toml"
    text = with_addresses(metadata.read_text(encoding="utf-8"), address, tag)
    metadata.write_text(text, encoding="utf-8")


def release_time() -> str:
    """The second at which the day of the release begins, so that a wheel's bytes are the same."""
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    day = re.search(r'^date-released: "(.+)"$', citation, re.MULTILINE)[1]  # type: ignore[index]
    return str(calendar.timegm(time.strptime(day, "%Y-%m-%d")))


def build(target: Path, address: str = "", tag: str = "") -> None:
    """Source archive and wheel in ``target``, checked.

    Stops with one line where the tag is not the version's or ``target`` holds an older package.
    """
    expected_tag = f"v{version()}"
    if tag and tag != expected_tag:
        sys.exit(f"--tag: {tag!r} is not the version's: src/beamuq/__init__.py has {expected_tag}")
    if target.is_dir() and any(target.iterdir()):
        sys.exit(f"{target}: not empty, and all of it would be published; remove it")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "source"
        copy_sources(source, address.removesuffix("/"), expected_tag)
        # the wheel is built from the archive, not from the folder
        command = [*PYTHON, "build", "--no-isolation", "--outdir", target, source]
        environment = os.environ | {"SOURCE_DATE_EPOCH": release_time()}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"the build failed:\n{done.stdout}{done.stderr}")
    packages = sorted(target.iterdir())
    subprocess.run([*PYTHON, "twine", "check", "--strict", *packages], check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("target", type=Path, metavar="FOLDER", help="new or empty")
    parser.add_argument("--address", default=known_address(), help="of the repository's web page")
    parser.add_argument("--tag", default="", help="that is published, such as v0.2.0")
    options = parser.parse_args()
    build(options.target, options.address, options.tag)
    links = f"links lead to {options.address}" if options.address else "links stay relative"
    print(f"{options.target}: {', '.join(path.name for path in sorted(options.target.iterdir()))}")
    print(f"{links}{'' if options.address else '; --address makes them whole'}")


if __name__ == "__main__":
    main()
