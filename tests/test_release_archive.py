"""A release archive holds no text of a dataset, and gives the exhibits again."""

from __future__ import annotations

import json
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

LABELS = {"base_accs": "table", "test_datasets": "table", "redundancy": "figure", "when_beams_win": "figure"}
MODELS = {"tiny-1.5b": exhibits_study.CONTENT["models"][exhibits_study.BASE]}  # a dot, as in the paper's
GRID = [{"recipe": "main", "models": ["tiny-1.5b"], "datasets": ["triviaqa", "commonsenseqa"], "scorers": ["cosine"]}]


def with_references(row: dict[str, Any]) -> dict[str, Any]:
    options = ["Fastnet", "a lamp", "Lighthouse"] if row["id"].startswith("commonsenseqa") else []
    return row | {"options": options, "references": ["The Fastnet!" if not options else "Fastnet"]}


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, str]]:
    """An archive of a study called made_up, and the CSVs of its exhibits."""
    content = exhibits_study.CONTENT | {"grid": GRID, "exhibits": [*LABELS], "models": MODELS}
    of = exhibits_study.study(**{name: content[name] for name in ("grid", "exhibits", "models")})
    results, csvs = exhibits_study.Results(tmp_path / "results/made_up", of), {}
    for dataset in ("triviaqa", "commonsenseqa"):
        exhibits_study.rewrite(results, Artifact("questions", dataset), with_references)
    for label, kind in LABELS.items():
        csvs[f"{kind}s/{label}.csv"] = csv_text(results.built(label).frame)
    for file in results.folder.glob("quality/*/*/*/*.parquet"):
        table = parquet_tables.read(file, "quality")
        questions, elsewhere = results.folder / f"questions/{table.cell['dataset']}.parquet", {"prompts": "0" * 64}
        made_from = {"inputs": elsewhere | {"questions": io.file_sha256(questions)}}
        parquet_tables.write(file, "quality", table.table, cell=table.cell, provenance=made_from)
    folder = {"tables": results.folder / "tables", "figures": tmp_path / "figures/made_up"}
    for name, text in csvs.items():
        path = folder[name.partition("/")[0]] / name.partition("/")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (results.folder / "study.json").write_text(json.dumps(of.as_run()), "utf-8")
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies/made_up.yaml").write_text(yaml.safe_dump(content, sort_keys=False), "utf-8")
    monkeypatch.setattr(release_archive, "ROOT", tmp_path)
    release_archive.pack(results.folder, tmp_path / "made_up.tar")
    return tmp_path / "made_up.tar", csvs


def test_exhibits_come_out_of_an_archive_as_they_went_in(packed: tuple[Path, dict[str, str]], tmp_path: Path) -> None:
    archive, csvs = packed
    folder, published = release_archive.unpack(archive, tmp_path / "elsewhere")
    of = exhibits_study.study(grid=GRID, exhibits=[*LABELS], models=MODELS)
    assert published == csvs
    for label, kind in LABELS.items():
        exhibit = list_of_exhibits.exhibit(label, of)
        built = exhibit.built(of, Inputs.read(folder, exhibit.artifacts(of), of))
        assert csv_text(built.frame) == csvs[f"{kind}s/{label}.csv"], label
    points = csvs["figures/when_beams_win.csv"]
    assert points.count("nan") + points.count(",,") < points.count(","), "no answer is right: nothing is tested"


def test_an_archive_holds_no_text_of_a_dataset(packed: tuple[Path, dict[str, str]]) -> None:
    with tarfile.open(packed[0]) as tar:
        content = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    tables = {name: pq.read_table(BytesIO(data)) for name, data in content.items() if name.endswith(".parquet")}
    assert {name.split("/")[1] for name in tables} >= {"candidates", "questions", "shots", "quality"}
    for name, table in tables.items():
        assert "ighthouse" not in str(table.to_pylist()), name


def test_options_that_no_text_names_in_words_are_numbers() -> None:
    options, texts = (["a red fox", "the sea", "on land", "air"], ["B", "red fox", "on land, yes", "A, or air?"])
    shown = release_archive._as_named(options, texts)
    assert shown == ["a red fox", "[[1]]", "on land", "air"]
    for gold in range(4):
        for text in texts:
            assert gold_label(text, [options[gold]], options) == gold_label(text, [shown[gold]], shown)


@pytest.mark.parametrize("fault", ["damaged", "leads out", "other study", "there already"])
def test_an_archive_that_does_not_fit_is_refused(
    packed: tuple[Path, dict[str, str]], tmp_path: Path, fault: str
) -> None:
    archive, into = packed[0], tmp_path / "elsewhere"
    says = {"damaged": "damaged or missing", "other study": "not the archive's study", "there already": "exists"}
    changed = {"damaged": (b"PAR1", b"par1", 1), "leads out": (b'"questions/tri', b'"../estions/tri', 1)}
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
