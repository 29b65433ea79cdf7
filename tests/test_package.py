"""What is published: source archive and wheel, their metadata, the workflows that publish them, and
what the pages promise.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest

import build_package
from beamuq_study.study_config import ROOT

pytestmark = pytest.mark.slow
ADDRESS = "https://example.org/someone/beamuq"
TAG = f"v{build_package.version()}"
LARGEST = 1_000_000
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, as the release workflow builds them: twine has passed them."""
    folder = tmp_path_factory.mktemp("packages") / "dist"
    build_package.build(folder, ADDRESS, TAG)
    return folder


@pytest.fixture(scope="module")
def archive(packages: Path) -> tarfile.TarFile:
    return tarfile.open(*packages.glob("*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(packages: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(*packages.glob("*.whl"))


@pytest.fixture(scope="module")
def metadata(wheel: zipfile.ZipFile) -> Message:
    (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    return HeaderParser().parsestr(wheel.read(name).decode())


def sources() -> dict[str, bytes]:
    """Every file of the library but a page for who reads the code, by its name in a wheel."""
    paths = (path for path in (ROOT / "src/beamuq").rglob("*") if path.is_file())
    return {
        str(path.relative_to(ROOT / "src")): path.read_bytes()
        for path in paths
        if "__pycache__" not in path.parts and path.suffix != ".md"
    }


def test_the_archive_s_wheel_is_the_library_to_the_byte(wheel: zipfile.ZipFile) -> None:
    held = {name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" not in name}
    assert held == sources()


def test_the_archive_holds_the_library_and_no_tests(archive: tarfile.TarFile) -> None:
    paths = {name.partition("/")[2] for name in archive.getnames()}
    others = {path for path in paths if path and not path.startswith("src")}
    assert others == {*build_package.FILES, "PKG-INFO", "setup.cfg"}
    assert {f"src/{name}" for name in sources()} <= paths


def test_neither_package_is_large(packages: Path) -> None:
    sizes = {path.name: path.stat().st_size for path in packages.iterdir()}
    assert len(sizes) == 2
    assert {name: size for name, size in sizes.items() if size > LARGEST} == {}


def test_a_second_build_gives_the_wheel_s_bytes(packages: Path, tmp_path: Path) -> None:
    build_package.build(tmp_path / "dist", ADDRESS, TAG)
    (first,) = packages.glob("*.whl")
    assert (tmp_path / "dist" / first.name).read_bytes() == first.read_bytes()


def test_links_of_the_built_readme_lead_to_files_of_the_tag(metadata: Message) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", metadata.get_payload())  # type: ignore[arg-type]
    assert len(links) > 10
    for link in links:
        if not link.startswith(ADDRESS):
            assert link.startswith("https://"), link
            continue
        kind, tag, path = link.removeprefix(f"{ADDRESS}/").split("/", 2)
        assert tag == TAG
        assert kind == ("raw" if path.endswith((".png", ".svg")) else "blob")
        assert (ROOT / path.partition("#")[0]).is_file(), link


def test_metadata_name_the_repository_and_no_classifier_of_a_licence(metadata: Message) -> None:
    urls = dict(entry.split(", ") for entry in metadata.get_all("Project-URL", []))
    assert urls["Source"] == ADDRESS
    assert metadata["License-Expression"] == "Apache-2.0"
    classifiers = metadata.get_all("Classifier", [])
    assert "Typing :: Typed" in classifiers
    assert [name for name in classifiers if name.startswith("License")] == []


def test_without_an_address_readme_stays_as_it_is(tmp_path: Path) -> None:
    build_package.copy_sources(tmp_path / "source", "", TAG)
    for name in ("README.md", "pyproject.toml"):
        assert (tmp_path / "source" / name).read_bytes() == (ROOT / name).read_bytes()


@pytest.mark.parametrize(
    ("link", "whole"),
    [
        ("[a](docs/a.md#b)", f"[a]({ADDRESS}/blob/v1/docs/a.md#b)"),
        ("![a](docs/a.png)", f"![a]({ADDRESS}/raw/v1/docs/a.png)"),
        ("[a](#here) [b](https://b.org/c)", "[a](#here) [b](https://b.org/c)"),
    ],
)
def test_a_link_to_a_file_becomes_an_address(link: str, whole: str) -> None:
    assert build_package.with_whole_links(link, ADDRESS, "v1") == whole


def test_a_tag_of_another_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=f"--tag: 'v9.9.9'.*{TAG}"):
        build_package.build(tmp_path / "dist", ADDRESS, "v9.9.9")
    assert not (tmp_path / "dist").exists()


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "beamuq-0.0.1.tar.gz").touch()
    with pytest.raises(SystemExit, match="not empty"):
        build_package.build(tmp_path)


def schema_errors(schema: str, *files: Path) -> str:
    """What a schema that the checker brings finds in files; nothing is fetched."""
    command = [sys.executable, "-P", "-m", "check_jsonschema", "--builtin-schema", schema, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def test_workflows_are_what_their_schema_says() -> None:
    assert {path.stem for path in WORKFLOWS} == {"ci", "release", "site"}
    assert schema_errors("vendor.github-workflows", *WORKFLOWS) == ""


def test_a_workflow_with_an_unknown_key_is_found(tmp_path: Path) -> None:
    broken = tmp_path / "release.yml"
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    broken.write_text(text.replace("runs-on:", "runs_on:"), encoding="utf-8")
    assert "runs_on" in schema_errors("vendor.github-workflows", broken)


def test_the_citation_is_what_its_schema_says() -> None:
    assert schema_errors("vendor.citation-file-format", ROOT / "CITATION.cff") == ""


def test_nothing_promises_that_an_index_has_the_package() -> None:
    """To be removed with the first release: until then an index may give another package."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").rglob("*.ipynb")]
    promise = re.compile(r"pip install (?:-\S+ )*['\"]?beamuq\b")
    told = {page.name for page in pages if promise.search(page.read_text(encoding="utf-8"))}
    assert told == set()
