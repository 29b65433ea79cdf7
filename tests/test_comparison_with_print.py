"""A run against print: statuses, partial runs, demos, paired differences, claims, and what the step writes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import false_discovery_control

from beamuq import parquet_tables
from beamuq.comparison import beam_minus_multinomial, comparison_page, number_statuses, paired_forest_plot
from beamuq.comparison.beam_minus_multinomial import CELLS, HEADLINE, tally
from beamuq.comparison.claim_verdicts import ClaimVerdict, within
from beamuq.comparison.compare_with_print import compare_with_print, compared
from beamuq.comparison.comparison_page import Comparison
from beamuq.comparison.files_held_against_print import needed_files
from beamuq.comparison.measured_results import mean_and_std
from beamuq.errors import BeamUQError
from run_job import run_job
from simulated_paper_run import PRINTED, RULES, one_model, read, results, study, write

pytestmark = pytest.mark.slow

PROVENANCE = {"study": "0"}


@pytest.fixture(scope="module")
def printed_again(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with results of the whole study: our numbers drawn from the printed ones."""
    folder = tmp_path_factory.mktemp("results")
    write(study(), folder, needed_files(study()))
    return folder


@pytest.fixture(scope="module")
def replication(printed_again: Path) -> Comparison:
    return compared(read(study(), printed_again), PROVENANCE)


def cell(frame: pd.DataFrame, table: str, dataset: str, method: str, variant: str = "") -> dict[str, float]:
    """The numbers of one row of a table about one model."""
    of = {"table": f"tab:{table}", "dataset": dataset, "method": method, "variant": variant}
    row = frame[np.logical_and.reduce([frame[name] == value for name, value in of.items()])]
    assert len(row) == 1
    return {name: float(row[name].iloc[0]) for name in ("printed", "printed_std", "value", "std", "z")}


def test_every_printed_number_gets_a_status_in_its_place(replication: Comparison) -> None:
    cells = replication.cells
    assert list(cells["printed"]) == [row.value for row in PRINTED]
    assert [*zip(*(cells[c] for c in cells.columns[:7]), strict=True)] == [tuple(row.key) for row in PRINTED]
    assert set(cells["status"]) <= set(number_statuses.STATUSES)


def test_replications_of_one_truth_agree_in_95_percent_of_cells(replication: Comparison) -> None:
    decided = replication.cells[replication.cells["status"].isin(["agrees", "differs"])]
    assert len(decided) == 1923  # all but 3 errata and 32 of an arbitrary setting
    assert (decided["status"] == "agrees").mean() == pytest.approx(0.95, abs=0.02)
    count, chance = number_statuses.expected_to_differ(replication.cells, RULES)
    assert count == 1923  # all but 3 errata and 32 of an arbitrary setting
    assert chance == pytest.approx(0.0455 * 1923, rel=1e-3)


def test_shifted_replications_do_not_agree(tmp_path: Path) -> None:
    found = compared(results(one_model(), tmp_path, shift=0.25), PROVENANCE).cells
    decided = found[found["status"].isin(["agrees", "differs"]) & (found["metric"] != "accuracy")]
    assert (decided["status"] == "agrees").mean() < 0.1


@pytest.mark.parametrize(("table", "trusted"), [("qa_gemma4bit", False), ("abl_prauc", False), ("qa_llama8b", True)])
def test_z_replaces_a_doubtful_or_absent_spread_by_ours(replication: Comparison, table: str, trusted: bool) -> None:
    row = cell(replication.cells, table, "coqa", "Prob")
    other = row["printed_std"] if trusted else row["std"]
    assert row["z"] == pytest.approx((row["value"] - row["printed"]) / np.hypot(row["std"], other))


def test_numbers_of_a_fixed_k_that_cuts_equal_eigenvalues_are_held_against_no_run(replication: Comparison) -> None:
    cells = replication.cells[replication.cells["setting"].str.startswith("K=")]
    arbitrary = cells["reason"].str.contains("chose among equal eigenvalues")
    assert set(cells[arbitrary]["setting"]) == {"K=7", "K=8", "K=9", "K=10"}
    assert list(cells[arbitrary]["status"]) == ["not comparable"] * 32
    assert set(cells[~arbitrary]["status"]) <= {"agrees", "differs"}


def test_the_wrong_means_are_errata_and_not_held_against_us(replication: Comparison) -> None:
    found = replication.cells[replication.cells["status"] == "errata"]
    assert sorted(found["table"]) == ["tab:abl_other_methods", "tab:abl_prauc", "tab:abl_rocauc"]
    assert set(found["reason"]) == {"means"}


def test_a_partial_run_says_what_was_not_run(printed_again: Path) -> None:
    without = ("coqa", "crossencoder", "pool", "widths", "strategies", "candidates", "scores")
    found = compared(read(study(), printed_again, without), PROVENANCE)
    run = found.cells[found.cells["status"] != "not run"]
    assert not set(run["dataset"]) & {"coqa", "mean"}
    assert "tab:qa_gemma4b" in set(run["table"])
    assert not set(run["table"]) & {"tab:abl_crossencoder", "tab:abl_sampling", "tab:qa_mean_prr"}
    assert all("coqa" in r for r in found.cells[found.cells["dataset"] == "coqa"]["reason"])
    headline = found.differences[found.differences["family"] == HEADLINE]
    assert set(headline["note"]) == {"not run: coqa"}
    assert tally(found.differences, CELLS)["run"] == 150
    by_id = found.claims.set_index("id")["status"]
    for name in ("mass-condition", "every-budget", "short-answers", "strategies-yield", "reduced-variance"):
        assert by_id[name] == "not run"


@pytest.mark.parametrize(("questions", "status"), [(1799, {"not comparable"}), (1800, {"agrees", "differs"})])
def test_too_few_questions_are_not_comparable(tmp_path: Path, questions: int, status: set[str]) -> None:
    found = compared(results(one_model("coqa", questions=questions), tmp_path), PROVENANCE).cells
    reached = found[(found["table"] == "tab:qa_gemma4b") & (found["dataset"] == "coqa")]
    assert set(reached["status"]) <= status
    if questions == 1799:
        assert set(reached["reason"]) == {"1799 questions of coqa, the paper has 2000"}


def test_an_undefined_value_is_not_comparable(tmp_path: Path) -> None:
    of = one_model("coqa")
    results(of, tmp_path)
    path = tmp_path / "evaluation/nli/gemma-3-4b-base/coqa/main.parquet"
    loaded = parquet_tables.read(path, "evaluation")
    nothing = {"value": None, "low": None, "high": None, "std": None, "note": "undefined: every answer is correct"}
    rows = [row | (nothing if row["method"] == "Prob" else {}) for row in loaded.table.to_pylist()]
    parquet_tables.write(path, "evaluation", rows, cell=loaded.cell)
    found = compared(read(of, tmp_path), PROVENANCE).cells
    prob = found[(found["table"] == "tab:qa_gemma4b") & (found["dataset"] == "coqa") & (found["method"] == "Prob")]
    assert list(prob["reason"]) == ["undefined: every answer is correct"]


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_answers_that_are_all_wrong_or_all_right_differ_from_print(tmp_path: Path, right: float) -> None:
    """Their own spread is 0: a broken cell must not hide behind a z that does not exist."""
    of = one_model("arc-challenge")
    results(of, tmp_path)
    path = tmp_path / "quality/alignscore/gemma-3-4b-base/arc-challenge/main.parquet"
    loaded = parquet_tables.read(path, "quality")
    parquet_tables.write(
        path, "quality", [row | {"value": right} for row in loaded.table.to_pylist()], cell=loaded.cell
    )
    found = compared(read(of, tmp_path), PROVENANCE).cells
    row = found[(found["table"] == "tab:base_accs") & found["value"].notna()]
    assert list(row["value"]) == [right]
    assert list(row["status"]) == ["differs"]
    wilson = 1.96**2 / (447 + 1.96**2)  # its width at 0 and at 1
    assert float(row["std"].iloc[0]) == pytest.approx(wilson / (2 * 1.96), rel=1e-3)


def test_semantic_entropy_is_compared_in_all_three_forms(replication: Comparison) -> None:
    read = replication.formulations
    assert {str(k): int(v) for k, v in read["formulation"].value_counts().items()} == dict.fromkeys(
        number_statuses.FORMULATIONS.values(), 69
    )
    agree = read[read["status"] == "agrees"]["formulation"].value_counts()
    assert agree["entropy of counts"] > 60
    assert agree.get("as printed", 0) < 5  # simulated .3 below


@pytest.mark.parametrize(("model", "table"), [("llama-3.1-8b-base", "qa_llama8b"), ("qwen-3-8b-base", "qa_qwen8b")])
def test_differences_are_paired(replication: Comparison, model: str, table: str) -> None:
    found = replication.differences
    row = found[(found["model"] == model) & (found["dataset"] == "coqa") & (found["method"] == "CocoaMSP")]
    pair = [cell(replication.cells, table, "coqa", "CocoaMSP", v)["std"] for v in ("multinomial", "beamsearch")]
    # the simulation shares half of each variance: √((a² + b²)/2 + (a − b)²/2) and not √(a² + b²)
    expected = np.sqrt((np.sum(np.square(pair)) + (pair[0] - pair[1]) ** 2) / 2)
    assert row["std"].iloc[0] == pytest.approx(expected, rel=0.2)
    assert row["std"].iloc[0] < 0.85 * np.hypot(*pair)


def test_families_are_those_declared(replication: Comparison) -> None:
    assert replication.differences.groupby("family").size().to_dict() == {"cells": 180, "headline": 30}
    found = tally(replication.differences, CELLS)
    assert (found["wins"], found["ties"], found["losses"]) == (120, 0, 60)
    worst = replication.differences.loc[replication.differences["difference"].idxmin()]
    assert found["worst"] == f"{worst['method']} {worst['model']} {worst['dataset']}"


def test_a_tie_is_no_win_and_no_significant_one(replication: Comparison) -> None:
    found = tally(replication.differences.assign(difference=1e-17, significant=True), HEADLINE)
    assert [found[name] for name in ("wins", "ties", "losses", "significant_wins")] == [0, 30, 0, 0]


def test_an_unrun_member_of_a_family_still_counts(printed_again: Path) -> None:
    found = beam_minus_multinomial.differences(read(one_model(), printed_again), RULES)
    headline = found[found["family"] == HEADLINE]
    assert len(headline) == 5
    assert headline["adjusted"].min() == pytest.approx(min(1.0, 30 * headline["p"].min()))


def test_families_do_not_shrink_with_the_study(printed_again: Path) -> None:
    content = study().model_dump(mode="json")
    few = {name: content["datasets"][name] for name in ("triviaqa", "coqa")}
    entry = {"recipe": "main", "models": list(content["models"]), "datasets": list(few), "scorers": ["nli"]}
    of = study(datasets=few, grid=[entry])
    found = beam_minus_multinomial.differences(read(of, printed_again), RULES)
    assert found.groupby("family").size().to_dict() == {"cells": 180, "headline": 30}
    headline, cells = (found[found["family"] == family] for family in (HEADLINE, CELLS))
    assert headline["p"].isna().all()
    assert set(headline["note"]) == {"not run: webquestions, hotpotqa, commonsenseqa, arc-challenge"}
    assert cells["p"].notna().sum() == 60
    filled = false_discovery_control(cells["p"].fillna(1.0), method="bh")
    run = cells["p"].notna().to_numpy()
    assert cells["adjusted"].to_numpy()[run] == pytest.approx(filled[run])
    drawn = paired_forest_plot.figure(of, found, RULES).draw()
    assert "n/a" in [text.get_text() for axes in drawn.axes for text in axes.texts]


def test_twenty_questions_decide_nothing(tmp_path: Path) -> None:
    found = compared(results(one_model(questions=20), tmp_path), PROVENANCE)
    assert set(found.cells["status"]) <= {"not run", "not comparable", "errata"}
    judged = found.claims[found.claims["status"] != "not run"]
    assert list(judged["id"]) == ["theorem"]
    reason = found.claims.set_index("id")["found"]["mass-condition"]
    assert reason == "not comparable: 20 questions of triviaqa, the paper has 2000"


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("theorem", "not supported"),
        ("redundancy-falls", "supported"),
        ("covered-mass", "supported"),
        ("mass-condition", "not supported"),
        ("best-or-second", "partly"),
        ("saturation", "supported"),
        ("plateau-open", "supported"),
        ("plateau-choice", "partly"),
        ("short-answers", "partly"),
        ("no-strategy-dominates", "undecided"),
        ("reduced-variance", "not supported"),
        ("small-gap", "not supported"),
        ("gpu-days", "not run"),
    ],
)
def test_a_claim_is_judged_by_its_measurement(replication: Comparison, name: str, status: str) -> None:
    assert replication.claims.set_index("id")["status"].to_dict()[name] == status


def test_every_claim_is_decided_or_says_what_is_missing(replication: Comparison) -> None:
    assert set(replication.claims["status"]) <= {"supported", "partly", "undecided", "not supported", "not run"}
    ours = replication.claims["where"].str.startswith("ours")
    open_ones = replication.claims[~ours & (replication.claims["status"] == "not run")]
    assert all(found.startswith("missing: ") for found in open_ones["found"])
    assert set(replication.claims[ours]["status"]) == {"not run"}  # of cells that print does not have, nor this run


@pytest.mark.parametrize(
    ("parts", "status"),
    [
        (("yes", "yes", "yes"), "supported"),
        (("yes", "-", "-"), "supported"),
        (("yes", "no", "yes"), "partly"),
        (("partly", "-", "no"), "partly"),
        (("no", "yes", "yes"), "not supported"),
        (("-", "no", "-"), "not supported"),
        (("yes", "yes", "undecided"), "undecided"),
        (("-", "undecided", "-"), "undecided"),
        (("undecided", "-", "no"), "undecided"),
        (("yes", "no", "undecided"), "partly"),
        (("no", "undecided", "undecided"), "not supported"),
    ],
)
def test_a_verdict_needs_all_that_is_claimed(parts: tuple[str, str, str], status: str) -> None:
    assert ClaimVerdict(*parts, "", significance_claimed=True).status == status  # type: ignore[arg-type]
    assert ClaimVerdict("yes", "-", parts[2], "").status == "supported"  # type: ignore[arg-type]


def test_a_printed_range_is_met_within_the_spread_of_both() -> None:
    assert within(0.25, 0.01, [0.227, 0.227], 2.0) == "yes"  # .023 < 2 · √2 · .01
    assert within(0.26, 0.01, [0.227, 0.227], 2.0) == "no"
    assert within(0.4, 0.0, [0.3, 0.5], 2.0) == "yes"


def test_a_spread_knows_groups() -> None:
    values, alone = np.repeat([0.0, 1.0, 0.0, 1.0], 5), [str(i) for i in range(20)]
    stories = [str(i // 5) for i in range(20)]
    assert mean_and_std(values, alone) == (0.5, pytest.approx(0.5 / np.sqrt(19)))
    assert mean_and_std(values, stories) == (0.5, pytest.approx(0.5 / np.sqrt(3)))


def test_a_demo_is_not_comparable_on_every_line(printed_again: Path) -> None:
    found = compared(read(one_model(demo=True), printed_again), PROVENANCE)
    for frame in (found.cells, found.formulations):
        assert set(zip(frame["status"], frame["reason"], strict=True)) == {("not comparable", "demo study")}
    assert set(zip(found.claims["status"], found.claims["found"], strict=True)) == {("not comparable", "demo study")}
    assert tally(found.differences, HEADLINE)["run"] == 5
    assert "[demo]" in comparison_page.html(found, "<svg></svg>")


def test_files_that_are_not_there_are_an_error_unless_the_run_is_partial(tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BeamUQError, match="no such file"):
        compare_with_print(one_model(), tmp_path / "study.json", tmp_path)
    found = compare_with_print(one_model(), tmp_path / "study.json", tmp_path, partial=True)
    assert set(found.cells["status"]) == {"not run"}


def test_the_step_writes_every_file_and_the_same_results_give_the_same_bytes(
    tmp_path: Path, printed_again: Path
) -> None:
    of, out = printed_again / "study.json", tmp_path / "out"
    of.write_text(one_model().model_dump_json(), encoding="utf-8")
    figure = {f"forest_{kind}": out / f"paired.{kind}" for kind in ("pdf", "svg", "png", "csv", "caption")}
    run_job("comparison", {"study": of} | {name: out / name for name in comparison_page.OUTPUTS} | figure)
    assert all(path.is_file() for path in figure.values())
    drawing = (out / "paired.svg").read_text(encoding="utf-8")
    again = comparison_page.contents(compare_with_print(one_model(), of, printed_again), drawing)
    assert again == {name: (out / name).read_text(encoding="utf-8") for name in comparison_page.OUTPUTS}
    assert again["html"].count("<svg") == 1
    assert not re.search(r"<(?:script|link|img|iframe)\b", again["html"])
    assert len(pd.read_csv(out / "csv")) == 1958
