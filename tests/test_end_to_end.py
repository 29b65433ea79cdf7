"""A study of a tiny random Qwen 3 that is asked as a chat, from questions to tables, figures and
the report.
"""

from __future__ import annotations

import math
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from beamuq_study.study_config import STUDIES
from conftest import Once
from headless_chromium import Page, chromium
from micro import Workplace, wait_for
from tiny import build_tiny_model
from tiny_scorers import build_nli

pytestmark = pytest.mark.slow

CANDIDATES = "results/micro/candidates/tiny-qwen3/triviaqa/main.parquet"


def end_to_end_study(folder: Path) -> dict[str, Any]:
    """The demo study cut to a tiny model, which is built, one dataset, six questions and an NLI
    classifier.
    """
    build_tiny_model("qwen3", folder / "qwen3", context=8192)
    study: dict[str, Any] = yaml.safe_load((STUDIES / "demo.yaml").read_text())
    model = {
        "label": "qwen3",
        "title": "Tiny Qwen 3",
        "source": f"folder:{folder / 'qwen3'}",
        "style": "instruct",
    }
    study["models"] = {"tiny-qwen3": model}
    study["datasets"] = {"triviaqa": study["datasets"]["triviaqa"] | {"questions": 6}}
    nli = {"kind": "nli", "title": "tiny NLI", "source": f"folder:{build_nli(folder / 'nli')}"}
    study["scorers"] = {"nli": nli, "lexical": study["scorers"]["lexical"]}
    study["main"] = {"recipe": "main", "scorer": "nli", "relevance": "lexical"}
    del study["recipes"]["beam_widths"], study["scoring"]["beam_widths"]
    study["quality"] = study["quality"][:2]
    study["batch_questions"] = 4
    study["evaluation"]["resamples"] = 100
    cell = {"models": ["tiny-qwen3"], "datasets": ["triviaqa"], "scorers": ["nli"]}
    study["recipes"]["map"] = {
        "exact": {"sizes": [20]},
        "all_above": {"p": 0.002, "draws": 20},
    }
    study["scoring"]["map"] = {
        "methods": ["Prob", "Dissimilarity"],
        "estimators": ["normalised exact", "stratified all_above"],
        "beams_map": {},
    }
    study["grid"] = [
        {"recipe": "main"} | cell,
        {"recipe": "strategies", "questions": 2} | cell,
        {"recipe": "map", "questions": 2} | cell,
    ]
    study["exhibits"] = ["qa_mean_prr", "qa_qwen3", "base_accs", "redundancy", "beams_map"]
    return study


@pytest.fixture(scope="session")
def workplace(once: Once) -> Workplace:
    """The study, run once; not to be changed."""
    models = once("end_to_end_models", lambda _: None)
    return Workplace(
        once("end_to_end", lambda folder: Workplace(folder, end_to_end_study(models)).run())
    )


@pytest.fixture
def place(workplace: Workplace, tmp_path: Path) -> Workplace:
    """A copy, to change."""
    return workplace.copy(tmp_path / "place")


def test_every_exhibit_of_the_study_is_made(workplace: Workplace) -> None:
    for name in ("qa_mean_prr", "qa_qwen3", "base_accs", "beams_map"):
        for suffix in ("csv", "tex", "md", "html"):
            assert (workplace.folder / f"results/micro/tables/{name}.{suffix}").stat().st_size > 0
    for suffix in ("pdf", "svg", "png", "csv", "txt"):
        assert (workplace.folder / f"figures/micro/redundancy.{suffix}").stat().st_size > 0


def test_every_strategy_of_a_recipe_is_decoded_and_scored(workplace: Workplace) -> None:
    strategies = workplace.frame("results/micro/candidates/tiny-qwen3/triviaqa/strategies.parquet")[
        "strategy"
    ]
    settings = workplace.frame("results/micro/scores/nli/tiny-qwen3/triviaqa/strategies.parquet")[
        "setting"
    ]
    assert strategies.nunique() == 1 + 6 + 1 + 8 + 9
    assert set(strategies) - {"greedy"} <= set(settings)
    assert {"epsilon=0.00001", "alpha=0.3", "K=10"} <= set(settings)


def test_methods_that_ask_further_models_have_their_scores(workplace: Workplace) -> None:
    scores = workplace.frame("results/micro/scores/nli/tiny-qwen3/triviaqa/main.parquet")
    assert {"PTrue", "CCP", "SAR"} <= set(scores["method"])
    assert scores["value"].map(math.isfinite).all()


def test_what_is_lost_comes_back_with_the_same_bytes_and_nothing_else_runs(
    place: Workplace,
) -> None:
    lost = [CANDIDATES, "figures/micro/redundancy.csv"]
    first = [(place.folder / path).read_bytes() for path in lost]
    for path in lost:
        (place.folder / path).unlink()
    output = place.run(*lost)
    assert sorted(re.findall(r"\(Rule: (\w+)\)", output)) == ["candidates", "figure"]
    assert [(place.folder / path).read_bytes() for path in lost] == first


def check_shown(browser: Page, page: Path, *words: str) -> None:
    """A page shows these words in the browser, and asks for nothing but files beside it."""
    browser.events.clear()
    browser.call("Page.navigate", url=page.as_uri())
    wait_for(
        lambda: all(
            word in browser.evaluate("document.documentElement?.outerHTML ?? ''") for word in words
        ),
        30,
    )
    assert [
        address
        for address in browser.requests()
        if not address.startswith(("file:", "data:", "blob:"))
    ] == []


@pytest.mark.browser
def test_the_report_opens_offline_and_lists_every_exhibit(place: Workplace, tmp_path: Path) -> None:
    place.run("--report", "report.zip")
    shutil.unpack_archive(place.folder / "report.zip", tmp_path / "unpacked")
    page = next((tmp_path / "unpacked").rglob("report.html"))
    (overview,) = (tmp_path / "unpacked").rglob("overview.html")
    assert (
        str(overview.relative_to(page.parent)) in page.read_text()
    )  # what the report's link leads to
    with chromium(tmp_path / "profile") as browser:
        check_shown(browser, page, "0 Study", "1 Tables", "2 Figures")
        headings = ("Models", "Datasets", "Versions", "Dropped, empty and cut answers")
        check_shown(browser, overview, *(f"<summary>{heading}</summary>" for heading in headings))
    kept = [path.name for path in (tmp_path / "unpacked").rglob("*") if path.is_file()]
    assert {
        "overview.html",
        "explorer.html",
        "ledger.html",
        "answers_listed.csv",
        "redundancy.png",
    } <= set(kept)
    assert [kept.count(name) for name in ("qa_mean_prr.html", "base_accs.html")] == [1, 1]


def test_the_overview_counts_what_the_tables_hold(workplace: Workplace) -> None:
    found = pd.read_csv(workplace.folder / "results/micro/answers.csv", keep_default_na=False)
    listed = pd.read_csv(workplace.folder / "results/micro/answers_listed.csv")
    answer_source = found[found["answer_source"] != ""]
    assert (answer_source["dropped"] == 0).all()
    for what in ("empty", "cut"):
        assert answer_source[what].sum() == (listed["what"] == what).sum()
    assert answer_source["cut"].sum() > 0  # a random model seldom stops
    page = (workplace.folder / "results/micro/overview.html").read_text()
    assert "not recorded" not in page
    assert str(workplace.folder) not in page
