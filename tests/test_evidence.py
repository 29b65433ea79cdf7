"""What ``evidence/`` publishes follows from what is published, and holds no text of a dataset."""

from __future__ import annotations

import io
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from beamuq import parquet_tables
from beamuq.evaluation.metrics_of_scores import EvaluationSettings, evaluate
from beamuq.exhibits import list_of_exhibits
from beamuq.exhibits.exhibit_inputs import Inputs, read_study
from beamuq.exhibits.exhibit_types import BuiltTable
from beamuq.parquet_tables import Artifact, Loaded, read
from beamuq.study_config import Study
from collect_evidence import NO_TEXT, cells, shows_questions
from sync_evidence import PAGE, written

EVIDENCE = Path(__file__).resolve().parents[1] / "evidence"
STUDIES = sorted(path.parent for path in EVIDENCE.glob("*/study.json"))
FORM = ("answer_source", "method", "variant", "setting")
GIVEN = ("evaluation", "replicates", "scores", "quality", "questions")
AS_LONG_AS_ALL_OTHERS = ("augrc", *("quality_agreement", "empty_answers", "qa_mean_prr_answered"))
"""Of the paper's numbers of questions; made again of the study of fifty a dataset (augrc: of each dataset here)."""
OF_EVERY_QUALITY_AND_SUBSET = ("quality_agreement", "empty_answers", "qa_mean_prr_answered")
of_each_study = pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)


def study_of(folder: Path) -> Study:
    return read_study(folder / "study.json")


def committed(folder: Path) -> list[Artifact]:
    return [cell for cell in cells(study_of(folder)) if (folder / cell.path).is_file()]


@cache
def recomputed(
    folder: Path,
    cell: Artifact,
    most: int | None = None,
    only: tuple[str, str | None] | None = None,
    main_quality_of_all: bool = False,
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Rows of evaluation and replicates of a cell, from its scores, quality, groups and empty answers.

    ``most``: of that many scores; ``only``: a metric and an answer source (None: all); ``main_quality_of_all``: by the
    first quality, of all questions and not of the answered again. Whatever is left out costs nothing.
    """
    place = (cell.dataset, cell.model, cell.recipe)
    study, made = study_of(folder), read(folder / cell.path, "evaluation").provenance["settings"]
    empty = json.loads((folder / "empty_answers.json").read_text())[Artifact("candidates", *place).path]
    scores = read(folder / Artifact("scores", *place, cell.scorer).path, "scores").table
    forms = list(zip(*(scores.column(name).to_pylist() for name in FORM), strict=True))
    each = list(dict.fromkeys(forms))
    sources = {only[1]} if only and only[1] else {form[0] for form in each}
    kept = {form for form in (each[:: math.ceil(len(each) / most)] if most else each) if form[0] in sources}
    scores = scores.filter([form in kept for form in forms])
    questions = read(folder / Artifact("questions", cell.dataset).path, "questions").table
    measured: list[dict[str, Any]] = []
    replicates: list[dict[str, Any]] = []
    for of in study.qualities(cell.dataset)[: 1 if main_quality_of_all else None]:
        quality = read(folder / Artifact("quality", *place, metric=of.metric).path, "quality").table
        settings = EvaluationSettings.model_validate(made, strict=False)
        chosen = {"metrics": only[:1]} if only else {}
        settings = settings.model_copy(update={"quality": of.metric, "threshold": of.threshold} | chosen)
        rows = evaluate(scores, quality, questions, settings, cell.dataset, None if main_quality_of_all else empty)
        measured += rows[0]
        replicates += rows[1]
    return measured, replicates


def is_published(folder: Path, need: Artifact) -> bool:
    """Scores are, under the main similarity; replicates are computed again from those."""
    if need.kind not in ("scores", "replicates"):
        return need.kind in GIVEN
    return (folder / Artifact("scores", need.dataset, need.model, need.recipe, need.scorer).path).is_file()


def regenerable() -> list[Any]:
    """Every published exhibit that is made of published files."""
    found = []
    for folder in STUDIES:
        study = study_of(folder)
        for label in list_of_exhibits.labels(study):
            exhibit = list_of_exhibits.exhibit(label, study)
            file = folder / f"{exhibit.kind}s" / f"{label}.csv"
            if folder.name == "small" and label in AS_LONG_AS_ALL_OTHERS:
                continue
            if file.is_file() and all(is_published(folder, need) for need in exhibit.artifacts(study)):
                found.append(pytest.param(folder, label, file, id=f"{folder.name}-{label}", marks=pytest.mark.slow))
    return found


@pytest.mark.parametrize(("folder", "label", "file"), regenerable())
def test_a_table_or_figure_is_regenerated_from_what_is_published(folder: Path, label: str, file: Path) -> None:
    study = study_of(folder)
    exhibit = list_of_exhibits.exhibit(label, study)
    only = getattr(exhibit, "metric", "PRR"), getattr(exhibit, "answer_source", "greedy")
    if label.startswith("augrc"):
        only = "ROC-AUC", None
    loaded = {}
    for need in exhibit.artifacts(study):
        if need.kind == "replicates":
            cell = Artifact("evaluation", need.dataset, need.model, need.recipe, need.scorer)
            of_all = label not in OF_EVERY_QUALITY_AND_SUBSET
            replicates = recomputed(folder, cell, only=only, main_quality_of_all=of_all)[1]
            rows = pa.Table.from_pylist(replicates, schema=parquet_tables.SCHEMAS["replicates"])
            loaded[need] = Loaded(folder / need.path, "replicates", need.cell, {}, rows)
        else:
            loaded[need] = read(folder / need.path, need.kind)
    built = exhibit.build(study, Inputs(loaded))
    text = built.csv() if isinstance(built, BuiltTable) else built.data.to_csv(index=False)
    again, published = pd.read_csv(io.StringIO(text)), pd.read_csv(file)
    pd.testing.assert_frame_equal(again, published, check_dtype=False, rtol=1e-5, atol=1e-6)


def asked(folder: Path, cell: Artifact) -> int:
    return int(max(read(folder / cell.path, "evaluation").table.column("n").to_pylist()))


@of_each_study
def test_a_cell_is_recomputed_from_its_scores(folder: Path) -> None:
    scored = [of for of in committed(folder) if of.scorer == study_of(folder).main.scorer]
    cell = min(scored, key=lambda of: asked(folder, of))
    keys = ["answer_source", "quality", "subset", "metric", "method", "variant", "setting"]
    numbers = ["value", "low", "high", "std"]
    published = read(folder / cell.path, "evaluation").table.to_pandas().sort_values(keys, ignore_index=True)
    again = pd.DataFrame(recomputed(folder, cell, most=40)[0])[published.columns].sort_values(keys, ignore_index=True)
    published = published.merge(again[keys], on=keys)
    assert len(published) == len(again)
    assert again[[*keys, "n", "note"]].equals(published[[*keys, "n", "note"]].astype({"n": "int64"}))
    pd.testing.assert_frame_equal(again[numbers].astype(float), published[numbers].astype(float), rtol=1e-6, atol=1e-9)


@of_each_study
def test_no_text_of_a_dataset_is_published(folder: Path) -> None:
    study = study_of(folder)
    for path in folder.rglob("*.parquet"):
        assert path.relative_to(folder).parts[0] in ("evaluation", "scores", "quality", "questions")
    for path in folder.glob("questions/*.parquet"):
        rows = read(path, "questions").table.select(list(NO_TEXT)).to_pylist()
        assert all(row == NO_TEXT for row in rows)
    for label in list_of_exhibits.labels(study):
        if shows_questions(label, study):
            assert not list(folder.rglob(f"{label}.*"))


@of_each_study
def test_the_contents_name_every_cell_that_is_in_and_count_them(folder: Path) -> None:
    text = (folder / "CONTENTS.md").read_text(encoding="utf-8")
    assert f"{len(committed(folder))} of {len(cells(study_of(folder)))} cells are in." in text
    for cell in committed(folder):
        assert f"| {cell.model} {cell.dataset} {cell.recipe} {cell.scorer} |" in text


def test_the_page_has_the_claims_as_the_evidence_has_them() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page) == page, "run python tools/sync_evidence.py"
    assert {f"<!-- claims {folder.name} -->" in page for folder in STUDIES} == {True}


def test_evidence_is_small() -> None:
    assert sum(path.stat().st_size for path in EVIDENCE.rglob("*") if path.is_file()) < 17_000_000
