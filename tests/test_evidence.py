"""What ``evidence/`` publishes follows from what is published, and holds no text of a dataset."""

from __future__ import annotations

import io
import math
import re
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

import redraw_evidence
import sync_evidence
from beamuq.errors import BeamUQError
from beamuq_study import parquet_tables
from beamuq_study.comparison.comparison_inputs import read_claims
from beamuq_study.escaped_text import csv_text
from beamuq_study.exhibits import list_of_exhibits
from beamuq_study.exhibits.exhibit import CSV_COLUMNS
from beamuq_study.exhibits.figure_of_beams_map import sides_of_points
from beamuq_study.parquet_tables import Artifact, Loaded, read
from beamuq_study.result_files import Inputs
from beamuq_study.study_config import Study, load_study
from collect_evidence import NO_TEXT, cells, collect, in_few_colours, in_seven_digits, shortened
from evidence_differences import EVIDENCE, Scored, recomputed
from sync_evidence import MAP, PAGES, packaged_map, written

STUDIES = sorted(path.parent for path in EVIDENCE.glob("*/study.json"))
GIVEN = ("evaluation", "replicates", "scores", "quality", "questions")
OF_ANSWERED = {"empty_answers", "answered"}
OF_DRAWS_BY_QUALITY = {"gains_over_draws"}
OF_FURTHER_QUALITIES = {"quality_agreement", "probabilities_alone"} | OF_DRAWS_BY_QUALITY
OF_MAIN_FORMS = {"abl_prauc", "abl_rocauc", "augrc", "topbeam_scoring"}
OF_NO_MAIN_TABLE = {(name, "beamsearch") for name in ("SAR", "SemanticEntropy", "DegreeMatrix")}
OF_NO_MAIN_TABLE |= {("DegreeMatrix", "multinomial")}
of_each_study = pytest.mark.parametrize("folder", STUDIES, ids=lambda folder: folder.name)


def study_of(folder: Path) -> Study:
    return load_study(folder / "study.json")


def committed(folder: Path) -> list[Artifact]:
    return [cell for cell in cells(study_of(folder)) if (folder / cell.path).is_file()]


def is_published(folder: Path, need: Artifact) -> bool:
    """Scores are, under the main similarity; replicates are computed again from those."""
    if need.kind not in ("scores", "replicates"):
        return need.kind in GIVEN
    return (
        folder / Artifact("scores", need.dataset, need.model, need.recipe, need.scorer).path
    ).is_file()


def measured_by(label: str, study: Study) -> tuple[str, str]:
    """The metric and the answer source of an exhibit's numbers ("": of every answer)."""
    of_auc = {"abl_rocauc": "ROC-AUC", "abl_prauc": "PR-AUC"}
    metric = "ROC-AUC" if label.startswith("augrc") else of_auc.get(label, "PRR")
    # AUGRC reads every answer's: the table of greedy answers' ROC-AUC comes with it at no cost
    return metric, "" if metric == "ROC-AUC" else list_of_exhibits.exhibit(
        label, study
    ).answer_source


def regenerable() -> list[Any]:
    """Every published exhibit that is made of published files; a cell is resampled once for those
    measured alike.
    """
    alike: dict[tuple[Path, str, str], list[str]] = {}
    for folder in STUDIES:
        study = study_of(folder)
        for label in list_of_exhibits.labels(study):
            exhibit = list_of_exhibits.exhibit(label, study)
            published = (folder / f"{exhibit.kind}s" / f"{label}.csv").is_file()
            if published and all(is_published(folder, need) for need in exhibit.artifacts(study)):
                alike.setdefault((folder, *measured_by(label, study)), []).append(label)
    return [
        pytest.param(folder, metric, source, labels, id=f"{folder.name}-{metric}-{source}")
        for (folder, metric, source), labels in alike.items()
    ]


@pytest.mark.evidence
@pytest.mark.parametrize(("folder", "metric", "answer_source", "labels"), regenerable())
def test_tables_and_figures_are_regenerated_from_what_is_published(
    folder: Path, metric: str, answer_source: str, labels: list[str]
) -> None:
    study = study_of(folder)
    exhibits = {label: list_of_exhibits.exhibit(label, study) for label in labels}
    needs = {label: exhibit.artifacts(study) for label, exhibit in exhibits.items()}
    loaded: dict[Artifact, Loaded] = {}
    for need in dict.fromkeys(chain(*needs.values())):
        if need.kind == "replicates":
            readers = {label for label in labels if need in needs[label]}
            rows = drawn(folder, need, metric, answer_source, readers)
            table = pa.Table.from_pylist(rows, schema=parquet_tables.SCHEMAS["replicates"])
            loaded[need] = Loaded(folder / need.path, "replicates", need.cell, {}, table)
        else:
            loaded[need] = read(folder / need.path, need.kind)
    for label, exhibit in exhibits.items():
        text = csv_text(exhibit.built(study, Inputs(loaded, study)).frame)
        again = comparable(pd.read_csv(io.StringIO(text)))
        published = comparable(pd.read_csv(folder / f"{exhibit.kind}s" / f"{label}.csv"))
        pd.testing.assert_frame_equal(
            again[list(published)], published, check_dtype=False, rtol=1e-5, atol=1e-6, obj=label
        )


def drawn(
    folder: Path, need: Artifact, metric: str, answer_source: str, labels: set[str]
) -> list[dict[str, Any]]:
    """The replicates of a cell that these exhibits read of it; others would cost minutes."""
    cell = Artifact("evaluation", need.dataset, need.model, need.recipe, need.scorer)
    study = study_of(folder)
    main, *further = (quality.metric for quality in study.qualities(need.dataset))
    settings_read = {"main": "nothing with a setting", "reference": "sample "}
    if study.scoring[need.recipe].every_draw:
        settings_read["main"] = "sample "

    def of_the_answer(forms: list[Scored]) -> list[Scored]:
        return [form for form in forms if answer_source in ("", form.answer_source)]

    def of_tables(forms: list[Scored]) -> list[Scored]:
        plain = [form for form in of_the_answer(forms) if not form.setting or form.method == "GNLL"]
        return [form for form in plain if (form.method, form.variant) not in OF_NO_MAIN_TABLE]

    def of_others(forms: list[Scored]) -> list[Scored]:
        read = settings_read.get(need.recipe, "")
        with_setting = [
            form for form in of_the_answer(forms) if form.setting and form.setting.startswith(read)
        ]
        of_no_table = [
            form
            for form in of_the_answer(forms)
            if not form.setting and (form.method, form.variant) in OF_NO_MAIN_TABLE
        ]
        return with_setting + of_no_table

    answered = bool(labels & OF_ANSWERED)
    rows = recomputed(folder, cell, of_tables, metric, [main], answered=answered).replicates
    if not labels <= OF_MAIN_FORMS:
        rows += recomputed(folder, cell, of_others, metric, [main]).replicates
    if further and labels & OF_FURTHER_QUALITIES:
        rows += recomputed(folder, cell, of_tables, metric, further).replicates
    if further and labels & OF_DRAWS_BY_QUALITY:
        rows += recomputed(folder, cell, of_others, metric, further).replicates
    return rows


def comparable(values: pd.DataFrame) -> pd.DataFrame:
    """An exhibit's values, as two that say the same have them."""
    return in_order(without_fixed_intervals(values))


def in_order(values: pd.DataFrame) -> pd.DataFrame:
    """Rows of a table in the order of their keys, without those of p, now a column; points of a
    figure as they are.
    """
    keys = [name for name in CSV_COLUMNS[:7] if name in values]
    if len(keys) < 7:
        return values
    without_p = values[~values["metric"].str.endswith(", p by Holm")]
    return without_p.sort_values(keys, ignore_index=True)


def without_fixed_intervals(values: pd.DataFrame) -> pd.DataFrame:
    """Without intervals of a single point: where all resamples are equal there is none, and once
    there was.
    """
    ends = [name for name in ("std", "low", "high") if name in values]
    point = (
        values["high"] - values["low"] < 1e-9
        if {"low", "high"} <= {*ends}
        else pd.Series(False, values.index)
    )
    return values.assign(**{name: values[name].mask(point) for name in ends})


def number_of_questions(folder: Path, cell: Artifact) -> int:
    return int(max(read(folder / cell.path, "evaluation").table.column("n").to_pylist()))


@pytest.mark.evidence
@of_each_study
def test_a_cell_is_recomputed_from_its_scores(folder: Path) -> None:
    scorer = study_of(folder).main.scorer
    scored = [cell for cell in committed(folder) if cell.scorer == scorer]
    cell = min(scored, key=lambda cell: number_of_questions(folder, cell))
    keys = ["answer_source", "quality", "subset", "metric", "method", "variant", "setting"]
    numbers = ["value", "low", "high", "std"]
    published = (
        read(folder / cell.path, "evaluation")
        .table.to_pandas()
        .sort_values(keys, ignore_index=True)
    )
    rows = recomputed(
        folder, cell, lambda forms: forms[:: math.ceil(len(forms) / 20)], answered=True
    )
    again = pd.DataFrame(rows.evaluation)[published.columns].sort_values(keys, ignore_index=True)
    published = published.merge(again[keys], on=keys)
    assert len(published) == len(again)
    assert again[[*keys, "n", "note"]].equals(
        published[[*keys, "n", "note"]].astype({"n": "int64"})
    )
    pd.testing.assert_frame_equal(
        again[numbers].astype(float), published[numbers].astype(float), rtol=1e-6, atol=1e-9
    )


@of_each_study
def test_no_text_of_a_dataset_is_published(folder: Path) -> None:
    study = study_of(folder)
    for path in folder.rglob("*.parquet"):
        assert path.relative_to(folder).parts[0] in ("evaluation", "scores", "quality", "questions")
    for path in folder.glob("questions/*.parquet"):
        rows = read(path, "questions").table.select(list(NO_TEXT)).to_pylist()
        assert all(row == NO_TEXT for row in rows)
    for label in list_of_exhibits.labels(study):
        if list_of_exhibits.exhibit(label, study).shows_questions:
            assert not list(folder.rglob(f"{label}.*"))


def test_the_pages_and_the_packaged_map_are_as_the_evidence_has_them() -> None:
    pages = [path.read_text(encoding="utf-8") for path in PAGES]
    assert [written(page) for page in pages] == pages, "run python tools/sync_evidence.py"
    assert MAP.read_text(encoding="utf-8") == packaged_map(), "run python tools/sync_evidence.py"
    for folder in STUDIES:
        judged = pd.read_csv(folder / "comparison_claims.csv")["id"]
        assert set(judged) <= set(re.findall(r"`([\w-]+)`", "".join(pages)))


def test_a_block_of_cells_shows_numbers_of_a_file_and_refuses_rows_that_are_not_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "kind,setting,value,low,high,n",
        "a,M=5,-0.25,-0.5,-0.125,7",
        "a,M=10,58.27,,,7",
        "b,M=5,0.5,-0.5,1,7",
    )
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence/f.csv").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(sync_evidence, "ROOT", tmp_path)
    block = "<!-- cells f\n | {} | kind=a as A − B; kind=b as B | n=7 -->\n<!-- end -->"
    shown = written(block.format("setting=M=5 as five")).splitlines()[2:5]
    assert shown == [
        "|  | A − B | B |",
        "| --- | ---: | ---: |",
        r"| five | **-.250** \[-.500, -.125] | .500 \[-.500, 1.000] |",
    ]
    assert "| big | 58.3 | – |" in written(
        "<!-- cells f | setting=M=10 as big | kind=a as A; kind=a & show=low as low -->\n"
        "<!-- end -->"
    )
    with pytest.raises(SystemExit, match="0 rows"):
        written(block.format("setting=M=10 as ten"))


def test_a_claim_is_told_with_its_outcome_number_interval_and_n(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = (
        "id,where,claim,model,datasets,outcome,value,low,high,n,detectable,found",
        'up,section 1,Beams win.,m,"a, b, c",no,-0.25,-0.5,-0.125,1200,0.1,0 of 5 above 0',
        "mine,ours,Draws win.,m,a,yes,14,,,7,,",
        "cost,section 2,It is free.,,,not asked,,,,,,missing",
    )
    (tmp_path / "evidence/s").mkdir(parents=True)
    (tmp_path / "evidence/s/comparison_claims.csv").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(sync_evidence, "ROOT", tmp_path)
    outcome = (
        r"**no**. -.250 \[-.500, -.125]; n = 1,200; 0 of 5 above 0; smallest detectable difference "
        r".100"
    )
    theirs = written("<!-- claims s paper -->\n<!-- end -->")
    assert (
        f"- `up` Beams win.\n  - m, 3 datasets: {outcome}\n\nNot asked of this study: `cost`."
        in theirs
    )
    assert "mine" not in theirs
    assert "- `mine` Draws win.\n  - m, a: **yes**. 14; n = 7" in written(
        "<!-- claims s ours -->\n<!-- end -->"
    )
    waiting = written("<!-- waiting ours -->\n<!-- end -->")
    declared = [claim.id for claim in read_claims() if claim.where.startswith("ours")]
    assert f"Not yet run ({len(declared)}): `{declared[0]}`, " in waiting
    table = written("<!-- outcomes s -->\n<!-- end -->")
    assert "| outcome | m |" in table
    assert "| yes | `mine` |\n| no | `up` |" in table


def rows_of_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *rows: str) -> None:
    """Make these rows the claims of a study ``s``."""
    head = "id,where,claim,model,datasets,outcome,value,low,high,n,detectable,found"
    (tmp_path / "evidence/s").mkdir(parents=True)
    path = tmp_path / "evidence/s/comparison_claims.csv"
    path.write_text("\n".join([head, *rows]), encoding="utf-8")
    monkeypatch.setattr(sync_evidence, "ROOT", tmp_path)


def test_a_denied_claim_says_how_many_of_its_parts_deny_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = "1 of 2 above 0; 0% significantly above, 50% significantly below"
    row = f'up,section 1,Beams win.,m,a,no,0.009,-0.247,0.246,9,,"{tested}"'
    rows_of_claims(tmp_path, monkeypatch, row)
    shown = written("<!-- claims s -->\n<!-- end -->")
    assert r"m, a: **no** (1 of 2 significantly below). .009 \[-.247, .246]; n = 9" in shown


@pytest.mark.parametrize(
    ("outcome", "above", "remark"),
    [
        ("undecided", "1 of 1 above 0", " (uncorrected)"),
        ("yes", "1 of 1 above 0", ""),
        ("undecided", "1 of 1 above -0.02, the margin", ""),
    ],
)
def test_an_interval_without_zero_beside_an_undecided_verdict_is_said_to_be_uncorrected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, outcome: str, above: str, remark: str
) -> None:
    tested = f"{above}; 0% significantly above, 0% significantly below"
    row = f'up,section 1,Beams win.,m,a,{outcome},0.044,0.007,0.079,9,,"{tested}"'
    rows_of_claims(tmp_path, monkeypatch, row)
    shown = written("<!-- claims s -->\n<!-- end -->")
    assert rf"**{outcome}**. .044 \[.007, .079]{remark}; n = 9" in shown


@pytest.mark.parametrize(
    ("end", "text"), [(-0.00024, "-.0002"), (0.00018, ".0002"), (1e-19, ".000"), (-0.0006, "-.001")]
)
def test_an_end_of_an_interval_shows_on_which_side_of_zero_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: float, text: str
) -> None:
    rows_of_claims(tmp_path, monkeypatch, f"up,section 1,Beams win.,m,a,no,-0.01,-0.02,{end},9,,")
    assert rf"-.010 \[-.020, {text}]" in written("<!-- claims s -->\n<!-- end -->")


def test_the_outcomes_tell_of_a_claim_that_rests_on_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of_claims(tmp_path, monkeypatch, "theorem,theorem 1,It suffices.,,,no,,,,0,,mass 0.86")
    shown = written("<!-- outcomes s -->\n<!-- end -->")
    assert "\nWhatever the model: `theorem` **no** (mass 0.86).\n" in shown


def test_verdicts_on_the_paper_s_claims_stand_in_a_table_by_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows_of_claims(
        tmp_path,
        monkeypatch,
        "up,section 1,Beams win.,m,a,no,-0.25,-0.5,-0.125,1200,,",
        "up,section 1,Beams win.,other,a,undecided,0.5,,,1100,,",
        "top,section 2,First.,m,a,undecided,,,,9,,rank 2 of 3",
        "cost,section 2,It is free.,,,not asked,,,,,,missing",
        "theorem,theorem 1,It suffices.,,,no,,,,0,,mass 0.86",
        "mine,ours,Draws win.,m,a,yes,14,,,7,,",
    )
    shown = written("<!-- verdicts s | m as Mine;\n other as Theirs -->\n<!-- end -->")
    assert shown.splitlines()[2:-2] == [
        "| claim | Mine | Theirs |",
        "| --- | --- | --- |",
        r"| `up` | **no** -.250 \[-.500, -.125] | **undecided** .500 |",
        "| `top` | **undecided** | not asked |",
        "",
        "n = 1,100 to 1,200; 9 of `top`.",
        "",
        "Not asked of them: `cost`.",
    ]


def test_published_scores_are_short_and_keep_every_order_and_no_new_tie() -> None:
    scores = pd.Series(
        [
            0.3,
            0.1,
            0.1,
            np.nextafter(0.1, 1),
            1 / 3,
            np.nextafter(1 / 3, 1),
            1e-50,
            0.0,
            -2 / 3,
            math.nan,
        ]
    )
    short = shortened(scores)
    pd.testing.assert_series_equal(short, scores, rtol=1e-7, atol=0)
    assert short.rank().equals(scores.rank())
    assert short[0] == np.float32(0.3)
    assert short[8] == np.float32(-2 / 3)
    assert not scores.astype("float32").rank().equals(scores.rank())


@pytest.mark.parametrize(
    ("cell", "published"),
    [
        ("0.0373342760124602", "0.03733428"),
        ("-1234.56789012345", "-1234.568"),
        ("3.2e-17", "3.2e-17"),
        ("1.23456789012e-05", "1.234568e-05"),
        ("1.0", "1.0"),
        ("2000", "2000"),
        ("", ""),
        ("similarity power=1.0 M=3", "similarity power=1.0 M=3"),
    ],
)
def test_published_tables_have_numbers_of_seven_digits(cell: str, published: str) -> None:
    assert in_seven_digits(cell) == published


def test_a_folder_that_is_no_evidence_is_not_deleted(tmp_path: Path) -> None:
    (results := tmp_path / "results/own").mkdir(parents=True)
    (results / "study.json").write_bytes((STUDIES[0] / "study.json").read_bytes())
    (tmp_path / "mine").mkdir()
    with pytest.raises(BeamUQError, match="mine: is no evidence, and would be deleted"):
        collect(results, tmp_path / "mine")
    assert (tmp_path / "mine").is_dir()


def test_a_published_picture_keeps_its_colours() -> None:
    generator = np.random.default_rng(0)
    noise = Image.fromarray(generator.integers(0, 256, (60, 60, 3), dtype=np.uint8))
    assert in_few_colours(noise).mode == "RGB", "256 colours would change it"
    plain = Image.new("RGB", (60, 60), "#0072B2")
    plain.paste("#D55E00", (0, 0, 30, 30))
    few = in_few_colours(plain)
    assert few.mode == "P"
    assert few.convert("RGB").tobytes() == plain.tobytes()


def test_every_published_figure_can_be_drawn_again() -> None:
    for folder, label in redraw_evidence.published():
        has_points = (folder / f"figures/{label}.csv").is_file()
        assert label in (redraw_evidence.DRAWN if has_points else redraw_evidence.OF_SCORES), label


def test_redrawing_prints_each_file_that_it_writes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["redraw_evidence.py", "abl_length"])
    monkeypatch.setattr(redraw_evidence, "picture", lambda *_: None)
    redraw_evidence.main()
    assert capsys.readouterr().out == "wrote evidence/small/figures/abl_length.png\n"


def test_the_published_captions_of_the_map_count_the_points_that_the_pictures_show() -> None:
    for label in ("when_beams_win", "when_beams_win_by_dataset"):
        points = pd.read_csv(EVIDENCE / f"small/figures/{label}.csv")
        caption = (EVIDENCE / f"small/figures/{label}.txt").read_text(encoding="utf-8")
        assert sides_of_points(points) in caption


def test_evidence_is_small() -> None:
    assert sum(path.stat().st_size for path in EVIDENCE.rglob("*") if path.is_file()) < 14_000_000
