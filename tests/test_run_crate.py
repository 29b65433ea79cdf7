"""The crate of a finished study: what it says is in it, nothing is that may not be, and its validator agrees."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

import run_crate
from beamuq_study.study_config import ROOT

VALIDATOR = os.environ.get("BEAMUQ_ROC_VALIDATOR", "")


@pytest.fixture
def finished_demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that looks like one in which the demo ran; the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["run_crate.py"])
    shutil.copy(ROOT / "config.yaml", tmp_path)
    for name in ("overview.html", "comparison.html", "ledger.html", "study.json", "tables/base_accs.csv"):
        path = tmp_path / "results/demo" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    for folder, name in (("figures/demo", "redundancy.png"), ("results/demo/questions", "triviaqa.parquet")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / name).write_text(name)
    return tmp_path


@pytest.fixture
def archive(finished_demo: Path) -> zipfile.ZipFile:
    run_crate.main()
    return zipfile.ZipFile(finished_demo / "build/demo.crate.zip")


def test_every_entity_that_is_named_is_there_and_every_file_has_its_hash(archive: zipfile.ZipFile) -> None:
    graph = json.loads(archive.read("ro-crate-metadata.json"))["@graph"]
    entities = {each["@id"]: each for each in graph}
    names = set(archive.namelist())
    for each in graph:
        targets = [value for told in each.values() for value in (told if isinstance(told, list) else [told])]
        for target in (value["@id"] for value in targets if isinstance(value, dict)):
            assert target in entities or target.startswith("https://"), target
        if each["@type"] in ("File", "Dataset") and each["@id"] != "./":
            assert each["@id"] in names, each["@id"]
        if "sha256" in each:
            assert each["sha256"] == hashlib.sha256(archive.read(each["@id"])).hexdigest(), each["@id"]
    assert {"results/demo/overview.html", "results/demo/tables/", "figures/demo/"} <= {
        result["@id"] for result in entities["#run"]["result"]
    }
    assert {"Snakefile", "workflow/rules/common.smk", "figures/demo/redundancy.png"} <= names
    assert not [name for name in names if name.endswith(".parquet")]  # questions and answers stay out


def test_a_study_that_is_not_finished_is_refused_in_one_line(finished_demo: Path) -> None:
    (finished_demo / "results/demo/comparison.html").unlink()
    with pytest.raises(SystemExit, match=r"comparison\.html: not there: .* --config study=demo"):
        run_crate.main()


@pytest.mark.rocrate
@pytest.mark.skipif(not VALIDATOR, reason="set BEAMUQ_ROC_VALIDATOR to the executable rocrate-validator")
def test_the_validator_of_ro_crates_finds_nothing_missing(archive: zipfile.ZipFile) -> None:
    options = ["--no-paging", "--profile-identifier", "workflow-run-crate"]
    command = [VALIDATOR, "validate", *options, str(archive.filename)]
    done = subprocess.run(command, text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout
