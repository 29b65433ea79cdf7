"""The numbers of the paper beside ours: a simulated run of its study, its statuses, families of
tests and page.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import false_discovery_control

from beamuq.errors import BeamUQError
from beamuq.evaluation.bootstrap import resample_blocks
from beamuq.evaluation.prr_and_auc import Judged, measure_blocks
from beamuq_study import parquet_tables
from beamuq_study.comparison import (
    beams_minus_samples,
    comparison_page,
    mean_differences,
    number_statuses,
)
from beamuq_study.comparison.beams_minus_samples import CELLS, HEADLINE, tally
from beamuq_study.comparison.claims.asked_claims import needed_files
from beamuq_study.comparison.claims.judged_claims import judge_claims
from beamuq_study.comparison.comparison_inputs import ComparisonInputs, read_errata
from beamuq_study.comparison.comparison_page import compare_with_paper
from beamuq_study.comparison.number_statuses import DIFFERS, NOT_SHOWN, ComparedNumbers
from beamuq_study.html_pages import Drawing
from beamuq_study.result_files import Inputs
from run_job import run_job
from simulated_paper_run import NUMBERS, RESAMPLES, RULES, one_model, read, study, write

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the whole study: our numbers drawn around those of the paper."""
    made = tmp_path_factory.mktemp("results")
    write(study(), made)
    return made


@pytest.fixture(scope="module")
def replication(folder: Path) -> ComparisonInputs:
    return read(study(), folder)


@pytest.fixture(scope="module")
def beside_paper(replication: ComparisonInputs) -> ComparedNumbers:
    return number_statuses.compare(replication, read_errata())


@pytest.fixture(scope="module")
def every(beside_paper: ComparedNumbers) -> pd.DataFrame:
    return beside_paper.frame


@pytest.fixture(scope="module")
def numbers(every: pd.DataFrame) -> pd.DataFrame:
    return every[every["formulation"] == ""]


@pytest.fixture(scope="module")
def differences(replication: ComparisonInputs) -> pd.DataFrame:
    return beams_minus_samples.differences(replication)


def compared(results: ComparisonInputs) -> pd.DataFrame:
    every = number_statuses.compare(results, read_errata()).frame
    return every[every["formulation"] == ""]


def mean_differences_by_table(results: ComparisonInputs) -> pd.DataFrame:
    """The tests of mean differences, by table."""
    tests = mean_differences.tests_of_tables(
        number_statuses.compare(results, read_errata()), results
    )
    return tests.set_index("table")


def simulated(
    folder: Path, *datasets: str, shift: float = 0.0, questions: int | None = None
) -> ComparisonInputs:
    of = one_model(*datasets, questions=questions)
    write(of, folder, shift)
    return read(of, folder)


def of_cell(
    frame: pd.DataFrame, table: str, dataset: str, method: str = "", variant: str = ""
) -> pd.Series:
    """The row of a table about one model."""
    keys = {"table": f"tab:{table}", "dataset": dataset, "method": method, "variant": variant}
    rows = frame[np.logical_and.reduce([frame[name] == value for name, value in keys.items()])]
    assert len(rows) == 1
    return rows.iloc[0]


def rewrite(path: Path, kind: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Change every row of a file."""
    loaded = parquet_tables.read(path, kind)
    parquet_tables.write(
        path, kind, [row | change(row) for row in loaded.table.to_pylist()], cell=loaded.cell
    )


def random_prr(row: dict[str, Any]) -> np.ndarray[Any, Any]:
    """PRR of a row's method, then of its resamples, where scores and quality are of chance."""
    quality = (np.random.default_rng(0).random(447) < 1 / 12).astype(float)
    seed = zlib.crc32(f"{row['method']} {row['variant']}".encode())
    scores = np.random.default_rng(seed).normal(size=447)
    blocks = resample_blocks([f"{i}" for i in range(447)], RESAMPLES, 0, "arc-challenge")
    measured = measure_blocks([scores], [Judged(quality)], blocks, ["PRR"])
    return measured[0][0]["PRR"]


def random_value(row: dict[str, Any]) -> dict[str, Any]:
    value, *drawn = random_prr(row)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return {"value": value, "low": low, "high": high, "std": np.std(drawn)}


def random_replicates(row: dict[str, Any]) -> dict[str, Any]:
    return {"values": random_prr(row)[1:].astype(np.float32)}


def test_every_number_of_the_paper_gets_a_status_in_its_place(numbers: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(numbers[list(NUMBERS)], NUMBERS)
    assert set(numbers["status"]) <= set(RULES.statuses)


def test_replications_of_one_truth_differ_in_5_percent_of_cells_and_shifted_ones_in_most(
    numbers: pd.DataFrame, tmp_path: Path
) -> None:
    decided = numbers[numbers["status"].isin([NOT_SHOWN, DIFFERS])]
    assert len(decided) == 1923  # all but 3 errata and 32 of an arbitrary setting
    assert (decided["status"] == NOT_SHOWN).mean() == pytest.approx(0.95, abs=0.02)
    shifted = compared(simulated(tmp_path, "coqa", shift=0.25))
    shifted = shifted[
        shifted["status"].isin([NOT_SHOWN, DIFFERS]) & (shifted["metric"] != "accuracy")
    ]
    assert (shifted["status"] == NOT_SHOWN).mean() < 0.1


def test_a_replication_of_one_truth_differs_in_no_table(
    beside_paper: ComparedNumbers, replication: ComparisonInputs
) -> None:
    tests = mean_differences.tests_of_tables(beside_paper, replication)
    assert list(tests["table"]) == ["all", *NUMBERS["table"].unique()]
    assert set(tests["status"]) == {NOT_SHOWN}
    assert tests["numbers"].iloc[0] == tests["numbers"].iloc[1:].sum() == 1923
    assert tests.set_index("table")["n"]["tab:qa_gemma4b"] == 9158  # and so of a table of means
    assert tests.set_index("table")["n"]["tab:qa_mean_prr"] == 9158


def test_a_shift_of_every_number_by_three_hundredths_is_shown_by_the_table_of_means(
    replication: ComparisonInputs,
) -> None:
    lower = NUMBERS.assign(printed=NUMBERS["printed"] - 0.03)
    compared_numbers = number_statuses.compare(
        replace(replication, paper_numbers=lower), read_errata()
    )
    tests = mean_differences.tests_of_tables(compared_numbers, replication).set_index("table")
    means = tests.loc["tab:qa_mean_prr"]
    assert means["status"] == DIFFERS
    assert means["difference"] == pytest.approx(0.03, abs=0.01)
    assert means["low"] > 0
    assert means["adjusted"] < RULES.limits["level"]
    of_means = compared_numbers.frame.query("table == 'tab:qa_mean_prr' and formulation == ''")
    assert (of_means["status"] == NOT_SHOWN).sum() > 60  # of 120: single numbers do not show it


def test_a_shift_of_every_number_of_one_model_is_shown_by_all_tables_together(
    tmp_path: Path,
) -> None:
    """Ours are the printed numbers + .03, without noise: hardly one is shown to differ."""
    results = simulated(tmp_path)
    printed = number_statuses.compare(results, read_errata()).frame
    is_own = printed["formulation"] == ""
    ours = printed.loc[is_own, "value"].fillna(printed["printed"])
    numbers = replace(results, paper_numbers=NUMBERS.assign(printed=ours - 0.03))
    compared_numbers = number_statuses.compare(numbers, read_errata())
    own = compared_numbers.frame[compared_numbers.frame["formulation"] == ""]
    assert own["status"].isin([DIFFERS, NOT_SHOWN]).sum() == 555
    assert (own["status"] == DIFFERS).sum() < 20
    tests = mean_differences.tests_of_tables(compared_numbers, numbers)
    assert tests["table"].iloc[0] == "all"
    assert tests["status"].iloc[0] == DIFFERS
    assert tests["p"].iloc[0] == tests["adjusted"].iloc[0] < RULES.limits["level"]


def test_a_table_s_test_says_what_it_could_have_seen(tmp_path: Path) -> None:
    """One model's tables cannot show a shift of .03, and say so."""
    tests = mean_differences_by_table(simulated(tmp_path, "coqa", shift=0.03))
    row = tests.loc["tab:qa_gemma4b"]
    assert row["status"] == NOT_SHOWN
    assert row["detectable"] == pytest.approx(2.8 * row["std"], rel=0.01)
    assert row["detectable"] > 0.03


def test_a_random_model_is_shown_to_differ_where_its_single_numbers_are_not(
    tmp_path: Path,
) -> None:
    """Scores and quality of chance, one answer in twelve right, beside the lowest of ARC's."""
    entry = {
        "recipe": "main",
        "models": ["gemma-3-4b-instruct"],
        "datasets": ["arc-challenge"],
        "scorers": ["nli"],
    }
    random_model = study(grid=[entry])
    write(random_model, tmp_path)
    for kind, change in (("evaluation", random_value), ("replicates", random_replicates)):
        path = tmp_path / kind / "nli/gemma-3-4b-instruct/arc-challenge/main.parquet"
        rewrite(path, kind, change)
    numbers = compared(read(random_model, tmp_path))
    of_table = numbers[numbers["table"] == "tab:qa_gemma4bit"].dropna(subset="z")
    assert (of_table["status"] == NOT_SHOWN).mean() > 0.5
    tests = mean_differences_by_table(read(random_model, tmp_path))
    assert tests["status"]["tab:qa_gemma4bit"] == DIFFERS


@pytest.mark.parametrize(
    ("table", "trusted"), [("qa_gemma4bit", False), ("abl_prauc", False), ("qa_llama8b", True)]
)
def test_z_replaces_a_doubtful_or_absent_spread_by_ours(
    numbers: pd.DataFrame, table: str, trusted: bool
) -> None:
    row = of_cell(numbers, table, "coqa", "Prob")
    other = row["printed_std"] if trusted else row["std"]
    assert row["z"] == pytest.approx((row["value"] - row["printed"]) / np.hypot(row["std"], other))


def test_a_fixed_k_that_cuts_equal_eigenvalues_and_wrong_means_are_compared_with_no_run(
    numbers: pd.DataFrame,
) -> None:
    fixed = numbers[numbers["setting"].str.startswith("K=")]
    arbitrary = fixed["reason"].str.contains("chose among equal eigenvalues")
    assert set(fixed[arbitrary]["setting"]) == {"K=7", "K=8", "K=9", "K=10"}
    assert list(fixed[arbitrary]["status"]) == ["not comparable"] * 32
    assert set(fixed[~arbitrary]["status"]) <= {NOT_SHOWN, DIFFERS}
    errata = numbers[numbers["status"] == "errata"]
    assert sorted(errata["table"]) == ["tab:abl_other_methods", "tab:abl_prauc", "tab:abl_rocauc"]
    assert set(errata["reason"]) == {"means"}


def test_a_study_whose_grid_lacks_the_main_recipe_has_no_test_of_beams_against_samples(
    replication: ComparisonInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    families = beams_minus_samples.Families(("Dissimilarity",), {}, [])
    monkeypatch.setattr(beams_minus_samples, "_families", lambda _: families)
    assert beams_minus_samples.differences(replication).empty


def test_a_partial_run_says_what_was_not_run(folder: Path) -> None:
    left_out = (
        "coqa",
        "crossencoder",
        "repeated_draws",
        "beam_widths",
        "strategies",
        "candidates",
        "scores",
    )
    partial = read(study(), folder, left_out)
    found, families = compared(partial), beams_minus_samples.differences(partial)
    run = found[found["status"] != "not run"]
    assert not set(run["dataset"]) & {"coqa", "mean"}
    assert "tab:qa_gemma4b" in set(run["table"])
    assert not set(run["table"]) & {"tab:abl_crossencoder", "tab:abl_sampling", "tab:qa_mean_prr"}
    assert all("coqa" in reason for reason in found[found["dataset"] == "coqa"]["reason"])
    assert set(families[families["family"] == HEADLINE]["note"]) == {"not run: coqa"}
    assert tally(families, CELLS)["run"] == 150
    outcomes = judge_claims(partial).groupby("id")["outcome"].unique()
    for name in (
        "mass-condition",
        "every-budget",
        "short-answers",
        "strategies-yield",
        "smaller-error",
    ):
        assert list(outcomes[name]) == ["not asked"]


@pytest.mark.parametrize(
    ("questions", "status"), [(1799, {"not comparable"}), (1800, {NOT_SHOWN, DIFFERS})]
)
def test_too_few_questions_are_not_comparable(
    tmp_path: Path, questions: int, status: set[str]
) -> None:
    found = compared(simulated(tmp_path, "coqa", questions=questions))
    reached = found[(found["table"] == "tab:qa_gemma4b") & (found["dataset"] == "coqa")]
    assert set(reached["status"]) <= status
    if questions == 1799:
        assert set(reached["reason"]) == {"1799 questions of coqa, the paper has 2000"}


def test_twenty_questions_decide_no_claim_but_the_theorem(tmp_path: Path) -> None:
    judged = judge_claims(simulated(tmp_path, questions=20))
    assert set(judged.loc[~judged["outcome"].isin(["not asked", "too few"]), "id"]) == {"theorem"}
    assert (
        judged.set_index("id")["found"]["mass-condition"]
        == "20 questions of triviaqa; 50 are asked for"
    )


def test_an_undefined_value_is_not_comparable(tmp_path: Path) -> None:
    simulated(tmp_path, "coqa")
    nothing = {
        "value": None,
        "low": None,
        "high": None,
        "std": None,
        "note": "undefined: every answer is correct",
    }
    path = tmp_path / "evaluation/nli/gemma-3-4b-base/coqa/main.parquet"
    rewrite(path, "evaluation", lambda row: nothing if row["method"] == "Prob" else {})
    row = of_cell(compared(read(one_model("coqa"), tmp_path)), "qa_gemma4b", "coqa", "Prob")
    assert (row["status"], row["reason"]) == (
        "not comparable",
        "undefined: every answer is correct",
    )


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_answers_that_are_all_wrong_or_all_right_differ_from_the_paper(
    tmp_path: Path, right: float
) -> None:
    """Their own spread is 0: a broken cell must not hide behind a z that does not exist."""
    simulated(tmp_path, "arc-challenge")
    path = tmp_path / "quality/alignscore/gemma-3-4b-base/arc-challenge/main.parquet"
    rewrite(path, "quality", lambda _: {"value": right})
    found = compared(read(one_model("arc-challenge"), tmp_path))
    row = found[(found["table"] == "tab:base_accs") & found["value"].notna()].iloc[0]
    assert (row["value"], row["status"]) == (right, DIFFERS)
    wilson = 1.96**2 / (447 + 1.96**2)  # its width at 0 and at 1
    assert row["std"] == pytest.approx(wilson / (2 * 1.96), rel=1e-3)


def test_semantic_entropy_is_compared_in_all_three_forms(every: pd.DataFrame) -> None:
    found = every[(every["method"] == "SemanticEntropy") & (every["variant"] != "beamsearch")]
    assert found["formulation"].value_counts().to_dict() == dict.fromkeys(
        number_statuses.FORMULATIONS, 69
    )
    not_shown = found[found["status"] == NOT_SHOWN]["formulation"].value_counts()
    assert not_shown[""] > 60
    assert not_shown.get("printed", 0) < 5  # simulated .3 below


def test_differences_are_paired(numbers: pd.DataFrame, differences: pd.DataFrame) -> None:
    row = differences.query(
        "model == 'llama-3.1-8b-base' and dataset == 'coqa' and method == 'CocoaMSP'"
    )
    pair = [
        of_cell(numbers, "qa_llama8b", "coqa", "CocoaMSP", v)["std"]
        for v in ("multinomial", "beamsearch")
    ]
    # the simulation shares half of each variance: √((a² + b²)/2 + (a − b)²/2) and not √(a² + b²)
    expected = np.sqrt((np.sum(np.square(pair)) + (pair[0] - pair[1]) ** 2) / 2)
    assert row["std"].iloc[0] == pytest.approx(expected, rel=0.2)
    assert row["std"].iloc[0] < 0.85 * np.hypot(*pair)


def test_families_are_those_declared_and_a_tie_is_no_win(differences: pd.DataFrame) -> None:
    assert differences.groupby("family").size().to_dict() == {"cells": 180, "headline": 30}
    found = tally(differences, CELLS)
    assert (found["wins"], found["ties"], found["losses"]) == (126, 0, 54)
    worst = differences.loc[differences["difference"].idxmin()]
    assert found["worst"] == f"{worst['method']} {worst['model']} {worst['dataset']}"
    tied = tally(differences.assign(difference=1e-17, significant=True), HEADLINE)
    assert [tied[name] for name in ("wins", "ties", "losses", "significant_wins")] == [0, 30, 0, 0]


def test_families_do_not_shrink_with_the_study(folder: Path) -> None:
    headline = beams_minus_samples.differences(read(one_model(), folder)).query(
        "family == @HEADLINE"
    )
    assert len(headline) == 5
    assert headline["adjusted"].min() == pytest.approx(min(1.0, 30 * headline["p"].min()))
    content = study().model_dump(mode="json")
    few = {name: content["datasets"][name] for name in ("triviaqa", "coqa")}
    entry = {
        "recipe": "main",
        "models": list(content["models"]),
        "datasets": list(few),
        "scorers": ["nli"],
    }
    results = read(study(datasets=few, grid=[entry]), folder)
    found = beams_minus_samples.differences(results)
    assert found.groupby("family").size().to_dict() == {"cells": 180, "headline": 30}
    headline, cells = (found[found["family"] == family] for family in (HEADLINE, CELLS))
    assert headline["p"].isna().all()
    assert set(headline["note"]) == {
        "not run: webquestions, hotpotqa, commonsenseqa, arc-challenge"
    }
    assert cells["p"].notna().sum() == 60
    filled, run = (
        false_discovery_control(cells["p"].fillna(1.0), method="bh"),
        cells["p"].notna().to_numpy(),
    )
    assert cells["adjusted"].to_numpy()[run] == pytest.approx(filled[run])
    drawn = beams_minus_samples.figure(results, found).shown.draw("title", "")  # type: ignore[union-attr]
    assert "n/a" in [text.get_text() for axes in drawn.axes for text in axes.texts]


def test_the_family_of_one_s_own_models_has_the_cells_of_the_grid(folder: Path) -> None:
    """files of a model of the paper, read as those of two models of one's own, one of which has
    fewer datasets.
    """
    content, methods = study().model_dump(mode="json"), RULES.families.methods
    model = content["models"]["gemma-3-4b-base"]
    few = {name: content["datasets"][name] for name in ("triviaqa", "coqa")}
    entries = [
        {"recipe": "main", "models": [name], "datasets": datasets, "scorers": ["nli"]}
        for name, datasets in (("mine", ["triviaqa", "coqa"]), ("second", ["coqa"]))
    ]
    of = study(
        models={name: model | {"label": name} for name in ("mine", "second")},
        datasets=few,
        grid=entries,
    )
    loaded = {}
    for need in needed_files(of):
        if need.kind in ("evaluation", "replicates"):
            source = folder / need.path.replace("mine", "gemma-3-4b-base").replace(
                "second", "gemma-3-4b-base"
            )
            loaded[need] = parquet_tables.read(source, need.kind)
    found = beams_minus_samples.differences(
        ComparisonInputs(of, Inputs(loaded, of), NUMBERS, RULES)
    )
    assert len(found) == len(methods) * (2 + 3)  # two means, three cells
    headline, cells = (found[found["family"] == family] for family in (HEADLINE, CELLS))
    assert headline["adjusted"].min() == pytest.approx(
        min(1.0, 2 * len(methods) * headline["p"].min())
    )
    assert cells["adjusted"].to_numpy() == pytest.approx(
        false_discovery_control(cells["p"], method="bh")
    )
    means = found[found["family"] == HEADLINE].groupby("model")["note"].unique()
    assert {name: list(notes) for name, notes in means.items()} == {
        "mine": [""],
        "second": ["of coqa alone"],
    }


def test_a_demo_is_not_comparable_on_every_line(folder: Path) -> None:
    scorers = study().model_dump(mode="json")["scorers"]
    scorers["nli"]["proxy_for"] = "another scorer"
    demo = read(one_model(demo=True, scorers=scorers), folder)
    beside_paper = number_statuses.compare(demo, read_errata())
    assert mean_differences.tests_of_tables(beside_paper, demo).empty
    frame = beside_paper.frame
    assert set(zip(frame["status"], frame["reason"], strict=True)) == {
        ("not comparable", "demo study")
    }
    assert set(judge_claims(demo)["found"]) == {"a demo"}
    figure = beams_minus_samples.figure(demo, beams_minus_samples.differences(demo))
    assert "proxy for another scorer" in figure.footnote
    assert "[demo]" in figure.title


def test_files_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BeamUQError, match="no such file"):
        compare_with_paper(one_model(), tmp_path / "study.json", tmp_path)


def test_the_step_writes_every_file_and_the_same_results_give_the_same_bytes(
    tmp_path: Path, folder: Path
) -> None:
    of, out = folder / "study.json", tmp_path / "out"
    of.write_text(one_model().model_dump_json(), encoding="utf-8")
    figure = {f"forest_{kind}": out / f"paired.{kind}" for kind in ("pdf", "svg", "png", "csv")}
    figure["forest_caption"] = out / "paired.txt"
    names = ("csv", "mean_differences", "claims", "html")
    run_job(
        "comparison",
        {"study": of} | {name: out / name for name in names} | figure,
    )
    assert all(path.is_file() for path in figure.values())
    again = comparison_page.contents(
        compare_with_paper(one_model(), of, folder), Drawing.read(out / "paired.svg")
    )
    assert again == {name: (out / name).read_text(encoding="utf-8") for name in names}
    assert re.findall(r'src="(.{18})', again["html"]) == ["data:image/svg+xml"]
    assert not re.search(r"<(?:script|link|iframe)\b", again["html"])
    assert len(pd.read_csv(out / "csv")) == 1958 + 2 * 69


@pytest.mark.parametrize("is_compared", [True, False])
def test_of_numbers_of_which_none_is_compared_the_page_has_one_sentence(
    folder: Path, tmp_path: Path, *, is_compared: bool
) -> None:
    of = folder / "study.json"
    of.write_text(one_model().model_dump_json(), encoding="utf-8")
    comparison = compare_with_paper(one_model(), of, folder)
    status = number_statuses.DIFFERS if is_compared else "not comparable"
    numbers = comparison.numbers.assign(status=status, detectable=0.1)
    tables = comparison.tables if is_compared else comparison.tables[:0]
    (svg := tmp_path / "paired.svg").write_text("<svg><title>t</title></svg>")
    svg.with_suffix(".txt").write_text("t. What it shows.")
    changed = replace(comparison, numbers=numbers, tables=tables)
    page = comparison_page.html(changed, Drawing.read(svg))
    assert ("<p>None of the 1,958 can be compared;" in page) == (not is_compared)
    assert ("<summary>tab:qa_mean_prr: 120 differs" in page) == is_compared
    assert ("z = difference" in page) == is_compared
    assert page.count("<footer>") == 1
