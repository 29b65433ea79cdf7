"""A release archive holds no text of a dataset, and gives the exhibits again."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

import exhibits_study
import release_archive
from beamuq import io
from beamuq.errors import BeamUQError
from beamuq.scorers.quality_metrics import gold_label
from beamuq_study import parquet_tables
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.parquet_tables import Artifact
from beamuq_study.result_files import Inputs

LABELS = {
    "base_accs": "table",
    "test_datasets": "table",
    "redundancy": "figure",
    "when_beams_win": "figure",
}
MODELS = {
    "tiny-1.5b": exhibits_study.CONTENT["models"][exhibits_study.BASE]
}  # a dot, as in the paper's
GRID = [
    {
        "recipe": "main",
        "models": ["tiny-1.5b"],
        "datasets": ["triviaqa", "commonsenseqa"],
        "scorers": ["cosine"],
    }
]


def with_references(row: dict[str, Any]) -> dict[str, Any]:
    options = ["Fastnet", "a lamp", "Lighthouse"] if row["id"].startswith("commonsenseqa") else []
    return row | {"options": options, "references": ["The Fastnet!" if not options else "Fastnet"]}


@pytest.fixture(scope="module")
def packed_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A folder with an archive of a study called made_up, and the CSVs of its exhibits."""
    tmp_path = tmp_path_factory.mktemp("packed")
    study = exhibits_study.study(grid=GRID, exhibits=[*LABELS], models=MODELS)
    results = exhibits_study.Results(tmp_path / "results/made_up", study)
    for dataset in ("triviaqa", "commonsenseqa"):
        exhibits_study.rewrite(results, Artifact("questions", dataset), with_references)
    csvs = {
        f"{kind}s/{label}.csv": csv_text(results.built(label).frame)
        for label, kind in LABELS.items()
    }
    for file in results.folder.glob("quality/*/*/*/*.parquet"):
        say_made_from(file, results.folder)
    folders = {"tables": results.folder / "tables", "figures": tmp_path / "figures/made_up"}
    for name, text in csvs.items():
        folder, _, file_name = name.partition("/")
        folders[folder].mkdir(parents=True, exist_ok=True)
        (folders[folder] / file_name).write_text(text, "utf-8")
    (results.folder / "study.json").write_text(json.dumps(study.as_run()), "utf-8")
    content = exhibits_study.CONTENT | {"grid": GRID, "exhibits": [*LABELS], "models": MODELS}
    (tmp_path / "studies").mkdir()
    declared = yaml.safe_dump(content, sort_keys=False)
    (tmp_path / "studies/made_up.yaml").write_text(declared, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(release_archive, "ROOT", tmp_path)
        release_archive.pack(results.folder, tmp_path / "made_up.tar")
    return tmp_path, csvs


def say_made_from(file: Path, results: Path) -> None:
    """Give a table of qualities a footer that names its questions, and prompts from elsewhere."""
    table = parquet_tables.read(file, "quality")
    questions = results / f"questions/{table.cell['dataset']}.parquet"
    inputs = {"prompts": "0" * 64, "questions": io.file_sha256(questions)}
    parquet_tables.write(
        file, "quality", table.table, cell=table.cell, provenance={"inputs": inputs}
    )


@pytest.fixture
def packed(
    packed_once: tuple[Path, dict[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, dict[str, str]]:
    """The archive and its study in a folder of the test's own, and the CSVs."""
    folder, csvs = packed_once
    shutil.copy(folder / "made_up.tar", tmp_path)
    shutil.copytree(folder / "studies", tmp_path / "studies")
    monkeypatch.setattr(release_archive, "ROOT", tmp_path)
    return tmp_path / "made_up.tar", csvs


def test_exhibits_come_out_of_an_archive_as_they_went_in(
    packed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    archive, csvs = packed
    folder, published = release_archive.unpack(archive, tmp_path / "elsewhere")
    study = exhibits_study.study(grid=GRID, exhibits=[*LABELS], models=MODELS)
    assert published == csvs
    for label, kind in LABELS.items():
        exhibit = list_of_exhibits.exhibit(label, study)
        built = exhibit.built(study, Inputs.read(folder, exhibit.artifacts(study), study))
        assert csv_text(built.frame) == csvs[f"{kind}s/{label}.csv"], label
    points = csvs["figures/when_beams_win.csv"]
    assert points.count("nan") + points.count(",,") < points.count(","), (
        "no answer is right: nothing is tested"
    )


def test_an_archive_holds_no_text_of_a_dataset(packed: tuple[Path, dict[str, str]]) -> None:
    with tarfile.open(packed[0]) as tar:
        content = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    tables = {
        name: pq.read_table(BytesIO(data))
        for name, data in content.items()
        if name.endswith(".parquet")
    }
    assert {name.split("/")[1] for name in tables} >= {
        "candidates",
        "questions",
        "shots",
        "quality",
    }
    for name, table in tables.items():
        assert "ighthouse" not in str(table.to_pylist()), name


def test_options_that_no_text_names_in_words_are_numbers() -> None:
    options = ["a red fox", "the sea", "on land", "air"]
    texts = ["B", "red fox", "on land, yes", "A, or air?"]
    named = release_archive._as_named(options, texts)
    assert named == ["a red fox", "[[1]]", "on land", "air"]
    for option, name in zip(options, named, strict=True):
        for text in texts:
            label = gold_label(text, [option], options)
            assert label == gold_label(text, [name], named)


@pytest.mark.parametrize("fault", ["damaged", "leads out", "other study", "there already"])
def test_an_archive_that_does_not_fit_is_refused(
    packed: tuple[Path, dict[str, str]], tmp_path: Path, fault: str
) -> None:
    archive, _ = packed
    into = tmp_path / "elsewhere"
    says = {
        "damaged": "damaged or missing",
        "other study": "not the archive's study",
        "there already": "exists",
    }
    changed = {
        "damaged": (b"PAR1", b"par1", 1),
        "leads out": (b'"questions/tri', b'"../estions/tri', 1),
    }
    if fault in changed:
        archive.write_bytes(archive.read_bytes().replace(*changed[fault]))
    elif fault == "other study":
        study = tmp_path / "studies/made_up.yaml"
        study.write_text(study.read_text("utf-8").replace("seed: 7", "seed: 8"), "utf-8")
    else:
        (into / "made_up").mkdir(parents=True)
    with pytest.raises(BeamUQError, match=says.get(fault, fault)):
        release_archive.unpack(archive, into)
    assert not list(into.rglob("*.parquet"))


def test_exhibits_are_made_with_the_dtypes_that_the_archive_says(tmp_path: Path) -> None:
    for kind, dtype in (("candidates", "bfloat16"), ("similarity", "float32")):
        path = tmp_path / Artifact(kind, "d", "m", "r", "s" if kind == "similarity" else "").path
        path.parent.mkdir(parents=True)
        parquet_tables.write(path, kind, [], cell={}, provenance={"dtype": dtype})
    assert release_archive.dtypes_of(tmp_path) == {"dtype": "bfloat16", "scorer_dtype": "float32"}
    assert release_archive.dtypes_of(tmp_path / "none") == {}


Member = tuple[tarfile.TarInfo, bytes]


def members_of(archive: Path) -> list[Member]:
    with tarfile.open(archive) as tar:
        return [(member, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]


def write_members(archive: Path, members: list[Member]) -> None:
    with tarfile.open(archive, "w") as tar:
        for member, content in members:
            member.size = len(content) if member.isreg() else 0
            tar.addfile(member, BytesIO(content))


def special(name: str, kind: bytes, target: str = "") -> Member:
    member = tarfile.TarInfo(f"made_up/{name}")
    member.type = kind
    member.linkname = target
    return member, b""


def with_manifest(members: list[Member], change: Any) -> list[Member]:
    manifest = json.loads(members[0][1])
    change(manifest)
    return [(members[0][0], json.dumps(manifest).encode()), *members[1:]]


def named(name: str) -> Any:
    def change(manifest: Any) -> None:
        manifest["sha256"][name] = "0" * 64

    return change


MANIFESTS = {
    "no JSON": (b"{", "MANIFEST.json: .*JSON"),
    "brackets": (b"[" * 100_000, "MANIFEST.json: .*JSON"),
    "no UTF-8": (b'{"study": "\xff"}', "MANIFEST.json: "),
    "a list": (b"[1]", "MANIFEST.json: "),
    "no study": (b'{"sha256": {}}', "MANIFEST.json: (study|sha256): "),
    "a number": (b'{"study": 3, "sha256": {"study.json": "0"}}', "MANIFEST.json: study: 3"),
    "a list of hashes": (b'{"study": "made_up", "sha256": ["0"]}', "MANIFEST.json: sha256: "),
    "no hash": (
        b'{"study": "made_up", "sha256": {"study.json": "0"}}',
        "MANIFEST.json: sha256.study.json: ",
    ),
    "another study": (
        json.dumps({"study": "other", "sha256": {"study.json": "0" * 64}}).encode(),
        "of study 'other'",
    ),
    "a study above": (
        json.dumps({"study": "../x", "sha256": {"study.json": "0" * 64}}).encode(),
        "study: .*x",
    ),
    "no study.json": (
        json.dumps({"study": "made_up", "sha256": {"a.csv": "0" * 64}}).encode(),
        "names no study.json",
    ),
    "too large": (b" " * 10_000_001, "MANIFEST.json: 10000001 bytes"),
}


@pytest.mark.parametrize("fault", MANIFESTS)
def test_a_malformed_manifest_is_refused_in_one_line(
    fault: str, packed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    content, message = MANIFESTS[fault]
    (manifest, _), *members = members_of(packed[0])
    write_members(packed[0], [(manifest, content), *members])
    refused(packed[0], tmp_path / "elsewhere", message)


NAMES = [
    "../a.csv",
    "/etc/a.csv",
    "tables/../../a.csv",
    "tables//a.csv",
    "./a.csv",
    "tables/",
    "",
    "a\0b",
    "a\\b.csv",
]
NAMES += [
    "questions/\ud800.parquet",
    "tables/a\r.csv",
    ".hidden.csv",
    "study.json/a.csv",
    "C:/a.csv",
    "x" * 501,
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_in_a_manifest_is_a_path_of_a_result(
    name: str, packed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    write_members(packed[0], with_manifest(members_of(packed[0]), named(name)))
    refused(packed[0], tmp_path / "elsewhere", r"MANIFEST\.json: ")


LIES = "made_up/tables/base_accs.csv"
MEMBERS: dict[str, tuple[list[Member], str]] = {
    "link": ([special("tables/a.csv", tarfile.SYMTYPE, "/etc/passwd")], "tables/a.csv: a link"),
    "links in circles": (
        [special("a", tarfile.SYMTYPE, "b"), special("b", tarfile.SYMTYPE, "a")],
        "made_up/a: a link",
    ),
    "link to itself": ([special("a", tarfile.SYMTYPE, "a")], "made_up/a: a link"),
    "hard link": ([special("tables/a.csv", tarfile.LNKTYPE, LIES)], "tables/a.csv: a link"),
    "FIFO": ([special("a", tarfile.FIFOTYPE)], "made_up/a: a device or FIFO"),
    "device": ([special("a", tarfile.CHRTYPE)], "made_up/a: a device or FIFO"),
    "folder": ([special("a", tarfile.DIRTYPE)], "made_up/a: a folder"),
    "not named": ([(tarfile.TarInfo("made_up/a.csv"), b"x")], "a.csv: is not in MANIFEST.json"),
    "of another folder": (
        [(tarfile.TarInfo("other/study.json"), b"x")],
        "other/study.json: is not in MANIFEST.json",
    ),
    "above": ([(tarfile.TarInfo("../a"), b"x")], "../a: is not in MANIFEST.json"),
    "absolute": ([(tarfile.TarInfo("/tmp/a"), b"x")], "/tmp/a: is not in MANIFEST.json"),
    "twice": ([(tarfile.TarInfo(LIES), b"x")], "base_accs.csv: (stands twice|damaged)"),
    "a second manifest": (
        [(tarfile.TarInfo("made_up/MANIFEST.json"), b"{}")],
        "MANIFEST.json: is not in",
    ),
}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("fault", MEMBERS)
def test_members_are_plain_files_that_the_manifest_names_once(
    fault: str, last: bool, packed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    added, message = MEMBERS[fault]
    manifest, *members = members_of(packed[0])
    members = [*members, *added] if last else [*added, *members]
    write_members(packed[0], [manifest, *members])
    refused(packed[0], tmp_path / "elsewhere", message)


def test_the_manifest_comes_first_and_is_a_file(
    packed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    manifest, *members = members_of(packed[0])
    link = special("MANIFEST.json", tarfile.SYMTYPE, "study.json")
    for written in ([*members, manifest], members, [link, *members]):
        write_members(packed[0], written)
        refused(packed[0], tmp_path / "elsewhere", "its first member is not MANIFEST.json")


def test_what_a_study_does_not_have_is_not_unpacked(
    packed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    members = members_of(packed[0])
    for name in ("tables/unheard.csv", "plugin.py", "scores/a.parquet"):
        content = b"x"
        digest = hashlib.sha256(content).hexdigest()
        changed = with_manifest(
            members, lambda made, name=name, digest=digest: made["sha256"].update({name: digest})
        )
        write_members(packed[0], [*changed, (tarfile.TarInfo(f"made_up/{name}"), content)])
        refused(packed[0], tmp_path / "elsewhere", f"{name}: neither a table nor an exhibit")


@pytest.mark.parametrize("part", [0.0, 0.001, 0.3, 0.97])
def test_an_archive_that_is_cut_off_is_refused(
    part: float, packed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    content = packed[0].read_bytes()
    end = len(content.rstrip(b"\0"))
    packed[0].write_bytes(content[: int(end * part)])
    refused(
        packed[0],
        tmp_path / "elsewhere",
        "not a whole tar|damaged or missing|no release archive|MANIFEST.json: ",
    )


def test_a_size_that_is_not_the_files_is_refused(
    packed: tuple[Path, dict[str, str]], tmp_path: Path
) -> None:
    whole = members_of(packed[0])
    for size in (10**15, -512):
        header = tarfile.TarInfo("made_up/study.json")
        header.size = size
        write_members(packed[0], whole[:1])
        content = packed[0].read_bytes().rstrip(b"\0")
        content += b"\0" * (-len(content) % 512)
        packed[0].write_bytes(content + header.tobuf(tarfile.GNU_FORMAT) + b"\0" * 1024)
        refused(packed[0], tmp_path / "elsewhere", "not a whole tar|damaged")


def test_what_is_no_archive_is_refused(packed: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    squeezed = tmp_path / "a.tar.gz"
    squeezed.write_bytes(gzip.compress(packed[0].read_bytes()))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, message in (
        (squeezed, "without compression"),
        (pipe, "a folder or a device"),
        (tmp_path, "a folder or a device"),
        (tmp_path / "none", "no such file"),
    ):
        refused(path, tmp_path / "elsewhere", message)


def refused(archive: Path, into: Path, message: str) -> None:
    """It is refused in one line that names the archive, and nothing is left."""
    with pytest.raises(BeamUQError, match=message) as caught:
        release_archive.unpack(archive, into)
    assert str(archive) in str(caught.value)
    assert len(str(caught.value)) < 1500
    assert not into.exists() or not list(into.iterdir())
