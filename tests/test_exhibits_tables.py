"""Tables of a synthetic study and of hand-made frames: what is printed agrees with the CSV, in
every format.
"""

from __future__ import annotations

import csv
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import exhibits_study
from beamuq.evaluation.estimates import Estimates
from beamuq_study import parquet_tables
from beamuq_study.exhibits import table_formats
from beamuq_study.exhibits.exhibit import CSV_COLUMNS, Built, Row, Table, TableCell
from beamuq_study.exhibits.table_of_numbers import Column, table
from beamuq_study.parquet_tables import Artifact
from exhibits_study import Results
from test_escaping import TEXTS

STUDY = exhibits_study.study()
TABLES, RANKED = exhibits_study.labels("table"), exhibits_study.RANKED
PUBLISHED = Path(__file__).resolve().parents[1] / "workflow" / "paper_numbers" / "paper_values.csv"


@pytest.fixture(scope="module")
def built(results: Results) -> dict[str, Any]:
    return {name: results.built(name) for name in TABLES}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5432, ".543"),
        (-0.0961, "-.096"),
        (1.0, "1.000"),
        (-1.25, "-1.250"),
        (0.0, ".000"),
        (-0.0001, ".000"),
    ],
)
def test_decimals_have_no_zero_before_the_point_and_no_negative_zero(
    value: float, text: str
) -> None:
    assert table_formats.decimal(value) == text


def printed(estimates: Estimates, *columns: Column, **more: Any) -> Table:
    """A row a method; one with "-" in its name is a difference."""
    names = dict.fromkeys(estimates.frame["method"])
    rows = [Row((name,), {"method": name}, signed="-" in name) for name in names]
    return table(STUDY, estimates, ("Method",), rows, columns, **more)


@pytest.mark.parametrize(
    ("family", "marked"), [((), [True, True, False]), (("model",), [True, False, False])]
)
def test_a_difference_is_bold_by_its_interval_or_by_p_after_holm(
    family: tuple[str, ...], marked: list[bool]
) -> None:
    drawn = [np.full(200, 0.2), np.full(200, 0.2), np.full(200, 0.0)]
    for place, (below, of) in enumerate(zip((0, 4, 100), drawn, strict=True)):
        of += 0.01 * np.random.default_rng(place).random(200)
        of[:below] = -0.1
    rows = [{"method": f"{name} - x", "metric": "PRR", "value": 0.2, "n": 9} for name in "abc"]
    shown = printed(
        Estimates.from_rows(rows, drawn), Column({"metric": "PRR"}, ("Gain",)), family=family
    )
    assert [cell.mark == "best" for cell in shown.cells] == marked
    assert shown.facts["bold"] == f"{sum(marked)} of 3"
    p = [row["p_holm"] for row in shown.values]
    assert p == pytest.approx([3 * 2 / 201, 2 * 2 * 5 / 201, 1.0])
    assert all(cell.text == "+.200" and cell.spread.startswith("[") for cell in shown.cells)


def test_an_arrow_needs_a_strict_improvement_of_two_defined_values() -> None:
    pairs = {"a": (0.30, 0.31), "b": (0.1 + 0.2, 0.3), "c": (np.nan, 0.3), "d": (0.3, np.nan)}
    rows = [
        {
            "metric": "PRR",
            "method": name,
            "variant": variant,
            "value": value,
            "n": 9,
            "note": "all wrong",
        }
        for name, pair in pairs.items()
        for variant, value in zip(("multinomial", "beamsearch"), pair, strict=True)
    ]
    columns = [
        Column({"metric": "PRR", "variant": variant}, (variant,))
        for variant in ("multinomial", "beamsearch")
    ]
    estimates = Estimates.from_rows(rows, [np.full(200, row["value"]) for row in rows])
    shown = printed(estimates, *columns, arrows=True)
    assert [cell.better for cell in shown.cells] == [False, True, *[False] * 6]


def test_an_interval_of_its_own_is_printed_and_one_that_cannot_move_is_not() -> None:
    rows = [{"method": name, "metric": "PRR", "value": 0.0, "n": 9} for name in "ab"]
    own = Estimates.from_rows(
        [rows[0] | {"low": 0.0, "high": 0.1}, rows[1]], [np.zeros(9), np.zeros(9)]
    )
    shown = printed(own, Column({"metric": "PRR"}, ("x",), beside="interval"))
    assert [cell.spread for cell in shown.cells] == ["[.000, .100]", ""]


@pytest.mark.parametrize("name", TABLES)
def test_csv_has_the_published_columns_and_each_key_once(name: str, built: dict[str, Any]) -> None:
    with PUBLISHED.open(encoding="utf-8") as file:
        published = file.readline().strip().split(",")
    assert list(built[name].frame) == [*published, "low", "high", "n", "p_holm"]
    assert not built[name].frame.duplicated(list(CSV_COLUMNS[:7])).any()
    assert built[name].title.startswith("[demo]")
    for render in (table_formats.markdown, table_formats.latex_fragment, table_formats.html):
        assert render(built[name]).count("\n") > 5
    tex = re.sub(r"\\[{}]", "", table_formats.latex_fragment(built[name]))
    assert tex.startswith(f"% needs {table_formats.LATEX_PACKAGES}\n\\begin{{table}}")
    assert tex.count("{") == tex.count("}")


@pytest.mark.parametrize("name", [name for name in RANKED if not name.endswith("_1")])
def test_csv_holds_every_published_key_of_its_models(name: str, built: dict[str, Any]) -> None:
    """The synthetic study's models take the places of the paper's."""
    label = {"qa_tiny": "qa_gemma4b", "qa_tinychat": "qa_gemma4bit"}.get(name, name)
    keys = ["dataset", "metric", "method", "variant", "setting"]
    with PUBLISHED.open(encoding="utf-8", newline="") as file:
        published = {
            tuple(row[key] for key in keys)
            for row in csv.DictReader(file)
            if row["table"] == f"tab:{label}"
        }
    assert published
    assert published <= set(built[name].frame[keys].itertuples(index=False, name=None))


@pytest.mark.parametrize("name", RANKED)
def test_printed_are_the_rounded_values_of_the_csv_with_a_best_and_a_second_a_column(
    name: str, built: dict[str, Any]
) -> None:
    shown = [float(cell.text) for cell in built[name].shown.cells]
    values = built[name].frame["value"].to_numpy(dtype=float)
    assert len(shown) == len(values) > 20
    assert np.abs(np.sort(shown) - np.sort(values)).max() <= 0.0005 + 1e-9
    for column in zip(*(row.cells for row in built[name].shown.rows), strict=True):
        of = {
            mark: [float(cell.text) for cell in column if cell.mark == mark]
            for mark in ("best", "second", "")
        }
        assert min(of["best"]) >= max(of["second"]) >= min(of["second"]) >= max(of[""])


SOURCES = {  # the scorer, recipe, answers and metric that each table is of
    **dict.fromkeys(["qa_mean_prr", "qa_tiny", "qa_tinychat"], ("cosine", "main", "greedy", "PRR")),
    "qa_mean_prr_1": ("cosine", "main", "greedy", "PRR@1"),
    "topbeam_scoring": ("cosine", "main", "top_beam", "PRR"),
    "abl_rocauc": ("cosine", "main", "greedy", "ROC-AUC"),
    "abl_prauc": ("cosine", "main", "greedy", "PR-AUC"),
    "abl_other_methods": ("cosine", "main", "greedy", "PRR"),
    "abl_crossencoder": ("rouge", "main", "greedy", "PRR"),
    **dict.fromkeys(
        ["abl_sampling", "abl_normalization", "abl_ecc_params"],
        ("cosine", "strategies", "greedy", "PRR"),
    ),
}


@pytest.mark.parametrize("name", RANKED)
def test_every_row_is_the_measurement_that_it_names(
    name: str, built: dict[str, Any], results: Results
) -> None:
    """Value, ±, interval and n, looked up in the evaluation's files; a mean's in its datasets'
    replicates.
    """
    scorer, recipe, answer_source, metric = SOURCES[name]

    @cache
    def stored(kind: str, model: str, dataset: str) -> dict[tuple[str, ...], dict[str, Any]]:
        (path,) = results.paths([Artifact(kind, dataset, model, recipe, scorer)])
        columns = ("answer_source", "metric", "method", "variant", "setting")
        rows = parquet_tables.read(path, kind).table.to_pylist()
        chosen = [row for row in rows if (row["quality"], row["subset"]) == ("answer_f1", "all")]
        return {tuple(row[c] for c in columns): row for row in chosen}

    for row in built[name].frame.to_dict("records"):
        method, setting = row["method"], row["setting"].replace("multinomial", "sample")
        variant = row["variant"] or ("multinomial" if method in exhibits_study.BOTH_FORMS else "")
        key = (
            answer_source,
            metric,
            method,
            variant,
            "" if setting in ("beam", "sample T=1.0") else setting,
        )
        datasets = exhibits_study.DATASETS if row["dataset"] == "mean" else [row["dataset"]]
        found = [stored("evaluation", row["model"], dataset)[key] for dataset in datasets]
        expected = [found[0][column] for column in ("value", "std", "low", "high", "n")]
        if row["dataset"] == "mean":
            resamples = np.mean(
                [stored("replicates", row["model"], d)[key]["values"] for d in datasets], axis=0
            )
            spread = [resamples.std(ddof=1), *np.quantile(resamples, [0.025, 0.975])]
            expected = [np.mean([f["value"] for f in found]), *spread, sum(f["n"] for f in found)]
        assert row["metric"] == metric
        assert [row[column] for column in ("value", "std", "low", "high", "n")] == pytest.approx(
            expected, abs=1e-6
        )


def test_an_undefined_value_leaves_the_mean_undefined_and_both_say_why(tmp_path: Path) -> None:
    results = Results(tmp_path, STUDY)
    lost = {
        "value": None,
        "low": None,
        "high": None,
        "std": None,
        "note": "one quality & no <rank>",
    }
    of_coqa = Artifact("evaluation", "coqa", exhibits_study.BASE, "main", "cosine")
    exhibits_study.rewrite(
        results, of_coqa, lambda row: row | (lost if row["method"] == "MTE" else {})
    )
    shown, means = results.built("qa_tiny"), results.built("qa_mean_prr")
    assert "Without a value or an interval: one quality & no <rank>" in shown.caption
    assert '<td title="one quality &amp; no &lt;rank&gt;">n/a</td>' in table_formats.html(shown)
    assert re.search(r"\| MTE \|.* n/a \|.* n/a \|", table_formats.markdown(shown))
    values = means.frame.set_index(["model", "method"])["value"]
    assert np.isnan(values[exhibits_study.BASE, "MTE"])
    assert "PRR is undefined on CoQA: one quality" in table_formats.html(means)


def test_dataset_sizes_are_those_of_the_files(built: dict[str, Any]) -> None:
    values = built["test_datasets"].frame.set_index(["metric", "dataset"])["value"]
    assert values["questions", "coqa"] == exhibits_study.SIZE["main"]
    assert [values["few_shot", of] for of in ("coqa", "hotpotqa", "triviaqa")] == [
        "all preceding",
        0,
        5,
    ]
    assert values["max_new_tokens", "triviaqa"] == 20


def test_of_a_dataset_those_questions_count_that_a_cell_asks(tmp_path: Path) -> None:
    grid = [entry | {"questions": 6} for entry in exhibits_study.CONTENT["grid"]]
    cut = exhibits_study.study(grid=grid)
    values = Results(tmp_path, cut).built("test_datasets").frame.set_index("metric")
    assert set(values.loc["questions", "value"]) == {6}


def test_other_readings_stay_out_of_the_main_table_and_exact_weights_stand_beside_the_printed_ones(
    built: dict[str, Any],
) -> None:
    titles = [row.titles[0] for row in built["qa_tiny"].shown.rows]
    assert (titles.count("Semantic Entropy"), titles.count("Degree Matrix")) == (1, 0)
    settings = set(built["abl_sampling"].frame["setting"])
    assert {"multinomial T=0.7", "multinomial T=0.7 exact"} <= settings
    assert "multinomial T=1.0 exact" not in settings


def of_cells(*cells: TableCell, titles: tuple[str, ...] = ("a", "b"), **changes: Any) -> Built:
    table = Table([{"value": 0.5}], ("",), [titles], [Row(("x",), cells=cells)])
    fields: dict[str, Any] = {
        "label": "t",
        "title": "T",
        "caption": "C",
        "footnote": "",
        "shown": table,
    }
    return Built(**(fields | changes))


def test_marks_and_arrow_in_each_format() -> None:
    second = TableCell("-.096", mark="second", pointer="[-.1, .2] n = 3")
    shown = of_cells(TableCell(".543", "± .019", "best", better=True), second)
    tex = r"\textbf{.543} $\uparrow$ {\scriptsize ± .019} & \underline{$-$.096}"
    assert tex in table_formats.latex_fragment(shown)
    assert "| x | **.543** ↑ ± .019 | <u>-.096</u> |" in table_formats.markdown(shown)
    html = (
        '<td><b>.543</b> ↑ <small>± .019</small></td><td title="[-.1, .2] n = 3"><u>-.096</u></td>'
    )
    assert html in table_formats.html(shown)


HOSTILE = (
    r"\input{x} {a} $1 & #2 % 3_4 ~ ^ <b>|</b> `--` 'q' \"r\" é 中 α | *x* [y](z) \\ \end{document}"
)


def test_hostile_text_is_text_in_each_format() -> None:
    """As test_escaping.py has it of single texts."""
    cells = (
        TableCell(HOSTILE),
        TableCell(HOSTILE + "\n\n" + HOSTILE, code=True),
        TableCell("n/a", pointer=HOSTILE),
    )
    header = ((HOSTILE, HOSTILE, "c"), ("a", HOSTILE, "\x00"))
    table = Table([], (HOSTILE,), header, [Row((HOSTILE,), {}, HOSTILE, cells=cells)])
    shown = of_cells(title=HOSTILE, caption=HOSTILE, shown=table, study=HOSTILE)
    lines = [line for line in table_formats.markdown(shown).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert all("<b>" not in line and "](" not in line.replace("\\](", "") for line in lines)
    own = {"html", "head", "meta", "title", "style", "body", "nav", "a", "h1", "p", "div", "small"}
    own |= {"table", "thead", "tbody", "tr", "th", "td", "footer"}
    assert set(re.findall(r"<(\w+)", table_formats.html(shown))) <= own
    tex = table_formats.latex_fragment(shown)
    assert r"\texttt{U+4E2D}" in tex
    assert not re.search(r"\\end\{document\}|\\input", tex)


DOCUMENT = r"""\documentclass{article}
\usepackage[T1]{fontenc}\usepackage[utf8]{inputenc}
PACKAGES
\begin{document}
TABLES
\end{document}
""".replace("PACKAGES", table_formats.LATEX_PACKAGES)


@pytest.mark.latex
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_every_table_compiles_in_a_document_and_so_does_every_character_a_question_may_hold(
    built: dict[str, Any], tmp_path: Path
) -> None:
    points = [
        *range(0x20, 0x250),
        *range(0x370, 0x400),
        *range(0x2000, 0x2070),
        0x2260,
        0x4E2D,
        0x1F600,
    ]
    text = " ".join([*map(chr, points), *(of[:60] for of in TEXTS)])
    hostile = of_cells(
        TableCell(text), TableCell(HOSTILE, code=True), title=HOSTILE, caption=HOSTILE
    )
    for name, of in (built | {"hostile": hostile}).items():
        (tmp_path / f"{name}.tex").write_text(table_formats.latex_fragment(of), encoding="utf-8")
    # the log of a table that fails ends with its name: each is laid out before the next is read
    tables = "\n".join(
        rf"\typeout{{table {name}}}\input{{{name}}}\clearpage" for name in (*built, "hostile")
    )
    (tmp_path / "document.tex").write_text(DOCUMENT.replace("TABLES", tables), encoding="utf-8")
    command = [
        "pdflatex",
        "-interaction=nonstopmode",
        "-halt-on-error",
        "-no-shell-escape",
        "document.tex",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False, timeout=120)
    log = done.stdout.decode("latin-1")
    assert done.returncode == 0, f"{re.findall('^table .*', log, re.MULTILINE)[-1]}\n{log[-1500:]}"
    assert log.count("table ") > len(TABLES)
