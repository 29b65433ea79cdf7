"""Every table as built from a synthetic study: what is printed agrees with the CSV, and every printed key is there."""

from __future__ import annotations

import csv
import io
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pytest

import exhibits_study
from beamuq import parquet_tables
from beamuq.exhibits import html_table, latex_table, list_of_exhibits, markdown_table
from beamuq.exhibits.exhibit_types import (
    CSV_COLUMNS,
    BuiltTable,
    TableCell,
    TableGrid,
    TableHeading,
    TableRow,
    TableRule,
)
from beamuq.parquet_tables import Artifact
from beamuq.study_config import Study
from run_job import run_job

STUDY = exhibits_study.study()
TABLES, RANKED = exhibits_study.labels("table"), exhibits_study.RANKED
PUBLISHED = Path(__file__).resolve().parents[1] / "workflow" / "paper_numbers" / "paper_values.csv"
NUMBER = re.compile(r"-?\d*\.\d{3}")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> exhibits_study.Results:
    return exhibits_study.Results(tmp_path_factory.mktemp("results"), STUDY)


@pytest.fixture(scope="module")
def built(results: exhibits_study.Results) -> dict[str, BuiltTable]:
    return {name: build(name, results) for name in TABLES}


def build(name: str, results: exhibits_study.Results, study: Study = STUDY) -> BuiltTable:
    table: BuiltTable = results.built(name, study)
    return table


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def markdown_rows(text: str) -> Iterator[tuple[str, list[str]]]:
    """First cell and the others of every body row that has content."""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("|") and not line.startswith("| :---") and any(NUMBER.search(c) for c in cells[1:]):
            yield cells[0], cells[1:]


# -- the CSV -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_csv_has_the_published_columns_and_each_key_once(name: str, built: dict[str, BuiltTable]) -> None:
    with PUBLISHED.open(encoding="utf-8") as file:
        published = file.readline().strip().split(",")
    header = built[name].csv().splitlines()[0].split(",")
    assert header == [*published, "low", "high", "n", "p_holm"]
    assert not built[name].values.duplicated(list(CSV_COLUMNS[:7])).any()


@pytest.mark.parametrize("name", [name for name in RANKED if not name.endswith("_1")])
def test_csv_holds_every_published_key_of_its_models(name: str, built: dict[str, BuiltTable]) -> None:
    """The synthetic study's models take the places of the paper's."""
    label = {"qa_tiny": "qa_gemma4b", "qa_tinychat": "qa_gemma4bit"}.get(name, name)
    keys = ["dataset", "metric", "method", "variant", "setting"]
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        published = {tuple(row[key] for key in keys) for row in csv.DictReader(file) if row["table"] == f"tab:{label}"}
    assert published
    assert published <= set(built[name].values[keys].itertuples(index=False, name=None))


@pytest.mark.parametrize("name", RANKED)
def test_markdown_shows_the_rounded_values_of_the_csv(name: str, built: dict[str, BuiltTable]) -> None:
    shown = [NUMBER.search(cell) for _, cells in markdown_rows(markdown_table.render(built[name])) for cell in cells]
    printed = [float(match.group()) for match in shown if match]
    values = [float(row["value"]) for row in rows_of(built[name].csv())]
    assert len(printed) == len(values) > 20
    assert np.abs(np.sort(printed) - np.sort(values)).max() <= 0.0005 + 1e-9


SOURCES = {  # the scorer, recipe, answers and metric that each table is of
    **dict.fromkeys(["qa_mean_prr", "qa_tiny", "qa_tinychat"], ("cosine", "main", "greedy", "PRR")),
    "qa_mean_prr_1": ("cosine", "main", "greedy", "PRR@1"),
    "topbeam_scoring": ("cosine", "main", "top_beam", "PRR"),
    "abl_rocauc": ("cosine", "main", "greedy", "ROC-AUC"),
    "abl_prauc": ("cosine", "main", "greedy", "PR-AUC"),
    "abl_other_methods": ("cosine", "main", "greedy", "PRR"),
    "abl_crossencoder": ("rouge", "main", "greedy", "PRR"),
    **dict.fromkeys(["abl_sampling", "abl_normalization", "abl_ecc_params"], ("cosine", "strategies", "greedy", "PRR")),
}


@pytest.mark.parametrize("name", RANKED)
def test_every_row_is_the_measurement_that_it_names(
    name: str, built: dict[str, BuiltTable], results: exhibits_study.Results
) -> None:
    """Value, ±, interval and n, looked up in the evaluation's files; a mean's in its datasets' replicates."""
    scorer, recipe, answer_source, metric = SOURCES[name]

    @cache
    def stored(kind: str, model: str, dataset: str) -> dict[tuple[str, ...], dict[str, Any]]:
        (path,) = results.paths([Artifact(kind, dataset, model, recipe, scorer)])
        columns = ("answer_source", "metric", "method", "variant", "setting")
        rows = parquet_tables.read(path, kind).table.to_pylist()
        chosen = [row for row in rows if (row["quality"], row["subset"]) == ("answer_f1", "all")]
        return {tuple(row[c] for c in columns): row for row in chosen}

    for row in built[name].values.to_dict("records"):
        method, setting = row["method"], row["setting"].replace("multinomial", "sample")
        variant = row["variant"] or ("multinomial" if method in exhibits_study.BOTH_FORMS else "")
        key = (answer_source, metric, method, variant, "" if setting in ("beam", "sample T=1.0") else setting)
        datasets = exhibits_study.DATASETS if row["dataset"] == "mean" else [row["dataset"]]
        found = [stored("evaluation", row["model"], dataset)[key] for dataset in datasets]
        expected = [found[0][column] for column in ("value", "std", "low", "high", "n")]
        if row["dataset"] == "mean":
            resamples = np.mean([stored("replicates", row["model"], d)[key]["values"] for d in datasets], axis=0)
            spread = [resamples.std(ddof=1), *np.quantile(resamples, [0.025, 0.975])]
            expected = [np.mean([f["value"] for f in found]), *spread, sum(f["n"] for f in found)]
        assert row["metric"] == metric
        assert [row[column] for column in ("value", "std", "low", "high", "n")] == pytest.approx(expected, abs=1e-6)


# -- what is undefined -------------------------------------------------------------------------------------------


@pytest.fixture
def undefined(tmp_path: Path) -> dict[str, BuiltTable]:
    """MTE is undefined on CoQA for the base model; Perplexity on TriviaQA has no interval."""
    results = exhibits_study.Results(tmp_path, STUDY)
    item = list_of_exhibits.exhibit("qa_mean_prr", STUDY)
    for need, path in zip(item.artifacts(STUDY), results.paths(item.artifacts(STUDY)), strict=True):
        rows = parquet_tables.read(path, need.kind).table.to_pylist()
        for row in rows:
            if need.kind == "evaluation" and need.model == exhibits_study.BASE:
                if (row["method"], need.dataset) == ("MTE", "coqa"):
                    row |= {"value": None, "low": None, "high": None, "std": None, "note": "one quality & no <rank>"}
            elif need.model == exhibits_study.BASE and (row["method"], need.dataset) == ("Perplexity", "triviaqa"):
                row["values"] = [float("nan")] * 5 + list(row["values"][5:])
        parquet_tables.write(path, need.kind, rows, cell=need.cell)
    return {name: build(name, results) for name in ("qa_mean_prr", "qa_tiny")}


def test_undefined_value_prints_na_with_its_reason(undefined: dict[str, BuiltTable]) -> None:
    text = markdown_table.render(undefined["qa_tiny"])
    (mte,) = [cells for title, cells in markdown_rows(text) if title == "MTE"]
    assert mte[2] == "n/a<sup>a</sup>"
    assert "(a) one quality &amp; no &lt;rank&gt;" in text


def test_undefined_dataset_leaves_the_mean_undefined(undefined: dict[str, BuiltTable]) -> None:
    values = undefined["qa_mean_prr"].values
    (row,) = values[(values["model"] == exhibits_study.BASE) & (values["method"] == "MTE")].to_dict("records")
    assert np.isnan(row["value"])
    assert "PRR is undefined on CoQA: one quality" in html_table.render(undefined["qa_mean_prr"])


def test_more_than_one_percent_undefined_resamples_leave_no_interval(undefined: dict[str, BuiltTable]) -> None:
    rows = rows_of(undefined["qa_mean_prr"].csv())
    (row,) = [r for r in rows if r["method"] == "Perplexity" and r["model"] == exhibits_study.BASE]
    assert row["value"]
    assert (row["std"], row["low"], row["high"]) == ("", "", "")
    assert "5 of 200 resamples undefined: no interval" in markdown_table.render(undefined["qa_mean_prr"])


# -- marks and arrows --------------------------------------------------------------------------------------------


def table_of(cells: list[list[TableCell]], titles: tuple[str, ...] = ("a", "b"), **changes: Any) -> BuiltTable:
    body = tuple(TableRow((title,), tuple(row)) for title, row in zip("xyzuvw", cells, strict=False))
    values = pd.DataFrame([("tab:t", *[""] * 6, 0.5, None, None, None, 1, None)], columns=list(CSV_COLUMNS))
    given: dict[str, Any] = {
        "label": "t",
        "title": "T",
        "caption": "C",
        "values": values,
        "grid": TableGrid(("",), (titles,), body),
    }
    return BuiltTable(**(given | changes))


@pytest.mark.parametrize("name", RANKED)
def test_each_column_has_its_best_and_second(name: str, built: dict[str, BuiltTable]) -> None:
    table = built[name]
    rows = [row for row in table.grid.body if isinstance(row, TableRow)]
    for column in range(len(table.grid.header[-1])):
        cells = [row.cells[column] for row in rows]
        best = [float(cell.text) for cell in cells if cell.mark == "best"]
        second = [float(cell.text) for cell in cells if cell.mark == "second"]
        rest = [float(cell.text) for cell in cells if not cell.mark]
        assert best
        assert second
        assert min(best) >= max(second)
        assert min(second) >= max(rest)


@pytest.mark.parametrize("name", ["qa_tiny", "abl_other_methods", "abl_crossencoder", "topbeam_scoring"])
def test_arrow_stands_exactly_where_the_beam_form_is_better(name: str, built: dict[str, BuiltTable]) -> None:
    table = built[name]
    values: Any = table.values.set_index(["model", "dataset", "method", "variant"])["value"]
    arrows = {
        key for key, value in values.items() if key[3] == "beamsearch" and value > values[(*key[:3], "multinomial")]
    }
    drawn = sum(cell.better for row in table.grid.body if isinstance(row, TableRow) for cell in row.cells)
    assert 0 < drawn == len(arrows)


def test_html_shows_interval_and_n_at_the_pointer(built: dict[str, BuiltTable]) -> None:
    row = built["qa_tiny"].values.iloc[0]
    low, high = (f"{row[end]:.3f}".replace("0.", ".", 1) for end in ("low", "high"))
    assert f'<td title="[{low}, {high}] n = {row["n"]}">' in html_table.render(built["qa_tiny"])


def test_marks_and_arrow_in_each_format() -> None:
    table = table_of([[TableCell(".543", "± .019", "best", better=True), TableCell("-.096", mark="second")]])
    assert r"\textbf{.543} $\uparrow$ {\scriptsize $\pm$ .019} & \underline{$-$.096}" in latex_table.render(table)
    assert "| x | **.543** ↑ ± .019 | <u>-.096</u> |" in markdown_table.render(table)
    assert "<td><b>.543</b> ↑ <small>± .019</small></td><td><u>-.096</u></td>" in html_table.render(table)


# -- captions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_a_demo_is_said_to_be_one_and_another_study_is_not(
    name: str, built: dict[str, BuiltTable], results: exhibits_study.Results
) -> None:
    assert built[name].title.startswith("[demo]")
    assert built[name].caption.startswith("[demo]")
    other = build(name, results, exhibits_study.study(demo=False)) if name == "qa_mean_prr" else None
    assert other is None or "demo" not in other.title + other.caption


# -- single tables -----------------------------------------------------------------------------------------------


def test_accuracy_is_of_greedy_answers_strictly_above_the_threshold(built: dict[str, BuiltTable]) -> None:
    values: Any = built["base_accs"].values.set_index(["model", "dataset"])
    for (model, dataset), row in values.iterrows():
        quality = exhibits_study.quality_values(model, dataset, 24)
        assert (quality == 0.5).any()
        assert row["value"] == pytest.approx(float((quality > 0.5).mean()))
        assert row["low"] < row["value"] < row["high"]
        assert row["n"] == 24
    assert len(values) == 12


@pytest.fixture
def halved(tmp_path: Path) -> tuple[exhibits_study.Results, pd.DataFrame]:
    """Main cells whose beams come in pairs of one text, as where answers end in two ways; the table of endings."""
    own = exhibits_study.Results(tmp_path, STUDY)
    for model in STUDY.models:
        for dataset in ("triviaqa", "coqa"):
            candidates = Artifact("candidates", dataset, model, "main")
            exhibits_study.rewrite(own, candidates, lambda row: row | {"text": f"answer {row['rank'] // 2}"})
    values = build("endings", own).values
    return own, values.set_index(["model", "dataset", "metric", "method", "setting"])


def test_endings_counts_texts_and_mass_of_the_beams_with_and_without(
    halved: tuple[exhibits_study.Results, pd.DataFrame],
) -> None:
    own, values = halved
    for model in STUDY.models:
        for dataset, group in (("triviaqa", 1), ("coqa", 3)):
            of: Any = values.sort_index().loc[model, dataset]
            for metric, apart, merged in (("distinct texts", 5, 10), ("redundant texts", 0.5, 0)):
                rows = of.loc[metric, ""]
                assert list(rows["value"]) == pytest.approx([apart, merged, merged - apart])
                difference = rows.loc["merged − apart"]  # the same in every question, so in every resample
                assert (difference["low"], difference["high"]) == pytest.approx((merged - apart,) * 2)
            masses = []
            for recipe in ("main", "merged"):
                (file,) = own.paths([Artifact("candidates", dataset, model, recipe)])
                frame = parquet_tables.read(file, "candidates").table.to_pandas()
                beams = frame[frame["strategy"] == "beam M=10"]
                masses.append(np.exp(beams["logprob"]).groupby(beams["id"]).sum().sort_index().to_numpy())
            rows = of.loc["covered mass", ""]
            assert list(rows["value"]) == pytest.approx(
                [masses[0].mean(), masses[1].mean(), np.diff(masses, axis=0).mean()]
            )
            groups = [f"{n // group}" for n in range(24)]
            stories = pd.Series(masses[1] - masses[0]).groupby(groups).mean()
            assert rows["std"].iloc[2] == pytest.approx(stories.std() / len(stories) ** 0.5, rel=0.2)
            assert set(of["n"]) == {24}


def test_endings_has_the_paired_difference_of_prr(halved: tuple[exhibits_study.Results, pd.DataFrame]) -> None:
    own, values = halved
    for (model, dataset, metric, method, setting), row in values.iterrows():
        if metric == "PRR" and setting == "merged − apart":
            found = {}
            for recipe in ("main", "merged"):
                (file,) = own.paths([Artifact("evaluation", dataset, model, recipe, "cosine")])
                frame = parquet_tables.read(file, "evaluation").table.to_pandas()
                chosen = frame[(frame["method"] == method) & (frame["metric"] == "PRR") & (frame["setting"] == "")]
                chosen = chosen[(chosen["answer_source"] == "greedy") & (chosen["variant"] != "multinomial")]
                chosen = chosen[(chosen["quality"] == STUDY.main_quality.metric) & (chosen["subset"] == "all")]
                (found[recipe],) = chosen["value"]
            assert row["value"] == pytest.approx(found["merged"] - found["main"])
            # the two recipes share their resamples, whose noise is the same here and cancels
            assert (row["low"], row["high"]) == pytest.approx((row["value"],) * 2, abs=1e-6)


def test_dataset_sizes_are_those_of_the_files(built: dict[str, BuiltTable]) -> None:
    values = built["test_datasets"].values.set_index(["metric", "dataset"])["value"]
    assert values["questions", "coqa"] == exhibits_study.SIZE["main"]
    assert values["few_shot", "coqa"] == "all preceding"
    assert values["few_shot", "hotpotqa"] == 0
    assert values["few_shot", "triviaqa"] == 5
    assert values["max_new_tokens", "triviaqa"] == 20


def test_semantic_entropy_s_other_readings_stay_out_of_the_main_table(built: dict[str, BuiltTable]) -> None:
    titles = [row.titles[0] for row in built["qa_tiny"].grid.body if isinstance(row, TableRow)]
    assert titles.count("Semantic Entropy") == 1
    assert "Degree Matrix" not in titles


def test_exact_temperature_weights_stand_beside_the_printed_ones(built: dict[str, BuiltTable]) -> None:
    settings = set(built["abl_sampling"].values["setting"])
    assert {"multinomial T=0.7", "multinomial T=0.7 exact"} <= settings
    assert "multinomial T=1.0 exact" not in settings


# -- hostile text, and documents that stand alone ----------------------------------------------------------------

HOSTILE = r"\input{x} {a} $1 & #2 % 3_4 ~ ^ <b>|</b> `--` 'q' \"r\" é 中 α | *x* [y](z) \\ \end{document}"


def hostile() -> BuiltTable:
    cells = (TableCell(HOSTILE), TableCell(HOSTILE + "\n\n" + HOSTILE, code=True), TableCell("n/a", note=HOSTILE))
    grid = TableGrid(
        (HOSTILE,),
        ((HOSTILE, HOSTILE, "c"), ("a", HOSTILE, "\x00")),
        (TableHeading(HOSTILE), TableRule(), TableRow((HOSTILE,), cells)),
    )
    return table_of([], title=HOSTILE, caption=HOSTILE, grid=grid)


def test_hostile_text_stays_in_its_markdown_cell() -> None:
    lines = [line for line in markdown_table.render(hostile()).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert all("<b>" not in line and "](" not in line.replace("\\](", "") for line in lines)


def test_hostile_text_is_text_in_html() -> None:
    class Tags(HTMLParser):
        seen: ClassVar[set[str]] = set()

        def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002  (the base class's signature)
            self.seen.add(tag)

    text = html_table.render(hostile())
    Tags().feed(text)
    own = {"html", "head", "meta", "title", "style", "body", "h1", "p", "div", "small", "sup"}
    assert Tags.seen <= own | {"table", "thead", "tbody", "tr", "th", "td"}
    assert "&lt;b&gt;" in text
    assert "http" not in text


def test_hostile_text_opens_no_latex_command() -> None:
    text = latex_table.render(hostile())
    assert text.count(r"\end{document}") == 1
    assert r"\input" not in text
    assert r"\texttt{U+4E2D}" in text


needs_latex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")


def compile_alone(text: str, folder: Path) -> None:
    (folder / "table.tex").write_text(text, encoding="utf-8")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "table.tex"],
        cwd=folder,
        capture_output=True,
        check=False,
        timeout=60,
    )
    log = done.stdout.decode("latin-1")
    assert done.returncode == 0, log[-1500:]
    assert "Overfull" not in log, log[-1500:]
    assert "Float too large" not in log, log[-1500:]
    assert "Output written on table.pdf (1 page" in log


@pytest.mark.latex
@needs_latex
@pytest.mark.parametrize("name", TABLES)
def test_latex_compiles_alone_on_one_page(name: str, built: dict[str, BuiltTable], tmp_path: Path) -> None:
    compile_alone(latex_table.render(built[name]), tmp_path)


@pytest.mark.latex
@needs_latex
def test_every_character_a_question_may_hold_compiles(tmp_path: Path) -> None:
    points = [*range(0x20, 0x250), *range(0x370, 0x400), *range(0x2000, 0x2070), 0x2260, 0x4E2D, 0x1F600]
    text = " ".join(chr(point) for point in points)
    cells = [TableCell(HOSTILE, note=text), TableCell(HOSTILE, code=True)]
    compile_alone(latex_table.render(table_of([cells], title=HOSTILE, caption=HOSTILE)), tmp_path)


OUTPUTS = ("csv", "tex", "markdown", "html")


def test_step_writes_each_format_and_nothing_else(results: exhibits_study.Results, tmp_path: Path) -> None:
    results.paths(list_of_exhibits.exhibit("qa_tiny", STUDY).artifacts(STUDY))
    study = results.folder / "study.json"
    study.write_text(STUDY.model_dump_json(), encoding="utf-8")
    outputs = {kind: tmp_path / "out" / kind for kind in OUTPUTS}
    run_job("table", {"name": "qa_tiny", "study": study} | outputs)
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(outputs)
    built = build("qa_tiny", results)
    assert outputs["csv"].read_text(encoding="utf-8") == built.csv()
    for kind, render in {
        "tex": latex_table.render,
        "markdown": markdown_table.render,
        "html": html_table.render,
    }.items():
        assert outputs[kind].read_text(encoding="utf-8") == render(built)
