"""The crate of a finished study: what it says is in it, nothing is that may not be, and its
validator agrees.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

import run_crate
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.study_config import ROOT, Study, load_study, study_path


@pytest.fixture
def finished_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like one in which the demo ran; the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["run_crate.py"])
    shutil.copy(ROOT / "config.yaml", tmp_path)
    study = load_study(study_path("demo"))
    pages = [Path("results/demo", name) for name in run_crate.PAGES.values()]
    for path in [*pages, Path("results/demo/questions/triviaqa.parquet"), *exhibits(study)]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{path.name}\n")
    Path("results/demo/study.json").write_text(json.dumps(study.as_run()))
    return tmp_path


def exhibits(study: Study) -> list[Path]:
    """What the rules of tables and figures write."""
    endings = {"table": "csv tex md html", "figure": "pdf svg png csv txt"}
    folders = {"table": Path("results/demo/tables"), "figure": Path("figures/demo")}
    kinds = {label: list_of_exhibits.exhibit(label, study).kind for label in study.exhibits}
    return [
        folders[kind] / f"{label}.{ending}"
        for label, kind in kinds.items()
        for ending in endings[kind].split()
    ]


@pytest.fixture
def archive(finished_demo: Path) -> zipfile.ZipFile:
    run_crate.main()
    return zipfile.ZipFile(finished_demo / "build/demo.crate.zip")


def targets(entity: dict[str, object]) -> list[str]:
    """The identifiers that an entity names."""
    values = []
    for value in entity.values():
        values += value if isinstance(value, list) else [value]
    return [value["@id"] for value in values if isinstance(value, dict)]


def test_every_entity_that_is_named_is_there_and_every_file_has_its_hash(
    archive: zipfile.ZipFile,
) -> None:
    graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    names = set(archive.namelist())
    for entity in graph:
        identifier = entity["@id"]
        for target in targets(entity):
            assert target in entities or target.startswith("https://"), target
        if entity["@type"] in ("File", "Dataset") and identifier != "./":
            assert identifier in names
        if "sha256" in entity:
            digest = hashlib.sha256(archive.read(identifier)).hexdigest()
            assert entity["sha256"] == digest, identifier
    assert {"results/demo/overview.html", "results/demo/tables/", "figures/demo/"} <= {
        result["@id"] for result in entities["#run"]["result"]
    }
    assert {"Snakefile", "workflow/rules/common.smk", "figures/demo/redundancy.png"} <= names
    # questions and answers stay out
    assert not [name for name in names if name.endswith(".parquet")]


def test_each_parameter_of_the_run_is_of_one_file_or_folder(archive: zipfile.ZipFile) -> None:
    graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
    entities = {entity["@id"]: entity for entity in graph}
    workflow = entities["Snakefile"]
    run = entities["#run"]
    for parameters, files in (("input", "object"), ("output", "result")):
        examples = [entities[parameter["@id"]]["workExample"] for parameter in workflow[parameters]]
        assert examples == run[files]
        assert [entities[file["@id"]]["exampleOfWork"] for file in run[files]] == workflow[
            parameters
        ]


@pytest.mark.parametrize(
    "name",
    [
        "results/demo/comparison.html",
        "results/demo/tables/base_accs.tex",
        "figures/demo/redundancy.svg",
    ],
)
def test_a_page_or_exhibit_that_is_missing_or_a_link_is_refused_in_one_line(
    finished_demo: Path, name: str
) -> None:
    message = f"{re.escape(name)}: not there, or a link; .* --config study=demo -- "
    (finished_demo / name).unlink()
    with pytest.raises(SystemExit, match=message):
        run_crate.main()
    (finished_demo / name).symlink_to(finished_demo / "config.yaml")
    with pytest.raises(SystemExit, match=message):
        run_crate.main()
    assert not (finished_demo / "build").exists()


def test_a_study_that_was_changed_after_its_run_is_refused_in_one_line(finished_demo: Path) -> None:
    record = finished_demo / "results/demo/study.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"seed": 12345}))
    with pytest.raises(
        SystemExit, match=r"demo\.yaml: changed after the run that .*study\.json tells of"
    ):
        run_crate.main()


def test_only_what_git_tracks_is_packed_and_no_target_of_a_link(
    finished_demo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path_factory.mktemp("project")
    tracked = ("Snakefile", "src/module.py", "workflow/rule.smk", *run_crate.PROJECT)
    for name in (*tracked, "secret", "workflow/.env"):
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(name)
    (project / "workflow/link").symlink_to(project / "secret")
    for command in (["init", "-q"], ["add", *tracked, "workflow/link"]):
        subprocess.run(["git", "-C", project, *command], check=True)
    monkeypatch.setattr(run_crate, "ROOT", project)
    run_crate.main()
    packed = zipfile.ZipFile(finished_demo / "build/demo.crate.zip").namelist()
    of_the_run = ("results/", "figures/", "studies/", "config.yaml", "ro-crate")
    assert {name for name in packed if not name.startswith(of_the_run)} == {
        *tracked,
        "src/",
        "workflow/",
    }


def test_addresses_of_servers_are_no_part_of_a_crate(finished_demo: Path) -> None:
    config = finished_demo / "config.yaml"
    named = config.read_text().replace("servers: {}", 'servers: {near: "http://node07:8000/v1"}')
    assert named != config.read_text()
    config.write_text(named)
    run_crate.main()
    archive = zipfile.ZipFile(finished_demo / "build/demo.crate.zip")
    written = archive.read("config.yaml").decode()
    assert "near: null" in written
    assert [name for name in archive.namelist() if b"node07:8000" in archive.read(name)] == []
