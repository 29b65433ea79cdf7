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
from beamuq import artifacts
from beamuq.artifacts import Artifact
from beamuq.errors import BeamUQError
from beamuq.exhibits import render_table, specifications
from beamuq.exhibits.exhibit_types import CSV_COLUMNS, Cell, Grid, Heading, Row, Rule, Table
from beamuq.study import Study
from run_job import run_job

STUDY = exhibits_study.study()
TABLES = [name for name in specifications.labels(STUDY) if specifications.exhibit(name, STUDY).kind == "table"]
RANKED = [name for name in TABLES if name.startswith(("qa_", "abl_", "topbeam"))]
PUBLISHED = Path(__file__).resolve().parents[1] / "workflow" / "paper_numbers" / "paper_values.csv"
NUMBER = re.compile(r"-?\d*\.\d{3}")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> exhibits_study.Results:
    return exhibits_study.Results(tmp_path_factory.mktemp("results"), STUDY)


@pytest.fixture(scope="module")
def built(results: exhibits_study.Results) -> dict[str, Table]:
    return {name: build(name, results) for name in TABLES}


def build(name: str, results: exhibits_study.Results, study: Study = STUDY) -> Table:
    item = specifications.exhibit(name, study)
    table = item.build(study, results.inputs(item.artifacts(study)))
    assert isinstance(table, Table)
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
def test_csv_has_the_published_columns_plus_the_interval(name: str, built: dict[str, Table]) -> None:
    with PUBLISHED.open(encoding="utf-8") as file:
        published = file.readline().strip().split(",")
    header = render_table.csv(built[name]).splitlines()[0].split(",")
    assert header == [*published, "low", "high", "n"]


@pytest.mark.parametrize("name", TABLES)
def test_csv_keys_stand_once(name: str, built: dict[str, Table]) -> None:
    assert not built[name].values.duplicated(list(CSV_COLUMNS[:7])).any()


@pytest.mark.parametrize("name", RANKED)
def test_csv_holds_every_published_key_of_its_models(name: str, built: dict[str, Table]) -> None:
    """The synthetic study's models take the places of the paper's."""
    label = {"qa_tiny": "qa_gemma4b", "qa_tinychat": "qa_gemma4bit"}.get(name, name)
    keys = ["dataset", "metric", "method", "variant", "setting"]
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        published = {tuple(row[key] for key in keys) for row in csv.DictReader(file) if row["table"] == f"tab:{label}"}
    assert published
    assert published <= set(built[name].values[keys].itertuples(index=False, name=None))


@pytest.mark.parametrize("name", RANKED)
def test_markdown_shows_the_rounded_values_of_the_csv(name: str, built: dict[str, Table]) -> None:
    shown = [NUMBER.search(cell) for _, cells in markdown_rows(render_table.markdown(built[name])) for cell in cells]
    printed = [float(match.group()) for match in shown if match]
    values = [float(row["value"]) for row in rows_of(render_table.csv(built[name]))]
    assert len(printed) == len(values) > 20
    assert np.abs(np.sort(printed) - np.sort(values)).max() <= 0.0005 + 1e-9


@pytest.mark.parametrize("name", RANKED)
def test_latex_and_html_show_the_cells_of_the_markdown(name: str, built: dict[str, Table]) -> None:
    table = built[name]
    cells = [cell.text for row in table.grid.body if isinstance(row, Row) for cell in row.cells]
    body = render_table.latex(table).split(r"\midrule", 1)[1].replace("$-$", "-")
    latex = re.findall(r"(?:& |\\textbf\{|\\underline\{)(-?\d*\.\d{3})(?=[\s}$])", body)
    page = re.findall(r"<td>(?:<b>|<u>)?(-?\d*\.\d{3})", render_table.html(table))
    assert latex == cells
    assert page == cells


SOURCES = {  # the scorer, recipe, answers and metric that each table is of
    **dict.fromkeys(["qa_mean_prr", "qa_tiny", "qa_tinychat"], ("cosine", "main", "greedy", "PRR")),
    "topbeam_scoring": ("cosine", "main", "top_beam", "PRR"),
    "abl_rocauc": ("cosine", "main", "greedy", "ROC-AUC"),
    "abl_prauc": ("cosine", "main", "greedy", "PR-AUC"),
    "abl_other_methods": ("cosine", "main", "greedy", "PRR"),
    "abl_crossencoder": ("rouge", "main", "greedy", "PRR"),
    **dict.fromkeys(["abl_sampling", "abl_normalization", "abl_ecc_params"], ("cosine", "strategies", "greedy", "PRR")),
}


def test_every_table_of_measurements_has_its_source() -> None:
    assert set(SOURCES) == set(RANKED)


@pytest.mark.parametrize("name", RANKED)
def test_every_row_is_the_measurement_that_it_names(
    name: str, built: dict[str, Table], results: exhibits_study.Results
) -> None:
    """Value, ±, interval and n, looked up in the evaluation's files; a mean's in its datasets' replicates."""
    scorer, recipe, answer_source, metric = SOURCES[name]

    @cache
    def stored(kind: str, model: str, dataset: str) -> dict[tuple[str, ...], dict[str, Any]]:
        (path,) = results.paths([Artifact(kind, dataset, model, recipe, scorer)])
        columns = ("answer_source", "metric", "method", "variant", "setting")
        return {tuple(row[c] for c in columns): row for row in artifacts.read(path, kind).table.to_pylist()}

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
        assert [row[column] for column in ("value", "std", "low", "high", "n")] == pytest.approx(expected, abs=1e-12)


def test_mean_is_the_mean_of_its_own_row(built: dict[str, Table]) -> None:
    values = built["qa_tiny"].values
    for _, rows in values.groupby(["method", "variant"]):
        of = rows.set_index("dataset")["value"]
        assert of["mean"] == pytest.approx(of.drop("mean").mean(), abs=1e-12)


def test_mean_table_and_model_table_agree(built: dict[str, Table]) -> None:
    keys = ["method", "variant", "value", "std", "low", "high", "n"]
    of_all, of_one = built["qa_mean_prr"].values, built["qa_tiny"].values
    left = of_all[of_all["model"] == exhibits_study.BASE][keys].reset_index(drop=True)
    right = of_one[of_one["dataset"] == "mean"][keys].reset_index(drop=True)
    pd.testing.assert_frame_equal(left, right)


def test_mean_s_spread_comes_from_the_replicates_of_each_dataset(built: dict[str, Table]) -> None:
    row = built["qa_mean_prr"].values.iloc[0]
    each = [
        exhibits_study.generator(row["model"], dataset, "noise").normal(scale=0.05, size=exhibits_study.RESAMPLES)
        for dataset in exhibits_study.DATASETS
    ]
    assert row["std"] == pytest.approx(float(np.mean(each, axis=0).std(ddof=1)), abs=1e-6)


def test_top_beam_s_table_is_of_the_top_beam(built: dict[str, Table]) -> None:
    greedy, top = built["qa_mean_prr"].values, built["topbeam_scoring"].values
    assert (greedy["value"] != top["value"]).all()


# -- what is undefined -------------------------------------------------------------------------------------------


@pytest.fixture
def undefined(tmp_path: Path) -> dict[str, Table]:
    """MTE is undefined on CoQA for the base model; Perplexity on TriviaQA has no interval."""
    results = exhibits_study.Results(tmp_path, STUDY)
    item = specifications.exhibit("qa_mean_prr", STUDY)
    for need, path in zip(item.artifacts(STUDY), results.paths(item.artifacts(STUDY)), strict=True):
        rows = artifacts.read(path, need.kind).table.to_pylist()
        for row in rows:
            if need.kind == "evaluation" and need.model == exhibits_study.BASE:
                if (row["method"], need.dataset) == ("MTE", "coqa"):
                    row |= {"value": None, "low": None, "high": None, "std": None, "note": "one quality & no <rank>"}
            elif need.model == exhibits_study.BASE and (row["method"], need.dataset) == ("Perplexity", "triviaqa"):
                row["values"] = [float("nan")] * 5 + list(row["values"][5:])
        artifacts.write(path, need.kind, rows, cell=need.cell)
    return {name: build(name, results) for name in ("qa_mean_prr", "qa_tiny")}


def test_undefined_value_prints_na_with_its_reason(undefined: dict[str, Table]) -> None:
    text = render_table.markdown(undefined["qa_tiny"])
    (mte,) = [cells for title, cells in markdown_rows(text) if title == "MTE"]
    assert mte[2] == "n/a<sup>a</sup>"
    assert "(a) one quality &amp; no &lt;rank&gt;" in text


def test_undefined_dataset_leaves_the_mean_undefined(undefined: dict[str, Table]) -> None:
    values = undefined["qa_mean_prr"].values
    (row,) = values[(values["model"] == exhibits_study.BASE) & (values["method"] == "MTE")].to_dict("records")
    assert np.isnan(row["value"])
    assert "PRR is undefined on CoQA: one quality" in render_table.html(undefined["qa_mean_prr"])


def test_undefined_value_is_an_empty_field_never_nan(undefined: dict[str, Table]) -> None:
    for table in undefined.values():
        for text in (render_table.csv(table), render_table.latex(table), render_table.markdown(table)):
            assert not re.search(r"\bnan\b", text, re.IGNORECASE)
        rows = rows_of(render_table.csv(table))
        assert [row["value"] for row in rows if row["method"] == "MTE"].count("") >= 1


def test_more_than_one_percent_undefined_resamples_leave_no_interval(undefined: dict[str, Table]) -> None:
    rows = rows_of(render_table.csv(undefined["qa_mean_prr"]))
    (row,) = [r for r in rows if r["method"] == "Perplexity" and r["model"] == exhibits_study.BASE]
    assert row["value"]
    assert (row["std"], row["low"], row["high"]) == ("", "", "")
    assert "5 of 200 resamples undefined: no interval" in render_table.markdown(undefined["qa_mean_prr"])


# -- marks and arrows --------------------------------------------------------------------------------------------


def table_of(cells: list[list[Cell]], titles: tuple[str, ...] = ("a", "b"), **changes: Any) -> Table:
    body = tuple(Row((title,), tuple(row)) for title, row in zip("xyzuvw", cells, strict=False))
    values = pd.DataFrame([("tab:t", *[""] * 6, 0.5, None, None, None, 1)], columns=list(CSV_COLUMNS))
    given: dict[str, Any] = {
        "label": "t",
        "title": "T",
        "caption": "C",
        "values": values,
        "grid": Grid(("",), (titles,), body),
    }
    return Table(**(given | changes))


@pytest.mark.parametrize("name", RANKED)
def test_each_column_has_its_best_and_second(name: str, built: dict[str, Table]) -> None:
    table = built[name]
    rows = [row for row in table.grid.body if isinstance(row, Row)]
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
def test_arrow_stands_exactly_where_the_beam_form_is_better(name: str, built: dict[str, Table]) -> None:
    table = built[name]
    values: Any = table.values.set_index(["model", "dataset", "method", "variant"])["value"]
    arrows = {
        key for key, value in values.items() if key[3] == "beamsearch" and value > values[(*key[:3], "multinomial")]
    }
    drawn = sum(cell.better for row in table.grid.body if isinstance(row, Row) for cell in row.cells)
    assert 0 < drawn == len(arrows)


def test_marks_and_arrow_in_each_format() -> None:
    table = table_of([[Cell(".543", "± .019", "best", better=True), Cell("-.096", mark="second")]])
    assert r"\textbf{.543} $\uparrow$ {\scriptsize $\pm$ .019} & \underline{$-$.096}" in render_table.latex(table)
    assert "| x | **.543** ↑ ± .019 | <u>-.096</u> |" in render_table.markdown(table)
    assert "<td><b>.543</b> ↑ <small>± .019</small></td><td><u>-.096</u></td>" in render_table.html(table)


def test_equal_titles_under_different_parents_do_not_share_a_head() -> None:
    grid = Grid(("",), (("m", "n"), ("d", "d"), ("e", "f")), (Row(("x",), (Cell("1"), Cell("2"))),))
    text = render_table.latex(table_of([], grid=grid))
    assert r"\multicolumn{2}" not in text
    assert render_table.markdown(table_of([], grid=grid)).count("m · d · e | n · d · f") == 1


# -- captions ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLES)
def test_demo_stands_in_title_and_caption(name: str, built: dict[str, Table]) -> None:
    assert built[name].title.startswith("[demo]")
    assert built[name].caption.startswith("[demo]")
    assert "no results of the paper" in built[name].caption


@pytest.mark.parametrize("name", RANKED)
def test_every_stand_in_is_named(name: str, built: dict[str, Table]) -> None:
    similarity = {"abl_crossencoder": "ROUGE-L, stand-in for the RoBERTa-large STS cross-encoder"}.get(
        name, "MiniLM embedding cosine, stand-in for DeBERTa-large-MNLI entailment"
    )
    assert f"similarity: {similarity}" in built[name].caption
    assert "quality: max(token F1, containment), stand-in for AlignScore" in built[name].caption


@pytest.mark.parametrize("name", RANKED)
def test_caption_gives_n(name: str, built: dict[str, Table]) -> None:
    assert re.search(r"n = (24|20) questions a dataset", built[name].caption)


def test_top_beam_is_the_search_s_first_whatever_its_probability(built: dict[str, Table]) -> None:
    assert "those of the search's first beam" in built["topbeam_scoring"].caption
    assert "probable" not in built["topbeam_scoring"].caption


@pytest.mark.parametrize("name", ["qa_mean_prr", "qa_tiny", "topbeam_scoring", "abl_rocauc"])
def test_caption_says_what_plus_minus_is(name: str, built: dict[str, Table]) -> None:
    assert "± is the standard deviation over 200 bootstrap resamples of the questions" in built[name].caption
    assert "whole stories for CoQA" in built[name].caption


def test_study_that_is_no_demo_carries_no_tag(results: exhibits_study.Results) -> None:
    table = build("qa_mean_prr", results, exhibits_study.study(demo=False))
    assert "demo" not in table.title + table.caption
    assert "stand-in for AlignScore" in table.caption


def test_models_shown_in_place_of_the_paper_s_are_said(built: dict[str, Table]) -> None:
    assert "The paper shows gemma-3-4b-base, not in this study's grid; shown: Tiny 1B base." in (
        built["abl_rocauc"].caption
    )


# -- single tables -----------------------------------------------------------------------------------------------


def test_accuracy_is_of_greedy_answers_strictly_above_the_threshold(built: dict[str, Table]) -> None:
    values: Any = built["base_accs"].values.set_index(["model", "dataset"])
    for (model, dataset), row in values.iterrows():
        quality = exhibits_study.quality_values(model, dataset, 24)
        assert (quality == 0.5).any()
        assert row["value"] == pytest.approx(float((quality > 0.5).mean()))
        assert row["low"] < row["value"] < row["high"]
        assert row["n"] == 24
    assert len(values) == 12


def test_dataset_sizes_are_those_of_the_files(built: dict[str, Table]) -> None:
    values = built["test_datasets"].values.set_index(["metric", "dataset"])["value"]
    assert values["questions", "coqa"] == exhibits_study.SIZE["main"]
    assert values["few_shot", "coqa"] == "all preceding"
    assert values["few_shot", "hotpotqa"] == 0
    assert values["few_shot", "triviaqa"] == 5
    assert values["max_new_tokens", "triviaqa"] == 20
    assert "24 questions of CoQA are turns of 8 dialogues" in built["test_datasets"].caption


def test_prompts_show_placeholders_and_no_braces(built: dict[str, Table]) -> None:
    values = built["prompts"].values.set_index(["model", "dataset"])["value"]
    assert len(values) == 12
    assert values["base", "triviaqa"] == "<5 few-shot QA pairs>\n\nQuestion: <question>\nAnswer:"
    assert "<all preceding QA pairs>" in values["instruct", "coqa"]
    assert "<title 1>" in values["base", "hotpotqa"]
    assert not values.str.contains("[{}]").any()


def test_semantic_entropy_s_other_readings_stay_out_of_the_main_table(built: dict[str, Table]) -> None:
    titles = [row.titles[0] for row in built["qa_tiny"].grid.body if isinstance(row, Row)]
    assert titles.count("Semantic Entropy") == 1
    assert "Degree Matrix" not in titles


def test_exact_temperature_weights_stand_beside_the_printed_ones(built: dict[str, Table]) -> None:
    settings = set(built["abl_sampling"].values["setting"])
    assert {"multinomial T=0.7", "multinomial T=0.7 exact"} <= settings
    assert "multinomial T=1.0 exact" not in settings
    assert "exact weights, which print lacks, are ranked with the others" in built["abl_sampling"].caption


def test_what_a_repeated_diverse_beam_weighs_is_said(built: dict[str, Table], results: exhibits_study.Results) -> None:
    said = "all candidates returned count, each with its full p"
    assert said in built["abl_sampling"].caption
    content = STUDY.model_dump(mode="json")
    recipe = content["recipes"]["strategies"] | {"diverse": None, "sample": {"size": 10, "temperatures": [1.0]}}
    caption = build(
        "abl_sampling", results, exhibits_study.study(recipes=content["recipes"] | {"strategies": recipe})
    ).caption
    assert said not in caption
    assert "exact weights, which" not in caption


# -- hostile text, and documents that stand alone ----------------------------------------------------------------

HOSTILE = r"\input{x} {a} $1 & #2 % 3_4 ~ ^ <b>|</b> `--` 'q' \"r\" é 中 α | *x* [y](z) \\ \end{document}"


def hostile() -> Table:
    cells = (Cell(HOSTILE), Cell(HOSTILE + "\n\n" + HOSTILE, code=True), Cell("n/a", note=HOSTILE))
    grid = Grid(
        (HOSTILE,),
        ((HOSTILE, HOSTILE, "c"), ("a", HOSTILE, "\x00")),
        (Heading(HOSTILE), Rule(), Row((HOSTILE,), cells)),
    )
    return table_of([], title=HOSTILE, caption=HOSTILE, grid=grid, notes=(HOSTILE,))


def test_hostile_text_stays_in_its_markdown_cell() -> None:
    lines = [line for line in render_table.markdown(hostile()).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert all("<b>" not in line and "](" not in line.replace("\\](", "") for line in lines)


def test_hostile_text_is_text_in_html() -> None:
    class Tags(HTMLParser):
        seen: ClassVar[set[str]] = set()

        def handle_starttag(self, tag: str, attrs: Any) -> None:  # noqa: ARG002  (the base class's signature)
            self.seen.add(tag)

    text = render_table.html(hostile())
    Tags().feed(text)
    own = {"html", "head", "meta", "title", "style", "body", "h1", "p", "div", "small", "sup"}
    assert Tags.seen <= own | {"table", "thead", "tbody", "tr", "th", "td"}
    assert "&lt;b&gt;" in text
    assert "http" not in text


def test_hostile_text_opens_no_latex_command() -> None:
    text = render_table.latex(hostile())
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
def test_latex_compiles_alone_on_one_page(name: str, built: dict[str, Table], tmp_path: Path) -> None:
    compile_alone(render_table.latex(built[name]), tmp_path)


@pytest.mark.latex
@needs_latex
@pytest.mark.parametrize("name", RANKED)
def test_style_with_intervals_compiles_alone_on_one_page(name: str, built: dict[str, Table], tmp_path: Path) -> None:
    compile_alone(render_table.latex(built[name].with_intervals()), tmp_path)


@pytest.mark.latex
@needs_latex
def test_hostile_text_compiles(tmp_path: Path) -> None:
    small = table_of([[Cell(HOSTILE), Cell(HOSTILE, code=True)]], title=HOSTILE, caption=HOSTILE, notes=(HOSTILE,))
    compile_alone(render_table.latex(small), tmp_path)


@pytest.mark.latex
@needs_latex
def test_every_character_a_question_may_hold_compiles(tmp_path: Path) -> None:
    points = [*range(0x20, 0x250), *range(0x370, 0x400), *range(0x2000, 0x2070), 0x2260, 0x4E2D, 0x1F600]
    text = " ".join(chr(point) for point in points)
    compile_alone(render_table.latex(table_of([[Cell("1"), Cell("2")]], notes=(text,))), tmp_path)


OUTPUTS = ("csv", "tex", "markdown", "html", "intervals_tex", "intervals_markdown", "intervals_html")


def test_step_writes_both_styles_and_nothing_else(results: exhibits_study.Results, tmp_path: Path) -> None:
    results.paths(specifications.exhibit("qa_tiny", STUDY).artifacts(STUDY))
    study = results.folder / "study.json"
    study.write_text(STUDY.model_dump_json(), encoding="utf-8")
    outputs = {kind: tmp_path / "out" / kind for kind in OUTPUTS}
    run_job("table", {"name": "qa_tiny", "study": study} | outputs)
    assert {path.name for path in (tmp_path / "out").iterdir()} == set(outputs)
    built = build("qa_tiny", results)
    assert outputs["csv"].read_text(encoding="utf-8") == render_table.csv(built)
    for kind, render in {
        "tex": render_table.latex,
        "markdown": render_table.markdown,
        "html": render_table.html,
    }.items():
        assert outputs[kind].read_text(encoding="utf-8") == render(built)
        assert outputs[f"intervals_{kind}"].read_text(encoding="utf-8") == render(built.with_intervals())
        assert render(built) != render(built.with_intervals())


def test_figure_s_name_is_refused_by_the_table_step(results: exhibits_study.Results, tmp_path: Path) -> None:
    results.paths(specifications.exhibit("redundancy", STUDY).artifacts(STUDY))
    study = results.folder / "study.json"
    study.write_text(STUDY.model_dump_json(), encoding="utf-8")
    outputs = {kind: tmp_path / kind for kind in OUTPUTS}
    with pytest.raises(BeamUQError, match="'redundancy' is a figure"):
        run_job("table", {"name": "redundancy", "study": study} | outputs)
    assert not list(tmp_path.iterdir())
